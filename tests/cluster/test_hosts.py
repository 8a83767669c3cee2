"""Clusters of several hosts, each with a name and ports of its own on loopback: real agents, real links, clients on none of them."""

from __future__ import annotations

import contextlib
import io
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cep.model.streams import Stream
from driver import Cluster, LocalCluster, Query, QueryFailed, Running, Subscription, col, files, stream
from driver.hosts import evacuate
from tests.cluster.test_moves import Flow, Reading, chained, expected
from tests.support.joined_hosts import Joined, joined, start_join, where
from tests.support.one_cluster import uncompiled
from tests.support.visits import copies, rows, visits, windows
from tests.support.visits import expected as expected_windows
from tests.support.waiting import until

HERE = ("--address", "127.0.0.1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def hosts(data: Path) -> Iterator[tuple[LocalCluster, Joined]]:
    """h1 and h2; tests have others join."""
    with (
        uncompiled(1, numa=False, address="127.0.0.1", host="h1", session_timeout_s=3.0, data=[data]) as started,
        joined(started.rest.url, "h2", *HERE, "--data", str(data), compiled=False) as second,
    ):
        yield started, second


@pytest.fixture(scope="module")
def cluster(hosts: tuple[LocalCluster, Joined]) -> LocalCluster:
    return hosts[0]


@pytest.fixture
def second(hosts: tuple[LocalCluster, Joined]) -> Joined:
    """The agent of h2."""
    return hosts[1]


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Cluster]:
    """On a host of its own, with no address."""
    with Cluster(cluster.rest.url, host="elsewhere") as made:
        yield made


def test_a_host_leaves_under_load_once_readers_have_what_ended_queries_hold(cluster: LocalCluster, client: Cluster, data: Path) -> None:
    """Nothing is lost. Publisher and subscriber are elsewhere and learn by REDIRECT where instances have gone. A file that the host may not
    read was the failure of its query alone, by name: each reader reads on its own host. One of its name vanished as it joined: the name
    is free again."""
    vanishing = start_join(cluster.rest.url, "h3", *HERE, compiled=False)
    until(lambda: "h3" in names_of(cluster))
    vanishing.kill()
    vanishing.communicate()
    until(lambda: names_of(cluster) == ["h1", "h2"])
    (data / "visits.txt").write_text("10.0.0.1,1700000000000\n" * 2000)
    with joined(cluster.rest.url, "h3", *HERE, compiled=False) as host:
        with pytest.raises(QueryFailed, match=r"on host 'h3': .*visits\.txt"):
            client.deploy(windows("own", own_visits(data))).wait()
        client.query("own").delete()
        held, found = held_on(client, "h3")
        running = client.deploy(chained("leaving"))
        assert {im.partition(".")[0] for im in where(client, "leaving")} == {"h1", "h2", "h3"}
        reading = Reading(running.subscribe("leaving.out"))
        flow = Flow(client.publisher("leaving.in"), rows=50, pause_s=0.02)
        reading.more(1000)
        host.process.send_signal(signal.SIGTERM)
        until(lambda: next(each for each in client.hosts() if each["name"] == "h3")["leaving"])
        until(lambda: not any(im.startswith("h3") for im in where(client, "leaving")))
        reading.more(1000)
        sent = flow.end()
        reading.join(60)
        assert sum(batch.num_rows for batch in found) == 10_000
        said, _ = host.process.communicate(timeout=40)
        assert host.process.returncode == 0 and "still held" not in said
    assert reading.error is None and reading.answers == expected(range(sent))
    until(lambda: names_of(client) == ["h1", "h2"])
    assert client.info()["quarantined"] == []
    for each in (running, held):
        each.delete()


def names_of(cluster: Cluster) -> list[str]:
    return [each["name"] for each in cluster.hosts()]


def held_on(client: Cluster, host: str) -> tuple[Running, Subscription]:
    """A query that has ended there, and a subscription that has not taken its answers."""
    found = client.subscribe("held.all", window_bytes=1 << 10)
    running = client.deploy(copies("held"))
    placed = running.status()["placed"][0]
    if not placed["im"].startswith(host):
        running.move(placed["subquery"], placed["instance"], f"{host}.im-0")
    with client.publisher("held.visits") as out:
        for i in range(20):
            out.send(rows(500, start=i * 500))
    running.wait()
    return running, found


def own_visits(data: Path) -> Stream:
    """Small blocks, so that there is a reader on each host."""
    columns = {"ip": str, "ts": "timestamp[ms]"}
    return files("own.visits", columns, paths=[str(data / "visits.txt")], event_time="ts", disorder="2s", block_bytes=1024)


def test_what_hosts_say_is_shown(cluster: LocalCluster, client: Cluster) -> None:
    hosts = {each["name"]: each for each in client.hosts()}
    assert hosts["h2"]["instance_managers"] == ["h2.im-0"] and hosts["h1"]["instance_managers"] == ["h1.im-0"]
    assert all(abs(each["clock_ms"]) < 1000 and not each["clock_off"] and each["cores"] for each in hosts.values())
    assert client.topology()["hosts"].keys() == {"h1", "h2"} and client.topology()["between_hosts"] == 100
    until(lambda: children_of(client, "h2") == {"host", "h2.im-0"})
    until(lambda: {each["im"] for each in client.figures()["managers"]} >= {"h1.im-0", "h2.im-0"})


def children_of(client: Cluster, supervisor: str) -> set[str]:
    return {child["name"] for each in client.supervisors() if each["supervisor"] == supervisor for child in each["children"]}


def test_a_second_host_of_the_name_is_refused(cluster: LocalCluster) -> None:
    process = start_join(cluster.rest.url, "h2", *HERE, compiled=False)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1 and "there is a host 'h2' already, at 127.0.0.1, process" in said
    assert names_of(cluster) == ["h1", "h2"]


def test_what_cannot_move_fails_by_name(cluster: LocalCluster, client: Cluster, data: Path) -> None:
    """A subquery that writes files has its own file open; `cep evacuate` says so."""
    with joined(cluster.rest.url, "h3", *HERE, "--data", str(data), compiled=False) as host:
        source = stream("pinned.in", {"k": "int64", "ts": "timestamp[us]"}, event_time="ts", disorder="0s")
        writing = Query("pinned").source(source).filter("all", col("k") > 0).output("pinned.out", folder=str(data / "out"), format="jsonl")
        running = client.deploy(writing)
        moving = client.deploy(chained("moving"))
        with contextlib.redirect_stdout(io.StringIO()) as said, pytest.raises(typer.Exit):
            evacuate("h3", cluster.rest.url)
        assert "pinned: failed: host 'h3' is leaving, and SQ1/" in said.getvalue()
        assert "cannot go on elsewhere: it writes stream 'pinned.out' to a file of its own" in said.getvalue()
        assert "moved elsewhere: moving" in said.getvalue()
        assert next(each for each in client.hosts() if each["name"] == "h3")["leaving"]
        assert moving.status()["state"] == "running" and running.status()["state"] == "failed"
        again = client.deploy(chained("again"))
        assert not any(im.startswith("h3") for im in where(client, "again"))
        host.leave()
    for each in (running, moving, again):
        each.delete()


def test_packed_stays_on_one_host(cluster: LocalCluster, client: Cluster) -> None:
    spread, packed = client.deploy(chained("spread")), client.deploy(chained("packed", hosts="packed"))
    assert {im.partition(".")[0] for im in where(client, "spread")} == {"h1", "h2"}
    assert len({im.partition(".")[0] for im in where(client, "packed")}) == 1
    assert "host h1" in spread.explain() and "host h2" in spread.explain()
    for each in (spread, packed):
        each.delete()


def test_the_gateway_reaches_all_hosts(cluster: LocalCluster, client: Cluster) -> None:
    """It publishes and subscribes for clients of REST, at instances on both hosts."""
    running = client.deploy(windows("rest", visits("rest")))
    assert {im.partition(".")[0] for im in where(client, "rest")} == {"h1", "h2"}
    client.rest.get("/streams/rest.per_ip/answers?reader=r")
    given = rows(2000)
    for begin in range(0, len(given), 500):
        client.rest.post("/streams/rest.visits/records", given[begin : begin + 500])
    client.rest.post("/streams/rest.visits/records?end=true", [])
    found, ended = Counter[tuple[str, int]](), False
    while not ended:
        answer = client.rest.get("/streams/rest.per_ip/answers?reader=r&wait=20")
        found.update((row["ip"], row["visits"]) for row in answer["rows"])
        ended = answer["ended"]
    assert found == Counter((ip, count) for ip, count, *_ in expected_windows(given).elements())
    running.delete()


def test_a_host_that_vanishes_leaves_nothing(cluster: LocalCluster, client: Cluster, second: Joined) -> None:
    """What it had fails with that cause. No test behind this one has it."""
    running = client.deploy(chained("vanishing"))
    assert any(im.startswith("h2") for im in where(client, "vanishing"))
    second.kill()
    with pytest.raises(QueryFailed, match=r"'h2.im-0' .*is gone: its ZooKeeper session ended"):
        running.wait()
    until(lambda: names_of(cluster) == ["h1"])
    until(lambda: not any(im["id"].startswith("h2") for im in cluster.instance_managers()))
    running.delete()
