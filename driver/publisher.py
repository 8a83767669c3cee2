"""A publisher: a partition of a stream, with a name (DESIGN 4.11). It numbers and stamps its own rows, so that every query agrees."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from cep import wire
from cep.dataflow.channel import Credit
from cep.dataflow.event_time import ComputedTime
from cep.dataflow.replicas import shares
from cep.dataflow.source import Range, greatest_of, stamp_of
from cep.elements import MIN_TIME, Barrier
from cep.errors import ClusterError
from cep.kernels.columns import columns_from_arrow
from cep.model.streams import Stream
from cep.plan.route import Route
from cep.transport import is_gone
from cep.wire import Format, Header
from driver.arrow import event_times, instant, record_batches
from driver.data import DataPlane
from driver.quiet import Quiet
from driver.rest import Unreachable
from driver.small_batches import ROWS_MAX, Written, small_batches

BATCH_BYTES = 2 << 20
ANSWER_S = 15.0
NOT_KNOWN = -1
CLOSED_S = 60.0  # for a reader that is there to confirm our last word

Closer = Callable[["list[Publisher]", bool], None]


class Reader:
    """One source instance that reads the stream, and our channel to it."""

    def __init__(self, document: dict[str, Any], stream: str, publisher: str) -> None:
        self.query, self.endpoint = str(document["query"]), str(document["endpoint"])
        self.deployment = document.get("epoch", 0)  # of the query: another of its name has channels of the same names
        self.entry = wire.name_id(f"{self.query}/{stream}<{document['instance']}")
        self.channel = wire.name_id(f"{self.entry}<{publisher}")
        self.credit = Credit()
        self.replica = int(document["replica"])
        self.route = None if document["route"] is None else Route.from_json(document["route"])
        self.sequence = 0
        self.watermark = MIN_TIME  # the last one it was told
        self.process = 0  # which it is in, once it has said so
        self.since = 0  # heartbeats later than this one find us there
        self.opened = self.gone = self.closed = False
        self.refused = ""  # why it was closed, if what we sent was no batch
        self.taken: int | None = None  # it counts us as closed: the number of the first row that it did not take
        self.told_idle = False  # and has not answered since

    @property
    def is_here(self) -> bool:
        """It has let us in, and is there for us."""
        return self.opened and not self.gone and not self.closed

    @property
    def takes_all(self) -> bool:
        """Is it there for us, and no replica that gets a part of the rows?"""
        return self.is_here and self.route is None


class Publisher:
    """Use it as a context manager: leaving the block closes it and, if it was the last one open, ends the stream for the
    queries deployed then (`keep_open=True`: it does not). Leaving by an exception closes it without ending the stream.

    `closer` closes it; see `driver.following` for how it learns of its readers.
    """

    def __init__(self, plane: DataPlane, stream: Stream, name: str | None, keep_open: bool, closer: Closer) -> None:
        self.plane, self.stream, self.keep_open, self.closer = plane, stream, keep_open, closer
        self.name = name or f"publisher-{uuid.uuid4().hex[:12]}"
        self.disorder = stream.disorder or 0
        self.small = small_batches(stream)
        self.format = Format.published(stream) if self.small is None else self.small.format
        self.fingerprint, self.stream_id = self.format.fingerprint, wire.stream_id(stream.name)
        self.readers: dict[int, Reader] = {}
        self.max_time = self.sent_until = MIN_TIME  # what the stamp follows; the greatest event time of a row that was sent
        self.record = 0
        self.changed = threading.Condition()
        self.sending = threading.RLock()
        self.speaking = threading.Lock()  # so that messages to a reader leave in the order of their numbers
        self.closing = self.closed = False  # no more is taken; the last word is said
        self.lost: ClusterError | None = None  # the cluster is out of reach, and nobody there reads this
        self._times = _event_time_of(stream)
        self._turn = 0
        self.quiet = Quiet(self)
        self.idle = False  # nobody waits for us
        if stream.event_time is None:
            self.plane.on_beat[self] = self._beat
        if stream.watermark is not None:
            self.plane.on_tick[self] = self._beat
        if stream.idle_after is not None:
            self.plane.on_tick[self] = self.quiet.look

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(keep_open=self.keep_open or kind is not None)

    def close(self, keep_open: bool = False) -> None:
        """Closes this publisher; the last one ends the stream, unless `keep_open`."""
        self.closer([self], keep_open)

    # Sending

    def send(self, data: Any, created_ns: int | None = None) -> int:
        """Sends rows; returns how many. Blocks while a query that reads them has no credit left.

        Args:
            data: Arrow table or batch, pandas or polars frame, dict or iterable of dicts.
            created_ns: when the oldest of them was created, for latency; None: now.

        Raises:
            DataError: they do not fit the stream; none was taken.
            ClusterError: the publisher is closed, or counts so; or the cluster is gone.
        """
        if self.closing or self.lost is not None:
            self._check_open()
        with self.sending:
            if self.idle:
                self.quiet.wake()
            now_ns, written = time.time_ns(), None
            if self.small is not None and isinstance(data, pa.RecordBatch):
                written = self.small.write(data, max(self.max_time, now_ns // 1000))
            if written is None:
                return self._send_any(data, created_ns)
            if not self._send_straight(written, created_ns or now_ns):
                self._send(written.rows, written.greatest, created_ns or now_ns, written.body)
                self._tell_watermark()
            return written.rows

    def advance(self, to: datetime | int | str) -> None:
        """Promises that it sends no row older than `to`, though it has none to send now: windows that end by then need not wait for it.
        What it sends later and is older, is late. Disorder is not subtracted; a time that has passed already changes nothing.

        Args:
            to: a datetime (without a zone it is UTC), an integer of the unit that the stream's event time declares, or ISO 8601.

        Raises:
            DataError: it is no such time.
            ClusterError: the publisher is closed, or counts so; or the cluster is gone.
        """
        time_us = instant(to, self.stream)
        self._check_open()
        with self.sending:
            if self.idle:
                self.quiet.wake()
            self.check_heard()
            self.max_time = max(self.max_time, time_us + self.disorder)
            self._tell_watermark()
            self.quiet.moved()

    def _check_open(self) -> None:
        if self.lost is not None:
            raise self.lost
        if self.closing:
            raise ClusterError(f"publisher {self.name!r} of stream {self.stream.name!r} is closed; open another one")

    def _send_straight(self, written: Written, created_ns: int) -> bool:
        """As nearly always: to the only reader that there is, which has credit. False: it is not so."""
        reader = next(iter(self.readers.values())) if len(self.readers) == 1 else None
        if reader is None or not reader.takes_all or not reader.credit.allows(len(written.body)):
            return False
        before = self._advance(written.greatest)
        self._transmit(reader, written.body, created_ns, before)
        self.record += written.rows
        return True

    def _send_any(self, data: Any, created_ns: int | None) -> int:
        rows = 0
        for batch in record_batches(data, self.stream):
            for piece in _cut(batch):
                times, greatest = self._times(piece, self.max_time)
                whole = self._whole(piece, times)
                self._send(piece.num_rows, greatest, created_ns or time.time_ns(), self._few_rows(piece, times), whole)
            rows += batch.num_rows
        self._tell_watermark()
        return rows

    def _send(self, rows: int, greatest: int, created_ns: int, body: Any, whole: pa.RecordBatch | None = None) -> None:
        """To a reader of each query. What is None, of a message and the batch with its hidden column, is made of the other where needed."""
        before = self._advance(greatest)
        for readers in self._by_query():
            if readers[0].route is None:
                body = whole.serialize() if body is None and whole is not None else body
                self._send_to(readers, body, created_ns, before)
            else:
                whole = pa.ipc.read_record_batch(body, self.format.arrow) if whole is None else whole
                self._send_shares(readers[0].route, readers, whole, created_ns, before)
        self.record += rows

    def _advance(self, greatest: int) -> int:
        """Rows are to be sent with `greatest` as their greatest event time; the greatest before them."""
        before = self.max_time
        self.max_time, self.sent_until = max(before, greatest), max(self.sent_until, greatest)
        return before

    def _few_rows(self, batch: pa.RecordBatch, times: np.ndarray) -> bytes | None:
        """The message of few rows without NULLs, however their batch lies."""
        layout = self.format.layout if batch.num_rows <= ROWS_MAX else None
        return None if layout is None else layout.write_arrow(batch.num_rows, batch.columns, *self._hidden(times))

    def _whole(self, batch: pa.RecordBatch, times: np.ndarray) -> pa.RecordBatch:
        """With its hidden column, if it has one."""
        return pa.RecordBatch.from_arrays([*batch.columns, *map(wire.int64_array, self._hidden(times))], schema=self.format.arrow)

    def _hidden(self, times: np.ndarray) -> list[np.ndarray]:
        return [times] * self.format.hides_time

    def _send_shares(self, route: Route, readers: list[Reader], whole: pa.RecordBatch, created_ns: int, before: int) -> None:
        """To each replica of a query the rows whose keys it has."""
        numbered = Format.published(self.stream, 1)
        batch = self.format.from_arrow(whole, created_ns)
        for replica, rows, stamp in shares(route, batch, before, self.max_time, self.disorder, self.stream.times, self.record):
            body = numbered.to_arrow(rows).serialize()
            self._send_to([reader for reader in readers if reader.replica == replica], body, created_ns, stamp, numbered.fingerprint)

    def _send_to(self, readers: list[Reader], body: bytes | pa.Buffer, created_ns: int, stamp: int, fingerprint: int | None = None) -> None:
        """To the first of `readers` that has credit."""
        reader = self._with_credit(readers, len(body))
        if reader is not None:
            self._transmit(reader, body, created_ns, stamp, fingerprint)

    def _transmit(self, reader: Reader, body: Any, created_ns: int, stamp: int, fingerprint: int | None = None) -> None:
        with self.speaking:
            reader.credit.spend(len(body))
            header = self._header(wire.BATCH, reader, created_ns, stamp, self.record, fingerprint)
            self.plane.send(reader.endpoint, header, body)

    def _by_query(self) -> list[list[Reader]]:
        """The readers of each query, beginning with the one whose turn it is."""
        here = [reader for reader in list(self.readers.values()) if not reader.gone]  # one that has not let us in yet is waited for
        if len(here) < 2:
            return [here] if here else []
        queries: dict[str, list[Reader]] = {}
        for reader in here:
            queries.setdefault(reader.query, []).append(reader)
        self._turn += 1
        return [[*readers[self._turn % len(readers) :], *readers[: self._turn % len(readers)]] for readers in queries.values()]

    def _with_credit(self, readers: list[Reader], size: int) -> Reader | None:
        """The first with credit, waited for if there is none; None: the query is over. Raises ClusterError: we are closed, or count so, or
        the cluster is gone."""
        if not self.closing and not any([reader.closed for reader in self.readers.values()]):
            reader = _first_with_credit(readers, size)
            if reader is not None:
                return reader

        def settled() -> bool:
            over = self.closing or self.lost or any(r.closed for r in readers) or all(r.gone for r in readers)
            return bool(over) or _first_with_credit(readers, size) is not None

        self.plane.attend()
        with self.changed:
            self.changed.wait_for(settled)
            if self.closing:
                raise ClusterError(f"publisher {self.name!r} of stream {self.stream.name!r} was closed while it waited for credit")
            if self.lost is not None:
                raise self.lost
            self.check_heard()
            return _first_with_credit(readers, size)

    def check_heard(self) -> None:
        """Raises ClusterError: a reader has closed us."""
        if complaint := self.unheard():
            raise ClusterError(complaint)

    def unheard(self) -> str:
        """Of readers that have closed us; empty if none has."""
        for reader in self.readers.values():
            if reader.refused:
                closed = f"publisher {self.name!r} of stream {self.stream.name!r} was closed by query {reader.query!r}"
                return f"{closed}, which could not take what it sent: {reader.refused}"
        deaf = {reader.query: reader.taken for reader in self.readers.values() if reader.taken is not None}
        if not deaf:
            return ""
        silent = f"publisher {self.name!r} of stream {self.stream.name!r} was silent for so long that it counts as closed"
        where = ", ".join(f"query {query!r} {_took(taken)}" for query, taken in deaf.items())
        return f"{silent} at {where}: what it sent since was not taken; open another one of this name and send that again"

    def _header(
        self, kind: int, reader: Reader, created: int = 0, stamp: int = MIN_TIME, record: int = 0, fingerprint: int | None = None
    ) -> Header:
        watermark = stamp_of(self.max_time, self.disorder)
        reader.watermark, sequence = watermark, reader.sequence
        reader.sequence += 1
        schema = fingerprint or self.fingerprint
        return Header(kind, reader.channel, sequence, 0, self.stream_id, schema, watermark, created, stamp, MIN_TIME, record)

    def tell(self, kind: int, readers: Iterable[Reader]) -> None:
        """One element without rows, in its place among them, to readers that are there."""
        for reader in readers:
            if reader.is_here:
                with self.speaking:
                    self.plane.send(reader.endpoint, self._header(kind, reader, 0, self.max_time, self.record))

    def _tell_watermark(self) -> None:
        watermark = stamp_of(self.max_time, self.disorder)
        self.tell(wire.WATERMARK, [reader for reader in list(self.readers.values()) if reader.watermark < watermark])

    def _beat(self) -> None:
        """In the plane's thread, every second: time of ingestion goes on without rows; ten times a second, that of rows stamped live."""
        if self.sending.acquire(blocking=False):
            try:
                self.max_time = max(self.max_time, time.time_ns() // 1000)
                self._tell_watermark()
            finally:
                self.sending.release()

    # Readers

    def drop_gone(self, documents: list[dict[str, Any]]) -> None:
        """Of what reads the stream now: who is not among them is gone. Not under the lock: a `send` that waits for the credit of a
        reader that is gone holds it."""
        found = {(reader.channel, reader.deployment) for reader in self._readers(documents)}
        with self.changed:
            for reader in list(self.readers.values()):
                reader.gone |= (reader.channel, reader.deployment) not in found
            self.changed.notify_all()

    def look_for_life(self, away: Unreachable) -> None:
        """Nobody answers for the cluster. A reader whose process has ended, too, is gone; with nobody left, so is the cluster."""
        here = [reader for reader in list(self.readers.values()) if not reader.gone]
        gone = [reader for reader in here if is_gone(reader.endpoint)]
        with self.changed:
            for reader in gone:
                reader.gone = True
            if len(gone) == len(here) and (gone or away.refused):
                where = ", ".join(sorted({reader.endpoint for reader in gone}))
                nobody = f"the instance managers at {where} that read it have ended" if gone else "no query reads it"
                self.lost = ClusterError(f"publisher {self.name!r} of stream {self.stream.name!r}: {nobody}, and {away}")
            self.changed.notify_all()

    def ask(self, documents: list[dict[str, Any]]) -> list[Reader]:
        """Knocks at the readers that are new, with `sending` held; the rows that come next are theirs too once they have answered."""
        for reader in [reader for reader in self.readers.values() if reader.gone]:
            self._forget(reader)
        new = [reader for reader in self._readers(documents) if reader.channel not in self.readers] if not self.closed else []
        for reader in new:
            self.plane.listen(reader.endpoint, reader.channel, partial(self._heard, reader))
            self.readers[reader.channel] = reader
            document = {"publisher": self.name, "endpoint": self.plane.endpoint, "sent_until": self.sent_until}
            self.plane.send(reader.endpoint, Header(wire.OPEN, reader.entry), wire.to_json(document))
        return new

    def await_opened(self, asked: list[Reader]) -> None:
        """Until those who were asked have answered, or are gone. One that takes longer, being busy or stopped, stays: rows wait for it as
        for one without credit, so that it misses none."""
        self.plane.attend()
        with self.changed:
            self.changed.wait_for(lambda: all(reader.opened or reader.gone for reader in asked), timeout=ANSWER_S)
        for reader in [reader for reader in asked if reader.gone]:
            self._forget(reader)

    def _readers(self, documents: list[dict[str, Any]]) -> list[Reader]:
        return [Reader(document, self.stream.name, self.name) for document in documents]

    def _forget(self, reader: Reader) -> None:
        self.readers.pop(reader.channel, None)
        self.plane.leave(reader.endpoint, reader.channel)

    def _heard(self, reader: Reader, header: Header, body: Any) -> None:
        with self.changed:
            if header.kind == wire.OPENED and reader.opened:
                self._answered(reader, header, wire.from_json(body))
            elif header.kind == wire.OPENED:
                self._opened(reader, header, wire.from_json(body))
            elif header.kind == wire.CREDIT:
                reader.credit.grant(header.sequence, header.record, header.watermark)
            elif header.kind == wire.CLOSED:
                self._closed(reader, wire.from_json(body) if len(body) else {})
            elif header.kind == wire.UNKNOWN:
                self._unknown(reader, header.sequence, wire.from_json(body))
            elif header.kind == wire.REDIRECT and reader.opened:
                self._redirect(reader, body)
            self.changed.notify_all()

    def _opened(self, reader: Reader, header: Header, document: dict[str, Any]) -> None:
        reader.opened, reader.gone = bool(document["here"]), not document["here"]
        reader.process, reader.since = document.get("process", 0), self.plane.beaten
        # Where it was already, by an earlier publisher of our name, its numbering goes on.
        reader.credit.limit, reader.sequence = document.get("limit", 0), header.sequence
        reader.credit.sent, reader.credit.consumed = document.get("received", 0), document.get("consumed", 0)
        self.record = max(self.record, header.record)
        reader.watermark = header.watermark
        self._goes_on_at(document.get("endpoint", reader.endpoint), reader)  # it may have moved since we heard of it
        self._start_at(header.watermark)
        if self.idle:
            self.quiet.tell([reader])

    def _answered(self, reader: Reader, header: Header, document: dict[str, Any]) -> None:
        """At one that had us open already: we were idle, or it is not there any more."""
        reader.gone |= not document["here"]
        if document.get("awakes"):
            reader.told_idle = False
            self._start_at(header.watermark)

    def _start_at(self, watermark: int) -> None:
        """Our stamp starts at the greatest answer: no reader gets a row that is late for it."""
        if watermark > MIN_TIME:
            self.max_time = max(self.max_time, watermark + self.disorder)

    def _closed(self, reader: Reader, word: dict[str, Any]) -> None:
        """It has heard our last word, or has given us up, which is no answer to our last word, or is over itself."""
        reader.refused = word.get("reason", reader.refused)
        if self.closed and word and not word.get("heard"):
            return
        reader.taken = word.get("record")
        reader.closed = bool(word)
        reader.gone |= not word

    def _unknown(self, reader: Reader, beat: int, word: dict[str, Any]) -> None:
        """Who is there knows nothing of us: another process, whose predecessor has taken the query along, or it has given us up."""
        if beat <= reader.since or word["endpoint"] != reader.endpoint or not reader.process or reader.closed or self.closed:
            return
        if word["process"] != reader.process:
            reader.gone = True
        elif not reader.gone:
            reader.taken, reader.closed = NOT_KNOWN, True

    def _redirect(self, reader: Reader, body: Any) -> None:
        """The reader moves: behind what it has been sent it is told so where it was, and hears from us at its new place from now on."""
        barrier = wire.element_of(Header(wire.BARRIER, reader.channel), body, self.format)
        assert isinstance(barrier, Barrier) and barrier.move is not None
        with self.speaking:
            if self.closed:
                return  # our last word is said
            self.plane.send(reader.endpoint, self._header(wire.BARRIER, reader), body)
            self._goes_on_at(barrier.move.endpoint, reader)
            opening = Header(wire.OPEN, reader.entry, reader.sequence, record=reader.credit.sent)
            self.plane.send(reader.endpoint, opening, wire.to_json({"publisher": self.name, "endpoint": self.plane.endpoint}))

    def _goes_on_at(self, endpoint: str, reader: Reader) -> None:
        if endpoint != reader.endpoint:
            self.plane.redirect(reader.endpoint, endpoint)
            reader.endpoint, reader.process = endpoint, 0

    # Closing

    def give_up(self) -> bool:
        """No more is sent, and a `send` that waits for credit gives up. False: it had closed already."""
        with self.changed:
            if self.closing:
                return False
            self.closing = True
            self.changed.notify_all()
            return True

    def go_on(self) -> None:
        """Nobody has heard that it closes: it does not, and may be closed again."""
        self.closing = False

    def say_goodbye(self, last: bool, others: list[str]) -> None:
        """To all readers. `last`: it may be the end of the stream, if all `others` that count as open have vanished."""
        word = {"last": last, "others": others, "endpoint": self.plane.endpoint}
        with self.speaking:
            self.closed = True
            for reader in self.readers.values():
                reader.closed, reader.taken = False, None
                body, sent = wire.to_json({**word, "entry": reader.entry}), reader.credit.sent
                self.plane.send(reader.endpoint, self._header(wire.CLOSE, reader, record=sent), body)

    def await_closed(self) -> str:
        """Until all readers have heard it; what is to be complained of, if one has not though there was time."""
        self.plane.attend()
        left = CLOSED_S
        while left > 0 and not self._wait_for_closed(min(left, ANSWER_S)):
            left -= ANSWER_S
            for reader in self._unclosed():
                reader.gone = is_gone(reader.endpoint)
        if not (silent := self._unclosed()):
            return self.unheard()
        where = ", ".join(sorted({f"query {reader.query!r} at {reader.endpoint}" for reader in silent}))
        what = f"{where}: being stopped or busy it has not confirmed within {CLOSED_S:g} s what it was sent, and that it is closed"
        return f"publisher {self.name!r} of stream {self.stream.name!r}: {what}"

    def _wait_for_closed(self, timeout_s: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: not self._unclosed(), timeout=timeout_s)

    def _unclosed(self) -> list[Reader]:
        return [reader for reader in self.readers.values() if not reader.closed and not reader.gone]

    def leave(self) -> None:
        """Its last word is said."""
        self.closed = True
        self.plane.on_beat.pop(self, None)
        self.plane.on_tick.pop(self, None)
        for reader in list(self.readers.values()):
            self.plane.leave(reader.endpoint, reader.channel)


def _cut(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """Pieces of at most about BATCH_BYTES, none of them empty."""
    rows = batch.num_rows
    if batch.get_total_buffer_size() <= BATCH_BYTES:  # of the arrays that it may be a part of, so at least its own
        return (batch,) if rows else ()
    size = max(1, rows * BATCH_BYTES // max(batch.nbytes, 1))
    return (batch.slice(start, size) for start in range(0, rows, size))


def _took(before: int) -> str:
    if before == NOT_KNOWN:
        return "(how many rows it took is not known)"
    return f"(which took rows up to number {before - 1})" if before else "(which took no row)"


def _first_with_credit(readers: list[Reader], size: int) -> Reader | None:
    for reader in readers:
        if reader.is_here and reader.credit.allows(size):
            return reader
    return None


def _event_time_of(stream: Stream) -> Callable[[pa.RecordBatch, int], tuple[np.ndarray, int]]:
    """(batch, greatest time so far) -> its times, int64[n], µs, MIN_TIME where NULL; and the greatest of them."""
    if stream.event_time is None:
        return _now
    if (column := stream.event_time_column) is not None:
        return lambda batch, latest: _with_greatest(event_times(batch, column), stream.times)
    computed = ComputedTime(stream)
    return lambda batch, latest: _with_greatest(computed.of(columns_from_arrow(batch, stream.schema), batch.num_rows), stream.times)


def _now(batch: pa.RecordBatch, latest: int) -> tuple[np.ndarray, int]:
    now = max(latest, time.time_ns() // 1000)
    times = np.empty(batch.num_rows, np.int64)
    times.fill(now)  # not `np.full`, which takes four times as long
    return times, now


def _with_greatest(times: np.ndarray, allowed: Range) -> tuple[np.ndarray, int]:
    return times, greatest_of(times, allowed)
