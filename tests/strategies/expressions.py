"""Expressions of every kind over the columns of a schema."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.model.expr import Call, Column, Expr, Literal, coalesce, lit
from cep.model.schema import BINARY, BOOL, FLOAT64, INT32, INT64, STRING, DataType, Schema
from tests.strategies.values import TIMESTAMP_MS, TIMESTAMP_US, values_of


def kind_of_type(type_: DataType) -> str:
    """Of an expression: integer (int32 or int64), float64, bool, timestamp, string, binary."""
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

#: kind -> (what makes an expression of it, kinds of its arguments; "number" is either kind of number).
GRAMMAR: dict[str, tuple[tuple[Callable[..., Expr], tuple[str, ...]], ...]] = {
    "integer": (
        *((make, ("integer", "integer")) for make in _ARITHMETIC.values()),
        (operator.neg, ("integer",)),
        (lambda e: Call("abs", (e,)), ("integer",)),
        (coalesce, ("integer", "integer")),
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
        (coalesce, ("float64", "number")),
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
        (lambda e: e.cast(BOOL), ("number",)),
        *((Expr.is_null, (kind,)) for kind in ("number", "string", "bool")),
    ),
    "timestamp": (
        (operator.add, ("timestamp", "integer")),
        (operator.sub, ("timestamp", "integer")),
        (operator.add, ("integer", "timestamp")),
        (coalesce, ("timestamp", "timestamp")),
        (lambda e: e.try_cast(TIMESTAMP_MS), ("integer",)),
    ),
    "string": ((coalesce, ("string", "string")), (lambda e: e.try_cast(STRING), ("binary",))),
    "binary": ((coalesce, ("binary", "binary")), (lambda e: e.cast(BINARY), ("string",))),
}


@st.composite
def expressions(draw: DrawFn, schema: Schema, kind: str, depth: int = 2) -> Expr:
    """An expression of `kind` over the columns of `schema`, at most `depth` operators deep."""
    kind = draw(st.sampled_from(("integer", "float64"))) if kind == "number" else kind
    # A production is drawn first and its parts then: strategies of whole expressions would be trees of thousands.
    make, kinds = draw(st.sampled_from((LEAF, *GRAMMAR[kind]) if depth else (LEAF,)))
    if not kinds:
        return draw(_leaves(schema, kind))
    made: Expr = make(*(draw(expressions(schema, part, depth - 1)) for part in kinds))
    return made


LEAF: tuple[Callable[..., Expr], tuple[str, ...]] = (Column, ())


@st.composite
def _leaves(draw: DrawFn, schema: Schema, kind: str) -> Expr:
    """Mostly a column if there is one of the kind, else a literal, which may be NULL."""
    named = [field.name for field in schema.fields if kind_of_type(field.type) == kind]
    if named and draw(st.integers(0, 3)) < 3:
        return Column(draw(st.sampled_from(named)))
    type_ = {"integer": INT64, "timestamp": TIMESTAMP_US}.get(kind) or DataType(kind)
    return Literal(None if draw(st.integers(0, 9)) == 9 else draw(values_of(type_)), type_)


def conditions(schema: Schema) -> SearchStrategy[Expr]:
    """For filters: now and then one that keeps everything, for what is dropped tests nothing below it."""
    return st.one_of(st.just(lit(True)), expressions(schema, "bool", 1), expressions(schema, "bool", 2))
