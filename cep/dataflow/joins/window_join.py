"""A window join at work: what lies in the windows [e - size, e) of both inputs meets once W >= e, for all e = offset + k·advance (5.5).

Rules:

1. A row waits in the pane of its input: pane k goes from e(k) = offset + k·advance to e(k + 1). Window k ends at e(k). It takes
   whole panes but for the first one, where the size is no multiple of the advance. Nothing is indexed before it fires.
2. Windows fire in order; a pane is dropped when no window to come has it.
3. A restored row carries the number of the first window that was not answered for it (its mark), and is in no earlier one. All rows of a
   key come from one former instance and have one mark, so a pair is either answered or not.
4. Of a theta join one side may have been at every former instance. The restored one takes the part of that side that has most rows: each
   has been given the same rows and has dropped the oldest, so the longest has all that are needed. Their marks mean nothing: what is
   to come out is said by those of the side that was shared out. A FULL one has been at one instance, and both sides come out of it by
   their marks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

import numpy as np

from cep.compile.join_rows import LEFT, RIGHT
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.matching import Matcher, SideFormat, matcher_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Keep, Part, check_state
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.state.gathering import PARTS_MAX, together
from cep.dataflow.state.hold import LOOK_ROWS, up_to
from cep.elements import MAX_TIME, MIN_TIME, PAUSE, Batch, describe_time
from cep.model.operators import Join
from cep.model.windows import TimeWindow


class InputPanes:
    """The rows of one input by pane, and within it by mark (rule 3; MIN_TIME: nothing was answered)."""

    def __init__(self, window: TimeWindow) -> None:
        self.size, self.advance, self.offset = window.size, window.advance, window.offset
        self.reach = -(-window.size // window.advance)  # panes in a window
        self.bytes = 0
        self._panes: dict[int, dict[int, list[Batch]]] = {}
        self._numbers: list[int] = []  # sorted

    @property
    def first(self) -> int | None:
        """The number of the oldest pane."""
        return self._numbers[0] if self._numbers else None

    def add(self, batch: Batch, mark: int = MIN_TIME) -> Iterator[Batch]:
        """It pauses where rows are of very many panes."""
        numbers = (batch.time - self.offset) // self.advance
        if (np.diff(numbers) < 0).any():
            order = np.argsort(numbers, kind="stable")
            batch, numbers = batch.take(order), numbers[order]
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(batch)]
        for i, (start, stop) in enumerate(pairwise(bounds) if len(batch) else ()):
            if i % PARTS_MAX == PARTS_MAX - 1:
                yield PAUSE
            self._put(int(numbers[start]), mark, batch if stop - start == len(batch) else batch.take(slice(start, stop)))

    def _put(self, number: int, mark: int, rows: Batch) -> None:
        if number not in self._panes:
            insort(self._numbers, number)
            self._panes[number] = {}
        self._panes[number].setdefault(mark, []).append(rows)
        self.bytes += batch_bytes(rows)

    def window(self, k: int) -> Generator[Batch, None, list[Batch]]:
        """The rows of window k, in blocks; it pauses while they are put together."""
        inside = self._numbers[bisect_left(self._numbers, k - self.reach) : bisect_left(self._numbers, k)]
        found: list[Batch] = []
        for number in inside:
            pane = self._panes[number]
            for mark in [mark for mark in pane if mark <= k]:
                pane[mark] = yield from together(pane[mark])  # from now on: several windows may take it
                found += pane[mark]
        blocks = yield from together(found)
        if self.size % self.advance == 0:
            return blocks
        cut = [block.take(np.flatnonzero(block.time >= k * self.advance + self.offset - self.size)) for block in blocks]
        return [block for block in cut if len(block)]

    def leave(self, k: int) -> None:
        """Windows before k are over."""
        over = bisect_left(self._numbers, k - self.reach)
        gone, self._numbers = self._numbers[:over], self._numbers[over:]
        for number in gone:
            self.bytes -= sum(batch_bytes(batch) for batches in self._panes.pop(number).values() for batch in batches)

    def marked(self) -> Iterator[tuple[int, Batch]]:
        for pane in self._panes.values():
            yield from ((mark, batch) for mark, batches in pane.items() for batch in batches)

    def fullest(self) -> Batch:
        """The pane with most rows, or at most LOOK_ROWS of it."""
        panes = [[batch for batches in pane.values() for batch in batches] for pane in self._panes.values()]
        return concatenated(list(up_to(max(panes, key=lambda pane: sum(map(len, pane))), LOOK_ROWS)))


class WindowJoinOperator:
    def __init__(self, join: Join, matcher: Matcher, formats: tuple[SideFormat, SideFormat], state_limit: int) -> None:
        self.name, self.join, self.matcher, self.formats, self.state_limit = join.name, join, matcher, formats, state_limit
        self.spec, self.advance, self.offset = matcher.spec, join.window.advance, join.window.offset
        self.sides = InputPanes(join.window), InputPanes(join.right_window)
        self.since = MIN_TIME
        self.incomplete = 0  # windows with rows that begin before `since`
        self._next: int | None = None  # windows before it are over

    @property
    def state_bytes(self) -> int:
        return sum(side.bytes for side in self.sides)

    @property
    def next_end(self) -> int | None:
        k = self._next_window()
        return None if k is None else self._end(k)

    @property
    def last_end(self) -> int | None:
        return self.next_end

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        yield from self.sides[port].add(self.formats[port].kept(batch))
        self._check()

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        while (k := self._next_window()) is not None and self._end(k) <= watermark:
            self._leave(k)
            yield from self._fire(k)
            yield PAUSE
            self._leave(k + 1)
        self._leave((watermark - self.offset) // self.advance + 1)

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # Firing

    def _end(self, k: int) -> int:
        return k * self.advance + self.offset

    def _next_window(self) -> int | None:
        """The first window not over that can have an answer; found in one step, however long the gap."""
        firsts = [side.first for side in self.sides]
        needed = [first for side, first in enumerate(firsts) if self.spec.keeps(side)]
        there = [first for first in needed or firsts if first is not None]
        if not there or (not needed and None in firsts):
            return None
        k = (min(there) if needed else max(there)) + 1
        return k if self._next is None else max(k, self._next)

    def _leave(self, k: int) -> None:
        """Windows before k are over."""
        if self._next is None or k > self._next:
            self._next = k
            for side in self.sides:
                side.leave(k)

    def _fire(self, k: int) -> Iterator[Batch]:
        left = yield from self.sides[LEFT].window(k)
        right = yield from self.sides[RIGHT].window(k)
        end = self._end(k)
        if end - max(side.size for side in self.sides) < self.since:
            self.incomplete += bool(left or right)
            return
        matched = [[np.zeros(len(block), np.uint8) for block in blocks] for blocks in (left, right)]
        if left and right:
            yield from self._matches(left, right, matched, end)
        for side, blocks in enumerate((left, right)):
            for block, met in zip(blocks, matched[side], strict=True) if self.spec.keeps(side) else ():
                alone = np.flatnonzero(met == 0)
                yield from self.matcher.unmatched(side, block, alone, np.full(len(alone), end - 1))

    def _matches(self, left: list[Batch], right: list[Batch], matched: list[list[np.ndarray]], end: int) -> Iterator[Batch]:
        """Every block of the left meets every one of the right."""
        keys = [self.spec.encode(LEFT, block) for block in left]
        for j, partners in enumerate(right):
            index = self.spec.index(RIGHT, partners)
            yield PAUSE
            for i, rows in enumerate(left):
                met = ((a, b) for a, b, _ in index.probe(*keys[i]).pairs())
                marks = matched[LEFT][i], matched[RIGHT][j]
                yield from self.matcher.matches((rows, partners), met, marks, lambda a, _: np.full(len(a), end - 1))

    # State

    def snapshot(self) -> list[Part]:
        next_ = MIN_TIME if self._next is None else min(self._next, MAX_TIME)
        parts = []
        for side, rows_format in zip(self.sides, self.formats, strict=True):
            marked = list(side.marked())
            marks = [np.full(len(batch), max(mark, next_), np.int64) for mark, batch in marked]
            parts.append(rows_format.part([batch for _, batch in marked], marks))
        return parts

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for port, side in enumerate(self.sides):
            own = [part for part in parts if part.port == port]
            everywhere = self._is_spread and port == (LEFT, RIGHT)[self.join.broadcast == "right"]
            for part in [max(own, key=lambda part: part.batch.num_rows)] if everywhere and own else own:
                rows, marks = self.formats[port].rows(part, keep)
                for mark in [] if everywhere else np.unique(marks).tolist():
                    deque(side.add(rows.take(np.flatnonzero(marks == mark)), mark), 0)
                if everywhere:
                    deque(side.add(rows), 0)
        self._check()

    @property
    def _is_spread(self) -> bool:
        """May one side have been at several instances?"""
        return not self.join.on and self.join.how != "full"

    def clear(self) -> None:
        self.sides = InputPanes(self.join.window), InputPanes(self.join.right_window)

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        side = max((LEFT, RIGHT), key=lambda side: self.sides[side].bytes)
        window = f"windows open from the one ending at {describe_time(self.next_end)}"
        keys = self.spec.largest_keys(side, self.sides[side].fullest())
        return f"{window}; most rows are of the {('left', 'right')[side]}, largest keys in a pane: {keys}"


def build(join: Join, context: BuildContext) -> WindowJoinOperator:
    return WindowJoinOperator(join, *matcher_of(join, context), context.state_limit)
