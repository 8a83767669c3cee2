"""Publishers and subscribers: what they say to this process, and what it answers.

A publisher opens at every reader of its stream, a subscriber at every instance that produces its stream; each names them by an id
that follows from query, stream and index. Silence is noticed here: of a publisher after 10 s, of a subscriber after its `keep_s`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from cep import wire
from cep.dataflow.channel import Inbox
from cep.dataflow.elements import MIN_TIME, Batch, Element, Watermark
from cep.dataflow.source import Closing, Published, Publisher
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
        for id_, entry in hosted.entries.items():
            self.entries[id_] = (hosted, entry)

    def remove(self, hosted: Hosted) -> None:
        for id_, outlet in hosted.outlets.items():
            self.outlets.pop(id_, None)
            for subscription in outlet.subscriptions.values():
                self.subscriptions.pop(subscription.id, None)
        for id_, entry in hosted.entries.items():
            self.entries.pop(id_, None)
            for name in entry.source.publishers:
                self.publishers.pop(publisher_channel(id_, name), None)

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
            case wire.CLOSE if header.channel in self.publishers:
                self._close(header, wire.from_json(body))
            case wire.CLOSE:
                self.sockets.send(wire.from_json(body)["endpoint"], Header(wire.CLOSED, header.channel))
            case wire.BEAT:
                self._hear(header)

    # Subscribers

    def _subscribe(self, header: Header, document: dict[str, Any]) -> None:
        terms = Terms.from_json(document)
        if header.channel not in self.outlets:
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
        answer = {"id": terms.id, "here": True, "ended": ended, "state": hosted.instance.state, "rows": rows}
        self._answer(terms.endpoint, header, answer | {"schema": outlet.format.schema.to_json()})

    def _answer(self, endpoint: str, header: Header, document: dict[str, Any]) -> None:
        self.sockets.send(endpoint, Header(wire.SUBSCRIBED, header.channel), wire.to_json(document))

    def _attach(self, hosted: Hosted, outlet: Outlet, terms: Terms) -> Subscription:
        instance = hosted.instance
        query = instance.name.rsplit("/", 2)[0]
        subscription = open_subscription(self.sockets, query, outlet, instance.index, terms)
        self.subscriptions[subscription.id] = (outlet, subscription)
        for output in instance.outputs:
            if output.name == outlet.stream:
                output.attach(subscription)
        return subscription

    def _unsubscribe(self, outlet: Outlet, subscription: Subscription) -> None:
        outlet.dropped_rows += sum(rows for _, _, rows in subscription.held)
        outlet.subscriptions.pop(subscription.terms.id, None)
        self.subscriptions.pop(subscription.id, None)
        for hosted, other in self.outlets.values():
            if other is outlet:
                for output in hosted.instance.outputs:
                    output.detach(subscription)

    # Publishers

    def _open(self, header: Header, document: dict[str, Any]) -> None:
        name, endpoint = document["publisher"], document["endpoint"]
        channel = publisher_channel(header.channel, name)
        hosted, entry = self.entries.get(header.channel, (None, None))
        if hosted is None or entry is None or hosted.instance.done or entry.source.ended:
            self.sockets.send(endpoint, Header(wire.OPENED, channel), wire.to_json({"here": False}))
            return
        known = entry.source.publishers.get(name)
        if known is None:
            known = self._register(header.channel, hosted, entry, name, document)
        watermark = entry.source.watermark
        body = wire.to_json({"here": True, "limit": known.inbox.limit()})
        self.sockets.send(endpoint, Header(wire.OPENED, channel, watermark=watermark), body)

    def _register(self, id_: int, hosted: Hosted, entry: Entry, name: str, document: dict[str, Any]) -> Publisher:
        channel = publisher_channel(id_, name)
        inbox = Inbox(f"{hosted.instance.name}<{name}", self.budget_bytes // 4)
        publisher = Publisher(name, wire.name_id(name) & PARTITION_MASK, inbox, clock_us())
        entry.endpoints[name] = document["endpoint"]
        entry.source.open(publisher)
        if hosted.instance.state == "ready" and document["max_time"] > MIN_TIME:
            entry.source.since = max(entry.source.since, document["max_time"] + 1)
        self.publishers[channel] = (hosted, entry, publisher)
        return publisher

    def _close(self, header: Header, document: dict[str, Any]) -> None:
        _, entry, publisher = self.publishers.pop(header.channel)
        publisher.inbox.accept(Closing(publisher.name, document["last"]), 0, header.sequence, 0, MIN_TIME, MIN_TIME)
        self.sockets.send(document["endpoint"], Header(wire.CLOSED, header.channel))
        entry.endpoints.pop(publisher.name, None)

    def published(self, header: Header, body: Any) -> bool:
        """A batch or watermark of a publisher. Was it one?"""
        if header.channel not in self.publishers:
            return False
        hosted, entry, publisher = self.publishers[header.channel]
        publisher.last_heard_us = clock_us()
        element: Element | Published
        if header.kind == wire.BATCH:
            batch = wire.element_of(header, body, entry.format)
            assert isinstance(batch, Batch)
            element = Published(batch, header.stamp, header.record)
        else:
            element = Watermark(header.watermark)
        size = len(body) if header.kind == wire.BATCH else 0
        publisher.inbox.accept(element, size, header.sequence, 0, header.watermark, MIN_TIME)
        return True

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
                publisher.inbox.credit_due, moved = False, True
                inbox = publisher.inbox
                header = Header(wire.CREDIT, channel, sequence=inbox.consumed, record=inbox.limit(), watermark=entry.source.watermark)
                self.sockets.send(entry.endpoints[publisher.name], header)
        return moved

    def tick(self) -> None:
        """Drops who has been silent too long."""
        now = time.monotonic()
        for outlet, subscription in list(self.subscriptions.values()):
            if subscription.is_abandoned(now):
                self._unsubscribe(outlet, subscription)
        for _, entry in self.entries.values():
            entry.source.drop_silent(clock_us(), SILENCE_US)
        gone = [c for c, (_, entry, p) in self.publishers.items() if p.name not in entry.source.publishers]
        for channel in gone:
            del self.publishers[channel]

    def unread(self, outlets: Iterable[Outlet]) -> int:
        """Messages that subscribers have not taken yet."""
        return sum(len(s.held) for outlet in outlets for s in outlet.subscriptions.values())

