"""The orchestrator's own thread: receive · observe · decide · write · answer, around the pure `ClusterState`.

Everything from outside (kazoo's callbacks, REST) is a message on one queue. What is asked for is answered when it is written,
so that a killed orchestrator has forgotten nothing that it confirmed. While ZooKeeper is away questions are answered and
wishes wait; when its session was lost, everything known is dropped and read anew after the next election.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kazoo.client import KazooState
from kazoo.exceptions import KazooException

from cep.config import ROOT, ClusterConfig, node
from cep.errors import CepError, ClusterError
from cep.model import query as queries
from cep.model.limits import WAIT_S_MAX
from cep.model.query import Query
from cep.model.references import check_references
from cep.model.topology import Topology
from cep.plan import physical
from cep.plan.physical import Files, PhysicalPlan
from cep.plan.planner import plan as make_plan
from cep.reports import read_reports
from cep.zookeeper import connect, own_root
from orchestrator.blame import Deaths, deaths_in
from orchestrator.election import Candidate, Election
from orchestrator.events import Connected, Event, ManagersSeen, StatusesSeen, Submit, Tick
from orchestrator.feeds import sources
from orchestrator.quarantine import Quarantine
from orchestrator.records import Now, Status
from orchestrator.registry import LOST, Deposed, Registry, encode, unquoted
from orchestrator.state import ClusterState

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.2  # between attempts while the connection is half there
T = TypeVar("T")


class NotLeading(ClusterError):
    """This orchestrator does not lead; `leader` is the REST address of the one that does, if it is known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__("this orchestrator does not lead" + (f"; {leader} does" if leader else "; none does yet"))
        self.leader = leader


@dataclass(frozen=True, slots=True)
class _Connection:
    state: str


@dataclass(frozen=True, slots=True)
class _Changed:
    path: str


@dataclass(frozen=True, slots=True)
class _Wake:
    """Look at the election."""


@dataclass(frozen=True, slots=True)
class _Close:
    """The end."""


@dataclass(frozen=True, slots=True)
class _Request:
    """`act` is called with the state; `answer` gets its result once all is written."""

    act: Callable[[ClusterState], Any]
    answer: Future[Any]


@dataclass(frozen=True, slots=True)
class _Question:
    """`ask` is called after every change until it gives something."""

    ask: Callable[[ClusterState], Any]
    answer: Future[Any]


@dataclass
class _Unseen:
    """What ZooKeeper has that was not read yet.

    Args:
        managers: the instance managers.
        ims: those of whom every status is to be read, and watched anew.
        listings: those of whom statuses have come or gone.
        names: instance manager -> names of statuses that have changed.
    """

    managers: bool = False
    ims: set[str] = field(default_factory=set)
    listings: set[str] = field(default_factory=set)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


_Message = _Connection | _Changed | _Wake | _Close | _Request | _Question


class Service:
    """The cluster's state, kept in ZooKeeper. `ask`, `do`, `deploy` and `wait` may be called from any thread.

    Args:
        topology: where the planner finds the distances between nodes.
    """

    def __init__(self, config: ClusterConfig, topology: Topology) -> None:
        self.config, self.topology = config, topology
        self.connected = self.leads = False
        self.leader: str | None = None
        self._inbox: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._client = connect(config.zookeeper, config.session_timeout_s, config.zookeeper_secret)
        self.quarantine = Quarantine()
        self._registry = self._new_registry()
        self._election = self._new_election()
        self._state = ClusterState(config.session_timeout_s, self.quarantine)
        self._fence = -1
        self._unanswered: list[tuple[Future[Any], Any]] = []
        self._questions: list[_Question] = []
        self._unseen = _Unseen()
        self._try_again = False
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)

    # --- for others

    @property
    def term(self) -> int:
        """Which term of office this is: no two leaders have the same."""
        return self._fence

    def start(self) -> None:
        """Begins; connects as soon as ZooKeeper is there."""
        self._client.add_listener(lambda state: self._inbox.put(_Connection(state)))
        self._client.start_async()
        self._thread.start()

    def close(self) -> None:
        """Ends its session, so that another leads at once."""
        self._inbox.put(_Close())
        self._thread.join(timeout=5)
        self._client.stop()
        self._client.close()

    def ask(self, question: Callable[[ClusterState], T]) -> Future[T]:
        """What `question` says of the state; its errors are the future's."""
        answer: Future[T] = Future()
        self._inbox.put(_Request(question, answer))
        return answer

    def do(self, *events: Event) -> Future[None]:
        """Has the events handled and what follows from them written together. Raises what `ClusterState.handle` does."""
        return self.ask(lambda _: self._handle_all(events))

    def deploy(self, query: Query, files: Files, start: bool) -> Future[PhysicalPlan]:
        """Plans the query and writes it down. Raises Conflict, QueryError, PlacementError, ClusterError."""
        return self.ask(lambda state: self._deploy(state, query, files, start))

    def deploy_all(self, wanted: Sequence[tuple[Query, Files]], start: bool) -> Future[list[CepError | None]]:
        """The same for many, in their order, written together; what was wrong with each, which harms no other."""
        return self.ask(lambda state: [self._attempt(state, query, files, start) for query, files in wanted])

    def plan(self, query: Query, files: Files) -> Future[PhysicalPlan]:
        """The plan it would get now. Raises what `deploy` does."""
        return self.ask(lambda state: self._plan(state, query, files))

    def wait(self, question: Callable[[ClusterState], T | None]) -> Future[T]:
        """The first answer of `question` that is not None, asked now and after every change. Cancel it when nobody waits."""
        answer: Future[T] = Future()
        self._inbox.put(_Question(question, answer))
        return answer

    # --- the loop

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception:  # a bug: crash, be started again, and go on from what is written
            _LOG.exception("the orchestrator's thread ended")
            os._exit(70)

    def _turn(self) -> bool:
        messages = self._receive()
        if any(isinstance(message, _Close) for message in messages):
            self._drop_office()
            return False
        for message in messages:
            self._take(message)
        self._try_again = False
        try:
            if self.connected:
                self._work()
        except LOST:
            self._try_again = True  # if the connection is away, the listener will say when it is back
            _LOG.warning("ZooKeeper does not answer")
        except KazooException as error:
            self._try_again = True
            _LOG.warning("ZooKeeper refuses what it is asked: %s: %s", type(error).__name__, error)
        except Deposed:
            _LOG.warning("another orchestrator leads")
            self._drop_office()
            self._try_again = True  # to see who; perhaps it stands first again
        self._answer()
        return True

    def _work(self) -> None:
        """What needs ZooKeeper."""
        if not self.leads:
            self._campaign()
        if self.leads:
            self._observe()
            self._tick()
            self._registry.flush(self._fence)

    def _receive(self) -> list[_Message]:
        """Everything that has come; waits for the first, but not past the state's deadline."""
        messages: list[_Message] = []
        try:
            messages.append(self._inbox.get(timeout=self._patience_s()))
            while True:
                messages.append(self._inbox.get_nowait())
        except queue.Empty:
            return messages

    def _patience_s(self) -> float | None:
        if self._try_again:
            return _PAUSE_S
        deadline = self._state.deadline if self.connected and self.leads else None
        return None if deadline is None else min(max(0.0, deadline - time.monotonic()), WAIT_S_MAX)

    def _take(self, message: _Message) -> None:
        match message:
            case _Connection(state):
                self._on_connection(state)
            case _Changed(path):
                self._on_changed(path)
            case _Request(act, answer):
                self._on_request(act, answer)
            case _Question():
                self._questions.append(message)
            case _:
                pass  # a wake-up: the campaign looks anyway

    def _on_connection(self, state: str) -> None:
        self.connected = state == KazooState.CONNECTED
        if state == KazooState.LOST:
            self._drop_office()
            self._election = self._new_election()
        elif self.connected and self.leads:
            self._see(node(), Connected())
            self._look_at_everything()

    def _on_changed(self, path: str) -> None:
        kind, _, rest = path.removeprefix(f"{ROOT}/").partition("/")
        im, _, name = rest.partition("/")
        if kind == "ims":
            self._unseen.managers = True
        elif kind == "status" and name:
            self._unseen.names[im].add(name)
        elif kind == "status":
            self._unseen.listings.add(im)

    def _on_request(self, act: Callable[[ClusterState], Any], answer: Future[Any]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            if not self.leads:
                raise NotLeading(self.leader)
            self._unanswered.append((answer, act(self._state)))
        except CepError as error:
            answer.set_exception(error)
        except Exception as error:  # a bug in what was asked; the cluster's state is not to blame
            _LOG.exception("a request failed")
            answer.set_exception(error)

    # --- observe, decide, write, answer

    def _campaign(self) -> None:
        if not self._election.leads():
            self.leader = self._election.leader()
            return
        own_root(self._client)
        self._fence = self._election.take_office()
        self.quarantine.clear()
        self._state = ClusterState(self.config.session_timeout_s, self.quarantine)
        with suppress(ClusterError):  # what cannot be written is set aside
            self._registry.put(self._state.restore(self._registry.read_all(), _now()))
        self.leads, self.leader = True, self.config.rest
        self._look_at_everything()

    def _look_at_everything(self) -> None:
        hosts = {im for record in self._state.queries.values() for im in record.hosts}
        self._unseen = _Unseen(managers=True, ims=hosts | self._state.managers.keys())

    def _observe(self) -> None:
        """Reads what is unseen, and tells the state. What could not be read stays unseen."""
        unseen = self._unseen
        if unseen.managers:
            managers = self._registry.managers()
            unseen.ims |= managers.keys() - self._state.managers.keys()
            self._see(node("ims"), ManagersSeen(managers, self._deaths()))
            unseen.managers = False
        for im in list(unseen.ims):
            self._tell(im, self._registry.all_statuses(im))
            unseen.ims.discard(im)
        for im in list(unseen.listings):
            self._tell(im, self._registry.statuses(im))
            unseen.listings.discard(im)
        for im in list(unseen.names):
            self._tell(im, self._registry.statuses(im, unseen.names[im]))
            del unseen.names[im]

    def _deaths(self) -> Deaths:
        """As those say who keep instance managers up."""
        folder = self.config.reports
        return {} if folder is None else deaths_in(read_reports(Path(folder)))

    def _tell(self, im: str, changes: dict[str, Status | None]) -> None:
        if changes:
            self._see(node("status", im), StatusesSeen(im, unquoted(changes)))

    def _tick(self) -> None:
        deadline = self._state.deadline
        if deadline is not None and deadline <= time.monotonic():
            self._see(node(), Tick())

    def _answer(self) -> None:
        if self.leads and self._registry.is_written:
            for answer, result in self._unanswered:
                answer.set_result(result)
            self._unanswered = []
        if self.leads:
            self._questions = [question for question in self._questions if not self._answered(question)]

    def _answered(self, question: _Question) -> bool:
        if question.answer.cancelled():
            return True
        try:
            found = question.ask(self._state)
        except Exception as error:
            return _resolve(question.answer, error)
        return found is not None and _resolve(question.answer, found)

    def _drop_office(self) -> None:
        """Forgets everything: from now on somebody else may decide."""
        self.leads = False
        waiting = [answer for answer, _ in self._unanswered] + [question.answer for question in self._questions]
        self._unanswered, self._questions = [], []
        for answer in waiting:
            _resolve(answer, NotLeading(None))

    # --- in the thread, for the requests

    def _handle(self, event: Event) -> None:
        self._registry.put(self._state.handle(event, _now()))

    def _see(self, path: str, event: Event) -> None:
        """Something that nobody asked for. What is wrong with it harms nothing else."""
        try:
            self._handle(event)
        except CepError as error:
            _LOG.error("%s", error)
        except Exception as error:  # a bug that what stands at `path` has met
            self.quarantine.set_aside(path, error)

    def _handle_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._handle(event)

    def _attempt(self, state: ClusterState, query: Query, files: Files, start: bool) -> CepError | None:
        try:
            self._deploy(state, query, files, start)
        except CepError as error:
            return error
        except Exception as error:  # a bug that one query meets is not the others'
            _LOG.exception("query %r cannot be deployed", query.name)
            return CepError(f"{type(error).__name__}: {error}")
        return None

    def _deploy(self, state: ClusterState, query: Query, files: Files, start: bool) -> PhysicalPlan:
        plan = self._plan(state, query, files)
        self._handle(Submit(plan, start))
        return plan

    def _plan(self, state: ClusterState, query: Query, files: Files) -> PhysicalPlan:
        state.check_new(query)
        check_references(queries.to_json(query), self.config.modules)
        known, feeds = sources(state, query)
        plan = make_plan(query, known, state.workers(), self.topology, self.config.numa, files, feeds)
        encode(node("plans", query.name), physical.to_json(plan))  # too large is said before anything has changed
        return plan

    def _new_registry(self) -> Registry:
        return Registry(self._client, self.config.session_timeout_s, lambda path: self._inbox.put(_Changed(path)), self.quarantine)

    def _new_election(self) -> Election:
        return Election(self._client, Candidate.here(self.config.rest), lambda: self._inbox.put(_Wake()))


def _now() -> Now:
    return Now(time.monotonic(), time.time())


def _resolve(answer: Future[Any], outcome: Any) -> bool:
    """Gives an outcome to whoever still waits for it."""
    if not answer.done() and (answer.running() or answer.set_running_or_notify_cancel()):
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
    return True
