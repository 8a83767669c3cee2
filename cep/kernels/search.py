"""Parts of texts, found where they lie: between separators, and by tables of regular expressions (`cep.compile.chain.patterns`).

What is found is a start and a length in the bytes of the text: nothing is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import BLOCK, equal_bytes, lowest_bit, match_block

_ZERO, _ONE = np.uint64(0), np.uint64(1)

#: A table of a pattern: the bits of an entry that say the next state; those above say which marks are set before the byte.
STATE_BITS = 16
#: The marks: the group begins, the group ends.
BEGINS, ENDS = 1, 2
#: States in which a search begins: at the first byte of a text, and at a later one.
AT_FIRST, LATER = 0, 1
#: In place of the byte with which each match begins, where there is no such byte.
NO_BYTE = -1
#: A row may be looked at in so many steps, and so many for each byte, however often a match breaks off.
_STEPS, _STEPS_A_BYTE = 64, 8


@inlined
def find_byte(data: np.ndarray, at: Any, stop: Any, byte: Any) -> Any:
    """Where `byte` is first in `data[at:stop]`; `stop` where it is not."""
    while at < stop and at + BLOCK <= len(data):
        bits = match_block(data, at, byte)
        if bits != _ZERO:
            return min(at + lowest_bit(bits), stop)
        at += BLOCK
    while at < stop and data[at] != byte:
        at += 1
    return min(at, stop)


@inlined
def find_text(data: np.ndarray, at: Any, stop: Any, wanted: np.ndarray) -> Any:
    """Where `wanted`, of at least one byte, is first in `data[at:stop]`; `stop` where it is not."""
    last = stop - len(wanted)
    at = find_byte(data, at, stop, wanted[0])
    while at <= last and not equal_bytes(data, at, wanted, 0, len(wanted)):
        at = find_byte(data, at + 1, stop, wanted[0])
    return at if at <= last else stop


@kernel("int64(const uint8[:], const int64[:], const int32[:], const uint8[:], int64, int64[:], int32[:], uint8[:])", on_demand=True)
def find_parts(
    data: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    separator: np.ndarray,
    number: int,
    part_starts: np.ndarray,
    part_lengths: np.ndarray,
    found: np.ndarray,
) -> int:
    """Part `number`, from 0, between separators of each text; how many texts have one. All arrays but `separator` have n values."""
    count = 0
    for i in range(len(starts)):
        at, stop = starts[i], starts[i] + np.int64(lengths[i])
        left = number if number >= 0 else np.int64(lengths[i]) + 1
        end = find_text(data, at, stop, separator)
        while left > 0 and end < stop:
            at = end + len(separator)
            end = find_text(data, at, stop, separator)
            left -= 1
        part_starts[i], part_lengths[i], found[i] = at, end - at, left == 0
        count += left == 0
    return count


_TABLE = "const int32[:, :], const int32[:], const int32[:], const uint8[:], int64"


@kernel(f"int64(const uint8[:], const int64[:], const int32[:], {_TABLE}, int64[:], int32[:], uint8[:])", on_demand=True)
def find_matches(
    data: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    table: np.ndarray,
    within: np.ndarray,
    at_end: np.ndarray,
    firsts: np.ndarray,
    lead: int,
    group_starts: np.ndarray,
    group_lengths: np.ndarray,
    found: np.ndarray,
) -> int:
    """The group of the first match in each text: of those that begin first the one that the pattern prefers; how many texts have one.
    -1 where a text takes too many steps, since matches break off late: this is not for such texts.

    Args:
        table: int32[states, 256], next state and marks of a byte; -1: the match breaks off.
        within, at_end: int32[states], the marks of a match that is over before the next byte, or at the end of the text; -1: there is none.
        firsts: uint8[256], may a match begin with the byte, behind the first one of a text?
        lead: the only such byte, or NO_BYTE.
    """
    count = 0
    for i in range(len(starts)):
        first, stop = starts[i], starts[i] + np.int64(lengths[i])
        at, state, left = first, AT_FIRST, _STEPS + _STEPS_A_BYTE * (stop - first)
        begin, end, over = first, first, False
        while True:
            # One match, as far as it goes; what is remembered of it is the last place where it might be over.
            place, from_, to = at, first, first
            while place < stop:
                if within[state] >= 0:
                    over = True
                    begin, end = place if within[state] & BEGINS else from_, place if within[state] & ENDS else to
                entry = table[state, data[place]]
                if entry < 0:
                    break
                from_ = place if (entry >> STATE_BITS) & BEGINS else from_
                to = place if (entry >> STATE_BITS) & ENDS else to
                state = entry & ((1 << STATE_BITS) - 1)
                place += 1
            if place == stop and at_end[state] >= 0:
                over = True
                begin, end = place if at_end[state] & BEGINS else from_, place if at_end[state] & ENDS else to
            left -= place - at
            if over or at >= stop:
                break
            if left < 0:
                return -1
            at, state = at + 1, LATER
            if lead != NO_BYTE:
                at = find_byte(data, at, stop, np.uint8(lead))
            else:
                while at < stop and not firsts[data[at]]:
                    at += 1
        group_starts[i], group_lengths[i], found[i] = begin, end - begin, over
        count += over
    return count
