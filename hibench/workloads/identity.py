"""Every record as it came. Read in one subquery and written in another; instance i hands its records to instance i."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from cep.model.streams import Stream
from driver import Query, col, now
from hibench.records.dataset import FIELDS
from hibench.runs.answers import Shape
from hibench.workloads.workload import CREATION, REPORTED, RunTerms, Workload

RECORD_SHAPE = Shape(pa.schema([(name, pa.int64() if name == CREATION else pa.string()) for name in FIELDS]), time=CREATION)
COLUMNS: dict[str, object] = {CREATION: "timestamp[ms]", **dict.fromkeys(FIELDS[1:], str)}


def copied(name: str, balancer: str, visits: Stream) -> Query:
    """All fields of every record, through `balancer` from the subquery that reads to the one that writes."""
    fields = {field: col(field) for field in FIELDS}
    read_and_written = Query(name).source(visits).map("read", fields).map("write", fields, **{REPORTED: now()})
    return read_and_written.options(split="per-operator", balancers={"write": balancer})


def copied_records(tables: Iterable[pa.Table], terms: RunTerms) -> Iterator[pa.Table]:
    """The records themselves."""
    return (table.select(list(FIELDS)) for table in tables)


IDENTITY = Workload(
    name="identity",
    balancer="point-to-point",
    line="every record is read and written as it is",
    behind="write",
    query=lambda visits, terms: copied("identity", "point-to-point", visits),
    shape=lambda terms: RECORD_SHAPE,
    expected=copied_records,
    columns=COLUMNS,
    created=CREATION,
    in_files=True,
    events=4_000_000,
)
