"""Publishers: what they say to the instances here that read their streams, and what these answer.

A publisher that counts as closed may only have been stopped, and have sent more. Its last word says how much; until that has come, or
its process has ended, the stream does not end as if it were complete: its query fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from cep.dataflow.channel import Inbox
from cep.dataflow.meter import Account
from cep.dataflow.sources.publishers import Closing, Published, PublisherPartition, PublisherRefused
from cep.elements import MIN_TIME, Batch, Element, Watermark
from cep.errors import MessagesLost
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.sockets import Sockets, is_gone
from cep.transport.wire import Header
from cep.world.clock import Clock
from cep.world.rings import Rings
from instance_manager.clients import client_documents, openings
from instance_manager.clients.doors import StreamDoor, door_of
from instance_manager.clients.heir import Heir
from instance_manager.clients.peers import Peer, Peers
from instance_manager.hosting import Entry, InstanceHost, Taken

PARTITION_MASK = (1 << 47) - 1
MAX_ID = 2**64 - 1  # of what a header names
REPLACED = {"reason": "another publisher of its name goes on in its place", "replaced": True}

LOG = logging.getLogger(__name__)


class Publishing(NamedTuple):
    """A publisher, and which instance reads it."""

    hosted: InstanceHost
    entry: Entry
    publisher: PublisherPartition
    peer: Peer
    door: StreamDoor
    incarnation: str  # of all publishers of its name it is this one; empty: its query does not recover


class Dropped(NamedTuple):
    """A publisher that counts as closed for its silence."""

    hosted: InstanceHost
    entry: Entry
    name: str


class Publishers:
    """`share`: bytes that each may have under way; `process` tells clients this process from another that comes in its place;
    `rings`: where those keep what they have sent, None: in their own memory."""

    def __init__(self, sockets: Sockets, peers: Peers, share: int, clock: Clock, process: int, rings: Rings | None = None) -> None:
        self.sockets, self.peers, self.share, self.clock, self.process = sockets, peers, share, clock, process
        self.is_gone: Callable[[str], bool] = partial(is_gone, ours=sockets.endpoint)
        self.entries: dict[int, tuple[InstanceHost, Entry]] = {}
        self.here: dict[int, Publishing] = {}  # by channel, like those that follow
        self.dropped: dict[int, Dropped] = {}
        self.answered: set[int] = set()  # those that know that they are open
        self.heir = Heir(rings, self)
        self._expecting: dict[int, tuple[InstanceHost, Entry]] = {}  # entries that wait for publishers to open

    def add(self, hosted: InstanceHost) -> None:
        """The instance is at home."""
        for id_, entry in hosted.entries.items():
            self.entries[id_] = hosted, entry
            if entry.source.expected:
                self._expecting[id_] = hosted, entry
        self.heir.look({id_: (hosted, entry) for id_, entry in hosted.entries.items()})

    def remove(self, hosted: InstanceHost) -> None:
        for channel in [channel for channel, here in self.here.items() if here.hosted is hosted]:
            self.let_go(channel)
        self.heir.forget(hosted)
        self.hand_over(hosted)

    def hand_over(self, hosted: InstanceHost) -> list[int]:
        """The instance has moved: the ids of its entries. Its publishers have gone on."""
        for id_ in hosted.entries:
            self.entries.pop(id_, None)
            self._expecting.pop(id_, None)
        self._forget_dropped(hosted)
        return list(hosted.entries)

    def note_dropped(self, hosted: InstanceHost) -> None:
        """Of an instance that has come from elsewhere."""
        for id_, entry in hosted.entries.items():
            for name in entry.source.vanished.in_doubt:
                self.dropped[publisher_channel(id_, name)] = Dropped(hosted, entry, name)

    def _forget_dropped(self, hosted: InstanceHost) -> None:
        self.dropped = {channel: each for channel, each in self.dropped.items() if each.hosted is not hosted}

    # Opening and closing

    def open(self, header: Header, document: dict[str, Any]) -> None:
        name, endpoint = client_documents.text(document, "publisher"), client_documents.endpoint(document, self.sockets.endpoint)
        channel = publisher_channel(header.channel, name)
        hosted, entry = self.entries.get(header.channel, (None, None))
        if entry is not None and openings.is_covered(entry.source, name, document):
            self._say_closed(endpoint, channel, {"heard": True, "covered": True}, document)
        elif hosted is None or entry is None or hosted.instance.done or openings.is_over(entry.source, name):
            over = entry is not None and (entry.source.ended or openings.is_over(entry.source, name))
            record = entry.source.records.get(name, 0) if entry is not None else 0
            said = _to({"here": False, "over": over, "elsewhere": entry is None}, document.get("incarnation"))
            self.sockets.send(endpoint, Header(wire.OPENED, channel, record=record), wire.to_json(said))
        elif document.get("awakes"):
            self._wake(channel, hosted, entry, name, endpoint)
        elif "keeps" in document:
            self._press(hosted, entry, name, client_documents.read_count(document, "keeps"))
        elif hosted.recovery is not None and not self._is_next(header.channel, hosted, entry, name, document):
            self._say_closed(endpoint, channel, REPLACED, document)
        elif missing := openings.missing(entry.source, name, document, self.heir.is_lost(entry, name, document.get("incarnation"))):
            hosted.instance.fail(missing)
            hosted.wake()
        else:
            self._let_in(channel, hosted, entry, name, endpoint, document)
            hosted.wake()  # it may have been the last that was waited for

    def _say_closed(self, endpoint: str, channel: int, word: dict[str, Any], document: Mapping[str, Any]) -> None:
        """To the publisher that has said `document`."""
        self.sockets.send(endpoint, Header(wire.CLOSED, channel), wire.to_json(_to(word, document.get("incarnation"))))

    def _press(self, hosted: InstanceHost, entry: Entry, name: str, keeps: int) -> None:
        """A publisher waits for a commit, with so many bytes that it keeps until then."""
        if hosted.recovery is not None and (known := entry.source.publishers.get(name)) is not None:
            hosted.recovery.pressing, known.waits_with = True, keeps
            hosted.wake()

    def _is_next(self, id_: int, hosted: InstanceHost, entry: Entry, name: str, document: Mapping[str, Any]) -> bool:
        """What another publisher of the name has kept comes before it. False: it is the one that another one has replaced."""
        source, incarnation = entry.source, client_documents.text(document, "incarnation", "")
        known = source.publishers.get(name)
        if self.heir.has_replaced(entry, name, incarnation):
            return False
        owed = source.owed.get(name)
        # Of one that a checkpoint knows, and of which nothing had been taken, others may have kept what comes before.
        come = (known.incarnation,) if known is not None else (owed.incarnation,) if owed is not None and owed.has_sent else ()
        if incarnation not in come:
            self.heir.precede(id_, hosted, entry, name, incarnation)
        return True

    def _let_in(self, channel: int, hosted: InstanceHost, entry: Entry, name: str, endpoint: str, document: Mapping[str, Any]) -> None:
        sent_until, incarnation = client_documents.time(document, "sent_until"), client_documents.text(document, "incarnation", "")
        door = door_of(entry.format, document, entry.source.columns)
        source, own = entry.source, hosted.recovery
        known, resumes = source.publishers.get(name), name in source.resumes
        if known is None:
            self.answered.discard(channel)  # that was another one of its name, which has closed
            known = self.register(hosted, entry, name, sent_until)
        else:
            openings.cancel_closing(entry, known)
        if own is not None:
            volatile = client_documents.flag(document, "volatile", False)
            if known.incarnation not in ("", incarnation) or (volatile and known.kept_at):  # a checkpoint has to know that
                self.answered.discard(channel)
            known.becomes(incarnation, source.has_sent(name, incarnation))
            known.kept_at = "" if volatile else self.heir.place
            source.owed.pop(name, None)
        self.dropped.pop(channel, None)
        entry.refused.discard(channel)
        self.file(channel, hosted, entry, known, endpoint, door)
        # A recovery has to know of it, for others would not wait for what it sends once more.
        if own is not None and not resumes and channel not in self.answered:
            own.pressing = True
        if own is None or resumes or channel in self.answered or hosted.instance.state not in ("running", "paused"):
            self._answer_opening(channel, known=resumes)

    def _answer_opening(self, channel: int, known: bool) -> None:
        """`known`: a commit covers it."""
        hosted, entry, publisher, *_ = self.here[channel]
        source, inbox, name = entry.source, publisher.inbox, publisher.name
        here = {"here": True, "endpoint": self.sockets.endpoint, "process": self.process, "known": known}
        here |= self._ring(hosted) | _to({"volatile": not publisher.kept_at}, publisher.incarnation)
        credit = {"received": inbox.received, "consumed": inbox.consumed, "limit": inbox.grant()}
        until, record = max(source.watermark, publisher.promised), max(source.records.get(name, 0), publisher.behind)
        answer = Header(wire.OPENED, channel, inbox.sequence, watermark=until, record=record)
        reads = {} if source.columns is None else {"reads": list(source.columns)}
        self.sockets.send(entry.endpoints[name], answer, wire.to_json(here | credit | reads))
        self.answered.add(channel)

    def _ring(self, hosted: InstanceHost) -> dict[str, Any]:
        """Where it is to keep what it sends."""
        if hosted.recovery is None or self.heir.rings is None:
            return {}
        try:
            return {"ring": self.heir.rings.place}
        except OSError:  # the folder is gone: its home is being taken down
            return {}

    def _wake(self, channel: int, hosted: InstanceHost, entry: Entry, name: str, endpoint: str) -> None:
        """A publisher that is open here was idle, and is about to send."""
        self.peers.meet(endpoint, True, self._now())
        if name in entry.source.publishers:
            body = wire.to_json({"here": True, "awakes": True})
            self.sockets.send(endpoint, Header(wire.OPENED, channel, watermark=entry.source.wake(name)), body)
        else:  # it counts as closed already
            self.sockets.send(endpoint, Header(wire.CLOSED, channel), wire.to_json({"record": entry.source.records.get(name, 0)}))
        hosted.wake()

    def file(
        self, channel: int, hosted: InstanceHost, entry: Entry, publisher: PublisherPartition, endpoint: str, door: StreamDoor | None = None
    ) -> None:
        """Under its client, whose heartbeat it lives by. Without a `door` it has not opened here yet, and will before it sends."""
        before, peer = self.here.get(channel), self.peers.meet(endpoint, True, self._now())
        entry.endpoints[publisher.name] = endpoint
        door = door or StreamDoor.of(entry.format, entry.format, entry.source.columns)
        self.here[channel] = Publishing(hosted, entry, publisher, peer, door, publisher.incarnation)
        peer.publishers.add(channel)
        if before is not None and before.peer is not peer:
            self._displace(channel, before)

    def register(self, hosted: InstanceHost, entry: Entry, name: str, sent_until: int) -> PublisherPartition:
        """It is new here; `sent_until`: the greatest event time that it has sent."""
        inbox = Inbox(f"{hosted.instance.name}<{name}", self.share)
        inbox.on_arrival = hosted.wake
        publisher = PublisherPartition(name, wire.name_id(name) & PARTITION_MASK, inbox)
        elements, size, publisher.taken_until = entry.source.left_off(name)
        inbox.go_on_from(elements, size)
        entry.source.open(publisher, sent_until)
        entry.source.resumes.pop(name, None)
        return publisher

    def adopt(self, channel: int, hosted: InstanceHost, entry: Entry, publisher: PublisherPartition, door: StreamDoor) -> None:
        before, entry.endpoints[publisher.name] = self.here.get(channel), ""
        self.here[channel] = Publishing(hosted, entry, publisher, Peer("", False, 0.0), door, publisher.incarnation)
        self.dropped.pop(channel, None)
        if before is not None:
            self._displace(channel, before)

    def _displace(self, channel: int, before: Publishing) -> None:
        """It is heard no more under that name, and may live: a stopped one would wait for credit for ever."""
        endpoint = before.peer.endpoint
        if endpoint and before.hosted.recovery is not None and not self.is_gone(endpoint):
            self.sockets.send(endpoint, Header(wire.CLOSED, channel), wire.to_json(_to(REPLACED, before.incarnation)))
        before.peer.publishers.discard(channel)
        self.peers.part(before.peer)

    def close(self, header: Header, document: dict[str, Any]) -> None:
        """The last word of a publisher. What cannot be taken of it is the query's failure: its stream would never end."""
        last, others = client_documents.flag(document, "last"), frozenset(client_documents.texts(document, "others"))
        entry_id = client_documents.read_count(document, "entry", most=MAX_ID)
        endpoint = client_documents.endpoint(document, self.sockets.endpoint)
        if header.channel in self.here:
            hosted, entry, publisher, *_ = self.here[header.channel]
            if not openings.is_same(entry, publisher, endpoint, client_documents.text(document, "incarnation", "")):
                self._say_closed(endpoint, header.channel, {"heard": True, "covered": True, **REPLACED}, document)
                return
            if header.sequence < publisher.inherited:
                return
            try:
                publisher.inbox.accept(Closing(publisher.name, last, others), 0, header.sequence, MIN_TIME, MIN_TIME)
            except MessagesLost as error:
                self._break(hosted, publisher.name, error)
            if hosted.recovery is None:
                self.let_go(header.channel, word={"heard": True})
            else:  # until a commit covers it
                hosted.recovery.pressing = True
            return
        word: dict[str, Any] = {"heard": True}
        if entry_id in self.entries:
            hosted, entry = self.entries[entry_id]
            if (dropped := self.dropped.get(header.channel)) is not None:
                word |= self._compare(dropped, header.record)
            # The last word of one that was refused ends nothing, for what it sent is not complete.
            entry.source.finish(last and header.channel not in entry.refused, others)
            hosted.wake()
        self._say_closed(endpoint, header.channel, word, document)

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
        _, entry, publisher, peer, _, incarnation = self.here.pop(channel)
        self.answered.discard(channel)
        endpoint = entry.endpoints.pop(publisher.name)
        if told and endpoint:
            self.sockets.send(endpoint, Header(wire.CLOSED, channel), None if word is None else wire.to_json(_to(word, incarnation)))
        elif not told:
            entry.gone_on[publisher.name] = endpoint
        peer.publishers.discard(channel)
        self.peers.part(peer)

    # What they send

    def published(self, header: Header, body: Any) -> Account | None:
        """A batch or watermark of a publisher, and on whose account it is; None: it is none. What is no batch closes its channel: the
        publisher is told why, and the query says so (`PublisherRefused`). What is missing fails the query: it would not be noticed."""
        if header.channel not in self.here:
            if header.channel in self.dropped and header.kind == wire.BATCH:  # it has woken up, and does not know yet
                _, entry, name = self.dropped[header.channel]
                entry.source.vanished[name].missing = True
            return None
        hosted, entry, publisher, peer, door, _ = self.here[header.channel]
        if header.sequence < publisher.inherited:
            return entry.account
        peer.heard = self._now()
        try:
            self._accept(entry, publisher, door, header, body)
        except MessagesLost as error:
            self._break(hosted, publisher.name, error)
        except Exception as error:  # whatever is wrong with what it sent harms no other
            self._refuse(header.channel, f"{type(error).__name__}: {error}")
            return entry.account
        if header.kind == wire.BARRIER:
            self.let_go(header.channel, told=False)
        return entry.account

    def _accept(self, entry: Entry, publisher: PublisherPartition, door: StreamDoor, header: Header, body: Any) -> None:
        element: Element | Published
        if header.kind == wire.BATCH:
            batch = door.element(header, body)
            assert isinstance(batch, Batch)
            publisher.last_row_us = self.clock.wall_ns() // 1000
            size = len(body)
            entry.account.take(len(batch.time), size)
            element = Published(batch, header.stamp, header.record)
        elif header.kind == wire.WATERMARK:
            element, size = Watermark(header.watermark), 0
        else:
            element, size = wire.element_of(header, body, entry.format), 0  # it goes on elsewhere
        publisher.inbox.accept(element, size, header.sequence, header.watermark, MIN_TIME)

    def _break(self, hosted: InstanceHost, publisher: str, error: MessagesLost) -> None:
        """What breaks a publisher's channel is the query's failure."""
        hosted.instance.fail(f"publisher {publisher!r}: {type(error).__name__}: {error}")
        hosted.wake()

    def _refuse(self, channel: int, reason: str) -> None:
        """It sent what cannot be taken: it counts as closed behind what came before that."""
        hosted, entry, publisher, *_ = self.here[channel]
        entry.refused.add(channel)
        LOG.warning("%s: publisher %r was closed: %s", hosted.instance.name, publisher.name, reason, extra=hosted.about())
        publisher.inbox.queue.append((PublisherRefused(reason), 0, MIN_TIME))
        hosted.wake()
        self.let_go(channel, word={"reason": reason})

    def hear(self, channel: int) -> None:
        """Something has come from a publisher, by the fast path."""
        self.here[channel].peer.heard = self._now()

    def _now(self) -> float:
        return self.clock.steady_ns() / 1e9

    def emit(self, hosted: InstanceHost) -> None:
        """Credit to publishers, for what an instance has taken."""
        for id_, entry in hosted.entries.items():
            for name, publisher in entry.source.publishers.items():
                inbox = publisher.inbox
                if inbox.credit_due and entry.endpoints.get(name):
                    channel, watermark = publisher_channel(id_, name), entry.source.watermark
                    header = Header(wire.CREDIT, channel, sequence=inbox.consumed, record=inbox.grant(), watermark=watermark)
                    self.sockets.send(entry.endpoints[name], header)

    # Checkpoints

    def taken(self, hosted: InstanceHost) -> dict[int, Taken]:
        """How much it has taken of each of its publishers, by channel."""
        channels = [publisher_channel(id_, name) for id_, entry in hosted.entries.items() for name in entry.endpoints]
        found = [(channel, here.entry.source, here.publisher) for channel in channels if (here := self.here.get(channel)) is not None]
        return self.heir.taken(hosted) | {
            channel: Taken(known.inbox.taken, known.name not in source.publishers, known.incarnation) for channel, source, known in found
        }

    def cover(self, taken: Mapping[int, Taken]) -> None:
        """A commit covers that: it will not be asked for once more, and what was opened there is open whatever happens."""
        for channel, each in taken.items():
            self.heir.cover(channel, each)
            if channel not in self.here or self.here[channel].publisher.incarnation != each.incarnation:
                continue  # it has gone, or another one of its name has come behind that
            _, entry, publisher, *_ = self.here[channel]
            publisher.waits_with = 0
            if each.closed:
                self.let_go(channel, word={"heard": True, "covered": True})
            elif not (endpoint := entry.endpoints[publisher.name]):
                continue  # its process is gone
            elif channel not in self.answered:
                self._answer_opening(channel, known=True)
            else:
                self.sockets.send(endpoint, Header(wire.COVERED, channel, sequence=each.sequence))

    # Silence

    def drop(self, peer: Peer) -> None:
        """It has been silent for so long that its publishers count as closed, each once what it sent is taken."""
        for channel in list(peer.publishers):
            hosted, entry, publisher, *_ = self.here[channel]
            hosted.ports.relay.leave()
            entry.source.vanish(publisher.name, peer.endpoint)
            if publisher.name in entry.source.publishers:
                continue
            if publisher.name not in entry.source.vanished:  # it has closed, and waits for a commit
                self.let_go(channel)
            else:
                self.dropped[channel] = Dropped(hosted, entry, publisher.name)
                self.let_go(channel, word={"record": entry.source.vanished[publisher.name].record})
                hosted.wake()

    def tick(self, silence_s: float, away_s: float) -> None:
        """`away_s`: this process did not listen for so long, which is no publisher's silence."""
        self.heir.tick(self.entries, silence_s)
        for id_, (hosted, entry) in list(self._expecting.items()):
            source = entry.source
            source.expected_from_us += round(away_s * 1e6) if source.expected_from_us else 0
            gone = sorted(source.expected & source.resumes.keys())
            if not hosted.waits_for_others:  # until then its publishers cannot know that it is here
                source.give_up_expected(self.clock.steady_ns() // 1000, round(silence_s * 1e6))
            if lost := [] if source.expected else [name for name in gone if not self.heir.stands_in(id_, hosted, entry, name)]:
                hosted.instance.fail(
                    f"stream {source.stream!r}: what its publishers sent behind the last checkpoint is lost: {openings.gone(lost)}"
                )
            if not source.expected:
                del self._expecting[id_]
                hosted.wake()
        for dropped in list(self.dropped.values()):
            if dropped.entry.source.awaits_doubt:
                self._resolve(dropped)

    def _resolve(self, dropped: Dropped) -> None:
        """The stream would have ended but for publishers that may have sent more. Those whose processes have ended have not."""
        hosted, entry, _ = dropped
        for name, vanished in entry.source.vanished.in_doubt.items():
            if not vanished.missing and self.is_gone(vanished.endpoint):
                entry.source.is_complete(name)
        if entry.source.awaits_doubt:
            hosted.instance.fail(entry.source.doubt())
        self._forget_dropped(hosted)
        hosted.wake()


def _to(word: dict[str, Any], incarnation: Any) -> dict[str, Any]:
    """To that publisher of its name: another one in its process hears what comes on the same channel."""
    return word | {"incarnation": incarnation} if incarnation else word
