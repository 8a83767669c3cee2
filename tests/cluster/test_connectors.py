"""Connectors at work in a real cluster: files in, a window, files and a table out, while their process and an instance manager are killed.

Tests `connectors/running/source_run.py`, `connectors/running/sink_run.py`, `connectors/running/run.py`, `connectors/running/fleet.py`,
`driver/connecting.py`, `orchestrator/service_thread.py`, `orchestrator/rest/cluster_metrics.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from driver import TIME, LocalCluster, Query, col, count, stream, sum_, window_start
from driver.cli import app
from tests.support.one_cluster import lives
from tests.support.paths import ROOT
from tests.support.postgres import INITDB, PostgresServer, postgres
from tests.support.s3_server import WEED, S3Server
from tests.support.waiting import HANG_S, until

FILES, ROWS, KEYS = 8, 1000, 7
BAD = (2, 5)  # a line of a file that is no row


@pytest.fixture(autouse=True)
def no_connectors(cluster: LocalCluster) -> Iterator[None]:
    yield
    for each in cluster.connectors():
        cluster.disconnect(each["name"])


def query(name: str, **options: Any) -> Query:
    source = stream(f"{name}.in", t="timestamp[ms]", key=int, n=int, event_time="t", disorder="1s")
    made = Query(name).source(source).aggregate("w", TIME("2s"), by="key", start=window_start(), visits=count(), total=sum_("n"))
    return made.output(f"{name}.out").options(recover="on-commit", checkpoint="100ms", **options)


def record(i: int) -> dict[str, int]:
    return {"t": i * 10, "key": i % KEYS, "n": i}


def put(folder: Path, file: int, records: list[dict[str, int]], bad: int | None = None) -> None:
    lines = ["nonsense" if at == bad else json.dumps(each) for at, each in enumerate(records)]
    part = folder / f".{file:04d}"
    part.write_text("\n".join(lines))
    part.rename(folder / f"{file:04d}.jsonl")


def answers(folder: Path) -> list[tuple[str, int, int, int]]:
    lines = (line for file in sorted(folder.glob("out-*.jsonl")) for line in file.read_text().splitlines())
    return [(row["start"], row["key"], row["visits"], row["total"]) for row in map(json.loads, lines)]


def lines_in(folder: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in folder.glob("out-*.csv"))


def kill(cluster: LocalCluster, process: str) -> None:
    """The one that lives."""

    def living() -> int | None:
        pid = dict(cluster.processes()).get(process)
        return pid if pid is not None and lives(pid) else None

    os.kill(until(living), signal.SIGKILL)


def state(cluster: LocalCluster, name: str) -> dict[str, Any]:
    return next(each for each in cluster.connectors() if each["name"] == name)


def expected() -> list[tuple[str, int, int, int]]:
    """What is not beyond the last window that closes."""
    sums: dict[tuple[int, int], list[int]] = {}
    for i in range(FILES * ROWS):
        if divmod(i, ROWS) != BAD:
            sums.setdefault((i * 10 // 2000, i % KEYS), []).append(i)
    return [(f"1970-01-01T00:{w * 2 // 60:02d}:{w * 2 % 60:02d}+00:00", k, len(ns), sum(ns)) for (w, k), ns in sums.items()]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as made:
        yield made


def rows_in(admin: psycopg.Connection) -> list[tuple[str, int, int, int]]:
    found = admin.execute("SELECT start AT TIME ZONE 'UTC', key, visits, total FROM answers").fetchall()
    return [(f"{start.isoformat()}+00:00", key, visits, total) for start, key, visits, total in found]


def feed_and_kill(cluster: LocalCluster, inside: Path, manager: str, found: Callable[[], object]) -> None:
    """As soon as answers are found, the process of connectors, and that and an instance manager."""
    for file in range(FILES):
        put(inside, file, [record(i) for i in range(file * ROWS, (file + 1) * ROWS)], BAD[1] if file == BAD[0] else None)
        if file == BAD[0]:
            until(lambda: state(cluster, "in")["dead_letters"])
            letter = cluster.rest.get("/connectors/in/dead-letters")[0]
            assert (letter["place"], letter["value"]) == (f"{inside}/0002.jsonl@6", "nonsense")
        if file in (3, 5):
            until(found)
            kill(cluster, "connectors")
        if file == 5:
            kill(cluster, manager)
    put(inside, FILES, [record(FILES * ROWS + 1000)])


@pytest.mark.skipif(not INITDB, reason="needs PostgreSQL")
def test_each_answer_is_there_once_whatever_is_killed(cluster: LocalCluster, server: PostgresServer, tmp_path: Path) -> None:
    """In files and in a table."""
    admin = server.connect()
    (inside := tmp_path / "in").mkdir()
    outside = tmp_path / "out"
    cluster.connect({"name": "out", "stream": "way.out", "to": {"connector": "files", "path": str(outside), "roll_s": 0.1}})
    until(lambda: state(cluster, "out")["error"] == "no query puts the stream out")
    admin.execute("CREATE TABLE answers (start timestamptz, key bigint, visits bigint, total bigint)")
    table = {"connector": "postgres", "conninfo": server.conninfo, "table": "answers"}
    cluster.connect({"name": "table", "stream": "way.out", "to": table})
    until(lambda: state(cluster, "table")["error"] == "no query puts the stream out")
    running = cluster.deploy(query("way"))
    cluster.connect({"name": "in", "stream": "way.in", "from": {"connector": "files", "path": str(inside)}})
    feed_and_kill(cluster, inside, running.status()["placed"][0]["im"], lambda: answers(outside))
    until(lambda: len(answers(outside)) >= len(expected()))
    assert sorted(answers(outside)) == sorted(expected())
    until(lambda: len(rows_in(admin)) >= len(expected()))
    assert sorted(rows_in(admin)) == sorted(expected())
    assert state(cluster, "in")["epoch"] > 3
    admin.close()
    until(lambda: 'cep_connector_up{connector="out"} 1' in cluster.metrics())
    assert 'cep_connector_dead_letters_total{connector="in"} 0' in cluster.metrics()


@pytest.mark.long
@pytest.mark.skipif(WEED is None, reason="needs SeaweedFS")
def test_each_answer_is_there_once_in_a_store_of_objects(cluster: LocalCluster, tmp_path: Path) -> None:
    """A real server of S3; the secret is in a file."""
    (inside := tmp_path / "in").mkdir()
    (tmp_path / "s3").mkdir()
    server = S3Server(tmp_path / "s3")
    (secret := tmp_path / "secret").write_text("any")
    options = server.options | {"secret": f"${{file:{secret}}}"}
    end = {"connector": "files", "path": "s3://bucket/objects", "store": options, "format": "parquet", "roll_s": 0.1}
    cluster.connect({"name": "objects", "stream": "objects.out", "to": end})
    until(lambda: state(cluster, "objects")["error"] == "no query puts the stream out")
    running = cluster.deploy(query("objects"))
    cluster.connect({"name": "in", "stream": "objects.in", "from": {"connector": "files", "path": str(inside)}})

    def objects() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pyarrow.dataset.dataset("bucket/objects", filesystem=server.store).to_table().to_pylist()
        return rows

    def found() -> bool:
        return any(name.endswith(".parquet") for name in server.store.ls("bucket/objects", detail=False, refresh=True))

    feed_and_kill(cluster, inside, running.status()["placed"][0]["im"], found)
    until(lambda: len(objects()) >= len(expected()))
    rows = sorted((row["start"].isoformat(), row["key"], row["visits"], row["total"]) for row in objects())
    assert rows == sorted(expected())
    server.stop()


@pytest.mark.skipif(not INITDB, reason="needs PostgreSQL")
def test_a_table_to_look_up_in(cluster: LocalCluster, server: PostgresServer) -> None:
    """The example of docs/connectors.md: an order has the rate of its time, whenever the table changes."""
    page = (ROOT / "docs/connectors.md").read_text()
    (sql,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    admin = server.connect()
    admin.execute(sql)
    admin.execute("INSERT INTO rates VALUES ('EUR', 2), ('USD', 3)")
    there: dict[str, Any] = {"cluster": cluster, "stream": stream, "Query": Query, "col": col, "conninfo": server.conninfo}
    exec(code, there)
    with there["running"].subscribe("prices") as reader, cluster.publisher("orders") as orders:

        def price(currency: str) -> float | None:
            orders.send([{"currency": currency, "amount": 10.0}])
            found: float | None = reader.next_batch(timeout=HANG_S).column("price")[0].as_py()
            return found

        until(lambda: [price("EUR"), price("USD")] == [20.0, 30.0])
        admin.execute("UPDATE rates SET rate = 4 WHERE currency = 'EUR'")
        admin.execute("INSERT INTO rates VALUES ('GBP', 5)")
        until(lambda: [price("EUR"), price("USD"), price("GBP")] == [40.0, 30.0, 50.0])
    admin.close()
    there["running"].stop()


def test_a_source_that_ends_ends_its_stream_and_a_sink_waits_for_the_next(cluster: LocalCluster, tmp_path: Path) -> None:
    (inside := tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist([{**record(i), "t": str(i)} for i in range(7)]), inside / "0")
    pq.write_table(pa.Table.from_pylist([{**record(i), "more": []} for i in range(50)]), inside / "1")
    (inside / "2").write_text("nonsense")
    pq.write_table(pa.Table.from_pylist([record(i) for i in range(50, 100)]), inside / "3")
    cluster.connect(
        {"name": "out", "stream": "end.out", "to": {"connector": "files", "path": str(tmp_path), "format": "csv", "roll_s": 0.1}}
    )
    until(lambda: state(cluster, "out")["state"] == "waiting" and state(cluster, "out")["error"])
    running = cluster.deploy(query("end"))
    parquet = {"connector": "files", "path": str(inside), "follow": False, "format": "parquet"}
    cluster.connect({"name": "in", "stream": "end.in", "from": parquet})
    running.wait()
    until(lambda: state(cluster, "in")["dead_letters"] == 8)
    letters = [(each["place"], each["reason"]) for each in cluster.rest.get("/connectors/in/dead-letters")]
    assert [place for place, _ in letters] == [f"{inside}/0@1", f"{inside}/2@1"]
    assert "field t: timestamp" in letters[0][1] and "the file cannot be read" in letters[1][1]
    until(lambda: state(cluster, "in")["state"] == "ended" and list(tmp_path.glob("out-*.csv")))
    assert lines_in(tmp_path) == KEYS
    running.delete()
    again = cluster.deploy(query("end"))
    with cluster.publisher("end.in") as out:
        out.send([record(i) for i in range(100)])
    again.wait()
    until(lambda: lines_in(tmp_path) == 2 * KEYS)


@pytest.mark.long
@pytest.mark.timeout(200)
def test_rows_whose_memory_is_lost_fail_the_query_by_name(tmp_path: Path) -> None:
    """Rows that no checkpoint covers lie in shared memory. Where that is gone, and an instance manager dies too, the query says whose rows
    they were, and answers nothing that lacks them."""
    (inside := tmp_path / "in").mkdir()
    with LocalCluster(2, data=[tmp_path]) as own:
        own.connect({"name": "out", "stream": "way.out", "to": {"connector": "files", "path": str(tmp_path / "out"), "roll_s": 0.1}})
        until(lambda: state(own, "out")["error"] == "no query puts the stream out")
        running = own.deploy(query("way").options(recover="on-commit", checkpoint="10s"))
        own.connect({"name": "in", "stream": "way.in", "from": {"connector": "files", "path": str(inside)}})
        put(inside, 0, [record(i) for i in range(1000)])
        before = until(lambda: answers(tmp_path / "out"))
        put(inside, 1, [record(i) for i in range(1000, 2000)])
        until(lambda: state(own, "in")["rows"] == 2000)
        pid = dict(own.processes())["connectors"]
        (ring,) = (each.parent for each in Path("/dev/shm").glob("*/sent/*/owner") if json.loads(each.read_text())["pid"] == pid)
        os.kill(pid, signal.SIGSTOP)
        shutil.rmtree(ring.parent)
        os.kill(pid, signal.SIGKILL)
        kill(own, running.status()["placed"][0]["im"])
        until(lambda: running.status()["state"] == "failed", 90)
        until(lambda: "sent behind the last checkpoint is lost" in state(own, "out")["error"])
        assert answers(tmp_path / "out") == before


def test_one_that_fails_says_why_and_harms_no_other(cluster: LocalCluster, tmp_path: Path) -> None:
    """And is tried again until it can."""
    files = {"connector": "files", "path": str(tmp_path / "later")}
    cluster.connect({"name": "early", "stream": "nowhere", "from": files})
    until(lambda: "there is no stream 'nowhere'" in state(cluster, "early")["error"])
    runner = CliRunner()
    told = runner.invoke(app, ["status", "--url", cluster.rest.url]).output
    assert "connector early is failing: " in told
    cluster.declare(stream("nowhere", t=int, key=int, n=int))
    until(lambda: "No such file or directory" in state(cluster, "early")["error"])
    (tmp_path / "later").mkdir()
    put(tmp_path / "later", 0, [record(0)])
    until(lambda: state(cluster, "early")["rows"] == 1)
    epoch = state(cluster, "early")["epoch"]
    cluster.connect({"name": "early", "stream": "nowhere", "from": files | {"pattern": "*.jsonl"}})  # it goes on where it was
    until(lambda: state(cluster, "early")["epoch"] > epoch and state(cluster, "early")["state"] == "running")  # before, the other reads on
    put(tmp_path / "later", 1, [record(1), record(2)])
    until(lambda: state(cluster, "early")["rows"] == 2)
    assert state(cluster, "early")["error"] == ""
    listed = runner.invoke(app, ["connectors", "--url", cluster.rest.url]).output
    assert "from files" in listed and "running" in listed
    assert runner.invoke(app, ["disconnect", "--url", cluster.rest.url, "earl"]).exception is not None
    assert "early: stopped" in runner.invoke(app, ["disconnect", "--url", cluster.rest.url, "early"]).output


def test_documents_are_declared_from_files(cluster: LocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "connectors.yaml"
    file.write_text(
        f"name: good\nstream: s\nfrom: {{connector: files, path: {tmp_path}}}\n---\nname: bad\nstream: s\nfrom: {{connector: fils}}\n"
    )
    done = CliRunner().invoke(app, ["connect", "--url", cluster.rest.url, str(file)])
    assert (
        done.exit_code == 1
        and "good: declared" in done.output
        and "(did you mean 'files'?)" in done.output
        and "(at /from/connector)" in done.output
    )
