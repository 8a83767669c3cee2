"""The Arrow IPC message of a batch, written and read without Arrow's objects, which cost more than the work on a small batch.

For one schema the metadata of all messages without NULLs are the same 64-bit words but for those that say how many rows there are
and where their buffers lie. A `MessageLayout` has them from a message that Arrow wrote. What does not fit (other metadata, no rows, NULLs)
is Arrow's to do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

#: A column: its values; or the offsets of texts, int32[n + 1], and their bytes. All are contiguous.
Arrays = tuple[np.ndarray, ...]

_SAMPLE_ROWS = 1237  # stands nowhere else in the metadata
_PREFIX_BYTES = 8
SHAPES_KEPT = 256
_WORD = struct.Struct("<q")
_INT64 = np.dtype(np.int64)

#: What of a message an array is: type, length, first byte.
View = tuple[np.dtype, int, int]


class Scattered(Protocol):
    """Texts that lie anywhere."""

    @property
    def size(self) -> int:
        """Bytes of all of them."""

    def put(self, offsets: np.ndarray, body: np.ndarray) -> None:
        """Writes them one behind the other into `body`, uint8[size], and their bounds there into `offsets`, int32[n + 1]."""


class _Shape(NamedTuple):
    """All messages with so many rows and bytes of texts."""

    metadata: bytes
    size: int  # of a whole message
    views: list[View]  # of all columns in order: the values, or the offsets of texts and their bytes
    filling: list[bytes]  # what follows each, up to a multiple of eight bytes


class MessageLayout:
    """Where things stand in the messages of `schema`. `dtypes`: of each column; None: texts."""

    def __init__(self, schema: pa.Schema, dtypes: Sequence[np.dtype | None]) -> None:
        self.dtypes = tuple(dtypes)
        buffers = [3 if dtype is None else 2 for dtype in dtypes]
        self._first = [2 * sum(buffers[:i]) for i in range(len(buffers))]  # where each column's are in `_buffers`
        words = _metadata_of(schema, dtypes)
        self._struct = struct.Struct(f"<{len(words)}q")
        self.metadata_bytes = self._struct.size
        end = len(words) - 2 * len(buffers) - 1
        begin = end - 2 * sum(buffers)
        size, rows = words.index(self._buffers(_SAMPLE_ROWS, [0] * len(buffers))[1]), words.index(_SAMPLE_ROWS)
        self._rows = 8 * rows  # where the word stands that says how many rows there are
        self._constant = words[:size], words[size + 1 : rows], words[rows + 1 : begin], words[end : end + 1]
        # Where those stand that say how many bytes a column of texts has.
        self._texts = [8 * (begin + first + 5) for first, dtype in zip(self._first, dtypes, strict=True) if dtype is None]
        of_words = [dtype for dtype in dtypes if dtype is not None and dtype.itemsize == 8]
        self._words = of_words if len(of_words) == len(self.dtypes) else None  # where nothing has to be filled up
        self._shape = lru_cache(SHAPES_KEPT)(self._shape_of)  # small batches are alike

    @cached_property
    def lines(self) -> tuple[int, np.ndarray] | None:
        """Where all columns are eight bytes wide, which follow the metadata one behind the other: the number of the word of the metadata
        that says how many rows there are, and int64[words, 2], each word without rows and what it grows by with each. None elsewhere."""
        if self._words is None:
            return None
        one, two = (np.frombuffer(self._shape_of(n, ()).metadata, np.int64) for n in (1, 2))
        return self._rows // 8, np.stack([2 * one - two, two - one], axis=1)

    def write(self, n: int, arrays: Sequence[Any], texts: tuple[int, ...] = ()) -> bytes:
        """The message of `n` >= 1 rows. `arrays`: contiguous, of all columns in order; `texts`: bytes of each column of texts."""
        shape = self._shape(n, texts)
        if self._words is not None:
            return b"".join((shape.metadata, *arrays))
        pieces = [shape.metadata]
        for each in zip(arrays, shape.filling, strict=True):
            pieces += each
        return b"".join(pieces)

    def fill(self, n: int, columns: Sequence[np.ndarray | Scattered]) -> memoryview:
        """The same, of what is not gathered yet: `columns`, in order; what they are is copied once, to where it stands in the message."""
        bodies = tuple([each.size for each in columns if not isinstance(each, np.ndarray)])
        shape = self._shape(n, bodies)
        message = np.empty(shape.size, np.uint8).data
        message[: self.metadata_bytes] = shape.metadata
        for (dtype, length, at), filling in zip(shape.views, shape.filling, strict=True):
            if filling:
                end = at + length * dtype.itemsize
                message[end : end + len(filling)] = filling
        views = iter(shape.views)
        for column in columns:
            place = np.frombuffer(message, *next(views))
            if isinstance(column, np.ndarray):
                place[:] = column
            else:
                column.put(place, np.frombuffer(message, *next(views)))
        return message

    def write_arrow(self, n: int, columns: Sequence[pa.Array], *more: np.ndarray) -> bytes | None:
        """The message of a batch of `n` >= 1 rows, with the columns `more` behind its own. None: it has NULLs."""
        for column in columns:
            if column.null_count:
                return None
        parts = list(map(_arrays_of, columns, self.dtypes))
        texts = tuple([len(part[1]) for part in parts if len(part) == 2])
        return self.write(n, [*(array for part in parts for array in part), *more], texts)

    def read(self, message: bytes | pa.Buffer) -> tuple[int, list[np.ndarray]] | None:
        """(rows, the arrays of all columns in order, of texts two), views of `message`. None: it is not of this layout."""
        size = len(message)
        if size < self.metadata_bytes:
            return None
        (n,) = _WORD.unpack_from(message, self._rows)
        texts = tuple([_WORD.unpack_from(message, at)[0] for at in self._texts]) if self._texts else ()
        if not 0 < n <= size or (texts and not 0 <= min(texts) <= max(texts) <= size):
            return None
        shape = self._shape(n, texts)
        if size < shape.size or bytes(memoryview(message)[: self.metadata_bytes]) != shape.metadata:
            return None
        if self._words is not None:
            whole = np.frombuffer(message, np.int64, n * len(self.dtypes), self.metadata_bytes)
            parts = [whole[i * n : i * n + n] for i in range(len(self._words))]
            return n, [part if dtype == _INT64 else part.view(dtype) for part, dtype in zip(parts, self._words, strict=True)]
        return n, [np.frombuffer(message, *each) for each in shape.views]

    def rows_of(self, found: memoryview, begin: int, end: int) -> int:
        """How many rows the message `found[begin:end]` has whose columns are all eight bytes wide; 0 if it is none such, or has NULLs."""
        if self._words is None or end - begin < self.metadata_bytes:
            return 0
        (n,) = _WORD.unpack_from(found, begin + self._rows)
        if not 0 < n <= end - begin:
            return 0
        shape = self._shape(n, ())
        return n if end - begin == shape.size and bytes(found[begin : begin + self.metadata_bytes]) == shape.metadata else 0

    def size_of(self, n: int) -> int:
        """Bytes of a message of `n` rows whose columns are all eight bytes wide."""
        return self.metadata_bytes + 8 * n * len(self.dtypes)

    def join(self, found: memoryview, parts: Sequence[tuple[int, int]]) -> bytes:
        """One message with the rows of several. `parts`: where each begins, and its rows as of `rows_of`."""
        begins = [(begin + self.metadata_bytes, 8 * n) for begin, n in parts]
        values = [found[at + i * size : at + i * size + size] for i in range(len(self.dtypes)) for at, size in begins]
        return b"".join((self._shape(sum([n for _, n in parts]), ()).metadata, *values))

    def _shape_of(self, n: int, texts: tuple[int, ...]) -> _Shape:
        """`texts`: bytes of each column of texts."""
        before, between, behind, last = self._constant
        described, size = self._buffers(n, texts)
        metadata = self._struct.pack(*before, size, *between, n, *behind, *described, *last, *(n, 0) * len(self.dtypes))
        columns = [self._views(n, dtype, described[first:]) for first, dtype in zip(self._first, self.dtypes, strict=True)]
        views = [view for column in columns for view in column]
        return _Shape(metadata, self.metadata_bytes + size, views, [bytes(-length * dtype.itemsize & 7) for dtype, length, _ in views])

    def _views(self, n: int, dtype: np.dtype | None, described: Sequence[int]) -> list[View]:
        """Of a column whose buffers are `described` first; the first of them is about the validity."""
        at = self.metadata_bytes + described[2]
        if dtype is not None:
            return [(dtype, n, at)]
        return [(np.dtype(np.int32), n + 1, at), (np.dtype(np.uint8), described[5], self.metadata_bytes + described[4])]

    def _buffers(self, n: int, texts: Iterable[int]) -> tuple[list[int], int]:
        """Offset and size of each buffer, that of validity first, and the size of all."""
        found: list[int] = []
        at, bodies = 0, iter(texts)
        for dtype in self.dtypes:
            found += (at, 0)
            for size in (n * dtype.itemsize,) if dtype is not None else (4 * n + 4, next(bodies)):
                found += (at, size)
                at += size + 7 & -8
        return found, at


def _arrays_of(column: pa.Array, dtype: np.dtype | None) -> Arrays:
    """Views of an array without NULLs."""
    _, values, *body = column.buffers()
    if dtype is not None:
        return (np.frombuffer(values, dtype, len(column), column.offset * dtype.itemsize),)
    offsets = np.frombuffer(values, np.int32, len(column) + 1, column.offset * 4)
    texts = np.zeros(0, np.uint8) if body[0] is None else np.frombuffer(body[0], np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0] if offsets[0] else offsets, texts


def _metadata_of(schema: pa.Schema, dtypes: Sequence[np.dtype | None]) -> tuple[int, ...]:
    """Words of a message of _SAMPLE_ROWS rows, its texts empty."""
    # Not `pa.array`, `pa.scalar`: their first call imports pandas where there is one.
    columns = [pa.Array.from_buffers(type_, _SAMPLE_ROWS, _zeros(dtype)) for type_, dtype in zip(schema.types, dtypes, strict=True)]
    message = pa.RecordBatch.from_arrays(columns, schema=schema).serialize()
    metadata_bytes = struct.unpack_from("<4xi", message)[0] + _PREFIX_BYTES
    return struct.unpack_from(f"<{metadata_bytes // 8}q", message)


def _zeros(dtype: np.dtype | None) -> list[pa.Buffer | None]:
    if dtype is not None:
        return [None, pa.py_buffer(bytes(dtype.itemsize * _SAMPLE_ROWS))]
    return [None, pa.py_buffer(bytes(4 * _SAMPLE_ROWS + 4)), pa.py_buffer(b"")]
