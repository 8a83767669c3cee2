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
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from cep.compile.aggregate.rows import merge_in_pieces
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows.panes import Panes
from cep.kernels.tables.table import Table
from cep.model.windows import CumulateWindow, TimeWindow

#: What `fire` yields: a window, or None where its work may pause.
Fired = tuple[int, int, Table] | None
#: Panes freed between two pauses.
PANES_FREED = 1_024


class Firing(Protocol):
    """`fire` yields (first instant, end, groups) of each window with at least one row that ends by the watermark, in order; once
    the next is asked for, nothing of the one before may be used. It yields None between pieces of what a window is made of, which may be
    very many panes. `next_end` is the end of the next window, None if there is no row."""

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
        return self.panes.start(self.panes.numbers[0] + 1) if self.panes.numbers else None

    def fire(self, watermark: int) -> Iterator[Fired]:
        while (end := self.next_end) is not None and end <= watermark:
            number = self.panes.numbers[0]
            yield self.panes.start(number), end, self.panes[number]
            self.panes.free(number)

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
        if not self.panes.numbers:
            return None
        first = (self.panes.numbers[0] - self.size) // self.advance + 1
        return first if self._next is None else max(first, self._next)

    def fire(self, watermark: int) -> Iterator[Fired]:
        while (k := self._next_window()) is not None and self._end(k) <= watermark:
            yield from self._gather(k)
            yield self.panes.start(k * self.advance), self._end(k), (yield from self._merged())
            yield from self._leave(k + 1)
        past = (watermark - self.window.offset - self.window.size) // self.window.advance + 1
        yield from self._leave(past if self._next is None else max(past, self._next))

    def _leave(self, k: int) -> Iterator[None]:
        """Windows before `k` are over."""
        self._next = k
        over = self.panes.before(k * self.advance)
        for start in range(0, len(over), PANES_FREED):
            for number in over[start : start + PANES_FREED]:
                self.panes.free(number)
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
        taken = self.panes.between(first, first if self._taken is None else self._taken)
        for number in reversed(taken):
            j, pane = number // self.advance, self.panes[number]
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
        for number in self.panes.between(first if self._taken is None else max(first, self._taken), end):
            if self._back is None:
                self._back = self.panes[number].copy()
            else:
                yield from merge_in_pieces(self.spec.loops, self._back, self.panes[number])
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
        self._next: int | None = None  # windows that end before this pane have fired

    @property
    def next_end(self) -> int | None:
        number = self._next_number()
        return None if number is None else self.panes.start(number)

    def _next_number(self) -> int | None:
        """The pane before which the next window ends that holds a row."""
        if not self.panes.numbers:
            return None
        first = self.panes.numbers[0] + 1
        return first if self._next is None else max(first, self._next)

    def fire(self, watermark: int) -> Iterator[Fired]:
        while (number := self._next_number()) is not None and (end := self.panes.start(number)) <= watermark:
            first = self.panes.numbers[0]
            yield from self._gather(first, number)
            begin = first // self.steps * self.steps
            yield self.panes.start(begin), end, self.panes[first]
            if number == begin + self.steps:
                self.panes.free(first)
            self._next = number + 1
        past = (watermark - self.panes.offset) // self.panes.pane + 1
        self._next = past if self._next is None else max(past, self._next)

    def _gather(self, first: int, end: int) -> Iterator[None]:
        """Merges the panes from behind `first` to before `end` into it."""
        table = self.panes[first]
        for number in self.panes.between(first + 1, end):
            before = table.bytes
            yield from merge_in_pieces(self.spec.loops, table, self.panes[number])
            self.panes.bytes += table.bytes - before
            self.panes.free(number)
            yield

    def panes_changed(self) -> None:
        pass

    def clear(self, panes: Panes) -> None:
        self.panes = panes


def firing_of(spec: AggregateSpec, panes: Panes) -> Firing:
    """The firing of a stage of an Aggregate over windows that are made of panes."""
    if spec.stage == "partial" or not spec.window.overlaps:
        return PaneFiring(panes)
    return CumulatingFiring(spec, panes) if isinstance(spec.window, CumulateWindow) else SlidingFiring(spec, panes)
