"""What REST tells of the state: queries, streams and who reads them, instance managers, moved buckets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from cep.config import instance_node
from cep.errors import NotFound
from cep.model.streams import Stream
from orchestrator.metrics.server import Metrics
from orchestrator.records import PublisherRecord
from orchestrator.rest import query_routes, views
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import DeclareStream, ForgetQuery, ManagerDied, MoveBuckets, OpenPublisher, ScaleSubquery, StopQuery
from tests.orchestrator.state import test_scaling
from tests.orchestrator.state.test_cluster_state import IMS, Cluster, manager, query
from tests.orchestrator.state.test_recovery import WithoutDisk, running


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().running()


def detail(cluster: Cluster, name: str = "per-ip") -> dict[str, Any]:
    return views.detail(cluster.state, cluster.state.queries[name])


def test_queries_come_by_name_with_how_far_they_are(cluster: Cluster) -> None:
    cluster.submit(query("another", "out"), start=False)
    first, second = views.summaries(cluster.state)
    assert [(each["name"], each["state"], each["start"]) for each in (first, second)] == [
        ("another", "deploying", False),
        ("per-ip", "running", True),
    ]
    assert (second["subqueries"], second["instances"], second["recovery"], second["cause"]) == (2, 4, None, None)


def test_all_about_a_query(cluster: Cluster) -> None:
    found = detail(cluster)
    assert found["document"]["name"] == "per-ip" and found["recovers"] is False
    assert [(each["name"], each["stateful"]) for each in found["plan"]["subqueries"]] == [("SQ1", False), ("SQ2", True)]
    placed = {(each["subquery"], each["instance"]): each for each in found["placed"]}
    assert set(placed) == {(f"SQ{s}", i) for s in (1, 2) for i in (0, 1)}
    assert {each["state"] for each in placed.values()} == {"running"} and {each["im"] for each in placed.values()} == set(IMS)
    assert all(each["endpoint"] == f"ipc:///{each['im']}" for each in placed.values())
    assert [each["instance"] for each in found["outputs"]["per_ip"]] == [0, 1]
    assert {field["name"] for field in found["schemas"]["per_ip"]} >= {"ip"}
    assert found["tables"] == [] and found["moved"] is None and found["reads"] == [] and found["operators"] == {}


def test_a_failure_is_told_with_its_cause(cluster: Cluster) -> None:
    (instance, *_) = cluster.state.plans["per-ip"].instances_of("SQ2")
    cluster.says(instance.im, f"per-ip~SQ2~{instance.index}", "failed", "no room")
    found = views.summary(cluster.state, cluster.state.queries["per-ip"])
    assert found["state"] == "failed" and found["cause"]["cause"] == "no room"
    assert ("failed", "no room") in {(each["state"], each["cause"]) for each in detail(cluster)["placed"]}


def test_a_query_whose_places_are_all_gone_is_recovering() -> None:
    """Though it cannot go on anywhere yet."""
    cluster = running({im: manager(im) for im in IMS})
    before = views.summary(cluster.state, cluster.state.queries["per-ip"])["recovery"]
    assert not before["recovering"] and before["reason"] == ""
    for im in IMS:
        cluster.do(ManagerDied(im, manager(im).process))
    found = views.summary(cluster.state, cluster.state.queries["per-ip"])["recovery"]
    assert found["recovering"] and found["reason"] == "instance manager 'im-1' (process 1) is gone: its process has ended"


def test_buckets_that_are_elsewhere_are_counted(cluster: Cluster) -> None:
    cluster.do(MoveBuckets("per-ip", "SQ2", tuple([1] * 1024 + [0] * 1024 + [1] * 2048)))
    (table,) = detail(cluster)["tables"]
    assert table == {"subquery": "SQ2", "version": 1, "buckets": [1024, 3072], "elsewhere": 1024, "moving": True}
    text = views.moved([table, {**table, "moving": False, "elsewhere": 0}])
    assert "SQ2: 1,024 of 4,096 buckets are elsewhere than planned, by table version 1; of instances in turn 1024, 3072; moving now" in text
    assert "elsewhere than planned; of instances" in views.moved([table | {"version": 0}]), "of a query that recovers the plan says where"
    assert "SQ2: 0 of 4,096" in text and text.count("moving now") == 1 and views.moved([]) == ""


def test_what_a_running_query_has_not_used_is_that_of_the_instances_that_it_has() -> None:
    """Of one that is withdrawn another one goes on with the counts; its last report is still there."""
    cluster, metrics = test_scaling.running(), Metrics()

    def report(index: int, dead: int, attempt: int) -> dict[str, Any]:
        where = {"query": "per-ip", "subquery": "SQ2", "instance": index, "epoch": 1, "attempt": attempt, "cpu_ns": 0, "rows_in": 0}
        return where | {"late": 1, "dead_letters": {"count": [["first", dead]], "letters": []}}

    metrics.take({"im": "im-0", "instances": [report(0, 10, 0), report(1, 10, 0)]}, cluster.now)
    cluster.do(ScaleSubquery("per-ip", "SQ2", 1))
    cluster.stores()
    metrics.take({"im": "im-0", "instances": [report(0, 20, 1)]}, cluster.now)

    class Asked:
        async def figures(self, **question: Any) -> dict[str, Any]:
            return metrics.answer(question, cluster.now)

    asked = cast(Any, Asked())
    found = asyncio.run(query_routes._with_figures(asked, views.detail(cluster.state, cluster.state.queries["per-ip"])))
    assert found["unused"] == {"late": 1, "odd_times": 0, "before_since": 0, "dead_letters": 20}


def test_a_reader_whose_instance_manager_is_absent_is_named(cluster: Cluster) -> None:
    """It may come yet, as one that was frozen for longer than its session: a publisher that closes meanwhile has its last word to say."""
    (name,) = (each.name for each in query().streams)
    before = views.stream_readers(cluster.state, name)
    (instance, *_) = cluster.state.plans["per-ip"].instances_of("SQ1")
    del cluster.state.statuses[instance.im, instance_node("per-ip", "SQ1", instance.index)]
    found = views.stream_readers(cluster.state, name)
    assert [each["instance"] for each in found] == [each["instance"] for each in before] and not found[instance.index]["here"]
    cluster.says(instance.im, instance_node("per-ip", "SQ1", instance.index), "ended")
    assert len(views.stream_readers(cluster.state, name)) == len(before) - 1


def test_streams_that_are_declared_and_those_that_queries_put_out(cluster: Cluster) -> None:
    (name,) = (each.name for each in query().streams)
    cluster.do(DeclareStream(Stream("apart", query().streams[0].schema)))
    cluster.do(OpenPublisher(PublisherRecord(name, "p1", "ipc:///p1")))
    listed = {each["name"]: each for each in views.streams(cluster.state)}
    assert list(listed) == sorted(["apart", "per_ip", name])
    assert listed[name]["read_by"] == ["per-ip"] and listed[name]["fed_by"] is None
    assert [each["name"] for each in listed[name]["publishers"]] == ["p1"]
    assert listed["per_ip"]["fed_by"] == "per-ip" and listed["apart"]["read_by"] == []
    with pytest.raises(NotFound, match="there is no stream 'none'"):
        views.stream_info(cluster.state, "none")


def test_publishers_are_told_of_readers_while_they_read(cluster: Cluster) -> None:
    (name,) = (each.name for each in query().streams)
    readers = views.stream_readers(cluster.state, name)
    assert [(each["query"], each["subquery"], each["instance"], each["here"], each["keeps"]) for each in readers] == [
        ("per-ip", "SQ1", 0, True, False),
        ("per-ip", "SQ1", 1, True, False),
    ]
    version = views.version(readers)
    assert version == views.version(views.stream_readers(cluster.state, name))
    cluster.all_say("ended")
    assert views.stream_readers(cluster.state, name) == [] and views.version([]) != version


def test_subscribers_are_told_of_producers_until_they_are_over(cluster: Cluster) -> None:
    found = views.producing(cluster.state, "per_ip")
    assert found is not None and (found["query"], found["state"]) == ("per-ip", "running")
    assert [each["im"] for each in found["producers"]] and len({each["channel"] for each in found["producers"]}) == 2
    cluster.do(StopQuery("per-ip"))
    cluster.all_say("stopped")
    assert views.producing(cluster.state, "per_ip") is None


def test_instance_managers_and_how_many_instances_each_hosts(cluster: Cluster) -> None:
    assert [(each["id"], each["instances"]) for each in views.managers(cluster.state)] == [("im-0", 2), ("im-1", 2)]
    cluster.do(StopQuery("per-ip"))
    cluster.all_say("stopped")
    cluster.do(ForgetQuery("per-ip"))
    assert [each["instances"] for each in views.managers(cluster.state)] == [0, 0]


def test_the_age_of_a_checkpoint_is_by_the_clock_that_committed_it() -> None:
    document = {"recovery": {"checkpoints": {"last": {"at": 100.0}}}}
    assert views.aged(document, 102.5)["recovery"]["checkpoints"]["last"]["age_s"] == 2.5
    assert views.aged({"recovery": {"checkpoints": {"last": {"at": 100.0}}}}, 99.0)["recovery"]["checkpoints"]["last"]["age_s"] == 0.0
    assert views.aged({"recovery": None}, 1.0) == {"recovery": None}


def test_what_moves_and_what_pre_aggregation_has_done_in_words() -> None:
    assert views.move_lines({"under_way": "SQ2/0 to im-1", "refused": ""}) == "\nmoving\n  SQ2/0 to im-1\n"
    assert views.move_lines({"under_way": "", "refused": "no room there"}) == "\nmoving\n  no room there\n"
    assert views.move_lines(None) == views.move_lines({"under_way": "", "refused": ""}) == ""
    figures = {"rows_in": 1_000, "rows_out": 10, "bypassed": 3}
    placed: list[dict[str, Any]] = [
        {"metrics": {"operators": [{"name": "w", **figures}, {"name": "pick", "rows_in": 5}]}},
        {"metrics": None},
    ]
    text = views.observed_pre_aggregation([*placed, placed[0]])
    assert text == "\nobserved\n  w: 2,000 tuples in, 20 partial results out, 6 of them tuples let through one by one\n"


class AtHand:
    """What `Api` asks of the service, of a state at hand. `since`: what happens right behind an answer that was waited for."""

    def __init__(self, cluster: WithoutDisk, since: Callable[[], None]) -> None:
        self.cluster, self.since = cluster, since

    async def ask(self, question: Callable[[ClusterState], Any]) -> Any:
        return question(self.cluster.state)

    async def wait(self, question: Callable[[ClusterState], Any], _: float) -> Any:
        found = question(self.cluster.state)
        self.since()
        return found

    def wall(self) -> float:
        return 0.0


def test_what_was_lost_since_a_change_came_about_is_not_that_change() -> None:
    cluster = test_scaling.running()
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    asked = AtHand(cluster, lambda: None)
    under_way = asyncio.run(query_routes._changed(cast(Any, asked), "per-ip", 1.0))["moved"]["under_way"]
    assert under_way == "it becomes one of 3 instances of SQ2 when a checkpoint is committed"
    cluster.stores()
    for state in ("ready", "running"):
        cluster.all_say(state)
    asked.since = lambda: cluster.do(ManagerDied("im-0", cluster.managers["im-0"].process))
    found = asyncio.run(query_routes._changed(cast(Any, asked), "per-ip", 1.0))
    assert (found["state"], found["moved"]["under_way"]) == ("recovering", "")
    assert "'im-0' (process 1) is gone" in detail(cluster)["moved"]["under_way"], "as whoever asks for the query is told"
