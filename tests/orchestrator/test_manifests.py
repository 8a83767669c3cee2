"""What leaders write and sweep among the checkpoints, though another may lead by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cep.config import ClusterConfig
from cep.model import query as queries
from cep.model.query import Query
from cep.model.topology import Topology
from cep.plan.checkpoints import CheckpointNumber, folder_of, manifest_name
from cep.world.store import MemoryStore
from orchestrator.election import Candidate
from orchestrator.rest.models import QUERY_EXAMPLE
from orchestrator.service import NotLeading, Service
from orchestrator.state.events import ForgetQuery, WriteManifest
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedSession, SimulatedZooKeeper
from simulation.schedule import MS, SeededSchedule
from tests.orchestrator.state.test_cluster_state import IMS, manager

CONFIG = ClusterConfig("/run", "simulated", "127.0.0.1", 1, "ipc:///in", "ipc:///out")


def recovering(name: str = "q") -> Query:
    plain = queries.from_json(QUERY_EXAMPLE | {"name": name})
    return replace(plain, options=replace(plain.options, recover="on-commit"))


class Bench:
    """Orchestrators, each of which has a turn when the test says so, and the disk that they share."""

    def __init__(self) -> None:
        self.schedule = SeededSchedule(0)
        self.zookeeper = SimulatedZooKeeper(self.schedule)
        self.store = MemoryStore()
        self.sessions: dict[str, SimulatedSession] = {}

    def service(self, name: str) -> Service:
        clock = ProcessClock(self.schedule)
        session = self.sessions[name] = self.zookeeper.connect(name, clock)
        candidate = Candidate(f"http://{name}", "here", 1, "1")
        made = Service(CONFIG, Topology.one_node([0, 1]), session, clock, candidate, store=self.store)
        made.begin()
        self.turns(made, lambda: made.connected)
        return made

    def turns(self, service: Service, until: Callable[[], bool]) -> None:
        for _ in range(100):
            if until():
                return
            self.schedule.pause_until(self.schedule.now_ns + 50 * MS)
            service.turn(service.mailbox.take(0.0))
        raise AssertionError

    def leads(self, service: Service) -> Service:
        """With instance managers to place queries on."""
        self.turns(service, lambda: service.leads)
        service._state.managers = {im: manager(im) for im in IMS}
        return service

    def deploys(self, service: Service) -> str:
        """The folder of what it has deployed, with something in it."""
        done = service.deploy(recovering(), {}, True)
        self.turns(service, done.done)
        done.result(0)
        return self.keeps(service._state.queries["q"].epoch)

    def keeps(self, epoch: int) -> str:
        folder = f"{CONFIG.checkpoints}/{folder_of('q', epoch)}"
        self.store.make_folder(folder)
        self.store.create(f"{folder}/a-piece").close()
        return folder


def test_who_leads_no_more_removes_nothing_of_what_another_has_deployed() -> None:
    """Both were asked for the same, and give it the same number."""
    bench = Bench()
    first, second = bench.leads(bench.service("first")), bench.service("second")
    asked = first.deploy(recovering(), {}, True)  # it has not heard so, when it is frozen
    bench.zookeeper.expire(bench.sessions["first"])
    bench.leads(second)
    folder = bench.deploys(second)
    bench.turns(first, asked.done)
    assert isinstance(asked.exception(0), NotLeading)
    assert bench.store.names(folder) == ["a-piece"]


def test_what_is_forgotten_goes_when_that_is_written_and_nothing_of_a_later_deployment() -> None:
    bench = Bench()
    service = bench.leads(bench.service("first"))
    folder = bench.deploys(service)
    later = bench.keeps(service._state.epoch + 1)  # of the next leader, before this one goes on
    done = service.do(ForgetQuery("q"))
    service._state.queries["q"] = replace(service._state.queries["q"], state="stopped")
    bench.turns(service, done.done)
    done.result(0)
    assert bench.store.names(folder) == [] and bench.store.names(later) == ["a-piece"]


def test_a_deployment_has_no_folder_that_another_cluster_has_left() -> None:
    bench = Bench()
    left, strange = bench.keeps(7), f"{CONFIG.checkpoints}/q.{2**31}"
    bench.store.make_folder(strange)
    folder = bench.deploys(bench.leads(bench.service("first")))
    assert folder.endswith("q.8") and bench.store.names(left) == [], "nothing will ask for it"


def test_a_manifest_that_was_not_named_sweeps_nothing_when_its_leader_leads_again() -> None:
    bench = Bench()
    service = bench.leads(bench.service("first"))
    folder = bench.deploys(service)
    before, after = CheckpointNumber(0, 1, 1), CheckpointNumber(0, 1, 2)
    bench.store.create(f"{folder}/{manifest_name(before)}").close()
    service._put([WriteManifest("q", folder_of("q", service._state.epoch), manifest_name(after), "{}", after)])
    term = service.term
    bench.zookeeper.expire(bench.sessions["first"])
    bench.turns(service, lambda: service.term > term)
    bench.leads(service)
    assert {manifest_name(before), manifest_name(after)} < set(bench.store.names(folder))
