"""A subquery of a query that recovers gets another number of instances, or it goes on as another query; what cannot be is refused, and the
query runs on."""

from __future__ import annotations

from collections import Counter

import pytest

from cep.errors import Conflict, QueryError
from cep.plan.upgrading import upgraded
from driver import TIME, Query, col, count, stream
from orchestrator.state.events import ScaleSubquery, UpgradeQuery
from tests.orchestrator.state.test_cluster_state import IMS, manager
from tests.orchestrator.state.test_recovery import WithoutDisk


def query(recover: str = "on-commit", more_than: int | None = None) -> Query:
    """SQ1 reads, SQ2 counts by two columns, SQ3 counts those by one."""
    read = stream("clicks", t="timestamp[ms]", key=int, ip=int, event_time="t", disorder="1s")
    made = Query("per-ip").source(read)
    made = made if more_than is None else made.filter("f", col("key") > more_than)
    made = made.aggregate("first", TIME("1s"), by=["key", "ip"], n=count())
    made = made.aggregate("second", TIME("10s"), by="ip", n=count()).output("out")
    options = {"recover": recover, "parallelism": {"SQ1": 1, "SQ2": 2, "SQ3": 1}, "pre_aggregation": "off"}
    return made.options(**options)


def running(recover: str = "on-commit") -> WithoutDisk:
    cluster = WithoutDisk()
    cluster.managers = {im: manager(im) for im in IMS}
    cluster.see()
    cluster.submit(query(recover).build())
    for state in ("ready", "running"):
        cluster.all_say(state)
    return cluster


def sizes(cluster: WithoutDisk) -> dict[str, int]:
    return dict(Counter(instance.subquery for instance in cluster.state.plans["per-ip"].instances))


def test_it_goes_on_with_other_instances_and_again() -> None:
    cluster = running()
    for attempt, instances in enumerate((3, 1), 1):
        cluster.do(ScaleSubquery("per-ip", "SQ2", instances))
        record = cluster.state.queries["per-ip"]
        assert (record.state, record.attempt, record.strikes) == ("recovering", attempt, 0)
        assert sizes(cluster) == {"SQ1": 1, "SQ2": instances, "SQ3": 1}
        assert {instance.im for instance in cluster.state.plans["per-ip"].instances} <= set(IMS)
        said = {path.rpartition("/")[2] for path in cluster.nodes if "/assignments/" in path}
        assert sum(key.startswith("per-ip~SQ2") for key in said) == instances
        for state in ("ready", "running"):
            cluster.all_say(state)
        assert cluster.state_of() == "running"


@pytest.mark.parametrize(
    ("subquery", "instances", "why"),
    [
        ("SQ1", 2, "it reads stream 'clicks', whose parts are dealt to its instances"),
        ("SQ3", 2, "it puts out 'out', and its readers take it from these instances"),
        ("SQ9", 2, "there is no subquery 'SQ9'"),
        ("SQ2", 0, "expected 1 to 4,096 instances, got 0"),
    ],
)
def test_what_cannot_be_scaled_is_refused_by_name(subquery: str, instances: int, why: str) -> None:
    cluster = running()
    before = sizes(cluster)
    with pytest.raises(QueryError, match=why):
        cluster.do(ScaleSubquery("per-ip", subquery, instances))
    assert cluster.state_of() == "running" and sizes(cluster) == before and cluster.state.queries["per-ip"].attempt == 0


def test_one_that_does_not_recover_is_not_scaled() -> None:
    with pytest.raises(QueryError, match="its query does not recover, and scaling is a recovery"):
        running("off").do(ScaleSubquery("per-ip", "SQ2", 3))


def test_not_now() -> None:
    cluster = running()
    with pytest.raises(Conflict, match="SQ2 of query 'per-ip' has 2 instances already"):
        cluster.do(ScaleSubquery("per-ip", "SQ2", 2))
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    with pytest.raises(Conflict, match="is recovering: it is scaled only while it is running"):
        cluster.do(ScaleSubquery("per-ip", "SQ2", 1))


def upgrade(cluster: WithoutDisk, wanted: Query) -> None:
    plan = upgraded(cluster.state.plans["per-ip"], wanted.build()).plan
    assert plan is not None
    cluster.do(UpgradeQuery(plan))


def test_it_goes_on_as_another_query_and_keeps_what_is_not_changed() -> None:
    cluster = running()
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    for state in ("ready", "running"):
        cluster.all_say(state)
    upgrade(cluster, query(more_than=3))
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.attempt, record.reason) == ("recovering", 2, "it is upgraded")
    assert [each["name"] for each in record.document["operators"]] == ["f", "first", "second"]
    assert sizes(cluster) == {"SQ1": 1, "SQ2": 3, "SQ3": 1}, "how many was not asked for anew"
    for state in ("ready", "running"):
        cluster.all_say(state)
    assert cluster.state_of() == "running"
    with pytest.raises(Conflict, match="query 'per-ip' is that query already"):
        upgrade(cluster, query(more_than=3))


def test_the_next_leader_has_the_query_as_it_was_upgraded() -> None:
    before = running()
    upgrade(before, query(more_than=3))
    after = WithoutDisk()
    after.managers = before.managers
    after.obey(after.state.restore(before.nodes, after.now))
    assert after.state.queries["per-ip"].document == before.state.queries["per-ip"].document
    assert [each.name for each in after.state.plans["per-ip"].query.operators] == ["f", "first", "second"]


def test_no_upgrade_while_it_recovers() -> None:
    cluster = running()
    upgrade(cluster, query(more_than=3))
    with pytest.raises(Conflict, match="is recovering: it is upgraded only while it is running"):
        upgrade(cluster, query(more_than=4))
