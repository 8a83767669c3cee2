"""ZeroMQ, and nothing else: one inbound PULL socket per process, one outbound PUSH socket per peer process.

ZeroMQ's own high-water marks are off: the byte credits of `cep.dataflow.channel` bound what is under way. This is the one module that
imports zmq; instance managers and drivers share it, and they may not import each other.
"""

from __future__ import annotations

import os
from typing import Any

import zmq

from cep import wire
from cep.wire import Header

COPY_BYTES_MAX = 64 << 10  # below this a copy is quicker than ZeroMQ's bookkeeping for a shared buffer


SOCKETS_MAX = 16_384  # peers and clients of one process


class Sockets:
    """The process's sockets. Used by one thread."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self.inbound = self.context.socket(zmq.PULL)
        self.inbound.set_hwm(0)
        self.inbound.bind(endpoint)
        self.endpoint = self.inbound.getsockopt_string(zmq.LAST_ENDPOINT)
        self.outbound: dict[str, zmq.Socket[bytes]] = {}
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.poller = zmq.Poller()
        self.poller.register(self.inbound, zmq.POLLIN)
        self.poller.register(self.wakeup, zmq.POLLIN)

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        """Hands a message to the transport, which owns `body` until it has let go: it is never written to again."""
        socket = self.outbound.get(endpoint) or self._connect(endpoint)
        if body is None:
            socket.send(header.pack())
            return
        socket.send(header.pack(), zmq.SNDMORE)
        socket.send(body, copy=len(body) < COPY_BYTES_MAX)

    def send_json(self, endpoint: str, document: bytes) -> None:
        """A report: one frame, to a process that may be away for a while."""
        (self.outbound.get(endpoint) or self._connect(endpoint)).send(document)

    def hang_up(self, endpoint: str) -> None:
        """The peer is gone, or going: what was sent to it may still arrive."""
        if (socket := self.outbound.pop(endpoint, None)) is not None:
            socket.close()

    def _connect(self, endpoint: str) -> zmq.Socket[bytes]:
        socket = self.context.socket(zmq.PUSH)
        socket.set_hwm(0)
        socket.linger = 1000
        socket.connect(endpoint)
        self.outbound[endpoint] = socket
        return socket

    def receive(self) -> tuple[Header, Any] | None:
        """The next message, or None."""
        try:
            frames = self.inbound.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        return wire.unpack(frames[0].bytes), (frames[1].buffer if len(frames) > 1 else b"")

    def park(self, timeout_ms: int) -> None:
        """Sleeps until a message comes, somebody calls `wake`, or the time is over."""
        for socket, _ in self.poller.poll(timeout_ms):
            if socket == self.wakeup:
                os.eventfd_read(self.wakeup)

    def wake(self) -> None:
        """From any thread."""
        os.eventfd_write(self.wakeup, 1)

    def close(self) -> None:
        for socket in (self.inbound, *self.outbound.values()):
            socket.close()
        self.context.term()
        os.close(self.wakeup)
