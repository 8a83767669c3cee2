"""A query is scaled while rows come and instance managers die: the answers are those of a run without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from driver import TIME, Conflict, LocalCluster, Query, QueryError, Running, count, stream, sum_, window_start
from tests.cluster.test_recovery import kill
from tests.support.waiting import until

BATCHES, ROWS = 60, 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(instances=3) as started:
        yield started


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


def answers(cluster: LocalCluster, name: str, recover: str, steps: tuple[int, ...]) -> Counter[tuple[object, ...]]:
    running = cluster.deploy(query(name).options(recover=recover), start=False)
    found = running.subscribe(f"{name}.out")
    running.start()
    with cluster.publisher(f"{name}.in") as out:
        for batch in range(BATCHES):
            out.send([{"t": i * 10, "key": i % 7, "part": i % 11} for i in range(batch * ROWS, (batch + 1) * ROWS)])
            if steps and batch % 15 == 10:
                size = steps[batch // 15]
                until(lambda size=size: scaled(running, size))
                assert sum(each["subquery"] == "SQ2" for each in running.status()["placed"]) == size
                if batch == 25:
                    kill(cluster, running.status()["placed"][0]["im"])
    rows = Counter((row["start"], row["key"], row["total"]) for each in found for row in each.to_pylist())
    assert not steps or running.status()["recovery"]["attempts"] >= len(steps)
    return rows


def test_what_cannot_be_scaled_is_said_and_it_runs_on(cluster: LocalCluster) -> None:
    running = cluster.deploy(query("edges").options(recover="on-commit"))
    with pytest.raises(QueryError, match=r"SQ1 of query 'edges' cannot be scaled from 1 to 2 instances: it reads stream 'edges.in'"):
        running.scale({"SQ1": 2})
    assert running.status()["state"] == "running" and running.status()["recovery"]["attempts"] == 0
    running.stop()


@pytest.mark.parametrize("recover", ["on-commit", "at-once"])
def test_it_is_scaled_while_rows_come_and_an_instance_manager_dies(cluster: LocalCluster, recover: str) -> None:
    expected = answers(cluster, f"still-{recover}", recover, ())
    assert sum(total * times for (_, _, total), times in expected.items()) == BATCHES * ROWS
    assert answers(cluster, f"scaled-{recover}", recover, (2, 3, 1, 2)) == expected
