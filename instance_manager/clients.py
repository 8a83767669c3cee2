"""Publishers and subscribers: what they say to this process, and what it answers.

A publisher opens at every reader of its stream, a subscriber at every instance that produces its stream; each names them by an id
that follows from query, stream and index. Silence is noticed here: of a publisher after 10 s, of a subscriber after its `keep_s`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from cep import wire
from cep.dataflow.channel import Inbox
from cep.dataflow.meter import Account
from cep.dataflow.source import Closing, Published, Publisher
from cep.elements import MIN_TIME, Batch, Element, Watermark
from cep.errors import CepError
from cep.transport import Sockets
from cep.wire import Header
from instance_manager.hosting import Entry, Hosted, Outlet, clock_us, open_subscription, publisher_channel
from instance_manager.subscriptions import Subscription, Terms

SILENCE_US = 10_000_000
PARTITION_MASK = (1 << 47) - 1


class Clients:
    """Handles the control messages of clients; used by the engine's thread."""

    def __init__(self, sockets: Sockets, budget_bytes: int) -> None:
        self.sockets, self.budget_bytes = sockets, budget_bytes
        self.outlets: dict[int, tuple[Hosted, Outlet]] = {}
        self.entries: dict[int, tuple[Hosted, Entry]] = {}
        self.subscriptions: dict[int, tuple[Outlet, Subscription]] = {}
        self.publishers: dict[int, tuple[Hosted, Entry, Publisher]] = {}

    def add(self, hosted: Hosted) -> None:
        for id_, outlet in hosted.outlets.items():
            self.outlets[id_] = (hosted, outlet)
            for subscription in outlet.subscriptions.values():
                self.subscriptions[subscription.id] = (outlet, subscription)
                self._announce(id_, subscription)
        for id_, entry in hosted.entries.items():
            self.entries[id_] = (hosted, entry)

    def remove(self, hosted: Hosted) -> None:
        for id_, outlet in hosted.outlets.items():
            self.outlets.pop(id_, None)
            for subscription in outlet.subscriptions.values():
                self.subscriptions.pop(subscription.id, None)
                self._part(subscription)
        for id_, entry in hosted.entries.items():
            self.entries.pop(id_, None)
            for name in entry.source.publishers:
                if publisher_channel(id_, name) in self.publishers:
                    self._let_go(publisher_channel(id_, name))

    def handle(self, header: Header, body: Any) -> None:
        """One control message. What names something that is not here any more is answered as ended, or ignored."""
        match header.kind:
            case wire.SUBSCRIBE:
                self._subscribe(header, wire.from_json(body))
            case wire.UNSUBSCRIBE if header.channel in self.subscriptions:
                self._unsubscribe(*self.subscriptions[header.channel])
            case wire.CREDIT if header.channel in self.subscriptions:
                self.subscriptions[header.channel][1].grant(header, time.monotonic())
            case wire.OPEN:
                self._open(header, wire.from_json(body))
            case wire.CLOSE:
                self._close(header, wire.from_json(body))
            case wire.BEAT:
                self._hear(header)

    # Subscribers

    def _subscribe(self, header: Header, document: dict[str, Any]) -> None:
        terms = Terms.from_json(document)
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
            subscription.hear(time.monotonic())
        wire_format = terms.format(outlet.format)
        until = _sent_until(hosted, outlet) if subscription is None else subscription.sent_until
        answer = {"id": terms.id, "here": True, "ended": ended, "state": hosted.instance.state, "rows": rows}
        answer |= {"schema": wire_format.schema.to_json(), "origin": wire_format.origin, "sent_until": until}
        self._answer(terms.endpoint, header, answer | {"subquery": hosted.instance.subquery, "cause": hosted.instance.cause})

    def subscribe_all(self, hosted: Hosted, documents: Sequence[dict[str, Any]]) -> None:
        """Subscriptions that the orchestrator took while the instance was made."""
        for id_, outlet in hosted.outlets.items():
            for terms in (Terms.from_json(document) for document in documents if document["stream"] == outlet.stream):
                if terms.id not in outlet.subscriptions and not hosted.instance.done:
                    self._announce(id_, self._attach(hosted, outlet, terms))

    def _announce(self, outlet: int, subscription: Subscription) -> None:
        """To who subscribed before deploy: from now on its heartbeats are wanted, here."""
        place = {"endpoint": self.sockets.endpoint, "channel": subscription.id}
        self._answer(subscription.terms.endpoint, Header(wire.SUBSCRIBED, outlet), {"id": subscription.terms.id, "beat": place})

    def _answer(self, endpoint: str, header: Header, document: dict[str, Any]) -> None:
        self.sockets.send(endpoint, Header(wire.SUBSCRIBED, header.channel), wire.to_json(document))

    def _attach(self, hosted: Hosted, outlet: Outlet, terms: Terms) -> Subscription:
        instance = hosted.instance
        query = instance.name.rsplit("/", 2)[0]
        subscription = open_subscription(self.sockets, query, outlet, instance.index, terms, _sent_until(hosted, outlet))
        self.subscriptions[subscription.id] = (outlet, subscription)
        for output in instance.outputs:
            if output.name == outlet.stream:
                output.attach(subscription, terms.origin, terms.grain)
        return subscription

    def _unsubscribe(self, outlet: Outlet, subscription: Subscription) -> None:
        outlet.dropped_rows += subscription.dropped + sum(rows for _, _, rows in subscription.held)
        outlet.subscriptions.pop(subscription.terms.id, None)
        self.subscriptions.pop(subscription.id, None)
        self._part(subscription)
        for hosted, other in self.outlets.values():
            if other is outlet:
                outlet.dropped_rows += sum(output.detach(subscription) for output in hosted.instance.outputs)

    # Publishers

    def _open(self, header: Header, document: dict[str, Any]) -> None:
        name, endpoint = document["publisher"], document["endpoint"]
        channel = publisher_channel(header.channel, name)
        hosted, entry = self.entries.get(header.channel, (None, None))
        if hosted is None or entry is None or hosted.instance.done or entry.source.ending or entry.source.ended:
            self.sockets.send(endpoint, Header(wire.OPENED, channel), wire.to_json({"here": False}))
            return
        known = entry.source.publishers.get(name)
        if known is None:
            known = self._register(hosted, entry, name, document)
        else:
            _cancel_closing(known)
        known.last_heard_us = clock_us()
        entry.endpoints[name] = endpoint
        self.publishers[channel] = (hosted, entry, known)
        credit = {"consumed": known.inbox.consumed, "limit": known.inbox.grant()}
        body = wire.to_json({"here": True, "received": known.inbox.received, **credit})
        next_record = entry.source.records.get(name, 0)
        answer = Header(wire.OPENED, channel, known.inbox.sequence, watermark=entry.source.watermark, record=next_record)
        self.sockets.send(endpoint, answer, body)

    def _register(self, hosted: Hosted, entry: Entry, name: str, document: dict[str, Any]) -> Publisher:
        inbox = Inbox(f"{hosted.instance.name}<{name}", self.budget_bytes // 4)
        publisher = Publisher(name, wire.name_id(name) & PARTITION_MASK, inbox, clock_us())
        entry.source.open(publisher, document["sent_until"])
        return publisher

    def _close(self, header: Header, document: dict[str, Any]) -> None:
        last, others = bool(document["last"]), frozenset(document["others"])
        if header.channel in self.publishers:
            publisher = self.publishers[header.channel][2]
            publisher.inbox.accept(Closing(publisher.name, last, others), 0, header.sequence, 0, MIN_TIME, MIN_TIME)
            self._let_go(header.channel)
            return
        if document["entry"] in self.entries:  # it counts as closed already, for it was silent for too long
            self.entries[document["entry"]][1].source.finish(last, others)
        self.sockets.send(document["endpoint"], Header(wire.CLOSED, header.channel))

    def _let_go(self, channel: int) -> None:
        """The publisher is told that it is closed, and heard no more."""
        _, entry, publisher = self.publishers.pop(channel)
        endpoint = entry.endpoints.pop(publisher.name)
        self.sockets.send(endpoint, Header(wire.CLOSED, channel))
        self._hang_up(endpoint)

    def _part(self, subscription: Subscription) -> None:
        """With a client; another instance manager is a peer, to whom queries' channels may lead."""
        if not subscription.terms.reader:
            self._hang_up(subscription.terms.endpoint)

    def _hang_up(self, endpoint: str) -> None:
        """A client's socket goes with the last thing that it had here."""
        reads = any(subscription.terms.endpoint == endpoint for _, subscription in self.subscriptions.values())
        if not reads and not any(entry.endpoints[p.name] == endpoint for _, entry, p in self.publishers.values()):
            self.sockets.hang_up(endpoint)

    def published(self, header: Header, body: Any) -> Account | None:
        """A batch or watermark of a publisher, and on whose account it is; None: it is none. What breaks its channel is the query's
        failure."""
        if header.channel not in self.publishers:
            return None
        hosted, entry, publisher = self.publishers[header.channel]
        try:
            self._accept(entry, publisher, header, body)
        except CepError as error:
            hosted.instance.fail(f"publisher {publisher.name!r}: {type(error).__name__}: {error}")
        return entry.account

    def _accept(self, entry: Entry, publisher: Publisher, header: Header, body: Any) -> None:
        publisher.last_heard_us = clock_us()
        element: Element | Published
        if header.kind == wire.BATCH:
            batch = wire.element_of(header, body, entry.format)
            assert isinstance(batch, Batch)
            publisher.last_row_us = publisher.last_heard_us
            entry.account.take(len(batch), len(body))
            element = Published(batch, header.stamp, header.record)
        else:
            element = Watermark(header.watermark)
        size = len(body) if header.kind == wire.BATCH else 0
        publisher.inbox.accept(element, size, header.sequence, 0, header.watermark, MIN_TIME)

    def _hear(self, header: Header) -> None:
        if header.channel in self.publishers:
            self.publishers[header.channel][2].last_heard_us = clock_us()
        if header.channel in self.subscriptions:
            self.subscriptions[header.channel][1].hear(time.monotonic())

    # Every turn, and every 100 ms

    def emit(self) -> bool:
        """Credit to publishers; rows to subscribers that have room again. Was there any?"""
        moved = False
        for channel, (_, entry, publisher) in self.publishers.items():
            if publisher.inbox.credit_due and publisher.name in entry.endpoints:
                inbox, moved = publisher.inbox, True
                header = Header(wire.CREDIT, channel, sequence=inbox.consumed, record=inbox.grant(), watermark=entry.source.watermark)
                self.sockets.send(entry.endpoints[publisher.name], header)
        return moved

    def tick(self) -> None:
        """Drops who has been silent too long."""
        now = time.monotonic()
        for outlet, subscription in list(self.subscriptions.values()):
            if subscription.is_abandoned(now):
                self.sockets.send(subscription.terms.endpoint, Header(wire.UNSUBSCRIBE, subscription.id))
                self._unsubscribe(outlet, subscription)
        for _, entry in self.entries.values():
            entry.source.drop_silent(clock_us(), SILENCE_US)
        gone = [c for c, (_, entry, p) in self.publishers.items() if p.name not in entry.source.publishers]
        for channel in gone:
            self._let_go(channel)

    def unread(self, hosted: Hosted) -> bool:
        """Does a subscriber still have to take what this instance, which is over, has put out?"""
        held = any(s.held for outlet in hosted.outlets.values() for s in outlet.subscriptions.values())
        return hosted.instance.state == "ended" and held


def _sent_until(hosted: Hosted, outlet: Outlet) -> int:
    return max((output.sent_until for output in hosted.instance.outputs if output.name == outlet.stream), default=MIN_TIME)


def _cancel_closing(publisher: Publisher) -> None:
    """It comes again before its last word was taken: that was not the last."""
    queue = publisher.inbox.queue
    if queue and isinstance(queue[-1][0], Closing):
        queue.pop()
