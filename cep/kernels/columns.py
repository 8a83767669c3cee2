"""Columns as kernels see them: NumPy views of Arrow buffers (DESIGN 4.1).

A text column is three arrays (data, starts, lengths), so that the same kernel reads an Arrow string array and a raw block
of a file; bool and validity are bytes inside and bits in Arrow, packed at the border only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep.kernels.text import gather
from cep.model.schema import DataType, Schema

NO_BYTES = np.zeros(16, np.uint8)


@dataclass(frozen=True, slots=True)
class Column:
    """`n` values of one type.

    Fixed width: `values` is int32[n], int64[n] (also timestamps, µs), float64[n], or uint8[n] for bool.
    Text: `values` is int32[n], the lengths in bytes; value i is `data[starts[i] : starts[i] + values[i]]`.
    `valid` is uint8[n] (1 = not NULL), or None when there is no NULL. What stands at a NULL's place is defined nowhere.
    """

    type: DataType
    values: np.ndarray
    valid: np.ndarray | None = None
    data: np.ndarray | None = None  # uint8[any]
    starts: np.ndarray | None = None  # int64[n]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indices: np.ndarray | slice) -> Column:
        """Rows `indices` (int64[m] or a slice); bytes of text stay where they are."""
        return Column(
            self.type,
            self.values[indices],
            None if self.valid is None else self.valid[indices],
            self.data,
            None if self.starts is None else self.starts[indices],
        )


def from_arrow(array: pa.Array, type_: DataType) -> Column:
    """A view of `array`, whose Arrow type is `type_.arrow`; no values are copied, bits become bytes."""
    n, offset = len(array), array.offset
    valid = _bits(array.buffers()[0], offset, n) if array.null_count else None
    if type_.name == "bool":
        values = _bits(array.buffers()[1], offset, n)
        return Column(type_, values, valid)
    if not type_.is_text:
        dtype = np.dtype(np.int64 if type_.name == "timestamp" else type_.name)
        return Column(type_, np.frombuffer(array.buffers()[1], dtype, n, offset * dtype.itemsize) if n else np.zeros(0, dtype), valid)
    if not n:
        return Column(type_, np.zeros(0, np.int32), valid, NO_BYTES, np.zeros(0, np.int64))
    offsets = np.frombuffer(array.buffers()[1], np.int32, n + 1, offset * 4)
    body = array.buffers()[2]
    data = np.frombuffer(body, np.uint8) if body is not None and body.size else NO_BYTES
    return Column(type_, np.diff(offsets), valid, data, offsets[:-1].astype(np.int64))


def _bits(buffer: pa.Buffer, offset: int, n: int) -> np.ndarray:
    packed = np.frombuffer(buffer, np.uint8)[offset // 8 : (offset + n + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset % 8 : offset % 8 + n]


def to_arrow(column: Column) -> pa.Array:
    """An Arrow array that owns or shares its buffers; text is gathered into one run of bytes."""
    n = len(column)
    mask = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if column.type.name == "bool":
        return pa.Array.from_buffers(pa.bool_(), n, [mask, pa.py_buffer(np.packbits(column.values, bitorder="little"))])
    if not column.type.is_text:
        return pa.Array.from_buffers(column.type.arrow, n, [mask, pa.py_buffer(np.ascontiguousarray(column.values))])
    offsets, body = gathered(column)
    return pa.Array.from_buffers(column.type.arrow, n, [mask, pa.py_buffer(offsets), pa.py_buffer(body)])


def gathered(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Where each value begins and the last ends, int32[n + 1], in one run of the bytes of a text column, uint8[any]."""
    lengths = column.values if column.valid is None else np.where(column.valid, column.values, 0).astype(np.int32)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    body = np.empty(int(offsets[-1]), np.uint8)
    gather(column.data, column.starts, offsets, body)
    return offsets, body


def compact(column: Column) -> Column:
    """The same values without the rest of a much larger buffer, which may then be used again."""
    if column.data is None or column.starts is None or len(column.data) <= 2 * int(column.values.sum()) + 64:
        return column
    offsets, body = gathered(column)
    return Column(column.type, column.values, column.valid, body if len(body) else NO_BYTES, offsets[:-1].astype(np.int64))


Columns = Mapping[str, Column]


def columns_from_arrow(batch: pa.RecordBatch, schema: Schema) -> dict[str, Column]:
    return {f.name: from_arrow(batch.column(i), f.type) for i, f in enumerate(schema.fields)}


def columns_to_arrow(columns: Columns, schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([to_arrow(columns[name]) for name in schema.names], schema=schema.arrow)
