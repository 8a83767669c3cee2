"""Many subscriptions at once: one queue for what all of them get, so that one thread reads thousands of streams."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from cep.errors import CepError, ClusterError, NotFound, QueryError
from cep.transport.wire import Header
from driver.rest import Rest, Unreachable
from driver.streams.data_plane import DataPlane
from driver.streams.inquiry import IDLE_NS, ReadSilence
from driver.streams.messages import Messages
from driver.streams.producers import SubscriptionOptions
from driver.streams.subscription import Subscription, find_astray, unanswered
from driver.streams.subscription_core import ANSWER_NS


class Subscriptions:
    """Iterate over it: (stream, record batch), as they come. It ends when all streams have ended; a query that fails raises as it does in
    a single subscription, and the next call goes on with the others.
    """

    def __init__(self, rest: Rest, plane: DataPlane, streams: Sequence[str], options: SubscriptionOptions) -> None:
        if options.resumable:
            raise QueryError("resumable: many subscriptions together have no tokens; subscribe to each stream by itself", "/resumable")
        self.rest, self.plane = rest, plane
        self.messages: Messages[tuple[Subscription, Header, Any]] = Messages()
        self.answers: Messages[tuple[Subscription, int, dict[str, Any], int]] = Messages()
        into, answers = lambda *each: self.messages.put(each), lambda *each: self.answers.put(each)
        self.members = {stream: Subscription(rest, plane, stream, options, into, answers) for stream in streams}
        self.held: deque[tuple[Subscription, Header, Any]] = deque()
        self.open: set[str] = set()
        self.silence = ReadSilence(plane.clock)

    def attach(self) -> Subscriptions:
        """Subscribes everywhere; nothing that comes after it returns is lost. Raises NotFound: no query produces one of the streams."""
        answers = dict(zip(self.members, self.rest.post("/streams:producers", list(self.members)), strict=True))
        missing = [stream for stream, answer in answers.items() if answer is None]
        if missing:
            raise NotFound(f"no query that runs puts out stream {missing[0]!r} ({len(missing)} of {len(answers)}); deploy it first")
        for stream, member in self.members.items():
            member.ask(answers[stream]["query"], answers[stream]["producers"])
        try:
            self._await_answers()
            find_astray(list(self.members.values()), self._await_answers, self.answers)
            for member in self.members.values():
                if member.core.broken is not None:
                    raise member.core.broken
        except CepError:
            self.close()
            raise
        self.open = {stream for stream, member in self.members.items() if member.core.goes_on}
        return self

    def _await_answers(self) -> None:
        waiting = sum(len(member.core.asked) for member in self.members.values())
        while waiting:
            try:
                member, *answer = self.plane.next_of(self.answers, ANSWER_NS / 1e9)
            except queue.Empty:
                silent = {producer.endpoint for member in self.members.values() for producer in member.core.asked.values()}
                raise ClusterError(f"{len(self.members)} streams: {unanswered(sorted(silent), self.plane)}") from None
            before = len(member.core.asked)
            member.answered(*answer)
            waiting -= before - len(member.core.asked)
            if member.core.broken is not None:
                raise member.core.broken

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        while (found := self.next_batch()) is not None:
            yield found

    def next_batch(self, timeout: float | None = None) -> tuple[str, pa.RecordBatch] | None:
        """The next batch of any of the streams; None when all have ended. Raises TimeoutError after `timeout` seconds without one."""
        clock = self.plane.clock
        deadline = None if timeout is None else clock.steady_ns() + round(timeout * 1e9)
        while self.open:
            left = IDLE_NS if deadline is None else min(IDLE_NS, deadline - clock.steady_ns())
            found = self._next(left)
            if found is not None:
                self.silence.since = 0
                batch = self._take(*found)
                if batch is not None:
                    return found[0].stream, batch
                continue
            if self.silence.lasts(left):
                self.rest.aside.ask(self, self._look_for_failures)
            if deadline is not None and clock.steady_ns() >= deadline:
                raise TimeoutError(f"{len(self.open)} streams: no batch within {timeout:g} s")
        self.close()
        return None

    def _next(self, longest_ns: int) -> tuple[Subscription, Header, Any] | None:
        if self.held:
            return self.held.popleft()
        try:
            found: tuple[Subscription, Header, Any] = self.plane.next_of(self.messages, longest_ns / 1e9)
            return found
        except queue.Empty:
            return None

    def _take(self, member: Subscription, header: Header, body: Any) -> pa.RecordBatch | None:
        batch = None
        try:
            batch = member.take(header, body)
        finally:
            if member.core.held:
                self.held.extendleft((member, *each) for each in reversed(member.core.held))
                member.core.held.clear()
            if batch is None and not member.core.goes_on:
                self.open.discard(member.stream)
        return batch

    def _look_for_failures(self) -> None:
        """In the thread of `aside`. Nothing has come for a while: a process that was killed says nothing."""
        readers = {self.members[stream].core.query: self.members[stream] for stream in list(self.open)}
        try:
            waiting = {"names": list(readers), "state": "running"}
            answers = self.rest.post("/queries:wait?timeout=1", waiting, again=True)
        except Unreachable as away:
            for member in readers.values():
                member.inquiry.doubt(away)
            return
        for answer in (answer for answer in answers if answer["state"] in ("failed", None)):
            readers[answer["name"]].inquiry.judge(answer)

    def close(self) -> None:
        """Gives them up; rows that wait for them are dropped and counted."""
        for member in self.members.values():
            member.close()
        self.open.clear()

    def __enter__(self) -> Subscriptions:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
