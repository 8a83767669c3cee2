"""A subscription: the answers of an output stream as Arrow record batches, from all instances that produce it (rule 5.9).

What it means is decided by `SubscriptionCore`, and what is asked of the orchestrator by `Inquiry`. Here are its queues, which the thread
that reads the data plane fills.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import pyarrow as pa

from cep.errors import CepError, ClusterError, NotFound
from cep.model.schema import Schema
from cep.transport import wire
from cep.transport.wire import Header
from driver.rest import Rest
from driver.streams.arrow import with_shown_times
from driver.streams.commands import StreamCommand
from driver.streams.data_plane import DataPlane
from driver.streams.frames import ReadableBatches
from driver.streams.inquiry import IDLE_NS, PRODUCES, Answer, Inquiry, ReadSilence
from driver.streams.messages import Messages
from driver.streams.producers import Message, SubscriptionOptions
from driver.streams.resuming.tokens import ResumeToken
from driver.streams.subscription_core import ANSWER_NS, ENOUGH_ROWS, WORD, SubscriptionCore

LOOK_NS = 200_000_000  # after this long it is looked whether a query recovers, which does not answer


class Subscription(ReadableBatches):
    """Iterate over it: it ends when the stream ends, and raises QueryFailed or QueryStopped when its query does not end by itself.

    Everything that comes out from its creation on is held for it, within the budget. `into` takes its messages, and `answers` what
    instances say to its asking, where many subscriptions are read together. It has many methods, for each event of its core is one with the
    lock held.
    """

    def __init__(
        self,
        rest: Rest,
        plane: DataPlane,
        stream: str,
        options: SubscriptionOptions,
        into: Callable[[Subscription, Header, Any], None] | None = None,
        answers: Callable[[Subscription, int, dict[str, Any], int], None] | None = None,
        resume: ResumeToken | None = None,
    ) -> None:
        self.plane, self.stream = plane, stream
        id_ = f"s-{plane.unique()}" if resume is None else resume.id
        self.core = SubscriptionCore(stream, id_, plane.endpoint, options, resume)
        self.lock = threading.Lock()  # of the core: the thread that reads the plane hears where instances are
        self.messages: Messages[Message] = Messages()
        self.answers: Messages[tuple[int, dict[str, Any], int]] = Messages()
        self._into, self._answered_to = into, answers
        self.inquiry, self.silence = Inquiry(rest, plane, self.core, self._say), ReadSilence(plane.clock)
        plane.subscribers[self.core.id] = self._answered

    @property
    def schema(self) -> Schema | None:
        """The schema of the stream, once it is known."""
        return self.core.schema

    @property
    def rows(self) -> int:
        """So many have been received."""
        return self.core.rows

    def _hear(self, header: Header, body: Any) -> None:
        """In the thread that reads the plane."""
        if self._into is None:
            self.messages.put((header, body))
        else:
            self._into(self, header, body)

    def _answered(self, header: Header, body: Any) -> None:
        """In the thread that reads the plane. An instance that was made with this subscription says first on which channel it will send."""
        answer, beaten = wire.from_json(body), self.plane.beaten
        if header.channel in self.core.resuming and "here" in answer:  # no thread waits for that
            with self.lock:
                self._obey(self.core.answered(header.channel, answer, beaten))
            return
        if "full" in answer:
            self._say_full(answer)
            return
        if (place := answer.get("place")) is not None:
            with self.lock:
                own = place.get("instance", -1), place.get("attempt", 0)
                self._obey(self.core.placed(place["channel"], place["endpoint"], place.get("process", 0), beaten, *own))
        if "here" not in answer:
            return
        if self._answered_to is None:
            self.answers.put((header.channel, answer, beaten))
        else:
            self._answered_to(self, header.channel, answer, beaten)

    def _obey(self, commands: Iterable[StreamCommand]) -> None:
        for command in commands:
            self.plane.obey(command, self._hear)

    # Registering

    def register(self) -> Subscription:
        """Before its query is deployed: the orchestrator hands it to the instances when they are made."""
        try:
            self.inquiry.register()
        except CepError:  # the orchestrator may have it nevertheless
            self._leave()
            raise
        return self

    def attach(self, query: str) -> Subscription:
        """Registers at every instance of `query` that produces the stream, or goes on there from its token. Raises StreamEnded where it is
        over, and QueryError where it cannot be resumed."""
        try:
            answer = self.inquiry.query(query)
            if (refusal := self.core.refusal(answer)) is not None:
                raise refusal
            if not answer.get("recovers", False):
                self._found(answer)
                self._await_answers()
                find_astray([self], self._await_answers, self.answers)
            else:  # every attempt has to know of it
                self._register_again()
                self._found(self.inquiry.query(query))
                self._await_attempt(query)
            self._complain()
        except CepError:  # the caller does not get it, so cannot close it
            self._leave()
            raise
        return self

    def _register_again(self) -> None:
        """One of which the program has had the end need not be there any more."""
        try:
            self.inquiry.register()
        except NotFound:
            if not self.core.has_ended:
                raise

    def _found(self, answer: dict[str, Any]) -> None:
        """The query that puts the stream out."""
        with self.lock:
            self._obey(self.core.found(answer, self.plane.clock.steady_ns()))

    def ask(self, query: str, producers: Sequence[dict[str, Any]]) -> None:
        """Subscribes at the instances of `query` that produce the stream; each will answer."""
        with self.lock:
            self._obey(self.core.ask(query, producers, self.plane.clock.steady_ns()))

    def answered(self, outlet: int, answer: dict[str, Any], beaten: int) -> None:
        """What one of them has answered."""
        with self.lock:
            self._obey(self.core.answered(outlet, answer, beaten))

    def _await_answers(self, longest_ns: int = ANSWER_NS) -> None:
        """Until all have answered that were asked."""
        core, deadline = self.core, self.plane.clock.steady_ns() + longest_ns
        while core.asked and core.broken is None:
            try:
                self.answered(*self.plane.next_of(self.answers, (deadline - self.plane.clock.steady_ns()) / 1e9))
            except queue.Empty:
                break
        if late := core.overdue(self.plane.clock.steady_ns()):
            core.fail(ClusterError(f"{core.described}: {unanswered(late, self.plane)}"))

    def look_again(self, answer: dict[str, Any]) -> None:
        """Asks where instances are, as the orchestrator says, that were not where they were asked."""
        with self.lock:
            self._obey(self.core.look_again(answer, self.plane.clock.steady_ns()))

    def _await_attempt(self, query: str) -> None:
        """The same where the query recovers. While it does so no instance has to answer: those that are made then know of us."""
        core, clock = self.core, self.plane.clock
        deadline = clock.steady_ns() + ANSWER_NS
        while (core.asked or core.resuming) and core.broken is None and clock.steady_ns() < deadline:
            try:
                self.answered(*self.plane.next_of(self.answers, LOOK_NS / 1e9))
            except queue.Empty:
                answer = self.inquiry.query(query)
                if answer["state"] not in PRODUCES:
                    break
                with self.lock:
                    self._obey(core.recovered(answer))

    def _say_full(self, answer: dict[str, Any]) -> None:
        """To the thread that reads, behind what has come: an instance waits until we acknowledge."""
        self._hear(Header(WORD, answer["channel"], answer["full"]), answer)
        self.plane.nudge()

    # Tokens

    def token(self) -> str:
        """Where the program is: behind the last row that it was given. It is a text to be kept beside what has been made of the rows, in
        one transaction if there is any: `subscribe(..., resume=token)`, in another process, goes on exactly there.

        Raises:
            QueryError: it was not subscribed with `resumable=True`.
            ClusterError: not yet; read first.
        """
        with self.lock:
            return self.core.position().text

    def acknowledge(self, token: str) -> None:
        """The token is kept in a safe place: what came before it may be forgotten. Rows are kept for older tokens until then, at each
        instance up to `budget_bytes`; when there are more, a read raises. With the token at its end the subscription is over.

        Raises QueryError: it is no token, or one of another subscription.
        """
        with self.lock:
            self._obey(self.core.acknowledge(ResumeToken.of(token)))
        if self.core.is_settled:
            self._leave()

    def forget(self) -> None:
        """Gives a resumable subscription up for good, as `close` does with others: what is kept for it is dropped."""
        if self._give_up(keep=False):
            self.inquiry.withdraw()

    # Reading

    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end of the stream. Raises TimeoutError after `timeout` seconds without one, and what has broken the
        stream, again and again: what is not complete never looks so."""
        found = self._next_taken(timeout)
        return None if found is None else self._given(self._with_following(found[0].channel, found[1]))

    def next_named(self, timeout: float | None = None) -> tuple[pa.RecordBatch, str] | None:
        """The same of one that is read `apart`: a batch, and a name that it has whenever it comes, and no other ever has."""
        found = self._next_taken(timeout)
        return None if found is None else (self._given(found[1]), self.core.name_of(found[0]))

    def _next_taken(self, timeout: float | None) -> tuple[Header, pa.RecordBatch] | None:
        core, clock = self.core, self.plane.clock
        deadline = None if timeout is None else clock.steady_ns() + round(timeout * 1e9)
        while core.goes_on:
            left = IDLE_NS if deadline is None else min(IDLE_NS, deadline - clock.steady_ns())
            message = self._next(left)
            if message is not None:
                self.silence.since = 0
                if (batch := self.take(*message)) is not None:
                    return message[0], batch
                continue
            if self.silence.lasts(left):
                self.inquiry.wonder()
            if deadline is not None and clock.steady_ns() >= deadline:
                raise TimeoutError(f"stream {self.stream!r}: no batch within {timeout:g} s")
        self._end()
        return None

    def turn(self) -> pa.RecordBatch | None:
        """The next batch of what has come; None: there is none, or the stream has ended (`core.goes_on`). Does not wait."""
        while self.core.goes_on:
            if (message := self._next(0)) is None:
                return None
            if (batch := self.take(*message)) is not None:
                return self._given(self._with_following(message[0].channel, batch))
        self._end()
        return None

    def _end(self) -> None:
        """Nothing more comes. Raises what has broken the stream. Of a resumable one the program may want a last token."""
        if not self._is_kept or self.core.broken is not None:
            self._leave()
        self._complain()

    def _complain(self) -> None:
        """Raises what has broken the stream; once, that it was over when it was asked for."""
        over, self.core.over = self.core.over, None
        if (error := self.core.broken or over) is not None:
            raise error

    def _next(self, longest_ns: int) -> Message | None:
        core = self.core
        if core.asked:
            self._await_answers(min(longest_ns, ANSWER_NS))
            if core.asked:
                return self._word_in(self._arrived()) if core.recovers else None
        if core.astray:
            self.inquiry.wonder()
            return self._word_in(filter(None, [self._come_within(min(longest_ns, LOOK_NS))]))
        if core.held and core.query:
            return core.held.popleft()
        return self._come_within(longest_ns)

    def _come_within(self, longest_ns: int) -> Message | None:
        try:
            message: Message = self.plane.next_of(self.messages, longest_ns / 1e9)
            return message
        except queue.Empty:
            return None

    def _word_in(self, messages: Iterable[Message]) -> Message | None:
        """What is said of the query while not all of its instances have answered, or some are looked for; what comes before it is held."""
        for message in messages:
            if message[0].kind == WORD and not message[0].channel:
                return message
            self.core.held.append(message)
        return None

    def take(self, header: Header, body: Any) -> pa.RecordBatch | None:
        """What a message means; None: no rows. Raises what has broken the stream."""
        if header.kind == WORD and header.channel:
            self.core.full(header.channel, header.sequence)
            if self.core.broken is not None:
                self._leave()
                raise self.core.broken
            return None
        if header.kind == WORD:
            self._told(body)
            return None
        with self.lock:
            batch, commands = self.core.take(header, body)
            if commands:
                self._obey(commands)
        if batch is None:
            if self.core.broken is not None:
                self._leave()
                raise self.core.broken
            if self.core.wonders:
                self.inquiry.wonder()
        return batch

    def _with_following(self, channel: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Small batches that have come behind each other are one: a slow reader catches up, for a batch of few rows costs it as much as one
        of many."""
        if self.messages.empty() or batch.num_rows >= ENOUGH_ROWS or self.core.held:
            return batch
        with self.lock:
            batches, commands = self.core.following(channel, batch, self._arrived())
            if commands:
                self._obey(commands)
        return batch if len(batches) == 1 else pa.concat_batches(batches)

    def _given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As the program gets it."""
        self._shown = with_shown_times(batch) if self.core.options.event_time else batch
        return self._shown

    def _arrived(self) -> Iterator[Message]:
        """What has come and waits for the reader."""
        messages = self.messages
        while not messages.empty():
            if (message := messages.get()) is not None:  # None is a hint to a thread that waits (`DataPlane.next_of`)
                yield message

    def _say(self, word: Answer) -> None:
        """To the thread that reads the subscription, behind what has come already."""
        self._hear(Header(WORD, 0), word)
        self.plane.nudge()

    def _told(self, word: Answer) -> None:
        """Raises the error, if it is one."""
        if isinstance(word, CepError):
            self.core.fail(word)
            self._leave()
            raise word
        if not self.core.query and not self.core.closed:
            self._found(word)
        elif self.core.astray:
            self.look_again(word)
        elif self.core.recovers:
            with self.lock:
                self._obey(self.core.recovered(word))

    # Ending

    def close(self) -> None:
        """Gives the subscription up; rows that wait for it are dropped and counted. One that is resumable is kept for `keep_s`, unless
        its end is acknowledged."""
        self.core.close()
        if self._give_up(self._is_kept):
            self.inquiry.withdraw()

    def _leave(self) -> None:
        """The same in the course of reading, which does not wait for REST."""
        if self._give_up(self._is_kept):
            self.inquiry.withdraw_aside()

    @property
    def _is_kept(self) -> bool:
        core = self.core
        return core.options.resumable and (core.recovers or core.token is not None) and not core.is_settled

    def _give_up(self, keep: bool) -> bool:
        """Is it to be withdrawn? Not if that has been done, or it is to be kept."""
        if self.core.closed:
            return False
        with self.lock:
            self._obey(self.core.leave(keep))
        if self.plane.subscribers.get(self.core.id) == self._answered:  # else one that resumes it is in this process, too
            del self.plane.subscribers[self.core.id]
        return not keep

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def unanswered(endpoints: Iterable[str], plane: DataPlane) -> str:
    """What to say of instances that have not answered a subscription."""
    said = [f"{endpoint} ({'no process listens' if plane.is_gone(endpoint) else 'busy, or stopped'})" for endpoint in endpoints]
    return f"no answer within {ANSWER_NS // 10**9} s from the instances at {', '.join(said)}"


def find_astray(asked: Sequence[Subscription], await_answers: Callable[[], None], answers: Messages[Any]) -> None:
    """Looks again for instances that were not where they were asked, until they are found or their queries are over."""
    if not any(each.core.astray for each in asked):
        return
    plane = asked[0].plane
    deadline = plane.clock.steady_ns() + ANSWER_NS
    while (astray := [each for each in asked if each.core.astray]) and plane.clock.steady_ns() < deadline:
        for each in astray:
            each.look_again(each.inquiry.query(each.core.query))
        await_answers()
        if any(each.core.astray for each in astray):
            with suppress(queue.Empty):  # they are being moved, or their query's end is not known yet
                plane.next_of(answers, LOOK_NS / 1e9)
    for each in astray:
        where = ", ".join(sorted({producer.endpoint for producer in each.core.astray}))
        said = f"the instance managers at {where} do not know its instances, and its query is not over: subscribe again"
        each.core.fail(ClusterError(f"{each.core.described}: {said}"))
