"""What publishers have kept for readers here, and have not sent, when their processes are gone (docs/features/recovery.md).

The reader's own process is the heir: it takes what it needs out of the ring as if it had come. So what is inherited needs no channel and no
credit, and dies with the reader alone, and then the next one begins anew: whichever processes die together.

1. A log of a process that has ended is taken from the first element that has not come: at once where a reader is made anew, else within
   LOOK_TICKS. Its elements are numbered, so what is on its way on the socket all the same has come already.
2. A publisher that opens under the name of another one goes on behind what that has kept: its log is sealed, so that even if its process
   only was stopped nothing counts that is not here.
3. The partition stays open for `silence_s`, in ticks of this process, which a stopped one does not count; the name may come again
   meanwhile. Then it has vanished, and what it sent is complete.
4. A log is removed when a commit covers that its partition has closed, or that another publisher of the name has gone on.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cep.dataflow.meter import Account
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Owed, PublisherPartition
from cep.model.ids import name_id
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.wire import Header
from cep.world.rings import KeptLog, Rings
from cep.world.segments import Element, NoSegment
from instance_manager.clients import client_documents
from instance_manager.clients.doors import StreamDoor, door_of
from instance_manager.hosting import Entry, InstanceHost, Taken

TICK_S = 0.1
LOOK_TICKS = 5
LOG = logging.getLogger(__name__)


class Receiving(Protocol):
    """The door by which what publishers send comes in."""

    def register(self, hosted: InstanceHost, entry: Entry, name: str, sent_until: int) -> PublisherPartition: ...

    def adopt(self, channel: int, hosted: InstanceHost, entry: Entry, publisher: PublisherPartition, door: StreamDoor) -> None:
        """Nothing is said to its process any more."""

    def published(self, header: Header, body: Any) -> Account | None: ...

    def close(self, header: Header, document: dict[str, Any]) -> None: ...

    def let_go(self, channel: int, told: bool = True, word: dict[str, Any] | None = None) -> None: ...


class KeptPlace(NamedTuple):
    """A log in a ring."""

    ring: str
    log: str


@dataclass
class Inherited:
    """A log that was taken for the entry of that id. `ticks`: how often its partition was looked at since."""

    id: int
    log: KeptLog
    hosted: InstanceHost
    entry: Entry
    ticks: int = 0
    closed: bool = False

    @property
    def name(self) -> str:
        return str(self.log.document["publisher"])

    @property
    def incarnation(self) -> str:
        return str(self.log.document["incarnation"])

    @property
    def channel(self) -> int:
        return publisher_channel(self.id, self.name)


class Heir:
    """Used by the engine's thread. `rings`: None where no client can have one."""

    def __init__(self, rings: Rings | None, receiving: Receiving) -> None:
        self.rings, self.receiving = rings, receiving
        self.inherited: defaultdict[int, list[Inherited]] = defaultdict(list)  # by channel
        self._done: set[tuple[int, KeptPlace]] = set()  # by entry
        self._documents: dict[KeptPlace, dict[str, Any]] = {}
        self._unreadable: set[KeptPlace] = set()
        self._ticks = 0

    # What there is

    def look(self, entries: Mapping[int, tuple[InstanceHost, Entry]]) -> None:
        """Takes what processes that have ended have kept for these, which stand by their ids."""
        ours = {entry.lasting: id_ for id_, (hosted, entry) in entries.items() if hosted.recovery is not None}
        if self.rings is None or not ours:
            return
        found: defaultdict[tuple[int, str], list[KeptPlace]] = defaultdict(list)
        for place in (KeptPlace(ring, log) for ring in self.rings.orphaned() for log in self.rings.logs(ring)):
            document = self._document(place)
            if (id_ := ours.get(document.get("entry", 0))) is not None:
                found[id_, str(document.get("publisher"))].append(place)
        for (id_, name), places in sorted(found.items()):
            self._take_all(id_, *entries[id_], name, places)

    def precede(self, id_: int, hosted: InstanceHost, entry: Entry, name: str, incarnation: str) -> None:
        """A publisher opens that may not be the one which is known by that name: what that has kept comes before it."""
        places = [place for place in self._places(entry, name) if self._document(place).get("incarnation") != incarnation]
        self._take_all(id_, hosted, entry, name, places)

    def has_replaced(self, entry: Entry, name: str, incarnation: str) -> bool:
        """Has another publisher of the name gone on in the place of this one?"""
        if self.rings is None:
            return False
        key = publisher_channel(entry.lasting, name)
        ended = (document for ring in self.rings.all() for document in self.rings.ended(ring, key))
        ours = self._kept_by(entry, name, incarnation)
        return any(each.get("incarnation") == incarnation for each in ended) or any(self.rings.is_sealed(*place) for place in ours)

    def _places(self, entry: Entry, name: str) -> Iterator[KeptPlace]:
        """The logs of all publishers of a name."""
        if self.rings is not None:
            key = publisher_channel(entry.lasting, name)
            yield from (KeptPlace(ring, log) for ring in self.rings.all() for log in self.rings.logs(ring, key))

    def _kept_by(self, entry: Entry, name: str, incarnation: str) -> list[KeptPlace]:
        """The logs of that one of them."""
        return [place for place in self._places(entry, name) if self._document(place).get("incarnation") == incarnation]

    def _document(self, place: KeptPlace) -> dict[str, Any]:
        """What its writer says of the log; empty: it is gone, or no log."""
        assert self.rings is not None
        if place not in self._documents and (found := self.rings.document(*place)) is not None:
            self._documents[place] = found
        return self._documents.get(place, {})

    # What is not there

    @property
    def place(self) -> str:
        """Stands for where the rings are, on all machines and for all time; empty: there are none."""
        try:
            return "" if self.rings is None else f"{name_id(json.dumps(self.rings.place)):016x}"
        except OSError:
            return ""

    def is_lost(self, entry: Entry, name: str, incarnation: Any) -> bool:
        """Was another publisher of the name open at the last checkpoint, and has left more than has come?"""
        owed = entry.source.owed.get(name)
        return owed is not None and owed.incarnation != incarnation and not self._has_left_nothing(entry, name, owed)

    def _has_left_nothing(self, entry: Entry, name: str, owed: Owed) -> bool:
        """A log is there before its first row is sent; so one that has none where it would be has sent nothing. If something of it was
        taken before, its log was removed by a stranger's hand."""
        documents = [self._document(place) for place in self._places(entry, name)]
        return (
            bool(owed.kept_at)
            and not owed.has_sent
            and owed.kept_at == self.place
            and all(owed.incarnation != each.get("incarnation", owed.incarnation) for each in documents)
        )

    def stands_in(self, id_: int, hosted: InstanceHost, entry: Entry, name: str) -> bool:
        """For one that does not come, whatever has become of its process: with what it has left, be that nothing."""
        owed = entry.source.owed.get(name)
        self.precede(id_, hosted, entry, name, "")
        if name not in entry.source.publishers and owed is not None and self._has_left_nothing(entry, name, owed):
            entry.source.give_up(name)
        return name not in entry.source.resumes

    # Taking

    def _take_all(self, id_: int, hosted: InstanceHost, entry: Entry, name: str, places: Iterable[KeptPlace]) -> None:
        """The logs of a name in the order of their numbers, from what has not come on."""
        there = [(log.first, place, log) for place in places if (id_, place) not in self._done and (log := self._sealed(place, hosted))]
        for _, place, log in sorted(there, key=lambda each: each[:2]):
            given = Inherited(id_, log, hosted, entry)
            if _is_due(entry.source, name, log):
                self._done.add((id_, place))
                self._take(given)
            elif log.end <= _come_to(entry.source, name):
                self._done.add((id_, place))
                self._pass(given)
        owed = entry.source.owed.get(name)
        if owed is not None and name in entry.source.publishers and self._has_left_nothing(entry, name, owed):
            entry.source.has_come(name, owed.incarnation)

    def _pass(self, given: Inherited) -> None:
        """Nothing of the log is missing. It is one of nothing that begins where the next one does, or all of it was taken before."""
        given.entry.source.has_come(given.name, given.incarnation)
        self.inherited[given.channel].insert(0, given)

    def _sealed(self, place: KeptPlace, hosted: InstanceHost) -> KeptLog | None:
        assert self.rings is not None
        try:
            return self.rings.sealed(*place)
        except (NoSegment, OSError) as error:
            if place not in self._unreadable:
                LOG.warning("%s: what a publisher has kept cannot be read: %s", hosted.instance.name, error, extra=hosted.about())
            self._unreadable.add(place)
            return None

    def _take(self, given: Inherited) -> None:
        hosted, entry, source, log = given.hosted, given.entry, given.entry.source, given.log
        opening, channel = log.document["opening"], given.channel
        hosted.ports.relay.leave()
        known = source.publishers.get(given.name)
        if known is None:
            known = self.receiving.register(hosted, entry, given.name, client_documents.time(opening, "sent_until"))
        known.becomes(given.incarnation, source.has_sent(given.name, given.incarnation))
        known.kept_at, before = self.place, known.inbox.sequence
        source.has_come(given.name, given.incarnation)
        self.receiving.adopt(channel, hosted, entry, known, door_of(entry.format, opening, source.columns))
        for element in log.elements():
            self._hear(channel, given, known, element)
        known.inherited = max(known.inherited, log.end)
        self.inherited[channel].append(given)
        hosted.wake()
        came = known.inbox.sequence - before
        LOG.info(
            "%s: of publisher %r, which is gone, %d more elements were kept", hosted.instance.name, given.name, came, extra=hosted.about()
        )

    def _hear(self, channel: int, given: Inherited, known: PublisherPartition, element: Element) -> None:
        """As if it had come. Silence is over, as nothing else tells when."""
        if element.is_note:
            door = door_of(given.entry.format, json.loads(bytes(element.body)), given.entry.source.columns)
            self.receiving.adopt(channel, given.hosted, given.entry, known, door)
        elif element.number >= known.inbox.sequence:
            header = wire.unpack(element.head)
            kind = wire.WATERMARK if header.kind == wire.IDLE else header.kind
            header = header._replace(channel=channel, kind=kind)
            if kind == wire.CLOSE:
                self.receiving.close(header, client_documents.document_of(bytes(element.body)))
            else:
                self.receiving.published(header, element.body)

    # Every 100 ms

    def tick(self, entries: Mapping[int, tuple[InstanceHost, Entry]], silence_s: float) -> None:
        self._ticks += 1
        if self._ticks % LOOK_TICKS == 0:
            self.look(entries)
        for channel, given in list(self.inherited.items()):
            self._count(channel, given[-1], silence_s)

    def _count(self, channel: int, last: Inherited, silence_s: float) -> None:
        """Until its partition closes, unless another publisher of the name goes on."""
        source, hosted = last.entry.source, last.hosted
        known = source.publishers.get(last.name)
        if known is None or known.incarnation != last.incarnation or hosted.waits_for_others:
            return
        last.ticks += 1
        if last.ticks * TICK_S < silence_s or known.inbox.queue:
            return
        hosted.ports.relay.leave()
        self._take_owed(last)
        if self.inherited[channel][-1] is not last:
            return
        if source.owed.pop(last.name, None) is not None:
            hosted.instance.fail(f"stream {source.stream!r}: what publisher {last.name!r} sent behind the last checkpoint is lost")
        else:
            source.vanish(last.name)
            source.is_complete(last.name)
            last.closed = True
            self.receiving.let_go(channel)
        hosted.wake()

    def _take_owed(self, last: Inherited) -> None:
        """Of the publisher that a checkpoint knows by that name, whatever has become of its process: it may only have been stopped."""
        if (owed := last.entry.source.owed.get(last.name)) is not None:
            places = self._kept_by(last.entry, last.name, owed.incarnation)
            self._take_all(last.id, last.hosted, last.entry, last.name, places)

    # Checkpoints

    def taken(self, hosted: InstanceHost) -> dict[int, Taken]:
        """Of partitions that have closed here."""
        return {
            channel: Taken(last.entry.source.left_at[last.name].elements, True, last.incarnation)
            for channel, given in self.inherited.items()
            if (last := given[-1]).closed and last.hosted is hosted and last.name in last.entry.source.left_at
        }

    def cover(self, channel: int, taken: Taken) -> None:
        """A commit covers that much: what no recovery asks for is removed."""
        if channel not in self.inherited:
            return
        left = []
        for each in self.inherited.pop(channel):
            is_over = taken.closed or taken.incarnation != each.incarnation  # as it was at that checkpoint
            if each.log.end <= taken.sequence and is_over:
                each.log.remove()
            else:
                left.append(each)
        if left:
            self.inherited[channel] = left

    def forget(self, hosted: InstanceHost) -> None:
        """The instance is at home no more; the next one in its place begins anew."""
        for channel in [channel for channel, given in self.inherited.items() if given[-1].hosted is hosted]:
            del self.inherited[channel]
        self._done = {(id_, place) for id_, place in self._done if id_ not in hosted.entries}


def _come_to(source: PublishedSource, name: str) -> int:
    """The number of the next element of a publisher of that name."""
    known = source.publishers.get(name)
    return source.left_off(name).elements if known is None else known.inbox.sequence


def _is_due(source: PublishedSource, name: str, log: KeptLog) -> bool:
    """Does something of the log come next, or is it of the publisher that is waited for, or known?"""
    known, incarnation, following = source.publishers.get(name), log.document.get("incarnation"), _come_to(source, name)
    owed = source.owed.get(name)
    is_its = incarnation == (known.incarnation if known is not None else owed.incarnation if owed is not None else "")
    return log.first <= following < log.end or (is_its and log.first <= following == log.end)
