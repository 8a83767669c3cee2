"""Subscribers: what they say to the instances here that put out a stream, and what these answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from cep.elements import MIN_TIME
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Header
from instance_manager.clients import client_documents
from instance_manager.clients.peers import Peer, Peers
from instance_manager.clients.subscriptions import SubscriptionChannel, Terms
from instance_manager.hosting import InstanceHost, Outlet, open_subscription
from instance_manager.recovery.kept import DROPPED, KeptChannel

NOT_RESUMED = "its query does not recover, so no other process goes on with this subscription"
LOST_TOLD_MAX = 100  # at a time
AGAIN_S = 1.0  # after which a client is told once more where a restored instance is


class Subscribed(NamedTuple):
    """A subscription, and whose output it reads."""

    hosted: InstanceHost
    outlet: Outlet
    subscription: SubscriptionChannel
    peer: Peer


class Subscribers:
    """`process` tells clients this process from another that comes in its place."""

    def __init__(self, sockets: Sockets, peers: Peers, process: int) -> None:
        self.sockets, self.peers, self.process = sockets, peers, process
        self.outlets: dict[int, tuple[InstanceHost, Outlet]] = {}
        self.here: dict[int, Subscribed] = {}  # by channel
        self._full: dict[int, int] = {}  # of those that wait for their clients to acknowledge: from which number, which has been told
        self._lost: dict[tuple[int, str], float] = {}  # outlet and subscription, of those that only the orchestrator has: since when
        self._asked: dict[int, tuple[float, float]] = {}  # of those that have not said where they go on: since when, and when last asked

    def add(self, hosted: InstanceHost, now: float) -> None:
        """The instance is at home. A client that subscribed before is told where."""
        for id_, outlet in hosted.outlets.items():
            self.outlets[id_] = hosted, outlet
            for subscription in outlet.subscriptions.values():
                self._file(hosted, outlet, subscription, now)
                self._tell_place(id_, subscription)

    def announce(self, hosted: InstanceHost) -> None:
        """The same of one that has come from elsewhere: from now on it is here."""
        for id_, outlet in hosted.outlets.items():
            for subscription in outlet.subscriptions.values():
                self._tell_place(id_, subscription)
                subscription.pump()

    def remove(self, hosted: InstanceHost) -> None:
        for id_, outlet in hosted.outlets.items():
            self.outlets.pop(id_, None)
            for subscription in outlet.subscriptions.values():
                self._unfile(subscription)

    def hand_over(self, hosted: InstanceHost) -> list[int]:
        """The instance has moved, and its subscriptions with it: their ids. What was sent is on its way yet, so their clients
        are not hung up on before they are silent here."""
        moved = list(hosted.outlets)
        for id_, outlet in hosted.outlets.items():
            self.outlets.pop(id_, None)
            for subscription in outlet.subscriptions.values():
                if (filed := self.here.pop(subscription.id, None)) is not None:
                    del filed.peer.subscriptions[subscription.id]
                moved.append(subscription.id)
            outlet.subscriptions = {}
        return moved

    def attach(self, hosted: InstanceHost, outlet: Outlet, terms: Terms, now: float) -> SubscriptionChannel:
        """A new one, or one that the instance had at its old place."""
        instance = hosted.instance
        subscription = open_subscription(self.sockets, outlet, terms, _sent_until(hosted, outlet))
        restored = 0 if hosted.recovery is None else hosted.recovery.restored
        subscription.begin_anew(hosted.attempt, restored, is_first=not restored and hosted.instance.state == "ready")
        self._file(hosted, outlet, subscription, now)
        for output in instance.outputs:
            if output.name == outlet.stream:
                output.attach(subscription, terms.origin, terms.grain)
        return subscription

    def subscribe_all(self, hosted: InstanceHost, documents: Sequence[Mapping[str, Any]], now: float) -> None:
        """Subscriptions that the orchestrator took while the instance was made."""
        for id_, outlet in hosted.outlets.items():
            asked = [Terms.from_json(document, self.sockets.endpoint) for document in documents if document["stream"] == outlet.stream]
            for terms in asked:
                outlet.registered[terms.id] = terms.endpoint
                known = outlet.subscriptions.get(terms.id)
                if known is not None and known.terms.holder < terms.holder:
                    if not isinstance(known, KeptChannel):
                        self._answer(terms.endpoint, id_, {"id": terms.id, "here": True, "refused": NOT_RESUMED})
                        continue
                    self._take_over(hosted, outlet, known, terms, now)
                    self._tell_place(id_, known)
                elif known is None and not hosted.instance.done and not terms.holder and terms.id not in outlet.dropped:
                    self._tell_place(id_, self.attach(hosted, outlet, terms, now))

    def drop(self, hosted: InstanceHost, ids: Collection[str]) -> None:
        """The orchestrator knows these no more."""
        for outlet in hosted.outlets.values():
            outlet.registered = {id_: endpoint for id_, endpoint in outlet.registered.items() if id_ not in ids}
        there = [each for outlet in hosted.outlets.values() for id_, each in outlet.subscriptions.items() if id_ in ids]
        for subscription in there:
            self.unsubscribe(subscription.id)

    # What clients say

    def subscribe(self, header: Header, document: dict[str, Any], now: float) -> None:
        terms = Terms.from_json(document, self.sockets.endpoint)
        hosted, outlet = self.outlets.get(header.channel, (None, None))
        if hosted is None or outlet is None or (terms.origin and not hosted.instance.number_rows()):
            self._answer(terms.endpoint, header.channel, {"id": terms.id, "here": False})
            return
        following = client_documents.read_count(document, "next", 0)
        subscription = outlet.subscriptions.get(terms.id)
        if why := _why_not(outlet, terms, document, following):  # what it waits for is gone, or another process's
            self._answer(terms.endpoint, header.channel, {"id": terms.id, "here": True, "refused": why})
            return
        if isinstance(subscription, KeptChannel) and subscription.terms.holder < terms.holder:
            self._take_over(hosted, outlet, subscription, terms, now)
        ended = hosted.instance.done and subscription is None
        if subscription is None and not ended:
            subscription = self.attach(hosted, outlet, terms, now)
        if subscription is not None:
            subscription.terms = terms
            self._file(hosted, outlet, subscription, now)
            hosted.wake()
        answer = {**self._described(hosted, outlet, terms, subscription), "ended": ended}
        if subscription is not None:
            following = subscription.following(following, client_documents.read_count(document, "counted", 0))
            answer |= subscription.going_on(following, client_documents.read_count(document, "attempt", 0))
        self._answer(terms.endpoint, header.channel, answer)
        if subscription is not None:
            subscription.resume(following, client_documents.read_count(document, "acknowledged", following))
            subscription.pump()
            hosted.wake()

    def _take_over(self, hosted: InstanceHost, outlet: Outlet, subscription: KeptChannel, terms: Terms, now: float) -> None:
        """Another process goes on with it; the one before it hears so, if it is there yet."""
        word = wire.to_json({"why": "another process has resumed this subscription"})
        self.sockets.send(subscription.terms.endpoint, Header(wire.UNSUBSCRIBE, subscription.id), word)
        self._unfile(subscription)
        subscription.hand_over(terms, outlet.channel.to(terms.id, terms.holder).id)
        self._file(hosted, outlet, subscription, now)

    def _described(self, hosted: InstanceHost, outlet: Outlet, terms: Terms, subscription: SubscriptionChannel | None) -> dict[str, Any]:
        """How far the instance has come, and how its rows will look."""
        instance = hosted.instance
        rows = sum(output.rows for output in instance.outputs if output.name == outlet.stream)
        sent = terms.format(outlet.format) if subscription is None else subscription.format
        until = _sent_until(hosted, outlet) if subscription is None else subscription.sent_until
        answer = {"id": terms.id, "here": True, "state": instance.state, "rows": rows, "sent_until": until}
        answer |= {} if subscription is None else {"lineage": subscription.lineage}
        answer |= {"schema": sent.schema.to_json(), "origin": sent.origin, "time": sent.time}
        answer |= {"subquery": instance.subquery, "cause": instance.cause, "attempt": hosted.attempt}
        return answer if subscription is None or terms.reader else answer | {"place": self._place(subscription)}

    def grant(self, channel: int, header: Header, now: float) -> None:
        subscribed = self.here[channel]
        subscribed.peer.heard = now
        subscribed.subscription.grant(header)
        subscribed.hosted.wake()

    def acknowledge(self, channel: int, following: int) -> None:
        """Its client will not ask again for what came before that number."""
        subscribed = self.here[channel]
        subscribed.subscription.acknowledge(following)
        subscribed.hosted.wake()

    def leave(self, channel: int) -> None:
        """Its client reads no more, and another may come in its place: it is kept for `keep_s`."""
        self.here[channel].subscription.leave()

    def unsubscribe(self, channel: int) -> None:
        """Its rows are dropped, counted."""
        hosted, outlet, subscription, _ = self.here[channel]
        hosted.ports.relay.leave()
        outlet.dropped_rows += subscription.dropped + subscription.held_rows
        outlet.subscriptions.pop(subscription.terms.id, None)
        self._unfile(subscription)
        outlet.dropped_rows += sum(output.detach(subscription) for output in hosted.instance.outputs)
        hosted.wake()

    def abandon(self, channel: int) -> None:
        """Its client has been silent for longer than it is kept."""
        _, outlet, subscription, _ = self.here[channel]
        if subscription.terms.resumable:
            outlet.dropped.add(subscription.terms.id)
        self.sockets.send(self.here[channel].peer.endpoint, Header(wire.UNSUBSCRIBE, channel))
        self.unsubscribe(channel)

    def tick(self, now: float) -> None:
        """Clients that have not said where they go on are told again where that is. One that says nothing at all is gone."""
        silent = {id_: filed for id_, filed in self.here.items() if not filed.subscription.answered}
        self._asked = {id_: self._asked.get(id_, (now, now)) for id_ in silent}
        for id_, (since, last) in list(self._asked.items()):
            if now - since > silent[id_].subscription.terms.keep_s:
                self.abandon(id_)
            elif now - last > AGAIN_S:
                self._asked[id_] = since, now
                self._tell_place(silent[id_].outlet.channel.id, silent[id_].subscription)
        self._tell_full()
        self._tell_lost(now)

    def _tell_lost(self, now: float) -> None:
        """What the orchestrator knows is told to be here no more, unless it hears so soon, as of one that was closed: it would know it, and
        count it, as long as its query."""
        running = [(id_, hosted, outlet) for id_, (hosted, outlet) in self.outlets.items() if hosted.instance.state == "running"]
        lost = [(id_, each) for id_, _, outlet in running for each in outlet.registered.keys() - outlet.subscriptions.keys()]
        self._lost = {each: self._lost.get(each, now) for each in lost}
        told: dict[str, list[tuple[str, str, str]]] = {hosted.key: [] for _, hosted, _ in running}
        for id_, each in sorted(each for each, since in self._lost.items() if now - since > AGAIN_S):
            hosted, outlet = self.outlets[id_]
            told[hosted.key].append((outlet.stream, each, outlet.registered[each]))
        for _, hosted, _ in running:
            if hosted.lost != (found := tuple(told[hosted.key][:LOST_TOLD_MAX])):
                hosted.lost = found
                hosted.wake()

    def _tell_full(self) -> None:
        """A client that has to acknowledge before it gets more hears so, once for each time."""
        waiting = ((id_, filed.subscription) for id_, filed in self.here.items() if filed.subscription.answered)
        full = {id_: subscription.first_unconfirmed for id_, subscription in waiting if subscription.is_full}
        for id_, first in full.items() - self._full.items():
            terms, outlet = self.here[id_].subscription.terms, self.here[id_].outlet
            self._answer(terms.endpoint, outlet.channel.id, {"id": terms.id, "full": first, "channel": id_})
        self._full = full

    def unread(self, hosted: InstanceHost) -> bool:
        """Does a subscriber still have to take what this instance, which is over, has put out?"""
        if hosted.instance.state != "ended":
            return False
        return any(subscription.held for outlet in hosted.outlets.values() for subscription in outlet.subscriptions.values())

    # What they hear

    def _tell_place(self, outlet: int, subscription: SubscriptionChannel) -> None:
        """From now on its heartbeats are wanted here."""
        hosted, own = self.outlets[outlet]
        place = self._place(subscription) | {"attempt": hosted.attempt, "instance": own.channel.sender}
        self._answer(subscription.terms.endpoint, outlet, {"id": subscription.terms.id, "place": place})

    def _place(self, subscription: SubscriptionChannel) -> dict[str, Any]:
        return {"endpoint": self.sockets.endpoint, "channel": subscription.id, "process": self.process}

    def _answer(self, endpoint: str, outlet: int, document: dict[str, Any]) -> None:
        self.sockets.send(endpoint, Header(wire.SUBSCRIBED, outlet), wire.to_json(document | {"process": self.process}))

    # Whose heartbeats they live by

    def _file(self, hosted: InstanceHost, outlet: Outlet, subscription: SubscriptionChannel, now: float) -> None:
        terms, before = subscription.terms, self.here.get(subscription.id)
        peer = self.peers.meet(terms.endpoint, not terms.reader, now)
        self.here[subscription.id] = Subscribed(hosted, outlet, subscription, peer)
        peer.subscriptions[subscription.id] = terms.keep_s
        if before is not None and before.peer is not peer:
            del before.peer.subscriptions[subscription.id]
            self.peers.part(before.peer)

    def _unfile(self, subscription: SubscriptionChannel) -> None:
        if (filed := self.here.pop(subscription.id, None)) is not None:
            del filed.peer.subscriptions[subscription.id]
            self.peers.part(filed.peer)


def _why_not(outlet: Outlet, terms: Terms, document: Mapping[str, Any], following: int) -> str:
    """Why a client cannot have that subscription from that number on; empty: it can."""
    subscription = outlet.subscriptions.get(terms.id)
    if subscription is None:
        return DROPPED if following or terms.holder or terms.id in outlet.dropped else _too_many(outlet, terms)
    if terms.holder < subscription.terms.holder:
        return "another process has resumed this subscription"
    if not isinstance(subscription, KeptChannel):
        return NOT_RESUMED if terms.holder > subscription.terms.holder else ""
    lineage, counted = client_documents.text(document, "lineage", ""), client_documents.read_count(document, "counted", 0)
    return subscription.why_not_from(lineage, following, counted)


def _too_many(outlet: Outlet, terms: Terms) -> str:
    """Of a query that recovers the orchestrator has been asked; of others it knows only those that came before their query."""
    there = sum(not each.terms.reader for each in outlet.subscriptions.values())
    if outlet.keeps or terms.reader or there < outlet.most:
        return ""
    return f"expected at most {outlet.most:,} subscriptions (subscribers_max); end one first; this would be number {there + 1:,}"


def _sent_until(hosted: InstanceHost, outlet: Outlet) -> int:
    return max((output.sent_until for output in hosted.instance.outputs if output.name == outlet.stream), default=MIN_TIME)
