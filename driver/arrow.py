"""What users hand to a publisher, as Arrow record batches of the stream's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.dataflow.files import ROW_BYTES_MAX
from cep.elements import MIN_TIME
from cep.errors import DataError
from cep.kernels.columns import from_arrow
from cep.model.schema import TIMESTAMP_US, UNIT_US, Field, Schema
from cep.model.streams import Stream
from cep.wire import LAYOUTS_KEPT, Format

_EVENT_TIME = pa.timestamp("us", tz="UTC")


def record_batches(data: Any, stream: Stream) -> list[pa.RecordBatch]:
    """`data` (Arrow batch or table, pandas or polars frame, iterable of dicts) as batches of `stream`'s schema.

    Raises DataError naming the stream, the field, what was expected and what was got; then nothing of `data` is taken.
    """
    if isinstance(data, pa.RecordBatch) and _is_plain(data, stream.schema):
        return [data]
    table = _table(data, stream)
    wanted, got = stream.schema.names, tuple(table.column_names)
    if set(wanted) != set(got):
        missing, extra = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
        raise DataError(f"stream {stream.name!r} has {stream.schema}; missing fields: {missing}, unknown fields: {extra}")
    columns = [_column(table.column(f.name), f, stream.name) for f in stream.schema.fields]
    for field, column in zip(stream.schema.fields, columns, strict=True):
        longest = _longest(column, field)
        if longest > ROW_BYTES_MAX:
            raise DataError(f"stream {stream.name!r}, field {field}: a value of {longest} bytes; expected at most {ROW_BYTES_MAX}")
    return pa.table(columns, schema=stream.schema.arrow).combine_chunks().to_batches()


def _is_plain(batch: pa.RecordBatch, schema: Schema) -> bool:
    """Is it of the stream's schema as it stands?"""
    if batch.schema != schema.arrow and (batch.schema.names != schema.arrow.names or batch.schema.types != schema.arrow.types):
        return False
    large = batch.get_total_buffer_size() > ROW_BYTES_MAX
    for field, column in zip(schema.fields, batch.columns, strict=True):
        if field.type.is_list or (column.null_count and not field.nullable):
            return False
        if large and field.type.is_text and column.nbytes > ROW_BYTES_MAX:
            return False
    return True


def _longest(column: pa.ChunkedArray, field: Field) -> int:
    """Bytes of the longest value as the engine stores it, 0 where all are of one width."""
    if field.type.is_text:
        return pc.max(pc.binary_length(column)).as_py() or 0
    if not field.type.is_list:
        return 0
    lists = [from_arrow(chunk, field.type) for chunk in column.chunks]
    return max((int(each.values.max()) for each in lists if len(each)), default=0)


def _table(data: Any, stream: Stream) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "to_arrow"):  # polars
        return data.to_arrow()
    if hasattr(data, "iloc"):  # pandas
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, Mapping):
        data = [data]
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_records(list(data), stream)
    raise DataError(
        f"stream {stream.name!r}: expected an Arrow table or batch, a pandas or polars frame, or dicts, got {type(data).__name__}"
    )


def _from_records(records: list[Any], stream: Stream) -> pa.Table:
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise DataError(f"stream {stream.name!r}, record {number}: expected a dict, got {record!r}")
        unknown = record.keys() - set(stream.schema.names)
        if unknown:
            raise DataError(f"stream {stream.name!r}, record {number}: unknown fields {sorted(unknown)}; it has {stream.schema}")
    arrays = [_values([record.get(f.name) for record in records], f, stream.name) for f in stream.schema.fields]
    return pa.table(arrays, names=list(stream.schema.names))


def _values(values: list[Any], field: Field, stream: str) -> pa.Array:
    wanted = field.type.arrow
    try:
        if field.type.name == "timestamp" and not any(isinstance(v, datetime) for v in values):
            return pa.array(values, pa.int64())
        if field.type.is_list:
            return _list_values(values, field)
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataError(f"stream {stream!r}, field {field}: {error}") from None


def _list_values(values: list[Any], field: Field) -> pa.Array:
    """Integers stand for instants in lists too."""
    instants = field.type.element is not None and field.type.element.name == "timestamp"
    integers = instants and not any(isinstance(v, datetime) for each in values if each is not None for v in each)
    return pa.array(values, pa.list_(pa.int64()) if integers else field.type.arrow)


def _column(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    if column.null_count and not field.nullable:
        raise DataError(f"stream {stream!r}, field {field}: {column.null_count} NULLs where none is allowed (declare it {field.type}?)")
    if column.type == field.type.arrow and not field.type.is_list:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if field.type.name == "timestamp":
            return _timestamps(column, field, stream)
        if field.type.is_list:
            return _lists(column, field, stream)
        same = pa.types.is_string(field.type.arrow) and pa.types.is_large_string(column.type)
        return column.cast(field.type.arrow, safe=True) if same or _widens(column.type, field) else _refuse(column, field, stream)
    except pa.ArrowInvalid as error:
        raise DataError(f"stream {stream!r}, field {field}: {error}") from None


def _widens(given: pa.DataType, field: Field) -> bool:
    """Types that may stand for a field without changing a value; safe casts check the values."""
    wanted = field.type.arrow
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(given) or pa.types.is_integer(given))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_large_string(given) or str(given) == "string_view")
    return bool(pa.types.is_binary(wanted) and (pa.types.is_large_binary(given) or str(given) == "binary_view"))


def _lists(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    """Their elements are taken by the rules of a nullable field of their type."""
    assert field.type.element is not None
    if not pa.types.is_null(column.type) and not _is_list(column.type):
        return _refuse(column, field, stream)
    if pa.types.is_null(column.type):
        return column.cast(field.type.arrow)
    chunks = [chunk.cast(pa.list_(column.type.value_type)) for chunk in column.chunks]
    element = Field(f"{field.name}[]", field.type.element, True)
    return pa.chunked_array([_list(chunk, element, stream) for chunk in chunks], field.type.arrow)


def _is_list(given: pa.DataType) -> bool:
    return any(of(given) for of in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _list(lists: pa.ListArray, element: Field, stream: str) -> pa.ListArray:
    values = _column(pa.chunked_array([lists.values]), element, stream).combine_chunks()
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, values, pa.list_(element.type.arrow), mask=mask)


def _refuse(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    raise DataError(f"stream {stream!r}, field {field}: expected {field.type.arrow}, got {column.type}")


def _timestamps(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    if pa.types.is_integer(column.type):
        column = _from_integers(column.cast(pa.int64()), field, stream)
    elif not pa.types.is_timestamp(column.type) and not pa.types.is_null(column.type):
        return _refuse(column, field, stream)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    try:
        return column.cast(field.type.arrow, safe=True)
    except pa.ArrowInvalid as error:
        raise DataError(f"stream {stream!r}, field {field}: timestamps are stored in whole µs: {error}") from None


def _from_integers(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    if not field.type.unit:
        raise DataError(
            f"stream {stream!r}, field {field}: a timestamp without a unit takes no integers; declare timestamp[ms] or the like"
        )
    if field.type.unit == "ns":
        return column.cast(pa.timestamp("ns", tz="UTC"))
    scaled = pc.multiply_checked(column, UNIT_US[field.type.unit])
    return scaled.cast(field.type.arrow)


def event_times(batch: pa.RecordBatch, column: str) -> np.ndarray:
    """int64[n], µs; MIN_TIME where it is NULL."""
    times = from_arrow(batch.column(column), TIMESTAMP_US)
    return times.values if times.valid is None else np.where(times.valid, times.values, MIN_TIME)


@lru_cache(LAYOUTS_KEPT)
def shown(format: Format) -> pa.Schema:
    """Of what comes in `format`: the columns that the user declared, and behind them the event time, if it comes, by the name that
    users know. One and the same for all streams of a format: who reads thousands of streams finds it at hand."""
    return pa.schema([*format.schema.arrow, *[pa.field("event_time", _EVENT_TIME)] * format.hides_time])
