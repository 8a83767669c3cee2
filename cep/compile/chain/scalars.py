"""What functions of expressions compute in a loop, one scalar function each: the cells of docs/arithmetic.md.

As in `cep.compile.chain.arithmetic` each is total, also for what stands at the place of a NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.compile.chain.arithmetic import float_equal, float_less, text_equal, text_less
from cep.kernels.jit import inlined
from cep.kernels.machine.libm import (
    libm_acos,
    libm_asin,
    libm_atan,
    libm_atan2,
    libm_binary_log,
    libm_cos,
    libm_decimal_log,
    libm_exp,
    libm_log,
    libm_pow,
    libm_sin,
    libm_tan,
)

__all__ = [  # what generated loops import
    "day",
    "day_of_year",
    "float_greatest",
    "float_least",
    "float_member",
    "float_sign",
    "hour",
    "integer_greatest",
    "integer_least",
    "integer_member",
    "integer_sign",
    "libm_acos",
    "libm_asin",
    "libm_atan",
    "libm_atan2",
    "libm_binary_log",
    "libm_cos",
    "libm_decimal_log",
    "libm_exp",
    "libm_log",
    "libm_pow",
    "libm_sin",
    "libm_tan",
    "millisecond",
    "minute",
    "month",
    "round_down",
    "round_to",
    "round_up",
    "round_zero",
    "second",
    "square_root",
    "text_begins",
    "text_contains",
    "text_ends",
    "text_member",
    "weekday",
    "whole_multiple",
    "year",
]

_WHOLE = 2.0**52  # from here on every float64 is an integer
_DAY_US, _HOUR_US, _MINUTE_US, _SECOND_US = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000

# Days of the Gregorian calendar, years counted from March so that the leap day is the last of its year.
_DAYS_400, _DAYS_100, _DAYS_4 = 146_097, 36_524, 1_461
_MARCH_0 = 719_468  # days from 1 March of the year 0 to 1970
_JANUARY = 306  # days from 1 March to 1 January

# --- numbers ---------------------------------------------------------------------------------------------------------


@inlined
def square_root(a: Any) -> Any:
    return np.sqrt(a)


@inlined
def round_down(a: Any) -> Any:
    return np.floor(a)


@inlined
def round_up(a: Any) -> Any:
    return np.ceil(a)


@inlined
def round_zero(a: Any) -> Any:
    return np.trunc(a)


@inlined
def round_to(a: Any, scale: Any) -> Any:
    """`a * scale` to the nearest integer, halves to even, divided by `scale`, a power of ten; integers as they are."""
    return np.rint(a * scale) / scale if abs(a) < _WHOLE else a


@inlined
def float_sign(a: Any) -> Any:
    """NaN and zeros as they are."""
    return np.float64(1.0) if a > 0.0 else (np.float64(-1.0) if a < 0.0 else a)


@inlined
def integer_sign(a: Any) -> Any:
    return np.int64(a > 0) - np.int64(a < 0)


@inlined
def float_greatest(a: Any, b: Any) -> Any:
    """The first where they are equal."""
    return b if float_less(a, b) else a


@inlined
def float_least(a: Any, b: Any) -> Any:
    return b if float_less(b, a) else a


@inlined
def integer_greatest(a: Any, b: Any) -> Any:
    return b if a < b else a


@inlined
def integer_least(a: Any, b: Any) -> Any:
    return b if b < a else a


@inlined
def integer_member(a: Any, members: Any) -> Any:
    """Is it one of `members`, sorted, of which there is at least one?"""
    low, high = 0, members.size - 1
    while low < high:
        middle = (low + high) // 2
        if members[middle] < a:
            low = middle + 1
        else:
            high = middle
    return members[low] == a


@inlined
def float_member(a: Any, members: Any) -> Any:
    """The same; a NaN among them is the last."""
    low, high = 0, members.size - 1
    while low < high:
        middle = (low + high) // 2
        if float_less(members[middle], a):
            low = middle + 1
        else:
            high = middle
    return float_equal(members[low], a)


# --- time, µs since 1970 ---------------------------------------------------------------------------------------------


@inlined
def whole_multiple(a: Any, b: Any) -> Any:
    """The greatest multiple of b > 0 not above a; wraps below int64, which `difference_overflows(a, a % b)` tells."""
    return np.int64(np.uint64(a) - np.uint64(a % b))


@inlined
def _civil(a: Any) -> tuple[Any, Any]:
    """The year, counted from March, and the day in it from 0."""
    days = a // _DAY_US + _MARCH_0
    cycle = days // _DAYS_400
    days -= cycle * _DAYS_400
    century = min(days // _DAYS_100, 3)
    days -= century * _DAYS_100
    leap = days // _DAYS_4
    days -= leap * _DAYS_4
    single = min(days // 365, 3)
    return cycle * 400 + century * 100 + leap * 4 + single, days - single * 365


@inlined
def year(a: Any) -> Any:
    years, day_ = _civil(a)
    return years + (1 if day_ >= _JANUARY else 0)


@inlined
def _months(day_: Any) -> Any:
    """Whole months since March: from there 31, 30, 31, 30, 31 days, again and again."""
    return (5 * day_ + 2) // 153


@inlined
def month(a: Any) -> Any:
    months = _months(_civil(a)[1])
    return months + 3 if months < 10 else months - 9


@inlined
def day(a: Any) -> Any:
    """The day of the month, from 1."""
    day_ = _civil(a)[1]
    return day_ - (153 * _months(day_) + 2) // 5 + 1


@inlined
def day_of_year(a: Any) -> Any:
    """From 1."""
    years, day_ = _civil(a)
    if day_ >= _JANUARY:
        return day_ - _JANUARY + 1
    leap = years % 4 == 0 and (years % 100 != 0 or years % 400 == 0)
    return day_ + (61 if leap else 60)


@inlined
def weekday(a: Any) -> Any:
    """Monday 1 to Sunday 7; 1970 began on a Thursday."""
    return (a // _DAY_US + 3) % 7 + 1


@inlined
def hour(a: Any) -> Any:
    return a // _HOUR_US % 24


@inlined
def minute(a: Any) -> Any:
    return a // _MINUTE_US % 60


@inlined
def second(a: Any) -> Any:
    return a // _SECOND_US % 60


@inlined
def millisecond(a: Any) -> Any:
    return a // 1000 % 1000


# --- text ------------------------------------------------------------------------------------------------------------


@inlined
def _text_at(data: Any, start: Any, part: Any, part_start: Any, part_length: Any) -> Any:
    same = True
    i = 0
    while same and i < part_length:
        same = data[start + i] == part[part_start + i]
        i += 1
    return same


@inlined
def text_begins(data: Any, start: Any, length: Any, part: Any, part_start: Any, part_length: Any) -> Any:
    return part_length <= length and _text_at(data, start, part, part_start, part_length)


@inlined
def text_ends(data: Any, start: Any, length: Any, part: Any, part_start: Any, part_length: Any) -> Any:
    return part_length <= length and _text_at(data, start + length - part_length, part, part_start, part_length)


@inlined
def text_contains(data: Any, start: Any, length: Any, part: Any, part_start: Any, part_length: Any) -> Any:
    """Bytes are compared: UTF-8 begins nowhere inside of a character."""
    found = False
    at = 0
    while not found and at + part_length <= length:
        found = _text_at(data, start + at, part, part_start, part_length)
        at += 1
    return found


@inlined
def text_member(data: Any, start: Any, length: Any, members: Any, ends: Any) -> Any:
    """Is it one of `members`, sorted, one after the other, of which number k lies from `ends[k]` to `ends[k + 1]`?"""
    low, high = 0, ends.size - 2
    while low < high:
        middle = (low + high) // 2
        if text_less(members, ends[middle], ends[middle + 1] - ends[middle], data, start, length):
            low = middle + 1
        else:
            high = middle
    return text_equal(data, start, length, members, ends[low], ends[low + 1] - ends[low])
