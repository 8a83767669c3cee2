"""Words and blocks of bytes, for kernels: what a processor does in an instruction or two and Numba has no words for.

Each function is plain Python that Numba knows as machine code (`cep.kernels.machine.instructions`; LLVM chooses: a 64-byte compare is
one instruction with AVX-512, two with AVX2). `data` is uint8[any]; `at` is not checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Bytes that `match_block` looks at.
BLOCK = 64


def load_word(data: np.ndarray, at: int) -> Any:
    """The eight bytes at `at` as a little-endian uint64."""
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


def store_word(data: np.ndarray, at: int, word: Any) -> None:
    """Writes the 64 bits of `word` at `at`, little-endian."""
    data[at : at + 8] = np.frombuffer((int(word) & 2**64 - 1).to_bytes(8, "little"), np.uint8)


def copy_bytes(source: np.ndarray, start: Any, target: np.ndarray, at: Any, length: Any) -> None:
    """Copies `length` bytes (>= 0) from `start` to `at` and touches no other."""
    target[at : at + length] = source[start : start + length]


def equal_bytes(data: np.ndarray, at: Any, other: np.ndarray, other_at: Any, length: Any) -> bool:
    """Are the `length` bytes (>= 0) at `at` those of `other` at `other_at`?"""
    return bool((data[at : at + length] == other[other_at : other_at + length]).all())


def match_block(data: np.ndarray, at: int, byte: int) -> Any:
    """Bit i of the uint64 says whether `data[at + i]` is `byte`."""
    return _bits(data[at : at + BLOCK] == byte)


def high_block(data: np.ndarray, at: int) -> Any:
    """Bit i of the uint64 says whether `data[at + i]` is 128 or more."""
    return _bits(data[at : at + BLOCK] >= 128)


def lowest_bit(word: Any) -> int:
    """Index of the lowest bit set in `word`, a uint64; 64 if there is none."""
    value = int(word)
    return (value & -value).bit_length() - 1 if value else 64


def count_bits(word: Any) -> int:
    """How many bits of `word`, a uint64, are set."""
    return int(word).bit_count()


def prefetch(array: np.ndarray, at: Any) -> None:
    """Asks for the cache line of `array[at]`, which need not exist."""


def _bits(flags: np.ndarray) -> Any:
    return np.packbits(flags, bitorder="little").view(np.uint64)[0]
