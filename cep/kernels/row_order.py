"""Whole rows as bytes that compare as the rows do, column by column: what orders rows that tie on event time and origin.

Of each column one byte, 0 for NULL and 1 for a value, and then

- fixed width: the 8 bytes of an int64 that sorts as the value does, most significant first, its sign flipped (0 for NULL);
- text: its bytes, each 0 followed by 255, and two 0 at the end (nothing for NULL). So a prefix sorts before what it begins.

Every function takes one column of n rows. `at`, int64[n], is where in `body` the column of each row begins; it is moved behind it.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import inlined, kernel

FIXED_BYTES = 9
_ESCAPE = 255
_SIGN = np.uint64(1 << 63)


@kernel("void(const uint8[:], const int64[:], const int32[:], const uint8[:], int64[:])")
def add_text_sizes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, valid: np.ndarray, sizes: np.ndarray) -> None:
    """Adds the bytes that each text takes."""
    for i in range(len(starts)):
        sizes[i] += 1
        if valid[i]:
            sizes[i] += lengths[i] + 2
            for k in range(starts[i], starts[i] + lengths[i]):
                sizes[i] += data[k] == 0


@kernel("void(const int64[:], const uint8[:], int64[:], uint8[:])")
def put_fixed(words: np.ndarray, valid: np.ndarray, at: np.ndarray, body: np.ndarray) -> None:
    for i in range(len(words)):
        to = at[i]
        body[to] = 1 if valid[i] else 0
        word = np.uint64(words[i]) ^ _SIGN if valid[i] else np.uint64(0)
        for k in range(8):
            body[to + 8 - k] = word & np.uint64(255)
            word >>= np.uint64(8)
        at[i] = to + FIXED_BYTES


@kernel("void(const uint8[:], const int64[:], const int32[:], const uint8[:], int64[:], uint8[:])")
def put_text(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, valid: np.ndarray, at: np.ndarray, body: np.ndarray) -> None:
    for i in range(len(starts)):
        to = at[i] + 1
        body[at[i]] = 1 if valid[i] else 0
        if valid[i]:
            for k in range(starts[i], starts[i] + lengths[i]):
                body[to] = data[k]
                to += 1
                if data[k] == 0:
                    body[to] = _ESCAPE
                    to += 1
            body[to], body[to + 1] = 0, 0
            to += 2
        at[i] = to


@kernel("void(const uint8[:], int64[:], int64[:], uint8[:])")
def get_fixed(body: np.ndarray, at: np.ndarray, words: np.ndarray, valid: np.ndarray) -> None:
    for i in range(len(at)):
        valid[i] = body[at[i]]
        word = np.uint64(0)
        for k in range(1, FIXED_BYTES):
            word = (word << np.uint64(8)) | np.uint64(body[at[i] + k])
        words[i] = np.int64(word ^ _SIGN)
        at[i] += FIXED_BYTES


@inlined
def _ends(body: np.ndarray, place: int) -> bool:
    return bool(body[place] == 0 and body[place + 1] == 0)


@kernel("int64(const uint8[:], int64[:], int32[:], int64[:], uint8[:], uint8[:])")
def get_text(body: np.ndarray, at: np.ndarray, lengths: np.ndarray, starts: np.ndarray, valid: np.ndarray, data: np.ndarray) -> int:
    """Puts the texts into `data`, which has room for all of `body`. Returns how many bytes they are."""
    used = 0
    for i in range(len(at)):
        valid[i], place = body[at[i]], at[i] + 1
        starts[i] = used
        if valid[i]:
            while not _ends(body, place):
                data[used] = body[place]
                used += 1
                place += 2 if body[place] == 0 else 1
            place += 2
        lengths[i] = used - starts[i]
        at[i] = place
    return used
