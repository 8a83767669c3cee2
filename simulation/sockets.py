"""The data plane of a simulated cluster: messages are bytes, as on the wire, and travel for as long as the seed says.

From one endpoint to another they keep their order, as on a connection; between others nothing is promised. Between hosts they go by links
that are cut (`simulation.links`).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from cep.transport import wire
from cep.transport.connections import Inbound
from cep.transport.ipc import MessageLayout
from cep.transport.wire import HEADER_BYTES, Header
from simulation.clock import ProcessClock
from simulation.links import Deliver, Hosts
from simulation.schedule import MS, SeededSchedule

READ_TOGETHER = 4  # messages that a taker sees at once
#: How long a message travels, in ns: most are quick, few are not. Each link draws which of them it is like, each message from that.
QUICK, USUAL, SLOW = (1_000, 50_000), (50_000, 2 * MS), (MS, 60 * MS)


class SimulatedNetwork:
    """What listens where, and what is under way."""

    def __init__(self, schedule: SeededSchedule, hosts: int = 1) -> None:
        self.schedule = schedule
        self.hosts = Hosts(schedule, hosts, lambda: schedule.choose.choice((QUICK, USUAL, USUAL, SLOW)))
        self.sniff: Callable[[str, Header], None] = lambda source, header: None  # is called with all that is sent
        self.listening: dict[str, SimulatedSockets] = {}
        self._links: dict[tuple[str, str], SimulatedLink] = {}

    def open(self, endpoint: str, clock: ProcessClock, wake: Callable[[], None]) -> SimulatedSockets:
        """The sockets of a process; `wake`: a message has come."""
        assert endpoint not in self.listening, endpoint
        self.hosts.place(endpoint)
        self.listening[endpoint] = SimulatedSockets(self, endpoint, clock, wake)
        return self.listening[endpoint]

    def is_gone(self, endpoint: str) -> bool:
        """Does no process listen there?"""
        return endpoint not in self.listening

    def carry(self, source: str, target: str, message: bytes, sent_ns: int) -> None:
        if self.hosts.are_apart(source, target):
            self.schedule.at(sent_ns, lambda: self.hosts.send(source, target, message, self._deliver))
            return
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = SimulatedLink(self, source, target)
        link.carry(message, sent_ns)

    def _deliver(self, source: str, target: str) -> Deliver:
        """Gives a process at `target` what one at `source` sent; where nothing listens it is lost."""

        def deliver(message: bytes, taken: Callable[[], None]) -> None:
            sockets = self.listening.get(target)
            if sockets is None:
                taken()
            else:
                sockets.arrive(source, message, taken)

        return deliver


class SimulatedLink:
    """The way from one endpoint to another."""

    def __init__(self, network: SimulatedNetwork, source: str, target: str) -> None:
        self.network, self.source, self.target = network, source, target
        self.delays_ns = network.schedule.choose.choice((QUICK, USUAL, USUAL, SLOW))
        self.free_ns = 0  # nothing arrives before what was sent before it

    def carry(self, message: bytes, sent_ns: int) -> None:
        schedule = self.network.schedule
        self.free_ns = max(self.free_ns, sent_ns + schedule.choose.randint(*self.delays_ns))
        schedule.at(self.free_ns, lambda: self._arrive(message))

    def _arrive(self, message: bytes) -> None:
        """Where nothing listens it is lost."""
        sockets = self.network.listening.get(self.target)
        if sockets is not None:
            sockets.arrive(self.source, message)


class SimulatedSockets:
    """See `cep.transport.sockets.Sockets`."""

    speaker = None

    def __init__(self, network: SimulatedNetwork, endpoint: str, clock: ProcessClock, wake: Callable[[], None]) -> None:
        self.network, self.endpoint, self.clock, self.wake = network, endpoint, clock, wake
        self._arrived: deque[tuple[bytes, Callable[[], None]]] = deque()
        self.inbound = Inbound(np.empty(0, np.uint8))

    def arrive(self, source: str, message: bytes, taken: Callable[[], None] = lambda: None) -> None:
        header = wire.unpack(message[:HEADER_BYTES])
        said = f"< {source} kind {header.kind} channel {header.channel:x} #{header.sequence} {zlib.crc32(message):08x}"
        self.network.schedule.note(self.endpoint, said)
        self._arrived.append((message, taken))
        self.wake()

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        if self.clock.is_dead:
            return
        self.network.sniff(self.endpoint, header)
        self.network.carry(self.endpoint, endpoint, header.pack() + (b"" if body is None else bytes(body)), self.clock.now_ns)

    def relay(self, endpoint: str, messages: memoryview | bytes) -> None:
        laid, at = memoryview(messages), 0
        while at < len(laid):
            size, header = wire.unpack_sized_from(laid, at)
            at += wire.SIZED_BYTES + size
            self.send(endpoint, header, laid[at - size : at])

    def hang_up(self, endpoint: str) -> None:
        """What is under way arrives."""

    def receive(self, look: bool = True) -> tuple[Header, Any] | None:
        while self._arrived and self._is_taken():
            pass
        if not self._arrived:
            return None
        message, taken = self._arrived.popleft()
        taken()
        return wire.unpack(message[:HEADER_BYTES]), message[HEADER_BYTES:]

    @property
    def at_hand(self) -> bool:
        """What has arrived is offered to the takers when it is received."""
        return False

    def _is_taken(self) -> bool:
        """Does the taker of its channel take the next one, or, as if they had been read together, it and some that follow?"""
        (first, _), taker = self._arrived[0], None
        if self.inbound.takers:
            taker = self.inbound.takers.get(wire.unpack(first[:HEADER_BYTES]).channel)
        if taker is None:
            return False
        there = list(islice(self._arrived, READ_TOGETHER))
        laid = b"".join((len(message) - HEADER_BYTES).to_bytes(8, "little") + message for message, _ in there)
        self.inbound.begin()
        left = behind = taker(np.frombuffer(bytearray(laid), np.uint8), 0, len(laid))
        while left > 0:
            message, taken = self._arrived.popleft()
            taken()
            left -= 8 + len(message)
        return behind > 0

    def join(self, channel: int, layout: MessageLayout | None) -> None:
        """Here messages come one by one."""

    def poll(self, span_ns: int) -> bool:
        """Makes time pass, as `park` does. Processes that are simulated have turns instead, and look only."""
        schedule = self.network.schedule
        if not span_ns:
            return bool(self._arrived)
        end_ns = schedule.now_ns + span_ns
        schedule.at(end_ns, lambda: None)
        schedule.run(lambda: bool(self._arrived) or schedule.now_ns >= end_ns, span_ns)
        return bool(self._arrived)

    def park(self, timeout_ms: int) -> None:
        self.poll(timeout_ms * MS)

    def close(self) -> None:
        self.network.listening.pop(self.endpoint, None)
