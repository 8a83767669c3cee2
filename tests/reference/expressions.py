"""The value of an expression for one row: three-valued logic and the arithmetic of rule 5.7 and docs/arithmetic.md.

A part that fails fails the row, unless it is not needed: `and`, `or`, `coalesce` and `when` go from left to right and stop
where the outcome is known; or unless it is tried. All other operators need all their parts, also beside a NULL. Casts of floats
and timestamps to text are not here. Functions of values are in `tests.reference.functions`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cep.model.expr import COMPARISON, Binary, Call, Cast, ColumnRef, Expr, Literal, Udf, Unary
from cep.model.schema import UNIT_US, DataType, Schema
from tests.reference.functions import FUNCTIONS, hashed
from tests.reference.rows import Failed as Failed  # for the other modules
from tests.reference.types import common_type, instants, type_of
from tests.reference.users import called
from tests.reference.values import INT32_MAX, INT32_MIN, NAN, fits_int64, is_nan

OVERFLOW = "overflow"
DIVISION_BY_ZERO = "division by zero"
BAD_CAST = "cast"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def evaluate(expression: Expr, schema: Schema, values: Mapping[str, Any], now_us: int = 0) -> Any:
    """The value for the row `values` (by column), None where it is NULL. Raises Failed."""

    def value(part: Expr) -> Any:
        return evaluate(part, schema, values, now_us)

    match expression:
        case ColumnRef(name):
            return values[name]
        case Literal(constant, type_):
            return literal(constant, type_)
        case Binary("and" | "or" as op, left, right):
            return logic(op == "or", value(left), lambda: value(right))
        case Binary(op, left, right):
            left, right = instants((left, right), schema) if op in COMPARISON else (left, right)
            return binary(op, value(left), value(right), type_of(left, schema), type_of(right, schema))
        case Unary(op, arg):
            return unary(op, value(arg))
        case Cast(arg, to, try_):
            return (cast_or_null if try_ else cast)(value(arg), type_of(arg, schema), to)
        case Udf(args=args):
            return called(expression, [value(part) for part in args])
        case Call("now", ()):
            return now_us
        case Call("abs", (arg,)):
            return absolute(value(arg))
        case Call("coalesce", args):
            present = (part for part in map(value, instants(args, schema)) if part is not None)
            return convert(next(present, None), type_of(expression, schema))
        case Call("when", args):
            chosen = branch(branches(args, schema), value)
            return None if chosen is None else convert(value(chosen), type_of(expression, schema))
        case Call("try", (arg,)):
            return try_or_null(lambda: value(arg))
        case Call("nullif", args):
            left, right = instants(args, schema)
            return None if value(Binary("=", left, right)) else value(left)
        case Call("greatest" | "least" as name, args):
            found = [convert(value(part), type_of(expression, schema)) for part in instants(args, schema)]
            return None if None in found else extreme(found, name == "greatest")
        case Call("hash", args):
            return hashed([value(part) for part in args], [type_of(part, schema) for part in args])
        case Call(name, args):
            given = [value(part) for part in args]
            return None if None in given else function(name, given)
    raise TypeError(f"not an expression: {expression!r}")


def branches(args: Sequence[Expr], schema: Schema) -> list[tuple[Expr | None, Expr]]:
    """(condition, value) by turns; without a condition it is otherwise."""
    paired = len(args) // 2 * 2
    values = instants([*args[1:paired:2], *args[paired:]], schema)
    return list(zip([*args[0:paired:2], *(None for _ in args[paired:])], values, strict=True))


def branch(parts: Sequence[tuple[Expr | None, Expr]], value: Callable[[Expr], Any]) -> Expr | None:
    for condition, chosen in parts:
        if condition is None or value(condition) is True:
            return chosen
    return None


def try_or_null(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Failed:
        return None


def extreme(values: Sequence[Any], greatest: bool) -> Any:
    """The first of those that are equal."""
    found = values[0]
    for other in values[1:]:
        if less(found, other) if greatest else less(other, found):
            found = other
    return found


def function(name: str, args: Sequence[Any]) -> Any:
    result = FUNCTIONS[name](*args)
    if name == "parse_time" and result is None:
        raise Failed(BAD_CAST)
    return checked(result) if name == "truncate" else result


def literal(value: Any, type_: DataType) -> Any:
    """An instant is an integer of its type's unit, or ISO 8601 text, UTC unless it says otherwise; inside it is µs."""
    if type_.name != "timestamp" or value is None:
        return float(value) if type_.name == "float64" and value is not None else value
    if isinstance(value, int):
        return value // 1000 if type_.unit == "ns" else value * UNIT_US[type_.unit]
    instant = datetime.fromisoformat(value)
    return ((instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def convert(value: Any, to: DataType) -> Any:
    """A number as the common type of the operands it meets; other values as they are."""
    return float(value) if to.name == "float64" and value is not None else value


def checked(value: int) -> int:
    if not fits_int64(value):
        raise Failed(OVERFLOW)
    return value


def unary(op: str, value: Any) -> Any:
    if op == "is_null":
        return value is None
    if value is None:
        return None
    if op == "not":
        return not value
    return -value if isinstance(value, float) else checked(-value)


def absolute(value: Any) -> Any:
    if value is None or isinstance(value, float):
        return None if value is None else abs(value)
    return checked(abs(value))


def logic(decisive: bool, left: bool | None, right: Callable[[], bool | None]) -> bool | None:
    """`and` is decided by a false side, `or` by a true one; else a NULL side leaves it unknown."""
    if left is decisive:
        return decisive
    other = right()
    if other is decisive:
        return decisive
    return None if left is None or other is None else not decisive


def binary(op: str, left: Any, right: Any, left_type: DataType, right_type: DataType) -> Any:
    if left is None or right is None:
        return None
    if op in COMPARISON:
        common = common_type((left_type, right_type))
        return _COMPARE[op](convert(left, common), convert(right, common))
    if op == "/":
        return float_divide(float(left), float(right))
    if isinstance(left, float) or isinstance(right, float):
        return _FLOAT[op](float(left), float(right))
    return checked(_INTEGER[op](left, right))


def equal(left: Any, right: Any) -> bool:
    """NaN equals NaN; -0.0 equals 0.0."""
    return left == right or (is_nan(left) and is_nan(right))


def less(left: Any, right: Any) -> bool:
    """NaN is greater than every other value."""
    return left < right or (is_nan(right) and not is_nan(left))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": less,
    "<=": lambda left, right: not less(right, left),
    ">": lambda left, right: less(right, left),
    ">=": lambda left, right: not less(left, right),
}


def integer_quotient(left: int, right: int) -> int:
    """Truncates toward zero."""
    if right == 0:
        raise Failed(DIVISION_BY_ZERO)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def integer_remainder(left: int, right: int) -> int:
    """Has the sign of the dividend: left = right * (left // right) + left % right."""
    return left - right * integer_quotient(left, right)


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": integer_quotient,
    "%": integer_remainder,
}


def float_divide(left: float, right: float) -> float:
    """IEEE's: x / 0 is an infinity with the sign of both, 0 / 0 is NaN."""
    if right != 0:
        return left / right
    if left == 0 or is_nan(left):
        return NAN
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def float_quotient(left: float, right: float) -> float:
    quotient = float_divide(left, right)
    return float(math.copysign(math.trunc(quotient), quotient)) if math.isfinite(quotient) else quotient


def float_remainder(left: float, right: float) -> float:
    """C's fmod."""
    if math.isinf(left) or right == 0:
        return NAN
    return math.fmod(left, right)


_FLOAT: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": float_quotient,
    "%": float_remainder,
}


def cast_or_null(value: Any, from_: DataType, to: DataType) -> Any:
    try:
        return cast(value, from_, to)
    except Failed:
        return None


def integer_text(value: Any) -> str:
    """A bool or integer."""
    return str(value).lower()


def cast(value: Any, from_: DataType, to: DataType) -> Any:
    """Raises Failed where the value does not fit `to`."""
    if value is None or from_.name == to.name:
        return value
    try:
        if from_.name in ("string", "binary"):
            return _read(value, to)
        if "timestamp" in (from_.name, to.name):
            return _instant_to_integer(value, from_.unit, to) if from_.name == "timestamp" else _to_instant(value, to)
        return integer_text(value) if to.name == "string" else _number(value, to)
    except ValueError:
        raise Failed(BAD_CAST) from None


def _number(value: Any, to: DataType) -> Any:
    """Of a bool or number; a float is rounded half to even."""
    if to.name == "bool":
        return value != 0
    if to.name == "float64":
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Failed(BAD_CAST)
    return _in_range(round(value), to)


def _in_range(whole: int, to: DataType) -> int:
    if not (INT32_MIN <= whole <= INT32_MAX if to.name == "int32" else fits_int64(whole)):
        raise Failed(BAD_CAST)
    return whole


def _instant_to_integer(value: int, unit: str, to: DataType) -> int:
    """The integer that means the instant in its own unit, rounded down."""
    return _in_range(value * 1000 if unit == "ns" else value // UNIT_US[unit], to)


def _to_instant(value: int, to: DataType) -> int:
    if to.unit == "ns" and value % 1000:
        raise Failed(BAD_CAST)
    return _in_range(literal(value, to), to)


_BOOL_TEXT = {"true": True, "1": True, "false": False, "0": False}
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+")
_FLOAT_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


def _read(value: str | bytes, to: DataType) -> Any:
    """What a text says: no blanks, no underscores. Raises ValueError or Failed."""
    if isinstance(value, bytes):
        return value.decode()
    if to.name == "binary":
        return value.encode()
    if to.name == "bool" and value.lower() in _BOOL_TEXT:
        return _BOOL_TEXT[value.lower()]
    if to.name == "float64" and _FLOAT_TEXT.fullmatch(value):
        return float(value)
    if to.name in ("int32", "int64") and _INTEGER_TEXT.fullmatch(value):
        return _in_range(int(value), to)
    if to.name == "timestamp" and not _INTEGER_TEXT.fullmatch(value):
        return literal(value, to)
    if to.name == "timestamp" and to.unit:
        return _to_instant(int(value), to)
    raise Failed(BAD_CAST)
