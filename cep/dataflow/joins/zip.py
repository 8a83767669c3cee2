"""A zip at work: the n-th tuples of two inputs in stream order.

Both inputs are held until W > t and taken in stream order. Of one of them there may be more: those wait for partners, and are all before
what is still held, so that a snapshot is the rows that wait and those that are held, and a restored instance takes them in order again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.matching import compacted_rows, spec_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import NOTHING, Keep, Part, check_state
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME, MIN_TIME, PAUSE, Batch
from cep.model.operators import Zip


class ZipOperator:
    def __init__(self, name: str, spec: JoinSpec, holds: tuple[Hold, Hold], state_limit: int) -> None:
        self.name, self.spec, self.holds, self.state_limit = name, spec, holds, state_limit
        self.since, self.incomplete = MIN_TIME, 0  # it has no windows; tuples that had no partner at the end
        self._waiting: tuple[deque[Batch], deque[Batch]] = deque(), deque()  # of one input at most, but while it takes more
        self._waiting_bytes = 0

    @property
    def state_bytes(self) -> int:
        return sum(hold.bytes for hold in self.holds) + self._waiting_bytes

    @property
    def next_end(self) -> int | None:
        """When both of the next pair are let out."""
        firsts = [MIN_TIME if waiting else hold.first for hold, waiting in zip(self.holds, self._waiting, strict=True)]
        known = [first for first in firsts if first is not None]
        return max(known) + 1 if len(known) == len(firsts) else None

    @property
    def last_end(self) -> int | None:
        """The watermark that lets all rows out that are held."""
        return max((last + 1 for hold in self.holds if (last := hold.last) is not None), default=None)

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        self.holds[port].add(compacted_rows(batch))
        self._check()
        return NOTHING

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for hold, waiting in zip(self.holds, self._waiting, strict=True):
            for batch in hold.release(watermark):
                waiting.append(batch)
                self._waiting_bytes += batch_bytes(batch)
                yield PAUSE
        while self._waiting[LEFT] and self._waiting[RIGHT]:
            yield self._pairs()
        if watermark == MAX_TIME:
            self.incomplete += sum(map(len, (*self._waiting[LEFT], *self._waiting[RIGHT])))
            self.clear()

    def _pairs(self) -> Batch:
        """As many as the first batches of both have."""
        n = min(len(waiting[0]) for waiting in self._waiting)
        left, right = (self._first(waiting, n) for waiting in self._waiting)
        rows = np.arange(n)
        return self.spec.joined((left, rows), (right, rows), np.maximum(left.time, right.time))

    def _first(self, waiting: deque[Batch], n: int) -> Batch:
        """Takes the first `n` rows of the first batch."""
        batch = waiting.popleft()
        self._waiting_bytes -= batch_bytes(batch)
        if len(batch) > n:
            waiting.appendleft(rest := batch.take(slice(n, None)))
            self._waiting_bytes += batch_bytes(rest)
        return batch.take(slice(0, n))

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # State

    def snapshot(self) -> list[Part]:
        return [part for port in (LEFT, RIGHT) for part in self._parts(port)]

    def _parts(self, port: int) -> Iterator[Part]:
        hold, waiting = self.holds[port], self._waiting[port]
        yield Part("held", port, hold.snapshot())
        if waiting:
            yield Part("waiting", port, hold.format.to_arrow(concatenated(list(waiting))))

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            hold = self.holds[part.port]
            hold.restore(part.batch, keep(part.port, hold.columns(part.batch)).astype(bool))
        self._check()

    def clear(self) -> None:
        for hold, waiting in zip(self.holds, self._waiting, strict=True):
            hold.clear()
            waiting.clear()
        self._waiting_bytes = 0

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        left, right = (len(hold) + sum(map(len, waiting)) for hold, waiting in zip(self.holds, self._waiting, strict=True))
        return f"{left} left and {right} right rows, of which the one side waits for the other"


def build(operator: Zip, context: BuildContext) -> ZipOperator:
    spec = spec_of(operator, context.layout.validated.schemas[operator.right], context)
    return ZipOperator(operator.name, spec, (context.hold(operator.left), context.hold(operator.right)), context.state_limit)
