"""Many small queries: `python -m benchmarks.measured.many --queries 5000 --instances 2 --seconds 30`; prints one line of JSON.

Every query has a stream of its own, to which a tuple is published each second (`--every`), those of all spread evenly in time: open loop,
each stamped with the time at which it was due. Latency is from there to its answer at the subscriber, of the queries that answer each
tuple; of those that need the next tuple to know a tuple's place in the stream, from when that one was due. A few processes publish, one
subscribes, each with thousands of streams. CPU is of all threads of the instance managers. Both are of the time after the first three
seconds of tuples.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.measured.small_queries import STRUCTURES, answer_after, small_query
from benchmarks.metering import add_recovery, recovering
from driver import Cluster, LocalCluster, Query, Running

SETTLE_S = 3.0  # for what deploying, opening and the first tuples leave to do, before anything is measured
STEP_S = 0.002  # how often the publisher looks what is due


def main() -> None:
    arguments = _arguments()
    chosen = [(structure, variant) for variant in range(arguments.queries // STRUCTURES) for structure in range(STRUCTURES)]
    with LocalCluster(instances=arguments.instances, numa=False) as cluster:
        print(json.dumps(_measure(cluster, chosen, arguments)), flush=True)


def _measure(cluster: LocalCluster, chosen: Sequence[tuple[int, int]], arguments: argparse.Namespace) -> dict[str, Any]:
    processes = Processes(cluster)
    _deploy(cluster, [small_query(structure, 1_000_000) for structure in range(STRUCTURES)])  # compiles, or loads what is compiled
    empty, before = processes.cpu_share(arguments.seconds / 3), processes.memory()
    queries = [small_query(*each).options(**recovering(arguments)) for each in chosen]
    rate = len(queries) / _deploy(cluster, queries)
    after = processes.memory()
    time.sleep(SETTLE_S)
    idle = processes.cpu_share(arguments.seconds)
    busy, latencies = _run(cluster, chosen, processes, arguments)
    used = processes.memory()
    return {
        "queries": len(queries),
        "instances": arguments.instances,
        "deployed_per_s": round(rate, 1),
        "cores_empty": empty,
        "cores_idle": idle,
        "cores": busy,
        "latency_ms": _percentiles(latencies[0] + latencies[1]),
        "latency_ms_at_once": _percentiles(latencies[0]),
        "latency_ms_in_order": _percentiles(latencies[1]),
        "kb_per_query_deployed": {name: round((after[name] - before[name]) / len(queries) / 1024, 1) for name in before},
        "kb_per_query": {name: round((used[name] - before[name]) / len(queries) / 1024, 1) for name in before},
        "mb": {name: round(found / 2**20) for name, found in used.items()},
    }


def _percentiles(latencies_ns: list[int]) -> dict[str, float]:
    """In ms, and of how many."""
    found = {f"p{q:g}": round(float(np.percentile(latencies_ns, q)) / 1e6, 2) for q in (50, 95, 99, 99.9)} if latencies_ns else {}
    return {"answers": len(latencies_ns), **found}


def _deploy(cluster: Cluster, queries: Sequence[Query]) -> float:
    """Seconds from the first request to all of them running."""
    began = time.perf_counter()
    outcomes = cluster.deploy_all(queries)
    took = time.perf_counter() - began
    wrong = [outcome for outcome in outcomes if not isinstance(outcome, Running)]
    if wrong:
        raise wrong[0]
    return took


class Processes:
    """What the processes of a cluster use, by kind."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.by_name = {name: psutil.Process(pid) for name, pid in cluster.processes()}

    def cpu_share(self, seconds: float) -> dict[str, float]:
        """Kind -> cores in use, over so long a time from now."""
        before, began = self.cpu_s(), time.perf_counter()
        time.sleep(seconds)
        return self.share(before, time.perf_counter() - began)

    def share(self, before: dict[str, float], seconds: float) -> dict[str, float]:
        return {name: round((cpu_s - before[name]) / seconds, 3) for name, cpu_s in self.cpu_s().items()}

    def cpu_s(self) -> dict[str, float]:
        return self._sum({name: sum(process.cpu_times()[:2]) for name, process in self.by_name.items()})

    def memory(self) -> dict[str, float]:
        return self._sum({name: process.memory_info().rss for name, process in self.by_name.items()})

    def _sum(self, found: dict[str, float]) -> dict[str, float]:
        total: dict[str, float] = {}
        for name, value in found.items():
            kind = "instance managers" if name.startswith("im-") else name
            total[kind] = total.get(kind, 0) + value
        return total


# --- the clients, each a process of its own ---------------------------------------------------------------------------


def _run(
    cluster: LocalCluster, chosen: Sequence[tuple[int, int]], processes: Processes, arguments: argparse.Namespace
) -> tuple[dict[str, float], tuple[list[int], list[int]]]:
    """Cores in use while tuples flow, and latencies in ns, of answers at once and of those with the next tuple."""
    context = multiprocessing.get_context("spawn")
    answers, told = context.SimpleQueue(), context.SimpleQueue()
    begin = context.Event()
    url = cluster.rest.url
    seconds, every_s = arguments.seconds, arguments.every
    subscriber = context.Process(target=_subscribe, args=(url, chosen, every_s, begin, told, answers), daemon=True)
    shares = [chosen[i :: arguments.publishers] for i in range(arguments.publishers)]
    told_to = begin, told, seconds + 2 * SETTLE_S
    publishing = [context.Process(target=_publish, args=(url, share, every_s, *told_to), daemon=True) for share in shares]
    for client in (subscriber, *publishing):
        client.start()
        told.get()
    begin.set()
    time.sleep(SETTLE_S)
    cores = processes.cpu_share(seconds)
    for client in publishing:
        client.join()
    found: tuple[list[int], list[int]] = answers.get()
    subscriber.join()
    return cores, found


def _publish(url: str, chosen: Sequence[tuple[int, int]], every_s: float, begin: Any, told: Any, seconds: float) -> None:
    """A tuple each `every_s` to each stream, each at its own moment in that time."""
    with Cluster(url) as cluster:
        publishers = cluster.open_publishers([small_query(*each).streams[0] for each in chosen])
        told.put("ready")
        begin.wait()
        gap_ns, began = int(every_s * 1e9) // len(publishers), time.time_ns()
        for i in range(int(seconds / every_s * len(publishers))):
            due = began + i * gap_ns
            while time.time_ns() < due:
                time.sleep(STEP_S)
            publishers[i % len(publishers)].send(_tuple(i // len(publishers), due), created_ns=due)


_SCHEMA = pa.schema([("k", pa.string()), ("a", pa.int64()), ("b", pa.float64()), ("ts", pa.timestamp("us", "UTC"))])


def _tuple(turn: int, due_ns: int) -> pa.RecordBatch:
    """One that every filter lets through; `a` differs each time, so that none is a duplicate."""
    moment = pa.Array.from_buffers(_SCHEMA.field("ts").type, 1, [None, pa.py_buffer((due_ns // 1000).to_bytes(8, "little"))])
    return pa.RecordBatch.from_arrays([*_values(turn), moment], schema=_SCHEMA)


@cache
def _values(turn: int) -> list[pa.Array]:
    """All columns but the last, the same for all streams."""
    return [pa.array([value], field.type) for value, field in zip((f"key{turn % 3}", turn % 100, float(turn)), _SCHEMA, strict=False)]


def _subscribe(url: str, chosen: Sequence[tuple[int, int]], every_s: float, begin: Any, told: Any, answers: Any) -> None:
    """Reads all outputs until nothing more comes; tells the latencies of the answers to single tuples."""
    every_ns = int(every_s * 1e9)
    after = {f"{small_query(*one).name}.out": answer_after(one[0]) for one in chosen}
    latencies: tuple[list[int], list[int]] = ([], [])
    with Cluster(url) as cluster, cluster.subscribe_all([f"{small_query(*one).name}.out" for one in chosen], event_time=True) as found:
        told.put("ready")
        begin.wait()
        first_us = int((time.time() + SETTLE_S) * 1e6)
        try:
            while (got := found.next_batch(timeout=3 * SETTLE_S)) is not None:
                now = time.time_ns()
                tuples = after[got[0]]
                if tuples is not None:
                    due_us = got[1].column("event_time").view(pa.int64()).to_numpy().tolist()
                    latencies[tuples].extend(now - us * 1000 - tuples * every_ns for us in due_us if us >= first_us)
        except TimeoutError:
            answers.put(latencies)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.measured.many", description=__doc__)
    parser.add_argument("--queries", type=int, default=5000, help=f"a multiple of {STRUCTURES}")
    parser.add_argument("--publishers", type=int, default=2, help="processes that publish, each to its share of the streams")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two tuples of a stream")
    add_recovery(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
