"""Everything of a `cep up` is killed, and a cluster is started on the same folder: what recovers goes on from its last commit,
subscriptions too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from driver import TIME, Cluster, ClusterError, LocalCluster, Query, Subscription, count, files, stream, sum_, window_start
from tests.support.killed_program import killed_after
from tests.support.paths import ROOT
from tests.support.visits import visits
from tests.support.waiting import HANG_S, until

ROWS, KEYS = 60_000, 500
BUDGET_BYTES = 1 << 16  # what is not acknowledged holds the query up: it cannot end before it is to


@pytest.fixture
def home() -> Iterator[str]:
    with TemporaryDirectory(prefix="cep-cold-") as folder:  # short enough for sockets
        yield f"{folder}/home"


def query(folder: Path) -> Query:
    (folder / "rows.txt").write_text("".join(f"{i},{i * 7919 % KEYS},{i % 1000}\n" for i in range(ROWS)))
    paths = str(folder / "rows.txt")
    read = files("rows", t="timestamp[ms]", key=int, value=int, paths=paths, event_time="t", disorder="1s", block_bytes=1 << 16)
    made = Query("sums").source(read).aggregate("w", TIME("2s"), by="key", start=window_start(), n=count(), total=sum_("value"))
    return made.output("totals").options(parallelism=2, checkpoint="100ms")


def rows_of(batch: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


@contextmanager
def cep_up(folder: Path, home: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`cep up` as a process, and the URL that it says."""
    words = ["up", "--port", "0", "--instances", "2", "--data", str(folder), "--home", home, "--recover", "on-commit"]
    command = [sys.executable, "-P", "-c", "from driver.processes.command_line import main; main()", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            until(lambda: "Ctrl-C" in process.stdout.readline())
            yield process, said.split()[2]
        finally:
            process.kill()


def kill_all(up: subprocess.Popen[str]) -> None:
    """The supervisor takes the others along, and `cep up` ends and says so."""
    (supervisor,) = psutil.Process(up.pid).children()
    processes = supervisor.children(recursive=True)
    supervisor.kill()
    assert up.wait(HANG_S) == 1 and up.stderr is not None
    assert f"supervisor (process {supervisor.pid}) was killed by SIGKILL" in up.stderr.read()
    until(lambda: not any(Path(f"/proc/{each.pid}").exists() for each in processes))


def counting() -> Query:
    made = Query("counts").source(stream("visits", t="timestamp[ms]", key=int, event_time="t", disorder="1s"))
    made = made.aggregate("w", TIME("10s"), by="key", start=window_start(), n=count()).output("counted")
    return made.options(parallelism=2, checkpoint="200ms")


def test_queries_go_on_and_their_readers_and_programs_with_them(home: str, tmp_path: Path) -> None:
    """One query reads files; to another a program published that was killed, and one that comes again goes on behind what it sent. Neither
    says that it recovers: the cluster in which they were deployed did, and that stays."""
    with cep_up(tmp_path, home) as (up, url), Cluster(url) as cluster:
        running = cluster.deploy(query(tmp_path), start=False)
        other = cluster.deploy(Query("plain").source(visits("plain.in")).output("plain.out").options(recover="off"))
        totals = running.subscribe("totals", resumable=True, budget_bytes=BUDGET_BYTES)
        running.start()
        taken, token = begin(totals)
        counts = cluster.deploy(counting(), start=False)
        counted = counts.subscribe("counted", resumable=True)
        counts.start()
        accepted = killed_after(cluster, "visits", 20_000)
        batch = counted.next_batch(HANG_S)
        assert batch is not None
        of_program, from_there = rows_of(batch), counted.token()
        with pytest.raises(ClusterError, match=r"a cluster runs in .* already"):
            LocalCluster(instances=1, lasting_home=home)
        kill_all(up)
    # One that has not come within a session's time counts as lost: here each does, however busy the machine is.
    with LocalCluster(instances=2, data=[tmp_path], lasting_home=home, session_timeout_s=HANG_S) as cluster:
        come = send_on(cluster, accepted)
        of_program += rest(cluster.subscribe("counted", resume=from_there))
        taken += rest(cluster.subscribe("totals", resume=token))
        running = cluster.query("sums")
        for each in (running, cluster.query("counts")):
            each.wait()
        assert running.status()["recovery"]["attempts"] >= 1
        assert len({place["im"] for place in running.status()["placed"]}) == 2, "all instance managers were waited for"
        assert "was started anew" in str(cluster.query(other.name).status()["cause"]), "what does not recover fails, by name"
        assert [each["name"] for each in cluster.queries()] == ["counts", "plain", "sums"]
    assert len(taken) == len({row[:2] for row in taken}) == ROWS // 2000 * KEYS
    assert sum(n for *_, n, _ in taken) == ROWS
    assert sum(total for *_, total in taken) == sum(i % 1000 for i in range(ROWS))
    assert len(of_program) == len({row[:2] for row in of_program})
    assert sum(row[-1] for row in of_program) == come + 5000


def begin(answers: Subscription) -> tuple[list[tuple[Any, ...]], str]:
    """Some answers, acknowledged, and the token behind them; and one batch more, of which nothing is made."""
    taken: list[tuple[Any, ...]] = []
    while len(taken) < ROWS // 20:
        batch = answers.next_batch(HANG_S)
        assert batch is not None
        taken += rows_of(batch)
        token = answers.token()
        answers.acknowledge(token)
    assert answers.next_batch(HANG_S) is not None
    return taken, token


def rest(answers: Subscription) -> list[tuple[Any, ...]]:
    """All that there is yet, acknowledged."""
    taken: list[tuple[Any, ...]] = []
    for batch in answers:
        taken += rows_of(batch)
        answers.acknowledge(answers.token())
    answers.acknowledge(answers.token())
    return taken


def send_on(cluster: Cluster, accepted: int) -> int:
    """As the program that was killed; how many rows of it had come."""
    with cluster.publisher("visits", name="p") as out:
        come = out.accepted()
        assert come - accepted in (0, 500), "of the batch that was being sent all or nothing"
        out.send([{"t": i * 10, "key": i % 7} for i in range(come, come + 5000)])
    return come
