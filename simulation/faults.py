"""What goes wrong in a simulated cluster: which faults a seed draws, and how they are done.

A fault is *harmless* where the promise is that it is not noticed: orchestrators die, freeze and lose their sessions, ZooKeeper stops,
connections are cut, processes freeze for less than a session lasts, clocks jump. Others hit: an instance manager's queries, a publisher's
stream, a subscriber. What may be expected then, `simulation.checkers.QueryOutcome` says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from cep.config import ClusterConfig
from cep.world.store import BOUNDLESS, MemoryStore
from orchestrator.records import Process
from orchestrator.state.blame import BlamedDeath, Deaths
from simulation.client import ClientProcess
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedSession, SimulatedZooKeeper
from simulation.processes import InstanceManagerProcess, OrchestratorProcess
from simulation.schedule import MS, S, SeededSchedule

HARMLESS = ("kill orchestrator", "freeze orchestrator", "expire orchestrator", "stop ZooKeeper", "cut", "freeze briefly", "jump clock")
HARMFUL = ("kill instance manager",) * 3 + ("freeze instance manager", "expire instance manager", "kill writer", "kill reader")
#: What a seed may draw from: nothing, what is not noticed, everything.
MENUS: Sequence[Sequence[str]] = ((), HARMLESS, HARMLESS + HARMFUL, HARMFUL)
FILL = "fill disk"
DISKS_FROM, DISK_SHARE = 20_000, 0.15  # seeds before, by which tests find planted bugs, would mean something else
IN_A_TURN = "freeze instance manager in a turn"
IN_A_TURN_FROM, LOOKS_MAX = 1_000_000, 100  # likewise; so often it looks at its clock before
LOOKED_AT_FROM = 1_600_000  # likewise; a new leader looks which instance managers live
EVERYTHING = "kill everything"
EVERYTHING_SHARE = 0.15  # of the seeds in which anything may happen
FAULTS_MAX = 8
GAPS_NS = (30 * MS, 300 * MS, 2 * S)  # between two faults, at most
NOTICED_NS = (100 * MS, 6 * S)  # until ZooKeeper gives up the session of what was killed
RESTARTED_NS = (10 * MS, 3 * S)  # until what keeps it up has started another one
SEEN_NS = (MS, 30 * MS)  # until an orchestrator has seen that a process has ended
EXPIRED_NS = (4 * S, 6_500 * MS)  # after so long a session is over: its last heartbeat may have been just before, or was due
BRIEFLY_NS = (MS, 4 * S)  # less than a session, or the patience with a silent client
LONG_NS = (4_500 * MS, 20 * S)  # perhaps more than a session
AWAY_NS = (5 * MS, 12 * S)  # ZooKeeper
JUMP_NS = 10 * 3600 * S
FULL_NS = (50 * MS, 8 * S)
ROOM_BYTES = (0, 3_000)  # that are left, so that a piece, a manifest or a part of one still fits


@dataclass(frozen=True)
class Fault:
    """`after_ns` the one before it."""

    kind: str
    after_ns: int


def drawn_faults(seed: int, menu: Sequence[str] | None = None) -> tuple[Fault, ...]:
    """Those of a seed; `menu`: the kinds to draw from instead."""
    choose = random.Random(f"faults {seed}")
    kinds = MENUS[choose.choice((0, 1, 1, 2, 2, 3))] if menu is None else menu
    gap_ns = choose.choice(GAPS_NS)
    own = random.Random(f"everything {seed}")
    more = [Fault(EVERYTHING, own.randint(0, gap_ns))] if own.random() < EVERYTHING_SHARE and set(HARMFUL) <= set(kinds) else []
    disk = random.Random(f"disk {seed}")
    if seed >= DISKS_FROM and kinds and disk.random() < DISK_SHARE:
        more.append(Fault(FILL, disk.randint(0, 2 * gap_ns)))
    drawn = [Fault(choose.choice(kinds), choose.randint(0, gap_ns)) for _ in range(choose.randint(1, FAULTS_MAX) if kinds else 0)]
    if seed >= IN_A_TURN_FROM:
        drawn = [replace(each, kind=IN_A_TURN) if _is_in_a_turn(each) else each for each in drawn]
    return (*more, *drawn)


def _is_in_a_turn(fault: Fault) -> bool:
    return fault.kind == "freeze instance manager" and bool(fault.after_ns % 2)


class Victims(Protocol):
    """The processes of a cluster, as faults see them."""

    schedule: SeededSchedule
    zookeeper: SimulatedZooKeeper
    store: MemoryStore
    config: ClusterConfig
    orchestrators: list[OrchestratorProcess]
    managers: list[InstanceManagerProcess]
    readers: list[ClientProcess]
    writer: ClientProcess
    is_over: bool

    def restart_orchestrator(self, number: int) -> None: ...

    def restart_manager(self, number: int) -> None: ...

    @property
    def writer_comes_again(self) -> bool:
        """When it was killed, for its query recovers."""

    def restart_writer(self) -> None: ...


class Faults:
    """Does `drawn`, one after the other, until the cluster has nothing more to do. `hit`: the instance managers whose instances are gone,
    as far as anything may know; `done`: how often what was done."""

    def __init__(self, cluster: Victims, drawn: Sequence[Fault]) -> None:
        self.cluster, self.schedule, self.choose = cluster, cluster.schedule, cluster.schedule.choose
        self.hit: set[str] = set()
        self.lost: set[ClientProcess] = set()
        self.deaths: dict[tuple[str, Process], BlamedDeath] = {}
        self.done: Counter[str] = Counter()
        self.last_ns = 0  # when the last one is over
        self._down: set[object] = set()  # what waits to be started again
        self._left = list(drawn)

    def begin(self) -> None:
        self._next()

    @property
    def are_over(self) -> bool:
        return not self._left and self.schedule.now_ns >= self.last_ns

    def known_deaths(self) -> Deaths:
        """As the process that keeps them up reports them."""
        return dict(self.deaths)

    def _next(self) -> None:
        if self._left:
            fault = self._left.pop(0)
            self.schedule.at(self.schedule.now_ns + fault.after_ns, lambda: self._do(fault.kind))

    def _do(self, kind: str) -> None:
        if not self.cluster.is_over:
            self.strike(kind)
            self._next()
        else:
            self._left = []

    def strike(self, kind: str) -> None:
        """Now."""
        if found := self._acts()[kind]():
            self.done[kind] += 1
            self.schedule.note("faults", f"{kind}: {found}")

    def _acts(self) -> dict[str, Callable[[], str]]:
        return {
            "kill orchestrator": self._kill_orchestrator,
            "freeze orchestrator": self._freeze_orchestrator,
            "expire orchestrator": lambda: self._expire(self.choose.choice(self.cluster.orchestrators)),
            "stop ZooKeeper": self._stop_zookeeper,
            "cut": self._cut,
            FILL: self._fill_disk,
            "freeze briefly": lambda: self._freeze(self.choose.choice(list(self._everything())), self._drawn(BRIEFLY_NS)),
            "jump clock": self._jump,
            "kill instance manager": self._kill_manager,
            EVERYTHING: self._kill_everything,
            "freeze instance manager": self._freeze_manager,
            IN_A_TURN: self._freeze_manager_in_a_turn,
            "expire instance manager": self._expire_manager,
            "kill writer": self._kill_writer,
            "kill reader": lambda: self._kill_client(self.choose.choice(self.cluster.readers)),
        }

    def _drawn(self, bounds_ns: tuple[int, int]) -> int:
        return self.choose.randint(*bounds_ns)

    def _everything(self) -> Iterator[OrchestratorProcess | InstanceManagerProcess | ClientProcess]:
        yield from self.cluster.orchestrators
        yield from self.cluster.managers
        yield from self.cluster.readers
        yield self.cluster.writer

    def _lasts(self, ns: int) -> int:
        """When what lasts so long is over."""
        end_ns = self.schedule.now_ns + ns
        self.last_ns = max(self.last_ns, end_ns)
        return end_ns

    # What is not noticed

    def _kill_orchestrator(self, number: int | None = None) -> str:
        """Any, or that one."""
        number = self.choose.randrange(len(self.cluster.orchestrators)) if number is None else number
        process = self.cluster.orchestrators[number]
        if process in self._down:
            return ""
        self._down.add(process)
        process.kill(self._lasts(self._drawn(NOTICED_NS)))
        self.schedule.at(self._lasts(self._drawn(RESTARTED_NS)), lambda: self.cluster.restart_orchestrator(number))
        return process.name

    def _freeze_orchestrator(self) -> str:
        process, ns = self.choose.choice(self.cluster.orchestrators), self._drawn(self.choose.choice((BRIEFLY_NS, LONG_NS)))
        return self._freeze_beyond_session(process, ns)

    def _expire(self, process: OrchestratorProcess | InstanceManagerProcess) -> str:
        if process in self._down:
            return ""
        self.cluster.zookeeper.expire(process.session)
        return process.name

    def _stop_zookeeper(self) -> str:
        zookeeper, ns = self.cluster.zookeeper, self._drawn(AWAY_NS)
        if not zookeeper.is_there:
            return ""
        zookeeper.stop()
        self.schedule.at(self._lasts(ns), zookeeper.start)
        return f"for {ns / MS:.0f} ms"

    def _cut(self) -> str:
        if not self.cluster.zookeeper.sessions:
            return ""
        session: SimulatedSession = self.choose.choice(self.cluster.zookeeper.sessions)
        ns = self._drawn(BRIEFLY_NS)
        self.cluster.zookeeper.cut(session, ns)
        self._lasts(ns)
        return f"{session.name} for {ns / MS:.0f} ms"

    def _fill_disk(self) -> str:
        """Nearly; once there is a checkpoint on it."""
        store, ns = self.cluster.store, self._drawn(FULL_NS)
        with suppress(OSError):
            store.names(self.cluster.config.checkpoints)
            store.bytes_max -= store.free_bytes("/") - self._drawn(ROOM_BYTES)
            self.schedule.at(self._lasts(ns), lambda: setattr(store, "bytes_max", BOUNDLESS))
            return f"for {ns / MS:.0f} ms"
        return ""

    def _jump(self) -> str:
        process = self.choose.choice(list(self._everything()))
        process.clock.ahead_ns += self.choose.randint(-JUMP_NS, JUMP_NS)
        return process.name

    # Freezing

    def _freeze(self, process: OrchestratorProcess | InstanceManagerProcess | ClientProcess, ns: int) -> str:
        clock: ProcessClock = process.clock
        if clock.frozen_until_ns > self.schedule.now_ns:
            return ""  # two in a row would be a long one
        clock.frozen_until_ns = self._lasts(ns)
        return f"{process.name} for {ns / MS:.0f} ms"

    def _freeze_beyond_session(self, process: OrchestratorProcess | InstanceManagerProcess, ns: int) -> str:
        if process in self._down or not (said := self._freeze(process, ns)):
            return ""
        self._expire_within(process, ns)
        return said

    def _freeze_manager_in_a_turn(self) -> str:
        """It goes on where it was, in the middle of what it does with what it knows."""
        process, ns = self.choose.choice(self.cluster.managers), self._drawn(LONG_NS)
        if process in self._down or process.clock.frozen_until_ns > self.schedule.now_ns:
            return ""
        process.clock.freeze_behind(self.choose.randrange(LOOKS_MAX), self._lasts(ns))
        self._expire_within(process, ns)
        self.hit.add(process.name)
        return f"{process.name} for {ns / MS:.0f} ms"

    def _expire_within(self, process: OrchestratorProcess | InstanceManagerProcess, ns: int) -> None:
        """The session of what is frozen for so long ends, if that is long enough."""
        over_ns = EXPIRED_NS[0] + ns % (EXPIRED_NS[1] - EXPIRED_NS[0])  # as good as drawn
        if ns > over_ns:
            self.schedule.at(self.schedule.now_ns + over_ns, lambda: self._expire(process))

    # What hits

    def _kill_everything(self) -> str:
        """The whole cluster, and it is started again on what is written: a cold start."""
        orchestrators = list(map(self._kill_orchestrator, range(len(self.cluster.orchestrators))))
        managers = list(map(self._kill_manager, range(len(self.cluster.managers))))
        return ", ".join(filter(None, (*orchestrators, *managers, self._stop_zookeeper() and "ZooKeeper")))

    def _kill_manager(self, number: int | None = None) -> str:
        number = self.choose.randrange(len(self.cluster.managers)) if number is None else number
        process = self.cluster.managers[number]
        if process in self._down:
            return ""
        self._down.add(process)
        self.hit.add(process.name)
        self.deaths[process.name, Process(process.pid, process.started)] = BlamedDeath("was killed by signal 9")
        process.kill(self._lasts(self._drawn(NOTICED_NS)))
        self.schedule.at(self.schedule.now_ns + self._drawn(SEEN_NS), lambda: self._seen(process))
        self.schedule.at(self._lasts(self._drawn(RESTARTED_NS)), lambda: self.cluster.restart_manager(number))
        return process.name

    def _seen(self, process: InstanceManagerProcess) -> None:
        """Orchestrators of the same machine see that it has ended."""
        for orchestrator in self.cluster.orchestrators:
            orchestrator.service.manager_died(process.name, Process(process.pid, process.started))

    def _freeze_manager(self) -> str:
        process = self.choose.choice(self.cluster.managers)
        said = self._freeze_beyond_session(process, self._drawn(LONG_NS))
        self.hit |= {process.name} if said else set()
        return said

    def _expire_manager(self) -> str:
        process = self.choose.choice(self.cluster.managers)
        said = self._expire(process)
        self.hit |= {process.name} if said else set()
        return said

    def _kill_writer(self) -> str:
        process = self.cluster.writer
        if self.cluster.writer_comes_again and process not in self.lost:
            self.schedule.at(self._lasts(self._drawn(RESTARTED_NS)), self.cluster.restart_writer)
        return self._kill_client(process)

    def _kill_client(self, process: ClientProcess) -> str:
        if process in self.lost:
            return ""
        self.lost.add(process)
        process.kill()
        return process.name
