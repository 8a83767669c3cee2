"""Expressions: values, never code (DESIGN 5.3). They are typed by `cep.plan.validate` and compiled by `cep.compile`.

Python operators build them: `col("a") + 1 > col("b")`; `&`, `|`, `~` are and, or, not in SQL's three-valued logic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cep.errors import QueryError
from cep.model.references import split_reference
from cep.model.schema import BOOL, FLOAT64, INT64, STRING, DataType, parse_type

ARITHMETIC = ("+", "-", "*", "/", "//", "%")
COMPARISON = ("=", "!=", "<", "<=", ">", ">=")
BOOLEAN = ("and", "or")
UNARY = ("-", "not", "is_null")
#: name -> number of arguments (None: one or more). Clock functions read the clock of the instance, per batch.
FUNCTIONS: dict[str, int | None] = {"now": 0, "coalesce": None, "abs": 1}


class Expr:
    """Base of all expressions; it only carries the operators."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __add__(self, other: object) -> Expr:
        return Binary("+", self, as_expr(other))

    def __radd__(self, other: object) -> Expr:
        return Binary("+", as_expr(other), self)

    def __sub__(self, other: object) -> Expr:
        return Binary("-", self, as_expr(other))

    def __rsub__(self, other: object) -> Expr:
        return Binary("-", as_expr(other), self)

    def __mul__(self, other: object) -> Expr:
        return Binary("*", self, as_expr(other))

    def __rmul__(self, other: object) -> Expr:
        return Binary("*", as_expr(other), self)

    def __truediv__(self, other: object) -> Expr:
        return Binary("/", self, as_expr(other))

    def __rtruediv__(self, other: object) -> Expr:
        return Binary("/", as_expr(other), self)

    def __floordiv__(self, other: object) -> Expr:
        return Binary("//", self, as_expr(other))

    def __rfloordiv__(self, other: object) -> Expr:
        return Binary("//", as_expr(other), self)

    def __mod__(self, other: object) -> Expr:
        return Binary("%", self, as_expr(other))

    def __rmod__(self, other: object) -> Expr:
        return Binary("%", as_expr(other), self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Binary("=", self, as_expr(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Binary("!=", self, as_expr(other))

    def __lt__(self, other: object) -> Expr:
        return Binary("<", self, as_expr(other))

    def __le__(self, other: object) -> Expr:
        return Binary("<=", self, as_expr(other))

    def __gt__(self, other: object) -> Expr:
        return Binary(">", self, as_expr(other))

    def __ge__(self, other: object) -> Expr:
        return Binary(">=", self, as_expr(other))

    def __and__(self, other: object) -> Expr:
        return Binary("and", self, as_expr(other))

    def __or__(self, other: object) -> Expr:
        return Binary("or", self, as_expr(other))

    def __invert__(self) -> Expr:
        return Unary("not", self)

    def __neg__(self) -> Expr:
        return Unary("-", self)

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value of its own: use &, | and ~ instead of and, or and not")

    def is_null(self) -> Expr:
        return Unary("is_null", self)

    def cast(self, to: object) -> Expr:
        """Raises per row (the row goes to the dead letters) where the value does not fit; see `try_cast`."""
        return Cast(self, parse_type(to)[0], False)

    def try_cast(self, to: object) -> Expr:
        """NULL where the value does not fit."""
        return Cast(self, parse_type(to)[0], True)


# eq=False: == builds an expression. Two expressions are the same when `to_json` is.
@dataclass(frozen=True, slots=True, eq=False)
class Column(Expr):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant. `value` None is NULL of `type`."""

    value: Any
    type: DataType


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expr):
    op: str
    arg: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    arg: Expr
    type: DataType
    try_: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Udf(Expr):
    """A user's function "module:name" of the values of `args` in each row; where one of them is NULL it is not called: NULL."""

    function: str
    args: tuple[Expr, ...]
    type: DataType
    nullable: bool


def col(name: str) -> Expr:
    """The column `name` of the operator's input."""
    return Column(name)


def lit(value: object, type: object = None) -> Expr:
    """A constant; `type` is needed only for NULL and to choose int32 or a timestamp's unit."""
    if type is not None:
        return Literal(value, parse_type(type)[0])
    by_python = {bool: BOOL, int: INT64, float: FLOAT64, str: STRING}
    if value.__class__ not in by_python:
        raise QueryError(f"literal {value!r}: expected bool, int, float or str, or a type beside it: lit(None, 'int64')")
    return Literal(value, by_python[value.__class__])


def now() -> Expr:
    """The clock of the instance when the batch is processed (µs UTC). Fields that read a clock are outside equality."""
    return Call("now", ())


def coalesce(*args: object) -> Expr:
    """The first of `args` that is not NULL."""
    return Call("coalesce", tuple(map(as_expr, args)))


def as_expr(value: object) -> Expr:
    """Expressions as they are; Python constants as literals."""
    return value if isinstance(value, Expr) else lit(value)


def columns_of(expr: Expr) -> frozenset[str]:
    """Names of the columns `expr` reads."""
    match expr:
        case Column(name):
            return frozenset((name,))
        case Binary(_, left, right):
            return columns_of(left) | columns_of(right)
        case Unary(_, arg) | Cast(arg, _, _):
            return columns_of(arg)
        case Call(_, args) | Udf(_, args, _, _):
            return frozenset().union(*map(columns_of, args))
    return frozenset()


def to_json(expr: Expr) -> dict[str, Any]:
    match expr:
        case Column(name):
            return {"column": name}
        case Literal(value, type_):
            return {"literal": value.hex() if isinstance(value, bytes) else value, "type": str(type_)}
        case Binary(op, left, right):
            return {"op": op, "args": [to_json(left), to_json(right)]}
        case Unary(op, arg):
            return {"op": op, "args": [to_json(arg)]}
        case Cast(arg, type_, try_):
            return {"try_cast" if try_ else "cast": to_json(arg), "to": str(type_)}
        case Call(function, args):
            return {"call": function, "args": [to_json(arg) for arg in args]}
        case Udf(function, args, type_, nullable):
            return {"udf": function, "args": [to_json(arg) for arg in args], "returns": f"{type_}{'?' if nullable else ''}"}
    raise TypeError(f"not an expression: {expr!r}")


def from_json(document: Any, pointer: str = "") -> Expr:
    """Raises QueryError with a pointer to the part that is no expression."""
    if isinstance(document, (bool, int, float, str)):
        return lit(document)
    if not isinstance(document, dict):
        raise QueryError(f"expected an expression, got {document!r}", pointer)
    match document:
        case {"column": str(name)}:
            return Column(name)
        case {"literal": value, **rest}:
            return _literal_from_json(value, rest.get("type"), pointer)
        case {"op": str(op), "args": [arg]} if op in UNARY:
            return Unary(op, from_json(arg, f"{pointer}/args/0"))
        case {"op": str(op), "args": [left, right]} if op in ARITHMETIC + COMPARISON + BOOLEAN:
            return Binary(op, from_json(left, f"{pointer}/args/0"), from_json(right, f"{pointer}/args/1"))
        case {"cast": arg, "to": to} | {"try_cast": arg, "to": to}:
            key = "cast" if "cast" in document else "try_cast"
            return Cast(from_json(arg, f"{pointer}/{key}"), _type(to, f"{pointer}/to"), key == "try_cast")
        case {"call": str(function), "args": list(args)} if function in FUNCTIONS:
            wanted = FUNCTIONS[function]
            if len(args) != wanted if wanted is not None else not args:
                expected = "one or more" if wanted is None else wanted
                raise QueryError(f"{function} takes {expected} arguments, got {len(args)}", f"{pointer}/args")
            return Call(function, tuple(from_json(arg, f"{pointer}/args/{i}") for i, arg in enumerate(args)))
        case {"udf": str(function), "args": list(args), "returns": str(returns)}:
            split_reference(function, f"{pointer}/udf")
            given = tuple(from_json(arg, f"{pointer}/args/{i}") for i, arg in enumerate(args))
            return Udf(function, given, _type(returns, f"{pointer}/returns"), returns.endswith("?"))
    raise QueryError(
        "no expression: expected column, literal, op with args, cast, try_cast, udf with args and returns, or call of "
        f"{', '.join(FUNCTIONS)}; got {document!r}",
        pointer,
    )


def _type(text: object, pointer: str) -> DataType:
    try:
        return parse_type(text)[0]
    except QueryError as error:
        raise error.under(pointer) from None


def _literal_from_json(value: Any, type_: object, pointer: str) -> Expr:
    try:
        if type_ is None:
            return lit(value)
        parsed = parse_type(type_)[0]
        return Literal(bytes.fromhex(value) if parsed.name == "binary" and value is not None else value, parsed)
    except (QueryError, ValueError, TypeError) as error:
        raise QueryError(str(error), f"{pointer}/literal") from None
