"""Rows as REST's small clients read them: instants in ISO 8601, bytes in hexadecimal, what is no number of JSON as 'nan', 'inf', '-inf'."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

ROWS_TOGETHER = 500
"""Python lets no other thread run while it writes a piece of JSON."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written(batch: pa.RecordBatch) -> bytes:
    """The rows as JSON objects with commas between them."""
    pieces = (batch.slice(begin, ROWS_TOGETHER) for begin in range(0, batch.num_rows, ROWS_TOGETHER))
    return b",".join(json.dumps(_rows(piece), allow_nan=False).encode()[1:-1] for piece in pieces)


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_values, batch.columns), strict=True)]


def _values(column: pa.Array) -> list[Any]:
    kind = column.type.value_type if pa.types.is_list(column.type) else column.type
    if pa.types.is_timestamp(kind):  # Python's own knows the years 1 to 9999
        integers = column.cast(pa.list_(pa.int64()) if pa.types.is_list(column.type) else pa.int64())
        return [_each(_instant, value) for value in integers.to_pylist()]
    if pa.types.is_floating(kind):
        return [_each(_number, value) for value in column.to_pylist()]
    if pa.types.is_binary(kind):
        return [_each(bytes.hex, value) for value in column.to_pylist()]
    return list(column.to_pylist())


def _each(show: Any, value: Any) -> Any:
    if value is None:
        return None
    return [_each(show, each) for each in value] if isinstance(value, list) else show(value)


def _instant(microseconds: int) -> Any:
    """Beyond those years, the integer of µs since 1970."""
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return microseconds


def _number(value: float) -> Any:
    return value if math.isfinite(value) else str(value)
