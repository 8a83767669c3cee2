"""The fixed-window query under a fixed rate of arrivals, to measure latency.

Open loop: record i is created on schedule, at start + i / rate, whether or not the engine keeps up; its event time is
that moment. A thread sends what is due every millisecond. An answer's latency runs from the scheduled creation of the
record that lets its window close (the first with event time ≥ the window's end + disorder) to the answer's delivery.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driver import LocalCluster, stream
from hibench.cep_engine import OUTPUT, answer_table, fixed_window, settings
from hibench.dataset import Dataset
from hibench.meter import metered
from hibench.records import addresses
from hibench.reference import count_windows
from hibench.run_result import Latency, RunResult

_TICK_SECONDS = 0.001
_LEAD_SECONDS = 0.5
_VISIT = pa.schema([("ip", pa.string()), ("ts", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True)
class Schedule:
    """When every record is created: record i at `start_s` + i / `rate`, seconds since 1970."""

    start_s: float
    rate: int
    events: int

    def due(self, moment_s: float) -> int:
        """How many records have been created by then."""
        return int(min(self.events, max(0.0, np.floor((moment_s - self.start_s) * self.rate) + 1)))

    def created_s(self, numbers: np.ndarray) -> np.ndarray:
        return self.start_s + numbers / self.rate

    def times_ms(self, numbers: range) -> np.ndarray:
        """Event times: the creation, in whole milliseconds."""
        return np.floor(self.created_s(np.arange(numbers.start, numbers.stop)) * 1000).astype(np.int64)


@dataclass
class _Sender:
    """Sends the records on schedule from a thread of its own; `lag_s` is how late the latest of them left."""

    schedule: Schedule
    ips: pa.Array
    lag_s: float = 0.0
    failure: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, cluster: LocalCluster) -> None:
        try:
            with cluster.publisher("visits") as out:
                for numbers in self._due():
                    out.send(self._batch(numbers))
        except BaseException as error:  # handed to the thread that waits for the answers
            self.failure = error

    def _due(self) -> Iterator[range]:
        """Runs of record numbers, each as soon as its last is due."""
        sent = 0
        while sent < self.schedule.events and not self.stopped.wait(_TICK_SECONDS):
            moment = time.time()
            due = self.schedule.due(moment)
            if due > sent:
                self.lag_s = max(self.lag_s, moment - float(self.schedule.created_s(np.array(sent))))
                yield range(sent, due)
                sent = due

    def _batch(self, numbers: range) -> pa.RecordBatch:
        times = pa.array(self.schedule.times_ms(numbers) * 1000).cast(_VISIT.field("ts").type)
        return pa.record_batch([self.ips.slice(numbers.start, len(numbers)), times], schema=_VISIT)


def run_at_rate(
    dataset: Dataset,
    window_ms: int,
    rate: int,
    instances: int,
    numa: bool,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[RunResult, pa.Table, pa.Table]:
    """Publishes the addresses of `dataset` at `rate` records a second; the result, the answers, the expected ones."""
    visits = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder=f"{dataset.disorder_ms}ms")
    ips = addresses(dataset, range(dataset.events))
    with LocalCluster(instances=instances, numa=numa) as cluster:
        running = cluster.deploy(fixed_window(visits, window_ms, "ip", "ts"))
        subscription = running.subscribe(OUTPUT)
        schedule = Schedule(time.time() + _LEAD_SECONDS, rate, dataset.events)
        sender, batches, delivered_s, done = _Sender(schedule, ips), [], [], 0
        with metered(cluster.processes()) as use, _sending(sender, cluster):
            for batch in subscription:
                delivered_s.append(time.time())
                batches.append(batch)
                done += pc.sum(batch["visits"]).as_py() or 0
                progress(done)
    expected = count_windows(ips, pa.array(schedule.times_ms(range(dataset.events))), window_ms)
    answers = answer_table(batches)
    latency = latencies(schedule, window_ms, dataset.disorder_ms, batches, delivered_s)
    facts = {
        **settings(instances, numa),
        "rate": f"{rate:,}/s",
        "sender late by at most": f"{sender.lag_s * 1e3:.1f} ms",
    }
    result = RunResult.measured("cep", "on" if numa else "off", dataset.events, use, answers, facts, latency)
    return result, answers, expected


@contextlib.contextmanager
def _sending(sender: _Sender, cluster: LocalCluster) -> Iterator[None]:
    """The sender's thread runs while the block does; its failure is raised after a block that had none of its own."""
    thread = threading.Thread(target=sender.run, args=(cluster,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        sender.stopped.set()
        thread.join(timeout=10)
    if sender.failure is not None:
        raise sender.failure


def latencies(
    schedule: Schedule, window_ms: int, disorder_ms: int, batches: list[pa.RecordBatch], delivered_s: list[float]
) -> Latency | None:
    """Percentiles over all answers that a record released; None if there was none."""
    samples = [
        _batch_latencies_ms(schedule, window_ms, disorder_ms, answer_table([batch])["first_ms"].to_numpy(), moment)
        for batch, moment in zip(batches, delivered_s, strict=True)
    ]
    every = np.concatenate(samples) if samples else np.empty(0)
    if not len(every):
        return None
    return Latency(*np.percentile(every, [50, 95, 99]).tolist(), samples=len(every))


def _batch_latencies_ms(schedule: Schedule, window_ms: int, disorder_ms: int, first_ms: np.ndarray, delivered_s: float) -> np.ndarray:
    """One per answer of the batch whose window a record closed."""
    closes_s = ((first_ms // window_ms + 1) * window_ms + disorder_ms) / 1000
    closing = np.maximum(0, np.ceil((closes_s - schedule.start_s) * schedule.rate))
    return (delivered_s - schedule.created_s(closing[closing < schedule.events])) * 1000
