"""A query is scaled, and upgraded, while rows come and instance managers die: the answers are those of a run without."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest

from driver import (
    TIME,
    Conflict,
    LocalCluster,
    Publisher,
    Query,
    QueryError,
    Running,
    arg_max,
    col,
    count,
    first,
    max_,
    stream,
    sum_,
    window_start,
)
from tests.cluster.test_recovery import RECOVER, kill, kill_of_all
from tests.support.waiting import until

BATCHES, ROWS = 60, 500


def query(name: str) -> Query:
    """SQ1 reads, SQ2 counts by two columns, SQ3 adds up."""
    read = stream(f"{name}.in", t="timestamp[ms]", key=int, part=int, event_time="t", disorder="1s")
    made = Query(name).source(read).aggregate("first", TIME("1s"), by=["key", "part"], n=count())
    made = made.aggregate("second", TIME("2s"), by="key", start=window_start(), total=sum_("n"))
    return made.output(f"{name}.out").options(parallelism={"SQ1": 1, "SQ2": 1, "SQ3": 1}, pre_aggregation="off", checkpoint="100ms")


def scaled(running: Running, instances: int) -> bool:
    """False: not now, for it recovers just then."""
    try:
        running.scale({"SQ2": instances})
    except Conflict as error:
        assert "only while it is running" in str(error) or "already" in str(error)
        return "already" in str(error)
    return True


def totals(cluster: LocalCluster, name: str, recover: str, steps: tuple[int, ...]) -> Counter[tuple[int, int, int]]:
    """(start of the window in s, key, rows), of a query whose SQ2 is scaled so."""
    running = cluster.deploy(query(name).options(recover=recover), start=False)
    found = running.subscribe(f"{name}.out")
    running.start()
    with cluster.publisher(f"{name}.in") as out:
        for batch in range(BATCHES):
            out.send([{"t": i * 10, "key": i % 7, "part": i % 11} for i in range(batch * ROWS, (batch + 1) * ROWS)])
            if batch % 15 == 10:
                size = steps[batch // 15]
                until(lambda size=size: scaled(running, size))
                assert sum(each["subquery"] == "SQ2" for each in running.status()["placed"]) == size
                if batch == 25:
                    kill(cluster, running.status()["placed"][0]["im"])
    rows = Counter((seconds(row["start"]), row["key"], row["total"]) for each in found for row in each.to_pylist())
    assert running.status()["recovery"]["attempts"] >= len(steps)
    return rows


def seconds(when: datetime) -> int:
    return round(when.timestamp())


def test_what_cannot_be_scaled_is_said_and_it_runs_on(cluster: LocalCluster) -> None:
    running = cluster.deploy(query("edges").options(recover="on-commit"))
    with pytest.raises(QueryError, match=r"SQ1 of query 'edges' cannot be scaled from 1 to 2 instances: it reads stream 'edges.in'"):
        running.scale({"SQ1": 2})
    assert running.status()["state"] == "running" and running.status()["recovery"]["attempts"] == 0
    running.stop()


def test_what_cannot_be_upgraded_is_said_and_it_runs_on(cluster: LocalCluster) -> None:
    running = cluster.deploy(weighed("kept", 1))
    wanted = weighed("kept", 1, rows=count())
    with pytest.raises(
        QueryError, match=r"operator 'first', its functions: there is n = sum\(weight\).*; wanted is .*; of the windows that are"
    ):
        running.upgrade(wanted)
    report = running.upgrade(wanted, dry_run=True)
    assert not report["possible"] and "refused          operator 'first', its functions" in report["text"]
    assert running.upgrade(weighed("kept", HEAVY), dry_run=True)["possible"]
    with pytest.raises(Conflict, match="query 'kept' is that query already"):
        running.upgrade(weighed("kept", 1))
    assert running.status()["state"] == "running" and running.status()["recovery"]["attempts"] == 0
    running.stop()


OF_ONE_ROW = {
    "word": first("word"), "n": count(), "part": first("part"), "at": arg_max("word", "weight"), "most": max_("weight"),
    "of": arg_max("part", "weight"),
}  # fmt: skip


def of_one_row(*functions: str, most: float) -> Query:
    columns = {"part": "int64?", "word": "string?", "weight": float}
    read = stream("placed.in", t="timestamp[ms]", key=int, **columns, event_time="t", disorder="0s")
    made = (
        Query("placed")
        .source(read)
        .filter("sound", col("weight") < most)
        .aggregate("w", TIME("1s"), by="key", **{name: OF_ONE_ROW[name] for name in functions})
    )
    made = made.map("in_order", key=col("key"), **{name: col(name) for name in OF_ONE_ROW})
    return made.output("placed.out").options(recover="on-commit", checkpoint="100ms")


def test_functions_of_one_row_stand_in_another_place_behind_an_upgrade(cluster: LocalCluster) -> None:
    """What was kept of a row when the window was open is answered by the names of its columns."""
    running = cluster.deploy(of_one_row(*OF_ONE_ROW, most=100), start=False)
    found = running.subscribe("placed.out")
    running.start()
    rows = [
        {
            "t": i,
            "key": i % 3,
            "part": i if i % 2 else None,
            "word": f"a word of more than eight bytes {i}" if i % 5 else None,
            "weight": i * 7 % 11,
        }
        for i in range(30)
    ]
    with cluster.publisher("placed.in") as out:
        out.send(rows[:20])
        report = running.upgrade(of_one_row(*reversed(OF_ONE_ROW), most=200))
        out.send(rows[20:])
    assert "keeps its state  operator 'w'" in report["text"]
    expected = []
    for key in range(3):
        own = [row for row in rows if row["key"] == key]
        most = max(own, key=lambda row: row["weight"])
        chosen = {
            "word": own[0]["word"],
            "n": len(own),
            "part": own[0]["part"],
            "at": most["word"],
            "most": most["weight"],
            "of": most["part"],
        }
        expected.append({"key": key} | chosen)
    assert sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: row["key"]) == expected


@pytest.mark.parametrize("recover", [pytest.param("on-commit", marks=pytest.mark.long), "at-once"])  # the simulation scales both
def test_it_is_scaled_while_rows_come_and_an_instance_manager_dies(cluster: LocalCluster, recover: str) -> None:
    expected = Counter((i // 200 * 2, i % 7) for i in range(BATCHES * ROWS))
    found = totals(cluster, f"scaled-{recover}", recover, (2, 3, 1, 2))
    assert found == Counter((start, key, rows) for (start, key), rows in expected.items())


def dealt(running: Running, table: list[int]) -> bool:
    """False: not now, for it recovers just then."""
    try:
        running.rebalance(table)
    except Conflict as error:
        assert "only while it is running" in str(error) or "being changed" in str(error)
        return False
    return True


def test_its_buckets_move_while_rows_come_and_an_instance_manager_dies(cluster: LocalCluster) -> None:
    """Each key's groups are at another instance in turn, and answers leave from there: of a query that tells them on commit, and of one
    that does at once. Both have an instance everywhere."""
    running, found = dict[str, Running](), dict[str, Any]()
    for how in RECOVER:
        read = stream(f"dealt-{how}.in", t="timestamp[ms]", key=int, event_time="t", disorder="1s")
        made = Query(f"dealt-{how}").source(read).aggregate("w", TIME("2s"), by="key", start=window_start(), n=count(), last=max_("t"))
        options: dict[str, Any] = {"parallelism": {"SQ1": 1, "SQ2": 2}, "pre_aggregation": "off", "checkpoint": "100ms", "recover": how}
        running[how] = cluster.deploy(made.output(f"dealt-{how}.out").options(**options), start=False)
        found[how] = running[how].subscribe(f"dealt-{how}.out")
        running[how].start()
    with ExitStack() as open_:
        outs = [open_.enter_context(cluster.publisher(f"dealt-{how}.in")) for how in RECOVER]
        for batch in range(BATCHES):
            rows = [{"t": i * 10, "key": i % 97} for i in range(batch * ROWS, (batch + 1) * ROWS)]
            for out in outs:
                out.send(rows)
            if batch % 15 == 10:
                table = [(bucket + batch) // 5 % 2 for bucket in range(4096)]
                for each in running.values():
                    until(lambda each=each, table=table: dealt(each, table))
                    (shown,) = each.status()["tables"]
                    assert shown["subquery"] == "SQ2" and shown["elsewhere"] > 1000 and not shown["moving"]
                if batch == 25:
                    kill_of_all(cluster, *running.values())
    for how, subscription in found.items():
        windows = Counter((row["start"], row["key"], row["n"]) for each in subscription for row in each.to_pylist())
        assert sum(n * times for (_, _, n), times in windows.items()) == BATCHES * ROWS and set(windows.values()) == {1}, how
        assert len(windows) == BATCHES * ROWS // 200 * 97 and running[how].status()["recovery"]["attempts"] >= 4, how


HEAVY = 1_000  # what a row weighs behind the upgrade


def weighed(name: str, weight: int, recover: str = "on-commit", **functions: Any) -> Query:
    """SQ1 gives each row a weight, SQ2 adds it up by two columns, SQ3 by one. `functions`: besides."""
    read = stream(f"{name}.in", t="timestamp[ms]", key=int, part=int, event_time="t", disorder="1s")
    made = Query(name).source(read).map("heavy", key=col("key"), part=col("part"), weight=col("key") * 0 + weight)
    made = made if weight == 1 else made.filter("sound", col("weight") > 0)
    made = made.aggregate("first", TIME("1s"), by=["key", "part"], n=sum_("weight"), **functions)
    made = made.aggregate("second", TIME("2s"), by="key", start=window_start(), total=sum_("n"))
    sizes = {"SQ1": 1, "SQ2": 1 if weight == 1 else 3, "SQ3": 1}
    return made.output(f"{name}.out").options(recover=recover, parallelism=sizes, pre_aggregation="off", checkpoint="100ms")


def upgraded(running: Running, query: Query) -> bool:
    """False: not now, for it recovers just then."""
    try:
        report = running.upgrade(query)
    except Conflict as error:
        assert "only while it is running" in str(error) or "that query already" in str(error)
        return "already" in str(error)
    assert "operator 'first': but for what rows, most needed" in report["text"]
    return True


def send(out: Publisher, batches: range) -> None:
    for batch in batches:
        out.send([{"t": i * 10, "key": i % 7, "part": i % 11} for i in range(batch * ROWS, (batch + 1) * ROWS)])


def await_commit(running: Running) -> None:
    """Until one is committed behind which there is nothing new: what was sent is in it, as far as it has come."""
    until(lambda: running.status()["recovery"]["checkpoints"]["rests"])


def weights(changed_at: int) -> Counter[tuple[int, int]]:
    """(start of the window in s, key) -> what its rows weigh, those from a number on more."""
    found = Counter[tuple[int, int]]()
    for i in range(BATCHES * ROWS):
        found[i // 200 * 2, i % 7] += HEAVY if i >= changed_at else 1
    return found


@pytest.mark.parametrize("recover", ["on-commit", pytest.param("at-once", marks=pytest.mark.long)])  # the simulation upgrades both
def test_it_goes_on_as_another_query_with_the_state_that_it_had(cluster: LocalCluster, recover: str) -> None:
    """Rows before some row of the stream have the old weight, and those behind it the new one: each counts once, in windows too that
    were open then, though instance managers die right before and behind; and nothing that was told at once is taken back."""
    name = f"weighed-{recover}"
    running = cluster.deploy(weighed(name, 1, recover, rows=count(), most=max_("weight")), start=False)
    found = running.subscribe(f"{name}.out")
    running.start()
    with cluster.publisher(f"{name}.in") as out:
        send(out, range(20))
        await_commit(running)
        kill(cluster, running.status()["placed"][1]["im"])
        until(lambda: upgraded(running, weighed(name, HEAVY, recover)))
        send(out, range(20, 40))
        kill(cluster, running.status()["placed"][2]["im"])
        send(out, range(40, BATCHES))
    sums = Counter[tuple[int, int]]()
    for batch in found:
        for row in batch.to_pylist():
            sums[seconds(row["start"]), row["key"]] += row["total"]
    changed_at = (BATCHES * ROWS * HEAVY - sums.total()) // (HEAVY - 1)
    assert 0 < changed_at <= 20 * ROWS and sums == weights(changed_at)
    assert sum(each["subquery"] == "SQ2" for each in running.status()["placed"]) == 3
