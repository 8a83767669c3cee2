"""CSV: a value is a record, fields in the order of the stream's columns, or of those that `columns`, or a file's first line, names.

A field may stand in quotes, with separators, quotes (twice) and line's ends in it. An empty one is NULL, but in a column of texts or bytes,
where it is empty. A quote opens only at a field's beginning, as Arrow's reader has it: `5" disk` is what it says.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO, StringIO
from typing import Annotated, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pydantic import Field

from connectors.contract.formats import Decoded, ValueFormat
from connectors.formats.instants import shape_of, texts_of, with_instants
from connectors.formats.reading_apart import read_apart

_BOM = b"\xef\xbb\xbf"
"""A mark that some programs put before a text. Arrow passes over one that is before what it reads."""


class CsvFormat(ValueFormat):
    """Fields between separators, a record a line in files."""

    suffix: ClassVar[str] = ".csv"
    media: ClassVar[str] = "text/csv"
    text: ClassVar[bool] = True
    separator: Annotated[str, Field(min_length=1, max_length=1, pattern=r"[^\"\r\n]", description="Between fields.")] = ","
    header: Annotated[bool, Field(description="The first line of a file names the columns.")] = False
    columns: Annotated[tuple[str, ...] | None, Field(description="The columns of the fields; default: those of the stream.")] = None

    def check(self, schema: pa.Schema) -> None:
        for field in schema:
            if pa.types.is_list(field.type):
                raise ValueError(f"CSV has no lists, and column {field.name!r} is one")
        columns = self.columns or ()
        for name in columns:
            if name not in schema.names:
                raise ValueError(f"the stream has no column {name!r}; it has {', '.join(schema.names)}")
            if columns.count(name) > 1:
                raise ValueError(f"columns: {name!r} stands there twice")

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        names = self.columns or tuple(schema.names)
        if twice := [name for name in schema.names if names.count(name) > 1]:
            return Decoded(bad=[(at, f"column {twice[0]!r} stands twice in the file's first line") for at in range(len(values))])
        return read_apart(values, partial(self._many, schema, names), partial(self._one, schema, names))

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        rows = rows if self.columns is None else rows.select(self.columns)
        return [self._line(row) for row in zip(*map(_csv_cells, rows.columns), strict=True)]

    def head(self, schema: pa.Schema) -> bytes:
        return self._line(self.columns or schema.names) + b"\n" if self.header else b""

    def begun(self, first: bytes) -> Self | None:
        if not self.header:
            return None
        self._check(first)
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(first) + 2)
        names = pyarrow.csv.read_csv(BytesIO(first + b"\n"), read, self._parse).column_names
        return self.model_copy(update={"columns": tuple(names)})

    def is_open(self, line: bytes, before: bool) -> bool:
        if b'"' not in line:
            return before
        quotes = _quotes(self.separator)
        return (quotes.closing if before else quotes.closed).fullmatch(line if before else line.removeprefix(_BOM)) is None

    def _line(self, cells: Sequence[str]) -> bytes:
        text = StringIO()
        csv.writer(text, delimiter=self.separator, lineterminator="\r\n").writerow(cells)  # what is in that is quoted
        return text.getvalue()[:-2].encode()

    @property
    def _parse(self) -> pyarrow.csv.ParseOptions:
        return pyarrow.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True, ignore_empty_lines=False)

    def _check(self, value: bytes) -> None:
        """Raises ValueError: it is not one record."""
        if _quotes(self.separator).record.fullmatch(value.removeprefix(_BOM)) is None:
            if not value.strip(b"\r\n"):
                raise ValueError("it is empty")
            raise ValueError("a quote is open at its end" if self.is_open(value, False) else "it has several lines")

    def _many(self, schema: pa.Schema, names: Sequence[str], values: Sequence[bytes]) -> pa.RecordBatch:
        """As lines, each of which would be the same record by itself."""
        lines = b"\n".join(values)
        if lines.count(b"\n") != len(values) - 1 or not all(values):
            raise ValueError("one of them has several lines, or is empty")
        if (b'"' in lines or b"\r" in lines) and not all(map(_quotes(self.separator).record.fullmatch, values)):
            raise ValueError("one of them is no record")
        if _BOM in lines and any(value.startswith(_BOM) for value in values):
            raise ValueError("one of them begins with a mark that is none of a field's")
        return self._either(schema, names, lines, len(values))

    def _one(self, schema: pa.Schema, names: Sequence[str], values: Sequence[bytes]) -> pa.RecordBatch:
        self._check(values[0])
        return self._either(schema, names, values[0], 1)

    def _either(self, schema: pa.Schema, names: Sequence[str], lines: bytes, rows: int) -> pa.RecordBatch:
        """Instants are texts, or integers."""
        try:
            return self._read(schema, names, lines, rows, numbers=False)
        except (pa.ArrowInvalid, ValueError):
            return self._read(schema, names, lines, rows, numbers=True)

    def _read(self, schema: pa.Schema, names: Sequence[str], lines: bytes, rows: int, numbers: bool) -> pa.RecordBatch:
        shapes = {each.name: shape_of(each.type, numbers) for each in schema}
        convert = pyarrow.csv.ConvertOptions(
            column_types=shapes,
            null_values=[""],
            true_values=["true", "1"],
            false_values=["false", "0"],
            include_columns=schema.names,
            include_missing_columns=True,
        )
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=list(names))
        table = pyarrow.csv.read_csv(BytesIO(lines), read, self._parse, convert).combine_chunks()
        if table.num_rows != rows:
            raise ValueError(f"expected {rows} records, got {table.num_rows}")
        (batch,) = table.to_batches()
        instants = (each.name for each in schema if pa.types.is_timestamp(each.type) and not numbers)
        emptied = {name: pc.if_else(pc.equal(batch.column(name), ""), None, batch.column(name)) for name in instants}
        return with_instants(batch if not emptied else _with(batch, emptied), schema)


@dataclass(frozen=True, slots=True)
class _Quotes:
    """What Arrow's reader takes for records: `record` for one that is not empty, with its line's end or without; `closed` for lines behind
    which no quote is open; `closing` for such lines where one was open before them. None of them goes back to a byte."""

    record: re.Pattern[bytes]
    closed: re.Pattern[bytes]
    closing: re.Pattern[bytes]


@cache
def _quotes(separator: str) -> _Quotes:
    between = re.escape(separator.encode())
    behind = rb'(?:[^"]++|"")*+"[^%b\r\n]*+' % between  # what opened the quotes
    field = rb'(?:"%b|(?!")[^%b\r\n]*+)' % (behind, between)
    record = rb"(?!\r?\n?\Z)%b(?:[%b]%b)*+(?:\r\n|\r|\n)?+" % (field, between, field)
    lines = rb"(?:[%b\r\n]%b)*+" % (between, field)
    return _Quotes(*map(re.compile, (record, field + lines, behind + lines)))


def _with(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns.get(name, batch.column(name)) for name in batch.schema.names], names=batch.schema.names)


def _csv_cells(column: pa.Array) -> list[str]:
    if pa.types.is_timestamp(column.type):
        return ["" if text is None else text for text in texts_of(column)]
    return [_csv_cell(value) for value in column.to_pylist()]


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else str(value)
