"""A lookup at work: each tuple with every row of a static table whose key is equal, in the table's order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.compile.joined import LEFT, RIGHT, JoinSpec
from cep.dataflow.operators import Stateless
from cep.elements import Batch
from cep.kernels.columns import Columns


class LookupOperator(Stateless):
    """`table`: its columns; it is indexed once, here."""

    def __init__(self, spec: JoinSpec, table: Columns) -> None:
        self.name, self.spec = spec.name, spec
        rows = len(next(iter(table.values()))) if table else 0
        self.table = Batch(table, np.zeros(rows, np.int64))
        self.index = spec.index(RIGHT, self.table)

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        for rows, found, numbers in self.index.probe(*self.spec.encode(LEFT, batch)).pairs(outer=self.spec.keeps(LEFT)):
            joined = self.spec.joined((batch, rows), (self.table, found), batch.time[rows])
            origin = None if batch.origin is None else np.column_stack((batch.origin[rows], numbers))
            yield Batch(joined.columns, joined.time, origin, batch.created)
