"""A source at work: each of its partitions is a publisher, `connector:partition`, whose record numbers are the source's.

The cluster knows how many records of that name it has accepted, whatever has died, so a replayable source goes on exactly there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from cep.errors import CepError, DataError
from connectors.contract import ConnectorError, Place, Polled, RecordReader, RecordSource
from connectors.contract.formats import ValueFormat
from connectors.running.numbering import numbered, runs_of
from connectors.running.run import ConnectorRun
from driver.rows.fitting import send_fitting
from driver.streams.publisher import Publisher

REFRESH_S = 2.0  # so often it is looked for new partitions, and new columns
POLL_S = 0.2
ROWS_MAX = 20_000


class SourceRun(ConnectorRun):
    """Finds partitions; each is read by a thread of its own, whether others can be looked for or not."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reading: dict[str, PartitionRun] = {}

    def work(self) -> bool:
        source: RecordSource = self.made(self.described.connector.source)
        reading = self.reading
        while not self.stopping.is_set():
            for partition in source.partitions():
                if partition not in reading:
                    reading[partition] = one = PartitionRun(self, source, partition)
                    self.keep(partition, one.work)
            if reading and all(one.ended for one in reading.values()):
                self.figures.turn("ended")
            elif self.figures.state == "starting":
                self.figures.turn("running" if reading else "waiting", "" if reading else "there is nothing to read yet")
            self.stopping.wait(REFRESH_S)
        return True


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition is read from: its first record has `number`, and those below `accepted` are there already."""

    place: Place | None
    number: int
    accepted: int


class PartitionRun:
    """One partition, its reader and its publisher."""

    def __init__(self, run: ConnectorRun, source: RecordSource, partition: str) -> None:
        self.run, self.source, self.partition = run, source, partition
        self.name = f"{run.described.name}:{quote(partition, safe=' ')}"  # names are parts of addresses
        self.publisher: Publisher | None = None
        self.ended = False
        self._number = self._accepted = 0
        self._looked = 0.0

    def work(self) -> bool:
        run = self.run
        note = self._note()
        if note is not None and note.get("ended"):
            self.ended = True
            return True
        try:
            publisher = self.publisher = self.publisher or run.cluster.publisher(run.described.stream, self.name, keep_open=True)
            if run.format is not None:
                _check_format(run.format, publisher)
            start = self._start(publisher, note)
            reader = self.source.open(self.partition, start.place)
        except CepError:
            self._leave()
            raise
        try:
            return self._read(reader, publisher, start)
        except CepError:
            self._leave()
            raise
        finally:
            reader.close()

    def _start(self, publisher: Publisher, note: dict[str, Any] | None) -> Start:
        """Raises ConnectorError: it is not known where."""
        accepted = publisher.accepted()
        if not self.source.replayable:
            return Start(None, accepted, accepted)
        if self.source.numbered:
            return Start(accepted or None, accepted, accepted)
        if note is not None:
            return Start(note["place"], note["number"], accepted)
        if accepted:
            raise ConnectorError(
                f"{accepted} records of {self.partition!r} were taken under this connector's name, and nothing here says which: "
                "give the connector another name, and it begins at the beginning"
            )
        return Start(None, 0, 0)

    def _note(self) -> dict[str, Any] | None:
        return self.run.notes.read(self.name) if self.source.replayable else None

    def _read(self, reader: RecordReader, publisher: Publisher, start: Start) -> bool:
        run, place = self.run, start.place
        self._number, self._accepted = start.number, start.accepted
        while not run.stopping.is_set():
            polled = reader.poll(ROWS_MAX, POLL_S)
            run.figures.turn("running")
            run.figures.behind[self.partition] = polled.behind
            if len(polled):
                self._notes(place)
                self._send(publisher, polled)
            if polled.place != place or len(polled):
                reader.committed(polled.place)
                place = polled.place
            if polled.ended:
                return self._end(publisher, place)
            self._look(publisher)
        self._notes(place)  # queries that do not recover have not said what they have
        if not run.exiting:
            self._leave()
        return True

    def _notes(self, place: Place | None) -> None:
        """At which place the record of the next number is."""
        if self.source.replayable and not self.source.numbered:
            self.run.notes.write(self.name, {"number": self._number, "place": place})

    def _end(self, publisher: Publisher, place: Place) -> bool:
        """The last publisher of the stream to close ends it."""
        publisher.close()
        self.publisher, self.ended = None, True
        self.run.notes.write(self.name, {"number": self._number, "place": place, "ended": True}, lasting=True)
        return True

    def _leave(self) -> None:
        """Its publisher closes, and ends nothing."""
        publisher, self.publisher = self.publisher, None
        if publisher is not None:
            with suppress(CepError):
                publisher.close(keep_open=True)

    def _look(self, publisher: Publisher) -> None:
        """Has the stream got columns since?"""
        if (now := time.monotonic()) - self._looked >= REFRESH_S:
            self._looked = now
            with suppress(CepError):
                self.run.cluster.renew(publisher)

    # Sending

    def _send(self, publisher: Publisher, polled: Polled) -> None:
        given = numbered(polled, self.run.format, publisher.stream.schema.arrow, self._number)
        called = given.called or (lambda at: f"{self.partition}@{given.numbers[at]}")
        for at, reason, value in given.bad:
            if given.numbers[at] >= self._accepted:
                self._letter(called(at), reason, value, given.alike)
        for first, rows in given.runs:
            for begin, behind in runs_of(given.numbers[first : first + rows.num_rows], self._accepted):
                at = first + begin
                self._send_rows(publisher, rows.slice(begin, behind - begin), int(given.numbers[at]), partial(_behind, called, at))
        self._number = int(given.numbers[-1]) + 1 if len(given.numbers) else self._number

    def _send_rows(self, publisher: Publisher, rows: pa.RecordBatch, first: int, called: Callable[[int], str]) -> None:
        """All but those that do not fit the stream."""

        def send(begin: int, end: int) -> None:
            self._sent(publisher.send(rows.slice(begin, end - begin), first=first + begin))

        try:
            for at, wrong in send_fitting(rows.num_rows, send):
                self._letter(called(at), str(wrong), _shown(rows, at))
        except DataError as error:
            if self.run.format is None:
                raise ConnectorError(f"{self.partition}: {error}") from None
            self._letter(called(0), str(error), _shown(rows, 0), rows.num_rows)  # no row of a file fits

    def _sent(self, rows: int) -> None:
        self.run.figures.took(rows)

    def _letter(self, place: str, reason: str, value: bytes, rows: int = 1) -> None:
        self.run.figures.letter(place, self.run.secrets.without(reason), value, rows)


def _shown(rows: pa.RecordBatch, row: int) -> bytes:
    one = rows.slice(row, 1)
    try:
        return str(one.to_pylist()[0]).encode()
    except (ValueError, OverflowError):  # an instant for which Python has no date
        return str(one).encode()


def _behind(called: Callable[[int], str], first: int, row: int) -> str:
    return called(first + row)


def _check_format(format_: ValueFormat, publisher: Publisher) -> None:
    try:
        format_.check(publisher.stream.schema.arrow)
    except ValueError as error:
        raise ConnectorError(f"stream {publisher.stream.name!r}: {error}") from None
