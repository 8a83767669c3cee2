"""Moves of instances as the orchestrator sees them: step by step, taken over by another, refused, and unasked where load says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cep.config import instance_node
from cep.errors import Conflict, QueryError
from cep.model.expr import col
from cep.model.operators import Filter
from cep.model.query import Output, Query
from cep.plan.moving import why_it_stays
from orchestrator.balance.instances import LOOKS, DeployedInstance, InstanceBalancing, _hosts, _movable
from orchestrator.metrics.server import Metrics
from orchestrator.records import Now, Status
from orchestrator.rest.views import stream_readers
from orchestrator.service import Service
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import MoveInstance, StatusesSeen, StopQuery
from tests.orchestrator.state import test_scaling
from tests.orchestrator.state.test_cluster_state import Cluster as PureCluster
from tests.orchestrator.state.test_cluster_state import manager
from tests.orchestrator.test_service import deploy, state_is, written
from tests.support.control_plane import Cluster, Keeper, cluster, reached
from tests.support.plans import files, group, one_node, planned, query
from tests.support.waiting import HANG_S, until


@pytest.fixture
def two(zookeeper: Keeper, tmp_path: Path) -> Iterator[Cluster]:
    with cluster(zookeeper.fresh(), tmp_path) as made:
        deploy(made.services[0])
        state_is(made.services[0], "running")
        yield made


def home(state: ClusterState, subquery: str = "SQ2") -> str:
    return state.plans["per-ip"].instances_of(subquery)[0].im


def where(service: Service, subquery: str = "SQ2") -> str:
    return service.ask(lambda state: home(state, subquery)).result(HANG_S)


def move(made: Cluster) -> tuple[str, str]:
    """From where and to where SQ2/0 is asked to go."""
    here = where(made.services[0])
    there = next(im for im in made.stand_ins if im != here)
    made.services[-1].do(MoveInstance("per-ip", "SQ2", 0, there)).result(HANG_S)
    return here, there


def test_the_plan_says_where_it_is(zookeeper: Keeper, two: Cluster) -> None:
    here, there = move(two)
    reached(two.services[0], lambda state: state.queries["per-ip"].move is None)
    assert where(two.services[0]) == there
    plan, record = written(zookeeper.client, two, "plans", "per-ip"), written(zookeeper.client, two, "queries", "per-ip")
    assert next(i["im"] for i in plan["instances"] if i["subquery"] == "SQ2" and i["index"] == 0) == there
    assert record["moves"] == 1 and record["move"] is None and record["refused"] == "" and there in record["hosts"]
    until(lambda: "per-ip~SQ2~0" not in two.stand_ins[here].assignments)
    until(lambda: "move" not in two.stand_ins[there].assignments["per-ip~SQ2~0"])
    state_is(two.services[0], "running")


def test_another_orchestrator_takes_it_over(two: Cluster) -> None:
    """In the middle: the new place has not said that it is ready."""
    service = two.services[0]
    there = next(im for im in two.stand_ins if im != where(service))
    two.stand_ins[there].mute = True
    _, there = move(two)
    until(lambda: "per-ip~SQ2~0" in two.stand_ins[there].assignments)
    two.close_service(service)
    two.add_service()
    reached(two.services[0], lambda state: state.queries["per-ip"].move is not None and len(state.managers) == 2)
    with pytest.raises(Conflict, match="wait until it is there"):
        two.services[0].do(MoveInstance("per-ip", "SQ2", 0, there)).result(HANG_S)
    two.stand_ins[there].mute = False
    for key in list(two.stand_ins[there].assignments):
        two.stand_ins[there].say(key, "ready" if key == "per-ip~SQ2~0" else "running")
    reached(two.services[0], lambda state: state.queries["per-ip"].move is None)
    assert where(two.services[0]) == there


def test_a_place_where_it_cannot_be_is_refused(two: Cluster) -> None:
    here = where(two.services[0])
    there = next(im for im in two.stand_ins if im != here)
    two.stand_ins[there].mute = True
    move(two)
    until(lambda: "per-ip~SQ2~0" in two.stand_ins[there].assignments)
    two.stand_ins[there].say("per-ip~SQ2~0", "failed", "there is no room")
    reached(two.services[0], lambda state: state.queries["per-ip"].move is None)
    record = two.services[0].ask(lambda state: state.queries["per-ip"]).result(HANG_S)
    assert record.refused == f"SQ2/0 of query 'per-ip' stays on '{here}': on '{there}' it has failed: there is no room"
    assert record.state == "running" and where(two.services[0]) == here
    until(lambda: "per-ip~SQ2~0" not in two.stand_ins[there].assignments)


def test_a_query_that_is_stopped_meanwhile_stops(two: Cluster) -> None:
    there = next(im for im in two.stand_ins if im != where(two.services[0]))
    two.stand_ins[there].mute = True
    move(two)
    two.services[0].do(StopQuery("per-ip")).result(HANG_S)
    reached(two.services[0], lambda state: state.queries["per-ip"].refused != "")
    for key in list(two.stand_ins[there].assignments):
        two.stand_ins[there].say(key, "stopped")
    state_is(two.services[0], "stopped")


class TestPure:
    """Two of something: two instance managers, two instances, one of which may be in another state than the other."""

    @pytest.fixture
    def pure(self) -> PureCluster:
        return PureCluster().running()

    @staticmethod
    def capacity(pure: PureCluster) -> dict[str, float]:
        return {worker.im: worker.capacity for worker in pure.state.workers()}

    @staticmethod
    def begin(pure: PureCluster) -> tuple[str, str]:
        here = home(pure.state)
        there = next(im for im in pure.managers if im != here)
        pure.do(MoveInstance("per-ip", "SQ2", 0, there))
        return here, there

    @staticmethod
    def all_do(pure: PureCluster, there: str, state: str, ended: str = "") -> None:
        """Every instance has done what is asked of it; the one that moves is `state` at its new place. `ended`: one that has ended."""
        record = pure.state.queries["per-ip"]
        assert record.move is not None
        places = {(i.im, instance_node("per-ip", i.subquery, i.index)): "running" for i in pure.state.plans["per-ip"].instances}
        for (im, key), usual in {**places, (there, "per-ip~SQ2~0"): state}.items():
            status = Status(record.epoch, "ended") if key == ended else Status(record.epoch, usual, step=record.move.step)
            pure.do(StatusesSeen(im, {key: status}))

    def test_the_old_place_is_free_and_the_new_one_is_not(self, pure: PureCluster) -> None:
        assert set(self.capacity(pure).values()) == {1 / 3}
        here, there = self.begin(pure)
        self.all_do(pure, there, "ready")
        self.all_do(pure, there, "running")
        assert pure.state.queries["per-ip"].move is None and home(pure.state) == there
        assert self.capacity(pure) == {here: 1 / 2, there: 1 / 4}

    def test_an_instance_that_has_ended_is_not_waited_for(self, pure: PureCluster) -> None:
        _, there = self.begin(pure)
        self.all_do(pure, there, "ready", ended="per-ip~SQ1~0")
        self.all_do(pure, there, "running", ended="per-ip~SQ1~0")
        assert pure.state.queries["per-ip"].move is None and home(pure.state) == there

    def test_one_that_has_not_done_it_is(self, pure: PureCluster) -> None:
        _, there = self.begin(pure)
        epoch, step = pure.state.queries["per-ip"].epoch, 2
        for instance in pure.state.plans["per-ip"].instances:
            done = step if (instance.subquery, instance.index) != ("SQ1", 1) else step - 1
            key = instance_node("per-ip", instance.subquery, instance.index)
            pure.do(StatusesSeen(instance.im, {key: Status(epoch, "running", step=done)}))
        pure.do(StatusesSeen(there, {"per-ip~SQ2~0": Status(epoch, "ready", step=step)}))
        move = pure.state.queries["per-ip"].move
        assert move is not None and not move.redirecting

    def test_nothing_moves_to_a_process_that_was_not_meant(self, pure: PureCluster) -> None:
        pure.see(im_2=manager("im-2"))
        pure.do(MoveInstance("per-ip", "SQ2", 0, "im-2"))
        assert pure.state.queries["per-ip"].move is not None
        pure.see(im_2=manager("im-2", pid=2))
        record = pure.state.queries["per-ip"]
        assert record.move is None and "instance manager 'im-2' was started anew" in record.refused and record.state == "running"


class Measured:
    """A metric server without its process."""

    def __init__(self) -> None:
        self.metrics, self.now = Metrics(), 0.0

    def ask(self, **question: Any) -> dict[str, Any]:
        return self.metrics.answer(question, Now(self.now, self.now))

    def pass_time(self, seconds: float, epoch: int, cpu: dict[str, dict[tuple[str, str, int], float]]) -> None:
        """`cpu`: of a core, by instance manager and instance of a query."""
        self.now += seconds
        for im, shares in cpu.items():
            reports = [
                {"query": query, "epoch": epoch, "subquery": s, "instance": i, "cpu_ns": share * self.now * 1e9}
                for (query, s, i), share in shares.items()
            ]
            self.metrics.take({"im": im, "instances": reports, "complete": True}, Now(self.now, self.now))


@pytest.mark.parametrize("busy", ["SQ1", "SQ2"])
def test_load_moves_an_instance(two: Cluster, busy: str) -> None:
    """Whether it reads a published stream or not."""
    service, measured = two.services[0], Measured()
    epoch = service.ask(lambda state: state.queries["per-ip"].epoch).result(HANG_S)
    placed = service.ask(lambda state: [(i.subquery, i.index, i.im) for i in state.plans["per-ip"].instances]).result(HANG_S)
    here = where(service, busy)
    there = next(im for im in two.stand_ins if im != here)
    shares = {im: {("per-ip", s, i): 0.45 if s == busy and at == here else 0.01 for s, i, at in placed if at == im} for im in (here, there)}
    shares[here]["gone", "SQ1", 0] = 0.3  # of a query that is over now
    balancing = InstanceBalancing(service, measured)
    for look in range(1, LOOKS + 1):
        measured.pass_time(2.0, epoch, shares)
        balancing.look({("per-ip", epoch, "SQ2")} if look < LOOKS else set())
        if look < LOOKS:
            assert where(service, busy) == here
    reached(service, lambda state: state.queries["per-ip"].moves == 1 and state.queries["per-ip"].move is None)
    assert where(service, busy) == there
    # What was measured before says nothing about now: nothing more moves before it has been looked at as often again.
    rest = {("per-ip", s, i): 0.4 for s, i, at in placed if at == here and s != busy} | {("gone", "SQ1", 0): 0.3}
    for _ in range(LOOKS):
        assert service.ask(lambda state: state.queries["per-ip"].moves).result(HANG_S) == 1
        measured.pass_time(2.0, epoch, {here: rest, there: {}})
        balancing.look(set())
    assert service.ask(lambda state: state.queries["per-ip"].moves).result(HANG_S) == 2


@pytest.mark.parametrize("recover", ["on-commit", "off"])
def test_any_instance_of_a_query_that_recovers_may_be_moved_unasked(recover: str) -> None:
    """But not while it is being changed."""
    cluster = test_scaling.running(recover)
    epoch = cluster.state.queries["per-ip"].epoch
    each = [DeployedInstance("per-ip", epoch, f"SQ{i}", 0) for i in (1, 2, 3)]
    assert set(_movable(each, set(), cluster.state)) == set(each) and _hosts({}, cluster.state) is not None
    if recover == "off":
        return
    cluster.do(MoveInstance("per-ip", "SQ2", 0, test_scaling.other(cluster), unasked=True))
    assert _hosts({}, cluster.state) is None
    cluster.stores()
    assert _hosts({}, cluster.state) is None and not _movable(each, set(), cluster.state)


def test_publishers_learn_where_it_is(two: Cluster) -> None:
    """A subquery that reads a published stream moves; one that reads another query does not."""
    service = two.services[0]
    here = where(service, "SQ1")
    there = next(im for im in two.stand_ins if im != here)
    reader = Query("reader", (), (Filter("all", "out-per-ip", col("visits") > 0),), (Output("many", "all"),))
    service.deploy(reader, {}, True).result(HANG_S)
    state_is(service, "running", "reader")
    at = service.ask(lambda state: state.plans["reader"].instances[0].im).result(HANG_S)
    with pytest.raises(QueryError, match="it reads stream 'out-per-ip', which query 'per-ip' puts out"):
        service.do(MoveInstance("reader", "SQ1", 0, next(im for im in two.stand_ins if im != at))).result(HANG_S)
    service.do(MoveInstance("per-ip", "SQ1", 0, there)).result(HANG_S)
    reached(service, lambda state: state.queries["per-ip"].move is None)
    assert where(service, "SQ1") == there
    found = service.ask(lambda state: {each["instance"]: each for each in stream_readers(state, "visits")}).result(HANG_S)
    endpoint = service.ask(lambda state: state.managers[there].endpoint).result(HANG_S)
    assert (found[0]["im"], found[0]["endpoint"]) == (there, endpoint)


def test_what_reads_files_stays() -> None:
    made = planned(query(group("g", "s", "ip"), declared=(files("s"),)), one_node(2), files={"s": (("/data/a.txt", 10),)})
    assert why_it_stays(made, "SQ1") == "it reads stream 's' out of files, and keeps its place in them"
    assert why_it_stays(made, "SQ2") is None


def test_replicas_that_read_streams_stay() -> None:
    made = planned(query(group("g", "s", "ip"), replicas=2), one_node(4), numa=False)
    assert why_it_stays(made, "SQ1") == "it reads stream 's', whose publishers choose among replicas of the query by key"
