"""What connections that others have opened may have us keep: how much of each has come and was not handed out, and what it has not read.

ZeroMQ keeps the parts of a message until the last one has come, however many there are, and what is written until the other end reads it.
It has a bound for neither, so whoever has a key could fill the memory. Hence the kernel is asked now and then what has come and gone on
each connection, and one that owes too much is cut: what was kept for it is free. Links go on on another connection and lose nothing.
"""

from __future__ import annotations

import logging
import socket as sockets
from collections.abc import Iterator
from dataclasses import dataclass

import zmq
from zmq.utils import monitor

from cep.transport import tcp, zeromq
from cep.transport.link import WINDOW_BYTES
from cep.transport.tcp import Passed

COMING_MAX = WINDOW_BYTES + (32 << 20)  # bytes of a connection since a message of it was whole: more than a link may have under way
ALL_COMING_MAX = 8 * WINDOW_BYTES  # the same of all together
GOING_MAX = 4 * WINDOW_BYTES  # bytes that a connection was sent and that it has not read: a window, and some of it again
LOOK_S = 0.5
LOG = logging.getLogger(__name__)
_SOURCE = int(zmq.SRCFD)


@dataclass
class Balance:
    """Of one connection."""

    has_spoken: bool = False  # a message of it was handed out since the last look
    received: int = 0  # when that was seen last
    written: int = 0  # since it had read all
    acknowledged: int = 0  # by then

    def after(self, passed: Passed) -> tuple[int, int]:
        """What has come of it and is not a whole message, and what it has not read."""
        if self.has_spoken:
            self.received, self.has_spoken = passed.received, False
        if not passed.waits:
            self.written, self.acknowledged = 0, passed.acknowledged
        return passed.received - self.received, self.written - (passed.acknowledged - self.acknowledged)


class Accounts:
    """Of all connections of a ROUTER that listens at `port`. Under the lock of its `LinkSockets`."""

    def __init__(self, router: zmq.Socket[bytes], port: int) -> None:
        self._router, self._port = router, port
        where = f"inproc://accepted-{id(self)}"
        router.monitor(where, int(zmq.EVENT_ACCEPTED))
        self._events = router.context.socket(zmq.PAIR)
        self._events.rcvhwm = 0  # else ZeroMQ's thread would wait for us, where many come at once
        self._events.connect(where)
        self._by_descriptor: dict[int, Balance] = {}
        self._by_connection: dict[bytes, tuple[int, Balance]] = {}
        self._spoken: set[bytes] = set()  # since the last look
        self._look_at = 0.0
        self.cut = 0

    def heard(self, connection: bytes, part: zmq.Frame) -> None:
        """A whole message has come. Once for each look is enough: the name is new with each connection, unless who calls gives itself
        one that is gone, and then it is the one that may be cut for that."""
        if connection in self._spoken:
            return
        self._spoken.add(connection)
        try:
            descriptor = int(part.get(_SOURCE))
        except zmq.ZMQError:  # of a peer that speaks ZeroMQ of before 3.0, which CURVE lets in nowhere
            return
        found = self._by_connection.get(connection)
        if found is None or found[0] != descriptor:
            self._note_accepted()
            found = self._by_connection[connection] = descriptor, self._by_descriptor.setdefault(descriptor, Balance())
            zeromq.keep_short(self._router, descriptor, self._port)
        found[1].has_spoken = True

    def wrote(self, connection: bytes, size: int) -> None:
        if (found := self._by_connection.get(connection)) is not None:
            found[1].written += size

    def look(self, now: float) -> None:
        """Cuts what owes too much."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        self._spoken.clear()
        self._note_accepted()
        coming = dict(self._coming())
        left = sum(coming.values())
        for descriptor, size in sorted(coming.items(), key=lambda each: -each[1]):
            if left <= ALL_COMING_MAX:
                break
            self._cut(descriptor, f"{size} bytes of a message that does not end have come, and {left} of all such messages")
            left -= size
        self._by_connection = {key: each for key, each in self._by_connection.items() if self._by_descriptor.get(each[0]) is each[1]}

    def _note_accepted(self) -> None:
        while zeromq.is_readable(self._events):
            accepted = monitor.recv_monitor_message(self._events, zmq.NOBLOCK)
            self._by_descriptor[int(accepted["value"])] = Balance()

    def _coming(self) -> Iterator[tuple[int, int]]:
        """Descriptor and what of it has come, of those that may go on."""
        for descriptor, account in list(self._by_descriptor.items()):
            passed = self._passed(descriptor)
            if passed is None:
                del self._by_descriptor[descriptor]
                continue
            coming, going = account.after(passed)
            if coming > COMING_MAX:
                self._cut(descriptor, f"{coming} bytes of a message that does not end have come")
            elif going > GOING_MAX:
                self._cut(descriptor, f"it was sent {going} bytes that it does not read")
            else:
                yield descriptor, coming

    def _passed(self, descriptor: int) -> Passed | None:
        """None: it is no connection of ours any more."""
        try:
            with tcp.borrowed(descriptor) as connection:
                return tcp.passed(connection) if connection.getsockname()[1] == self._port else None
        except (OSError, IndexError):  # it is closed, or something else by now
            return None

    def _cut(self, descriptor: int, why: str) -> None:
        self.cut += 1
        del self._by_descriptor[descriptor]
        try:
            with tcp.borrowed(descriptor) as connection:
                peer = connection.getpeername()
                connection.shutdown(sockets.SHUT_RDWR)
        except OSError:  # it has gone meanwhile
            return
        if self.cut <= zeromq.LOGGED or not self.cut & self.cut - 1:
            LOG.warning("the connection from %s is cut: %s (%d so far)", peer, why, self.cut)

    def close(self) -> None:
        self._router.monitor(None, 0)
        self._events.close(linger=0)
