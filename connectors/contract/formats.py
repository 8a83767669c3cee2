"""How rows look as bytes, apart from what carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO, ClassVar, Self

import pyarrow as pa

from connectors.contract.options import ConnectorOptions


@dataclass(slots=True)
class Decoded:
    """Of values what rows they are: `runs`, each the index of its first value and a row for each value from there on; of a format with
    `many` all rows of that one value. What is no row is in `bad`, with the reason."""

    runs: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)


class RowsFile(ABC):
    """A file that is being written. It closes nothing that it was given."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Takes them over."""

    @abstractmethod
    def finish(self) -> None:
        """All of it is written, and it is whole."""


class ValueFormat(ConnectorOptions):
    """A format, with its options as fields. A value is one record, or has `many`."""

    suffix: ClassVar[str]
    """Of a file's name."""

    media: ClassVar[str] = "application/octet-stream"
    """The type of a file, as HTTP has it."""

    text: ClassVar[bool] = False
    """Is a value a text in UTF-8?"""

    many: ClassVar[bool] = False
    """Has a value any number of rows? Then `encode` gives one value."""

    def check(self, schema: pa.Schema) -> None:
        """Raises ValueError: it cannot hold rows of that schema. A source is held to it by its stream; a sink when it is declared or its
        query deployed, and by the rows that come."""

    @abstractmethod
    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """Columns of timestamps may come as integers, which are of the unit that the stream declares."""

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        """A value for each row."""

    # In files a value is a line

    def head(self, schema: pa.Schema) -> bytes:
        """What a file begins with."""
        return b""

    def begun(self, first: bytes) -> Self | None:
        """How the rest of a file is read whose first value is that; None: that is a record already. Raises ValueError: the file makes no
        sense."""
        return None

    def is_open(self, line: bytes, before: bool) -> bool:
        """Does a value go on behind this line, whose end is in it? `before`: did it behind the line before?"""
        return False

    def is_blank(self, line: bytes) -> bool:
        """Is it no value, but an empty line? It is without its end."""
        return not line

    def lines(self, rows: pa.RecordBatch) -> bytes:
        """A line for each row, with its end. Raises ConnectorError: one would be read as other values than it is."""
        return b"\n".join((*self.encode(rows), b""))

    def rows_file(self, file: BinaryIO, schema: pa.Schema) -> RowsFile:
        """Writes a file."""
        return _Lines(self, file, schema)

    def file_of(self, rows: pa.RecordBatch) -> bytes:
        """A whole file with these rows."""
        file = BytesIO()
        made = self.rows_file(file, rows.schema)
        made.write(rows)
        made.finish()
        return file.getvalue()


class FileFormat(ValueFormat):
    """A format whose files are no lines."""

    @abstractmethod
    def batches(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        """All that is in a file, in pieces. Raises OSError, or what nonsense leads to (`reading_apart.WRONG`): it cannot be read."""

    @abstractmethod
    def rows_file(self, file: BinaryIO, schema: pa.Schema) -> RowsFile:
        """Writes a file."""


class _Lines(RowsFile):
    """A value a line."""

    def __init__(self, format: ValueFormat, file: BinaryIO, schema: pa.Schema) -> None:
        self.format, self.file = format, file
        file.write(format.head(schema))

    def write(self, rows: pa.RecordBatch) -> None:
        self.file.write(self.format.lines(rows))

    def finish(self) -> None:
        """Each line has its end."""
