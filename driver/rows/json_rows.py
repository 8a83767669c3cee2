"""Rows as JSON, one form for both ways: instants are text in ISO 8601, bytes text in hexadecimal, and what is no number of JSON is 'nan',
'inf' or '-inf'. So REST's readers get them, and so do `cep tail --json`; what they got may be published as it is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cep.errors import DataError
from cep.model.schema import DataType, Field
from cep.model.streams import Stream
from cep.model.times.iso_instants import instant_text, read_instant

ROWS_TOGETHER = 500
"""Python lets no other thread run while it writes a piece of JSON."""

_NO_NUMBERS = ("nan", "inf", "-inf")
_HEXADECIMAL = re.compile("(?:[0-9a-fA-F]{2})*")


def written(batch: pa.RecordBatch) -> bytes:
    """The rows as JSON objects with commas between them."""
    pieces = (batch.slice(begin, ROWS_TOGETHER) for begin in range(0, batch.num_rows, ROWS_TOGETHER))
    return b",".join(json.dumps(_rows(piece), allow_nan=False).encode()[1:-1] for piece in pieces)


def lines(batch: pa.RecordBatch) -> Iterator[str]:
    """A JSON object for each row."""
    return (json.dumps(row, allow_nan=False) for row in _rows(batch))


def shown_rows(batch: pa.RecordBatch) -> list[list[Any]]:
    """The values of each row, as JSON has them."""
    return [list(row.values()) for row in _rows(batch)]


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_values, batch.columns), strict=True)]


def _values(column: pa.Array) -> list[Any]:
    kind = column.type.value_type if pa.types.is_list(column.type) else column.type
    if pa.types.is_timestamp(kind):
        integers = column.cast(pa.list_(pa.int64()) if pa.types.is_list(column.type) else pa.int64())
        return [_each(instant_text, value) for value in integers.to_pylist()]
    if pa.types.is_floating(kind):
        return [_each(_number, value) for value in column.to_pylist()]
    if pa.types.is_binary(kind):
        return [_each(bytes.hex, value) for value in column.to_pylist()]
    return list(column.to_pylist())


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    if value is None:
        return None
    return [_each(change, each) for each in value] if isinstance(value, list) else change(value)


def _number(value: float) -> Any:
    return value if math.isfinite(value) else str(value)


# The way in


def taken(rows: Sequence[Any], stream: Stream) -> list[Any]:
    """Rows of JSON as publishers take them: texts become the instants, bytes and numbers that they stand for. All else stays as it is, and
    is judged where it is sent. Raises DataError, which names the row and the field."""
    readers = [(field, reader) for field in stream.schema.fields if (reader := _reader(field.type)) is not None]
    if not readers:
        return list(rows)
    return [_taken(number, row, readers, stream) if isinstance(row, Mapping) else row for number, row in enumerate(rows)]


def _taken(number: int, row: Mapping[str, Any], readers: Sequence[tuple[Field, Callable[[Any], Any]]], stream: Stream) -> dict[str, Any]:
    found = dict(row)
    for field, reader in readers:
        if field.name in found:
            try:
                found[field.name] = _each(reader, found[field.name])
            except ValueError as error:
                where = f"stream {stream.name!r}, field {field}, row {number}"
                raise DataError(f"{where}: {row[field.name]!r:.100}: {error}", number, field.name) from None
    return found


def _reader(type_: DataType) -> Callable[[Any], Any] | None:
    """What reads the texts of a field; None: they are what they are."""
    name = (type_.element or type_).name
    return {"timestamp": _instant_of, "binary": _bytes_of, "float64": _number_of}.get(name)


def _instant_of(value: Any) -> Any:
    return read_instant(value, signed_years=True) if isinstance(value, str) else value


def _bytes_of(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not _HEXADECIMAL.fullmatch(value):
        raise ValueError("expected bytes as text in hexadecimal, such as '00ff'")
    return bytes.fromhex(value)


def _number_of(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in _NO_NUMBERS else value
