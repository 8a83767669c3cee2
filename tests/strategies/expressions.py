"""Expressions of every kind over the columns of a schema."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.model.expr import Call, ColumnRef, Expr, Literal, Udf, coalesce, lit
from cep.model.expr_functions import atan2, concat, format_time, greatest, hash_, least, parse_time, try_, when
from cep.model.schema import BINARY, BOOL, FLOAT64, INT32, INT64, STRING, DataType, Schema, list_of
from tests.strategies.values import TIMESTAMP_MS, TIMESTAMP_US, values_of


def kind_of_type(type_: DataType) -> str:
    """Of an expression: integer (int32 or int64), float64, bool, timestamp, string, binary, list (of strings)."""
    if type_.is_list and type_ != list_of(STRING):
        return "other"
    return "integer" if type_.is_integer else type_.name


_ARITHMETIC: dict[str, Callable[[Any, Any], Expr]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARISON: tuple[Callable[[Any, Any], Expr], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)

#: Regular expressions that RE2 and Python read alike (docs/arithmetic.md says which they do not).
#: What is written so may be read so: whole instants, times of the day, and days of a year of their own.
_FORMATS = ("%Y-%m-%dT%H:%M:%S.%f", "%H:%M", "%j", "%S%f")
_REGEXES = ("a", "(b|ab)", "x+(y)?", "[^a]", "^(a)|b", "(x*)")


def _of_each(
    make: Callable[..., Expr], kind: str, *methods: Callable[..., Expr]
) -> tuple[tuple[Callable[..., Expr], tuple[str, ...]], ...]:
    """`make` and others of one argument of `kind`."""
    return tuple((each, (kind,)) for each in (make, *methods))


def _any_kind(kind: str) -> tuple[tuple[Callable[..., Expr], tuple[str, ...]], ...]:
    """What there is of every kind."""
    return (
        (lambda c, a, b: when(c, a).otherwise(b), ("bool", kind, kind)),
        (lambda c, a, d, b: when(c, a).when(d, b), ("bool", kind, "bool", kind)),
        (try_, (kind,)),
        (coalesce, (kind, kind)),
    )


#: kind -> (what makes an expression of it, kinds of its arguments; "number" is either kind of number).
GRAMMAR: dict[str, tuple[tuple[Callable[..., Expr], tuple[str, ...]], ...]] = {
    "integer": (
        *((make, ("integer", "integer")) for make in _ARITHMETIC.values()),
        (operator.neg, ("integer",)),
        (lambda e: Call("abs", (e,)), ("integer",)),
        *_any_kind("integer"),
        (Expr.nullif, ("integer", "integer")),
        (Expr.sign, ("integer",)),
        (lambda e: e.round(2), ("integer",)),
        (greatest, ("integer", "integer", "integer")),
        (least, ("integer", "integer")),
        *_of_each(Expr.length, "string", Expr.byte_length),
        *_of_each(Expr.year, "timestamp", Expr.month, Expr.day, Expr.weekday, Expr.day_of_year),
        *_of_each(Expr.hour, "timestamp", Expr.minute, Expr.second, Expr.millisecond, Expr.epoch_s, Expr.epoch_ms, Expr.epoch_us),
        (Expr.list_length, ("list",)),
        *((lambda e, part=part: e.index_of(part), ("string",)) for part in ("a", "é", "")),
        *((hash_, kinds) for kinds in (("string",), ("integer", "bool"), ("float64", "timestamp"), ("string", "integer", "binary"))),
        (lambda e: e.cast(INT64), ("float64",)),
        (lambda e: e.try_cast(INT64), ("float64",)),
        (lambda e: e.cast(INT32), ("number",)),
        (lambda e: e.try_cast(INT32), ("number",)),
        (operator.sub, ("timestamp", "timestamp")),
        (lambda e: e.cast(INT64), ("bool",)),
        (lambda e: e.cast(INT64), ("timestamp",)),
        (lambda e: e.try_cast(INT64), ("string",)),
    ),
    "float64": (
        *((make, ("float64", "number")) for make in _ARITHMETIC.values()),
        (operator.truediv, ("number", "number")),
        (operator.neg, ("float64",)),
        (lambda e: Call("abs", (e,)), ("float64",)),
        *_any_kind("float64"),
        (coalesce, ("float64", "number")),
        *_of_each(Expr.floor, "float64", Expr.ceil, Expr.trunc, Expr.round, lambda e: e.round(2), Expr.sign),
        *_of_each(Expr.sqrt, "number", Expr.exp, Expr.ln, Expr.log10, Expr.log2),
        *_of_each(Expr.sin, "number", Expr.cos, Expr.tan, Expr.asin, Expr.acos, Expr.atan),
        *((make, ("number", "number")) for make in (Expr.pow, atan2)),
        *((make, ("float64", "number")) for make in (greatest, least)),
        (lambda e: e.cast(FLOAT64), ("integer",)),
    ),
    "bool": (
        *((make, ("number", "number")) for make in _COMPARISON),
        *((make, ("string", "string")) for make in _COMPARISON),
        *((make, ("timestamp", "timestamp")) for make in _COMPARISON),
        *((make, (kind, kind)) for make in _COMPARISON[:2] for kind in ("bool", "binary")),
        (operator.and_, ("bool", "bool")),
        (operator.or_, ("bool", "bool")),
        (operator.invert, ("bool",)),
        *_any_kind("bool"),
        (Expr.is_nan, ("float64",)),
        (Expr.between, ("number", "number", "number")),
        (lambda e: e.is_in([1, 2.5, 0]), ("number",)),
        (lambda e: e.is_in(range(-9, 9)), ("integer",)),
        (lambda e: e.is_in([k / 2 for k in range(-9, 9)]), ("number",)),
        (lambda e: e.is_in([a + b for a in ("", "a", "x", "é") for b in ("", "a", "ab", "b", "x")]), ("string",)),
        *((make, (kind, kind)) for make in (Expr.contains, Expr.starts_with, Expr.ends_with) for kind in ("string", "binary")),
        *((lambda e, regex=regex: e.matches(regex), ("string",)) for regex in _REGEXES),
        (lambda e: e.cast(BOOL), ("number",)),
        *((Expr.is_null, (kind,)) for kind in ("number", "string", "bool", "list")),
    ),
    "timestamp": (
        (operator.add, ("timestamp", "integer")),
        (operator.sub, ("timestamp", "integer")),
        (operator.add, ("integer", "timestamp")),
        *_any_kind("timestamp"),
        *((make, ("timestamp", "timestamp")) for make in (greatest, least, Expr.nullif)),
        *((lambda e, size=size: e.truncate(size), ("timestamp",)) for size in ("7us", "1h", "1d")),
        (lambda e: e.try_cast(TIMESTAMP_MS), ("integer",)),
        *((lambda e, form=form: parse_time(format_time(e, form), form), ("timestamp",)) for form in _FORMATS),
        (lambda e: parse_time(e, "%S"), ("string",)),
    ),
    "string": (
        *_any_kind("string"),
        (Expr.nullif, ("string", "string")),
        *((lambda e: e.try_cast(STRING), (kind,)) for kind in ("binary", "integer")),
        *((lambda e: e.cast(STRING), (kind,)) for kind in ("binary", "integer")),
        (lambda e: concat(lit('{"a": [1, "'), e, lit('"], "b": 1}')).json_get("$.a[1]"), ("string",)),
        (lambda e: e.json_get("$"), ("string",)),
        *_of_each(Expr.lower, "string", Expr.upper, Expr.trim, Expr.ltrim, Expr.rtrim, Expr.reverse),
        *_of_each(lambda e: e.substring(1), "string", lambda e: e.substring(0, 2), lambda e: e.substring(3, 0)),
        *_of_each(lambda e: e.pad_left(3, "é"), "string", lambda e: e.pad_right(17)),
        *_of_each(lambda e: e.replace("x", "ab"), "string", lambda e: e.replace("aa", "")),
        *((lambda e, regex=regex: e.extract(regex, 0), ("string",)) for regex in _REGEXES),
        *((lambda e, regex=regex: e.extract(regex), ("string",)) for regex in _REGEXES if "(" in regex),
        (concat, ("string", "string", "string")),
        (Expr.element, ("list", "integer")),
        (lambda e: e.join("-"), ("list",)),
        *((lambda e, form=form: format_time(e, form), ("timestamp",)) for form in (*_FORMATS, "%%é%j")),
    ),
    "binary": (
        *_any_kind("binary"),
        (Expr.nullif, ("binary", "binary")),
        (concat, ("binary", "binary")),
        (lambda e: e.cast(BINARY), ("string",)),
    ),
    "list": (
        *_any_kind("list"),
        *((lambda e, by=by: e.split(by), ("string",)) for by in ("a", "\0", "xx")),
        (lambda e: e.split_regex("[ab]+|é"), ("string",)),
    ),
}


def _udf(name: str, type_: DataType, nullable: bool = False) -> Callable[[Expr], Expr]:
    return lambda arg: Udf(f"tests.support.user_functions:{name}", (arg,), type_, nullable)


#: The same of users' functions, which no other engine has.
USERS: dict[str, tuple[tuple[Callable[..., Expr], tuple[str, ...]], ...]] = {
    "integer": ((_udf("halved", INT64), ("integer",)),),
    "float64": ((_udf("root", FLOAT64, True), ("float64",)),),
    "string": ((_udf("first_character", STRING), ("string",)),),
}


@st.composite
def expressions(draw: DrawFn, schema: Schema, kind: str, depth: int = 2, users: bool = False) -> Expr:
    """An expression of `kind` over the columns of `schema`, at most `depth` operators deep; `users`: with users' functions too."""
    kind = draw(st.sampled_from(("integer", "float64"))) if kind == "number" else kind
    # A production is drawn first and its parts then: strategies of whole expressions would be trees of thousands.
    make, kinds = draw(st.sampled_from((LEAF, *GRAMMAR[kind], *(3 * USERS.get(kind, ()) if users else ())) if depth else (LEAF,)))
    if not kinds:
        return draw(_leaves(schema, kind))
    made: Expr = make(*(draw(expressions(schema, part, depth - 1, users)) for part in kinds))
    return made


LEAF: tuple[Callable[..., Expr], tuple[str, ...]] = (ColumnRef, ())


@st.composite
def _leaves(draw: DrawFn, schema: Schema, kind: str) -> Expr:
    """Mostly a column if there is one of the kind, else a literal, which may be NULL."""
    named = [field.name for field in schema.fields if kind_of_type(field.type) == kind]
    if named and draw(st.integers(0, 3)) < 3:
        return ColumnRef(draw(st.sampled_from(named)))
    type_ = {"integer": INT64, "timestamp": TIMESTAMP_US, "list": list_of(STRING)}.get(kind) or DataType(kind)
    if kind == "list":  # no literal has elements
        return Literal(None, type_)
    return Literal(None if draw(st.integers(0, 9)) == 9 else draw(values_of(type_)), type_)


def conditions(schema: Schema) -> SearchStrategy[Expr]:
    """For filters: now and then one that keeps everything, for what is dropped tests nothing below it."""
    return st.one_of(st.just(lit(True)), expressions(schema, "bool", 1), expressions(schema, "bool", 2))
