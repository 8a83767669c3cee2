"""An Aggregate that takes its tuples in stream order: it holds them until the watermark has passed, then a state takes them: `PerRowState`
where every tuple is answered, else `SequentialState`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cep.compile.aggregate.results import listed
from cep.compile.aggregate.spec import AggregateSpec, free_prefix
from cep.compile.chain.chain import Chain, compile_chain
from cep.compile.windows.per_row import PerRowState
from cep.compile.windows.sequential import SequentialState
from cep.compile.windows.sequential_snapshot import RowFilter, restore, snapshot
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.operator import NOTHING, ChainOperator, Clock, Keep, Part, check_state, put_overflows, without_long_values
from cep.dataflow.operators.sequential import LOOK_BYTES
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.kernels.columns import Column
from cep.model.expr import col
from cep.model.operators import Map
from cep.model.windows import TransactionWindow, UnboundedWindow


class SequentialAggregate:
    """SIZE, SESSION and TRANSACTION windows, and UNBOUNDED with an answer per tuple; tuples have origins of `origin_words` words."""

    gives_out = True  # what comes out is for users

    def __init__(self, name: str, spec: AggregateSpec, origin_words: int, limit: int, clock: Clock, dead_letters: DeadLetters) -> None:
        self.name, self.spec, self.state_limit, self.dead_letters = name, spec, limit, dead_letters
        self.since = MIN_TIME
        self.incomplete = 0  # windows dropped at the end, since they waited for more tuples
        self._taken = 0  # bytes of the state, when last looked at; it grows with what is taken
        self._look_at = 0  # of what the hold has let out: when to look again
        chain = _conditions(spec)
        self.conditions = None if chain is None else ChainOperator(name, chain, clock, dead_letters)
        self.flags = () if chain is None else chain.schema.names[-2:]
        self.hold = Hold(spec.schema if chain is None else chain.schema, origin_words, spec.ties)
        per_row = isinstance(spec.operator.window, UnboundedWindow)
        self.state: PerRowState | SequentialState = PerRowState(spec, name) if per_row else SequentialState(spec, name, origin_words)

    @property
    def state_bytes(self) -> int:
        return self.hold.bytes + self.state.bytes

    @property
    def outside(self) -> int:
        """Tuples that belonged to no window."""
        return self.state.outside

    @property
    def next_end(self) -> int | None:
        ends = [each + 1 for each in (self.hold.first, self.state.first_deadline) if each is not None]
        return min(ends, default=None)

    @property
    def last_end(self) -> int | None:
        return self.next_end

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        for each in [batch] if self.conditions is None else self.conditions.on_batch(batch, 0):
            self.hold.add(each)
        if self.hold.bytes + self._taken > self.state_limit:
            self._check()
        return NOTHING

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for batch in self._answers(watermark):
            yield without_long_values(batch, self.name, self.dead_letters) if self.gives_out else batch

    def _answers(self, watermark: int) -> Iterator[Batch]:
        for batch in self.hold.release(watermark):
            yield from self._take(batch)
            if self.hold.released >= self._look_at:
                self._check()
        yield from self.state.close(watermark)
        if watermark == MAX_TIME:
            yield from self._finish()
        if self.state.failed:
            put_overflows(self.name, self.dead_letters, *self.state.take_failures())

    def _take(self, batch: Batch) -> Iterator[Batch]:
        if isinstance(self.state, SequentialState) and self.flags:
            return self.state.take(batch, *[_flag(batch, name) for name in self.flags])
        return self.state.take(batch)

    def _finish(self) -> Iterator[Batch]:
        if self.spec.operator.emit_partial:
            yield from self.state.finish()
        else:
            self.incomplete += self.state.incomplete

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    def snapshot(self) -> list[Part]:
        held = Part("held", 0, self.hold.snapshot())
        if isinstance(self.state, PerRowState):
            return [held, *(Part("groups", 0, rows) for rows in self.state.snapshot())]
        return [held, Part("groups", 0, snapshot(self.state))]

    def changes(self, number: int) -> list[Part]:
        if not isinstance(self.state, PerRowState):
            return self.snapshot()
        held = Part("held", 0, self.hold.snapshot())
        return [held, *(Part("groups", 0, rows, blocks) for rows, blocks in self.state.changes(number))]

    def stored(self, number: int) -> None:
        if isinstance(self.state, PerRowState):
            self.state.stored(number)

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for batch in [part.batch for part in parts if part.name == "held"]:
            self.hold.restore(batch, keep(0, self.hold.columns(batch)).astype(bool))
        self._restore([part for part in parts if part.name == "groups"], lambda columns: keep(0, columns))

    def _restore(self, groups: Sequence[Part], keep: RowFilter) -> None:
        if isinstance(self.state, PerRowState):
            self.state.restore([part.batch for part in groups], keep, [part.found for part in groups if part.found is not None])
            return
        for part in groups:
            restore(self.state, part.batch, keep)

    def clear(self) -> None:
        self.hold.clear()
        self.state.clear()

    def _check(self) -> None:
        self._look_at = self.hold.released + LOOK_BYTES
        self._taken = self.state.bytes
        if self.hold.bytes + self._taken > self.state_limit:
            check_state(self, self.state_limit)

    def contents(self) -> str:
        what = f"{self.state.groups.rows} groups and {len(self.hold)} tuples held, of window {self.state.window!r}"
        return f"{what}; largest keys: {listed(self.largest_keys(3))}"

    def largest_keys(self, most: int) -> list[str]:
        """The groups of which most tuples are held; where none are, of which most were taken."""
        return self.hold.largest_keys(self.spec.by, most) or self.state.largest_keys(most)


def _conditions(spec: AggregateSpec) -> Chain | None:
    """For transactions: adds to each tuple two columns, does it open and does it close one?"""
    window = spec.operator.window
    if not isinstance(window, TransactionWindow):
        return None
    prefix = free_prefix("_t", spec.schema.names)
    fields = [*((name, col(name)) for name in spec.schema.names), (f"{prefix}0", window.open), (f"{prefix}1", window.close)]
    return compile_chain((Map(spec.operator.name, spec.operator.input, tuple(fields)),), spec.schema)


def _flag(batch: Batch, name: str) -> np.ndarray:
    """uint8[n]: is it true?"""
    column: Column = batch.columns[name]
    return np.ascontiguousarray(column.values if column.valid is None else column.values & column.valid)
