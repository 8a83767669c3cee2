"""Two words for each row, which every one of its values has changed: equal rows have the same, whatever batch they are in.

Each step is a bijection of a lane for a given word, and of the word for a given lane, and the lanes take a word in different ways; so rows
that differ have the same two words by an accident of 2⁻¹²⁸ only. What the lanes begin with is secret where somebody might look for one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import load_word

_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_C, _D = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ZERO, _8 = np.uint64(0), np.uint64(8)
_27, _30, _31, _32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
#: What a NULL is, and the length of no text.
_NULL = ~_ZERO


@inlined
def _mixed(word: Any) -> Any:
    """Every bit of it changes half of those that come of it (the finalizer of SplitMix64)."""
    word = (word ^ (word >> _30)) * _C
    word = (word ^ (word >> _27)) * _D
    return word ^ (word >> _31)


@inlined
def _first(lane: Any, word: Any) -> Any:
    lane = (lane ^ word) * _A
    return lane ^ (lane >> _32)


@inlined
def _second(lane: Any, word: Any) -> Any:
    lane = (lane + (word ^ (word >> _31))) * _B
    return lane ^ (lane >> _30)


@inlined
def _last_word(data: np.ndarray, start: int, stop: int) -> Any:
    """Of less than eight bytes, those that are there. A loop, whose end is mispredicted, is left to texts at the very beginning."""
    count = np.uint64(stop - start)
    if count == _ZERO:
        return _ZERO
    if stop >= 8:
        return load_word(data, stop - 8) >> (_8 * (_8 - count))
    word = _ZERO
    for i in range(start, stop):
        word |= np.uint64(data[i]) << (_8 * np.uint64(i - start))
    return word


@kernel("void(const uint64[:], const uint8[:], uint64[:, :])", on_demand=True)
def mix_words(words: np.ndarray, valid: np.ndarray, lanes: np.ndarray) -> None:
    """A column of words goes into lanes, uint64[n, 2]. `valid`: uint8[n] (1 = not NULL), or uint8[0]: nothing is."""
    some = len(valid) > 0
    for i in range(len(words)):
        there = not some or valid[i] != 0
        word, what = (words[i], _ZERO) if there else (_ZERO, _NULL)
        lanes[i, 0] = _mixed(_first(_first(lanes[i, 0], word), what))
        lanes[i, 1] = _mixed(_second(_second(lanes[i, 1], word), what))


@kernel("void(const uint8[:], const int64[:], const uint8[:], uint64[:, :])", on_demand=True)
def mix_texts(data: np.ndarray, ends: np.ndarray, valid: np.ndarray, lanes: np.ndarray) -> None:
    """A column of texts, of which value i is `data[ends[i] : ends[i + 1]]`; the rest as for `mix_words`."""
    some = len(valid) > 0
    for i in range(len(lanes)):
        first, second, length = lanes[i, 0], lanes[i, 1], _NULL
        if not some or valid[i] != 0:
            at, end = ends[i], ends[i + 1]
            length = np.uint64(end - at)
            while at + 8 <= end:
                word = load_word(data, at)
                first, second = _mixed(first ^ word), _second(second, word)
                at += 8
            word = _last_word(data, at, end)
            first, second = _mixed(first ^ word), _second(second, word)
        lanes[i, 0] = _mixed(_first(first, length))
        lanes[i, 1] = _mixed(_second(second, length))
