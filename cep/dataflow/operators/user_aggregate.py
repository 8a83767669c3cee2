"""An Aggregate with users' functions: the engine's part collects their values, and what it answers is folded here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep.compile.aggregate.results import describe_group
from cep.compile.aggregate.window_state import AggregateSpec
from cep.compile.user.aggregates import Folds
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators.operator import AggregateOperator, Clock, without_long_values
from cep.dataflow.operators.sequential_aggregate import SequentialAggregate
from cep.elements import Batch, describe_time
from cep.model.operators import Aggregate


class Folding:
    """From the answers of the aggregate that collects (`cep.compile.user.aggregates`) to those of `aggregate`."""

    def __init__(self, aggregate: Aggregate, spec: AggregateSpec, dead_letters: DeadLetters) -> None:
        self.name, self.by, self.folds, self.dead_letters = aggregate.name, spec.by, Folds(aggregate), dead_letters

    def of(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if len(batch):
                yield from self._folded(batch)
            else:
                yield batch

    def _folded(self, batch: Batch) -> Iterator[Batch]:
        columns, failures = yield from self.folds.run(batch.columns, len(batch))
        for failure in failures:
            group = describe_group(dict(batch.columns), self.by, failure.row)
            where = f"group {group}, event time {describe_time(int(batch.time[failure.row]))}"
            self.dead_letters.put(Letter(self.name, failure.reason, position=where))
        yield without_long_values(Batch(columns, batch.time, batch.origin, batch.created), self.name, self.dead_letters)


class UserAggregateOperator(AggregateOperator):
    """`spec` is of the aggregate that collects, "whole" or "final"."""

    gives_out = False  # what is collected may be any number of values

    def __init__(self, aggregate: Aggregate, spec: AggregateSpec, state_limit: int, dead_letters: DeadLetters) -> None:
        super().__init__(aggregate.name, spec, state_limit, dead_letters)
        self.folding = Folding(aggregate, spec, dead_letters)
        self.notes = self.folding.folds.notes

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        yield from self.folding.of(super().on_watermark(watermark))


class UserSequentialAggregate(SequentialAggregate):
    """The same for windows whose tuples are taken in stream order."""

    gives_out = False

    def __init__(
        self, aggregate: Aggregate, spec: AggregateSpec, origin_words: int, limit: int, clock: Clock, dead_letters: DeadLetters
    ) -> None:
        super().__init__(aggregate.name, spec, origin_words, limit, clock, dead_letters)
        self.folding = Folding(aggregate, spec, dead_letters)
        self.notes = self.folding.folds.notes

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        yield from self.folding.of(super().on_watermark(watermark))
