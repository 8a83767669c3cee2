"""`kill -9` of every part of a cluster while tuples flow, and what is left when a cluster ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from driver import ClusterError, LocalCluster, Publisher, Query, QueryFailed, QueryStopped, Running, Subscription, col, stream
from tests.support.one_cluster import ONE_CLUSTERS
from tests.support.paths import ROOT
from tests.support.visits import answers, answers_of, copies, expected, rows, windows
from tests.support.waiting import HANG_S, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    """The shared one, in which nothing is as it was in the end; the file behind this one kills its supervisor."""
    return ONE_CLUSTERS["impatient"].get(tmp_path_factory.getbasetemp())


class Flow(threading.Thread):
    """Publishes without end, a little at a time, until told to stop; knows how many rows it has sent."""

    def __init__(self, publisher: Publisher) -> None:
        super().__init__(daemon=True)
        self.publisher, self.sent, self.enough = publisher, 0, threading.Event()
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            with self.publisher as out:
                while not self.enough.wait(0.02):
                    self.sent += out.send(rows(100, start=self.sent))
        except ClusterError as error:
            self.error = error

    def more(self, n: int = 2000) -> None:
        """Returns when `n` more rows are sent: it still flows."""
        goal = self.sent + n
        until(lambda: self.sent >= goal)

    def end(self) -> int:
        self.enough.set()
        self.join(HANG_S)
        return self.sent


class Reading(threading.Thread):
    """Reads to the end; `answers` so far, and the error that it ended with."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(daemon=True)
        self.subscription, self.answers, self.error = subscription, Counter[object](), None
        self.start()

    def run(self) -> None:
        try:
            for batch in self.subscription:
                self.answers.update(answers_of(batch))
        except (ClusterError, QueryFailed, QueryStopped) as error:
            self.error: Exception | None = error

    def more(self, n: int = 3) -> None:
        """Returns when `n` more answers have come."""
        goal = self.answers.total() + n
        until(lambda: self.answers.total() >= goal)


def deployed(cluster: LocalCluster, name: str) -> tuple[Running, Reading, Flow]:
    running = cluster.deploy(windows(name, parallelism=2))
    return running, Reading(running.subscribe(f"{name}.per_ip")), Flow(cluster.publisher(f"{name}.visits"))


def pid(cluster: LocalCluster, name: str) -> int:
    return dict(cluster.processes())[name]


def kill(cluster: LocalCluster, name: str) -> None:
    """And waits until another one is there, and the supervisor has told of the death."""
    killed, before = pid(cluster, name), deaths(cluster, name)
    os.kill(killed, signal.SIGKILL)
    until(lambda: dict(cluster.processes()).get(name, killed) != killed)
    until(lambda: answered(lambda: deaths(cluster, name)) == before + 1)


def deaths(cluster: LocalCluster, name: str) -> int:
    """As REST says."""
    [supervisor] = cluster.supervisors()
    return next(int(child["deaths"]) for child in supervisor["children"] if child["name"] == name)


def epochs(cluster: LocalCluster) -> dict[str, int]:
    return {query["name"]: cluster.query(query["name"]).status()["epoch"] for query in cluster.queries()}


def test_the_orchestrator_is_killed(cluster: LocalCluster) -> None:
    running, reading, flow = deployed(cluster, "q1")
    stopped, stopped_reading, stopped_flow = deployed(cluster, "q2")
    before = epochs(cluster)
    died = deaths(cluster, "orchestrator")
    os.kill(pid(cluster, "orchestrator"), signal.SIGKILL)
    flow.more()  # nothing has waited for the next one: it flows meanwhile
    reading.more()
    assert {"q1", "q2"} <= {query["name"] for query in cluster.queries()}
    until(lambda: running.status()["state"] == "running")
    assert epochs(cluster) == before and deaths(cluster, "orchestrator") == died + 1
    assert running.explain() and running.status()["placed"][0]["metrics"]
    stopped.stop()
    stopped_reading.join(HANG_S)
    assert isinstance(stopped_reading.error, QueryStopped)
    stopped_flow.end()
    flow.more()
    assert cluster.deploy(copies("q3")).status()["state"] == "running"
    sent = flow.end()
    reading.join(HANG_S)
    assert reading.answers == expected(rows(sent))


def test_zookeeper_is_killed(cluster: LocalCluster) -> None:
    running, reading, flow = deployed(cluster, "z1")
    before, managers = epochs(cluster), [manager["pid"] for manager in cluster.instance_managers()]
    kill(cluster, "zookeeper")
    flow.more()
    reading.more()
    until(lambda: cluster.rest.client.get("/health").status_code == 200)
    until(lambda: len(cluster.instance_managers()) == 2)
    assert running.status()["state"] == "running"
    assert epochs(cluster) == before
    assert [manager["pid"] for manager in cluster.instance_managers()] == managers
    assert cluster.deploy(copies("z2")).status()["state"] == "running"
    sent = flow.end()
    reading.join(HANG_S)
    assert reading.answers == expected(rows(sent))
    until(lambda: running.status()["state"] == "ended")


def test_the_metric_server_is_killed(cluster: LocalCluster) -> None:
    running = cluster.deploy(windows("m1"))
    kill(cluster, "metric-server")
    until(lambda: any(placed.get("metrics") for placed in running.status()["placed"]))
    running.stop()


def test_what_a_query_that_has_ended_did_not_use_is_known_without_the_metric_server(cluster: LocalCluster) -> None:
    """It is stopped before it hears of the rows, and killed when the query has ended."""
    source = stream("m2.in", n=int, ts="timestamp[ms]", event_time="ts", disorder="2s")
    running = cluster.deploy(Query("m2").source(source).map("m", tenth=10 // col("n")).output("m2.out"))
    os.kill(pid(cluster, "metric-server"), signal.SIGSTOP)
    with cluster.publisher("m2.in") as out:
        out.send([{"n": n, "ts": ts} for n, ts in ((1, 0), (0, 5000), (2, 9000), (3, 1), (4, 2))])
    until(lambda: running.cluster.rest.get("/queries/m2?figures=false")["state"] == "ended")
    kill(cluster, "metric-server")
    assert running.status()["unused"] == {"late": 2, "odd_times": 0, "before_since": 0, "dead_letters": 1}
    found = until(lambda: answered(running.dead_letters))
    assert (found["counts"], found["total"]) == ({"m": 1}, 1)


def answered(ask: Callable[[], Any]) -> Any:
    """None: nothing is there yet."""
    try:
        return ask()
    except ClusterError:
        return None


CLIENT = """
import sys
sys.path[:0] = sys.argv[4:]
from driver import Cluster, ClusterError
from tests.support.visits import rows
cluster = Cluster(sys.argv[1])
out = cluster.publisher("p1.visits", sys.argv[2])
reading = cluster.query("p1").subscribe("p1.per_ip", keep_s=3.0)
out.send(rows(500, start=int(sys.argv[3])))
print("sent", flush=True)
def send():
    while True:
        out.send(rows(1))
for action in (send, reading.next_batch):
    sys.stdin.readline()
    try:
        action()
    except ClusterError as error:
        print(error, flush=True)
sys.stdin.readline()  # it lives, so it cannot be said that it has sent nothing more
"""


@contextmanager
def client(cluster: LocalCluster, name: str, start: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a publisher and a subscription of query p1, which has sent 500 rows from row `start` on."""
    command = [sys.executable, "-c", CLIENT, cluster.rest.url, name, str(start), str(ROOT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        says(process, "sent")
        try:
            yield process
        finally:
            process.kill()


def test_clients_are_killed_and_frozen(cluster: LocalCluster) -> None:
    """They end nothing, and their rows count. One that wakes up is told that it is too late; with it gone the stream could end, but what it
    has sent since is missing."""
    running = cluster.deploy(windows("p1"))
    found = running.subscribe("p1.per_ip")

    def metrics(field: str) -> list[Any]:
        """Of the two readers of the stream."""
        return [placed["metrics"][field] for placed in running.status()["placed"] if placed["subquery"] == "SQ1" and placed["metrics"]]

    doomed_client, frozen_client, out = client(cluster, "doomed", 0), client(cluster, "frozen", 500), cluster.publisher("p1.visits")
    with doomed_client as doomed, frozen_client as frozen:
        out.send(rows(500, start=1000))
        until(lambda: sum(metrics("rows_in")) >= 1500)
        doomed.kill()
        frozen.send_signal(signal.SIGSTOP)
        until(lambda: metrics("vanished_publishers") == [["doomed", "frozen"]] * 2)
        out.send(rows(500, start=1500))
        frozen.send_signal(signal.SIGCONT)
        assert frozen.stdin is not None and frozen.stdout is not None
        for complaint in (b"silent for so long that it counts as closed", b"silent for too long and was dropped"):
            frozen.stdin.write(b"go on\n")
            frozen.stdin.flush()
            assert complaint in frozen.stdout.readline()
        out.close()
        with pytest.raises(QueryFailed, match=r"'frozen' was silent for so long that it counts as closed, .* sent more"):
            answers(found)


def test_an_instance_manager_is_killed(cluster: LocalCluster) -> None:
    hit = cluster.deploy(windows("k1", parallelism=2))
    one = cluster.deploy(windows("k2", parallelism=1))
    victim = next(iter({m["id"] for m in cluster.instance_managers()} - {p["im"] for p in one.status()["placed"]}))
    hit_reading, other_reading = Reading(hit.subscribe("k1.per_ip")), Reading(one.subscribe("k2.per_ip"))
    hit_flow, other_flow = Flow(cluster.publisher("k1.visits")), Flow(cluster.publisher("k2.visits"))
    other_reading.more()
    dead = pid(cluster, victim)
    os.kill(dead, signal.SIGKILL)
    hit_reading.join(HANG_S)
    assert isinstance(hit_reading.error, QueryFailed)
    assert victim in str(hit_reading.error) and "k1" in str(hit_reading.error)
    status = until(lambda: (found := hit.status())["state"] == "failed" and found)
    assert victim in status["cause"]["cause"] and str(dead) in status["cause"]["cause"]
    with pytest.raises(QueryFailed, match=victim):
        hit.subscribe("k1.per_ip")
    hit_flow.more()  # a publisher goes on, for the other readers of its stream
    other_flow.more()
    other_reading.more()
    assert one.status()["state"] == "running"
    sent = other_flow.end()
    other_reading.join(HANG_S)
    assert other_reading.answers == expected(rows(sent))
    hit_flow.end()
    hit.delete()
    again, reading, flow = deployed(cluster, "k1")  # of the same name, on an instance manager that has none of the old state
    reading.more()
    assert again.status()["state"] == "running" and pid(cluster, victim) != dead
    sent = flow.end()
    reading.join(HANG_S)
    assert reading.answers == expected(rows(sent))


# --- what is left ----------------------------------------------------------------------------------------------------

PARENT = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # started with `&` it is ignored
sys.path[:0] = sys.argv[1:]
from driver import LocalCluster
from tests.support.visits import rows, windows
print("starting", flush=True)
with LocalCluster(instances=1) as cluster:
    running = cluster.deploy(windows("q"))
    found = running.subscribe("q.per_ip")
    before = cluster.subscribe("nobody.makes.it")
    with cluster.publisher("q.visits") as out:
        out.send(rows(100))
        print("running", flush=True)
        if "leave" not in sys.stdin.readline():
            threading.Event().wait()
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder for a parent, with a name short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="left-") as folder:
        yield Path(folder)


@contextmanager
def parent(temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", PARENT, str(ROOT)]
    environment = os.environ | {"TMPDIR": str(temporary), "NUMBA_DISABLE_JIT": "1"}
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[bytes], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().decode().strip() == word


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


def interrupted(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"KeyboardInterrupt" in process.stderr.read()


def left(process: subprocess.Popen[bytes]) -> None:
    assert process.communicate(b"leave\n", HANG_S)[1] == b""
    assert process.returncode == 0


ENDINGS: dict[str, Callable[[subprocess.Popen[bytes]], None]] = {
    "leaving the block": left,
    "Ctrl-C": interrupted,
    "kill -9": subprocess.Popen.kill,
}


# Ctrl-C during the start, below, is the harder one.
@pytest.mark.parametrize("ending", [*(pytest.param(each, marks=pytest.mark.long) for each in ("leaving the block", "Ctrl-C")), "kill -9"])
def test_nothing_is_left(temporary: Path, ending: str) -> None:
    with parent(temporary) as process:
        says(process, "starting")
        says(process, "running")
        children = family(process)
        assert len(children) >= 5
        ENDINGS[ending](process)
        process.wait(HANG_S)
        until(lambda: gone(children))
        until(lambda: not list(temporary.iterdir()))


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long), 4])
def test_nothing_is_left_after_ctrl_c_during_the_start(temporary: Path, processes: int) -> None:
    with parent(temporary) as process:
        says(process, "starting")
        children = until(lambda: len(found := family(process)) >= processes and found)
        children += family(process)
        interrupted(process)
        process.wait(HANG_S)
        until(lambda: gone(children))
        until(lambda: not list(temporary.iterdir()))
