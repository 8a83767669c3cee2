"""Messages within one machine: Unix stream sockets, one in from each process and one out to each.

A message is a word that says how long its body is, the header, and the body. The thread that sends it writes it into the socket itself,
and the one that waits for it reads it: one waking a hop, where a transport with threads of its own has three (`benchmarks/log/latency.md`).
What the kernel does not take at once waits in order. A peer that is not there yet, or no more, is tried again ten times a second; the
message that it did not get whole is sent again from its beginning.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import numpy as np

from cep import wire
from cep.errors import ProtocolError
from cep.ipc import Layout
from cep.joint import Joint
from cep.peers import may_speak
from cep.wire import HEADER_BYTES, Header

SCHEME = "ipc://"
STAGING_BYTES = 256 << 10  # what is read at once
GATHER_BYTES = 16 << 10  # a smaller body is copied behind its header: that is quicker than a list of two
SEND_BYTES = 1 << 20  # that the kernel may hold for a peer; it grants less
BODY_BYTES_MAX = 256 << 20  # batches are cut to a megabyte, if a row is no longer (16 MiB at most)
BACKLOG = 4096  # peers that knock at once
RETRY_S = 0.1
LINGER_S = 1.0
_SIZE = _CHANNEL = Struct("<Q")
_HEAD_BYTES = _SIZE.size + HEADER_BYTES
_CHANNEL_AT = _SIZE.size + 8  # the header's second word

PATH_BYTES_MAX = 107

Message = tuple[Header, Any]
#: (what was read, where a message begins, where what was read ends) -> behind the messages that it has taken; where they begin if it takes
#: none.
Taker = Callable[[np.ndarray, int, int], int]


def is_path(endpoint: str) -> bool:
    """Is it an endpoint that a socket may have?"""
    path = endpoint.removeprefix(SCHEME)
    return endpoint.startswith(SCHEME + "/") and "\0" not in path and len(os.fsencode(path)) <= PATH_BYTES_MAX


class Passing:
    """Who takes the messages of a channel as they lie where they were read, before anybody has looked into them; used by the thread that
    receives. What `takers` take counts for nobody as arrived."""

    def __init__(self, staging: np.ndarray) -> None:
        self.bytes, self.staging = staging, staging.data
        self.takers: dict[int, Taker] = {}  # by channel
        self.joints: dict[int, Joint] = {}  # by channel; see `LocalSockets.join`
        self.begin: Callable[[], None] = _nobody_counts  # something will be read
        self.used = False  # something was taken; for who waits for it


def _nobody_counts() -> None:
    """The time it takes is nobody's."""


class LocalSockets:
    """See `cep.transport.Sockets`. `send`, `hang_up`, `wake` and `close` may come from any thread."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint, self._path = endpoint, endpoint.removeprefix(SCHEME)
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # of a process that was killed
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(self._path)
        _leave_to_owner(self._path)
        self._listener.listen(BACKLOG)
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        for number in (self._listener.fileno(), self._waker):
            self._epoll.register(number, select.EPOLLIN)
        self.passing = Passing(np.empty(STAGING_BYTES, np.uint8))
        self._arrived: deque[Message | ProtocolError] = deque()
        self._incoming: dict[int, _Incoming] = {}
        self._lock = threading.RLock()  # of what follows; a signal's handler may wake a thread that has it
        self._outgoing: dict[str, _Outgoing] = {}
        self._writing: dict[int, _Outgoing] = {}  # by descriptor: those that wait for room
        self._watched: list[_Outgoing] = []  # those whose peers are not there, or that are going: they are looked at as time passes
        self._deaf_until = 0.0  # until then nobody is let in; 0: it listens
        self._closed = self._woken = False

    # sending

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        with self._lock:
            out = self._outgoing.get(endpoint)
            if out is None:
                out = self._outgoing[endpoint] = _Outgoing(endpoint.removeprefix(SCHEME))
            size = 0 if body is None else len(body)
            head = _SIZE.pack(size) + header.pack()
            if not size:
                out.send(head)
            elif size < GATHER_BYTES:
                out.send(b"".join((head, body)))
            else:
                out.send(head, memoryview(body).cast("B"))
            if out.pending:
                self._wait(out)

    def relay(self, endpoint: str, messages: memoryview) -> None:
        """Sends whole messages, sizes and headers with them, whose bytes may be written to again afterwards."""
        with self._lock:
            out = self._outgoing.get(endpoint)
            if out is None:
                out = self._outgoing[endpoint] = _Outgoing(endpoint.removeprefix(SCHEME))
            out.send(bytes(messages))
            if out.pending:
                self._wait(out)

    def hang_up(self, endpoint: str) -> None:
        with self._lock:
            if (out := self._outgoing.pop(endpoint, None)) is not None:
                out.leave_at = time.monotonic() + LINGER_S
                self._wait(out)

    def _wait(self, out: _Outgoing) -> None:
        """Sees to it that what is pending leaves when it can, and that one that is going goes."""
        if out.leave_at and (not out.pending or time.monotonic() > out.leave_at):
            self._forget(out)
            out.close()
            return
        if out.connection is None:
            self._forget(out)
        elif out.connection.fileno() not in self._writing:
            self._writing[out.connection.fileno()] = out
            self._epoll.register(out.connection.fileno(), select.EPOLLOUT)
        if (out.connection is None or out.leave_at) and out not in self._watched:
            self._watched.append(out)
            self._wake()  # whoever sleeps has to look again soon

    def _forget(self, out: _Outgoing) -> None:
        for number in [number for number, each in self._writing.items() if each is out]:
            del self._writing[number]
            if out.connection is not None:
                self._epoll.unregister(number)
        if out in self._watched:
            self._watched.remove(out)

    def _go_on(self, out: _Outgoing) -> None:
        """There is room for more, or the peer may be there by now."""
        out.flush()
        if out.pending or out.leave_at:
            self._wait(out)
        else:
            self._forget(out)

    def _try_again(self) -> None:
        now = time.monotonic()
        with self._lock:
            for out in [out for out in self._watched if out.is_due(now)]:
                self._watched.remove(out)
                self._go_on(out)

    # receiving

    def receive(self, look: bool = True) -> Message | None:
        if not self._arrived and not (look and self._look(0)):
            return None
        message = self._arrived.popleft()
        if isinstance(message, ProtocolError):
            raise message
        return message

    def join(self, channel: int, layout: Layout | None) -> None:
        """From any thread: where several small batches of the channel have come they are `cep.joint.Joined` into one."""
        if layout is None:
            self.passing.joints.pop(channel, None)
        elif layout.lines is not None:
            self.passing.joints[channel] = Joint(layout)

    @property
    def at_hand(self) -> bool:
        """Is there a message that `receive` gives out without a look?"""
        return bool(self._arrived)

    def poll(self, span_ns: int) -> bool:
        end, self.passing.used = time.monotonic_ns() + span_ns, False
        while not self._arrived and not self._look(0) and not self.passing.used:
            if time.monotonic_ns() > end:
                return False
            os.sched_yield()
        return True

    def park(self, timeout_ms: int) -> None:
        end = time.monotonic() + timeout_ms / 1000
        self._woken = False
        left = end - time.monotonic()
        while not self._arrived and not self._woken and left >= 0:  # a part of a message is no reason to get up
            self._look(min(left, RETRY_S) if self._watched or self._deaf_until else left)
            left = end - time.monotonic()

    def _look(self, timeout_s: float) -> bool:
        """Takes what there is to read, gives what there is room for. Has a message come?"""
        for number, _ in self._epoll.poll(timeout_s):
            if (incoming := self._incoming.get(number)) is not None:
                self._read(number, incoming)
            elif number == self._waker:
                os.eventfd_read(self._waker)
                self._woken = True
            elif number == self._listener.fileno():
                self._accept()
            else:
                with self._lock:
                    if (out := self._writing.get(number)) is not None:
                        self._go_on(out)
        if self._watched:
            self._try_again()
        if self._deaf_until:
            self._listen_again()
        return bool(self._arrived)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # it has gone again
        except OSError:  # there are no descriptors left: whoever knocks waits, and those who are in are heard
            self._epoll.unregister(self._listener.fileno())
            self._deaf_until = time.monotonic() + RETRY_S
            return
        if not may_speak(connection):
            connection.close()
            return
        connection.setblocking(False)
        self._incoming[connection.fileno()] = _Incoming(connection)
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    def _listen_again(self) -> None:
        if time.monotonic() >= self._deaf_until:
            self._deaf_until = 0.0
            self._epoll.register(self._listener.fileno(), select.EPOLLIN)

    def _read(self, number: int, incoming: _Incoming) -> None:
        if self.passing.takers:
            self.passing.begin()
        try:
            open_ = incoming.read(self.passing, self._arrived)
        except OSError:
            open_ = False
        except Exception as error:  # who talks nonsense once is not understood any more, whatever became of it here
            open_ = False
            self._arrived.append(error if isinstance(error, ProtocolError) else ProtocolError(f"message: {type(error).__name__}: {error}"))
        if not open_:
            self._epoll.unregister(number)
            self._incoming.pop(number).connection.close()

    # waking and closing

    def wake(self) -> None:
        with self._lock:
            if not self._closed:
                self._wake()

    def _wake(self) -> None:
        os.eventfd_write(self._waker, 1)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            outs = {id(out): out for out in (*self._outgoing.values(), *self._writing.values(), *self._watched)}
            deadline = time.monotonic() + LINGER_S
            for out in outs.values():
                out.drain(deadline)
                out.close()
            for incoming in self._incoming.values():
                incoming.connection.close()
            self._listener.close()
            self._epoll.close()
            os.close(self._waker)
            with suppress(FileNotFoundError):
                os.unlink(self._path)


def _leave_to_owner(path: str) -> None:
    """What root makes in a folder belongs to whoever has the folder: peers run as that user."""
    owner = os.stat(os.path.dirname(path) or ".")
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)


@dataclass(slots=True, eq=False)
class _Outgoing:
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
        """What is pending leaves, as long as there is time and somebody who takes it."""
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
    """Of the first part of `message` that has not left whole, what has not."""
    for part in message:
        if sent < len(part):
            return memoryview(part)[sent:]
        sent -= len(part)
    raise AssertionError("a message that has left is not pending")


class _Incoming:
    """What comes from a peer, and of it the part that is no whole message yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = b""  # less than a head
        self._header: Header | None = None  # of a message whose body is under way
        self._body = memoryview(b"")
        self._filled = 0

    def read(self, passing: Passing, arrived: deque[Message | ProtocolError]) -> bool:
        """Takes what is there, whole messages to `arrived`. False: the peer has gone. Raises ProtocolError: these are no messages."""
        if self._header is not None:
            count = self.connection.recv_into(self._body[self._filled :])
            self._filled += count
            self._end_body(arrived)
            return count > 0
        kept, staging = len(self._rest), passing.staging
        if kept:
            staging[:kept] = self._rest
        count = self.connection.recv_into(staging[kept:] if kept else staging)
        self._take(staging, kept + count, passing, arrived)
        return count > 0

    def _take(self, found: memoryview, end: int, passing: Passing, arrived: deque[Message | ProtocolError]) -> None:
        at, takers = 0, passing.takers
        while end - at >= _HEAD_BYTES:
            if takers and (taker := takers.get(_CHANNEL.unpack_from(found, at + _CHANNEL_AT)[0])) is not None:
                behind = taker(passing.bytes, at, end)
                if behind > at:
                    at, passing.used = behind, True
                    continue
            begin = at + _HEAD_BYTES
            (size,) = _SIZE.unpack_from(found, at)
            header = wire.unpack_from(found, at + _SIZE.size)
            if size > BODY_BYTES_MAX:
                raise ProtocolError(f"message body: expected at most {BODY_BYTES_MAX} bytes, got {size}")
            at = begin + size
            if at > end:
                self._begin_body(header, size, found[begin:end])
                return
            if at < end and header.kind == wire.BATCH and (joint := passing.joints.get(header.channel)) is not None:
                header, body, at = joint.join(header, found, begin, at, end)
                arrived.append((header, body))
            else:
                arrived.append((header, bytes(found[begin:at]) if size else b""))
        self._rest = bytes(found[at:end]) if at < end else b""

    def _begin_body(self, header: Header, size: int, part: memoryview) -> None:
        self._rest = b""
        self._header, self._filled = header, len(part)
        self._body = np.empty(size, np.uint8).data
        self._body[: len(part)] = part

    def _end_body(self, arrived: deque[Message | ProtocolError]) -> None:
        if self._filled == len(self._body) and self._header is not None:
            arrived.append((self._header, self._body))
            self._header, self._body = None, memoryview(b"")
