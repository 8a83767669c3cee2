"""Operators at work: one object per operator instance, built from the frozen description, never refusing input.

An operator is handed a batch or a watermark and yields batches; the instance that pulls may pause between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from cep.compile.aggregate import AggregateSpec, WindowState
from cep.compile.chain import Chain
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.elements import MIN_TIME, Batch
from cep.errors import StateLimitExceeded

Clock = Callable[[], int]  # µs since the epoch


class Operator(Protocol):
    name: str

    @property
    def state_bytes(self) -> int: ...

    def on_batch(self, batch: Batch) -> Iterator[Batch]: ...

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        """Every input has promised `watermark`; what this lets out comes before the watermark goes on."""


class ChainOperator:
    """A run of maps and filters as one machine-code loop."""

    state_bytes = 0

    def __init__(self, name: str, chain: Chain, clock: Clock, dead_letters: DeadLetters) -> None:
        self.name, self.chain, self.clock, self.dead_letters = name, chain, clock, dead_letters

    def on_batch(self, batch: Batch) -> Iterator[Batch]:
        result = self.chain.process(batch.columns, len(batch), self.clock())
        for failure in result.failures:
            self.dead_letters.put(Letter(failure.operator, failure.reason, position=_position(batch, failure.row)))
        time, origin = batch.time, batch.origin
        if result.kept is not None:
            time, origin = time[result.kept], None if origin is None else origin[result.kept]
        if len(time):
            yield Batch(result.columns, time, origin, batch.created)

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        yield from ()


def _position(batch: Batch, row: int) -> str:
    where = f"event time {int(batch.time[row])} µs"
    return where if batch.origin is None else f"{where}, record {int(batch.origin[row, 1])}"


class PassOperator:
    """Union, and the empty subquery that only reads a stream: tuples as they come."""

    state_bytes = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def on_batch(self, batch: Batch) -> Iterator[Batch]:
        yield batch

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        yield from ()


class AggregateOperator:
    """An Aggregate, whole, or one of its two stages (tuples to partials, partials to answers)."""

    def __init__(self, name: str, spec: AggregateSpec, state_limit: int, dead_letters: DeadLetters) -> None:
        self.name, self.spec, self.state_limit, self.dead_letters = name, spec, state_limit, dead_letters
        self.answers, self.window_size = spec.stage != "partial", spec.window.size
        self.state = WindowState(spec, name)
        self.since = MIN_TIME
        self.open_panes_max = 0
        self.incomplete = 0  # answers withheld because their windows begin before `since`

    @property
    def state_bytes(self) -> int:
        return self.state.bytes

    def on_batch(self, batch: Batch) -> Iterator[Batch]:
        self.state.add(batch)
        self.open_panes_max = max(self.open_panes_max, self.state.open_panes)
        if self.state.bytes > self.state_limit:
            raise StateLimitExceeded(
                f"operator {self.name!r}: its state of {self.state.bytes} bytes is over the limit of {self.state_limit} bytes, "
                f"with {self.state.open_panes} panes open from the window ending at {self.state.oldest_window_end} µs; "
                f"largest keys: {self.state.largest_keys(3)}"
            )
        yield from ()

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for batch in self.state.advance(watermark):
            complete = self._complete(batch)
            if len(complete):
                yield complete
        self._bury()

    def _bury(self) -> None:
        """Sums that did not fit are NULL in their answers, and dead letters with their groups (DESIGN 5.7)."""
        failures, more = self.state.take_failures()
        for failure in failures:
            self.dead_letters.put(Letter(self.name, failure.reason, position=f"group {failure.group}, event time {failure.time} µs"))
        self.dead_letters.count_only(self.name, more)

    def _complete(self, batch: Batch) -> Batch:
        if not self.answers or self.since == MIN_TIME:
            return batch
        kept = np.flatnonzero(batch.time + (1 - self.window_size) >= self.since)
        self.incomplete += len(batch) - len(kept)
        return batch if len(kept) == len(batch) else batch.take(kept)
