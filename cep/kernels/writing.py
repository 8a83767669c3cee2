"""Rows as text: fields are written into place column by column, so no kernel knows how many there are.

`places`, int64[n], says where the next field of each row goes in `out`, uint8[any]; what is written there moves it on, by the field
and the byte behind it. Nothing else changes: words overlap inside a field, and what they hold behind it is what stood there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import BLOCK, count_bits, load_word, match_block, store_word
from cep.kernels.text import NEWLINE, RETURN, copy_text

_ZERO, _ONE, _BYTE, _ZEROS = np.uint64(0), np.uint64(1), np.uint64(255), np.uint64(0x3030303030303030)
_8, _10, _16, _20, _32 = np.uint64(8), np.uint64(10), np.uint64(16), np.uint64(20), np.uint64(32)
# number * inverse >> shift is number // 100 below 10**4, and // 10 below 100
_INVERSE_100, _QUARTERS = np.uint64(10486), np.uint64(0x0000007F0000007F)
_INVERSE_10, _EIGHTHS = np.uint64(103), np.uint64(0x000F000F000F000F)
_TEN, _HUNDRED, _FOUR, _EIGHT = np.uint64(10), np.uint64(100), np.uint64(10**4), np.uint64(10**8)
_POWERS = np.array([10**k for k in range(1, 20)], np.uint64)


@kernel("void(const int64[:], int64[:])", on_demand=True)
def number_lengths(values: np.ndarray, lengths: np.ndarray) -> None:
    """Sets `lengths`, int64[n], to how many bytes each of `values`, int64[n], takes: without a branch, so that many are compared side by
    side."""
    for i in range(len(values)):
        length, rest = np.int64(values[i] < 0) + 1, _magnitude(values[i])
        for power in _POWERS:
            length += rest >= power
        lengths[i] = length


@inlined
def _magnitude(value: Any) -> Any:
    return _ZERO - np.uint64(value) if value < 0 else np.uint64(value)


@kernel("void(const int64[:], const int64[:], uint8[:], int64[:], uint8)", on_demand=True)
def write_numbers(values: np.ndarray, lengths: np.ndarray, out: np.ndarray, places: np.ndarray, behind: int) -> None:
    """Writes decimal numbers of these lengths, each with the byte `behind` it."""
    for i in range(len(values)):
        value, start = values[i], places[i]
        end = start + lengths[i]
        if value < 0:
            out[start] = 45
        rest, at = _magnitude(value), start + (value < 0)
        if rest < _EIGHT:
            _write_few(out, at, _digits(rest) >> np.uint64(8 * (8 - (end - at))), end - at)
        else:
            upper = rest // _EIGHT
            if upper < _EIGHT:
                store_word(out, at, _digits(upper) >> np.uint64(8 * (16 - (end - at))))
            else:
                top = upper // _EIGHT
                store_word(out, at, _digits(top) >> np.uint64(8 * (24 - (end - at))))
                store_word(out, end - 16, _digits(upper - top * _EIGHT))
            store_word(out, end - 8, _digits(rest - upper * _EIGHT))  # over what stands behind the digits above it
        out[end] = behind
        places[i] = end + 1


@inlined
def _write_few(out: np.ndarray, at: Any, word: Any, length: Any) -> None:
    """The lowest `length` bytes of `word`, 1 to 8, and once more what stands behind them: quicker than a loop over so few."""
    if at + 8 <= len(out):
        kept = np.uint64(8) * np.uint64(length)
        beyond = (load_word(out, at) >> (kept - _ONE)) >> _ONE  # a shift by 64 is none
        store_word(out, at, (beyond << (kept - _ONE)) << _ONE | word)
    else:
        for k in range(at, at + length):
            out[k] = word & _BYTE
            word >>= _8


@inlined
def _digits(number: Any) -> Any:
    """Eight decimal digits of `number` < 10**8, the first in the lowest byte: halves, quarters and eighths of it side by side."""
    half = number // _FOUR
    halves = half | (number - half * _FOUR) << _32
    quarter = (halves * _INVERSE_100 >> _20) & _QUARTERS
    quarters = quarter | (halves - quarter * _HUNDRED) << _16
    eighth = (quarters * _INVERSE_10 >> _10) & _EIGHTHS
    return (eighth | (quarters - eighth * _TEN) << _8) + _ZEROS


@kernel("void(const uint8[:], const int64[:], const int32[:], uint8[:], int64[:], uint8)", on_demand=True)
def write_texts(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, out: np.ndarray, places: np.ndarray, behind: int) -> None:
    """Writes the texts `data[starts[i] : starts[i] + lengths[i]]`, each with the byte `behind` it."""
    for i in range(len(starts)):
        start, length, to = starts[i], np.int64(lengths[i]), places[i]
        copy_text(data, start, out, to, length)
        out[to + length] = behind
        places[i] = to + length + 1


@kernel("int64(const uint8[:], const int64[:], const int32[:], uint8, uint8[:])", on_demand=True)
def unwritable(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, separator: int, found: np.ndarray) -> int:
    """Sets `found[i]`, uint8[n], to 1 where text i holds the separator or a line end; how many do."""
    count = 0
    for i in range(len(starts)):
        at, stop = starts[i], starts[i] + lengths[i]
        bad = np.uint64(0)
        while at < stop and at + BLOCK <= len(data):
            marks = match_block(data, at, separator) | match_block(data, at, NEWLINE) | match_block(data, at, RETURN)
            beyond = max(0, at + BLOCK - stop)
            bad |= (marks << np.uint64(beyond)) if beyond < BLOCK else np.uint64(0)
            at += BLOCK
        for k in range(at, stop):
            if data[k] == separator or data[k] == NEWLINE or data[k] == RETURN:
                bad = np.uint64(1)
        if bad != np.uint64(0):
            found[i] = 1
            count += 1
    return count


@kernel("boolean(const uint8[:], const int64[:], const int32[:], const int64[:], uint8)", on_demand=True)
def adjoin(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, following: np.ndarray, behind: int) -> bool:
    """Is there just the byte `behind` between each text and the one that starts at `following[i]`, int64[n]?"""
    for i in range(len(following)):
        end = starts[i] + lengths[i]
        if end + 1 != following[i] or data[end] != behind:
            return False
    return True


@kernel("int64(const uint8[:], int64, int64, uint8)", on_demand=True)
def marks_between(data: np.ndarray, start: int, stop: int, separator: int) -> int:
    """How many separators and line ends there are in `data[start:stop]`."""
    count, at = 0, start
    while at + BLOCK <= stop:
        count += count_bits(match_block(data, at, separator) | match_block(data, at, NEWLINE) | match_block(data, at, RETURN))
        at += BLOCK
    for k in range(at, stop):
        if data[k] == separator or data[k] == NEWLINE or data[k] == RETURN:
            count += 1
    return count
