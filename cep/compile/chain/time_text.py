"""Instants as text in formats of the query's own, and back (docs/arithmetic.md, `format_time` and `parse_time`).

A format is a program (`cep.model.times.formats`): bytes, and directives. `data`, `starts`, `lengths`, `valid`, `values`, `fits` are as in
`cep.compile.chain.casts`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.compile.chain.scalars import day, day_of_year, hour, minute, month, second, year
from cep.kernels.column import Column
from cep.kernels.jit import Kernel, inlined, kernel
from cep.kernels.literals import days_of, number_of
from cep.kernels.machine.memory import BLOCK
from cep.model.schema import STRING, DataType
from cep.model.times.formats import DIRECTIVE, program

_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _MICROSECOND, _DAY_OF_YEAR = (DIRECTIVE + ord(letter) for letter in "YmdHMSfj")
#: Bytes that a directive writes, at most: a year of int64 µs has six digits and a sign.
WIDTH_MAX = 7
_SECOND_US, _DAY_US = 1_000_000, 86_400_000_000


@inlined
def _put(data: np.ndarray, at: int, value: Any, digits: int) -> int:
    """Writes `value` with so many digits; returns where the next byte goes."""
    for k in range(digits):
        data[at + digits - 1 - k] = 48 + value % 10
        value //= 10
    return at + digits


@inlined
def _put_year(data: np.ndarray, at: int, value: Any) -> int:
    """At least four bytes, a sign among them."""
    rest, digits = abs(value), 4 - (value < 0)
    if value < 0:
        data[at] = 45
        at += 1
    while rest >= 10**digits:
        digits += 1
    return _put(data, at, rest, digits)


@kernel("void(const int64[:], const int64[:], int64, uint8[:], int64[:], int32[:])", on_demand=True)
def write_times(times: np.ndarray, codes: np.ndarray, width: int, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
    """The text of instant i at `data[starts[i]:]`, which has room for `width` bytes each."""
    for i in range(len(times)):
        at = i * width
        starts[i] = at
        for code in codes:
            if code < DIRECTIVE:
                data[at] = code
                at += 1
            elif code == _YEAR:
                at = _put_year(data, at, year(times[i]))
            elif code == _MONTH:
                at = _put(data, at, month(times[i]), 2)
            elif code == _DAY:
                at = _put(data, at, day(times[i]), 2)
            elif code == _HOUR:
                at = _put(data, at, hour(times[i]), 2)
            elif code == _MINUTE:
                at = _put(data, at, minute(times[i]), 2)
            elif code == _SECOND:
                at = _put(data, at, second(times[i]), 2)
            elif code == _MICROSECOND:
                at = _put(data, at, times[i] % _SECOND_US, 6)
            else:
                at = _put(data, at, day_of_year(times[i]), 3)
        lengths[i] = at - starts[i]


@inlined
def _fraction(data: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """One to six digits behind a point: (µs, where they end); below zero if there is none."""
    value, scale, at = 0, _SECOND_US, start
    while at < stop and scale > 1 and 48 <= data[at] <= 57:
        value, scale, at = value * 10 + int(data[at]) - 48, scale // 10, at + 1
    return (value * scale if at > start else -1), at


@inlined
def _instant(year_: int, month_: int, day_: int, day_in_year: int, clock: int) -> tuple[int, bool]:
    """µs since 1970, and whether there is such an instant. `day_in_year`: 0 where month and day say it."""
    if day_in_year == 0:
        days = days_of(year_, month_, day_)
    else:
        days = days_of(year_, 1, 1) + day_in_year - 1
        if days > days_of(year_, 12, 31):
            return 0, False
    return (days * _DAY_US + clock, True) if days > -(10**9) else (0, False)


@kernel("void(const uint8[:], const int64[:], const int32[:], const uint8[:], const int64[:], int64[:], uint8[:])", on_demand=True)
def read_times(
    data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, valid: np.ndarray, codes: np.ndarray, values: np.ndarray, fits: np.ndarray
) -> None:
    """Sets fits[i] to whether text i says an instant, or is NULL."""
    for i in range(len(starts)):
        values[i], fits[i] = 0, 1
        if not valid[i]:
            continue
        at, stop = starts[i], starts[i] + lengths[i]
        years, months, days, day_in_year, clock, good = 1970, 1, 1, 0, 0, True
        for code in codes:
            if code < DIRECTIVE:
                good = at < stop and data[at] == code
                at += 1
            elif code == _MICROSECOND:
                part, at = _fraction(data, at, stop)
                good = part >= 0
                clock += part
            else:
                width = 4 if code == _YEAR else 3 if code == _DAY_OF_YEAR else 2
                part = number_of(data, at, width, stop)
                at += width
                good = part >= 0
                if code == _YEAR:
                    years = part
                elif code == _MONTH:
                    months = part
                elif code == _DAY:
                    days = part
                elif code == _DAY_OF_YEAR:
                    day_in_year, good = part, part > 0
                elif code == _HOUR:
                    good, clock = good and part < 24, clock + part * 3600 * _SECOND_US
                else:
                    good, clock = good and part < 60, clock + part * (60 if code == _MINUTE else 1) * _SECOND_US
            if not good:
                break
        value, there = _instant(years, months, days, day_in_year, clock)
        fits[i] = good and there and at == stop
        values[i] = value if fits[i] else 0


KERNELS: tuple[Kernel, ...] = (write_times, read_times)


def written(times: Column, text: str) -> Column:
    """The instants in the format `text`."""
    codes, n = np.array(program(text), np.int64), len(times)
    width = int(np.where(codes < DIRECTIVE, 1, WIDTH_MAX).sum())
    data, starts, lengths = np.zeros(n * width + BLOCK, np.uint8), np.empty(n, np.int64), np.empty(n, np.int32)
    write_times(times.values, codes, width, data, starts, lengths)
    return Column(STRING, lengths, times.valid, data, starts)


def parsed(texts: Column, text: str, type_: DataType) -> tuple[Column, np.ndarray]:
    """The instants that are said in the format `text`, and for each row whether it says one (uint8[n]); NULL does."""
    n = len(texts)
    values, fits = np.empty(n, np.int64), np.empty(n, np.uint8)
    valid = np.ones(n, np.uint8) if texts.valid is None else texts.valid
    read_times(texts.data, texts.starts, texts.values, valid, np.array(program(text), np.int64), values, fits)
    return Column(type_, values, texts.valid), fits
