"""The orchestrator around the pure `ClusterState`: receive · observe · decide · write · answer.

Everything from outside (the connection, watches, REST) is a word in one mailbox, and `turn` does one round with what has come; it does
not wait, and knows no thread. What is asked for is answered when it is written, so that a killed orchestrator has forgotten nothing that
it confirmed. While ZooKeeper is away questions are answered and wishes wait; when its session was lost, everything known is dropped and
read anew after the next election.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from cep.config import ClusterConfig, node
from cep.errors import CepError, ClusterError
from cep.model.hosts import Host
from cep.model.limits import WAIT_S_MAX
from cep.model.query import Query
from cep.model.topology import Topology
from cep.plan.physical import FilesByStream, PhysicalPlan
from cep.plan.upgrading import Upgrade
from cep.transport.curve import KeyPair
from cep.world.clock import Clock
from cep.world.coordination import Connection, ConnectionLost, Coordination, CoordinationError
from cep.world.mailbox import Mailbox
from cep.world.rings import Rings
from cep.world.store import DiskStore, Store
from orchestrator.answers import PendingAnswers, Request, StateQuestion
from orchestrator.deploying import attempted, planned, upgrade_of
from orchestrator.election import Candidate, Election
from orchestrator.manifests import Manifests
from orchestrator.records import InstanceManager, Now, Process, PublisherRecord
from orchestrator.registry import Deposed, Registry
from orchestrator.ring_sweep import RingSweep
from orchestrator.state.blame import Deaths, deaths_in
from orchestrator.state.checkpoint_budget import LED_S
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.desired_nodes import names_of
from orchestrator.state.events import (
    ClusterCommand,
    Connected,
    Delete,
    Event,
    ForgetCheckpoints,
    HostsSeen,
    ManagerDied,
    ManagersLive,
    ManifestFailed,
    NodeCommand,
    OfferMembersKey,
    OpenPublisher,
    SubmitQuery,
    Tick,
    UpgradeQuery,
    WriteManifest,
)
from orchestrator.state.quarantine import Quarantine
from orchestrator.state.quotas import Quotas
from orchestrator.unseen import Unseen

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.2  # between attempts while the connection is half there
_LOOK_S = 1.0  # between ticks where it cannot be told when one is due
T = TypeVar("T")
E = TypeVar("E", bound=Event)


class NotLeading(ClusterError):
    """This orchestrator does not lead; `leader` is the REST address of the one that does, if it is known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__("this orchestrator does not lead" + (f"; {leader} does" if leader else "; none does yet"))
        self.leader = leader


@dataclass(frozen=True, slots=True)
class _Changed:
    """A node that was read has changed."""

    path: str


@dataclass(frozen=True, slots=True)
class _Died:
    """A process of an instance manager is over."""

    im: str
    process: Process


@dataclass(frozen=True, slots=True)
class _Live:
    """Processes of instance managers live."""

    processes: frozenset[tuple[str, Process]]


@dataclass(frozen=True, slots=True)
class _Wake:
    """Look at the election."""


@dataclass(frozen=True, slots=True)
class _Close:
    """The end."""


Word = Connection | _Changed | _Died | _Live | _Wake | _Close | Request | StateQuestion


class Service:
    """The cluster's state, kept in ZooKeeper. `ask`, `do`, `deploy` and `wait` may be called from any thread.

    Args:
        topology: of the host on which this is.
        candidate: what it says of itself in the election.
        deaths: what is known of the deaths of instance managers.
        members: the members' key pair, where the cluster has none yet; None: its data plane has no keys.
        store: where checkpoints are.
        watch: is told which instance managers there are, and says by `manager_died` and `managers_live` which of them have ended.
        rings: where clients of this host keep what they have sent.
        wake: has a process started that runs connectors, where none has been needed yet.
        led_s: of the CPU of this process and ZooKeeper, what a checkpoint costs (`orchestrator.state.checkpoint_budget`).
    """

    def __init__(
        self,
        config: ClusterConfig,
        topology: Topology,
        coordination: Coordination,
        clock: Clock,
        candidate: Candidate,
        deaths: Callable[[], Deaths] = dict,
        members: KeyPair | None = None,
        store: Store | None = None,
        watch: Callable[[Mapping[str, InstanceManager]], None] = lambda managers: None,
        rings: Rings | None = None,
        wake: Callable[[], None] = lambda: None,
        led_s: float = LED_S,
    ) -> None:
        self._watch, self._wake, self._woken, self._led_s = watch, wake, False, led_s
        self._watched: Mapping[str, InstanceManager] | None = None
        self.config, self.topology = config, topology
        self.connected = self.leads = False
        self.leader: str | None = None
        self.mailbox: Mailbox[Word] = Mailbox()
        self.quarantine = Quarantine()
        self.clock, self._coordination, self._deaths, self._members = clock, coordination, deaths, members
        self._registry = Registry(coordination, lambda path: self.mailbox.put(_Changed(path)), self.quarantine)
        self._election = Election(coordination, candidate, lambda path: self.mailbox.put(_Wake()))
        self._fence = -1
        self.since = 0.0  # the steady time at which the term begins
        self._state = self._new_state()
        self._manifests = Manifests(store or DiskStore(own=True), config.checkpoints)
        self._rings = RingSweep(rings)
        self._answers = PendingAnswers()
        self._unseen = Unseen()
        self._off: set[str] = set()  # hosts whose clocks are off, which has been told
        self._try_again = False
        self._deadline: float | None = None  # the steady time at which the state wants a Tick

    # --- for others

    @property
    def term(self) -> int:
        """Which term of office this is: no two leaders have the same."""
        return self._fence

    def close(self) -> None:
        """Its next turn is the last."""
        self.mailbox.put(_Close())

    def ask(self, question: Callable[[ClusterState], T]) -> Future[T]:
        """What `question` says of the state; its errors are the future's."""
        answer: Future[T] = Future()
        self.mailbox.put(Request(question, answer))
        return answer

    def do(self, *events: Event) -> Future[None]:
        """Has the events handled and what follows from them written together. Raises what `ClusterState.handle` does."""
        return self.ask(lambda _: self._handle_all(events))

    def do_due(self, due: Callable[[ClusterState], Sequence[E]]) -> Future[Sequence[E]]:
        """Has the events handled that `due` makes of the state, before it is another; which they were. Raises what `do` does."""

        def done(state: ClusterState) -> Sequence[E]:
            events = due(state)
            self._handle_all(events)
            return events

        return self.ask(done)

    def open_publishers(self, publishers: Sequence[PublisherRecord]) -> Future[None]:
        """All of them or, raising Conflict, none."""

        def opened(state: ClusterState) -> None:
            state.check_publishers(publishers)
            self._handle_all(map(OpenPublisher, publishers))

        return self.ask(opened)

    def deploy(self, query: Query, files: FilesByStream, start: bool, owner: str = "", lease_s: float = 0.0) -> Future[PhysicalPlan]:
        """Plans the query and writes it down, for the client `owner`; `lease_s` as in `SubmitQuery`.

        Raises Conflict, QueryError, PlacementError, ClusterError.
        """
        return self.ask(lambda state: self._deploy(state, query, files, start, owner, lease_s))

    def deploy_all(self, wanted: Sequence[tuple[Query, FilesByStream]], start: bool, owner: str = "") -> Future[list[CepError | None]]:
        """The same for many, in their order, written together; what was wrong with each, which harms no other."""
        return self.ask(lambda state: [attempted(partial(self._deploy, state, query, files, start, owner)) for query, files in wanted])

    def plan(self, query: Query, files: FilesByStream) -> Future[PhysicalPlan]:
        """The plan it would get now, in place of the deployed query of its name if there is one. Raises what `deploy` does otherwise."""
        return self.ask(lambda state: planned(state, query, files, self.config, self.topology, instead=True))

    def upgrade(self, query: Query, dry_run: bool, fresh: bool) -> Future[Upgrade]:
        """What becomes of each part of the query of that name that runs; unless one is refused, or it is a `dry_run`, it goes on as this
        one. `fresh`: operators that cannot keep their state begin with none. Raises NotFound, Conflict, QueryError."""
        return self.ask(lambda state: self._upgrade(state, query, dry_run, fresh))

    def manager_died(self, im: str, process: Process) -> None:
        """That process was seen to end."""
        self.mailbox.put(_Died(im, process))

    def managers_live(self, processes: frozenset[tuple[str, Process]]) -> None:
        """Those were seen to live, behind the deaths of all others of the machine."""
        self.mailbox.put(_Live(processes))

    def wait(self, question: Callable[[ClusterState], T | None]) -> Future[T]:
        """The first answer of `question` that is not None, asked now and after every change. Cancel it when nothing waits for it."""
        answer: Future[T] = Future()
        self.mailbox.put(StateQuestion(question, answer))
        return answer

    # --- a turn

    def begin(self) -> None:
        """Connects as soon as ZooKeeper is there."""
        self._coordination.start(self.mailbox.put)

    def turn(self, words: Iterable[Word]) -> bool:
        """One round with what has come; there may be nothing but that time has passed. Is there to be another?"""
        for word in words:
            if isinstance(word, _Close):
                self._drop_office()
                self._coordination.close()
                return False
            self._take(word)
        self._try_again = False
        try:
            if self.connected:
                self._work()
        except ConnectionLost:
            self._try_again = True  # if the connection is away, the listener will say when it is back
            _LOG.warning("ZooKeeper does not answer")
        except CoordinationError as error:
            self._try_again = True
            _LOG.warning("ZooKeeper refuses what it is asked: %s: %s", type(error).__name__, error)
        except Deposed:
            _LOG.warning("another orchestrator leads")
            self._drop_office()
            self._try_again = True  # to see which; perhaps it stands first again
        if self.leads and self._registry.is_written:
            self._answers.written()
            self._answers.look(self._state)
        else:  # what is not written another leader may decide otherwise
            self._answers.forget()
        self._deadline = self._next_tick()
        return True

    @property
    def patience_s(self) -> float | None:
        """So long the next turn has time, if no word comes before; None: for ever."""
        if self._try_again:
            return _PAUSE_S
        if self._deadline is None:
            return None
        return min(max(0.0, self._deadline - self.now().steady), WAIT_S_MAX)

    def _take(self, word: Word) -> None:
        match word:
            case Connection():
                self._on_connection(word)
            case _Changed(path):
                self._unseen.note(path)
            case _Died(im, process) if self.leads:
                self._see(node("ims", im), ManagerDied(im, process))
            case _Live(processes) if self.leads:
                self._see(node("ims"), ManagersLive(processes))
            case Request():
                self._answers.act(word, self._state_if_leading)
            case StateQuestion():
                self._answers.keep(word)
            case _:
                pass  # a wake-up: the campaign looks anyway

    def _on_connection(self, connection: Connection) -> None:
        self.connected = connection is Connection.CONNECTED
        if connection is Connection.LOST:
            self._drop_office()
        elif self.connected and self.leads:
            self._see(node(), Connected())
            self._look_at_everything()

    def _state_if_leading(self) -> ClusterState:
        if not self.leads:
            raise NotLeading(self.leader)
        return self._state

    # --- observe, decide, write

    def _work(self) -> None:
        """What needs ZooKeeper."""
        if not self.leads:
            self._campaign()
        if self.leads:
            for path, event in self._unseen.read(self._registry, lambda: self._state.managers, self._all_deaths):
                self._see(path, event)
                if isinstance(event, HostsSeen):
                    self._tell_of_clocks(event.hosts)
            if self._deadline is not None and self._deadline <= self.now().steady:
                self._see(node(), Tick())
            if self._state.managers is not self._watched:
                self._watched = self._state.managers
                self._watch(self._watched)
            self._registry.flush(self._fence)
            self._manifests.confirmed()
            self._rings.look(self._state, self.now())
            if self._state.connectors.records and not self._woken:
                self._woken = True
                self._wake()

    def _all_deaths(self) -> Deaths:
        """Those of other hosts come with their registrations."""
        return {**self._deaths(), **deaths_in(report for host in self._state.hosts.values() for report in host.reports)}

    def _tell_of_clocks(self, hosts: Mapping[str, Host]) -> None:
        off = {name for name, host in hosts.items() if host.is_clock_off}
        for name in sorted(off - self._off):
            _LOG.warning("the clock of host %r is %.1f s off ZooKeeper's: set it", name, (hosts[name].clock_ms or 0) / 1000)
        self._off = off

    def _new_state(self) -> ClusterState:
        return ClusterState(self.config.session_timeout_s, self.quarantine, Quotas.of(self.config), self._fence, self._led_s)

    def _campaign(self) -> None:
        if not self._election.leads():
            self.leader = self._election.leader()
            return
        self._coordination.claim()
        self.since = self.now().steady
        self._fence = self._election.take_office()
        self.quarantine.clear()
        self._state = self._new_state()
        with suppress(ClusterError):  # what cannot be written is set aside
            self._put(self._state.restore(self._registry.read_all(), self.now(), self._manifests.last_epoch()))
        if self._members is not None:
            self._see(node("keys"), OfferMembersKey(self._members))
        self.leads, self.leader = True, self.config.rest
        self._unseen = Unseen()
        self._look_at_everything()

    def _look_at_everything(self) -> None:
        hosts = {im for record in self._state.queries.values() for im in record.hosts}
        self._unseen.note_all(hosts | self._state.managers.keys())

    def _next_tick(self) -> float | None:
        """When it is due. Where that cannot be told, for what stands in ZooKeeper has met a bug, a Tick comes again and again."""
        if not (self.connected and self.leads):
            return None
        try:
            due = self._state.deadline
            return due if self._rings.rings is None else min(self._rings.due, due or self._rings.due)
        except Exception as error:
            self.quarantine.set_aside(node(), error)
            return self.now().steady + _LOOK_S

    def _drop_office(self) -> None:
        """Forgets everything: from now on another orchestrator may decide."""
        self.leads = False
        self._manifests.drop()
        self._answers.refuse(NotLeading(None))

    def now(self) -> Now:
        """By its own clocks."""
        return Now.by(self.clock)

    # --- what is decided

    def _handle(self, event: Event) -> None:
        self._put(self._state.handle(event, self.now()))

    def _put(self, commands: Iterable[ClusterCommand]) -> None:
        """To be written with the next flush; manifests at once, for what names them must not be there before. Files go behind it."""
        failed: list[ManifestFailed] = []
        nodes: list[NodeCommand] = []
        for command in commands:
            if isinstance(command, WriteManifest):
                why = self._manifests.write(command)
                failed += [ManifestFailed(command.query, why)] * bool(why)
                continue
            if isinstance(command, ForgetCheckpoints):
                self._manifests.forget(command.query, command.epoch)
                continue
            nodes.append(command)
            if isinstance(command, Delete) and command.path.startswith(node("checkpoints", "")):
                self._manifests.forget(names_of(command.path)[0], self._state.epoch)
        self._registry.put(nodes)
        for each in failed:
            self._handle(each)

    def _see(self, path: str, event: Event) -> None:
        """Something that was not asked for. What is wrong with it harms nothing else."""
        try:
            self._handle(event)
        except CepError as error:
            _LOG.error("%s", error)
        except Exception as error:  # a bug that what stands at `path` has met
            self.quarantine.set_aside(path, error)

    def _handle_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._handle(event)

    def _deploy(
        self, state: ClusterState, query: Query, files: FilesByStream, start: bool, owner: str, lease_s: float = 0.0
    ) -> PhysicalPlan:
        plan = planned(state, query, files, self.config, self.topology, owner)
        self._handle(SubmitQuery(plan, start, owner, lease_s))
        return plan

    def _upgrade(self, state: ClusterState, query: Query, dry_run: bool, fresh: bool) -> Upgrade:
        found = upgrade_of(state, query, self.config, fresh)
        if found.plan is not None and not dry_run:
            self._handle(UpgradeQuery(found.plan, fresh))
        return found
