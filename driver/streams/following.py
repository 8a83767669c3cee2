"""The readers of the streams that a client publishes: one question to the orchestrator for all of its publishers, however many.

Publishers are opened and closed together, too: each step is taken for all of them before the answers are waited for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from cep.errors import CepError, ClusterError
from driver.rest import Rest, Unreachable
from driver.streams.data_plane import DataPlane
from driver.streams.following_core import FollowingCore
from driver.streams.publisher import ANSWER_S, CLOSED_S, Publisher, Steps, finish
from driver.streams.readers import Document, StreamReader

LOG = logging.getLogger(__name__)
POLL_S = 10.0
BUSY_S = 0.2  # how long we wait for a publisher that is sending before we see to the others
AGAIN_S = 0.2


def _is_known(publisher: Publisher) -> bool:
    return not publisher.core.readers.unknown


def _is_let_in(publisher: Publisher) -> bool:
    return not publisher.core.readers.awaited


def _is_covered(publisher: Publisher) -> bool:
    return not publisher.core.readers.uncovered


class Following:
    """Learns of queries that begin or end while publishers are open. Its thread begins with the first of them. `opens`, `closes` and `turn`
    are for one thread that does everything."""

    def __init__(self, rest: Rest, plane: DataPlane) -> None:
        self.rest, self.plane = rest, plane
        self.core: FollowingCore[Publisher] = FollowingCore()
        self.learning = threading.RLock()
        self.closing = threading.Event()
        self.thread: threading.Thread | None = None

    def open(self, publishers: Sequence[Publisher]) -> None:
        """Opens them; when it returns, all readers of their streams know them."""
        finish(self.opens(publishers))
        if self.thread is None:
            self.thread = threading.Thread(target=self._follow, name="cep-publishers", daemon=True)
            self.thread.start()

    def opens(self, publishers: Sequence[Publisher]) -> Steps[None]:
        """The same in steps."""
        documents = [{"stream": p.stream.name, "name": p.name, "endpoint": self.plane.endpoint} for p in publishers]
        before = self._given_up(publishers)
        try:
            for publisher in before:
                publisher.core.check_replaceable()
            answer = self.rest.post("/publishers", documents, again=True)
        except BaseException:
            for publisher in before:
                publisher.go_on()
            raise
        with self.learning:
            for publisher in before:
                publisher.be_replaced()
                self.core.closed(publisher.stream.name, publisher)
            self.core.opened([(p.stream.name, p) for p in publishers], answer["after"])
            yield from self._learn({p: found["readers"] for p, found in zip(publishers, answer["opened"], strict=True)})
        yield from self._until_let_in(publishers)

    def _given_up(self, publishers: Sequence[Publisher]) -> list[Publisher]:
        """Those that are open here under their names, which send nothing more; one that is being closed is waited for."""
        names = {(each.stream.name, each.name) for each in publishers}
        with self.learning:
            open_ = (each for stream, _ in names for each in self.core.publishers.get(stream, ()))
            there = list(dict.fromkeys(each for each in open_ if (each.stream.name, each.name) in names))
        found = []
        for publisher in there:
            if publisher.give_up():
                found.append(publisher)
            with publisher.sending:
                pass
        return found

    def _until_let_in(self, publishers: Sequence[Publisher]) -> Steps[None]:
        """By queries that recover, too, wherever they are by now; at most as long as any reader is waited for."""
        for _ in range(round(ANSWER_S / AGAIN_S)):
            for publisher in publishers:
                yield publisher.at_most(AGAIN_S, partial(_is_let_in, publisher))
            if all(map(_is_let_in, publishers)):
                return
            with suppress(CepError):
                yield from self.turn()

    def refresh(self) -> None:
        """Learns of new readers now: a query that this process has just deployed gets the very next row."""
        if self.core.publishers:
            finish(self.turn())
            while self.core.late:
                with self.learning:
                    finish(self._learn({}))

    def turn(self, wait_s: float = 0.0) -> Steps[None]:
        """Asks once what has changed, which may take the orchestrator `wait_s` to answer."""
        answer = self._ask(wait_s)
        with self.learning:
            for publisher in self.core.open:  # there is a cluster
                publisher.core.lost = None
            yield from self._learn(self.core.answered(answer))

    def close(self, publishers: Iterable[Publisher], keep_open: bool = False) -> None:
        """Closes those that are open yet; the last one of a stream ends it, unless `keep_open`."""
        finish(self.closes(publishers, keep_open))

    def closes(self, publishers: Iterable[Publisher], keep_open: bool = False) -> Steps[None]:
        """The same in steps."""
        publishers = list(publishers)
        complaints = [publisher.core.replaced() for publisher in publishers if publisher.core.is_replaced]
        if open_ := [publisher for publisher in publishers if publisher.give_up()]:
            complaints += yield from self._closes(open_, keep_open)
        if complaints:
            raise ClusterError("; ".join(complaints))

    def _closes(self, open_: Sequence[Publisher], keep_open: bool) -> Steps[list[str]]:
        """What is to be complained of."""
        for publisher in open_:
            yield publisher.at_most(CLOSED_S, partial(_is_known, publisher))
        with ExitStack() as held:
            for publisher in open_:
                held.enter_context(publisher.sending)
            answers = self._tell_orchestrator(open_)
            ours = [(publisher, answer) for publisher, answer in zip(open_, answers, strict=True) if not answer.get("replaced")]
            replaced = [publisher.core for publisher, answer in zip(open_, answers, strict=True) if answer.get("replaced")]
            try:
                complaints = yield from self._say_goodbye(ours, keep_open)
            finally:
                self._forget(open_)
        return [*complaints, *(core.replaced() for core in replaced)]

    def _tell_orchestrator(self, publishers: Sequence[Publisher]) -> list[dict[str, Any]]:
        """That they close. Where that cannot be said they go on, so that they can be closed later: their streams would never end."""
        try:
            return self._closed(publishers)
        except BaseException:
            for publisher in publishers:
                publisher.go_on()
            self.core.after = ""  # what it did not hear of meanwhile is told again
            raise

    def _closed(self, publishers: Iterable[Publisher]) -> list[dict[str, Any]]:
        """What the orchestrator says of each that closes: others may have their names by now."""
        closings = [{"stream": p.stream.name, "name": p.name, "endpoint": self.plane.endpoint} for p in publishers]
        answers: list[dict[str, Any]] = self.rest.post("/publishers:close", closings, again=True)
        return answers

    def _forget(self, publishers: Iterable[Publisher]) -> None:
        with self.learning:
            for publisher in publishers:
                publisher.leave()
                self.core.closed(publisher.stream.name, publisher)

    def stop(self) -> None:
        """Asks no more."""
        self.closing.set()

    def _say_goodbye(self, closed: Sequence[tuple[Publisher, dict[str, Any]]], keep_open: bool) -> Steps[list[str]]:
        """To the readers; what is to be complained of."""
        for publisher, answer in closed:
            publisher.drop_gone(answer["readers"])
        # A query deployed a moment ago hears of the end too.
        asked = [(publisher, publisher.ask(answer["readers"])) for publisher, answer in closed]
        for publisher, readers in asked:
            yield from publisher.opened(readers)
        for publisher, answer in closed:
            publisher.say_goodbye(not keep_open, answer["others"])
        complaints = []
        yield from self._until_covered([publisher for publisher, _ in closed])
        for publisher, _ in closed:
            complaints.append((yield from publisher.confirmed()))
        return list(filter(None, complaints))

    def _until_covered(self, publishers: Sequence[Publisher]) -> Steps[None]:
        """A query that recovers may ask for what it was sent until a commit covers our last word; of where it is the orchestrator knows.
        At most as long as any reader is waited for."""
        for _ in range(round(CLOSED_S / AGAIN_S)):
            for publisher in publishers:
                yield publisher.at_most(AGAIN_S, partial(_is_covered, publisher))
            waiting = [publisher for publisher in publishers if publisher.core.readers.uncovered]
            if not waiting:
                return
            with suppress(Unreachable):
                for publisher, answer in zip(waiting, self._closed(waiting), strict=True):
                    publisher.drop_gone(answer["readers"])

    # Learning

    def _follow(self) -> None:
        while not self.closing.is_set():
            try:
                finish(self.turn(AGAIN_S if self.core.late else POLL_S))
            except Unreachable as away:  # what flows, flows
                self._look_for_life(away)
                self.closing.wait(AGAIN_S)
            except CepError as error:
                if not self.closing.wait(AGAIN_S) and not isinstance(error, ClusterError):
                    LOG.warning("the readers of the streams that are published here are not known: %s", error)

    def _look_for_life(self, away: Unreachable) -> None:
        with self.learning:
            open_ = self.core.open
        for publisher in open_:
            publisher.look_for_life(away)

    def _ask(self, wait_s: float) -> dict[str, Any]:
        address = f"/publishers?endpoint={quote(self.plane.endpoint, safe='')}&after={self.core.after}&wait={wait_s:g}"
        answer: dict[str, Any] = self.rest.get(address, timeout=POLL_S + self.rest.patience_s)
        return answer

    def _learn(self, news: Mapping[Publisher, Sequence[Document]]) -> Steps[None]:
        """Has publishers open at the readers that they did not know. Those that are sending, and perhaps wait for credit, have to wait."""
        news = self.core.due(news)
        for publisher, readers in news.items():
            publisher.drop_gone(readers)  # before the lock, which a `send` holds that waits for the credit of one that is gone
        with ExitStack() as held:
            taken: list[tuple[Publisher, list[StreamReader]]] = []
            for publisher, readers in news.items():
                closes = publisher.core.closing  # then it may be waiting for us already, and asks its readers by itself
                if not publisher.busy and publisher.sending.acquire(timeout=0.0 if taken or closes else BUSY_S):
                    held.callback(publisher.sending.release)
                    taken.append((publisher, publisher.ask(readers)))
                elif not closes:
                    self.core.put_off(publisher, readers)
            for publisher, asked in taken:
                yield from publisher.opened(asked)
