"""What clients notice of an orchestrator that is stopped, of instance managers that have died, and of a cluster that is gone.

Stopped is not dead: publishers and readers go on. Gone is an error, in a stated time, that says what is gone and since when.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from cep.errors import CepError, QueryFailed
from cep.transport.local import LocalSockets
from cep.transport.sockets import is_gone
from driver import Cluster, ClusterError, LocalCluster, Publisher, Subscription
from driver.cli import app
from driver.processes.process import Home
from tests.cluster.test_kill import deployed
from tests.support.one_cluster import ONE_CLUSTERS
from tests.support.visits import copies, rows
from tests.support.waiting import HANG_S, until

PATIENCE_S = 2.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The shared one. The last test takes it down."""
    shared = ONE_CLUSTERS["impatient"]
    yield shared.get(tmp_path_factory.getbasetemp())
    shared.end()


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Cluster]:
    """Less patient than the one that started it."""
    with Cluster(cluster.rest.url, patience_s=PATIENCE_S) as made:
        yield made


@contextmanager
def stopped(cluster: LocalCluster, name: str) -> Iterator[None]:
    pid = dict(cluster.processes())[name]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def error_of(action: Callable[[], Any]) -> tuple[CepError, float]:
    """What `action` raises sooner or later, and after how many seconds."""
    begun = time.monotonic()
    with pytest.raises(CepError) as raised:
        while True:
            action()
    return raised.value, time.monotonic() - begun


def next_row(reading: Subscription, out: Publisher, i: int) -> float:
    """Seconds until a row that is sent now has come."""
    begun = time.perf_counter()
    out.send(rows(1, start=i))
    batch = reading.next_batch(timeout=HANG_S)
    assert batch is not None and batch.num_rows == 1
    return time.perf_counter() - begun


def test_is_gone() -> None:
    endpoint = f"ipc:///tmp/cep-knock-{os.getpid()}"
    assert is_gone(endpoint)
    sockets = LocalSockets(endpoint)
    assert not is_gone(endpoint)
    sockets.close()
    assert is_gone(endpoint)


def test_reading_waits_for_no_orchestrator(cluster: LocalCluster, client: Cluster) -> None:
    """Long enough without a message for the subscriber to ask what is the matter; the process that answers that question is stopped."""
    running = client.deploy(copies("a7"))
    with running.subscribe("a7.all") as reading, client.publisher("a7.visits", keep_open=True) as out:
        next_row(reading, out, 0)
        with stopped(cluster, "orchestrator"):
            begun = time.monotonic()
            with pytest.raises(TimeoutError):
                reading.next_batch(timeout=1.5)
            took = [next_row(reading, out, i) for i in range(1, 50)]
            assert time.monotonic() - begun < 10, "it waited for the orchestrator"
        assert np.median(took) < 0.5
        next_row(reading, out, 50)
    running.delete()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_64_seconds_without_an_orchestrator_delay_nothing(cluster: LocalCluster, client: Cluster) -> None:
    """Bursts with pauses in which the subscriber wonders; the same before and during."""
    running = client.deploy(copies("long"))

    def latencies(seconds: float, first: int) -> tuple[float, int]:
        end, took, i = time.monotonic() + seconds, [], first
        while time.monotonic() < end:
            for _ in range(250):
                took.append(next_row(reading, out, i))
                i += 1
            with pytest.raises(TimeoutError):
                reading.next_batch(timeout=1.2)
        return float(np.percentile(took, 99)), i

    with running.subscribe("long.all") as reading, client.publisher("long.visits", keep_open=True) as out:
        latencies(5, 0)
        before, i = latencies(64, 1000)
        with stopped(cluster, "orchestrator"):
            during, i = latencies(64, i)
        assert reading.rows >= i - 1000
    print(f"p99 before {before * 1000:.2f} ms, during {during * 1000:.2f} ms")
    assert during <= 2 * before
    running.delete()


def test_an_instance_manager_that_is_started_anew_is_another(cluster: LocalCluster, client: Cluster) -> None:
    """A reader there hears why nothing comes; a publisher goes on, and is heard by a query of the same name that is deployed anew."""
    running = client.deploy(copies("anew"))
    with running.subscribe("anew.all") as reading, client.publisher("anew.visits", keep_open=True) as out:
        next_row(reading, out, 0)
        im = running.status()["placed"][0]["im"]
        pid = dict(cluster.processes())[im]
        os.kill(pid, signal.SIGKILL)
        error, _ = error_of(reading.next_batch)
        assert isinstance(error, QueryFailed) and f"instance manager {im!r} (process {pid}" in str(error)
        until(lambda: len({manager["pid"] for manager in cluster.instance_managers()} - {pid}) == 2)
        out.send(rows(1, start=1))
        running.delete()
        again = client.deploy(copies("anew"))
        with again.subscribe("anew.all") as found:
            next_row(found, out, 2)
        again.delete()


def test_a_reader_that_died_while_the_orchestrator_is_stopped(cluster: LocalCluster, client: Cluster) -> None:
    """No process says why the query fails: the client says what it sees."""
    running = client.deploy(copies("both"))
    with running.subscribe("both.all") as reading:
        im = running.status()["placed"][0]["im"]
        with stopped(cluster, "orchestrator"):
            os.kill(dict(cluster.processes())[im], signal.SIGKILL)
            error, seconds = error_of(reading.next_batch)
    assert "that put it out have ended" in str(error) and "takes requests and does not answer, since" in str(error)
    assert seconds < PATIENCE_S + 10
    until(lambda: running.status()["state"] == "failed")


def test_everything_is_gone(cluster: LocalCluster) -> None:
    """Each of the clients is told within the time stated, whatever it is at; those of the program that has started the cluster, as soon as
    they ask, or while they publish and read. `cep status` says what has become of it, and the next cluster clears away what it left."""
    running, own_reading, own_flow = deployed(cluster, "a6")
    own_reading.more()  # before there are publishers that send nothing
    own, own_out = running.subscribe("a6.per_ip"), cluster.publisher("a6.visits", "own")
    remote = Cluster(cluster.rest.url, patience_s=PATIENCE_S)
    far = remote.query("a6")
    reading, waiting = far.subscribe("a6.per_ip"), remote.subscribe("nobody.puts.it.out")
    out, idle = remote.publisher("a6.visits"), remote.publisher("a6.visits", "idle")
    family = psutil.Process(cluster.supervisor.pid).children(recursive=True)
    cluster.supervisor.kill()
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family))
    actions: dict[str, Callable[[], Any]] = {
        "send": lambda: out.send(rows(1000)),
        "read": reading.next_batch,
        "wait for a query": waiting.next_batch,
        "status": far.status,
        "wait": far.wait,
        "deploy": lambda: remote.deploy(copies("late")),
        "open": lambda: remote.publisher("a6.visits", "late"),
        "own send": lambda: own_out.send(rows(1000)),
        "own read": own.next_batch,
        "own status": running.status,
        "own queries": cluster.queries,
        "own processes": cluster.processes,
        "own deploy": lambda: cluster.deploy(copies("late")),
    }
    found = told(actions)
    assert found.keys() == actions.keys()
    gone_with = rf"supervisor \(process {cluster.supervisor.pid}\) was killed by SIGKILL, and the whole cluster with it"
    for name, (error, seconds) in found.items():
        assert isinstance(error, ClusterError), name
        # A request that changes something is not sent again where a connection that was kept open breaks.
        broken = ("cannot be reached", "broke a request off, which it may have obeyed")
        at = re.escape(cluster.rest.url)
        expected = gone_with if "own" in name else "|".join(f"the orchestrator at {at} {how}, since" for how in broken)
        assert re.search(expected, str(error)), name
        assert seconds < PATIENCE_S + 10, name
    for name in ("send", "read", "own send", "own read"):
        assert f"the instance managers at ipc://{cluster.home}/im-" in str(found[name][0]) and "have ended" in str(found[name][0])
    for thread in (own_reading, own_flow):
        thread.join(HANG_S)
        assert not thread.is_alive() and re.search(gone_with, str(thread.error))
    with pytest.raises(ClusterError, match="cannot be reached"):
        idle.close()
    for again in (reading.next_batch, lambda: out.send(rows(1)), idle.close):
        with pytest.raises(ClusterError):
            again()
    remote.close()
    what_is_left(cluster)


def what_is_left(cluster: LocalCluster) -> None:
    """The supervisor's last report, by which its end is told, and its folder."""
    status = CliRunner().invoke(app, ["status", "--url", cluster.rest.url])
    assert status.exit_code == 1
    assert f"supervisor (process {cluster.supervisor.pid}) is gone, and all its processes with it" in status.output
    Home.make(str(Path(cluster.home).parent)).leave(keep=False)
    assert not Path(cluster.home).exists()


def told(actions: Mapping[str, Callable[[], Any]]) -> dict[str, tuple[CepError, float]]:
    """By action, all at once: what it raises, and when."""
    found: dict[str, tuple[CepError, float]] = {}

    def act(name: str) -> None:
        found[name] = error_of(actions[name])

    threads = [threading.Thread(target=act, args=(name,)) for name in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    return found
