"""Blocks: what a group remembers that has no fixed size, in the arena of its table (`cep.kernels.tables.table`). Rules:

- A block is a run of bytes of `arena` and three words of an entry: where it begins, its size in bytes, and a count. All three are
  0 for a block of nothing.
- It is made of *slots* of whole words, or (`cep.kernels.states.registers`) of bytes. A block that is full is copied to one of twice the
  size; the old one is left behind, so that what is left behind is less than what is in use.
- `..._room` says how many bytes of arena the function it belongs to may take. The generated loop asks before it changes
  anything of a row, and goes on with the row once there is room.
- A long text in a slot is two words as in an entry; its bytes lie in the arena, outside of the block.
- `..._merge` makes room once for all that comes, since `..._merge_room` has asked for one block.
- What is merged in (`other`, words at `s`, its arena) may be a block without room to spare, out of a partial row: it is walked, nothing
  is looked up in it.

Here are two maps with open addressing, of slots of two words of which at most 3 in 4 are taken. A slot is free where its second
word is NULL_WORD. Sets of numbers have slots of one word (`cep.kernels.states.numbers`).

    set       the words of a key (`cep.kernels.tables.keys`)
    tally     a number, and how often it was met
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import copy_bytes, load_word, prefetch, store_word
from cep.kernels.states.numbers import NO_NUMBER, NUMBER
from cep.kernels.tables.hashing import hash64, is_long
from cep.kernels.tables.keys import long_length, same_bytes
from cep.kernels.tables.table import LONG_WORD, NULL_WORD, is_null, offset_of, put_bytes, text_room

BLOCK_WORDS = 3
#: Bytes of a slot of a map.
PAIR = 16
_SLOTS_MIN = 4
_0, _32 = np.uint64(0), np.uint64(32)


# --- maps ------------------------------------------------------------------------------------------------------------


@inlined
def _slots_for(slots: int, count: int) -> int:
    """How many slots a map of now `slots` needs for `count`."""
    slots = max(slots, _SLOTS_MIN)
    while 4 * count > 3 * slots:
        slots *= 2
    return slots


@inlined
def map_room(words: np.ndarray, at: int, more: int) -> int:
    """Bytes of arena for `more` new slots, without their texts."""
    slots = words[at + 1] // PAIR
    wanted = _slots_for(slots, words[at + 2] + more)
    return wanted * PAIR if wanted > slots else 0


@inlined
def _reserve(words: np.ndarray, at: int, arena: np.ndarray, used: int, more: int, tally: bool) -> int:
    room = map_room(words, at, more)
    if room == 0:
        return used
    for place in range(used, used + room, PAIR):
        store_word(arena, place, _0)
        store_word(arena, place + 8, NULL_WORD)
    old, size = words[at], words[at + 1]
    words[at], words[at + 1] = used, room
    for place in range(old, old + size, PAIR):
        w0, w1 = load_word(arena, place), load_word(arena, place + 8)
        if not is_null(w1):
            free = _first(used, room, w0, w1, tally)
            while not is_null(load_word(arena, free + 8)):
                free = _next(used, room, free)
            store_word(arena, free, w0)
            store_word(arena, free + 8, w1)
    return used + room


@inlined
def _first(start: int, size: int, w0: Any, w1: Any, tally: bool) -> Any:
    """Where the slot of a key is looked for first. The high bits of the hash have chosen the group, the low ones the instance."""
    hash_ = hash64(w0, _0 if tally else w1)
    return start + (np.int64(hash_ >> _32) & (size // PAIR - 1)) * PAIR


@inlined
def _next(start: int, size: int, place: int) -> int:
    return start + ((place - start + PAIR) & (size - 1))


@inlined
def set_add(words: np.ndarray, at: int, arena: np.ndarray, used: int, w0: Any, w1: Any, data: np.ndarray) -> Any:
    """Adds a key unless it is there. Returns the bytes of arena in use after."""
    used = _reserve(words, at, arena, used, 1, False)
    start, size = words[at], words[at + 1]
    place = _first(start, size, w0, w1, False)
    while True:
        found = load_word(arena, place + 8)
        if is_null(found):
            break
        if load_word(arena, place) == w0:
            if not is_long(w1):
                if found == w1:
                    return used
            elif is_long(found) and same_bytes(arena, found, data, w1):
                return used
        place = _next(start, size, place)
    words[at + 2] += 1
    store_word(arena, place, w0)
    if is_long(w1):
        store_word(arena, place + 8, LONG_WORD | np.uint64(used + 4))
        return put_bytes(arena, used, data, w1, 1)
    store_word(arena, place + 8, w1)
    return used


@inlined
def set_ahead(words: np.ndarray, at: int, arena: np.ndarray, w0: Any, w1: Any) -> None:
    """Asks for the slot at which `set_add` will begin; of a set of nothing that is any place, which need not exist."""
    prefetch(arena, _first(words[at], words[at + 1], w0, w1, False))


@inlined
def set_room(words: np.ndarray, at: int, w1: Any, data: np.ndarray) -> Any:
    return map_room(words, at, 1) + text_room(w1, data)


@inlined
def set_merge_room(words: np.ndarray, at: int, other: np.ndarray, s: int, other_arena: np.ndarray) -> Any:
    return map_room(words, at, other[s + 2]) + texts_room(other, s, other_arena, other[s + 1], PAIR, 8)


@inlined
def set_merge(words: np.ndarray, at: int, arena: np.ndarray, used: int, other: np.ndarray, s: int, other_arena: np.ndarray) -> int:
    used = _reserve(words, at, arena, used, other[s + 2], False)
    for place in range(other[s], other[s] + other[s + 1], PAIR):
        w1 = load_word(other_arena, place + 8)
        if not is_null(w1):
            used = set_add(words, at, arena, used, load_word(other_arena, place), w1, other_arena)
    return used


@inlined
def tally_add(words: np.ndarray, at: int, arena: np.ndarray, used: int, number: Any, count: Any) -> int:
    """Counts `number`, an int64, `count` times. Returns the bytes of arena in use after."""
    used = _reserve(words, at, arena, used, 1, True)
    start, size, w0 = words[at], words[at + 1], np.uint64(number)
    place = _first(start, size, w0, _0, True)
    while True:
        found = load_word(arena, place + 8)
        if is_null(found):
            words[at + 2] += 1
            store_word(arena, place, w0)
            store_word(arena, place + 8, np.uint64(count))
            return used
        if load_word(arena, place) == w0:
            store_word(arena, place + 8, found + np.uint64(count))
            return used
        place = _next(start, size, place)


@inlined
def tally_merge(words: np.ndarray, at: int, arena: np.ndarray, used: int, other: np.ndarray, s: int, other_arena: np.ndarray) -> int:
    used = _reserve(words, at, arena, used, other[s + 2], True)
    for place in range(other[s], other[s] + other[s + 1], PAIR):
        count = load_word(other_arena, place + 8)
        if not is_null(count):
            used = tally_add(words, at, arena, used, np.int64(load_word(other_arena, place)), np.int64(count))
    return used


# --- out of tables and into them -------------------------------------------------------------------------------------


@inlined
def texts_room(words: np.ndarray, at: int, arena: np.ndarray, size: int, slot: int, text: int) -> Any:
    """Bytes of arena for copies of the long texts in the first `size` bytes of a block of slots of `slot` bytes, with a second word of
    text at byte `text`."""
    room = 0
    for place in range(words[at], words[at] + size, slot):
        room += text_room(load_word(arena, place + text), arena)
    return room


@inlined
def _is_free(arena: np.ndarray, place: int, slot: int) -> Any:
    return load_word(arena, place) == NO_NUMBER if slot == NUMBER else is_null(load_word(arena, place + 8))


@inlined
def _size(words: np.ndarray, at: int, slot: int, free: int) -> int:
    """Bytes of a block that mean something: all, or those of as many slots as it counts."""
    return words[at + 2] * slot if slot and not free else words[at + 1]  # type: ignore[no-any-return]  # a conversion costs


@kernel("void(const int64[:], int64, int64, const uint8[:], int64, int64, int64, int32[:])")
def block_lengths(words: np.ndarray, at: int, stride: int, arena: np.ndarray, slot: int, text: int, free: int, lengths: np.ndarray) -> None:
    """How many bytes `write_blocks` will write of the n blocks at `words[at]`, `words[at + stride]`, ...: slots of `slot` bytes (0: the
    block as it is), with a second word of text at byte `text` (-1: none); `free`: may slots be free?"""
    for i in range(len(lengths)):
        first, size = words[at + i * stride], _size(words, at + i * stride, slot, free)
        length = 0 if slot else size
        for k in range(first, first + (size if slot else 0), slot or 1):
            if not (free and _is_free(arena, k, slot)):
                w1 = load_word(arena, k + text) if text >= 0 else _0
                length += slot + (long_length(arena, w1) + 4 if is_long(w1) else 0)
        lengths[i] = length


@kernel("void(const int64[:], int64, int64, const uint8[:], int64, int64, int64, const int64[:], uint8[:])")
def write_blocks(
    words: np.ndarray, at: int, stride: int, arena: np.ndarray, slot: int, text: int, free: int, starts: np.ndarray, out: np.ndarray
) -> None:
    """Writes the blocks that `block_lengths` measured at `starts`: their slots that are taken, then the long texts, whose offsets
    count from the beginning of what is written."""
    for i in range(len(starts)):
        first, size, to = words[at + i * stride], _size(words, at + i * stride, slot, free), starts[i]
        if slot == 0:
            copy_bytes(arena, first, out, to, size)
        else:
            taken = 0
            for k in range(first, first + size, slot):
                taken += 0 if free and _is_free(arena, k, slot) else slot
            texts = to + taken
            for k in range(first, first + size, slot):
                if not (free and _is_free(arena, k, slot)):
                    copy_bytes(arena, k, out, to, slot)
                    w1 = load_word(arena, k + text) if text >= 0 else _0
                    if is_long(w1):
                        length = long_length(arena, w1) + 4
                        copy_bytes(arena, offset_of(w1), out, texts, length)
                        store_word(out, to + text, LONG_WORD | np.uint64(texts - starts[i]))
                        texts += length
                    to += slot


@kernel("void(uint8[:], const int32[:], int64, int64, int64, int64[:, :])")
def place_blocks(body: np.ndarray, offsets: np.ndarray, first: int, slot: int, text: int, words: np.ndarray) -> None:
    """Makes blocks of what `write_blocks` wrote: the n that begin and end at `offsets`, n + 1 places in `body`, which will be at `first`
    in an arena. Of their words, int64[n, 3], the first two are made; long texts get their place in that arena."""
    for i in range(len(words)):
        start, end = offsets[i], offsets[i + 1]
        k = start
        while text >= 0 and k < end:
            w1 = load_word(body, k + text)
            if is_long(w1):
                at = start + offset_of(w1)
                end = min(end, at)  # the first long text begins where the slots end
                store_word(body, k + text, LONG_WORD | np.uint64(first + at))
            k += slot
        words[i, 0], words[i, 1] = first + start, end - start
