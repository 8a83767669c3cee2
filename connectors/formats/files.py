"""Reads a file of any format, from any place on: lines, each a value, or batches of rows.

A place in a file is the byte and the number, from 1 on, of the next record. Where records are no lines the byte is 0. It is -1 where the
rest of the file cannot be read, and was said to be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO

import pyarrow as pa

from connectors.contract.formats import FileFormat, ValueFormat
from connectors.contract.source import Polled
from connectors.formats.reading_apart import WRONG

BLOCK_BYTES = 1 << 20
VALUE_BYTES_MAX = 16 << 20
SHOWN_BYTES = 200
GIVEN_UP = -1
_TOO_LONG = f"expected a value of at most {VALUE_BYTES_MAX:,} bytes, got a longer one"


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


class _Beginning(bytes):
    """Of a line that is too long."""


class _Lines(OpenFile):
    """A value is a line, or several where line ends stand in it. What makes no sense is a bad record, and what is behind it is read: of a
    value that goes on for more than VALUE_BYTES_MAX, or for longer than the file, the first line is one, and the others are looked at anew.
    What becomes of a line depends neither on where reading began nor on the blocks in which it is read."""

    def __init__(self, format: ValueFormat, file: BinaryIO, name: str, byte: int, number: int) -> None:
        self.format, self.file, self.name, self.byte, self.number = format, file, name, byte, number
        self._values: list[tuple[bytes, int]] = []  # read and not given yet, with the bytes of each in the file
        self._long = 0  # so many of them are beginnings
        self._lines: list[bytes] = []  # of a value that is not complete, with their ends
        self._bytes, self._open = 0, False  # in these; and does it go on
        self._skipped = 0  # bytes of empty lines before it
        self._rest, self._dropped = b"", 0  # a line whose end was not read yet; where it is too long, how much of it is not kept
        self._wrong: Polled | None = None
        if byte != GIVEN_UP:
            self._begin()

    def _begin(self) -> None:
        """The first value may say how the others are read."""
        lines, size, is_open = list[bytes](), 0, True
        while is_open and size <= VALUE_BYTES_MAX and (line := self.file.readline(VALUE_BYTES_MAX + 1)):
            is_open = self.format.is_open(line, bool(lines))
            lines.append(line)
            size += len(line)
        first = b"".join(lines)
        try:
            begun = self.format.begun(_content(first)) if first else None
            if begun is not None and size > VALUE_BYTES_MAX:
                raise ValueError(_TOO_LONG)
        except WRONG as error:
            self._wrong = _unreadable(self.name, self.number, first, f"the file cannot be read: its first line: {error}")
            return
        if begun is not None:
            self.format, self.byte = begun, self.byte or size
        self.file.seek(self.byte)

    def take(self, rows_max: int) -> Polled | None:
        if (unreadable := self._wrong) is not None:
            self._wrong, self.byte = None, GIVEN_UP
            return unreadable
        while not self._values:
            if self.byte == GIVEN_UP or not (self._read() or self._values):
                return None
        wrong: str | None = None
        count = rows_max
        if self._long:  # it goes by itself
            before = next(at for at, (value, _) in enumerate(self._values) if isinstance(value, _Beginning))
            wrong, count = (None, min(before, rows_max)) if before else (_TOO_LONG, 1)
            self._long -= not before
        taken, self._values = self._values[:count], self._values[count:]
        first, self.number = self.number, self.number + len(taken)
        self.byte += sum(size for _, size in taken)
        values = [value for value, _ in taken]
        return Polled([self.byte, self.number], values, format=self.format, wrong=wrong, called=lambda at: f"{self.name}@{first + at}")

    def _read(self) -> bool:
        """Values of the next block; False: that was its end."""
        block = self.file.read(BLOCK_BYTES)
        found = self._behind_a_long_line(block) if self._dropped else self._rest + block
        *lines, self._rest = found.split(b"\n")
        is_open, is_blank, most = self.format.is_open, self.format.is_blank, VALUE_BYTES_MAX
        for line in lines:
            if self._lines or self._skipped or len(line) >= most or line.endswith(b"\r") or is_blank(line) or is_open(line, False):
                self._line(line + b"\n")
            else:  # nearly all are as simple as that
                self._values.append((line, len(line) + 1))
        if not block:
            last, self._rest = self._rest, b""
            if last:
                self._line(last)
            while self._lines:
                self._cut()
            return False
        while self._lines and self._bytes + len(self._rest) > VALUE_BYTES_MAX:
            self._cut()
        if len(self._rest) > VALUE_BYTES_MAX:
            self._rest, self._dropped = self._rest[:SHOWN_BYTES], len(self._rest) - SHOWN_BYTES
        return True

    def _behind_a_long_line(self, block: bytes) -> bytes:
        """What is behind it in the block; its beginning, if its end is not there yet."""
        end = block.find(b"\n") + 1
        if block and not end:
            self._dropped += len(block)
            return self._rest
        self._give_long(self._rest, len(self._rest) + self._dropped + end)
        self._dropped = 0
        return block[end:]

    def _line(self, line: bytes) -> None:
        """One more, with its end."""
        self._open = self.format.is_open(line, self._open)
        if self._open or self._lines or len(line) > VALUE_BYTES_MAX:
            self._lines.append(line)
            self._bytes += len(line)
            if self._bytes > VALUE_BYTES_MAX:
                self._cut()
                return
            if self._open:
                return
            line, self._lines, self._bytes = b"".join(self._lines), [], 0
        value = _content(line)
        if self.format.is_blank(value):
            self._skipped += len(line)
        else:
            self._give(value, len(line))

    def _cut(self) -> None:
        """The first line by itself, which makes no sense so; those behind it anew."""
        first, *others = self._lines
        self._lines, self._bytes, self._open = [], 0, False
        if len(first) > VALUE_BYTES_MAX:
            self._give_long(first[:SHOWN_BYTES], len(first))
        else:
            self._give(_content(first), len(first))
        for line in others:
            self._line(line)

    def _give(self, value: bytes, size: int) -> None:
        self._values.append((value, self._skipped + size))
        self._skipped = 0

    def _give_long(self, beginning: bytes, size: int) -> None:
        self._give(_Beginning(beginning), size)
        self._long += 1


def _content(line: bytes) -> bytes:
    """Without its end."""
    return line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _unreadable(name: str, number: int, beginning: bytes, why: str) -> Polled:
    """One bad record, for all that is left of a file."""
    return Polled([GIVEN_UP, number], [beginning[:SHOWN_BYTES]], wrong=why, called=lambda at: f"{name}@{number}")


class _Batches(OpenFile):
    """What cannot be read is one bad record; nothing behind it is looked for."""

    def __init__(self, format: FileFormat, file: BinaryIO, name: str, byte: int, number: int) -> None:
        self.file, self.name, self.number = file, name, number
        self.batches = iter(()) if byte == GIVEN_UP else format.batches(file)
        self._skip = number - 1
        self._rest: pa.RecordBatch | None = None

    def take(self, rows_max: int) -> Polled | None:
        try:
            while self._rest is None or not self._rest.num_rows:
                if (found := next(self.batches, None)) is None:
                    return None
                self._rest = found.slice(self._skip)
                self._skip = max(self._skip - found.num_rows, 0)
        except (*WRONG, OSError) as error:
            self.batches = iter(())
            self.file.seek(0)
            wrong = f"the file cannot be read{' any further' if self.number > 1 else ''}: {error}"
            return _unreadable(self.name, self.number, self.file.read(SHOWN_BYTES), wrong)
        first = self.number
        taken, self._rest = self._rest.slice(0, rows_max), self._rest.slice(rows_max)
        self.number += taken.num_rows
        return Polled([0, self.number], rows=taken, called=lambda at: f"{self.name}@{first + at}")
