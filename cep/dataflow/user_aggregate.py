"""An Aggregate with users' functions: the engine's part collects their values, and what it answers is folded here."""

from __future__ import annotations

from collections.abc import Iterator

from cep.compile.aggregate import AggregateSpec
from cep.compile.aggregate_results import describe
from cep.compile.user_aggregates import Folds
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators import AggregateOperator
from cep.elements import Batch


class UserAggregateOperator(AggregateOperator):
    """`spec` is of the aggregate that collects (`cep.compile.user_aggregates`), "whole" or "final"."""

    def __init__(self, name: str, spec: AggregateSpec, folds: Folds, state_limit: int, dead_letters: DeadLetters) -> None:
        super().__init__(name, spec, state_limit, dead_letters)
        self.folds, self.notes = folds, folds.notes

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for batch in super().on_watermark(watermark):
            yield self._folded(batch)

    def _folded(self, batch: Batch) -> Batch:
        columns, failures = self.folds.run(batch.columns, len(batch))
        for failure in failures:
            group = describe(dict(batch.columns), self.spec.by, failure.row)
            where = f"group {group}, event time {int(batch.time[failure.row])} µs"
            self.dead_letters.put(Letter(self.name, failure.reason, position=where))
        return Batch(columns, batch.time, batch.origin, batch.created)
