"""The source instances that read a publisher's stream, and what each of them has said to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cep.dataflow.channel import Credit
from cep.elements import MIN_TIME
from cep.plan.channels import ChannelId, publisher_channel
from cep.plan.route import Route
from cep.transport import wire
from cep.transport.wire import Header
from cep.world.segments import Sealed
from driver.streams.commands import Leave, StreamCommand
from driver.streams.sent_log import Opening, SentLog

NOT_KNOWN = -1

Document = Mapping[str, Any]
"""A reader, as the orchestrator describes it; or what an instance says."""


class StreamReader:
    """One source instance that reads the stream, and our channel to it."""

    def __init__(self, document: Document, stream: str, publisher: str) -> None:
        self.stream = stream
        self.query, self.endpoint = str(document["query"]), str(document["endpoint"])
        self.place = self.query, int(document["epoch"]), int(document["instance"])
        self.attempt = int(document.get("attempt", 0))
        self.entry = ChannelId.entry(self.query, stream, document["instance"], document["epoch"], self.attempt).id
        self.channel = publisher_channel(self.entry, publisher)
        self.log = SentLog() if document.get("keeps") else None  # None: its query does not recover
        self.built = self.log is None or bool(document.get("here", True))
        self.relieves = bool(document.get("relieves"))  # the attempt before works on until this one is there
        self.asked = False  # to let us in, and has not said no
        self.next = 0  # the number of the element that it is sent next
        self.told_opening: Opening | None = None  # what of our openings it knows, of a query that recovers
        self.reads: frozenset[str] | None = None  # the columns that it has use for, once it has said so; None: all
        self.is_covered = False  # our last word is
        self.is_volatile = False  # what it is sent is kept in our process, and a commit has to know that
        self.is_over = False  # the stream has ended there, of a query that recovers
        self.was_let_in = False  # of a query that recovers; once
        self.is_known = False  # a commit covers that it has let us in
        self.told_all = False  # behind what it was sent once more, what holds now
        self.credit = Credit()
        self.replica = int(document["replica"])
        self.route = None if document["route"] is None else Route.from_json(document["route"])
        self.sequence = 0
        self.watermark = MIN_TIME  # the last one it was told
        self.process = 0  # which it is in, once it has said so
        self.since = 0  # heartbeats later than this one find us there
        self.opened = self.gone = self.closed = False
        self.strays = False  # the process that we asked does not know it; where it is, or that its query is over, the orchestrator says
        self.refused = ""  # why it was closed, if what we sent was no batch
        self.taken: int | None = None  # it counts us as closed: the number of the first row that it did not take
        self.told_idle = False  # and has not answered since
        self.is_replaced = False  # another publisher of our name goes on there

    @property
    def lasting(self) -> int:
        """Its entry, whatever the attempt."""
        query, epoch, instance = self.place
        return ChannelId.entry(query, self.stream, instance, epoch).id

    @property
    def is_here(self) -> bool:
        """It has let us in, is there for us, and has what came before."""
        return self.opened and not self.gone and not self.closed and (self.log is None or self.next == self.sequence)

    @property
    def keeps_in_memory(self) -> bool:
        """Is there anything that no commit covers, and that goes with us?"""
        log = self.log
        return log is not None and log.ring is None and log.first != log.end and not self.gone and not self.closed

    def has_room(self, size: int) -> bool:
        """For what is kept of a batch of so many bytes?"""
        return self.log is None or self.log.has_room(size)

    @property
    def is_to_be_asked(self) -> bool:
        """To let us in once more: its query recovers, or it has moved, and what asked it may have come to nobody."""
        return self.built and not (self.opened or self.asked or self.gone or self.closed)

    @property
    def sleeps(self) -> bool:
        """It was told that we are idle, and has to be asked before we say more."""
        return self.told_idle and not self.gone and not self.closed

    def open(self, header: Header, said: Document, beaten: int) -> None:
        """It lets us in, or is not there."""
        self.strays = self.log is None and bool(said.get("elsewhere"))
        if self.strays:  # it has moved away, and another process may have its address by now: no end of its query
            self.lose_place()
            return
        self.opened, self.gone = bool(said["here"]), not said["here"]
        self.process, self.since = said.get("process", 0), beaten
        self.reads = frozenset(said["reads"]) if "reads" in said else None
        if self.log is not None:
            self._reopen(header, said)
            return
        # Where it was already, by an earlier publisher of our name, its numbering goes on.
        self.credit.limit, self.sequence = said.get("limit", 0), header.sequence
        self.credit.sent, self.credit.consumed = said.get("received", 0), said.get("consumed", 0)
        self.watermark = header.watermark

    def _reopen(self, header: Header, said: Document) -> None:
        """It goes on behind the last commit; what it was sent since goes once more."""
        assert self.log is not None
        self.credit = Credit()
        if not self.opened:
            self.gone = self.is_over = bool(said.get("over")) and self.log.first == self.log.end
            self.lose_place()
            return
        if self.sequence == 0 and not self.log.elements:
            self.log.begin_at(header.sequence)
            self.sequence = header.sequence
        self.is_known |= bool(said.get("known"))
        self.was_let_in = True
        self.credit.limit, self.next = said.get("limit", 0), header.sequence
        self.credit.sent, self.credit.consumed = said.get("received", 0), said.get("consumed", 0)
        self.watermark = header.watermark
        if not self.log.reaches(header.sequence):
            self.opened, self.closed, self.taken = False, True, NOT_KNOWN

    def note(self, header: Header, body: Any = None) -> bool:
        """It is sent that: is it to go now? Raises Sealed: it is not taken, for another publisher goes on in our place."""
        if self.log is None:
            return True
        try:
            self.log.add(header, body)
        except Sealed as error:
            self.opened, self.closed, self.is_replaced, self.refused = False, True, True, str(error)
            raise
        if not self.opened or self.next != header.sequence:
            return False
        self.next += 1
        return True

    def notes(self, header: Header, body: Any = None) -> bool:
        """The same of what is told and not taken, as a watermark: where another publisher goes on in our place nothing goes, and what is
        sent next is refused."""
        try:
            return self.note(header, body)
        except Sealed:
            return False

    def backlog(self) -> Iterator[tuple[Header, Any]]:
        """What it has not been sent yet, as far as it has credit; silence in its middle is over."""
        log = self.log
        while log is not None and self.opened and self.next < self.sequence:
            header, body = log.at(self.next)
            yield from self._opening_at(log)
            if header.kind == wire.BATCH:
                if not self.credit.allows(len(body)):
                    return
                self.credit.spend(len(body))
            self.next += 1
            yield header._replace(channel=self.channel, kind=wire.WATERMARK if header.kind == wire.IDLE else header.kind), body
        if log is not None and self.opened:
            yield from self._opening_at(log)

    def _opening_at(self, log: SentLog) -> Iterator[tuple[Header, Any]]:
        """What is to be said anew before what comes next: it goes on from where its checkpoint was, which may be behind what we have begun
        with."""
        if (opening := log.opening_of(self.next)) is not self.told_opening:
            self.told_opening = opening
            yield Header(wire.OPEN, self.entry, self.next, record=self.credit.sent), wire.to_json(opening)

    def lose_place(self) -> None:
        """It is not where we thought; where it is, or that its query is over, the orchestrator says."""
        self.opened = self.asked = self.told_idle = self.told_all = False

    def go_on_as(self, other: StreamReader) -> None:
        """The one of a later attempt in its place."""
        self.attempt, self.entry, self.channel, self.endpoint = other.attempt, other.entry, other.channel, other.endpoint
        self.process, self.closed, self.taken, self.refused, self.gone = 0, False, None, "", False
        self.is_replaced = False
        self.lose_place()

    def close(self, word: Document, said_goodbye: bool) -> None:
        """It has heard our last word, or has given us up, which is no answer to our last word; or is over itself."""
        if self.log is not None and (not word or (word.get("heard") and not word.get("covered"))):
            self.lose_place()
            return
        if self.log is not None and word.get("covered"):
            self.is_covered = True
        if self.log is not None:  # what was not taken is told; it is to be sent again, by another publisher
            self.log.forget()
        self.refused, self.is_replaced = word.get("reason", self.refused), bool(word.get("replaced", self.is_replaced))
        if said_goodbye and word and not word.get("heard"):
            return
        self.taken = word.get("record")
        self.closed = bool(word)
        self.gone |= not word

    def forget_us(self, beat: int, word: Document) -> None:
        """The process there knows nothing of us: it is another one, and the query went with the one before, or it has given us up."""
        if beat <= self.since or word["endpoint"] != self.endpoint or not self.process or self.closed:
            return
        if self.log is not None:
            self.lose_place()
            return
        if word["process"] != self.process:
            self.gone = True
        elif not self.gone:
            self.taken, self.closed = NOT_KNOWN, True


class StreamReaders(dict[int, StreamReader]):
    """All readers of stream `stream` that `publisher` knows, by channel. Other threads look at them while one adds and forgets."""

    def __init__(self, stream: str, publisher: str) -> None:
        super().__init__()
        self.stream, self.publisher = stream, publisher
        self._turn = 0
        self._over: set[tuple[str, int, int]] = set()  # places where the stream has ended for us
        self._left: list[int] = []  # channels of attempts that are over

    # Which of them gets a batch

    def only(self, size: int) -> StreamReader | None:
        """The only reader that there is, if it takes all rows and has credit for so many bytes, as nearly always."""
        if len(self) != 1:
            return None
        (reader,) = self.values()
        return reader if reader.is_here and reader.route is None and reader.credit.allows(size) and reader.has_room(size) else None

    def queries(self) -> list[list[StreamReader]]:
        """The readers of each query, beginning with the one whose turn it is."""
        here = [reader for reader in list(self.values()) if not reader.gone]
        if len(here) < 2:
            return [here] if here else []
        queries: dict[str, list[StreamReader]] = {}
        for reader in here:
            queries.setdefault(reader.query, []).append(reader)
        self._turn += 1
        return [[*readers[self._turn % len(readers) :], *readers[: self._turn % len(readers)]] for readers in queries.values()]

    # Which there are

    def add(self, documents: Iterable[Document]) -> list[StreamReader]:
        """Those among them that are not known yet."""
        kept = {reader.place for reader in self.values() if reader.log is not None} | self._over
        new = [reader for reader in self._described(documents) if reader.channel not in self and reader.place not in kept]
        self.update((reader.channel, reader) for reader in new)
        return new

    def drop_gone(self, documents: Iterable[Document]) -> list[StreamReader]:
        """`documents` describe what reads the stream now: a reader that is not among them is gone. Those which are to be asked to let us in
        again."""
        found = self._described(documents)
        for channel, reader in list(self.items()):
            if (same := next((each for each in found if each.place == reader.place), None)) is None:
                reader.gone = True
            elif reader.log is None:
                reader.gone |= same.channel != channel
                self._moves(reader, same.endpoint)
            else:
                self._goes_on(channel, reader, same)
        return [reader for reader in self.values() if reader.is_to_be_asked]

    def _moves(self, reader: StreamReader, endpoint: str) -> None:
        """One that has let us in says so itself. Before, what asks it may have come when its process was gone; and it may have moved
        away since, and back to the same address."""
        if not reader.opened:
            reader.endpoint, reader.asked = endpoint, False

    def _goes_on(self, channel: int, reader: StreamReader, same: StreamReader) -> None:
        if same.attempt >= reader.attempt:  # an older answer says nothing
            reader.built = same.built
        if same.attempt > reader.attempt and not reader.is_covered and not (same.relieves and reader.is_here):
            del self[channel]
            reader.go_on_as(same)
            self[reader.channel] = reader
            self._left.append(channel)

    def forget_gone(self) -> Sequence[StreamCommand]:
        """Those that are gone are no readers any more."""
        self._over |= {reader.place for reader in self.values() if reader.is_over}
        gone = [channel for channel, reader in self.items() if reader.gone]
        for channel in gone:
            if (log := self.pop(channel).log) is not None:
                log.forget()  # its query is over
        gone, self._left = gone + self._left, []
        return [Leave(channel) for channel in gone]

    def _described(self, documents: Iterable[Document]) -> list[StreamReader]:
        return [StreamReader(document, self.stream, self.publisher) for document in documents]

    @property
    def endpoints(self) -> set[str]:
        """Where readers are, as far as is known."""
        return {reader.endpoint for reader in list(self.values()) if not reader.gone}

    @property
    def awaited(self) -> bool:
        """Is there one of a query that recovers which has never let us in, or one that was not where we asked it?"""
        open_ = [each for each in list(self.values()) if not (each.gone or each.closed)]
        return any(each.strays if each.log is None else not each.was_let_in for each in open_)

    @property
    def astray(self) -> list[StreamReader]:
        """Those that are not where they were, and have not been asked since."""
        return [reader for reader in list(self.values()) if reader.is_to_be_asked]

    @property
    def asleep(self) -> dict[int, StreamReader]:
        """Readers that have to be asked before we say more."""
        return {channel: reader for channel, reader in self.items() if reader.sleeps}

    @property
    def unclosed(self) -> list[StreamReader]:
        """Readers that have not confirmed our last word."""
        return [reader for reader in self.values() if not reader.closed and not reader.gone]

    @property
    def unknown(self) -> bool:
        """Is there one of a query that recovers whose recovery would not wait for us, were we not named as open?"""
        return any(reader.log is not None and not (reader.is_known or reader.gone or reader.closed) for reader in self.values())

    @property
    def uncovered(self) -> bool:
        """Is there one that may ask for what it was sent until a commit covers our last word, or that is not where we asked it?"""
        return any(reader.log is not None or reader.strays for reader in self.unclosed)

    def lose_unclosed(self, gone: set[str]) -> None:
        """The processes at these endpoints have ended."""
        for reader in self.unclosed:
            reader.gone = reader.log is None and reader.endpoint in gone

    # What they complain of

    def unheard(self) -> str:
        """What to say of the publisher if readers have closed it; empty if none has."""
        for reader in self.values():
            if reader.refused:
                return f"was closed by query {reader.query!r}, which could not take what it sent: {reader.refused}"
        deaf = {reader.query: reader.taken for reader in self.values() if reader.taken is not None}
        if not deaf:
            return ""
        where = ", ".join(f"query {query!r} {_took(taken)}" for query, taken in deaf.items())
        again = "what it sent since was not taken; open another one of this name and send that again"
        return f"was silent for so long that it counts as closed at {where}: {again}"


def _took(before: int) -> str:
    if before == NOT_KNOWN:
        return "(how many rows it took is not known)"
    return f"(which took rows up to number {before - 1})" if before else "(which took no row)"


def first_with_credit(readers: Iterable[StreamReader], size: int) -> StreamReader | None:
    """The first that is there and may get a batch of `size` bytes."""
    for reader in readers:
        if reader.is_here and reader.credit.allows(size) and reader.has_room(size):
            return reader
    return None


def reads_of(readers: Iterable[StreamReader]) -> frozenset[str] | None:
    """The columns that each of them has use for; None: all, or not all have said the same."""
    first, *others = {reader.reads for reader in readers}
    return None if others else first
