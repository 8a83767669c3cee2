"""Text files as a source: fixed blocks, dealt in order of bound, read one record after the other (DESIGN 4.10).

- A block is a partition. It holds the records whose first byte lies between two multiples of `block_bytes` of one file.
- The bound of a block is the greatest first-row time up to it within its file, minus the disorder: nothing in it that is on time is older.
- The blocks of all files are dealt in order of (bound, path, offset): block i to reader i mod n.
- A reader begins block i only when the watermark that its receivers have returned has reached the bound of block i - 2n, so that open
  windows are at most those spanned by 2n + 1 blocks, however large the files.
"""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cep.compile.text import Parsed
from cep.dataflow.dead_letters import RECORD_BYTES_MAX, DeadLetters, Letter
from cep.dataflow.event_time import COMPUTED, Parser
from cep.dataflow.source import NONE_ON_TIME, Judged, LateRows, judge, origin_of, stamp_of
from cep.elements import MAX_TIME, MIN_TIME, Batch, describe_time
from cep.errors import ClusterError
from cep.model.limits import VALUE_BYTES_MAX, odd_time
from cep.model.streams import Stream, TextFiles

ROW_BYTES_MAX = VALUE_BYTES_MAX
PADDING = 64  # bytes behind a buffer that kernels may read
READ_BYTES = 8 << 20  # a batch costs 0.4 ms of the interpreter, and what is parsed is not read again (`benchmarks/log/bench.md`)
PROBE_BYTES = 64 << 10
#: So many rows at the end of what was read are looked at for where their instant begins.
INSTANT_ROWS = 256


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes [start, end) of a file: whole records. `partition` numbers the blocks of all files in path order."""

    path: str
    start: int
    end: int
    partition: int
    first_time: int  # greatest first-row time of the file's blocks up to this one; MIN_TIME if none
    bound: int  # first_time - disorder


class Buffer:
    """Bytes read from a file, and the view that columns share."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = bytearray(capacity + PADDING)
        self.view = np.frombuffer(self.bytes, np.uint8)

    def in_use(self) -> bool:
        """Does a column still look at it? (The attribute and the argument of getrefcount are two.)"""
        return sys.getrefcount(self.view) > 2

    def read(self, file: int, position: int, size: int) -> int:
        """Bytes read: fewer than `size` only at the end of the file."""
        done = 0
        while done < size:
            got = os.preadv(file, [memoryview(self.bytes)[done:size]], position + done)
            if not got:
                break
            done += got
        return done


def cut_blocks(stream: Stream, files: Sequence[tuple[str, int]], parser: Parser) -> list[Block]:
    """The blocks of `files` ((path, size) in path order) in the order in which they are dealt."""
    assert stream.files is not None
    blocks: list[Block] = []
    for path, size in files:
        blocks += _blocks_of_file(path, size, stream.files, stream.disorder or 0, parser, len(blocks))
    return sorted(blocks, key=lambda b: (b.bound, b.path, b.start))


def _blocks_of_file(path: str, size: int, text: TextFiles, disorder: int, parser: Parser, partition: int) -> list[Block]:
    file = _open(path)
    try:
        starts = [_line_after(file, 0, size) if text.header else _behind_mark(file)]
        starts += [_line_after(file, nominal - 1, size) for nominal in range(text.block_bytes, size, text.block_bytes)]
        blocks: list[Block] = []
        greatest = MIN_TIME
        for start, end in zip(starts, [*starts[1:], size], strict=True):
            if start < end:
                greatest = max(greatest, _first_time(file, start, end, longest_record(text), parser))
                blocks.append(Block(path, start, end, partition + len(blocks), greatest, stamp_of(greatest, disorder)))
        return blocks
    finally:
        os.close(file)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise ClusterError(f"file {path!r} cannot be read: {error.strerror}") from error


def _behind_mark(file: int) -> int:
    """Where the first record begins: behind a byte-order mark, with which some editors begin a file in UTF-8."""
    return len(BOM_UTF8) if os.pread(file, len(BOM_UTF8), 0) == BOM_UTF8 else 0


def _line_after(file: int, position: int, size: int) -> int:
    """Where the line after the one that holds `position` begins; `size` if there is none."""
    while position < size:
        chunk = os.pread(file, PROBE_BYTES, position)
        found = chunk.find(b"\n")
        if found >= 0 or not chunk:
            return position + found + 1 if chunk else size
        position += len(chunk)
    return size


def longest_record(text: TextFiles) -> int:
    """Bytes; what is longer is a dead letter."""
    return min(text.block_bytes, ROW_BYTES_MAX)


def _first_time(file: int, start: int, end: int, longest: int, parser: Parser) -> int:
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


class TextSource:
    """Reader `reader` of `readers`: the blocks dealt to it, one after the other."""

    left = idle = False  # it stays where it is, and files are never silent

    def __init__(
        self,
        stream: Stream,
        parser: Parser,
        blocks: Sequence[Block],
        reader: int,
        readers: int,
        source_index: int,
        origin: bool,
        dead_letters: DeadLetters,
        clock: Callable[[], int],
        read_bytes: int = READ_BYTES,
    ) -> None:
        self.stream, self.parser, self.dead_letters, self.clock = stream, parser, dead_letters, clock
        self.blocks, self.reader, self.readers = blocks, reader, readers
        self.source_index, self.origin, self.read_bytes = source_index, origin, read_bytes
        self.disorder = stream.disorder or 0
        self.returned: Callable[[], int] = lambda: MAX_TIME  # set by the instance: what its receivers have told it
        self.since = MIN_TIME
        self.index = reader  # of the block that is read or comes next
        self.file: int | None = None
        self.position = self.record = 0
        self.max_time = MIN_TIME
        self.late_rows = self.odd_times = 0
        self.late = LateRows()
        self.buffers: list[Buffer] = []
        self.ended = False
        self.watermark = MIN_TIME
        self._promise()

    def poll(self) -> Batch | None:
        if self.file is None and not self._begin():
            return None
        block = self.blocks[self.index]
        buffer, lines = self._read(block)
        batch = None
        if lines:
            batch = self._batch(block, buffer, lines)
        else:
            self._skip(block, buffer)
        if self.position >= block.end:
            self._finish()
        self._promise()
        return NONE_ON_TIME if batch is None else batch

    def _begin(self) -> bool:
        """Opens the next block, if there is one and the receivers are far enough."""
        if self.index >= len(self.blocks):
            self.ended = True
            return False
        before = self.index - 2 * self.readers
        if before >= 0 and self.returned() < self.blocks[before].bound:
            return False
        block = self.blocks[self.index]
        self.file = _open(block.path)
        self.position, self.record = block.start, 0
        self.max_time = block.first_time
        return True

    def _finish(self) -> None:
        self.release()
        self.index += self.readers

    def follow(self, wanted: int) -> bool:
        return False

    def release(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def _promise(self) -> None:
        """The least event time still to come: of the block at hand and of the next of ours, whose bound is the least of the rest."""
        if self.stream.event_time is None:
            self.watermark = MAX_TIME if self.index >= len(self.blocks) else max(self.watermark, self.max_time)
            return
        following = self.index + (self.readers if self.file is not None else 0)
        least = self.blocks[following].bound if following < len(self.blocks) else MAX_TIME
        here = stamp_of(self.max_time, self.disorder) if self.file is not None else MAX_TIME
        self.watermark = max(self.watermark, min(here, least))

    def _read(self, block: Block) -> tuple[Buffer, int]:
        """A buffer that begins with whole lines, and how many bytes they are: 0 if the next record is longer than a block."""
        assert self.file is not None and self.stream.files is not None
        size, most = self.read_bytes, longest_record(self.stream.files)
        while True:
            wanted = min(size, most, block.end - self.position)
            buffer = self._free_buffer(wanted + 1)
            got = buffer.read(self.file, self.position, wanted)
            if got < wanted:
                raise ClusterError(f"file {block.path!r} is shorter than when the query was planned: no byte {self.position + got}")
            lines = _whole_lines(buffer, got, self.position + got >= block.end)
            if lines or size >= most:
                return buffer, lines
            size *= 4

    def _skip(self, block: Block, buffer: Buffer) -> None:
        """The next record is longer than a block: a dead letter."""
        assert self.file is not None and self.stream.files is not None
        end = _line_after(self.file, self.position, block.end)
        longest = longest_record(self.stream.files)
        reason = f"record of {end - self.position} bytes: expected at most {longest}, the size of a block or of the longest row"
        self._letter(reason, block, self.position, bytes(buffer.bytes[:RECORD_BYTES_MAX]))
        self.position, self.record = end, self.record + 1

    def _free_buffer(self, capacity: int) -> Buffer:
        """One that no column looks at any more, or a new one."""
        for buffer in self.buffers:
            if buffer.capacity >= capacity and not buffer.in_use():
                return buffer
        buffer = Buffer(max(capacity, self.read_bytes + 1))
        if buffer.capacity <= self.read_bytes + 1:
            self.buffers.append(buffer)
        return buffer

    def _batch(self, block: Block, buffer: Buffer, lines: int) -> Batch | None:
        parsed, instant = self._whole_instants(self.parser.parse(buffer.view, 0, lines, lines), block, buffer)
        position, record = self.position, self.record
        self.position = min(position + parsed.consumed, block.end)
        self.record += parsed.count
        self._refuse(parsed, block, buffer, position)
        batch = self._on_time(parsed, block, record)
        self.max_time = max(self.max_time, instant)
        return batch

    def _whole_instants(self, parsed: Parsed, block: Block, buffer: Buffer) -> tuple[Parsed, int]:
        """Where rows come in order of time, those of the last instant are left to be read with the rest of it, and nothing that is taken
        has to wait for them; and that instant, which the next row has."""
        column = self.parser.event_time
        if self.disorder or column is None or parsed.bad_count or not len(parsed) or self.position + parsed.consumed >= block.end:
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

    def _on_time(self, parsed: Parsed, block: Block, record: int) -> Batch | None:
        time, judged = self._judge(parsed)
        parsed.columns.pop(COMPUTED, None)
        self.max_time, self.late_rows = judged.max_time, self.late_rows + judged.late
        if not len(time):
            return None
        origin = origin_of(self.source_index, block.partition, parsed.records + record) if self.origin else None
        batch = Batch(parsed.columns, time, origin, source=block.path)
        self.late.keep(batch, judged)
        return batch if judged.kept is None else batch.take(judged.kept)

    def _judge(self, parsed: Parsed) -> tuple[np.ndarray, Judged]:
        column = self.parser.event_time
        if column is None:
            now = max(self.clock(), self.max_time)
            return np.full(len(parsed.records), now, np.int64), Judged(None, now, 0)
        times = parsed.columns[column].values
        return times, judge(times, self.max_time, self.disorder, parsed.bad_rows, parsed.bad_times)

    def _refuse(self, parsed: Parsed, block: Block, buffer: Buffer, position: int) -> None:
        odd = odd_time(self.stream.times)
        for bad in parsed.bad:
            self.odd_times += odd in bad.reason
            record = bytes(buffer.bytes[bad.offset : bad.offset + min(bad.length, RECORD_BYTES_MAX)])
            self._letter(bad.reason, block, position + bad.offset, record)
        self.dead_letters.count_only(self.stream.name, parsed.bad_count - len(parsed.bad))

    def _letter(self, reason: str, block: Block, position: int, record: bytes) -> None:
        text = record.decode("utf-8", "backslashreplace")
        self.dead_letters.put(Letter(self.stream.name, reason, block.path, f"byte {position}", text))

    @property
    def between_blocks(self) -> bool:
        """Others may be waiting for the watermark that the end of a block brought."""
        return self.file is None

    def waits_for(self, now_us: int) -> str:
        if self.index >= len(self.blocks):
            return "nothing: all blocks are read"
        before = self.index - 2 * self.readers
        if self.file is None and before >= 0:
            return f"its receivers: block {self.index} begins when they have reached {describe_time(self.blocks[before].bound)}"
        if self.file is None:
            return "the query to be started"
        return f"nothing: it is at byte {self.position} of {self.blocks[self.index].path!r}"
