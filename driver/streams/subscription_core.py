"""A subscription without input and output: messages, answers and times go in; rows, commands and errors come out.

1. Every instance that produces the stream is asked, and answers how its batches look. Nothing is read before all have answered.
2. Elements of an instance have numbers. A gap is a loss. An instance that moves says so from its new place: from then on there are two
   ways from it, and what has overtaken waits until its number is the next.
3. A subscription made before its query was deployed hears of the instances by what they send; it has to be told which query that is.
4. The stream has ended when all instances have ended. Whatever else stops it is `broken`: what is not complete never looks so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cep.dataflow.channel import slack
from cep.elements import MAX_TIME
from cep.errors import CepError, ClusterError, NotFound, QueryError, QueryFailed, QueryStopped, ReplayMismatch, StreamEnded, counted
from cep.model.schema import Schema
from cep.transport import wire
from cep.transport.coalescing import bytes_of, last_of
from cep.transport.wire import Format, Header
from driver.streams.arrow import time_column, visible_schema
from driver.streams.commands import NOTHING, Coalesce, Leave, Listen, Send, StreamCommand
from driver.streams.producers import Message, Producer, SubscriptionOptions
from driver.streams.resuming.regenerated import RegeneratedRows
from driver.streams.resuming.resumable import ResumableSubscription
from driver.streams.resuming.tokens import Position, ResumeToken

SMALL_BYTES = 16 << 10  # a batch of more is not taken together with others
ENOUGH_ROWS = 1024  # small batches are taken together up to so many rows
ANSWER_NS = 15_000_000_000
#: The kind of what comes from no instance: an error, or the query that was found; its body is that.
WORD = 0

_OVER = frozenset(("ended", "stopped", "failed"))


class SubscriptionCore(ResumableSubscription):
    """`endpoint`: where instances find us."""

    def __init__(self, stream: str, id_: str, endpoint: str, options: SubscriptionOptions, token: ResumeToken | None = None) -> None:
        super().__init__(stream, id_, options, token)
        self.endpoint = endpoint
        self.window = min(options.window_bytes, options.budget_bytes)
        self.slack = slack(self.window)
        self.asked: dict[int, Producer] = {}  # by outlet: those that have not answered yet
        self.resuming: dict[int, Producer] = {}  # likewise, of those that were made anew when their query recovered
        self.astray: list[Producer] = []  # that were asked where they are not
        self.attempt = 0  # how often it has
        self.recovers = False
        self.told = RegeneratedRows(id_)  # of a query that tells its answers at once
        self.went_back = 0  # the last attempt whose beginning that has heard of
        self.asked_at = 0  # ns, by the steady clock
        self.answered_rows = 0  # that had come out before, as they say
        self.last: Producer | None = None  # of what was taken last; its channel may be another by now
        self.early: dict[int, str] = {}  # channel -> endpoint of instances that were made with this subscription
        self.held: deque[Message] = deque()  # what comes before what is received next
        self.schema: Schema | None = None
        self.rows = 0
        self.over: StreamEnded | None = None  # the query was over when it was asked; to be told once

    # What puts it out

    def found(self, answer: Mapping[str, Any], now: int) -> Sequence[StreamCommand]:
        """The query that puts the stream out, as the orchestrator describes it."""
        query = self.query = answer["name"]
        self.epoch, self.attempt, self.recovers = answer["epoch"], answer.get("attempt", 0), answer.get("recovers", False)
        self.went_back = self.attempt  # for nothing has been taken yet
        if (error := self.refusal(answer)) is not None:
            self.fail(error)
            return NOTHING
        known = answer["schemas"].keys() | answer["outputs"].keys() | answer["rows"].keys()
        if answer["state"] == "failed":
            self.fail(self.failure(answer))
        elif self.stream not in known:
            self.fail(NotFound(f"query {query!r} puts out no stream {self.stream!r}; it has {', '.join(sorted(known))}"))
        elif producers := answer["outputs"].get(self.stream, ()):
            return self.ask(query, producers, now)
        elif self.token is not None and not self.has_ended:
            self.fail(ClusterError(f"{self.described}: it is over, and what was not read in time is gone"))
        elif self.token is None:
            self.over = StreamEnded(self.stream, sum(answer["rows"].values()))
        return NOTHING

    def ask(self, query: str, documents: Iterable[Mapping[str, Any]], now: int) -> Sequence[StreamCommand]:
        """Subscribes at the instances of `query` that produce the stream; each will answer."""
        self.query, self.asked_at = query, now
        asked = [self._producer(document) for document in documents]
        self.producers |= {producer.channel: producer for producer in asked}
        self.asked |= {producer.outlet: producer for producer in asked}
        return [*[Listen(producer.endpoint, producer.channel) for producer in asked], *map(self._subscribe, asked)]

    def _producer(self, document: Mapping[str, Any]) -> Producer:
        """As the token has left it. One whose end the program has had hears of that, too, for it waits for it."""
        positions = () if self.token is None else self.token.positions
        left = next((each for each in positions if each.instance == document["instance"]), Position(document["instance"], "", 0))
        own = self.query, self.stream, self.id, self.attempt, self.holder
        made = Producer(document, *own, left.following)
        made.lineage, made.open = left.lineage, not left.ended
        return made

    def _subscribe(self, producer: Producer) -> Send:
        options = self.options
        terms = {"id": self.id, "endpoint": self.endpoint, "event_time": bool(options.event_time)}
        terms |= {"on_slow": options.on_slow, "keep_s": options.keep_s, "budget_bytes": options.budget_bytes}
        terms |= {"next": producer.sequence, "lineage": producer.lineage} if producer.sequence else {}
        terms |= {"attempt": self.went_back, "counted": producer.counted} if producer.told else {}
        terms |= {"resumable": True, "holder": self.holder, "acknowledged": producer.acknowledged} if options.resumable else {}
        return Send(producer.endpoint, Header(wire.SUBSCRIBE, producer.outlet), wire.to_json(terms))

    def recovered(self, answer: Mapping[str, Any]) -> Sequence[StreamCommand]:
        """Its query may have recovered, as the orchestrator says: instances that were made anew are told where we go on."""
        attempt = answer.get("attempt", 0)
        if answer["name"] != self.query or answer["epoch"] != self.epoch:
            return NOTHING
        places = {document["instance"]: str(document["endpoint"]) for document in answer["outputs"].get(self.stream, ())}
        commands: list[StreamCommand] = []
        for producer in list(self.producers.values()):
            behind = producer.attempt < attempt or producer.replaced or producer.outlet in self.resuming or producer.outlet in self.asked
            if producer.attempt <= attempt and behind and producer.instance in places:  # though it has ended: it waits for us
                commands += self._go_on(producer, places[producer.instance], attempt)
        return commands

    def _go_on(self, producer: Producer, endpoint: str, attempt: int) -> Sequence[StreamCommand]:
        """At the next attempt, from the number that we wait for."""
        before = producer.channel
        del self.producers[before]
        self.resuming.pop(producer.outlet, None)
        self.asked.pop(producer.outlet, None)
        producer.go_to(endpoint, attempt)
        producer.ahead = None
        self.attempt = max(self.attempt, attempt)
        self.producers[producer.channel] = self.resuming[producer.outlet] = producer
        leaving = [] if before == producer.channel else [Leave(before)]
        return [*leaving, Listen(endpoint, producer.channel), self._subscribe(producer)]

    def answered(self, outlet: int, answer: Mapping[str, Any], beaten: int) -> Sequence[StreamCommand]:
        """An instance has answered; our last heartbeat was number `beaten`."""
        producer = self.asked.get(outlet) or self.resuming.get(outlet)
        if producer is None or (self.recovers and not answer["here"]):
            return NOTHING  # it is not made yet, or no more: we ask again
        self.asked.pop(outlet, None)
        resuming = self.resuming.pop(outlet, None)
        if (why := answer.get("refused")) is not None:
            if producer.open:  # else we have had all
                self.fail(self._refused(why))
            return NOTHING
        if answer.get("told") and "restored" in answer and self.went_back < producer.attempt:
            self.told.go_back(answer["restored"])
            self.went_back = producer.attempt
        if resuming is not None:
            return self._let_in(producer, answer, beaten) if not answer["ended"] else NOTHING
        self.answered_rows += answer.get("rows", 0)
        commands: Sequence[StreamCommand] = NOTHING
        if not answer["here"]:
            self.astray.append(producer)
        elif not answer["ended"]:
            commands = self._let_in(producer, answer, beaten)
        else:
            producer.open = False
        self._look_whether_over()
        return commands

    def _look_whether_over(self) -> None:
        if not self.asked and self.token is None and not any(each.open for each in self.producers.values()):
            self.over = StreamEnded(self.stream, self.answered_rows)

    def look_again(self, answer: Mapping[str, Any], now: int) -> Sequence[StreamCommand]:
        """An instance was not where it was asked, and another process may be there: where it is, or that its query is over, the
        orchestrator says."""
        astray, self.astray = self.astray, []
        if answer["state"] == "failed":
            self.fail(self.failure(answer))
            return NOTHING
        if any(answer["epoch"] != each.epoch for each in astray):
            self.fail(self._deleted())
            return NOTHING
        self.recovers, self.asked_at, attempt = answer.get("recovers", False), now, answer.get("attempt", 0)
        places = {} if answer["state"] in _OVER else {each["instance"]: each for each in answer["outputs"].get(self.stream, ())}
        commands: list[StreamCommand] = []
        for producer in (each for each in astray if each.open):  # else its end has come meanwhile
            producer.open = producer.instance in places
            if producer.open:
                commands += self._ask_at(producer, str(places[producer.instance]["endpoint"]), attempt)
        self._look_whether_over()
        return commands

    def _ask_at(self, producer: Producer, endpoint: str, attempt: int) -> Sequence[StreamCommand]:
        """Once more, unless it has said itself where it is."""
        if attempt > producer.attempt:
            del self.producers[producer.channel]
            producer.go_to(endpoint, attempt)
            self.attempt, self.producers[producer.channel] = attempt, producer
        elif producer.ahead is None:
            producer.endpoint = endpoint
        self.asked[producer.outlet] = producer
        return [Listen(producer.endpoint, producer.channel), self._subscribe(producer)]

    def _let_in(self, producer: Producer, answer: Mapping[str, Any], beaten: int) -> Sequence[StreamCommand]:
        producer.lineage = answer.get("lineage", "")
        if answer.get("told"):
            producer.told, producer.counted, producer.sequence = True, producer.attempt, answer["from"]
        self.schema = Schema.from_json(answer["schema"])
        producer.process, producer.since = answer.get("process", 0), beaten
        sent = Format(self.schema, time=answer["time"])
        try:
            shown = time_column(self.options.event_time, self.stream, self.schema.names) if self.options.event_time else wire.TIME
            producer.shown = visible_schema(sent, shown)
            if not self.options.event_time and len(producer.shown) > len(self.schema.names):
                producer.selected = self.schema.names
        except QueryError as error:
            self.fail(error)
            return NOTHING
        return [Coalesce(producer.channel, None if self.options.apart else sent.layout), self._grant(producer)]

    def placed(
        self, channel: int, endpoint: str, process: int, beaten: int, instance: int = -1, attempt: int = 0
    ) -> Sequence[StreamCommand]:
        """The instance is there: now, or it has been from the beginning; or it was made anew when its query recovered."""
        producer = self.producers.get(channel)
        behind = (each for each in self.producers.values() if each.instance == instance and each.attempt < attempt)
        if producer is None and (left := next(behind, None)) is not None:
            return self._go_on(left, endpoint, attempt)
        if producer is not None and producer.outlet in self.resuming:
            return [self._subscribe(producer)]
        self.early[channel] = endpoint
        commands: list[StreamCommand] = [Listen(endpoint, channel)]
        if producer is not None:
            producer.process, producer.since = process, beaten
            if endpoint != producer.endpoint:
                producer.ahead, producer.endpoint = producer.ahead or {}, endpoint
                commands.append(self._grant(producer))  # the last one to the process before may have found it gone
        return commands

    def overdue(self, now: int) -> list[str]:
        """Where instances are that should have answered by now."""
        late = now - self.asked_at >= ANSWER_NS and not self.recovers  # then it will be there yet, and know of us
        return sorted({producer.endpoint for producer in list(self.asked.values())}) if late else []

    # Messages

    def take(self, header: Header, body: Any) -> tuple[pa.RecordBatch | None, Sequence[StreamCommand]]:
        """What a message means: rows, or None."""
        producer = self.producers.get(header.channel)
        if producer is None:
            if not self.query:
                self.held.append((header, body))
            return None, NOTHING
        if producer.told and producer.attempt < self.attempt:
            return None, NOTHING  # its query has recovered since, so it comes once more
        if header.kind < wire.CREDIT:
            if producer.ahead is not None and header.sequence > producer.sequence:
                producer.ahead[header.sequence] = header, body
                return None, NOTHING
            if header.sequence != producer.sequence:
                lost = f"expected element {producer.sequence}, got {header.sequence}: messages were lost"
                self.fail(ClusterError(f"{self.described}: {lost}"))
                return None, NOTHING
            producer.sequence = last_of(header) + 1
            if producer.ahead and (following := producer.ahead.pop(producer.sequence, None)) is not None:
                self.held.appendleft(following)
        if header.kind == wire.BATCH:
            self.last = producer
            batch = self._batch(producer, header, body)
            return batch if batch is None or batch.num_rows else None, self._owed(producer)
        if header.kind == wire.BARRIER:
            self._pass_mark(producer, header, wire.from_json(body))
            return None, (self._grant(producer),)
        self._end(producer, header, body)
        return None, (self._grant(producer),) if header.kind == wire.END and self.recovers else NOTHING

    def name_of(self, header: Header) -> str:
        """Of a batch that was just taken: the same one has the same name in whichever process and attempt it comes, and no other has it."""
        producer = self.last
        assert producer is not None
        whose = producer.lineage if self.options.resumable and producer.lineage else self.id
        return f"{self.query}.{self.epoch}.{whose}.{producer.instance}.{header.sequence}"

    def following(
        self, channel: int, batch: pa.RecordBatch, arrived: Iterable[Message]
    ) -> tuple[list[pa.RecordBatch], Sequence[StreamCommand]]:
        """`batch`, which was just taken, and the small ones that have arrived behind it from the same instance, up to ENOUGH_ROWS or until
        credit is owed; what is none is held. None of an instance that another thread has heard of since to go on elsewhere."""
        if (producer := self.producers.get(channel)) is None:
            return [batch], NOTHING
        batches, rows = [batch], batch.num_rows
        for header, body in arrived:
            expected = header.kind == wire.BATCH and header.channel == channel and header.sequence == producer.sequence
            if not expected or producer.ahead is not None or len(body) > SMALL_BYTES:
                self.held.append((header, body))
                break
            producer.sequence = last_of(header) + 1
            if (found := self._batch(producer, header, body)) is None:
                break
            batches.append(found)
            rows += found.num_rows
            if rows >= ENOUGH_ROWS or producer.consumed - producer.granted > self.slack:
                break
        return batches, self._owed(producer)

    def _batch(self, producer: Producer, header: Header, body: Any) -> pa.RecordBatch | None:
        """None: it is none, and the stream is broken."""
        try:
            batch = pa.ipc.read_record_batch(wire.aligned(body), producer.shown)
            batch.validate()
        except (pa.ArrowException, OSError) as error:
            self.fail(ClusterError(f"{self.described}: what came is no batch of {self.schema}: {error}"))
            return None
        producer.consumed += bytes_of(header, body)
        if producer.told:
            batch = self.told.new_of(producer.mark, batch)
        self.rows += batch.num_rows
        return batch if producer.selected is None else batch.select(producer.selected)

    def _pass_mark(self, producer: Producer, header: Header, word: Mapping[str, Any]) -> None:
        """A checkpoint was taken there; that one is committed which it names."""
        producer.mark, producer.promised = word["number"], header.watermark
        self.told.committed(word["committed"])
        self._look_for_missing()

    def _look_for_missing(self) -> None:
        """Rows that should have come once more by now, and have not."""
        if not self.told.ahead or self.options.on_slow == "drop":
            return
        watermark = min((each.promised for each in self.producers.values() if each.open), default=MAX_TIME)
        if missing := self.told.missing(watermark):
            said = f"{counted(missing, 'row')} that had been told did not come again after a recovery"
            self.fail(ReplayMismatch(f"{self.described}: {said}: the query is no function of its input alone, or that was changed"))

    def _owed(self, producer: Producer) -> Sequence[StreamCommand]:
        """Credit, if it owes that."""
        return (self._grant(producer),) if producer.consumed - producer.granted > self.slack else NOTHING

    def _grant(self, producer: Producer) -> Send:
        producer.granted = producer.consumed
        following, room = producer.sequence, producer.consumed + self.window
        header = Header(wire.CREDIT, producer.channel, sequence=producer.consumed, record=room, created=following)
        return Send(producer.endpoint, header)

    def _end(self, producer: Producer, header: Header, body: Any) -> None:
        """What else an instance says, with which its channel ends in one way or another."""
        match header.kind:
            case wire.END:
                producer.open = False
                self._look_for_missing()
            case wire.UNSUBSCRIBE:
                if producer.open:  # else we have had all
                    self.fail(self._dropped() if not body else self._refused(wire.from_json(body)["why"]))
            case wire.UNKNOWN:
                self._unknown(producer, header.sequence, wire.from_json(body))
            case wire.STOP:
                self.fail(QueryStopped(f"query {self.query!r} was stopped; open windows of stream {self.stream!r} did not fire"))
            case wire.FAIL:
                fail = wire.from_json(body)
                self.fail(QueryFailed(self.query, fail["subquery"], fail["instance"], fail["cause"]))

    def _unknown(self, producer: Producer, beat: int, word: Mapping[str, Any]) -> None:
        """The process there knows nothing of us: it has dropped us. Of another process the orchestrator knows what became of the query."""
        if producer.open and beat > producer.since and word["endpoint"] == producer.endpoint:
            if self.recovers:
                producer.replaced = True
            elif word["process"] == producer.process:
                self.fail(self._dropped())
            else:
                producer.replaced = producer.process != 0

    def _dropped(self) -> ClusterError:
        return ClusterError(f"{self.described}: this subscription was silent for too long and was dropped")

    def _refused(self, why: str) -> CepError:
        """An instance does not let us have it."""
        if self.token is not None and not self.rows:
            return QueryError(f"resume: {self.described}: {why}", "/resume")
        return ClusterError(f"{self.described}: {why}")

    # What has become of the query

    @property
    def wonders(self) -> bool:
        """Has something come that only the orchestrator can explain?"""
        replaced = any(producer.replaced for producer in list(self.producers.values()))  # another thread may hear of one now
        return bool((self.held and not self.query) or self.astray) or replaced

    def judge(self, answer: Mapping[str, Any]) -> CepError | None:
        """What the orchestrator says of our query may be why nothing comes."""
        if answer["state"] is None or answer.get("epoch", self.epoch) != self.epoch:
            return self._deleted()
        if answer["state"] == "failed":
            return self.failure(answer)
        if answer["state"] in _OVER and not answer.get("outputs", {self.stream: True}).get(self.stream):
            return ClusterError(f"{self.described}: it is over, and what was not read in time is gone")
        return None

    def _deleted(self) -> ClusterError:
        return ClusterError(f"{self.described}: that query was deleted, and perhaps another of its name deployed; subscribe again")

    def failure(self, answer: Mapping[str, Any]) -> CepError:
        cause = answer.get("cause") or {}
        return QueryFailed(self.query, cause.get("subquery", ""), cause.get("instance"), cause.get("cause", "unknown"))

    @property
    def sources(self) -> list[str]:
        """Where instances are whose streams have not ended."""
        return sorted({producer.endpoint for producer in list(self.producers.values()) if producer.open})

    def doubt(self, gone: Iterable[str], away: str, refused: bool) -> ClusterError | None:
        """The cluster does not answer, as `away` says. Nothing more comes if the process at one of our sources has ended, too (`gone`).
        `refused`: the orchestrator's has. One that lives waits for ZooKeeper, and then a query that recovers goes on."""
        replaced = {producer.endpoint for producer in list(self.producers.values()) if producer.open and producer.replaced}
        if (ended := sorted(replaced.union(gone))) and (refused or not self.recovers):
            what = f"the instance managers at {', '.join(ended)} that put it out have ended"
            return ClusterError(f"{self.described}: {what}, and {away}")
        if not self.sources and refused:
            return ClusterError(f"stream {self.stream!r}: no query was found that puts it out, and {away}")
        return None

    # Ending

    def close(self) -> None:
        """The program does not read on."""
        if self.goes_on:
            self.fail(ClusterError(f"{self.described}: this subscription was closed before the stream had ended"))

    def leave(self, keep: bool = False) -> Sequence[StreamCommand]:
        """Gives it up; rows that wait for it are dropped and counted where they are. `keep`: they are kept there for a while, for it may be
        resumed."""
        if self.closed:
            return NOTHING
        self.closed = True
        commands: list[StreamCommand] = []
        for producer in self.producers.values():
            commands += Send(producer.endpoint, Header(wire.UNSUBSCRIBE, producer.channel, int(keep))), Leave(producer.channel)
        return [*commands, *map(Leave, self.early)]
