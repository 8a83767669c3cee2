"""What a publisher decides while it sends nothing (DESIGN 4.12).

It is decided here and nowhere else, and numbered among its rows: so all queries agree, and the same elements have the same answers.

1. Silent for the stream's `idle_after` it says Idle to all its readers, and to whoever reads the stream from then on. A `send` under way
   is no silence, however long it waits for credit.
2. Before the next row, or `advance`, it asks every reader how far that has come without it. Its stamp starts at the greatest answer, and a
   Watermark behind the Idle says where that is: it is awake. Rows that are older are late, at every reader alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol

from cep import wire
from cep.errors import ClusterError
from cep.model.streams import Stream
from cep.wire import Header
from driver.data import DataPlane


class Reader(Protocol):
    """What is to be known here of a `driver.publisher.Reader`."""

    endpoint: str
    entry: int
    told_idle: bool
    gone: bool
    closed: bool

    @property
    def is_here(self) -> bool: ...


class Speaker(Protocol):
    """And of a `driver.publisher.Publisher`."""

    plane: DataPlane
    stream: Stream
    name: str
    readers: dict[int, Any]
    record: int
    sent_until: int
    idle: bool
    closing: bool
    lost: ClusterError | None
    sending: Any
    changed: threading.Condition

    def tell(self, kind: int, readers: Iterable[Any]) -> None: ...

    def check_heard(self) -> None: ...


class Quiet:
    """Of one publisher."""

    def __init__(self, publisher: Speaker) -> None:
        self.publisher = publisher
        self.after_s = (publisher.stream.idle_after or 0) / 1e6
        self.record = publisher.record  # when it was looked at last
        self.since = time.monotonic()  # it has been silent

    def moved(self) -> None:
        """It has said something."""
        self.since = time.monotonic()

    def look(self) -> None:
        """Ten times a second, in the plane's thread."""
        publisher = self.publisher
        if not publisher.sending.acquire(blocking=False):
            self.moved()
            return
        try:
            if publisher.record != self.record:
                self.record = publisher.record
                self.moved()
            elif not publisher.idle and not publisher.closing and time.monotonic() - self.since >= self.after_s:
                with publisher.changed:
                    publisher.idle = True
                    self.tell(publisher.readers.values())
        finally:
            publisher.sending.release()

    def tell(self, readers: Iterable[Reader]) -> None:
        """These, that nobody need wait for it; one that opens later is told then. With `changed` held."""
        here = [reader for reader in readers if reader.is_here]
        for reader in here:
            reader.told_idle = True
        self.publisher.tell(wire.IDLE, here)

    def wake(self) -> None:
        """With `sending` held: it has something to say again. Raises ClusterError: it was closed meanwhile, or counts so."""
        publisher = self.publisher
        asked: dict[int, Reader] = {}
        publisher.plane.attend()
        with publisher.changed:
            while asleep := {key: reader for key, reader in publisher.readers.items() if _sleeps(reader)}:
                if publisher.closing or publisher.lost is not None:
                    raise publisher.lost or ClusterError(
                        f"publisher {publisher.name!r} of stream {publisher.stream.name!r} was closed while it woke up"
                    )
                self._ask(reader for key, reader in asleep.items() if key not in asked)
                asked |= asleep
                publisher.changed.wait()
            publisher.check_heard()
            publisher.idle = False
        publisher.tell(wire.WATERMARK, asked.values())
        self.moved()

    def _ask(self, readers: Iterable[Reader]) -> None:
        """How far they have come without it."""
        publisher = self.publisher
        opening = {"publisher": publisher.name, "endpoint": publisher.plane.endpoint, "sent_until": publisher.sent_until}
        for reader in readers:
            publisher.plane.send(reader.endpoint, Header(wire.OPEN, reader.entry), wire.to_json(opening | {"awakes": True}))


def _sleeps(reader: Reader) -> bool:
    return reader.told_idle and not reader.gone and not reader.closed
