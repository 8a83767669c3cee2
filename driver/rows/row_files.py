"""Files of rows as pieces that a publisher sends: JSON Lines, CSV, Parquet, Arrow.

A piece is rows with, of each, the number of the line that it was (of Parquet and Arrow: of the row), from 1 on. What is no row of its
format is told to `refuse`, and what is behind it is read.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from cep.errors import CepError, meant
from cep.model.schema import DataType
from cep.model.streams import Stream
from cep.service.documents import DOCUMENT_BYTES_MAX, read_json
from driver.rows.json_rows import taken

BLOCK_BYTES = 64 << 10
ROWS_TOGETHER = 1000
#: Of Parquet and Arrow. What is behind a row that does not fit is looked at again.
PIECE_ROWS = 8192
STDIN = "<stdin>"
_INTEGER = re.compile(r"[+-]?\d+")
#: What a byte becomes that is not UTF-8.
_SURROGATE = re.compile("[\udc80-\udcff]")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}

Refuse = Callable[[int, str], None]
"""Is told the number of a row and what is wrong with it."""


class RowFileFormat(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


_BY_SUFFIX = dict.fromkeys((".jsonl", ".ndjson", ".json"), RowFileFormat.JSONL) | {
    ".csv": RowFileFormat.CSV,
    ".parquet": RowFileFormat.PARQUET,
}
_BY_SUFFIX |= dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), RowFileFormat.ARROW)


class RowPiece(NamedTuple):
    """Rows, and the number of each."""

    rows: Sequence[Any] | pa.RecordBatch
    numbers: Sequence[int]

    def send_by(self, send: Callable[[Any], int], stream: Stream) -> int:
        """Raises DataError: a row does not fit; none was sent."""
        return send(self.rows if isinstance(self.rows, pa.RecordBatch) else taken(self.rows, stream))

    def part(self, begin: int, end: int) -> RowPiece:
        """The rows from one to before another."""
        rows = self.rows.slice(begin, end - begin) if isinstance(self.rows, pa.RecordBatch) else self.rows[begin:end]
        return RowPiece(rows, self.numbers[begin:end])


def format_of(file: str) -> RowFileFormat:
    """Of a file's name; standard input is JSON Lines. Raises CepError: it says none."""
    suffix = Path(file).suffix.lower()
    if file == STDIN or suffix in _BY_SUFFIX:
        return _BY_SUFFIX.get(suffix, RowFileFormat.JSONL)
    raise CepError(f"{file}: its name ends in none of {', '.join(_BY_SUFFIX)}: say --format, one of {', '.join(RowFileFormat)}")


def pieces_of(file: BufferedReader, format_: RowFileFormat, stream: Stream, refuse: Refuse) -> Iterator[RowPiece]:
    """All rows, in their order. Raises CepError: it is no file of that format."""
    match format_:
        case RowFileFormat.JSONL:
            return _json_lines(file, refuse)
        case RowFileFormat.CSV:
            return _separated(file, stream, refuse)
        case RowFileFormat.PARQUET:
            return _tables(lambda: import_module("pyarrow.parquet").ParquetFile(file).iter_batches())  # loaded where it is needed
        case RowFileFormat.ARROW:
            return _tables(lambda: _arrow_batches(file))


def _json_lines(file: BufferedReader, refuse: Refuse) -> Iterator[RowPiece]:
    """What has come goes at once: more may be long in coming."""
    number, rest = 0, b""
    while block := file.read1(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from _of_lines(lines, number, refuse)
        number += len(lines)
        if len(rest) > DOCUMENT_BYTES_MAX:
            raise CepError(f"line {number + 1} is longer than {DOCUMENT_BYTES_MAX:,} bytes")
    yield from _of_lines([rest], number, refuse)


def _of_lines(lines: Sequence[bytes], before: int, refuse: Refuse) -> Iterator[RowPiece]:
    rows: list[Any] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, before + 1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except ValueError as error:
            refuse(number, f"it is no JSON: {error}")
            continue
        rows.append(row)
        numbers.append(number)
    if rows:
        yield RowPiece(rows, numbers)


def _separated(file: BufferedReader, stream: Stream, refuse: Refuse) -> Iterator[RowPiece]:
    csv.field_size_limit(DOCUMENT_BYTES_MAX)  # of the process
    lines = _CsvLines(file)
    reader = csv.reader(lines, strict=True)
    with _said_of("CSV"):
        names = next(reader, [])
    _check_head(names, stream)
    rows: list[Any] = []
    numbers: list[int] = []
    while True:
        number = lines.begin()
        try:
            if (cells := next(reader, None)) is None:
                break
            if cells:
                rows.append(_row(cells, names, stream))
                numbers.append(number)
        except csv.Error as error:
            refuse(number, f"it is no CSV: {error}")
            lines.again_behind_first()
        except ValueError as error:
            refuse(number, str(error))
        if len(rows) == ROWS_TOGETHER:
            yield RowPiece(rows, numbers)
            rows, numbers = [], []
    if rows:
        yield RowPiece(rows, numbers)


class _CsvLines:
    """Lines of a CSV file for its reader, which begins anew with the line behind the first of what is no record: a quote that nobody
    closes takes one line, and not all behind it. `__next__` raises csv.Error: it is no line of a CSV file."""

    def __init__(self, file: BufferedReader) -> None:
        self.text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
        self.before = 0  # lines of the records before this one
        self.record: list[str] = []
        self.ahead: deque[str] = deque()  # to be read again

    def begin(self) -> int:
        """A record begins; the number of its first line."""
        self.before += len(self.record)
        self.record = []
        return self.before + 1

    def again_behind_first(self) -> None:
        self.ahead.extendleft(reversed(self.record[1:]))
        del self.record[1:]

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        line = self.ahead.popleft() if self.ahead else self._read()
        if not line:
            raise StopIteration
        self.record.append(line)
        if len(line) > DOCUMENT_BYTES_MAX:
            raise csv.Error(f"the line is longer than {DOCUMENT_BYTES_MAX:,} characters")
        if not line.isascii() and _SURROGATE.search(line):
            raise csv.Error(f"a byte of line {self.before + len(self.record)} is not UTF-8")
        return line

    def _read(self) -> str:
        """Of a line that is too long its beginning."""
        rest = line = self.text.readline(DOCUMENT_BYTES_MAX + 1)
        while len(rest) > DOCUMENT_BYTES_MAX and not rest.endswith("\n"):
            rest = self.text.readline(DOCUMENT_BYTES_MAX + 1)
        return line


def _check_head(names: Sequence[str], stream: Stream) -> None:
    """Raises CepError: the first line does not name columns of the stream."""
    known = stream.schema.names
    for name in names:
        if name not in known:
            raise CepError(f"line 1: no column {name!r}{meant(name, known)}; stream {stream.name!r} has {stream.schema}")
    if len(set(names)) < len(names) or not names:
        raise CepError(f"line 1: expected the names of columns, each once, got {', '.join(names) or 'nothing'}")


def _row(cells: Sequence[str], names: Sequence[str], stream: Stream) -> Mapping[str, Any]:
    if len(cells) != len(names):
        raise ValueError(f"expected {len(names)} fields, got {len(cells)}")
    return {name: _value(cell, stream.schema[name].type, name) for name, cell in zip(names, cells, strict=True)}


def _value(cell: str, type_: DataType, name: str) -> Any:
    """As JSON would have it; what is none is left to be judged with the row. Raises ValueError."""
    if type_.name == "string":
        return cell
    if type_.name == "binary":
        return cell.encode()
    if not cell:
        return None
    try:
        if type_.element is not None:
            return read_json(cell.encode())
        if type_.name == "bool":
            return _TRUTH.get(cell.lower(), cell)
        if type_.name == "float64":
            return float(cell) if "_" not in cell else cell
    except ValueError as error:
        raise ValueError(f"field {name!r}: expected {type_}, got {cell!r:.100}: {error}") from None
    return int(cell) if _INTEGER.fullmatch(cell) else cell


def _tables(read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[RowPiece]:
    first = 1
    with _said_of("Parquet or Arrow"):
        for batch in read():
            for start in range(0, batch.num_rows, PIECE_ROWS):
                piece = batch.slice(start, PIECE_ROWS)
                yield RowPiece(piece, range(first, first + piece.num_rows))
                first += piece.num_rows


def _arrow_batches(file: BufferedReader) -> Iterator[pa.RecordBatch]:
    """Of a file, or of a stream of messages."""
    try:
        found = pyarrow.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        yield from pyarrow.ipc.open_stream(file)
        return
    yield from (found.get_batch(number) for number in range(found.num_record_batches))


@contextmanager
def _said_of(what: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, csv.Error) as error:
        raise CepError(f"it is no {what}: {error}") from None
