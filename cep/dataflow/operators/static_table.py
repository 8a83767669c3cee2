"""A static table as columns: read from its file or out of the query's document, its columns cast to the declared schema.

Numbers are cast to other numbers where no value changes. An integer may be a timestamp, in the unit declared, and a text what a cast makes
of it: an instant in ISO 8601, or such an integer. What does not fit is an error that names file and column. In a CSV file, whose first line
has the names, an empty field is the empty text, or NULL if it is no text; empty lines are no rows.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from cep.compile.chain.casts import read_texts
from cep.dataflow.sources.arrow_values import instants_of
from cep.errors import DataError, ProtocolError, QueryError
from cep.kernels.columns import Column, from_arrow, to_arrow
from cep.model.limits import VALUE_BYTES_MAX
from cep.model.operators import Lookup
from cep.model.query import Query
from cep.model.schema import STRING, DataType, Field, Schema
from cep.model.tables import StaticTable
from cep.model.times.iso_instants import read_instant
from cep.transport import admission
from cep.world.store import DiskStore, ReadableFile, Store

#: Rows of a piece of a table.
PIECE_ROWS = 65_536
_INTEGER = re.compile(r"[+-]?[0-9]+")
#: A row lies in one block, or in two beside each other.
_CSV_READ = pyarrow.csv.ReadOptions(use_threads=False, block_size=VALUE_BYTES_MAX)
_CSV_PARSE = pyarrow.csv.ParseOptions(newlines_in_values=True)


def read_table(table: StaticTable, store: Store) -> dict[str, Column]:
    """The columns of `table.schema`. Raises DataError where they cannot be had."""
    where = _named(table)
    with _reading(table):
        found = _read(table, store, list(table.schema.names))
        found.validate(full=True)
    check_columns(where, table, found.column_names)
    inline = table.path is None  # documents are checked by processes that have no machine code
    return {field.name: _column(where, found.column(field.name), field, one_by_one=inline) for field in table.schema.fields}


def read_pieces(table: StaticTable, file: ReadableFile) -> Iterator[dict[str, Column]]:
    """The columns of `table.schema`, of at most PIECE_ROWS rows at a time, from the open file at its path. Raises DataError where they
    cannot be had, perhaps after some pieces."""
    where, pieces, first = _named(table), _pieces(table, file), 0
    while True:
        with _reading(table):
            piece = next(pieces, None)
            if piece is None:
                return
            piece.validate(full=True)
        check_columns(where, table, piece.schema.names)
        yield {field.name: _column(where, pa.chunked_array([piece.column(field.name)]), field, first) for field in table.schema.fields}
        first += piece.num_rows


def _pieces(table: StaticTable, file: ReadableFile) -> Iterator[pa.RecordBatch]:
    names = list(table.schema.names)
    match table.format:
        case "parquet":
            parquet = pyarrow.parquet.ParquetFile(file)
            check_columns(_named(table), table, parquet.schema_arrow.names)
            batches = parquet.iter_batches(PIECE_ROWS, columns=names, use_threads=False)
        case "arrow":
            arrow = pa.ipc.open_file(file)
            check_columns(_named(table), table, arrow.schema.names)
            batches = (arrow.get_batch(i) for i in range(arrow.num_record_batches))
        case _:
            check_columns(_named(table), table, csv_names(file))  # of one twice it would read the first
            file.seek(0)
            batches = pyarrow.csv.open_csv(_EndedLines(file), _CSV_READ, _CSV_PARSE, _conversion(table.schema, names))
    for batch in batches:
        for start in range(0, batch.num_rows, PIECE_ROWS):
            yield batch.slice(start, PIECE_ROWS)


@contextmanager
def _reading(table: StaticTable) -> Iterator[None]:
    """ValueError and KeyError: pyarrow raises them of names that are no UTF-8, and of one that it does not find or that is there twice."""
    try:
        yield
    except (OSError, ValueError, KeyError, pa.ArrowException, ProtocolError) as error:
        names = ", ".join(table.schema.names)
        raise DataError(f"{_named(table)}: cannot be read: {_said(error)}; expected {table.format} with the columns {names}") from None


def _named(table: StaticTable) -> str:
    return "the table in the query's document" if table.path is None else f"table {table.path!r}"


def check_columns(where: str, table: StaticTable, there: Sequence[str]) -> None:
    """Raises DataError: a column that the table declares is not `there`, or there several times."""
    found = Counter(there)
    for name in table.schema.names:
        if found[name] != 1:
            several = f"{found[name]} columns" if found[name] else "no column"
            raise DataError(f"{where}: {several} {name!r}; there are {', '.join(there) or 'none'}")


def check_inline(query: Query) -> None:
    """Raises QueryError where a table that travels in the query's document cannot be had as it is declared."""
    for i, operator in enumerate(query.operators):
        if isinstance(operator, Lookup) and operator.table.data is not None:
            try:
                read_table(operator.table, DiskStore())
            except DataError as error:
                raise QueryError(f"operator {operator.name!r}, table: {error}", f"/operators/{i}/table/data") from None


def _read(table: StaticTable, store: Store, names: list[str]) -> pa.Table:
    """Single-threaded: an instance has one core."""
    if table.path is None:
        schema, batches = admission.read_stream(table.data)
        return pa.Table.from_batches(batches, schema)
    with ReadableFile(store.open(table.path)) as there:
        return _read_file(table, there, names)


def _read_file(table: StaticTable, there: ReadableFile, names: list[str]) -> pa.Table:
    match table.format:
        case "parquet":
            file = pyarrow.parquet.ParquetFile(there)
            return file.read(names if set(names) <= set(file.schema_arrow.names) else None, use_threads=False)
        case "arrow":
            return pyarrow.feather.read_table(there, use_threads=False, memory_map=False)
    return pyarrow.csv.read_csv(_EndedLines(there), _CSV_READ, _CSV_PARSE, _conversion(table.schema))


class _EndedLines(io.RawIOBase):
    """What a file has, and a line end behind it: of names without one, and nothing behind, Arrow says that the file is empty."""

    def __init__(self, file: ReadableFile) -> None:
        self.file, self.ended = file, False

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        """As much as there is room for; less only at the end, as of `ReadableFile`."""
        got = self.file.readinto(into)
        if got == len(into) or self.ended:
            return got
        into[got], self.ended = 10, True
        return got + 1


def csv_names(file: ReadableFile) -> list[str]:
    """The names in the first line of a CSV file. Raises pa.ArrowInvalid: there are none, or no rows behind them."""
    try:
        return list(pyarrow.csv.open_csv(_EndedLines(file), _CSV_READ, _CSV_PARSE).schema.names)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(_said(error)) from None


def _said(error: Exception) -> str:
    """Of rows that do not lie in two blocks Arrow tells to make these larger, which nobody can here."""
    return f"a row of more than {VALUE_BYTES_MAX:,} bytes" if "straddling object" in str(error) else str(error)


def _conversion(schema: Schema, only: Sequence[str] = ()) -> pyarrow.csv.ConvertOptions:
    """Timestamps are read as text, since they may be integers of their unit. `only`: the columns that are read; none: all."""
    types = {field.name: pa.string() if field.type.name == "timestamp" else field.type.arrow for field in schema.fields}
    return pyarrow.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=False, include_columns=list(only))


def _column(where: str, found: pa.ChunkedArray, field: Field, first: int = 0, one_by_one: bool = False) -> Column:
    """`first`: the number of its first row. `one_by_one`: texts are read without machine code."""
    try:
        array = _cast(found.combine_chunks() if found.num_chunks != 1 else found.chunk(0), field, one_by_one)
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(f"{where}, column {field.name!r}: expected {field.type}, got {found.type}: {error}") from None
    if array.null_count and not field.nullable:
        row = pc.index(array.is_null(), True).as_py()
        raise DataError(f"{where}, column {field.name!r}: NULL in row {first + row}; declare it as '{field.type}?' to allow that")
    return from_arrow(array, field.type)


def _cast(array: pa.Array, field: Field, one_by_one: bool) -> pa.Array:
    """Without loss, or pa.ArrowInvalid."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if field.type.name != "timestamp":
        if _kind(array.type) not in (_kind(field.type.arrow), _kind(pa.null())):
            raise pa.ArrowInvalid("these are not the same kind of values")
        return array.cast(field.type.arrow)
    unit = field.type.unit
    if _kind(array.type) == "text":
        array = array.cast(pa.string())
        return _instants(pc.if_else(pc.equal(array, ""), None, array), field.type, one_by_one)
    if pa.types.is_integer(array.type):
        if not unit:
            raise pa.ArrowInvalid("a timestamp without a unit is no integer; declare it as timestamp[ms], for example")
        array = array.cast(pa.int64()).cast(pa.timestamp(unit, tz="UTC"))
    return array.cast(field.type.arrow)


def _kind(type_: pa.DataType) -> str:
    """Values of one kind are cast where they fit."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    return "bytes" if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) else str(type_)


def _instants(texts: pa.Array, type_: DataType, one_by_one: bool) -> pa.Array:
    """As casts read them. Raises pa.ArrowInvalid."""
    if one_by_one:
        read = [None if text is None else _instant(text, type_) for text in texts.to_pylist()]
        there = np.array([each is not None for each in read], np.uint8)
        return to_arrow(Column(type_, np.array([each or 0 for each in read], np.int64), None if there.all() else there))
    values, fits = read_texts(from_arrow(texts, STRING), type_)
    for row in np.flatnonzero(fits == 0)[:1].tolist():
        raise _no_instant(texts[row].as_py(), type_)
    return to_arrow(values)


def _instant(text: str, type_: DataType) -> int:
    """µs since 1970, of one text. Raises pa.ArrowInvalid."""
    with suppress(ValueError):
        return read_instant(text)
    try:
        if type_.unit and _INTEGER.fullmatch(text):
            return int(instants_of(pa.scalar(int(text), pa.int64()), type_.unit).value)
    except (pa.ArrowException, OverflowError, ValueError):  # the last: of more digits than Python takes for an integer
        pass
    raise _no_instant(text, type_)


def _no_instant(text: str, type_: DataType) -> pa.ArrowInvalid:
    integer = f", and no integer of {type_.unit}" if type_.unit else ""
    return pa.ArrowInvalid(f"{text!r:.100} is no instant in ISO 8601 of whole µs{integer}")
