"""The pure core of the orchestrator where one query reads another's output: what may be deployed, and what a reader is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep.config import node
from cep.errors import Conflict, QueryError
from cep.model import query as queries
from cep.model.query import Options, Query
from cep.model.topology import Topology
from cep.plan.physical import PhysicalPlan
from cep.plan.planner import plan
from orchestrator.records import Now
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import DeclareStream, ForgetQuery, MoveInstance, StopQuery, SubmitQuery
from orchestrator.state.feeds import sources
from tests.orchestrator.state.test_cluster_state import IMS, TIMEOUT_S, Cluster, query


def reader(name: str = "second", stream: str = "per_ip") -> Query:
    window, functions = {"type": "time", "size": "60s", "advance": "60s"}, {"n": {"function": "count"}}
    operator = {"name": "count", "type": "aggregate", "input": stream, "window": window, "by": [], "functions": functions}
    outputs = [{"stream": f"{name}.out", "input": "count"}]
    return queries.from_json({"name": name, "streams": [], "operators": [operator], "outputs": outputs})


def planned(cluster: Cluster, asked: Query) -> PhysicalPlan:
    known, feeds = sources(cluster.state, asked)
    return plan(asked, known, cluster.state.workers(), Topology.one_node([0, 1]), feeds=feeds)


def both() -> Cluster:
    """`per-ip`, and `second` which reads its answers; both run."""
    cluster = Cluster().running()
    cluster.do(SubmitQuery(planned(cluster, reader())))
    cluster.all_say("ready", "second")
    cluster.all_say("running", "second")
    return cluster


def lost(cluster: Cluster, name: str = "second") -> list[dict[str, str]]:
    """What the assignments of a query say of streams that are lost, where they say anything."""
    found: list[dict[str, Any]] = [each for each in cluster.assignments().values() if each["query"] == name]
    return [each["lost"] for each in found if each["lost"]]


def test_the_plan_says_where_the_rows_come_from() -> None:
    cluster = both()
    feed = cluster.nodes[node("plans", "second")]["feeds"]["per_ip"]
    first = cluster.state.plans["per-ip"]
    assert feed["query"] == "per-ip" and feed["epoch"] == cluster.state.queries["per-ip"].epoch
    assert feed["producers"] == [[i.index, f"ipc:///{i.im}"] for i in first.instances_of("SQ2")]
    assert node("streams", "per_ip") not in cluster.nodes
    assert lost(cluster) == []


def test_a_failure_is_told_to_the_instance_that_reads() -> None:
    cluster = both()
    cluster.says(IMS[0], "per-ip~SQ1~0", "failed", "boom")
    assert (cluster.state_of(), cluster.state_of("second")) == ("failed", "running")
    assert lost(cluster) == [{"per_ip": "query 'per-ip' failed in subquery 'SQ1' instance 0: boom"}]
    cluster.do(ForgetQuery("per-ip"))
    assert lost(cluster) == [{"per_ip": "query 'per-ip' failed in subquery 'SQ1' instance 0: boom"}]


def test_so_is_the_death_of_an_instance_manager_of_the_other_query() -> None:
    cluster = Cluster().running()
    alone = replace(reader(), options=Options(split="single"))
    cluster.do(SubmitQuery(planned(cluster, alone)))
    cluster.all_say("ready", "second")
    cluster.all_say("running", "second")
    cluster.pass_time(2 * TIMEOUT_S)
    (home,) = {instance.im for instance in cluster.state.plans["second"].instances}
    (victim,) = set(IMS) - {home}
    cluster.see(**{victim.replace("-", "_"): None})
    assert (cluster.state_of(), cluster.state_of("second")) == ("failed", "running")
    assert f"instance manager {victim!r} (process 1) is gone" in lost(cluster)[0]["per_ip"]


def test_a_query_that_is_stopped_is_told_and_one_that_is_drained_has_ended() -> None:
    cluster = both()
    cluster.do(StopQuery("per-ip"))
    assert lost(cluster) == []
    cluster.all_say("stopped")
    assert (cluster.state_of("second"), lost(cluster)) == ("running", [{"per_ip": "query 'per-ip' was stopped"}])
    drained = both()
    drained.do(StopQuery("per-ip", drain=True))
    drained.all_say("ended")
    assert (drained.state_of(), lost(drained)) == ("stopped", [])


def test_the_next_query_of_the_name_is_not_the_one_that_is_read() -> None:
    """A reader of the first neither hears that it failed nor keeps its instances where they are."""
    cluster = both()
    cluster.all_say("ended")
    cluster.do(ForgetQuery("per-ip"))
    cluster.running()
    here = cluster.state.plans["per-ip"].instances_of("SQ2")[0].im
    cluster.do(MoveInstance("per-ip", "SQ2", 0, next(im for im in IMS if im != here)))
    assert cluster.state.queries["per-ip"].move is not None
    cluster.says(cluster.state.plans["per-ip"].instances_of("SQ1")[0].im, "per-ip~SQ1~0", "failed", "boom")
    assert (cluster.state_of(), cluster.state_of("second")) == ("failed", "running")
    assert lost(cluster) == [] and not cluster.state.queries["second"].lost


@pytest.mark.parametrize("late", ["per-ip", "other"])
def test_no_query_begins_to_read_one_of_which_an_instance_is_on_its_way(late: str) -> None:
    """Of two moves one is too far to be given up."""
    cluster = Cluster().running()
    cluster.submit(query("other", "other"))
    for state in ("ready", "running"):
        cluster.all_say(state, "other")
    for name in ("per-ip", "other"):
        here = cluster.state.plans[name].instances_of("SQ2")[0].im
        cluster.do(MoveInstance(name, "SQ2", 0, next(im for im in IMS if im != here)))
    record = cluster.state.queries[late]
    assert record.move is not None
    cluster.state.queries[late] = replace(record, move=replace(record.move, redirecting=True))
    union = {"name": "u", "type": "union", "inputs": ["per_ip", "other"]}
    asked = queries.from_json({"name": "both", "streams": [], "operators": [union], "outputs": [{"stream": "all", "input": "u"}]})
    with pytest.raises(Conflict, match="cannot read another just now"):
        cluster.do(SubmitQuery(planned(cluster, asked)))
    assert all(cluster.state.queries[name].move is not None for name in ("per-ip", "other"))


def test_another_orchestrator_takes_it_over() -> None:
    cluster = both()
    cluster.says(IMS[0], "per-ip~SQ1~0", "failed", "boom")
    nodes = dict(cluster.nodes)
    nodes[node("queries", "second")] = nodes[node("queries", "second")] | {"lost": {}}  # killed before it had written that
    again = ClusterState(TIMEOUT_S)
    again.restore(nodes, Now(1000.0, 1_700_000_000.0))
    assert again.queries["second"].lost == cluster.state.queries["second"].lost != {}


@pytest.mark.parametrize("how, message", [("ended", "has ended after 0 rows"), ("failed", "has failed: boom"), ("stopped", "is stopped")])
def test_the_output_of_a_query_that_is_over(how: str, message: str) -> None:
    cluster = Cluster().running()
    if how == "stopped":
        cluster.do(StopQuery("per-ip"))
        with pytest.raises(Conflict, match="which is stopping"):
            sources(cluster.state, reader())
    if how == "failed":
        cluster.says(IMS[0], "per-ip~SQ1~0", "failed", "boom")
    else:
        cluster.all_say(how)
    with pytest.raises(Conflict, match=f"stream 'per_ip' is an output of query 'per-ip', which {message}"):
        sources(cluster.state, reader())


def test_a_query_that_is_not_there_or_does_not_run_yet() -> None:
    cluster = Cluster()
    with pytest.raises(QueryError, match="reads 'per_ip', which is no operator and no declared stream"):
        planned(cluster, reader())
    cluster.submit(query(), start=False)
    assert set(planned(cluster, reader()).feeds) == {"per_ip"}


def test_an_output_is_not_declared_with_an_event_time() -> None:
    cluster = Cluster().running()
    visits = cluster.state.streams["visits"]
    with pytest.raises(Conflict, match="is an output of query 'per-ip'"):
        cluster.do(DeclareStream(visits.__class__("per_ip", visits.schema, visits.event_time, visits.disorder)))
