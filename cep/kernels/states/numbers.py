"""A set of int64 in a block (`cep.kernels.blocks`): a map with open addressing, of slots of one word of which at most 3 in 4 are taken.

A slot is free where it is NO_NUMBER. That is a number like any other, which the set cannot keep in a slot: it is in the set where the
block counts one more than there are slots taken. Adding it looks at all slots, which happens to one number of 2^64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined
from cep.kernels.machine.memory import load_word, prefetch, store_word
from cep.kernels.tables.hashing import hash64

#: Bytes of a slot.
NUMBER = 8
NO_NUMBER = np.uint64(0x9E6C63D0876A9A4D)
_SLOTS_MIN = 4
_0, _32 = np.uint64(0), np.uint64(32)


@inlined
def numbers_room(words: np.ndarray, at: int, more: int) -> int:
    """Bytes of arena for `more` new numbers; 0 where there is room."""
    slots, count = max(words[at + 1] // NUMBER, _SLOTS_MIN), words[at + 2] + more
    while 4 * count > 3 * slots:
        slots *= 2
    return slots * NUMBER if slots * NUMBER > words[at + 1] else 0


@inlined
def _reserve(words: np.ndarray, at: int, arena: np.ndarray, used: int, more: int) -> int:
    room = numbers_room(words, at, more)
    if room == 0:
        return used
    for place in range(used, used + room, NUMBER):
        store_word(arena, place, NO_NUMBER)
    old, size = words[at], words[at + 1]
    words[at], words[at + 1] = used, room
    for place in range(old, old + size, NUMBER):
        number = load_word(arena, place)
        if number != NO_NUMBER:
            free = _first(used, room, number)
            while load_word(arena, free) != NO_NUMBER:
                free = _next(used, room, free)
            store_word(arena, free, number)
    return used + room


@inlined
def _first(start: int, size: int, number: Any) -> Any:
    """As in `cep.kernels.blocks`."""
    return start + (np.int64(hash64(number, _0) >> _32) & (size // NUMBER - 1)) * NUMBER


@inlined
def _next(start: int, size: int, place: int) -> int:
    return start + ((place - start + NUMBER) & (size - 1))


@inlined
def numbers_add(words: np.ndarray, at: int, arena: np.ndarray, used: int, number: Any) -> int:
    """Adds a number, uint64, unless it is there. Returns the bytes of arena in use after."""
    used = _reserve(words, at, arena, used, 1)
    start, size = words[at], words[at + 1]
    if number == NO_NUMBER:
        words[at + 2] = _taken(arena, start, size) + 1
        return used
    place = _first(start, size, number)
    while True:
        found = load_word(arena, place)
        if found == number:
            return used
        if found == NO_NUMBER:
            store_word(arena, place, number)
            words[at + 2] += 1
            return used
        place = _next(start, size, place)


@inlined
def _taken(arena: np.ndarray, start: int, size: int) -> int:
    taken = 0
    for place in range(start, start + size, NUMBER):
        taken += load_word(arena, place) != NO_NUMBER
    return taken


@inlined
def numbers_ahead(words: np.ndarray, at: int, arena: np.ndarray, number: Any) -> None:
    """Asks for the slot at which `numbers_add` will begin; of a set of nothing that is any place, which need not exist."""
    prefetch(arena, _first(words[at], words[at + 1], number))


@inlined
def numbers_merge(words: np.ndarray, at: int, arena: np.ndarray, used: int, other: np.ndarray, s: int, other_arena: np.ndarray) -> int:
    used = _reserve(words, at, arena, used, other[s + 2])
    taken = 0
    for place in range(other[s], other[s] + other[s + 1], NUMBER):
        number = load_word(other_arena, place)
        if number != NO_NUMBER:
            used = numbers_add(words, at, arena, used, number)
            taken += 1
    return numbers_add(words, at, arena, used, NO_NUMBER) if taken < other[s + 2] else used
