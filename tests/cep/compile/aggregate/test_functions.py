"""Every aggregate function: small cases by hand; large groups against NumPy and the reference; memory.

Tests `blocks.py`, `records.py`, `states.py`, `statistics.py`, `words.py`, `cep/kernels/blocks.py`, `cep/kernels/states/registers.py`,
`cep/kernels/states/squares.py`, `cep/kernels/tables/buckets.py`, `cep/kernels/tables/first_rows.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.aggregate.window_state import AggregateSpec, WindowState
from cep.elements import MAX_TIME, Batch
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.kernels.jit import interpreted
from cep.model.functions import (
    FUNCTIONS,
    Function,
    approx_count_distinct,
    arg_max,
    arg_min,
    collect,
    count_distinct,
    first,
    last,
    median,
    quantile,
    stddev,
    stddev_pop,
    var,
    var_pop,
)
from cep.model.operators import Aggregate
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from tests.reference.aggregates import arg_extreme, hyperloglog, middle
from tests.reference.aggregates import quantile as reference_quantile
from tests.reference.equal import difference
from tests.reference.hashing import hash_of_value
from tests.support.pausing import without_pauses

NAN, INF = math.nan, math.inf
BIG = 2**63 - 1


def spec_of(asked: Sequence[Function], types: dict[str, str], window: TimeWindow, stage: str = "whole", **options: Any) -> AggregateSpec:
    schema = Schema.of({"t": "timestamp[us]", **types})
    operator = Aggregate("a", "s", window, ("k",) if "k" in types else (), tuple((f"r{i}", f) for i, f in enumerate(asked)))
    return AggregateSpec.of(operator, schema, frozenset({"t"}), stage, **options)


def batch_of(spec: AggregateSpec, times: Sequence[int], columns: dict[str, Sequence[Any]], origins: np.ndarray | None = None) -> Batch:
    arrow = pa.RecordBatch.from_pydict({"t": list(times), **columns}, spec.schema.arrow)
    found = np.stack([np.zeros(len(times), np.int64), np.arange(len(times))], axis=1) if origins is None else origins
    return Batch(columns_from_arrow(arrow, spec.schema), np.array(times, np.int64), np.ascontiguousarray(found))


def rows_of(state: WindowState, watermark: int = MAX_TIME) -> list[dict[str, Any]]:
    return [
        row for b in without_pauses(state.advance(watermark)) for row in columns_to_arrow(b.columns, state.spec.output_schema).to_pylist()
    ]


def answer_of(function: Function, type_: str, values: Sequence[Any], by: Sequence[Any] = (), by_type: str = "int64?") -> Any:
    """Of one group whose rows have event times 0, 1, 2, ..."""
    types = {"v": type_} | ({"b": by_type} if by else {})
    spec = spec_of([function], types, TimeWindow(1_000_000, 1_000_000))
    state = WindowState(spec, "a")
    state.add(batch_of(spec, range(len(values)), {"v": values} | ({"b": by} if by else {})))
    (row,) = rows_of(state)
    return row["r0"]


# --- by hand ---------------------------------------------------------------------------------------------------------

X = "x" * 20
CASES: list[tuple[Function, str, list[Any], Any]] = [
    (var("v"), "int64?", [1, None, 2, 4], 7 / 3),
    (var("v"), "int64?", [5, None], None),
    (var("v"), "int64", [BIG, -BIG - 1], float(Fraction(2 * BIG + 1) ** 2 / 2)),
    (var("v"), "float64", [1e16, 1e16 + 2], 2.0),  # where the mean of squares less the square of the mean has no digit left
    (var("v"), "float64", [0.1, 0.1, 0.1], 0.0),
    (var("v"), "float64", [1e308, -1e308], INF),
    (var("v"), "float64", [5e-324, 0.0], 0.0),
    (var("v"), "float64", [1e200, 1e-200, 0.0], INF),
    (var("v"), "float64", [1.0, NAN], NAN),
    (var("v"), "float64", [1.0, INF], NAN),
    (var_pop("v"), "float64", [3.5], 0.0),
    (var_pop("v"), "float64?", [None], None),
    (var_pop("v"), "int32", [2, 4, 4, 4, 5, 5, 7, 9], 4.0),
    (stddev_pop("v"), "int32", [2, 4, 4, 4, 5, 5, 7, 9], 2.0),
    (stddev("v"), "int64", [1, 3], math.sqrt(2)),
    (count_distinct("v"), "int64?", [3, None, 3, -3, 0], 3),
    (count_distinct("v"), "float64", [0.0, -0.0, NAN, -NAN, INF], 3),
    (count_distinct("v"), "string?", ["", "a", None, X, X, X + "y", "a"], 4),
    (count_distinct("v"), "binary", [b"\0", b"", b"\0\0"], 3),
    (count_distinct("v"), "bool?", [True, None, False, True], 2),
    (count_distinct("v"), "int64?", [None], 0),
    (approx_count_distinct("v"), "int64?", [3, None, 3, -3, 0], 3),
    (approx_count_distinct("v"), "float64", [0.0, -0.0, NAN, -NAN, INF], 3),
    (approx_count_distinct("v", 16), "string", ["", "a", X, X, X + "y", "a"], 4),
    (approx_count_distinct("v"), "int64?", [None], 0),
    (median("v"), "int64?", [None, 1, 128, 3], 3.0 + 1 / 128),  # the middle of [3, 3 + 1/64)
    (median("v"), "int64?", [None], None),
    (median("v"), "float64", [-0.0, 5e-324, 7.0], 0.0),
    (median("v"), "float64", [-INF, -INF, 1.0], -INF),
    (median("v"), "float64", [1.0, NAN, NAN], NAN),
    (quantile("v", 0), "float64", [2.7, 2.6, NAN], 2.6),
    (quantile("v", 1), "float64", [2.7, 2.6], 2.7),
    (quantile("v", 1), "float64", [2.7, NAN], NAN),
    (quantile("v", 0.07), "int32", list(range(100)), 6 + 1 / 64),  # rank 7, though 0.07 * 100 is more than 7
    (quantile("v", 0.5), "float64", [5.1] * 3, 5.1),  # not beyond the least and the greatest
    (quantile("v", 0.5), "float64", [-100.0, -5.1, 100.0], -(5 + 3.5 / 32)),
    (quantile("v", 1), "int64", [BIG], float(2**63)),
    (collect("v", 2), "int64?", [None, 3, 4], [None, 3]),
    (collect("v", 5), "string", ["b", X, "b"], ["b", X, "b"]),
    (collect("v", 3), "float64", [-0.0, NAN], [-0.0, NAN]),
    (collect("v", 3), "bool", [True], [True]),
]


@pytest.mark.parametrize(("function", "type_", "values", "expected"), CASES)
def test_by_hand(function: Function, type_: str, values: list[Any], expected: Any) -> None:
    with interpreted():
        assert difference([(0, (expected,))], [(0, (answer_of(function, type_, values),))]) == ""


@pytest.mark.parametrize(
    ("by_type", "by", "least", "greatest"),
    [
        ("int64?", [3, 1, None, 1, 3], "b", "a"),  # of several the first
        ("float64", [NAN, 0.0, -0.0, 1.0, NAN], "b", "a"),
        ("string?", ["b", None, "a", X, "b"], None, "d"),
        ("bool", [True, True, False, True, False], None, "a"),
        ("int64?", [None] * 5, None, None),
        ("string?", [None] * 5, None, None),
    ],
)
def test_arg_min_and_arg_max_by_hand(by_type: str, by: list[Any], least: str | None, greatest: str | None) -> None:
    with interpreted():
        values = ["a", "b", None, "d", "e"]
        assert answer_of(arg_min("v", "b"), "string?", values, by, by_type) == least
        assert answer_of(arg_max("v", "b"), "string?", values, by, by_type) == greatest


ROWS = [  # event times 0, 1, ...
    {"n": 5, "x": -0.0, "s": "a", "w": None, "b": 1},
    {"n": 6, "x": NAN, "s": X, "w": ["u"], "b": 3},
    {"n": None, "x": 1.0, "s": None, "w": [], "b": 3},
    {"n": 8, "x": None, "s": "d", "w": ["v", None], "b": None},
    {"n": 9, "x": 2.0, "s": "", "w": None, "b": 0},
]
COLUMNS = {"n": "int64?", "x": "float64?", "s": "string?", "w": "list<string>?", "b": "int64?"}


@pytest.mark.parametrize(("by_type", "of"), [("int64?", int), ("float64?", float), ("string?", str), ("bool?", bool)])
@pytest.mark.parametrize("merged", [False, True])
def test_several_columns_are_of_one_row(by_type: str, of: Callable[[Any], Any], merged: bool) -> None:
    by = [None if row["b"] is None else of(row["b"]) for row in ROWS]
    chosen = {"first": 0, "last": 4, "arg_min": 4, "arg_max": 0 if of is bool else 1}
    asked = [f for each in (first, last) for f in each(list(COLUMNS)).values()]
    asked += [f for each in (arg_min, arg_max) for f in each(list(COLUMNS), by="b").values()]
    types = COLUMNS | {"b": by_type}
    columns = {name: [row[name] for row in ROWS] for name in types if name != "b"} | {"b": by}
    specs = [spec_of(asked, types, TimeWindow(10, 10), stage) for stage in (("partial", "final") if merged else ("whole",))]
    with interpreted():
        state = WindowState(specs[-1], "a")
        for row in (4, 1, 0, 3, 2):  # not in their order
            one = batch_of(specs[0], [row], {name: [values[row]] for name, values in columns.items()}, np.array([[0, row]]))
            partial = WindowState(specs[0], "a") if merged else state
            partial.add(one)
            for made in partial.flush() if merged else ():
                state.add(made)
        (answer,) = rows_of(state)
    expected = tuple(columns[name][row] for row in chosen.values() for name in types)
    assert difference([(0, expected)], [(0, tuple(answer.values()))]) == ""
    assert len(specs[0].states) == 4


def test_functions_that_choose_one_row_share_a_state() -> None:
    types = {f"n{i}": "int64" for i in range(8)} | {"b": "int64", "c": "int64"}

    def width(asked: Sequence[Function]) -> int:
        return spec_of(asked, types, TimeWindow(10, 10)).width

    one = arg_max("n0", by="b")
    assert width([one]) == 2 + 5
    assert width([*arg_max([f"n{i}" for i in range(8)], by="b").values()]) == 2 + 5 + 7
    assert width([one, one]) == width([one])
    assert width([one, arg_max("n1", by="c")]) == width([one, arg_min("n1", by="b")]) == 2 + 5 + 5
    assert width([*first({f"r{i}": f"n{i % 8}" for i in range(20)}).values()]) == 2 + 3 + 8


# --- large groups ----------------------------------------------------------------------------------------------------


def large(function: Function, type_: str, values: Sequence[Any], **options: Any) -> Any:
    """In panes that overlap, through partial rows, in an order of its own: the answer of one window that has it all."""
    n = len(values)
    spec = spec_of([function], {"v": type_}, TimeWindow(n, n // 10), "partial", **options)
    partials = [WindowState(spec, "a") for _ in range(2)]
    order = np.random.default_rng(7).permutation(n)
    for part, state in zip((order[: n // 3], order[n // 3 :]), partials, strict=True):
        origins = np.stack([np.zeros(len(part), np.int64), part], axis=1)
        state.add(batch_of(spec, part.tolist(), {"v": [values[i] for i in part]}, origins))
    final = WindowState(spec_of([function], {"v": type_}, TimeWindow(n, n // 10), "final", **options), "a")
    for state in partials:
        for made in without_pauses(state.flush()):
            final.add(Batch(columns_from_arrow(columns_to_arrow(made.columns, spec.entry_schema), spec.entry_schema), made.time))
    found = {
        time: row
        for b in without_pauses(final.advance(MAX_TIME))
        for time, row in zip(b.time.tolist(), columns_to_arrow(b.columns, final.spec.output_schema).to_pylist(), strict=True)
    }
    return found[n - 1]["r0"]


N = 20_000
RNG = np.random.default_rng(3)
WIDE = np.exp(RNG.normal(0, 40, N)) * RNG.choice([-1, 1], N)


def test_variances_of_many_values_are_those_of_numpy() -> None:
    for values in (RNG.normal(1e6, 1, N), WIDE):
        assert large(var("v"), "float64", values.tolist()) == pytest.approx(float(np.var(values, ddof=1)), rel=1e-9)
        assert large(stddev_pop("v"), "float64", values.tolist()) == pytest.approx(float(np.std(values)), rel=1e-9)
    whole = RNG.integers(-(2**63), 2**63 - 1, N)
    exact = Fraction(N * sum(v * v for v in whole.tolist()) - sum(whole.tolist()) ** 2, N * (N - 1))
    assert large(var("v"), "int64", whole.tolist()) == float(exact)


def test_distinct_counts_of_many_values() -> None:
    numbers = RNG.integers(0, 5_000, N).tolist()
    texts = [f"{'long enough to lie elsewhere' if n % 2 else ''}{n}" for n in numbers]
    assert large(count_distinct("v"), "int64", numbers) == len(set(numbers))
    assert large(count_distinct("v"), "string", texts) == len(set(texts))


@pytest.mark.parametrize("precision", [4, 12, 16])
@pytest.mark.parametrize("distinct", [1, 10, 300, 1_000, 20_000])
def test_estimates_are_those_of_the_reference_and_near(precision: int, distinct: int) -> None:
    values = [f"value {i % distinct}" for i in range(N)]
    found = large(approx_count_distinct("v", precision), "string", values)
    assert found == hyperloglog({hash_of_value(v, Schema.of({"v": str})["v"].type) for v in set(values)}, precision)
    assert abs(found - distinct) <= max(4 * 1.04 / math.sqrt(2**precision) * distinct, 0.5)


@pytest.mark.parametrize("values", [WIDE, RNG.normal(0, 1, N), RNG.random(N) * 1e-310, RNG.uniform(-300, 300, N).round()])
def test_quantiles_of_many_values_are_within_their_bound(values: np.ndarray) -> None:
    ordered = np.sort(values)
    for q in (0.001, 0.25, 0.5, 0.999):
        found = large(quantile("v", q), "float64", values.tolist())
        assert found == reference_quantile(values.tolist(), Fraction(str(q)))
        true = float(np.quantile(ordered, q, method="inverted_cdf"))
        assert abs(found - true) <= max(abs(true) / 256, 2.0**-1022)


def test_the_middle_of_a_bucket_is_within_one_part_in_256_of_all_its_numbers() -> None:
    """At the ends of the buckets, where they are farthest off, and anywhere."""
    for e in (-1022, -1, 0, 1, 1023):
        for part in (0, 1, 63, 127):
            low = Fraction(2) ** e * (1 + Fraction(part, 128))
            high = math.nextafter(float(low + Fraction(2) ** e / 128), 0) if (e, part) != (1023, 127) else math.nextafter(INF, 0)
            for value in (float(low), high, -float(low), -high):
                assert abs(Fraction(middle(value)) - Fraction(value)) <= abs(Fraction(value)) / 256


# Each is compiled anew: the ordinary run has few texts and many numbers.
@pytest.mark.parametrize(
    ("type_", "at_most"),
    [("string?", 3), ("int64", 10_000), *(pytest.param(*each, marks=pytest.mark.long) for each in (("string?", 10_000), ("int64", 3)))],
)
def test_collect_of_many_values(type_: str, at_most: int) -> None:
    texts = [None if i % 7 == 0 else "v" * (i % 40) + str(i) for i in range(N)]
    values: list[Any] = texts if type_ == "string?" else list(range(N))
    assert large(collect("v", at_most), type_, values) == values[:at_most]


@pytest.mark.parametrize("origin_words", [2, 3, 4])
def test_origins_of_any_width_order_rows(as_python: None, origin_words: int) -> None:
    """Rows of one event time whose origins agree up to their last word."""
    asked = [first("v"), last("v"), first("s"), last("s"), arg_min("v", "b"), arg_max("s", "b"), collect("v", 3), collect("s", 2)]
    n, rng = 50, np.random.default_rng(origin_words)
    origins = np.zeros((n, origin_words), np.int64)
    origins[:, -1] = rng.permutation(n)
    order = np.argsort(origins[:, -1])
    values, texts, by = rng.integers(0, 9, n).tolist(), [f"{'t' * 18}{i}" for i in range(n)], rng.integers(0, 3, n).tolist()
    types = {"v": "int64", "s": "string", "b": "int64"}
    specs = [spec_of(asked, types, TimeWindow(10, 10), stage, origin_words=origin_words) for stage in ("partial", "final")]
    states = [WindowState(spec, "a") for spec in specs]
    for part in (slice(0, 20), slice(20, n)):
        states[0].add(batch_of(specs[0], [5] * len(by[part]), {"v": values[part], "s": texts[part], "b": by[part]}, origins[part]))
        for made in states[0].flush():
            states[1].add(made)
    (row,) = rows_of(states[1])
    v, s, b = ([each[i] for i in order] for each in (values, texts, by))
    expected = [v[0], v[-1], s[0], s[-1], arg_extreme(v, b, greatest=False), arg_extreme(s, b, greatest=True), v[:3], s[:2]]
    assert list(row.values()) == expected


# --- memory ----------------------------------------------------------------------------------------------------------


def bytes_of_groups(function: Function, values_of_group: Callable[[int], Sequence[Any]], groups: int = 2_000) -> float:
    """What a group of these values takes in a snapshot of all of them."""
    spec = spec_of([function], {"k": "int64", "v": "int64"}, TimeWindow(10, 10))
    state = WindowState(spec, "a")
    rows = [(k, v) for k in range(groups) for v in values_of_group(k)]
    state.add(batch_of(spec, [1] * len(rows), {"k": [k for k, _ in rows], "v": [v for _, v in rows]}))
    (_, table) = next(iter(state._panes.tables.items()))
    assert state.bytes >= table.bytes_used
    return float(table.bytes_used / groups)


def test_groups_of_few_values_are_small() -> None:
    assert bytes_of_groups(approx_count_distinct("v"), lambda k: [k]) < 70
    assert bytes_of_groups(approx_count_distinct("v"), lambda k: range(90)) < 1_200  # with what was left behind
    assert bytes_of_groups(approx_count_distinct("v"), lambda k: range(2_000), 100) < 4_096 + 4_200
    assert bytes_of_groups(count_distinct("v"), lambda k: [k]) < 130
    assert bytes_of_groups(median("v"), lambda k: [k] * 50) < 140
    assert bytes_of_groups(var("v"), lambda k: range(50)) < 120


def test_a_function_that_nothing_computes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is in the table and nowhere else."""
    monkeypatch.setitem(FUNCTIONS, "second", True)
    aggregate = Aggregate("w", "s", TimeWindow(10, 10), (), (("x", Function("second", "n")),))
    with pytest.raises(TypeError, match="nothing computes 'second'; say here"):
        AggregateSpec.of(aggregate, Schema.of({"n": "int64"}), frozenset(), "whole")
