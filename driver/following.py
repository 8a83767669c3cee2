"""The readers of the streams that a client publishes: one question to the orchestrator for all of its publishers, however many.

Publishers are opened and closed together, too: each step is taken for all of them before the answers are waited for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

from cep.errors import CepError, ClusterError
from driver.data import DataPlane
from driver.publisher import Publisher
from driver.rest import Rest, Unreachable

LOG = logging.getLogger(__name__)
POLL_S = 10.0
BUSY_S = 0.2  # how long we wait for a publisher that is sending before we see to the others
AGAIN_S = 0.2

Readers = list[dict[str, Any]]


class Following:
    """Learns of queries that begin or end while publishers are open. Its thread begins with the first of them."""

    def __init__(self, rest: Rest, plane: DataPlane) -> None:
        self.rest, self.plane = rest, plane
        self.publishers: dict[str, list[Publisher]] = {}  # by stream
        self.after, self.seen = "", (-1, -1)  # the last change that we know of
        self.late: dict[Publisher, Readers] = {}  # news for publishers that were sending when it came
        self.learning = threading.RLock()
        self.closing = threading.Event()
        self.thread: threading.Thread | None = None

    def open(self, publishers: Sequence[Publisher]) -> None:
        """Opens them; when it returns, all who read their streams know them."""
        documents = [{"stream": p.stream.name, "name": p.name, "endpoint": self.plane.endpoint} for p in publishers]
        answer = self.rest.post("/publishers", documents, again=True)
        with self.learning:
            for publisher in publishers:
                self.publishers.setdefault(publisher.stream.name, []).append(publisher)
            self._learn({p: found["readers"] for p, found in zip(publishers, answer["opened"], strict=True)})
            self.after = self.after or answer["after"]
        if self.thread is None:
            self.thread = threading.Thread(target=self._follow, name="cep-publishers", daemon=True)
            self.thread.start()

    def refresh(self) -> None:
        """Learns of new readers now: a query that this process has just deployed gets the very next row."""
        if self.publishers:
            self._take(self._ask(0.0))
            while self.late:
                with self.learning:
                    self._learn({})

    def close(self, publishers: Iterable[Publisher], keep_open: bool = False) -> None:
        """Closes those that are open yet; the last one of a stream ends it, unless `keep_open`."""
        open_ = [publisher for publisher in publishers if publisher.give_up()]
        if not open_:
            return
        with ExitStack() as held:
            for publisher in open_:
                held.enter_context(publisher.sending)
            answers = self._tell_orchestrator(open_)
            try:
                complaints = self._say_goodbye(open_, answers, keep_open)
            finally:
                self._forget(open_)
        if complaints:
            raise ClusterError("; ".join(complaints))

    def _tell_orchestrator(self, publishers: Sequence[Publisher]) -> list[dict[str, Any]]:
        """That they close. Where that cannot be said they go on, so that they can be closed later: their streams would never end."""
        closings = [{"stream": p.stream.name, "name": p.name} for p in publishers]
        try:
            answers: list[dict[str, Any]] = self.rest.post("/publishers:close", closings, again=True)
        except BaseException:
            for publisher in publishers:
                publisher.go_on()
            raise
        return answers

    def _forget(self, publishers: Iterable[Publisher]) -> None:
        with self.learning:
            for publisher in publishers:
                publisher.leave()
                self.late.pop(publisher, None)
                there = self.publishers[publisher.stream.name]
                there.remove(publisher)
                if not there:
                    del self.publishers[publisher.stream.name]

    def stop(self) -> None:
        """Asks no more."""
        self.closing.set()

    def _say_goodbye(self, publishers: Sequence[Publisher], answers: Sequence[dict[str, Any]], keep_open: bool) -> list[str]:
        """To those who read; what is to be complained of."""
        for publisher, answer in zip(publishers, answers, strict=True):
            publisher.drop_gone(answer["readers"])
        # A query deployed a moment ago hears of the end too.
        asked = [(p, p.ask(answer["readers"])) for p, answer in zip(publishers, answers, strict=True)]
        for publisher, readers in asked:
            publisher.await_opened(readers)
        for publisher, answer in zip(publishers, answers, strict=True):
            publisher.say_goodbye(not keep_open, answer["others"])
        return [complaint for publisher in publishers if (complaint := publisher.await_closed())]

    # Learning

    def _follow(self) -> None:
        while not self.closing.is_set():
            try:
                answer = self._ask(AGAIN_S if self.late else POLL_S)
                self._has_answered()
                self._take(answer)
            except Unreachable as away:  # what flows, flows
                self._look_for_life(away)
                self.closing.wait(AGAIN_S)
            except CepError as error:
                if not self.closing.wait(AGAIN_S) and not isinstance(error, ClusterError):
                    LOG.warning("who reads the streams that are published here is not known: %s", error)

    def _open(self) -> list[Publisher]:
        with self.learning:
            return [publisher for each in self.publishers.values() for publisher in each]

    def _has_answered(self) -> None:
        """The orchestrator: so there is a cluster."""
        for publisher in self._open():
            publisher.lost = None

    def _look_for_life(self, away: Unreachable) -> None:
        for publisher in self._open():
            publisher.look_for_life(away)

    def _ask(self, wait_s: float) -> dict[str, Any]:
        address = f"/publishers?endpoint={quote(self.plane.endpoint, safe='')}&after={self.after}&wait={wait_s:g}"
        answer: dict[str, Any] = self.rest.get(address, timeout=POLL_S + self.rest.patience_s)
        return answer

    def _take(self, answer: dict[str, Any]) -> None:
        """What has changed, unless a later answer has come before."""
        term, _, number = answer["after"].partition(".")
        with self.learning:
            if (int(term), int(number)) < self.seen:
                return
            self.seen, self.after = (int(term), int(number)), answer["after"]
            streams = answer["streams"]
            self._learn({publisher: readers for name, readers in streams.items() for publisher in self.publishers.get(name, ())})

    def _learn(self, news: dict[Publisher, Readers]) -> None:
        """Has publishers open at the readers that they did not know. Those that are sending, and perhaps wait for credit, have to wait."""
        news = self.late | news
        for publisher, readers in news.items():
            publisher.drop_gone(readers)  # before the lock, which a `send` holds that waits for the credit of one that is gone
        with ExitStack() as held:
            taken = []
            self.late = {}
            for publisher, readers in news.items():
                if publisher.sending.acquire(timeout=BUSY_S if not taken else 0.0):
                    held.callback(publisher.sending.release)
                    taken.append((publisher, publisher.ask(readers)))
                else:
                    self.late[publisher] = readers
            for publisher, asked in taken:
                publisher.await_opened(asked)
