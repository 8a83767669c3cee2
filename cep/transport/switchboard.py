"""The links that others have called: which end a frame is for, and which process may speak on it. Without input and output.

Which connection a frame has come on says whose key it is, and where answers go; which link it is of its `source` says. So a link goes on on
another connection of the same owner, and of no other: the names that connections may give themselves (ZeroMQ's ROUTING_ID) are not relied
on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from cep.errors import ProtocolError
from cep.transport.coalescing import Coalescer
from cep.transport.endpoints import Endpoint
from cep.transport.ends import CalledEnd, Write, endpoint_of
from cep.transport.frames import ACK, DATA, HELLO, PROBE, UNKNOWN, Frame
from cep.transport.keyring import Speaker
from cep.transport.link import WINDOW_BYTES, Link

LINKS_MAX = 16_384  # that others have called, and that others are waited for to call
CLIENT_LINKS_MAX = 1_000  # of one token, which may have as many keys
FORGET_S = 3600.0  # a link whose caller is silent for so long
OVER_MAX = 1024  # incarnations that are remembered as over
AGE_S = 1.0  # so often all are looked at
UNMET_S = 60.0  # what is sent to an endpoint that does not call is kept so long
ANOTHER = "the process at the other end is another one than before, or has let go of this link"


class Switchboard:
    """Args:
    write: a frame goes out, on a connection.
    incarnation: makes a number that no other end has.
    coalescers: see `cep.transport.packets.Unpacker`.
    on_end: is called with an end that is over; if it is broken, `link.broken` says why.
    window: of each link, bytes.
    host: the name of our own.
    """

    def __init__(
        self,
        write: Write,
        incarnation: Callable[[], int],
        coalescers: dict[int, Coalescer],
        on_end: Callable[[CalledEnd], None],
        window: int = WINDOW_BYTES,
        host: str = "",
    ) -> None:
        self._window, self._host = window, host
        self._write, self._incarnation, self._coalescers, self._on_end = write, incarnation, coalescers, on_end
        self.may_go_on: Callable[[Speaker], bool] = lambda speaker: True  # may the owner of that key still speak?
        self.by_caller: dict[int, CalledEnd] = {}  # by the incarnation of the end that has called
        self.by_endpoint: dict[str, CalledEnd] = {}
        self._over: OrderedDict[int, None] = OrderedDict()
        self._age_at = 0.0

    def end_of(self, endpoint: str, now: float) -> CalledEnd:
        """Where what is sent to that endpoint goes; if it has not called yet, it waits for that."""
        return self.by_endpoint.get(endpoint) or self._make(endpoint, now)

    def _make(self, endpoint: str, now: float) -> CalledEnd:
        end = CalledEnd(endpoint, Link(self._incarnation(), now, window=self._window), self._coalescers, self._write)
        self.by_endpoint[endpoint] = end
        return end

    # frames

    def hear(
        self, connection: bytes, frame: Frame, payload: list[Any], speaker: Speaker | None, now: float
    ) -> tuple[CalledEnd | None, int]:
        """Whose frame it was, if that is known, and the size of the packet that has come by it, or 0. Raises ProtocolError: it is none that
        may come here."""
        end = self.by_caller.get(frame.source)
        if end is None or (frame.kind != HELLO and frame.target != end.link.incarnation):  # that one knows a process of before
            return self._hear_stranger(connection, frame, payload, speaker, now), 0
        if not _is_same(end.speaker, speaker):
            raise ProtocolError(f"link: a frame of the link with {end.endpoint} under another key, of {_name(speaker)}")
        if end.connection != connection:
            end.connection = connection
            end.link.reconnected(now)
        size = end.take_in(frame, payload, now)
        self._end_if_over(end)
        return end, size

    def _hear_stranger(self, connection: bytes, frame: Frame, payload: list[Any], speaker: Speaker | None, now: float) -> CalledEnd | None:
        if frame.kind == HELLO and frame.source not in self._over:
            return self._hear_hello(connection, frame, payload, speaker, now)
        if frame.kind in (HELLO, DATA, ACK, PROBE):
            self._write(connection, Frame(UNKNOWN, 0, frame.source, number=frame.target), ())
        return None

    def _hear_hello(self, connection: bytes, frame: Frame, payload: list[Any], speaker: Speaker | None, now: float) -> CalledEnd:
        """Of an end that was not heard of before; its process may be another one than before."""
        if not frame.source or len(payload) != 1:
            raise ProtocolError("HELLO: expected the number of the end that calls, and what it is")
        endpoint = endpoint_of(payload[0])
        self._check_endpoint(endpoint, speaker)
        before = self.by_endpoint.get(endpoint)
        if before is not None and before.link.peer:
            if not _is_same(before.speaker, speaker):
                raise ProtocolError(f"HELLO: {endpoint} belongs to {_name(before.speaker)}, and this is {_name(speaker)}")
            self.break_off(before, ANOTHER)
        self._check_room(endpoint, speaker)
        end = self.end_of(endpoint, now)
        end.connection, end.speaker = connection, speaker and speaker._replace(endpoint=endpoint)
        self.by_caller[frame.source] = end
        end.link.answer(frame, now)
        return end

    def _check_endpoint(self, endpoint: str, speaker: Speaker | None) -> None:
        """A client is not called, so it has no address; on our own host it would be answered by a Unix socket, whatever that is. Raises
        ProtocolError: a client takes the endpoint of something else, which then could not call, or would be sent what is the client's."""
        there = Endpoint.parse(endpoint)
        if not there.host:
            raise ProtocolError(f"HELLO: expected the endpoint of a host, got {endpoint[:200]!r}")
        if speaker is not None and not speaker.is_member and (there.address or there.host == self._host):
            raise ProtocolError(f"HELLO: {endpoint[:200]!r} can be no client's on another host, and this is {speaker.name}")

    def _check_room(self, endpoint: str, speaker: Speaker | None) -> None:
        """Raises ProtocolError: there are too many links, of all or of that client."""
        if len(self.by_endpoint) >= LINKS_MAX:
            raise ProtocolError(f"HELLO: expected at most {LINKS_MAX} links, and {endpoint} is one more")
        if speaker is None or speaker.is_member:
            return
        own = sum(1 for end in self.by_caller.values() if _is_same(end.speaker, speaker))
        if own >= CLIENT_LINKS_MAX:
            raise ProtocolError(f"HELLO: expected at most {CLIENT_LINKS_MAX} links of {speaker.name}, and {endpoint} is one more")

    # ends that are over

    def break_off(self, end: CalledEnd, why: str) -> None:
        end.link.break_off(why)
        self._end_if_over(end)

    def _end_if_over(self, end: CalledEnd) -> None:
        if end.link.broken is not None or end.link.over:
            self.forget(end)
            self._on_end(end)

    def forget(self, end: CalledEnd) -> None:
        """It is over: what is still said on it is answered so."""
        if self.by_endpoint.get(end.endpoint) is end:
            del self.by_endpoint[end.endpoint]
        if end.link.peer and self.by_caller.pop(end.link.peer, None) is not None:
            self._over[end.link.peer] = None
            if len(self._over) > OVER_MAX:
                self._over.popitem(last=False)

    # time

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
            self.break_off(end, f"it has not called for {UNMET_S:.0f} s")
        elif now - link.heard > FORGET_S:
            self.break_off(end, f"nothing was heard of it for {FORGET_S:.0f} s")
        elif 0 < end.leave_at < now:
            self.break_off(end, "it was given up, and has not taken what was under way")
        elif speaker is not None and not self.may_go_on(speaker):
            self.break_off(end, f"the key of {speaker.name} has ended")


def _is_same(one: Speaker | None, other: Speaker | None) -> bool:
    """Are both of the same owner, whatever key it has by now?"""
    return (one and (one.name, one.is_member)) == (other and (other.name, other.is_member))


def _name(speaker: Speaker | None) -> str:
    return "nothing with a key" if speaker is None else speaker.name
