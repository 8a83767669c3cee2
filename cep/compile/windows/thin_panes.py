"""Thin panes of an aggregate: what fires at one time goes into one table, and comes out as one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cep.compile.aggregate.rows import PartialRows, TimedRows, oldest
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows import thin
from cep.compile.windows.thin import repeated
from cep.kernels.tables.keys import Keys, joined_keys, moved_keys, packed_keys
from cep.kernels.tables.pane_groups import pane_groups
from cep.kernels.tables.table import ARENA_USED, POOL_USED, Table
from cep.values import value

_TOP = np.uint64(56)
_NO_SLOTS = np.zeros(0, np.int32)


@value
class ThinRows:
    """Rows, one or more, in ascending order of their panes, whose numbers are `panes`, int64[n]."""

    rows: TimedRows
    panes: np.ndarray

    @staticmethod
    def of(rows: TimedRows, panes: np.ndarray) -> ThinRows:
        """Rows in any order."""
        if (panes[1:] < panes[:-1]).any():
            order = np.argsort(panes, kind="stable")
            rows, panes = rows.take(order), panes[order]
        return ThinRows(rows, panes)

    def __len__(self) -> int:
        return len(self.panes)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.panes.nbytes

    def between(self, first: int, end: int) -> ThinRows | None:
        """Those of panes `first` to before `end`, if there are any."""
        start, stop = np.searchsorted(self.panes, (first, end)).tolist()
        if start == stop:
            return None
        return self if stop - start == len(self) else ThinRows(self.rows.cut(start, stop), self.panes[start:stop])

    def copied(self) -> ThinRows:
        return ThinRows(self.rows.take(np.arange(len(self))), self.panes.copy())


@value
class PaneGroups:
    """Groups of several panes, in their order: the entries of `table`, which has no slots, and the panes of these, int64[rows]."""

    table: Table
    panes: np.ndarray

    def rows(self, spec: AggregateSpec) -> ThinRows:
        return ThinRows(PartialRows.of(spec, self.table), self.panes)


@value
class _Chosen:
    """Of blocks of panes: entries `starts` and so many behind them, `counts`, are of windows `windows`, which are places among all that are
    made, ascending; int64[n] each."""

    blocks: PaneGroups
    windows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    @staticmethod
    def of(blocks: PaneGroups, windows: np.ndarray, numbers: np.ndarray) -> _Chosen:
        """The blocks `numbers`, one for each window."""
        starts, stops = (np.searchsorted(blocks.panes, numbers, side) for side in ("left", "right"))
        return _Chosen(blocks, windows, starts, stops - starts)

    def rows(self, spec: AggregateSpec, start: int, stop: int, numbers: np.ndarray) -> ThinRows:
        """Those of windows `start` to before `stop`, whose `numbers` take the place of panes."""
        first, last = np.searchsorted(self.windows, (start, stop)).tolist()
        starts, counts = self.starts[first:last], self.counts[first:last]
        order, entries = repeated(starts, starts + counts - 1)
        return ThinRows.of(self.blocks.rows(spec).rows.take(entries), numbers[self.windows[first:last][order]])


def of_windows(
    spec: AggregateSpec, pieces: Sequence[ThinRows], numbers: np.ndarray, firsts: np.ndarray, ends: np.ndarray
) -> Iterator[PaneGroups]:
    """The groups of windows `numbers`, each of panes `firsts` to before `ends`, int64[n] ascending each; as many windows at a time as are
    made of some ROWS_AT_ONCE rows.

    Panes are put together in blocks of two, these in blocks of two, and so on, so that a window is two blocks of each size at most:

        panes      0   1   2   3   4   5   6   7
        blocks    [0    ] [1    ] [2    ] [3    ]
                  [0            ] [1            ]
        window         [1] [1               ]... pane 1, block 1 of two, block 2 of two: panes 1 to 5
    """
    blocks, chosen = gathered(spec, pieces), list[_Chosen]()
    first, end = firsts, ends
    while True:
        odd = np.flatnonzero((first & 1 == 1) & (first < end))
        chosen.append(_Chosen.of(blocks, odd, first[odd]))
        first = first + (first & 1)
        odd = np.flatnonzero((end & 1 == 1) & (first < end))
        chosen.append(_Chosen.of(blocks, odd, end[odd] - 1))
        first, end = first >> 1, end >> 1
        if not (first < end).any():
            break
        blocks = gathered(spec, [ThinRows(blocks.rows(spec).rows, blocks.panes >> 1)])
    sizes = np.zeros(len(numbers), np.int64)
    for each in chosen:
        np.add.at(sizes, each.windows, each.counts)
    rows, start = np.cumsum(sizes), 0
    while start < len(numbers):
        before = int(rows[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(rows, before + thin.ROWS_AT_ONCE, "right")))
        found = [each.rows(spec, start, stop, numbers) for each in chosen]
        if some := [each for each in found if len(each)]:
            yield gathered(spec, some)
        start = stop


def gathered(spec: AggregateSpec, pieces: Sequence[ThinRows]) -> PaneGroups:
    """What the rows of `pieces` make of each group of each pane."""
    keys = joined_keys([piece.rows.keys for piece in pieces])
    panes = pieces[0].panes if len(pieces) == 1 else np.concatenate([piece.panes for piece in pieces])
    numbers, firsts = pane_groups(keys, panes)
    table, start = Table.make(spec.width, spec.sums, len(firsts)), 0
    for piece in pieces:
        stop = start + len(piece)
        piece.rows.numbered(numbers[start:stop].view(np.uint64)).into(table, 0, len(piece))
        table.created, start = oldest(table.created, piece.rows.created), stop
    return _named(table, packed_keys(Keys(keys.w0[firsts], keys.w1[firsts], keys.data)), panes[firsts])


def _named(table: Table, keys: Keys, panes: np.ndarray) -> PaneGroups:
    """With their keys in place of the numbers of their entries, in the order of their panes."""
    arena, matrix = table.arena[: table.control[ARENA_USED]], table.matrix
    if len(keys.data):
        keys = Keys(keys.w0, moved_keys(keys.w1, len(arena)), keys.data)
        arena = np.concatenate([arena, keys.data])
    matrix[:, 0], matrix[:, 1] = keys.w0.view(np.int64), keys.w1.view(np.int64)
    if (panes[1:] < panes[:-1]).any():
        order = np.argsort(panes, kind="stable")
        matrix, panes = matrix.take(order, axis=0), panes[order]
    pool = table.pool[: table.control[POOL_USED]]
    control = table.control.copy()
    control[ARENA_USED] = len(arena)
    return PaneGroups(replace(table, slots=_NO_SLOTS, entries=matrix.reshape(-1), arena=arena, pool=pool, control=control), panes)
