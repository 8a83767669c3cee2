"""Two streams to be joined, drawn from a seed, and joins run on them: whole plans in one process, and operators by hand with their state
taken out and in.

A row of the left is (t, k, a), one of the right (t, k, b); times are µs, `a` and `b` number the rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cep.compile.join_rows import JoinSpec
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.joins.as_of_join import AsOfJoinOperator
from cep.dataflow.joins.interval_join import IntervalJoinOperator
from cep.dataflow.joins.matching import Matcher, SideFormat
from cep.dataflow.joins.window_join import WindowJoinOperator
from cep.dataflow.operators.operator import Part
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME, Batch
from cep.kernels.columns import Columns, columns_from_arrow, with_wider_numbers
from cep.kernels.tables.keys import encode_keys
from cep.kernels.tables.partition import bucket_targets
from cep.model.expr import ColumnRef
from cep.model.operators import AsOfJoin, IntervalJoin, Join
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from tests.reference import Partition
from tests.reference.engine import TimedRow
from tests.strategies import Case, Execution
from tests.support.pausing import without_pauses
from tests.support.running import Ran, rows, run_case

AnyJoin = Join | IntervalJoin | AsOfJoin
Operator = WindowJoinOperator | IntervalJoinOperator | AsOfJoinOperator
Row = tuple[int, Any, int]
LONG = "a key of more than fifteen bytes"

#: type of the left key, type of the right one, what is drawn from on each side.
KEYS: dict[str, tuple[str, str, Sequence[Any], Sequence[Any]]] = {
    "integers": ("int64", "int64", (1, 2, 3), (1, 2, 4)),
    "int32 and int64": ("int32", "int64?", (1, -2, 3), (1, -2, 2**40, None)),
    "int32 and float64": ("int32?", "float64?", (0, 1, 2, None), (0.0, -0.0, 1.0, 1.5, math.nan, None)),
    "int64 and float64": ("int64", "float64", (0, 1, 2**53 + 1), (-0.0, 1.0, float(2**53))),
    "floats": ("float64?", "float64", (0.0, -0.0, math.nan, 1.5, None), (0.0, math.nan, 1.5, 2.5)),
    "texts": ("string?", "string?", ("", "a", LONG, LONG + "!", None), ("", "b", LONG, LONG + "?", None)),
    "bools": ("bool", "bool?", (True, False), (True, False, None)),
    "one hot key": ("int64", "int64", (7,), (7,)),
}


@dataclass(frozen=True)
class Sides:
    """What is to be joined: the declared streams, and their rows by partition in the order in which they come."""

    left: Stream
    right: Stream
    partitions: Mapping[str, Sequence[Sequence[Row]]]

    def rows(self, name: str) -> list[Row]:
        return [row for part in self.partitions[name] for row in part]


def schema_of(type_: str, number: str) -> Schema:
    return Schema.of({"t": "timestamp[us]", "k": type_, number: "int64"})


def sides(choose: random.Random, kind: str = "integers", rows_max: int = 40, span: int = 60, disorder: int = 9) -> Sides:
    """Rows nearly in order of time, many at the same, none late."""
    left_type, right_type, left_keys, right_keys = KEYS[kind]
    drawn = {
        "l": _partitions(choose, left_keys, choose.randint(0, rows_max), span, disorder),
        "r": _partitions(choose, right_keys, choose.randint(0, rows_max), span, disorder),
    }
    left, right = (
        Stream(name, schema_of(type_, number), ColumnRef("t"), disorder)
        for name, type_, number in (("l", left_type, "a"), ("r", right_type, "b"))
    )
    return Sides(left, right, drawn)


def _partitions(choose: random.Random, keys: Sequence[Any], n: int, span: int, disorder: int) -> list[list[Row]]:
    times = sorted((choose.randint(-span // 3, span) for _ in range(n)), key=lambda t: t + choose.uniform(0, disorder))
    drawn = [(t, choose.choice(keys), i) for i, t in enumerate(times)]
    count = choose.randint(1, 2)
    return [drawn[i::count] for i in range(count)]


def equal(x: Any, y: Any) -> bool:
    """As keys are: NULL equals nothing, NaN equals NaN; an integer beside a float64 is one."""
    if x is None or y is None:
        return False
    if isinstance(x, float) or isinstance(y, float):
        x, y = float(x), float(y)
        return x == y or (math.isnan(x) and math.isnan(y))
    return bool(x == y)


def pair(left: Row | None, right: Row | None, floats: bool = False) -> tuple[Any, ...]:
    """(t, k, a, r_t, r_b) of a join on k with the prefix r_; `k` is that of the side that is there, a float64 if one side's is."""
    key = (left or right or (0, None, 0))[1]
    if floats and key is not None:
        key = float(key)
    t, a = (None, None) if left is None else (left[0], left[2])
    r_t, b = (None, None) if right is None else (right[0], right[2])
    return t, key, a, r_t, b


def is_float(kind: str) -> bool:
    return "float64" in "".join(KEYS[kind][:2])


# --- whole plans -----------------------------------------------------------------------------------------------------


def query(joined: AnyJoin, streams: Sequence[Stream]) -> Query:
    return Query("q", tuple(streams), (joined,), (Output("out", joined.name),))


def execution(choose: random.Random, parallelism: int | None = None) -> Execution:
    options = Options(
        split=choose.choice(("stateful", "single", "per-operator")),
        parallelism=parallelism or choose.randint(1, 4),
        buckets=16,
    )
    return Execution(
        options,
        tuple(choose.choice((1, 2, 7, 50)) for _ in range(3)),
        (),
        tuple(choose.randrange(options.parallelism or 1) for _ in range(16)),
        choose.choice((1, 200, 1 << 20)),
        choose.randrange(1 << 30),
    )


def ran(asked: Query, given: Sides, how: Execution) -> Ran:
    inputs = {name: [Partition(i, list(part)) for i, part in enumerate(parts)] for name, parts in given.partitions.items()}
    read = {stream.name for stream in asked.streams}
    return run_case(Case(asked, {name: parts for name, parts in inputs.items() if name in read}), how)


# --- operators by hand -----------------------------------------------------------------------------------------------


def made(joined: AnyJoin, streams: Sequence[Stream], letters: DeadLetters | None = None, limit: int = 1 << 40) -> Operator:
    schemas = [stream.schema for stream in streams]
    spec = JoinSpec.of(joined, *schemas, joined.joined_schema(*schemas).names, True)
    if isinstance(joined, AsOfJoin):
        return AsOfJoinOperator(joined, spec, (Hold(schemas[0], 2, False), Hold(schemas[1], 2, False)), limit)
    formats = SideFormat("left", 0, schemas[0], 2), SideFormat("right", 1, schemas[1], 2)
    matcher = Matcher(spec, lambda: 0, letters or DeadLetters())
    if isinstance(joined, IntervalJoin):
        return IntervalJoinOperator(joined, matcher, formats, limit)
    return WindowJoinOperator(joined, matcher, formats, limit)


def batch_of(stream: Stream, given: Sequence[Row], source: int = 0) -> Batch:
    """Its origins are (source, number of the row)."""
    arrays = [pa.array([row[i] for row in given], field.type.arrow) for i, field in enumerate(stream.schema.fields)]
    lenient = Schema(tuple(replace(field, nullable=True) for field in stream.schema.fields)).arrow
    columns = columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=lenient), stream.schema)
    time = np.array([row[0] for row in given], np.int64)
    origin = np.array([(source, row[2]) for row in given], np.int64).reshape(-1, 2)
    return Batch(columns, time, origin)


class Fleet:
    """Instances of one join. Rows go where their key says; of a theta join one side goes everywhere, the other in turn."""

    def __init__(self, joined: AnyJoin, streams: Sequence[Stream], instances: int) -> None:
        self.joined, self.streams = joined, streams
        self.operators = [made(joined, streams) for _ in range(instances)]
        self.spec = JoinSpec.of(joined, *(stream.schema for stream in streams), (), False)
        self.watermarks = [-(2**62)] * instances
        self.out: list[Batch] = []
        self.turn = 0

    def targets(self, port: int, columns: Columns, n: int) -> np.ndarray:
        """The instance of each row; -1: all of them."""
        count = len(self.operators)
        if not self.joined.on:
            everywhere = isinstance(self.joined, Join) and port == (0, 1)[self.joined.broadcast == "right"]
            return np.full(n, -1) if everywhere else (self.turn + np.arange(n)) % count
        by = self.spec.keys[port]
        keys, found = encode_keys(with_wider_numbers(columns, by), by), np.empty(n, np.int32)
        bucket_targets(keys.w0, keys.w1, np.arange(16, dtype=np.int32) % count, found)
        return found

    def feed(self, port: int, given: Sequence[Row]) -> None:
        batch = batch_of(self.streams[port], given, port)
        targets = self.targets(port, batch.columns, len(batch))
        self.turn += 1
        for i, operator in enumerate(self.operators):
            mine = np.flatnonzero((targets == i) | (targets == -1))
            if len(mine):
                self.out += without_pauses(operator.on_batch(batch.take(mine), port))

    def advance(self, watermark: int, only: int | None = None) -> None:
        for i, operator in enumerate(self.operators):
            if only in (None, i) and watermark > self.watermarks[i]:
                before, self.watermarks[i] = self.watermarks[i], watermark
                for batch in without_pauses(operator.on_watermark(watermark)):
                    assert int(batch.time.min()) >= before
                    self.out.append(batch)

    def moved(self, instances: int) -> Fleet:
        """Another fleet with the state of this one, and what has come out so far."""
        parts: list[Part] = [part for operator in self.operators for part in operator.snapshot()]
        other = Fleet(self.joined, self.streams, instances)
        other.out = self.out
        for i, operator in enumerate(other.operators):

            def keep(port: int, columns: Columns, mine: int = i) -> np.ndarray:
                n = len(next(iter(columns.values())))
                targets = other.targets(port, columns, n)
                return (targets == mine) | (targets == -1)

            operator.restore(parts, keep)
        return other

    def answers(self) -> list[TimedRow]:
        schema = self.joined.joined_schema(*(stream.schema for stream in self.streams))
        return list(rows(self.out, schema))


def moved_run(choose: random.Random, joined: AnyJoin, given: Sides) -> list[TimedRow]:
    """The answers of a fleet whose instances are at different watermarks when they are replaced, twice, by more or fewer."""
    fleet = Fleet(joined, (given.left, given.right), choose.randint(1, 3))
    waiting = [list(_cut(choose, given.rows(name))) for name in ("l", "r")]
    moves = {choose.randrange(8) for _ in range(2)}
    for step in range(9):
        for port, batches in enumerate(waiting):
            for _ in range(min(len(batches), choose.randint(0, 3)) if step < 8 else len(batches)):
                fleet.feed(port, batches.pop(0))
        promised = min((row[0] for batches in waiting for batch in batches for row in batch), default=MAX_TIME)
        for i in range(len(fleet.operators)):
            if step < 8 and choose.random() < 0.7:
                fleet.advance(min(promised, 2**61) - choose.choice((0, 0, 1, 5)), only=i)
        if step in moves:
            fleet = fleet.moved(choose.randint(1, 3))
    fleet.advance(MAX_TIME)
    return fleet.answers()


def _cut(choose: random.Random, given: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = 0
    while start < len(given):
        stop = start + choose.randint(1, 6)
        yield given[start:stop]
        start = stop
