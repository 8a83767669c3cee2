"""Messages between machines, over ZeroMQ: one inbound PULL socket per process, one outbound PUSH socket per peer process.

A small message is one frame, header and body; a large body is a frame of its own, which is not copied. ZeroMQ's own high-water marks
are off.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Any

import zmq

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.ipc import MessageLayout
from cep.transport.wire import HEADER_BYTES, Header

COPY_BYTES_MAX = 64 << 10  # below this a copy is quicker than ZeroMQ's bookkeeping for a shared buffer
SOCKETS_MAX = 16_384  # peers and clients of one process
_ADDRESS = re.compile(r"tcp://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})")
WAKE = b""  # a message that says nothing


def is_address(endpoint: str) -> bool:
    """Is it an endpoint that a socket may have?"""
    found = _ADDRESS.fullmatch(endpoint)
    return found is not None and 0 < int(found[1]) < 1 << 16


class NetworkSockets:
    """See `cep.transport.sockets.Sockets`."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self.inbound = self.context.socket(zmq.PULL)
        self.inbound.set_hwm(0)
        self.inbound.bind(endpoint)
        self.endpoint = self.inbound.getsockopt_string(zmq.LAST_ENDPOINT)
        self.outbound: dict[str, zmq.Socket[bytes]] = {}
        self.inbound.bind("inproc://wake")
        self.waker = self.context.socket(zmq.PUSH)
        self.waker.connect("inproc://wake")
        self.waking = threading.RLock()  # a signal's handler may wake a thread that is waking
        self.arrived: bytes | None = None  # a message, or its first frame, that ended `park`
        self.timeout_ms = -1

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        socket = self.outbound.get(endpoint) or self._connect(endpoint)
        if body is None:
            socket.send(header.pack())
        elif len(body) < COPY_BYTES_MAX:
            socket.send(b"".join((header.pack(), body)))
        else:
            socket.send(header.pack(), zmq.SNDMORE)
            socket.send(body, copy=False)

    def hang_up(self, endpoint: str) -> None:
        if (socket := self.outbound.pop(endpoint, None)) is not None:
            socket.close()

    def _connect(self, endpoint: str) -> zmq.Socket[bytes]:
        socket = self.context.socket(zmq.PUSH)
        socket.set_hwm(0)
        socket.linger = 1000
        socket.connect(endpoint)
        self.outbound[endpoint] = socket
        return socket

    def receive(self, look: bool = True) -> tuple[Header, Any] | None:
        while (frame := self._next()) is not None:
            if frame == WAKE:
                continue
            try:
                header = wire.unpack(frame[:HEADER_BYTES])
            except ProtocolError:
                self._skip()
                raise
            body = memoryview(frame)[HEADER_BYTES:] if len(frame) > HEADER_BYTES else self._large()
            self._skip()  # there is no third part
            return header, body
        return None

    def _next(self) -> bytes | None:
        if (frame := self.arrived) is not None:
            self.arrived = None
            return frame
        try:
            return self.inbound.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def _large(self) -> Any:
        """The body that is a frame of its own; empty if there is none."""
        return self.inbound.recv(copy=False).buffer if self.inbound.getsockopt(zmq.RCVMORE) else b""

    def _skip(self) -> None:
        while self.inbound.getsockopt(zmq.RCVMORE):
            self.inbound.recv(copy=False)

    def poll(self, span_ns: int) -> bool:
        end = time.monotonic_ns() + span_ns
        while not int(self.inbound.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            if time.monotonic_ns() > end:
                return False
            os.sched_yield()
        return True

    def join(self, channel: int, layout: MessageLayout | None) -> None:
        """Here messages come one by one."""

    def park(self, timeout_ms: int) -> None:
        if timeout_ms != self.timeout_ms:
            self.inbound.rcvtimeo = self.timeout_ms = timeout_ms
        if self.arrived is None:
            try:
                self.arrived = self.inbound.recv()
            except zmq.Again:
                return

    def wake(self) -> None:
        with self.waking:
            if not self.waker.closed:
                self.waker.send(WAKE)

    def close(self) -> None:
        with self.waking:
            self.waker.close(linger=0)
        for socket in (self.inbound, *self.outbound.values()):
            socket.close()
        self.context.term()
