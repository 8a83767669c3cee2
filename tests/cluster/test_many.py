"""Many queries at once in the real cluster: deployed, published to and read from together; one that is wrong harms no other."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.faults.leaks import come_and_go, zookeeper_nodes
from benchmarks.measured.small_queries import small_query
from cep.config import node
from cep.service.documents import LIST_BYTES_MAX
from cep.world.zookeeper import connect
from driver import (
    TIME,
    Cluster,
    ClusterError,
    Conflict,
    LocalCluster,
    NotFound,
    Query,
    QueryError,
    QueryStopped,
    Running,
    col,
    count,
    stream,
)
from driver.cli import app
from driver.cluster import _batched
from tests.cluster.test_cluster import name
from tests.support.waiting import HANG_S, until

__all__ = ["name"]  # fixture

MANY = 60


def query(name: str, least: int = 0) -> Query:
    """Numbers from `least` on."""
    source = stream(f"{name}.in", n=int, t="timestamp[us]", event_time="t", disorder="0s")
    return Query(name).source(source).filter("large", col("n") >= least).output(f"{name}.out").options(parallelism=1)


def test_large_documents_are_sent_in_several_requests() -> None:
    large = [{"name": f"q{i}", "text": "x" * 400_000} for i in range(10)]
    batches = list(_batched(iter(large), 500))
    assert [each for batch in batches for each in batch] == large
    assert max(len(json.dumps(batch)) for batch in batches) < LIST_BYTES_MAX and len(batches) < 5
    assert [len(batch) for batch in _batched(iter(large[:1] * 7), 3)] == [3, 3, 1]


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": n, "t": datetime.fromtimestamp(n, UTC)} for n in numbers]


def running(outcomes: list[Any]) -> list[Running]:
    assert all(isinstance(outcome, Running) for outcome in outcomes), outcomes
    return outcomes


@pytest.mark.timeout(HANG_S)
def test_many_queries(cluster: LocalCluster, name: str) -> None:
    queries = [query(f"{name}-{i}", least=i % 3) for i in range(MANY)]
    running(cluster.deploy_all(queries))
    streams = [each.streams[0] for each in queries]
    with cluster.subscribe_all([f"{each.name}.out" for each in queries]) as found:
        publishers = cluster.open_publishers(streams)
        for second in range(3):
            for publisher in publishers:
                publisher.send(rows(second))
        cluster.close_publishers(publishers)
        got = defaultdict[str, list[int]](list)
        for stream_name, batch in found:
            got[stream_name] += batch.column("n").to_pylist()
    assert got == {f"{name}-{i}.out": list(range(i % 3, 3)) for i in range(MANY)}
    until(lambda: {each["state"] for each in cluster.queries() if each["name"].startswith(f"{name}-")} == {"ended"})


def test_one_that_is_wrong_harms_no_other(cluster: LocalCluster, name: str) -> None:
    good = [query(f"{name}-{i}") for i in range(5)]
    wrong = query(f"{name}-wrong").to_json()
    wrong["operators"][0]["input"] = "nowhere"
    twice = query(f"{name}-2", least=7)
    outcomes = cluster.deploy_all([good[0], good[1], wrong, good[2], twice, {"name": 7}, good[3], good[4]])
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [Running, Running, QueryError, Running, Conflict, QueryError, Running, Running]
    assert isinstance(outcomes[2], QueryError) and outcomes[2].pointer == "/operators/0/input"
    assert {each["state"] for each in cluster.queries() if each["name"].startswith(f"{name}-")} == {"running"}


def test_one_may_read_another_of_the_same_request(cluster: LocalCluster, name: str) -> None:
    second = Query(f"{name}-2").source(f"{name}-1.out").aggregate("all", TIME("10s"), n=count()).output(f"{name}-2.out")
    running(cluster.deploy_all([query(f"{name}-1"), second]))
    with cluster.subscribe_all([f"{name}-2.out"]) as found:
        with cluster.publisher(f"{name}-1.in") as out:
            out.send(rows(1, 2, 3))
        assert [(stream_name, batch.to_pylist()) for stream_name, batch in found] == [(f"{name}-2.out", [{"n": 3}])]


def test_only_ready(cluster: LocalCluster, name: str) -> None:
    found = running(cluster.deploy_all([query(f"{name}-{i}") for i in range(3)], start=False))
    assert {each.status()["state"] for each in found} == {"ready"}


def test_publishers_of_many_streams_learn_of_queries_deployed_later(cluster: LocalCluster, name: str) -> None:
    queries = [query(f"{name}-{i}") for i in range(20)]
    for each in queries:
        cluster.declare(each.streams[0])
    publishers = cluster.open_publishers([each.streams[0] for each in queries])
    running(cluster.deploy_all(queries))
    with cluster.subscribe_all([f"{each.name}.out" for each in queries]) as found:
        for publisher in publishers:
            publisher.send(rows(1))
        got = {found.next_batch(timeout=HANG_S) is not None and i for i in range(20)}
        assert len(got) == 20
        cluster.close_publishers(publishers, keep_open=True)


def test_one_that_another_process_has_taken_the_place_of_closes_nothing(cluster: LocalCluster, name: str) -> None:
    """As one that was frozen, and goes on. Before, the one in its place was closed: it heard of no new reader any more."""
    first, second = query(f"{name}-1"), stream(f"{name}-1.in", n=int, t="timestamp[us]", event_time="t", disorder="0s")
    running(cluster.deploy_all([first]))
    with Cluster(cluster.facts["rest"]) as other:
        frozen, following = other.publisher(f"{name}-1.in", "p"), cluster.publisher(f"{name}-1.in", "p")
        with pytest.raises(ClusterError, match="another publisher of its name goes on in its place"):
            frozen.close()
    later = Query(f"{name}-2").source(second).filter("all", col("n") >= 0).output(f"{name}-2.out").options(parallelism=1)
    running(cluster.deploy_all([later]))
    with cluster.subscribe_all([f"{name}-1.out", f"{name}-2.out"]) as found:
        following.send(rows(1))
        following.close()
        got = {stream_name: batch.to_pylist() for stream_name, batch in found}
    assert {each: len(batch) for each, batch in got.items()} == {f"{name}-1.out": 1, f"{name}-2.out": 1}


def test_subscriptions_to_what_nobody_puts_out(cluster: LocalCluster, name: str) -> None:
    with pytest.raises(NotFound, match=f"{name}.nothing"):
        cluster.subscribe_all([f"{name}.nothing"])


def test_a_query_that_is_stopped_ends_no_other_subscription(cluster: LocalCluster, name: str) -> None:
    first, _ = running(cluster.deploy_all([query(f"{name}-0"), query(f"{name}-1")]))
    with cluster.subscribe_all([f"{name}-0.out", f"{name}-1.out"]) as found, cluster.publisher(f"{name}-1.in") as out:
        first.stop()
        with pytest.raises(QueryStopped, match=f"{name}-0"):
            found.next_batch(timeout=HANG_S)
        out.send(rows(5))
        got = found.next_batch(timeout=HANG_S)
        assert got is not None and (got[0], got[1].to_pylist()[0]["n"]) == (f"{name}-1.out", 5)


def test_files_of_several_documents(cluster: LocalCluster, name: str, tmp_path: Path) -> None:
    """JSON is YAML too."""
    several, wrong, one = (tmp_path / file for file in ("several.yaml", "list.json", "one.json"))
    several.write_text("---\n".join(json.dumps(query(f"{name}-{i}").to_json()) + "\n" for i in range(2)))
    wrong.write_text(json.dumps([query(f"{name}-2").to_json(), query(f"{name}-wrong").to_json() | {"operators": 7}]))
    one.write_text(json.dumps(query(f"{name}-3").to_json()))
    result = CliRunner().invoke(app, ["deploy", str(several), str(wrong), str(one), "--url", cluster.rest.url])
    assert result.exit_code == 1
    assert [f"{name}-{i}: running" in result.output for i in range(4)] == [True] * 4
    assert f"{name}-wrong" in result.output


def test_zookeeper_has_the_nodes_that_it_had(cluster: LocalCluster) -> None:
    def nodes() -> int:
        return zookeeper_nodes(cluster.facts["zookeeper"])

    come_and_go(cluster, [small_query(0, i) for i in range(5)])
    before = until(nodes)
    come_and_go(cluster, [small_query(0, i) for i in range(5, 25)])
    until(lambda: nodes() <= before)


def test_assignments_that_make_no_sense_harm_no_other(cluster: LocalCluster, name: str) -> None:
    """Garbage, a plan that is none, and the assignment of an instance that runs, spoilt: it goes on, and what follows is obeyed."""
    (runs,) = running(cluster.deploy_all([query(f"{name}-runs")]))
    (placed,) = runs.status()["placed"]
    zookeeper = connect(cluster.facts["zookeeper"], 10, f"{cluster.home}/zookeeper-secret")
    zookeeper.start(timeout=HANG_S)
    im = placed["im"]
    facts = json.loads(zookeeper.get(node("ims", im))[0])
    plausible = {
        "query": "ghost",
        "subquery": "SQ1",
        "instance": 0,
        "epoch": 1,
        "process": [facts["pid"], facts["started"]],
        "desired": "run",
    }
    wrong = {
        "x~SQ1~0": b"{",
        "y~SQ1~0": b"[[[[]]]]",
        "z~SQ1~0": json.dumps(plausible).encode(),
        "w~SQ1~0": json.dumps(plausible | {"query": "w", "epoch": "one"}).encode(),
        "ghost~SQ1~0": json.dumps(plausible).encode(),
    }
    zookeeper.create(node("plans", "ghost"), b'{"query": 7}')
    for key, data in wrong.items():
        zookeeper.create(node("assignments", im, key), data)
    zookeeper.set(node("assignments", im, f"{name}-runs~SQ1~0"), b"no JSON")
    refused = {node("assignments", im, key) for key in (*wrong, f"{name}-runs~SQ1~0") if key != "ghost~SQ1~0"}
    until(lambda: refused <= {each["node"] for each in cluster.info()["quarantined"]})
    assert "not a plan" in until(lambda: json.loads(zookeeper.get(node("status", im, "ghost~SQ1~0"))[0])["cause"])

    with runs.subscribe(f"{name}-runs.out") as answers, cluster.publisher(f"{name}-runs.in") as out:
        out.send(rows(7))
        got = answers.next_batch(timeout=HANG_S)
        assert got is not None and got.to_pylist()[0]["n"] == 7
    running(cluster.deploy_all([query(f"{name}-later-{i}") for i in range(4)]))

    for key in wrong:
        zookeeper.delete(node("assignments", im, key))
    zookeeper.delete(node("plans", "ghost"))
    runs.delete()
    until(lambda: not cluster.info()["quarantined"])
    zookeeper.stop()
    zookeeper.close()
