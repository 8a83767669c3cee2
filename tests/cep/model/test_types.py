"""Types of expressions and schemas of operators: the tables of docs/arithmetic.md, and the messages of what is none."""

from __future__ import annotations

from itertools import product

import pytest

from cep.errors import QueryError
from cep.model.expr import Binary, Call, Cast, ColumnRef, Expr, Literal, Unary, coalesce, col, lit, now
from cep.model.functions import Function, avg, count, first, max_, min_, sum_, window_end
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.schema import BOOL, FLOAT64, INT64, TIMESTAMP_US, DataType, Field, Schema, parse_type
from cep.model.types import can_fail, infer, literal_value, promoted, text_of, typed
from cep.model.windows import TIME
from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs" / "arithmetic.md"
TYPES = ("bool", "int32", "int64", "float64", "timestamp", "string", "binary")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


def tables() -> list[list[list[str]]]:
    """The tables of the document, each a list of rows of cells, the first one the head."""
    found: list[list[list[str]]] = []
    before = ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        before = line
    return [[table[0], *table[2:]] for table in found]


def kind(type_: str) -> str:
    return "integer" if type_ in ("int32", "int64") else type_


def of(name: str) -> DataType:
    return DataType(name, "ms" if name == "timestamp" else "")


def documented() -> dict[tuple[str, str, str], str]:
    """(left, operator, right) -> name of the result's type, "-" where there is none."""
    head, *rows = tables()[0]
    cells = {}
    for left, right, *results in rows:
        for heading, result in zip(head[2:], results, strict=True):
            cells |= {(left, op.strip("`"), right): result for op in heading.split()}
    return cells


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", *COMPARISONS])
def test_every_pair_of_types_has_the_documented_result(op: str) -> None:
    cells = documented()
    for left, right in product(TYPES, TYPES):
        schema = Schema((Field("a", of(left)), Field("b", of(right), True)))
        expected = cells.get((kind(left), op, kind(right)), "-")
        expression = Binary(op, ColumnRef("a"), ColumnRef("b"))
        if expected == "-":
            with pytest.raises(QueryError, match="expected"):
                infer(expression, schema)
        else:
            assert infer(expression, schema) == (of(expected), True), f"{left} {op} {right}"


def test_every_cast_is_as_documented() -> None:
    head, *rows = next(table for table in tables() if table[0][0] == "from")
    assert tuple(head[1:]) == TYPES == tuple(row[0] for row in rows)
    for source, *cells in rows:
        for target, cell in zip(TYPES, cells, strict=True):
            types = [DataType(name, "us" if name == "timestamp" else "") for name in (source, target)]
            schema = Schema((Field("a", types[0]),))
            if cell == "-":
                with pytest.raises(QueryError, match="casts to"):
                    infer(col("a").cast(types[1]), schema)
            else:
                assert can_fail(*types) == (cell == "may fail"), f"{source} to {target}"
                assert infer(col("a").cast(types[1]), schema) == (types[1], False)
                assert infer(col("a").try_cast(types[1]), schema) == (types[1], cell == "may fail")


@pytest.mark.parametrize(
    ("source", "target", "fails"),
    [
        ("int64", "timestamp[us]", False),
        ("int64", "timestamp[ms]", True),
        ("int32", "timestamp[s]", False),
        ("int32", "timestamp[ns]", True),
        ("timestamp[ns]", "int64", True),
        ("timestamp[ms]", "int64", False),
        ("timestamp[s]", "int32", True),
        ("timestamp", "timestamp[ns]", False),
    ],
)
def test_casts_of_timestamps_fail_by_their_unit(source: str, target: str, fails: bool) -> None:
    assert can_fail(parse_type(source)[0], parse_type(target)[0]) is fails


SCHEMA = Schema.of(
    {"i": int, "j": "int32?", "f": float, "g": "float64?", "p": bool, "q": "bool?"}
    | {"t": "timestamp[ms]", "u": "timestamp[s]?", "plain": "timestamp", "s": str, "n": "string?"}
)
MS, PLAIN = DataType("timestamp", "ms"), DataType("timestamp")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("i"), (INT64, False)),
        (-col("j"), (INT64, True)),
        (Call("abs", (col("g"),)), (FLOAT64, True)),
        (col("p") & col("q"), (BOOL, True)),
        (~col("p"), (BOOL, False)),
        (col("n").is_null(), (BOOL, False)),
        (coalesce(col("j"), 0), (INT64, False)),
        (coalesce(col("j"), col("j")), (DataType("int32"), True)),
        (coalesce(col("j"), col("f")), (FLOAT64, False)),
        (coalesce(col("u"), col("t")), (TIMESTAMP_US, False)),
        (coalesce(col("u"), col("u"), 0), (DataType("timestamp", "s"), False)),
        (coalesce(col("n"), "x"), (DataType("string"), False)),
        (now(), (TIMESTAMP_US, False)),
        (now() - col("t"), (INT64, False)),
        (col("t") + 5, (MS, False)),
        (5 + col("u"), (DataType("timestamp", "s"), True)),
        (col("t") < 1_700_000_000_000, (BOOL, False)),
        (col("plain") < "2024-01-01", (BOOL, False)),
        (lit(None, "int64") + 1, (INT64, True)),
        (col("f").cast("int32"), (DataType("int32"), False)),
        (col("f").try_cast("int32"), (DataType("int32"), True)),
        (col("i").try_cast("float64"), (FLOAT64, False)),
    ],
)
def test_types_and_nullability(expression: Expr, expected: tuple[DataType, bool]) -> None:
    assert infer(expression, SCHEMA) == expected


@pytest.mark.parametrize(
    ("expression", "message", "pointer"),
    [
        (col("x") + 1, r"no column 'x'; there are i, j, f, g, p, q, t, u, plain, s, n", "/args/0/column"),
        (
            col("i") + ~col("q").is_null() * 2,
            r"\(not \(q is null\)\) \* 2: expected numbers.*; got bool \* int64",
            "/args/1",
        ),
        (col("s") + 1, r"s \+ 1: expected numbers, or a timestamp and integer µs; got string \+ int64", ""),
        (col("s") == 1, r"s = 1: expected two numbers, or two of one type; cast one of them; got string = int64", ""),
        (col("t") == col("i"), r"got timestamp\[ms\] = int64", ""),
        (col("t") == 1.5, r"got timestamp\[ms\] = float64", ""),
        (col("plain") > 5, r"a plain timestamp refuses integers", "/args/1/literal"),
        (col("plain") > "yesterday", r"literal 'yesterday': expected an instant in ISO 8601", "/args/1/literal"),
        (col("plain").cast(int), r"a plain timestamp refuses integers; name a unit", ""),
        (col("i").cast("timestamp"), r"a plain timestamp refuses integers; name a unit", ""),
        (col("i") & col("p"), r"i and p: expected bool on both sides; got int64 and bool", ""),
        (~col("i"), r"not i: expected bool, got int64", ""),
        (-col("t"), r"-t: expected a number, got timestamp\[ms\]", ""),
        (Call("abs", (col("p"),)), r"abs\(p\): expected a number, got bool", ""),
        (
            coalesce(col("i"), col("s")),
            r"coalesce\(i, s\): expected numbers, or all of one type; got int64, string",
            "",
        ),
        (col("f").cast("timestamp[ms]"), r"float64 casts to bool, int32, int64, float64, string, not to timestamp", ""),
        (lit(2**63) + 1, r"literal 9223372036854775808: expected a value of int64, between -9", "/args/0/literal"),
        (lit(2**31, "int32"), r"expected a value of int32", "/literal"),
        (lit(1, "string"), r"literal 1: expected a value of type string", "/literal"),
        (lit(True, "int64"), r"literal True: expected a value of type int64", "/literal"),
        (lit("\ud800"), r"not valid Unicode", "/literal"),
        (lit(10**400, "float64"), r"too large for float64", "/literal"),
        (lit(1001, "timestamp[ns]"), r"nanoseconds have to be whole microseconds", "/literal"),
        (lit(2**62, "timestamp[s]"), r"expected a value of int64", "/literal"),
        (Call("cbrt", (col("f"),)), r"no function 'cbrt' of 1 arguments", "/call"),
        (Binary("^", col("i"), col("i")), r"unknown operator '\^'", "/op"),
        (col("i").cast("string").cast(bool).try_cast("binary"), r"bool casts to", ""),
    ],
)
def test_what_has_no_type_says_why_and_where(expression: Expr, message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        infer(expression, SCHEMA)
    assert raised.value.pointer == pointer


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (lit(1500, "timestamp[ms]"), 1_500_000),
        (lit(2, "timestamp[s]"), 2_000_000),
        (lit(5000, "timestamp[ns]"), 5),
        (lit("1970-01-01T00:00:01.5Z", "timestamp"), 1_500_000),
        (lit("1970-01-01 01:00:00+01:00", "timestamp[s]"), 0),
        (lit("1969-12-31", "timestamp"), -86_400_000_000),
        (lit(None, "timestamp"), None),
        (lit(2, "float64"), 2.0),
        (lit("é"), "é".encode()),
        (Literal(b"\xff", DataType("binary")), b"\xff"),
    ],
)
def test_values_of_literals(literal: Literal, value: object) -> None:
    assert literal_value(literal) == value


def test_a_literal_beside_a_timestamp_is_an_instant_in_its_unit() -> None:
    for expression in (col("u") > 3, coalesce(col("u"), 3)):
        literal = typed(expression, SCHEMA.by_name).args[1]
        assert isinstance(literal.expr, Literal)
        assert (literal.type, literal_value(literal.expr)) == (DataType("timestamp", "s"), 3_000_000)
    added = typed(col("u") + 3, SCHEMA.by_name).args[1].expr
    assert isinstance(added, Literal) and literal_value(added) == 3  # µs: a length, no instant


def test_promoted() -> None:
    assert promoted((DataType("int32"), DataType("int32"))) == DataType("int32")
    assert promoted((DataType("int32"), INT64)) == INT64
    assert promoted((INT64, FLOAT64, DataType("int32"))) == FLOAT64
    assert promoted((MS, PLAIN)) == TIMESTAMP_US
    assert promoted((BOOL, INT64)) is None


def test_expressions_are_written_as_people_would() -> None:
    assert text_of((col("a") + 1) * -col("b")) == "(a + 1) * (-b)"
    assert text_of(~(col("s") == "x") | col("s").is_null()) == "(not (s = 'x')) or (s is null)"
    assert text_of(coalesce(col("s").try_cast(int), 0)) == "coalesce(try_cast(s as int64), 0)"
    assert text_of(Unary("not", Cast(col("x"), BOOL, False))) == "not cast(x as bool)"
    assert len(text_of(coalesce(*["x" * 30] * 3))) == 60


# --- operators -------------------------------------------------------------------------------------------------------


def aggregate(by: tuple[str, ...] = (), **functions: Function) -> Aggregate:
    return Aggregate("window", "in", TIME("30s"), by, tuple(functions.items()))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (Map("m", "in", (("x", col("i") / 2), ("n", col("n")))), "(x: float64, n: string?)"),
        (Filter("f", "in", col("q")), str(SCHEMA)),
        (aggregate(("s", "j"), n=count()), "(s: string, j: int32?, n: int64)"),
        (
            aggregate(a=avg("j"), b=sum_("i"), c=sum_("f"), d=min_("n"), e=max_("t"), f=first("j"), g=window_end()),
            "(a: float64?, b: int64?, c: float64, d: string?, e: timestamp[ms], f: int32?, g: timestamp[us])",
        ),
    ],
)
def test_schemas_of_operators(operator: Operator, expected: str) -> None:
    assert str(operator.output_schema(SCHEMA)) == expected


def test_a_union_has_the_schema_of_its_inputs() -> None:
    assert Union("u", ("a", "b")).output_schema(SCHEMA, SCHEMA) == SCHEMA


@pytest.mark.parametrize(
    ("operator", "message", "pointer"),
    [
        (Map("m", "in", (("x/y", col("z")),)), r"operator 'm', field 'x/y': no column 'z'", "/fields/x~1y/column"),
        (Map("m", "in", (("x", 1 + ~col("i")),)), r"operator 'm', field 'x': not i: expected bool", "/fields/x/args/1"),
        (Map("m", "in", (("x", lit(1)), ("x", lit(2)))), r"operator 'm': field 'x' is declared twice", "/fields/x"),
        (Map("m", "in", (("__x", lit(1)),)), r"operator 'm': field name '__x'", "/fields/__x"),
        (Map("m", "in", ()), r"operator 'm': a map needs at least one field", "/fields"),
        (Filter("f", "in", col("i")), r"operator 'f', condition: expected bool, got int64 of i", "/condition"),
        (Filter("f", "in", col("z") > 1), r"operator 'f', condition: no column 'z'", "/condition/args/0/column"),
        (aggregate(("z",), n=count()), r"operator 'window', by: no column 'z'; there are i, j", "/by/0"),
        (aggregate(("s", "s"), n=count()), r"operator 'window', by: 's' stands twice", "/by/1"),
        (aggregate(n=sum_("z")), r"operator 'window', field 'n': no column 'z'", "/functions/n/column"),
        (aggregate(n=sum_("s")), r"field 'n': sum\(s\): expected a number, got string", "/functions/n/column"),
        (aggregate(n=Function("sum")), r"field 'n': sum takes one column", "/functions/n"),
        (aggregate(("s",), s=count()), r"operator 'window': field 's' is declared twice", "/functions/s"),
        (aggregate(), r"operator 'window': an aggregate needs at least one function", "/functions"),
    ],
)
def test_operators_that_do_not_fit_say_why_and_where(operator: Operator, message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        operator.output_schema(SCHEMA)
    assert raised.value.pointer == pointer


def test_unions_that_do_not_fit() -> None:
    other = Schema.of({"i": float})
    with pytest.raises(QueryError, match="at least two inputs, got 1"):
        Union("u", ("a",)).output_schema(SCHEMA)
    with pytest.raises(QueryError, match=r"'b' has \(i: float64\)") as raised:
        Union("u", ("a", "b")).output_schema(SCHEMA, other)
    assert raised.value.pointer == "/inputs/1"
    with pytest.raises(QueryError, match="'a' stands twice"):
        Union("u", ("a", "a")).output_schema(SCHEMA, SCHEMA)
