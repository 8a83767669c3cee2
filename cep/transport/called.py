"""The links that others have called: one ROUTER, and an end for each of them.

Which connection a frame has come on says whose key it is, and where answers go; which link it is of its `source` says. So a link goes on on
another connection of the same owner, and of no other: the names that connections may give themselves (ROUTING_ID) are not relied on.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import zmq

from cep.errors import ProtocolError
from cep.transport import zeromq
from cep.transport.coalescing import Coalescer
from cep.transport.endpoints import LINK_SCHEME, Endpoint
from cep.transport.ends import CalledEnd, endpoint_of, new_incarnation
from cep.transport.frames import ACK, DATA, HELLO, PROBE, REFUSED, UNKNOWN, Frame, OtherVersion
from cep.transport.keyring import Keyring, Speaker
from cep.transport.link import Link

LINKS_MAX = 16_384  # that others have called, and that others are waited for to call
FORGET_S = 3600.0  # a link whose caller is silent for so long
OVER_MAX = 1024  # incarnations that are remembered as over
AGE_S = 1.0  # so often all are looked at
UNMET_S = 60.0  # what is sent to an endpoint that does not call is kept so long
LOG = logging.getLogger(__name__)


class Called:
    """Under the lock of its `LinkSockets`. `on_end` is called with an end that is over, broken or not."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        keyring: Keyring | None,
        coalescers: dict[int, Coalescer],
        on_end: Callable[[CalledEnd], None],
    ) -> None:
        self._context, self.keyring, self._coalescers, self._on_end = context, keyring, coalescers, on_end
        self._listening = zeromq.listen(address)
        self.address = f"{address.rpartition(':')[0]}:{self._listening.getsockname()[1]}"
        self.socket = zeromq.make_router(context, self._listening, keyring)
        self.by_caller: dict[int, CalledEnd] = {}  # by the incarnation of the end that has called
        self.by_endpoint: dict[str, CalledEnd] = {}
        self._over: OrderedDict[int, None] = OrderedDict()
        self._speakers: dict[bytes, str] = {}  # by connection, the key
        self.strays, self.closed = 0, False
        self._age_at = 0.0

    @property
    def descriptor(self) -> int:
        return int(self.socket.getsockopt(zmq.FD))

    # sending

    def end_of(self, endpoint: str, now: float) -> CalledEnd:
        """Where what is sent to that endpoint goes; if it has not called yet, it waits for that."""
        return self.by_endpoint.get(endpoint) or self._make(endpoint, now)

    def _make(self, endpoint: str, now: float) -> CalledEnd:
        end = CalledEnd(endpoint, Link(new_incarnation(), now), self._coalescers, self._write)
        self.by_endpoint[endpoint] = end
        return end

    def _write(self, connection: bytes, frame: Frame, parts: tuple[Any, ...]) -> None:
        zeromq.write(self.socket, frame, parts, connection)

    # receiving

    def read(self, now: float) -> tuple[CalledEnd | None, list[Any], int] | None:
        """The next frame: whose it was, if it is known, and the packet that has come by it with its size, or 0. None: there is no frame."""
        parts = zeromq.read(self.socket)
        if parts is None:
            return None
        connection, *rest = parts
        try:
            return self._take_in(connection.bytes, rest, now)
        except OtherVersion as error:
            self._stray(connection.bytes, error)
            self._write(connection.bytes, Frame(REFUSED, 0, 0), (str(error).encode(),))
        except ProtocolError as error:
            self._stray(connection.bytes, error)
        return None, [], 0

    def _take_in(self, connection: bytes, parts: list[zmq.Frame], now: float) -> tuple[CalledEnd | None, list[Any], int]:
        frame, payload = zeromq.taken_apart(parts)
        speaker = self._speaker(connection, parts[0])
        end = self.by_caller.get(frame.source)
        if frame.kind == HELLO and end is None:
            end = self._hear_hello(connection, frame, payload, speaker, now)
            return end, [], 0
        if end is None:
            if frame.kind in (DATA, ACK, PROBE):
                self._write(connection, Frame(UNKNOWN, 0, frame.source, number=frame.target), ())
            return None, [], 0
        if not _is_same(end.speaker, speaker):
            raise ProtocolError(f"link: a frame of the link with {end.endpoint} under another key, of {_name(speaker)}")
        if end.connection != connection:
            end.connection = connection
            end.link.reconnected(now)
        size = end.take_in(frame, payload, now)
        self._end_if_over(end)
        return end, payload, size

    def _speaker(self, connection: bytes, part: zmq.Frame) -> Speaker | None:
        """Whose key the connection has. Raises ProtocolError: it is not known any more."""
        if self.keyring is None:
            return None
        key = self._speakers.get(connection)
        if key is None:
            if len(self._speakers) >= 2 * LINKS_MAX:
                self._speakers.clear()
            key = self._speakers[connection] = str(part.get("User-Id"))
        speaker = self.keyring.speaker(key)
        if speaker is None or (speaker.until is not None and speaker.until < time.time()):
            raise ProtocolError(f"link: the key {key} may not speak any more")
        return speaker

    def _hear_hello(self, connection: bytes, frame: Frame, payload: list[Any], speaker: Speaker | None, now: float) -> CalledEnd | None:
        """One that was not heard of before, or is another one than before."""
        if frame.source in self._over:
            self._write(connection, Frame(UNKNOWN, 0, frame.source), ())
            return None
        if not frame.source or len(payload) != 1:
            raise ProtocolError("HELLO: expected the number of the end that calls, and what it is")
        endpoint = endpoint_of(payload[0])
        if not endpoint.startswith(LINK_SCHEME):
            raise ProtocolError(f"HELLO: expected an endpoint {LINK_SCHEME}…, got {endpoint[:200]!r}")
        Endpoint.parse(endpoint)
        end = self.by_endpoint.get(endpoint)
        if end is not None and end.link.peer:
            if not _is_same(end.speaker, speaker):
                raise ProtocolError(f"HELLO: {endpoint} belongs to {_name(end.speaker)}, and this is {_name(speaker)}")
            end.link.break_off("the process at the other end is another one than before, or has let go of this link")
            self._end_if_over(end)
            end = None
        if end is None and len(self.by_endpoint) >= LINKS_MAX:
            raise ProtocolError(f"HELLO: expected at most {LINKS_MAX} links, and {endpoint} is one more")
        end = end or self._make(endpoint, now)
        end.connection, end.speaker = connection, speaker
        self.by_caller[frame.source] = end
        end.link.answer(frame, now)
        return end

    def _end_if_over(self, end: CalledEnd) -> None:
        if end.link.broken is not None or end.link.over:
            self.forget(end)
            self._on_end(end)

    def forget(self, end: CalledEnd) -> None:
        """It is over."""
        if self.by_endpoint.get(end.endpoint) is end:
            del self.by_endpoint[end.endpoint]
        if end.link.peer and self.by_caller.pop(end.link.peer, None) is not None:
            self._over[end.link.peer] = None
            if len(self._over) > OVER_MAX:
                self._over.popitem(last=False)

    def tick(self, now: float) -> None:
        """What is due for all of them."""
        for end in list(self.by_endpoint.values()):
            if end.link.due <= now:
                end.link.tick(now)
                end.write()
        if now >= self._age_at:
            self._age_at = now + AGE_S
            for end in list(self.by_endpoint.values()):
                self._age(end, now)

    def _age(self, end: CalledEnd, now: float) -> None:
        """Of one that does not call, that is silent, whose key has ended, or that was given up and takes nothing."""
        link, speaker = end.link, end.speaker
        if link.is_settled:
            end.leave_at = 0.0
        if not link.peer and now - link.heard > UNMET_S:
            link.break_off(f"it has not called for {UNMET_S:.0f} s")
        elif now - link.heard > FORGET_S:
            link.break_off(f"nothing was heard of it for {FORGET_S:.0f} s")
        elif 0 < end.leave_at < now:
            link.break_off("it was given up, and has not taken what was under way")
        elif speaker is not None and self.keyring is not None and not _may_go_on(speaker, self.keyring):
            link.break_off(f"the key of {speaker.name} has ended")
        self._end_if_over(end)

    # keys, and the end

    def rekey(self, keyring: Keyring | None) -> None:
        """Another ROUTER takes over where this one listens; callers come again."""
        self.socket.close(linger=0)
        self.keyring = keyring
        self._speakers.clear()
        self.socket = zeromq.make_router(self._context, self._listening, keyring)

    def close(self, linger_ms: int) -> None:
        self.closed = True
        self.socket.close(linger=linger_ms)
        self._listening.close()

    def _stray(self, connection: bytes, error: ProtocolError) -> None:
        self.strays += 1
        if self.strays <= zeromq.LOGGED or not self.strays & self.strays - 1:
            LOG.warning("frame not understood, of connection %s: %s (%d so far)", connection.hex(), error, self.strays)


def _is_same(one: Speaker | None, other: Speaker | None) -> bool:
    """Are both of the same owner, whatever key it has by now?"""
    return (one and (one.name, one.is_member)) == (other and (other.name, other.is_member))


def _may_go_on(speaker: Speaker, keyring: Keyring) -> bool:
    """Is its owner still one that may speak? Its key may be another one by now."""
    if speaker.is_member:
        return True
    return any(each.name == speaker.name and (each.until is None or each.until >= time.time()) for each in keyring.clients.values())


def _name(speaker: Speaker | None) -> str:
    return "nothing with a key" if speaker is None else speaker.name
