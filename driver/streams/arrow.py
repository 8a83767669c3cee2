"""What users hand to a publisher, as Arrow record batches of the stream's schema."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.dataflow.sources.arrow_values import instants_of
from cep.dataflow.sources.lines import ROW_BYTES_MAX
from cep.elements import EVENT_TIME_MAX, MIN_TIME, describe_time, greatest_time
from cep.errors import DataError, QueryError
from cep.kernels.columns import from_arrow
from cep.model.limits import odd_time, shown
from cep.model.schema import TIMESTAMP_US, Field, Schema
from cep.model.streams import Stream
from cep.model.times.iso_instants import read_instant
from cep.transport.wire import LAYOUTS_KEPT, Format
from driver.streams.records import from_records

FEW_ROWS = 1024  # that Arrow validates as quickly as we find that there is no need
_EVENT_TIME = pa.timestamp("us", tz="UTC")


def record_batches(data: Any, stream: Stream) -> list[pa.RecordBatch]:
    """`data` (Arrow batch or table, pandas or polars frame, iterable of dicts) as batches of `stream`'s schema.

    Raises DataError naming the stream, the field, what was expected and what was got; then nothing of `data` is taken.
    """
    if isinstance(data, pa.RecordBatch) and _is_plain(data, columns := data.columns, stream.schema):
        check_texts(columns, stream)
        return [data]
    table = _table(data, stream)
    wanted, got = stream.schema.names, tuple(table.column_names)
    if twice := sorted(name for name, columns in Counter(got).items() if columns > 1):
        raise DataError(f"stream {stream.name!r}: a column may be there once, and there are several called {twice[0]!r}")
    missing = sorted(name for name in set(wanted) - set(got) if not stream.schema[name].nullable)
    extra = sorted(set(got) - set(wanted))
    if missing or extra:
        raise DataError(f"stream {stream.name!r} has {stream.schema}; missing fields: {missing}, unknown fields: {extra}")
    absent = pa.chunked_array([pa.nulls(table.num_rows)])
    columns = [
        _column(table.column(f.name) if f.name in got else absent, f, stream.name, stream.event_time_column) for f in stream.schema.fields
    ]
    for field, column in zip(stream.schema.fields, columns, strict=True):
        longest = _longest(column, field)
        if longest > ROW_BYTES_MAX:
            raise DataError(f"stream {stream.name!r}, field {field}: a value of {longest} bytes; expected at most {ROW_BYTES_MAX}")
    batches: list[pa.RecordBatch] = pa.table(columns, schema=stream.schema.arrow).combine_chunks().to_batches()
    for batch in batches:
        check_texts(batch.columns, stream)
    return batches


def _is_plain(batch: pa.RecordBatch, columns: Sequence[pa.Array], schema: Schema) -> bool:
    """Is it, with these columns, of the stream's schema as it stands?"""
    if batch.schema != schema.arrow and (batch.schema.names != schema.arrow.names or batch.schema.types != schema.arrow.types):
        return False
    large = batch.get_total_buffer_size() > ROW_BYTES_MAX
    for field, column in zip(schema.fields, columns, strict=True):
        if field.type.is_list or (column.null_count and not field.nullable):
            return False
        if large and field.type.is_text and column.nbytes > ROW_BYTES_MAX:
            return False
    return True


def check_texts(columns: Sequence[pa.Array], stream: Stream) -> None:
    """Raises DataError: texts whose offsets lie, or bytes of a `string` that are not UTF-8. The readers of the stream would refuse the
    batch (`cep.transport.admission`) and close its publisher. `columns`: all of a batch; to make them anew takes as long as this."""
    for field, column in zip(stream.schema.fields, columns, strict=True):
        if field.type.is_text and not (len(column) > FEW_ROWS and _is_ascii(column)):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise DataError(f"stream {stream.name!r}, field {field}: {error}", column=field.name) from None


def _is_ascii(texts: pa.Array) -> bool:
    """Are the texts all ASCII, and their offsets in order? Asked of many texts at once, for Arrow validates them one by one."""
    _, places, body = texts.buffers()
    offsets = np.frombuffer(places, np.int32, len(texts) + 1, texts.offset * 4)
    first, last, size = int(offsets[0]), int(offsets[-1]), 0 if body is None else len(body)
    if not 0 <= first <= last <= size or bool((offsets[1:] < offsets[:-1]).any()):
        return False
    return first == last or int(np.frombuffer(body, np.uint8, last - first, first).max()) < 128


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
    try:
        if hasattr(data, "to_arrow"):  # polars
            return data.to_arrow()
        if hasattr(data, "iloc"):  # pandas
            return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"stream {stream.name!r}: the {type(data).__name__} is no table of Arrow's types: {error}") from None
    if isinstance(data, Mapping):
        data = [data]
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return from_records(data, stream)
    raise DataError(
        f"stream {stream.name!r}: expected an Arrow table or batch, a pandas or polars frame, or dicts, got {type(data).__name__}"
    )


def _column(column: pa.ChunkedArray, field: Field, stream: str, event_time: str | None = None) -> pa.ChunkedArray:
    """`event_time`: the column that is it, which every row has."""
    if column.null_count and not field.nullable:
        row, nulls = pc.index(column.is_null(), True).as_py(), "1 NULL" if column.null_count == 1 else f"{column.null_count} NULLs"
        said = f'{nulls} where none is allowed (declare it "{field.type}?")'
        if field.name == event_time:
            said = f"the row has no {field.name!r}, which is its event time"
        raise DataError(f"stream {stream!r}, field {field}, row {row}: {said}", row, field.name)
    try:
        return _cast(column, field, stream)
    except pa.ArrowInvalid:
        row = _first_refused(column, field, stream)
        try:
            _cast(column.slice(row, 1), field, stream)
        except pa.ArrowInvalid as error:
            reason = f"timestamps are stored in whole µs: {error}" if field.type.name == "timestamp" else str(error)
            raise DataError(f"stream {stream!r}, field {field}, row {row}: {reason}", row, field.name) from None
        raise


def _first_refused(column: pa.ChunkedArray, field: Field, stream: str) -> int:
    """The first row that cannot be cast: of those up to it the first run that cannot."""

    def is_refused(rows: int) -> bool:
        try:
            _cast(column.slice(0, rows), field, stream)
        except pa.ArrowInvalid:
            return True
        return False

    return bisect_left(range(1, len(column) + 1), True, key=is_refused)


def _cast(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    """Raises pa.ArrowInvalid where a value would change, DataError where the type has no place for any."""
    if column.type == field.type.arrow and not field.type.is_list:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if field.type.name == "timestamp":
        return _timestamps(column, field, stream)
    if field.type.is_list:
        return _lists(column, field, stream)
    return column.cast(field.type.arrow, safe=True) if _widens(column.type, field) else _refuse(column, field, stream)


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
    raise DataError(f"stream {stream!r}, field {field}: expected {field.type.arrow}, got {column.type}", column=field.name)


def _timestamps(column: pa.ChunkedArray, field: Field, stream: str) -> pa.ChunkedArray:
    """Without a zone they are UTC; integers are of the field's unit."""
    if pa.types.is_integer(column.type):
        if not field.type.unit:
            said = "a timestamp without a unit takes no integers; declare timestamp[ms] or the like"
            raise DataError(f"stream {stream!r}, field {field}: {said}", column=field.name)
        return instants_of(column.cast(pa.int64()), field.type.unit)
    if not pa.types.is_timestamp(column.type) and not pa.types.is_null(column.type):
        return _refuse(column, field, stream)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    return column.cast(field.type.arrow, safe=True)


def instant(value: Any, stream: Stream) -> int:
    """A time as rows of `stream` have it, µs: a datetime, an integer of its unit, or ISO 8601. Raises DataError."""
    time_us = _from_iso(value, stream) if isinstance(value, str) else _from_value(value, stream)
    first, last = stream.times
    if not first <= time_us <= last:
        raise DataError(f"stream {stream.name!r}: {odd_time(stream.times)}, got {describe_time(time_us)}")
    return time_us


def _from_iso(text: str, stream: Stream) -> int:
    try:
        return read_instant(text, signed_years=True)
    except ValueError as error:
        raise DataError(f"stream {stream.name!r}: {text!r}: {error}") from None


def _from_value(value: Any, stream: Stream) -> int:
    column = stream.event_time_column
    field = Field("to", TIMESTAMP_US if column is None else stream.schema[column].type, False)
    if isinstance(value, bool) or not isinstance(value, datetime | int):
        raise DataError(f"stream {stream.name!r}: expected a time (a datetime, an integer or ISO 8601), got {shown(value)}")
    if column is None and isinstance(value, int):
        raise DataError(f"stream {stream.name!r}: its event time is no plain column, so no integer stands for one; give a datetime")
    try:
        given = pa.array([value], pa.int64() if isinstance(value, int) else field.type.arrow)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise DataError(f"stream {stream.name!r}: {shown(value)} is no time: {error}") from None
    found = _column(pa.chunked_array([given]), field, stream.name)
    (time_us,) = from_arrow(found.combine_chunks(), TIMESTAMP_US).values.tolist()
    return int(time_us)


def event_times(batch: pa.RecordBatch, column: str) -> np.ndarray:
    """int64[n], µs; MIN_TIME where it is NULL."""
    times = from_arrow(batch.column(column), TIMESTAMP_US)
    return times.values if times.valid is None else np.where(times.valid, times.values, MIN_TIME)


EVENT_TIME = "event_time"  # the column that is added to answers, unless another name is asked for


@lru_cache(LAYOUTS_KEPT)
def visible_schema(format: Format, time: str = EVENT_TIME) -> pa.Schema:
    """The schema of what comes in `format`: the columns that the user declared, and behind them the event time, if it comes, by the name
    `time`. One and the same for all streams of a format: a reader of thousands of streams finds it at hand."""
    return pa.schema([*format.schema.arrow, *[pa.field(time, _EVENT_TIME)] * format.hides_time])


def time_column(event_time: bool | str, stream: str, names: Iterable[str]) -> str:
    """What the added column of event times is called, among the columns `names` of `stream`. Raises QueryError: as one of these."""
    name = event_time if isinstance(event_time, str) else EVENT_TIME
    if event_time and name in names:
        what = f"stream {stream!r} has a column {name!r} of its own, which the event time would hide"
        raise QueryError(f"event_time: {what}; give another name: subscribe(..., event_time='happened_at')", "/event_time")
    return name


def with_shown_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with NULL in its last column, the event times, at the end of event time and behind it: no calendar has that instant."""
    times = batch.column(batch.num_columns - 1)
    values = from_arrow(times, TIMESTAMP_US).values
    if not len(values) or greatest_time(values) < EVENT_TIME_MAX:
        return batch
    ended = pa.array(values >= EVENT_TIME_MAX)
    shown = pc.if_else(ended, pa.scalar(None, times.type), times)
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], shown], schema=batch.schema)
