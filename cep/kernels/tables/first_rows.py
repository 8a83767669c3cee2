"""The first rows of a group in order, at most `limit` of them, in a block (`cep.kernels.blocks`) sorted ascending.

A row is a slot of words that sort as the row does, one after the other; where `text` is set the last two are a text, whose bytes
if it is long are in the arena with room for their double. A row that is pushed out leaves that room to the one that comes. Rows
mostly come in order and go to the end; one out of order moves those behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import copy_bytes, load_word, store_word
from cep.kernels.tables.hashing import is_long
from cep.kernels.tables.keys import long_length
from cep.kernels.tables.table import LONG_WORD, NULL_WORD, compare_text, offset_of, put_bytes

_ROWS_MIN = 4
_4 = np.uint64(4)


@inlined
def rows_room(words: np.ndarray, at: int, more: int, slot: int, limit: int) -> int:
    """Bytes of arena for `more` rows, slots of `slot` bytes, without their texts; 0 where there is room."""
    size = words[at + 1]
    wanted, least = max(size, _ROWS_MIN * slot), min(words[at + 2] + more, limit) * slot
    while wanted < least:
        wanted *= 2
    wanted = min(wanted, limit * slot)
    return wanted if wanted > size else 0


@inlined
def rows_reserve(words: np.ndarray, at: int, arena: np.ndarray, used: int, more: int, slot: int, limit: int) -> int:
    """Makes room for `more` rows. Returns the bytes of arena in use after."""
    room = rows_room(words, at, more, slot, limit)
    if room == 0:
        return used
    copy_bytes(arena, words[at], arena, used, words[at + 1])
    words[at], words[at + 1] = used, room
    return used + room


@inlined
def _compare(row: tuple[int, ...], arena: np.ndarray, place: int, text: bool, data: np.ndarray) -> Any:
    """-1, 0 or 1: is `row` before, at or behind the one at `place`?"""
    plain = len(row) - 2 if text else len(row)
    for k in range(plain):
        word = np.int64(load_word(arena, place + 8 * k))
        if row[k] != word:
            return -1 if row[k] < word else 1
    if not text:
        return 0
    w0, w1 = load_word(arena, place + 8 * plain), load_word(arena, place + 8 * plain + 8)
    return compare_text(np.uint64(row[-2]), np.uint64(row[-1]), data, w0, w1, arena)


@inlined
def rows_add(
    words: np.ndarray, at: int, arena: np.ndarray, used: int, limit: int, row: tuple[int, ...], text: bool, data: np.ndarray
) -> Any:
    """Adds `row`, whose long text is in `data`. Returns the bytes of arena in use after."""
    slot, count = 8 * len(row), words[at + 2]
    if count == limit and _compare(row, arena, words[at] + (count - 1) * slot, text, data) >= 0:
        return used
    used = rows_reserve(words, at, arena, used, 1, slot, limit)
    left = NULL_WORD
    if count == limit:
        count -= 1
        left = load_word(arena, words[at] + count * slot + slot - 8)
    place = words[at] + count * slot
    while place > words[at] and _compare(row, arena, place - slot, text, data) < 0:
        copy_bytes(arena, place - slot, arena, place, slot)
        place -= slot
    for k in range(len(row)):
        store_word(arena, place + 8 * k, np.uint64(row[k]))
    words[at + 2] = count + 1
    if text and is_long(np.uint64(row[-1])):
        return _put(arena, used, place + slot - 8, left, np.uint64(row[-1]), data)
    return used


@inlined
def _put(arena: np.ndarray, used: int, place: int, left: Any, w1: Any, data: np.ndarray) -> Any:
    """Puts a long text where `left` was if that has room for it."""
    length = long_length(data, w1)
    if is_long(left) and long_length(arena, left - _4) >= length:  # 4 before a length is what was reserved
        copy_bytes(data, offset_of(w1), arena, offset_of(left), length + 4)
        store_word(arena, place, left)
        return used
    store_word(arena, place, LONG_WORD | np.uint64(used + 4))
    return put_bytes(arena, used, data, w1, 2)


@kernel("void(const int64[:], int64, int64, const uint8[:], int64, int64[:, :])")
def take_rows(words: np.ndarray, at: int, stride: int, arena: np.ndarray, slot: int, last: np.ndarray) -> None:
    """The last two words of each row in the blocks at `words[at]`, `words[at + stride]`, ..., in order: int64[rows, 2]."""
    taken, place = 0, at
    while taken < len(last):
        for k in range(words[place], words[place] + words[place + 2] * slot, slot):
            last[taken, 0] = np.int64(load_word(arena, k + slot - 16))
            last[taken, 1] = np.int64(load_word(arena, k + slot - 8))
            taken += 1
        place += stride
