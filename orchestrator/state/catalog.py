"""Streams as they are declared, and their publishers and readers."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cep.config import node
from cep.errors import Conflict, NotFound, ProtocolError, QueryError
from cep.model import streams as stream_documents
from cep.model.streams import Stream
from cep.plan.checkpoints import recovers
from cep.transport.endpoints import Endpoint
from orchestrator.records import PublisherRecord, Status, SubscriptionRecord
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.desired_nodes import DesiredNodes
from orchestrator.state.life_cycle import is_over
from orchestrator.state.quotas import check_subscribed


class Catalog:
    """Changes `model`, and what should be true in ZooKeeper with it."""

    def __init__(self, model: ClusterModel, desired: DesiredNodes) -> None:
        self.model, self.desired = model, desired

    def declare(self, stream: Stream) -> None:
        """Raises Conflict: it is declared differently, or is an output of a query, whose event time it carries (rule 4.4); TooLarge."""
        live = [name for name in self.model.feeding(stream.name) if not is_over(self.model.queries[name].state)]
        if live and (stream.event_time is not None or stream.files is not None):
            raise Conflict(f"stream {stream.name!r} is an output of query {live[0]!r} and has its event time; take another name")
        self.declare_read(stream)

    def declare_read(self, stream: Stream) -> None:
        """One that a query reads, which may give it new columns. Raises Conflict: it is declared differently; TooLarge."""
        declared = self.model.check_declared(stream)
        if declared is not self.model.streams.get(stream.name):
            self.desired.put(node("streams", stream.name), stream_documents.to_json(declared))
            self.model.streams[stream.name] = declared

    def undeclare(self, name: str) -> None:
        """Raises NotFound, or Conflict: it is in use."""
        if name not in self.model.streams:
            raise NotFound(f"there is no declared stream {name!r}; the output of a query goes with its query")
        for record in self.model.reading(name):
            if not is_over(record.state):
                raise Conflict(f"stream {name!r} is read by query {record.name!r}, which is {record.state}; stop it first")
        if there := self.model.publishers[name]:
            raise Conflict(f"stream {name!r} has an open publisher, {min(there)!r}; close it first")
        del self.model.streams[name]
        self.desired.delete(node("streams", name))

    def open_publisher(self, publisher: PublisherRecord) -> None:
        """One of the same name is open no more. Raises Conflict: the stream has too many."""
        self.check_publishers([publisher])
        if publisher.stream not in self.model.publishers:
            self.desired.put(node("publishers", publisher.stream), None)
        self.model.forget_publisher(publisher.stream, publisher.name)
        self.model.remember_publisher(publisher)
        self.desired.put(node("publishers", publisher.stream, publisher.name), publisher.to_json())

    def check_publishers(self, publishers: Sequence[PublisherRecord]) -> None:
        """Of streams, together. Raises Conflict: one would have too many."""
        wanted: dict[str, set[str]] = {}
        for each in publishers:
            wanted.setdefault(each.stream, set(self.model.publishers[each.stream])).add(each.name)
        for stream, names in wanted.items():
            if not names <= self.model.publishers[stream].keys():
                self.model.quotas.check_publishers(stream, len(names))

    def close_publisher(self, stream: str, name: str, endpoint: str | None = None) -> None:
        """With an `endpoint`: another process may have opened one of the same name by now, which stays open."""
        if self.model.is_replaced(stream, name, endpoint):
            return
        if self.model.forget_publisher(stream, name):
            self.desired.delete(node("publishers", stream, name))
            if stream not in self.model.publishers:
                self.desired.delete(node("publishers", stream))

    def subscribe(self, subscription: SubscriptionRecord, resumes: bool = False) -> list[str]:
        """The queries it concerns. Raises Conflict: the stream has too many, or too long ones, or can be the output of no query.
        NotFound: it `resumes` what there is not. QueryError: its endpoint is none of a client, or it is to be `resumable`, and its query
        does not recover."""
        _check_is_clients(subscription.endpoint, (manager.endpoint for manager in self.model.managers.values()))
        declared, feeding = self.model.streams.get(subscription.stream), self.model.feeding(subscription.stream)
        if declared is not None and (declared.event_time is not None or declared.files is not None) and not feeding:
            what = "is published by clients" if declared.files is None else "is read from files"
            raise Conflict(f"stream {subscription.stream!r} {what}; subscribe to an output of a query that reads it")
        there = self.model.subscriptions[subscription.stream]
        if subscription.resumable:
            self._check_resumable(feeding)
        if subscription.id not in there:
            self.model.quotas.check_subscribers(subscription.stream, len(there) + 1)
        subscription = _held(subscription, there.get(subscription.id), resumes)
        self._check_room(subscription, there.get(subscription.id))
        if not there:  # a folder of its own, which goes with the last
            self.desired.put(node("subscriptions", subscription.stream), None)
        self.model.subscriptions.put(subscription.stream, subscription.id, subscription)
        self.desired.put(node("subscriptions", subscription.stream, subscription.id), subscription.to_json())
        return self.model.feeding(subscription.stream)

    def _check_resumable(self, feeding: Iterable[str]) -> None:
        """Raises QueryError."""
        for name in feeding:
            if not (is_over(self.model.queries[name].state) or recovers(self.model.plans[name])):
                raise QueryError(f"query {name!r} does not recover, so nothing of it is resumed: options(recover=...)", "/resumable")

    def _check_room(self, subscription: SubscriptionRecord, known: SubscriptionRecord | None) -> None:
        """In place of the one that is `known`. Raises Conflict: what has to be written with it could not be."""
        stream, subscribed = subscription.stream, self.model.subscriptions
        more = subscribed.size(subscription) - (0 if known is None else subscribed.size(known))
        if more <= 0:
            return
        check_subscribed(f"stream {stream!r}", subscribed.total(stream) + more)
        for record in self.model.putting_out(stream):
            if not is_over(record.state):
                self.model.check_size(record, self.model.outputs_of(record.name), more)

    def unsubscribe(self, stream: str, id_: str, claim: str | None = None) -> list[str]:
        """The queries it concerns. With a `claim`: another process may have it by now."""
        known = self.model.subscriptions[stream].get(id_)
        if known is not None and claim not in (None, known.claim):
            return []
        if self.model.subscriptions.take(stream, id_) is None:
            return []
        self.desired.delete(node("subscriptions", stream, id_))
        if stream not in self.model.subscriptions:
            self.desired.delete(node("subscriptions", stream))
        return self.model.feeding(stream)

    def forget_lost(self, query: str, status: Status) -> None:
        """Subscriptions that an instance of the query has no more, for their clients were silent for too long, are ended at all of its
        instances. One that another process has by now is left alone."""
        record = self.model.queries.get(query)
        if record is None or (status.epoch, status.attempt) != (record.epoch, record.attempt):
            return
        for stream, id_, endpoint in status.lost:
            known = self.model.subscriptions[stream].get(id_)
            if known is not None and known.endpoint == endpoint and query in self.model.feeding(stream):
                self.unsubscribe(stream, id_)


def _check_is_clients(endpoint: str, of_members: Iterable[str]) -> None:
    """Instances write to that endpoint as members of the cluster: what listens there must not be one, which would heed it, nor an address
    of the client's choice. Raises QueryError."""
    try:
        there = Endpoint.parse(endpoint)
    except ProtocolError as error:
        raise QueryError(str(error), "/endpoint") from None
    if there.address:
        raise QueryError(f"endpoint: a client has no address, it calls: expected link://HOST@/PATH, got {endpoint[:200]!r}", "/endpoint")
    path = posixpath.normpath(f"/{there.path.lstrip('/')}")
    for each in map(Endpoint.parse, of_members):
        if (there.host, path) == (each.host, each.path) or (there.host and not each.host):
            raise QueryError(f"endpoint {endpoint[:200]!r} can be no client's of this cluster", "/endpoint")
    if path.startswith("/proc/"):
        raise QueryError(f"endpoint {endpoint[:200]!r}: no socket of a client is there", "/endpoint")


def _held(subscription: SubscriptionRecord, known: SubscriptionRecord | None, resumes: bool) -> SubscriptionRecord:
    """With the number of its holder. Raises NotFound: it is to be resumed, and there is none, or none that can be."""
    if resumes and (known is None or not known.resumable):
        raise NotFound(
            f"stream {subscription.stream!r} has no subscription {subscription.id!r} to resume: "
            "it was given up or dropped, or its query is over"
        )
    if known is None:
        return subscription
    return replace(subscription, holder=known.holder + (known.claim != subscription.claim))
