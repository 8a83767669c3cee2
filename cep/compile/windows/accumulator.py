"""The states of many windows, one of each in a slot, and answers made of them: what runs the programs of assigners.

States live long here, and what they leave behind in arena and pool (`cep.kernels.tables.table`) would pile up. So where these are full,
what slots hold is first written anew; then they are twice as large as what is in use, and that work is shared by as many changes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import numpy as np

from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.ties import ROW
from cep.compile.windows.accumulator_source import SlotLoops, compile_slot_loops
from cep.compile.windows.trailing_source import LACKED, USED
from cep.kernels.jit import warm
from cep.kernels.states.exact_sum import POOL_WORDS, round_exact
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.growing import grow
from cep.kernels.tables.table import ARENA_USED, ARENA_WANTED, CONTROL_WORDS, POOL_USED, Table
from cep.kernels.windows.programs import EMIT, GROUP

_NO_SLOTS = np.zeros(0, np.int32)
#: The arena is at least this part of the entries, so that writing all of them anew pays.
_SHARE = 4
#: Of slots that are written anew at a time.
PIECE_BYTES = 1 << 23


def plain_table(width: int, sums: int, entries: int) -> Table:
    """Room for `entries` entries that are not found by key; all zeros."""
    control = np.zeros(CONTROL_WORDS, np.int64)
    pool = np.empty((sums, POOL_WORDS), np.int64)
    return Table(width, sums, _NO_SLOTS, np.zeros(entries * width, np.int64), np.empty(0, np.uint8), pool, control)


class Accumulator:
    """`slots` has the states, `output` the answers made by the programs run since `clear`."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.width, self.sums = spec.width, spec.sums
        self.loops: SlotLoops = compile_slot_loops(spec.states, {f.name: f.type for f in (*spec.schema.fields, ROW)})
        self.slots = plain_table(self.width, self.sums, 0)
        self.output = plain_table(self.width, self.sums, 0)

    def warm(self, trails: bool = False) -> None:
        """Makes its machine code now; that of `trail` only where it is asked for."""
        more = [self.loops.trail] * trails
        warm(self.loops.execute, self.loops.absorb, *more, *([round_exact] if self.sums else []))

    @property
    def bytes(self) -> int:
        return self.slots.bytes + self.output.bytes

    @property
    def capacity(self) -> int:
        """Slots."""
        return len(self.slots.entries) // self.width

    def held(self) -> np.ndarray:
        """The numbers of the slots that hold something, int64[n]."""
        return np.flatnonzero(self.slots.entries[:: self.width])

    def count(self) -> int:
        """How many those are."""
        return int(np.count_nonzero(self.slots.entries[:: self.width]))

    def extend(self, capacity: int) -> None:
        """Makes it room for `capacity` slots."""
        _exhaust(self._extending(capacity))

    def _extending(self, capacity: int) -> Iterator[None]:
        """It yields between pieces of some megabytes."""
        entries, step = self.slots.entries, PIECE_BYTES // 8
        longer = np.zeros(capacity * self.width, np.int64)
        for start in range(0, len(entries), step):
            longer[start : min(start + step, len(entries))] = entries[start : start + step]
            yield
        self.slots.entries = longer

    def clear(self, answers: int) -> None:
        """Forgets the answers, and makes room for so many."""
        if len(self.output.entries) < answers * self.width:
            self.output = plain_table(self.width, self.sums, answers)
        self.output.control[:] = 0

    def empty(self) -> None:
        """No slot holds anything, and no memory is held for any."""
        self.slots = plain_table(self.width, self.sums, 0)
        self.forget()

    def forget(self) -> None:
        """Gives back the memory of answers."""
        self.output = plain_table(self.width, self.sums, 0)

    def execute(
        self, program: np.ndarray, start: int, stop: int, groups: Table, emitted: np.ndarray, arguments: tuple[np.ndarray, ...]
    ) -> Iterator[None]:
        """Runs the operations from `start` to before `stop`. `emitted` is of the answers since `clear`. `arguments`: the rows, as
        `Loops.update` takes them behind the key. It yields while it makes room for much."""
        while start < stop:
            keys = (groups.entries, groups.width, groups.arena, emitted)
            start = self.loops.execute(program, start, stop, *_arrays(self.slots), *_arrays(self.output), *keys, *arguments)
            if start == stop:
                return
            if is_full(self.slots):
                yield from self.rewriting(self.capacity, self.held(), self.held())
            self.output.grow_bytes()

    @property
    def written(self) -> int:
        """Bytes that lie in arenas: what grows with the work of functions whose states have no bound."""
        return int(self.slots.control[ARENA_USED]) + int(self.output.control[ARENA_USED])

    def trail(
        self,
        groups: GroupTable,
        numbers: np.ndarray,
        window: tuple[int, int, int],
        left: np.ndarray,
        desk: np.ndarray,
        arguments: tuple[np.ndarray, ...],
    ) -> Iterator[None]:
        """Goes on with rows whose groups are `numbers` (`trailing_source`), and makes the room that was lacking. `window`: how many rows,
        µs and ttl in µs, -1 each where there is no such bound. It yields while it makes room for much."""
        where = *groups.words, numbers, *window, left, desk, len(numbers)
        self.loops.trail(*where, *_arrays(self.slots), *_arrays(self.output), *arguments)
        if desk[LACKED]:
            yield from self._extending(max(2 * self.capacity, int(desk[USED] + desk[LACKED])))
        if is_full(self.slots):
            yield from self._rewriting_in_place()
        self.output.grow_bytes()

    def _rewriting_in_place(self) -> Iterator[None]:
        """Leaves behind what is not held; second words, which no loop of slots uses, stay as they are."""
        held, words = self.held(), self.slots.entries[1 :: self.width].copy()
        yield from self.rewriting(self.capacity, held, held)
        self.slots.entries[1 :: self.width] = words

    def answers(self, program: np.ndarray, numbers: np.ndarray, groups: Table) -> Generator[None, None, Table]:
        """Runs a whole program that takes no row; what it emits, each for the group of its number, is valid until the next answers."""
        emitted = np.zeros((len(numbers), 5), np.int64)
        emitted[:, GROUP] = numbers
        self.clear(len(numbers))
        yield from self.execute(program, 0, len(program), groups, emitted, self.loops.nothing)
        return self.output

    def groups(self, groups: Table, slots: np.ndarray, numbers: np.ndarray) -> Groups:
        """What `slots` hold, each for the group of its number: valid until the next answers."""
        program = np.zeros((len(slots), 3), np.int64)
        program[:, 0], program[:, 1] = EMIT, slots
        _exhaust(self.answers(program, numbers, groups))
        return Groups(self.output, 0, len(slots))

    def absorb(
        self, targets: np.ndarray, sources: np.ndarray, fresh: np.ndarray, other: np.ndarray, arena: np.ndarray, pool: np.ndarray
    ) -> None:
        """Merges entries `sources` of `other` into slots `targets`; those that are `fresh`, uint8[n], hold nothing before."""
        _exhaust(_absorb(self.loops, self.slots, (targets, sources, fresh), (other, arena, pool)))

    def rewrite(self, capacity: int, sources: np.ndarray, targets: np.ndarray) -> None:
        """Moves what slots `sources` hold to `targets` in a new table of `capacity` slots, and leaves behind what is not held."""
        _exhaust(self.rewriting(capacity, sources, targets))

    def rewriting(self, capacity: int, sources: np.ndarray, targets: np.ndarray) -> Iterator[None]:
        """The same, yielding between pieces of some megabytes."""
        old = self.slots
        new = plain_table(self.width, self.sums, capacity)
        rows = targets, sources, np.ones(len(sources), np.uint8)
        yield from _absorb(self.loops, new, rows, (old.entries, old.arena, old.pool))
        new.control[ARENA_WANTED] = old.control[ARENA_WANTED]
        make_ample(new)
        self.slots = new


def _arrays(table: Table) -> tuple[np.ndarray, ...]:
    return table.entries, table.control, table.arena, table.pool


def is_full(table: Table) -> bool:
    """Did a loop stop since arena or pool lacked room?"""
    control = table.control
    lacks_bytes = control[ARENA_USED] + control[ARENA_WANTED] > len(table.arena)
    return bool(lacks_bytes or control[POOL_USED] + table.sums > len(table.pool))


def make_ample(table: Table) -> None:
    """Makes room in arena and pool, where they are used at all, for as much again."""
    control, least = table.control, table.entries.nbytes // _SHARE
    wanted = int(control[ARENA_USED] + control[ARENA_WANTED])
    if wanted > len(table.arena) // 2:
        grow(table, "arena", max(2 * wanted, least, 1024))
    pooled = int(control[POOL_USED]) + table.sums
    if pooled > len(table.pool) // 2:
        pool = np.empty((max(2 * pooled, least // (8 * POOL_WORDS)) if control[POOL_USED] else pooled, POOL_WORDS), np.int64)
        pool[: len(table.pool)] = table.pool
        table.pool = pool


def _absorb(loops: SlotLoops, table: Table, rows: tuple[np.ndarray, ...], other: tuple[Any, ...]) -> Iterator[None]:
    """It yields between pieces of some megabytes."""
    start, n = 0, len(rows[0])
    piece = max(1, n * PIECE_BYTES // max(8 * table.width * n + len(other[1]), 1))
    while start < n:
        stop = min(start + piece, n)
        start = loops.absorb(*rows, start, stop, *_arrays(table), *other)
        if start < stop:
            table.grow_bytes()
        elif start < n:
            yield


def _exhaust(work: Iterable[None]) -> None:
    """Does it in one go."""
    for _ in work:
        pass
