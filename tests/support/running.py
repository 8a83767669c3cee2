"""A drawn case run by the engine: all instances of a plan in one process, their turns chosen by a seed (`cep.dataflow.local`).

What comes out is in the words of the reference, so that `tests.reference.assert_same_answer` compares the two.
"""

from __future__ import annotations

import random
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import origins
from cep.dataflow.channel import batch_bytes
from cep.dataflow.local import LocalRun, Outcome
from cep.dataflow.local_wires import Script
from cep.dataflow.sources.lateness import stamp_of
from cep.dataflow.sources.publishers import Closing, Published
from cep.dataflow.sources.source import ENOUGH_ROWS
from cep.elements import MIN_TIME, Batch, End, Watermark
from cep.elements import Idle as EngineIdle
from cep.errors import QueryError
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.kernels.tables.hashing import fold_origins
from cep.kernels.tables.keys import empty_keys, encode_keys
from cep.model.operators import Aggregate, Pattern
from cep.model.query import Options, Query
from cep.model.schema import Field, Schema
from cep.model.streams import Stream
from cep.plan.needed import origin_words
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.validate import validate
from tests.reference import Answer, Partition, evaluate
from tests.reference.engine import NO_TABLES, TimedRow
from tests.reference.rows import Advance, AggregateOrigin, Awake, Idle, JoinedOrigin, Mark, Origin, Values
from tests.reference.source import event_times
from tests.reference.tables import Versions
from tests.strategies import Case, Execution, FileCase
from tests.support import cells
from tests.support.plans import one_node, planned

WORKERS = 4
NOW_US = 1_700_000_000_000_000

#: (path, bytes) of the files of each stream.
Files = Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class Ran:
    """What the engine made of a case: rows by output stream, late rows, dead letters by operator or stream."""

    outputs: Mapping[str, list[TimedRow]]
    late: int
    dead: Counter[str]
    outcome: Outcome


# --- plans -----------------------------------------------------------------------------------------------------------


def plan_of(query: Query, execution: Execution, files: Mapping[str, Sequence[tuple[str, int]]] | None = None) -> PhysicalPlan:
    """The plan that `execution` asks for; of its split and balancers what changes no answer, which is what the planner says."""
    found = {name: tuple(each) for name, each in (files or {}).items()}
    made = _planned(query, execution.options, _parts(query, execution.parts), found)
    for balancer in execution.balancers:
        made = _overridden(made, balancer, found)
    cells.record(query, made)
    return replace(made, edges=tuple(_with_table(edge, made, execution.table) for edge in made.edges))


def _parts(query: Query, numbers: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """The user's own split: operators by their number, in turn."""
    parts: dict[int, list[str]] = {}
    for i, operator in enumerate(query.operators if numbers else ()):
        parts.setdefault(numbers[i % len(numbers)], []).append(operator.name)
    return tuple(map(tuple, parts.values()))


def _planned(query: Query, options: Options, parts: tuple[tuple[str, ...], ...], files: Files) -> PhysicalPlan:
    """With the user's split `parts`, and as pre-aggregated as asked for, if both can be."""
    try:
        return planned(replace(query, options=replace(options, subqueries=parts)), one_node(WORKERS), files=files)
    except QueryError as error:
        if error.pointer.startswith("/options/subqueries"):
            return _planned(query, options, (), files)
        assert error.pointer == "/options/pre_aggregation" and options.pre_aggregation != "auto", error
        return _planned(query, replace(options, pre_aggregation="auto"), parts, files)


def _overridden(made: PhysicalPlan, balancer: str, files: Files) -> PhysicalPlan:
    """`made` with `balancer` before every operator where it is sound."""
    for consumer in sorted({edge.consumer for edge in made.edges if edge.is_inner}):
        options = made.query.options
        balancers = tuple(sorted({**dict(options.balancers), consumer: balancer}.items()))
        try:
            made = planned(replace(made.query, options=replace(options, balancers=balancers)), one_node(WORKERS), files=files)
        except QueryError as error:
            assert error.pointer.startswith(("/options/balancers", "/options/pre_aggregation")), error
    return made


def _with_table(edge: Edge, made: PhysicalPlan, table: tuple[int, ...]) -> Edge:
    return replace(edge, table=table) if edge.is_inner and edge.balancer == "route-key" else edge


# --- published streams -----------------------------------------------------------------------------------------------


def run_case(case: Case, execution: Execution) -> Ran:
    """Every partition is a publisher, which cuts its rows into batches and deals them to the readers."""
    made = plan_of(case.query, execution)
    choose = random.Random(execution.seed)
    return run(made, execution, scripts_of(case, made, execution, choose))


def scripts_of(case: Case, made: PhysicalPlan, execution: Execution, choose: random.Random) -> dict[str, dict[str, Script]]:
    """By stream."""
    return {
        name: publishers(stream, case.inputs[name], readers_of(made, name), execution.batch_rows, choose)
        for name, stream in made.streams.items()
    }


def readers_of(made: PhysicalPlan, stream: str) -> int:
    return len(made.instances_of(made.subquery_of(stream).name))


def publishers(
    stream: Stream, partitions: Sequence[Partition], readers: int, batch_rows: Sequence[int], choose: random.Random
) -> dict[str, Script]:
    """The scripts of the publishers of `stream`, by name, whose order is that of the partitions' numbers."""
    last = choose.randrange(len(partitions))
    return {
        f"p{part.index}": publisher(stream, part, readers, batch_rows, choose, number == last) for number, part in enumerate(partitions)
    }


def publisher(stream: Stream, partition: Partition, readers: int, batch_rows: Sequence[int], choose: random.Random, last: bool) -> Script:
    """What `driver.streams.publisher.Publisher` sends: batches in turn to the readers, the watermark to those that got none."""
    script: dict[int, list[tuple[object, int, int]]] = {reader: [] for reader in range(readers)}
    max_time, turn = MIN_TIME, choose.randrange(readers)
    for said in _said(stream, partition, batch_rows):
        if not isinstance(said, tuple):
            max_time = max(max_time, _raised_to(said, stream.disorder or 0))
            watermark = stamp_of(max_time, stream.disorder or 0)
            element = EngineIdle() if isinstance(said, Idle) else Watermark(watermark)
            for reader in range(readers):
                script[reader].append((element, 0, watermark))
            continue
        record, batch = said
        known = batch.time[batch.time > MIN_TIME]
        published, max_time = Published(batch, max_time, record), max([max_time, *known.tolist()])
        watermark = stamp_of(max_time, stream.disorder or 0)
        turn = (turn + 1) % readers
        script[turn].append((published, batch_bytes(batch), watermark))
        for other in range(readers) if choose.random() < 0.5 else ():
            if other != turn:
                script[other].append((Watermark(watermark), 0, watermark))
    for reader in range(readers):
        script[reader].append((Closing(f"p{partition.index}", last), 0, MIN_TIME))
    return script


def _said(stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> Iterator[tuple[int, Batch] | Mark]:
    """Batches, each with the number of its first row, and what is said between rows."""
    marks = list(partition.marks)
    for record, batch in cut_of(stream, partition, batch_rows):
        start = record
        while marks and marks[0][0] < record + len(batch):
            before, mark = marks.pop(0)
            if before > start:
                yield start, batch.take(slice(start - record, before - record))
            start = before
            yield mark
        yield start, batch.take(slice(start - record, len(batch)))
    yield from (mark for _, mark in marks)


def _raised_to(mark: Mark, disorder: int) -> int:
    """The greatest event time that a row would have for the stamp to be where the mark puts it."""
    match mark:
        case Idle():
            return MIN_TIME
        case Awake(stamp):
            return stamp + disorder
        case Advance(to):
            return to + disorder


def records_of(stream: Stream, partition: Partition) -> pa.RecordBatch:
    """All rows of a partition, as Arrow has them."""
    arrays = [
        pa.array([row[i] for row in partition.rows], field.type.arrow)  # type: ignore[index]  # of published rows, tuples
        for i, field in enumerate(stream.schema.fields)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_lenient(stream.schema))


def batch_of(stream: Stream, partition: Partition) -> Batch:
    """All rows of a partition, with their event times: MIN_TIME where there is none."""
    columns = columns_from_arrow(records_of(stream, partition), stream.schema)
    times = [MIN_TIME if time is None else time for time in event_times(stream, partition)]
    return Batch(columns, np.array(times, np.int64))


def _lenient(schema: Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema.arrow])


def cut_of(stream: Stream, partition: Partition, batch_rows: Sequence[int]) -> Iterator[tuple[int, Batch]]:
    """(number of its first row, batch), of the sizes `batch_rows` in turn."""
    batch = batch_of(stream, partition)
    for part in cuts(len(batch), batch_rows):
        yield part.start, batch.take(part)


def cuts(rows: int, batch_rows: Sequence[int]) -> Iterator[slice]:
    """`rows` rows in pieces of the sizes `batch_rows` in turn."""
    start = turn = 0
    while start < rows:
        size = batch_rows[turn % len(batch_rows)]
        yield slice(start, start + size)
        start, turn = start + size, turn + 1


# --- files -----------------------------------------------------------------------------------------------------------


def run_files(case: FileCase, execution: Execution, folder: Path) -> Ran:
    """The files of `case` lie under `folder` for the time of the run."""
    found = []
    for path, data in sorted(case.files.items()):
        (folder / path).write_bytes(data)
        found.append((str(folder / path), len(data)))
    made = plan_of(case.query, execution, {case.stream.name: found})
    return run(made, execution, {}, read_bytes=execution.batch_rows[0] * 100)


# --- running ---------------------------------------------------------------------------------------------------------


def limits(execution: Execution) -> dict[str, int]:
    """Tuples after which pre-aggregation is judged; and how many the batches of a publisher, or of a channel, are taken together up to:
    each by itself, or all there are."""
    return {"probe_rows": 1 + execution.seed % 8, "enough_rows": 1 if execution.seed % 3 else ENOUGH_ROWS}


def run(made: PhysicalPlan, execution: Execution, scripts: Mapping[str, Mapping[str, Script]], read_bytes: int = 2 << 20) -> Ran:
    local = LocalRun(made, scripts, execution.credit_bytes, lambda: NOW_US, read_bytes, **limits(execution))
    outcome = local.run(execution.seed)
    assert not _kept(local), "what an instance has refers back to it: where garbage is not collected it would stay"
    assert all(isinstance(element, End) for element in outcome.last)
    return ran_of(outcome)


def _kept(local: LocalRun) -> list[str]:
    """What is still there of instances when nothing refers to them any more."""
    left = [weakref.ref(part) for each in local.instances for part in (each, *each.nodes, *each.outputs, *(s for s, _ in each.sources))]
    local.instances.clear()
    local.movements.clear()
    return [type(part).__name__ for each in left if (part := each()) is not None]


def ran_of(outcome: Outcome) -> Ran:
    outputs = {name: list(rows(batches, outcome.schemas[name])) for name, batches in outcome.batches.items()}
    dead = sum((letters.counts for letters in outcome.dead_letters), Counter[str]())
    return Ran(outputs, outcome.late_rows, dead, outcome)


def outputs_of(query: Query, answer: Answer) -> dict[str, list[TimedRow]]:
    """What comes out on each stream, the late one too."""
    late = {} if query.late is None else {query.late: [row for rows_ in answer.late.values() for row in rows_]}
    return {**answer.outputs, **late}


def rows(batches: Sequence[Batch], schema: Schema) -> Iterator[TimedRow]:
    """Rows as the reference has them: a timestamp is int µs."""
    for batch in batches:
        arrow = columns_to_arrow(batch.columns, Schema(tuple(replace(f, nullable=True) for f in schema.fields)))
        columns = [values_of_array(array) for array in arrow.columns]
        yield from zip(batch.time.tolist(), zip(*columns, strict=True), strict=True)


def values_of_array(array: pa.Array) -> list[Any]:
    if pa.types.is_list(array.type) and pa.types.is_timestamp(array.type.value_type):
        array = array.cast(pa.list_(pa.int64()))
    values: list[Any] = (array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array).to_pylist()
    return values


def origin_of_engine(query: Query) -> AggregateOrigin:
    """The project's hash of (operator, key, window start), for the reference: it orders an aggregate's rows (rule 4.5)."""
    schemas = validate(query, {}).schemas
    by_name = {operator.name: operator for operator in query.operators}

    def origin(name: str, key: Values, start: int) -> tuple[int, int]:
        operator = by_name[name]
        assert isinstance(operator, Aggregate | Pattern)
        fields = tuple(_key_field([schemas[name] for name in operator.inputs], column) for column in operator.by)
        arrays = [pa.array([value], field.type.arrow) for value, field in zip(key, fields, strict=True)]
        schema = Schema(fields)
        columns = columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=_lenient(schema)), schema) if fields else {}
        keys = encode_keys(columns, fields) if fields else empty_keys(1)
        first, second = origins(name, keys, start)[0].tolist()
        return first, second

    return origin


def _key_field(inputs: Sequence[Schema], column: str) -> Field:
    return replace(inputs[0][column], nullable=any(schema[column].nullable for schema in inputs))


def joined_origin_of_engine(query: Query) -> JoinedOrigin:
    """The project's fold of two origins, which have as many words as any tuple of their side; -1 where one has fewer."""
    full = validate(query, {}).query
    inputs = {operator.name: operator.inputs for operator in full.operators}
    patterns = {operator.name: operator.inputs for operator in query.operators if isinstance(operator, Pattern)}

    def words(side: str, origin: Origin | None) -> np.ndarray | None:
        return None if origin is None else np.array([(*origin, *(-1,) * (origin_words(full, side) - len(origin)))], np.int64)

    def fold(name: str, left: Origin | None, right: Origin | None) -> Origin:
        if name in patterns:
            most = max(origin_words(full, side) for side in patterns[name])
            padded = (*(right or ()), *(-1,) * (most - len(right or ())))
            return tuple(fold_origins(np.array([left], np.int64), np.array([padded], np.int64))[0].tolist())
        sides = (words(side, origin) for side, origin in zip(inputs[name], (left, right), strict=True))
        return tuple(fold_origins(*sides)[0].tolist())

    return fold


def expected_of(query: Query, inputs: Mapping[str, Sequence[Partition]], tables: Mapping[str, Versions] = NO_TABLES) -> Answer:
    """The reference's answer, with the engine's origins. `tables`: as `evaluate` takes them."""
    origins = origin_of_engine(query), joined_origin_of_engine(query)
    return evaluate(query, inputs, aggregate_origin=origins[0], joined_origin=origins[1], now_us=NOW_US, tables=tables)


__all__ = [
    "NOW_US",
    "Ran",
    "cut_of",
    "expected_of",
    "origin_of_engine",
    "outputs_of",
    "plan_of",
    "publishers",
    "ran_of",
    "readers_of",
    "rows",
    "run",
    "run_case",
    "run_files",
    "scripts_of",
    "values_of_array",
]
