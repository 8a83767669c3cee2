"""What every process keeps of queries that are gone: `python -m benchmarks leaks --after 2000 --until 10000`; prints one line of JSON.

Small queries of ten structures are deployed by the hundred, each with a name and a stream that no query ever had; some tuples are
published to a part of them and read back; they are deleted, and their streams undeclared. Measured is the memory that each process has
for itself, every `--every` queries, and how many nodes ZooKeeper has. Bytes a query are the slope of a straight line through what was
measured after the first `--after` queries.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import psutil
import typer

from benchmarks.measured.small_queries import STRUCTURES, small_query
from driver import Cluster, LocalCluster, Query, Running

BATCH = 100
PUBLISHED = 5  # of each batch
STRUCTURE_STEP = 5


def command(
    instances: Annotated[int, typer.Option(min=1, help="instance managers")] = 2,
    after: Annotated[int, typer.Option(min=0, help="queries before anything counts")] = 2000,
    until: Annotated[int, typer.Option(min=BATCH, help="queries in all")] = 10_000,
    every: Annotated[int, typer.Option(min=BATCH, help="queries between two looks")] = 500,
) -> None:
    """What each process keeps of queries that are gone, in bytes a query; one line of JSON."""
    with LocalCluster(instances=instances, numa=False) as cluster:
        print(json.dumps(measured(cluster, after, until, every)), flush=True)


def measured(cluster: LocalCluster, after: int, until: int, every: int) -> dict[str, Any]:
    """Process -> bytes it keeps of each query between numbers `after` and `until`; nodes of ZooKeeper likewise."""
    seen: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for number in range(0, until, BATCH):
        come_and_go(cluster, [small_query(i * STRUCTURE_STEP % STRUCTURES, number + i) for i in range(BATCH)])
        gone = number + BATCH
        if gone % every == 0:
            for name, value in sizes(cluster).items():
                seen[name].append((gone, value))
            print(gone, {name: round(values[-1][1]) for name, values in seen.items()}, file=sys.stderr, flush=True)
    return {"queries": until, "after": after, "per_query": {name: _slope(values, after) for name, values in seen.items()}}


def come_and_go(cluster: Cluster, queries: Sequence[Query]) -> None:
    """Deployed, used and deleted without a trace."""
    outcomes = cluster.deploy_all(queries)
    for query, running in list(zip(queries, outcomes, strict=True))[:PUBLISHED]:
        assert isinstance(running, Running), running
        _use(cluster, running, query.to_json()["name"])
    for query, running in zip(queries, outcomes, strict=True):
        assert isinstance(running, Running), running
        running.delete()
        cluster.undeclare(f"{query.to_json()['name']}.in")


def _use(cluster: Cluster, running: Running, name: str) -> None:
    """The end of the stream brings all answers."""
    answers = running.subscribe(f"{name}.out")
    with cluster.publisher(f"{name}.in") as out:
        out.send([{"k": f"k{i}", "a": i, "b": 0.5, "ts": 1_000_000 * i} for i in range(10)])
    with answers:
        for _ in answers:
            pass


def sizes(cluster: LocalCluster) -> dict[str, float]:
    """Bytes that each process has for itself, and what ZooKeeper counts. The heap of a Java process says nothing of what it needs."""
    found = {name: float(psutil.Process(pid).memory_full_info().uss) for name, pid in cluster.processes() if name != "zookeeper"}
    return found | {"zookeeper_nodes": float(zookeeper_nodes(cluster.facts["zookeeper"]))}


def zookeeper_nodes(hosts: str) -> int:
    """How many nodes there are."""
    host, _, port = hosts.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"srvr")
        said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    return int(next(line for line in said.splitlines() if line.startswith("Node count")).rpartition(":")[2])


def _slope(values: Sequence[tuple[int, float]], after: int) -> float:
    numbers, sizes_ = np.array([value for value in values if value[0] >= after]).T
    return round(float(np.polyfit(numbers, sizes_, 1)[0]), 3) if len(numbers) > 1 else float("nan")
