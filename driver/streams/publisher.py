"""A publisher: a partition of a stream, with a name (rule 4.11). What it says is decided by `PublisherCore`; here are threads and locks.

What may have to wait is a generator that says what it waits for: `finish` drives it in a thread of the program's; where one thread does
everything it is driven in turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from cep.model.streams import Stream
from cep.transport import wire
from cep.transport.wire import Header
from driver.rest import Unreachable
from driver.streams.arrow import instant
from driver.streams.commands import StreamCommand
from driver.streams.data_plane import DataPlane
from driver.streams.published_rows import PublishedRows
from driver.streams.publisher_core import PublisherCore
from driver.streams.readers import Document, StreamReader, reads_of
from driver.streams.small_batches import Written

_MAY_LOSE = frozenset((wire.OPENED, wire.CLOSED, wire.UNKNOWN))  # by which a reader may not be where it was

ANSWER_S = 15
CLOSED_S = 60  # for a reader that is there to confirm our last word

T = TypeVar("T")
Closer = Callable[["list[Publisher]", bool], None]


class Wait(NamedTuple):
    """What has to hold before it goes on."""

    publisher: Publisher
    holds: Callable[[], bool]


Steps = Generator[Wait, None, T]


def finish(steps: Steps[T]) -> T:
    """Drives them to their end, in a thread that may wait."""
    while True:
        try:
            wait = next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        wait.publisher.plane.wait_for(wait.publisher.changed, wait.holds)


class Publisher:
    """Use it as a context manager: leaving the block closes it and, if it was the last one open, ends the stream for the
    queries deployed then (`keep_open=True`: it does not). Leaving by an exception closes it without ending the stream.

    `closer` closes it; see `driver.streams.following` for how it learns of its readers. It has many methods, for each event of its core is
    one with the lock held.
    """

    def __init__(self, plane: DataPlane, stream: Stream, name: str | None, keep_open: bool, closer: Closer) -> None:
        self.plane, self.stream, self.keep_open, self.closer = plane, stream, keep_open, closer
        self.name = name or f"publisher-{plane.unique()}"
        self.core = PublisherCore(stream, self.name, plane.endpoint, plane.incarnation(), plane.rings.at)
        self.core.silence.ends(plane.clock.steady_ns())
        self.rows = PublishedRows(stream)
        self.lock = threading.RLock()  # of the core, until what it says has been sent
        self.changed = threading.Condition(self.lock)
        self.sending = threading.RLock()  # held by the program's thread that sends
        self.busy = False  # with what it sends in turns
        if stream.event_time is None:
            plane.on_beat[self] = self._go_on
        if stream.watermark is not None:
            plane.on_tick[self] = self._go_on
        if stream.idle_after is not None:
            plane.on_tick[self] = self._look

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(keep_open=self.keep_open or kind is not None)

    def close(self, keep_open: bool = False) -> None:
        """Closes this publisher; the last one ends the stream, unless `keep_open`. Where a query that recovers reads the stream it returns
        when a checkpoint of that covers all that was sent (docs/features/recovery.md).

        Raises:
            ClusterError: not all that was sent was taken, as far as is known; or another publisher of its name was opened, which
                stays open.
        """
        self.closer([self], keep_open)

    # Sending

    def send(self, data: Any, created_ns: int | None = None, first: int | None = None) -> int:
        """Sends rows; returns how many. Blocks while a query that reads them has no credit left.

        Args:
            data: Arrow table or batch, pandas or polars frame, dict or iterable of dicts.
            created_ns: when the oldest of them was created, for latency; None: now.
            first: the number of the first row, where rows have numbers of their own, which may have gaps; None: that of the next one.

        Raises:
            DataError: they do not fit the stream, or have numbers that rows before them had; none was taken.
            ClusterError: the publisher is closed, or counts so; or the cluster is gone.
        """
        core = self.core
        if core.closing or core.lost is not None:
            core.check_open()
        with self.sending:
            if core.silence.idle:
                finish(self._wake())
            if first is not None:
                core.numbering.pass_to(first)
            now_ns, written = self.plane.clock.wall_ns(), None
            if self.rows.small is not None and isinstance(data, pa.RecordBatch):
                written = self.rows.small.write(data, max(core.numbering.max_time, now_ns // 1000))
            if written is None:
                return finish(self._send_pieces(data, created_ns))
            if not self._send_straight(written, created_ns or now_ns):
                finish(self._send_small(written, created_ns or now_ns))
            return written.rows

    def sends(self, data: Any, created_ns: int | None = None) -> Steps[int]:
        """The same in steps."""
        self.core.check_open()
        self.busy = True
        try:
            if self.core.silence.idle:
                yield from self._wake()
            return (yield from self._send_pieces(data, created_ns))
        finally:
            self.busy = False

    def accepted(self) -> int:
        """How many rows queries that recover have of this name: those that were sent here, and by publishers before of the same name. A
        program that was killed, and comes again, goes on with the row of this number: then none is missing, and none is there twice.

        Raises:
            ClusterError: the publisher is closed, or counts so; or the cluster is gone.
        """
        return finish(self.accepts())

    def accepts(self) -> Steps[int]:
        """The same in steps."""
        core = self.core
        core.check_open()
        if core.readers.awaited:
            yield Wait(self, lambda: not core.readers.awaited or core.closing or core.lost is not None)
        core.check_open()
        core.check_heard()
        return core.numbering.record

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
        self.core.check_open()
        with self.sending:
            if self.core.silence.idle:
                finish(self._wake())
            with self.lock:
                self._obey(self.core.promise(time_us))
                self.core.silence.ends(self.plane.clock.steady_ns())

    def grow(self, stream: Stream) -> None:
        """Rows that are sent from now on have the columns of `stream`, which is what its stream has become (`Cluster.renew`)."""
        with self.sending:
            with self.lock:
                self._obey(self.core.grow(stream))
            self.stream, self.rows = stream, PublishedRows(stream)

    def _send_straight(self, written: Written, created_ns: int) -> bool:
        """As nearly always: to the only reader that there is, which has credit. False: it is not so."""
        core, body = self.core, written.body
        numbering, reader = core.numbering, core.readers.only(len(body))
        if reader is None:
            return False
        before = numbering.advance(written.greatest)
        with self.lock:
            header = numbering.batch(reader, len(body), created_ns, before)
            if core.keep(reader, header, body):
                self.plane.send(reader.endpoint, header, body)
        numbering.sent(written.rows)
        return True

    def _send_small(self, written: Written, created_ns: int) -> Steps[None]:
        yield from self._send(written, created_ns)
        self._tell_watermark()

    def _send_pieces(self, data: Any, created_ns: int | None) -> Steps[int]:
        rows, clock = 0, self.plane.clock
        for written in self.rows.pieces(data, lambda: max(self.core.numbering.max_time, clock.wall_ns() // 1000)):
            yield from self._send(written, created_ns or clock.wall_ns())
            rows += written.rows
        self._tell_watermark()
        return rows

    def _send(self, written: Written, created_ns: int) -> Steps[None]:
        """To a reader of each query, or its share to each of its replicas."""
        core = self.core
        if core.readers.awaited:  # one may say how far it has come without us, and rows that are older are late
            yield Wait(self, lambda: not core.readers.awaited or core.closing or core.lost is not None)
        try:
            yield from self._send_to_queries(written, created_ns)
        finally:
            core.numbering.underway = None

    def _send_to_queries(self, written: Written, created_ns: int) -> Steps[None]:
        numbering = self.core.numbering
        bodies: dict[frozenset[str] | None, tuple[Any, int]] = {}
        before = numbering.advance(written.greatest)
        for readers in self.core.readers.queries():
            if (route := readers[0].route) is None:
                if (reads := reads_of(readers)) not in bodies:
                    bodies[reads] = self.rows.body(written, reads)
                body, fingerprint = bodies[reads]
                yield from self._send_to(readers, body, created_ns, before, fingerprint)
                continue
            for replica, part, stamp in self.rows.shares(written, route, created_ns, before, numbering.max_time, numbering.record):
                ours = [reader for reader in readers if reader.replica == replica]
                yield from self._send_to(ours, part, created_ns, stamp, self.rows.numbered.fingerprint)
        numbering.sent(written.rows)

    def _send_to(self, readers: Sequence[StreamReader], body: Any, created_ns: int, stamp: int, fingerprint: int) -> Steps[None]:
        """To the first of `readers` that has credit."""
        core, is_settled = self.core, False
        while not is_settled:
            if not core.settled(readers, len(body)):
                with self.lock:
                    self._obey(core.press(readers, len(body)))
                yield Wait(self, lambda: core.settled(readers, len(body)))
            with self.lock:
                is_settled = core.settled(readers, len(body))  # one may have lost its place in between
                if is_settled and (reader := core.choose(readers, len(body))) is not None:
                    header = core.numbering.batch(reader, len(body), created_ns, stamp, fingerprint)
                    if core.keep(reader, header, body):
                        self.plane.send(reader.endpoint, header, body)

    def _tell_watermark(self) -> None:
        with self.lock:
            self._obey(self.core.tell_watermark())

    def _wake(self) -> Steps[None]:
        """It was idle, and has something to say again: once its readers have said how far they have come without it."""
        core, readers = self.core, self.core.readers
        asked: dict[int, StreamReader] = {}
        news = Wait(self, lambda: core.closing or core.lost is not None or not readers.asleep or bool(readers.asleep.keys() - asked))
        while asleep := readers.asleep:
            with self.lock:
                self._obey(core.ask_awake(reader for channel, reader in asleep.items() if channel not in asked))
            asked.update(asleep)
            yield news
        with self.lock:
            self._obey(core.awake(asked.values(), self.plane.clock.steady_ns()))

    # In the thread that reads the plane: its own, or a caller that waits

    def _heard(self, header: Header, body: Any) -> None:
        with self.lock:
            self._obey(self.core.heard(header, body, self.plane.beaten))
            if header.kind in _MAY_LOSE and self.core.has_astray:
                self.plane.on_beat[self.core] = self._ask_astray
            self.changed.notify_all()

    def _obey(self, commands: Iterable[StreamCommand]) -> None:
        for command in commands:
            self.plane.obey(command, self._heard)

    def _ask_astray(self) -> None:
        """With every beat, as long as there are any."""
        with self.lock:
            if not self.core.has_astray:
                self.plane.on_beat.pop(self.core, None)
            self._obey(self.core.ask_astray())

    def _go_on(self) -> None:
        """Every second time of ingestion goes on without rows; ten times a second, that of rows stamped live."""
        self._unless_sending(lambda: self.core.go_on_with(self.plane.clock.wall_ns() // 1000))

    def _look(self) -> None:
        """Ten times a second: for how long has it been silent? A `send` under way is no silence, however long it waits for credit."""
        now = self.plane.clock.steady_ns()
        if not self._unless_sending(lambda: self.core.look(now)):
            self.core.silence.ends(now)

    def _unless_sending(self, decide: Callable[[], Iterable[StreamCommand]]) -> bool:
        """Was nothing being sent?"""
        if self.busy or not self.sending.acquire(blocking=False):
            return False
        try:
            with self.lock:
                self._obey(decide())
        finally:
            self.sending.release()
        return True

    # Readers

    def drop_gone(self, documents: Iterable[Document]) -> None:
        """`documents` describe what reads the stream now: a reader that is not among them is gone. Not under `sending`: a `send` that waits
        for the credit of a reader that is gone holds it."""
        with self.lock:
            self._obey(self.core.drop_gone(documents))
            self.changed.notify_all()

    def look_for_life(self, away: Unreachable) -> None:
        """The cluster does not answer. A reader whose process has ended, too, is gone; with none left, so is the cluster."""
        gone = set(filter(self.plane.is_gone, self.core.readers.endpoints))
        with self.lock:
            self.core.lose(gone, str(away), away.refused)
            self.changed.notify_all()

    def ask(self, documents: Iterable[Document]) -> list[StreamReader]:
        """Asks to be let in by the readers that are new, with `sending` held; what comes next is theirs too once they have answered."""
        with self.lock:
            new, commands = self.core.ask(documents)
            self._obey(commands)
        return new

    def opened(self, asked: Sequence[StreamReader]) -> Steps[None]:
        """Until those that were asked have answered, or are gone. One that takes longer, being busy or stopped, stays: rows wait for it as
        for one without credit, so that it misses none. Those of queries that recover may be elsewhere before they answer."""
        waiting = [reader for reader in asked if reader.log is None]
        yield self.at_most(ANSWER_S, lambda: all(reader.opened or reader.gone or not reader.asked for reader in waiting))
        with self.lock:
            self._obey(self.core.readers.forget_gone())

    def at_most(self, seconds: float, holds: Callable[[], bool]) -> Wait:
        """Until that holds, or the time has passed."""
        clock = self.plane.clock
        due = clock.steady_ns() + round(seconds * 1e9)
        return Wait(self, lambda: holds() or clock.steady_ns() >= due)

    # Closing

    def give_up(self) -> bool:
        """No more is sent, and a `send` that waits for credit gives up. False: it had closed already."""
        with self.lock:
            self.changed.notify_all()
            return self.core.give_up()

    def go_on(self) -> None:
        """No reader has heard that it closes: it does not, and may be closed again."""
        self.core.closing = False

    def _rest(self) -> None:
        """Nothing is done by the clock any more."""
        for each in (self, self.core):
            self.plane.on_beat.pop(each, None)
        self.plane.on_tick.pop(self, None)

    def be_replaced(self) -> None:
        """Another one of its name is open in this process."""
        self._rest()
        with self.lock:
            self._obey(self.core.be_replaced())
            self.changed.notify_all()

    def say_goodbye(self, last: bool, others: list[str]) -> None:
        """To all readers. `last`: it may be the end of the stream, if all `others` that count as open have vanished."""
        with self.lock:
            self._obey(self.core.say_goodbye(last, others))

    def confirmed(self) -> Steps[str]:
        """Until all readers have heard it; what is to be complained of, if one has not though there was time."""
        readers = self.core.readers
        for _ in range(CLOSED_S // ANSWER_S):
            yield self.at_most(ANSWER_S, lambda: not readers.unclosed)
            if not readers.unclosed:
                break
            readers.lose_unclosed({reader.endpoint for reader in readers.unclosed if self.plane.is_gone(reader.endpoint)})
        return self.core.unconfirmed(CLOSED_S)

    def leave(self) -> None:
        """Its last word is said."""
        self._rest()
        with self.lock:
            self._obey(self.core.leave())
