"""Reads a file of any format, from any place on: lines, each a value, or batches of rows.

A place in a file is the byte and the number, from 1 on, of the next record. Where records are no lines the byte is 0, and -1 where the rest
of the file cannot be read, and was said to be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO

import pyarrow as pa

from connectors.contract.errors import ConnectorError
from connectors.contract.formats import FileFormat, ValueFormat
from connectors.contract.source import Polled

BLOCK_BYTES = 1 << 20
VALUE_BYTES_MAX = 16 << 20
SHOWN_BYTES = 200
GIVEN_UP = -1


class OpenFile(ABC):
    """`name`: what dead letters call it."""

    @abstractmethod
    def take(self, rows_max: int) -> Polled | None:
        """The next records, whose place is [byte, number]; None: that was the end."""


def opened(format: ValueFormat, file: BinaryIO, name: str, byte: int = 0, number: int = 1) -> OpenFile:
    """From a place on. The file is closed by whoever has opened it."""
    if isinstance(format, FileFormat):
        return _Batches(format, file, name, byte, number)
    return _Lines(format, file, name, byte, number)


class _Lines(OpenFile):
    def __init__(self, format: ValueFormat, file: BinaryIO, name: str, byte: int, number: int) -> None:
        self.file, self.name, self.byte, self.number = file, name, byte, number
        first = file.readline()
        begun = format.begun(first.rstrip(b"\r\n"))
        self.format = begun or format
        if not byte and begun is not None:
            self.byte = len(first)
        file.seek(self.byte)
        self._values: list[tuple[bytes, int]] = []  # read and not given yet, with the bytes of each in the file
        self._rest = b""

    def take(self, rows_max: int) -> Polled | None:
        while not self._values:
            if not self._read() and not self._values:
                return None
        taken, self._values = self._values[:rows_max], self._values[rows_max:]
        first, self.number = self.number, self.number + len(taken)
        self.byte += sum(size for _, size in taken)
        values = [value for value, _ in taken]
        return Polled([self.byte, self.number], values, format=self.format, called=lambda at: f"{self.name}@{first + at}")

    def _read(self) -> bool:
        """Values of the next block; False: that was its end."""
        block = self.file.read(BLOCK_BYTES)
        *lines, rest = (self._rest + block).split(b"\n") if block else (self._rest, b"")
        value, skipped = b"", 0  # bytes of empty lines
        for line in lines:
            value += line + b"\n" if block else line
            if not block or self.format.ends(value):
                if value.strip():
                    self._values.append((value.strip(b"\r\n"), skipped + len(value)))
                skipped = 0 if value.strip() else skipped + len(value)
                value = b""
        self._rest = b"\n" * skipped + value + rest
        if len(self._rest) > VALUE_BYTES_MAX:
            raise ConnectorError(f"{self.name}: a value of more than {VALUE_BYTES_MAX:,} bytes begins at byte {self.byte}")
        return bool(block)


class _Batches(OpenFile):
    """What cannot be read is one bad record; nothing behind it is looked for."""

    def __init__(self, format: FileFormat, file: BinaryIO, name: str, byte: int, number: int) -> None:
        self.file, self.name, self.number = file, name, number
        self.batches = iter(()) if byte == GIVEN_UP else format.batches(file)
        self._skip = number - 1
        self._rest: pa.RecordBatch | None = None

    def take(self, rows_max: int) -> Polled | None:
        first = self.number
        try:
            while self._rest is None or not self._rest.num_rows:
                if (found := next(self.batches, None)) is None:
                    return None
                self._rest = found.slice(self._skip)
                self._skip = max(self._skip - found.num_rows, 0)
        except (pa.ArrowException, ValueError, OSError) as error:
            self.batches = iter(())
            self.file.seek(0)
            wrong = f"the file cannot be read{' any further' if self.number > 1 else ''}: {error}"
            return Polled([GIVEN_UP, self.number], [self.file.read(SHOWN_BYTES)], wrong=wrong, called=lambda at: f"{self.name}@{first}")
        taken, self._rest = self._rest.slice(0, rows_max), self._rest.slice(rows_max)
        self.number += taken.num_rows
        return Polled([0, self.number], rows=taken, called=lambda at: f"{self.name}@{first + at}")
