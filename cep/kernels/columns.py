"""Columns and Arrow: what is converted at the border (rule 4.1).

A text column is three arrays (data, starts, lengths), so that the same kernel reads an Arrow string array and a raw block
of a file; bool and validity are bytes inside and bits in Arrow, packed at the border only; lists are bytes inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep.kernels.arrays import bits_in
from cep.kernels.column import NO_BYTES as NO_BYTES  # for the other modules
from cep.kernels.column import Column as Column
from cep.kernels.jit import Kernel
from cep.kernels.row_order import KERNELS as ELEMENTS
from cep.kernels.soundness import texts_are
from cep.kernels.states.lists import READERS, explode, lists_of
from cep.kernels.text import gather
from cep.model.schema import DataType, Field, Schema


def arrow_kernels(schema: Schema) -> tuple[Kernel, ...]:
    """What converting columns of `schema` to Arrow and back runs."""
    lists = any(field.type.is_list for field in schema.fields)
    return (gather, texts_are, *ELEMENTS, *READERS) if lists else (gather, texts_are)


def from_arrow(array: pa.Array, type_: DataType) -> Column:
    """A view of `array`, whose Arrow type is `type_.arrow`; no values are copied but those in lists, bits become bytes."""
    n, offset = len(array), array.offset
    valid = bits_in(array.buffers()[0], offset, n) if array.null_count else None
    if type_.element is not None:
        return _list_from_arrow(array, type_.element, valid)
    if type_.name == "bool":
        values = bits_in(array.buffers()[1], offset, n)
        return Column(type_, values, valid)
    if not type_.is_text:
        dtype = np.dtype(np.int64 if type_.name == "timestamp" else type_.name)
        return Column(type_, np.frombuffer(array.buffers()[1], dtype, n, offset * dtype.itemsize) if n else np.zeros(0, dtype), valid)
    if not n:
        return Column(type_, np.zeros(0, np.int32), valid, NO_BYTES, np.zeros(0, np.int64))
    offsets = np.frombuffer(array.buffers()[1], np.int32, n + 1, offset * 4)
    body = array.buffers()[2]
    return text_column(type_, offsets, NO_BYTES if body is None else np.frombuffer(body, np.uint8), valid)


def text_column(type_: DataType, offsets: np.ndarray, body: np.ndarray, valid: np.ndarray | None = None) -> Column:
    """Texts that lie one behind the other in `body`, from and to `offsets`, int32[n + 1]."""
    return Column(type_, offsets[1:] - offsets[:-1], valid, body if len(body) else NO_BYTES, offsets[:-1].astype(np.int64))


def _list_from_arrow(array: pa.Array, element: DataType, valid: np.ndarray | None) -> Column:
    n = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int32, n + 1, array.offset * 4) if n else np.zeros(1, np.int32)
    elements = from_arrow(array.values.slice(offsets[0], offsets[-1] - offsets[0]), element)
    return lists_of(elements, offsets - offsets[0], valid)


def to_arrow(column: Column) -> pa.Array:
    """An Arrow array that owns or shares its buffers; text is gathered into one run of bytes."""
    n = len(column)
    mask = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if column.type.name == "bool":
        return pa.Array.from_buffers(pa.bool_(), n, [mask, pa.py_buffer(np.packbits(column.values, bitorder="little"))])
    if column.type.is_list:
        rows, _, elements = explode(column)
        offsets = np.searchsorted(rows, np.arange(n + 1)).astype(np.int32)
        return pa.Array.from_buffers(column.type.arrow, n, [mask, pa.py_buffer(offsets)], children=[to_arrow(elements)])
    if not column.type.is_text:
        return pa.Array.from_buffers(column.type.arrow, n, [mask, pa.py_buffer(np.ascontiguousarray(column.values))])
    offsets, body = gathered(column)
    return pa.Array.from_buffers(column.type.arrow, n, [mask, pa.py_buffer(offsets), pa.py_buffer(body)])


def lengths_of(column: Column) -> np.ndarray:
    """int32[n]: bytes of each value of a text column, none of a NULL."""
    return column.values if column.valid is None else np.where(column.valid, column.values, 0).astype(np.int32)


def offsets_of(column: Column) -> np.ndarray:
    """int32[n + 1]: where each value of a text column begins, and the last ends, one behind the other."""
    offsets = np.zeros(len(column.values) + 1, np.int32)
    lengths_of(column).cumsum(out=offsets[1:])
    return offsets


def gathered(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Where each value begins and the last ends, int32[n + 1], in one run of the bytes of a text column, uint8[any]."""
    lengths = lengths_of(column)
    if len(lengths) == 1 and column.starts is not None and column.data is not None:
        start, length = column.starts.item(0), lengths.item(0)
        return np.array((0, length), np.int32), column.data[start : start + length].copy()
    offsets = offsets_of(column)
    body = np.empty(int(offsets[-1]), np.uint8)
    gather(column.data, column.starts, offsets, body)
    return offsets, body


#: A buffer of so many bytes is held as it is, whatever part of it is looked at.
SMALL_TEXTS = 64


def is_loose(column: Column) -> bool:
    """Does it hold a buffer that is much larger than its texts?"""
    return column.data is not None and len(column.data) > SMALL_TEXTS and len(column.data) > 2 * column.body_bytes + SMALL_TEXTS


def compact(column: Column) -> Column:
    """The same values without the rest of a much larger buffer, which may then be used again."""
    if not is_loose(column):
        return column
    offsets, body = gathered(column)
    return Column(column.type, column.values, column.valid, body if len(body) else NO_BYTES, offsets[:-1].astype(np.int64))


def nulls(type_: DataType, n: int) -> Column:
    """A column of `n` NULLs."""
    none = np.zeros(n, np.uint8)
    if type_.is_bytes:
        return Column(type_, np.zeros(n, np.int32), none, NO_BYTES, np.zeros(n, np.int64))
    dtype = {"bool": "uint8", "timestamp": "int64"}.get(type_.name, type_.name)
    return Column(type_, np.zeros(n, dtype), none)


Columns = Mapping[str, Column]


def concatenated_columns(columns: Sequence[Column]) -> Column:
    """The values of all, one behind the other; columns of text keep their bytes, side by side."""
    values = np.concatenate([c.values for c in columns])
    valid = None
    if any(c.valid is not None for c in columns):
        valid = np.concatenate([np.ones(len(c), np.uint8) if c.valid is None else c.valid for c in columns])
    if not columns[0].type.is_bytes:
        return Column(columns[0].type, values, valid)
    # Batches cut from one buffer share their bytes: put each buffer down once, and of a much larger one just what is looked at.
    columns = [compact(column) for column in columns]
    shifts: dict[int, int] = {}
    buffers: list[np.ndarray] = []
    total = 0
    for column in columns:
        assert column.data is not None
        if id(column.data) not in shifts:
            shifts[id(column.data)] = total
            buffers.append(column.data)
            total += len(column.data)
    starts = np.concatenate([c.starts + shifts[id(c.data)] for c in columns if c.starts is not None])
    return Column(columns[0].type, values, valid, np.concatenate(buffers) if len(buffers) > 1 else buffers[0], starts)


def with_wider_numbers(columns: Columns, fields: Sequence[Field]) -> Columns:
    """`columns` with those of `fields` as numbers of the type that the field has."""
    narrow = [f for f in fields if columns[f.name].type != f.type and f.type.is_number]
    if not narrow:
        return columns
    return {**columns, **{f.name: replace(columns[f.name], type=f.type, values=columns[f.name].values.astype(f.type.name)) for f in narrow}}


def columns_from_arrow(batch: pa.RecordBatch, schema: Schema) -> dict[str, Column]:
    return {f.name: from_arrow(batch.column(i), f.type) for i, f in enumerate(schema.fields)}


def columns_to_arrow(columns: Columns, schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([to_arrow(columns[name]) for name in schema.names], schema=schema.arrow)
