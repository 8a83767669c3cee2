"""Thin panes of an aggregate: what fires at one time goes into one table, and comes out as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cep.compile.aggregate.rows import PartialRows, TimedRows, oldest
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows.thin import repeated
from cep.kernels.tables.hashing import LONG
from cep.kernels.tables.keys import Keys, joined_keys, moved_keys
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

    def repeated(self, least: np.ndarray, greatest: np.ndarray) -> ThinRows | None:
        """Each row once for each of the windows `least` to `greatest`, int64[n], which may be none; windows take the place of panes."""
        order, windows = repeated(least, greatest)
        return ThinRows.of(self.rows.take(order), windows) if len(order) else None


@value
class PaneGroups:
    """Groups of several panes, in their order: the entries of `table`, which has no slots, and the panes of these, int64[rows]."""

    table: Table
    panes: np.ndarray

    def rows(self, spec: AggregateSpec) -> ThinRows:
        return ThinRows(PartialRows.of(spec, self.table), self.panes)


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
    return _named(table, Keys(keys.w0[firsts], keys.w1[firsts], keys.data), panes[firsts])


def _named(table: Table, keys: Keys, panes: np.ndarray) -> PaneGroups:
    """With their keys in place of the numbers of their entries, in the order of their panes."""
    arena, matrix = table.arena[: table.control[ARENA_USED]], table.matrix
    if ((keys.w1 >> _TOP) == LONG).any():
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
