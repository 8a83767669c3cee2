"""The headers of what a publisher sends: its rows are numbered and stamped here, so that every query agrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cep.dataflow.sources.lateness import stamp_of
from cep.elements import MIN_TIME
from cep.errors import DataError
from cep.model.streams import Stream
from cep.transport import wire
from cep.transport.wire import Format, Header
from driver.streams.commands import Send, StreamCommand
from driver.streams.readers import StreamReader


class Numbering:
    """The number of the next row, and the stamp: rows older than the greatest event time less the disorder are late. Each reader has
    numbers of its own for the elements that it gets."""

    def __init__(self, stream: Stream) -> None:
        self.disorder, self.stream_id = stream.disorder or 0, wire.stream_id(stream.name)
        self.declare(stream)
        self.max_time = self.sent_until = MIN_TIME  # what the stamp follows; the greatest event time of a row that was sent
        self.record = 0
        self.underway: int | None = None  # while a batch is: `max_time` without its rows, which some readers have not got yet

    def declare(self, stream: Stream) -> None:
        """The rows that come next have its columns."""
        self.format = Format.published(stream)
        self.fingerprint = self.format.fingerprint

    def advance(self, greatest: int) -> int:
        """Rows are to be sent with `greatest` as their greatest event time; the greatest before them. Until they are `sent`, what has no
        rows promises nothing of them."""
        before = self.underway = self.max_time
        if greatest > before:
            self.max_time = greatest
        if greatest > self.sent_until:
            self.sent_until = greatest
        return before

    def sent(self, rows: int) -> None:
        """So many, to all that are to have them."""
        self.record += rows
        self.underway = None

    def pass_to(self, record: int) -> None:
        """The next row has that number. Raises DataError: a row before it has had it, or a greater one."""
        if record < self.record:
            raise DataError(f"record {record} does not follow, for records up to {self.record - 1} were sent")
        self.record = record

    def start_at(self, watermark: int) -> None:
        """A reader has come so far: the stamp is not behind it."""
        if watermark > MIN_TIME:
            self.max_time = max(self.max_time, watermark + self.disorder)

    @property
    def watermark(self) -> int:
        """What may be promised now, in any thread: `advance` changes the second first."""
        time, underway = self.max_time, self.underway
        return stamp_of(time if underway is None else underway, self.disorder)

    def batch(self, reader: StreamReader, size: int, created: int, stamp: int, fingerprint: int = 0) -> Header:
        """The header of a batch of `size` bytes that goes to this reader now, with the rows from number `record` on."""
        reader.credit.spend(size)
        watermark = reader.watermark = stamp_of(self.max_time, self.disorder)
        sequence = reader.sequence
        reader.sequence = sequence + 1
        schema = fingerprint or self.fingerprint
        return Header(wire.BATCH, reader.channel, sequence, self.stream_id, schema, watermark, created, stamp, MIN_TIME, self.record)

    def element(self, kind: int, reader: StreamReader, stamp: int = MIN_TIME, record: int = 0) -> Header:
        """The header of an element without rows, which goes to this reader now."""
        watermark = reader.watermark = max(reader.watermark, self.watermark)  # it may have its part of what is under way
        reader.sequence += 1
        return Header(kind, reader.channel, reader.sequence - 1, self.stream_id, self.fingerprint, watermark, 0, stamp, MIN_TIME, record)

    def tell(self, kind: int, readers: Iterable[StreamReader]) -> Sequence[StreamCommand]:
        """One element without rows, in its place among them, to readers that are there."""
        told = [(each, self.element(kind, each, self.max_time, self.record)) for each in readers if each.is_here]
        return [Send(each.endpoint, header) for each, header in told if each.notes(header)]

    def tell_watermark(self, readers: Iterable[StreamReader]) -> Sequence[StreamCommand]:
        """To those that do not know it yet."""
        return self.tell(wire.WATERMARK, [reader for reader in list(readers) if reader.watermark < self.watermark])
