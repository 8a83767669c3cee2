"""Windows that take rows one by one, under test: rows in disorder, dealt by key to instances, answers as lists of values by group.

`run` is what a query does with them; a test says what should have come out with a few lines over rows in stream order.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from cep.compile.aggregate.spec import AggregateSpec
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.operator import Keep, StatefulOperator
from cep.dataflow.operators.sequential_aggregate import SequentialAggregate
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.kernels.columns import Columns, columns_from_arrow, columns_to_arrow
from cep.kernels.tables.hashing import hash_words
from cep.kernels.tables.keys import empty_keys, encode_keys
from cep.model.functions import Function, count, count_distinct, first, last, max_, min_, sum_
from cep.model.operators import Aggregate
from cep.model.schema import Schema
from cep.model.windows import Window
from tests.support.pausing import without_pauses

SCHEMA = Schema.of({"key": "string?", "n": "int64", "x": "float64", "s": "string?", "open": "bool?", "close": "bool?"})
FUNCTIONS: tuple[tuple[str, Function], ...] = (
    ("rows", count()),
    ("total", sum_("n")),
    ("exact", sum_("x")),
    ("least", min_("s")),
    ("greatest", max_("n")),
    ("first", first("n")),
    ("last", last("s")),
    ("distinct", count_distinct("s")),
)
ORIGIN_WORDS = 3
LONG = "a key of more than fifteen bytes"
KEYS = [None, "", "a", "b", LONG, LONG + "!"]
TEXTS = [None, "", "x", "y" * 15, "z" * 16, "y" * 40]
REALS = [0.5, 1e300, -1e300, 5e-324, 3.0]


@dataclass(frozen=True)
class Row:
    time: int
    number: int  # of its origin
    key: str | None = "a"
    n: int = 0
    x: float = 0.0
    s: str | None = None
    open: bool | None = None
    close: bool | None = None

    @property
    def origin(self) -> tuple[int, ...]:
        """Its last word decides."""
        return (7, 7, self.number)


Answer = tuple[int, tuple[Any, ...], tuple[int, ...] | None]  # event time, values behind the key, origin
Answers = dict[Any, list[Answer]]


@st.composite
def rows(draw: st.DrawFn, most: int = 40, keys: int = len(KEYS), span: int = 60) -> list[Row]:
    """In stream order; times tie, and numbers do not."""
    cells = st.tuples(
        st.integers(0, span),
        st.sampled_from(KEYS[:keys]),
        st.integers(-3, 3),
        st.sampled_from(REALS),
        st.sampled_from(TEXTS),
        st.sampled_from([None, False, True]),
        st.sampled_from([None, False, True]),
    )
    drawn = sorted(draw(st.lists(cells, max_size=most)), key=lambda cell: cell[0])
    return [Row(time, number, *rest) for number, (time, *rest) in enumerate(drawn)]


def values(members: Sequence[Row]) -> tuple[Any, ...]:
    """FUNCTIONS of rows in stream order."""
    texts = [row.s for row in members if row.s is not None]
    sums = [row.x for row in members]
    total = float(sum(map(Fraction, sums)))
    return (
        len(members),
        sum(row.n for row in members),
        total,
        min(texts, key=str.encode, default=None),
        max(row.n for row in members),
        members[0].n,
        members[-1].s,
        len(set(texts)),
    )


def by_key(members: Iterable[Row]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in members:
        groups[row.key].append(row)
    return groups


def batch_of(members: Sequence[Row]) -> Batch:
    arrays = {name: [getattr(row, name) for row in members] for name in SCHEMA.names}
    columns = columns_from_arrow(pa.RecordBatch.from_pydict(arrays, SCHEMA.arrow), SCHEMA)
    origin = np.array([row.origin for row in members], np.int64).reshape(-1, ORIGIN_WORDS)
    return Batch(columns, np.array([row.time for row in members], np.int64), origin)


def operator_of(window: Window, functions: Sequence[tuple[str, Function]] = FUNCTIONS, **options: Any) -> Aggregate:
    return Aggregate("windows", "rows", window, options.pop("by", ("key",)), tuple(functions), **options)


def sequential(operator: Aggregate, dead_letters: DeadLetters | None = None, limit: int = 1 << 30) -> SequentialAggregate:
    spec = AggregateSpec.of(operator, SCHEMA, frozenset(), "whole", origin=True, origin_words=ORIGIN_WORDS)
    return SequentialAggregate(operator.name, spec, ORIGIN_WORDS, limit, lambda: 0, dead_letters or DeadLetters())


@dataclass
class Plan:
    """How rows come: `disorder` in event time, `cuts` rows in a batch, instances before and after row `move`, all by a seed."""

    disorder: int = 0
    cuts: tuple[int, ...] = (1,)
    instances: tuple[int, int] = (1, 1)
    move: int | None = None
    seed: int = 0


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    cuts = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 7, 50]), min_size=1, max_size=3)))
    return Plan(
        draw(st.sampled_from([0, 1, 5, 30])),
        cuts,
        (draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        draw(st.none() | st.integers(0, 40)),
        draw(st.integers(0, 99)),
    )


@dataclass
class Instances:
    """Instances of one operator: rows go by their key, watermarks to all."""

    make: Callable[[], StatefulOperator]
    by: tuple[str, ...]
    schema: Schema
    count: int
    answers: Answers = field(default_factory=lambda: defaultdict(list))
    made: list[StatefulOperator] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = self.made or [self.make() for _ in range(self.count)]
        self.watermarks = [MIN_TIME] * self.count

    def add(self, batch: Batch) -> None:
        owners = self._owners(batch.columns, len(batch), self.count)
        for i, instance in enumerate(self.made):
            rows_ = np.flatnonzero(owners == i)
            if len(rows_):
                self._collect(i, instance.on_batch(batch.take(rows_), 0))

    def advance(self, watermark: int, i: int) -> None:
        self._collect(i, without_pauses(self.made[i].on_watermark(watermark)))
        self.watermarks[i] = watermark

    def moved(self, count: int) -> Instances:
        """The same state on `count` instances."""
        parts = [part for instance in self.made for part in instance.snapshot()]
        moved = Instances(self.make, self.by, self.schema, count, self.answers)
        for i, instance in enumerate(moved.made):
            instance.restore(parts, self._keep(i, count))
        return moved

    def _keep(self, i: int, count: int) -> Keep:
        def keep(port: int, columns: Columns) -> np.ndarray:
            n = len(next(iter(columns.values())))
            kept: np.ndarray = self._owners(columns, n, count) == i
            return kept

        return keep

    def _owners(self, columns: Columns, n: int, count: int) -> np.ndarray:
        keys = encode_keys(columns, tuple(SCHEMA[name] for name in self.by)) if self.by else empty_keys(n)
        hashes = np.empty(n, np.uint64)
        hash_words(keys.w0, keys.w1, hashes)
        return (hashes % np.uint64(count)).astype(np.int64)

    def _collect(self, i: int, batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert len(batch)
            nullable = Schema(tuple(replace(f, nullable=True) for f in self.schema.fields))
            arrays = columns_to_arrow(batch.columns, nullable)
            columns = [array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array for array in arrays]
            origins = [None] * len(batch) if batch.origin is None else list(map(tuple, batch.origin.tolist()))
            for time, origin, row in zip(batch.time.tolist(), origins, zip(*(c.to_pylist() for c in columns), strict=True), strict=True):
                assert time >= self.watermarks[i]
                key, rest = row[: len(self.by)], row[len(self.by) :]
                self.answers[key[0] if len(key) == 1 else key].append((time, rest, origin))


def run(
    operator: Aggregate, members: Sequence[Row], plan: Plan, make: Callable[[], StatefulOperator] | None = None
) -> tuple[Answers, list[StatefulOperator]]:
    """Answers of each group in the order in which they came out, and the operators at the end."""
    spec = AggregateSpec.of(operator, SCHEMA, frozenset(), "whole")
    instances = Instances(make or (lambda: sequential(operator)), operator.by, spec.output_schema, plan.instances[0])
    choose = random.Random(plan.seed)
    arrived = sorted(members, key=lambda row: row.time + choose.randint(0, plan.disorder))
    start = turn = 0
    while start < len(arrived):
        if plan.move is not None and start >= plan.move:
            instances, plan = instances.moved(plan.instances[1]), replace(plan, move=None)
        stop = start + plan.cuts[turn % len(plan.cuts)]
        instances.add(batch_of(arrived[start:stop]))
        promised = max(row.time for row in arrived[:stop]) - plan.disorder
        for i in range(instances.count):
            if choose.random() < 0.7 and promised > instances.watermarks[i]:  # some lag behind
                instances.advance(promised, i)
        start, turn = stop, turn + 1
    for i in range(instances.count):
        instances.advance(MAX_TIME, i)
    return dict(instances.answers), instances.made


__all__ = [
    "FUNCTIONS",
    "LONG",
    "ORIGIN_WORDS",
    "SCHEMA",
    "Answers",
    "Instances",
    "Plan",
    "Row",
    "batch_of",
    "by_key",
    "operator_of",
    "plans",
    "rows",
    "run",
    "sequential",
    "values",
]
