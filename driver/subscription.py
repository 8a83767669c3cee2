"""A subscription: the answers of an output stream as Arrow record batches, from all instances that produce it (DESIGN 5.9)."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa

from cep import wire
from cep.dataflow.channel import slack
from cep.errors import CepError, ClusterError, NotFound, QueryError, QueryFailed, QueryStopped, StreamEnded
from cep.joint import bytes_of, last_of
from cep.model.limits import HELD_BYTES_MAX, KEEP_S_MAX, KEEP_S_MIN, checked
from cep.model.schema import Schema
from cep.transport import is_gone
from cep.wire import Format, Header
from driver.arrow import shown, time_column
from driver.data import DataPlane
from driver.rest import Rest, Unreachable, path

WINDOW_BYTES = 16 << 20  # what may be under way to us per producing instance
ANSWER_S = 15.0
BUDGET_BYTES = 64 << 20
ENOUGH_ROWS, SMALL_BYTES = 1024, 16 << 10  # batches are taken together up to so many rows, if none is larger
_RUNNING, _OVER = frozenset(("ready", "running", "draining")), frozenset(("ended", "stopped", "failed"))
IDLE_S = 1.0  # after this long without a message the orchestrator is asked what is the matter, and nobody waits for its answer
WITHDRAW_S = 5.0
#: The kind of what comes from no instance: an error, or where the instances are; its body is that.
WORD = 0


class Producer:
    """One instance that produces the stream, and our channel from it."""

    def __init__(self, document: dict[str, Any], query: str, stream: str, id_: str) -> None:
        self.endpoint = str(document["endpoint"])
        index = document["instance"]
        self.outlet = wire.name_id(f"{query}/{stream}/{index}")
        self.channel = wire.name_id(f"{query}/{stream}/{index}>{id_}")
        self.consumed = self.granted = 0
        self.sequence = 0
        self.process = 0  # which it is in, once it has said so
        self.since = 0  # heartbeats later than this one find us there
        self.replaced = False  # that has ended, and another is in its place
        self.open = True
        self.ahead: dict[int, tuple[Header, Any]] | None = None  # since it has moved: what has overtaken what came from its old place
        self.shown: pa.Schema | None = None  # as what the batches are read that it sends


class Subscription:
    """Iterate over it: it ends when the stream ends, and raises QueryFailed or QueryStopped when its query does not end by itself.

    Everything that comes out from its creation on is held for it, within the budget.
    """

    def __init__(
        self,
        rest: Rest,
        plane: DataPlane,
        stream: str,
        on_slow: str = "block",
        keep_s: float = 60.0,
        event_time: bool | str = False,
        budget_bytes: int = BUDGET_BYTES,
        into: Callable[[Subscription, Header, Any], None] | None = None,
    ) -> None:
        if on_slow not in ("block", "drop"):
            raise QueryError(f"on_slow: expected 'block' or 'drop', got {on_slow!r}", "/on_slow")
        checked(keep_s, "keep_s", KEEP_S_MIN, KEEP_S_MAX, "/keep_s")
        checked(budget_bytes, "budget_bytes", 1, HELD_BYTES_MAX, "/budget_bytes")
        self.rest, self.plane, self.stream, self.event_time = rest, plane, stream, event_time
        self.id = f"s-{uuid.uuid4().hex[:12]}"
        self.terms = {"id": self.id, "on_slow": on_slow, "keep_s": keep_s, "budget_bytes": budget_bytes, "event_time": bool(event_time)}
        self.query, self.epoch = "", -1  # and which deployment of it
        self.over: frozenset[tuple[str, int]] = frozenset()  # queries (and deployments) that were over when we registered
        self.registered = False
        self.window = min(WINDOW_BYTES, budget_bytes)
        self.messages: queue.SimpleQueue[tuple[Header, Any]] = queue.SimpleQueue()
        self.into = into  # where messages go instead
        self.early: dict[int, str] = {}  # channel -> endpoint of instances that were made with this subscription
        self.plane.subscribers[self.id] = self._answered
        self.producers: dict[int, Producer] = {}
        self.schema: Schema | None = None
        self.held: list[tuple[Header, Any]] = []
        self.rows = 0
        self.closed = False
        self.broken: CepError | None = None  # why it stopped before its stream had ended

    def _hear(self, header: Header, body: Any) -> None:
        """In the plane's thread."""
        if self.into is None:
            self.messages.put((header, body))
        else:
            self.into(self, header, body)

    def _answered(self, header: Header, body: Any) -> None:
        """In the plane's thread. An instance that was made with this subscription says what it will send on, before it sends."""
        answer = wire.from_json(body)
        if (place := answer.get("place")) is not None:
            self._find_at(place["channel"], place["endpoint"], place.get("process", 0))
        if "here" in answer:
            self._hear(header, body)

    def _find_at(self, channel: int, endpoint: str, process: int) -> None:
        """The instance is there: now, or it has been from the beginning."""
        producer, before = self.producers.get(channel), self.early.get(channel)
        if producer is not None:
            before, producer.process, producer.since = producer.endpoint, process, self.plane.beaten
            if endpoint != before:
                producer.ahead, producer.endpoint = producer.ahead or {}, endpoint
        if before not in (None, endpoint):
            self.plane.leave(before, channel)
        self.early[channel] = endpoint
        self.plane.listen(endpoint, channel, self._hear)

    # Registering

    def register(self) -> Subscription:
        """Before its query is deployed: the orchestrator hands it to the instances when they are made."""
        document = {"id": self.id, "endpoint": self.plane.endpoint, "on_slow": self.terms["on_slow"], "keep": self.terms["keep_s"]}
        try:
            self.over = frozenset((q["name"], q["epoch"]) for q in self._producing(_OVER))
            self.registered = True
            self.rest.post(path("streams", self.stream, "subscriptions"), document)
        except CepError:  # the orchestrator may have it nevertheless
            self._leave()
            raise
        return self

    def _producing(self, states: frozenset[str]) -> list[dict[str, Any]]:
        """Queries in one of `states` that have our stream among their outputs."""
        names = [summary["name"] for summary in self.rest.get("/queries") if summary["state"] in states]
        found = [self.rest.get(path("queries", name)) for name in names]
        return [query for query in found if self.stream in query["outputs"]]

    def attach(self, query: str) -> Subscription:
        """Registers at every instance of `query` that produces the stream. Raises StreamEnded where it is over."""
        try:
            return self._attach_to(self.rest.get(path("queries", query)))
        except CepError:  # whoever asked for it does not get it, so cannot close it
            self._leave()
            raise

    def _attach_to(self, answer: dict[str, Any]) -> Subscription:
        """`answer`: what the orchestrator says of the query."""
        query = self.query = answer["name"]
        self.epoch = answer["epoch"]
        if answer["state"] == "failed":
            raise self.failure(answer)
        known = answer["schemas"].keys() | answer["outputs"].keys() | answer["rows"].keys()
        if self.stream not in known:
            raise NotFound(f"query {query!r} puts out no stream {self.stream!r}; it has {', '.join(sorted(known))}")
        self.ask(query, answer["outputs"].get(self.stream, ()))
        if not self.producers:
            raise StreamEnded(self.stream, sum(answer.get("rows", {}).values()))
        self._await_answers()
        return self

    def ask(self, query: str, producers: Iterable[dict[str, Any]]) -> None:
        """Subscribes at the instances of `query` that produce the stream; each will answer."""
        self.query = query
        for document in producers:
            producer = Producer(document, query, self.stream, self.id)
            self.producers[producer.channel] = producer
            self.plane.listen(producer.endpoint, producer.channel, self._hear)
            body = wire.to_json({**self.terms, "endpoint": self.plane.endpoint})
            self.plane.send(producer.endpoint, Header(wire.SUBSCRIBE, producer.outlet), body)

    def _await_answers(self) -> None:
        waiting = {producer.outlet: producer for producer in self.producers.values()}
        rows, ended = 0, 0
        deadline = time.monotonic() + ANSWER_S
        while waiting:
            header, body = self._next(max(0.0, deadline - time.monotonic()))
            if header is None:
                self.close()
                raise ClusterError(f"stream {self.stream!r} of query {self.query!r}: {unanswered(waiting.values())}")
            if header.kind != wire.SUBSCRIBED:
                self.held.append((header, body))
                continue
            producer = waiting.pop(header.channel, None)
            if producer is not None:
                answer = wire.from_json(body)
                rows, ended = rows + answer.get("rows", 0), ended + self.subscribed(producer, answer)
        if ended == len(self.producers):
            self.close()
            raise StreamEnded(self.stream, rows)

    def subscribed(self, producer: Producer, answer: dict[str, Any]) -> int:
        """1 if that instance is over."""
        if not answer["here"] or answer["ended"]:
            producer.open = False
            return 1
        self.schema = Schema.from_json(answer["schema"])
        producer.process, producer.since = answer.get("process", 0), self.plane.beaten
        sent = Format(self.schema, time=answer["time"])
        try:
            producer.shown = shown(sent, time_column(self.event_time, self.stream, self.schema.names))
        except QueryError as error:
            self._break(error)
        self.plane.sockets.join(producer.channel, sent.layout)
        self._grant(producer)
        return 0

    def _next(self, timeout: float) -> tuple[Header, Any] | tuple[None, None]:
        try:
            header, body = self.plane.next_of(self.messages, timeout)
            return header, body
        except queue.Empty:
            return None, None

    # Reading

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end of the stream. Raises TimeoutError after `timeout` seconds without one, and what has broken the
        stream, again and again: what is not complete never looks so."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.closed and self._goes_on:
            left = IDLE_S if deadline is None else min(IDLE_S, deadline - time.monotonic())
            header, body = self.held.pop(0) if self.held and self.query else self._next(left)
            if header is not None:
                batch = self.take(header, body)
                if batch is not None:
                    return self._with_following(header.channel, batch)
            elif deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"stream {self.stream!r}: no batch within {timeout:g} s")
            else:
                self.wonder()
        self._leave()
        if self.broken is not None:
            raise self.broken
        return None

    @property
    def _goes_on(self) -> bool:
        """The stream has not ended, as far as is known here; or it is not known yet who puts it out."""
        return not self.query or any(producer.open for producer in self.producers.values())

    def _with_following(self, channel: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Small batches that have come behind each other are one: who is slow catches up, for a batch of few rows costs him as much as one
        of many."""
        batches, rows, producer = [batch], batch.num_rows, self.producers[channel]
        while rows < ENOUGH_ROWS and not self.held and not self.messages.empty():
            message = self.messages.get()
            if message is None:  # a hint to a thread that waits (`DataPlane.next_of`)
                continue
            header, body = message
            expected = header.kind == wire.BATCH and header.channel == channel and header.sequence == producer.sequence
            if not expected or producer.ahead is not None or len(body) > SMALL_BYTES:
                self.held.append(message)
                break
            producer.sequence = last_of(header) + 1
            batches.append(self._batch(producer, header, body))
            rows += batches[-1].num_rows
        return batch if len(batches) == 1 else pa.concat_batches(batches)

    def take(self, header: Header, body: Any) -> pa.RecordBatch | None:
        """What a message means; None: no rows."""
        if header.kind == WORD:
            self._hear_word(body)
            return None
        producer = self.producers.get(header.channel)
        if producer is None:
            if not self.query and header.kind != wire.SUBSCRIBED:
                self.held.append((header, body))
                self.wonder()
            return None
        if header.kind < wire.CREDIT:
            if producer.ahead is not None and header.sequence > producer.sequence:
                producer.ahead[header.sequence] = header, body
                return None
            if header.sequence != producer.sequence:
                lost = f"expected element {producer.sequence}, got {header.sequence}: messages were lost"
                self._break(ClusterError(f"{self._of()}: {lost}"))
            producer.sequence = last_of(header) + 1
            if producer.ahead and (following := producer.ahead.pop(producer.sequence, None)) is not None:
                self.held.insert(0, following)
        match header.kind:
            case wire.BATCH:
                return self._batch(producer, header, body)
            case wire.END:
                producer.open = False
            case wire.UNSUBSCRIBE:
                self._break(self._dropped())
            case wire.UNKNOWN:
                self._unknown(producer, header.sequence, wire.from_json(body))
            case wire.STOP:
                self._break(QueryStopped(f"query {self.query!r} was stopped; open windows of stream {self.stream!r} did not fire"))
            case wire.FAIL:
                fail = wire.from_json(body)
                self._break(QueryFailed(self.query, fail["subquery"], fail["instance"], fail["cause"]))
        return None

    def _unknown(self, producer: Producer, beat: int, word: dict[str, Any]) -> None:
        """Who is there knows nothing of us: it has dropped us. Or it is another process: what became of the query is asked elsewhere."""
        if producer.open and beat > producer.since and word["endpoint"] == producer.endpoint:
            if word["process"] == producer.process:
                self._break(self._dropped())
            producer.replaced = producer.process != 0
            self.wonder()

    def _dropped(self) -> ClusterError:
        return ClusterError(f"{self._of()}: this subscription was silent for too long and was dropped")

    def _of(self) -> str:
        """For messages: what it reads."""
        return f"stream {self.stream!r} of query {self.query!r}" if self.query else f"stream {self.stream!r}"

    def _break(self, error: CepError) -> NoReturn:
        """Nothing more comes, and the stream has not ended."""
        self.broken = error
        self._leave()
        raise error

    def _batch(self, producer: Producer, header: Header, body: Any) -> pa.RecordBatch:
        assert self.schema is not None and producer.shown is not None
        try:
            batch = pa.ipc.read_record_batch(wire.aligned(body), producer.shown)
            batch.validate()
        except (pa.ArrowException, OSError) as error:
            self.close()
            raise ClusterError(f"stream {self.stream!r} of query {self.query!r}: what came is no batch of {self.schema}: {error}") from None
        producer.consumed += bytes_of(header, body)
        self.rows += batch.num_rows
        if producer.consumed - producer.granted > slack(self.window):
            self._grant(producer)
        declared = self.schema.names
        return batch if self.event_time or batch.num_columns == len(declared) else batch.select(declared)

    def _grant(self, producer: Producer) -> None:
        producer.granted = producer.consumed
        header = Header(wire.CREDIT, producer.channel, sequence=producer.consumed, record=producer.consumed + self.window)
        self.plane.send(producer.endpoint, header)

    # Wondering

    def wonder(self) -> None:
        """Nothing has come for a while: is the query there yet, has it failed? The answer, if it matters, comes as a message."""
        self.rest.aside.ask(self, self._inquire)

    def _inquire(self) -> None:
        """In the thread of `aside`. An orchestrator that is away is no answer, while those who produce the stream are there."""
        try:
            if self.query:
                self.judge(self.rest.get(path("queries", self.query), timeout=self.rest.patience_s))
            elif (found := self._find()) is not None:
                self.say(found)
        except Unreachable as away:
            self.doubt(away)
        except ClusterError:
            return
        except CepError as error:
            self.say(error)

    def judge(self, answer: dict[str, Any]) -> None:
        """What the orchestrator says of our query may be why nothing comes."""
        of = self._of()
        if answer["state"] is None or answer.get("epoch", self.epoch) != self.epoch:
            self.say(ClusterError(f"{of}: that query was deleted, and perhaps another of its name deployed; subscribe again"))
        elif answer["state"] == "failed":
            self.say(self.failure(answer))
        elif answer["state"] in _OVER and not answer.get("outputs", {self.stream: True}).get(self.stream):
            self.say(ClusterError(f"{of}: it is over, and what was not read in time is gone"))

    def doubt(self, away: Unreachable) -> None:
        """Nobody answers for the cluster. If one who produces the stream has gone, too, nothing will come any more."""
        open_ = [producer for producer in list(self.producers.values()) if producer.open]
        ended = sorted({producer.endpoint for producer in open_ if producer.replaced or is_gone(producer.endpoint)})
        if ended:
            what = f"the instance managers at {', '.join(ended)} that put it out have ended"
            self.say(ClusterError(f"{self._of()}: {what}, and {away}"))
        elif not open_ and away.refused:
            self.say(ClusterError(f"stream {self.stream!r}: no query was found that puts it out, and {away}"))

    def say(self, word: CepError | dict[str, Any]) -> None:
        """To whoever reads, behind what has come already."""
        self._hear(Header(WORD, 0), word)
        self.plane.nudge()

    def _hear_word(self, word: CepError | dict[str, Any]) -> None:
        if isinstance(word, CepError):
            self._break(word)
        if self.query or self.closed:
            return
        try:
            self._attach_to(word)
        except StreamEnded:
            self._leave()
            raise
        except CepError as error:  # without producers it would look like an end from now on
            self._break(error)

    def _find(self) -> dict[str, Any] | None:
        """Subscribed before deploy: the query that produces the stream, once it is there."""
        found = self._producing(_RUNNING | _OVER)
        return next((query for query in found if (query["name"], query["epoch"]) not in self.over), None)

    def failure(self, answer: dict[str, Any]) -> CepError:
        cause = answer.get("cause") or {}
        return QueryFailed(self.query, cause.get("subquery", ""), cause.get("instance"), cause.get("cause", "unknown"))

    # Ending

    def close(self) -> None:
        """Gives the subscription up; rows that wait for it are dropped and counted."""
        if not self.closed and self._goes_on:
            self.broken = ClusterError(f"{self._of()}: this subscription was closed before the stream had ended")
        if self._give_up():
            self._withdraw()

    def _leave(self) -> None:
        """The same for who reads, and does not wait for REST."""
        if self._give_up():
            self.rest.aside.ask((self, "withdraw"), self._withdraw)

    def _give_up(self) -> bool:
        """Is it to be withdrawn?"""
        if self.closed:
            return False
        self.closed = True
        for producer in self.producers.values():
            self.plane.send(producer.endpoint, Header(wire.UNSUBSCRIBE, producer.channel))
            producer.open = False
            self.plane.leave(producer.endpoint, producer.channel)
        for channel, endpoint in self.early.items():
            self.plane.leave(endpoint, channel)
        self.plane.subscribers.pop(self.id, None)
        return self.registered

    def _withdraw(self) -> None:
        try:
            self.rest.delete(path("streams", self.stream, "subscriptions", self.id), timeout=WITHDRAW_S)
        except ClusterError:  # the orchestrator is away; it forgets the subscription with the query
            return

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def unanswered(producers: Iterable[Producer]) -> str:
    """Where instances are that have not answered a subscription."""
    where = sorted({producer.endpoint for producer in producers})
    said = [f"{endpoint} ({'nobody listens' if is_gone(endpoint) else 'busy, or stopped'})" for endpoint in where]
    return f"no answer within {ANSWER_S:g} s from the instances at {', '.join(said)}"
