"""ZeroMQ: one inbound PULL socket, one outbound PUSH socket per peer process, logical channels and their credits inside.

The inbound socket is always drained, so a slow channel never holds up another. ZeroMQ's own high-water marks are off: the byte
credits of `cep.dataflow.channel` bound what is under way. Nothing else in this package imports zmq.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import zmq

from cep import wire
from cep.dataflow.channel import Credit, Inbox
from cep.dataflow.elements import MIN_TIME, Batch, Element
from cep.wire import Format, Header

COPY_BYTES_MAX = 64 << 10  # below this a copy is quicker than ZeroMQ's bookkeeping for a shared buffer
RECEIVE_MESSAGES_MAX = 256  # per turn of the loop

ControlHandler = Callable[[Header, Any], None]
PublishedHandler = Callable[[Header, Any], bool]


class Sockets:
    """The process's sockets. Used by one thread."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
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


class RemoteChannel:
    """The sending end of a channel to another process."""

    def __init__(self, sockets: Sockets, name: str, stream: str, endpoint: str, wire_format: Format, share: int, epoch: int = 0) -> None:
        self.sockets, self.endpoint, self.format = sockets, endpoint, wire_format
        self.id, self.stream, self.epoch = wire.name_id(name), wire.stream_id(stream), epoch
        self.credit = Credit()
        self.credit.limit = share
        self.sequence = 0

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        body = wire.body_of(element, self.format)
        header = self.header(element, watermark, since)
        self.sequence += 1
        if isinstance(element, Batch):
            self.credit.spend(len(body or b""))
        self.sockets.send(self.endpoint, header, body)

    def header(self, element: Element, watermark: int, since: int) -> Header:
        created = element.created if isinstance(element, Batch) else 0
        return Header(
            wire.kind_of(element),
            self.id,
            self.sequence,
            self.epoch,
            self.stream,
            self.format.fingerprint,
            watermark,
            created,
            since=since,
        )


@dataclass
class RemoteInbox:
    """The receiving end of a channel from another process, and whom to give credit."""

    inbox: Inbox
    format: Format
    endpoint: str
    told: int = MIN_TIME  # the combined watermark that the sender knows of


class Network:
    """Moves messages between the sockets and the channels."""

    def __init__(
        self, sockets: Sockets, on_control: ControlHandler, on_published: PublishedHandler, on_broken: Callable[[str, Exception], None]
    ) -> None:
        self.sockets, self.on_control, self.on_published, self.on_broken = sockets, on_control, on_published, on_broken
        self.inboxes: dict[int, RemoteInbox] = {}
        self.channels: dict[int, RemoteChannel] = {}
        self.strays = 0  # messages for channels that are not (any more) here

    def receive(self) -> bool:
        """Takes what has arrived, up to a bound. Was there anything?"""
        for count in range(RECEIVE_MESSAGES_MAX):
            message = self.sockets.receive()
            if message is None:
                return count > 0
            self._dispatch(*message)
        return True

    def _dispatch(self, header: Header, body: Any) -> None:
        if header.kind == wire.CREDIT and header.channel in self.channels:
            self.channels[header.channel].credit.grant(header.sequence, header.record, header.watermark)
        elif header.kind >= wire.CREDIT:
            self.on_control(header, body)
        elif header.channel in self.inboxes:
            self._accept(self.inboxes[header.channel], header, body)
        elif not self.on_published(header, body):
            self.strays += 1

    def _accept(self, remote: RemoteInbox, header: Header, body: Any) -> None:
        try:
            element = wire.element_of(header, body, remote.format)
            size = len(body) if header.kind == wire.BATCH else 0
            remote.inbox.accept(element, size, header.sequence, header.epoch, header.watermark, header.since)
        except Exception as error:  # a broken channel is its query's failure, not the process's
            self.on_broken(remote.inbox.name, error)

    def emit(self) -> None:
        """Gives back credit, and the combined watermark where it has risen (CREDIT: sequence = bytes consumed, record = limit)."""
        for id_, remote in self.inboxes.items():
            returned = remote.inbox.returned
            if remote.inbox.credit_due or returned > remote.told:
                remote.inbox.credit_due, remote.told = False, returned
                inbox = remote.inbox
                header = Header(wire.CREDIT, id_, sequence=inbox.consumed, watermark=returned, record=inbox.limit())
                self.sockets.send(remote.endpoint, header)

    def forget(self, inboxes: Iterable[int], channels: Iterable[int]) -> None:
        for id_ in inboxes:
            self.inboxes.pop(id_, None)
        for id_ in channels:
            self.channels.pop(id_, None)
