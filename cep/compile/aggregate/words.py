"""What the generated loops of an aggregate do to the words of a state. `words` are a table's entries, `at` is a place in them.

A value of a fixed-width type is one int64 that sorts as the value does: `ordered` is it for float64, the number itself for
the rest. The functions that put text return how many bytes of `arena` are in use after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.tables.table import compare_text, is_null, put_text

_MAGNITUDE = 2**63 - 1
_INFINITY, _NAN = 0x7FF << 52, 0x7FF8 << 48
_0, _1, _64 = np.uint64(0), np.uint64(1), np.uint64(64)


@inlined
def ordered(bits: int) -> int:
    """An int64 that sorts as the float64 with these bits does, -0.0 before 0.0 and one NaN behind all."""
    if (bits & _MAGNITUDE) > _INFINITY:
        bits = _NAN
    return bits ^ ((bits >> 63) & _MAGNITUDE)


@inlined
def ordered_normal(bits: int) -> int:
    """`ordered`, with -0.0 as 0.0."""
    return ordered(0 if bits & _MAGNITUDE == 0 else bits)


@inlined
def add_128(words: np.ndarray, at: int, low: int, high: int) -> None:
    """Adds to the 128 bits at `at`, least significant word first."""
    sum_low = np.uint64(words[at]) + np.uint64(low)
    words[at] = np.int64(sum_low)
    words[at + 1] += high + (1 if sum_low < np.uint64(low) else 0)


@inlined
def keep_least(words: np.ndarray, at: int, value: int) -> None:
    words[at] = min(words[at], value)


@inlined
def keep_greatest(words: np.ndarray, at: int, value: int) -> None:
    words[at] = max(words[at], value)


@inlined
def lower_text(words: np.ndarray, at: int, arena: np.ndarray, used: int, w0: Any, w1: Any, data: np.ndarray) -> Any:
    """MIN; both the state and the text may be NULL, which counts for nothing."""
    if is_null(w1):
        return used
    old = np.uint64(words[at + 1])
    if is_null(old) or compare_text(w0, w1, data, np.uint64(words[at]), old, arena) < 0:
        return put_text(words, at, arena, used, w0, w1, data)
    return used


@inlined
def raise_text(words: np.ndarray, at: int, arena: np.ndarray, used: int, w0: Any, w1: Any, data: np.ndarray) -> Any:
    """MAX; NULL sorts before every text."""
    if compare_text(w0, w1, data, np.uint64(words[at]), np.uint64(words[at + 1]), arena) > 0:
        return put_text(words, at, arena, used, w0, w1, data)
    return used


@inlined
def compare(a: int, b: int) -> int:
    """-1, 0, 1: is `a` less than `b`, equal, or greater?"""
    return (1 if a > b else 0) - (1 if a < b else 0)


# --- results ---------------------------------------------------------------------------------------------------------


@inlined
def _nearest_128(low: Any, high: Any) -> float:
    """The float64 nearest to a number below 2**127; the conversion of its first 64 bits rounds to even, once."""
    if high == _0:
        return np.float64(low)
    shift = _0
    while (high >> shift) != _0:
        shift += _1
    top = (high << (_64 - shift)) | (low >> shift)
    if (low << (_64 - shift)) != _0:
        top |= _1  # what was cut off decides a tie
    return np.float64(top) * 2.0 ** np.float64(shift)


@inlined
def rounded_128(low: int, high: int) -> float:
    """A number of 128 bits as the nearest float64."""
    a, b = np.uint64(low), np.uint64(high)
    if high < 0:
        a = ~a + _1
        b = ~b + (_1 if a == _0 else _0)
    nearest = _nearest_128(a, b)
    return -nearest if high < 0 else nearest


@kernel("void(const int64[:], const int64[:], float64[:])")
def round_128(low: np.ndarray, high: np.ndarray, out: np.ndarray) -> None:
    """n numbers of 128 bits as the nearest float64s."""
    for i in range(len(out)):
        out[i] = rounded_128(low[i], high[i])
