"""A subquery of a query that recovers gets another number of instances, or it goes on as another query; what cannot be is refused, and the
query runs on."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from cep.config import instance_node, node
from cep.errors import Conflict, QueryError, TooLarge
from cep.model import query as queries
from cep.plan import physical
from cep.plan.moving import planned_table
from cep.plan.upgrading import upgraded
from driver import TIME, Query, col, count, event, row, stream
from orchestrator.records import QueryRecord, Status, StoredPiece
from orchestrator.state.events import (
    ManagerDied,
    ManifestFailed,
    MoveBuckets,
    MoveInstance,
    ScaleSubquery,
    StatusesSeen,
    StopQuery,
    Tick,
    UpgradeQuery,
)
from orchestrator.state.life_cycle import STOPPING
from tests.orchestrator.state.test_cluster_state import IMS, manager
from tests.orchestrator.state.test_recovery import WithoutDisk


def query(recover: str = "on-commit", more_than: int | None = None, by: str = "key", text: str = "") -> Query:
    """SQ1 reads, SQ2 counts by two columns, SQ3 counts those by one. `text`: something long, in a filter."""
    read = stream("clicks", t="timestamp[ms]", key=int, ip=int, name=str, event_time="t", disorder="1s")
    made = Query("per-ip").source(read)
    made = made if more_than is None else made.filter("f", col("key") > more_than)
    made = made.filter("g", col("name") != text) if text else made
    made = made.aggregate("first", TIME("1s"), by=[by, "ip"], n=count())
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
        before = sizes(cluster)
        cluster.do(ScaleSubquery("per-ip", "SQ2", instances))
        assert cluster.state_of() == "running" and sizes(cluster) == before, "what it has made since the last commit would be made again"
        cluster.stores()
        record = cluster.state.queries["per-ip"]
        assert record.restore is not None and record.restore.number == cluster.state.checkpoints["per-ip"].asked
        assert (record.state, record.attempt, record.strikes) == ("recovering", attempt, 0)
        assert sizes(cluster) == {"SQ1": 1, "SQ2": instances, "SQ3": 1}
        assert {instance.im for instance in cluster.state.plans["per-ip"].instances} <= set(IMS)
        for state in ("ready", "running"):
            cluster.all_say(state)
        assert cluster.state_of() == "running"
        said = {path.rpartition("/")[2] for path in cluster.nodes if "/assignments/" in path}
        assert sum(key.startswith("per-ip~SQ2") for key in said) == instances


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


def place(cluster: WithoutDisk, subquery: str, index: int) -> str:
    return str(cluster.state.plans["per-ip"].instances_of(subquery)[index].im)


def other(cluster: WithoutDisk, subquery: str = "SQ2", index: int = 0) -> str:
    return next(im for im in IMS if im != place(cluster, subquery, index))


@pytest.mark.parametrize("subquery", ["SQ1", "SQ2", "SQ3"])
def test_an_instance_that_moves_unasked_goes_behind_a_commit(subquery: str) -> None:
    cluster = running("at-once")
    there = other(cluster, subquery)
    cluster.do(MoveInstance("per-ip", subquery, 0, there, unasked=True))
    record = cluster.state.queries["per-ip"]
    assert record.state == "running" and place(cluster, subquery, 0) != there
    assert record.change is not None and record.change.described == f"{subquery}/0 goes on on {there} when a checkpoint is committed"
    assert QueryRecord.from_json(json.loads(json.dumps(record.to_json()))).change == record.change, "the next leader knows of it"
    cluster.stores()
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.attempt, record.strikes, record.change) == ("recovering", 1, 0, None)
    assert record.restore is not None and record.restore.number == cluster.state.checkpoints["per-ip"].asked
    assert place(cluster, subquery, 0) == there
    assert [value.get("relieves") for value in cluster.assignments().values()].count(True) == 4, "it works on meanwhile"


def table(cluster: WithoutDisk) -> tuple[int, ...]:
    return planned_table(cluster.state.plans["per-ip"], "SQ2")


DEALT = tuple([1] * 3000 + [0] * 1096)


def test_its_buckets_are_elsewhere_behind_a_commit() -> None:
    cluster = running("at-once")
    at_first = table(cluster)
    cluster.do(MoveBuckets("per-ip", "SQ2", DEALT))
    record = cluster.state.queries["per-ip"]
    assert record.state == "running" and table(cluster) == at_first
    assert record.change is not None and record.change.described == "buckets of SQ2 go elsewhere when a checkpoint is committed"
    assert QueryRecord.from_json(json.loads(json.dumps(record.to_json()))).change == record.change, "the next leader knows of it"
    with pytest.raises(Conflict, match="cannot be rebalanced now: it is being changed"):
        cluster.do(MoveBuckets("per-ip", "SQ2", at_first))
    cluster.stores()
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.attempt, record.reason) == ("recovering", 1, "buckets of SQ2 move")
    assert table(cluster) == DEALT and record.moves == 1
    for state in ("ready", "running"):
        cluster.all_say(state)
    cluster.do(MoveBuckets("per-ip", "SQ2", DEALT))
    assert cluster.state.queries["per-ip"].change is None, "they are there already"
    cluster.do(ManagerDied(place(cluster, "SQ2", 0), manager(place(cluster, "SQ2", 0)).process))
    assert table(cluster) == DEALT, "a recovery leaves them there"


def test_buckets_that_the_balancing_moves_give_way_to_what_a_user_asks_for() -> None:
    cluster = running()
    cluster.do(MoveBuckets("per-ip", "SQ2", DEALT, unasked=True))
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    cluster.stores()  # what was asked for the buckets
    cluster.stores()
    assert sizes(cluster)["SQ2"] == 3 and cluster.state.queries["per-ip"].attempt == 1
    assert table(cluster) == tuple(bucket * 3 // 4096 for bucket in range(4096))


def test_who_asks_for_the_table_that_is_there_gets_it() -> None:
    """Though the balancing wanted another one; and is not told why something else did not come about."""
    cluster = running("at-once")
    at_first = table(cluster)
    cluster.do(MoveBuckets("per-ip", "SQ2", DEALT, unasked=True))
    cluster.do(MoveBuckets("per-ip", "SQ2", at_first))
    cluster.stores()
    assert cluster.state_of() == "running" and table(cluster) == at_first
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    cluster.stores(error="disk full")
    assert "disk full" in cluster.state.queries["per-ip"].refused
    cluster.do(MoveBuckets("per-ip", "SQ2", at_first))
    assert cluster.state.queries["per-ip"].refused == ""


def test_a_table_of_more_buckets_than_a_node_holds_is_refused() -> None:
    cluster = WithoutDisk()
    cluster.managers = {im: manager(im) for im in IMS}
    cluster.see()
    cluster.submit(query().options(buckets=1 << 17).build())
    for state in ("ready", "running"):
        cluster.all_say(state)
    with pytest.raises(QueryError, match="1 table of 131,072 buckets, expected at most 100,000 in all where a query recovers"):
        cluster.do(MoveBuckets("per-ip", "SQ2", (0,) * (1 << 17)))
    assert cluster.state.queries["per-ip"].change is None


def test_what_a_user_asks_for_comes_before_what_the_balancing_wants() -> None:
    cluster = running("at-once")
    there = other(cluster)
    cluster.do(MoveInstance("per-ip", "SQ2", 0, there, unasked=True))
    cluster.do(MoveInstance("per-ip", "SQ2", 0, there))
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.change, place(cluster, "SQ2", 0)) == ("recovering", None, there)
    for state in ("ready", "running"):
        cluster.all_say(state)
    cluster.stores()
    assert cluster.state_of() == "running" and not cluster.state.queries["per-ip"].refused
    cluster.do(MoveInstance("per-ip", "SQ2", 0, other(cluster), unasked=True))
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    cluster.stores()  # what was asked for the move
    cluster.stores()
    assert sizes(cluster)["SQ2"] == 3


def test_where_it_should_go_may_be_gone_by_then() -> None:
    cluster = running()
    there = other(cluster)
    with pytest.raises(Conflict, match=f"SQ2/0 of query 'per-ip' is on '{place(cluster, 'SQ2', 0)}' already"):
        cluster.do(MoveInstance("per-ip", "SQ2", 0, place(cluster, "SQ2", 0), unasked=True))
    cluster.do(MoveInstance("per-ip", "SQ2", 0, there, unasked=True))
    with pytest.raises(Conflict, match="query 'per-ip' cannot be changed now: it is being changed"):
        cluster.do(MoveInstance("per-ip", "SQ3", 0, other(cluster, "SQ3"), unasked=True))
    before = cluster.state.queries["per-ip"].attempt
    cluster.do(ManagerDied(there, manager(there).process))
    assert place(cluster, "SQ2", 0) != there and cluster.state.queries["per-ip"].attempt == before + 1, "the loss comes first"


def test_one_that_does_not_recover_is_not_scaled() -> None:
    with pytest.raises(QueryError, match="its query does not recover, and scaling is a recovery"):
        running("off").do(ScaleSubquery("per-ip", "SQ2", 3))


def test_not_now() -> None:
    cluster = running()
    with pytest.raises(Conflict, match="SQ2 of query 'per-ip' has 2 instances already"):
        cluster.do(ScaleSubquery("per-ip", "SQ2", 2))
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    with pytest.raises(Conflict, match="query 'per-ip' cannot be scaled now: it is being changed"):
        cluster.do(ScaleSubquery("per-ip", "SQ2", 1))
    cluster.stores()
    with pytest.raises(Conflict, match="is recovering: it is scaled only while it is running"):
        cluster.do(ScaleSubquery("per-ip", "SQ2", 1))


def test_what_is_there_works_on_until_it_is_relieved_unless_something_was_lost() -> None:
    cluster = running()
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    cluster.stores()
    assert {value["relieves"] for value in cluster.assignments().values()} == {True}
    cluster.do(ManagerDied("im-0", cluster.managers["im-0"].process))
    assert cluster.state.queries["per-ip"].attempt == 2
    assert {value["relieves"] for value in cluster.assignments().values()} == {False}


def attempts(cluster: WithoutDisk) -> list[int]:
    """Of all instances that are anywhere."""
    return sorted(value.get("attempt", 0) for path, value in cluster.nodes.items() if "/assignments/" in path and value)


def test_what_is_not_to_be_there_any_more_works_on_until_the_others_are_to_run() -> None:
    """Also where nothing else of its query is: all of the attempt before, or none of it, is of use."""
    cluster = running()
    cluster.do(ScaleSubquery("per-ip", "SQ2", 1))
    cluster.stores()
    assert attempts(cluster) == [0, 1, 1, 1]
    (first, *_) = cluster.state.plans["per-ip"].instances
    cluster.says(first.im, instance_node("per-ip", first.subquery, first.index), "ready")
    assert attempts(cluster) == [0, 1, 1, 1], "the others are not there yet"
    cluster.all_say("ready")
    assert attempts(cluster) == [1, 1, 1]
    cluster.all_say("running")
    cluster.do(MoveInstance("per-ip", "SQ2", 0, other(cluster)))
    assert attempts(cluster) == [1, 2, 2, 2], "at the place that it leaves"
    cluster.do(ManagerDied("im-0", cluster.managers["im-0"].process))
    assert attempts(cluster) == [3, 3, 3], "a loss ends that"


@pytest.mark.parametrize("recover", ["on-commit", "at-once"])
def test_a_checkpoint_that_cannot_be_written_leaves_it_as_it_is(recover: str) -> None:
    cluster = running(recover)
    upgrade(cluster, query(recover, more_than=3))
    assert cluster.state.checkpoints["per-ip"].pauses == (recover == "at-once")
    cluster.stores("paused", error="no space left on device")
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.attempt, record.change) == ("running", 0, None)
    assert record.refused == "it stays as it is: no space left on device"
    assert not cluster.nodes["/cep/checkpoints/per-ip"]["pauses"], "its instances go on"


def commits(cluster: WithoutDisk) -> None:
    """The checkpoint that is asked for; what it is taken for has not been done yet."""
    record, number = cluster.state.queries["per-ip"], cluster.state.checkpoints["per-ip"].asked
    for instance in cluster.state.plans["per-ip"].instances:
        key = instance_node("per-ip", instance.subquery, instance.index)
        cluster.do(StatusesSeen(instance.im, {key: Status(record.epoch, "paused", stored=StoredPiece(number, "p", 7, 100, 1_000))}))


def test_a_manifest_that_cannot_be_written_does_too() -> None:
    cluster = running("at-once")
    upgrade(cluster, query("at-once", more_than=3))
    commits(cluster)
    assert cluster.state.checkpoints["per-ip"].is_committed and cluster.state_of() == "running"
    cluster.do(ManifestFailed("per-ip", "no space left on device"))
    cluster.do(Tick())
    assert cluster.state_of() == "running" and cluster.state.queries["per-ip"].change is None
    assert not cluster.state.checkpoints["per-ip"].is_committed and not cluster.state.checkpoints["per-ip"].pauses


@pytest.mark.parametrize("drain", [False, True])
def test_one_that_is_stopped_meanwhile_is_not_changed(drain: bool) -> None:
    cluster = running("at-once")
    upgrade(cluster, query("at-once", more_than=3))
    cluster.do(StopQuery("per-ip", drain))
    assert cluster.state.queries["per-ip"].change is None and cluster.state_of() in STOPPING
    assert not drain or not cluster.nodes["/cep/checkpoints/per-ip"]["pauses"]


def test_a_loss_meanwhile_comes_first() -> None:
    """Behind it another checkpoint is taken, for what has come out since the last one another query could not make again."""
    cluster = running("at-once")
    upgrade(cluster, query("at-once", more_than=3))
    cluster.do(ManagerDied("im-0", cluster.managers["im-0"].process))
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.attempt) == ("recovering", 1) and record.change is not None
    assert [each["name"] for each in record.document["operators"]] == ["first", "second"]
    for state in ("ready", "running"):
        cluster.all_say(state)
    assert cluster.state_of() == "running" and cluster.state.checkpoints["per-ip"].pauses
    cluster.stores("paused")
    assert cluster.state.queries["per-ip"].reason == "it is upgraded"


def test_the_next_leader_changes_it_where_the_last_one_has_committed() -> None:
    before = running("at-once")
    upgrade(before, query("at-once", more_than=3))
    asked = before.state.checkpoints["per-ip"].asked
    after = WithoutDisk(term=2)
    after.nodes, after.managers = dict(before.nodes), before.managers
    after.obey(after.state.restore(before.nodes, after.now))
    after.see()
    after.all_say("paused")
    assert after.state.checkpoints["per-ip"].asked != asked and after.state.checkpoints["per-ip"].pauses, "that of another came to nothing"
    after.stores("paused")
    assert after.state.queries["per-ip"].reason == "it is upgraded"


@pytest.mark.parametrize("recover", ["on-commit", "at-once"])
def test_where_all_have_died_since_that_commit_it_first_goes_on_as_it_is(recover: str) -> None:
    before = running(recover)
    upgrade(before, query(recover, more_than=3))
    commits(before)
    assert before.state.queries["per-ip"].change is not None and before.state.checkpoints["per-ip"].is_committed
    after = WithoutDisk(term=2)
    after.nodes, after.managers = dict(before.nodes), {}
    after.see()
    after.obey(after.state.restore(before.nodes, after.now))
    after.do(Tick())
    assert after.state_of() == "running" and not after.state.quarantine.queries, "there is none yet where it could go on"
    after.managers = {im: manager(im, pid=2) for im in IMS}
    after.see()
    record = after.state.queries["per-ip"]
    assert (record.state, record.attempt) == ("recovering", 1) and record.change is not None
    assert [each["name"] for each in record.document["operators"]] == ["first", "second"]
    for state in ("ready", "running"):
        after.all_say(state)
    assert after.state_of() == "running", "what has come out since could not be made again by another query"
    after.stores("paused")
    assert after.state.queries["per-ip"].reason == "it is upgraded"


def matching(more_than: int) -> Query:
    """It is short for three operators, of which users know one."""
    read = stream("clicks", t="timestamp[ms]", key=int, ip=int, event_time="t", disorder="1s")
    two = event("a", col("key") > 7).then(event("b", col("key") > 9))
    chosen = Query("per-ip").source(read).filter("f", col("key") > more_than)
    made = chosen.pattern("twice", two, by="ip", within="1m", measures={"first": row("a")["key"]})
    return made.output("out").options(recover="on-commit", parallelism=1)


def test_users_are_shown_the_query_as_it_was_written_and_it_goes_on_as_another() -> None:
    cluster = WithoutDisk()
    cluster.managers = {im: manager(im) for im in IMS}
    cluster.see()
    cluster.submit(matching(3).build())
    for state in ("ready", "running"):
        cluster.all_say(state)
    plan = cluster.state.plans["per-ip"]
    assert len(plan.query.operators) > 1
    assert cluster.state.queries["per-ip"].document == queries.to_json(matching(3).build()) == queries.to_json(plan.written)
    assert physical.to_json(physical.from_json(physical.to_json(plan))) == physical.to_json(plan)
    upgrade(cluster, matching(5))
    cluster.stores()
    assert cluster.state_of() == "recovering"
    assert cluster.state.queries["per-ip"].document == queries.to_json(matching(5).build())
    assert "'per-ip' is that query already" in _refusal(cluster, matching(5))


def _refusal(cluster: WithoutDisk, wanted: Query) -> str:
    for state in ("ready", "running"):
        cluster.all_say(state)
    with pytest.raises(Conflict) as refused:
        upgrade(cluster, wanted)
    return str(refused.value)


def upgrade(cluster: WithoutDisk, wanted: Query, fresh: bool = False) -> None:
    plan = upgraded(cluster.state.plans["per-ip"], wanted.build(), fresh).plan
    assert plan is not None
    cluster.do(UpgradeQuery(plan, fresh))


def test_it_goes_on_as_another_query_and_keeps_what_is_not_changed() -> None:
    cluster = running()
    cluster.do(ScaleSubquery("per-ip", "SQ2", 3))
    cluster.stores()
    for state in ("ready", "running"):
        cluster.all_say(state)
    upgrade(cluster, query(more_than=3))
    cluster.stores()
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
    before.stores()
    after = WithoutDisk()
    after.managers = before.managers
    after.obey(after.state.restore(before.nodes, after.now))
    assert after.state.queries["per-ip"].document == before.state.queries["per-ip"].document
    assert [each.name for each in after.state.plans["per-ip"].query.operators] == ["f", "first", "second"]


@pytest.mark.parametrize("leaders", [1, 2])
def test_what_begins_with_no_state_was_asked_for(leaders: int) -> None:
    """By the one that changes it, too, which may be another leader than was asked."""
    cluster = running()
    upgrade(cluster, query(by="t"), fresh=True)
    for _ in range(1, leaders):
        after = WithoutDisk(term=2)
        after.nodes, after.managers = dict(cluster.nodes), cluster.managers
        after.obey(after.state.restore(cluster.nodes, after.now))
        after.see()
        after.all_say("running")
        cluster = after
    cluster.stores()
    record = cluster.state.queries["per-ip"]
    assert (record.state, record.reason) == ("recovering", "it is upgraded")
    assert record.document["operators"][0]["by"] == ["t", "ip"]


def test_what_it_is_to_become_is_refused_where_it_cannot_be_written() -> None:
    """Before, it was said to be too large, and became it all the same."""
    cluster = WithoutDisk()
    cluster.managers = {im: manager(im) for im in IMS}
    cluster.see()
    cluster.submit(query(text="a" * 700_000).build())
    for state in ("ready", "running"):
        cluster.all_say(state)
    before = dict(cluster.nodes)
    with pytest.raises(TooLarge, match=r"query 'per-ip': 1,40\d,\d{3} bytes would be written of it, and of what it is to become"):
        upgrade(cluster, query(text="b" * 700_000))
    with pytest.raises(TooLarge, match="/cep/plans/per-ip would take"):
        cluster.do(ScaleSubquery("per-ip", "SQ2", 4000))
    cluster.stores()
    assert cluster.state.queries["per-ip"].change is None and cluster.state_of() == "running"
    assert cluster.nodes[node("queries", "per-ip")] == before[node("queries", "per-ip")]


def test_no_upgrade_while_it_recovers() -> None:
    cluster = running()
    upgrade(cluster, query(more_than=3))
    cluster.stores()
    with pytest.raises(Conflict, match="is recovering: it is upgraded only while it is running"):
        upgrade(cluster, query(more_than=4))
