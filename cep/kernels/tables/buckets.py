"""Buckets of numbers by size, for quantiles: float64s with the same sign, exponent and first 7 bits of the mantissa are in one.

A bucket is a whole number, and buckets sort as their numbers do: 0 of 0.0, -0.0 and the subnormals (below 2**-1022), which all count
as 0; of a greater number the 11 + 7 bits of exponent and mantissa, negative where it is; infinities alone in theirs, and NaN in the last.

The middle of the bucket of x is within |x| / 256 of x: with 2**e <= |x| < 2**(e + 1) the bucket is 2**(e - 7) wide, half of which is
2**(e - 8) <= |x| / 2**8. Of a subnormal it is 0, within 2**-1022.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import load_word
from cep.kernels.tables.table import is_null

_MAGNITUDE = 2**63 - 1
_SHIFT = 45
_INFINITY = 0x7FF << 7
_NAN = _INFINITY + 1
_NORMAL_LEAST = 1 << 7
PAIR = 16


@inlined
def bucket_of(bits: int) -> int:
    """The bucket of the float64 whose bits are the int64 `bits`."""
    magnitude = bits & _MAGNITUDE
    if magnitude > _INFINITY << _SHIFT:
        return _NAN
    bucket = magnitude >> _SHIFT
    if bucket < _NORMAL_LEAST:
        return 0
    return -bucket if bits < 0 else bucket


@kernel("int64(const int64[:], int64, int64, const uint8[:], int64[:], int64[:], int64[:])")
def take_buckets(
    words: np.ndarray, at: int, stride: int, arena: np.ndarray, groups: np.ndarray, buckets: np.ndarray, counts: np.ndarray
) -> Any:
    """All buckets of the n tallies (`cep.kernels.blocks`) at `words[at]`, `words[at + stride]`, ..., in no order: the number of their
    tally, the bucket, how often it was met. Returns how many they are; `groups` is as long as that."""
    taken, i, place = 0, 0, at
    while taken < len(groups):
        for k in range(words[place], words[place] + words[place + 1], PAIR):
            count = load_word(arena, k + 8)
            if not is_null(count):
                groups[taken], buckets[taken], counts[taken] = i, np.int64(load_word(arena, k)), np.int64(count)
                taken += 1
        i, place = i + 1, place + stride
    return taken


def middles(buckets: np.ndarray) -> np.ndarray:
    """The middle of each bucket, float64[n]."""
    magnitude = np.abs(buckets)
    bits = (magnitude << _SHIFT) | np.where(magnitude < _INFINITY, 1 << (_SHIFT - 1), 0)
    values: np.ndarray = np.where(magnitude == 0, 0, bits).view(np.float64)
    values = np.where(magnitude == _NAN, np.nan, values)
    return np.where(buckets < 0, -values, values)
