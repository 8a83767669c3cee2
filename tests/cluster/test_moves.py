"""Buckets that move on the real cluster, while tuples flow: told to, of themselves, and when an instance manager dies meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from driver import Conflict, LocalCluster, Publisher, Query, QueryError, QueryFailed, Running, Subscription, col, stream
from tests.support.waiting import HANG_S, until

BUCKETS = 64
KEYS = 100
PRIME = 1_000_003


def chained(name: str, **options: Any) -> Query:
    """Of each key a number that depends on all its rows so far, in their order."""
    source = stream(f"{name}.in", {"k": "int64", "i": "int64", "ts": "timestamp[us]"}, event_time="ts", disorder="0s")
    return (
        Query(name)
        .source(source)
        .stateful_map(
            "chain",
            by="k",
            ttl=None,
            state={"h": 0},
            update={"h": (col("h") * 31 + col("i")) % PRIME},
            fields={"i": col("i"), "h": col("h")},
        )
        .output(f"{name}.out")
        .options(buckets=BUCKETS, **options)
    )


def key_of(i: int) -> int:
    """Half of all rows have one key."""
    return 0 if i % 2 else i * 7919 % KEYS


def rows_of(numbers: Iterable[int]) -> list[dict[str, int]]:
    return [{"k": key_of(i), "i": i, "ts": 1_700_000_000_000_000 + i} for i in numbers]


class Flow(threading.Thread):
    """Publishes until told to stop: every `step`th number from `first` on."""

    def __init__(self, publisher: Publisher, rows: int = 200, first: int = 0, step: int = 1, pause_s: float = 0.01) -> None:
        super().__init__(daemon=True)
        self.publisher, self.rows, self.sent, self.enough = publisher, rows, 0, threading.Event()
        self.first, self.step, self.pause_s = first, step, pause_s
        self.start()

    def numbers(self, begin: int, end: int) -> range:
        return range(self.first + begin * self.step, self.first + end * self.step, self.step)

    def run(self) -> None:
        with self.publisher as out:
            while not self.enough.wait(self.pause_s):
                self.sent += out.send(rows_of(self.numbers(self.sent, self.sent + self.rows)))

    def end(self) -> int:
        self.enough.set()
        self.join(HANG_S)
        return self.sent


class Reading(threading.Thread):
    """Reads to the end; answers by key in order of their tuples' numbers, and the error it ended with."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(daemon=True)
        self.subscription, self.answers, self.count = subscription, defaultdict[int, list[tuple[int, int]]](list), 0
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            for batch in self.subscription:
                for row in batch.to_pylist():
                    self.answers[key_of(row["i"])].append((row["i"], row["h"]))
                self.count += batch.num_rows
        except QueryFailed as error:
            self.error = error

    def more(self, n: int = 5_000) -> None:
        goal = self.count + n
        until(lambda: self.count >= goal)


def expected(numbers: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    states: dict[int, int] = defaultdict(int)
    for i in numbers:
        states[key_of(i)] = (states[key_of(i)] * 31 + i) % PRIME
        found[key_of(i)].append((i, states[key_of(i)]))
    return found


def started(cluster: LocalCluster, name: str, rows: int = 200, pause_s: float = 0.01, **options: Any) -> tuple[Running, Reading, Flow]:
    """`rows`: sent at a time, with a pause behind them."""
    running = cluster.deploy(chained(name, **options))
    return running, Reading(running.subscribe(f"{name}.out")), Flow(cluster.publisher(f"{name}.in"), rows, pause_s=pause_s)


def check(reading: Reading, *flows: Flow, others: Iterable[int] = ()) -> None:
    """`others`: numbers that another publisher has sent."""
    numbers = sorted([*others, *(i for flow in flows for i in flow.numbers(0, flow.end()))])
    reading.join(HANG_S)
    assert reading.error is None and reading.count == len(numbers)
    assert {key: sorted(rows) for key, rows in reading.answers.items()} == expected(numbers)


def table_of(running: Running) -> dict[str, Any]:
    tables = running.status()["tables"]
    return tables[0] if tables else {"version": 0, "buckets": []}


def compilations(cluster: LocalCluster) -> float:
    """Kernels that the instance managers have compiled or loaded, as far as they have said."""
    lines = cluster.rest.text("/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("cep_process_compilations_total"))


@pytest.mark.long
def test_told_to_move_again_and_again(cluster: LocalCluster) -> None:
    running, reading, flow = started(cluster, "told", parallelism=2, rebalance="off")
    until(lambda: all((each["metrics"] or {}).get("state") == "running" for each in running.status()["placed"]))
    choose, compiled = random.Random(7), compilations(cluster)
    for version in range(1, 9):
        reading.more(2_000)
        running.rebalance([choose.randrange(2) for _ in range(BUCKETS)])
        assert table_of(running)["version"] == version
    assert "by table version 8" in running.explain()
    until(lambda: all(each["metrics"]["moves"] for each in running.status()["placed"] if each["subquery"] == "SQ2"))
    assert compilations(cluster) == compiled
    check(reading, flow)


def test_more_instances_than_instance_managers(cluster: LocalCluster) -> None:
    """State goes between two instances in one process, and between two processes."""
    running, reading, flow = started(cluster, "many", parallelism=4, rebalance="off")
    for shift in (1, 2, 3, 0):
        reading.more(2_000)
        running.rebalance([(b * 4 // BUCKETS + shift) % 4 for b in range(BUCKETS)])
    check(reading, flow)


def test_load_moves_buckets_of_itself(cluster: LocalCluster) -> None:
    running, reading, flow = started(cluster, "load", rows=500, pause_s=0.001, parallelism=2)  # so many that an instance is busy
    reading.more()
    running.rebalance([0] * BUCKETS)  # all that there is to do is the first one's
    before = table_of(running)["version"]
    until(lambda: table_of(running)["version"] > before and not table_of(running)["moving"])
    assert table_of(running)["buckets"][1]
    reading.more()
    check(reading, flow)


def test_what_cannot_be(cluster: LocalCluster) -> None:
    running, reading, flow = started(cluster, "wrong", parallelism=2, rebalance="off")
    with pytest.raises(QueryError, match="expected an instance for each of 64 buckets, got 2"):
        running.rebalance([0, 1])
    with pytest.raises(QueryError, match="expected instances 0 to 1, got 2 for bucket 63"):
        running.rebalance([0] * 63 + [2])
    with pytest.raises(QueryError, match="no buckets are routed to 'SQ1'; they are to SQ2"):
        running.rebalance([0] * 64, "SQ1")
    check(reading, flow)
    until(lambda: running.status()["state"] == "ended")
    with pytest.raises(Conflict, match="buckets move only while it is running"):
        running.rebalance([0] * 64)


@pytest.mark.long  # as the simulation has it
def test_an_instance_manager_dies_during_a_move(cluster: LocalCluster) -> None:
    """It is stopped before, so that the move cannot end."""
    running, reading, flow = started(cluster, "killed", parallelism=2, rebalance="off")
    reading.more()
    killed = dict(cluster.processes())["im-1"]
    os.kill(killed, signal.SIGSTOP)
    cluster.rest.post("/queries/killed/rebalance", {"table": [1] * 32 + [0] * 32})
    assert table_of(running)["moving"]
    with pytest.raises(Conflict, match="are moving, to table version 1"):
        running.rebalance([0] * BUCKETS)
    os.kill(killed, signal.SIGKILL)
    reading.join(HANG_S)
    assert isinstance(reading.error, QueryFailed) and "im-1" in str(reading.error)
    assert running.status()["state"] == "failed"
    flow.end()
