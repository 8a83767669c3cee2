"""Functions of expressions: their table, their messages, what is computed of them only where it is needed, and where they end.

Tests `calls.py`, `members.py`, `scalars.py`, `cep/model/expr_functions.py`, `cep/model/function_types.py`.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.chain.chain import ChainResult, compile_chain, make_chain
from cep.errors import QueryError
from cep.kernels.columns import Column
from cep.kernels.jit import compilations, interpreted
from cep.kernels.tables.keys import ENCODERS
from cep.model.expr import FUNCTIONS, Call, Expr, coalesce, col, lit
from cep.model.expr_functions import atan2, concat, format_time, greatest, hash_, parse_time, try_, when
from cep.model.function_types import SIGNATURES
from cep.model.schema import FLOAT64, INT64, Field, Schema, parse_type
from cep.model.types import infer
from tests.cep.compile.chain.test_chain import NOW_US, Row, assert_as_expected, columns_of, mapped, rows_of, run, same
from tests.cep.model.test_types import tables
from tests.reference import functions as reference
from tests.reference.expressions import Failed, evaluate

SCHEMA = Schema.of(
    {"i": int, "n": "int64?", "f": float, "s": str, "m": "string?", "b": "binary", "t": "timestamp[us]", "w": "list<string>?"}
)
ROW = {"i": 0, "n": None, "f": 0.5, "s": "x", "m": None, "b": b"\xff", "t": 0, "w": ["a", None]}


def interpret(expression: Expr, row: Row) -> tuple[list[dict[str, Any]], ChainResult]:
    """Machine code of all functions is compared elsewhere; here are many small chains, each of which would be compiled."""
    with interpreted():
        return run((mapped(x=expression),), SCHEMA, row)


def one(expression: Expr, **changed: Any) -> Any:
    """The value for one row; it is that of the oracle."""
    row = {**ROW, **changed}
    rows, result = interpret(expression, row)
    assert not result.failures, result.failures
    assert same(rows[0]["x"], evaluate(expression, SCHEMA, row, NOW_US))
    return rows[0]["x"]


def reason(expression: Expr, **changed: Any) -> str:
    """Why the row fails."""
    row = {**ROW, **changed}
    _, result = interpret(expression, row)
    with pytest.raises(Failed):
        evaluate(expression, SCHEMA, row, NOW_US)
    return result.failures[0].reason


# --- the table -------------------------------------------------------------------------------------------------------

_TYPES = {
    "number": ("int32", "int64", "float64"),
    "integer": ("int32", "int64"),
    "text": ("string", "binary"),
    "texts of one type": ("string", "binary"),
    "text of the same type": ("string", "binary"),
    "keys": ("bool", "int32", "int64", "float64", "timestamp", "string", "binary"),
    "list": ("list<int64>", "list<string>", "list<bool>"),
}
_ALL = ("bool", "int32", "int64", "float64", "timestamp", "string", "binary", "list<int64>", "list<string>", "list<bool>")
_LITERALS = {
    "digits": 1, "part": "x", "start": 1, "length": 1, "width": 1, "character": "x", "old": "x", "new": "x", "regex": "(x)", "group": 1,
    "separator": "x", "duration": "1h", "format": "%Y", "path": "$.a",
}  # fmt: skip


def documented() -> dict[str, tuple[list[str], str]]:
    """Function -> (what it takes, what it yields)."""
    table = next(table for table in tables() if table[0][0] == "function")
    return {name: (takes.split(", "), yields) for names, takes, yields, _ in table[1:] for name in names.split(", ")}


def test_every_function_is_documented() -> None:
    above = {"now", "coalesce", "greatest", "least", "when", "try", "nullif"}  # in the text
    assert set(documented()) == set(FUNCTIONS) - above == set(SIGNATURES)


@pytest.mark.parametrize("name", documented())
def test_functions_take_what_is_documented_and_nothing_else(name: str) -> None:
    takes, yields = documented()[name]
    for given_ in _ALL:
        fits = given_ in _TYPES.get(takes[0], (takes[0],))
        others = [_LITERALS[take.removeprefix("literal ")] for take in takes[1:] if take.startswith("literal ")]
        columns = [col("a")] * (1 + (len(takes) > 1 and not others and takes[1] != "integer"))
        index = [lit(0)] if takes[1:] == ["integer"] else []
        expression = Call(name, (*columns, *index, *map(lit, others)))
        schema = Schema.of({"a": given_})
        if not fits:
            with pytest.raises(QueryError, match="expected"):
                infer(expression, schema)
            continue
        type_ = str(infer(expression, schema)[0])
        wanted = {"that type": given_, "int64, float64": "float64" if given_ == "float64" else "int64"}
        wanted |= {"the element's type": given_.removeprefix("list<").removesuffix(">")}
        assert type_ == wanted.get(yields, yields)


# --- documents and messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message", "pointer"),
    [
        (when(col("i"), 1), r"case when i then 1 end: condition 1: expected bool, got int64", "/args/0"),
        (when(col("i") > 0, 1).otherwise("x"), r"expected numbers, or all of one type; got int64, string", ""),
        (col("s").sqrt(), r"sqrt\(s\): expected a number, got string", ""),
        (col("i").is_nan(), r"is_nan\(i\): expected float64, got int64", ""),
        (col("f").pow("x"), r"pow\(f, 'x'\): argument 2: expected a number, got string", "/args/1"),
        (col("f").round(16), r"argument 2: expected an integer from 0 to 15, got 16", "/args/1"),
        (Call("round", (col("f"), col("i"))), r"argument 2: expected a literal, got an expression", "/args/1"),
        (col("s").matches("("), r"argument 2: expected a regular expression of RE2 \(.*missing \).*\), got '\('", "/args/1"),
        (col("s").matches("(?=x)"), r"expected a regular expression of RE2", "/args/1"),
        (col("s").extract("a(b)", 2), r"expected a regular expression with 2 groups, got 'a\(b\)'", ""),
        (col("s").split(""), r"argument 2: expected a text that is not empty, got ''", "/args/1"),
        (col("s").substring(-1), r"argument 2: expected an integer from 0 to", "/args/1"),
        (col("s").pad_left(3, "ab"), r"argument 3: expected one character, got 'ab'", "/args/2"),
        (col("s").contains(lit("x").cast("binary")), r"expected arguments of one type, got string, binary; cast them", ""),
        (col("t").truncate("1 week"), r"argument 2: expected a duration such as '1h', greater than zero, got '1 week'", "/args/1"),
        (col("t").truncate("0s"), r"argument 2: expected a duration", "/args/1"),
        (col("i").year(), r"year\(i\): expected a timestamp, got int64", ""),
        (hash_(col("i"), col("w")), r"argument 2: expected a type that can be a key, got list<string>", "/args/1"),
        (col("w") == col("w"), r"w = w: lists are not comparable; got list<string> = list<string>", ""),
        (col("w").nullif(col("w")), r"lists are not comparable", ""),
        (greatest(col("s"), "x"), r"greatest\(s, 'x'\): expected numbers or timestamps, got string", ""),
        (col("w").cast(str), r"list<string> casts to nothing, not to string", ""),
        (col("s").cast("list<string>"), r"string casts to .*, not to list<string>", ""),
        (col("s").list_length(), r"list_length\(s\): expected a list, got string", ""),
        (col("w").element("x"), r"argument 2: expected an integer, got string", "/args/1"),
        (lit(1, "list<int64>"), r"literal 1: expected a value of type list<int64>", "/literal"),
    ],
)
def test_what_has_no_type_says_why_and_where(expression: Expr, message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        infer(expression, SCHEMA)
    assert raised.value.pointer == pointer


# --- what is needed --------------------------------------------------------------------------------------------------

FAILS = 1 // col("i")
FAILING_TEXT = FAILS.cast(str)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (when(col("i") == 0, 5).otherwise(FAILS), 5),
        (when(col("i") != 0, FAILS).otherwise(5), 5),
        (when(col("n") > 0, FAILS).when(col("i") == 0, 6).when(FAILS > 0, 7), 6),
        (when(col("n") > 0, FAILS), None),
        (when(col("i") == 0, "a").otherwise(FAILING_TEXT), "a"),
        (when(col("i") != 0, FAILING_TEXT).when(col("i") == 0, col("s")).otherwise(col("b").cast(str)), "x"),
        (when(col("i") != 0, FAILING_TEXT.length()).otherwise(2), 2),
        (when(col("i") != 0, when(FAILS > 0, "a").otherwise("b")).otherwise("c"), "c"),
        (when(col("i") != 0, col("t").truncate("1h") + FAILS).otherwise(col("t")), 0),
        (coalesce(when(col("i") == 0, "a"), FAILING_TEXT), "a"),
        (when(col("i") == 0, col("w")).otherwise(FAILING_TEXT.split(",")), ["a", None]),
        ((col("i") != 0) & (FAILING_TEXT.contains("1")), False),
        ((col("i") != 0) & (col("w").element(FAILS) == "a"), False),
        ((col("i") == 0) | (hash_(FAILS) == 1), True),
        (try_(FAILS), None),
        (try_(FAILING_TEXT), None),
        (try_(coalesce(FAILING_TEXT, "x")), None),
        (try_(coalesce(col("s"), FAILING_TEXT)), "x"),
        (try_(when(col("i") == 0, "a").otherwise(FAILING_TEXT)), "a"),
        (try_(when(FAILS > 0, "a").otherwise("b")), None),
        (try_(col("b").cast(str)).is_null(), True),
        (try_(col("b").cast(str).length()), None),
        (try_(try_(FAILS).fill_null(7) + try_(col("s").cast(int)).fill_null(1)), 8),
        (try_(try_(FAILS).fill_null(7) // col("i")), None),
        (try_(col("s").cast(int)), None),
        (try_(col("s").cast(int) > 0) | (col("i") == 0), True),
        (try_((col("i") == 0) | (FAILS > 0)), True),
        (try_(FAILING_TEXT.split(",")), None),
        (try_(hash_(FAILS)), None),
        (coalesce(try_(FAILING_TEXT), try_(col("b").cast(str)), "neither"), "neither"),
        (try_(col("s")), "x"),
        (try_(lit("k")), "k"),
        (try_(col("w")), ["a", None]),
    ],
)
def test_what_is_not_needed_or_tried_fails_no_row(expression: Expr, wanted: Any) -> None:
    assert one(expression) == wanted


@pytest.mark.parametrize(
    "expression",
    [
        when(FAILS > 0, 1),
        when(col("i") == 0, FAILS),
        when(col("i") == 0, FAILING_TEXT).otherwise("a"),
        when(col("i") != 0, "a").otherwise(FAILING_TEXT),
        when(FAILS > 0, "a").otherwise("b"),
        FAILING_TEXT.length(),
        hash_(FAILS),
        col("s").cast(int).round(),
        try_(col("i")).fill_null(1) + FAILS,
        greatest(FAILS, 1),
        concat(col("m"), FAILING_TEXT),
        col("m").contains(FAILING_TEXT),
    ],
)
def test_what_is_needed_fails(expression: Expr) -> None:
    assert "integer division by zero" in reason(expression) or "does not fit" in reason(expression)


def test_branches_that_cannot_fail_are_one_loop_without_branches() -> None:
    chain = make_chain((mapped(x=when(col("i") > 5, 1).when(col("n") > 0, col("n")).otherwise(2).cast(float).sqrt()),), SCHEMA)
    assert len(chain.parts) == 1
    body = chain.loops[0].source.text.split("for i in range(n):")[1]
    assert all(not line.strip().startswith(("if", "while", "continue")) for line in body.splitlines())


def test_what_existed_imports_no_functions() -> None:
    chain = make_chain((mapped(x=coalesce(col("n"), abs_(col("i")) + 1)),), SCHEMA)
    assert "chain_scalars" not in chain.loops[0].source.text


def abs_(expression: Expr) -> Expr:
    return expression.abs()


def test_a_text_that_stands_twice_is_computed_once() -> None:
    trimmed = col("s").trim().lower()
    chain = make_chain((mapped(x=trimmed.nullif(""), y=trimmed.is_in(["a", "b", "c"])),), SCHEMA)
    assert sum(not hasattr(part, "kernel") for part in chain.parts) == 3  # trim, lower, the choice


def test_many_values_and_branches() -> None:
    assert one(col("i").is_in(range(300))) is True and one(col("i").is_in([])) is False
    many = when(col("i") == 1, 1)
    for k in range(2, 150):
        many = many.when(k == FAILS, k)
    assert reason(many) and one(many.otherwise(-1), i=1) == 1


MEMBERS: dict[str, tuple[list[Any], list[Any]]] = {
    # type: (what is looked for, among what)
    "int32": ([-(2**31), -1, 0, 7, 8, 2**31 - 1], [-(2**31), 2**31 - 1, *range(7, 60, 2)]),
    "int64": ([-(2**63), 2**53, 2**53 + 1, 2**63 - 1, 3], [-(2**63), 2**53 + 1, 2**63 - 1, *range(40)]),
    "float64": ([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, 1.5], [-0.0, math.nan, math.inf, *(k + 0.5 for k in range(1, 40)), 7]),
    "timestamp[ms]": ([0, 1_000, 1_500, 2_000], ["1970-01-01T00:00:00.0015", *range(1, 40)]),
    "string": (["", "a", "aa", "ab", "b", "é", "x" * 40], ["", "ab", "é", "x" * 40, *(f"{k}" for k in range(40))]),
    "binary": ([b"", b"\xff", b"\0", b"a"], [b"\xff", b"\0", *(bytes([k]) for k in range(40))]),
}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("machine_code", [False, True])
def test_one_search_among_many_constants(name: str, machine_code: bool) -> None:
    looked_for, among = MEMBERS[name]
    type_ = parse_type(name)[0]
    schema = Schema((Field("x", type_, True), Field("n", INT64)))
    operators = (
        mapped(x=col("x").is_in([lit(value, name) if isinstance(value, str | bytes) else value for value in among]) | (col("n") == 1)),
    )
    rows = [{"x": value, "n": n} for value in (*looked_for, None) for n in (0, 1)]
    with nullcontext() if machine_code else interpreted():
        chain = compile_chain(operators, schema)
        assert_as_expected(chain, operators, schema, rows, columns_of(rows, schema))


def test_a_search_needs_one_value_and_constants_that_are_not_null() -> None:
    def has_search(condition: Expr) -> bool:
        return "_member(" in make_chain((mapped(x=condition),), SCHEMA).loops[0].source.text

    assert has_search(col("i").is_in(range(300))) and has_search((col("i") + 1).is_in(range(300)))
    assert not has_search(col("i").is_in([*range(16), lit(None, INT64)]))
    assert not has_search(col("i").is_in(range(10)) | col("n").is_in(range(10)))
    assert not has_search(col("i").is_in(range(9)))


def test_nothing_compiles_after_compile_chain() -> None:
    operators = (
        mapped(
            a=hash_(col("s"), col("i")), b=col("s").split("x"), c=when(col("i") > 0, col("s")).otherwise("y"), d=col("f").exp(), w=col("w")
        ),
        mapped("n", e=col("b").element(0), f=try_(col("a").cast("int32").cast(str)), g=col("w").join("-"), h=col("b").list_length()),
    )
    chain = compile_chain(operators, SCHEMA)
    before = compilations()
    chain.process(columns_of([ROW, {**ROW, "s": "x" * 40}], SCHEMA), 2, NOW_US)
    assert compilations() == before


def test_all_kernels_that_encode_keys_are_named() -> None:
    from cep.kernels.tables import keys  # their module, to look into

    kernels = {kernel for name, kernel in vars(keys).items() if name in ("_pack_text", "_fill_long", "_append_word", "_append_text")}
    assert kernels == set(ENCODERS)


# --- the same bits ---------------------------------------------------------------------------------------------------

FLOATS = ("sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "floor", "ceil", "trunc", "sign")


def test_functions_of_floats_are_python_s_to_the_bit() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [
            rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64),
            rng.normal(size=20_000) * 10,
            rng.uniform(-1, 1, 10_000),
            [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 1.5, 2.5, 2.0**52, 2.0**52 - 0.5, 5e-324],
        ]
    )
    y = np.where(np.arange(len(x)) % 3, np.roll(x, 7), rng.integers(-20, 20, len(x)))
    fields = {name: getattr(col("x"), name)() for name in FLOATS}
    fields |= {"pow": col("x").pow(col("y")), "atan2": atan2(col("x"), col("y")), "round": col("x").round(), "round_3": col("x").round(3)}
    chain = compile_chain((mapped(**fields),), Schema.of({"x": float, "y": float}))
    result = chain.process({"x": Column(FLOAT64, x), "y": Column(FLOAT64, y)}, len(x), NOW_US)
    for name in fields:
        function = reference.FUNCTIONS[name.removesuffix("_3")]
        others = {"pow": (y.tolist(),), "atan2": (y.tolist(),), "round_3": ([3] * len(x),)}.get(name, ())
        wanted = np.array([function(*each) for each in zip(x.tolist(), *others, strict=True)])
        got = result.columns[name].values
        differ = (got.view(np.int64) != wanted.view(np.int64)) & ~(np.isnan(got) & np.isnan(wanted))
        assert not differ.any(), (name, x[differ][:3], got[differ][:3], wanted[differ][:3])


PARTS = ("year", "month", "day", "hour", "minute", "second", "millisecond", "weekday", "day_of_year", "epoch_s", "epoch_ms", "epoch_us")


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(10**17), 10**17)), min_size=1, max_size=50))
def test_parts_of_instants_over_the_whole_range(instants: list[int]) -> None:
    schema = Schema.of({"t": "timestamp[us]"})
    rows = [{"t": t} for t in instants]
    with interpreted():
        chain = make_chain((mapped(**{name: getattr(col("t"), name)() for name in PARTS}),), schema)
        result = chain.process(columns_of(rows, schema), len(rows), NOW_US)
    got = rows_of(result.columns, chain.schema)
    assert got == [{name: reference.FUNCTIONS[name](t) for name in PARTS} for t in instants]


def test_every_day_of_four_hundred_years() -> None:
    days = np.arange(-150_000, 150_000, dtype=np.int64)
    chain = compile_chain((mapped(y=col("t").year(), m=col("t").month(), d=col("t").day()),), Schema.of({"t": "timestamp[us]"}))
    columns = {"t": Column(Schema.of({"t": "timestamp[us]"})["t"].type, days * 86_400_000_000)}
    result = chain.process(columns, len(days), NOW_US).columns
    got = [f"{y:04}-{m:02}-{d:02}" for y, m, d in zip(*(result[name].values.tolist() for name in "ymd"), strict=True)]
    assert got == np.datetime_as_string(days.view("datetime64[D]")).tolist()


#: Of (bool, int32, int64, float64, timestamp, string, binary), each of which may be NULL.
FROZEN = {
    (None,) * 7: -1707721392172869756,
    (True, -1, 2**62, -0.0, 5, "", b"\xff"): 8002703331234441354,
    (False, 1, -1, float("nan"), -1, "日本語", b"x" * 40): -9084072847446292556,
}


def test_the_hash_is_frozen() -> None:
    types = ("bool?", "int32?", "int64?", "float64?", "timestamp[us]?", "string?", "binary?")
    schema = Schema.of({f"c{k}": type_ for k, type_ in enumerate(types)})
    whole = hash_(*map(col, schema.names))
    for values, wanted in FROZEN.items():
        rows, _ = run((mapped(x=whole),), schema, dict(zip(schema.names, values, strict=True)))
        assert rows == [{"x": wanted}]


def test_the_hash_does_not_know_whether_a_column_may_be_null() -> None:
    names = ("a", "b")
    for types, values in ((("int64", "int64"), (7, 8)), (("string", "bool"), ("x", True)), (("float64", "timestamp[us]"), (-0.0, 3))):
        row = dict(zip(names, values, strict=True))
        schemas = [Schema.of({n: f"{t}{mark}" for n, t in zip(names, types, strict=True)}) for mark in ("", "?")]
        one_, other = (run((mapped(x=hash_(col("a"), col("b"))),), schema, row)[0] for schema in schemas)
        assert one_ == other


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text", "wanted"),
    [
        (col("s").trim(), " \t\v\f\r\n a \n", "a"),
        (col("s").trim(), "\u00a0a\u2003", "\u00a0a\u2003"),  # blanks of ASCII alone
        (col("s").ltrim(), "  a  ", "a  "),
        (col("s").rtrim(), "  a  ", "  a"),
        (col("s").contains("\0"), "a\0b", True),
        (col("s").contains(col("s")), "日本", True),
        (col("s").ends_with("本"), "日本", True),
        (col("s").starts_with("日本語"), "日本", False),
        (col("s").extract("(?i)(B)+", 0), "abBc", "bB"),
        (col("s").extract("^(a|ab)(c|bcd)", 2), "abcd", "bcd"),
        (col("s").extract("(x*)"), "abc", ""),
        (col("s").extract("(.)\\z"), "ab\n", None),
        (col("s").split("--"), "a---b", ["a", "-b"]),
        (col("s").split(",").join(","), "a,,b,", "a,,b,"),
        (col("s").split(",").element(col("n")), "a,b", None),
        (col("s").replace(".", "\\1"), "a.b", "a\\1b"),
        (concat(col("s"), col("i").cast(str)).length(), "ab", 3),
    ],
)
def test_texts(expression: Expr, text: str, wanted: Any) -> None:
    rows, result = interpret(expression, {**ROW, "s": text})
    assert rows == [{"x": wanted}] and not result.failures


def test_functions_of_slices_and_blocks_of_text() -> None:
    data = np.frombuffer(b"-abc,d--x" + b"\0" * 16, np.uint8)
    schema = Schema.of({"s": "string?"})
    text = Column(schema["s"].type, np.array([5, 3, 1], np.int32), np.array([1, 0, 1], np.uint8), data, np.array([1, 99, 8]))
    chain = compile_chain(
        (mapped(a=col("s").split(","), b=col("s").upper(), c=col("s").contains("d"), d=hash_(col("s")) == hash_("x")),), schema
    )
    result = chain.process({"s": text}, 3, NOW_US)
    assert rows_of(result.columns, chain.schema) == [
        {"a": ["abc", "d"], "b": "ABC,D", "c": True, "d": False},
        {"a": None, "b": None, "c": None, "d": False},
        {"a": ["x"], "b": "X", "c": False, "d": True},
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (format_time(col("m"), "%y"), "argument 2: expected a format of %Y, %m, %d, %H, %M, %S, %f, %j and %%, got '%y'"),
        (format_time(col("m"), "100%"), "expected a format of %Y"),
        (format_time(col("m"), "x" * 257), "expected a format of at most 256 bytes"),
        (Call("format_time", (col("m"), lit(5))), "expected a format such as '%Y-%m-%d'|argument 2: expected string, got int64"),
        (parse_time(col("s"), "%H:%H"), "expected a format in which no directive stands twice, got '%H:%H'"),
        (parse_time(col("s"), "%Y%j%m"), "expected a format with %j or with %m and %d, not both"),
    ],
)
def test_formats_of_instants_are_checked_when_a_query_is_built(expression: Expr, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        infer(expression, Schema.of({"m": "timestamp", "s": "string"}))
