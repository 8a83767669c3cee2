"""The processes of a simulated cluster: the engine's own parts, each with a clock of its own and turns instead of threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.dataflow.sources.source import READ_BYTES
from cep.kernels.jit import nothing_compiles
from cep.model.topology import Topology
from cep.service.mark import Mark
from cep.world.mailbox import Mailbox
from cep.world.rings import Rings
from cep.world.store import Store
from instance_manager.control.control import Control
from instance_manager.hosting import Preparation
from instance_manager.loop import TICK_NS, Loop
from orchestrator.election import Candidate
from orchestrator.metrics.client import MetricClient
from orchestrator.records import InstanceManager, Process
from orchestrator.rest.api import Api
from orchestrator.rest.gateway_proxy import GatewayProxy
from orchestrator.service import Service
from orchestrator.state.blame import Deaths
from simulation.clock import PACES_NS, ProcessClock
from simulation.coordination import SimulatedZooKeeper
from simulation.rest import FrontDoor
from simulation.schedule import MS, S, SeededSchedule, Task
from simulation.sockets import SimulatedNetwork

#: How long it takes to write a piece of a checkpoint, in ns.
WRITING_NS = (50_000, 30 * MS)
REPORT_TICKS = 5


class SimulatedProcess(Protocol):
    """What every one of them has."""

    def start(self) -> None:
        """It begins at once."""

    def close(self) -> None:
        """It does nothing any more."""


class NoMetrics:
    """Nothing is measured."""


class OrchestratorProcess:
    """The state of the cluster, and REST in front of it."""

    def __init__(
        self,
        schedule: SeededSchedule,
        zookeeper: SimulatedZooKeeper,
        config: ClusterConfig,
        topology: Topology,
        number: int,
        deaths: Callable[[], Deaths] = dict,
        store: Store | None = None,
        rings: Rings | None = None,
        sees: Callable[[str, Process], bool] | None = None,
    ) -> None:
        name = f"orchestrator-{number}"
        self.name, self.zookeeper, self.schedule = name, zookeeper, schedule
        self.clock = ProcessClock(schedule)
        candidate = Candidate(config.rest, "simulated", number, "")
        self.session = zookeeper.connect(name, self.clock)
        given = config, topology, self.session, self.clock, candidate, deaths
        self.service = Service(*given, store=store, watch=self._watch, rings=rings, led_s=0.0)
        self._sees = sees
        api = Api(self.service, cast(MetricClient, NoMetrics()), GatewayProxy(None), config)
        self.door = FrontDoor(schedule, api, name, self.clock)
        self.task = Task(schedule, self._turn, self.clock)
        self.service.mailbox.on_word = self.task.wake

    def start(self) -> None:
        self.service.begin()
        self.task.wake()

    def _turn(self) -> int | None:
        self.service.turn(self.service.mailbox.take(0.0))
        return next_turn(self.clock, self.service.mailbox, self.service.patience_s)

    def _watch(self, managers: Mapping[str, InstanceManager]) -> None:
        """Says of all that are there whether they live (`orchestrator.death_watch`)."""
        if self._sees is None:
            return
        there = {(im, manager.process) for im, manager in managers.items()}
        living = frozenset(each for each in there if self._sees(*each))
        for each in sorted(there - living):
            self.service.manager_died(*each)
        self.service.managers_live(living)

    def is_dead(self) -> bool:
        return self.task.ended

    def close(self) -> None:
        self.task.end()
        self.door.close()

    def kill(self, noticed_ns: int) -> None:
        """ZooKeeper notices then."""
        self.close()
        self.zookeeper.kill(self.session, noticed_ns)


def next_turn(clock: ProcessClock, mailbox: Mailbox[Any], patience_s: float | None) -> int | None:
    """In virtual ns, when one that was patient for so long would go on."""
    if not mailbox.is_empty:
        return clock.now_ns
    return None if patience_s is None else clock.now_ns + int(patience_s * S)


class InstanceManagerProcess:
    """Its loop and its control, which take turns of their own, as their threads do."""

    def __init__(
        self,
        schedule: SeededSchedule,
        network: SimulatedNetwork,
        zookeeper: SimulatedZooKeeper,
        config: ClusterConfig,
        name: str,
        pid: int = 1,
        store: Store | None = None,
        paces_ns: Sequence[int] = PACES_NS,
        read_bytes: int = READ_BYTES,
        endpoint: str | None = None,
        rings: Rings | None = None,
        fast_path: bool = False,
    ):
        self.schedule, self.fast_path = schedule, fast_path
        self.name, self.zookeeper, self.pid = name, zookeeper, pid
        self.clock = ProcessClock(schedule, paces_ns)
        self.loop_task = Task(schedule, self._loop_turn, self.clock)
        self.control_task = Task(schedule, self._control_turn, self.clock)
        self.endpoint = endpoint = endpoint or f"ipc:///simulated/{name}"
        own = InstanceManagerConfig(config, name, None, None, endpoint)
        self.sockets = network.open(endpoint, self.clock, self.loop_task.wake)
        mark = Mark.open(None, self.clock.steady_ns)
        self.loop = Loop(
            self.sockets,
            config.budget_bytes,
            lambda hosted: self.control.report(hosted),
            self._tick,
            mark.loop,
            config.silence_s,
            config.lease_s,
            lambda: self.control.loop_is_back(),
            self.clock,
            schedule.choose.getrandbits(48),
            identity=(pid, 0),
            background=self._beside,
            rings=rings,
            fast_path=fast_path,
        )
        self._ticks, self.loop.fast_paths.wait_max = 0, 1  # it is tried at every step
        self.loop.clients.publishers.is_gone = network.is_gone
        preparation = Preparation(own, self.sockets, self.loop.inbox, self.loop.meter, self.clock, store, read_bytes)
        self.session = session = zookeeper.connect(name, self.clock)
        self.started = self.clock.wall_ns() // 1000
        facts = {"id": name, "pid": pid, "started": self.started, "core": None, "node": None, "endpoint": endpoint}
        self.control = Control(own, facts, preparation, self.loop.ask, mark.control, session)
        self.control.mailbox.on_word = self.control_task.wake

    def start(self) -> None:
        self.control.begin()
        self.control_task.wake()
        self.loop_task.wake()

    def _loop_turn(self) -> int:
        with nothing_compiles():
            goes_on = self.loop.turn()
        if self.loop.in_doubt:  # it parks until it is asked something; no tick comes meanwhile
            return self.clock.now_ns + TICK_NS
        return self.clock.now_ns if goes_on else self.clock.virtual_ns(self.loop.next_tick)

    def _control_turn(self) -> int | None:
        self.control.turn(self.control.mailbox.take(0.0))
        return next_turn(self.clock, self.control.mailbox, self.control.patience_s)

    def _beside(self, work: Callable[[], None]) -> None:
        """What a thread of its own would do, some time later; unless the process is dead by then."""
        schedule, task = self.schedule, self.loop_task

        def due() -> None:
            if self.clock.frozen_until_ns > schedule.now_ns:
                schedule.at(self.clock.frozen_until_ns, due)
            elif not task.ended:
                work()

        schedule.at(self.clock.now_ns + schedule.choose.randint(*WRITING_NS), due)

    def _tick(self, loop: Loop, at_once: bool) -> None:
        """As a report to the metric server would, it leaves a fast path."""
        self._ticks += 1
        if self.fast_path and self._ticks % REPORT_TICKS == 0:
            with loop.settled():
                pass

    def close(self) -> None:
        self.clock.is_dead = True
        self.loop_task.end()
        self.control_task.end()

    def kill(self, noticed_ns: int) -> None:
        """ZooKeeper notices then."""
        self.sockets.close()
        self.close()
        self.zookeeper.kill(self.session, noticed_ns)
