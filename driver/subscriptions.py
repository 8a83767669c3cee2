"""Many subscriptions at once: one queue for what all of them get, so that one thread reads thousands of streams."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from cep import wire
from cep.errors import CepError, ClusterError, NotFound
from cep.wire import Header
from driver.data import DataPlane
from driver.rest import Rest, Unreachable
from driver.subscription import ANSWER_S, IDLE_S, Subscription, unanswered


class Subscriptions:
    """Iterate over it: (stream, record batch), as they come. It ends when all streams have ended; a query that fails raises as it does in
    a single subscription, and the next call goes on with the others.
    """

    def __init__(self, rest: Rest, plane: DataPlane, streams: Sequence[str], **options: Any) -> None:
        self.rest, self.plane = rest, plane
        self.messages: queue.SimpleQueue[tuple[Subscription, Header, Any]] = queue.SimpleQueue()
        self.members = {s: Subscription(rest, plane, s, **options, into=lambda *each: self.messages.put(each)) for s in streams}
        self.held: list[tuple[Subscription, Header, Any]] = []
        self.open: set[str] = set()

    def attach(self) -> Subscriptions:
        """Subscribes everywhere; nothing that comes after it returns is lost. Raises NotFound: nobody produces one of the streams."""
        answers = dict(zip(self.members, self.rest.post("/streams:producers", list(self.members)), strict=True))
        missing = [stream for stream, answer in answers.items() if answer is None]
        if missing:
            raise NotFound(f"no query that runs puts out stream {missing[0]!r} ({len(missing)} of {len(answers)}); deploy it first")
        waiting: dict[tuple[str, int], Subscription] = {}
        for stream, member in self.members.items():
            member.ask(answers[stream]["query"], answers[stream]["producers"])
            waiting |= {(member.id, producer.outlet): member for producer in member.producers.values()}
        self._await_answers(waiting)
        return self

    def _await_answers(self, waiting: dict[tuple[str, int], Subscription]) -> None:
        deadline = time.monotonic() + ANSWER_S
        while waiting:
            try:
                member, header, body = self.plane.next_of(self.messages, deadline - time.monotonic())
            except queue.Empty:
                self.close()
                silent = [each for (_, outlet), m in waiting.items() for each in m.producers.values() if each.outlet == outlet]
                raise ClusterError(f"{len(self.members)} streams: {unanswered(silent)}") from None
            if header.kind != wire.SUBSCRIBED:
                self.held.append((member, header, body))
            elif waiting.pop((member.id, header.channel), None) is not None:
                producer = next(p for p in member.producers.values() if p.outlet == header.channel)
                try:
                    member.subscribed(producer, wire.from_json(body))
                except CepError:
                    self.close()
                    raise
                deadline = time.monotonic() + ANSWER_S
        self.open = {stream for stream, member in self.members.items() if _is_open(member)}

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        while (found := self.next_batch()) is not None:
            yield found

    def next_batch(self, timeout: float | None = None) -> tuple[str, pa.RecordBatch] | None:
        """The next batch of any of the streams; None when all have ended. Raises TimeoutError after `timeout` seconds without one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.open:
            left = IDLE_S if deadline is None else min(IDLE_S, deadline - time.monotonic())
            found = self._next(left)
            if found is not None:
                batch = self._take(*found)
                if batch is not None:
                    return found[0].stream, batch
            elif deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{len(self.open)} streams: no batch within {timeout:g} s")
            else:
                self.rest.aside.ask(self, self._look_for_failures)
        self.close()
        return None

    def _next(self, timeout: float) -> tuple[Subscription, Header, Any] | None:
        if self.held:
            return self.held.pop(0)
        try:
            found: tuple[Subscription, Header, Any] = self.plane.next_of(self.messages, timeout)
            return found
        except queue.Empty:
            return None

    def _take(self, member: Subscription, header: Header, body: Any) -> pa.RecordBatch | None:
        try:
            return member.take(header, body)
        finally:
            if member.held:
                self.held[:0] = [(member, *each) for each in member.held]
                member.held.clear()
            if header.kind != wire.BATCH and not _is_open(member):
                self.open.discard(member.stream)

    def _look_for_failures(self) -> None:
        """In the thread of `aside`. Nothing has come for a while: a process that was killed says nothing."""
        readers = {self.members[stream].query: self.members[stream] for stream in list(self.open)}
        try:
            waiting = {"names": list(readers), "state": "running"}
            answers = self.rest.post("/queries:wait?timeout=1", waiting, again=True)
        except Unreachable as away:
            for member in readers.values():
                member.doubt(away)
            return
        for answer in (answer for answer in answers if answer["state"] in ("failed", None)):
            readers[answer["name"]].judge(answer)

    def close(self) -> None:
        """Gives them up; rows that wait for them are dropped and counted."""
        for member in self.members.values():
            member.close()
        self.open.clear()

    def __enter__(self) -> Subscriptions:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _is_open(member: Subscription) -> bool:
    return any(producer.open for producer in member.producers.values())
