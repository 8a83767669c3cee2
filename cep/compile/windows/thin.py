"""Thin panes: panes of few rows, of which many come together.

To keep the rows of one pane apart takes some 15 µs and 3 KB, and to answer a window by itself 100 µs or more, whatever is in it. So the
rows of thin panes wait side by side as they came, in the order of their panes, and many windows that fire at one time are made in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

#: So many panes at least are thin, if they have no more rows each.
THIN_PANES_MIN, THIN_ROWS = 4, 64
#: More pieces than these are not kept; and what is left of a piece is copied where it is less than one part in so many.
PIECES_MAX, WASTE = 32, 4
#: Rows of which windows are made in one go; so many windows at least that have any, with no more rows each.
ROWS_AT_ONCE, FEWEST, ROWS_EACH = 1 << 17, 4, 1_024
#: Behind the number of every pane.
EVERY = (1 << 63) - 1


class ThinPiece(Protocol):
    """Rows, one or more, in ascending order of their panes, whose numbers are `panes`, int64[n]."""

    @property
    def panes(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def between(self, first: int, end: int) -> Self | None:
        """Those of panes `first` to before `end`, if there are any; they look at the same memory."""

    def copied(self) -> Self:
        """The same in memory of their own."""


P = TypeVar("P", bound=ThinPiece)


def are_thin(panes: int, rows: int) -> bool:
    """Are so many panes with so many rows in all better kept together?"""
    return panes >= THIN_PANES_MIN and rows <= THIN_ROWS * panes


class AtOnce:
    """Which windows are made in one go. To look is to count what many panes hold, so where it was better to make them one by one, that is
    done for a good part of those that were due."""

    def __init__(self) -> None:
        self._one_by_one: int | None = None  # up to this window

    def end(self, k: int, last: int, rows: Callable[[int], int], windows: Callable[[int], int], more: int = 0) -> int | None:
        """Windows `k` to before this one, which is behind `last` at most, are better made in one go; None: `k` by itself. The first n
        are made of about `rows(n)` rows, and at most `windows(n)` of them have any. `more`: what has to be done besides is like so many
        rows."""
        due = last + 1 - k
        if due < FEWEST or more > ROWS_EACH * due or (self._one_by_one is not None and k < self._one_by_one):
            return None
        n = due
        if rows(n) > ROWS_AT_ONCE:
            n = FEWEST
            while 2 * n < due and rows(2 * n) <= ROWS_AT_ONCE:
                n *= 2
        many, found = min(n, windows(n)), rows(n)
        if many >= FEWEST and found <= ROWS_AT_ONCE and found + more <= ROWS_EACH * many:
            return k + n
        self._one_by_one = k + max(FEWEST, min(due, windows(due)) // 4)
        return None


def first_without_room(pieces: Sequence[ThinPiece]) -> int:
    """The first pane that is not taken in one go with those before it; EVERY where there is room for all."""
    room = ROWS_AT_ONCE // max(len(pieces), 1)
    return min((int(piece.panes[room]) for piece in pieces if len(piece) > room), default=EVERY)


def repeated(least: np.ndarray, greatest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each of n rows once for each of the windows `least` to `greatest`, int64[n], which may be none: int64[m] of rows, and their
    windows."""
    counts = np.maximum(greatest - least + 1, 0)
    ends = np.cumsum(counts)
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, (least - ends + counts)[rows] + np.arange(len(rows))


def once_each(least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
    """The windows that are `least` to `greatest`, int64[n], both ascending, of any row, in their order."""
    before = np.append([-EVERY], greatest[:-1])
    return repeated(np.maximum(least, before + 1), greatest)[1]


class ThinPanes(Generic[P]):
    """The rows of thin panes that are open, in pieces as they came."""

    def __init__(self) -> None:
        self._pieces: list[P] = []
        self._sizes: list[tuple[int, int, int]] = []  # of these pieces: rows and bytes as they came or were copied, panes
        self.first: int | None = None  # the first pane
        self.bytes = 0

    def first_beside(self, numbers: Sequence[int]) -> int | None:
        """The first pane of these and of those `numbers`, ascending, that are kept otherwise."""
        return min([*numbers[:1], *([] if self.first is None else [self.first])], default=None)

    @property
    def panes(self) -> int:
        """How many there are; those that lie in several pieces count for each."""
        return sum(panes for *_, panes in self._sizes)

    def count(self, first: int, end: int) -> int:
        """The same of `first` to before `end`."""
        return sum(map(_panes_of, self.between(first, end)))

    @property
    def too_many(self) -> bool:
        """Are there too many pieces?"""
        return len(self._pieces) > PIECES_MAX

    def put(self, piece: P) -> None:
        self._keep([*self._pieces, piece], [*self._sizes, (len(piece), piece.nbytes, _panes_of(piece))])

    def between(self, first: int, end: int) -> list[P]:
        """Rows of panes `first` to before `end`."""
        return [found for piece in self._pieces if (found := piece.between(first, end)) is not None]

    def before(self, end: int) -> list[P]:
        """Rows of panes before `end`."""
        return [] if self.first is None or self.first >= end else self.between(self.first, end)

    def all(self) -> list[P]:
        return list(self._pieces)

    def free_before(self, end: int) -> None:
        """Panes before `end` are over."""
        if self.first is None or self.first >= end:
            return
        kept, sizes = list[P](), list[tuple[int, int, int]]()
        for piece, (rows, size, panes) in zip(self._pieces, self._sizes, strict=True):
            left = piece if piece.panes[0] >= end else piece.between(end, int(piece.panes[-1]) + 1)
            if left is None:
                continue
            if WASTE * len(left) < rows:
                left = left.copied()
                rows, size = len(left), left.nbytes
            kept.append(left)
            sizes.append((rows, size, panes if left is piece else _panes_of(left)))
        self._keep(kept, sizes)

    def _keep(self, pieces: list[P], sizes: list[tuple[int, int, int]]) -> None:
        self._pieces, self._sizes = pieces, sizes
        self.first = min((int(piece.panes[0]) for piece in pieces), default=None)
        self.bytes = sum(size for _, size, _ in sizes)


def _panes_of(piece: ThinPiece) -> int:
    return 1 + int(np.count_nonzero(np.diff(piece.panes)))
