"""What the packets of a link hold: messages one behind the other, each as on a Unix socket (how long its body is, header, body).

Small messages lie together in one part. A body too large to be copied is a part of its own behind its header, and one too large for a
packet goes on in those that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.coalescing import Coalescer
from cep.transport.connections import BODY_BYTES_MAX, Message
from cep.transport.link import Packet
from cep.transport.wire import SIZED_BYTES, Header

GATHER_BYTES = 16 << 10  # a smaller body is copied behind its header
LOT_BYTES = 128 << 10  # of messages that lie together
PART_BYTES = 4 << 20  # of one body in one packet
OVERHEAD_BYTES = 256  # that a packet counts for besides what it holds


def size_of(parts: list[Any]) -> int:
    """What a packet of these parts counts for."""
    return sum(map(len, parts)) + OVERHEAD_BYTES


class Gatherer:
    """Messages on their way into packets; a packet is whole when it is cut."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self.size = 0

    def add(self, header: Header, body: Any) -> list[Packet]:
        """The packets that are whole by it."""
        size = 0 if body is None else len(body)
        self._pieces.append(wire.pack_sized(size, header))
        self.size += SIZED_BYTES
        if size >= GATHER_BYTES:
            return self._close(memoryview(body).cast("B"))
        if size:
            self._pieces.append(body)
            self.size += size
        return self.cut() if self.size >= LOT_BYTES else []

    def add_whole(self, messages: bytes) -> list[Packet]:
        """Messages that lie behind each other, sizes and headers with them."""
        self._pieces.append(messages)
        self.size += len(messages)
        return self.cut() if self.size >= LOT_BYTES else []

    def cut(self) -> list[Packet]:
        """What is gathered, as a packet; there is none where nothing is."""
        if not self._pieces:
            return []
        packet = Packet((b"".join(self._pieces),), self.size + OVERHEAD_BYTES)
        self._pieces, self.size = [], 0
        return [packet]

    def _close(self, body: memoryview) -> list[Packet]:
        """What is gathered, and a large body behind it."""
        first = body[:PART_BYTES]
        packets = [Packet((b"".join(self._pieces), first), self.size + len(first) + OVERHEAD_BYTES)]
        for at in range(PART_BYTES, len(body), PART_BYTES):
            part = body[at : at + PART_BYTES]
            packets.append(Packet((part,), len(part) + OVERHEAD_BYTES))
        self._pieces, self.size = [], 0
        return packets


class Unpacker:
    """Takes packets apart, in order."""

    def __init__(self, coalescers: dict[int, Coalescer]) -> None:
        self._coalescers = coalescers
        self._header: Header | None = None  # of a body that is not whole
        self._body: list[Any] = []
        self._missing = 0

    def messages(self, parts: list[Any]) -> Iterator[Message]:
        """Those that are whole by the packet of `parts`. Raises ProtocolError: it is none."""
        if self._header is not None:
            yield from self._continue(parts)
            return
        found = memoryview(parts[0])
        at, end = 0, len(found)
        coalescers = self._coalescers
        while end - at >= SIZED_BYTES:
            begin = at + SIZED_BYTES
            size, header = wire.unpack_sized_from(found, at)
            at = begin + size
            if at > end:
                yield from self._large(header, size, found[begin:end], parts[1:])
                return
            if coalescers and at < end and header.kind == wire.BATCH and (coalescer := coalescers.get(header.channel)) is not None:
                joined, body, at = coalescer.join(header, found, begin, at, end)
                yield joined, body
            else:
                yield header, bytes(found[begin:at]) if size else b""
        if at < end or len(parts) > 1:
            raise ProtocolError(f"packet: expected whole messages, got {end - at} bytes and {len(parts) - 1} parts behind them")

    def _large(self, header: Header, size: int, inside: memoryview, parts: list[Any]) -> Iterator[Message]:
        if size > BODY_BYTES_MAX:
            raise ProtocolError(f"message body: expected at most {BODY_BYTES_MAX} bytes, got {size}")
        if len(inside) or len(parts) != 1:
            raise ProtocolError(f"packet: expected a body of {size} bytes as one part, got {len(inside)} bytes and {len(parts)} parts")
        self._header, self._missing = header, size
        yield from self._continue(parts)

    def _continue(self, parts: list[Any]) -> Iterator[Message]:
        """The whole body, or a part of it."""
        size = len(parts[0])
        if len(parts) != 1 or not 0 < size <= self._missing:
            raise ProtocolError(f"packet: expected at most {self._missing} bytes of a body in one part, got {size} in {len(parts)}")
        self._missing -= size
        self._body.append(parts[0])
        if not self._missing and self._header is not None:
            header, body = self._header, self._body
            self._header, self._body = None, []
            yield header, body[0] if len(body) == 1 else b"".join(body)
