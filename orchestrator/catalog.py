"""Streams as they are declared, and who publishes to them and reads them."""

from __future__ import annotations

from cep.config import node
from cep.errors import Conflict, NotFound
from cep.model import streams as stream_documents
from cep.model.limits import SUBSCRIPTIONS_MAX
from cep.model.streams import Stream
from orchestrator.known import Known
from orchestrator.life_cycle import is_over
from orchestrator.records import Publisher, Subscription
from orchestrator.written import Written


class Catalog:
    """Changes `known`, and has the same written."""

    def __init__(self, known: Known, written: Written) -> None:
        self.known, self.written = known, written

    def declare(self, stream: Stream) -> None:
        """Raises Conflict: it is declared differently, or is an output of a query, whose event time it carries (DESIGN 4.4)."""
        live = [name for name in self.known.feeding(stream.name) if not is_over(self.known.queries[name].state)]
        if live and (stream.event_time is not None or stream.files is not None):
            raise Conflict(f"stream {stream.name!r} is an output of query {live[0]!r} and has its event time; take another name")
        self.declare_read(stream)

    def declare_read(self, stream: Stream) -> None:
        """One that a query reads. Raises Conflict: it is declared differently."""
        self.known.check_declared(stream)
        if stream.name not in self.known.streams:
            self.known.streams[stream.name] = stream
            self.written.put(node("streams", stream.name), stream_documents.to_json(stream))

    def undeclare(self, name: str) -> None:
        """Raises NotFound, or Conflict: it is in use."""
        if name not in self.known.streams:
            raise NotFound(f"there is no declared stream {name!r}; the output of a query goes with its query")
        for record in self.known.reading(name):
            if not is_over(record.state):
                raise Conflict(f"stream {name!r} is read by query {record.name!r}, which is {record.state}; stop it first")
        if there := self.known.publishers[name]:
            raise Conflict(f"stream {name!r} has an open publisher, {min(there)!r}; close it first")
        del self.known.streams[name]
        self.written.delete(node("streams", name))

    def open_publisher(self, publisher: Publisher) -> None:
        """One of the same name is open no more."""
        if publisher.stream not in self.known.publishers:
            self.written.put(node("publishers", publisher.stream), None)
        self.known.forget_publisher(publisher.stream, publisher.name)
        self.known.remember_publisher(publisher)
        self.written.put(node("publishers", publisher.stream, publisher.name), publisher.to_json())

    def close_publisher(self, stream: str, name: str) -> None:
        if self.known.forget_publisher(stream, name):
            self.written.delete(node("publishers", stream, name))
            if stream not in self.known.publishers:
                self.written.delete(node("publishers", stream))

    def subscribe(self, subscription: Subscription) -> list[str]:
        """The queries it concerns. Raises Conflict: the stream has too many."""
        there = self.known.subscriptions[subscription.stream]
        if subscription.id not in there and len(there) >= SUBSCRIPTIONS_MAX:
            raise Conflict(f"stream {subscription.stream!r} has {len(there):,} subscriptions; no more fit into its queries' assignments")
        if not there:  # a folder of its own, which goes with the last
            self.written.put(node("subscriptions", subscription.stream), None)
        self.known.subscriptions.put(subscription.stream, subscription.id, subscription)
        self.written.put(node("subscriptions", subscription.stream, subscription.id), subscription.to_json())
        return self.known.feeding(subscription.stream)

    def unsubscribe(self, stream: str, id_: str) -> list[str]:
        """The queries it concerns."""
        if self.known.subscriptions.take(stream, id_) is None:
            return []
        self.written.delete(node("subscriptions", stream, id_))
        if stream not in self.known.subscriptions:
            self.written.delete(node("subscriptions", stream))
        return self.known.feeding(stream)
