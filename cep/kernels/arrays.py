"""Arrow arrays of what Python and numpy have, and back. Not `pa.array` nor `to_numpy`: their first call imports pandas where there is one,
0.2 to 0.4 s on the data path or while a query is recovered. So do Arrow's functions with a constant of Python, which are not avoided yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_INT64 = np.dtype(np.int64)


def int64_array(values: np.ndarray | Sequence[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def numbers_in(array: pa.Array, dtype: np.dtype = _INT64) -> np.ndarray:
    """The values of one of that type, a view; at NULLs anything."""
    assert array.type.bit_width == 8 * dtype.itemsize, array.type
    return np.frombuffer(array.buffers()[1], dtype, len(array), dtype.itemsize * array.offset) if len(array) else np.zeros(0, dtype)


def bits_in(buffer: pa.Buffer, offset: int, n: int) -> np.ndarray:
    """uint8[n], 0 or 1."""
    packed = np.frombuffer(buffer, np.uint8)[offset // 8 : (offset + n + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset % 8 : offset % 8 + n]


def flags_in(array: pa.Array) -> np.ndarray:
    """bool[n] of one of bools; at NULLs anything."""
    return bits_in(array.buffers()[1], array.offset, len(array)).view(bool) if len(array) else np.zeros(0, bool)


def mask_array(flags: np.ndarray) -> pa.Array:
    """Of bool[n]."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(np.packbits(flags, bitorder="little"))])


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Not `from_pylist`, for the same reason."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def text_array(values: Sequence[str]) -> pa.Array:
    return bytes_array([value.encode() for value in values], pa.string())


def bytes_array(values: Sequence[bytes | memoryview | None], type_: pa.DataType) -> pa.Array:
    """The bytes of a single one are not copied."""
    is_large = type_ in (pa.large_binary(), pa.large_string())
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int64 if is_large else np.int32)
    there = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    body = values[0] if len(values) == 1 and values[0] is not None else b"".join(value for value in values if value is not None)
    return pa.Array.from_buffers(type_, len(values), [pa.py_buffer(there), pa.py_buffer(ends), pa.py_buffer(body)])


__all__ = ["bits_in", "bytes_array", "empty_batch", "flags_in", "int64_array", "mask_array", "numbers_in", "text_array"]
