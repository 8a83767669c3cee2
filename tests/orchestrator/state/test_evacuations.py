"""Hosts that are left, without ZooKeeper, clocks or threads: what moves, what fails and when, and what another orchestrator makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.config import instance_node, node
from cep.errors import Conflict, NotFound
from cep.model.hosts import AgentProcess, Host, Machines
from cep.model.topology import Topology
from cep.plan.physical import Worker
from cep.plan.planner import plan
from orchestrator.records import InstanceManager, QueryRecord, Relocation, Status
from orchestrator.rest import views
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.evacuations import ENDED, LOOK_S, PATIENCE_S
from orchestrator.state.events import EvacuateHost, HostsSeen, MoveInstance, StatusesSeen, SubmitQuery, Tick
from tests.orchestrator.state.test_cluster_state import TIMEOUT_S, Cluster, query
from tests.support.plans import files, group
from tests.support.plans import query as made_query

ONE = Topology.one_node([0, 1])


def on_host(host: str, im: str, pid: int = 1) -> InstanceManager:
    endpoint = f"link://{host}@127.0.0.1:4000/run/{im}"
    return InstanceManager.from_json({"id": im, "endpoint": endpoint, "pid": pid, "node": 0, "core": int(im[-1])})


def host(name: str, pid: int = 7) -> Host:
    return Host(name, "127.0.0.1", ONE, AgentProcess(pid, 1))


class Hosts(Cluster):
    """Two hosts with two instance managers each; plans are made over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.managers = {im: on_host(im[:2], im) for im in ("h1-im-0", "h1-im-1", "h2-im-0", "h2-im-1")}
        self.see()
        self.hosts = {name: host(name) for name in ("h1", "h2")}
        self.do(HostsSeen(dict(self.hosts)))

    def run(self, asked: object = None, only: str = "") -> None:
        """A query that runs, with all that it has on `only`."""
        workers = [worker for worker in self.state.workers() if worker.host.startswith(only)]
        found = {"s": (("/data/a.txt", 10),)} if asked is not None else {}
        self.do(SubmitQuery(plan(asked or query(), {}, workers, Machines({"h1": ONE, "h2": ONE}), files=found)))  # type: ignore[arg-type]
        for state in ("ready", "running"):
            self.all_say(state, next(iter(self.state.plans)))

    def where(self, name: str = "per-ip") -> set[str]:
        made = self.state.plans[name]
        return {made.worker_of(instance).host for instance in made.instances}

    def work(self) -> None:
        """Every instance does what its assignment asks of it, until nothing more is asked."""
        for _ in range(40):
            record = self.state.queries["per-ip"]
            if (move := record.move) is None or record.state != "running":
                return
            self.say_step(record, move)
        raise AssertionError("moves without end")

    def say_step(self, record: QueryRecord, move: Relocation, but: str = "") -> None:
        """Every instance but one has done what is asked of it now."""
        key = instance_node("per-ip", move.subquery, move.index)
        for instance in self.state.plans["per-ip"].instances:
            there = instance_node("per-ip", instance.subquery, instance.index)
            state = "moved" if move.redirecting and there == key else "running"
            if there != but:
                self.do(StatusesSeen(instance.im, {there: Status(record.epoch, state, step=move.step)}))
        self.do(StatusesSeen(move.target, {key: Status(record.epoch, "running" if move.redirecting else "ready", step=move.step)}))


@pytest.fixture
def made() -> Hosts:
    return Hosts()


def test_everything_moves_and_nothing_new_comes(made: Hosts) -> None:
    made.run(only="h2")
    made.do(EvacuateHost("h2"))
    assert {worker.host for worker in made.state.workers()} == {"h1"}
    made.work()
    assert made.where() == {"h1"} and made.state.queries["per-ip"].state == "running"
    assert views.evacuated(made.state, "h2")["left"] == []
    counts = sorted(made.state.hosted_by(im) for im in ("h1-im-0", "h1-im-1"))
    assert max(counts) - min(counts) <= 1 and sum(counts) == len(made.state.plans["per-ip"].instances)
    with pytest.raises(Conflict, match="host 'h2' is leaving"):
        made.do(MoveInstance("per-ip", "SQ2", 0, "h2-im-0"))


def test_what_cannot_move_fails_at_once_and_by_name(made: Hosts) -> None:
    made.run(made_query(group("g", "s", "ip"), declared=(files("s"),)), only="h2")
    name = next(iter(made.state.queries))
    made.do(EvacuateHost("h2"))
    record = made.state.queries[name]
    assert record.state == "failed" and record.cause is not None
    assert record.cause.text == (
        "host 'h2' is leaving, and SQ1/0 cannot go on elsewhere: it reads stream 's' out of files, and keeps its place in them"
    )


def test_what_is_not_there_is_not_failed(made: Hosts) -> None:
    """Of a query that could not move either, on the other host."""
    made.run(made_query(group("g", "s", "ip"), declared=(files("s"),)), only="h1")
    made.do(EvacuateHost("h2"))
    made.pass_time(PATIENCE_S + 1)
    assert {record.state for record in made.state.queries.values()} == {"running"}


def test_what_has_not_gone_in_time_fails_then(made: Hosts) -> None:
    made.run(only="h2")
    made.do(EvacuateHost("h2"))
    made.pass_time(PATIENCE_S - 0.1)
    assert made.state.queries["per-ip"].state == "running"
    assert made.state.deadline is not None and made.state.deadline <= made.now.steady + LOOK_S
    made.pass_time(0.1)
    record = made.state.queries["per-ip"]
    assert record.state == "failed" and record.cause is not None
    assert "host 'h2' is leaving" in record.cause.text and "has not gone elsewhere within 20 s" in record.cause.text
    assert "is moving from" in record.cause.text


def test_a_query_for_two_hosts_goes_to_the_second_before_a_third(made: Hosts) -> None:
    made.managers["h3-im-0"] = on_host("h3", "h3-im-0")
    made.see()
    made.do(HostsSeen(made.hosts | {"h3": host("h3")}))
    both = [worker for worker in made.state.workers() if worker.host != "h3"]
    asked = replace(query(), options=replace(query().options, hosts=1))
    made.do(SubmitQuery(replace(plan(query(), {}, both, Machines({"h1": ONE, "h2": ONE})), query=asked)))
    for state in ("ready", "running"):
        made.all_say(state, "per-ip")
    assert made.where() == {"h1", "h2"}
    made.do(EvacuateHost("h2"))
    made.work()
    assert made.where() == {"h1"}, "it is on one host, as it was to be"


def test_an_instance_that_has_ended_keeps_no_other_from_going(made: Hosts) -> None:
    """It may be that its query is over soon; if not, it says so."""
    made.run(only="h2")
    first = made.state.plans["per-ip"].instances[0]
    ended = instance_node("per-ip", first.subquery, first.index)
    made.do(StatusesSeen(first.im, {ended: Status(made.state.queries["per-ip"].epoch, "ended")}))
    made.do(EvacuateHost("h2"))
    for _ in range(40):
        record = made.state.queries["per-ip"]
        if (move := record.move) is None:
            break
        made.say_step(record, move, but=ended)
    assert record.moves == len(made.state.plans["per-ip"].instances) - 1 and record.state == "running"
    assert views.evacuated(made.state, "h2")["left"] == [{"query": "per-ip", "subquery": first.subquery, "instance": first.index}]
    made.pass_time(LOOK_S)
    assert made.state.queries["per-ip"].moves == record.moves, "it is not tried again and again"
    made.pass_time(PATIENCE_S)
    record = made.state.queries["per-ip"]
    assert record.state == "failed" and record.cause is not None and record.cause.text.endswith(ENDED)


def test_without_another_host_there_is_nowhere_to_go(made: Hosts) -> None:
    made.see(h1_im_0=None, h1_im_1=None)
    made.pass_time(TIMEOUT_S)  # before, one that is not seen may come yet
    made.run(only="h2")
    made.do(EvacuateHost("h2"))
    record = made.state.queries["per-ip"]
    assert record.state == "failed" and record.cause is not None
    assert record.cause.text.endswith("there is no instance manager on another host")


def test_what_moves_to_it_turns_round(made: Hosts) -> None:
    """A move that can be given up is; one whose input goes there already ends, and another one begins."""
    made.run(only="h1")
    made.do(MoveInstance("per-ip", "SQ2", 0, "h2-im-0"))
    made.do(EvacuateHost("h2"))
    record = made.state.queries["per-ip"]
    assert record.move is None and "host 'h2' is leaving" in record.refused and made.where() == {"h1"}


def test_only_hosts_that_are_there_are_left(made: Hosts) -> None:
    with pytest.raises(NotFound, match="there is no host 'h3'; there is 'h1', 'h2'"):
        made.do(EvacuateHost("h3"))


def test_asked_twice_it_has_no_more_time(made: Hosts) -> None:
    made.do(EvacuateHost("h2"))
    until = made.state.leaving["h2"].until
    made.pass_time(5)
    made.do(EvacuateHost("h2"))
    assert made.state.leaving["h2"].until == until == made.nodes[node("evacuations", "h2")]["until"]


def test_another_orchestrator_goes_on_with_the_time_that_is_left(made: Hosts) -> None:
    made.run(only="h2")
    made.do(EvacuateHost("h2"))
    made.now = replace_time(made, 15)
    other = ClusterState(TIMEOUT_S)
    made.obey(other.restore(made.nodes, made.now))
    made.state = other
    made.see()
    made.do(HostsSeen(dict(made.hosts)))
    assert made.state.leaving.keys() == {"h2"} and made.state.leave_by["h2"] == pytest.approx(made.now.steady + 5)
    made.work()
    assert made.where() == {"h1"}


def replace_time(made: Hosts, seconds: float):  # type: ignore[no-untyped-def]
    """The steady clock of another process begins elsewhere."""
    return made.now._replace(steady=made.now.steady + 10_000, wall=made.now.wall + seconds)


def test_it_is_over_when_the_host_and_its_instance_managers_are_gone(made: Hosts) -> None:
    made.do(EvacuateHost("h2"))
    made.do(HostsSeen({"h1": made.hosts["h1"]}))
    assert "h2" in made.state.leaving, "its instance managers are there yet"
    made.see(h2_im_0=None, h2_im_1=None)
    assert made.state.leaving == {} and node("evacuations", "h2") not in made.nodes


def test_joined_anew_it_is_a_host_as_any_other(made: Hosts) -> None:
    made.do(EvacuateHost("h2"))
    made.do(HostsSeen(made.hosts | {"h2": replace(made.hosts["h2"], load=2.0)}))
    assert "h2" in made.state.leaving, "it has only said how it is"
    made.do(HostsSeen(made.hosts | {"h2": host("h2", pid=8)}))
    assert made.state.leaving == {} and {worker.host for worker in made.state.workers()} == {"h1", "h2"}


def test_an_evacuation_that_cannot_be_read_is_set_aside() -> None:
    made = Hosts()
    state = ClusterState(TIMEOUT_S)
    state.restore(
        {node("evacuations", "h2"): {"host": "h2"}, node("evacuations", "h1"): {"host": "x", "agent": [1, 2], "until": 0.0}}, made.now
    )
    assert state.quarantine.nodes.keys() == {node("evacuations", "h2"), node("evacuations", "h1")} and state.leaving == {}


def test_hosts_as_they_are_shown(made: Hosts) -> None:
    made.hosts["h2"] = replace(made.hosts["h2"], clock_ms=3_600_000, load=1.5, since=12.0)
    made.do(HostsSeen(dict(made.hosts)))
    made.run(only="h2")
    made.do(EvacuateHost("h2"))
    first, second = views.hosts(made.state, "h1", ONE)
    assert (first["name"], first["leaving"], first["clock_off"], first["cores"]) == ("h1", False, False, 2)
    assert second["instance_managers"] == ["h2-im-0", "h2-im-1"] and second["instances"] == len(made.state.plans["per-ip"].instances)
    assert (second["leaving"], second["clock_ms"], second["clock_off"]) == (True, 3_600_000, True)
    alone = views.hosts(ClusterState(TIMEOUT_S), "", ONE)
    assert [each["name"] for each in alone] == [""]


def test_distances_come_from_what_hosts_say(made: Hosts) -> None:
    far = Topology.from_json({"nodes": [{"id": i, "cores": [i], "memory_bytes": 0} for i in (0, 1)], "distances": [[10, 30], [30, 10]]})
    made.do(HostsSeen(made.hosts | {"h2": replace(made.hosts["h2"], topology=far)}))
    machines = made.state.machines("h1", ONE)
    assert machines.distance(("h2", 0), ("h2", 1)) == 30 and machines.distance(("h1", 0), ("h2", 0)) == machines.between
    assert isinstance(next(iter(made.state.workers())), Worker)


def test_time_alone_fails_what_is_left(made: Hosts) -> None:
    """No word comes from anything: a tick does it."""
    made.run(only="h2")
    made.do(EvacuateHost("h2"))
    made.now = made.now._replace(steady=made.now.steady + PATIENCE_S)
    made.do(Tick())
    assert made.state.queries["per-ip"].state == "failed"
