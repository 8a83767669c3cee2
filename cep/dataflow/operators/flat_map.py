"""FlatMap: a chain, and then one tuple for each element of a list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.compile.chain.chain import Chain, compile_chain
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Clock, StatelessOperator, in_pieces
from cep.elements import Batch
from cep.kernels.states.lists import explode_in_pieces
from cep.model.operators import FlatMap, Map


def as_map(operator: FlatMap) -> Map:
    """What computes the fields, the list still whole."""
    return Map(operator.name, operator.input, operator.fields)


class FlatMapOperator(StatelessOperator):
    """`chain` is of `as_map`."""

    def __init__(self, operator: FlatMap, chain: Chain, clock: Clock, dead_letters: DeadLetters) -> None:
        self.name, self.explode = operator.name, operator.explode
        self.chain, self.clock, self.dead_letters = chain, clock, dead_letters
        self.notes = chain.notes

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        for mapped in in_pieces(self.chain, batch, self.clock(), self.dead_letters):
            for rows, ordinals, elements in explode_in_pieces(mapped.columns[self.explode]):
                columns = {name: elements if name == self.explode else column.take(rows) for name, column in mapped.columns.items()}
                origin = None if mapped.origin is None else np.column_stack((mapped.origin[rows], ordinals))
                yield Batch(columns, mapped.time[rows], origin, mapped.created, mapped.source)


def build(operator: FlatMap, context: BuildContext) -> FlatMapOperator:
    return FlatMapOperator(
        operator, compile_chain((as_map(operator),), context.columns(operator.input)), context.clock, context.dead_letters
    )
