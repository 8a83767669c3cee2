"""Aggregates over TIME windows against a slow, obvious reference: any rows, cuts, stages, instances, same answers to the bit.

Tests `window_state.py`, `entries.py`, `groups.py`, `results.py`, `rows.py`, `source.py`, `spec.py`, `cep/compile/windows/firing.py`,
`cep/compile/windows/panes.py`, `cep/compile/windows/pane_tables.py`.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.aggregate.entries import entry_rows
from cep.compile.aggregate.spec import TIME_MAX
from cep.compile.aggregate.window_state import AggregateSpec, WindowState
from cep.dataflow.outputs.balancer import COUNTED_BATCHES, RouteEntries, RouteKey, uniform_table
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.errors import DataError, ProtocolError, QueryError
from cep.kernels.columns import Columns, columns_from_arrow, columns_to_arrow, to_arrow
from cep.kernels.jit import compilations, interpreted, warm
from cep.kernels.tables.hashing import hash_words
from cep.kernels.tables.keys import Keys, decode_keys, empty_keys, encode_keys
from cep.model.functions import (
    Function,
    approx_count_distinct,
    arg_max,
    arg_min,
    avg,
    collect,
    count,
    count_distinct,
    first,
    last,
    max_,
    median,
    min_,
    quantile,
    stddev,
    stddev_pop,
    sum_,
    var,
    var_pop,
    window_end,
    window_start,
)
from cep.model.operators import Aggregate
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from tests.reference.aggregates import Group, apply
from tests.reference.rows import Row as PlainRow
from tests.support.pausing import without_pauses

#: A dozen shapes are compiled the first time.
pytestmark = pytest.mark.timeout(600)

SCHEMA = Schema.of(
    {
        "t": "timestamp[us]",
        "key": "string?",
        "part": "int32?",
        "n": "int64?",
        "m": "int32",
        "x": "float64?",
        "y": "float64",
        "s": "string?",
        "d": "binary",
        "b": "bool?",
    }
)


def each(*functions: Function) -> tuple[tuple[str, Function], ...]:
    return tuple(("_".join(map(str, (f.name, f.column, *f.columns[1:], *dict(f.parameters).values()))), f) for f in functions)


COUNTS = each(count(), first("t"), last("t"), window_start(), window_end())
NUMBERS = each(
    *(f(c) for c in ("n", "m") for f in (sum_, avg, min_, max_)), *(f(c) for c in "xyb" for f in (min_, max_)), count("s"), count("x")
)
TEXTS = each(*(f(c) for c in "sd" for f in (min_, max_, first, last)))
EDGES = each(*(f(c) for c in "nmxyb" for f in (first, last)), count())
SUMS = each(sum_("x"), avg("x"), sum_("y"), avg("y"), max_("y"))
ARGS = each(*(f(*c) for c in (("n", "x"), ("s", "n"), ("y", "s"), ("d", "key"), ("b", "y"), ("t", "m")) for f in (arg_min, arg_max)))
MOMENTS = each(var("n"), stddev("m"), var_pop("x"), stddev_pop("y"), var("y"), sum_("y"), max_("n"))
DISTINCT = each(*(count_distinct(c) for c in ("n", "x", "s", "d", "b", "t")), max_("s"))
SKETCHES = each(
    *(approx_count_distinct(*c) for c in (("n", 4), ("s", 4), ("y",), ("x", 5), ("part", 16))),
    *(quantile(*c) for c in (("n", 0.3), ("x", 0), ("x", 0.99), ("y", 0.07), ("m", 1))),
    median("y"),
)
COLLECTED = each(*(collect(*c) for c in (("n", 3), ("s", 2), ("y", 100), ("d", 5), ("b", 1), ("t", 4), ("x", 2))), first("s"))
FURTHER = {"arg_min", "arg_max", "var", "stddev", "var_pop", "stddev_pop", "count_distinct", "approx_count_distinct"}
FURTHER |= {"quantile", "median", "collect"}
OF_BLOCKS = (ARGS, MOMENTS, DISTINCT, SKETCHES, COLLECTED)
MERGEABLE = (COUNTS, NUMBERS, TEXTS, EDGES, SUMS, *OF_BLOCKS)
#: Some of every layout of a state. Each takes seconds to make; the others' machine code runs in the tests of aggregate functions.
COMPILED = (COUNTS, TEXTS, SUMS, COLLECTED)
SINGLE = (each(sum_("n"), avg("n")), each(avg("n")))
BYS = ((), ("key",), ("part",), ("key", "part"), ("y",), ("n", "part", "b", "m"))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Hypothesis watches every line that runs inside a property, a compiler's too."""
    for functions in (*COMPILED, *SINGLE):
        AggregateSpec.of(aggregate(TimeWindow(2, 1), (), functions), SCHEMA, frozenset({"t"}), "whole").warm()
    warm()


def kernels_of(functions: Any) -> AbstractContextManager[None]:
    """Inside, kernels are machine code where that is made in this file, and else their source."""
    return nullcontext() if functions in COMPILED else interpreted()


# --- rows ------------------------------------------------------------------------------------------------------------

TEXT = st.sampled_from(["", "a", "b", "a\0", "ab", "x" * 15, "x" * 16, "x" * 15 + "y", "x" * 40, "é", "日本語日本", "🜁"])
NAN_ = float("nan")
FLOAT = st.one_of(
    st.integers(-3, 3).map(float), st.sampled_from([-0.0, 0.1, 1e16, -1e16, 1e308, -1e308, 5e-324, NAN_, math.inf, -math.inf])
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "key": st.none() | TEXT,
    "part": st.none() | st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
    "n": st.none() | st.sampled_from([0, 1, -5, 2**63 - 1, -(2**63)]),
    "m": st.sampled_from([0, 7, -7, 2**31 - 1, -(2**31)]),
    "x": st.none() | FLOAT,
    "y": FLOAT,
    "s": st.none() | TEXT,
    "d": TEXT.map(str.encode),
    "b": st.none() | st.booleans(),
}
NAMES = tuple(VALUES)
NEAR = st.integers(-30, 60)


@dataclass(frozen=True)
class Row:
    time: int
    origin: tuple[int, int]
    values: dict[str, Any]


@st.composite
def rows_of(draw: st.DrawFn, times: st.SearchStrategy[int] = NEAR, most: int = 40) -> list[Row]:
    """In the order of arrival; (time, origin) may tie."""
    drawn = draw(st.lists(st.tuples(times, st.integers(0, 1), st.integers(0, 9), *VALUES.values()), max_size=most))
    return [Row(time, (a, b), dict(zip(NAMES, values, strict=True))) for time, a, b, *values in drawn]


@st.composite
def windows(draw: st.DrawFn, most: int = 12) -> TimeWindow:
    size = draw(st.integers(1, most))
    return TimeWindow(size, draw(st.one_of(st.just(size), st.integers(1, size))))


def batch_of(rows: Sequence[Row]) -> Batch:
    arrays = {name: [row.values[name] for row in rows] for name in NAMES} | {"t": [row.time for row in rows]}
    columns = columns_from_arrow(pa.RecordBatch.from_pydict(arrays, SCHEMA.arrow), SCHEMA)
    time = np.array([row.time for row in rows], np.int64)
    return Batch(columns, time, np.array([row.origin for row in rows], np.int64).reshape(-1, 2))


# --- the reference ---------------------------------------------------------------------------------------------------


def normal(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def rank(value: Any) -> Any:
    """NULL, then numbers with -0.0 before 0.0, then NaN."""
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return (0,) if value is None else (1, False, value.encode() if isinstance(value, str) else value, 0)


def exact(values: list[float]) -> float:
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return NAN_
    if any(map(math.isinf, values)):
        return math.inf if math.inf in values else -math.inf
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def result(function: Function, rows: list[Row], start: int, end: int) -> Any:
    if function.column is None:
        return {"count": len(rows), "window_start": start, "window_end": end}[function.name]
    if function.name in FURTHER:
        return by_reference(function, rows, start, end)
    ordered = sorted(((row.time, row.origin, value_of(row, function.column)) for row in rows), key=lambda r: (r[0], r[1], rank(r[2])))
    values = [value for _, _, value in ordered if value is not None]
    match function.name:
        case "count":
            return len(values)
        case "first":
            return ordered[0][2]
        case "last":
            return ordered[-1][2]
        case _ if not values:
            return None
        case "min":
            return normal(min(values, key=rank))
        case "max":
            return normal(max(values, key=rank))
        case "sum" | "avg":
            total = exact(values) if isinstance(values[0], float) else sum(values)
            if function.name == "avg":
                return float(total) / len(values)
            return total if isinstance(total, float) or -(2**63) <= total < 2**63 else None


def by_reference(function: Function, rows: list[Row], start: int, end: int) -> Any:
    """What is equal in (time, origin) is in order of the value, where nothing is said of whole rows."""
    assert function.column is not None
    order = lambda row: (row.time, row.origin, rank(value_of(row, function.column)))  # noqa: E731
    members = [PlainRow(row.time, row.origin, (row.time, *(row.values[name] for name in NAMES))) for row in sorted(rows, key=order)]
    return apply(function, Group(start, end, (), tuple(members)), SCHEMA)


def value_of(row: Row, name: str) -> Any:
    return row.time if name == "t" else row.values[name]


def comparable(value: Any) -> Any:
    """Floats by their bits, any NaN being one."""
    if isinstance(value, list):
        return tuple(map(comparable, value))
    return struct.pack("<d", NAN_ if math.isnan(value) else value) if isinstance(value, float) else value


Answers = Counter[tuple[Any, ...]]


def expected(operator: Aggregate, rows: Iterable[Row]) -> Answers:
    groups: dict[Any, list[Row]] = {}
    size, advance = operator.window.size, operator.window.advance
    for row in rows:
        key = tuple(comparable(normal(value_of(row, name))) for name in operator.by)
        for k in range((row.time - size) // advance + 1, row.time // advance + 1):
            groups.setdefault((k * advance, key), []).append(row)
    found: Answers = Counter()
    for (start, key), members in groups.items():
        values = [comparable(result(f, members, start, start + size)) for _, f in operator.functions]
        found[start + size - 1, *key, *values] += 1
    return found


# --- the engine ------------------------------------------------------------------------------------------------------

BUCKETS = 8


def bucket_of(columns: Columns, by: tuple[str, ...], n: int) -> np.ndarray:
    keys = encode_keys(columns, tuple(SCHEMA[name] for name in by)) if by else empty_keys(n)
    hashes = np.empty(n, np.uint64)
    hash_words(keys.w0, keys.w1, hashes)
    return (hashes % np.uint64(BUCKETS)).astype(np.int64)


class Instances:
    """Instances of one stage, each owning buckets; collects answers and checks their times against the watermarks."""

    def __init__(self, operator: Aggregate, stage: str, parallelism: int, rows_max: int = 3, keyed: bool = True) -> None:
        self.operator, self.stage = operator, stage
        self.spec = AggregateSpec.of(operator, SCHEMA, frozenset({"t"}), stage, keyed=keyed)
        self.states = [WindowState(self.spec, operator.name, rows_max) for _ in range(parallelism)]
        self.answers: Answers = Counter()
        self.dealer = None if keyed else RouteEntries(self.spec, uniform_table(BUCKETS, parallelism), parallelism)

    def add(self, batch: Batch) -> None:
        """By key."""
        if self.dealer is not None:
            for i, part in self.dealer.route(batch):
                self.states[i].add(part)
            return
        owner = bucket_of(batch.columns, self.operator.by, len(batch)) % len(self.states)
        for i, state in enumerate(self.states):
            state.add(batch.take(np.flatnonzero(owner == i)))

    def advance(self, watermark: int, only: int | None = None) -> None:
        for i, state in enumerate(self.states):
            if only is None or i == only:
                self._take(state, watermark)

    def _take(self, state: WindowState, watermark: int) -> None:
        earlier, before = state.watermark, MIN_TIME
        for batch in without_pauses(state.advance(watermark)):
            assert 0 < len(batch) <= state.rows_max
            times = [before, *batch.time.tolist()]
            assert times == sorted(times) and earlier <= times[1] and times[-1] < watermark
            before = times[-1]
            self.answers.update(read(batch, self.spec.output_schema))
        assert state.oldest_window_end is None or state.oldest_window_end > watermark

    def resized(self, parallelism: int) -> Instances:
        """The same state in other hands."""
        others = Instances(self.operator, self.stage, parallelism)
        others.answers = self.answers
        for batch in [made() for state in self.states for made in state.snapshot()]:
            for i, state in enumerate(others.states):
                state.restore(batch, self._owned(i, parallelism))
        return others

    def _owned(self, i: int, parallelism: int) -> Callable[[Columns], np.ndarray]:
        return lambda columns: bucket_of(columns, self.operator.by, len(columns["_pane"])) % parallelism == i


def taken(state: WindowState) -> list[pa.RecordBatch]:
    return [made() for made in state.snapshot()]


_WITHOUT_INSTANTS = {pa.timestamp("us", tz="UTC"): pa.int64(), pa.list_(pa.timestamp("us", tz="UTC")): pa.list_(pa.int64())}


def read(batch: Batch, schema: Schema) -> list[tuple[Any, ...]]:
    arrow = columns_to_arrow(batch.columns, schema)
    arrow.validate(full=True)
    arrays = [array.cast(_WITHOUT_INSTANTS.get(array.type, array.type)) for array in arrow.columns]
    columns = [[comparable(value) for value in array.to_pylist()] for array in arrays]
    return list(zip(batch.time.tolist(), *columns, strict=True))


def cuts(draw: Callable[..., Any], rows: list[Row]) -> Iterator[tuple[list[Row], int]]:
    """Batches with the watermark that holds after each: no later row is older."""
    while rows:
        taken = draw(st.integers(1, len(rows)))
        batch, rows = rows[:taken], rows[taken:]
        bound = min((row.time for row in rows), default=MAX_TIME)
        yield batch, draw(st.sampled_from([MIN_TIME, bound, bound - 7 if rows else bound]))
    yield [], MAX_TIME


def aggregate(window: TimeWindow, by: tuple[str, ...], functions: Any) -> Aggregate:
    return Aggregate("agg", "input", window, by, functions)


# --- properties ------------------------------------------------------------------------------------------------------


@given(rows_of(), windows(), st.sampled_from(BYS), st.sampled_from(MERGEABLE), st.data())
def test_whole_equals_the_reference(rows: list[Row], window: TimeWindow, by: tuple[str, ...], functions: Any, data: st.DataObject) -> None:
    operator = aggregate(window, by, functions)
    with kernels_of(functions):
        instances = Instances(operator, "whole", 1)
        for batch, watermark in cuts(data.draw, rows):
            instances.add(batch_of(batch))
            instances.advance(watermark)
    assert instances.answers == expected(operator, rows)
    assert instances.states[0].open_panes == 0


@given(rows_of(), windows(), st.sampled_from(BYS), st.sampled_from(MERGEABLE), st.data())
def test_partial_and_final_equal_the_reference(
    rows: list[Row], window: TimeWindow, by: tuple[str, ...], functions: Any, data: st.DataObject
) -> None:
    operator = aggregate(window, by, functions)
    with kernels_of(functions):
        keyed = data.draw(st.booleans())
        partial = AggregateSpec.of(operator, SCHEMA, frozenset({"t"}), "partial", keyed=keyed)
        partials = [WindowState(partial, "agg", rows_max=3) for _ in range(data.draw(st.integers(1, 3)))]
        final = Instances(operator, "final", data.draw(st.integers(1, 2)), keyed=keyed)
        for batch, watermark in cuts(data.draw, rows):
            sent = []
            for row in batch:
                state = partials[data.draw(st.integers(0, len(partials) - 1))]
                state.add(batch_of([row]))
                sent += list(without_pauses(state.flush())) if data.draw(st.booleans()) else []
            for state in partials:
                sent += without_pauses(state.advance(watermark))
            for made in sent:
                assert made.time.min() >= final.states[0].watermark
                final.add(through_arrow(made, partial.entry_schema))
            final.advance(watermark)
    assert final.answers == expected(operator, rows)


@pytest.mark.parametrize("key", ["short", "long" * 10], ids=["short", "long"])
def test_partial_rows_are_dealt_by_their_keys(key: str) -> None:
    """Large batches of one pane go in one pass where no key is long; every sixteenth is counted, and goes as all others do."""
    operator = aggregate(TimeWindow(10, 10), ("key",), COUNTS)
    spec = AggregateSpec.of(operator, SCHEMA, frozenset({"t"}), "partial")
    dealer, router = RouteEntries(spec, uniform_table(BUCKETS, 3), 3), RouteKey((SCHEMA["key"],), uniform_table(BUCKETS, 3), 3)
    state, final = WindowState(spec, "agg"), Instances(operator, "final", 3, rows_max=5_000, keyed=False)
    turns = range(COUNTED_BATCHES + 2)
    rows = {turn: [row(10 * turn + i % 7, key=f"{i % 2_000}{key if i % 2_000 == 3 else ''}") for i in range(3_000)] for turn in turns}
    for turn in turns:
        state.add(batch_of(rows[turn]))
        (made,) = without_pauses(state.advance(10 * turn + 10))
        named = Batch(decode_keys(keys_of(spec, made), spec.by), made.time)
        parts = dict(dealer.route(made))
        for i, part in router.route(named):
            column = decode_keys(keys_of(spec, parts[i]), spec.by)["key"]
            assert to_arrow(column).equals(to_arrow(part.columns["key"]))
            final.states[i].add(through_arrow(parts[i], spec.entry_schema) if turn % 2 else parts[i])
    assert dealer.counts.sum() == 2_000 and dealer.counts.tolist() == router.counts.tolist()
    final.advance(MAX_TIME)
    assert final.answers == expected(operator, [each for turn in turns for each in rows[turn]])


def test_partial_rows_stay_what_they_are_while_the_state_goes_on() -> None:
    """They look at the table they were in, which others would be put into next."""
    operator = aggregate(TimeWindow(10, 10), ("n",), COUNTS)
    (entry,) = AggregateSpec.of(operator, SCHEMA, frozenset({"t"}), "partial").entry_fields
    state = state_of(operator, "partial")
    kept: list[Batch] = []
    wanted: list[bytes] = []
    for k in range(8):
        state.add(batch_of([row(k * 10, n=100 * k + i) for i in range(20)]))
        made = list(without_pauses(state.flush()) if k % 3 == 2 else without_pauses(state.advance(k * 10 + 10)))
        kept += made
        wanted += [bytes(each.columns[entry.name].data) for each in made]
        if k == 4:
            del kept[1], wanted[1]
    assert [bytes(each.columns[entry.name].data) for each in kept] == wanted
    assert len(set(wanted)) == 7


def keys_of(spec: AggregateSpec, batch: Batch) -> Keys:
    """Of partial rows."""
    rows = entry_rows(spec, batch.columns, batch.time, 0)
    return Keys(rows.matrix[:, 0].astype(np.uint64), rows.matrix[:, 1].astype(np.uint64), rows.arena)


def through_arrow(batch: Batch, schema: Schema) -> Batch:
    """As it arrives from the wire."""
    arrow = columns_to_arrow(batch.columns, schema)
    return Batch(columns_from_arrow(arrow, schema), batch.time)


@given(rows_of(), windows(), st.sampled_from(BYS), st.sampled_from((COUNTS, TEXTS, SUMS, *OF_BLOCKS)), st.data())
def test_a_snapshot_goes_on_at_any_parallelism(
    rows: list[Row], window: TimeWindow, by: tuple[str, ...], functions: Any, data: st.DataObject
) -> None:
    """Instances may have fired up to different watermarks when the snapshot is taken; no window fires twice or never."""
    operator = aggregate(window, by, functions)
    with kernels_of(functions):
        instances = Instances(operator, "whole", data.draw(st.integers(1, 3)))
        for batch, watermark in cuts(data.draw, rows):
            instances.add(batch_of(batch))
            for i in range(len(instances.states)):
                if data.draw(st.booleans()):
                    instances.advance(watermark, only=i)
            if data.draw(st.integers(0, 2)) == 0:
                instances = instances.resized(data.draw(st.integers(1, 3)))
        instances.advance(MAX_TIME)
    assert instances.answers == expected(operator, rows)


FAR = st.sampled_from([-TIME_MAX, -TIME_MAX + 1, -1, 0, 5, 10**15, TIME_MAX - 1, TIME_MAX])


@given(rows_of(FAR, most=6), windows(4))
def test_gaps_cost_nothing_and_far_times_do_not_overflow(rows: list[Row], window: TimeWindow) -> None:
    operator = aggregate(window, ("key",), COUNTS)
    instances = Instances(operator, "whole", 1)
    instances.add(batch_of(rows))
    instances.advance(MAX_TIME)
    assert instances.answers == expected(operator, rows)


def test_disorder_over_many_panes_in_one_batch() -> None:
    rng = np.random.default_rng(5)
    rows = [row(int(t), key="abc"[i % 3]) for i, t in enumerate(rng.integers(-500, 500, 3_000))]
    operator = aggregate(TimeWindow(3, 2), ("key",), COUNTS)
    instances = Instances(operator, "whole", 1)
    instances.add(batch_of(rows))
    instances.advance(MAX_TIME)
    assert instances.answers == expected(operator, rows)


# --- pictures --------------------------------------------------------------------------------------------------------


def row(time: int, **values: Any) -> Row:
    plain = {"key": "a", "part": 0, "n": 0, "m": 0, "x": 0.0, "y": 0.0, "s": "", "d": b"", "b": False}
    return Row(time, (0, time), plain | values)


def state_of(operator: Aggregate, stage: str = "whole", **options: Any) -> WindowState:
    rows_max = options.pop("rows_max", 65_536)
    return WindowState(AggregateSpec.of(operator, SCHEMA, frozenset({"t"}), stage, **options), operator.name, rows_max)


def fired(state: WindowState, watermark: int) -> list[tuple[int, int]]:
    """(event time, count) of what fires."""
    batches = without_pauses(state.advance(watermark))
    return [each for b in batches for each in zip(b.time.tolist(), b.columns["count_None"].values.tolist(), strict=True)]


def test_sliding_windows() -> None:
    r"""size 10, advance 4, so panes of 2.

    time       -8  -6  -4  -2   0   2   4   6   8  10  12  14  16
    rows                        *1  *   *5     *9       *13
    window -2  [-------------------)                              [-8, 2)    1
    window -1          [-------------------)                      [-4, 6)    1, 5
    window  0                   [-------------------)             [0, 10)    1, 5, 9
    window  1                           [-------------------)     [4, 14)    5, 9, 13
    window  2                                   [-----------...   [8, 18)    9, 13
    window  3                                           [---...   [12, 22)   13
    """
    state = state_of(aggregate(TimeWindow(10, 4), (), COUNTS))
    state.add(batch_of([row(t) for t in (1, 5, 9)]))
    assert state.oldest_window_end == 2
    assert fired(state, 1) == []
    assert fired(state, 2) == [(1, 1)]
    assert fired(state, 13) == [(5, 2), (9, 3)]
    state.add(batch_of([row(13)]))
    assert fired(state, 14) == [(13, 3)]
    assert fired(state, MAX_TIME) == [(17, 2), (21, 1)]


def test_windows_without_rows_do_not_fire() -> None:
    """size 2, advance 1, rows a century apart: two windows for each row, and nothing between.

    window k-1   [--*-)         ...           [--*-)
    window k       [*---)       ...             [*---)
    """
    century = 100 * 365 * 86_400_000_000
    state = state_of(aggregate(TimeWindow(2, 1), (), COUNTS))
    state.add(batch_of([row(0), row(century)]))
    assert fired(state, MAX_TIME) == [(0, 1), (1, 1), (century, 1), (century + 1, 1)]


def test_a_window_size_that_advance_does_not_divide() -> None:
    """size 7, advance 3, panes of 1; a row at each instant from 0 to 9.

    rows        0 1 2 3 4 5 6 7 8 9
    [-6, 1)     *                       1
    [-3, 4)     * * * *                 4
    [0, 7)      * * * * * * *           7
    [3, 10)           * * * * * * *     7
    [6, 13)                 * * * *     4
    [9, 16)                       *     1
    """
    state = state_of(aggregate(TimeWindow(7, 3), (), COUNTS))
    state.add(batch_of([row(t) for t in range(10)]))
    assert fired(state, MAX_TIME) == [(0, 1), (3, 4), (6, 7), (9, 7), (12, 4), (15, 1)]


def test_tumbling_windows_before_the_epoch() -> None:
    """size 10: [-20, -10) holds -11, [-10, 0) holds -10 and -1, [0, 10) holds 0."""
    state = state_of(aggregate(TimeWindow(10, 10), (), COUNTS))
    state.add(batch_of([row(t) for t in (-11, -10, -1, 0)]))
    assert fired(state, MAX_TIME) == [(-11, 1), (-1, 2), (9, 1)]


# --- promises --------------------------------------------------------------------------------------------------------


def test_emission_can_pause_anywhere_and_rows_must_wait() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), ("key",), COUNTS), rows_max=4)
    state.add(batch_of([row(i % 20, key=str(i)) for i in range(20)]))
    emission = without_pauses(state.advance(20))
    assert [len(next(emission)) for _ in range(2)] == [4, 4]
    with pytest.raises(ProtocolError, match="while a window was being emitted"):
        state.add(batch_of([row(30)]))
    assert [(int(b.time[0]), len(b)) for b in emission] == [(9, 2), (19, 4), (19, 4), (19, 2)]
    state.add(batch_of([row(30)]))
    assert fired(state, MAX_TIME) == [(39, 1)]


def test_rows_older_than_the_watermark_are_refused() -> None:
    state = state_of(aggregate(TimeWindow(10, 5), (), COUNTS))
    list(without_pauses(state.advance(12)))
    state.add(batch_of([row(12)]))
    with pytest.raises(ProtocolError, match=r"'agg': a row at 1970.*000009Z came after watermark 1970.*000012Z"):
        state.add(batch_of([row(9)]))


def test_event_times_beyond_the_limit_are_refused() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), (), COUNTS))
    for time in (2**63 - 1, -(2**63)):
        with pytest.raises(DataError, match="event times must lie within"):
            state.add(batch_of([row(time)]))


def test_a_sum_that_does_not_fit_is_null_and_reported_with_its_group() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), ("key", "part"), SINGLE[0]))
    state.add(batch_of([row(1, key="big", part=None, n=2**62), row(2, key="big", part=None, n=2**62), row(3, key="small", n=-7)]))
    (answers,) = without_pauses(state.advance(10))
    assert columns_to_arrow(answers.columns, state.spec.output_schema).to_pylist() == [
        {"key": "big", "part": None, "sum_n": None, "avg_n": 2.0**62},
        {"key": "small", "part": 0, "sum_n": -7, "avg_n": -7.0},
    ]
    (failure,), more = state.take_failures()
    assert (failure.operator, failure.reason, failure.group, failure.time) == ("agg", "sum overflow", "key='big', part=NULL", 9)
    assert more == 0 and state.take_failures() == ([], 0)


def test_integer_averages_round_once() -> None:
    """float64(sum) / float64(count), with a sum of 128 bits: 2**63 + 2**11 + 1 is not halfway between two floats, but
    2**63 + 2**10 is, and goes to even."""
    top = 2**63 - 1
    for values in ([top, 1 + 2**10], [top, 2 + 2**10], [top, 1 + 3 * 2**10], [-top, -2 - 2**10, 0], [top] * 5, [-top - 1] * 7):
        state = state_of(aggregate(TimeWindow(100, 100), (), SINGLE[1]))
        state.add(batch_of([row(i, n=value) for i, value in enumerate(values)]))
        (answers,) = without_pauses(state.advance(MAX_TIME))
        assert answers.columns["avg_n"].values.tolist() == [float(sum(values)) / len(values)]


def test_origin_is_a_function_of_operator_key_and_window() -> None:
    operator = aggregate(TimeWindow(10, 10), ("key",), COUNTS)
    rows = [row(t, key=key) for t in (1, 11) for key in ("a", "b", "x" * 30)]
    found = []
    for order in (rows, rows[::-1]):
        state = state_of(operator, origin=True)
        state.add(batch_of(order))
        found.append({(int(t), key): tuple(o) for b in without_pauses(state.advance(MAX_TIME)) for t, key, o in zip_key(b)})
    assert found[0] == found[1]
    assert len(set(found[0].values())) == 6
    assert {origin[1] for origin in found[0].values()} == {0, 10}


def zip_key(batch: Batch) -> Iterator[tuple[int, str, list[int]]]:
    keys = columns_to_arrow({"key": batch.columns["key"]}, Schema((SCHEMA["key"],))).column(0).to_pylist()
    assert batch.origin is not None
    yield from zip(batch.time.tolist(), keys, batch.origin.tolist(), strict=True)


def test_creation_time_is_the_oldest_known() -> None:
    state = state_of(aggregate(TimeWindow(10, 5), (), COUNTS))
    for time, created in ((1, 70), (2, 50), (7, 0), (12, 90)):
        batch = batch_of([row(time)])
        state.add(Batch(batch.columns, batch.time, batch.origin, created))
    found = [(int(b.time[0]), b.created) for watermark in (5, 10, 15, 20) for b in without_pauses(state.advance(watermark))]
    assert found == [(4, 50), (9, 50), (14, 90), (19, 90)]


def test_windows_that_come_out_together_have_the_oldest_creation_time() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), (), COUNTS))
    for times, created in (((0, 10, 20, 30), 70), ((10, 20, 30, 40), 50)):
        batch = batch_of([row(time) for time in times])
        state.add(Batch(batch.columns, batch.time, batch.origin, created))
    (found,) = without_pauses(state.advance(MAX_TIME))
    assert found.time.tolist() == [9, 19, 29, 39, 49] and found.created == 50


def test_memory_is_given_back() -> None:
    """A thousand windows of which one is large: what stays is two tables of the usual size."""
    state = state_of(aggregate(TimeWindow(10, 10), ("n",), COUNTS))
    sizes = []
    for k in range(1_000):
        state.add(batch_of([row(k * 10, n=i) for i in range(2_000 if k == 500 else 3)]))
        list(without_pauses(state.advance(k * 10 + 10)))
        sizes.append(state.bytes)
    assert state.open_panes == 0 and state.oldest_window_end is None
    assert max(sizes) > 50_000 and sizes[-1] == sizes[10] < 10_000


def test_freed_tables_of_any_size_are_used_again() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), ("n",), COUNTS))
    for k, groups in enumerate([3, 100, 40, 70, 33, 1, 65, 64, 130, 20] * 5):
        state.add(batch_of([row(k * 20, n=i) for i in range(groups)] + [row(k * 20 + 10, n=i) for i in range(groups // 2)]))
        assert sum(len(batch) for batch in without_pauses(state.advance(k * 20 + 20))) == groups + groups // 2


def test_the_bytes_of_long_keys_are_given_back() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), ("key",), COUNTS))
    for k in range(4):
        state.add(batch_of([row(k * 10, key="k" * (1_000_000 if k == 0 else 20))]))
        list(without_pauses(state.advance(k * 10 + 10)))
    assert state.bytes < 10_000


def test_sliding_memory_is_given_back() -> None:
    state = state_of(aggregate(TimeWindow(100, 10), ("key",), COUNTS))
    for t in range(0, 3_000, 5):
        state.add(batch_of([row(t, key="k" * (t % 50))]))
        list(without_pauses(state.advance(t)))
        assert state.open_panes <= 11
    list(without_pauses(state.advance(MAX_TIME)))
    assert state.open_panes == 0 and state.bytes < 30_000


def test_largest_keys_are_named() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), ("key", "part"), COUNTS))
    state.add(batch_of([row(1, key="hot", part=7)] * 9 + [row(2, key="warm")] * 4 + [row(3, key="cold", part=None)]))
    assert state.largest_keys(2) == ["key='hot', part=7 (9 rows)", "key='warm', part=0 (4 rows)"]


def test_nothing_compiles_once_the_state_is_made() -> None:
    run = lambda state: [state.add(batch_of([row(1), row(20)])), taken(state), list(without_pauses(state.advance(MAX_TIME)))]  # noqa: E731
    run(state_of(aggregate(TimeWindow(10, 4), ("key",), TEXTS)))
    state = state_of(aggregate(TimeWindow(9, 3), ("key",), TEXTS))
    before = compilations()
    run(state)
    assert compilations() == before


def test_queries_of_one_shape_share_their_kernels() -> None:
    """Other windows, names and keys; the same functions over columns of the same types."""
    one = AggregateSpec.of(aggregate(TimeWindow(10, 5), ("key",), each(sum_("n"), max_("n"))), SCHEMA, frozenset({"t"}), "whole")
    schema = Schema.of({"when": "timestamp[ms]", "who": "binary", "price": "int64?"})
    functions = (("total", sum_("price")), ("dearest", max_("price")))
    other = AggregateSpec.of(Aggregate("o", "i", TimeWindow(7, 7), ("who",), functions), schema, frozenset({"when"}), "final")
    assert one.loops.update is other.loops.update and one.loops.merge is other.loops.merge


def test_what_the_spec_says() -> None:
    spec = AggregateSpec.of(aggregate(TimeWindow(10, 10), ("key",), COUNTS), SCHEMA, frozenset({"t"}), "partial")
    assert not spec.needs_origin
    assert str(spec.partial_schema) == "(key: string?, _s0: int64, _s1: int64, _s2: int64)"
    assert str(spec.output_schema) == str(spec.entry_schema) == "(_sentry5: binary)"
    edges = AggregateSpec.of(aggregate(TimeWindow(10, 10), (), each(first("s"))), SCHEMA, frozenset({"t"}), "whole")
    assert edges.needs_origin and str(edges.output_schema) == "(first_s: string?)"
    final = AggregateSpec.of(aggregate(TimeWindow(10, 10), (), each(first("s"))), SCHEMA, frozenset({"t"}), "final")
    assert not final.needs_origin and str(final.partial_schema) == "(_s0: int64, _s1: int64, _s2: int64, _s3: string?)"
    assert str(final.entry_schema) == "(_sentry7: binary, _s0: string?)"
    with pytest.raises(QueryError, match="sum\\(s\\): expected a number"):
        AggregateSpec.of(aggregate(TimeWindow(10, 10), (), each(sum_("s"))), SCHEMA, frozenset({"t"}), "whole")
    with pytest.raises(QueryError, match="at most"):
        AggregateSpec.of(aggregate(TimeWindow(2**62, 2**62), (), COUNTS), SCHEMA, frozenset({"t"}), "whole")


def test_restoring_rows_of_an_instance_that_was_behind_is_refused() -> None:
    operator = aggregate(TimeWindow(10, 10), (), COUNTS)
    state, ahead = state_of(operator), state_of(operator)
    state.add(batch_of([row(25)]))
    list(without_pauses(state.advance(5)))
    list(without_pauses(ahead.advance(20)))
    with pytest.raises(ProtocolError, match="at watermark 5, already at 20"):
        ahead.restore(*taken(state))
    assert [batch.num_rows for batch in taken(state)] == [1] and not taken(ahead)


def test_a_snapshot_stays_as_it_was_while_the_state_goes_on() -> None:
    state = state_of(aggregate(TimeWindow(10, 10), ("key",), COUNTS))
    state.add(batch_of([row(5), row(15)]))
    snapshot = state.snapshot()
    state.add(batch_of([row(6), row(7)]))
    list(without_pauses(state.advance(20)))
    (first, second), others = snapshot, state_of(aggregate(TimeWindow(10, 10), ("key",), COUNTS))
    for made in (second, first):
        others.restore(made())
    answers = [read(batch, others.spec.output_schema) for batch in without_pauses(others.advance(20))]
    assert [row[2] for each in answers for row in each] == [1, 1]
