"""CSV: a value is a record, fields in the order of the stream's columns, or of those that `columns`, or a file's first line, names.

A field may stand in quotes, with separators, quotes (twice) and line's ends in it. An empty one is NULL, but in a column of texts.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from io import BytesIO, StringIO
from typing import Annotated, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pydantic import Field

from connectors.contract.formats import Decoded, ValueFormat
from connectors.formats.instants import shape_of, texts_of, with_instants
from connectors.formats.reading_apart import read_apart


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
        for name in self.columns or ():
            if name not in schema.names:
                raise ValueError(f"the stream has no column {name!r}; it has {', '.join(schema.names)}")

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        names = self.columns or tuple(schema.names)
        return read_apart(values, partial(self._many, schema, names), partial(self._one, schema, names))

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        return [self._line(row) for row in zip(*map(_csv_cells, rows.columns), strict=True)]

    def head(self, schema: pa.Schema) -> bytes:
        return self._line(schema.names) + b"\n" if self.header else b""

    def begun(self, first: bytes) -> Self | None:
        if not self.header:
            return None
        names = next(csv.reader(StringIO(first.decode("utf-8-sig")), delimiter=self.separator), [])
        return self.model_copy(update={"columns": tuple(names)})

    def ends(self, line: bytes) -> bool:
        return line.count(b'"') % 2 == 0

    def _line(self, cells: Sequence[str]) -> bytes:
        text = StringIO()
        csv.writer(text, delimiter=self.separator, lineterminator="\r\n").writerow(cells)  # what is in that is quoted
        return text.getvalue()[:-2].encode()

    def _many(self, schema: pa.Schema, names: Sequence[str], values: Sequence[bytes]) -> pa.RecordBatch:
        lines = b"\n".join(values)
        if lines.count(b"\n") != len(values) - 1:
            raise ValueError("one of them has several lines")
        try:
            return self._read(schema, names, lines, len(values), numbers=False)
        except (pa.ArrowInvalid, ValueError):
            return self._read(schema, names, lines, len(values), numbers=True)

    def _one(self, schema: pa.Schema, names: Sequence[str], values: Sequence[bytes]) -> pa.RecordBatch:
        if not self.ends(values[0]):
            raise ValueError("a quote is open at its end")
        try:
            return self._read(schema, names, values[0], 1, numbers=False)
        except (pa.ArrowInvalid, ValueError):
            return self._read(schema, names, values[0], 1, numbers=True)

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
        parse = pyarrow.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True, ignore_empty_lines=False)
        table = pyarrow.csv.read_csv(BytesIO(lines), read, parse, convert).combine_chunks()
        if table.num_rows != rows:
            raise ValueError(f"expected {rows} records, got {table.num_rows}")
        (batch,) = table.to_batches()
        instants = (each.name for each in schema if pa.types.is_timestamp(each.type) and not numbers)
        emptied = {name: pc.if_else(pc.equal(batch.column(name), ""), None, batch.column(name)) for name in instants}
        return with_instants(batch if not emptied else _with(batch, emptied), schema)


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
