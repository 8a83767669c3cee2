"""Streams of other queries that instances here read: asks the instances that produce them, stays in touch, and lets go.

It is a subscriber as any client is (`instance_manager.clients.clients` is the other end), but its rows go to an inbox like those of a
channel: the same sequence numbers, credit and returned watermark. An instance is *ready* when all have answered.
"""

from __future__ import annotations

from typing import Any

from cep.dataflow.channel import Inbox
from cep.dataflow.sources.query_source import stopped
from cep.elements import MIN_TIME, End
from cep.errors import QueryFailed
from cep.model.schema import Schema
from cep.transport import wire
from cep.transport.wire import Format, Header
from instance_manager.clients import client_documents
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

    def handle(self, header: Header, body: Any) -> None:
        """What a producer says besides its rows; ignored if no instance here reads from it any more."""
        for hosted, attachment in self.reading:
            for producer, endpoint in attachment.feed.producers:
                if header.kind == wire.SUBSCRIBED and header.channel == attachment.outlet(producer).id:
                    self._answered(hosted, attachment, producer, endpoint, client_documents.document_of(body))
                elif header.kind == wire.UNSUBSCRIBE and header.channel == attachment.channel(producer).id:
                    silent_s = attachment.terms["keep_s"]
                    attachment.source.lose(f"instance {producer} heard nothing of this reader for {silent_s:g} s and dropped it")
                    hosted.wake()

    def _answered(self, hosted: InstanceHost, attachment: Attachment, producer: int, endpoint: str, answer: dict[str, Any]) -> None:
        source, sent_until = attachment.source, client_documents.time(answer, "sent_until") if answer.get("here") else MIN_TIME
        if producer not in source.expected or not answer["here"] or answer["id"] != attachment.terms["id"]:
            return  # it has answered already, is still being made and will be asked again, or another query was meant
        if answer["ended"] and answer["state"] != "ended":
            failure = QueryFailed(attachment.feed.query, answer["subquery"], producer, answer["cause"])
            source.lose(str(failure) if answer["state"] == "failed" else stopped(attachment.feed.query))
            hosted.wake()
            return
        channel = attachment.channel(producer)
        inbox = Inbox(str(channel), attachment.share)
        if answer["ended"]:
            inbox.accept(End(), 0, 0, MIN_TIME, MIN_TIME)
        else:
            wire_format = Format(Schema.from_json(answer["schema"]), client_documents.read_count(answer, "origin", most=ORIGIN_WORDS_MAX))
            account = hosted.ports.account_of(f"{attachment.feed.query}/{source.stream}")
            port = InPort(channel, inbox, wire_format, account, endpoint, paced=True)
            hosted.ports.add_in(port)
            self.network.incoming[port.id] = port
        inbox.on_arrival = hosted.wake
        source.attach(producer, inbox, sent_until)
        hosted.wake()

    def _ask(self, attachment: Attachment) -> None:
        """The producers that have not answered."""
        for producer, endpoint in attachment.feed.producers:
            if producer in attachment.source.expected:
                self.sockets.send(endpoint, Header(wire.SUBSCRIBE, attachment.outlet(producer).id), wire.to_json(attachment.terms))

    def tick(self) -> None:
        """Every 100 ms."""
        self._let_go()
        self._ticks += 1
        for _, attachment in self.reading:
            self._ask(attachment)
            if self._ticks % BEAT_TICKS == 0:
                self._tell(attachment, wire.BEAT)

    def _tell(self, attachment: Attachment, kind: int) -> None:
        for producer, endpoint in attachment.feed.producers:
            self.sockets.send(endpoint, Header(kind, attachment.channel(producer).id))

    def _let_go(self) -> None:
        """Of what is not read any more: its producers go on without us."""
        for _, attachment in self.reading:
            if attachment.source.released:
                self._tell(attachment, wire.UNSUBSCRIBE)
        self.reading = [(hosted, attachment) for hosted, attachment in self.reading if not attachment.source.released]
