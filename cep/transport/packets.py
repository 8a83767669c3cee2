"""What the packets of a link hold: messages one behind the other, each as on a Unix socket (how long its body is, header, body).

They lie together in the first part of the packet. A body too large to be copied is a part of its own: the topmost bit of its length
says so, and those parts follow in order. One too large for a packet goes on in those that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.coalescing import Coalescer
from cep.transport.connections import BODY_BYTES_MAX, Message
from cep.transport.link import Packet
from cep.transport.wire import SIZED_BYTES, Header

GATHER_BYTES = 16 << 10  # a smaller body is copied behind its header
LOT_BYTES = 1 << 20  # that a packet gathers
PART_BYTES = 4 << 20  # of one body in one packet
OVERHEAD_BYTES = 256  # that a packet counts for besides what it holds
_APART = 1 << 63
_NONE: tuple[Packet, ...] = ()


def size_of(parts: list[Any]) -> int:
    """What a packet of these parts counts for."""
    return sum(map(len, parts)) + OVERHEAD_BYTES


class Gatherer:
    """Messages on their way into packets; a packet is whole when it is cut."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._apart: list[memoryview] = []
        self.size = 0

    def add(self, header: Header, body: Any) -> Sequence[Packet]:
        """The packets that are whole by it."""
        size = 0 if body is None else len(body)
        self.size += SIZED_BYTES + size
        if size >= GATHER_BYTES:
            self._pieces.append(wire.pack_sized(size | _APART, header))
            return self._add_apart(memoryview(body).cast("B"))
        self._pieces.append(wire.pack_sized(size, header))
        if size:
            self._pieces.append(body)
        return self.cut() if self.size >= LOT_BYTES else _NONE

    def add_whole(self, messages: bytes) -> list[Packet]:
        """Messages that lie behind each other, sizes and headers with them."""
        self._pieces.append(messages)
        self.size += len(messages)
        return self.cut() if self.size >= LOT_BYTES else []

    def cut(self) -> list[Packet]:
        """What is gathered, as a packet; there is none where nothing is."""
        if not self._pieces:
            return []
        parts = [b"".join(self._pieces), *self._apart]
        self._pieces, self._apart, self.size = [], [], 0
        return [Packet(tuple(parts), size_of(parts))]

    def _add_apart(self, body: memoryview) -> list[Packet]:
        self._apart.append(body[:PART_BYTES])
        if len(body) <= PART_BYTES:
            return self.cut() if self.size >= LOT_BYTES else []
        packets = self.cut()
        for at in range(PART_BYTES, len(body), PART_BYTES):
            parts = [body[at : at + PART_BYTES]]
            packets.append(Packet(tuple(parts), size_of(parts)))
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
            yield from self._go_on(parts)
            return
        found = memoryview(parts[0])
        at, end, used, before = 0, len(found), 1, -1
        coalescers = self._coalescers
        while end - at >= SIZED_BYTES:
            begin = at + SIZED_BYTES
            size, header = wire.unpack_sized_from(found, at)
            at = begin + size
            if at <= end:
                if coalescers and at < end and header.kind == wire.BATCH and (coalescer := coalescers.get(header.channel)) is not None:
                    joined, body, at = coalescer.join(header, found, begin, at, end)
                    yield joined, body
                else:
                    yield header, bytes(found[begin:at]) if size else b""
                    if size == before and header.channel not in coalescers:
                        at = yield from wire.unpack_alike(found, at, header.channel, size)
                    before = size
            else:
                at, used = begin, used + 1
                yield from self._apart(header, size, parts[used - 1 : used], begin == end and used == len(parts))
        if at < end or used < len(parts):
            raise ProtocolError(f"packet: expected whole messages, got {end - at} bytes and {len(parts) - used} parts behind them")

    def _apart(self, header: Header, size: int, parts: list[Any], last: bool) -> Iterator[Message]:
        """A body that is a part of its own; the last one may go on in the next packet."""
        if not size & _APART or not parts:
            raise ProtocolError(f"packet: expected whole messages, got one whose body of {size & ~_APART} bytes is not there")
        size &= ~_APART
        if len(parts[0]) == size:
            yield header, parts[0]
            return
        if not last or size > BODY_BYTES_MAX:
            raise ProtocolError(f"packet: expected a body of {size} bytes, at most {BODY_BYTES_MAX}, got {len(parts[0])}")
        self._header, self._missing = header, size
        yield from self._go_on(parts)

    def _go_on(self, parts: list[Any]) -> Iterator[Message]:
        """A part of a body, or its last one."""
        size = len(parts[0])
        if len(parts) != 1 or not 0 < size <= self._missing:
            raise ProtocolError(f"packet: expected at most {self._missing} bytes of a body in one part, got {size} in {len(parts)}")
        self._missing -= size
        self._body.append(parts[0])
        if not self._missing and self._header is not None:
            header, body = self._header, self._body
            self._header, self._body = None, []
            yield header, b"".join(body)
