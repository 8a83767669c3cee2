"""One operator on a few drawn tuples: by itself, batch by batch, taken out and in again at another parallelism; or in a plan.

The oracle of each test is a function of the tuples in stream order. What comes out is compared as a multiset of (event time, origin,
values), values by `shown`, which tells -0.0 from 0.0 and finds NaN equal to itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cep.dataflow.operators.operator import RunningOperator, StatefulOperator
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.kernels.columns import Columns, columns_from_arrow, to_arrow
from cep.model import operators as model
from cep.model.expr import col
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from tests.reference import Partition
from tests.strategies import Case, Execution
from tests.support.pausing import without_pauses
from tests.support.running import Ran, run_case, values_of_array

NAN = float("nan")
LONG = "longer than the fifteen bytes of a short key"
#: Few values, so that groups meet, and all that is special.
WORDS = (None, "", "a", "b", "a\0", LONG)
FLOATS = (None, NAN, -0.0, 0.0, 1.5, -1.5, float("inf"))

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Tuple:
    """`time` in µs; of two tuples of one time that of the lesser origin comes first."""

    time: int
    origin: tuple[int, ...]
    row: Row

    @property
    def place(self) -> tuple[int, tuple[int, ...]]:
        return self.time, self.origin


Made = tuple[int, tuple[int, ...] | None, str]
Oracle = Callable[[Sequence[Tuple]], Iterable[Tuple]]


def shown(values: Row) -> str:
    return repr(tuple(values.items()))


def made(tuples: Iterable[Tuple]) -> Counter[Made]:
    return Counter((each.time, each.origin, shown(each.row)) for each in tuples)


def key_of(row: Row, by: Sequence[str]) -> tuple[object, ...]:
    """Equal where rows are of one group."""
    return tuple(("nan" if value != value else value + 0.0) if isinstance(value := row[name], float) else value for name in by)


def ordered(value: Any) -> tuple[Any, ...]:
    """Sorts as ORDER does: NULL first, NaN greatest, -0.0 equal to 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if value != value else (1, value)
    return (1, value.encode() if isinstance(value, str) else value)


# --- batches ---------------------------------------------------------------------------------------------------------


def batch_of(tuples: Sequence[Tuple], schema: Schema) -> Batch:
    arrays = [pa.array([each.row[f.name] for each in tuples], f.type.arrow) for f in schema.fields]
    columns = columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow), schema)
    words = len(tuples[0].origin) if tuples else 2
    origin = np.array([each.origin for each in tuples], np.int64).reshape(-1, words)
    return Batch(columns, np.array([each.time for each in tuples], np.int64), origin)


def tuples_of(batch: Batch) -> Iterator[Tuple]:
    origins = [()] * len(batch) if batch.origin is None else [tuple(origin) for origin in batch.origin.tolist()]
    for time, origin, row in zip(batch.time.tolist(), origins, rows_of(batch.columns), strict=True):
        yield Tuple(time, origin, row)


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    values = [values_of_array(to_arrow(column)) for column in columns.values()]
    return [dict(zip(columns, each, strict=True)) for each in zip(*values, strict=True)]


def drawn(choose: random.Random, rows: int, row: Callable[[random.Random], Row], times: int = 40) -> list[Tuple]:
    """As they arrive: in a disorder of up to a quarter of `times`; origins are all different, times are not. They begin long before 1970,
    shortly before, or then: 0 is a time as every other."""
    begin = choose.choice((-100_000, -times // 2, 0))
    found = [Tuple(begin + choose.randrange(times), (choose.randrange(3), number), row(choose)) for number in range(rows)]
    return sorted(found, key=lambda each: each.time + choose.randrange(times // 4))


# --- alone -----------------------------------------------------------------------------------------------------------


def run_alone(operator: RunningOperator, arrivals: Sequence[Tuple], schema: Schema, choose: random.Random, end: bool = True) -> list[Tuple]:
    """Cuts `arrivals` into batches, with watermarks between them as far as the tuples to come allow."""
    return feed(operator, arrivals, (), schema, choose) + (list(watermark(operator, MAX_TIME)) if end else [])


def feed(
    operator: RunningOperator, arrivals: Sequence[Tuple], later: Sequence[Tuple], schema: Schema, choose: random.Random
) -> list[Tuple]:
    """`later` are tuples that will come after them."""
    found: list[Tuple] = []
    at = 0
    while at < len(arrivals):
        size = choose.choice((1, 2, 5, 100))
        batch, at = batch_of(arrivals[at : at + size], schema), at + size
        found += (each for out in operator.on_batch(batch, 0) for each in tuples_of(out))
        if choose.random() < 0.7:
            rest = min((each.time for each in (*arrivals[at:], *later)), default=MAX_TIME - 1)
            found += watermark(operator, max(rest - choose.choice((0, 0, 3)), MIN_TIME))
    return found


def watermark(operator: RunningOperator, time: int) -> Iterator[Tuple]:
    for out in without_pauses(operator.on_watermark(time)):
        assert 0 < len(out) <= 65_536
        yield from tuples_of(out)


def run_restored(
    make: Callable[[], StatefulOperator],
    by: Sequence[str],
    arrivals: Sequence[Tuple],
    schema: Schema,
    choose: random.Random,
) -> list[Tuple]:
    """Some instances, each as far in event time as its tuples allow; then their state in others, to the end."""
    cut = choose.randrange(len(arrivals) + 1)
    before, after = arrivals[:cut], arrivals[cut:]
    most = 3 if by else 1
    former = [make() for _ in range(choose.randint(1, most))]
    found: list[Tuple] = []
    for index, operator in enumerate(former):
        mine = [[each for each in part if _bucket(each.row, by) % len(former) == index] for part in (before, after)]
        found += feed(operator, *mine, schema, choose)
    assert all(isinstance(operator, StatefulOperator) for operator in former)
    parts = [part for operator in former for part in operator.snapshot()]
    latter = [make() for _ in range(choose.randint(1, most))]
    for index, operator in enumerate(latter):
        operator.restore(parts, lambda port, columns, index=index: _kept(columns, by, index, len(latter)))  # type: ignore[misc]
        mine_after = [each for each in after if _bucket(each.row, by) % len(latter) == index]
        found += run_alone(operator, mine_after, schema, choose)
    return found


def _bucket(row: Row, by: Sequence[str]) -> int:
    return sum(repr(key_of(row, by)).encode())


def _kept(columns: Columns, by: Sequence[str], index: int, count: int) -> np.ndarray:
    n = len(next(iter(columns.values())))
    keys = rows_of({name: columns[name] for name in by}) if by else [{}] * n
    return np.array([_bucket(key, by) % count == index for key in keys], bool)


# --- in a plan -------------------------------------------------------------------------------------------------------


def query_of(schema: Schema, *operators: model.Operator, disorder: int = 100) -> Query:
    """Over the stream "s", whose column `t` is the event time; the last operator is put out as "out"."""
    stream = Stream("s", schema, col("t"), disorder)
    return Query("q", (stream,), operators, (Output("out", operators[-1].name),))


def run_planned(query: Query, arrivals: Sequence[Tuple], choose: random.Random, **options: Any) -> Ran:
    """The tuples dealt to two publishers by their origins."""
    names = query.streams[0].schema.names
    rows: list[list[tuple[Any, ...]]] = [[], []]
    for each in arrivals:
        rows[each.origin[0] % 2].append(tuple(each.row[name] for name in names))
    partitions = [Partition(index, part) for index, part in enumerate(rows)]
    execution = Execution(
        Options(parallelism=choose.randint(1, 4), split=choose.choice(("stateful", "single", "per-operator")), **options),
        tuple(choose.choice((1, 3, 50)) for _ in range(3)),
        (),
        (0,),
        1 << 16,
        choose.randrange(1 << 30),
    )
    return run_case(Case(query, {"s": partitions}), execution)


def as_planned(arrivals: Sequence[Tuple]) -> list[Tuple]:
    """The same tuples with the origins that a plan gives them, in stream order."""
    count: Counter[int] = Counter()
    found = []
    for each in arrivals:
        part = each.origin[0] % 2
        found.append(Tuple(each.time, (part, count[part]), each.row))
        count[part] += 1
    return sorted(found, key=lambda each: each.place)


def without_origins(tuples: Iterable[Tuple]) -> Counter[tuple[int, str]]:
    return Counter((each.time, repr(tuple(each.row.values()))) for each in tuples)


def planned_rows(ran: Ran) -> Counter[tuple[int, str]]:
    return Counter((time, repr(values)) for time, values in ran.outputs["out"])
