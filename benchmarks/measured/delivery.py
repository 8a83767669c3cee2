"""Latency of the engine: client, two subqueries in two processes and a subscriber; the same method as `benchmarks.measured.relay`.

`python -m benchmarks.measured.delivery --rate 10000 [--seconds 6] [--beside]`. With `--beside` a process computes without pause on
the first of the two cores.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

from benchmarks.measured.beside import beside
from benchmarks.measured.relay import feed, percentiles, two_cores
from benchmarks.metering import add_recovery, metered, pin, recovering, say
from driver import Cluster, LocalCluster, Query, Subscription, col, stream

_MOMENT = pa.schema([pa.field("created", pa.int64(), nullable=False)])


def query() -> Query:
    """Two maps, each a subquery of its own."""
    events = stream("events", created="int64")
    both = Query("identity").source(events).map("first", created=col("created")).map("second", created=col("created"))
    return both.output("answers").options(split="per-operator", parallelism=1)


def publish(url: str, rate: int, seconds: float) -> None:
    with Cluster(url) as cluster, cluster.publisher("events") as out:
        _warm_arrow()
        gc.freeze()
        feed(lambda moments: out.send(pa.record_batch([pa.array(moments)], schema=_MOMENT)), rate, seconds)


def _warm_arrow() -> None:
    """From an array and back: the first time it imports pandas, if there is one, which takes 0.15 s of a client that is to send or read."""
    pa.record_batch([pa.array(np.zeros(1, np.int64))], schema=_MOMENT).column(0).to_numpy()


def delivered(answers: Subscription) -> list[np.ndarray]:
    """How long each tuple took, ns, in the order of delivery."""
    return [time.monotonic_ns() - batch.column(0).to_numpy() for batch in answers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--beside", action="store_true", help="a process that computes without pause on one of the cores")
    add_recovery(parser)
    parser.add_argument("--publish", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.publish:
        return publish(asked.publish, asked.rate, asked.seconds)
    here, there = two_cores()
    # Not bound by the planner, which would put both subqueries into one process: there they have no way to go.
    with LocalCluster(instances=2, numa=False) as cluster, beside(here, asked.beside):
        running = cluster.deploy(query().options(**recovering(asked)), start=False)
        answers = running.subscribe("answers")
        running.start()
        for name, pid in cluster.processes():
            if name.startswith("im-"):
                pin(pid, here if name == "im-0" else there)
        words = [sys.executable, "-m", "benchmarks.measured.delivery", "--rate", str(asked.rate), "--seconds", str(asked.seconds)]
        pin(os.getpid(), here)
        _warm_arrow()
        gc.freeze()
        with metered(cluster) as used:  # it takes its time to have memory at hand, and is begun before anything is sent
            publisher = subprocess.Popen([*words, "--publish", cluster.rest.url])
            pin(publisher.pid, there)
            found = delivered(answers)
        publisher.wait(30)
        tuples = sum(map(len, found))
        figures = percentiles(found) | {"tuples_per_instance_cpu_s": tuples / used.of_instance_managers()}
        return say(rate=asked.rate, batches=len(found), **figures)


if __name__ == "__main__":
    main()
