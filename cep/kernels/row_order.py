"""Whole rows as bytes that compare as the rows do, column by column: what orders rows that tie on event time and origin.

Of each column one byte, 0 for NULL and 1 for a value, and then

- fixed width: the 8 bytes of an int64 that sorts as the value does, most significant first, its sign flipped (0 for NULL);
- text and lists: the bytes, each 0 followed by 255, and two 0 at the end (nothing for NULL). So a prefix sorts before what it begins.

Every function takes one column of n rows. `at`, int64[n], is where in `body` the column of each row begins; it is moved behind it.
A list (`cep.kernels.states.lists`) is the bytes of its elements, each as if it were a column of a row.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.column import Column
from cep.kernels.jit import inlined, kernel
from cep.model.schema import DataType

FIXED_BYTES = 9
_ESCAPE = 255
_SIGN = np.uint64(1 << 63)
_MAGNITUDE, _NAN = 2**63 - 1, 0x7FF8 << 48


def add_sizes(column: Column, sizes: np.ndarray) -> None:
    """Adds to int64[n] the bytes that each value takes."""
    if column.type.is_bytes:
        add_text_sizes(*_text(column), sizes)
    else:
        sizes += FIXED_BYTES


def put(column: Column, at: np.ndarray, body: np.ndarray) -> None:
    """Writes a column."""
    if column.type.is_bytes:
        put_ordered_text(*_text(column), at, body)
    else:
        put_fixed(_words(column), _valid(column), at, body)


def get(type_: DataType, body: np.ndarray, at: np.ndarray, size: int) -> Column:
    """Reads a column of `type_`; `size` is no less than the bytes it takes."""
    if not type_.is_bytes:
        return _get_fixed(type_, body, at)
    n = len(at)
    lengths, starts, valid = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.uint8)
    data = np.empty(size + 16, np.uint8)
    used = int(get_text(body, at, lengths, starts, valid, data))
    return Column(type_, lengths, None if valid.all() else valid, data[: used + 16], starts)


def _get_fixed(type_: DataType, body: np.ndarray, at: np.ndarray) -> Column:
    words, valid = np.empty(len(at), np.int64), np.empty(len(at), np.uint8)
    get_fixed(body, at, words, valid)
    match type_.name:
        case "float64":
            words = from_ordered(words)
        case "int32":
            words = words.astype(np.int32)
        case "bool":
            words = words.astype(np.uint8)
    return Column(type_, words, None if valid.all() else valid)


def _text(column: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    assert column.data is not None and column.starts is not None
    return column.data, np.ascontiguousarray(column.starts), np.ascontiguousarray(column.values), _valid(column)


def _valid(column: Column) -> np.ndarray:
    return np.ones(len(column), np.uint8) if column.valid is None else np.ascontiguousarray(column.valid)


def _words(column: Column) -> np.ndarray:
    """int64[n] that sorts as the values do."""
    if column.type.name == "float64":
        return ordered_values(np.ascontiguousarray(column.values))
    return column.values.astype(np.int64)


def ordered_values(values: np.ndarray) -> np.ndarray:
    """int64[n] that sorts as float64[n] does, -0.0 before 0.0 and one NaN behind all."""
    bits = np.where(np.isnan(values), _NAN, values.view(np.int64))
    out: np.ndarray = bits ^ ((bits >> 63) & _MAGNITUDE)
    return out


def from_ordered(values: np.ndarray) -> np.ndarray:
    """float64[n] from int64[n] that `ordered_values` has made."""
    bits: np.ndarray = values ^ ((values >> 63) & _MAGNITUDE)
    return bits.view(np.float64)


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
def put_ordered_text(
    data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, valid: np.ndarray, at: np.ndarray, body: np.ndarray
) -> None:
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


KERNELS = (add_text_sizes, put_fixed, put_ordered_text, get_fixed, get_text)
