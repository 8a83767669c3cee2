"""Static tables for lookups, as users hand them in: a path and a schema, or an Arrow table that travels in the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

from cep.errors import QueryError
from cep.model.limits import shown
from cep.model.schema import BINARY, BOOL, FLOAT64, INT32, INT64, STRING, TIMESTAMP, DataType, Field, Schema
from cep.model.streams import Stream
from cep.model.tables import StaticTable

TableLike: TypeAlias = pa.Table | StaticTable | tuple[str, Mapping[str, object]]


def static_table(table: TableLike) -> StaticTable:
    """`table` is an Arrow table, of at most 256 kB, or (path, {column: type}).

    Raises QueryError for a column of an Arrow type that the engine lacks, and for what is no table.
    """
    match table:
        case StaticTable():
            return table
        case pa.Table():
            return inline_table(table)
        case (str(path), Mapping() as columns):
            return StaticTable(Schema.of(columns), path)
    if isinstance(table, Stream):
        raise QueryError(
            f"table: expected a pyarrow.Table or (path, {{column: type}}), got stream {table.name!r}; a table that a stream feeds is the "
            "right side of as_of_join, which gives each tuple the last row that is not later",
            "/table",
        )
    raise QueryError(f"table: expected a pyarrow.Table or (path, {{column: type}}), got {shown(table)}", "/table")


def inline_table(table: pa.Table) -> StaticTable:
    """The table as an Arrow IPC stream; a column is nullable if it has a NULL."""
    fields = tuple(Field(name, _type_of(name, c.type), c.null_count > 0) for name, c in zip(table.column_names, table.columns, strict=True))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return StaticTable(Schema(fields), data=sink.getvalue().to_pybytes())


def _type_of(name: str, type_: pa.DataType) -> DataType:
    """The engine's type that holds all values of an Arrow type."""
    if pa.types.is_dictionary(type_):
        return _type_of(name, type_.value_type)
    tests = (
        (pa.types.is_boolean, BOOL),
        (lambda t: pa.types.is_integer(t) and (t.bit_width < 32 or t == pa.int32()), INT32),
        (lambda t: pa.types.is_integer(t) and t != pa.uint64(), INT64),
        (pa.types.is_floating, FLOAT64),
        (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), STRING),
        (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), BINARY),
        (pa.types.is_timestamp, TIMESTAMP),
    )
    found = next((ours for is_one, ours in tests if is_one(type_)), None)
    if found is None:
        raise QueryError(f"table, column {name!r}: no column of a stream is {type_}; cast it", "/table")
    return found
