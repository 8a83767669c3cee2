"""Arithmetic, comparisons and functions of numbers: int64, and IEEE's float64, which Spark's operators are not at their edges.

Operators of integers are NULL where the row fails. Columns are all int64 or all float64. Spark computes a Column as often as it is written
down, so each is written as few times as it can be.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, functions
from pyspark.sql.functions import call_function, coalesce, lit, try_add, try_divide, try_mod, try_multiply, try_subtract, when

from cep.model.schema import DataType

ColumnFunction = Callable[..., Column]


def converted(value: Column, source: DataType, target: DataType) -> Column:
    """A number of a narrower type as one of `target`; values that are no numbers as they are."""
    if source == target or not (source.is_number and target.is_number):
        return value
    return value.cast("double" if target.name == "float64" else "long")


# --- integers ----------------------------------------------------------------------------------------------------------


def whole_quotient(a: Column, b: Column | int) -> Column:
    """Toward zero; NULL where `b` is 0 or -1, where Spark's raises or overflows."""
    divisor = when((b != 0) & (b != -1), b) if isinstance(b, Column) else lit(b)
    return call_function("div", a, divisor)


def _integer_quotient(a: Column, b: Column) -> Column:
    return when(b == -1, negative_integer(a)).otherwise(whole_quotient(a, b))


def negative_integer(a: Column) -> Column:
    return try_subtract(lit(0).cast("long"), a)


def _integer_sign(a: Column) -> Column:
    return functions.signum(a).cast("long")


def _unchanged(a: Column, *_: object) -> Column:
    return a


INTEGER_OPERATORS: dict[str, ColumnFunction] = {
    "+": try_add,
    "-": try_subtract,
    "*": try_multiply,
    "//": _integer_quotient,
    "%": try_mod,
}
INTEGER_FUNCTIONS: dict[str, ColumnFunction] = {
    "abs": lambda a: when(a < 0, negative_integer(a)).otherwise(a),
    "sign": _integer_sign,
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), _unchanged),
}

# --- floats ------------------------------------------------------------------------------------------------------------


def _quotient(a: Column, b: Column) -> Column:
    """Spark has none by zero. The power tells zeros apart, and NaN is 0 times an infinity."""
    return when(b == 0.0, a * functions.pow(b, -1.0)).otherwise(try_divide(a, b))


def _remainder(a: Column, b: Column) -> Column:
    return try_mod(a, when(b == 0.0, math.nan).otherwise(b))


def _truncated(a: Column) -> Column:
    """What is no int64 has no fraction. The sign is taken apart, for that of zeros."""
    return functions.signum(a) * functions.abs(coalesce(a.try_cast("long").cast("double"), a))


def _floor(a: Column) -> Column:
    nearest = functions.rint(a)
    return nearest - (nearest > a).cast("double")


def _rounded(a: Column, scale: float) -> Column:
    return when(functions.abs(a) < 2.0**52, functions.rint(a * scale) / scale).otherwise(a)


def _logarithm(function: Callable[[Column], Column]) -> ColumnFunction:
    """Spark's is NULL where there is none."""
    return lambda a: coalesce(function(a), when(a == 0.0, -math.inf).when(a < 0.0, math.nan))


def _power(a: Column, b: Column) -> Column:
    """C's: Java has NaN where the base is 1, or -1 and the exponent infinite."""
    one = (a == 1.0) | ((a == -1.0) & (functions.abs(b) == math.inf))
    return when(one & b.isNotNull(), 1.0).otherwise(functions.pow(a, b))


def _angle(y: Column, x: Column) -> Column:
    """Spark's takes -0.0 for 0.0. The powers tell zeros apart."""
    behind = (x < 0.0) | (functions.pow(x, -1.0) == -math.inf)
    turned = when((y == 0.0) & behind, functions.signum(functions.pow(y, -1.0)) * math.pi)
    return turned.when((y == 0.0) & (x < math.nan), y).otherwise(functions.atan2(y, x))


FLOAT_OPERATORS: dict[str, ColumnFunction] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "//": lambda a, b: _truncated(_quotient(a, b)),
    "%": _remainder,
}
FLOAT_FUNCTIONS: dict[str, ColumnFunction] = {
    "abs": functions.abs,
    "sign": functions.signum,
    "floor": _floor,
    "ceil": lambda a: functions.negative(_floor(functions.negative(a))),
    "trunc": _truncated,
    "round": _rounded,
    "is_nan": lambda a: a == math.nan,
    "sqrt": functions.sqrt,
    "exp": functions.exp,
    "ln": _logarithm(functions.ln),
    "log10": _logarithm(functions.log10),
    "log2": _logarithm(functions.log2),
    **{name: getattr(functions, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    "atan2": _angle,
    "pow": _power,
}

# --- both --------------------------------------------------------------------------------------------------------------


def negative(a: Column, type_: DataType) -> Column:
    return functions.negative(a) if type_.name == "float64" else negative_integer(a)


def extreme(name: str, values: Sequence[Column]) -> Column:
    """`greatest` or `least`; Spark's pass over NULL."""
    if len(values) == 1:
        return values[0]
    present = reduce(lambda a, b: a & b, [value.isNotNull() for value in values])
    return when(present, getattr(functions, name)(*values))


#: NaN equals NaN and is greatest in Spark too, and zeros are equal.
COMPARISONS: dict[str, ColumnFunction] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
