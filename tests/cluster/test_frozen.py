"""SIGSTOP and SIGCONT: one that is stopped for longer than its time-out, a publisher, a subscriber or an instance manager, makes no stream
look complete that is not. Rows that count are all there; where any may be missing there is an error.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cep.errors import QueryFailed
from driver import LocalCluster, Query, Running, Subscription
from tests.cluster.test_cluster import name
from tests.support.paths import ROOT
from tests.support.visits import answers, copies, expected, rows, windows
from tests.support.waiting import HANG_S, until

__all__ = ["name"]  # fixture


#: Does what it is told, line by line, and says how that went.
CLIENT = """
import sys
sys.path[:0] = sys.argv[3:]
from driver import Cluster, CepError
from tests.support.visits import rows
cluster, query = Cluster(sys.argv[1]), sys.argv[2]
sent = 0
for line in sys.stdin:
    verb, *more = line.split()
    try:
        if verb == "open":
            out = cluster.publisher(f"{query}.visits", more[0])
        elif verb == "send":
            sent += out.send(rows(int(more[0]), start=int(more[1])))
        elif verb == "close":
            out.close()
        elif verb == "subscribe":
            reading = cluster.query(query).subscribe(more[0], keep_s=float(more[1]))
        elif verb == "read":
            while reading.next_batch(timeout=60) is not None:
                pass
        elif verb == "read-one":
            reading.next_batch(timeout=60)
        print("done", flush=True)
    except CepError as error:
        print(type(error).__name__, error, flush=True)
"""


class Client:
    """A process of its own, with a publisher or a subscription of one query."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, *words: object) -> None:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def does(self, *words: object) -> str:
        self.ask(*words)
        return self.answer()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def client(cluster: LocalCluster, query: str) -> Iterator[Client]:
    command = [sys.executable, "-c", CLIENT, cluster.rest.url, query, str(ROOT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Client(process)
        finally:
            process.kill()


def read(running: Running) -> list[dict[str, Any]]:
    """The figures of the readers of the stream that is published."""
    return [placed["metrics"] for placed in running.status()["placed"] if placed["subquery"] == "SQ1" and placed.get("metrics")]


def vanished(running: Running) -> set[str]:
    """Publishers that count as closed at all readers."""
    found = [set(metrics["vanished_publishers"]) for metrics in read(running)]
    return set.intersection(*found) if found else set()


def rows_in(running: Running) -> int:
    return sum(metrics["rows_in"] for metrics in read(running))


def failure(subscription: Subscription) -> str:
    """What reading to the end raises, again and again."""
    for _ in range(2):
        with pytest.raises(QueryFailed) as raised:
            list(subscription)
    return str(raised.value)


# --- a publisher ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_one_that_wakes_up_with_nothing_lost_closes_as_if_nothing_had_been(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name, parallelism=1))
    found = running.subscribe(f"{name}.per_ip")
    with client(cluster, name) as frozen:
        assert frozen.does("open", "frozen") == frozen.does("send", 500, 0) == "done"
        frozen.freeze()
        until(lambda: vanished(running) == {"frozen"})
        frozen.thaw()
        assert frozen.does("close") == "done"
    assert answers(found) == expected(rows(500))


@pytest.mark.long  # as `test_clients_are_killed_and_frozen` has it, in passing
def test_one_that_sends_on_is_told_and_its_query_does_not_end_as_if_complete(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name, parallelism=1))
    found = running.subscribe(f"{name}.per_ip")
    with client(cluster, name) as frozen:
        assert frozen.does("open", "frozen") == frozen.does("send", 500, 0) == "done"
        frozen.freeze()
        frozen.ask("send", 500, 500)
        until(lambda: vanished(running) == {"frozen"})
        frozen.thaw()
        said = [frozen.answer()]
        said += [said[-1] if said[-1] != "done" else frozen.does("send", 1, 1000) for _ in range(200) if said[-1] == "done"]
        assert "silent for so long that it counts as closed" in said[-1] and "rows up to number 499" in said[-1]
        assert running.status()["state"] == "running"
        closed = frozen.does("close")
        assert closed.startswith("ClusterError") or len(said) == 1, closed
    if len(said) > 1:
        assert "publisher 'frozen' was silent for so long" in failure(found)


@pytest.mark.long  # the simulation freezes all
def test_two_of_which_one_is_stopped_while_the_other_closes(cluster: LocalCluster, name: str) -> None:
    """It lives, and may have sent more: it cannot be said that the stream is complete. A query that reads the answers hears of it."""
    running = cluster.deploy(windows(name, parallelism=1))
    second = cluster.deploy(Query(f"{name}-2").source(f"{name}.per_ip").output(f"{name}-2.out"))
    found, relayed = running.subscribe(f"{name}.per_ip"), second.subscribe(f"{name}-2.out")
    with client(cluster, name) as frozen, client(cluster, name) as doomed:
        assert frozen.does("open", "frozen") == frozen.does("send", 500, 0) == "done"
        assert doomed.does("open", "doomed") == doomed.does("send", 500, 500) == "done"
        with cluster.publisher(f"{name}.visits", "living") as living:
            living.send(rows(500, start=1000))
            until(lambda: rows_in(running) >= 1500)
            frozen.freeze()
            doomed.process.kill()
            until(lambda: vanished(running) == {"doomed", "frozen"})
        cause = failure(found)
        assert "'frozen' was silent for so long that it counts as closed, its rows up to number 499 were taken" in cause
        assert "doomed" not in cause
        frozen.thaw()
        until(lambda: "failed" in str(second.status()["reads"]))
        assert second.status()["state"] == "running"
        with pytest.raises(TimeoutError):
            relayed.next_batch(timeout=0.1)
    second.stop()


@pytest.mark.long
def test_one_that_was_killed_ends_nothing_and_keeps_nothing_from_ending(cluster: LocalCluster, name: str) -> None:
    running = cluster.deploy(windows(name, parallelism=2))
    found = running.subscribe(f"{name}.per_ip")
    with client(cluster, name) as doomed, cluster.publisher(f"{name}.visits") as living:
        assert doomed.does("open", "doomed") == doomed.does("send", 500, 0) == "done"
        living.send(rows(500, start=500))
        until(lambda: rows_in(running) >= 1000)
        doomed.process.kill()
        until(lambda: vanished(running) == {"doomed"})
    assert answers(found) == expected(rows(1000))


# --- a subscriber -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_subscriber_that_was_given_up_gets_an_error(cluster: LocalCluster, name: str, ends: bool) -> None:
    """Also where so much waits for it that it could not be told so; and where the stream has ended meanwhile."""
    running = cluster.deploy(copies(name))
    with client(cluster, name) as frozen, cluster.publisher(f"{name}.visits", keep_open=not ends) as out:
        assert frozen.does("subscribe", f"{name}.all", 1.0) == "done"
        out.send(rows(10))
        assert frozen.does("read-one") == "done"
        until(lambda: read(running) and _subscriptions(running) == 1)  # a report from before would say that there is none
        frozen.freeze()
        for i in range(20):
            out.send(rows(10_000, start=i * 10_000))
        until(lambda: _subscriptions(running) == 0)
        if ends:
            out.close()
        frozen.thaw()
        assert "was silent for too long and was dropped" in frozen.does("read")
    running.delete()


def _subscriptions(running: Running) -> int:
    return sum((placed.get("metrics") or {"subscriptions": 1})["subscriptions"] for placed in running.status()["placed"])


# --- an instance manager ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("publishers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_an_instance_manager_that_counted_as_dead_ends_nothing(cluster: LocalCluster, name: str, publishers: int) -> None:
    """All that its query needs is there when it wakes up, the publishers' last words too: it would end, and no other process believes
    so."""
    running = cluster.deploy(windows(name, parallelism=1))
    second = cluster.deploy(Query(f"{name}-2").source(f"{name}.per_ip").output(f"{name}-2.out"))
    found, relayed = running.subscribe(f"{name}.per_ip"), second.subscribe(f"{name}-2.out")
    im = running.status()["placed"][0]["im"]
    pid = dict(cluster.processes())[im]
    outs = [cluster.publisher(f"{name}.visits") for _ in range(publishers)]
    for i, out in enumerate(outs):
        out.send(rows(500, start=500 * i))
    os.kill(pid, signal.SIGSTOP)
    try:
        for out in outs:
            out.give_up()
            out.say_goodbye(True, [])
        until(lambda: running.status()["state"] == "failed")
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: len(cluster.instance_managers()) == 2)
    assert f"instance manager {im!r}" in failure(found)
    assert second.status()["state"] != "ended"
    with pytest.raises((TimeoutError, QueryFailed)):
        relayed.next_batch(timeout=0.1)
    for out in outs:
        out.leave()
    if second.status()["state"] == "running":
        second.stop()


@pytest.mark.long
def test_an_instance_manager_that_is_back_in_time_has_given_up_nobody(cluster: LocalCluster, name: str) -> None:
    """It has heard of no peer meanwhile, which is not their silence."""
    with LocalCluster(instances=1, numa=False, session_timeout_s=HANG_S, grace_s=1.0) as patient:
        running = patient.deploy(windows(name, parallelism=1))
        found = running.subscribe(f"{name}.per_ip", keep_s=1.0)
        with patient.publisher(f"{name}.visits") as out:
            out.send(rows(500))
            pid = dict(patient.processes())["im-0"]
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                found.next_batch(timeout=3.0)
            os.kill(pid, signal.SIGCONT)
            out.send(rows(500, start=500))
        assert answers(found) == expected(rows(1000))


def test_words_that_are_refused(cluster: LocalCluster, name: str) -> None:
    """A last word that is out of order fails its query instead of leaving it open for ever."""
    running = cluster.deploy(windows(name, parallelism=1))
    found: Any = running.subscribe(f"{name}.per_ip")
    out = cluster.publisher(f"{name}.visits")
    out.send(rows(10))
    (reader,) = out.core.readers.values()
    reader.sequence += 1
    out.close()
    assert "messages were lost" in failure(found)
