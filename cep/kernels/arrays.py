"""Arrow arrays of what Python and numpy have. Not `pa.array`: its first call imports pandas where there is one, 0.2 s on the data path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def int64_array(values: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def mask_array(flags: np.ndarray) -> pa.Array:
    """Of bool[n]."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(np.packbits(flags, bitorder="little"))])


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Not `from_pylist`, for the same reason."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def bytes_array(values: Sequence[bytes | memoryview | None], type_: pa.DataType) -> pa.Array:
    """Of a large type. The bytes of a single one are not copied."""
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)], dtype=np.int64)
    there = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    body = values[0] if len(values) == 1 and values[0] is not None else b"".join(value for value in values if value is not None)
    return pa.Array.from_buffers(type_, len(values), [pa.py_buffer(there), pa.py_buffer(ends), pa.py_buffer(body)])


__all__ = ["bytes_array", "empty_batch", "int64_array", "mask_array"]
