"""Tables of buckets in the orchestrator: named once the last one holds everywhere, written before its senders have to know, kept over
restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep.config import instance_node, node
from cep.errors import Conflict, QueryError, TooLarge
from orchestrator.records import Status
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import ForgetQuery, MoveBuckets, Put, StatusesSeen
from tests.orchestrator.state.test_cluster_state import Cluster, query

SWAPPED = tuple([1] * 2048 + [0] * 2048)
PLANNED = tuple([0] * 2048 + [1] * 2048)


def tell(cluster: Cluster, version: int, *instances: int, state: str = "running") -> None:
    """The instances of SQ2 say where their buckets are."""
    epoch = cluster.state.queries["per-ip"].epoch
    for instance in cluster.state.plans["per-ip"].instances_of("SQ2"):
        if instance.index in instances:
            key = instance_node("per-ip", "SQ2", instance.index)
            cluster.do(StatusesSeen(instance.im, {key: Status(epoch, state, table=version)}))


def assignments(cluster: Cluster) -> dict[str, Any]:
    return {path.rsplit("/", 1)[1]: value.get("tables") for path, value in cluster.nodes.items() if path.startswith(node("assignments"))}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.running()
    return made


def moving(cluster: Cluster) -> bool:
    return cluster.state.is_moving(cluster.state.queries["per-ip"], "SQ2")


def test_those_who_send_there_are_told_after_the_table_is_written(cluster: Cluster) -> None:
    commands = cluster.do(MoveBuckets("per-ip", "SQ2", SWAPPED))
    assert next(command.path for command in commands if isinstance(command, Put)) == node("tables", "per-ip")
    assert cluster.nodes[node("tables", "per-ip")]["tables"] == {"SQ2": {"version": 1, "table": list(SWAPPED)}}
    assert assignments(cluster) == {"per-ip~SQ1~0": {"SQ2": 1}, "per-ip~SQ1~1": {"SQ2": 1}, "per-ip~SQ2~0": None, "per-ip~SQ2~1": None}


def test_the_next_table_waits_until_the_last_one_holds_everywhere(cluster: Cluster) -> None:
    cluster.do(MoveBuckets("per-ip", "SQ2", SWAPPED))
    tell(cluster, 1, 0)
    with pytest.raises(Conflict, match="are moving, to table version 1"):
        cluster.do(MoveBuckets("per-ip", "SQ2", PLANNED))
    tell(cluster, 1, 1)
    assert not moving(cluster)
    cluster.do(MoveBuckets("per-ip", "SQ2", PLANNED))
    assert moving(cluster) and assignments(cluster)["per-ip~SQ1~0"] == {"SQ2": 2}


def test_an_instance_that_has_ended_has_nothing_to_move(cluster: Cluster) -> None:
    cluster.do(MoveBuckets("per-ip", "SQ2", SWAPPED))
    tell(cluster, 1, 0)
    tell(cluster, 0, 1, state="ended")
    assert not moving(cluster)


def test_the_same_table_again_moves_nothing(cluster: Cluster) -> None:
    assert cluster.do(MoveBuckets("per-ip", "SQ2", PLANNED)) == []


WRONG = {
    "no buckets are routed to 'SQ1'": ("SQ1", PLANNED),
    "an instance for each of 4096 buckets, got 2": ("SQ2", (0, 1)),
    "got 2 for bucket 0": ("SQ2", (2, *PLANNED[1:])),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_table_that_makes_no_sense(cluster: Cluster, wrong: str) -> None:
    with pytest.raises(QueryError, match=wrong):
        cluster.do(MoveBuckets("per-ip", *WRONG[wrong]))


def test_a_table_that_no_node_holds_is_refused_and_changes_nothing() -> None:
    cluster, buckets = Cluster(), 1 << 19
    plain = query()
    cluster.submit(replace(plain, options=replace(plain.options, buckets=buckets)))
    for state in ("ready", "running"):
        cluster.all_say(state)
    with pytest.raises(TooLarge, match="/cep/tables/per-ip would take 1,048,"):
        cluster.do(MoveBuckets("per-ip", "SQ2", (1,) * buckets))
    assert not moving(cluster) and not cluster.state.tables.get("per-ip")


def test_only_running_queries_move_theirs() -> None:
    deployed = Cluster().deployed(start=False)
    with pytest.raises(Conflict, match="is ready: buckets move only while it is running"):
        deployed.do(MoveBuckets("per-ip", "SQ2", SWAPPED))


def test_another_orchestrator_goes_on_with_the_same_tables(cluster: Cluster) -> None:
    cluster.do(MoveBuckets("per-ip", "SQ2", SWAPPED))
    other = ClusterState(6.0)
    assert other.restore(dict(cluster.nodes), cluster.now) == []
    assert other.table("per-ip", "SQ2").table == SWAPPED and other.table("per-ip", "SQ2").version == 1


def test_what_is_forgotten_leaves_no_table(cluster: Cluster) -> None:
    cluster.do(MoveBuckets("per-ip", "SQ2", SWAPPED))
    cluster.do(ForgetQuery("per-ip"))
    cluster.all_say("stopped")
    assert not [path for path in cluster.nodes if "per-ip" in path] and "per-ip" not in cluster.state.tables
