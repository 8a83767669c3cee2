"""The real cluster: ZooKeeper, orchestrator, metric server and two instance managers, each a process, and the driver in front of them.

Tests `driver/cluster.py`, `driver/local.py`, `instance_manager/service.py`.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cep.elements import describe_time
from cep.errors import ClusterError
from cep.plan.channels import ChannelId
from cep.transport import wire
from cep.transport.sockets import open_sockets
from cep.transport.wire import Header
from driver import (
    TIME,
    Conflict,
    DataError,
    LocalCluster,
    NotFound,
    Query,
    QueryError,
    QueryStopped,
    StreamEnded,
    avg,
    col,
    count,
    max_,
    min_,
    stream,
    sum_,
)
from tests.support.visits import BASE_MS, answers, answers_of, copies, expected, rows, visits, windows
from tests.support.waiting import HANG_S, until


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of its own for the query of each test: they share the cluster."""
    return re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")


def figures(cluster: LocalCluster, query: str, field: str) -> int:
    """Sum of a metric over the instances of a query."""
    placed = cluster.query(query).status()["placed"]
    return sum((instance.get("metrics") or {}).get(field, 0) for instance in placed)


# --- publishing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instances", [1, 2])
def test_several_publishers_and_readers(cluster: LocalCluster, name: str, instances: int) -> None:
    parts = [rows(4000, groups=50), rows(3000, start=500, groups=11), rows(1000, start=7, step_ms=40, groups=3)]
    running = cluster.deploy(windows(name, parallelism=instances))
    found = running.subscribe(f"{name}.per_ip")
    publishers = [cluster.publisher(f"{name}.visits", f"p{i}") for i in range(len(parts))]

    def publish(i: int) -> None:
        with publishers[i] as out:
            for start in range(0, len(parts[i]), 250):
                out.send(parts[i][start : start + 250])

    with ThreadPoolExecutor(len(parts)) as threads:
        done = list(threads.map(publish, range(len(parts))))
    assert len(done) == len(parts)
    assert answers(found) == expected(row for part in parts for row in part)
    read = {p["instance"] for p in running.status()["placed"] if p["subquery"] == "SQ1"}
    assert read == set(range(instances))


def test_all_ways_to_publish(cluster: LocalCluster, name: str) -> None:
    given = rows(60)
    whole = pa.table({"ip": [r["ip"] for r in given], "ts": [r["ts"] for r in given]})
    part = [whole.slice(i * 10, 10) for i in range(6)]
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        assert out.send(part[0]) == 10
        assert out.send(part[1].to_batches()[0]) == 10
        assert out.send(part[2].to_pandas()) == 10
        assert out.send(pl.from_arrow(part[3])) == 10
        assert out.send(iter(part[4].to_pylist())) == 10
        assert sum(out.send(row) for row in part[5].to_pylist()) == 10
        assert out.send([]) == 0
        assert out.send(pd.DataFrame({"ts": [], "ip": []}).astype({"ts": "int64", "ip": "str"})) == 0
    assert answers(found) == expected(given)


WRONG: list[tuple[Any, str]] = [
    ({"ip": "10.0.0.1"}, "ts"),
    ({"ip": "10.0.0.1", "ts": BASE_MS, "more": 1}, "more"),
    ({"ip": 7, "ts": BASE_MS}, "ip"),
    ({"ip": None, "ts": BASE_MS}, "ip"),
    ({"ip": "10.0.0.1", "ts": "yesterday"}, "ts"),
    ([{"ip": "10.0.0.1", "ts": BASE_MS}, 7], "row 1"),
    (pa.table({"ip": pa.array([1]), "ts": pa.array([BASE_MS])}), "ip"),
    (pa.table({"ip": ["10.0.0.1"]}), "ts"),
    (pa.table({"ip": ["10.0.0.1"], "ts": pa.array([1.5])}), "ts"),
    ("10.0.0.1", "str"),
    (7, "int"),
]


def test_what_does_not_fit_is_refused_whole(cluster: LocalCluster, name: str) -> None:
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        for wrong, place in WRONG:
            with pytest.raises(DataError, match=place) as refused:
                out.send(wrong)
            assert f"{name}.visits" in str(refused.value)
        out.send(rows(5))
    assert answers(found) == expected(rows(5))


def test_timestamps_by_unit(cluster: LocalCluster, name: str) -> None:
    units = {"s": BASE_MS // 1000, "ms": BASE_MS, "us": BASE_MS * 1000, "ns": BASE_MS * 1_000_000}
    fields = {unit: f"timestamp[{unit}]" for unit in units}
    declared = stream(f"{name}.in", {**fields, "plain": "timestamp"}, event_time="us", disorder="0s")
    query = Query(name).source(declared).map("all", {field: col(field) for field in (*units, "plain")}).output(f"{name}.out")
    found = cluster.deploy(query).subscribe(f"{name}.out", event_time=True)
    moment = datetime.fromtimestamp(BASE_MS / 1000, UTC)
    with cluster.publisher(declared) as out:
        out.send({**units, "plain": moment})
        with pytest.raises(DataError, match=r"ns.*whole µs"):
            out.send({**units, "ns": units["ns"] + 1, "plain": moment})
        with pytest.raises(DataError, match=r"plain.*takes no integers"):
            out.send({**units, "plain": 7})
    assert [batch.to_pylist() for batch in found] == [[dict.fromkeys([*units, "plain", "event_time"], moment)]]


def test_nulls(cluster: LocalCluster, name: str) -> None:
    declared = stream(
        f"{name}.in", key="string?", whole="int64?", real="float64?", flag="bool?", ts="timestamp[ms]?", event_time="ts", disorder="0s"
    )
    functions = {"n": count(), "known": count("whole"), "sum": sum_("whole"), "mean": avg("whole")}
    functions |= {"low": min_("real"), "high": max_("real")}
    query = Query(name).source(declared).aggregate("w", TIME("30s"), functions, by="key").output(f"{name}.out")
    running = cluster.deploy(query)
    found = running.subscribe(f"{name}.out")
    given = [
        {"key": None, "whole": None, "real": 1.5, "flag": True, "ts": BASE_MS},
        {"key": None, "whole": 3, "real": None, "flag": None, "ts": BASE_MS + 1},
        {"key": "k", "whole": None, "real": None, "flag": False, "ts": BASE_MS + 2},
        {"key": "k", "whole": 1, "real": 1.0, "flag": False, "ts": None},
    ]
    with cluster.publisher(declared) as out:
        out.send(given)
    got = {row["key"]: row for batch in found for row in batch.to_pylist()}
    assert got == {
        None: {"key": None, "n": 2, "known": 1, "sum": 3, "low": 1.5, "high": 1.5, "mean": 3.0},
        "k": {"key": "k", "n": 1, "known": 0, "sum": None, "low": None, "high": None, "mean": None},
    }
    letters = until(lambda: running.dead_letters()["letters"])
    assert [(letter["operator"], letter["reason"], letter["position"]) for letter in letters] == [
        (f"{name}.in", "event time is NULL", "record 3")
    ]


def test_publishers_of_nothing(cluster: LocalCluster, name: str) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        cluster.publisher("nowhere")
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        pass
    assert not answers(found)
    with pytest.raises(Exception, match="is closed"):
        out.send(rows(1))


def test_keep_open(cluster: LocalCluster, name: str) -> None:
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    for part in (0, 1):
        with cluster.publisher(f"{name}.visits", "always the same", keep_open=True) as out:
            out.send(rows(100, start=part * 100))
    with cluster.publisher(f"{name}.visits", "always the same") as out:
        out.send(rows(100, start=200))
    assert answers(found) == expected(rows(300))


def test_another_publisher_of_a_name_goes_on_in_the_process_of_the_first(cluster: LocalCluster, name: str) -> None:
    """Which was never closed."""
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    first = cluster.publisher(f"{name}.visits", "one")
    first.send(rows(100))
    with cluster.publisher(f"{name}.visits", "one") as second:
        second.send(rows(100, start=100))
        for refused in (lambda: first.send(rows(1)), first.accepted, first.close):
            with pytest.raises(ClusterError, match="another publisher of its name goes on in its place"):
                refused()
        second.send(rows(100, start=200))
    assert answers(found) == expected(rows(300))


def test_a_publisher_stays_where_another_one_of_its_name_cannot_be_opened(cluster: LocalCluster, name: str) -> None:
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits", "one") as first:
        first.send(rows(100))
        with pytest.raises(NotFound):
            cluster.open_publishers([first.stream, replace(first.stream, name="nowhere")], "one")
        first.send(rows(100, start=100))
    assert answers(found) == expected(rows(200))


def test_late_rows_are_counted(cluster: LocalCluster, name: str) -> None:
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    late = [{"ip": "late", "ts": BASE_MS}, {"ip": "late", "ts": BASE_MS + 1}]
    with cluster.publisher(f"{name}.visits") as out:
        out.send([*rows(500), *late])
        out.send(late)
    assert answers(found) == expected(rows(500))
    until(lambda: figures(cluster, name, "late") == 4)


# --- subscribing -----------------------------------------------------------------------------------------------------


def test_subscribed_before_deploy(cluster: LocalCluster, name: str) -> None:
    before = cluster.subscribe(f"{name}.per_ip")
    cluster.deploy(windows(name, parallelism=2))
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(1000))
    assert answers(before) == expected(rows(1000))


def test_subscribed_after_the_end(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(1000))
    until(lambda: running.status()["state"] == "ended")
    with pytest.raises(StreamEnded, match=str(len(expected(rows(1000))))) as ended:
        running.subscribe(f"{name}.per_ip")
    assert ended.value.rows == len(expected(rows(1000)))


def test_a_subscription_waits_for_the_next_query_not_for_one_that_is_over(cluster: LocalCluster, name: str) -> None:
    for round_ in (1, 2):
        before = cluster.subscribe(f"{name}.per_ip")
        query = windows(name)
        running = cluster.deploy(query.__class__(**{**query.__dict__, "name": f"{name}{round_}"}))
        with cluster.publisher(f"{name}.visits") as out:
            out.send(rows(100 * round_))
        assert answers(before) == expected(rows(100 * round_))
        until(lambda running=running: running.status()["state"] == "ended")


def test_two_subscribers(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    both = [running.subscribe(f"{name}.per_ip"), cluster.subscribe(f"{name}.per_ip")]
    given_up = running.subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(4000))
        given_up.close()
        out.send(rows(4000, start=4000))
    assert [answers(each) for each in both] == [expected(rows(8000))] * 2


def test_nobody_subscribes(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(1000))
    until(lambda: running.status()["state"] == "ended")
    until(lambda: figures(cluster, name, "dropped_rows") == len(expected(rows(1000))))


WIDE = 1000  # bytes of a row


def wide(name: str) -> Query:
    declared = stream(f"{name}.in", number=int, text=str)
    return Query(name).source(declared).map("all", number=col("number"), text=col("text")).output(f"{name}.out").options(parallelism=1)


def wide_rows(start: int, n: int) -> pa.Table:
    return pa.table({"number": range(start, start + n), "text": ["x" * WIDE] * n})


def test_a_slow_subscriber_slows_the_query(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(wide(name))
    slow = running.subscribe(f"{name}.out", on_slow="block", budget_bytes=1 << 20)
    sent: list[int] = []

    def publish() -> None:
        with cluster.publisher(f"{name}.in") as out:
            for part in range(100):
                sent.append(out.send(wide_rows(part * 1000, 1000)))

    publisher = threading.Thread(target=publish)
    publisher.start()
    until(lambda: any("credit on" in (p["waits_for"] or "") for p in running.status()["placed"]))
    assert sum(sent) < 100_000
    got = [number for batch in slow for number in batch.column("number").to_pylist()]
    publisher.join(HANG_S)
    assert got == list(range(100_000))


def test_a_slow_subscriber_loses_rows_that_are_counted(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(wide(name))
    quick = running.subscribe(f"{name}.out")
    slow = running.subscribe(f"{name}.out", on_slow="drop", budget_bytes=1 << 20)
    with ThreadPoolExecutor(1) as threads:
        all_of_it = threads.submit(lambda: sum(batch.num_rows for batch in quick))
        with cluster.publisher(f"{name}.in") as out:
            for part in range(20):
                out.send(wide_rows(part * 1000, 1000))
        assert all_of_it.result(HANG_S) == 20_000
    until(lambda: figures(cluster, name, "dropped_rows") > 0)
    kept = [number for batch in slow for number in batch.column("number").to_pylist()]
    assert kept == sorted(set(kept))
    assert 0 < len(kept) < 20_000
    until(lambda: figures(cluster, name, "dropped_rows") == 20_000 - len(kept))


def test_nonsense_harms_nobody(cluster: LocalCluster, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    epoch = cluster.query(name).status()["epoch"]
    out_of, into = ChannelId.outlet(name, f"{name}.per_ip", 0, epoch).id, ChannelId.entry(name, f"{name}.visits", 0, epoch).id
    sockets = open_sockets(f"ipc://{tmp_path_factory.mktemp('s')}/x")
    for manager in cluster.instance_managers():
        for nonsense in (b"", b"hello", b"hello" * 100, (2**63).to_bytes(8, "little") + Header(wire.BEAT, 0).pack()):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(manager["endpoint"].removeprefix("ipc://"))
                stranger.sendall(nonsense)
        for kind in (*range(1, 8), *range(16, 25)):
            for channel in (0, out_of, into):
                for body in (None, b"", b"{", b"[]", b'{"id": "x", "endpoint": "ipc:///nowhere", "on_slow": "never"}'):
                    sockets.send(manager["endpoint"], Header(kind, channel, 2**64 - 1), body)
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(100))
    assert answers(found) == expected(rows(100))
    assert len(cluster.instance_managers()) == 2
    sockets.close()


def test_on_slow_is_one_of_two(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    with pytest.raises(QueryError, match="on_slow"):
        running.subscribe(f"{name}.per_ip", on_slow="wait")
    with pytest.raises(QueryError, match="on_slow"):
        cluster.subscribe("whatever", on_slow="wait")
    assert len(cluster.instance_managers()) == 2


# --- the life of a query ---------------------------------------------------------------------------------------------


def test_stopped(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    found = running.subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits", keep_open=True) as out:
        out.send(rows(4000))
        fired = Counter(answers_of(found.next_batch(HANG_S)))
        running.stop()
        with pytest.raises(QueryStopped, match=name):
            fired += answers(found)
    assert fired <= expected(rows(3000))
    assert running.status()["state"] == "stopped"


def test_drained(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    found = running.subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits", keep_open=True) as out:
        out.send(rows(4000))
        until(lambda: figures(cluster, name, "rows_in") >= 4000)
        running.stop(drain=True)
    assert answers(found) == expected(rows(4000))
    assert running.status()["state"] == "stopped"


def test_deployed_but_not_started(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name), start=False)
    assert running.status()["state"] == "ready"
    found = running.subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(1000))
    with pytest.raises(TimeoutError):
        found.next_batch(0.3)
    running.start()
    assert answers(found) == expected(rows(1000))


def test_status_says_what_it_waits_for(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))

    def waits() -> str:
        return "; ".join(p["waits_for"] or "" for p in running.status()["placed"])

    until(lambda: f"a publisher of stream '{name}.visits': none is open" in waits())
    with cluster.publisher(f"{name}.visits", "the slow one") as out:
        until(lambda: "publisher the slow one of stream" in waits())
        out.send(rows(1))
        until(lambda: describe_time((BASE_MS - 2000) * 1000) in waits() and "at which operator" in waits() and "s ago" in waits())
    until(lambda: running.status()["state"] == "ended")
    assert {p["state"] for p in running.status()["placed"]} == {"ended"}


def test_deleted_and_deployed_anew(cluster: LocalCluster, name: str) -> None:
    for n in (100, 200):
        running = cluster.deploy(windows(name))
        found = running.subscribe(f"{name}.per_ip")
        with cluster.publisher(f"{name}.visits") as out:
            out.send(rows(n))
        assert answers(found) == expected(rows(n))
        running.delete()
        with pytest.raises(NotFound):
            cluster.query(name)


def test_attached_to_a_live_stream(cluster: LocalCluster, name: str) -> None:
    """
    ── first query ──────────────────────────▶
    windows   0      30     60     90     120 s
              │▒▒▒▒▒▒│▒▒▒▒▒▒│▒▒▓▓▓▓│▓▓▓▓▓▓│
    attached here ───────────────┘ S = 65 s + 1: the window that began before is withheld and counted
    """
    cluster.deploy(windows(f"{name}1", visits(name)))
    with cluster.publisher(f"{name}.visits", "far") as far, cluster.publisher(f"{name}.visits", "near") as near:
        far.send(rows(6500))  # up to 65 s
        near.send(rows(1000))  # up to 10 s
        second = cluster.deploy(windows(f"{name}2", visits(name)))
        found = second.subscribe(f"{name}2.per_ip")
        near.send(rows(11_000, start=1000))
        far.send(rows(5500, start=6500))
    whole = rows(5500, start=6500) + rows(11_000, start=1000)
    assert answers(found) == expected(row for row in whole if row["ts"] >= BASE_MS + 90_000)
    until(lambda: figures(cluster, f"{name}2", "incomplete") == 7)


def test_nothing_compiles_after_ready(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name, parallelism=2))

    def compiled() -> dict[str, int]:
        """By instance manager."""
        text = cluster.rest.text("/metrics")
        return {im: int(n) for im, n in re.findall(r'cep_process_compilations_total\{im="([^"]+)"\} (\d+)', text)}

    until(lambda: all(placed.get("metrics") for placed in running.status()["placed"]))  # reported since it is ready
    before = compiled()
    assert len(before) == 2 and min(before.values()) > 0
    found = running.subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(20_000, groups=1000))
        out.send(rows(2, start=20_000)[0])
    assert answers(found) == expected(rows(20_001, groups=1000)[:20_000] + rows(1, start=20_000))
    until(lambda: figures(cluster, name, "rows_in") >= 20_001)
    assert compiled() == before


# --- what cannot be deployed -----------------------------------------------------------------------------------------


def test_a_name_twice(cluster: LocalCluster, name: str) -> None:
    cluster.deploy(windows(name))
    with pytest.raises(Conflict, match=name):
        cluster.deploy(windows(name))
    with pytest.raises(Conflict, match="per_ip"):
        cluster.deploy(Query(f"{name}2").source(visits(name)).output(f"{name}.per_ip"))
    with pytest.raises(Conflict, match="visits"):
        cluster.deploy(Query(f"{name}3").source(visits(name, disorder="3s")).output(f"{name}.other"))


def documents(name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Documents that are no query, and where the error points."""

    def changed(path: str, value: Any) -> tuple[dict[str, Any], str]:
        document = windows(name).to_json()
        *way, last_ = path.strip("/").split("/")
        place: Any = document
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        place[int(last_) if isinstance(place, list) else last_] = value
        return document, path

    yield changed("/operators/0/input", "nowhere")
    yield changed("/operators/1/by", ["nobody"])
    yield changed("/operators/1/window", {"kind": "time", "size": "0s"})
    yield changed("/operators/1/window", {"kind": "time", "size": "1s", "advance": "2s"})
    yield changed("/operators/1/input", "window")
    yield changed("/operators/1/name", "pick")
    yield changed("/outputs/0/input", "nothing")
    yield changed("/more", 1)
    yield changed("/name", "a/b")
    yield changed("/options", {"parallelism": 0})
    yield changed("/options", {"message_policy": "sleep"})


def test_what_is_no_query(cluster: LocalCluster, name: str) -> None:
    for document, pointer in documents(name):
        with pytest.raises(QueryError) as refused:
            cluster.deploy(document)
        assert refused.value.pointer.startswith(pointer.rsplit("/", 1)[0]), (document, refused.value, refused.value.pointer)
    assert name not in [query["name"] for query in cluster.queries()]


def test_names_of_any_kind(cluster: LocalCluster) -> None:
    name = "Größe: 50 % {a}~b@2"
    found = cluster.deploy(windows(name)).subscribe(f"{name}.per_ip")
    with cluster.publisher(f"{name}.visits", "Ünï?&#=%20") as out:
        out.send(rows(100))
    assert answers(found) == expected(rows(100))
    cluster.query(name).delete()


def test_copies_of_rows(cluster: LocalCluster, name: str) -> None:
    found = cluster.deploy(copies(name)).subscribe(f"{name}.all")
    with cluster.publisher(f"{name}.visits") as out:
        out.send(rows(1000))
    assert [row["ip"] for batch in found for row in batch.to_pylist()] == [row["ip"] for row in rows(1000)]


def test_a_stream_that_the_query_does_not_put_out(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name))
    with pytest.raises(NotFound, match=f"puts out no stream 'other'; it has {name}.per_ip"):
        running.subscribe("other")
