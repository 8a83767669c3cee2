"""Skew: a CPU-heavy StatefulMap by key behind route-key, whose keys are not alike; with buckets where the plan has them, and moving.

    python -m benchmarks.measured.skew --shape thesis --instances 4 --rebalance auto
    python -m benchmarks.measured.skew --shape zipf --s 1.25 --instances 8 --rebalance off

`thesis`: the four quarters of the buckets have 51.3, 19.7, 6.6 and 22.4 % of the rows (the shares of four partitions in the Arcon
thesis), each spread evenly over its keys. `zipf`: of 100,000 keys, key number r has 1 / r^s of the rows.

After a time to settle the CPU that each instance used (the thread's own, so that instances that share a core are measured fairly) is
taken over the rest: max / mean, beside the bound max(1, n·p), p being the share of the hottest bucket, which no table can beat.
Rows a second are of wall time. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cep.kernels.columns import columns_from_arrow
from cep.kernels.tables.keys import encode_keys
from cep.kernels.tables.partition import bucket_targets
from cep.model.schema import Schema
from driver import LocalCluster, Query, Running, col, stream

KEYS, BUCKETS = 100_000, 4096
SHARES = (0.513, 0.197, 0.066, 0.224)
POOL_ROWS, BATCH_ROWS = 1 << 20, 1 << 14
WORK = 24  # steps of the update: how heavy it is


def buckets_of_keys() -> np.ndarray:
    """int32[KEYS]: the bucket of each key."""
    schema = Schema.of({"k": "int64"})
    table = pa.RecordBatch.from_arrays([pa.array(np.arange(KEYS))], schema=schema.arrow)
    keys = encode_keys(columns_from_arrow(table, schema), schema.fields)
    found = np.empty(KEYS, np.int32)
    bucket_targets(keys.w0, keys.w1, np.arange(BUCKETS, dtype=np.int32), found)
    return found


def shares(shape: str, s: float, buckets: np.ndarray) -> np.ndarray:
    """float64[KEYS]: how likely each key is."""
    if shape == "zipf":
        likely: np.ndarray = 1.0 / np.arange(1, KEYS + 1) ** s
    else:
        quarters = buckets * len(SHARES) // BUCKETS
        likely = np.array(SHARES)[quarters] / np.bincount(quarters)[quarters]
    likely /= likely.sum()
    return likely


def query(instances: int, rebalance: str) -> Query:
    """A row costs the same whatever its key, as the bound takes it: the steps begin with the row, and what comes of them is added to the
    state. Steps that began with the state would wait for the row before that has the same key, where a core does rows of several keys at
    a time: [ran] one of the hottest key of zipf 1.5 took 209 ns then, others 125 to 160."""
    work = col("x")
    for _ in range(WORK):
        work = (work * 0.75 + col("x")).abs().sqrt()
    h = col("h") * 0.5 + work
    return (
        Query("skew")
        .source(stream("skew.in", k="int64", x="float64"))
        .stateful_map("heavy", by="k", ttl=None, state={"h": 0.0}, update={"h": h}, fields={"k": col("k"), "h": col("h")})
        .output("skew.out")
        .options(parallelism=instances, buckets=BUCKETS, rebalance=rebalance)
    )


class SkewedLoad(threading.Thread):
    """Publishes as fast as is taken, until told to stop."""

    def __init__(self, cluster: LocalCluster, pool: pa.RecordBatch) -> None:
        super().__init__(daemon=True)
        self.out, self.pool, self.enough, self.sent = cluster.publisher("skew.in"), pool, threading.Event(), 0
        self.start()

    def run(self) -> None:
        with self.out:
            while not self.enough.is_set():
                self.sent += self.out.send(self.pool.slice(self.sent % POOL_ROWS, BATCH_ROWS))

    def end(self) -> None:
        self.enough.set()
        self.join()


def figures(running: Running) -> Iterator[dict[str, Any]]:
    """Of the instances of the heavy subquery, in turn."""
    placed = sorted((each for each in running.status()["placed"] if each["subquery"] == "SQ2"), key=lambda each: each["instance"])
    return (each["metrics"] for each in placed)


def measured(running: Running, settle_s: float, measure_s: float) -> dict[str, Any]:
    time.sleep(settle_s)
    before, began = list(figures(running)), time.monotonic()
    time.sleep(measure_s)
    after, took = list(figures(running)), time.monotonic() - began
    cpu = np.array([b["cpu_ns"] - a["cpu_ns"] for a, b in zip(before, after, strict=True)]) / 1e9
    rows = sum(b["rows_in"] - a["rows_in"] for a, b in zip(before, after, strict=True))
    state = {key: sum(each[key] for each in after) for key in ("moved_rows", "moved_bytes")}
    moves = {"versions": max(each["table"] for each in after), "paused_s_max": max(each["move_ns"] for each in after) / 1e9, **state}
    return {"cpu_s": cpu.round(3).tolist(), "max_over_mean": cpu.max() / cpu.mean(), "rows_per_s": rows / took, **moves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=("thesis", "zipf"), default="thesis")
    parser.add_argument("--s", type=float, default=1.0, help="of zipf")
    parser.add_argument("--instances", type=int, default=4)
    parser.add_argument("--rebalance", choices=("auto", "off"), default="auto")
    parser.add_argument("--managers", type=int, default=min(4, len(os.sched_getaffinity(0))), help="instance managers")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds before it is measured")
    parser.add_argument("--measure", type=float, default=10.0, help="seconds")
    asked = parser.parse_args()
    buckets = buckets_of_keys()
    likely = shares(asked.shape, asked.s, buckets)
    choose = np.random.default_rng(7)
    pool = pa.RecordBatch.from_pydict({"k": choose.choice(KEYS, POOL_ROWS, p=likely), "x": choose.random(POOL_ROWS)})
    hottest = float(np.bincount(buckets, likely, BUCKETS).max())
    with LocalCluster(instances=asked.managers) as cluster:
        running = cluster.deploy(query(asked.instances, asked.rebalance))
        load = SkewedLoad(cluster, pool)
        found = measured(running, asked.settle, asked.measure)
        load.end()
    print(json.dumps({**vars(asked), "bound": max(1.0, asked.instances * hottest), **found}))


if __name__ == "__main__":
    main()
