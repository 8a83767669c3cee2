"""Expressions on Spark: the tables of docs/arithmetic.md and the oracle, to the bit; many expressions and rows in each job.

Tests `expression.py`, `casts.py`, `numbers.py`, `patterns.py`, `texts.py`, `times.py`, `driver/spark/frames.py`.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession

from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model.expr import (
    ARITHMETIC,
    BOOLEAN,
    COMPARISON,
    FUNCTIONS,
    UNARY,
    Binary,
    Call,
    Cast,
    Expr,
    Udf,
    Unary,
    col,
    now,
    to_json,
)
from cep.model.expr_functions import hash_, parse_time
from cep.model.functions import sum_
from cep.model.schema import FLOAT64, Field, Schema
from cep.model.types import infer, text_of
from driver.spark import functions as aggregates
from driver.spark.expressions import texts
from driver.spark.expressions.expression import INEXACT, REFUSED_EXPRESSIONS, column, failing
from driver.spark.expressions.patterns import java
from driver.spark.frames import Frame
from driver.spark.refusals import Refused
from driver.spark.session import Spark
from driver.spark.types import spark_type
from tests.cep.compile.chain.test_chain import ANY, KINDS, Cell, Row, documented_cells, many_rows, mapped, run, same
from tests.cep.compile.test_text import EDGES
from tests.cep.model.test_types import TYPES
from tests.reference.expressions import EPOCH, Failed, evaluate
from tests.strategies import expressions

pytestmark = pytest.mark.timeout(900)

FAILED = "the row fails"
#: Units in the last place that Java may be away from the C library.
ULPS = {"log2": 4}


@pytest.fixture(scope="module")
def spark(one_spark: Spark) -> SparkSession:
    return one_spark.session


def parts(expr: Expr) -> Iterator[Expr]:
    """`expr` and all below it."""
    yield expr
    match expr:
        case Binary(_, left, right):
            below: tuple[Expr, ...] = (left, right)
        case Unary(_, arg) | Cast(arg, _, _):
            below = (arg,)
        case Call(_, args) | Udf(_, args, _, _):
            below = args
        case _:
            below = ()
    for part in below:
        yield from parts(part)


def functions_of(expr: Expr) -> set[str]:
    return {part.function for part in parts(expr) if isinstance(part, Call)}


@dataclass(frozen=True)
class Made:
    """`expr` as Columns of Spark: its value, and where it fails."""

    expr: Expr
    value: Column
    fails: Column | None


def made_of(expr: Expr, schema: Schema) -> Made | str:
    """Or what is refused."""
    try:
        return Made(expr, column(expr, schema), failing(expr, schema))
    except Refused as refused:
        return refused.what


def on_spark(session: SparkSession, expressions: Sequence[Expr | Made], schema: Schema, rows: Sequence[Row]) -> list[list[Any]]:
    """The values of each expression, or FAILED, row by row; timestamps as µs. One job."""
    every = [each if isinstance(each, Made) else Made(each, column(each, schema), failing(each, schema)) for each in expressions]
    values = [each.value.alias(f"v{k}") for k, each in enumerate(every)]
    fails = [each.fails.alias(f"f{k}") for k, each in enumerate(every) if each.fails is not None]
    frame = session.createDataFrame(_table(schema, rows)).select(*values, *fails)
    for each, field in zip(every, frame.schema.fields, strict=False):
        assert field.dataType.simpleString() == spark_type(infer(each.expr, schema)[0]).simpleString()
    answer = frame.toArrow()
    return [_answers(answer, k) for k in range(len(every))]


def _table(schema: Schema, rows: Sequence[Row]) -> pa.Table:
    arrays = [pa.array([row[f.name] for row in rows], pa.int64() if f.type.name == "timestamp" else f.type.arrow) for f in schema.fields]
    return pa.Table.from_arrays([array.cast(f.type.arrow) for array, f in zip(arrays, schema.fields, strict=True)], names=schema.names)


def _answers(answer: pa.Table, k: int) -> list[Any]:
    values = answer[f"v{k}"]
    plain = values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
    failed = answer[f"f{k}"].to_pylist() if f"f{k}" in answer.column_names else [False] * len(values)
    return [FAILED if fails else value for fails, value in zip(failed, plain.to_pylist(), strict=True)]


def expected(expr: Expr, schema: Schema, row: Row) -> Any:
    try:
        return evaluate(expr, schema, row)
    except Failed:
        return FAILED


# --- every kind --------------------------------------------------------------------------------------------------------


def test_every_documented_cell(spark: SparkSession) -> None:
    """In one job: operands of the same types are columns, the cells over them are rows, and each operation is computed of all rows."""
    schema, rows, placed = _cells_as_rows()
    made = {of: made_of(expr, schema) for of, (expr, _) in placed.items()}
    said = {of: each for of, each in made.items() if isinstance(each, Made)}
    wrong = []
    for (of, each), results in zip(said.items(), on_spark(spark, [*said.values()], schema, rows), strict=True):
        for place, cell in placed[of][1]:
            wanted, result = FAILED if cell.result is None else cell.result[1], results[place]
            close = isinstance(wanted, float) and functions_of(each.expr) & INEXACT and math.isclose(wanted, result, rel_tol=1e-15)
            if not same(wanted, result) and not close:
                wrong.append(f"{cell.line}, got {result!r}")
    assert not wrong, "\n".join(wrong)
    assert {each for each in made.values() if isinstance(each, str)} == {"hash", "json_get", "parse_time", "a cast of float64 to string"}


def _cells_as_rows() -> tuple[Schema, list[dict[str, Any]], dict[tuple[int, str], tuple[Expr, list[tuple[int, Cell]]]]]:
    """Their operands, and what is computed of which, by (operands, operation): the expression, and the cells in their rows."""
    over: dict[tuple[Field, ...], list[Cell]] = {}
    for cell in documented_cells():
        over.setdefault(tuple(operand[0] for operand in cell.operands), []).append(cell)
    rows: list[dict[str, Any]] = [{} for _ in range(max(map(len, over.values())))]
    fields: list[Field] = []
    placed: dict[tuple[int, str], tuple[Expr, list[tuple[int, Cell]]]] = {}
    for k, (operands, cells) in enumerate(over.items()):
        names = [f"{side}{k}" for side in "ab"[: len(operands)]]
        fields += [Field(name, field.type, field.nullable) for name, field in zip(names, operands, strict=True)]
        for place, row in enumerate(rows):
            cell = cells[place % len(cells)]
            row |= {name: value for name, (_, value) in zip(names, cell.operands, strict=True)}
            if place < len(cells):
                placed.setdefault((k, cell.operation), (cell.expression(names), []))[1].append((place, cell))
    return Schema(tuple(fields)), rows, placed


def test_every_kind_of_expression_is_in_a_documented_cell_or_below() -> None:
    every = [part for cell in documented_cells() for part in parts(cell.expression(("a", "b")[: len(cell.operands)]))]
    below = {"now", "trim", "ltrim", "rtrim", *INEXACT}
    assert {part.function for part in every if isinstance(part, Call)} | below == set(FUNCTIONS)
    assert {part.op for part in every if isinstance(part, Binary)} == {*ARITHMETIC, *COMPARISON, *BOOLEAN}
    assert {part.op for part in every if isinstance(part, Unary)} == set(UNARY)


def test_every_cast_has_an_equal_or_is_refused(spark: SparkSession) -> None:
    schema = Schema.of({name: "timestamp[us]" if name == "timestamp" else name for name in TYPES})
    refused = set()
    for name in TYPES:
        for to in (*TYPES, "timestamp[s]", "timestamp[ns]"):
            with contextlib.suppress(QueryError):  # there is no such cast
                infer(col(name).cast(to), schema)
                made = made_of(col(name).cast(to), schema)
                refused |= {(made, name, to)} if isinstance(made, str) else set()
    assert refused == {("a cast of float64 to string", "float64", "string")}


def test_what_is_refused_says_what_and_why(spark: SparkSession) -> None:
    schema = Schema.of({"x": float, "s": str})
    refused = {
        "hash": hash_(col("x")),
        "json_get": col("s").json_get("$"),
        "parse_time": parse_time(col("s"), "%Y"),
        "a user's function": Udf("tests.support.user_functions:root", (col("x"),), FLOAT64, True),
        "a cast of float64 to string": col("x").cast(str),
        "a regular expression with flags, Unicode classes, \\B, \\Q, \\C, or octal numbers": col("s").matches("(?i)a"),
        "extract where what repeats may be empty": col("s").extract(r"(|a)*\w+"),
    }
    assert refused.keys() == REFUSED_EXPRESSIONS.keys()
    for what, expr in refused.items():
        with pytest.raises(Refused, match=re.escape(f"{what} does not run on Spark: {REFUSED_EXPRESSIONS[what]}")) as raised:
            column(~expr.is_null(), schema)
        assert raised.value.what == what


def test_a_function_that_no_table_has_is_refused_by_its_name(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is with a function that has been added to the engine and not here."""
    schema = Schema.of({"x": float, "s": str})
    monkeypatch.delitem(texts.TEXTS, "upper")
    with pytest.raises(Refused, match=r"^upper does not run on Spark: nothing equal has been written for it there"):
        column(col("s").upper(), schema)
    monkeypatch.delitem(aggregates._FUNCTIONS, "sum")
    frame = Frame(spark.createDataFrame([(1.0, "a")], ["x", "s"]), schema, frozenset(), origins=False, ties=False)
    with pytest.raises(Refused, match=r"^sum does not run on Spark: nothing equal has been written for it there"):
        aggregates.result(sum_("x"), frame)


# --- text --------------------------------------------------------------------------------------------------------------

#: What no type takes, and what only some engines do.
TEXTS = [
    "",
    " 1",
    "1 ",
    "+",
    "1_0",
    "0x10",
    "1.",
    "1e3",
    "--1",
    "\u0663",
    "1\0",
    "nan",
    "1d",
    "1f",
    "-nan",
    "+inf",
    "1\n",
    "true\n",
    "\u0130",
    "NULL",
]


def assert_as_the_engine(session: SparkSession, expressions: Sequence[Expr], schema: Schema, rows: Sequence[Row]) -> None:
    """Of expressions that do not fail; the engine's texts are Arrow's and RE2's, which Python's are not."""
    with interpreted():
        wanted, result = run((mapped(**{f"v{k}": expr for k, expr in enumerate(expressions)}),), schema, *rows)
    assert not result.failures
    for k, (expr, values) in enumerate(zip(expressions, on_spark(session, expressions, schema, rows), strict=True)):
        wrong = [
            (row, each[f"v{k}"], value) for row, each, value in zip(rows, wanted, values, strict=True) if not same(each[f"v{k}"], value)
        ]
        assert not wrong, f"{text_of(expr)}: {wrong}"


def test_casts_out_of_text_take_what_the_engine_takes(spark: SparkSession) -> None:
    types = ("bool", "int32", "int64", "float64", "timestamp", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]")
    texts = TEXTS + " ".join(EDGES.values()).split() + [text.replace("T", " ") for text in EDGES["timestamp"].split()]
    assert_as_the_engine(spark, [col("s").try_cast(name) for name in types], Schema.of({"s": str}), [{"s": text} for text in texts])


PATTERNS = (
    *(
        "a",
        "(b|ab)",
        "x+(y)?",
        "[^a]",
        "^(a)|b",
        "(x*)",
        "a$",
        "^$",
        "^a.b$",
        ".",
        "(.+)$",
        r"\d+",
        r"(\w+)\s(\w+)",
        r"\s",
        r"\S+",
        r"\W",
        r"\D",
    ),
    *(
        r"\bab\b",
        r"\Aa",
        r"b\z",
        r"[\d\s]+",
        "[]a]+",
        "[^]a]",
        "[a-c-]+",
        "[-a]",
        "[[:alpha:]]+",
        "[[:space:]]",
        "[a&&b]",
        "[[a]",
        "{",
        "a{2}",
    ),
    *(
        "a{1,}b",
        "a{0,1}?b",
        "a{,2}",
        "x{,",
        "(a+?)(a*)",
        "(?:a|(b))+",
        "(?P<n>a)b",
        "a|",
        r"\.",
        r"\x61",
        r"\x{1F701}",
        r"\v",
        r"\t|\n",
        "é+",
        "日.",
        "🜁",
    ),
    *(r"[\x{e9}-\x{ff}]", "~|#|&&", "a b", "(a|ab)(c|bcd)?", r"[\^\]]", "a??b", "(a)(b)?(c)?"),
)
SUBJECTS = (
    *(
        "",
        "a",
        "b",
        "ab",
        "aab",
        "abc",
        "abcd",
        "xxy",
        "a\n",
        "a\nb",
        "a\rb",
        "\n",
        "a\u2028b",
        "\u0085",
        "x12 y3",
        "\u0663",
        "\x0b",
        " ",
        "\t",
        "]",
        "^",
        "-",
        "&",
    ),
    *(
        "[",
        "{",
        "a{,2}",
        "x{,",
        ".",
        "é",
        "éé",
        "ÿ",
        "日本",
        "🜁",
        "a🜁b",
        "~",
        "#",
        "&&",
        "a b",
        "cab ab",
        "éab",
        "ab_",
        "\0",
        "a\0b",
        "A",
        "c",
    ),
)


def test_regular_expressions_find_what_re2_finds(spark: SparkSession) -> None:
    schema = Schema.of({"s": str})
    extracts = [col("s").extract(pattern, group) for pattern in PATTERNS for group in range(4)]
    sound = [expr for expr in extracts if _is_sound(expr, schema)]
    assert_as_the_engine(spark, [*(col("s").matches(p) for p in PATTERNS), *sound], schema, [{"s": text} for text in SUBJECTS])


def _is_sound(expr: Expr, schema: Schema) -> bool:
    try:
        infer(expr, schema)
    except QueryError:
        return False
    return True


@pytest.mark.parametrize("regex", ["(?i)a", "(?s:.)", r"\B", r"\pL", r"[\pL]", r"\Qa", r"\C", r"\07", r"[\D]", "[[:^alpha:]]"])
def test_regular_expressions_that_mean_something_else_are_refused(regex: str) -> None:
    schema = Schema.of({"s": str})
    infer(col("s").matches(regex), schema)
    with pytest.raises(Refused, match="a regular expression with"):
        java(regex, extracts=False)


def test_every_character_has_the_case_that_the_engine_gives_it(spark: SparkSession) -> None:
    rows = [{"s": "".join(map(chr, range(start, start + 256)))} for start in range(0, 0x20000, 256) if not 0xD800 <= start < 0xE000]
    assert_as_the_engine(spark, [col("s").lower(), col("s").upper(), col("s").reverse(), col("s").trim()], Schema.of({"s": str}), rows)


# --- numbers and times -------------------------------------------------------------------------------------------------

FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    3.0,
    10.0,
    1e-300,
    5e-324,
    -5e-324,
    1e308,
    700.0,
    -745.0,
    math.pi,
    -math.pi / 2,
    1e22,
    123456.789,
    8.0,
)


def test_functions_of_floats_are_the_c_library_s_but_for_their_last_bits(spark: SparkSession) -> None:
    shuffle = random.Random(7)
    floats = [*FLOATS, math.inf, -math.inf, math.nan, *(shuffle.uniform(-1, 1) * 10.0 ** shuffle.randint(-9, 9) for _ in range(200))]
    rows = [
        {"x": x, "y": y, "n": n} for x in floats for y, n in ((shuffle.choice(floats), shuffle.randint(-9, 9)), (shuffle.choice(FLOATS), 0))
    ]
    schema = Schema.of({"x": float, "y": float, "n": int})
    expressions = [Call(name, (col("x"), col("y"))[: FUNCTIONS[name][0]]) for name in sorted(INEXACT)] + [col("x").pow(col("n"))]
    for expr, values in zip(expressions, on_spark(spark, expressions, schema, rows), strict=True):
        assert isinstance(expr, Call)
        ulps = ULPS.get(expr.function, 2)
        wanted = [evaluate(expr, schema, row) for row in rows]
        assert [each for each in zip(rows, wanted, values, strict=True) if not _near(*each[1:], ulps)] == []


def _near(wanted: float, got: float, ulps: int) -> bool:
    """Equal where it is no finite number or zero, else `ulps` units in the last place apart at most."""
    if not math.isfinite(wanted) or wanted == 0:
        return same(wanted, got)
    return abs(wanted - got) <= ulps * math.ulp(wanted)


def test_parts_of_instants_over_the_whole_range(spark: SparkSession) -> None:
    shuffle = random.Random(7)
    edges = [sign * (2**63 - 1) for sign in (-1, 1)] + [
        -(2**63),
        -1,
        0,
        1,
        -86_400_000_000,
        -62_135_596_800_000_000,
        -62_135_596_800_000_001,
    ]
    instants = [*edges, *(shuffle.randint(-(2**63), 2**63 - 1) >> shuffle.randint(0, 40) for _ in range(300))]
    parts_ = (
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "millisecond",
        "weekday",
        "day_of_year",
        "epoch_s",
        "epoch_ms",
        "epoch_us",
    )
    units = [col("t").cast(f"timestamp[{unit}]") for unit in ("s", "ms", "us", "ns")]
    schema = Schema.of({"t": "timestamp[us]"})
    expressions = [Call(name, (col("t"),)) for name in parts_] + [unit.try_cast(to) for unit in units for to in ("int64", "int32")]
    assert_as_the_oracle(spark, [*expressions, col("t").truncate("7us"), col("t").truncate("1d")], schema, [{"t": us} for us in instants])


def test_now_is_one_instant_for_all_rows(spark: SparkSession) -> None:
    before = datetime.now(UTC)
    (values,) = on_spark(spark, [now()], Schema.of({"i": int}), [{"i": 1}, {"i": 2}])
    assert len(set(values)) == 1
    assert before <= EPOCH + timedelta(microseconds=values[0]) <= datetime.now(UTC)


# --- any expression, any rows ------------------------------------------------------------------------------------------


def assert_as_the_oracle(session: SparkSession, expressions: Sequence[Expr | Made], schema: Schema, rows: Sequence[Row]) -> None:
    for each, values in zip(expressions, on_spark(session, expressions, schema, rows), strict=True):
        expr = each.expr if isinstance(each, Made) else each
        wrong = [(row, wanted, got) for row, got in zip(rows, values, strict=True) if not same(wanted := expected(expr, schema, row), got)]
        assert not wrong, f"{text_of(expr)}: {to_json(expr)}: {wrong[0]}"


def assert_any_are_the_oracle_s(session: SparkSession, data: st.DataObject, number: int, depth: int) -> None:
    """`number` expressions of every kind over many rows; those that Spark refuses or has otherwise in their last bits are left out."""
    drawn = data.draw(
        st.lists(st.sampled_from(KINDS).flatmap(lambda kind: expressions(ANY, kind, depth)), min_size=number, max_size=number)
    )
    made = [made_of(expr, ANY) for expr in drawn if not functions_of(expr) & INEXACT]
    assert {each for each in made if isinstance(each, str)} <= REFUSED_EXPRESSIONS.keys()
    assert_as_the_oracle(session, [each for each in made if isinstance(each, Made)], ANY, data.draw(many_rows(number)))


@given(data=st.data())
@settings(max_examples=3)
def test_any_expressions_are_the_oracle_s(spark: SparkSession, data: st.DataObject) -> None:
    assert_any_are_the_oracle_s(spark, data, 30, 3)


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=100)
def test_any_expressions_are_the_oracle_s_at_length(spark: SparkSession, data: st.DataObject) -> None:
    assert_any_are_the_oracle_s(spark, data, 60, 4)
