"""JSON: a value is an object, whose members are the columns; others are not looked at.

Instants are ISO 8601 or integers of the declared unit, bytes are hexadecimal, and what is no number of JSON is 'nan', 'inf' or '-inf', as
REST has them. Arrow reads many values at once as lines; what it does not take is read by Python, one by one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from connectors.contract.formats import Decoded, ValueFormat
from connectors.formats.instants import instant, shape_of, texts_of, with_instants
from connectors.formats.reading_apart import read_apart

DIGITS_MAX = 300
_NO_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class JsonFormat(ValueFormat):
    """JSON objects, a line each in files."""

    suffix: ClassVar[str] = ".jsonl"
    media: ClassVar[str] = "application/x-ndjson"
    text: ClassVar[bool] = True

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        return read_apart(values, partial(_many, schema), partial(_one, schema))

    def is_blank(self, line: bytes) -> bool:
        return not line.strip()

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        if not rows.num_columns:
            return [b"{}"] * rows.num_rows
        names = (encode_basestring(name).replace("%", "%%") for name in rows.schema.names)
        form = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
        return [(form % row).encode() for row in zip(*map(_json_texts, rows.columns), strict=True)]


def _many(schema: pa.Schema, values: Sequence[bytes]) -> pa.RecordBatch:
    """As lines: each value is one, and an object."""
    lines = b"\n".join(values)
    between = len(values) - 1
    if not (lines[:1] == b"{" and lines[-1:] == b"}" and lines.count(b"\n") == between == lines.count(b"}\n{")):
        raise ValueError("one of them is no object, or has several lines")
    return with_instants(_read(lines, schema, len(values), _has_numbers(schema, values[0])), schema)


def _has_numbers(schema: pa.Schema, value: bytes) -> bool:
    """Are its instants integers? Of a batch all are, or those of another kind are read one by one."""
    found = json.loads(value)
    return any(isinstance(found.get(each.name), int) for each in schema if pa.types.is_timestamp(each.type))


def _read(lines: bytes, schema: pa.Schema, rows: int, numbers: bool) -> pa.RecordBatch:
    """`numbers`: instants are expected as integers."""
    wanted = pa.schema([(each.name, shape_of(each.type, numbers)) for each in schema])
    parse = pyarrow.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    table = pyarrow.json.read_json(BytesIO(lines), read, parse).combine_chunks()
    if table.num_rows != rows:
        raise ValueError(f"expected {rows} objects, got {table.num_rows}")
    (batch,) = table.to_batches()
    return batch


def _one(schema: pa.Schema, values: Sequence[bytes]) -> pa.RecordBatch:
    found = json.loads(values[0], parse_int=_whole)
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, got {type(found).__name__}")
    arrays = []
    for field in schema:
        try:
            arrays.append(_array(_value(found.get(field.name), field.type), field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"field {field.name!r}: expected {field.type}, got {found.get(field.name)!r:.100}: {error}") from None
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _whole(digits: str) -> int | float:
    """One that is too great for any column of integers is a float, as Arrow's reader has it."""
    return int(digits) if len(digits) <= DIGITS_MAX else float(digits)


def _array(value: Any, type_: pa.DataType) -> pa.Array:
    is_integer = isinstance(value, int) and pa.types.is_timestamp(type_)
    inside, of = (value or (), type_.value_type) if pa.types.is_list(type_) else ((value,), type_)
    for each in inside:
        if (isinstance(each, bool) and not pa.types.is_boolean(of)) or (isinstance(each, float) and not pa.types.is_floating(of)):
            raise TypeError(f"it is a {type(each).__name__}")
    return pa.array([value], pa.int64() if is_integer else type_)


def _value(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, list) and pa.types.is_list(type_):
        return [_value(each, type_.value_type) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and pa.types.is_floating(type_):
        return float(value)  # as Arrow's reader has it, also where that is not the same number
    if not isinstance(value, str):
        return value
    if pa.types.is_timestamp(type_):
        return instant(value)
    if pa.types.is_binary(type_):
        return bytes.fromhex(value)
    return _NO_NUMBERS.get(value, value) if pa.types.is_floating(type_) else value


def _json_texts(column: pa.Array) -> list[str]:
    """JSON of each value."""
    type_ = column.type
    if pa.types.is_integer(type_):
        return ["null" if value is None else str(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(type_):
        return ["null" if text is None else f'"{text}"' for text in texts_of(column)]
    if pa.types.is_string(type_):
        return ["null" if value is None else encode_basestring(value) for value in column.to_pylist()]
    if pa.types.is_list(type_):
        inside = iter(_json_texts(column.flatten()))
        sizes = pc.list_value_length(column).to_pylist()
        return ["null" if size is None else f"[{', '.join(islice(inside, size))}]" for size in sizes]
    return [json.dumps(_shown(value)) for value in column.to_pylist()]


def _shown(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value
