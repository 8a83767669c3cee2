"""Keys of up to sixteen bytes are two machine words (rule 4.2). Rules:

- Equal values give equal keys, different values different keys: -0.0 is 0.0, every NaN is one NaN, NULL is a value of
  its own. Whether a field may be NULL does not change the keys of values that are not, but for one case of FIXED.
- Bytes lie in the words in memory order: byte i is bits 8i.. of w0 for i < 8, of w1 beyond. The top byte of w1 is 254
  if and only if the key is *long*: then w0 is `hash_bytes` of its bytes and the rest of w1 an offset in `data`, where a
  little-endian uint32 length and the bytes stand. Two keys are equal when their words are and they are not long, or
  when both are long, have the same w0, and the same bytes.
- The fields decide the layout, nothing else:
    EMPTY  no field: both words are 0.
    TEXT   one text field: up to 15 bytes, zeros behind, the length in the top byte of w1; 255 there is NULL.
    FIXED  fixed-width fields that take, with their null bits, at most 16 bytes: the values one after the other, then
           the null bits. Exactly 16 bytes of fields that are never NULL do without null bits (the case above), and one
           of them whose top byte is 254 goes long.
    BYTES  anything else: the fields' bytes one after the other (a text is its length in LEB128 and its bytes, a NULL
           is zeros or an empty text), then, only where a field is NULL, the null bits; this run is a key like TEXT.
- Values are little-endian: bool 1 byte, int32 4, int64, timestamp (µs) and float64 8. Null bits are one bit a field, in
  the order of the fields, filled up to whole bytes; so a key has at most 64 fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from cep.kernels.column import Words
from cep.kernels.columns import NO_BYTES, Column, Columns
from cep.kernels.jit import Kernel, inlined, kernel
from cep.kernels.machine.memory import copy_bytes, equal_bytes, load_word
from cep.kernels.tables.hashing import LONG, hash_bytes
from cep.kernels.text import gather
from cep.model.schema import BINARY, Field
from cep.values import value

INLINE_BYTES_MAX = 15

_WIDTHS = {"bool": 1, "int32": 4, "int64": 8, "timestamp": 8, "float64": 8}
_NULL = 255
_TOP = np.uint64(56)
_OFFSET = np.uint64((1 << 56) - 1)
_LONG_WORD, _NULL_WORD = np.uint64(LONG << 56), np.uint64(_NULL << 56)
_ZERO, _ONE, _63, _64 = np.uint64(0), np.uint64(1), np.uint64(63), np.uint64(64)
_NO_FLAGS = np.zeros(0, np.uint8)


class KeyLayout(Enum):
    """How the values of a key become two words."""

    EMPTY = "empty"
    TEXT = "text"
    FIXED = "fixed"
    BYTES = "bytes"


@value
class Keys:
    """n keys: uint64[n], uint64[n], and uint8[any], where the bytes of long keys are."""

    w0: np.ndarray
    w1: np.ndarray
    data: np.ndarray

    def __len__(self) -> int:
        return len(self.w0)

    def take(self, rows: Sequence[int]) -> Keys:
        """Those at `rows`; the bytes are the same."""
        return Keys(self.w0[rows], self.w1[rows], self.data)


def joined_keys(keys: Sequence[Keys]) -> Keys:
    """All of them, one behind the other."""
    if len(keys) == 1:
        return keys[0]
    long = [bool(((each.w1 >> _TOP) == LONG).any()) for each in keys]
    bodies = [each.data if there else NO_BYTES for each, there in zip(keys, long, strict=True)]
    high, size = list[np.ndarray](), 0
    for each, body in zip(keys, bodies, strict=True):
        high.append(moved_keys(each.w1, size) if len(body) else each.w1)
        size += len(body)
    return Keys(np.concatenate([each.w0 for each in keys]), np.concatenate(high), np.concatenate(bodies))


def moved_keys(w1: np.ndarray, by: int) -> np.ndarray:
    """Second words of keys, the bytes of whose long ones lie `by` further behind."""
    return np.where((w1 >> _TOP) == LONG, w1 + np.uint64(by), w1)


def packed_keys(keys: Keys) -> Keys:
    """The same with just the bytes that they need. `gather` has to be compiled."""
    (long,) = ((keys.w1 >> _TOP) == LONG).nonzero()
    if not len(long):
        return Keys(keys.w0, keys.w1, NO_BYTES)
    starts = (keys.w1[long] & _OFFSET).astype(np.int64)
    offsets = np.zeros(len(long) + 1, np.int32)
    np.cumsum(keys.data[starts[:, None] + np.arange(4)].view(np.uint32)[:, 0] + 4, out=offsets[1:])
    body, w1 = np.empty(int(offsets[-1]), np.uint8), keys.w1.copy()
    gather(keys.data, starts, offsets, body)
    w1[long] = _LONG_WORD | offsets[:-1].astype(np.uint64)
    return Keys(keys.w0, w1, body)


Encoder = Callable[[Columns], Keys]
Decoder = Callable[[Keys], dict[str, Column]]


def layout(by: tuple[Field, ...]) -> KeyLayout:
    """The layout of a key of the fields `by`."""
    if not by:
        return KeyLayout.EMPTY
    if any(field.type.is_bytes for field in by):
        return KeyLayout.TEXT if len(by) == 1 else KeyLayout.BYTES
    width = _width(by)
    unmarked = width == 16 and not any(field.nullable for field in by)
    return KeyLayout.FIXED if width + _null_bytes(by) <= 16 or unmarked else KeyLayout.BYTES


def encode_keys(columns: Columns, by: tuple[Field, ...]) -> Keys:
    """The keys of the rows of `columns`; where that has no column, and so no length, see `empty_keys`."""
    return encoder(by)(columns)


def encoder(by: tuple[Field, ...]) -> Encoder:
    """`encode_keys` of the fields `by`, for callers that ask often."""
    names = [field.name for field in by]
    match layout(by):
        case KeyLayout.EMPTY:
            return lambda columns: empty_keys(len(next(iter(columns.values()))) if columns else 0)
        case KeyLayout.TEXT:
            return lambda columns: _encode_text(columns[names[0]])
        case KeyLayout.FIXED if len(by) == 1 and _width(by) == 8:
            return lambda columns: _encode_word(columns[names[0]])
        case KeyLayout.FIXED:
            return lambda columns: _encode_fixed(by, [columns[name] for name in names])
        case KeyLayout.BYTES:
            return lambda columns: _encode_text(_joined(by, [columns[name] for name in names]))


def empty_keys(n: int) -> Keys:
    """The keys of `n` rows that are all of one group."""
    return Keys(np.zeros(n, np.uint64), np.zeros(n, np.uint64), NO_BYTES)


def decode_keys(keys: Keys, by: tuple[Field, ...]) -> dict[str, Column]:
    """The values of the fields `by`, by name."""
    return decoder(by)(keys)


def decoder(by: tuple[Field, ...]) -> Decoder:
    """`decode_keys` of the fields `by`, for callers that ask often."""
    names = [field.name for field in by]
    match layout(by):
        case KeyLayout.EMPTY:
            return lambda keys: {}
        case KeyLayout.TEXT:
            return lambda keys: {names[0]: _decode_text(keys, by[0])}
        case KeyLayout.FIXED if len(by) == 1 and _width(by) == 8:
            return lambda keys: {names[0]: _column_of(by[0], keys.w0.copy(), _valid(keys.w1, 0))}
        case KeyLayout.FIXED:
            return lambda keys: dict(zip(names, _decode_fixed(keys, by), strict=True))
        case KeyLayout.BYTES:
            return lambda keys: dict(zip(names, _split(_decode_text(keys, _RUN), by), strict=True))


# --- text -------------------------------------------------------------------------------------------------------------


def _encode_text(column: Column) -> Keys:
    if column.words is not None and column.valid is None:
        if column.words.low is not None:
            return _made(column, column.words)
        column.words.request.wanted = True
    w0, w1 = np.empty((2, len(column.values)), np.uint64)
    valid = _NO_FLAGS if column.valid is None else column.valid
    assert column.data is not None and column.starts is not None
    long_bytes = _pack_text(column.data, column.starts, column.values, valid, w0, w1)
    data = _put_long(column.data, column.starts, column.values, w0, w1, long_bytes) if long_bytes else NO_BYTES
    return Keys(w0, w1, data)


def _made(column: Column, words: Words) -> Keys:
    """The keys of texts whose words are made already."""
    assert words.low is not None and words.high is not None and column.data is not None and column.starts is not None
    if not words.long_bytes:
        return Keys(words.low, words.high, NO_BYTES)
    w0, w1 = words.low.copy(), words.high.copy()  # others have the same column, and where long keys lie is written into the words
    return Keys(w0, w1, _put_long(column.data, column.starts, column.values, w0, w1, words.long_bytes))


def _put_long(source: np.ndarray, starts: np.ndarray, lengths: np.ndarray, w0: np.ndarray, w1: np.ndarray, size: int) -> np.ndarray:
    """Makes the rows whose top byte is 254 long; returns their bytes."""
    data = np.empty(size, np.uint8)
    _fill_long(source, starts, lengths, w0, w1, data)
    return data


@kernel("int64(const uint8[:], const int64[:], const int32[:], const uint8[:], uint64[:], uint64[:])")
def _pack_text(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, valid: np.ndarray, w0: np.ndarray, w1: np.ndarray) -> int:
    """Keys of texts; of long ones only their top byte. Returns the bytes that long keys will take in their `data`."""
    size, nullable, long_bytes = len(data), len(valid) > 0, 0
    for i in range(len(starts)):
        start, length = starts[i], int(lengths[i])
        if nullable and valid[i] == 0:
            w0[i], w1[i] = _ZERO, _NULL_WORD
        elif length > INLINE_BYTES_MAX:
            w0[i], w1[i] = _ZERO, _LONG_WORD
            long_bytes += length + 4
        elif start + 16 > size:
            low, high = _words_at_end(data, start, length)
            w0[i], w1[i] = low, high | (np.uint64(length) << _TOP)
        else:
            w0[i], w1[i] = short_text(data, start, length)
    return long_bytes


@inlined
def text_words(data: np.ndarray, start: int, length: int) -> tuple[Any, Any]:
    """The words of a text behind whose first byte 16 can be read; of a long one only the top byte of the second."""
    return short_text(data, start, length) if length <= INLINE_BYTES_MAX else (_ZERO, _LONG_WORD)


@inlined
def long_room(length: int) -> int:
    """Bytes that a text takes in `Keys.data`."""
    return length + 4 if length > INLINE_BYTES_MAX else 0


@inlined
def short_text(data: np.ndarray, start: int, length: int) -> tuple[Any, Any]:
    """The words of a text of at most 15 bytes; reads 16.

    Without a branch on the length: that, mispredicted, cost 8.6 ns a row in place of 3.7.
    """
    short = _ZERO - np.uint64(length < 8)  # all ones if the second word is empty
    last = (_ONE << (np.uint64(length * 8) & _63)) - _ONE  # the bytes taken of the last word that is not whole
    high = load_word(data, start + 8) & last & ~short
    return load_word(data, start) & (last | ~short), high | (np.uint64(length) << _TOP)


@inlined
def _words_at_end(data: np.ndarray, start: int, length: int) -> tuple[Any, Any]:
    low, high = _ZERO, _ZERO
    for i in range(length):
        byte = np.uint64(data[start + i])
        if i < 8:
            low |= byte << np.uint64(8 * i)
        else:
            high |= byte << np.uint64(8 * i - 64)
    return low, high


@kernel("void(const uint8[:], const int64[:], const int32[:], uint64[:], uint64[:], uint8[:])")
def _fill_long(source: np.ndarray, starts: np.ndarray, lengths: np.ndarray, w0: np.ndarray, w1: np.ndarray, data: np.ndarray) -> None:
    at = 0
    for i in range(len(w1)):
        if (w1[i] >> _TOP) == np.uint64(LONG):
            start, length = starts[i], int(lengths[i])
            w0[i], w1[i] = hash_bytes(source, start, length), _LONG_WORD | np.uint64(at)
            for k in range(4):
                data[at + k] = (length >> (8 * k)) & 255
            copy_bytes(source, start, data, at + 4, length)
            at += 4 + length


@inlined
def long_length(data: np.ndarray, w1: Any) -> Any:
    """Length in bytes of the long key whose second word is `w1`; its bytes begin 4 behind its offset."""
    at = np.int64(w1 & _OFFSET)
    length = np.int64(0)
    for k in range(4):
        length |= np.int64(data[at + k]) << (8 * k)
    return length


@inlined
def same_bytes(data: np.ndarray, w1: Any, other_data: np.ndarray, other_w1: Any) -> bool:
    """Are the bytes of two long keys equal?"""
    length = long_length(data, w1)
    at, other_at = np.int64(w1 & _OFFSET) + 4, np.int64(other_w1 & _OFFSET) + 4
    return length == long_length(other_data, other_w1) and equal_bytes(data, at, other_data, other_at, length)


@kernel("void(const uint8[:], const uint64[:], int32[:])")
def _long_lengths(data: np.ndarray, w1: np.ndarray, lengths: np.ndarray) -> None:
    for i in range(len(w1)):
        lengths[i] = long_length(data, w1[i])


def _decode_text(keys: Keys, field: Field) -> Column:
    """Short texts are read where they are, in the words."""
    top = (keys.w1 >> _TOP).astype(np.int32)
    starts, data = np.arange(0, 16 * len(top), 16, dtype=np.int64), _bytes_of(keys.w0, keys.w1)
    (rare,) = (top >= LONG).nonzero()
    if not len(rare):
        return Column(field.type, top, None, data, starts)
    lengths, long = top.copy(), rare[top[rare] == LONG]
    if len(long):
        lengths[long] = _lengths_of(keys.data, keys.w1[long])
        places, bodies = _bodies_of(keys.data, (keys.w1[long] & _OFFSET).astype(np.int64) + 4, lengths[long])
        starts[long] = len(data) + places
        data = np.concatenate([data, bodies])
    null = top == _NULL
    lengths[null] = 0
    return Column(field.type, lengths, (~null).view(np.uint8) if null.any() else None, data, starts)


def _bodies_of(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the texts are, and in what: in `data`, unless they are the lesser part of it."""
    ends = np.cumsum(lengths, dtype=np.int64)
    if 2 * ends[-1] >= len(data):
        return starts, data
    places = ends - lengths
    return places, data[np.repeat(starts - places, lengths) + np.arange(ends[-1])]


def _lengths_of(data: np.ndarray, w1: np.ndarray) -> np.ndarray:
    lengths = np.empty(len(w1), np.int32)
    _long_lengths(data, w1, lengths)
    return lengths


def _bytes_of(w0: np.ndarray, w1: np.ndarray) -> np.ndarray:
    words = np.empty((len(w0), 2), np.uint64)
    words[:, 0], words[:, 1] = w0, w1
    return words.view(np.uint8).reshape(-1)


# --- fixed-width fields -----------------------------------------------------------------------------------------------


def _width(by: tuple[Field, ...]) -> int:
    return sum(_WIDTHS[field.type.name] for field in by)


def _null_bytes(by: tuple[Field, ...]) -> int:
    return (len(by) + 7) // 8


def _word_of(column: Column) -> np.ndarray:
    """Canonical uint64[n] of a fixed-width column; 0 for NULL."""
    values = column.values
    if column.type.name == "float64":
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # adding 0.0 makes 0.0 of -0.0
    elif column.type.name == "bool":
        values = values != 0
    words = values.view(np.uint32 if values.dtype == np.int32 else f"u{values.dtype.itemsize}").astype(np.uint64, copy=False)
    return words if column.valid is None else np.where(column.valid, words, np.uint64(0))


def _null_bits(columns: list[Column], n: int) -> np.ndarray:
    """uint64[n]: bit k says that the value of field k is NULL."""
    bits = np.zeros(n, np.uint64)
    for k, column in enumerate(columns):
        if column.valid is not None:
            bits |= (column.valid == 0).astype(np.uint64) << np.uint64(k)
    return bits


def _encode_word(column: Column) -> Keys:
    """The keys of a single field of a word, whose null bit is alone in the other."""
    return Keys(np.ascontiguousarray(_word_of(column)), _null_bits([column], len(column.values)), NO_BYTES)


def _encode_fixed(by: tuple[Field, ...], columns: list[Column]) -> Keys:
    n = len(columns[0])
    words = [np.zeros(n, np.uint64), np.zeros(n, np.uint64)]
    at = 0
    for field, column in zip(by, columns, strict=True):
        _place(words, _word_of(column), at)
        at += _WIDTHS[field.type.name]
    if at < 16 and any(column.valid is not None for column in columns):
        _place(words, _null_bits(columns, n), at)
    return _escaped(words[0], words[1])


def _place(words: list[np.ndarray], value: np.ndarray, at: int) -> None:
    """Puts `value` at byte `at` of the sixteen; what it has beyond its width is 0."""
    index, shift = at // 8, np.uint64(at % 8 * 8)
    words[index] |= value << shift
    if shift and index == 0:
        words[1] |= value >> (_64 - shift)


def _escaped(w0: np.ndarray, w1: np.ndarray) -> Keys:
    """Makes those long that would look long."""
    rows = np.flatnonzero((w1 >> _TOP) == LONG)
    if not len(rows):
        return Keys(w0, w1, NO_BYTES)
    source = _bytes_of(w0, w1)
    starts, lengths = np.arange(len(w0), dtype=np.int64) * 16, np.full(len(w0), 16, np.int32)
    return Keys(w0, w1, _put_long(source, starts, lengths, w0, w1, 20 * len(rows)))


def _decode_fixed(keys: Keys, by: tuple[Field, ...]) -> list[Column]:
    w0, w1 = _unescaped(keys)
    width = _width(by)
    bits = _taken(w0, w1, width, _null_bytes(by)) if width < 16 else np.zeros(len(keys), np.uint64)
    columns, at = [], 0
    for k, field in enumerate(by):
        size = _WIDTHS[field.type.name]
        columns.append(_column_of(field, _taken(w0, w1, at, size), _valid(bits, k)))
        at += size
    return columns


def _unescaped(keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    long = np.flatnonzero((keys.w1 >> _TOP) == LONG)
    if not len(long):
        return keys.w0, keys.w1
    w0, w1 = keys.w0.copy(), keys.w1.copy()
    at = (keys.w1[long] & _OFFSET).astype(np.int64) + 4
    words = keys.data[at[:, None] + np.arange(16)].view(np.uint64)
    w0[long], w1[long] = words[:, 0], words[:, 1]
    return w0, w1


def _taken(w0: np.ndarray, w1: np.ndarray, at: int, width: int) -> np.ndarray:
    """The `width` bytes at byte `at` of the sixteen, as uint64[n]."""
    shift = np.uint64(at % 8 * 8)
    value = (w0 if at < 8 else w1) >> shift
    if shift and at < 8:
        value = value | (w1 << (_64 - shift))
    return value if width == 8 else value & np.uint64((1 << (8 * width)) - 1)


def _valid(bits: np.ndarray, k: int) -> np.ndarray | None:
    null = (bits >> np.uint64(k)) & _ONE
    return (null == 0).view(np.uint8) if null.any() else None


def _column_of(field: Field, words: np.ndarray, valid: np.ndarray | None) -> Column:
    if field.type.name in ("bool", "int32"):
        values = words.astype(np.uint8) if field.type.name == "bool" else words.astype(np.uint32).view(np.int32)
        return Column(field.type, values, valid)
    return Column(field.type, words.view(np.float64 if field.type.name == "float64" else np.int64), valid)


# --- everything else --------------------------------------------------------------------------------------------------

_RUN = Field("", BINARY)


def _joined(by: tuple[Field, ...], columns: list[Column]) -> Column:
    """The fields' bytes, one run for each row."""
    bits = _null_bits(columns, len(columns[0]))
    marked = np.flatnonzero(bits)
    lengths = sum(map(_encoded_lengths, columns), np.zeros(len(bits), np.int64))
    lengths[marked] += _null_bytes(by)
    ends = np.cumsum(lengths)
    starts, body = ends - lengths, np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    cursor = starts.copy()
    for field, column in zip(by, columns, strict=True):
        if field.type.is_bytes:
            _append_text(column.data, column.starts, _text_lengths(column), cursor, body)
        else:
            _append_word(_word_of(column), _WIDTHS[field.type.name], cursor, body)
    _append_word(bits[marked], _null_bytes(by), cursor[marked], body)
    return Column(BINARY, lengths.astype(np.int32), None, body, starts)


def _text_lengths(column: Column) -> np.ndarray:
    return column.values if column.valid is None else np.where(column.valid, column.values, 0).astype(np.int32)


def _encoded_lengths(column: Column) -> np.ndarray:
    if not column.type.is_bytes:
        return np.full(len(column), _WIDTHS[column.type.name], np.int64)
    lengths = _text_lengths(column).astype(np.int64)
    return lengths + 1 + sum((lengths >> (7 * k) > 0).astype(np.int64) for k in range(1, 5))


@kernel("void(const uint64[:], int64, int64[:], uint8[:])")
def _append_word(words: np.ndarray, width: int, cursor: np.ndarray, body: np.ndarray) -> None:
    """Writes the low `width` bytes of each word at its cursor, and moves that."""
    for i in range(len(words)):
        at = cursor[i]
        for k in range(width):
            body[at + k] = (words[i] >> np.uint64(8 * k)) & np.uint64(255)
        cursor[i] = at + width


@kernel("void(const uint8[:], const int64[:], const int32[:], int64[:], uint8[:])")
def _append_text(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, cursor: np.ndarray, body: np.ndarray) -> None:
    """Writes length and bytes of each text at its cursor, and moves that."""
    for i in range(len(starts)):
        at, rest = cursor[i], int(lengths[i])
        while rest > 127:
            body[at] = (rest & 127) | 128
            at, rest = at + 1, rest >> 7
        body[at] = rest
        at += 1
        copy_bytes(data, starts[i], body, at, lengths[i])
        cursor[i] = at + lengths[i]


#: What `encode_keys` runs.
ENCODERS = (_pack_text, _fill_long, _append_word, _append_text)


def _split(runs: Column, by: tuple[Field, ...]) -> list[Column]:
    assert runs.data is not None and runs.starts is not None
    n, cursor = len(runs), runs.starts.copy()
    taken: list[tuple[np.ndarray, np.ndarray]] = []
    for field in by:
        places, values = np.empty(n, np.int64), np.empty(n, np.uint64)
        if field.type.is_bytes:
            _take_text(runs.data, cursor, places, values)
        else:
            _take_word(runs.data, _WIDTHS[field.type.name], cursor, values)
        taken.append((places, values))
    bits = np.zeros(n, np.uint64)
    marked = np.flatnonzero(cursor < runs.starts + runs.values)
    found = np.empty(len(marked), np.uint64)
    _take_word(runs.data, _null_bytes(by), cursor[marked], found)
    bits[marked] = found
    return [_part(runs.data, field, *each, _valid(bits, k)) for k, (field, each) in enumerate(zip(by, taken, strict=True))]


def _part(data: np.ndarray, field: Field, places: np.ndarray, values: np.ndarray, valid: np.ndarray | None) -> Column:
    if not field.type.is_bytes:
        return _column_of(field, values, valid)
    return Column(field.type, values.astype(np.int32), valid, data, places)


@kernel("void(const uint8[:], int64, int64[:], uint64[:])")
def _take_word(data: np.ndarray, width: int, cursor: np.ndarray, words: np.ndarray) -> None:
    """Reads `width` bytes at each cursor, and moves that."""
    for i in range(len(cursor)):
        word = np.uint64(0)
        for k in range(width):
            word |= np.uint64(data[cursor[i] + k]) << np.uint64(8 * k)
        words[i] = word
        cursor[i] += width


@kernel("void(const uint8[:], int64[:], int64[:], uint64[:])")
def _take_text(data: np.ndarray, cursor: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
    """Reads the text at each cursor: where its bytes are, and how many; and moves the cursor."""
    for i in range(len(cursor)):
        at, length, shift = cursor[i], 0, 0
        while data[at] > 127:
            length |= (int(data[at]) & 127) << shift
            at, shift = at + 1, shift + 7
        length |= int(data[at]) << shift
        starts[i], lengths[i] = at + 1, np.uint64(length)
        cursor[i] = at + 1 + length


_OF_TEXT = (_pack_text, _fill_long, _long_lengths)
_KERNELS: dict[KeyLayout, tuple[Kernel, ...]] = {
    KeyLayout.EMPTY: (),
    KeyLayout.TEXT: _OF_TEXT,
    KeyLayout.FIXED: (_fill_long,),
    KeyLayout.BYTES: (*_OF_TEXT, _append_word, _append_text, _take_word, _take_text),
}


def key_kernels(by: tuple[Field, ...]) -> tuple[Kernel, ...]:
    """What `encode_keys` and `decode_keys` of the fields `by` run."""
    return _KERNELS[layout(by)]
