"""An as-of join at work: each left tuple with the last right one in stream order that is not later.

Both inputs are held until W > t and taken in stream order, a batch of right rows at a time and the left tuples before the next one. It is
searched by binary search within its keys; before it, what has been taken earlier: of each key the last right row, in runs, the newest
last, of which each is at most half as long as the one before. So a watermark costs as much as the rows that it lets out, not as the keys
that there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.matching import compacted_rows, spec_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Keep, Part, check_state
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.state.hold import Hold
from cep.elements import MIN_TIME, PAUSE, Batch
from cep.kernels.arrays import empty_batch
from cep.kernels.columns import Column
from cep.kernels.join import KeyIndex
from cep.model.operators import AsOfJoin
from cep.model.schema import INT64

LAST = "last"


class RightRun:
    """Right rows in stream order, by key; indexed when they are first probed."""

    def __init__(self, spec: JoinSpec, batch: Batch) -> None:
        self.spec, self.batch = spec, batch
        self.bytes = batch_bytes(batch)
        self._index: KeyIndex | None = None

    @property
    def index(self) -> KeyIndex:
        if self._index is None:
            self._index = self.spec.index(RIGHT, self.batch)
            self.bytes += self._index.bytes
        return self._index


class _Rows:
    """Batches in order of time, taken up to one time after the other."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches, self._batch = batches, PAUSE

    def before(self, time: int) -> Iterator[Batch]:
        while True:
            ready = int(self._batch.time.searchsorted(time))
            if ready:
                first, self._batch = self._batch.take(slice(0, ready)), self._batch.take(slice(ready, None))
                yield first
            if len(self._batch):
                return
            following = next(self._batches, None)
            if following is None:
                return
            self._batch = following


class AsOfJoinOperator:
    def __init__(self, join: AsOfJoin, spec: JoinSpec, holds: tuple[Hold, Hold], state_limit: int) -> None:
        self.name, self.spec, self.holds, self.state_limit = join.name, spec, holds, state_limit
        self.tolerance = join.tolerance
        self.since, self.incomplete = MIN_TIME, 0
        self._runs: list[RightRun] = []

    @property
    def state_bytes(self) -> int:
        return sum(hold.bytes for hold in self.holds) + sum(run.bytes for run in self._runs)

    @property
    def next_end(self) -> int | None:
        first = self.holds[LEFT].first
        return None if first is None else first + 1

    @property
    def last_end(self) -> int | None:
        """The watermark that lets all left rows out that are held."""
        last = self.holds[LEFT].last
        return None if last is None else last + 1

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        self.holds[port].add(compacted_rows(batch))
        self._check()
        yield from ()

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        lefts = _Rows(self.holds[LEFT].release(watermark))
        rights = (batch for batch in self.holds[RIGHT].release(watermark) if len(batch))
        right = next(rights, None)
        while right is not None:
            following = next(rights, None)
            until = watermark if following is None else int(following.time.item(0))  # from here on a left tuple may see more
            run = self._run(right)
            for left in lefts.before(until):
                yield self._joined(left, [*self._runs, run])
            self._take(run, until)
            yield PAUSE
            right = following
        for left in lefts.before(watermark):
            yield self._joined(left, self._runs)
        self._check()

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # Right rows

    def _run(self, batch: Batch) -> RightRun:
        return RightRun(self.spec, batch)

    def _take(self, run: RightRun, watermark: int) -> None:
        """The last row of each key is what later left tuples see."""
        self._runs.append(self._lasts(run, watermark))
        while len(self._runs) > 1 and len(self._runs[-2].batch) <= 2 * len(self._runs[-1].batch):
            newer = self._runs.pop()
            older = self._runs.pop()
            self._runs.append(self._lasts(self._run(concatenated([older.batch, newer.batch])), watermark))

    def _lasts(self, run: RightRun, watermark: int) -> RightRun:
        """Without those that are too old for every left tuple to come."""
        rows = run.index.last_rows
        if self.tolerance is not None:
            rows = rows[run.batch.time[rows] >= watermark - self.tolerance]
        return run if len(rows) == len(run.batch) else self._run(compacted_rows(run.batch.take(rows)))

    # Tuples out

    def _joined(self, left: Batch, runs: Sequence[RightRun]) -> Batch:
        keys = self.spec.encode(LEFT, left)
        low = np.full(len(left), MIN_TIME) if self.tolerance is None else left.time - self.tolerance
        partners = np.full(len(left), -1)
        found: list[Batch] = []
        for run in reversed(runs):
            ranges = run.index.probe(*keys)
            ranges.narrow(run.batch.time, low, left.time)
            rows = np.flatnonzero((ranges.first < ranges.stop) & (partners < 0))
            partners[rows] = sum(map(len, found)) + np.arange(len(rows))
            found.append(run.batch.take(ranges.order[ranges.stop[rows] - 1]))
        rows = np.arange(len(left)) if self.spec.keeps(LEFT) else np.flatnonzero(partners >= 0)
        right = (concatenated(found), partners[rows]) if found else None
        return self.spec.joined((left, rows), right, left.time[rows])

    # State

    def snapshot(self) -> list[Part]:
        """What is held of each input, and of each key the last right row."""
        held = [Part("held", port, hold.snapshot()) for port, hold in enumerate(self.holds)]
        return [*held, Part(LAST, RIGHT, self._last_rows())]

    def _last_rows(self) -> pa.RecordBatch:
        rows_format = self.holds[RIGHT].format
        if not self._runs:
            return empty_batch(rows_format.arrow)
        run = self._run(concatenated([run.batch for run in self._runs]))
        return rows_format.to_arrow(run.batch.take(run.index.last_rows))

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            hold = self.holds[part.port]
            rows = hold.format.from_arrow(part.batch)
            kept = keep(part.port, {**rows.columns, "__time": Column(INT64, rows.time)}).astype(bool)
            if not kept.any():
                continue
            if part.name == LAST:
                self._take(self._run(rows.take(np.flatnonzero(kept))), MIN_TIME)
            else:
                hold.restore(part.batch, kept)
        self._check()

    def clear(self) -> None:
        self._runs = []
        for hold in self.holds:
            hold.clear()

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        rows = [sum(len(run.batch) for run in self._runs), *map(len, self.holds)]
        waiting = f"{rows[1]} left and {rows[2]} right rows wait from the watermark {self.next_end} on"
        port = max((LEFT, RIGHT), key=lambda port: self.holds[port].bytes)
        keys = self.spec.largest_keys(port, self.holds[port].some()) if len(self.holds[port]) else ""
        return f"the last right rows of {rows[0]} keys; {waiting}; largest keys of these: {keys or 'none'}"


def build(join: AsOfJoin, context: BuildContext) -> AsOfJoinOperator:
    spec = spec_of(join, context.layout.validated.schemas[join.right], context)
    return AsOfJoinOperator(join, spec, (context.hold(join.left), context.hold(join.right)), context.state_limit)
