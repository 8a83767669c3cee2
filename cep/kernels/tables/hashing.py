"""The project's one hash. Buckets, tables and names of rows depend on it: a change breaks snapshots and mixed clusters.

All arithmetic is modulo 2**64; `>>` is logical.

    mix64(a, b):
        x = (a ^ a >> 32) * 0x9E3779B97F4A7C15
        x = (x ^ x >> 29) + (b ^ b >> 32)
        x = x * 0xBF58476D1CE4E5B9
        x = (x ^ x >> 31) * 0x94D049BB133111EB
        return x ^ x >> 32

    hash64(w0, w1), of a key (`cep.kernels.tables.keys`), whose long keys have 254 in the top byte of w1 and a place below it:
        mix64(w0, 254 << 56) if w1 >> 56 == 254 else mix64(w0, w1)

    hash_bytes(bytes):
        h = the number of bytes
        for each eight bytes, little-endian, the last eight filled up with zeros: h = mix64(h, word)

    hash_origins(origin, seed), of a row for a sample:
        h = seed; for each word of the origin but -1, which fills up: h = mix64(h, word); the result is h >> 1

    fold_origins(left, right), of a joined tuple, two words; word k = 0, 1 is h of:
        h = k
        for each side: h = mix64(h, the number of words of its origin), 0 for a side that is not there
            for each of these words: h = mix64(h, word)
        the top bit of word 0 is set: such an origin is negative, unlike that of a source

For one `b`, mix64 is a bijection of `a`, and for one `a` of `b`, so keys that fit a word never collide. Every bit of
the result depends on every bit of both words: a bucket takes the low bits, a slot of a table the high ones.
0.6 ns a key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import load_word

#: Top byte of the second word of a long key.
LONG = 254

_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_29, _31, _32 = np.uint64(29), np.uint64(31), np.uint64(32)
_TOP = np.uint64(56)
_LONG_WORD = np.uint64(LONG << 56)


@inlined
def mix64(a: Any, b: Any) -> Any:
    """A uint64 from two."""
    x = (a ^ (a >> _32)) * _A
    x = (x ^ (x >> _29)) + (b ^ (b >> _32))
    x = x * _B
    x = (x ^ (x >> _31)) * _C
    return x ^ (x >> _32)


@inlined
def is_long(w1: Any) -> Any:
    """Do the bytes of the key whose second word is `w1` lie elsewhere?"""
    return (w1 >> _TOP) == np.uint64(LONG)


@inlined
def hash64(w0: Any, w1: Any) -> Any:
    """The uint64 hash of a key; the same wherever the bytes of a long key lie."""
    return mix64(w0, _LONG_WORD if is_long(w1) else w1)


@inlined
def hash_bytes(data: np.ndarray, start: int, length: int) -> Any:
    """The uint64 hash of `data[start : start + length]`."""
    h = np.uint64(length)
    end = start + length
    while start + 8 <= end:
        h = mix64(h, load_word(data, start))
        start += 8
    if start < end:
        word = np.uint64(0)
        for i in range(end - start):
            word |= np.uint64(data[start + i]) << np.uint64(8 * i)
        h = mix64(h, word)
    return h


@kernel("void(const uint64[:], const uint64[:], uint64[:])")
def hash_words(w0: np.ndarray, w1: np.ndarray, out: np.ndarray) -> None:
    """`hash64` of n keys: uint64[n], uint64[n] -> uint64[n]."""
    for i in range(len(w0)):
        out[i] = hash64(w0[i], w1[i])


@kernel("uint64(const uint8[:])")
def hash_of(data: np.ndarray) -> Any:
    """`hash_bytes` of all of `data`, called from Python: names of channels, origins of aggregates."""
    return hash_bytes(data, 0, len(data))


def fold_origins(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray:
    """Origins of joined tuples, int64[n, 2], from those of their sides, int64[n, any]; None: that side is not there."""
    there = [side for side in (left, right) if side is not None]
    none, out = np.empty((len(there[0]), 0), np.int64), np.empty((len(there[0]), 2), np.int64)
    fold_origins_into(*(none if side is None else np.ascontiguousarray(side) for side in (left, right)), out)
    return out


@kernel("void(const int64[:, :], int64, int64[:])")
def hash_origins(origin: np.ndarray, seed: int, out: np.ndarray) -> None:
    """Hashes n origins of any number of words: int64[n], none of them negative."""
    for i in range(len(out)):
        h = np.uint64(seed)
        for word in range(origin.shape[1]):
            if origin[i, word] != -1:
                h = mix64(h, np.uint64(origin[i, word]))
        out[i] = np.int64(h >> np.uint64(1))


_LEAST = -(2**63)


@kernel("void(const int64[:, :], const int64[:, :], int64[:, :])")
def fold_origins_into(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """A side that is not there has no words."""
    for i in range(len(out)):
        for k in range(2):
            h = mix64(np.uint64(k), np.uint64(left.shape[1]))
            for word in range(left.shape[1]):
                h = mix64(h, np.uint64(left[i, word]))
            h = mix64(h, np.uint64(right.shape[1]))
            for word in range(right.shape[1]):
                h = mix64(h, np.uint64(right[i, word]))
            out[i, k] = np.int64(h)
        out[i, 0] |= _LEAST
