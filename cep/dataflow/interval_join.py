"""An interval join at work: a tuple meets at once those of the other input that have come, if right.t - left.t is from lower to upper.

Rules:

1. Each input's rows are kept in runs, sorted by time, each indexed by key when it is first probed. A new run is merged with the one
   before unless that is more than twice as long, so there are few, and a row is merged a number of times that grows as the logarithm.
   None is longer than a block, so that merging and indexing one takes a bounded time.
2. A row is over when W is greater than t + reach: left rows reach max(0, upper), right ones max(0, -lower), further than any partner
   to come. Then it comes out if it met nobody and its side is kept, and is passed over: a run is sorted, so that is its beginning.
   A run half of which is over is cut.
3. The later of two tuples finds the earlier one, so each pair is found once; a snapshot's rows have met each other. What is left to
   say of a row is whether it met anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cep.compile.joined import LEFT, RIGHT, JoinSpec
from cep.dataflow.channel import batch_bytes
from cep.dataflow.matching import Matcher, SideFormat, compacted
from cep.dataflow.operators import Keep, Part, check_state
from cep.dataflow.output import concat
from cep.dataflow.putting_together import BLOCK_ROWS
from cep.elements import MIN_TIME, PAUSE, Batch, describe_time
from cep.kernels.join import KeyIndex, Ranges
from cep.model.operators import IntervalJoin


class Run:
    """Rows of one input in order of time; those before `first` are over."""

    def __init__(self, batch: Batch, matched: np.ndarray) -> None:
        order = np.argsort(batch.time, kind="stable")
        in_order = bool((np.diff(batch.time) >= 0).all())
        self.batch = batch if in_order else batch.take(order)
        self.matched = matched if in_order else matched[order]
        self.first = 0
        self.bytes = batch_bytes(batch) + len(batch)
        self._index: KeyIndex | None = None

    def __len__(self) -> int:
        return len(self.batch) - self.first

    def index(self, spec: JoinSpec, side: int) -> KeyIndex:
        if self._index is None:
            self._index = spec.index(side, self.batch)
            self.bytes += self._index.bytes
        return self._index

    def over(self, before: int) -> np.ndarray:
        """The rows of an event time before `before` that were not over yet; now they are."""
        first, self.first = self.first, max(self.first, int(np.searchsorted(self.batch.time, before)))
        return np.arange(first, self.first)

    def rest(self) -> Run:
        """What is not over, in memory of its own."""
        rows = np.arange(self.first, len(self.batch))
        return Run(compacted(self.batch.take(rows)), self.matched[rows])

    def merged(self, newer: Run) -> Run:
        parts = [run.rest() if run.first else run for run in (self, newer)]
        return Run(concat([run.batch for run in parts]), np.concatenate([run.matched for run in parts]))


class Side:
    """The runs of one input, the oldest and longest first."""

    def __init__(self, reach: int) -> None:
        self.reach = reach
        self.runs: list[Run] = []

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.runs)

    @property
    def first(self) -> int | None:
        """The least event time of what is not over."""
        return min((int(run.batch.time[run.first]) for run in self.runs if len(run)), default=None)

    @property
    def last(self) -> int | None:
        """The greatest."""
        return max((int(run.batch.time[-1]) for run in self.runs), default=None)

    def add(self, run: Run) -> None:
        self.runs.append(run)
        while len(self.runs) > 1 and len(self.runs[-2]) <= min(2 * len(self.runs[-1]), BLOCK_ROWS - len(self.runs[-1])):
            newer = self.runs.pop()
            self.runs[-1] = self.runs[-1].merged(newer)

    def over(self, watermark: int) -> Iterator[tuple[Batch, np.ndarray]]:
        """(batch, rows of it that met nobody) of what `watermark` has passed."""
        left = []
        for run in self.runs:
            rows = run.over(watermark - self.reach)
            if len(rows):
                yield run.batch, rows[run.matched[rows] == 0]
            if len(run):
                left.append(run.rest() if 2 * run.first > len(run.batch) else run)
        self.runs = left


class IntervalJoinOperator:
    def __init__(self, join: IntervalJoin, matcher: Matcher, formats: tuple[SideFormat, SideFormat], state_limit: int) -> None:
        self.name, self.join, self.matcher, self.formats, self.state_limit = join.name, join, matcher, formats, state_limit
        self.spec = matcher.spec
        self.sides = Side(max(0, join.upper)), Side(max(0, -join.lower))
        self.since, self.incomplete = MIN_TIME, 0

    @property
    def state_bytes(self) -> int:
        return sum(side.bytes for side in self.sides)

    @property
    def next_end(self) -> int | None:
        kept = [side for port, side in enumerate(self.sides) if self.spec.keeps(port)]
        return min((side.first + side.reach + 1 for side in kept if side.first is not None), default=None)

    @property
    def last_end(self) -> int | None:
        """The watermark that lets all unmatched rows out that are held."""
        kept = [side for port, side in enumerate(self.sides) if self.spec.keeps(port)]
        return max((side.last + side.reach + 1 for side in kept if side.last is not None), default=None)

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        own = Run(self.formats[port].kept(batch), np.zeros(len(batch), np.uint8))
        keys, span = self.spec.encode(port, own.batch), self._span(port, own.batch.time)
        for other in self.sides[1 - port].runs if len(own) else ():
            if other.batch.time[-1] >= span[0][0] and other.batch.time[other.first] <= span[1][-1]:
                ranges = other.index(self.spec, 1 - port).probe(*keys)
                ranges.narrow(other.batch.time, *span)
                yield from self._matches(own, other, ranges, port)
                yield PAUSE
        if len(own):
            self.sides[port].add(own)
        self._check()

    def _span(self, port: int, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The times that partners of rows of input `port` have, from and to."""
        if port == LEFT:
            return time + self.join.lower, time + self.join.upper
        return time - self.join.upper, time - self.join.lower

    def _matches(self, own: Run, other: Run, ranges: Ranges, port: int) -> Iterator[Batch]:
        left, right = (own, other) if port == LEFT else (other, own)
        met = ((a, b) if port == LEFT else (b, a) for a, b, _ in ranges.pairs())
        times = left.batch.time, right.batch.time
        yield from self.matcher.matches(
            (left.batch, right.batch), met, (left.matched, right.matched), lambda a, b: np.maximum(times[LEFT][a], times[RIGHT][b])
        )

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for port, side in enumerate(self.sides):
            for batch, alone in side.over(watermark):
                if self.spec.keeps(port):
                    yield from self.matcher.unmatched(port, batch, alone, batch.time[alone] + side.reach)
                yield PAUSE

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # State

    def snapshot(self) -> list[Part]:
        parts = []
        for side, rows_format in zip(self.sides, self.formats, strict=True):
            rest = [run.rest() for run in side.runs]
            parts.append(rows_format.part([run.batch for run in rest], [run.matched.astype(np.int64) for run in rest]))
        return parts

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            batch, matched = self.formats[part.port].rows(part, keep)
            for start in range(0, len(batch), BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                self.sides[part.port].add(Run(batch.take(block), matched[block].astype(np.uint8)))
        self._check()

    def clear(self) -> None:
        for side in self.sides:
            side.runs = []

    def _check(self) -> None:
        if self.state_bytes > self.state_limit:
            port = max((LEFT, RIGHT), key=lambda port: self.sides[port].bytes)
            side = self.sides[port]
            keys = self.spec.largest_keys(port, max(side.runs, key=len).batch)
            what = f"rows from {describe_time(side.first)} on; most are of the {('left', 'right')[port]}, largest keys: {keys}"
            check_state(self.name, self.state_bytes, self.state_limit, what)
