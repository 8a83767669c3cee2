"""HyperLogLog (Flajolet et al. 2007) with the estimator of Ertl (2017), in a block (`cep.kernels.blocks`).

A value has the hash h = `hash64` of the two words of its key (`cep.kernels.tables.keys`). With precision p there are m = 2**p registers:

    index = h >> (64 - p)                              the first p bits
    rank  = 65 - p - bit length of the other 64 - p    1 + the zeros before the first one, from 1 to 65 - p

and a register holds the greatest rank it has met, 0 before. So the registers depend on the set of values alone, and merging takes
the greater of two. The estimate is a function of how many registers hold each rank (`estimate`), made of additions,
multiplications and square roots in a stated order, so that it is the same everywhere. Its standard error is 1.04 / sqrt(m), without
bias, at any count: sets of up to some hundreds come out nearly exact.

A block is *dense*, one byte for each register, or while that is larger *sparse*: slots of 4 bytes with open addressing, of which at
most 3 in 4 are taken: index << 8 | rank, little-endian, 0 where it is free. Its third word counts those taken. An index is bits of a
hash, and is its own hash.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.states.exact_sum import bit_length
from cep.kernels.tables.hashing import hash64

#: Ranks are below it.
RANKS = 66
_SLOTS_MIN = 4
_SLOT = 4
ALPHA = 0.5 / math.log(2.0)


@inlined
def registers_room(words: np.ndarray, at: int, more: int, m: int) -> int:
    """Bytes of arena for `more` new registers; 0 where there is room."""
    size = words[at + 1]
    if size == m:
        return 0
    slots = max(size // _SLOT, _SLOTS_MIN)
    while 4 * (words[at + 2] + more) > 3 * slots:
        slots *= 2
    wanted = min(_SLOT * slots, m)
    return wanted if wanted > size else 0


@inlined
def _reserve(words: np.ndarray, at: int, arena: np.ndarray, used: int, more: int, m: int) -> int:
    room = registers_room(words, at, more, m)
    if room == 0:
        return used
    old, size = words[at], words[at + 1]
    words[at], words[at + 1], words[at + 2] = used, room, 0
    for k in range(used, used + room):
        arena[k] = 0
    for k in range(old, old + size, _SLOT):
        if arena[k] != 0:
            _raise(words, at, arena, _index(arena, k), np.int64(arena[k]), m)
    return used + room


@inlined
def _index(arena: np.ndarray, at: int) -> Any:
    return np.int64(arena[at + 1]) | np.int64(arena[at + 2]) << 8


@inlined
def _raise(words: np.ndarray, at: int, arena: np.ndarray, index: Any, rank: Any, m: int) -> None:
    """There is room for it."""
    start, size = words[at], words[at + 1]
    if size == m:
        arena[start + index] = max(np.int64(arena[start + index]), rank)
        return
    place = start + (index * _SLOT & (size - 1))
    while arena[place] != 0 and _index(arena, place) != index:
        place = start + ((place - start + _SLOT) & (size - 1))
    if arena[place] == 0:
        words[at + 2] += 1
        arena[place + 1], arena[place + 2], arena[place + 3] = index & 255, index >> 8, 0
    arena[place] = max(np.int64(arena[place]), rank)


@inlined
def registers_add(words: np.ndarray, at: int, arena: np.ndarray, used: int, w0: Any, w1: Any, p: int) -> int:
    """Adds the key of these words. Returns the bytes of arena in use after."""
    used = _reserve(words, at, arena, used, 1, 1 << p)
    hash_ = hash64(w0, w1)
    rest = np.int64(bit_length(hash_ & np.uint64((1 << (64 - p)) - 1)))
    _raise(words, at, arena, np.int64(hash_ >> np.uint64(64 - p)), 65 - p - rest, 1 << p)
    return used


@inlined
def registers_merge_room(words: np.ndarray, at: int, other: np.ndarray, s: int, m: int) -> int:
    return registers_room(words, at, m if other[s + 1] == m else other[s + 2], m)


@inlined
def registers_merge(
    words: np.ndarray, at: int, arena: np.ndarray, used: int, other: np.ndarray, s: int, other_arena: np.ndarray, p: int
) -> int:
    start, size, m = other[s], other[s + 1], 1 << p
    used = _reserve(words, at, arena, used, m if size == m else other[s + 2], m)
    if size == m:
        for k in range(m):
            arena[words[at] + k] = max(arena[words[at] + k], other_arena[start + k])
    else:
        for k in range(start, start + size, _SLOT):
            if other_arena[k] != 0:
                _raise(words, at, arena, _index(other_arena, k), np.int64(other_arena[k]), m)
    return used


# --- results ---------------------------------------------------------------------------------------------------------


@kernel("void(const int64[:], int64, int64, const uint8[:], int64, float64[:])")
def estimate(words: np.ndarray, at: int, stride: int, arena: np.ndarray, p: int, out: np.ndarray) -> None:
    """About how many values each of the n blocks at `words[at]`, `words[at + stride]`, ... has met: float64[n].

    With C[r] registers of rank r, q = 64 - p:  z = m * tau(1 - C[q + 1] / m); for r = q, ..., 1: z = (z + C[r]) * 0.5;
    z = z + m * sigma(C[0] / m); and the estimate is ALPHA * m * m / z.
    """
    m, q = 1 << p, 64 - p
    counts = np.empty(RANKS, np.int64)
    for i in range(len(out)):
        _count_ranks(words, at + i * stride, arena, m, counts)
        z = m * _tau(1.0 - counts[q + 1] / m)
        for rank in range(q, 0, -1):
            z = (z + counts[rank]) * 0.5
        z = z + m * _sigma(counts[0] / m)
        out[i] = ALPHA * m * m / z


@inlined
def _count_ranks(words: np.ndarray, at: int, arena: np.ndarray, m: int, counts: np.ndarray) -> None:
    for rank in range(RANKS):
        counts[rank] = 0
    start, size = words[at], words[at + 1]
    for k in range(start, start + size, 1 if size == m else _SLOT):
        counts[arena[k]] += 1
    if size != m:
        counts[0] = m - words[at + 2]


@inlined
def _sigma(x: float) -> float:
    """x + sum over k >= 1 of x**(2**k) * 2**(k - 1)."""
    if x == 1.0:
        return np.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x = x * x
        before = z
        z = z + x * y
        y = y + y
    return z


@inlined
def _tau(x: float) -> float:
    """(1 - x - sum over k >= 1 of (1 - x**(2**-k))**2 * 2**-k) / 3."""
    if x == 0.0 or x == 1.0:
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x = np.sqrt(x)
        before = z
        y = y * 0.5
        z = z - (1.0 - x) * (1.0 - x) * y
    return z / 3.0
