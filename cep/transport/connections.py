"""One connection of Unix stream sockets: the way to a peer, and what comes from one.

A message is a word that says how long its body is, the header, and the body.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.coalescing import HEAD_BYTES, Coalescer
from cep.transport.wire import Header

SEND_BYTES = 1 << 20  # that the kernel may hold for a peer; it grants less
BODY_BYTES_MAX = 256 << 20  # batches are cut to a megabyte, if a row is no longer (16 MiB at most)
READ_BYTES = 4 << 20  # of one peer, before others are looked at
RETRY_S = 0.1
SIZE = _CHANNEL = Struct("<Q")
_CHANNEL_AT = SIZE.size + 8  # the header's second word

Message = tuple[Header, Any]
#: (what was read, where a message begins, where what was read ends) -> behind the messages that it has taken; where they begin if it takes
#: none.
Taker = Callable[[np.ndarray, int, int], int]


#: Memory for the body of a message, so many bytes.
Room = Callable[[int], memoryview]


def heap_room(size: int) -> memoryview:
    """Of the C library's heap."""
    return np.empty(size, np.uint8).data


def arrow_room(size: int) -> memoryview:
    """Of Arrow's pool, which keeps for a while what is free. The heap of a program that has not been told otherwise gives it back at once:
    a megabyte that is read then takes 0.6 ms for its pages alone (`benchmarks/log/published.md`)."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


class Inbound:
    """What takes the messages of a channel as they lie where they were read, before they are decoded; used by the thread that
    receives. What `takers` take does not count as arrived."""

    def __init__(self, staging: np.ndarray, room: Room = heap_room) -> None:
        self.bytes, self.staging, self.room = staging, staging.data, room
        self.takers: dict[int, Taker] = {}  # by channel
        self.coalescers: dict[int, Coalescer] = {}  # by channel; see `LocalSockets.join`
        self.begin: Callable[[], None] = _uncounted  # something will be read
        self.used = False  # something was taken; for the thread that waits for it


def _uncounted() -> None:
    """The time it takes is charged to no account."""


@dataclass(slots=True, eq=False)
class Outgoing:
    """The way to a peer. `pending` are messages that have not left whole; of the first, `sent` bytes have."""

    path: str
    connection: socket.socket | None = None
    pending: deque[tuple[Any, ...]] = field(default_factory=deque)
    sent: int = 0
    retry_at: float = 0.0
    leave_at: float = 0.0  # no later than then; 0: it stays

    def is_due(self, now: float) -> bool:
        """Is it time to try again, or to go?"""
        return 0 < self.leave_at < now or (self.connection is None and self.retry_at <= now)

    def send(self, *message: Any) -> None:
        """The parts of one message. What waits is tried again, too: the thread that looks for room may have to wait for the interpreter."""
        self.pending.append(message)
        if len(self.pending) == 1 or self.connection is not None:
            self.flush()

    def flush(self) -> None:
        """What has room leaves."""
        while self.pending and (self.connection is not None or self._connect()):
            message = self.pending[0]
            try:
                self.sent += self._write(message)
            except BlockingIOError:
                return
            except OSError:  # the peer has gone: another may come in its place
                self.close()
                self.retry_at = time.monotonic() + RETRY_S
                return
            if self.sent == (len(message[0]) if len(message) == 1 else len(message[0]) + len(message[1])):
                self.pending.popleft()
                self.sent = 0

    def _write(self, message: tuple[Any, ...]) -> int:
        """How many more bytes have left."""
        connection = self.connection
        assert connection is not None
        if self.sent:
            return connection.send(_rest(message, self.sent))
        return connection.send(message[0]) if len(message) == 1 else connection.sendmsg(message)

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            self.retry_at = time.monotonic() + RETRY_S
            return False
        self.connection = connection
        return True

    def drain(self, deadline: float) -> None:
        """What is pending leaves, as long as there is time and the peer takes it."""
        self.flush()
        while self.pending and self.connection is not None and (left := deadline - time.monotonic()) > 0:
            room = select.poll()
            room.register(self.connection, select.POLLOUT)
            room.poll(left * 1000)
            self.flush()

    def close(self) -> None:
        """A message that has not left whole counts as not sent."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.sent = None, 0


def _rest(message: tuple[Any, ...], sent: int) -> memoryview:
    """What has not left yet of the first part of `message` that has not left whole."""
    for part in message:
        if sent < len(part):
            return memoryview(part)[sent:]
        sent -= len(part)
    raise AssertionError("a message that has left is not pending")


class Incoming:
    """What comes from a peer, and of it the part that is no whole message yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = b""  # less than a head
        self._header: Header | None = None  # of a message whose body is under way
        self._body = memoryview(b"")
        self._filled = 0

    def read(self, inbound: Inbound, arrived: deque[Message | ProtocolError]) -> bool:
        """Takes what is there, up to `READ_BYTES`, whole messages to `arrived`: what follows then takes them together. False: the peer has
        gone. Raises ProtocolError: these are no messages."""
        taken = 0
        while taken < READ_BYTES:
            try:
                count, full = self._read_once(inbound, arrived)
            except BlockingIOError:
                return True
            if not full:
                return count > 0
            taken += count
        return True

    def _read_once(self, inbound: Inbound, arrived: deque[Message | ProtocolError]) -> tuple[int, bool]:
        """How many bytes have come, and whether there was room for no more: then there are more, mostly."""
        if self._header is not None:
            room = len(self._body) - self._filled
            count = self.connection.recv_into(self._body[self._filled :])
            self._filled += count
            self._end_body(arrived)
            return count, count == room
        kept, staging = len(self._rest), inbound.staging
        if kept:
            staging[:kept] = self._rest
        count = self.connection.recv_into(staging[kept:] if kept else staging)
        self._take(staging, kept + count, inbound, arrived)
        return count, kept + count == len(staging)

    def _take(self, found: memoryview, end: int, inbound: Inbound, arrived: deque[Message | ProtocolError]) -> None:
        at, takers = 0, inbound.takers
        while end - at >= HEAD_BYTES:
            if takers and (taker := takers.get(_CHANNEL.unpack_from(found, at + _CHANNEL_AT)[0])) is not None:
                behind = taker(inbound.bytes, at, end)
                if behind > at:
                    at, inbound.used = behind, True
                    continue
            begin = at + HEAD_BYTES
            (size,) = SIZE.unpack_from(found, at)
            header = wire.unpack_from(found, at + SIZE.size)
            if size > BODY_BYTES_MAX:
                raise ProtocolError(f"message body: expected at most {BODY_BYTES_MAX} bytes, got {size}")
            at = begin + size
            if at > end:
                self._begin_body(header, inbound.room(size), found[begin:end])
                return
            if at < end and header.kind == wire.BATCH and (coalescer := inbound.coalescers.get(header.channel)) is not None:
                header, body, at = coalescer.join(header, found, begin, at, end)
                arrived.append((header, body))
            else:
                arrived.append((header, bytes(found[begin:at]) if size else b""))
        self._rest = bytes(found[at:end]) if at < end else b""

    def _begin_body(self, header: Header, body: memoryview, part: memoryview) -> None:
        self._rest = b""
        self._header, self._filled = header, len(part)
        self._body = body
        self._body[: len(part)] = part

    def _end_body(self, arrived: deque[Message | ProtocolError]) -> None:
        if self._filled == len(self._body) and self._header is not None:
            arrived.append((self._header, self._body))
            self._header, self._body = None, memoryview(b"")
