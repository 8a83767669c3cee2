"""Processes at other endpoints that publish to instances here or read from them, and for how long each has been silent.

A process has one endpoint, whatever it publishes and reads; it is heard of as a whole, by a heartbeat a second. What it has here goes
one by one as its silence grows: a subscription after the `keep_s` that it asked for, all publishers after `silence_s`. Only what passes
while this process listens counts: one that was stopped has heard nothing. Times are those of the steady clock, in seconds, handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cep.transport import wire

AWAY_S = 1.0  # between two ticks: a process that needs longer was stopped, or kept from its work


@dataclass(eq=False)
class Peer:
    """A process at the other end of an endpoint, and the channels that it has here."""

    endpoint: str
    client: bool  # not another instance manager, where queries' channels may lead
    heard: float
    publishers: set[int] = field(default_factory=set)
    subscriptions: dict[int, float] = field(default_factory=dict)  # and for how long each is kept, s

    def overdue(self, silent_s: float) -> list[int]:
        """The subscriptions that are not kept for so long."""
        return [channel for channel, keep_s in self.subscriptions.items() if keep_s < silent_s]


class Peers:
    """`hang_up`: what to do with the endpoint of a client that has nothing here any more."""

    def __init__(self, now: float, hang_up: Callable[[str], None]) -> None:
        self.known: dict[int, Peer] = {}  # by what their heartbeats are called
        self.ticked = now
        self._hang_up = hang_up

    def meet(self, endpoint: str, client: bool, now: float) -> Peer:
        """The one there, which has just been heard of."""
        peer = self.known.setdefault(wire.name_id(endpoint), Peer(endpoint, client, now))
        peer.heard = now
        return peer

    def part(self, peer: Peer) -> None:
        """A client's socket goes with the last thing that it had here."""
        if not peer.publishers and not peer.subscriptions:
            self.known.pop(wire.name_id(peer.endpoint), None)
            if peer.client:
                self._hang_up(peer.endpoint)

    def tick(self, now: float) -> float:
        """For how long this process did not listen, 0 for as good as never. That is no peer's silence."""
        away_s, self.ticked = now - self.ticked, now
        if away_s <= AWAY_S:
            return 0.0
        for peer in self.known.values():
            peer.heard = min(now, peer.heard + away_s)
        return away_s
