"""An interval join at work: a tuple meets at once those of the other input that have come, if right.t - left.t is from lower to upper.

Rules:

1. Each input's rows are kept in blocks, in the order in which they come: a row is put behind those that are there. A block is indexed by
   key and time when it is probed, as far as it is not yet. It has a bounded number of rows, so that what is done to one at once takes
   a bounded time; a full one is followed by the next.
2. A row is over when W is greater than t + reach: left rows reach max(0, upper), right ones max(0, -lower), further than any partner
   to come; without a bound only the end is far enough. Then it comes out if it met no partner and its side is kept. A block most of
   whose rows are over is made anew of the others, and small neighbours become one, so there are few.
3. The later of two tuples finds the earlier one, so each pair is found once; a snapshot's rows have met each other. What is left to
   say of a row is whether it met a partner.
4. A checkpoint has of each block what has come, or has met a partner, since those before it (`cep.kernels.tables.changes`), with the event
   time before which rows are over: what comes is never that old, so this says all that there is to say of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count

import numpy as np

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec
from cep.dataflow.joins.held_rows import HeldRows
from cep.dataflow.joins.matching import Matcher, SideFormat, matcher_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Keep, Part, check_state
from cep.dataflow.state.gathering import BLOCK_ROWS
from cep.elements import EVENT_TIME_MAX, MIN_TIME, PAUSE, Batch, describe_time, greatest_time
from cep.kernels.composed import selected
from cep.kernels.jit import warm
from cep.kernels.join import Ranges
from cep.kernels.tables.changes import ChangedBlocks
from cep.kernels.time_index import KERNELS, TimeIndex
from cep.model.operators import IntervalJoin

#: In place of a bound that is not there: µs, further than event times are apart from one another, and so also a reach.
_FAR = 1 << 62
#: Rows that are over for which no block is made anew.
_OVER_MIN = 256
_NONE = np.zeros(0, np.int64)


class JoinBlock:
    """Rows of one input. `latest` is the greatest event time of them.

    Which are over is known piece by piece, a piece being what came together: (least event time of what is not over, first row, end,
    event time before which its rows are over), a heap."""

    def __init__(self, like: Batch, table: int, room: int = 0) -> None:
        self.held, self.index, self.changed = HeldRows(like, room), TimeIndex(), ChangedBlocks(table)
        self.indexed = self.over_rows = 0
        self.latest = MIN_TIME
        self._pieces: list[tuple[int, int, int, int]] = []

    def __len__(self) -> int:
        return len(self.held)

    @property
    def bytes(self) -> int:
        return self.held.bytes + self.index.bytes + self.changed.bytes

    @property
    def first(self) -> int | None:
        """The least event time of what is not over."""
        return self._pieces[0][0] if self._pieces else None

    def add(self, batch: Batch, matched: np.ndarray) -> None:
        start, end, shift = len(self), len(self) + len(batch), self.changed.sizes.shift
        heappush(self._pieces, (int(batch.time.min()), start, end, MIN_TIME))
        self.latest = max(self.latest, greatest_time(batch.time))
        self.held.add(batch, matched)
        self.changed.fit(end)
        self.changed.marks[start >> shift : (end - 1 >> shift) + 1] = 1

    def meets(self, rows: np.ndarray) -> None:
        """Partners of those have come."""
        self.changed.marks[rows >> self.changed.sizes.shift] = 1

    def over(self, before: int) -> np.ndarray:
        """The rows of an event time before `before` that were not over yet; now they are."""
        if self.first is None or self.first >= before:
            return _NONE
        found = []
        while self._pieces and self._pieces[0][0] < before:
            _, start, stop, since = heappop(self._pieces)
            time = self.held.time[start:stop]
            found.append(start + np.flatnonzero((time >= since) & (time < before)))
            if len(left := time[time >= before]):
                heappush(self._pieces, (int(left.min()), start, stop, before))
        rows = np.sort(np.concatenate(found)) if len(found) > 1 else found[0]
        self.over_rows += len(rows)
        return rows

    def rest(self) -> tuple[Batch, np.ndarray]:
        """What is not over, and what is said of it."""
        rows = self._left()
        return self.held.batch.take(rows), self.held.matched[rows]

    def taken(self, rows_format: SideFormat) -> Part:
        """The same for a checkpoint. Its rows stay as they are, so what there is to copy is copied when it is written; what is said of them
        does not."""
        if not self.over_rows:
            return rows_format.part([self.held.batch], [self.held.matched.copy()])
        rows = self._left()
        return rows_format.part([self.held.batch], [self.held.matched[rows]], [rows])

    def changes(self, rows_format: SideFormat, number: int, over: int) -> Part:
        """Of all rows that are there what checkpoints before `number` do not have."""
        batch, matched = self.held.batch, self.held.matched
        blocks = self.changed.take(number, len(self), max(1, self.held.bytes // len(self)))
        if blocks.entries == len(self):
            return rows_format.blocks_part(batch, matched.copy(), None, blocks, over)
        rows = (blocks.numbers[:, None] * blocks.size + np.arange(blocks.size)).reshape(-1)[: blocks.entries]
        return rows_format.blocks_part(batch, matched[rows], rows, blocks, over)

    def _left(self) -> np.ndarray:
        """The rows that are not over."""
        pieces = sorted(self._pieces, key=lambda piece: piece[1])
        time = self.held.time
        found = [start + np.flatnonzero(time[start:stop] >= since) for _, start, stop, since in pieces]
        return np.concatenate([_NONE, *found])

    def is_probed_for(self, least: int, greatest: int) -> bool:
        """May there be a row in it, not over, of an event time from `least` to `greatest`?"""
        return self.first is not None and self.first <= greatest and self.latest >= least

    def ready(self, spec: JoinSpec, side: int) -> TimeIndex:
        """The index of all its rows."""
        if self.indexed < len(self):
            new, there = slice(self.indexed, len(self)), self.held.batch
            keys = Batch(selected(there.columns, [field.name for field in spec.keys[side]]), there.time).take(new)
            self.index.add(*spec.encode(side, keys), keys.time, self.indexed)
            self.indexed = len(self)
        return self.index


class Side:
    """The blocks of one input, the oldest first. `tables`: numbers for them. Rows of an event time before `before` are over."""

    def __init__(self, reach: int, tables: Iterator[int]) -> None:
        self.reach, self.bounded, self._tables = reach, reach < _FAR, tables
        self.blocks: list[JoinBlock] = []
        self.before = MIN_TIME

    @property
    def bytes(self) -> int:
        return sum(block.bytes for block in self.blocks)

    def end(self, time: np.ndarray) -> np.ndarray:
        """int64[n]: when it is known of rows of these event times that no partner comes; without a bound at the end of event time."""
        return time + self.reach if self.bounded else np.full(len(time), EVENT_TIME_MAX)

    @property
    def first(self) -> int | None:
        """The least event time of what is not over."""
        return min((block.first for block in self.blocks if block.first is not None), default=None)

    @property
    def last(self) -> int | None:
        """The greatest."""
        return max((block.latest for block in self.blocks), default=None)

    def add(self, batch: Batch, matched: np.ndarray) -> None:
        if not self.blocks or len(self.blocks[-1]) + len(batch) > BLOCK_ROWS:
            self.blocks.append(JoinBlock(batch, next(self._tables)))
        self.blocks[-1].add(batch, matched)

    def over(self, watermark: int, kept: bool) -> Iterator[tuple[HeldRows, np.ndarray]]:
        """(rows that are held, which of them met no partner) of what `watermark` has passed; where such rows are not `kept`, not of blocks
        that are over as a whole."""
        self.before = max(self.before, watermark - self.reach)
        left: list[JoinBlock] = []
        for block in self.blocks:
            if not kept and block.latest < watermark - self.reach:
                continue
            rows = block.over(watermark - self.reach)
            if len(rows):
                yield block.held, rows[block.held.matched[rows] == 0]
            if block.first is not None:
                self._keep(left, block)
        self.blocks = left

    def _keep(self, left: list[JoinBlock], block: JoinBlock) -> None:
        """Puts it behind those that are `left`: as it is, made anew, or as a part of the last one."""
        crowded = bool(left) and len(left[-1]) + len(block) <= BLOCK_ROWS // 2
        if crowded:
            left[-1].add(*block.rest())
        elif block.over_rows > _OVER_MIN and 2 * block.over_rows > len(block):
            rest = block.rest()
            left.append(JoinBlock(rest[0], next(self._tables), len(block)))
            left[-1].add(*rest)
        else:
            left.append(block)


class IntervalJoinOperator:
    def __init__(self, join: IntervalJoin, matcher: Matcher, formats: tuple[SideFormat, SideFormat], state_limit: int) -> None:
        self.name, self.join, self.matcher, self.formats, self.state_limit = join.name, join, matcher, formats, state_limit
        self.spec = matcher.spec
        self.lower, self.upper = -_FAR if join.lower is None else join.lower, _FAR if join.upper is None else join.upper
        tables = count(1)
        self.sides = Side(max(0, self.upper), tables), Side(max(0, -self.lower), tables)
        self.since, self.incomplete = MIN_TIME, 0

    @property
    def state_bytes(self) -> int:
        return sum(side.bytes for side in self.sides)

    def _awaited(self) -> list[Side]:
        """Those of which a watermark lets out rows that met none."""
        return [side for port, side in enumerate(self.sides) if self.spec.keeps(port) and side.bounded]

    @property
    def next_end(self) -> int | None:
        return min((side.first + side.reach + 1 for side in self._awaited() if side.first is not None), default=None)

    @property
    def last_end(self) -> int | None:
        """The watermark that lets all unmatched rows out that are held."""
        return max((side.last + side.reach + 1 for side in self._awaited() if side.last is not None), default=None)

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        if not len(batch):
            return
        own, matched = self.formats[port].read(batch), np.zeros(len(batch), np.uint8)
        blocks = self.sides[1 - port].blocks
        if blocks:
            keys, (low, high) = self.spec.encode(port, own), self._span(port, own.time)
            least, greatest = int(low.min()), greatest_time(high)
            for other in blocks:
                if other.is_probed_for(least, greatest):
                    ranges = other.ready(self.spec, 1 - port).probe(*keys, low, high)
                    yield from self._matches((own, matched), other, ranges, port)
                    yield PAUSE
        self.sides[port].add(own, matched)
        self._check()

    def _span(self, port: int, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The times that partners of rows of input `port` have, from and to."""
        if port == LEFT:
            return time + self.lower, time + self.upper
        return time - self.upper, time - self.lower

    def _matches(self, own: tuple[Batch, np.ndarray], block: JoinBlock, ranges: Ranges, port: int) -> Iterator[Batch]:
        other = block.held.batch, block.held.matched
        (left, of_left), (right, of_right) = (own, other) if port == LEFT else (other, own)
        met = ((a, b) if port == LEFT else (b, a) for a, b in self._met(block, ranges, 1 - port))
        yield from self.matcher.matches((left, right), met, (of_left, of_right), lambda a, b: np.maximum(left.time[a], right.time[b]))

    def _met(self, block: JoinBlock, ranges: Ranges, side: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows of what has come and of the block; that those of a side that comes out alone have met one is a change."""
        for own, rows, _ in ranges.pairs():
            if self.spec.keeps(side):
                block.meets(rows)
            yield own, rows

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for port, side in enumerate(self.sides):
            for held, alone in side.over(watermark, self.spec.keeps(port)):
                if self.spec.keeps(port):
                    yield from self.matcher.unmatched(port, held.batch, alone, side.end(held.time[alone]))
                yield PAUSE

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # State

    def snapshot(self) -> list[Part]:
        parts = []
        for side, rows_format in zip(self.sides, self.formats, strict=True):
            parts += [block.taken(rows_format) for block in side.blocks] or [rows_format.part([], [])]
        return parts

    def changes(self, number: int) -> list[Part]:
        parts = []
        for side, rows_format in zip(self.sides, self.formats, strict=True):
            parts += [block.changes(rows_format, number, side.before) for block in side.blocks] or [rows_format.part([], [])]
        return parts

    def stored(self, number: int) -> None:
        for side in self.sides:
            for block in side.blocks:
                block.changed.stored(number)

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            batch, matched = self.formats[part.port].rows(part, keep)
            for start in range(0, len(batch), BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                self.sides[part.port].add(batch.take(block), matched[block].astype(np.uint8))
        self._check()

    def clear(self) -> None:
        for side in self.sides:
            side.blocks = []

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        port = max((LEFT, RIGHT), key=lambda port: self.sides[port].bytes)
        side = self.sides[port]
        keys = self.spec.largest_keys(port, max(side.blocks, key=len).rest()[0]) if side.blocks else "none"
        return f"rows from {describe_time(side.first)} on; most are of the {('left', 'right')[port]}, largest keys: {keys}"


def build(join: IntervalJoin, context: BuildContext) -> IntervalJoinOperator:
    warm(*KERNELS)
    return IntervalJoinOperator(join, *matcher_of(join, context), context.state_limit)
