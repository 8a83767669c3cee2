"""The orchestrator's service on a real ZooKeeper, with stand-in instance managers: deploy, take over, come back.

Tests `service.py`, `answers.py`, `records.py`, `unseen.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from cep.config import node
from cep.errors import ClusterError, Conflict, PlacementError
from cep.model import query as queries
from cep.model.query import Query
from cep.world.coordination import Connection
from cep.world.zookeeper import ZooKeeperSession
from orchestrator.election import Candidate, Election
from orchestrator.registry import Deposed, Registry
from orchestrator.rest.models import QUERY_EXAMPLE
from orchestrator.service import NotLeading, Service
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.desired_nodes import NODE_BYTES_MAX, encode
from orchestrator.state.events import Delete, ForgetQuery, Put, StartQuery, StopQuery
from tests.support.control_plane import SESSION_S, Cluster, Keeper, cluster, reached, steal_session
from tests.support.waiting import HANG_S, until


@pytest.fixture
def two(zookeeper: Keeper, tmp_path: Path) -> Iterator[Cluster]:
    """A service that leads and two instance managers."""
    with cluster(zookeeper.fresh(), tmp_path) as made:
        yield made


def query(name: str = "per-ip") -> Query:
    return queries.from_json(QUERY_EXAMPLE | {"name": name, "outputs": [{"stream": f"out-{name}", "input": "window"}]})


def deploy(service: Service, name: str = "per-ip", start: bool = True) -> None:
    service.deploy(query(name), {}, start).result(HANG_S)


def state_is(service: Service, state: str, name: str = "per-ip") -> None:
    reached(service, lambda seen: name in seen.queries and seen.queries[name].state == state)


def connected(zookeeper: str) -> ZooKeeperSession:
    """A session of the test's own."""
    states: list[Connection] = []
    session = ZooKeeperSession(zookeeper, SESSION_S)
    session.start(states.append)
    until(lambda: states == [Connection.CONNECTED])
    return session


def written(client: KazooClient, made: Cluster, *names: str) -> Any:
    tree = "/" + made.config.zookeeper.partition("/")[2]
    return json.loads(client.get(tree + node(*names))[0])


class TestLife:
    def test_deploy_runs_and_is_written(self, zookeeper: Keeper, two: Cluster) -> None:
        service = two.services[0]
        deploy(service)
        state_is(service, "running")
        record = written(zookeeper.client, two, "queries", "per-ip")
        assert record["state"] == "running" and record["desired"] == "run"
        assert written(zookeeper.client, two, "assignments", "im-0", "per-ip~SQ1~0")["desired"] == "run"
        assert written(zookeeper.client, two, "plans", "per-ip")["query"]["name"] == "per-ip"

    def test_start_stop_forget(self, two: Cluster) -> None:
        service = two.services[0]
        deploy(service, start=False)
        state_is(service, "ready")
        service.do(StartQuery("per-ip")).result(HANG_S)
        state_is(service, "running")
        service.do(StopQuery("per-ip", drain=True)).result(HANG_S)
        state_is(service, "stopped")
        service.do(ForgetQuery("per-ip")).result(HANG_S)
        reached(service, lambda state: not state.queries)
        until(lambda: not any(stand_in.assignments for stand_in in two.stand_ins.values()))

    def test_an_instance_that_fails_fails_its_query_only(self, two: Cluster) -> None:
        service = two.services[0]
        for name in ("a", "b"):
            deploy(service, name)
            state_is(service, "running", name)
        two.stand_ins["im-1"].say("a~SQ2~1", "failed", "no space left")
        state_is(service, "failed", "a")
        cause = service.ask(lambda state: state.queries["a"].cause).result(HANG_S)
        assert cause is not None and (cause.subquery, cause.instance, cause.text) == ("SQ2", 1, "no space left")
        until(lambda: two.stand_ins["im-0"].assignments["a~SQ1~0"]["desired"] == "fail")
        assert two.stand_ins["im-0"].assignments["b~SQ1~0"]["desired"] == "run"

    def test_who_has_only_heard_of_a_failure_names_where_it_was(self, two: Cluster) -> None:
        service = two.services[0]
        deploy(service)
        state_is(service, "running")
        two.stand_ins["im-0"].say("per-ip~SQ2~0", "failed", "no space left", failed_at=["SQ1", 1])
        state_is(service, "failed")
        cause = service.ask(lambda state: state.queries["per-ip"].cause).result(HANG_S)
        assert cause is not None and (cause.subquery, cause.instance, cause.text) == ("SQ1", 1, "no space left")

    def test_a_vanished_instance_manager_fails_what_it_hosted(self, two: Cluster) -> None:
        service = two.services[0]
        deploy(service)
        state_is(service, "running")
        two.stand_ins["im-1"].vanish()
        state_is(service, "failed")
        assert "'im-1'" in service.ask(lambda state: state.queries["per-ip"].cause.text).result(HANG_S)

    def test_refusals_come_back_as_errors(self, two: Cluster) -> None:
        service = two.services[0]
        deploy(service)
        with pytest.raises(Conflict):
            deploy(service)
        for stand_in in two.stand_ins.values():
            stand_in.vanish()
        reached(service, lambda state: not state.managers)
        with pytest.raises(PlacementError):
            deploy(service, "nowhere")

    def test_a_query_that_no_node_holds_is_refused_whole(self, two: Cluster) -> None:
        service = two.services[0]
        condition = {"op": "=", "args": [{"column": "ip"}, {"literal": "x" * NODE_BYTES_MAX}]}
        large = {"name": "f", "type": "filter", "input": "window", "condition": condition}
        document = QUERY_EXAMPLE | {"operators": [*QUERY_EXAMPLE["operators"], large], "outputs": [{"stream": "out", "input": "f"}]}
        with pytest.raises(ClusterError, match=r"query 'per-ip': 900,\d+ bytes would be written of it, .* expected at most 750,000"):
            service.deploy(queries.from_json(document), {}, True).result(HANG_S)
        assert service.ask(lambda state: len(state.queries)).result(HANG_S) == 0


class TestTakingOver:
    def test_the_standby_says_who_leads_and_takes_over(self, two: Cluster) -> None:
        first, second = two.services[0], two.add_service()
        deploy(first)
        state_is(first, "running")
        until(lambda: second.leader is not None)
        with pytest.raises(NotLeading, match=r"http://127\.0\.0\.1:1 does"):
            second.ask(lambda state: None).result(HANG_S)
        two.close_service(first)
        state_is(second, "running")
        second.do(StopQuery("per-ip")).result(HANG_S)
        state_is(second, "stopped")

    def test_a_deposed_leader_writes_nothing(self, zookeeper: Keeper, two: Cluster) -> None:
        service = two.services[0]
        tree = "/" + two.config.zookeeper.partition("/")[2]
        zookeeper.client.set(tree + node("orchestrator"), b'{"rest": "http://usurper"}')
        with pytest.raises(NotLeading):
            deploy(service)
        until(lambda: service.leads)  # still first in the election: it takes office anew
        assert service.ask(lambda state: len(state.queries)).result(HANG_S) == 0

    def test_a_lost_session_is_mended(self, zookeeper: Keeper, two: Cluster) -> None:
        service = two.services[0]
        deploy(service)
        state_is(service, "running")
        fence = service._fence
        until(lambda: service._fence > fence or steal_session(two.config.zookeeper, service._coordination._client.client_id))
        state_is(service, "running")

    def test_who_died_on_this_machine_is_not_waited_for(self, zookeeper: Keeper, two: Cluster) -> None:
        alive = Candidate.here("http://alive")
        dead = Candidate(alive.rest, alive.machine, 2**22 + 1, "0")
        assert dead.is_gone and not alive.is_gone
        assert Candidate(alive.rest, alive.machine, alive.pid, "0").is_gone, "another process has its number now"
        assert not Candidate(alive.rest, "another machine", dead.pid, dead.born).is_gone
        two.close_service(two.services[0])
        sessions = [connected(two.config.zookeeper) for _ in range(3)]
        first, second, third = (Election(*each, lambda path: None) for each in zip(sessions, (dead, alive, alive), strict=True))
        assert first.leads()
        assert second.leads()  # what the dead one left is swept away
        assert not third.leads()
        for session in sessions:
            session.close()


class TestZooKeeperAway:
    def test_nothing_is_redeployed_and_what_was_asked_for_is_done_when_it_is_back(self, zookeeper: Keeper, two: Cluster) -> None:
        service = two.services[0]
        deploy(service)
        state_is(service, "running")
        tree = "/" + two.config.zookeeper.partition("/")[2]
        path = tree + node("assignments", "im-0", "per-ip~SQ1~0")
        before = zookeeper.client.get(path)[1].mzxid
        zookeeper.kill()
        until(lambda: not service.connected)
        assert service.ask(lambda state: state.queries["per-ip"].state).result(HANG_S) == "running"
        written = service.wait(lambda state: service._registry.is_written if "meanwhile" in state.queries else None)
        asked = service.deploy(query("meanwhile"), {}, True)
        assert not asked.done()
        zookeeper.start()
        asked.result(HANG_S)
        assert written.result(HANG_S), "whoever waits for a change hears of it when another leader would know it, too"
        state_is(service, "running", "meanwhile")
        assert zookeeper.client.retry(zookeeper.client.get, path)[1].mzxid == before
        assert service.ask(lambda state: state.queries["per-ip"].state).result(HANG_S) == "running"


class TestRegistry:
    @pytest.fixture
    def registry(self, zookeeper: Keeper) -> Iterator[tuple[Registry, KazooClient, int]]:
        tree = zookeeper.fresh()
        client = KazooClient(tree)
        client.start(timeout=HANG_S)
        session = connected(tree)
        registry = Registry(session, lambda path: None)
        fence = Election(session, Candidate.here("http://me"), lambda path: None).take_office()
        registry.read_all()
        yield registry, client, fence
        session.close()
        client.stop()
        client.close()

    def test_writes_what_differs(self, registry: tuple[Registry, KazooClient, int]) -> None:
        written, client, fence = registry
        path = node("publishers", "visits", "p1")
        written.put([Put(path, {"n": 1}), Put(node("streams", "visits"), 1)])
        written.flush(fence)
        written.put([Put(path, {"n": 1})])
        written.flush(fence)
        assert client.get(path)[1].version == 0
        written.put([Put(path, {"n": 2}), Delete(node("streams", "visits")), Put(path, {"n": 3})])
        written.flush(fence)
        assert json.loads(client.get(path)[0]) == {"n": 3} and not client.exists(node("streams", "visits"))
        assert written.read_all()[path] == {"n": 3}

    def test_somebody_elses_hand_is_seen_and_overruled(self, registry: tuple[Registry, KazooClient, int]) -> None:
        written, client, fence = registry
        there, gone = node("streams", "there"), node("streams", "gone")
        written.put([Put(gone, 1)])
        written.flush(fence)
        client.create(there, b"0")
        client.delete(gone)
        written.put([Put(there, 1), Put(gone, 2)])
        written.flush(fence)
        assert (client.get(there)[0], client.get(gone)[0]) == (b"1", b"2")

    def test_a_thousand_large_nodes_are_several_transactions(self, registry: tuple[Registry, KazooClient, int]) -> None:
        written, client, fence = registry
        written.put(Put(node("assignments", "im-0", f"q{i}"), "x" * 5000) for i in range(1000))
        written.flush(fence)
        assert len(client.get_children(node("assignments", "im-0"))) == 1000

    def test_an_old_fence_writes_nothing(self, registry: tuple[Registry, KazooClient, int]) -> None:
        written, client, fence = registry
        written.put([Put(node("streams", "visits"), 1)])
        with pytest.raises(Deposed):
            written.flush(fence - 1)
        assert not client.exists(node("streams", "visits"))

    def test_too_large_is_said_with_the_place(self) -> None:
        with pytest.raises(ClusterError, match=r"/cep/plans/big would take 900,003 bytes"):
            encode(node("plans", "big"), "x" * 900_001)


def test_a_state_is_told_what_zookeeper_has(two: Cluster) -> None:
    def endpoints(state: ClusterState) -> list[str]:
        return [worker.endpoint for worker in state.workers()]

    assert two.services[0].ask(endpoints).result(HANG_S) == ["ipc:///im-0", "ipc:///im-1"]


def test_a_state_that_cannot_say_when_it_is_to_be_asked_again_is_asked_all_the_same(two: Cluster) -> None:
    """The deadline follows from what stands in ZooKeeper, and a bug there ended the process, again and again."""
    service = two.services[0]
    service.ask(lambda state: setattr(state._deployments, "judged", "soon")).result(HANG_S)
    until(lambda: "TypeError" in service.quarantine.nodes.get(node(), ""))
    service.ask(lambda state: setattr(state._deployments, "judged", 0.0)).result(HANG_S)
    deploy(service)
    state_is(service, "running")
