"""Text as bytes: records, their fields, UTF-8, gathering.

A record is looked at in blocks of 64 bytes, beginning with its first: one compare gives all separators of a block as
bits, another its line ends. [ran, time and address of records of 141 bytes, ns of CPU a record: byte by byte to the
second separator and libc's `memchr` to the line end 33; bits and `memchr` 20; bits for both 11; four blocks at once 12;
all line ends of a megabyte first, then the fields 13. Checks and error paths of the generated kernel add 4.] Blocks may
reach behind the line end: READABLE bytes there must be readable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import BLOCK, copy_bytes, high_block, load_word, lowest_bit, match_block, store_word

NEWLINE: Any = np.uint8(10)
RETURN: Any = np.uint8(13)

#: Bytes behind a record that are looked at, whatever they are.
READABLE = 2 * BLOCK

#: What may be wrong with a field, 0 if nothing is.
EMPTY, WRONG, RANGE = 1, 2, 3

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_HIGH_BITS = np.uint64(0x8080808080808080)


@inlined
def scan(data: np.ndarray, at: int, separator: Any) -> tuple[Any, Any, Any]:
    """The 64 bytes at `at` as bits of separators and line ends, of line ends, of bytes above 127."""
    newlines = match_block(data, at, NEWLINE)
    return match_block(data, at, separator) | newlines, newlines, high_block(data, at)


@inlined
def next_mark(data: np.ndarray, separator: Any, block: int, marks: Any, newlines: Any, highs: Any) -> tuple[int, Any, int, Any, Any, Any]:
    """The next separator or line end: where it is, if it is a line end, and the bits that remain of its block.

    A line end remains for ever: what is asked for behind it is missing.
    """
    while marks == _ZERO:
        block += BLOCK
        marks, newlines, higher = scan(data, block, separator)
        highs |= higher
    lowest = marks & (_ZERO - marks)
    ended = lowest & newlines
    return block + lowest_bit(marks), ended, block, marks ^ lowest ^ ended, newlines, highs


@inlined
def line_end(data: np.ndarray, block: int, newlines: Any) -> int:
    """Where the first line end is, in `newlines`, the bits that remain of the block at `block`, or behind.

    Two blocks at a time, without a branch on which of them has it: of lines of about two blocks it cannot be told in advance. [ran, a third
    of the lines a block shorter than the others, ns a record of time and address: a block at a time 16.9; so 14.8]
    """
    at, found = block, newlines
    while found == _ZERO:
        first, second = match_block(data, block + BLOCK, NEWLINE), match_block(data, block + 2 * BLOCK, NEWLINE)
        behind = np.uint64(first == _ZERO)
        at, found = block + BLOCK + int(behind) * BLOCK, first | (second & (_ZERO - behind))
        block += 2 * BLOCK
    return at + lowest_bit(found)


@inlined
def field_end(data: np.ndarray, start: int, mark: int, ended: Any) -> int:
    """End of the field from `start` to the mark that `next_mark` found: '\\r' before a line end is no part of it."""
    if ended != _ZERO and mark > start and data[mark - 1] == RETURN:
        return mark - 1
    return mark


@inlined
def plain_lines(
    data: np.ndarray, at: int, end: int, separator: Any, starts: np.ndarray, lengths: np.ndarray, records: np.ndarray, row: int, seen: int
) -> tuple[int, int]:
    """Takes lines of `data[at:end]` as one field each, up to the block in which one has a separator, '\\r' or a byte above 127, or that
    reaches behind `end`, and while a block full of lines has room; where the next line begins, and the row it would be.

    Blocks follow each other whatever lines are in them, and no jump depends on where a line ends. [ran, lines of 133 bytes, ns of CPU a
    line: field by field 10.7; so 4.6]
    """
    block = at
    while block + BLOCK <= end and row + BLOCK < len(records):
        newlines = match_block(data, block, NEWLINE)
        if (match_block(data, block, separator) | match_block(data, block, RETURN) | high_block(data, block)) != _ZERO:
            break
        # The first line end, if there is one: if not, what is written here is written again.
        stop = block + lowest_bit(newlines)
        starts[row], lengths[row], records[row] = at, stop - at, seen
        found = int(newlines != _ZERO)
        at += found * (stop + 1 - at)
        row, seen = row + found, seen + found
        newlines &= newlines - _ONE
        while newlines != _ZERO:
            stop = block + lowest_bit(newlines)
            starts[row], lengths[row], records[row] = at, stop - at, seen
            at, row, seen = stop + 1, row + 1, seen + 1
            newlines &= newlines - _ONE
        block += BLOCK
    return at, row


@inlined
def has_return(data: np.ndarray, at: int, stop: int) -> bool:
    """Is there a '\\r' in `data[at:stop]`?"""
    found = _ZERO
    while at + BLOCK <= stop:
        found |= match_block(data, at, RETURN)
        at += BLOCK
    return bool((found | match_block(data, at, RETURN) & ((_ONE << np.uint64(stop - at)) - _ONE)) != _ZERO)


@inlined
def text_error(data: np.ndarray, start: int, stop: int) -> int:
    """WRONG if `data[start:stop]` is not UTF-8, else 0."""
    at = start
    while at + 8 <= stop and (load_word(data, at) & _HIGH_BITS) == _ZERO:
        at += 8
    while at < stop:
        length = _utf8_length(data, at, stop)
        if length == 0:
            return WRONG
        at += length
    return 0


@inlined
def _utf8_length(data: np.ndarray, at: int, stop: int) -> int:
    """Bytes of the code point at `at`, 0 if there is none: Unicode 15, table 3-7."""
    first = int(data[at])
    if first < 0x80:
        return 1
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or at + length > stop:
        return 0
    second = int(data[at + 1])
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    good = low <= second <= high
    for k in range(2, length):
        good = good and (data[at + k] & 0xC0) == 0x80
    return length if good else 0


@inlined
def copy_text(data: np.ndarray, start: Any, out: np.ndarray, to: Any, length: Any) -> None:
    """`copy_bytes` for short texts: by words that overlap."""
    if length >= 8:
        for k in range(0, length - 8, 8):
            store_word(out, to + k, load_word(data, start + k))
        store_word(out, to + length - 8, load_word(data, start + length - 8))
    else:
        for k in range(length):
            out[to + k] = data[start + k]


@kernel("void(const uint8[:], const int64[:], const int32[:], uint8[:])")
def gather(data: np.ndarray, starts: np.ndarray, offsets: np.ndarray, body: np.ndarray) -> None:
    """Copies the bytes of text i from `data[starts[i]]` on to `body[offsets[i] : offsets[i + 1]]`, for n starts."""
    for i in range(len(starts)):
        start, to = starts[i], offsets[i]
        length = np.int64(offsets[i + 1] - to)
        if length <= 16 and 0 <= start <= len(data) - 16 and to <= len(body) - 16:
            # What is written behind the text is where the next one goes.
            store_word(body, to, load_word(data, start))
            store_word(body, to + 8, load_word(data, start + 8))
        else:
            copy_bytes(data, start, body, to, length)
