"""The state of an Aggregate whose windows take the rows of a group one by one, in stream order: SIZE, SESSION and TRANSACTION. (UNBOUNDED
with an answer per row: `cep.compile.windows.per_row`.) Rules:

1. Rows come in stream order (`cep.dataflow.state.hold` sees to that). So FIRST and LAST go by the number of a row in that order.
2. Three things, each knowing nothing of the next: the table of groups numbers the keys; the assigner (`assigner`) says what happens
   to which window; the accumulator does it.
3. An answer comes out once: what has been answered is no longer there, so nothing else needs to be said in a snapshot.
4. Groups that begin anew with whatever comes are forgotten, once as many rows and watermarks have come as there are groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cep.compile.aggregate import results
from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.results import GroupFailure
from cep.compile.aggregate.rows import TupleRows, tuple_rows
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows.accumulator import Accumulator
from cep.compile.windows.assigner import assigner_of
from cep.elements import EVENT_TIME_MAX, PAUSE, Batch
from cep.kernels.columns import Column
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.keys import Keys, decode_keys
from cep.kernels.windows.assigners import close_sessions, open_sessions
from cep.kernels.windows.programs import (
    ADD,
    ANSWERS,
    AT_WINDOW,
    BACK,
    COUNT,
    DESK_WORDS,
    END,
    FREE_SLOT,
    FRONT,
    GROUP,
    NONE,
    OPEN,
    OPERATIONS,
    OUTSIDE,
    ROW,
    SLOT,
    SLOTS,
    SLOTS_A_ROW,
    SLOTS_FREE,
    START,
    TIME,
    WANTED,
    free_slots,
)
from cep.model.windows import SessionWindow

ROWS_MAX = 65_536
OPERATIONS_MAX = 8_192
#: Operations of one piece, and the bytes that one may write: where states have no bound, one row may mean megabytes.
PIECE_OPERATIONS, PIECE_BYTES = 65_536, 1 << 22
#: Answers of so many bytes are a batch.
BATCH_BYTES = 1 << 24
#: Groups to forget are looked for after so many rows at least, and what a watermark counts among them.
WORK_MIN, WATERMARK_ROWS = 4_096, 64
FAILURES_MAX = 10_000
_NO_FLAGS = np.zeros(0, np.uint8)
_ORIGIN_WORDS = 2


class SequentialState:
    """What one instance has seen and not yet answered. Rows have origins of `origin_words` words; batches at most `rows_max` rows.

    Taking, answering and forgetting are in one class, since all of them work on the same slots and renumber them.
    """

    def __init__(self, spec: AggregateSpec, operator_name: str, origin_words: int, rows_max: int = ROWS_MAX) -> None:
        self.spec = replace(spec, ties=False, origin_words=_ORIGIN_WORDS)
        self.name, self.rows_max = operator_name, rows_max
        self.window = spec.operator.window
        self.assigner = assigner_of(self.window)
        self.keeps_origin = spec.origin and not isinstance(self.window, SessionWindow)
        #: Words behind those of the assigner: the origin of the last row, where an answer may need it later.
        self.origin_words = origin_words if self.keeps_origin and spec.operator.emit_partial else 0
        self.accumulator = Accumulator(self.spec)
        self.sequence = 0
        self.failures: list[GroupFailure] = []
        self.failed = 0
        self.program = np.empty((0, 3), np.int64)
        self.desk = np.zeros(DESK_WORDS, np.int64)
        self.clear()
        self._given = 0  # of the answers that the assigner has told: so many have come out
        #: Operations at a time; where states have no bound that follows from what they write.
        self._bounded = not any(part.kind == "block" for _, part in self.spec.parts)
        self._piece = PIECE_OPERATIONS if self._bounded else 1
        self.assigner.warm()
        self.accumulator.warm()

    def clear(self) -> None:
        """Forgets all groups, whose numbers begin anew; the numbers of rows go on."""
        self.groups = GroupTable((*self.assigner.fresh, *[0] * self.origin_words))
        self.accumulator.empty()
        self.emitted = np.empty((0, 5), np.int64)
        self.links, self.begun = np.empty((2, 0), np.int64)
        self.heap = np.empty((0, 2), np.int64)
        outside, self.desk[:] = self.outside, 0
        self.desk[OUTSIDE], self.desk[FREE_SLOT], self.desk[AT_WINDOW] = outside, NONE, NONE
        self._work, self._due = 0, WORK_MIN  # rows and watermarks since groups were looked through, and after how many that is due

    # Rows in, answers out

    def take(self, batch: Batch, opens: np.ndarray = _NO_FLAGS, closes: np.ndarray = _NO_FLAGS) -> Iterator[Batch]:
        """Rows in stream order, none before any that were taken; of transactions uint8[n]: does the row open, or close, one?

        To be pulled to its end before anything else is called.
        """
        rows = self._numbered(batch)
        n = len(batch.time)
        numbers = self.groups.numbers(Keys(*rows.arrays[:3]))
        if self.origin_words:
            assert batch.origin is not None
            self.groups.matrix[numbers, -self.origin_words :] = batch.origin  # of rows of one group the last stays
        self._expect(n)
        heap, start = self._heap(), 0
        while start < n:
            start = self.assigner.assign(
                *self.groups.words,
                numbers,
                rows.time,
                opens,
                closes,
                self.assigner.parameters,
                *(self.program, self.emitted, self.links, self.begun, self.desk, heap),
                start,
                n,
            )
            yield from self._execute(rows.arrays[3:], batch)
            if start < n:
                yield PAUSE
                self._make_room(int(self.desk[WANTED]))
        self._work += n
        yield from self._answers(batch)

    def _learn(self, done: int, written: int) -> None:
        """So much was written by a piece of `done` operations: how large may the next one be?"""
        if not self._bounded:
            fitting = done * PIECE_BYTES // max(written, 1)
            self._piece = max(1, min(2 * self._piece, fitting, PIECE_OPERATIONS))

    def _numbered(self, batch: Batch) -> TupleRows:
        """The rows as arguments of the loops; their origins are their numbers in stream order."""
        if self.spec.needs_origin:
            origin = np.zeros((len(batch), _ORIGIN_WORDS), np.int64)
            origin[:, 1] = np.arange(self.sequence, self.sequence + len(batch))
            self.sequence += len(batch)
            batch = replace(batch, origin=origin)
        return tuple_rows(self.spec, batch)

    def close(self, watermark: int) -> Iterator[Batch]:
        """What `watermark` lets out though no row comes: sessions. To be pulled to its end, as `take`."""
        done = self.assigner.gap is None
        while not done:
            self._expect(min(int(self.desk[OPEN]), self.rows_max))
            heap = self._heap()
            where = self.program, self.emitted, self.links, self.desk, heap
            done = bool(close_sessions(*self.groups.words, self.assigner.gap, watermark, *where))
            yield from self._execute(self.accumulator.loops.nothing, None)
            self._make_room(int(self.desk[WANTED]))
            yield from self._answers(None)
        self._work += WATERMARK_ROWS
        if self._work >= self._due:
            self._forget()

    def finish(self) -> Iterator[Batch]:
        """The end: windows that wait for more rows come out all the same. To be pulled to its end, as `take`."""
        done = self.assigner.end is None
        while not done:
            assert self.assigner.end is not None
            self._expect(self.rows_max)
            where = self.program, self.emitted, self.links, self.begun, self.desk
            parameters = self.assigner.parameters
            done = bool(self.assigner.end(*self.groups.words, self.groups.rows, parameters, EVENT_TIME_MAX, *where))
            yield from self._execute(self.accumulator.loops.nothing, None)
            self._make_room(int(self.desk[WANTED]))
            yield from self._answers(None)

    @property
    def incomplete(self) -> int:
        """Windows that have a row and wait for more."""
        return self.assigner.incomplete(self.groups.matrix)

    @property
    def outside(self) -> int:
        """Rows that belong to no window."""
        return int(self.desk[OUTSIDE])

    @property
    def first_deadline(self) -> int | None:
        """The first event time at which a session may end; a watermark beyond it lets it out."""
        return int(self.heap[0, 0]) if self.desk[OPEN] else None

    # Programs

    def _expect(self, answers: int) -> None:
        """Room for so many answers, and for a program that makes them."""
        if len(self.emitted) < answers:
            self.emitted = np.empty((answers, 5), np.int64)
        self.accumulator.clear(len(self.emitted))
        self.desk[ANSWERS] = self._given = 0
        self._make_room(min(4 * answers, OPERATIONS_MAX))

    def add_slots(self, n: int) -> np.ndarray:
        """The numbers of `n` slots that were never used."""
        first = int(self.desk[SLOTS])
        if first + n + SLOTS_A_ROW > self.accumulator.capacity:
            self._resize(2 * (first + n + SLOTS_A_ROW))
            self.accumulator.extend(len(self.links))
        self.desk[SLOTS] += n
        return np.arange(first, first + n)

    def open_sessions(self, numbers: np.ndarray) -> None:
        """Groups `numbers`, int64[n], have an open session, of which the heap does not know."""
        if self.assigner.gap is not None:
            open_sessions(*self.groups.words, self.assigner.gap, numbers, self.desk, self._heap())

    def _execute(self, arguments: tuple[np.ndarray, ...], batch: Batch | None) -> Iterator[Batch]:
        """What the assigner has told, of rows of `batch`; of the answers those come out that are a batch already."""
        start, operations = 0, int(self.desk[OPERATIONS])
        while start < operations:
            stop, written = min(start + self._piece, operations), self.accumulator.written
            for _ in self.accumulator.execute(self.program, start, stop, self.groups.table, self.emitted[self._given :], arguments):
                yield PAUSE
            self._learn(stop - start, self.accumulator.written - written)
            start = stop
            if start < operations:
                full = self.accumulator.output.bytes_used > BATCH_BYTES and self.program[start, 0] != ADD
                yield from self._answers(batch) if full else (PAUSE,)
        self.desk[OPERATIONS] = 0

    def _make_room(self, operations: int) -> None:
        if len(self.program) < operations:
            self.program = np.empty((max(operations + operations // 2, min(2 * len(self.program), OPERATIONS_MAX)), 3), np.int64)
        capacity = self.accumulator.capacity
        if self.desk[SLOTS_FREE] + capacity - self.desk[SLOTS] < SLOTS_A_ROW:
            self._resize(max(2 * capacity, 64))
            self.accumulator.extend(max(2 * capacity, 64))

    def _resize(self, capacity: int) -> None:
        links, begun = np.empty((2, capacity), np.int64)
        held = min(len(self.links), capacity)
        links[:held], begun[:held] = self.links[:held], self.begun[:held]
        self.links, self.begun = links, begun

    def _heap(self) -> np.ndarray:
        """A heap of sessions, with room for every group."""
        if self.assigner.gap is not None and len(self.heap) < self.groups.rows:
            heap = np.empty((2 * self.groups.rows, 2), np.int64)
            heap[: self.desk[OPEN]] = self.heap[: self.desk[OPEN]]
            self.heap = heap
        return self.heap

    # Answers

    def _answers(self, batch: Batch | None) -> Iterator[Batch]:
        """What was emitted and has not come out; `batch`: of rows of it."""
        n = self.accumulator.output.rows
        if not n:
            return
        emitted, groups = self.emitted[self._given : self._given + n], Groups(self.accumulator.output, 0, n)
        time = emitted[:, TIME].copy()
        columns = self._columns(groups, (time, emitted[:, START].copy(), emitted[:, END].copy()))
        origin = self._origins(emitted, groups, batch) if self.spec.origin else None
        yield Batch(columns, time, origin, 0 if batch is None else batch.created)
        self._given += n
        self.accumulator.output.control[:] = 0

    def _columns(self, groups: Groups, times: tuple[results.Instant, ...]) -> dict[str, Column]:
        """The columns of answers, as `results.answer_columns` makes them."""
        failures: list[GroupFailure] = []
        columns = results.answer_columns(self.spec, self.name, groups, times, failures)
        self.failed += len(failures)
        self.failures += failures[: FAILURES_MAX - len(self.failures)]
        return columns

    def _origins(self, emitted: np.ndarray, groups: Groups, batch: Batch | None) -> np.ndarray:
        if not self.keeps_origin:
            return results.origins(self.name, groups.keys(0), emitted[:, START])
        if batch is None:
            return self.groups.matrix[emitted[:, GROUP], self.groups.width - self.origin_words :]
        assert batch.origin is not None
        origin: np.ndarray = batch.origin[emitted[:, ROW]]
        return origin

    def take_failures(self) -> tuple[list[GroupFailure], int]:
        """Results that could not be given since the last call: the first of them, and how many more there were."""
        taken, more = self.failures, self.failed - len(self.failures)
        self.failures, self.failed = [], 0
        return taken, more

    # What is there

    @property
    def bytes(self) -> int:
        arrays = self.program, self.emitted, self.links, self.begun, self.heap
        return self.groups.table.bytes + self.accumulator.bytes + sum([array.nbytes for array in arrays])

    def largest_keys(self, most: int) -> list[str]:
        """The groups of which most rows were taken, for a person to read."""
        counts = self.groups.matrix[:, COUNT]
        order = np.argsort(-counts, kind="stable")[:most].tolist()
        keys = decode_keys(Groups(self.groups.table, 0, self.groups.rows).keys(0).take(order), self.spec.by)
        return [f"{results.describe_group(keys, self.spec.by, i)} ({counts[row]} rows)" for i, row in enumerate(order)]

    # Forgetting

    def _forget(self) -> None:
        """Groups that begin anew with whatever comes, if they are most; and what slots left behind."""
        over = self.assigner.over(self.groups.matrix)
        if 2 * int(over.sum()) > len(over):
            slots = self.groups.matrix[over, SLOT]
            self._free(slots[slots >= 0])
            self._renumber_heap(self.groups.keep(~over))
        if 4 * self.accumulator.count() < self.accumulator.capacity:
            self._renumber_slots()
        self._work, self._due = 0, max(self.groups.rows, self.accumulator.capacity, WORK_MIN)

    def _free(self, slots: np.ndarray) -> None:
        self.accumulator.slots.entries[slots * self.spec.width] = 0
        free_slots(slots, self.links, self.desk)

    def _renumber_heap(self, numbers: np.ndarray) -> None:
        """`numbers`: of each group, its new number."""
        of_sessions = self.heap[: self.desk[OPEN]]
        of_sessions[:, 1] = numbers[of_sessions[:, 1]]

    def _renumber_slots(self) -> None:
        """Into as few as there are."""
        held = self.accumulator.held()
        numbers = np.full(self.accumulator.capacity + 1, NONE)  # the last one stands for none
        numbers[held] = np.arange(len(held))
        capacity = max(2 * len(held), 64)
        self.accumulator.rewrite(capacity, held, np.arange(len(held)))
        links = np.where(np.isin(self.links[held], held), self.links[held], NONE)
        self.links[: len(held)], self.begun[: len(held)] = numbers[links], self.begun[held]
        self._resize(capacity)
        for word in (SLOT, FRONT, BACK) if self.assigner.stacks else (SLOT,):
            self.groups.matrix[:, word] = numbers[self.groups.matrix[:, word]]
        self.desk[FREE_SLOT], self.desk[SLOTS_FREE], self.desk[SLOTS] = NONE, 0, len(held)
        self.accumulator.forget()
        self.emitted = np.empty((0, 5), np.int64)
