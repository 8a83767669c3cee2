"""Files of lines: a record a line, read by a parser of lines.

A block holds the records whose first byte lies between two multiples of `block_bytes` of one file. Places are bytes.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import replace
from typing import ClassVar, Protocol, Self

import numpy as np

from cep.compile.text import Parsed
from cep.dataflow.dead_letters import RECORD_BYTES_MAX
from cep.dataflow.sources.blocks import COMPUTED, BadRecord, Block, Extent, Piece, unreadable
from cep.elements import MIN_TIME
from cep.errors import ClusterError, DataError
from cep.kernels.text import READABLE
from cep.model.limits import VALUE_BYTES_MAX
from cep.model.streams import Stream
from cep.world.store import File, Store, fill

ROW_BYTES_MAX = VALUE_BYTES_MAX
PADDING = READABLE  # bytes behind a buffer that kernels may read
PROBE_BYTES = 64 << 10
#: So many rows at the end of what was read are looked at for where their instant begins.
INSTANT_ROWS = 256
#: How files begin that are compressed as a whole.
COMPRESSED = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh91AY&SY": "bzip2",
}


class LineParser(Protocol):
    """Makes rows of lines, as `cep.compile.text.TextParser` does."""

    event_time: str | None  # the column of event times

    def warm(self) -> None: ...

    def parse(self, data: np.ndarray, start: int, end: int, rows_max: int) -> Parsed: ...

    def first_time(self, data: np.ndarray, start: int, end: int) -> int | None: ...


class Buffer:
    """Bytes read from a file, and the view that columns share."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = bytearray(capacity + PADDING)
        self.view = np.frombuffer(self.bytes, np.uint8)

    def in_use(self) -> bool:
        """Does a column still look at it? (The attribute and the argument of getrefcount are two.)"""
        return sys.getrefcount(self.view) > 2

    def read(self, file: File, position: int, size: int) -> int:
        """Bytes read: fewer than `size` only at the end of the file."""
        return fill(file, memoryview(self.bytes)[:size], position)


class LineFormat:
    """Files of lines that `parser` reads.

    Args:
        read_bytes: so much is read at once.
        ordered: rows come in order of event time.
    """

    unit: ClassVar[str] = "byte"

    def __init__(self, store: Store, parser: LineParser, block_bytes: int, read_bytes: int, ordered: bool, header: bool = False) -> None:
        self.store, self.parser, self.header, self.ordered = store, parser, header, ordered
        self.block_bytes, self.read_bytes = block_bytes, read_bytes
        self.longest = min(block_bytes, ROW_BYTES_MAX)  # bytes; what is longer is a dead letter
        self.buffers: list[Buffer] = []

    def warm(self) -> None:
        self.parser.warm()

    @staticmethod
    def check(stream: Stream, path: str, store: Store) -> None:
        with closing(store.open(path)) as file:
            head = _read(file, 0, max(map(len, COMPRESSED)))
        for mark, name in COMPRESSED.items():
            if head.startswith(mark):
                raise DataError(f"file {path!r} is compressed ({name}), and cannot be cut into blocks of lines: expected it decompressed")

    def cut(self, path: str, size: int) -> Iterator[Extent]:
        with closing(self.open_file(path)) as file, _readable(path):
            starts = [_line_after(file, 0, size) if self.header else _behind_mark(file)]
            for nominal in range(self.block_bytes, size, self.block_bytes):  # a line that ends behind the next one too is looked for once
                starts.append(starts[-1] if starts[-1] >= nominal else _line_after(file, nominal - 1, size))
            for start, end in zip(starts, [*starts[1:], size], strict=True):
                if start < end:
                    yield Extent(start, end, _first_time(file, start, end, self.longest, self.parser))

    def open(self, block: Block) -> LineBlock:
        return LineBlock(self, block)

    def peeking(self) -> Self:
        made = copy(self)
        made.read_bytes, made.buffers = min(self.read_bytes, PROBE_BYTES), []
        return made

    def rest(self) -> None:
        """Each block opens its file."""

    def open_file(self, path: str) -> File:
        with _readable(path):
            return self.store.open(path)

    def free_buffer(self, capacity: int) -> Buffer:
        """One that no column looks at any more, or a new one."""
        for buffer in self.buffers:
            if buffer.capacity >= capacity and not buffer.in_use():
                return buffer
        buffer = Buffer(max(capacity, self.read_bytes + 1))
        if buffer.capacity <= self.read_bytes + 1:
            self.buffers.append(buffer)
        return buffer


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error


def _read(file: File, position: int, size: int) -> bytes:
    """Fewer than `size` bytes only at the end of the file."""
    found = bytearray(size)
    return bytes(found[: fill(file, memoryview(found), position)])


def _behind_mark(file: File) -> int:
    """Where the first record begins: behind a byte-order mark, with which some editors begin a file in UTF-8."""
    return len(BOM_UTF8) if _read(file, 0, len(BOM_UTF8)) == BOM_UTF8 else 0


def _line_after(file: File, position: int, size: int) -> int:
    """Where the line after the one that holds `position` begins; `size` if there is none."""
    while position < size:
        chunk = _read(file, position, PROBE_BYTES)
        found = chunk.find(b"\n")
        if found >= 0 or not chunk:
            return position + found + 1 if chunk else size
        position += len(chunk)
    return size


def _first_time(file: File, start: int, end: int, longest: int, parser: LineParser) -> int:
    """Event time of the first record between `start` and `end` whose event time parses; MIN_TIME if there is none."""
    size = PROBE_BYTES
    while start < end:
        wanted = min(size, longest, end - start)
        buffer = Buffer(wanted + 1)
        got = buffer.read(file, start, wanted)
        lines = _whole_lines(buffer, got, start + got >= end)
        time = parser.first_time(buffer.view, 0, lines) if lines else None
        if time is not None:
            return int(time)
        if not lines and size < longest:
            size *= 4
        else:
            start = start + lines if lines else _line_after(file, start, end)
    return MIN_TIME


def _whole_lines(buffer: Buffer, got: int, at_end: bool) -> int:
    """Bytes of whole lines among the first `got`; at the end of a block its last line gets the newline that it may lack."""
    lines = buffer.bytes.rfind(b"\n", 0, got) + 1
    if at_end and lines < got:
        buffer.bytes[got] = 10
        return got + 1
    return lines


class LineBlock:
    """An open block of a file of lines."""

    def __init__(self, format_: LineFormat, block: Block) -> None:
        self.format, self.block, self.file = format_, block, format_.open_file(block.path)

    def close(self) -> None:
        self.file.close()

    def read(self, place: int) -> Piece:
        with _readable(self.block.path):
            buffer, lines = self._fill(place)
            if not lines:
                return self._skip(place, buffer)
        parsed, instant = self._whole_instants(self.format.parser.parse(buffer.view, 0, lines, lines), place, buffer)
        time = None if self.format.parser.event_time is None else parsed.columns[self.format.parser.event_time].values
        parsed.columns.pop(COMPUTED, None)
        bad = [BadRecord(place + each.offset, each.reason, _shown(buffer, each.offset, each.length)) for each in parsed.bad]
        behind = (bad, parsed.bad_count, parsed.bad_rows, parsed.bad_times, instant)
        return Piece(parsed.columns, time, parsed.records, parsed.count, min(place + parsed.consumed, self.block.end), *behind)

    def _fill(self, place: int) -> tuple[Buffer, int]:
        """A buffer that begins with whole lines, and how many bytes they are: 0 if the next record is longer than a block."""
        size, most, end = self.format.read_bytes, self.format.longest, self.block.end
        while True:
            wanted = min(size, most, end - place)
            buffer = self.format.free_buffer(wanted + 1)
            got = buffer.read(self.file, place, wanted)
            if got < wanted:
                raise ClusterError(f"file {self.block.path!r} is shorter than when the query was planned: no byte {place + got}")
            lines = _whole_lines(buffer, got, place + got >= end)
            if lines or size >= most:
                return buffer, lines
            size *= 4

    def _skip(self, place: int, buffer: Buffer) -> Piece:
        """The next record is longer than a block: a dead letter."""
        end = _line_after(self.file, place, self.block.end)
        reason = f"record of {end - place} bytes: expected at most {self.format.longest}, the size of a block or of the longest row"
        bad = BadRecord(place, reason, _shown(buffer, 0, RECORD_BYTES_MAX))
        timed = self.format.parser.event_time is not None
        return Piece({}, _NO_ROWS if timed else None, _NO_ROWS, 1, end, [bad], 1)

    def _whole_instants(self, parsed: Parsed, place: int, buffer: Buffer) -> tuple[Parsed, int]:
        """Where rows come in order of time, those of the last instant are left to be read with the rest of it, and nothing that is taken
        has to wait for them; and that instant, which the next row has."""
        column = self.format.parser.event_time
        if not self.format.ordered or column is None or parsed.bad_count or not len(parsed) or place + parsed.consumed >= self.block.end:
            return parsed, MIN_TIME
        times = parsed.columns[column].values[-INSTANT_ROWS:]
        before = np.flatnonzero(times != times[-1])
        if not len(before):
            return parsed, MIN_TIME
        rows = len(parsed) - len(times) + int(before[-1]) + 1
        count, end = int(parsed.records[rows]), parsed.consumed
        for _ in range(parsed.count - count):
            end = buffer.bytes.rfind(b"\n", 0, end - 1) + 1
        columns = {name: column.take(slice(0, rows)) for name, column in parsed.columns.items()}
        return replace(parsed, columns=columns, records=parsed.records[:rows], count=count, consumed=end), int(times[-1])


_NO_ROWS = np.zeros(0, np.int64)


def _shown(buffer: Buffer, start: int, length: int) -> str:
    return bytes(buffer.bytes[start : start + min(length, RECORD_BYTES_MAX)]).decode("utf-8", "backslashreplace")
