"""Samples at work: tuples are chosen by the hash of their origin, which does not depend on instance, batch or placement.

So many of a window are the first ones in the order of that hash: a TopN over a column that is added to what comes and taken away from
what goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cep.compile.aggregate.spec import free_prefix
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import OneForOne
from cep.dataflow.operators.sort import SortOperator
from cep.elements import Batch
from cep.kernels.column import Column
from cep.kernels.tables.hashing import hash_origins
from cep.model.operators import Sample, SampleN, TopN
from cep.model.schema import INT64, Field, Schema


def hashes(batch: Batch, seed: int) -> np.ndarray:
    """int64[n], not negative."""
    assert batch.origin is not None, "a sample reads origins"
    out = np.empty(len(batch), np.int64)
    hash_origins(np.ascontiguousarray(batch.origin), seed, out)
    return out


class SampleOperator(OneForOne):
    def __init__(self, operator: Sample) -> None:
        self.name, self.seed = operator.name, operator.seed
        self.below = operator.fraction * 2.0**53

    def apply(self, batch: Batch) -> Batch:
        chosen = np.flatnonzero(hashes(batch, self.seed) >> 10 < self.below)  # 53 bits, so that both are exact
        return batch if len(chosen) == len(batch) else batch.take(chosen)


class SampleNOperator(SortOperator):
    """`schema`, `origin_words`, `ties`: see SortOperator."""

    def __init__(self, operator: SampleN, schema: Schema, origin_words: int, ties: bool, state_limit: int) -> None:
        self.schema, self.seed, self.hash = schema, operator.seed, free_prefix("_hash", schema.names)
        order = ((self.hash, False),)
        ranked = TopN(operator.name, operator.input, operator.window, operator.by, order, operator.n, f"{self.hash}_rank")
        super().__init__(ranked, Schema((*schema.fields, Field(self.hash, INT64))), origin_words, ties, state_limit)

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        if len(batch):
            columns = {**batch.columns, self.hash: Column(INT64, hashes(batch, self.seed))}
            yield from super().on_batch(replace(batch, columns=columns), port)

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        for batch in super().on_watermark(watermark):
            yield replace(batch, columns={name: batch.columns[name] for name in self.schema.names}) if len(batch) else batch


def build(operator: Sample, context: BuildContext) -> SampleOperator:
    return SampleOperator(operator)


def build_n(operator: SampleN, context: BuildContext) -> SampleNOperator:
    producer, layout = operator.input, context.layout
    return SampleNOperator(operator, context.columns(producer), layout.words(producer), layout.ties(producer), context.state_limit)
