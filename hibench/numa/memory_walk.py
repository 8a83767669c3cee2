"""A chain of cache lines in random order, and the loop that walks it."""

from __future__ import annotations

import mmap

import numpy as np

from cep.kernels.jit import kernel

LINE_BYTES = 64
_LINE_WORDS = LINE_BYTES // 8


def walk_of(lines: int) -> np.ndarray:
    """int64[lines * 8]: the first word of each line is the place of the next line; one round visits all of them.

    Its pages are fresh ones: what an earlier one has given back to the heap lies where that was bound to.
    """
    order = np.random.default_rng(7).permutation(lines) * _LINE_WORDS
    chain = np.frombuffer(mmap.mmap(-1, lines * LINE_BYTES), np.int64)
    chain.fill(0)  # pages that are only read would be nowhere
    chain[order] = np.roll(order, -1)
    return chain


@kernel("int64(const int64[:], int64, int64)")
def walk(chain: np.ndarray, place: int, steps: int) -> int:
    """The place after so many steps."""
    for _ in range(steps):
        place = chain[place]
    return place
