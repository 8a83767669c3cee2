"""Latency, open loop: from the moment at which a tuple was to be created until its subscriber has it.

Ours: publisher → instance manager → instance manager → subscriber, two subqueries of one map each (or, `--query count`, a running
count per key behind a route-key edge), each in a process of its own, which is read from the plan. The reference: the same feeder
→ relay → relay → the same loop, with ZeroMQ's messages as they are and nothing else. They run in turn, in pairs.

A tuple is its creation time by CLOCK_MONOTONIC (and a key): the moment that the rate schedules, however late it was sent. Nothing
waits for an answer. `--tick-us 0` sends whatever is due as soon as it is, and looks again after 50 µs; otherwise what has become due
is sent once a tick.

    python -m benchmarks.latency --rate 10000 --pairs 8
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zmq

from driver import UNBOUNDED, Cluster, LocalCluster, Query, col, count, max_, stream

ROOT = Path(__file__).resolve().parent.parent
LOOK_AGAIN_S = 50e-6
LAST_BEAT_S = 2.5  # what is taken in order comes out when time has gone on, which heartbeats say
WARM_UP = 4  # one part in so many of the tuples is not counted
KEYS = 1000
PERCENTILES = (50.0, 95.0, 99.0, 99.9)

Send = Callable[[np.ndarray], None]


# --- the feeder, the same for both -----------------------------------------------------------------------------------


def feed(send: Send, rate: int, seconds: float, tick_us: int) -> int:
    """Sends `rate` creation times a second, int64[n] ns, when they are due. Returns how many."""
    total, sent = int(rate * seconds), 0
    began = time.monotonic_ns() + 100_000_000
    wait = tick_us / 1e6 or LOOK_AGAIN_S
    while sent < total:
        due = min(total, (time.monotonic_ns() - began) * rate // 1_000_000_000 + 1)
        if due > sent:
            send(began + np.arange(sent, due) * 1_000_000_000 // rate)
            sent = due
        if tick_us or due <= sent:
            time.sleep(wait if not tick_us else wait - (time.monotonic_ns() / 1e9) % wait)
    return total


def feed_relay(endpoint: str, rate: int, seconds: float, tick_us: int) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.connect(endpoint)
    feed(lambda created: socket.send(created.tobytes()), rate, seconds, tick_us)
    socket.send(b"x")
    context.destroy(linger=2000)


def feed_ours(url: str, rate: int, seconds: float, tick_us: int) -> None:
    schema = pa.schema([pa.field("created", pa.int64(), nullable=False), pa.field("key", pa.int64(), nullable=False)])

    def send(created: np.ndarray) -> None:
        out.send(pa.RecordBatch.from_arrays([pa.array(created), pa.array(created // 1000 % KEYS)], schema=schema))

    with Cluster(url) as cluster, cluster.publisher("events", keep_open=True) as out:
        warm_up()
        gc.freeze()
        feed(send, rate, seconds, tick_us)
        time.sleep(LAST_BEAT_S)


def warm_up() -> None:
    """The first of these calls imports pandas where there is one, which takes longer than all that is measured."""
    pa.array(np.zeros(1, np.int64)).to_numpy()


def relay(inbound: str, outbound: str) -> None:
    context = zmq.Context()
    source, target = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    source.bind(inbound)
    target.connect(outbound)
    message = b""
    while len(message) != 1:
        message = source.recv()
        target.send(message)
    context.destroy(linger=2000)


# --- one run of each -------------------------------------------------------------------------------------------------


def role(core: int, name: str, *arguments: object) -> subprocess.Popen[bytes]:
    """A process of ours on `core`, which calls the function `name`."""
    words = [sys.executable, "-m", "benchmarks.latency", "--role", json.dumps([core, name, *arguments])]
    return subprocess.Popen(words, cwd=ROOT)


def run_relay(options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        first, second, last = (f"ipc://{folder}/{i}" for i in range(3))
        context = zmq.Context()
        socket = context.socket(zmq.PULL)
        socket.bind(last)
        processes = [role(options.cores[0], "relay", first, second), role(options.cores[1], "relay", second, last)]
        processes.append(role(options.cores[1], "feed_relay", first, options.rate, options.seconds, options.tick_us))
        found = []
        while len(message := socket.recv()) != 1:
            found.append(time.monotonic_ns() - np.frombuffer(message, np.int64))
        for process in processes:
            process.wait(30)
        context.destroy()
    return summary(found)


def run_ours(options: argparse.Namespace, cluster: LocalCluster, answers: Any) -> dict[str, float]:
    feeder = role(options.cores[1], "feed_ours", cluster.rest.url, options.rate, options.seconds, options.tick_us)
    found, missing = [], int(options.rate * options.seconds)
    while missing > 0:
        batch = answers.next_batch(timeout=60)
        found.append(time.monotonic_ns() - batch.column(0).to_numpy())
        missing -= batch.num_rows
    feeder.wait(30)
    return summary(found)


def summary(found: list[np.ndarray]) -> dict[str, float]:
    """ms, without the warming up."""
    latency = np.concatenate(found) / 1e6
    latency = latency[len(latency) // WARM_UP :]
    values = np.percentile(latency, PERCENTILES).round(3).tolist()
    return dict(zip((f"p{p:g}" for p in PERCENTILES), values, strict=True)) | {"batches": len(found)}


# --- the cluster -----------------------------------------------------------------------------------------------------


def query(options: argparse.Namespace) -> Query:
    events = stream("events", created="int64", key="int64")
    begun = Query("latency").source(events).map("first", created=col("created"), key=col("key"))
    if options.query == "count":
        counted = begun.aggregate("counted", UNBOUNDED(ttl=None), by="key", n=count(), created=max_("created"))
        begun = counted.map("second", created=col("created"), n=col("n"))
    else:
        begun = begun.map("second", created=col("created"), key=col("key"))
    asked = {"split": "per-operator" if options.query == "map" else "stateful", "parallelism": 1}
    if options.policy is not None:
        asked["message_policy"] = options.policy
    return begun.output("answers").options(**asked)


def bind(cluster: LocalCluster, cores: list[int]) -> None:
    """Its instance managers to `cores`, as the relays are."""
    for found, core in zip(cluster.instance_managers(), cores, strict=True):
        for thread in os.listdir(f"/proc/{found['pid']}/task"):
            os.sched_setaffinity(int(thread), {core})


def apart(plan: str) -> bool:
    """Are the subqueries in two processes?"""
    return "im-0" in plan and "im-1" in plan


def main() -> None:
    options = arguments()
    if options.role:
        core, name, *rest = json.loads(options.role)
        os.sched_setaffinity(0, {core})
        globals()[name](*rest)
        return
    # No binding by the planner: it would put both subqueries into one process, where there is no way between them.
    with LocalCluster(instances=2, numa=False) as cluster:
        asked = query(options)
        plan = cluster.explain(asked)
        if options.explain:
            print(plan)
        answers = cluster.deploy(asked).subscribe("answers")
        bind(cluster, options.cores)
        os.sched_setaffinity(0, {options.cores[0]})
        warm_up()
        gc.freeze()
        report(options, [pair(options, cluster, answers) for _ in range(options.pairs)])


def pair(options: argparse.Namespace, cluster: LocalCluster, answers: Any) -> dict[str, dict[str, float]]:
    found = {"relay": run_relay(options)} if options.only != "ours" else {}
    if options.only != "relay":
        found["ours"] = run_ours(options, cluster, answers)
    print(json.dumps(found), flush=True)
    return found


def report(options: argparse.Namespace, pairs: list[dict[str, dict[str, float]]]) -> None:
    """Medians, and the ratios of pairs: median, second smallest and second largest."""
    names = [name for name in ("relay", "ours") if name in pairs[0]]
    medians = {name: {key: statistics.median(p[name][key] for p in pairs) for key in pairs[0][name]} for name in names}
    line: dict[str, Any] = {"rate": options.rate, "tick_us": options.tick_us, "query": options.query, "pairs": len(pairs), **medians}
    if len(names) == 2:
        for key in (f"p{p:g}" for p in PERCENTILES):
            ratios = sorted(p["ours"][key] / p["relay"][key] for p in pairs)
            most = min(1, len(ratios) // 3)
            line[f"ratio {key}"] = [round(r, 2) for r in (statistics.median(ratios), ratios[most], ratios[-1 - most])]
    print(json.dumps(line))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000, help="tuples a second")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--tick-us", type=int, default=0, help="send once a tick; 0: as soon as something is due")
    parser.add_argument("--query", choices=("map", "count"), default="map", help="the second subquery")
    parser.add_argument("--policy", choices=("poll", "interrupt"), help="what the query asks of its instance managers")
    parser.add_argument("--only", choices=("relay", "ours"))
    parser.add_argument("--explain", action="store_true", help="print the plan")
    parser.add_argument("--cores", type=int, nargs=2, default=sorted(os.sched_getaffinity(0))[:2])
    parser.add_argument("--role", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
