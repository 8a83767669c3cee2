"""Links between the hosts of a simulated cluster: the core that real ones have (`cep.transport.link`), over connections that are cut.

A cut takes both directions, or one. If it is short the connection outlives it, and what was under way arrives when it is over. If not it is
another connection that goes on: of what was under way the first frames may have arrived, some are lost, and the last ones of the end that
calls go by the next connection, as a DEALER's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from cep.transport import frames
from cep.transport.endpoints import host_of
from cep.transport.frames import HELLO, Frame
from cep.transport.link import Link, Packet
from simulation.schedule import MS, S, SeededSchedule

WINDOWS_BYTES = (1 << 10, 1 << 14, 16 << 20)
CUTS_MAX = 6
BETWEEN_CUTS_NS, CUT_NS = (MS, 400 * MS), (20 * MS, 7 * S)  # shorter than what heartbeats and sessions bear
OUTLIVED_NS = 2 * S  # a connection that is cut for longer is given up
RECONNECT_NS = 700 * MS  # at most, after a cut

#: (message, called when it is used up)
Deliver = Callable[[bytes, Callable[[], None]], None]


@dataclass(eq=False)
class SimulatedEnd:
    """One end, and the way from it to the other one."""

    host: int
    link: Link
    deliver: Deliver
    delays_ns: tuple[int, int]
    free_ns: int = 0  # nothing arrives before what was sent before it
    held: list[bytes] = field(default_factory=list)  # by a cut
    connection: int = 0  # the number of the one that its last frame has come by
    tick_ns: float = math.inf


class SimulatedPair:
    """Two processes on different hosts; the first calls."""

    def __init__(self, schedule: SeededSchedule, hosts: Hosts, caller: SimulatedEnd, called: SimulatedEnd) -> None:
        self.schedule, self.hosts, self.ends = schedule, hosts, (caller, called)
        self.connection = 0
        caller.link.tick(self._now)
        self._write(caller)

    @property
    def _now(self) -> float:
        return self.schedule.now_ns / S

    def send(self, end: SimulatedEnd, message: bytes) -> None:
        end.link.send(Packet((message,), len(message)), self._now)
        self._write(end)

    def _write(self, end: SimulatedEnd) -> None:
        """What is ready goes on its way, and what is due is planned."""
        for frame, parts in end.link.frames():
            self._carry(end, frame.pack() + b"".join(parts))
        due_ns = end.link.due * S
        if due_ns < end.tick_ns:
            end.tick_ns = due_ns
            self.schedule.at(int(due_ns) + 1, lambda: self._tick(end, due_ns))

    def _tick(self, end: SimulatedEnd, planned_ns: float) -> None:
        if end.tick_ns == planned_ns:
            end.tick_ns = math.inf
            end.link.tick(self._now)
            self._write(end)

    def _other(self, end: SimulatedEnd) -> SimulatedEnd:
        return self.ends[1] if end is self.ends[0] else self.ends[0]

    def _carry(self, end: SimulatedEnd, found: bytes) -> None:
        connection = self.connection
        end.free_ns = max(end.free_ns, self.schedule.now_ns + self.schedule.choose.randint(*end.delays_ns))
        self.schedule.at(end.free_ns, lambda: self._arrive(end, found, connection))

    def _arrive(self, end: SimulatedEnd, found: bytes, connection: int) -> None:
        """At the other end, unless the way there is cut or the connection was given up."""
        if self.hosts.is_cut(end.host, self._other(end).host) or (end.held and connection == self.connection):
            end.held.append(found)
        elif connection == self.connection or self.schedule.choose.random() < 0.3:
            self._take_in(self._other(end), found, connection)

    def _take_in(self, end: SimulatedEnd, found: bytes, connection: int) -> None:
        frame, begin = frames.read(found)
        if end is self.ends[1] and frame.kind == HELLO and not end.link.peer:
            end.link.answer(frame, self._now)
        elif end is self.ends[1] and connection > end.connection:
            end.connection = connection
            end.link.reconnected(self._now)
        self._hand_on(end, frame, found[begin:])
        assert end.link.broken is None, f"a link broke: {end.link.broken}"
        self._write(end)

    def _hand_on(self, end: SimulatedEnd, frame: Frame, payload: bytes) -> None:
        size = len(payload)
        if end.link.receive(frame, size, self._now):
            end.deliver(payload, lambda: self._taken(end, size))

    def _taken(self, end: SimulatedEnd, size: int) -> None:
        end.link.take(size, self._now)
        end.link.tick(self._now)
        self._write(end)

    def healed(self, lasted_ns: int) -> None:
        """What was held goes on, or some of it is lost with its connection."""
        if lasted_ns <= OUTLIVED_NS:
            for end in self.ends:
                self._release(end, end.held, self.connection)
            return
        for end, keeps in zip(self.ends, (True, False), strict=True):
            held, end.held = end.held, []
            choose = self.schedule.choose
            arrive, kept = choose.randint(0, len(held)), choose.randint(0, len(held))
            self._release(end, held[:arrive], self.connection)
            if keeps:
                self._release(end, held[max(arrive, kept) :], self.connection + 1)
        self.schedule.at(self.schedule.now_ns + self.schedule.choose.randint(0, RECONNECT_NS), self._reconnect)

    def _release(self, end: SimulatedEnd, held: list[bytes], connection: int) -> None:
        for found in list(held):
            self.schedule.at(end.free_ns, lambda found=found: self._arrive(end, found, connection))  # type: ignore[misc]
        end.held = []

    def _reconnect(self) -> None:
        self.connection += 1
        self.ends[0].link.reconnected(self._now)
        self._write(self.ends[0])


class Hosts:
    """Which process is on which host, the links between them, and their cuts. `count` hosts; of 1 there are none."""

    def __init__(self, schedule: SeededSchedule, count: int, delays: Callable[[], tuple[int, int]]) -> None:
        self.schedule, self.count, self._delays = schedule, count, delays
        self.cuts = 0  # made so far
        self._of: dict[str, int] = {}
        self._pairs: dict[frozenset[str], tuple[SimulatedPair, dict[str, SimulatedEnd]]] = {}
        self._cut: set[tuple[int, int]] = set()  # from host, to host

    def place(self, endpoint: str) -> None:
        """On the host of its name, if it has one."""
        if self.count > 1:
            host = host_of(endpoint)
            self._of[endpoint] = int(host.removeprefix("h")) if host else self.schedule.choose.randrange(self.count)

    def are_apart(self, source: str, target: str) -> bool:
        return self._of.get(source) != self._of.get(target)

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self._cut

    def send(self, source: str, target: str, message: bytes, deliver: Callable[[str, str], Deliver]) -> None:
        """From one host to another; `deliver(source, target)` makes what gives messages to a process."""
        found = self._pairs.get(frozenset((source, target)))
        if found is None:
            found = self._pairs[frozenset((source, target))] = self._meet(source, target, deliver)
        pair, ends = found
        pair.send(ends[source], message)

    def _meet(self, source: str, target: str, deliver: Callable[[str, str], Deliver]) -> tuple[SimulatedPair, dict[str, SimulatedEnd]]:
        number, now = 2 * len(self._pairs) + 1, self.schedule.now_ns / S
        window = self.schedule.choose.choice(WINDOWS_BYTES)
        caller, called = Link(number, now, source.encode(), window), Link(number + 1, now, window=window)
        ends = {
            source: SimulatedEnd(self._of.get(source, 0), caller, deliver(target, source), self._delays()),
            target: SimulatedEnd(self._of.get(target, 0), called, deliver(source, target), self._delays()),
        }
        return SimulatedPair(self.schedule, self, ends[source], ends[target]), ends

    def begin_cuts(self) -> None:
        """From now on some happen."""
        if self.count > 1:
            self._plan(self.schedule.choose.randint(1, CUTS_MAX))

    def _plan(self, left: int) -> None:
        if left:
            at_ns = self.schedule.now_ns + self.schedule.choose.randint(*BETWEEN_CUTS_NS)
            self.schedule.at(at_ns, lambda: self._make_cut(left))

    def _make_cut(self, left: int) -> None:
        choose = self.schedule.choose
        one, other = choose.sample(range(self.count), 2)
        ways = {(one, other), (other, one)} if choose.random() < 0.5 else {(one, other)}
        self.cut(ways, choose.randint(*CUT_NS), lambda: self._plan(left - 1))

    def cut(self, ways: set[tuple[int, int]], lasts_ns: int, then: Callable[[], None] = lambda: None) -> None:
        """From one host to another, one way or both; `then`: what comes when it is over."""
        self.cuts += 1
        self._cut |= ways
        self.schedule.note("network", f"is cut for {lasts_ns / S:.3f} s: {sorted(ways)}")
        self.schedule.at(self.schedule.now_ns + lasts_ns, lambda: self._heal(ways, lasts_ns, then))

    def _heal(self, ways: set[tuple[int, int]], lasted_ns: int, then: Callable[[], None]) -> None:
        self._cut -= ways
        self.schedule.note("network", f"is whole again: {sorted(ways)}")
        for pair, _ in self._pairs.values():
            hosts = {end.host for end in pair.ends}
            if hosts == set(next(iter(ways))):
                pair.healed(lasted_ns)
        then()
