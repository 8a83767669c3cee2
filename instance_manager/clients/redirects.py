"""Publishers of an instance that moves (`instance_manager.moves`): what they hear from its old place and its new one, and what these hear.

1. The old place tells each that is open there where the instance will be (REDIRECT, with the move's Barrier). The publisher puts the
   Barrier behind what it has sent, and from then on sends to the new place, to which it says OPEN with the numbers it has come to
   (sequence: of its next element, record: bytes sent). They are true there, for what went to the old place is taken before the
   instance runs at the new one; so nothing waits for an answer, and a credit that is late from the old place is no mistake.
2. A publisher that opens at the old place meanwhile is told the same; once that has begun to leave, or has seen the publisher go, its OPEN
   is passed on. One that comes to the new place without numbers waits there for what the source knows.
3. The old place says which have gone on (`gone_on`). One that has opened at the new place and is not among them was silent for so long that
   it counted as closed: it is told so. One that is among them and has not opened yet binds the watermark, and lives until it is silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from cep.dataflow.meter import Account
from cep.dataflow.sources.publishers import Closing, Published, PublisherPartition, Vanished
from cep.elements import MIN_TIME, MoveBarrier
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.wire import Header
from instance_manager.clients import client_documents
from instance_manager.clients.clients import Clients
from instance_manager.clients.doors import door_of
from instance_manager.clients.publishers import MAX_ID
from instance_manager.hosting import Entry, InstanceHost


class Redirects:
    """Used by the engine's thread."""

    def __init__(self, clients: Clients) -> None:
        self.clients, self.publishers, self.sockets = clients, clients.publishers, clients.sockets

    def handle(self, header: Header, body: Any) -> bool:
        """An OPEN or CLOSE. Is it one about an instance that moves, or has? It has been seen to then."""
        if header.kind == wire.CLOSE:
            return header.channel not in self.publishers.here and self._close_late(header, body)
        if header.channel not in self.publishers.entries:
            return False
        hosted, entry = self.publishers.entries[header.channel]
        if hosted.instance.done:
            return False
        if header.sequence:
            self._follow(hosted, entry, header, client_documents.document_of(body))
        elif entry.early is not None:
            entry.early.append((header, bytes(body)))
        else:
            return hosted.move.leaving is not None and self._open_late(hosted, hosted.move.leaving, entry, header, body)
        return True

    # The old place

    def begin(self, hosted: InstanceHost, barrier: MoveBarrier) -> None:
        """It moves, once everything has come that is on its way."""
        hosted.move.leaving = barrier
        for id_, entry in hosted.entries.items():
            for name in entry.source.publishers:
                self._tell(id_, entry, name, barrier)
        if hosted.entries:
            hosted.movement.begin(barrier)

    def _tell(self, entry_id: int, entry: Entry, name: str, barrier: MoveBarrier) -> None:
        """One that has said its last word need not know."""
        channel = publisher_channel(entry_id, name)
        if channel in self.publishers.here:
            self.sockets.send(entry.endpoints[name], Header(wire.REDIRECT, channel), wire.body_of(barrier, entry.format))

    def _open_late(self, hosted: InstanceHost, barrier: MoveBarrier, entry: Entry, header: Header, body: Any) -> bool:
        name = client_documents.text(client_documents.document_of(body), "publisher")
        if hosted.instance.alignment.works or name in entry.gone_on:
            self.sockets.send(barrier.endpoint, header, bytes(body))
        else:
            self.clients.handle(header, body)
            self._tell(header.channel, entry, name, barrier)
        return True

    def gone_on(self, hosted: InstanceHost) -> dict[str, Any]:
        """By stream: its publishers, which are all on their way to the new place, and what was received of them here."""
        return {
            entry.source.stream: {
                "account": asdict(entry.account),
                "publishers": {name: [entry.gone_on[name], *_come_to(each)] for name, each in entry.source.publishers.items()},
            }
            for entry in hosted.entries.values()
        }

    # The new place

    def _follow(self, hosted: InstanceHost, entry: Entry, header: Header, document: Mapping[str, Any]) -> None:
        """One comes that the old place has redirected."""
        name, endpoint = client_documents.text(document, "publisher"), client_documents.endpoint(document, self.sockets.endpoint)
        channel = publisher_channel(header.channel, name)
        known = entry.source.publishers.get(name)
        if known is None and entry.early is None:
            word = wire.to_json({"record": entry.source.records.get(name, 0)})
            self.sockets.send(endpoint, Header(wire.CLOSED, channel), word)
            return
        if known is None:
            known = self._admit(hosted, entry, name, header.sequence, header.record)
        self.publishers.file(channel, hosted, entry, known, endpoint, door_of(entry.format, document, entry.source.columns))
        inbox = known.inbox
        credit = Header(wire.CREDIT, channel, inbox.consumed, watermark=entry.source.watermark, record=inbox.grant())
        self.sockets.send(endpoint, credit)

    def _admit(self, hosted: InstanceHost, entry: Entry, name: str, sequence: int, sent: int) -> PublisherPartition:
        publisher = self.publishers.register(hosted, entry, name, MIN_TIME)
        inbox = publisher.inbox
        inbox.sequence, inbox.received, inbox.consumed = sequence, sent, sent
        return publisher

    def expect(self, hosted: InstanceHost, found: Mapping[str, Any]) -> None:
        """What `gone_on` said at the old place."""
        for id_, entry in hosted.entries.items():
            there = found[entry.source.stream]
            entry.followers = frozenset(there["publishers"])
            entry.account.add(Account(**there["account"]))  # what publishers that are here already have sent is counted here
            for name in entry.followers - entry.source.publishers.keys():
                endpoint, sequence, sent, last_row_us = there["publishers"][name]
                publisher = self._admit(hosted, entry, name, sequence, sent)
                publisher.last_row_us = last_row_us
                self.publishers.file(publisher_channel(id_, name), hosted, entry, publisher, endpoint)

    def settle(self, hosted: InstanceHost) -> None:
        """The source has everything that it had at its old place."""
        for id_, entry in hosted.entries.items():
            for name in entry.source.publishers.keys() - entry.followers:
                self._refuse(id_, entry, name)
            early, entry.early = entry.early or [], None
            for header, body in early:
                self.clients.handle(header, body)

    def _refuse(self, entry_id: int, entry: Entry, name: str) -> None:
        """It counts as closed already; what it has sent since is not taken."""
        source = entry.source
        queue = source.publishers[name].inbox.queue
        last, rows = queue[-1][0] if queue else None, any(isinstance(each, Published) for each, *_ in queue)
        channel = publisher_channel(entry_id, name)
        vanished = source.vanished.setdefault(name, Vanished(entry.endpoints.get(name, ""), 0, source.records.get(name, 0)))
        vanished.missing |= rows
        vanished.complete = isinstance(last, Closing) and not vanished.missing
        if channel in self.publishers.here:
            self.publishers.let_go(channel, word={"record": vanished.record})
        source.close(name)
        if isinstance(last, Closing):
            source.finish(last.last, last.others)

    def _close_late(self, header: Header, body: Any) -> bool:
        """Of one that is not known here, or no more."""
        id_ = client_documents.read_count(client_documents.document_of(body), "entry", most=MAX_ID)
        if self.clients.forwarding.pass_on(id_, header, body):
            return True
        early = self.publishers.entries[id_][1].early if id_ in self.publishers.entries else None
        if early is not None:
            early.append((header, bytes(body)))
        return early is not None

    def give_up(self, hosted: InstanceHost) -> None:
        """It goes without having run here: one that has come is not closed, but has to look again where the stream is read."""
        for id_, entry in hosted.entries.items() if hosted.instance.state == "arriving" else ():
            for channel, endpoint in [*self._open_at(id_, entry), *_opening(entry)]:
                self.sockets.send(endpoint, Header(wire.OPENED, channel), wire.to_json({"here": False}))
                if channel in self.publishers.here:
                    self.publishers.let_go(channel, told=False)

    def _open_at(self, entry_id: int, entry: Entry) -> Iterator[tuple[int, str]]:
        return ((publisher_channel(entry_id, name), endpoint) for name, endpoint in entry.endpoints.items())


def _opening(entry: Entry) -> Iterator[tuple[int, str]]:
    """Channel and endpoint of those that wait to be let in."""
    for header, body in entry.early or ():
        if header.kind == wire.OPEN:
            document = wire.from_json(body)
            yield publisher_channel(header.channel, document["publisher"]), document["endpoint"]


def _come_to(publisher: PublisherPartition) -> tuple[int, int, int | None]:
    return publisher.inbox.sequence, publisher.inbox.received, publisher.last_row_us
