"""Publishers and subscribers: what they say to this process, and what it answers.

A publisher opens at every reader of its stream, a subscriber at every instance that produces its stream; each names them by an id
that follows from query, stream and index. A client process has one endpoint, whatever it publishes and reads; it is heard of as a
whole, by a heartbeat a second. Silence is noticed here: of a publisher after 10 s, of a subscriber after its `keep_s`. Only what passes
while this process listens counts: one that was stopped has heard nobody.

A publisher that counts as closed may only have been stopped, and have sent more. Its last word says how much; until that has come, or
its process has ended, the stream does not end as if it were complete: its query fails.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cep import wire
from cep.dataflow.channel import Inbox
from cep.dataflow.meter import Account
from cep.dataflow.source import Closing, Published, Publisher, Refused
from cep.elements import MIN_TIME, Batch, Element, Watermark
from cep.errors import MessagesLost
from cep.transport import Sockets, is_gone
from cep.wire import Header
from instance_manager import said
from instance_manager.hosting import Entry, Hosted, Outlet, clock_us, open_subscription, publisher_channel
from instance_manager.subscriptions import Subscription, Terms

SILENCE_S = 10.0
AWAY_S = 1.0  # between two ticks: who needs longer was stopped, or kept from its work
FORWARD_S = 60.0  # messages for an instance that has moved are passed on for so long
PARTITION_MASK = (1 << 47) - 1
MAX_ID = 2**64 - 1  # of what a header names


LOG = logging.getLogger(__name__)

Forward = Callable[[Header, Any], None]


@dataclass
class Peer:
    """A process at the other end of an endpoint, and the channels that it has here."""

    endpoint: str
    client: bool  # not another instance manager, to whom queries' channels may lead
    heard: float  # by the steady clock, in seconds
    publishers: set[int] = field(default_factory=set)
    subscriptions: set[int] = field(default_factory=set)
    keep_s: float = math.inf  # the least of what its subscriptions asked for


class Subscribed(NamedTuple):
    """A subscription, and whose output it reads."""

    hosted: Hosted
    outlet: Outlet
    subscription: Subscription
    peer: Peer


class Publishing(NamedTuple):
    """A publisher, and who reads it."""

    hosted: Hosted
    entry: Entry
    publisher: Publisher
    peer: Peer


class Dropped(NamedTuple):
    """A publisher that counts as closed for its silence."""

    hosted: Hosted
    entry: Entry
    name: str


def _stays(hosted: Hosted) -> None:
    """There is no short way that it could be on."""


class Clients:
    """Handles the control messages of clients; used by the engine's thread."""

    def __init__(self, sockets: Sockets, budget_bytes: int, silence_s: float = SILENCE_S) -> None:
        self.sockets, self.budget_bytes, self.silence_s = sockets, budget_bytes, silence_s
        self.process = int.from_bytes(os.urandom(6), "little")  # tells clients this process from another that comes in its place
        self.ticked = time.monotonic()
        self.leave_short_way: Callable[[Hosted], None] = _stays
        self.dropped: dict[int, Dropped] = {}  # by channel
        self.outlets: dict[int, tuple[Hosted, Outlet]] = {}
        self.entries: dict[int, tuple[Hosted, Entry]] = {}
        self.subscriptions: dict[int, Subscribed] = {}
        self.publishers: dict[int, Publishing] = {}
        self.peers: dict[int, Peer] = {}  # by what their heartbeats are called
        self.moved: dict[int, tuple[Forward, float]] = {}  # outlets, subscriptions and entries of instances that have moved, since when
        self.expecting: dict[int, tuple[Hosted, Entry]] = {}  # entries that wait for publishers to open

    def add(self, hosted: Hosted) -> None:
        for id_, outlet in hosted.outlets.items():
            self.outlets[id_] = (hosted, outlet)
            self.moved.pop(id_, None)
            for subscription in outlet.subscriptions.values():
                self._file(hosted, outlet, subscription)
                self._announce(id_, subscription)
        for id_, entry in hosted.entries.items():
            self.entries[id_] = (hosted, entry)
            self.moved.pop(id_, None)
            if entry.source.expected:
                self.expecting[id_] = (hosted, entry)

    def _note_dropped(self, hosted: Hosted) -> None:
        """At its new place."""
        for id_, entry in hosted.entries.items():
            for name in entry.source.in_doubt:
                self.dropped[publisher_channel(id_, name)] = Dropped(hosted, entry, name)

    def knows(self, channel: int) -> bool:
        """Is, or was, that a subscription here?"""
        return channel in self.subscriptions or channel in self.moved

    def hand_over(self, hosted: Hosted, forward: Forward) -> None:
        """The instance has moved: what comes for it here is passed on for a while. What was sent to its subscribers is on its way yet, so
        nobody hangs up on them before they are silent here."""
        now = time.monotonic()
        for id_, outlet in hosted.outlets.items():
            self.outlets.pop(id_, None)
            self.moved[id_] = forward, now
            for subscription in outlet.subscriptions.values():
                filed = self.subscriptions.pop(subscription.id, None)
                if filed is not None:
                    filed.peer.subscriptions.discard(subscription.id)
                self.moved[subscription.id] = forward, now
            outlet.subscriptions = {}
        for id_ in hosted.entries:
            self.entries.pop(id_, None)
            self.expecting.pop(id_, None)
            self.moved[id_] = forward, now
        self._forget_dropped(hosted)

    def take_over(self, hosted: Hosted, stream: str, terms: Terms) -> Subscription:
        """A subscription that it had at its old place."""
        outlet = next(outlet for outlet in hosted.outlets.values() if outlet.stream == stream)
        subscription = self._attach(hosted, outlet, terms)
        self.moved.pop(subscription.id, None)
        return subscription

    def announce(self, hosted: Hosted) -> None:
        """To its subscribers: from now on it is here."""
        self._note_dropped(hosted)
        for id_, outlet in hosted.outlets.items():
            for subscription in outlet.subscriptions.values():
                self._announce(id_, subscription)
                subscription.pump()

    def remove(self, hosted: Hosted) -> None:
        for id_, outlet in hosted.outlets.items():
            self.outlets.pop(id_, None)
            for subscription in outlet.subscriptions.values():
                self._unfile(subscription)
        for id_, entry in hosted.entries.items():
            self.entries.pop(id_, None)
            self.expecting.pop(id_, None)
            for name in entry.source.publishers:
                if publisher_channel(id_, name) in self.publishers:
                    self.let_go(publisher_channel(id_, name))
        self._forget_dropped(hosted)

    def _forget_dropped(self, hosted: Hosted) -> None:
        self.dropped = {channel: each for channel, each in self.dropped.items() if each.hosted is not hosted}

    def handle(self, header: Header, body: Any) -> None:
        """One control message. What names something that is not here any more is answered as ended, or ignored."""
        if header.channel in self.moved:
            self.moved[header.channel][0](header, body)
            return
        match header.kind:
            case wire.SUBSCRIBE:
                self._subscribe(header, said.document_of(body))
            case wire.UNSUBSCRIBE if header.channel in self.subscriptions:
                self._unsubscribe(self.subscriptions[header.channel])
            case wire.CREDIT if header.channel in self.subscriptions:
                self._grant(self.subscriptions[header.channel], header)
            case wire.OPEN:
                self._open(header, said.document_of(body))
            case wire.CLOSE:
                self._close(header, said.document_of(body))
            case wire.BEAT:
                self._hear(header, body)

    # Subscribers

    def _subscribe(self, header: Header, document: dict[str, Any]) -> None:
        terms = Terms.from_json(document, self.sockets.endpoint)
        hosted = self.outlets[header.channel][0] if header.channel in self.outlets else None
        if hosted is None or (terms.origin and not hosted.instance.number()):
            self._answer(terms.endpoint, header, {"id": terms.id, "here": False})
            return
        hosted, outlet = self.outlets[header.channel]
        subscription = outlet.subscriptions.get(terms.id)
        rows = sum(output.rows for output in hosted.instance.outputs if output.name == outlet.stream)
        ended = hosted.instance.done and subscription is None
        if subscription is None and not ended:
            subscription = self._attach(hosted, outlet, terms)
        if subscription is not None:
            subscription.terms = terms
            self._file(hosted, outlet, subscription)
            hosted.wake()
        wire_format = terms.format(outlet.format) if subscription is None else subscription.format
        until = _sent_until(hosted, outlet) if subscription is None else subscription.sent_until
        answer = {"id": terms.id, "here": True, "ended": ended, "state": hosted.instance.state, "rows": rows}
        answer |= {"schema": wire_format.schema.to_json(), "origin": wire_format.origin, "time": wire_format.time, "sent_until": until}
        if subscription is not None and not terms.reader:
            answer["place"] = self._place(subscription)
        self._answer(terms.endpoint, header, answer | {"subquery": hosted.instance.subquery, "cause": hosted.instance.cause})

    def subscribe_all(self, hosted: Hosted, documents: Sequence[dict[str, Any]]) -> None:
        """Subscriptions that the orchestrator took while the instance was made."""
        for id_, outlet in hosted.outlets.items():
            for terms in (
                Terms.from_json(document, self.sockets.endpoint) for document in documents if document["stream"] == outlet.stream
            ):
                if terms.id not in outlet.subscriptions and not hosted.instance.done:
                    self._announce(id_, self._attach(hosted, outlet, terms))

    def _announce(self, outlet: int, subscription: Subscription) -> None:
        """To who subscribed before deploy: from now on its heartbeats are wanted, here."""
        answer = {"id": subscription.terms.id, "place": self._place(subscription)}
        self._answer(subscription.terms.endpoint, Header(wire.SUBSCRIBED, outlet), answer)

    def _place(self, subscription: Subscription) -> dict[str, Any]:
        return {"endpoint": self.sockets.endpoint, "channel": subscription.id, "process": self.process}

    def _answer(self, endpoint: str, header: Header, document: dict[str, Any]) -> None:
        self.sockets.send(endpoint, Header(wire.SUBSCRIBED, header.channel), wire.to_json(document | {"process": self.process}))

    def _attach(self, hosted: Hosted, outlet: Outlet, terms: Terms) -> Subscription:
        instance = hosted.instance
        query = instance.name.rsplit("/", 2)[0]
        subscription = open_subscription(self.sockets, query, outlet, instance.index, terms, _sent_until(hosted, outlet))
        self._file(hosted, outlet, subscription)
        for output in instance.outputs:
            if output.name == outlet.stream:
                output.attach(subscription, terms.origin, terms.grain)
        return subscription

    def _grant(self, subscribed: Subscribed, header: Header) -> None:
        subscribed.peer.heard = time.monotonic()
        subscribed.subscription.grant(header)
        subscribed.hosted.wake()

    def _unsubscribe(self, subscribed: Subscribed) -> None:
        hosted, outlet, subscription, _ = subscribed
        outlet.dropped_rows += subscription.dropped + sum(rows for _, _, rows in subscription.held)
        outlet.subscriptions.pop(subscription.terms.id, None)
        self._unfile(subscription)
        outlet.dropped_rows += sum(output.detach(subscription) for output in hosted.instance.outputs)
        hosted.wake()

    def _file(self, hosted: Hosted, outlet: Outlet, subscription: Subscription) -> None:
        """Under its client, whose heartbeat it lives by."""
        before = self.subscriptions.get(subscription.id)
        peer = self._peer(subscription.terms.endpoint, client=not subscription.terms.reader)
        self.subscriptions[subscription.id] = Subscribed(hosted, outlet, subscription, peer)
        peer.subscriptions.add(subscription.id)
        peer.keep_s = min(peer.keep_s, subscription.terms.keep_s)
        if before is not None and before.peer is not peer:
            before.peer.subscriptions.discard(subscription.id)
            self._part(before.peer)

    def _unfile(self, subscription: Subscription) -> None:
        filed = self.subscriptions.pop(subscription.id, None)
        if filed is not None:
            filed.peer.subscriptions.discard(subscription.id)
            self._part(filed.peer)

    # Publishers

    def _open(self, header: Header, document: dict[str, Any]) -> None:
        name, endpoint = said.text(document, "publisher"), said.endpoint(document, self.sockets.endpoint)
        sent_until, channel = said.time(document, "sent_until"), publisher_channel(header.channel, name)
        hosted, entry = self.entries.get(header.channel, (None, None))
        if hosted is None or entry is None or hosted.instance.done or entry.source.ending or entry.source.ended:
            self.sockets.send(endpoint, Header(wire.OPENED, channel), wire.to_json({"here": False}))
            return
        known = entry.source.publishers.get(name)
        if document.get("awakes"):
            self._wake(channel, hosted, entry, name, endpoint)
            return
        if known is None:
            known = self.register(hosted, entry, name, sent_until)
        else:
            _cancel_closing(entry, known)
        self.dropped.pop(channel, None)
        entry.refused.discard(channel)
        self.file_publisher(channel, hosted, entry, known, endpoint)
        credit = {"consumed": known.inbox.consumed, "limit": known.inbox.grant()}
        body = wire.to_json({"here": True, "received": known.inbox.received, **self._here(), **credit})
        next_record = entry.source.records.get(name, 0)
        answer = Header(wire.OPENED, channel, known.inbox.sequence, watermark=entry.source.watermark, record=next_record)
        self.sockets.send(endpoint, answer, body)
        hosted.wake()  # it may have been the last that was waited for

    def _wake(self, channel: int, hosted: Hosted, entry: Entry, name: str, endpoint: str) -> None:
        """A publisher that is open here was idle, and is about to send."""
        self._peer(endpoint, client=True)
        if name in entry.source.publishers:
            body = wire.to_json({"here": True, "awakes": True})
            self.sockets.send(endpoint, Header(wire.OPENED, channel, watermark=entry.source.wake(name)), body)
        else:  # it counts as closed already
            self.sockets.send(endpoint, Header(wire.CLOSED, channel), wire.to_json({"record": entry.source.records.get(name, 0)}))
        hosted.wake()

    def file_publisher(self, channel: int, hosted: Hosted, entry: Entry, publisher: Publisher, endpoint: str) -> None:
        before, peer = self.publishers.get(channel), self._peer(endpoint, client=True)
        entry.endpoints[publisher.name] = endpoint
        self.publishers[channel] = Publishing(hosted, entry, publisher, peer)
        peer.publishers.add(channel)
        if before is not None and before.peer is not peer:
            before.peer.publishers.discard(channel)
            self._part(before.peer)

    def register(self, hosted: Hosted, entry: Entry, name: str, sent_until: int) -> Publisher:
        """It is new here; `sent_until`: the greatest event time that it has sent."""
        inbox = Inbox(f"{hosted.instance.name}<{name}", self.budget_bytes // 4)
        inbox.on_arrival = hosted.wake
        publisher = Publisher(name, wire.name_id(name) & PARTITION_MASK, inbox)
        entry.source.open(publisher, sent_until)
        return publisher

    def _close(self, header: Header, document: dict[str, Any]) -> None:
        """The last word of a publisher. What cannot be taken of it is the query's failure: its stream would never end."""
        last, others = said.flag(document, "last"), frozenset(said.texts(document, "others"))
        entry_id, endpoint = said.count(document, "entry", most=MAX_ID), said.endpoint(document, self.sockets.endpoint)
        if header.channel in self.publishers:
            hosted, _, publisher, _ = self.publishers[header.channel]
            try:
                publisher.inbox.accept(Closing(publisher.name, last, others), 0, header.sequence, 0, MIN_TIME, MIN_TIME)
            except MessagesLost as error:
                self._break(hosted, publisher.name, error)
            self.let_go(header.channel, word={"heard": True})
            return
        word: dict[str, Any] = {"heard": True}
        if entry_id in self.entries:
            hosted, entry = self.entries[entry_id]
            if (dropped := self.dropped.get(header.channel)) is not None:
                word |= self._compare(dropped, header.record)
            # The last word of one that was refused ends nothing, for what it sent is not complete.
            entry.source.finish(last and header.channel not in entry.refused, others)
            hosted.wake()
        self.sockets.send(endpoint, Header(wire.CLOSED, header.channel), wire.to_json(word))

    def _compare(self, dropped: Dropped, sent: int) -> dict[str, Any]:
        """Its last word: `sent`, in bytes, is all that it has sent here. What it is to hear of that."""
        vanished = dropped.entry.source.vanished[dropped.name]
        vanished.missing |= sent != vanished.received
        if vanished.missing:
            return {"record": vanished.record}
        dropped.entry.source.is_complete(dropped.name)
        return {}

    def let_go(self, channel: int, told: bool = True, word: dict[str, Any] | None = None) -> None:
        """The publisher is told that it is closed, and how that came, or has gone on of itself; it is heard no more."""
        _, entry, publisher, peer = self.publishers.pop(channel)
        endpoint = entry.endpoints.pop(publisher.name)
        if told:
            self.sockets.send(endpoint, Header(wire.CLOSED, channel), None if word is None else wire.to_json(word))
        else:
            entry.gone_on[publisher.name] = endpoint
        peer.publishers.discard(channel)
        self._part(peer)

    def _break(self, hosted: Hosted, publisher: str, error: MessagesLost) -> None:
        """What breaks a publisher's channel is the query's failure."""
        hosted.instance.fail(f"publisher {publisher!r}: {type(error).__name__}: {error}")
        hosted.wake()

    def _here(self) -> dict[str, Any]:
        return {"endpoint": self.sockets.endpoint, "process": self.process}

    def _peer(self, endpoint: str, client: bool) -> Peer:
        """Which has just been heard of."""
        peer = self.peers.setdefault(wire.name_id(endpoint), Peer(endpoint, client, 0.0))
        peer.heard = time.monotonic()
        return peer

    def _part(self, peer: Peer) -> None:
        """A client's socket goes with the last thing that it had here."""
        if not peer.publishers and not peer.subscriptions:
            self.peers.pop(wire.name_id(peer.endpoint), None)
            if peer.client:
                self.sockets.hang_up(peer.endpoint)

    def published(self, header: Header, body: Any) -> Account | None:
        """A batch or watermark of a publisher, and on whose account it is; None: it is none. What is no batch closes its channel: the
        publisher is told why, and the query says so (`Refused`). What is missing is the query's failure, for it would not be noticed."""
        if header.channel not in self.publishers:
            if header.channel in self.dropped and header.kind == wire.BATCH:  # it has woken up, and does not know yet
                _, entry, name = self.dropped[header.channel]
                entry.source.vanished[name].missing = True
            return None
        hosted, entry, publisher, peer = self.publishers[header.channel]
        peer.heard = time.monotonic()
        try:
            self._accept(entry, publisher, header, body)
        except MessagesLost as error:
            self._break(hosted, publisher.name, error)
        except Exception as error:  # whatever is wrong with what it sent harms nobody else
            self._refuse(header.channel, f"{type(error).__name__}: {error}")
            return entry.account
        if header.kind == wire.BARRIER:
            self.let_go(header.channel, told=False)
        return entry.account

    def _refuse(self, channel: int, reason: str) -> None:
        """It sent what cannot be taken: it counts as closed behind what came before that."""
        hosted, entry, publisher, _ = self.publishers[channel]
        entry.refused.add(channel)
        LOG.warning("%s: publisher %r was closed: %s", hosted.instance.name, publisher.name, reason)
        publisher.inbox.queue.append((Refused(reason), 0, MIN_TIME))
        hosted.wake()
        self.let_go(channel, word={"reason": reason})

    def _accept(self, entry: Entry, publisher: Publisher, header: Header, body: Any) -> None:
        element: Element | Published
        if header.kind == wire.BATCH:
            batch = wire.element_of(header, body, entry.format)
            assert isinstance(batch, Batch)
            publisher.last_row_us = clock_us()
            size = len(body)
            entry.account.take(len(batch.time), size)
            element = Published(batch, header.stamp, header.record)
        elif header.kind == wire.WATERMARK:
            element, size = Watermark(header.watermark), 0
        else:
            element, size = wire.element_of(header, body, entry.format), 0  # it goes on elsewhere
        publisher.inbox.accept(element, size, header.sequence, 0, header.watermark, MIN_TIME)

    def hear(self, publisher: int) -> None:
        """Something has come from a publisher, known by its channel."""
        self.publishers[publisher].peer.heard = time.monotonic()

    def _hear(self, header: Header, body: Any) -> None:
        """A heartbeat: of a client, which says where it is, or of an instance manager for one of its readers."""
        peer = self.peers.get(header.channel)
        if peer is None and header.channel in self.subscriptions:
            peer = self.subscriptions[header.channel].peer
        if peer is not None:
            peer.heard = time.monotonic()
        elif body:  # it was given up, or knew the process that was here before
            endpoint = said.endpoint({"endpoint": bytes(body).decode()}, self.sockets.endpoint)
            self.sockets.send(endpoint, Header(wire.UNKNOWN, header.channel, sequence=header.sequence), wire.to_json(self._here()))
            self.sockets.hang_up(endpoint)

    # Every turn, and every 100 ms

    def emit(self, hosted: Hosted) -> None:
        """Credit to publishers, for what an instance has taken."""
        for id_, entry in hosted.entries.items():
            for name, publisher in entry.source.publishers.items():
                inbox = publisher.inbox
                if inbox.credit_due and name in entry.endpoints:
                    channel, watermark = publisher_channel(id_, name), entry.source.watermark
                    header = Header(wire.CREDIT, channel, sequence=inbox.consumed, record=inbox.grant(), watermark=watermark)
                    self.sockets.send(entry.endpoints[name], header)

    def tick(self) -> None:
        """Drops who has been silent too long."""
        now, before = time.monotonic(), self.ticked
        self.ticked = now
        if now - before > AWAY_S:
            self._excuse(now, now - before)
        for peer in list(self.peers.values()):
            silent_s = now - peer.heard
            if silent_s > peer.keep_s:
                self._abandon(peer, silent_s)
            if silent_s > self.silence_s:
                self._drop_publishers(peer)
                self._part(peer)
        self.moved = {id_: each for id_, each in self.moved.items() if now - each[1] < FORWARD_S} if self.moved else self.moved
        for id_, (hosted, entry) in list(self.expecting.items()):
            entry.source.give_up_expected(clock_us(), round(self.silence_s * 1e6))
            if not entry.source.expected:
                del self.expecting[id_]
                hosted.wake()
        for dropped in list(self.dropped.values()):
            if dropped.entry.source.awaits_doubt:
                self._resolve(dropped)

    def _excuse(self, now: float, away_s: float) -> None:
        """We have not listened: that is nobody else's silence."""
        for peer in self.peers.values():
            peer.heard = min(now, peer.heard + away_s)
        for _, entry in self.expecting.values():
            entry.source.expected_from_us += round(away_s * 1e6) if entry.source.expected_from_us else 0

    def _abandon(self, peer: Peer, silent_s: float) -> None:
        """Gives up those subscriptions of a client that are not kept for so long."""
        kept = {id_: self.subscriptions[id_].subscription.terms.keep_s for id_ in peer.subscriptions}
        peer.keep_s = min((keep_s for keep_s in kept.values() if keep_s >= silent_s), default=math.inf)
        for id_ in [id_ for id_, keep_s in kept.items() if keep_s < silent_s]:
            self.sockets.send(peer.endpoint, Header(wire.UNSUBSCRIBE, id_))
            self._unsubscribe(self.subscriptions[id_])

    def _drop_publishers(self, peer: Peer) -> None:
        for channel in list(peer.publishers):
            hosted, entry, publisher, _ = self.publishers[channel]
            self.leave_short_way(hosted)
            entry.source.vanish(publisher.name, peer.endpoint)
            if publisher.name not in entry.source.publishers:
                self.dropped[channel] = Dropped(hosted, entry, publisher.name)
                self.let_go(channel, word={"record": entry.source.vanished[publisher.name].record})
                hosted.wake()

    def _resolve(self, dropped: Dropped) -> None:
        """The stream would have ended but for publishers that may have sent more. Those whose processes have ended have not."""
        hosted, entry, _ = dropped
        for name, vanished in entry.source.in_doubt.items():
            if not vanished.missing and is_gone(vanished.endpoint):
                entry.source.is_complete(name)
        if entry.source.awaits_doubt:
            hosted.instance.fail(entry.source.doubt())
        self._forget_dropped(hosted)
        hosted.wake()

    def unread(self, hosted: Hosted) -> bool:
        """Does a subscriber still have to take what this instance, which is over, has put out?"""
        held = any(s.held for outlet in hosted.outlets.values() for s in outlet.subscriptions.values())
        return hosted.instance.state == "ended" and held


def _sent_until(hosted: Hosted, outlet: Outlet) -> int:
    return max((output.sent_until for output in hosted.instance.outputs if output.name == outlet.stream), default=MIN_TIME)


def _cancel_closing(entry: Entry, publisher: Publisher) -> None:
    """It comes again before its last word was taken, or that it was refused: that was not the last. Why it was is told all the same."""
    queue = publisher.inbox.queue
    last = queue[-1][0] if queue else None
    if isinstance(last, Closing | Refused):
        queue.pop()
    if isinstance(last, Refused):
        entry.source.tell_refused(publisher, last.reason)
