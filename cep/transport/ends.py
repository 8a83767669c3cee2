"""One end of a link with what it needs around the core: messages become packets on their way out, and packets messages on their way in."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cep.errors import ProtocolError
from cep.transport.coalescing import Coalescer
from cep.transport.connections import Message
from cep.transport.frames import Frame
from cep.transport.keyring import Speaker
from cep.transport.link import Link, Packet
from cep.transport.packets import Gatherer, Unpacker, size_of
from cep.transport.wire import Header

#: (connection, frame, what it carries)
Write = Callable[[bytes, Frame, tuple[Any, ...]], None]


class LinkBroken(ProtocolError):
    """A link is over, and with it what was under way: `endpoint` is the other end's."""

    def __init__(self, endpoint: str, why: str, lost_bytes: int) -> None:
        super().__init__(f"the link with {endpoint or 'an endpoint that is not known'} is broken, {lost_bytes} bytes were under way: {why}")
        self.endpoint, self.why, self.lost_bytes = endpoint, why, lost_bytes


def new_incarnation() -> int:
    return int.from_bytes(os.urandom(8), "little") or 1


class LinkEnd(ABC):
    """What both kinds have. Under the lock of its `LinkSockets`, but for `messages`."""

    def __init__(self, endpoint: str, link: Link, coalescers: dict[int, Coalescer]) -> None:
        self.endpoint, self.link = endpoint, link
        self.speaker: Speaker | None = None
        self.leave_at = 0.0  # s of the steady clock; 0: it stays
        self.cut_at_ns = 0  # from when on a message that is added becomes a packet at once
        self._gatherer, self._unpacker = Gatherer(), Unpacker(coalescers)

    def add(self, header: Header, body: Any, now_ns: int) -> None:
        if packets := self._gatherer.add(header, body):
            self._send(packets, now_ns)

    def add_whole(self, messages: bytes, now_ns: int) -> None:
        self._send(self._gatherer.add_whole(messages), now_ns)

    def _send(self, packets: Sequence[Packet], now_ns: int) -> None:
        for packet in packets:
            self.link.send(packet, now_ns / 1e9)

    def cut(self, now: float) -> None:
        """What is gathered becomes a packet."""
        for packet in self._gatherer.cut():
            self.link.send(packet, now)

    @property
    def gathered_bytes(self) -> int:
        """Of what is not a packet yet."""
        return self._gatherer.size

    def write(self) -> None:
        """Frames that are ready go to ZeroMQ."""
        for frame, parts in self.link.frames():
            self._write(frame, parts)

    @abstractmethod
    def _write(self, frame: Frame, parts: tuple[Any, ...]) -> None: ...

    def messages(self, parts: list[Any]) -> Iterator[Message]:
        """See `Unpacker.messages`."""
        return self._unpacker.messages(parts)

    def take_in(self, frame: Frame, parts: list[Any], now: float) -> int:
        """The size of the packet that has come by the frame; 0: none has."""
        size = size_of(parts)
        return size if self.link.receive(frame, size, now) else 0

    def broken(self) -> LinkBroken:
        return LinkBroken(self.endpoint, self.link.broken or "it was let go", self.link.pending_bytes + self.gathered_bytes)


class CalledEnd(LinkEnd):
    """The end that is called, on the connection that it was heard on last."""

    def __init__(self, endpoint: str, link: Link, coalescers: dict[int, Coalescer], write: Write) -> None:
        super().__init__(endpoint, link, coalescers)
        self.connection = b""
        self._write_to = write

    def _write(self, frame: Frame, parts: tuple[Any, ...]) -> None:
        self._write_to(self.connection, frame, parts)


def hello_of(endpoint: str) -> bytes:
    return json.dumps({"endpoint": endpoint}).encode()


def endpoint_of(hello: Any) -> str:
    """What the end that calls says of itself. Raises ProtocolError."""
    try:
        document = json.loads(bytes(hello))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"HELLO: expected JSON: {error}") from None
    endpoint = document.get("endpoint") if isinstance(document, dict) else None
    if not isinstance(endpoint, str):
        raise ProtocolError(f"HELLO: expected an object with an endpoint, got {document!r:.200}")
    return endpoint
