"""Small batches that lie behind each other where they were received, as one.

To take a message apart, hand it on and look at it as Arrow does costs a reader the same whether it has one row or a thousand. One that has
fallen behind finds many at once, and would not catch up with a sender whose messages cost less to send than to read. Where all columns are
eight bytes wide and without NULLs the bytes of one message are those of several in another order.
"""

from __future__ import annotations

from cep.transport import wire
from cep.transport.ipc import MessageLayout
from cep.transport.wire import HEADER_BYTES, Header

HEAD_BYTES = 8 + HEADER_BYTES  # before the body of a message: how long that is, and the header
_KIND_BYTES = 2  # of a header, its version and kind


class Joined(Header):
    """The header of a run of batches: that of the first, with the watermark of the last."""

    last: int
    body_bytes: int  # of all of them, as they came


def last_of(header: Header) -> int:
    """The number of the last message that it stands for."""
    return header.last if isinstance(header, Joined) else header.sequence


def bytes_of(header: Header, body: bytes) -> int:
    """What the bodies that it stands for had when they came."""
    return header.body_bytes if isinstance(header, Joined) else len(body)


class Coalescer:
    """Joins the batches of a channel of this layout."""

    def __init__(self, layout: MessageLayout) -> None:
        self.layout = layout

    def join(self, header: Header, found: memoryview, begin: int, behind: int, end: int) -> tuple[Header, bytes, int]:
        """Of the message with `header` whose body is `found[begin:behind]`, and those behind it up to `end`: what as many as can are as
        one, and where these end."""
        layout = self.layout
        parts = [(begin, rows)] if (rows := layout.rows_of(found, begin, behind)) else []
        following, size = header, behind - begin
        while parts and (more := self._following(following, found, begin, behind, end)) is not None:
            following, at, rows = more
            parts.append((at, rows))
            behind = at + layout.size_of(rows)
            size += behind - at
        if len(parts) < 2:
            return header, bytes(found[begin:behind]), behind
        joined = Joined._make(header._replace(watermark=following.watermark))
        joined.last, joined.body_bytes = following.sequence, size
        return joined, layout.join(found, parts), behind

    def _following(self, before: Header, found: memoryview, begin: int, at: int, end: int) -> tuple[Header, int, int] | None:
        """(header, where its body begins, rows) of the message at `at`, if it is the next batch of the same channel and whole."""
        body = at + HEAD_BYTES
        if body > end or found[at + 8 : at + 8 + _KIND_BYTES] != found[begin - HEADER_BYTES : begin - HEADER_BYTES + _KIND_BYTES]:
            return None
        header, size = wire.unpack_from(found, at + 8), int.from_bytes(found[at : at + 8], "little")
        if body + size > end or not _is_next(before, header):
            return None
        rows = self.layout.rows_of(found, body, body + size)
        return (header, body, rows) if rows else None


def _is_next(before: Header, header: Header) -> bool:
    """Is it of the same channel, and of all that may change from one batch to the next only what follows?"""
    same = (header.channel, header.stream, header.fingerprint, header.since)
    return header.sequence == before.sequence + 1 and same == (
        before.channel,
        before.stream,
        before.fingerprint,
        before.since,
    )
