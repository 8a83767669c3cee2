"""Streams of other queries that instances here read: asks the instances that produce them, stays in touch, and lets go.

It is a subscriber as any client is (`instance_manager.clients.clients` is the other end), but its rows go to an inbox like those of a
channel: the same sequence numbers, credit and returned watermark. An instance is *ready* when all have answered.

Where the other query recovers, moves, or is upgraded, it begins another attempt, of which the orchestrator tells (`Followed`). Its
producers have what we had not taken, by the numbers of their elements, which go on over attempts; so nothing is missing, and nothing
comes twice. One that has recovered from before we came knows nothing of us, and has given us nothing, for no commit covered it: we come
anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cep.dataflow.channel import Inbox
from cep.dataflow.sources.query_source import stopped
from cep.elements import MIN_TIME, End
from cep.errors import QueryFailed
from cep.model.schema import Schema
from cep.transport import wire
from cep.transport.wire import Format, Header
from instance_manager.clients import client_documents
from instance_manager.control.assignment_checks import Followed
from instance_manager.hosting import Attachment, InstanceHost
from instance_manager.network import Network
from instance_manager.ports import InPort

ORIGIN_WORDS_MAX = 1 << 10
BEAT_TICKS = 10  # a heartbeat every second


class Feeds:
    """Used by the engine's thread."""

    def __init__(self, network: Network) -> None:
        self.network, self.sockets = network, network.sockets
        self.reading: list[tuple[InstanceHost, Attachment]] = []
        self._ticks = 0

    def add(self, hosted: InstanceHost) -> None:
        for attachment in hosted.attachments:
            self.reading.append((hosted, attachment))
            self._ask(attachment)

    def remove(self, hosted: InstanceHost) -> None:
        for attachment in hosted.attachments:
            attachment.source.release()
        self._let_go()

    def follow(self, hosted: InstanceHost, feeds: Mapping[str, Followed]) -> None:
        """Queries that it reads have begun another attempt."""
        for attachment in hosted.attachments:
            told = feeds.get(attachment.source.stream)
            if told is not None and told.attempt > attachment.attempt:
                for producer, (inbox, _) in attachment.joined.items():
                    if (port := hosted.ports.incoming.get(attachment.channel(producer).id)) is not None:
                        hosted.ports.forget_in(port.id)
                        self.network.forget([port.id], ())
                    inbox.begin_anew()
                attachment.behind = set(attachment.joined)
                attachment.attempt, attachment.endpoints = told.attempt, dict(told.producers)
                self._ask(attachment)

    def handle(self, header: Header, body: Any) -> None:
        """What a producer says besides its rows; ignored if no instance here reads from it any more."""
        for hosted, attachment in self.reading:
            for producer, endpoint in attachment.endpoints.items():
                if header.kind == wire.SUBSCRIBED and header.channel == attachment.outlet(producer).id:
                    self._answered(hosted, attachment, producer, endpoint, client_documents.document_of(body))
                elif header.kind == wire.UNSUBSCRIBE and header.channel == attachment.channel(producer).id:
                    silent_s = attachment.terms["keep_s"]
                    attachment.source.lose(f"instance {producer} heard nothing of this reader for {silent_s:g} s and dropped it")
                    hosted.wake()

    def _answered(self, hosted: InstanceHost, attachment: Attachment, producer: int, endpoint: str, answer: dict[str, Any]) -> None:
        is_asked = producer in attachment.source.expected or producer in attachment.behind
        if not is_asked or not answer.get("here") or answer["id"] != attachment.terms["id"]:
            return  # it has answered already, is still being made and will be asked again, or another query was meant
        if why := _why_not(attachment, producer, answer):
            attachment.source.lose(why)
        elif producer in attachment.behind:
            attachment.behind.discard(producer)
            attachment.joined[producer] = attachment.joined[producer][0], client_documents.text(answer, "lineage", "")
            attachment.source.begin(client_documents.time(answer, "sent_until"))
            self._open(hosted, attachment, producer, endpoint, answer)
        else:
            inbox = Inbox(str(attachment.channel(producer)), attachment.share)
            attachment.joined[producer] = inbox, client_documents.text(answer, "lineage", "")
            if answer["ended"]:
                inbox.accept(End(), 0, 0, MIN_TIME, MIN_TIME)
            else:
                self._open(hosted, attachment, producer, endpoint, answer)
            inbox.on_arrival = hosted.wake
            attachment.source.attach(producer, inbox, client_documents.time(answer, "sent_until"))
        hosted.wake()

    def _open(self, hosted: InstanceHost, attachment: Attachment, producer: int, endpoint: str, answer: dict[str, Any]) -> None:
        """What it sends comes to its inbox."""
        source, channel = attachment.source, attachment.channel(producer)
        wire_format = Format(Schema.from_json(answer["schema"]), client_documents.read_count(answer, "origin", most=ORIGIN_WORDS_MAX))
        account = hosted.ports.account_of(f"{attachment.feed.query}/{source.stream}")
        port = InPort(channel, attachment.joined[producer][0], wire_format, account, endpoint, paced=True)
        hosted.ports.add_in(port)
        self.network.incoming[port.id] = port

    def _ask(self, attachment: Attachment) -> None:
        """The producers that have not answered."""
        for producer in attachment.source.expected | attachment.behind:
            if producer in attachment.endpoints:
                asked = wire.to_json(attachment.asked(producer))
                self.sockets.send(attachment.endpoints[producer], Header(wire.SUBSCRIBE, attachment.outlet(producer).id), asked)

    def tick(self) -> None:
        """Every 100 ms."""
        self._let_go()
        self._ticks += 1
        for _, attachment in self.reading:
            self._ask(attachment)
            if self._ticks % BEAT_TICKS == 0:
                self._tell(attachment, wire.BEAT)

    def _tell(self, attachment: Attachment, kind: int) -> None:
        for producer, endpoint in attachment.endpoints.items():
            self.sockets.send(endpoint, Header(kind, attachment.channel(producer).id))

    def _let_go(self) -> None:
        """Of what is not read any more: its producers go on without us."""
        for _, attachment in self.reading:
            if attachment.source.released:
                self._tell(attachment, wire.UNSUBSCRIBE)
        self.reading = [(hosted, attachment) for hosted, attachment in self.reading if not attachment.source.released]


def _why_not(attachment: Attachment, producer: int, answer: dict[str, Any]) -> str:
    """Why nothing more comes of a producer, which has not ended; empty: it goes on."""
    query = attachment.feed.query
    if why := answer.get("refused"):
        return f"instance {producer} of query {query!r} cannot go on for this reader: {why}"
    if answer["ended"] and answer["state"] != "ended":
        failure = QueryFailed(query, answer["subquery"], producer, answer["cause"])
        return str(failure) if answer["state"] == "failed" else stopped(query)
    knows_nothing = producer in attachment.behind and answer.get("lineage") != attachment.joined[producer][1]
    if knows_nothing and (answer["ended"] or any(inbox.taken for inbox, _ in attachment.joined.values())):
        return f"query {query!r} has recovered from before a checkpoint covered that this query reads it; deploy this one anew"
    return ""
