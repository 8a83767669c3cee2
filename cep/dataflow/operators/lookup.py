"""A lookup at work: each tuple with every row of a table whose key is equal, in the table's order."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.matching import spec_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import StatelessOperator
from cep.dataflow.operators.static_table import read_table
from cep.elements import MIN_TIME, PAUSE, Batch
from cep.kernels.columns import Columns
from cep.kernels.jit import warm
from cep.kernels.join import PIECEWISE, KeyIndex, Ranges
from cep.model.operators import Lookup


class LookupTable:
    """The rows of a table by key. `since`, µs by row, rising: from when they hold, if they have versions."""

    def __init__(self, spec: JoinSpec, rows: Batch, since: np.ndarray | None, index: KeyIndex) -> None:
        self.spec, self.rows, self.since, self.index = spec, rows, since, index

    @staticmethod
    def building(spec: JoinSpec, columns: Columns, n: int, versions: str | None) -> Generator[Batch, None, LookupTable]:
        """Of `n` rows; it pauses while they are indexed. `versions`: the column that says from when a row holds."""
        since, rows = None if versions is None else columns[versions].values, Batch(columns, np.zeros(n, np.int64))
        if since is not None:
            order = np.argsort(since, kind="stable")
            rows, since = rows.take(order), since[order]
        yield PAUSE
        indexing = KeyIndex.building(*spec.encode(RIGHT, rows))
        try:
            while True:
                next(indexing)
                yield PAUSE
        except StopIteration as indexed:
            return LookupTable(spec, rows, since, indexed.value)

    @staticmethod
    def of(spec: JoinSpec, columns: Columns, n: int, versions: str | None) -> LookupTable:
        """The same at once."""
        building = LookupTable.building(spec, columns, n, versions)
        try:
            while True:
                next(building)
        except StopIteration as built:
            table: LookupTable = built.value
            return table

    @property
    def bytes(self) -> int:
        return batch_bytes(self.rows) + self.index.bytes

    def joined(self, batch: Batch) -> Iterator[Batch]:
        """Each tuple of `batch` with its rows, which have the number of the match behind their origins."""
        ranges = self.index.probe(*self.spec.encode(LEFT, batch))
        if self.since is not None:
            self._narrow(ranges, self.since, batch.time)
        for rows, found, numbers in ranges.pairs(outer=self.spec.keeps(LEFT)):
            joined = self.spec.joined((batch, rows), (self.rows, found), batch.time[rows])
            origin = None if batch.origin is None else np.column_stack((batch.origin[rows], numbers))
            yield Batch(joined.columns, joined.time, origin, batch.created)

    def _narrow(self, ranges: Ranges, since: np.ndarray, time: np.ndarray) -> None:
        """Leaves of each key the rows that hold since the last instant up to `time`."""
        ranges.narrow(since, np.full(len(time), MIN_TIME), time)
        met = np.flatnonzero(ranges.first < ranges.stop)
        last = np.full(len(time), MIN_TIME)
        last[met] = since[ranges.order[ranges.stop[met] - 1]]
        ranges.narrow(since, last, time)


class LookupOperator(StatelessOperator):
    """In a table that stays as it is."""

    def __init__(self, spec: JoinSpec, table: LookupTable) -> None:
        self.name, self.table = spec.name, table

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        return self.table.joined(batch)


def build(operator: Lookup, context: BuildContext) -> LookupOperator:
    warm(*PIECEWISE)
    spec, columns = spec_of(operator, operator.table.schema, context), read_table(operator.table, context.store)
    return LookupOperator(spec, LookupTable.of(spec, columns, len(next(iter(columns.values()), ())), operator.versions))
