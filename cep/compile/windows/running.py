"""Periodic answers of UNBOUNDED: a pane after the other is merged into what every group was so far, and exactly the groups of the pane
come out.

A group whose last row is more than ttl before its first one in the pane begins anew; inside a pane it cannot, since a pane is no longer
than ttl. So the order of the rows of a pane does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.rows import PartialRows
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.states import Extreme
from cep.compile.windows.accumulator import Accumulator
from cep.compile.windows.firing import Fired
from cep.compile.windows.panes import Panes
from cep.compile.windows.thin_panes import ThinRows, gathered
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.keys import Keys
from cep.kernels.windows.programs import EMIT, FREE, MERGE, RESET
from cep.model.windows import UnboundedWindow

#: The word of a group, which is the event time of its last row; its number is that of its slot.
_LAST = 2
#: Groups to forget are looked for after so many changes at least.
_WORK_MIN = 4_096
#: Groups of a pane that are merged and come out at a time.
ROWS_MAX = 65_536


class RunningFiring:
    """`ttl` in µs, or None."""

    def __init__(self, spec: AggregateSpec, panes: Panes) -> None:
        assert isinstance(spec.operator.window, UnboundedWindow)
        self.spec, self.panes, self.ttl = spec, panes, spec.operator.window.ttl
        self.groups = GroupTable((0,))
        self.accumulator = Accumulator(spec)
        self.accumulator.warm()
        self._work, self._due = 0, _WORK_MIN  # changes since groups were looked through, and after how many that is due

    def clear(self, panes: Panes) -> None:
        """Forgets all groups; from now on it is about `panes`."""
        self.panes, self.groups = panes, GroupTable((0,))
        self.accumulator.empty()
        self._work, self._due = 0, _WORK_MIN

    @property
    def bytes(self) -> int:
        return self.groups.table.bytes + self.accumulator.bytes

    @property
    def next_end(self) -> int | None:
        first = self.panes.first
        return None if first is None else self.panes.start(first + 1)

    def fire(self, watermark: int) -> Iterator[Fired]:
        panes, over = self.panes, self.panes.over(watermark)
        while (first := panes.first) is not None and first < over:
            if (end := panes.together(first, over)) is None:
                yield from panes.settle_run(first, over)
                yield from self._pane(first)
            else:
                yield from self._thin(panes.thin.between(first, end))
                panes.thin.free_before(end)

    def _pane(self, number: int) -> Iterator[Fired]:
        table, end = self.panes.tables[number], self.panes.start(number + 1)
        for start in range(0, table.rows, ROWS_MAX):
            matrix = table.matrix[start : start + ROWS_MAX]
            numbers = self._merge(matrix, matrix.reshape(-1), table.arena, table.pool)
            output = self.accumulator.groups(self.groups.table, numbers, numbers).table
            output.created = table.created
            yield self.panes.start(number), end, output
        rows = table.rows
        self.panes.tables.free(number)
        self._forget(end, rows)

    def _thin(self, pieces: Sequence[ThinRows]) -> Iterator[Fired]:
        """Several panes in one go: what each group has in a pane goes into a slot of its own, and a program merges these into the groups'
        slots, one after the other, each of which answers then."""
        made = gathered(self.spec, pieces)
        yield None
        table, n, known = made.table, len(made.panes), self.groups.rows
        numbers = self.groups.numbers(PartialRows.of(self.spec, table).keys)
        used = self.groups.rows
        if used + n > self.accumulator.capacity:
            self.accumulator.extend(2 * (used + n))
        sources, every = np.arange(used, used + n), np.arange(n)
        self.accumulator.absorb(sources, every, np.ones(n, np.uint8), table.entries, table.arena, table.pool)
        fresh = self._fresh(table.matrix, numbers, known)
        program = np.zeros((n, 4, 3), np.int64)
        program[:, :, 0] = RESET, MERGE, EMIT, FREE
        program[:, :3, 1], program[:, 1, 2], program[:, 3, 1] = numbers[:, None], sources, sources
        chosen = np.ones((n, 4), bool)
        chosen[:, 0] = fresh
        output = yield from self.accumulator.answers(program[chosen], numbers, self.groups.table)
        output.created = table.created
        starts = self.panes.starts(made.panes)
        yield starts, starts + self.panes.pane, output
        self._forget(int(starts[-1]) + self.panes.pane, n)

    def _fresh(self, matrix: np.ndarray, numbers: np.ndarray, known: int) -> np.ndarray:
        """Which entries begin their group anew, bool[n]: entries of panes in order, of groups `numbers`, of which those from `known` on
        are new."""
        order = np.argsort(numbers, kind="stable")
        begins = np.ones(len(order), bool)
        begins[1:] = numbers[order][1:] != numbers[order][:-1]  # the first entry of its group
        fresh = np.zeros(len(order), bool)
        fresh[order] = begins & (numbers[order] >= known)
        if self.ttl is not None:
            least, greatest = (matrix[:, self.spec.places[Extreme(last, None)]][order] for last in (False, True))
            before = np.where(begins, self.groups.matrix[numbers[order], _LAST], np.roll(greatest, 1))
            fresh[order] |= ~(begins & (numbers[order] >= known)) & (least - before > self.ttl)
            ends = np.append(begins[1:], [True])
            self.groups.matrix[numbers[order][ends], _LAST] = greatest[ends]
        return fresh

    def running(self) -> Groups:
        """All groups, as they are so far."""
        every = np.arange(self.groups.rows)
        return self.accumulator.groups(self.groups.table, every, every)

    def join(self, rows: PartialRows) -> None:
        """Adds groups that `running` gave elsewhere."""
        self._merge(rows.matrix, rows.matrix.reshape(-1), rows.arena, rows.pool)

    def panes_changed(self) -> None:
        pass

    def _merge(self, matrix: np.ndarray, entries: np.ndarray, arena: np.ndarray, pool: np.ndarray) -> np.ndarray:
        """Merges entries into their groups; returns the numbers of these, int64[n]."""
        before, n = self.groups.rows, len(matrix)
        key0, key1 = (np.ascontiguousarray(matrix[:, word]).view(np.uint64) for word in (0, 1))
        numbers = self.groups.numbers(Keys(key0, key1, arena))
        if self.groups.rows > self.accumulator.capacity:
            self.accumulator.extend(2 * self.groups.rows)
        fresh = numbers >= before
        if self.ttl is not None:
            least, greatest = (matrix[:, self.spec.places[Extreme(last, None)]] for last in (False, True))
            fresh |= least - self.groups.matrix[numbers, _LAST] > self.ttl
            self.groups.matrix[numbers, _LAST] = greatest
        self.accumulator.absorb(numbers, np.arange(n), fresh.view(np.uint8), entries, arena, pool)
        return numbers

    def _forget(self, watermark: int, changes: int) -> None:
        """Groups that begin anew with whatever comes, if they are most."""
        self._work += changes
        if self.ttl is None or self._work < self._due:
            return
        kept = self.groups.matrix[:, _LAST] >= watermark - self.ttl
        if 2 * int(kept.sum()) < len(kept):
            rows = np.flatnonzero(kept)
            self.groups.keep(kept)
            self.accumulator.rewrite(2 * len(rows), rows, np.arange(len(rows)))
            self.accumulator.forget()
        self._work, self._due = 0, max(self.groups.rows, _WORK_MIN)
