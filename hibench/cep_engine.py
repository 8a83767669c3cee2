"""The fixed-window query (the paper's Figure 12) on our own engine, through its driver, on a cluster of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driver import TIME, LocalCluster, Query, col, count, files, first, last, now
from hibench.answers import ANSWER
from hibench.dataset import FIELDS, Prepared
from hibench.meter import metered
from hibench.run_result import RunResult

Progress = Callable[[int], None]
"""Told how many records the answers so far count."""

OUTPUT = "per_ip"


def fixed_window(source: object, window_ms: int, ip: str, time: str) -> Query:
    """Map (address, time) → window aggregate → map (adds the time of emission); `ip`, `time`: the source's fields."""
    return (
        Query("fixed-window")
        .source(source)
        .map("pick", ip=col(ip), ts=col(time))
        .aggregate("window", TIME(f"{window_ms}ms"), by="ip", visits=count(), start=first("ts"), end=last("ts"))
        .map("stamp", ip=col("ip"), visits=col("visits"), start=col("start"), end=col("end"), emitted=now())
        .output(OUTPUT)
    )


def run_on_cep(
    prepared: Prepared, window_ms: int, instances: int, numa: bool, progress: Progress = lambda done: None
) -> tuple[RunResult, pa.Table]:
    """Runs the records of `prepared` through the query on `instances` instance managers; the result and the answers.

    No warm-up: kernels are compiled before the query is ready, and the clock starts after that. What the driver raises
    passes through.
    """
    with LocalCluster(instances=instances, numa=numa, data=[prepared.folder]) as cluster:
        running = cluster.deploy(fixed_window(_visits(prepared), window_ms, "source_ip", "creation_ms"), start=False)
        subscription = running.subscribe(OUTPUT)
        batches, done = [], 0
        with metered(cluster.processes()) as use:
            running.start()
            for batch in subscription:
                batches.append(batch)
                done += pc.sum(batch["visits"]).as_py() or 0
                progress(done)
    answers = answer_table(batches)
    result = RunResult.measured("cep", "on" if numa else "off", prepared.dataset.events, use, answers, settings(instances, numa))
    return result, answers


def answer_table(batches: list[pa.RecordBatch]) -> pa.Table:
    """The query's output rows as a table like ANSWER."""
    columns = [
        pa.chunked_array([batch["ip"] for batch in batches], pa.string()),
        _milliseconds([batch["start"] for batch in batches]),
        _milliseconds([batch["end"] for batch in batches]),
        pa.chunked_array([batch["visits"] for batch in batches], pa.int64()),
    ]
    return pa.table(columns, schema=ANSWER)


def settings(instances: int, numa: bool) -> dict[str, object]:
    bound = "each instance manager bound to a core and its node" if numa else "no affinity, no memory policy, round-robin"
    return {"instance managers": instances, "placement": bound, "warm-up": "none"}


def _visits(prepared: Prepared) -> object:
    """The dataset's files as a stream; only the time is anything but text."""
    text = {name: str for name in FIELDS[1:]}
    return files(
        "visits",
        paths=[str(path) for path in prepared.paths],
        creation_ms="timestamp[ms]",
        **text,
        event_time="creation_ms",
        disorder=f"{prepared.dataset.disorder_ms}ms",
    )


def _milliseconds(columns: list[pa.Array]) -> pa.ChunkedArray:
    """Microseconds, stored, to the milliseconds they were declared in."""
    counts = [np.asarray(column.cast(pa.int64())) // 1000 for column in columns]
    return pa.chunked_array(counts, pa.int64())
