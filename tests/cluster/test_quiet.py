"""Streams that are silent, on the real cluster: they are not waited for, wherever they are read."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from driver import TIME, LocalCluster, Query, Subscription, col, count, files, stream
from tests.support.waiting import until

BASE = 1_700_000_000_000
PRICES = {"k": "int64", "price": "int64", "at": "timestamp[ms]"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quiet")


def priced(name: str, orders: Any, **options: Any) -> Query:
    """Orders with the price of their time; prices are published now and then."""
    meta = stream(f"{name}.meta", PRICES, event_time="at", disorder="0s", idle_after="300ms")
    joined = Query(name).source(orders).as_of_join("priced", meta, on="k", how="left", prefix="m_")
    return joined.output(f"{name}.out").options(**options)


def orders_of(name: str) -> Any:
    return stream(f"{name}.orders", {"k": "int64", "n": "int64", "ts": "timestamp[ms]"}, event_time="ts", disorder="0s")


def rows(*moments: int) -> list[dict[str, int]]:
    return [{"k": 1, "n": moment, "ts": BASE + moment} for moment in moments]


def price(at: int, value: int) -> dict[str, int]:
    return {"k": 1, "price": value, "at": BASE + at}


class Answers:
    """(order, price) of what has come out so far."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.got: list[tuple[int, int | None]] = []

    def reach(self, count: int) -> list[tuple[int, int | None]]:
        while len(self.got) < count:
            batch = self.subscription.next_batch(timeout=60)
            assert batch is not None
            self.got += [(row["n"], row["m_price"]) for row in batch.to_pylist()]
        return sorted(self.got)


def test_metadata_published_once_hold_no_answer_back(cluster: LocalCluster) -> None:
    running = cluster.deploy(priced("once", orders_of("once"), parallelism=2))
    answers = Answers(running.subscribe("once.out"))
    one, two = (cluster.publisher("once.meta", name) for name in ("one", "two"))
    with cluster.publisher("once.orders") as orders, one, two:
        one.send([price(0, 100)])
        orders.send(rows(10, 20, 30))
        assert answers.reach(2) == [(10, 100), (20, 100)]  # nothing waits for `one`, nor for `two`, which never said anything
        until(lambda: "idle" in json.dumps(running.status()))
        two.send([price(15, 115)])  # the answers have gone on: it starts where they are
        orders.send(rows(40, 50))
        assert answers.reach(4)[2:] == [(30, 100), (40, 100)]
        until(lambda: sum(place["metrics"]["late"] for place in running.status()["placed"] if place["metrics"]) == 1)
        two.send([price(60, 160)])
        orders.send(rows(70, 80))
        assert answers.reach(6)[4:] == [(50, 100), (70, 160)]
        one.advance(BASE + 75)
    assert answers.reach(7)[6:] == [(80, 160)]
    running.delete()


def test_a_query_that_reads_another_ones_quiet_output(cluster: LocalCluster) -> None:
    meta = stream("far.meta", PRICES, event_time="at", disorder="0s", idle_after="200ms")
    upstream = cluster.deploy(Query("far-a").source(meta).map("same", k=col("k"), price=col("price")).output("far.prices"))
    joined = Query("far-b").source(orders_of("far")).as_of_join("priced", "far.prices", on="k", how="left", prefix="m_").output("far.out")
    running = cluster.deploy(joined)
    answers = Answers(running.subscribe("far.out"))
    with cluster.publisher("far.orders") as orders, cluster.publisher("far.meta") as prices:
        prices.send([price(0, 100)])
        orders.send(rows(10, 20, 30))
        assert answers.reach(2) == [(10, 100), (20, 100)]
        orders.send(rows(40))
        assert answers.reach(3)[2:] == [(30, 100)]
    running.delete(), upstream.delete()


def test_one_that_is_idle_while_its_reader_moves(cluster: LocalCluster) -> None:
    running = cluster.deploy(priced("moved", orders_of("moved"), parallelism=1, split="per-operator"))
    answers = Answers(running.subscribe("moved.out"))
    with cluster.publisher("moved.orders") as orders, cluster.publisher("moved.meta") as prices:
        prices.send([price(0, 100)])
        orders.send(rows(10, 20))
        assert answers.reach(1) == [(10, 100)]
        places = {each["subquery"]: each["im"] for each in running.status()["placed"]}
        others = {im["id"] for im in cluster.instance_managers()}
        for subquery, im in places.items():
            running.move(subquery, 0, min(others - {im}))
        orders.send(rows(30, 40))
        assert answers.reach(3)[1:] == [(20, 100), (30, 100)]
        prices.send([price(45, 145), price(46, 146)])
        orders.send(rows(50, 60))
        assert answers.reach(5)[3:] == [(40, 100), (50, 146)]
    running.delete()


def test_files_beside_a_quiet_publisher(cluster: LocalCluster, folder: Path) -> None:
    (folder / "orders.csv").write_text("".join(f"1,{i},{BASE + i}\n" for i in range(100, 1100)))
    fields = {"k": "int64", "n": "int64", "ts": "timestamp[ms]"}
    read = files("beside.orders", fields, paths=str(folder / "orders.csv"), event_time="ts", disorder="0s", block_bytes=1024)
    running = cluster.deploy(priced("beside", read), start=False)
    answers = Answers(running.subscribe("beside.out"))
    with cluster.publisher("beside.meta", keep_open=True) as prices:
        prices.send([price(0, 100)])
        running.start()
        assert answers.reach(1000) == [(i, 100) for i in range(100, 1100)]
    running.delete()


def test_advance_by_rest(cluster: LocalCluster) -> None:
    declared = stream("told", {"k": "int64", "n": "int64", "ts": "timestamp[ms]"}, event_time="ts", disorder="1s")
    running = cluster.deploy(Query("told").source(declared).aggregate("w", TIME("10ms"), by="k", n=count()).output("told.out"))
    subscription = running.subscribe("told.out")
    _post(cluster, "records", rows(1, 2, 13))
    _post(cluster, "advance", {"to": BASE + 10})
    batch = subscription.next_batch(timeout=60)
    assert batch is not None and batch.to_pylist() == [{"k": 1, "n": 2}]
    _post(cluster, "advance", {"to": "2023-11-14T22:13:21Z"})
    batch = subscription.next_batch(timeout=60)
    assert batch is not None and batch.to_pylist() == [{"k": 1, "n": 1}]
    with pytest.raises(urllib.error.HTTPError, match="422"):
        _post(cluster, "advance", {"to": "soon"})
    running.delete()


def _post(cluster: LocalCluster, what: str, document: Any) -> None:
    address = f"{cluster.rest.url}/streams/told/{what}"
    data = json.dumps(document).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=60).close()
