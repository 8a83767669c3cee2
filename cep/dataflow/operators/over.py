"""Over: every tuple with what trailing windows make of those before it, in stream order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep.compile.aggregate.results import listed
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.windows.trailing import TrailingState
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Keep, Part, put_overflows, without_long_values
from cep.dataflow.operators.sequential import HELD, SequentialOperator
from cep.dataflow.state.hold import Hold, whole_instants
from cep.dataflow.state.lags import KERNELS, Lag, Lags
from cep.elements import PAUSE, Batch
from cep.kernels.columns import Column
from cep.kernels.jit import warm
from cep.model.functions import OF_OVER
from cep.model.operators import Aggregate, Over
from cep.model.windows import UnboundedWindow

WINDOWS, LAGS = "windows", "lags"


class OverOperator(SequentialOperator):
    """`spec`: of its functions but lags; None where there are no others."""

    def __init__(self, over: Over, spec: AggregateSpec | None, hold: Hold, state_limit: int, dead_letters: DeadLetters) -> None:
        super().__init__(over.name, hold, state_limit)
        self.over, self.dead_letters = over, dead_letters
        self.state = None if spec is None else TrailingState(spec, over.name, over.window, over.ttl)
        asked = [Lag(name, f.column or "", int(f.parameter("k"))) for name, f in over.functions if f.name == "lag"]
        numbered = [name for name, f in over.functions if f.name == "row_number"]
        by = tuple(hold.schema[name] for name in over.by)
        self.lags = Lags(by, asked, hold.schema, over.ttl, numbered) if asked or numbered else None
        if self.lags is not None:
            warm(*KERNELS)

    @property
    def memory_bytes(self) -> int:
        return sum(each.bytes for each in (self.state, self.lags) if each is not None)

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        released = self.hold.release(watermark)
        for batch in released if self.over.window.size is None else whole_instants(released):
            if len(batch):
                yield from self._take(batch)
            else:
                yield batch
            if self.hold.released >= self._look_at:
                self._check()
        for each in (self.state, self.lags):
            if each is not None:
                yield from each.forget(watermark)
        if self.state is not None and self.state.failed:
            put_overflows(self.name, self.dead_letters, *self.state.take_failures())

    def _take(self, batch: Batch) -> Iterator[Batch]:
        lags = {} if self.lags is None else (yield from self.lags.take(batch))
        if self.state is None:
            yield self._with(batch, lags)
            return
        for answers in self.state.take(batch):
            if answers is None:
                yield PAUSE
                continue
            rows = slice(answers.start, answers.stop)
            made = {name: column.take(rows) for name, column in lags.items()} | answers.columns
            yield without_long_values(self._with(batch.take(rows), made), self.name, self.dead_letters)

    def _with(self, batch: Batch, made: dict[str, Column]) -> Batch:
        columns = {**batch.columns, **{name: made[name] for name, _ in self.over.functions}}
        return Batch(columns, batch.time, batch.origin, batch.created, batch.source)

    def snapshot(self) -> list[Part]:
        parts = [Part(HELD, 0, self.hold.snapshot())]
        for name, each in ((WINDOWS, self.state), (LAGS, self.lags)):
            parts += [] if each is None else [Part(name, 0, each.snapshot())]
        return parts

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            if part.name == WINDOWS and self.state is not None:
                self.state.restore(part.batch, lambda columns: keep(0, columns))
            elif part.name == LAGS and self.lags is not None:
                self.lags.restore(part.batch, keep(0, self.lags.columns(part.batch)).astype(bool))
            else:
                self.hold.restore(part.batch, keep(0, self.hold.columns(part.batch)))
        self._check()

    def clear(self) -> None:
        self.hold.clear()
        for each in (self.state, self.lags):
            if each is not None:
                each.clear()

    def contents(self) -> str:
        keys = self.state.largest_keys(3) if self.state is not None else []
        largest = self.hold.largest_keys(tuple(self.hold.schema[name] for name in self.over.by), 3) or keys
        return f"{len(self.hold)} rows held, window {self.over.window!r}; largest keys: {listed(largest)}"


def build(over: Over, context: BuildContext) -> OverOperator:
    functions = tuple((name, function) for name, function in over.functions if function.name not in OF_OVER)
    aggregated = Aggregate(over.name, over.input, UnboundedWindow(None, over.ttl), over.by, functions)
    spec = context.layout.spec(aggregated, "whole") if functions else None
    return OverOperator(over, spec, context.hold(over.input), context.state_limit, context.dead_letters)
