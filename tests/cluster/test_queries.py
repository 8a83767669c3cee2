"""Queries that read other queries' outputs, in the real cluster: what they answer, and what becomes of one when the other is over.

Tests `instance_manager/feeds.py`.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from cep.transport import wire
from cep.transport.sockets import open_sockets
from cep.transport.wire import Header
from driver import TIME, Conflict, LocalCluster, Publisher, Query, QueryError, Running, Subscription, col, count, last, stream, sum_
from tests.cluster.test_cluster import figures, name, wide, wide_rows
from tests.support.visits import BASE_MS, Row, copies, expected, rows, windows
from tests.support.waiting import HANG_S, until

__all__ = ["name"]  # a fixture

MINUTE_MS = 60_000


def totals(name: str, input_: str, **options: Any) -> Query:
    """Visits by minute out of the answers of `windows`; the last `start` depends on the order of the stream."""
    aggregated = Query(name).source(input_).aggregate("minutes", TIME("60s"), visits=sum_("visits"), ips=count(), ip=last("ip"))
    return aggregated.output(f"{name}.out").options(**options)


def expected_totals(given: Iterable[Row]) -> Counter[tuple[int, int]]:
    """(visits, answers of `windows`) of every minute."""
    minutes: dict[int, list[int]] = {}
    for _, visits, start, _ in expected(given).elements():
        minutes.setdefault(start // MINUTE_MS, []).append(visits)
    return Counter((sum(each), len(each)) for each in minutes.values())


def found_totals(found: Subscription) -> Counter[tuple[int, int]]:
    return Counter((row["visits"], row["ips"]) for batch in found for row in batch.to_pylist())


def counted(name: str, input_: str) -> Query:
    """Rows of `copies` by 30 s."""
    return Query(name).source(input_).aggregate("window", TIME("30s"), by="ip", visits=count()).output(f"{name}.out")


def numbers(found: Subscription, column: str = "visits") -> list[int]:
    return [row[column] for batch in found for row in batch.to_pylist()]


def why(running: Running) -> str:
    """What the reader of a query waits for."""
    return "; ".join(str(placed["waits_for"]) for placed in running.status()["placed"])


@pytest.mark.parametrize("instances", [1, 2])
def test_two_queries(cluster: LocalCluster, name: str, instances: int) -> None:
    first = cluster.deploy(windows(name, parallelism=instances))
    second = cluster.deploy(totals(f"{name}2", f"{name}.per_ip", parallelism=instances))
    found, both = second.subscribe(f"{name}2.out"), first.subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        for start in range(0, 20_000, 1000):
            out.send(rows(1000, start=start))
    assert found_totals(found) == expected_totals(rows(20_000))
    assert sum(numbers(both)) == 20_000
    until(lambda: second.status()["state"] == "ended")
    assert "'" + f"{name}.per_ip" + "', an output of query" in " ".join(second.status()["plan"]["notes"]) or instances == 1
    assert f"output of query '{name}'" in second.explain()


def test_deployed_before_the_other_one_starts_it_misses_nothing(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(copies(name).options(parallelism=2), start=False)
    second = cluster.deploy(counted(f"{name}2", f"{name}.all"))
    found = second.subscribe(f"{name}2.out")
    assert second.status()["state"] == "running"
    with cluster.publisher(f"{name}.visits") as out:
        first.start()
        out.send(rows(9000))
    assert sum(numbers(found)) == 9000


def test_deployed_while_rows_flow_it_takes_those_behind_them(cluster: LocalCluster, name: str) -> None:
    cluster.deploy(copies(name).options(parallelism=2))
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(4500))  # up to 45 s
        until(lambda: figures(cluster, name, "rows_in") == 4500)
        second = cluster.deploy(counted(f"{name}2", f"{name}.all"))
        found = second.subscribe(f"{name}2.out", event_time=True)
        out.send([*rows(100, start=4400), *rows(4500, start=4500)])  # the first hundred are not late, and not its
    got = [(row["visits"], round(row["event_time"].timestamp() * 1000) - BASE_MS) for batch in found for row in batch.to_pylist()]
    assert {end for _, end in got} == {90_000}
    assert sum(visits for visits, _ in got) == 3000
    until(lambda: figures(cluster, f"{name}2", "before_since") == 100)
    assert figures(cluster, f"{name}2", "incomplete") == 7


def test_three_in_a_chain_and_two_readers_of_one(cluster: LocalCluster, name: str) -> None:
    given = rows(12_000)
    cluster.deploy(copies(name), start=False)
    picked = Query(f"{name}2").source(f"{name}.all").filter("some", col("ip") != "10.0.0.1").output(f"{name}.some")
    cluster.deploy(picked.options(parallelism=2))
    both = Query(f"{name}3").source(f"{name}.some").union("all", f"{name}.some", f"{name}.all")
    third = cluster.deploy(both.aggregate("window", TIME("30s"), by="ip", visits=count()).output(f"{name}.both"))
    found = third.subscribe(f"{name}.both")
    cluster.query(name).start()
    with cluster.publisher(f"{name}.visits") as out:
        out.send(given)
    some = Counter({ip: 2 * visits if ip != "10.0.0.1" else visits for ip, visits in Counter(row["ip"] for row in given).items()})
    got: Counter[str] = Counter()
    for batch in found:
        for row in batch.to_pylist():
            got[row["ip"]] += row["visits"]
    assert got == some
    assert {each["query"] for each in third.status()["reads"]} == {name, f"{name}2"}


def test_a_query_that_fails_fails_nobody_else(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(copies(name).options(parallelism=1))
    second = cluster.deploy(counted(f"{name}2", f"{name}.all"))
    found = second.subscribe(f"{name}2.out")
    third = cluster.deploy(counted(f"{name}3", f"{name}2.out"))
    with cluster.publisher(f"{name}.visits", keep_open=True) as out:
        out.send(rows(500))
        until(lambda: figures(cluster, f"{name}2", "rows_in") >= 500)
        break_a_channel(first, out)
    cause = first.status()["cause"]["cause"]
    until(lambda: f"query '{name}' failed" in why(second) and cause in why(second))
    status = second.status()
    assert status["state"] == "running"
    (read,) = status["reads"]
    assert (read["stream"], read["query"], read["state"]) == (f"{name}.all", name, "failed")
    assert cause in read["lost"]
    with pytest.raises(TimeoutError):
        found.next_batch(0.3)
    with pytest.raises(Conflict, match=f"an output of query '{name}', which has failed"):
        cluster.deploy(counted(f"{name}4", f"{name}.all"))
    second.stop(drain=True)
    assert sum(numbers(found)) == 500
    until(lambda: third.status()["state"] == "ended")


def break_a_channel(running: Running, publisher: Publisher) -> None:
    """A message in its publisher's name with a number that cannot be: the query cannot know what it lacks."""
    (reader,) = publisher.core.readers.values()
    with tempfile.TemporaryDirectory() as folder:
        sockets = open_sockets(f"ipc://{folder}/nobody-answers")
        sockets.send(reader.endpoint, Header(wire.WATERMARK, reader.channel, sequence=1000))
        until(lambda: running.status()["state"] == "failed")
        sockets.close()


def test_a_query_that_is_stopped_stops_nobody_else(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(copies(name))
    second = cluster.deploy(counted(f"{name}2", f"{name}.all"))
    found = second.subscribe(f"{name}2.out")
    with cluster.publisher(f"{name}.visits", keep_open=True) as out:
        out.send(rows(500))
        until(lambda: figures(cluster, f"{name}2", "rows_in") >= 500)
        first.stop()
        until(lambda: f"query '{name}' was stopped" in why(second))
    assert second.status()["state"] == "running"
    assert f"query '{name}' was stopped" in second.status()["reads"][0]["lost"]
    second.stop(drain=True)
    assert sum(numbers(found)) == 500


def test_a_drained_query_ends_its_readers(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(copies(name))
    second = cluster.deploy(counted(f"{name}2", f"{name}.all"))
    found = second.subscribe(f"{name}2.out")
    with cluster.publisher(f"{name}.visits", keep_open=True) as out:
        out.send(rows(500))
        until(lambda: figures(cluster, f"{name}2", "rows_in") >= 500)
        first.stop(drain=True)
    assert sum(numbers(found)) == 500
    until(lambda: second.status()["state"] == "ended")


def test_a_slow_reader_slows_the_other_query_and_lets_it_go_when_it_is_stopped(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(wide(name))
    again = Query(f"{name}2").source(f"{name}.out").map("again", number=col("number"), text=col("text")).output(f"{name}.more")
    second = cluster.deploy(again)
    second.subscribe(f"{name}.more", budget_bytes=1 << 20)
    sent: list[int] = []

    def publish() -> None:
        with cluster.publisher(f"{name}.in") as out:
            for part in range(150):
                sent.append(out.send(wide_rows(part * 1000, 1000)))

    publisher = threading.Thread(target=publish)
    publisher.start()
    until(lambda: f"credit on {name}.out" in why(first))
    assert sum(sent) < 150_000
    second.stop()
    publisher.join(HANG_S)
    assert sum(sent) == 150_000
    until(lambda: first.status()["state"] == "ended")


def test_what_cannot_be_read(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(windows(name).late(f"{name}.late"))
    with pytest.raises(QueryError, match="older than its watermark"):
        cluster.deploy(Query(f"{name}2").source(f"{name}.late").output(f"{name}2.out"))
    declared = stream(
        f"{name}.per_ip", ip=str, visits="int64", start="timestamp[ms]", end="timestamp[ms]", event_time="start", disorder="0s"
    )
    with pytest.raises(QueryError, match="leave out event_time and disorder"):
        cluster.deploy(Query(f"{name}3").source(declared).output(f"{name}3.out"))
    with pytest.raises(Conflict, match=f"is an output of query '{name}'"):
        cluster.declare(declared)
    with cluster.publisher(f"{name}.visits"):
        pass
    until(lambda: first.status()["state"] == "ended")
    with pytest.raises(Conflict, match="has ended after 0 rows"):
        cluster.deploy(totals(f"{name}4", f"{name}.per_ip"))


@pytest.mark.long
def test_the_instance_manager_of_a_reader_is_killed(cluster: LocalCluster) -> None:
    first = cluster.deploy(copies("k").options(parallelism=1))
    home = {placed["im"] for placed in first.status()["placed"]}
    second = cluster.deploy(counted("k2", "k.all").options(parallelism=1))
    away = {placed["im"] for placed in second.status()["placed"]}
    assert not home & away
    found = first.subscribe("k.all")
    with cluster.publisher("k.visits") as out:
        out.send(rows(100))
        os.kill(dict(cluster.processes())[away.pop()], signal.SIGKILL)
        out.send(rows(100, start=100))
        until(lambda: second.status()["state"] == "failed")
        out.send(rows(100, start=200))
    assert len(numbers(found, "ts")) == 300
    assert first.status()["state"] in ("running", "ended")
