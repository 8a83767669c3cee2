"""Apply: a user's function over batches. Each row that it makes is at the event time of the row it is made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.compile.user.batches import BatchFunction, Made
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import StatelessOperator, position, record
from cep.elements import PAUSE, Batch
from cep.model.operators import Apply
from cep.model.schema import Schema


class ApplyOperator(StatelessOperator):
    """`schema` is that of its input; an origin gets one word more, the row's number among those made of one row."""

    def __init__(self, operator: Apply, schema: Schema, dead_letters: DeadLetters) -> None:
        self.name, self.dead_letters = operator.name, dead_letters
        self.function = BatchFunction(operator.function, Schema(tuple(schema[name] for name in operator.columns)), operator.schema)

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        for each in self.function.run(batch.columns, len(batch)):
            match each:
                case Made():
                    yield _placed(batch, each)
                    continue
                case (row, reason):
                    self.dead_letters.put(
                        Letter(self.name, reason, batch.source, position(batch, row), record(batch, row, self.dead_letters))
                    )
            yield PAUSE


def _placed(batch: Batch, made: Made) -> Batch:
    origin = None if batch.origin is None else np.column_stack((batch.origin[made.rows], _ordinals(made.rows)))
    return Batch(made.columns, batch.time[made.rows], origin, batch.created, batch.source)


def _ordinals(rows: np.ndarray) -> np.ndarray:
    """int64[n]: how often the same number stands before it."""
    order = np.argsort(rows, kind="stable")
    sorted_ = rows[order]
    begins = np.flatnonzero(np.concatenate(([True], sorted_[1:] != sorted_[:-1])))
    lengths = np.diff(np.append(begins, len(rows)))
    ordinals = np.empty(len(rows), np.int64)
    ordinals[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    return ordinals


def build(operator: Apply, context: BuildContext) -> ApplyOperator:
    return ApplyOperator(operator, context.columns(operator.input), context.dead_letters)
