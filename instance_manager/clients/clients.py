"""Clients of the instances here: their messages, and what becomes of those that are silent.

A publisher opens at every reader of its stream, a subscriber at every instance that produces its stream; each names them by an id
that follows from query, stream and index.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Header
from cep.world.clock import Clock
from cep.world.rings import Rings
from instance_manager.clients import client_documents
from instance_manager.clients.forwarding import Forward, Forwarding
from instance_manager.clients.peers import Peers
from instance_manager.clients.publishers import Publishers
from instance_manager.clients.subscribers import Subscribers
from instance_manager.clients.subscriptions import SubscriptionChannel, Terms
from instance_manager.hosting import InstanceHost

SILENCE_S = 10.0
LOG = logging.getLogger(__name__)


class Clients:
    """Handles the control messages of clients; used by the engine's thread. `process` tells clients this process from another that comes in
    its place; `rings`: where those of this host keep what they have sent."""

    def __init__(
        self, sockets: Sockets, budget_bytes: int, silence_s: float, clock: Clock, process: int, rings: Rings | None = None
    ) -> None:
        self.sockets, self.silence_s, self.clock, self.process = sockets, silence_s, clock, process
        self.peers = Peers(self._now(), sockets.hang_up)
        self.publishers = Publishers(sockets, self.peers, budget_bytes // 4, clock, process, rings)
        self.subscribers = Subscribers(sockets, self.peers, process)
        self.forwarding = Forwarding()

    def _now(self) -> float:
        return self.clock.steady_ns() / 1e9

    # Instances

    def add(self, hosted: InstanceHost) -> None:
        self.forwarding.end((*hosted.outlets, *hosted.entries))
        self.subscribers.add(hosted, self._now())
        self.publishers.add(hosted)

    def remove(self, hosted: InstanceHost) -> None:
        self.subscribers.remove(hosted)
        self.publishers.remove(hosted)

    def hand_over(self, hosted: InstanceHost, forward: Forward) -> None:
        """The instance has moved: what comes for it here is passed on for a while."""
        moved = [*self.subscribers.hand_over(hosted), *self.publishers.hand_over(hosted)]
        self.forwarding.begin(moved, forward, self._now())

    def take_over(self, hosted: InstanceHost, stream: str, terms: Terms) -> SubscriptionChannel:
        """A subscription that it had at its old place."""
        outlet = next(outlet for outlet in hosted.outlets.values() if outlet.stream == stream)
        subscription = self.subscribers.attach(hosted, outlet, terms, self._now())
        self.forwarding.end((subscription.id,))
        return subscription

    def announce(self, hosted: InstanceHost) -> None:
        """It has come from elsewhere with all that it had."""
        self.publishers.note_dropped(hosted)
        self.subscribers.announce(hosted)

    def subscribe_all(self, hosted: InstanceHost, documents: Sequence[Mapping[str, Any]]) -> None:
        """Subscriptions that the orchestrator took while the instance was made."""
        self.subscribers.subscribe_all(hosted, documents, self._now())

    # Messages

    def knows(self, channel: int) -> bool:
        """Is, or was, that a subscription here?"""
        return channel in self.subscribers.here or channel in self.forwarding

    def handle(self, header: Header, body: Any) -> None:
        """One control message. What names something that is not here any more is answered as ended, or ignored."""
        if self.forwarding.pass_on(header.channel, header, body):
            return
        match header.kind:
            case wire.SUBSCRIBE:
                self.subscribers.subscribe(header, client_documents.document_of(body), self._now())
            case wire.UNSUBSCRIBE if header.channel in self.subscribers.here and header.sequence:
                self.subscribers.leave(header.channel)
            case wire.UNSUBSCRIBE if header.channel in self.subscribers.here:
                self.subscribers.unsubscribe(header.channel)
            case wire.ACK if header.channel in self.subscribers.here:
                self.subscribers.acknowledge(header.channel, header.sequence)
            case wire.CREDIT if header.channel in self.subscribers.here:
                self.subscribers.grant(header.channel, header, self._now())
            case wire.OPEN:
                self.publishers.open(header, client_documents.document_of(body))
            case wire.CLOSE:
                self.publishers.close(header, client_documents.document_of(body))
            case wire.BEAT:
                self._hear(header, body)

    def _hear(self, header: Header, body: Any) -> None:
        """A heartbeat: of a client, which says where it is, or of an instance manager for one of its readers."""
        peer = self.peers.known.get(header.channel)
        if peer is None and header.channel in self.subscribers.here:
            peer = self.subscribers.here[header.channel].peer
        if peer is not None:
            peer.heard = self._now()
        elif body:  # it was given up, or knew the process that was here before
            endpoint = client_documents.endpoint({"endpoint": bytes(body).decode()}, self.sockets.endpoint)
            here = {"endpoint": self.sockets.endpoint, "process": self.process}
            self.sockets.send(endpoint, Header(wire.UNKNOWN, header.channel, sequence=header.sequence), wire.to_json(here))
            self.sockets.hang_up(endpoint)

    # Every 100 ms

    def tick(self) -> None:
        """Drops what belongs to processes that have been silent for too long."""
        now = self._now()
        away_s = self.peers.tick(now)
        self.subscribers.tick(now)
        for peer in list(self.peers.known.values()):
            silent_s = now - peer.heard
            for channel in peer.overdue(silent_s):
                self.subscribers.abandon(channel)
            if silent_s > self.silence_s:
                self.publishers.drop(peer)
                self.peers.part(peer)
        self.forwarding.tick(now)
        try:
            self.publishers.tick(self.silence_s, away_s)
        except OSError as error:  # what cannot be looked at, for want of descriptors, say, is looked at again with the next tick
            LOG.warning("what publishers that are gone have kept cannot be looked at: %s", error)
