"""KeepLast at work: a TopN of one, counted from the end of the stream's order, in which all tuples of a group tie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cep.compile.aggregate.spec import free_prefix
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.sort import SortOperator
from cep.elements import Batch
from cep.model.operators import KeepLast, TopN
from cep.model.schema import Schema


class KeepLastOperator(SortOperator):
    """`schema`, `origin_words`, `ties`: see SortOperator."""

    def __init__(self, operator: KeepLast, schema: Schema, origin_words: int, ties: bool, state_limit: int) -> None:
        self.schema = schema
        rank = free_prefix("_rank", schema.names)
        ranked = TopN(operator.name, operator.input, operator.window, operator.by, ((operator.by[0], False),), 1, rank)
        super().__init__(ranked, schema, origin_words, ties, state_limit, last=True)

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for batch in super().on_watermark(watermark):
            yield replace(batch, columns={name: batch.columns[name] for name in self.schema.names}) if len(batch) else batch


def build(operator: KeepLast, context: BuildContext) -> KeepLastOperator:
    producer, layout = operator.input, context.layout
    return KeepLastOperator(operator, context.columns(producer), layout.words(producer), layout.ties(producer), context.state_limit)
