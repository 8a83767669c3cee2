"""The engine against DuckDB, where a query can be said in SQL over the whole input (which is within its disorder, so nothing is late).

A second independent proof: others wrote DuckDB. Known differences, translated:

- DuckDB knows no event time and no stream order: t is a column of µs, and n, which grows with the origin, orders what ties.
- A sliding window, and every window of a join, is a join with generate_series.
- FIRST, LAST, ARG_MIN, ARG_MAX are first(... ORDER BY ..., t, n): DuckDB says not which of several it takes.
- NULLS FIRST of an ascending order and NULLS LAST of a descending one have to be said.
- Outer joins with an interval are an inner join and what is in no pair; an as-of join is one with the last right row of each key and time.
- SUM of integers is a HUGEINT; no sum here leaves int64, where the engine's is NULL.
- Floats: the engine's sums are exact and rounded once, DuckDB's are not; they agree within n·ε·Σ|x|, variances within n·ε·Σx².
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.kernels.jit import interpreted
from cep.model import functions
from cep.model.expr import ColumnRef, col
from cep.model.functions import Function
from cep.model.operators import (
    Aggregate,
    AsOfJoin,
    Deduplicate,
    Filter,
    IntervalJoin,
    Join,
    KeepLast,
    Map,
    Operator,
    Over,
    Sort,
    TopN,
    Union,
)
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import CumulateWindow, SessionWindow, SizeWindow, TimeWindow, TrailingWindow, UnboundedWindow
from tests.reference import Partition
from tests.strategies import Case, Execution, executions
from tests.support.running import run_case

pytestmark = pytest.mark.timeout(900)

SCHEMA = Schema.of({"t": "timestamp[us]", "n": "int64", "k": "string?", "v": "int64?", "x": "float64?"})
COLUMNS = ", ".join(SCHEMA.names)
DISORDER = 10
Rows = list[tuple[Any, ...]]
TimedRow = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """Operators, of which the last comes out, and a SELECT that yields the event time and then the same columns."""

    operators: tuple[Operator, ...]
    sql: str


# --- data ------------------------------------------------------------------------------------------------------------


@st.composite
def partitions(draw: DrawFn) -> list[Partition]:
    """Two publishers; n is the partition's hundreds and the number in it."""
    made = []
    for index in range(2):
        steps = draw(st.lists(st.integers(0, 3), max_size=10))
        times = [1_000 + sum(steps[: i + 1]) for i in range(len(steps))]
        late_by = [draw(st.integers(0, 3)) for _ in times]
        cells = st.tuples(st.sampled_from(("a", "b", None)), st.none() | st.integers(-3, 3), st.none() | floats())
        rows = [(time - by, 100 * index + i, *draw(cells)) for i, (time, by) in enumerate(zip(times, late_by, strict=True))]
        made.append(Partition(index, rows))
    return made


def floats() -> st.SearchStrategy[float]:
    return st.sampled_from((0.1, -2.5, 1e10, 3.0)) | st.floats(-1e12, 1e12)


# --- questions -------------------------------------------------------------------------------------------------------


@st.composite
def stateless(draw: DrawFn) -> Question:
    least, more = draw(st.integers(-2, 2)), draw(st.integers(-2, 2))
    fields = {name: col(name) + more if name == "v" else col(name) for name in SCHEMA.names}
    operators = (
        Filter("f", "s", (col("v") >= least) & (col("k") != "b")),
        Map("m", "s", tuple(fields.items())),
        Union("o", ("f", "m", "s")),
    )
    changed = COLUMNS.replace("v", f"v + {more}")
    return Question(
        operators,
        f"""SELECT t, {COLUMNS} FROM s WHERE v >= {least} AND k <> 'b' UNION ALL
            SELECT t, {changed} FROM s UNION ALL SELECT t, {COLUMNS} FROM s""",
    )


#: How SQL says a function.
FUNCTIONS: tuple[tuple[Function, str], ...] = (
    (functions.count(), "count(*)"),
    (functions.count("v"), "count(v)"),
    (functions.sum_("v"), "sum(v)"),
    (functions.sum_("x"), "sum(x)"),
    (functions.avg("v"), "avg(v)"),
    (functions.avg("x"), "avg(x)"),
    (functions.min_("x"), "min(x)"),
    (functions.max_("v"), "max(v)"),
    (functions.first("v"), "first(v ORDER BY t, n)"),
    (functions.last("k"), "last(k ORDER BY t, n)"),
    (functions.arg_min("n", "v"), "first(n ORDER BY v, t, n) FILTER (WHERE v IS NOT NULL)"),
    (functions.arg_max("n", "x"), "first(n ORDER BY x DESC, t, n) FILTER (WHERE x IS NOT NULL)"),
    (functions.var("x"), "var_samp(x)"),
    (functions.stddev("v"), "stddev_samp(v)"),
    (functions.var_pop("v"), "var_pop(v)"),
    (functions.stddev_pop("x"), "stddev_pop(x)"),
    (functions.count_distinct("v"), "count(DISTINCT v)"),
)


#: Those that DuckDB has of rows in a frame too, whatever their order.
OVER = tuple(each for each in FUNCTIONS if "ORDER BY" not in each[1])


def row_where(columns: Sequence[str], place: str, make: Callable[[str], Function]) -> tuple[tuple[Function, str], ...]:
    """The columns of one row; SQL chooses it once, as a struct."""
    row = f"first({{{', '.join(f'{name}: {name}' for name in columns)}}} {place})"
    return tuple((make(name), f"struct_extract({row}, '{name}')") for name in columns)


#: Functions that are all of one row.
ROWS = (
    row_where("nxvk", "ORDER BY v DESC, t, n) FILTER (WHERE v IS NOT NULL", lambda name: functions.arg_max(name, "v")),
    row_where("kxn", "ORDER BY x, t, n) FILTER (WHERE x IS NOT NULL", lambda name: functions.arg_min(name, "x")),
    row_where("vkx", "ORDER BY t, n", functions.first),
    row_where("xkv", "ORDER BY t DESC, n DESC", functions.last),
)


@st.composite
def asked(draw: DrawFn) -> tuple[tuple[tuple[str, Function], ...], str]:
    chosen = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=4))
    chosen += draw(st.just(()) | st.sampled_from(ROWS))
    return tuple((f"f{i}", function) for i, (function, _) in enumerate(chosen)), ", ".join(sql for _, sql in chosen)


@st.composite
def groups(draw: DrawFn) -> tuple[tuple[str, ...], str]:
    """Columns to group by, and the same for SQL, with a comma behind each."""
    by = draw(st.sampled_from((("k",), (), ("k", "v"))))
    return by, "".join(f"{name}, " for name in by)


@st.composite
def time_windows(draw: DrawFn) -> TimeWindow:
    size = draw(st.integers(1, 8))
    advance = draw(st.integers(1, size))
    return TimeWindow(size, advance, draw(st.just(0) | st.integers(0, advance - 1)))


def windowed(name: str, window: TimeWindow) -> str:
    """Every row once for each window, with the `start` of that."""
    start = f"({before(window)} - i) * {window.advance} + {window.offset}"
    series = f"generate_series(0, {-(-window.size // window.advance)}) AS g(i)"
    return f"(SELECT *, {start} AS start FROM {name}, {series} WHERE t < {start} + {window.size})"


def before(window: TimeWindow) -> str:
    """How many advances from its offset on the last window begins that begins by t. Times are positive, and // rounds toward zero."""
    return f"((t - {window.offset} + {window.advance}) // {window.advance} - 1)"


@st.composite
def time_aggregates(draw: DrawFn) -> Question:
    window, (by, sql_by), (made, sql) = draw(time_windows()), draw(groups()), draw(asked())
    operator = Aggregate("o", "s", window, by, made)
    text = f"SELECT start + {window.size - 1}, {sql_by}{sql} FROM {windowed('s', window)} GROUP BY {sql_by}start"
    return Question((operator,), text)


@st.composite
def cumulating_aggregates(draw: DrawFn) -> Question:
    step = draw(st.integers(1, 4))
    size, (by, sql_by), (made, sql) = step * draw(st.integers(1, 4)), draw(groups()), draw(asked())
    offset = draw(st.integers(0, size - 1))
    start = f"(((t - {offset} + {size}) // {size} - 1) * {size} + {offset})"
    ends = f"(SELECT *, {start} + i * {step} AS e FROM s, generate_series(1, {size // step}) AS g(i) WHERE t < {start} + i * {step})"
    text = f"SELECT e - 1, {sql_by}{sql} FROM {ends} GROUP BY {sql_by}e"
    return Question((Aggregate("o", "s", CumulateWindow(step, size, offset), by, made),), text)


@st.composite
def size_aggregates(draw: DrawFn) -> Question:
    size, (by, sql_by), (made, sql) = draw(st.integers(1, 3)), draw(groups()), draw(asked())
    over = f"OVER ({'PARTITION BY ' + sql_by.rstrip(', ') if by else ''} ORDER BY t, n)"
    numbered = f"(SELECT *, (row_number() {over} - 1) // {size} AS window_number FROM s)"
    text = f"SELECT last(t ORDER BY t, n), {sql_by}{sql} FROM {numbered} GROUP BY {sql_by}window_number HAVING count(*) = {size}"
    return Question((Aggregate("o", "s", SizeWindow(size, size), by, made),), text)


@st.composite
def session_aggregates(draw: DrawFn) -> Question:
    gap, (by, sql_by), (made, sql) = draw(st.integers(1, 4)), draw(groups()), draw(asked())
    over = f"OVER ({'PARTITION BY ' + sql_by.rstrip(', ') if by else ''} ORDER BY t, n)"
    begins = f"(SELECT *, coalesce(t - lag(t) {over} > {gap}, true)::INT AS begins FROM s)"
    text = f"""SELECT max(t) + {gap}, {sql_by}{sql} FROM (SELECT *, sum(begins) {over} AS session FROM {begins})
               GROUP BY {sql_by}session"""
    return Question((Aggregate("o", "s", SessionWindow(gap), by, made),), text)


@st.composite
def running_aggregates(draw: DrawFn) -> Question:
    by, sql_by = draw(groups())
    over = f"OVER ({'PARTITION BY ' + sql_by.rstrip(', ') if by else ''} ORDER BY t, n ROWS UNBOUNDED PRECEDING)"
    made = (("n_rows", functions.count()), ("total", functions.sum_("v")), ("most", functions.max_("v")))
    text = f"SELECT t, {sql_by}count(*) {over}, sum(v) {over}, max(v) {over} FROM s"
    return Question((Aggregate("o", "s", UnboundedWindow(None, None), by, made),), text)


def _columns(side: str, but: Sequence[str] = ()) -> str:
    return ", ".join(f"{side}.{name}" for name in SCHEMA.names if name not in but)


#: The columns of a joined row: those of the left, of which k is the right one's where the left is missing, and the right ones but k.
LEFT = _columns("l").replace("l.k", "coalesce(l.k, r.k)")
RIGHT = _columns("r", ("k",))
NULLS = ", ".join("NULL" for name in SCHEMA.names if name != "k")


@st.composite
def window_joins(draw: DrawFn) -> Question:
    window, how = draw(time_windows()), draw(st.sampled_from(("inner", "left", "right", "full")))
    operator = Join("o", "s", "r", window, window, (("k", "k"),), how, None, "r_")
    ends = f"""(SELECT *, ({before(window)} + 1 + i) * {window.advance} + {window.offset} AS e
               FROM NAME, generate_series(0, {window.size}) AS g(i) WHERE e - {window.size} <= t)"""
    text = f"""SELECT coalesce(l.e, r.e) - 1, {LEFT}, {RIGHT}
               FROM {ends.replace("NAME", "s")} l {how} JOIN {ends.replace("NAME", "r")} r ON l.e = r.e AND l.k = r.k"""
    return Question((operator,), text)


@st.composite
def interval_joins(draw: DrawFn) -> Question:
    lower, upper = sorted(draw(st.tuples(st.integers(-3, 3), st.integers(-3, 3))))
    how = draw(st.sampled_from(("inner", "left", "right", "full")))
    operator = IntervalJoin("o", "s", "r", lower, upper, (("k", "k"),), how, None, "r_")
    on = f"l.k = r.k AND r.t - l.t BETWEEN {lower} AND {upper}"
    parts = [f"SELECT greatest(l.t, r.t), {LEFT}, {RIGHT} FROM s l JOIN r ON {on}"]
    if how in ("left", "full"):
        alone = f"FROM s l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {on})"
        parts.append(f"SELECT greatest(l.t, l.t + {upper}), {_columns('l')}, {NULLS} {alone}")
    if how in ("right", "full"):
        left = ", ".join("r.k" if name == "k" else "NULL" for name in SCHEMA.names)
        alone = f"FROM r WHERE NOT EXISTS (SELECT 1 FROM s l WHERE {on})"
        parts.append(f"SELECT greatest(r.t, r.t - {lower}), {left}, {RIGHT} {alone}")
    return Question((operator,), " UNION ALL ".join(parts))


@st.composite
def as_of_joins(draw: DrawFn) -> Question:
    how = draw(st.sampled_from(("inner", "left")))
    last = "(SELECT * FROM r QUALIFY row_number() OVER (PARTITION BY k, t ORDER BY n DESC) = 1)"
    text = f"SELECT l.t, {_columns('l')}, {RIGHT} FROM s l ASOF {how} JOIN {last} r ON l.k = r.k AND l.t >= r.t"
    return Question((AsOfJoin("o", "s", "r", (("k", "k"),), how, None, "r_"),), text)


@st.composite
def deduplicates(draw: DrawFn) -> Question:
    by = draw(st.sampled_from((("k",), ("v",), ("k", "v"))))
    text = f"SELECT t, {COLUMNS} FROM s QUALIFY row_number() OVER (PARTITION BY {', '.join(by)} ORDER BY t, n) = 1"
    return Question((Deduplicate("o", "s", by, None),), text)


@st.composite
def trailing(draw: DrawFn) -> Question:
    """RANGE goes by event time alone; ROWS, LAG and whatever is of one row by n too."""
    by, sql_by = draw(groups())
    partition = f"PARTITION BY {sql_by.rstrip(', ')}" if by else ""
    size, rows, k = draw(st.integers(1, 8)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    window, over = draw(
        st.sampled_from(
            (
                (TrailingWindow(size, None), f"OVER ({partition} ORDER BY t RANGE BETWEEN {size} PRECEDING AND CURRENT ROW)"),
                (TrailingWindow(None, rows), f"OVER ({partition} ORDER BY t, n ROWS BETWEEN {rows - 1} PRECEDING AND CURRENT ROW)"),
            )
        )
    )
    asked = draw(st.lists(st.sampled_from(OVER), min_size=1, max_size=4))
    made = (*((f"f{i}", function) for i, (function, _) in enumerate(asked)), ("before", functions.lag("v", k)))
    text = "".join(f"{sql} {over}, " for _, sql in asked)
    return Question((Over("o", "s", window, by, made),), f"SELECT t, {COLUMNS}, {text}lag(v, {k}) OVER ({partition} ORDER BY t, n) FROM s")


@st.composite
def keep_lasts(draw: DrawFn) -> Question:
    window, by = draw(time_windows()), draw(st.sampled_from((("k",), ("k", "v"))))
    rank = f"row_number() OVER (PARTITION BY {', '.join(by)}, start ORDER BY t DESC, n DESC)"
    text = f"SELECT start + {window.size - 1}, {COLUMNS} FROM {windowed('s', window)} QUALIFY {rank} = 1"
    return Question((KeepLast("o", "s", window, by),), text)


@st.composite
def ranks(draw: DrawFn) -> Question:
    window, (by, sql_by) = draw(time_windows()), draw(groups())
    order = tuple((name, draw(st.booleans())) for name in draw(st.lists(st.sampled_from(("v", "x", "k")), min_size=1, unique=True)))
    n = draw(st.none() | st.integers(1, 3))
    text_order = ", ".join(f"{name} {'DESC NULLS LAST' if down else 'ASC NULLS FIRST'}" for name, down in order)
    rank = f"row_number() OVER (PARTITION BY {sql_by}start ORDER BY {text_order}, t, n)"
    best = "" if n is None else f"QUALIFY rank <= {n}"
    operator = Sort("o", "s", window, by, order) if n is None else TopN("o", "s", window, by, order, n)
    return Question((operator,), f"SELECT start + {window.size - 1}, {COLUMNS}, {rank} AS rank FROM {windowed('s', window)} {best}")


FAMILIES: dict[str, Callable[[], st.SearchStrategy[Question]]] = {
    "stateless": stateless,
    "time": time_aggregates,
    "cumulate": cumulating_aggregates,
    "size": size_aggregates,
    "session": session_aggregates,
    "running": running_aggregates,
    "join": window_joins,
    "interval_join": interval_joins,
    "as_of_join": as_of_joins,
    "deduplicate": deduplicates,
    "over": trailing,
    "keep_last": keep_lasts,
    "ranks": ranks,
}
_KINDS = {
    "size": "aggregate size",
    "session": "aggregate session",
    "running": "aggregate running",
    "join": "join",
    "interval_join": "interval_join",
    "as_of_join": "as_of_join",
    "deduplicate": "deduplicate",
    "over": "over",
    "ranks": "top_n time",
}
ABLE = list(FAMILIES)


# --- comparing -------------------------------------------------------------------------------------------------------


def of_duckdb(question: Question, inputs: dict[str, Rows]) -> list[TimedRow]:
    with duckdb.connect() as connection:
        for name, rows in inputs.items():
            connection.execute(f"CREATE TABLE {name} (t BIGINT, n BIGINT, k VARCHAR, v BIGINT, x DOUBLE)")
            if rows:
                connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?)", rows)
        return [(row[0], tuple(row[1:])) for row in connection.execute(question.sql).fetchall()]


def of_engine(question: Question, inputs: dict[str, list[Partition]], execution: Execution) -> list[TimedRow]:
    read = sorted({name for operator in question.operators for name in operator.inputs} & inputs.keys())
    streams = tuple(Stream(name, SCHEMA, ColumnRef("t"), DISORDER) for name in read)
    query = Query("q", streams, question.operators, (Output("out", question.operators[-1].name),))
    ran = run_case(Case(query, inputs), execution)
    assert not ran.late and not ran.dead
    return ran.outputs["out"]


def assert_close(expected: list[TimedRow], actual: list[TimedRow], tolerance: float) -> None:
    """The same rows, floats within `tolerance`."""
    pairs = zip(sorted(expected, key=_place), sorted(actual, key=_place), strict=True)
    assert all(_close(one, other, tolerance) for one, other in pairs), f"expected {expected}\ngot {actual}"


def _place(row: TimedRow) -> tuple[str, str]:
    """By what is no float first, so that a last digit does not decide."""
    return repr((row[0], [value for value in row[1] if not isinstance(value, float)])), repr(row[1])


def _close(one: TimedRow, other: TimedRow, tolerance: float) -> bool:
    return one[0] == other[0] and all(
        abs(a - b) <= tolerance if isinstance(a, float) and isinstance(b, float) else a == b for a, b in zip(one[1], other[1], strict=True)
    )


def tolerance_of(inputs: dict[str, Rows]) -> float:
    numbers = [abs(value) for rows in inputs.values() for row in rows for value in row[3:] if value is not None]
    return len(numbers) * sys.float_info.epsilon * (sum(numbers) + sum(value * value for value in numbers))


def compare(data: st.DataObject, family: str) -> None:
    question, execution = data.draw(FAMILIES[family]()), data.draw(executions())
    inputs = {name: data.draw(partitions()) for name in ("s", "r")}
    rows = {name: [row for part in parts for row in part.rows] for name, parts in inputs.items()}
    with interpreted():
        actual = of_engine(question, inputs, execution)
    assert_close(of_duckdb(question, rows), actual, tolerance_of(rows))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ABLE)
@settings(max_examples=8)
@given(st.data())
def test_the_engine_agrees_with_duckdb(family: str, data: st.DataObject) -> None:
    compare(data, family)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("family", ABLE)
@settings(max_examples=1_000)
@given(st.data())
def test_long_the_engine_agrees_with_duckdb(family: str, data: st.DataObject) -> None:
    compare(data, family)
