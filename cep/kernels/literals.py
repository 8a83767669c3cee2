"""Values written as text, in ASCII: each function takes `data[start:stop]` and returns (value, error).

    integer    [+-]? digits, in the range of int64
    instant    an integer of the field's unit, as µs
    calendar   for a plain timestamp, ISO 8601: YYYY-MM-DD, then perhaps T or a blank and HH:MM, perhaps :SS, perhaps .f (up
               to nine digits, whole µs), perhaps Z or ±HH:MM or ±HHMM; without a zone it is UTC
    real       what Python's float() takes, but for blanks around it, underscores and digits that are not ASCII; to the
               bit what float() gives
    boolean    true, false, 1, 0; upper or lower case

No blanks anywhere else. With an error the value is 0. A field of no bytes is EMPTY. The errors are those of `cep.kernels.text` and SLOW.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined
from cep.kernels.machine.memory import load_word
from cep.kernels.text import EMPTY, RANGE, WRONG

#: Well formed, but more digits than `real` converts: to be done by the reader of the value.
SLOW = 4

_MAX = 2**63 - 1
_TENTH = 922_337_203_685_477_580  # 2**63 // 10
_ZEROS, _SIXES = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_HIGH_BITS, _PAIRS = np.uint64(0x8080808080808080), np.uint64(0x000000FF000000FF)
_TEN, _8, _16, _32, _64 = np.uint64(10), np.uint64(8), np.uint64(16), np.uint64(32), np.uint64(64)
_FIRST, _SECOND = np.uint64(100 + (1_000_000 << 32)), np.uint64(1 + (10_000 << 32))
_POWERS = np.array([10.0**k for k in range(23)])  # exact
_EXACT_MAX = 2**53
_FAR = 2**40  # an exponent that no number of digits makes up for
_DAY_US = 86_400_000_000
_PLUS, _MINUS, _POINT, _COLON = 43, 45, 46, 58


@inlined
def integer(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """Up to sixteen digits without a sign are taken eight at a time."""
    length = stop - start
    if length <= 0:
        return 0, EMPTY
    if length > 16 or stop < 8:
        return _any_integer(data, start, stop)
    low, high = load_word(data, stop - 8) ^ _ZEROS, np.uint64(0)
    if length > 8:
        high = (load_word(data, start) ^ _ZEROS) << np.uint64(8 * (16 - length))
    else:
        unwanted = np.uint64(8 * (8 - length))
        low = (low >> unwanted) << unwanted
    if not _all_digits(low) or not _all_digits(high):
        return _any_integer(data, start, stop)
    return _eight_digits(high) * 100_000_000 + _eight_digits(low), 0


@inlined
def _all_digits(word: Any) -> bool:
    return bool(((word + _SIXES) | word) & _HIGH_BITS == np.uint64(0))


@inlined
def _eight_digits(word: Any) -> Any:
    """The number of eight digits, each 0 to 9, the first in the lowest byte: pairs, then fours, then all."""
    pairs = word * _TEN + (word >> _8)
    return np.int64(((pairs & _PAIRS) * _FIRST + ((pairs >> _16) & _PAIRS) * _SECOND) >> _32)


@inlined
def _any_integer(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """Digit by digit, as a negative number, of which there is one more."""
    positive = data[start] != _MINUS
    if data[start] == _MINUS or data[start] == _PLUS:
        start += 1
    value, error = 0, 0 if start < stop else WRONG
    for i in range(start, stop):
        digit = int(data[i]) - 48
        if digit < 0 or digit > 9:
            return 0, WRONG
        if value < -_TENTH or (value == -_TENTH and digit > 8):
            error = RANGE
        else:
            value = value * 10 - digit
    if positive and value < -_MAX:
        error = RANGE
    if error:
        return 0, error
    return (-value if positive else value), 0


@inlined
def small_integer(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """An integer in the range of int32."""
    value, error = integer(data, start, stop)
    if error == 0 and (value > 2**31 - 1 or value < -(2**31)):
        return 0, RANGE
    return value, error


@inlined
def instant_of(data: np.ndarray, start: int, stop: int, unit_us: int) -> tuple[int, int]:
    """An integer of units of `unit_us` µs; 0 stands for ns, of which there must be whole µs."""
    value, error = integer(data, start, stop)
    if unit_us == 0:
        return value // 1000, error if error or value % 1000 == 0 else RANGE
    if value > _MAX // unit_us or value < -(_MAX // unit_us):
        return 0, RANGE
    return value * unit_us, error


@inlined
def number_of(data: np.ndarray, start: int, length: int, stop: int) -> int:
    """`length` digits; a number below zero if they are not there."""
    if start + length > stop:
        return -1
    value = 0
    for i in range(start, start + length):
        digit = int(data[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@inlined
def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the Gregorian calendar; below -10**9 if there is no such date."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 30 + (month + month // 8) % 2 if month != 2 else 28 + leap
    if year < 1 or month < 1 or month > 12 or day < 1 or day > longest:
        return -(2**40)
    # Years that begin in March, so that the day of the leap year is their last.
    shifted = year - (month < 3)
    from_march = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + from_march - 719_468


@inlined
def _clock(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """HH:MM, :SS, .f: (µs since midnight, where it ends); below zero if there is none, or no whole µs."""
    hour, minute, second, at = number_of(data, start, 2, stop), number_of(data, start + 3, 2, stop), 0, start + 5
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or data[start + 2] != _COLON:
        return -1, at
    if at < stop and data[at] == _COLON:
        second, at = number_of(data, at + 1, 2, stop), at + 3
        if second < 0 or second > 59:
            return -1, at
    whole = ((hour * 60 + minute) * 60 + second) * 1_000_000
    if at == start + 5 or at >= stop or data[at] != _POINT:
        return whole, at
    digits, scale = 0, 1_000_000_000
    at += 1
    while at < stop and 48 <= data[at] <= 57 and scale > 1:
        digits, scale, at = digits * 10 + int(data[at]) - 48, scale // 10, at + 1
    nanoseconds = digits * scale
    return (whole + nanoseconds // 1000 if scale < 1_000_000_000 and nanoseconds % 1000 == 0 else -1), at


@inlined
def _zone(data: np.ndarray, start: int, stop: int) -> int:
    """µs east of Greenwich of what stands in `data[start:stop]`; 2**60 if that is no zone."""
    if start == stop or (start + 1 == stop and (data[start] == 90 or data[start] == 122)):
        return 0
    colon = 1 if stop - start == 6 and data[start + 3] == _COLON else 0
    hour, minute = number_of(data, start + 1, 2, stop), number_of(data, start + 3 + colon, 2, stop)
    signed = data[start] == _PLUS or data[start] == _MINUS
    if not signed or stop - start != 5 + colon or hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return 2**60
    east = (hour * 60 + minute) * 60_000_000
    return east if data[start] == _PLUS else -east


@inlined
def calendar(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """An instant in ISO 8601."""
    if stop <= start:
        return 0, EMPTY
    year, month = number_of(data, start, 4, stop), number_of(data, start + 5, 2, stop)
    days = days_of(year, month, number_of(data, start + 8, 2, stop))
    if days < -(10**9) or data[start + 4] != _MINUS or data[start + 7] != _MINUS:
        return 0, WRONG
    clock, at = 0, start + 10
    if at < stop:
        if data[at] != 84 and data[at] != 116 and data[at] != 32:
            return 0, WRONG
        clock, at = _clock(data, at + 1, stop)
    east = _zone(data, at, stop) if clock >= 0 else 2**60
    if east == 2**60:
        return 0, WRONG
    return days * _DAY_US + clock - east, 0


@inlined
def real(data: np.ndarray, start: int, stop: int) -> tuple[float, int]:
    """Exact where both the digits and the power of ten are exact float64 (Clinger 1990); SLOW where they are not."""
    if stop <= start:
        return 0.0, EMPTY
    sign = -1.0 if data[start] == _MINUS else 1.0
    at = start + (data[start] == _MINUS or data[start] == _PLUS)
    digits, power, count, beyond, first = 0, 0, 0, False, at
    point = stop
    while at < stop:
        byte = int(data[at])
        if byte == _POINT and point == stop:
            point = at
        elif 48 <= byte <= 57:
            count += 1
            beyond = beyond or digits >= _EXACT_MAX
            digits = digits if beyond else digits * 10 + byte - 48
            power -= point < stop
        else:
            break
        at += 1
    if count == 0:
        return _word(data, first, stop, sign)
    if at < stop:
        exponent, error = _exponent(data, at, stop)
        if error:
            return 0.0, WRONG
        power += exponent
    if beyond or digits > _EXACT_MAX or power < -22 or power > 22:
        return 0.0, SLOW
    return sign * (digits / _POWERS[-power] if power < 0 else digits * _POWERS[power]), 0


@inlined
def _exponent(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    if data[start] | 32 != 101:
        return 0, WRONG
    value, error = integer(data, start + 1, stop)
    if error == RANGE:
        return -_FAR if data[start + 1] == _MINUS else _FAR, 0
    return min(max(value, -_FAR), _FAR), error


@inlined
def _word(data: np.ndarray, start: int, stop: int, sign: float) -> tuple[float, int]:
    """inf, infinity, nan in any case."""
    if _spells(data, start, stop, _INFINITY, 3) or _spells(data, start, stop, _INFINITY, 8):
        return sign * np.inf, 0
    if _spells(data, start, stop, _NAN, 3):
        return np.copysign(np.nan, sign), 0
    return 0.0, WRONG


_INFINITY, _NAN = np.frombuffer(b"infinity", np.uint8), np.frombuffer(b"nan", np.uint8)
_TRUE, _FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)


@inlined
def _spells(data: np.ndarray, start: int, stop: int, word: np.ndarray, length: int) -> bool:
    """Is `data[start:stop]` the first `length` letters of `word`, in any case?"""
    same = stop - start == length
    for k in range(length if same else 0):
        same = same and data[start + k] | 32 == word[k]
    return same


@inlined
def boolean(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """1 or 0."""
    if stop <= start:
        return 0, EMPTY
    if stop - start == 1:
        return int(data[start] == 49), 0 if data[start] == 48 or data[start] == 49 else WRONG
    true = _spells(data, start, stop, _TRUE, 4)
    return int(true), 0 if true or _spells(data, start, stop, _FALSE, 5) else WRONG
