"""A publisher without input and output: what readers say, documents and times go in; commands and errors come out.

1. A publisher numbers and stamps its own rows (`Numbering`). Its stamp starts at the greatest answer of its readers: none gets a row that
   is late for it.
2. Of each query one reader gets a batch, the first with credit, in turn (`StreamReaders`); of a query with replicas each gets its
   share. One that has not let us in yet is waited for: it misses no row.
3. Messages to a reader leave in the order of their numbers. A command with a number is obeyed before the next one is asked for.
4. A reader that moves is told so where it was, behind what it was sent; from then on it hears from us at its new place.
5. A publisher that is silent is waited for no longer, and asks before it says more (`Silence`).
6. The last word says how much was sent. A reader that has closed us before that has not taken all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cep.elements import MoveBarrier
from cep.errors import ClusterError
from cep.model.streams import Stream
from cep.plan.channels import publisher_channel
from cep.transport import wire
from cep.transport.wire import Header
from cep.world.rings import Ring, RingFull
from cep.world.segments import Sealed
from driver.streams.commands import NOTHING, Leave, Listen, Send, StreamCommand
from driver.streams.numbering import Numbering
from driver.streams.readers import Document, StreamReader, StreamReaders, first_with_credit
from driver.streams.sent_log import OPENING, Opening, SentLog
from driver.streams.silence import Silence

LOG = logging.getLogger(__name__)
RingAt = Callable[[Document], Ring | None]


class PublisherCore:
    """What is said to readers, and what they answer: opening, moving, closing. `endpoint`: where readers find us;
    `incarnation`: that of all publishers of our name it is us; `ring_at`: our process's ring in the folder that is described so, or None
    where we do not see it."""

    def __init__(self, stream: Stream, name: str, endpoint: str, incarnation: str = "", ring_at: RingAt = lambda place: None) -> None:
        self.stream, self.name, self.endpoint, self.incarnation = stream, name, endpoint, incarnation
        self.ring_at = ring_at
        self.numbering = Numbering(stream)
        self.readers = StreamReaders(stream.name, name)
        self.silence = Silence(stream.idle_after, self.numbering, self.readers)
        self.closing = self.closed = False  # no more is taken; the last word is said
        self.last_word: Document = {}  # while it is to be said
        self.lost: ClusterError | None = None  # the cluster is out of reach, and no reader is left there; or another one has our name
        self.is_replaced = False  # by another publisher of our name in our process
        self.was_closed = False  # by a reader

    @property
    def described(self) -> str:
        return f"publisher {self.name!r} of stream {self.stream.name!r}"

    def check_open(self) -> None:
        """Raises ClusterError: nothing can be sent any more."""
        if self.lost is not None:
            raise self.lost
        if self.closing:
            raise ClusterError(f"{self.described} is closed; open another one")

    def check_heard(self) -> None:
        """Raises ClusterError: a reader has closed us."""
        if complaint := self.unheard():
            raise ClusterError(complaint)

    def unheard(self) -> str:
        """What is to be complained of if a reader has closed us; empty if none has."""
        complaint = self.readers.unheard()
        return complaint and f"{self.described} {complaint}"

    # Sending

    def settled(self, readers: Sequence[StreamReader], size: int) -> bool:
        """Need a batch for one of these not wait any longer?"""
        over = self.closing or self.lost or any(r.closed for r in readers) or all(r.gone for r in readers)
        return bool(over) or first_with_credit(readers, size) is not None

    def press(self, readers: Iterable[StreamReader], size: int) -> Sequence[StreamCommand]:
        """Where there is no room for a batch of so many bytes beside what is kept a commit is asked for, and status says who waits."""
        full = [(each, each.log) for each in readers if each.log is not None and each.is_here and not each.has_room(size)]
        said = {"publisher": self.name, "endpoint": self.endpoint}
        return [Send(each.endpoint, Header(wire.OPEN, each.entry), wire.to_json(said | {"keeps": log.bytes})) for each, log in full]

    def keep(self, reader: StreamReader, header: Header, body: Any) -> bool:
        """A batch for a reader is kept, if its query recovers. Is it to be sent now? Raises Sealed: it does not count."""
        try:
            return reader.note(header, body)
        except Sealed:
            self.was_closed = True
            raise

    def choose(self, readers: Sequence[StreamReader], size: int) -> StreamReader | None:
        """The first with credit; None: the query is over. Raises ClusterError: we are closed, or count so, or the cluster is gone."""
        if self.lost is not None:
            raise self.lost
        if self.closing:
            raise ClusterError(f"{self.described} was closed while it waited for credit")
        if self.was_closed or any(reader.closed for reader in readers):
            self.check_heard()
        return first_with_credit(readers, size)

    def tell_watermark(self) -> Sequence[StreamCommand]:
        """To those that do not know it yet."""
        return self.numbering.tell_watermark(self.readers.values())

    def promise(self, time_us: int) -> Sequence[StreamCommand]:
        """Nothing older than that will be sent, disorder not subtracted. Raises ClusterError: a reader has closed us."""
        self.check_heard()
        self.numbering.start_at(time_us)
        return self.tell_watermark()

    def go_on_with(self, now_us: int) -> Sequence[StreamCommand]:
        """Rows are stamped as they are sent: time goes on without them."""
        self.numbering.max_time = max(self.numbering.max_time, now_us)
        return self.tell_watermark()

    def look(self, now: int) -> Sequence[StreamCommand]:
        """Has it been silent for so long that readers need not wait for it? One that closes says its last word and not Idle."""
        return NOTHING if self.closing else self.silence.look(now)

    def ask_awake(self, readers: Iterable[StreamReader]) -> Sequence[StreamCommand]:
        """How far have they come without us? Raises ClusterError: we are closed, or the cluster is gone."""
        if self.lost is not None:
            raise self.lost
        if self.closing:
            raise ClusterError(f"{self.described} was closed while it woke up")
        document = wire.to_json({**self._opening_now, "awakes": True})
        return [Send(reader.endpoint, Header(wire.OPEN, reader.entry), document) for reader in readers]

    def awake(self, asked: Iterable[StreamReader], now: int) -> Sequence[StreamCommand]:
        """All have answered. Raises ClusterError: one of them counts us as closed."""
        self.check_heard()
        return self.silence.awake(asked, now)

    # StreamReaders

    def ask(self, documents: Iterable[Document]) -> tuple[list[StreamReader], Sequence[StreamCommand]]:
        """Asks to be let in by those that are new; rows that come next are theirs too."""
        commands: list[StreamCommand] = [*self.readers.forget_gone()]
        new = [] if self.closed else self.readers.add(documents)
        for reader in new:
            if reader.log is not None:
                reader.log.opens(self._opening_now)
        return new, [*commands, *self._ask_again(each for each in new if each.is_to_be_asked)]

    def _ask_to_open(self, reader: StreamReader, opening: Opening) -> Sequence[StreamCommand]:
        reader.asked, reader.told_opening = True, None if reader.log is None else reader.log.opening
        return [Listen(reader.endpoint, reader.channel), Send(reader.endpoint, Header(wire.OPEN, reader.entry), wire.to_json(opening))]

    def _ask_again(self, readers: Iterable[StreamReader]) -> Sequence[StreamCommand]:
        """Of a query that recovers with what holds for the first element that is kept for it."""
        commands = list[StreamCommand]()
        for reader in list(readers):
            log = reader.log
            kept = None if log is None else log.opening | {"kept_from": log.first, "volatile": reader.is_volatile}
            commands += self._ask_to_open(reader, self._opening_now if kept is None else kept)
        return commands

    def drop_gone(self, documents: Iterable[Document]) -> Sequence[StreamCommand]:
        """`documents` describe what reads the stream now: a reader that is not among them is gone, and one of a query that has recovered
        goes on elsewhere. Unlike new ones it is asked at once, for a `send` may be waiting for it."""
        return self._ask_again(self.readers.drop_gone(documents))

    def ask_astray(self) -> Sequence[StreamCommand]:
        """Once more where readers were last known to be: one may not have been there yet, or it has lost us, and the orchestrator has
        nothing to say of that."""
        return self._ask_again(self.readers.astray if self.has_astray else ())

    @property
    def has_astray(self) -> bool:
        """One that closes asks them by itself."""
        return not self.closed and bool(self.readers.astray)

    def grow(self, stream: Stream) -> Sequence[StreamCommand]:
        """Its rows have the columns of `stream` from now on. Readers hear so in front of the first of them, as if it came to a place where
        it was before: with the numbers it has come to."""
        self.stream = stream
        self.numbering.declare(stream)
        opening = self._opening_now
        open_ = [reader for reader in self.readers.values() if not (reader.gone or reader.closed or self.closed)]
        for reader in open_:
            if reader.log is not None:  # what it had sent when it opened stays: of its rows a query asks for those behind that
                reader.log.opens(opening | {"sent_until": reader.log.opening["sent_until"]})
                reader.told_opening = reader.log.openings[-1][1] if reader.is_here else reader.told_opening
        body, told = wire.to_json(opening), [reader for reader in open_ if reader.log is None or reader.is_here]
        return [Send(r.endpoint, Header(wire.OPEN, r.entry, r.sequence, record=r.credit.sent), body) for r in told]

    @property
    def _opening_now(self) -> Opening:
        return {**self._opening, "sent_until": self.numbering.sent_until}

    @property
    def _opening(self) -> dict[str, Any]:
        said = {"publisher": self.name, "endpoint": self.endpoint, "schema": self.stream.schema.to_json()}
        return said | {"incarnation": self.incarnation} if self.incarnation else said

    def lose(self, gone: set[str], away: str, refused: bool) -> None:
        """The cluster does not answer, as `away` says, and the processes at endpoints `gone` have ended. With no reader left there is no
        cluster. `refused`: the orchestrator's process has ended."""
        here = self.readers.endpoints
        for reader in self.readers.values():
            reader.gone |= reader.log is None and reader.endpoint in gone
        gone = gone & here
        if gone == here and (gone or refused):
            gone_readers = f"the instance managers at {', '.join(sorted(gone))} that read it have ended" if gone else "no query reads it"
            self.lost = ClusterError(f"{self.described}: {gone_readers}, and {away}")

    def heard(self, header: Header, body: Any, beaten: int) -> Sequence[StreamCommand]:
        """What a reader says; our last heartbeat was number `beaten`."""
        reader = self.readers.get(header.channel)
        if reader is None:
            return NOTHING
        match header.kind:
            case wire.CREDIT:
                reader.credit.grant(header.sequence, header.record, header.watermark)
                return self._send_backlog(reader)
            case wire.COVERED if reader.log is not None:
                reader.is_known = True
                reader.log.cover(header.sequence)
            case wire.OPENED | wire.CLOSED:
                said = wire.from_json(body) if len(body) else {}
                if said.get("incarnation", self.incarnation) == self.incarnation:
                    return self._said(reader, header, said, beaten)
            case wire.UNKNOWN if not self.closed:
                reader.forget_us(header.sequence, wire.from_json(body))
                self.was_closed = True
            case wire.REDIRECT if reader.opened and not self.closed:  # our last word is not said
                return self._redirect(reader, body)
        return NOTHING

    def _said(self, reader: StreamReader, header: Header, said: Document, beaten: int) -> Sequence[StreamCommand]:
        """To us, and not to a publisher of our name that was in our process before."""
        if header.kind == wire.CLOSED:
            reader.close(said, self.closed)
            self.was_closed = True
        elif reader.opened:
            self._answered(reader, header, said)
        else:
            return self._opened(reader, header, said, beaten)
        return NOTHING

    def _opened(self, reader: StreamReader, header: Header, said: Document, beaten: int) -> Sequence[StreamCommand]:
        reader.open(header, said, beaten)
        self.numbering.record = max(self.numbering.record, header.record)
        listening = self._goes_on_at(said.get("endpoint", reader.endpoint), reader)  # it may have moved since we heard of it
        self.numbering.start_at(header.watermark)
        if reader.log is not None:
            was_laid = reader.log.ring is not None
            if reader.opened and not (was_laid if self._is_laid(reader, reader.log, said) else said.get("volatile")):
                # The answer may be older than another publisher of our name: it sees what we have laid only from now on.
                reader.is_volatile, reader.was_let_in = reader.log.ring is None, False
                reader.lose_place()
                return self._ask_again([reader])
            return [*listening, *self._send_backlog(reader)] if reader.opened else NOTHING
        if self.closed:
            return [*listening, *self._say_last_word([reader] if reader.opened else [])]
        return [*listening, *(self.silence.say_idle([reader]) if self.silence.idle else NOTHING)]

    def _is_laid(self, reader: StreamReader, log: SentLog, said: Document) -> bool:
        """Is what it is sent kept in a ring, if its process sees that? One that has begun elsewhere stays there."""
        if log.ring is not None or log.first != log.end:
            return log.ring is not None
        ring = None if said.get("ring") is None else self.ring_at(said["ring"])
        if ring is None:
            why = "it offers no ring" if said.get("ring") is None else f"{said['ring'].get('folder')} is not seen from here"
            LOG.info("%s: what query %r is sent is kept in this process, and goes with it: %s", self.described, reader.query, why)
            return False
        query, epoch, instance = reader.place
        about = {"query": query, "epoch": epoch, "instance": instance, "stream": self.stream.name, "publisher": self.name}
        about["entry"] = reader.lasting
        document = about | {"incarnation": self.incarnation, OPENING: log.openings[-1][1]}
        try:
            log.lay_in(ring.log(publisher_channel(reader.lasting, self.name), log.first, document))
        except RingFull as full:
            LOG.warning("%s: what query %r is sent is kept in this process, and goes with it: %s", self.described, reader.query, full)
        reader.is_volatile = log.ring is None
        return log.ring is not None

    def _send_backlog(self, reader: StreamReader) -> Sequence[StreamCommand]:
        """Once more, as far as it has credit; behind the last of it, what holds now."""
        if reader.log is None or not reader.opened or (reader.told_all and reader.next == reader.sequence):
            return NOTHING
        commands: list[StreamCommand] = [Send(reader.endpoint, header, body) for header, body in reader.backlog()]
        if reader.is_here and not self.closed:
            reader.told_all = True
        if reader.is_here and not self.closed and self.numbering.underway is None:
            commands += self.silence.say_idle([reader]) if self.silence.idle else self.numbering.tell_watermark([reader])
        return commands

    def _answered(self, reader: StreamReader, header: Header, said: Document) -> None:
        """At one that had us open already: we were idle, or it is not there any more."""
        if reader.log is None:  # that it is elsewhere is an old answer, or one of another process, which says Unknown, too
            reader.gone |= not (said["here"] or said.get("elsewhere"))
        elif not said["here"]:
            reader.lose_place()
        if said.get("awakes"):
            reader.told_idle = False
            self.numbering.start_at(header.watermark)

    def _redirect(self, reader: StreamReader, body: Any) -> Sequence[StreamCommand]:
        barrier = wire.element_of(Header(wire.BARRIER, reader.channel), body, self.numbering.format)
        assert isinstance(barrier, MoveBarrier)
        behind = Send(reader.endpoint, self.numbering.element(wire.BARRIER, reader), body)
        listening = self._goes_on_at(barrier.endpoint, reader)
        opening = Header(wire.OPEN, reader.entry, reader.sequence, record=reader.credit.sent)
        return [behind, *listening, Send(reader.endpoint, opening, wire.to_json(self._opening))]

    def _goes_on_at(self, endpoint: str, reader: StreamReader) -> Sequence[StreamCommand]:
        if endpoint == reader.endpoint:
            return NOTHING
        reader.endpoint, reader.process = endpoint, 0
        return [Listen(endpoint, reader.channel)]

    # Closing

    def give_up(self) -> bool:
        """No more is sent. False: it had closed already."""
        closing, self.closing = self.closing, True
        return not closing

    def say_goodbye(self, last: bool, others: Sequence[str]) -> Sequence[StreamCommand]:
        """To all readers. `last`: it may be the end of the stream, if all `others` that count as open have vanished."""
        self.closed, self.last_word = True, {"last": last, "others": others, "endpoint": self.endpoint}
        if self.incarnation:
            self.last_word["incarnation"] = self.incarnation
        hearing = [reader for reader in self.readers.values() if not reader.is_replaced]  # elsewhere it would be another one's
        for reader in hearing:
            reader.closed, reader.taken = False, None
        # One that has not let us in yet hears it once it has: where its numbers go on only it knows.
        return self._say_last_word(reader for reader in hearing if reader.opened or reader.log is not None)

    def _say_last_word(self, readers: Iterable[StreamReader]) -> Sequence[StreamCommand]:
        commands: list[StreamCommand] = []
        for reader in readers if self.last_word else ():
            header = self.numbering.element(wire.CLOSE, reader, record=reader.credit.sent)
            body = wire.to_json({**self.last_word, "entry": reader.entry})
            if reader.notes(header, body):
                commands.append(Send(reader.endpoint, header, body))
        return commands

    def replaced(self) -> str:
        """What is to be complained of where another one has our name: it goes on behind what of us is known, and closes for us."""
        return self.unheard() or f"{self.described}: another publisher of its name goes on in its place"

    def unconfirmed(self, seconds: int) -> str:
        """What is to be complained of when the last word was said so long ago."""
        if not (silent := self.readers.unclosed):
            return self.unheard()
        where = ", ".join(sorted({f"query {reader.query!r} at {reader.endpoint}" for reader in silent}))
        said = f"being stopped or busy it has not confirmed within {seconds} s what it was sent, and that it is closed"
        return f"{self.described}: {where}: {said}"

    def check_replaceable(self) -> None:
        """May another one of our name go on in our process? Raises ClusterError: what no commit covers is in our memory, and not to be had
        by a reader to whom that one speaks."""
        held = [r.query for r in self.readers.values() if r.keeps_in_memory]
        if held:
            raise ClusterError(
                f"{self.described} is open in this process, and keeps what no commit of query {held[0]!r} covers in its memory: "
                "close it before another one of its name is opened"
            )

    def be_replaced(self) -> Sequence[StreamCommand]:
        """Another one of our name is open in our process, and goes on behind us."""
        self.closing = self.is_replaced = True
        self.lost = ClusterError(self.replaced())
        return self.leave()

    def leave(self) -> Sequence[StreamCommand]:
        """Nothing more is said or heard. One that has not let us in all the time hears behind our opening that we are closed."""
        self.closed = True
        commands = self._say_last_word(each for each in self.readers.unclosed if each.log is None and not each.opened)
        self.last_word = {}
        return [*commands, *map(Leave, self.readers)]
