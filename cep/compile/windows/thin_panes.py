"""Panes of few rows. A table for each would take 3 KB and some 15 µs, and to be answered by itself 100 µs more. So their rows wait side
by side as they came, in the order of their panes, and what fires at one time goes into one table, and comes out as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cep.compile.aggregate.rows import PartialRows, TimedRows, oldest
from cep.compile.aggregate.spec import AggregateSpec
from cep.kernels.columns import NO_BYTES
from cep.kernels.tables.hashing import LONG
from cep.kernels.tables.keys import Keys
from cep.kernels.tables.pane_groups import pane_groups
from cep.kernels.tables.table import ARENA_USED, POOL_USED, Table
from cep.values import value

_TOP = np.uint64(56)
_NO_SLOTS = np.zeros(0, np.int32)
#: More pieces than these, or so many bytes of which most are of rows that are gone, are not kept.
PIECES_MAX, WASTE_BYTES, WASTE = 32, 1 << 24, 4


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

    def between(self, first: int, end: int) -> ThinRows | None:
        """Those of panes `first` to before `end`, if there are any."""
        start, stop = np.searchsorted(self.panes, (first, end)).tolist()
        if start == stop:
            return None
        return self if stop - start == len(self) else ThinRows(self.rows.cut(start, stop), self.panes[start:stop])

    def repeated(self, least: np.ndarray, greatest: np.ndarray) -> ThinRows | None:
        """Each row once for each of the windows `least` to `greatest`, int64[n], which may be none; windows take the place of panes."""
        counts = np.maximum(greatest - least + 1, 0)
        ends = np.cumsum(counts)
        if not len(ends) or not ends[-1]:
            return None
        order = np.repeat(np.arange(len(counts)), counts)
        return ThinRows.of(self.rows.take(order), (least - ends + counts)[order] + np.arange(ends[-1]))


@value
class PaneGroups:
    """Groups of several panes, in their order: the entries of `table`, which has no slots, and the panes of these, int64[rows]."""

    table: Table
    panes: np.ndarray

    def rows(self, spec: AggregateSpec) -> ThinRows:
        table = self.table
        return ThinRows(PartialRows(spec.loops, self.panes, table.created, table.matrix, table.arena, table.pool), self.panes)


def gathered(spec: AggregateSpec, pieces: Sequence[ThinRows]) -> PaneGroups:
    """What the rows of `pieces` make of each group of each pane."""
    keys = _joined([piece.rows.keys for piece in pieces])
    panes = pieces[0].panes if len(pieces) == 1 else np.concatenate([piece.panes for piece in pieces])
    numbers, firsts = pane_groups(keys, panes)
    table, start = Table.make(spec.width, spec.sums, len(firsts)), 0
    for piece in pieces:
        stop = start + len(piece)
        piece.rows.numbered(numbers[start:stop].view(np.uint64)).into(table, 0, len(piece))
        table.created, start = oldest(table.created, piece.rows.created), stop
    return _named(table, Keys(keys.w0[firsts], keys.w1[firsts], keys.data), panes[firsts])


def _joined(keys: Sequence[Keys]) -> Keys:
    if len(keys) == 1:
        return keys[0]
    long = [bool(((each.w1 >> _TOP) == LONG).any()) for each in keys]
    bodies = [each.data if there else NO_BYTES for each, there in zip(keys, long, strict=True)]
    high, size = list[np.ndarray](), 0
    for each, body in zip(keys, bodies, strict=True):
        high.append(_moved(each.w1, size) if len(body) else each.w1)
        size += len(body)
    return Keys(np.concatenate([each.w0 for each in keys]), np.concatenate(high), np.concatenate(bodies))


def _moved(w1: np.ndarray, by: int) -> np.ndarray:
    """Second words of keys, of which the bytes of long ones lie that much further behind."""
    return np.where((w1 >> _TOP) == LONG, w1 + np.uint64(by), w1)


def _named(table: Table, keys: Keys, panes: np.ndarray) -> PaneGroups:
    """With their keys in place of the numbers of their entries, in the order of their panes."""
    arena, matrix = table.arena[: table.control[ARENA_USED]], table.matrix
    if ((keys.w1 >> _TOP) == LONG).any():
        keys = Keys(keys.w0, _moved(keys.w1, len(arena)), keys.data)
        arena = np.concatenate([arena, keys.data])
    matrix[:, 0], matrix[:, 1] = keys.w0.view(np.int64), keys.w1.view(np.int64)
    if (panes[1:] < panes[:-1]).any():
        order = np.argsort(panes, kind="stable")
        matrix, panes = matrix.take(order, axis=0), panes[order]
    pool = table.pool[: table.control[POOL_USED]]
    control = table.control.copy()
    control[ARENA_USED] = len(arena)
    return PaneGroups(replace(table, slots=_NO_SLOTS, entries=matrix.reshape(-1), arena=arena, pool=pool, control=control), panes)


class ThinPanes:
    """Rows of thin panes that are open, in pieces as they came."""

    def __init__(self) -> None:
        self._pieces: list[ThinRows] = []
        self._sizes: list[tuple[int, int]] = []  # of these pieces as they came: rows, bytes
        self.first: int | None = None  # the first pane
        self.bytes = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def panes(self) -> int:
        """How many there are; those that lie in several pieces count for each."""
        return sum(1 + int(np.count_nonzero(np.diff(piece.panes))) for piece in self._pieces)

    @property
    def too_many(self) -> bool:
        """Are there too many pieces, or do they hold much that is gone?"""
        held = sum(rows for rows, _ in self._sizes)
        return len(self._pieces) > PIECES_MAX or (self.bytes > WASTE_BYTES and held > WASTE * self.rows)

    def put(self, piece: ThinRows) -> None:
        self._keep([*self._pieces, piece], [*self._sizes, (len(piece), piece.rows.nbytes + piece.panes.nbytes)])

    def between(self, first: int, end: int) -> list[ThinRows]:
        """Rows of panes `first` to before `end`."""
        return [found for piece in self._pieces if (found := piece.between(first, end)) is not None]

    def all(self) -> list[ThinRows]:
        return list(self._pieces)

    def free_before(self, end: int) -> None:
        """Panes before `end` are over."""
        if self.first is None or self.first >= end:
            return
        left = [piece.between(end, int(piece.panes[-1]) + 1) for piece in self._pieces]
        kept = [(piece, size) for piece, size in zip(left, self._sizes, strict=True) if piece is not None]
        self._keep([piece for piece, _ in kept], [size for _, size in kept])

    def _keep(self, pieces: list[ThinRows], sizes: list[tuple[int, int]]) -> None:
        self._pieces, self._sizes = pieces, sizes
        self.first = min((int(piece.panes[0]) for piece in pieces), default=None)
        self.bytes = sum(size for _, size in sizes)
