"""When which panes become a window.

Tumbling: a window is a pane. Sliding: a window is `size` panes and begins every `advance` panes; what panes overlapping
windows share is merged once, by two stacks of tables. With size 5, advance 2 and all panes filled, windows fire as

    pane      0    1    2    3    4    5    6    7    8
    window 0  [front 0 . front 1 . 2 ]                        flip: front k = panes from 2k to 4 merged, from the newest back
    window 1            [front 1 ...... | back ..]            front 1 and back = panes 5, 6
    window 2                      [front 2 | back .........]  front 2 = pane 4, and back = panes 5 to 8
    window 3                                                  no front is left: flip

A pane is merged once when it goes into the back and once when its front is made; a firing merges the two: O(1) merges for
a pane and a firing, whatever the overlap. The panes themselves stay until no window needs them: they are the truth that
`snapshot` writes, and the stacks can be made from them again at any time.

Cumulating: a window is the panes since its beginning. Those that a window had are merged into the first of them, which is the truth from
then on. With 4 panes from the beginning to the next:

    pane      0    1    2    3    4
    window 0  [0 ]
    window 1  [0 + 1 ]                                        pane 1 is freed
    window 2  [0 ... + 2 ]                                    where pane 2 has no row, window 2 is what window 1 was
    window 3  [0 ........ + 3]                                and then pane 0 is freed as well
    window 4                  [4 ]

Where many windows fire at once that have few groups each, all of them are made in one go, of what they have: so much for each window is
done in Python that a few hundred groups are merged in the same time. They come out as one table, with a window for each group. What
windows share is made once, by blocks of panes of twice the size each (`of_windows`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from cep.compile.aggregate.results import Instant
from cep.compile.aggregate.rows import merge_in_pieces
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows.panes import Panes
from cep.compile.windows.thin import AtOnce, once_each
from cep.compile.windows.thin_panes import gathered, of_windows
from cep.kernels.tables.table import Table
from cep.model.windows import CumulateWindow, TimeWindow

#: What `fire` yields: a window, or several, whose bounds are int64[rows]; or None where its work may pause.
Fired = tuple[Instant, Instant, Table] | None
#: Panes freed between two pauses.
PANES_FREED = 1_024
#: To merge a pane into a stack once more is like so many rows.
PANE_ROWS = 64


class Firing(Protocol):
    """`fire` yields (first instant, end, groups) of each window with at least one row that ends by the watermark, in order, or of
    several, whose groups are in that order; once the next is asked for, nothing of the one before may be used. It yields None between
    pieces of what a window is made of, which may be very many panes. `next_end` is the end of the next window, None if there is no row."""

    @property
    def bytes(self) -> int: ...

    @property
    def next_end(self) -> int | None: ...

    def fire(self, watermark: int) -> Iterator[Fired]: ...

    def panes_changed(self) -> None:
        """Closed panes have got rows, by `restore`."""

    def clear(self, panes: Panes) -> None:
        """Forgets what it has made of panes; from now on it is about `panes`."""


class PaneFiring:
    """Every pane is a window of its own: of tumbling windows, and of partial rows."""

    bytes = 0

    def __init__(self, panes: Panes) -> None:
        self.panes = panes

    @property
    def next_end(self) -> int | None:
        first = self.panes.first
        return None if first is None else self.panes.start(first + 1)

    def fire(self, watermark: int) -> Iterator[Fired]:
        panes, over = self.panes, self.panes.over(watermark)
        while (first := panes.first) is not None and first < over:
            if (end := panes.together(first, over)) is None:
                yield from panes.settle_run(first, over)
                yield panes.start(first), panes.start(first + 1), panes.tables[first]
                panes.tables.free(first)
            else:
                made = gathered(panes.spec, panes.thin.between(first, end))
                starts = panes.starts(made.panes)
                yield starts, starts + panes.pane, made.table
                panes.thin.free_before(end)
                yield None

    def panes_changed(self) -> None:
        pass

    def clear(self, panes: Panes) -> None:
        self.panes = panes


class SlidingFiring:
    """Two stacks. Window k is the panes from k·`advance` to before k·`advance` + `size`, which are numbers of panes."""

    def __init__(self, spec: AggregateSpec, panes: Panes) -> None:
        assert isinstance(spec.window, TimeWindow)
        self.spec, self.panes, self.window = spec, panes, spec.window
        self.size, self.advance = self.window.size // panes.pane, self.window.advance // panes.pane
        self.bytes = 0
        self._choice = AtOnce()
        self._next: int | None = None  # windows before it have fired
        self._front: list[tuple[int, Table]] = []  # (j, panes from j·advance to the flip), least j last
        self._back: Table | None = None
        self._front_bytes = 0
        self._taken: int | None = None  # panes before it are in front or back, or are not needed any more

    @property
    def next_end(self) -> int | None:
        k = self._next_window()
        return None if k is None else self._end(k)

    def _end(self, k: int) -> int:
        return self.panes.start(k * self.advance + self.size)

    def _next_window(self) -> int | None:
        """The first window not yet fired that holds a row; found in one step, however long the gap."""
        if self.panes.first is None:
            return None
        first = (self.panes.first - self.size) // self.advance + 1
        return first if self._next is None else max(first, self._next)

    def fire(self, watermark: int) -> Iterator[Fired]:
        last = (self.panes.over(watermark) - self.size) // self.advance
        while (k := self._next_window()) is not None and k <= last:
            if (end := self._many(k, last)) is not None:
                yield from self._at_once(k, end)
                continue
            yield from self.panes.settle(k * self.advance + self.size)
            yield from self._gather(k)
            yield self.panes.start(k * self.advance), self._end(k), (yield from self._merged())
            yield from self._leave(k + 1)
        past = (watermark - self.window.offset - self.window.size) // self.window.advance + 1
        yield from self._leave(past if self._next is None else max(past, self._next))

    def _many(self, k: int, last: int) -> int | None:
        """The window before which those from `k` on are better made in one go."""
        again = PANE_ROWS * self.size if self._front or self._back is not None else 0
        work = lambda n: self.panes.work(*self._panes_of(k, k + n), self._with_rows(k, n), self.size)  # noqa: E731
        return self._choice.end(k, last, work, lambda n: self._with_rows(k, n), again)

    def _with_rows(self, k: int, n: int) -> int:
        """How many of `n` windows from `k` on have a row, at most."""
        return min(n, self.panes.count(*self._panes_of(k, k + n)) * -(-self.size // self.advance))

    def _panes_of(self, k: int, end: int) -> tuple[int, int]:
        """The first pane of windows `k` to before `end`, and the one behind their last."""
        return k * self.advance, (end - 1) * self.advance + self.size

    def _at_once(self, k: int, end: int) -> Iterator[Fired]:
        """Windows `k` to before `end`."""
        self.panes_changed()  # stacks are made anew where they are needed
        pieces = self.panes.pieces(*self._panes_of(k, end))
        panes = np.unique(np.concatenate([piece.panes for piece in pieces]))
        yield None
        numbers = once_each(np.maximum((panes - self.size) // self.advance + 1, k), np.minimum(panes // self.advance, end - 1))
        firsts = numbers * self.advance
        for made in of_windows(self.spec, pieces, numbers, firsts, firsts + self.size):
            starts = self.panes.starts(made.panes * self.advance)
            yield starts, starts + self.window.size, made.table
        yield from self._leave(end)

    def _leave(self, k: int) -> Iterator[None]:
        """Windows before `k` are over."""
        self._next = k
        self.panes.thin.free_before(k * self.advance)
        over = self.panes.tables.before(k * self.advance)
        for start in range(0, len(over), PANES_FREED):
            for number in over[start : start + PANES_FREED]:
                self.panes.tables.free(number)
            if start + PANES_FREED < len(over):
                yield

    def _gather(self, k: int) -> Iterator[None]:
        """What window `k` is made of, into front and back."""
        first, end = k * self.advance, k * self.advance + self.size
        while self._front and self._front[-1][0] < k:
            self._front_bytes -= self._front.pop()[1].bytes
        if not self._front:
            yield from self._flip(first)
        yield from self._take(first, end)

    def _merged(self) -> Generator[None, None, Table]:
        """The window that was gathered."""
        made = yield from self._joined(self._front[-1][1] if self._front else None, self._back)
        self.bytes = self._front_bytes + (self._back.bytes if self._back else 0)
        return made

    def _flip(self, first: int) -> Iterator[None]:
        """Makes the front anew of what was taken and is still needed."""
        self._back = None
        taken = self.panes.tables.between(first, first if self._taken is None else self._taken)
        for number in reversed(taken):
            j, pane = number // self.advance, self.panes.tables[number]
            if self._front and self._front[-1][0] == j:
                self._front_bytes -= self._front[-1][1].bytes
                yield from merge_in_pieces(self.spec.loops, self._front[-1][1], pane)
            else:
                made = pane.copy() if not self._front else (yield from self._joined(self._front[-1][1], pane))
                self._front.append((j, made))
            self._front_bytes += self._front[-1][1].bytes
            yield

    def _take(self, first: int, end: int) -> Iterator[None]:
        """Merges the panes that are new in this window into the back."""
        for number in self.panes.tables.between(first if self._taken is None else max(first, self._taken), end):
            if self._back is None:
                self._back = self.panes.tables[number].copy()
            else:
                yield from merge_in_pieces(self.spec.loops, self._back, self.panes.tables[number])
            yield
        self._taken = end

    def _joined(self, a: Table | None, b: Table | None) -> Generator[None, None, Table]:
        """A table with the groups of both, which stay as they are."""
        if a is None or b is None:
            one = b if a is None else a
            assert one is not None  # a window that fires has a pane
            return one
        large, small = (a, b) if a.rows >= b.rows else (b, a)
        joined = large.copy()
        yield from merge_in_pieces(self.spec.loops, joined, small)
        return joined

    def panes_changed(self) -> None:
        self._front, self._back, self._taken, self.bytes, self._front_bytes = [], None, None, 0, 0

    def clear(self, panes: Panes) -> None:
        self.panes = panes
        self.panes_changed()


class CumulatingFiring:
    """Windows begin every `steps` panes, and one ends with each pane."""

    bytes = 0

    def __init__(self, spec: AggregateSpec, panes: Panes) -> None:
        self.spec, self.panes = spec, panes
        self.steps = spec.window.size // panes.pane
        self._choice = AtOnce()
        self._next: int | None = None  # windows that end before this pane have fired

    @property
    def next_end(self) -> int | None:
        number = self._next_number()
        return None if number is None else self.panes.start(number)

    def _next_number(self) -> int | None:
        """The pane before which the next window ends that holds a row."""
        if self.panes.first is None:
            return None
        first = self.panes.first + 1
        return first if self._next is None else max(first, self._next)

    def fire(self, watermark: int) -> Iterator[Fired]:
        last = self.panes.over(watermark)
        while (number := self._next_number()) is not None and number <= last:
            if (end := self._many(number, last)) is not None:
                yield from self._at_once(number, end)
                continue
            yield from self.panes.settle(number)
            first = self.panes.tables.numbers[0]
            yield from self._gather(first, number)
            yield self.panes.start(self._begin(number)), self.panes.start(number), self.panes.tables[first]
            if number == self._begin(number) + self.steps:
                self.panes.tables.free(first)
            self._next = number + 1
        past = last + 1
        self._next = past if self._next is None else max(past, self._next)

    def _begin(self, number: int) -> int:
        """The first pane of the window that ends before pane `number`."""
        return (number - 1) // self.steps * self.steps

    def _many(self, number: int, last: int) -> int | None:
        """The pane such that windows that end before `number` to before those of it are better made in one go."""
        begin = self._begin(number)
        work = lambda n: self.panes.work(begin, number + n - 1, self._with_rows(number, n), self.steps)  # noqa: E731
        return self._choice.end(number, last, work, lambda n: self._with_rows(number, n))

    def _with_rows(self, number: int, n: int) -> int:
        """How many of `n` windows from the one that ends before pane `number` on have a row, at most."""
        return min(n, self.panes.count(self._begin(number), number + n - 1) * self.steps)

    def _at_once(self, number: int, end: int) -> Iterator[Fired]:
        """Windows that end before panes `number` to before `end`; what windows to come need of them goes into their first pane."""
        pieces = self.panes.pieces(self._begin(number), end - 1)
        panes = np.unique(np.concatenate([piece.panes for piece in pieces]))
        yield None
        numbers = once_each(np.maximum(panes + 1, number), np.minimum(panes // self.steps * self.steps + self.steps, end - 1))
        for made in of_windows(self.spec, pieces, numbers, (numbers - 1) // self.steps * self.steps, numbers):
            begins = (made.panes - 1) // self.steps * self.steps
            yield self.panes.starts(begins), self.panes.starts(made.panes), made.table
        begin = self._begin(end)  # the first pane of the next window: of those before it nothing is needed any more
        self._next = end
        kept = [piece for each in pieces if (piece := each.between(begin, end - 1)) is not None]
        for pane in self.panes.tables.before(end - 1):
            self.panes.tables.free(pane)
        self.panes.thin.free_before(end - 1)
        if kept:
            left = gathered(self.spec, [replace(piece, panes=np.full(len(piece), begin)) for piece in kept])
            self.panes.thin.put(left.rows(self.spec))

    def _gather(self, first: int, end: int) -> Iterator[None]:
        """Merges the panes from behind `first` to before `end` into it."""
        table = self.panes.tables[first]
        for number in self.panes.tables.between(first + 1, end):
            before = table.bytes
            yield from merge_in_pieces(self.spec.loops, table, self.panes.tables[number])
            self.panes.tables.bytes += table.bytes - before
            self.panes.tables.free(number)
            yield

    def panes_changed(self) -> None:
        pass

    def clear(self, panes: Panes) -> None:
        self.panes = panes


def merges(spec: AggregateSpec) -> bool:
    """Are the rows of a pane needed in more than one window?"""
    return spec.stage != "partial" and spec.window.overlaps


def firing_of(spec: AggregateSpec, panes: Panes) -> Firing:
    """The firing of a stage of an Aggregate over windows that are made of panes."""
    if not merges(spec):
        return PaneFiring(panes)
    return CumulatingFiring(spec, panes) if isinstance(spec.window, CumulateWindow) else SlidingFiring(spec, panes)
