"""Messages within one machine: Unix stream sockets, one in from each process and one out to each.

The thread that sends a message (`cep.transport.connections`) writes it into the socket itself, and the one that waits for it reads it: one
waking a hop, where a transport with threads of its own has three (`benchmarks/log/latency.md`). What the kernel does not take at once
waits in order. A peer that is not there yet, or no more, is tried again ten times a second; the message that it did not get whole is sent
again from its beginning.
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
from typing import Any

import numpy as np

from cep.errors import ProtocolError
from cep.transport.coalescing import Coalescer
from cep.transport.connections import RETRY_S, SIZE, Inbound, Incoming, Message, Outgoing, Room, heap_room
from cep.transport.endpoints import LOCAL_SCHEME
from cep.transport.ipc import MessageLayout
from cep.transport.keyring import Speaker
from cep.transport.peers import may_speak
from cep.transport.wire import Header

STAGING_BYTES = 256 << 10  # what is read at once
GATHER_BYTES = 16 << 10  # a smaller body is copied behind its header: that is quicker than a list of two
BACKLOG = 4096  # peers that knock at once
LINGER_S = 1.0


class LocalSockets:
    """See `cep.transport.sockets.Sockets`. `send`, `hang_up`, `wake` and `close` may come from any thread."""

    speaker: Speaker | None = None  # the kernel has said whose processes these are

    def __init__(self, endpoint: str, room: Room = heap_room) -> None:
        self.endpoint, self._path = endpoint, endpoint.removeprefix(LOCAL_SCHEME)
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
        self.inbound = Inbound(np.empty(STAGING_BYTES, np.uint8), room)
        self._arrived: deque[Message | ProtocolError] = deque()
        self._incoming: dict[int, Incoming] = {}
        self._others: dict[int, Callable[[], None]] = {}  # by descriptor: what else is waited for
        self._lock = threading.RLock()  # of what follows; a signal's handler may wake a thread that has it
        self._outgoing: dict[str, Outgoing] = {}
        self._writing: dict[int, Outgoing] = {}  # by descriptor: those that wait for room
        self._watched: list[Outgoing] = []  # those whose peers are not there, or that are going: they are looked at as time passes
        self._deaf_until = 0.0  # until then no peer is let in; 0: it listens
        self._closed = self._woken = False

    # sending

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        with self._lock:
            out = self._outgoing.get(endpoint)
            if out is None:
                out = self._outgoing[endpoint] = Outgoing(endpoint.removeprefix(LOCAL_SCHEME))
            size = 0 if body is None else len(body)
            head = SIZE.pack(size) + header.pack()
            if not size:
                out.send(head)
            elif size < GATHER_BYTES:
                out.send(b"".join((head, body)))
            else:
                out.send(head, memoryview(body).cast("B"))
            if out.pending:
                self._wait(out)

    def relay(self, endpoint: str, messages: memoryview | bytes) -> None:
        with self._lock:
            out = self._outgoing.get(endpoint)
            if out is None:
                out = self._outgoing[endpoint] = Outgoing(endpoint.removeprefix(LOCAL_SCHEME))
            out.send(bytes(messages))
            if out.pending:
                self._wait(out)

    def hang_up(self, endpoint: str) -> None:
        with self._lock:
            if (out := self._outgoing.pop(endpoint, None)) is not None:
                out.leave_at = time.monotonic() + LINGER_S
                self._wait(out)

    def _wait(self, out: Outgoing) -> None:
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
            self._wake()  # a thread that sleeps has to look again soon

    def _forget(self, out: Outgoing) -> None:
        for number in [number for number, each in self._writing.items() if each is out]:
            del self._writing[number]
            if out.connection is not None:
                self._epoll.unregister(number)
        if out in self._watched:
            self._watched.remove(out)

    def _go_on(self, out: Outgoing) -> None:
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

    def join(self, channel: int, layout: MessageLayout | None) -> None:
        """From any thread: where several small batches of the channel have come they are `cep.transport.coalescing.Joined` into one."""
        if layout is None:
            self.inbound.coalescers.pop(channel, None)
        elif layout.lines is not None:
            self.inbound.coalescers[channel] = Coalescer(layout)

    @property
    def at_hand(self) -> bool:
        """Is there a message that `receive` gives out without a look?"""
        return bool(self._arrived)

    def poll(self, span_ns: int) -> bool:
        end, self.inbound.used = time.monotonic_ns() + span_ns, False
        while not self._arrived and not self._look(0) and not self.inbound.used:
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

    # for what waits here for more than Unix sockets (`cep.transport.linked`)

    def watch(self, number: int, call: Callable[[], None]) -> None:
        """`call` is called by the thread that looks while the descriptor is readable."""
        self._others[number] = call
        self._epoll.register(number, select.EPOLLIN)

    def unwatch(self, number: int) -> None:
        """The descriptor is about to be closed."""
        del self._others[number]
        self._epoll.unregister(number)

    def look(self, timeout_s: float) -> bool:
        """One look, at most so long. Has `wake` been called, or a message come?"""
        self._woken = False
        return self._look(min(timeout_s, RETRY_S) if self._watched or self._deaf_until else timeout_s) or self._woken

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
            elif (call := self._others.get(number)) is not None:
                call()
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
        except OSError:  # there are no descriptors left: a new peer waits, and those that are in are heard
            self._epoll.unregister(self._listener.fileno())
            self._deaf_until = time.monotonic() + RETRY_S
            return
        if not may_speak(connection):
            connection.close()
            return
        connection.setblocking(False)
        self._incoming[connection.fileno()] = Incoming(connection)
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    def _listen_again(self) -> None:
        if time.monotonic() >= self._deaf_until:
            self._deaf_until = 0.0
            self._epoll.register(self._listener.fileno(), select.EPOLLIN)

    def _read(self, number: int, incoming: Incoming) -> None:
        if self.inbound.takers:
            self.inbound.begin()
        try:
            open_ = incoming.read(self.inbound, self._arrived)
        except OSError:
            open_ = False
        except Exception as error:  # a peer that talks nonsense once is not heard any more, whatever became of it here
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
    """What root makes in a folder belongs to the folder's owner: peers run as that user."""
    owner = os.stat(os.path.dirname(path) or ".")
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)
