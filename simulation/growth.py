"""Publishers that know fewer columns of their stream than a query declares, or more, and learn of more while they send
(docs/features/streams_that_grow.md)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from cep.model.expr import columns_of
from cep.model.schema import FLOAT64, STRING, Field, Schema
from cep.model.streams import Stream
from tests.reference import Partition
from tests.support.running import cuts, records_of

#: Columns that no query declares.
UNREAD = (Field("unread", FLOAT64, True), Field("unread_text", STRING, True))


@dataclass(frozen=True)
class Growth:
    """What a publisher declares at first, and behind row number `at`."""

    first: Stream
    later: Stream
    at: int

    def known(self, row: int) -> Stream:
        """What it declares when it sends a batch that begins with that row."""
        return self.first if row < self.at else self.later


def drawn_growth(choose: random.Random, stream: Stream, rows: int) -> Growth:
    """One in two never changes, and knows what the query knows."""
    if choose.random() < 0.5:
        return Growth(stream, stream, 0)
    timed = columns_of(stream.event_time) if stream.event_time is not None else frozenset()
    fields = (*stream.schema.fields, *UNREAD)
    least = 1 + max((i for i, field in enumerate(fields) if not field.nullable or field.name in timed), default=0)
    first, later = (replace(stream, schema=Schema(fields[:width])) for width in sorted(choose.choices(range(least, len(fields) + 1), k=2)))
    return Growth(first, later, choose.randint(0, rows))


def as_known(growth: Growth, stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> Partition:
    """The partition as a query has it that declares `stream`: NULL where its publisher did not know the column."""
    rows = list(partition.rows)
    for part in cuts(len(rows), batch_rows):
        width, whole = len(growth.known(part.start).schema.fields), len(stream.schema.fields)
        for i in range(*part.indices(len(rows))):
            row = rows[i]
            assert isinstance(row, tuple)
            rows[i] = row[:width] + (None,) * (whole - width)
    return replace(partition, rows=rows)


def batches_of(growth: Growth, stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> Iterator[tuple[Stream, pa.RecordBatch]]:
    """What is declared for a batch, and the batch; of columns that `stream` has not, any values."""
    records = records_of(stream, partition)
    values = {"unread": pa.array([i / 7 for i in range(records.num_rows)], pa.float64())}
    values["unread_text"] = pa.array(["\u00e4" * (i % 20) for i in range(records.num_rows)])
    for part in cuts(records.num_rows, batch_rows):
        known = growth.known(part.start)
        arrays = [records.column(name) if name in stream.schema else values[name] for name in known.schema.names]
        yield known, pa.RecordBatch.from_arrays(arrays, names=list(known.schema.names))[part]
