"""Instants, int64 µs within an expression: parts of the calendar, the last multiple of a duration, and ISO 8601.

Computed from the integer, so neither the session's time zone nor the years that Spark can print matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from pyspark.sql import Column, functions
from pyspark.sql.functions import coalesce, lit, regexp_extract, try_multiply, try_subtract, when

from cep.model.schema import UNIT_US, DataType
from cep.model.times.iso_instants import FOUR_DIGIT_YEARS_US
from driver.spark.expressions.numbers import whole_quotient

_MILLISECOND, _SECOND, _MINUTE, _HOUR, _DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000

#: As `cep.kernels.literals` reads it. Groups: date, hour, minute, second, the fraction's first six digits; sign, hour, minute of the zone.
_ISO = (
    r"\A((?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6})0{0,3})?)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):?([0-5][0-9]))?)?\z"
)


def as_micros(column: Column, type_: DataType) -> Column:
    """A column as it is read: µs in place of Spark's timestamp; others as they are."""
    return functions.unix_micros(column) if type_.name == "timestamp" else column


def whole_units(us: Column, unit: int) -> Column:
    """How often `unit` µs fit, rounded down."""
    return whole_quotient(us, unit) - (us % unit < 0).cast("long")


def units_of(us: Column, type_: DataType) -> Column:
    """The integer that means the instant in the unit of `type_`; NULL where that is none."""
    if type_.unit == "ns":
        return try_multiply(us, lit(1000))
    return us if type_.unit == "us" else whole_units(us, UNIT_US[type_.unit])


def of_units(value: Column, type_: DataType) -> Column:
    """The instant that an integer of the unit of `type_` means; NULL where there is none."""
    if type_.unit == "ns":
        return when(value % 1000 == 0, whole_quotient(value, 1000))
    return value if type_.unit == "us" else try_multiply(value, lit(UNIT_US[type_.unit]))


def of_text(text: Column, type_: DataType) -> Column:
    """The instant that ISO 8601 says, or an integer where `type_` has a unit; NULL where there is none."""
    parts = [regexp_extract(text, _ISO, group) for group in range(9)]
    day = functions.unix_date(parts[1].try_cast("date")).cast("long")  # NULL where there is no such day
    sizes = zip(parts[2:5], (_HOUR, _MINUTE, _SECOND), strict=True)
    fraction = _number(functions.rpad(parts[5], 6, "0"))
    east = (_number(parts[7]) * _HOUR + _number(parts[8]) * _MINUTE) * when(parts[6] == "-", -1).otherwise(1)
    said = sum((_number(part) * size for part, size in sizes), day * _DAY + fraction) - east
    if not type_.unit:
        return said
    integer = when(functions.rlike(text, lit(r"\A[+-]?[0-9]+\z")), text.try_cast("long"))
    return coalesce(said, of_units(functions.nullif(integer, lit(-(2**63))), type_))  # the engine's instants reach as far on both sides


def _number(digits: Column) -> Column:
    """The number of a part; 0 where it is not there."""
    return coalesce(digits.try_cast("long"), lit(0))


def instant_text(us: Column, between: str = " ") -> Column:
    """NULL outside the years 1 to 9999; `between` stands between day and time."""
    clock = [functions.pmod(us, lit(size)) for size in (_DAY, _HOUR, _MINUTE, _SECOND)]
    parts = [whole_quotient(rest, size) for rest, size in zip(clock, (_HOUR, _MINUTE, _SECOND, 1), strict=True)]
    text = functions.concat(_date(us).cast("string"), functions.format_string(f"{between}%02d:%02d:%02d.%06dZ", *parts))
    return when(us.between(*FOUR_DIGIT_YEARS_US), text)


def _date(us: Column) -> Column:
    return functions.date_add(lit(date(1970, 1, 1)), whole_units(us, _DAY).cast("int"))


def _of_date(function: Callable[[Column], Column]) -> Callable[[Column], Column]:
    return lambda us: function(_date(us)).cast("long")


def _of_clock(size: int, within: int) -> Callable[[Column], Column]:
    return lambda us: whole_quotient(functions.pmod(us, lit(within)), size)


def _format_time(us: Column, text: str) -> Column:
    """Literals between the parts of the instant."""
    parts = {letter: functions.format_string(f"%0{digits}d", TIMES[name](us)) for letter, (name, digits) in _WRITTEN.items()}
    parts["f"] = functions.format_string("%06d", functions.pmod(us, lit(_SECOND)))
    pieces = re.findall("%.|[^%]+", text, re.DOTALL)
    written = (parts.get(piece[1], lit("%")) if piece.startswith("%") else lit(piece) for piece in pieces)
    return when(us.isNotNull(), functions.concat(lit(""), *written))


#: Directive -> the function that says it, and its digits.
_WRITTEN = {
    **{"Y": ("year", 4), "m": ("month", 2), "d": ("day", 2), "j": ("day_of_year", 3)},
    **{"H": ("hour", 2), "M": ("minute", 2), "S": ("second", 2)},
}
TIMES: dict[str, Callable[..., Column]] = {
    "format_time": _format_time,
    "truncate": lambda us, unit: try_subtract(us, functions.pmod(us, lit(unit))),
    "year": _of_date(functions.year),
    "month": _of_date(functions.month),
    "day": _of_date(functions.day),
    "weekday": _of_date(lambda day: functions.weekday(day) + 1),
    "day_of_year": _of_date(functions.dayofyear),
    "hour": _of_clock(_HOUR, _DAY),
    "minute": _of_clock(_MINUTE, _HOUR),
    "second": _of_clock(_SECOND, _MINUTE),
    "millisecond": _of_clock(_MILLISECOND, _SECOND),
    "epoch_s": lambda us: whole_units(us, _SECOND),
    "epoch_ms": lambda us: whole_units(us, _MILLISECOND),
    "epoch_us": lambda us: us,
}
