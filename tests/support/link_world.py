"""Two ends of a link and the connections between them, without sockets: what a cut does is decided by the test.

Frames of one connection keep their order. A connection that is cut has three fates for what was under way: the first frames may still
arrive, however late; some are lost; the last ones of the end that calls go by the next connection, as a DEALER's do.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cep.transport import frames
from cep.transport.ends import CalledEnd, hello_of
from cep.transport.frames import Frame
from cep.transport.link import Link, Packet
from cep.transport.packets import OVERHEAD_BYTES, size_of
from cep.transport.switchboard import Switchboard

CALLER = "link://h1@/caller"
WINDOW = 4096
SIZE_MAX = 2000


@dataclass
class Connection:
    """Bytes of frames under way."""

    name: bytes
    to_called: deque[bytes] = field(default_factory=deque)
    to_caller: deque[bytes] = field(default_factory=deque)


@dataclass
class Side:
    """What one process has been asked to send on a link, and what it was given."""

    sent: list[bytes] = field(default_factory=list)
    got: list[bytes] = field(default_factory=list)
    untaken: deque[int] = field(default_factory=deque)


class LinkWorld:
    """`caller` is a link that calls, `board` what is called. `callers`: by incarnation, the caller's side of each link that was; `called`:
    by both incarnations, the other side, of which a caller may have had several before it met one."""

    def __init__(self) -> None:
        self.now = 100.0
        self._incarnations, self._names = count(1), count(1)
        self.connection = Connection(b"c0")
        self.old: list[Connection] = []
        self.frozen: set[str] = set()  # directions in which nothing arrives
        self.callers: dict[int, Side] = {}
        self.called: defaultdict[tuple[int, int], Side] = defaultdict(Side)
        self.met: dict[int, int] = {}  # by the caller's incarnation, the other one's
        self.told_called: list[CalledEnd] = []  # ends of the called process that are over
        self.told_caller: list[str] = []
        self.restart_called()
        self.restart_caller()

    # processes

    def restart_caller(self) -> None:
        """Another process in its place; it knows nothing of the one before."""
        self.caller = Link(next(self._incarnations), self.now, hello_of(CALLER), WINDOW)
        self.callers[self.caller.incarnation] = Side()
        self.cut(0, 0, 0, 0)

    def restart_called(self) -> None:
        self.board = Switchboard(self._write_called, lambda: next(self._incarnations), {}, self.told_called.append, WINDOW)
        if self.callers:
            self.cut(0, 0, 0, 0)

    def _write_called(self, connection: bytes, frame: Frame, parts: tuple[Any, ...]) -> None:
        for each in (self.connection, *self.old[-1:]):
            if each.name == connection:
                each.to_caller.append(frame.pack() + b"".join(parts))

    def write(self) -> None:
        """What is ready goes on its way."""
        for frame, parts in self.caller.frames():
            self.connection.to_called.append(frame.pack() + b"".join(parts))
        for end in list(self.board.by_endpoint.values()):
            if end.connection:
                end.write()

    # what is asked of them

    def send(self, size: int) -> None:
        side = self.callers[self.caller.incarnation]
        side.sent.append(body := _body(len(side.sent), size))
        self.caller.send(Packet((body,), size_of([body])), self.now)
        self.write()

    def answer(self, size: int) -> None:
        """The called process sends to the caller, if that has called."""
        end = self.board.by_endpoint.get(CALLER)
        if end is not None and end.link.peer in self.callers:
            side = self.side_of(end)
            side.sent.append(body := _body(len(side.sent), size))
            end.link.send(Packet((body,), size_of([body])), self.now)
            self.write()

    def take(self) -> None:
        """Both programs take what they were given."""
        for end in self.board.by_endpoint.values():
            _take(end.link, self.side_of(end), self.now)
        _take(self.caller, self.callers[self.caller.incarnation], self.now)
        self.write()

    def side_of(self, end: CalledEnd) -> Side:
        return self.called[end.link.peer, end.link.incarnation]

    @property
    def last(self) -> tuple[Side, Side]:
        """Of the link that is there, the caller's side and the other one."""
        return self.callers[self.caller.incarnation], self.called[self.caller.incarnation, self.caller.peer]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.caller.tick(self.now)
        self.board.tick(self.now)
        self.write()

    # the network

    def deliver(self, most: int, late: bool = False) -> None:
        """Some of what is under way arrives, of the oldest connection that was cut if `late`."""
        connection = self.old[0] if late and self.old else self.connection
        for _ in range(most):
            if connection.to_called and "called" not in self.frozen:
                self._arrive_at_called(connection, connection.to_called.popleft())
            if connection.to_caller and "caller" not in self.frozen:
                self._arrive_at_caller(connection.to_caller.popleft())
        if late and self.old and not connection.to_called and not connection.to_caller:
            self.old.pop(0)

    def _arrive_at_called(self, connection: Connection, found: bytes) -> None:
        frame, begin = frames.read(found)
        end, size = self.board.hear(connection.name, frame, [found[begin:]] if begin < len(found) else [], None, self.now)
        if end is not None and size:
            _give(self.side_of(end), found[begin:], size)
        self.write()

    def _arrive_at_caller(self, found: bytes) -> None:
        frame, begin = frames.read(found)
        size = size_of([found[begin:]])
        if self.caller.receive(frame, size, self.now):
            _give(self.callers[self.caller.incarnation], found[begin:], size)
        self.met[self.caller.incarnation] = self.caller.peer
        if self.caller.broken is not None:
            self.told_caller.append(self.caller.broken)
            self.restart_caller()
        self.write()

    def cut(self, arrive: int, lose: int, arrive_back: int, keep_back: int) -> None:
        """Of the frames to the called process the first `arrive` still arrive some time, the next `lose` never; of those to the caller the
        first `arrive_back` do."""
        before, self.connection = self.connection, Connection(b"c%d" % next(self._names))
        self.connection.to_called.extend(list(before.to_called)[arrive + lose :])
        self.old.append(Connection(before.name, deque(list(before.to_called)[:arrive]), deque(list(before.to_caller)[:arrive_back])))
        self.caller.reconnected(self.now)
        self.write()

    def duplicate(self) -> None:
        """What was sent last comes once more, by an old connection."""
        if self.connection.to_called:
            self.old.append(Connection(b"d", deque([self.connection.to_called[-1]])))

    # at the end

    def settle(self) -> None:
        """Nothing is cut any more, and there is time."""
        self.frozen.clear()
        for _ in range(60):
            while self.old:
                self.deliver(1000, late=True)
            self.deliver(1000)
            self.take()
            self.pass_time(0.5)

    def check(self) -> None:
        """Of every link: what came was sent, in order, once. Bounded is what is kept."""
        for (caller, _), called in self.called.items():
            assert called.got == self.callers[caller].sent[: len(called.got)], "the called process was given something else"
        for caller, side in self.callers.items():
            answers = self.called[caller, self.met[caller]].sent if self.met.get(caller) else []
            assert side.got == answers[: len(side.got)], "the caller was given something else than what was sent"
        most = WINDOW + SIZE_MAX + OVERHEAD_BYTES
        for link in (self.caller, *(end.link for end in self.board.by_endpoint.values())):
            assert sum(packet.size for packet in link.unacknowledged) <= most
            assert link.received_bytes - link.taken_bytes <= most


def _give(side: Side, payload: bytes, size: int) -> None:
    side.got.append(payload)
    side.untaken.append(size)


def _take(link: Link, side: Side, now: float) -> None:
    while side.untaken:
        link.take(side.untaken.popleft(), now)


def _body(number: int, size: int) -> bytes:
    return number.to_bytes(4, "little") * max(1, size // 4)
