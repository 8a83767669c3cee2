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
from typing import TypeVar

import numpy as np

from cep.compile.join_rows import LEFT, RIGHT
from cep.compile.windows.thin import EVERY, AtOnce, ThinPanes, are_thin
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.matching import Matcher, SideFormat, matcher_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Keep, Part, check_state
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.state.gathering import PARTS_MAX, together
from cep.dataflow.state.hold import LOOK_ROWS, up_to
from cep.dataflow.state.thin_batches import ThinBatch, joined
from cep.elements import MAX_TIME, MIN_TIME, PAUSE, Batch, describe_time
from cep.kernels.columns import NO_BYTES
from cep.kernels.jit import warm
from cep.kernels.join import KeyIndex, Ranges
from cep.kernels.tables.keys import Keys, joined_keys
from cep.kernels.tables.pane_groups import number_pane_groups, pane_groups
from cep.model.operators import Join
from cep.model.windows import TimeWindow

#: A number of a window, or int64[n] of them.
T = TypeVar("T", int, np.ndarray)


class InputPanes:
    """The rows of one input by pane, and within it by mark (rule 3; MIN_TIME: nothing was answered); those of thin panes
    (`cep.compile.windows.thin`) have no mark."""

    def __init__(self, window: TimeWindow) -> None:
        self.size, self.advance, self.offset = window.size, window.advance, window.offset
        self.reach = -(-window.size // window.advance)  # panes in a window
        self._bytes = 0  # of panes that are not thin
        self._panes: dict[int, dict[int, list[Batch]]] = {}
        self._rows: dict[int, int] = {}  # in each pane
        self._numbers: list[int] = []  # sorted
        self._thin = ThinPanes[ThinBatch]()

    @property
    def bytes(self) -> int:
        return self._bytes + self._thin.bytes

    @property
    def first(self) -> int | None:
        """The number of the oldest pane."""
        return self._thin.first_beside(self._numbers)

    def add(self, batch: Batch, mark: int = MIN_TIME) -> Iterator[Batch]:
        """It pauses where rows are of very many panes."""
        if not len(batch):
            return
        rows = ThinBatch.of(batch, (batch.time - self.offset) // self.advance)
        if mark != MIN_TIME or not are_thin(len(rows.starts), len(rows)):
            yield from self._put_apart(rows, mark)
            return
        self._thin.put(rows)
        if self._thin.too_many:
            yield from self.settle(EVERY)

    def settle(self, end: int) -> Iterator[Batch]:
        """Thin panes before `end` are kept by themselves."""
        for piece in self._thin.before(end):
            yield from self._put_apart(piece, MIN_TIME)
            yield PAUSE
        self._thin.free_before(end)

    def _put_apart(self, rows: ThinBatch, mark: int) -> Iterator[Batch]:
        for i, (number, batch) in enumerate(rows.apart()):
            if i % PARTS_MAX == PARTS_MAX - 1:
                yield PAUSE
            self._put(number, mark, batch)

    def _put(self, number: int, mark: int, rows: Batch) -> None:
        if number not in self._panes:
            insort(self._numbers, number)
            self._panes[number], self._rows[number] = {}, 0
        self._panes[number].setdefault(mark, []).append(rows)
        self._rows[number] += len(rows)
        self._bytes += batch_bytes(rows)

    def rows(self, k: int, end: int) -> int:
        """How many rows there are in all in windows `k` to before `end`, about."""
        apart = sum(self._rows[number] for number in self._inside(k, end))
        return self.reach * (apart + sum(map(len, self._thin.between(k - self.reach, end - 1))))

    def count(self, k: int, end: int) -> int:
        """How many of these have a row, at most."""
        return self.reach * (len(self._inside(k, end)) + self._thin.count(k - self.reach, end - 1))

    def windows(self, k: int, end: int) -> Generator[Batch, None, ThinBatch | None]:
        """The rows of windows `k` to before `end`, once for each that they are in, in the order of these."""
        found = [piece.repeated(*self._windows_of(piece.panes, k, end)) for piece in self._thin.between(k - self.reach, end - 1)]
        for number in self._inside(k, end):
            pane = self._panes[number]
            for mark in pane:
                pane[mark] = yield from together(pane[mark])
                for batch in pane[mark]:
                    panes = np.full(len(batch), number)
                    found.append(ThinBatch(batch, panes).repeated(*self._windows_of(panes, max(k, mark), end)))
        rows = joined(found)
        if rows is None or self.size % self.advance == 0:
            return rows
        inside = np.flatnonzero(rows.rows.time >= rows.panes * self.advance + self.offset - self.size)
        return ThinBatch(rows.rows.take(inside), rows.panes[inside]) if len(inside) else None

    def _windows_of(self, panes: np.ndarray, k: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last of windows `k` to before `end` that have these panes, or a part of them, int64[n] each."""
        return np.maximum(panes + 1, k), np.minimum(panes + self.reach, end - 1)

    def _inside(self, k: int, end: int) -> list[int]:
        """Panes of windows `k` to before `end` that are kept by themselves."""
        return self._numbers[bisect_left(self._numbers, k - self.reach) : bisect_left(self._numbers, end - 1)]

    def window(self, k: int) -> Generator[Batch, None, list[Batch]]:
        """The rows of window k, in blocks; it pauses while they are put together."""
        yield from self.settle(k)
        found: list[Batch] = []
        for number in self._inside(k, k + 1):
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
        self._thin.free_before(k - self.reach)
        over = bisect_left(self._numbers, k - self.reach)
        gone, self._numbers = self._numbers[:over], self._numbers[over:]
        for number in gone:
            del self._rows[number]
            self._bytes -= sum(batch_bytes(batch) for batches in self._panes.pop(number).values() for batch in batches)

    def marked(self) -> Iterator[tuple[int, Batch]]:
        for pane in self._panes.values():
            yield from ((mark, batch) for mark, batches in pane.items() for batch in batches)
        yield from ((MIN_TIME, piece.rows) for piece in self._thin.all())

    def fullest(self) -> Batch:
        """The pane with most rows, or at most LOOK_ROWS of it."""
        panes = [[batch for batches in pane.values() for batch in batches] for pane in self._panes.values()]
        panes += [[piece.rows] for piece in self._thin.all()]
        return concatenated(list(up_to(max(panes, key=lambda pane: sum(map(len, pane))), LOOK_ROWS)))


class WindowJoinOperator:
    def __init__(self, join: Join, matcher: Matcher, formats: tuple[SideFormat, SideFormat], state_limit: int) -> None:
        self.name, self.join, self.matcher, self.formats, self.state_limit = join.name, join, matcher, formats, state_limit
        self.spec, self.advance, self.offset = matcher.spec, join.window.advance, join.window.offset
        self.sides = InputPanes(join.window), InputPanes(join.right_window)
        self.since = MIN_TIME
        self.incomplete = 0  # windows with rows that begin before `since`
        self._choice = AtOnce()
        self._next: int | None = None  # windows before it are over
        warm(number_pane_groups)

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
        last = (watermark - self.offset) // self.advance
        while (k := self._next_window()) is not None and k <= last:
            self._leave(k)
            end = self._many(k, last)
            yield from self._fire(k) if end is None else self._fire_all(k, end)
            yield PAUSE
            self._leave(k + 1 if end is None else end)
        self._leave(last + 1)

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # Firing

    def _end(self, k: T) -> T:
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

    def _many(self, k: int, last: int) -> int | None:
        """The window before which those from `k` on are better made in one go."""
        if self._end(k) - max(side.size for side in self.sides) < self.since:
            return None
        rows, windows = (lambda n, of=of: sum(of(side, k, k + n) for side in self.sides) for of in (InputPanes.rows, InputPanes.count))
        return self._choice.end(k, last, rows, windows)

    def _fire_all(self, k: int, end: int) -> Iterator[Batch]:
        """Windows `k` to before `end`."""
        left = yield from self.sides[LEFT].windows(k, end)
        yield PAUSE
        right = yield from self.sides[RIGHT].windows(k, end)
        yield PAUSE
        sides = left, right
        matched = [np.zeros(0 if side is None else len(side), np.uint8) for side in sides]
        if left is not None and right is not None:
            met = ((a, b) for a, b, _ in self._met(left, right).pairs())
            yield from self.matcher.matches((left.rows, right.rows), met, matched, lambda a, _: self._end(left.panes[a]) - 1)
        for side, rows in enumerate(sides):
            if rows is not None and self.spec.keeps(side):
                alone = np.flatnonzero(matched[side] == 0)
                yield from self.matcher.unmatched(side, rows.rows, alone, self._end(rows.panes[alone]) - 1)

    def _met(self, left: ThinBatch, right: ThinBatch) -> Ranges:
        """Which rows of the right each of the left meets: those of its key in its window."""
        (of_left, null_left), (of_right, null_right) = (self.spec.encode(side, each.rows) for side, each in ((LEFT, left), (RIGHT, right)))
        numbers, _ = pane_groups(joined_keys([of_left, of_right]), np.concatenate([left.panes, right.panes]))
        named = [Keys(part.view(np.uint64), np.zeros(len(part), np.uint64), NO_BYTES) for part in np.split(numbers, [len(left)])]
        return KeyIndex.of(named[RIGHT], null_right).probe(named[LEFT], null_left)

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
