"""The pure core of the orchestrator: every path through the life cycle, without ZooKeeper, clocks or threads.

Tests `cluster_state.py`, `catalog.py`, `cluster_model.py`, `deployments.py`, `desired_nodes.py`, `events.py`, `life_cycle.py`,
`query_status.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cep.config import instance_node, node
from cep.errors import Conflict, NotFound, QueryError, TooLarge
from cep.model import query as queries
from cep.model.limits import NAME_CHARS_MAX
from cep.model.query import Query
from cep.model.schema import INT64, Field, Schema
from cep.model.streams import Stream, from_json, to_json
from cep.model.topology import Topology
from cep.plan.physical import PhysicalPlan
from cep.plan.planner import plan
from orchestrator.records import ApplicationRecord, InstanceManager, Now, PublisherRecord, QueryRecord, Status, SubscriptionRecord, Unused
from orchestrator.rest.models import QUERY_EXAMPLE, STREAM_EXAMPLE
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.connectors import HOLDER_BYTES
from orchestrator.state.desired_nodes import NODE_BYTES_MAX
from orchestrator.state.events import (
    ClosePublisher,
    ClusterCommand,
    Connected,
    DeclareConnector,
    DeclareStream,
    Delete,
    Event,
    ForgetQuery,
    HoldConnectors,
    KeepApplication,
    ManagersSeen,
    OpenPublisher,
    Put,
    StartQuery,
    StatusesSeen,
    StopQuery,
    SubmitQuery,
    Subscribe,
    Tick,
    Unsubscribe,
)
from orchestrator.state.life_cycle import DESIRED, LIFE_CYCLE, is_over, mermaid, signals, step

TIMEOUT_S = 6.0
IMS = ("im-0", "im-1")


def manager(im: str, pid: int = 1) -> InstanceManager:
    return InstanceManager.from_json({"id": im, "endpoint": f"ipc:///{im}", "pid": pid, "node": 0, "core": int(im[-1])})


def query(name: str = "per-ip", output: str = "per_ip") -> Query:
    return queries.from_json(QUERY_EXAMPLE | {"name": name, "outputs": [{"stream": output, "input": "window"}]})


class Cluster:
    """A state, the ZooKeeper its commands make, and a clock that stands still unless it is moved."""

    def __init__(self, term: int = 1) -> None:
        self.state = ClusterState(TIMEOUT_S, term=term)
        self.nodes: dict[str, Any] = {}
        self.now = Now(1000.0, 1_700_000_000.0)
        self.managers = {im: manager(im) for im in IMS}
        self.obey(self.state.restore({}, self.now))
        self.see()

    def do(self, event: Event) -> list[ClusterCommand]:
        commands = self.state.handle(event, self.now)
        self.obey(commands)
        return commands

    def obey(self, commands: Iterable[ClusterCommand]) -> None:
        for command in commands:
            if isinstance(command, Put):
                self.nodes[command.path] = json.loads(json.dumps(command.value))
            else:
                del self.nodes[command.path]

    def see(self, **managers: InstanceManager | None) -> None:
        self.managers |= {im.replace("_", "-"): found for im, found in managers.items() if found is not None}
        for im in [im.replace("_", "-") for im, found in managers.items() if found is None]:
            del self.managers[im]
        self.do(ManagersSeen(dict(self.managers)))

    def pass_time(self, seconds: float) -> None:
        self.now = Now(self.now.steady + seconds, self.now.wall + seconds)
        self.do(Tick())

    def plan(self, query: Query) -> PhysicalPlan:
        return plan(query, self.state.streams, self.state.workers(), Topology.one_node([0, 1]))

    def submit(self, query: Query, start: bool = True) -> None:
        self.do(SubmitQuery(self.plan(query), start))

    def all_say(self, state: str, name: str = "per-ip", rows: int = 0) -> None:
        for instance in self.state.plans[name].instances:
            self.says(instance.im, instance_node(name, instance.subquery, instance.index), state, rows=rows * (instance.subquery == "SQ2"))

    def says(self, im: str, key: str, state: str, cause: str | None = None, rows: int = 0) -> None:
        record = self.state.queries.get(key.split("~")[0])  # a forgotten one is gone with its last instance
        status = Status(record.epoch if record else 0, state, cause, {"per_ip": rows} if rows else {})
        self.do(StatusesSeen(im, {key: status}))

    def deployed(self, start: bool = True) -> Cluster:
        self.submit(query(), start)
        self.all_say("ready")
        return self

    def running(self) -> Cluster:
        self.deployed().all_say("running")
        return self

    def state_of(self, name: str = "per-ip") -> str:
        return self.nodes[node("queries", name)]["state"]

    def assignments(self) -> dict[str, dict[str, Any]]:
        return {path: value for path, value in self.nodes.items() if path.startswith(node("assignments"))}

    def desired(self) -> set[str]:
        return {assignment["desired"] for assignment in self.assignments().values()}


class TestLifeCycle:
    def test_every_state_is_reached_and_left_as_the_table_says(self) -> None:
        targets = {target for row in LIFE_CYCLE.values() for target in row.values()}
        assert targets | {"accepted", "recovering"} == LIFE_CYCLE.keys()
        assert {state for state in LIFE_CYCLE if is_over(state)} == {"stopped", "ended", "failed"}
        assert DESIRED.keys() <= LIFE_CYCLE.keys()

    def test_a_step_takes_the_first_signal_of_the_row(self) -> None:
        assert step("running", frozenset({"all ended", "failure"})) == "failed"
        assert step("running", frozenset({"all running"})) is None

    @pytest.mark.parametrize(
        ("statuses", "expected"),
        [
            (["ready", None], set()),
            (["ready", "running"], {"all ready"}),
            (["running", "ended"], {"all ready", "all running"}),
            (["ended", "ended"], {"all ready", "all running", "all ended", "all over"}),
            (["stopped", "gone"], {"all over"}),
        ],
    )
    def test_signals(self, statuses: list[str | None], expected: set[str]) -> None:
        assert signals(statuses) == expected

    def test_the_diagram_has_every_arrow(self) -> None:
        assert mermaid().count("-->") == 1 + sum(len(row) or 1 for row in LIFE_CYCLE.values())


class TestDeploy:
    def test_writes_query_plan_and_one_assignment_per_instance(self) -> None:
        cluster = Cluster()
        cluster.submit(query())
        assert cluster.state_of() == "deploying"
        assert cluster.nodes[node("queries")] == {"epoch": 1}
        assert cluster.nodes[node("streams", "visits")]["disorder"] == "2s"
        assert len(cluster.assignments()) == len(cluster.state.plans["per-ip"].instances) == 4
        assert cluster.desired() == {"ready"}

    def test_runs_once_all_are_ready(self) -> None:
        cluster = Cluster()
        cluster.submit(query())
        first, *_ = cluster.state.plans["per-ip"].instances
        cluster.says(first.im, instance_node("per-ip", first.subquery, first.index), "ready")
        assert (cluster.state_of(), cluster.desired()) == ("deploying", {"ready"})
        cluster.all_say("ready")
        assert (cluster.state_of(), cluster.desired()) == ("ready", {"run"})
        cluster.all_say("running")
        assert cluster.state_of() == "running"
        assert list(cluster.nodes[node("queries", "per-ip")]["times"]) == ["deploying", "ready", "running"]

    def test_without_start_it_waits_for_start(self) -> None:
        cluster = Cluster().deployed(start=False)
        assert (cluster.state_of(), cluster.desired()) == ("ready", {"ready"})
        cluster.do(StartQuery("per-ip"))
        assert cluster.desired() == {"run"}

    def test_start_before_ready_is_remembered(self) -> None:
        cluster = Cluster()
        cluster.submit(query(), start=False)
        cluster.do(StartQuery("per-ip"))
        cluster.all_say("ready")
        assert cluster.desired() == {"run"}

    def test_statuses_of_an_earlier_deployment_count_for_nothing(self) -> None:
        cluster = Cluster().running()
        cluster.do(ForgetQuery("per-ip"))
        cluster.all_say("stopped")
        cluster.submit(query())
        assert cluster.state.queries["per-ip"].epoch == 2
        assert cluster.state_of() == "deploying"

    def test_nor_do_those_of_one_that_failed(self) -> None:
        cluster = Cluster().running()
        cluster.says("im-1", "per-ip~SQ1~1", "failed", "disk full")
        cluster.do(ForgetQuery("per-ip"))
        cluster.submit(query())
        assert cluster.state_of() == "deploying" and cluster.desired() == {"ready"}

    def test_deployments_are_counted_on_where_their_number_was_lost(self) -> None:
        """Assignments of a query that cannot be read may still be obeyed."""
        cluster = Cluster().running()
        cluster.submit(query("other", "other"))
        assert cluster.nodes.pop(node("queries")) == {"epoch": 2}
        cluster.nodes[node("queries", "other")] = 7
        cluster.state = ClusterState(TIMEOUT_S)
        cluster.obey(cluster.state.restore(dict(cluster.nodes), cluster.now))
        cluster.see()
        cluster.submit(query("third", "third"))
        assert cluster.state.queries["third"].epoch == 3

    def test_ends_when_all_instances_have(self) -> None:
        cluster = Cluster().running()
        cluster.all_say("ended", rows=5)
        record = cluster.nodes[node("queries", "per-ip")]
        assert (record["state"], record["rows"]) == ("ended", {"per_ip": 10})  # two instances feed it
        assert cluster.desired() == {"run"}

    def test_its_record_says_what_it_has_not_used(self) -> None:
        """Whatever becomes of the metric server, and of an instance manager afterwards."""
        cluster = Cluster().running()
        for number, instance in enumerate(cluster.state.plans["per-ip"].instances):
            status = {"epoch": 1, "state": "ended", "unused": {"late": number, "dead_letters": {"page_views": 2, f"SQ{number}": 1}}}
            key = instance_node("per-ip", instance.subquery, instance.index)
            cluster.do(StatusesSeen(instance.im, {key: Status.from_json(status)}))
        cluster.see(im_0=None)
        dead = {"SQ0": 1, "SQ1": 1, "SQ2": 1, "SQ3": 1, "page_views": 8}
        assert QueryRecord.from_json(cluster.nodes[node("queries", "per-ip")]).unused == Unused(6, 0, 0, dead)

    def test_where_not_all_instances_could_say_it_says_nothing_of_that(self) -> None:
        """What the metric server was told is shown then."""
        cluster = Cluster().running()
        first, *others = cluster.state.plans["per-ip"].instances
        cluster.says(first.im, instance_node("per-ip", first.subquery, first.index), "failed", "no room")
        for each in others:
            status = Status(1, "failed", "no room", unused=Unused(late=5))
            cluster.do(StatusesSeen(each.im, {instance_node("per-ip", each.subquery, each.index): status}))
        record = cluster.nodes[node("queries", "per-ip")]
        assert (record["state"], record.pop("unused")) == ("failed", None)
        assert QueryRecord.from_json(record).unused is None, "one that was written before"

    def test_conflicts_change_nothing(self) -> None:
        cluster = Cluster().running()
        before = dict(cluster.nodes)
        with pytest.raises(Conflict, match="there is a query 'per-ip' already"):
            cluster.submit(query())
        with pytest.raises(Conflict, match="'per_ip' is the output of query 'per-ip', which is running"):
            cluster.submit(query("other"))
        with pytest.raises(NotFound, match="no query 'nobody'"):
            cluster.do(StopQuery("nobody"))
        assert cluster.nodes == before

    def test_workers_have_less_capacity_the_more_they_host(self) -> None:
        cluster = Cluster()
        assert [worker.capacity for worker in cluster.state.workers()] == [1.0, 1.0]
        cluster.submit(query())
        assert [worker.capacity for worker in cluster.state.workers()] == [1 / 3, 1 / 3]
        assert [worker.capacity for worker in cluster.state.workers("per-ip")] == [1.0, 1.0]


class TestStop:
    def test_stops_when_all_have(self) -> None:
        cluster = Cluster().running()
        cluster.do(StopQuery("per-ip"))
        assert (cluster.state_of(), cluster.desired()) == ("stopping", {"stop"})
        cluster.do(StopQuery("per-ip"))  # again is fine
        cluster.all_say("stopped")
        assert (cluster.state_of(), cluster.desired()) == ("stopped", {"stop"})

    def test_draining_ends_in_stopped_and_keeps_what_is_unread(self) -> None:
        cluster = Cluster().running()
        cluster.do(StopQuery("per-ip", drain=True))
        assert cluster.desired() == {"drain"}
        cluster.all_say("ended")
        assert (cluster.state_of(), cluster.desired()) == ("stopped", {"drain"})

    def test_stop_of_what_is_over_withdraws_it(self) -> None:
        cluster = Cluster().running()
        cluster.all_say("ended")
        cluster.do(StopQuery("per-ip"))
        assert cluster.assignments() == {} and cluster.state_of() == "ended"

    def test_a_dead_instance_manager_cannot_hinder_a_stop(self) -> None:
        cluster = Cluster().running()
        cluster.do(StopQuery("per-ip"))
        cluster.see(im_1=None)
        cluster.pass_time(2 * TIMEOUT_S)
        assert cluster.state.deadline is None  # nothing to wait for: no busy loop
        for instance in cluster.state.plans["per-ip"].instances:
            if instance.im == "im-0":
                cluster.says("im-0", instance_node("per-ip", instance.subquery, instance.index), "stopped")
        assert cluster.state_of() == "stopped"

    def test_forget_stops_and_leaves_nothing(self) -> None:
        cluster = Cluster().running()
        cluster.do(ForgetQuery("per-ip"))
        assert cluster.desired() == {"stop"}
        cluster.all_say("stopped")
        assert set(cluster.nodes) == {node("queries"), node("streams", "visits")}

    def test_what_is_over_is_withdrawn_after_its_keep_time(self) -> None:
        cluster = Cluster()
        cluster.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///s1", keep_s=90)))
        cluster.running().all_say("ended")
        assert cluster.state.deadline == cluster.now.steady + 90
        cluster.pass_time(89)
        assert cluster.assignments()
        cluster.pass_time(1)
        assert not cluster.assignments() and not cluster.state.subscriptions["per_ip"]
        assert cluster.state_of() == "ended" and cluster.state.deadline is None

    def test_what_is_over_is_kept_for_its_most_patient_reader(self) -> None:
        cluster = Cluster().running()
        for id_, keep_s in (("s1", 30), ("s2", 90), ("s3", 60)):
            cluster.do(Subscribe(SubscriptionRecord("per_ip", id_, f"ipc:///{id_}", keep_s=keep_s)))
        cluster.all_say("ended")
        cluster.pass_time(89)
        assert cluster.assignments() and len(cluster.state.subscriptions["per_ip"]) == 3
        cluster.pass_time(1)
        assert not cluster.assignments() and not cluster.state.subscriptions["per_ip"]

    def test_the_query_that_is_kept_for_less_is_due_first(self) -> None:
        cluster = Cluster().running()
        cluster.submit(query("other", "other"))
        for stream, keep_s in (("per_ip", 90), ("other", 30)):
            cluster.do(Subscribe(SubscriptionRecord(stream, "s", "ipc:///s", keep_s=keep_s)))
        for name in ("per-ip", "other"):
            for state in ("ready", "running", "ended"):
                cluster.all_say(state, name)
        assert cluster.state.deadline == cluster.now.steady + 30
        cluster.pass_time(30)
        assert {assignment["query"] for assignment in cluster.assignments().values()} == {"per-ip"}
        assert cluster.state.deadline == cluster.now.steady + 60

    def test_what_refers_to_a_plan_is_withdrawn_before_it(self) -> None:
        cluster = Cluster().running()
        cluster.all_say("ended")
        deleted = [command.path for command in cluster.do(ForgetQuery("per-ip")) if isinstance(command, Delete)]
        assert len(deleted) == 6 and deleted[-2:] == [node("plans", "per-ip"), node("queries", "per-ip")]

    def test_what_cannot_be_is_said(self) -> None:
        cluster = Cluster().running()
        cluster.do(StopQuery("per-ip"))
        with pytest.raises(Conflict, match="is stopping and cannot start"):
            cluster.do(StartQuery("per-ip"))


class TestFailure:
    def test_the_first_failed_instance_is_the_cause_and_all_others_fail(self) -> None:
        cluster = Cluster().running()
        cluster.says("im-1", "per-ip~SQ1~1", "failed", "disk full")
        record = cluster.nodes[node("queries", "per-ip")]
        assert (record["state"], record["cause"]) == ("failed", {"subquery": "SQ1", "instance": 1, "cause": "disk full"})
        for assignment in cluster.assignments().values():
            assert (assignment["desired"], assignment["cause"]) == ("fail", "disk full")
            assert (assignment["failed_subquery"], assignment["failed_instance"]) == ("SQ1", 1)

    def test_a_vanished_instance_manager_fails_its_queries_only(self) -> None:
        cluster = Cluster()
        cluster.see(im_1=None)
        cluster.submit(query("alone", "out"))  # on im-0 only
        cluster.see(im_1=manager("im-1"))
        cluster.running()
        cluster.pass_time(TIMEOUT_S)
        cluster.see(im_1=None)
        assert cluster.state_of() == "failed" and cluster.state_of("alone") == "deploying"
        assert "'im-1' (process 1) is gone" in cluster.nodes[node("queries", "per-ip")]["cause"]["cause"]

    def test_nobody_is_dead_before_a_session_timeout_after_zookeeper_is_back(self) -> None:
        cluster = Cluster().running()
        cluster.pass_time(100)
        cluster.do(Connected())
        cluster.see(im_1=None)
        assert cluster.state_of() == "running"
        assert cluster.state.deadline == cluster.now.steady + TIMEOUT_S
        cluster.pass_time(TIMEOUT_S)
        assert cluster.state_of() == "failed"

    def test_who_comes_back_in_time_was_never_dead(self) -> None:
        cluster = Cluster().running()
        cluster.do(Connected())
        cluster.see(im_1=None)
        cluster.see(im_1=manager("im-1"))
        cluster.pass_time(2 * TIMEOUT_S)
        assert cluster.state_of() == "running"

    def test_another_process_of_that_name_has_none_of_the_state(self) -> None:
        cluster = Cluster().running()
        cluster.pass_time(TIMEOUT_S)
        cluster.see(im_1=manager("im-1", pid=2))
        assert "started anew" in cluster.nodes[node("queries", "per-ip")]["cause"]["cause"]

    def test_nor_has_one_that_was_given_the_number_of_the_last(self) -> None:
        cluster = Cluster().running()
        cluster.pass_time(TIMEOUT_S)
        cluster.see(im_1=InstanceManager.from_json({**manager("im-1").info, "started": 5}))
        assert "started anew" in cluster.nodes[node("queries", "per-ip")]["cause"]["cause"]


class TestStreams:
    def test_the_same_declaration_is_nothing_new_and_another_is_a_conflict(self) -> None:
        cluster = Cluster()
        assert cluster.do(DeclareStream(from_json(STREAM_EXAMPLE)))
        assert not cluster.do(DeclareStream(from_json(STREAM_EXAMPLE)))
        with pytest.raises(Conflict, match="visits@2"):
            cluster.do(DeclareStream(from_json(STREAM_EXAMPLE | {"disorder": "3s"})))

    def test_a_stream_grows_and_does_not_shrink_again(self) -> None:
        cluster, columns = Cluster(), STREAM_EXAMPLE["schema"]
        cluster.do(DeclareStream(from_json(STREAM_EXAMPLE)))
        grown = STREAM_EXAMPLE | {"schema": [*columns, {"name": "price", "type": "int64?"}]}
        assert cluster.do(DeclareStream(from_json(grown)))
        assert cluster.nodes[node("streams", "visits")] == to_json(from_json(grown))
        assert not cluster.do(DeclareStream(from_json(STREAM_EXAMPLE)))
        assert cluster.nodes[node("streams", "visits")] == to_json(from_json(grown))
        with pytest.raises(Conflict, match="declare price: int64"):
            cluster.do(DeclareStream(from_json(STREAM_EXAMPLE | {"schema": [*columns, {"name": "cost", "type": "int64?"}]})))

    def test_queries_of_two_declarations_run_side_by_side_and_another_orchestrator_takes_them_over(self) -> None:
        cluster = Cluster().running()
        before = cluster.nodes[node("plans", "per-ip")]
        other = query("wide", "wide")
        wide = replace(other.streams[0], schema=Schema((*other.streams[0].schema.fields, Field("price", INT64, True))))
        cluster.submit(replace(other, streams=(wide,)))
        assert cluster.nodes[node("streams", "visits")] == to_json(wide)
        assert cluster.nodes[node("plans", "per-ip")] == before
        state = ClusterState(TIMEOUT_S)
        state.restore(cluster.nodes, Now(0, 0))
        assert not state.quarantine.nodes and to_json(state.streams["visits"]) == to_json(wide)
        assert [plan.streams["visits"].schema.names for plan in state.plans.values()] == [("ip", "ts"), ("ip", "ts", "price")]

    def test_publishers_come_and_go(self) -> None:
        cluster = Cluster()
        cluster.do(OpenPublisher(PublisherRecord("visits", "p1", "ipc:///p1")))
        assert cluster.nodes[node("publishers", "visits", "p1")]["endpoint"] == "ipc:///p1"
        cluster.do(ClosePublisher("visits", "p1"))
        cluster.do(ClosePublisher("visits", "p1"))
        assert node("publishers", "visits", "p1") not in cluster.nodes

    def test_a_closing_names_no_publisher_of_another_process(self) -> None:
        """Before, one that had been frozen closed the one that had opened in its place."""
        cluster = Cluster()
        for endpoint in ("ipc:///frozen", "ipc:///next"):
            cluster.do(OpenPublisher(PublisherRecord("visits", "p1", endpoint)))
        cluster.do(ClosePublisher("visits", "p1", "ipc:///frozen"))
        assert cluster.nodes[node("publishers", "visits", "p1")]["endpoint"] == "ipc:///next"
        assert cluster.state.opened_at("ipc:///next") == [("visits", "p1")]
        cluster.do(ClosePublisher("visits", "p1", "ipc:///next"))
        assert node("publishers", "visits", "p1") not in cluster.nodes

    def test_the_folder_of_publishers_goes_with_the_last(self) -> None:
        cluster = Cluster()
        for stream, name in (("visits", "p1"), ("visits", "p2"), ("other", "p1")):
            cluster.do(OpenPublisher(PublisherRecord(stream, name, f"ipc:///{name}")))
        cluster.do(ClosePublisher("visits", "p1"))
        assert node("publishers", "visits") in cluster.nodes and node("publishers", "visits", "p2") in cluster.nodes
        cluster.do(ClosePublisher("visits", "p2"))
        assert [path for path in cluster.nodes if path.startswith(node("publishers"))] == [
            node("publishers", "other"),
            node("publishers", "other", "p1"),
        ]

    def test_subscriptions_made_before_are_in_the_assignments_of_the_producers(self) -> None:
        cluster = Cluster()
        cluster.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///s1", "drop", 30)))
        cluster.submit(query())
        found = {(a["subquery"], len(a["subscriptions"])) for a in cluster.assignments().values()}
        assert found == {("SQ1", 0), ("SQ2", 1)}
        cluster.do(Unsubscribe("per_ip", "s1"))
        assert not any(a["subscriptions"] for a in cluster.assignments().values())

    def test_where_a_query_does_not_recover_nothing_is_resumable(self) -> None:
        resumable = Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///a", resumable=True, claim="a"))
        cluster = Cluster()
        cluster.do(resumable)  # perhaps the query that comes does
        cluster.do(Unsubscribe("per_ip", "s1"))
        cluster.running()
        with pytest.raises(QueryError, match="query 'per-ip' does not recover, so nothing of it is resumed") as refused:
            cluster.do(resumable)
        assert refused.value.pointer == "/resumable" and not cluster.state.subscriptions["per_ip"]
        cluster.all_say("ended")
        cluster.do(resumable)

    def test_one_that_is_not_resumable_is_not_resumed(self) -> None:
        cluster = Cluster().running()
        cluster.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///a")))
        with pytest.raises(QueryError, match="nothing of it is resumed"):
            cluster.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///b", resumable=True, claim="b"), resumes=True))
        before = Cluster()
        before.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///a")))
        with pytest.raises(NotFound, match="to resume"):
            before.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///b", resumable=True, claim="b"), resumes=True))

    def test_what_is_published_by_clients_has_no_subscriptions(self) -> None:
        """A stream that no query can put out would be waited for for ever; one that is declared nowhere may be put out tomorrow."""
        cluster = Cluster()
        cluster.submit(query())
        with pytest.raises(Conflict, match="stream 'visits' is published by clients; subscribe to an output of a query"):
            cluster.do(Subscribe(SubscriptionRecord("visits", "s1", "ipc:///reader")))
        cluster.do(Subscribe(SubscriptionRecord("tomorrow", "s1", "ipc:///reader")))

    @pytest.mark.parametrize(
        "endpoint",
        [
            "ipc:///im-0",
            "ipc:////im-0",
            "ipc:///run/../im-1",
            "ipc:///proc/self/root/im-0",
            "ipc://im-0",
            "link://h1@/s",
            "link://h1@10.0.0.9:22/s",
        ],
    )
    def test_an_instance_is_not_sent_to_say_something_to_another(self, endpoint: str) -> None:
        """It would be heard as a member there; and an address of a client's choice is called by nothing."""
        cluster = Cluster().running()
        with pytest.raises(QueryError, match="endpoint") as refused:
            cluster.do(Subscribe(SubscriptionRecord("per_ip", "s1", endpoint)))
        assert refused.value.pointer == "/endpoint" and not cluster.state.subscriptions["per_ip"]

    def test_who_subscribes_after_the_end_waits_for_the_next_query(self) -> None:
        cluster = Cluster().running()
        cluster.all_say("ended")
        cluster.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///s1")))
        assert not any(a["subscriptions"] for a in cluster.assignments().values())
        cluster.do(ForgetQuery("per-ip"))
        cluster.submit(query())
        assert any(a["subscriptions"] for a in cluster.assignments().values())

    def test_names_may_hold_any_character(self) -> None:
        assert node("plans", "a/b") == "/cep/plans/a%2Fb"
        assert node("plans", "..") == "/cep/plans/%2E%2E"


LONG = "é" * 150_000  # escaped, as it is written, it is as long as a node


@pytest.mark.parametrize(
    "event",
    [
        DeclareStream(Stream("wide", Schema([Field(LONG, INT64)]))),
        KeepApplication(ApplicationRecord("shop", (LONG,))),
        DeclareConnector("c", {"name": "c", "note": LONG}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_no_node_holds_is_refused_and_changes_nothing(event: Event) -> None:
    cluster = Cluster()
    state, before = cluster.state, dict(cluster.nodes)
    with pytest.raises(TooLarge, match=r"would take 900,\d{3} bytes, and a ZooKeeper node holds (900|885),000: make it shorter"):
        cluster.do(event)
    assert not state.streams and not state.applications.by_name and not state.connectors.records and not state.connectors.epoch
    cluster.do(Tick())
    assert cluster.nodes == before


def test_a_connector_that_is_declared_can_be_run() -> None:
    cluster = Cluster()
    document = {"name": "c", "note": "x" * (NODE_BYTES_MAX - HOLDER_BYTES - 100)}
    cluster.do(DeclareConnector("c", document))
    cluster.do(HoldConnectors(("c",), "é" * NAME_CHARS_MAX, "é" * NAME_CHARS_MAX))
    assert cluster.state.connectors.records["c"].place


class TestRestore:
    """A killed orchestrator's successor goes on from what is written."""

    def test_goes_on_where_it_was(self) -> None:
        before = Cluster().deployed(start=False)
        after = Cluster()
        after.nodes = before.nodes
        assert after.state.restore(before.nodes, after.now) == []
        after.see()
        after.all_say("ready")
        after.do(StartQuery("per-ip"))
        after.all_say("running")
        assert after.state_of() == "running"

    def test_mends_what_was_half_written(self) -> None:
        before = Cluster().running()
        path, assignment = next(iter(before.assignments().items()))
        del before.nodes[path]
        before.nodes[node("assignments", "im-0", "ghost~SQ1~0")] = {**assignment, "query": "ghost"}
        before.nodes[node("queries", "unplanned")] = {**before.nodes[node("queries", "per-ip")], "name": "unplanned"}
        after = ClusterState(TIMEOUT_S)
        commands = after.restore(before.nodes, before.now)
        assert {c.path for c in commands if isinstance(c, Put)} == {path}
        deleted = {c.path for c in commands if not isinstance(c, Put)}
        assert deleted == {node("assignments", "im-0", "ghost~SQ1~0"), node("queries", "unplanned")}

    def test_a_death_while_nobody_led_is_noticed_after_a_session_timeout(self) -> None:
        before = Cluster().running()
        after = Cluster()
        after.nodes, after.managers = before.nodes, {"im-0": manager("im-0")}
        after.state.restore(before.nodes, after.now)
        after.see()
        assert after.state_of() == "running"
        after.pass_time(TIMEOUT_S)
        assert after.state_of() == "failed"

    @example([(0, 0, "deploying"), (5, 0, "deploying")])  # stopping, and the successor has not looked what is there
    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1), st.sampled_from([*sorted(DESIRED), "ended"])), max_size=25))
    def test_after_any_story_a_successor_finds_nothing_to_mend(self, story: list[tuple[int, int, str]]) -> None:
        cluster = Cluster()
        for what, which, status in story:
            _live(cluster, what, f"q{which}", status)
            successor = ClusterState(TIMEOUT_S)
            assert successor.restore(cluster.nodes, cluster.now) == []
            assert successor.queries == cluster.state.queries


def _live(cluster: Cluster, what: int, name: str, status: str) -> None:
    """One step of a random story; what is refused is no step."""
    there = name in cluster.state.queries
    try:
        if what == 0:
            cluster.submit(query(name, f"out-{name}"), start=status != "ready")
        elif what <= 4 and there:
            cluster.all_say({"deploying": "ready", "stopping": "stopped"}.get(status, status), name)
        elif what == 5:
            cluster.do(StopQuery(name, drain=status == "draining"))
        elif what == 6:
            cluster.do(ForgetQuery(name) if status == "failed" else StartQuery(name))
        elif what == 7:
            cluster.do(Subscribe(SubscriptionRecord(f"out-{name}", "s", "ipc:///s")))
        elif what == 8:
            cluster.see(**{"im_1": None if "im-1" in cluster.managers else manager("im-1", pid=1)})
        elif what == 9:
            cluster.pass_time(10)
    except (Conflict, NotFound):
        pass


def test_a_stream_is_compared_by_its_declaration() -> None:
    # Stream's own == leaves the event time out, for expressions have no equality
    one, other = from_json(STREAM_EXAMPLE), from_json({k: v for k, v in STREAM_EXAMPLE.items() if k not in ("event_time", "disorder")})
    assert isinstance(one, Stream)
    cluster = Cluster()
    cluster.do(DeclareStream(one))
    with pytest.raises(Conflict):
        cluster.do(DeclareStream(other))
