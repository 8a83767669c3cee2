"""A workload's query under a fixed rate of arrivals, to measure latency.

Open loop: record i is created on schedule, at start + i / rate, or in bursts, whether or not the engine keeps up; its event time
is that moment. A thread sends what is due.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from driver import LocalCluster
from hibench.engines.cep_engine import Progress, cep_settings, counted, deployed, evidence
from hibench.engines.clusters import GivenCluster, cluster_for, totals, used_since
from hibench.options import Pace
from hibench.records.dataset import FIELDS, Dataset
from hibench.runs.answers import Expected, RowsAgain, Shape, summed
from hibench.runs.kept_answers import Kept
from hibench.runs.latency import Latencies
from hibench.runs.meter import Use, metered
from hibench.runs.outcome import RunOutcome
from hibench.runs.reference import expected_of
from hibench.runs.result import RunResult
from hibench.searching.schedule import PADDING, Pool, Schedule, created_records
from hibench.workloads.workload import ANSWERS, CREATION, REPORTED, VISITS, RunTerms, Workload, visits_published

_TICK_SECONDS = 0.001
_LEAD_SECONDS = 0.5
_SIDE_MARGIN_MS = 600_000
_MICROSECONDS = pa.timestamp("us", "UTC")


@dataclass
class Sender:
    """Sends the records on schedule from a thread of its own; `lag_s` is how late the latest of them left. `publisher` opens one, and
    `flush` is what to do with it when all that is due was sent."""

    schedule: Schedule
    pool: Pool
    publisher: Callable[[], AbstractContextManager[Any]]
    flush: Callable[[Any], None] = lambda publisher: None
    lag_s: float = 0.0
    failure: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """The thread runs while the block does; its failure is raised after a block that had none of its own."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            thread.join(timeout=10)
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            with self.publisher() as out:
                for numbers in self._due():
                    created = pa.array(self.schedule.created_us(np.arange(numbers.start, numbers.stop))).cast(_MICROSECONDS)
                    for records in self.pool.created(numbers, created):
                        out.send(records)
                    self.flush(out)
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


class OpenLoop:
    """A workload at a pace: its query over published records, and what has to come out of it. `dataset` says what is in the records."""

    def __init__(self, workload: Workload, dataset: Dataset, terms: RunTerms, pace: Pace) -> None:
        self.workload, self.dataset, self.terms, self.pace = workload, dataset, terms, pace
        columns = published_columns(workload, dataset, pace)
        self.pool, self.shape = Pool(dataset, columns), workload.shape(terms)
        self.query = workload.query(visits_published({**columns, CREATION: "timestamp[us]"}, terms.disorder_ms), terms)

    def run(
        self,
        answers: Iterable[pa.RecordBatch],
        sender: Sender,
        processes: list[tuple[str, int]],
        rule: LatencyRule,
        scratch: Path,
        progress: Progress,
    ) -> tuple[Use, RowsAgain]:
        """Sends all records and takes all answers; `scratch` takes them where they are as many as records."""
        with metered(processes) as use, sender.sending(), Kept(scratch if self.workload.in_files else None) as kept:
            use.done = 0
            for batch in answers:
                rule.add(batch, time.time_ns() // 1000)
                kept.add(batch)
                use.done += counted(self.shape, batch)
                progress(use.done)
        return use, kept.rows(self.shape)

    def schedule(self, lead_seconds: float = _LEAD_SECONDS) -> Schedule:
        """One that begins soon."""
        return Schedule(time.time() + lead_seconds, self.pace.rate, self.dataset.events, self.pace.burst)

    def expected(self, schedule: Schedule, last_only: bool = False) -> Expected:
        return expected_of(self.workload, self.terms, lambda: created_records(self.pool, schedule), last_only)

    def facts(self, sender: Sender) -> dict[str, object]:
        bursts = f", {self.pace.burst} at a time" if self.pace.burst > 1 else ""
        return {
            "answers go to": "this process, which has subscribed to them",
            "rate": f"{self.pace.rate:,}/s{bursts}",
            "sender late by at most": f"{sender.lag_s * 1e3:.1f} ms",
        }


def run_at_rate(
    loop: OpenLoop,
    instances: int,
    numa: bool,
    scratch: Path,
    progress: Progress = lambda done: None,
    url: str | None = None,
) -> tuple[RunOutcome, Expected]:
    """Publishes its records at its pace; what came out, and what was expected to. `scratch` takes the answers where they are as many as
    records, and has to stay as long as they may be asked for."""
    with cluster_for(url, instances, numa, [scratch]) as cluster:
        return run_loop_on_cluster(cluster, loop, numa, scratch, progress)


def run_loop_on_cluster(
    cluster: LocalCluster | GivenCluster,
    loop: OpenLoop,
    numa: bool,
    scratch: Path,
    progress: Progress = lambda done: None,
) -> tuple[RunOutcome, Expected]:
    """`run_at_rate` in a cluster that runs already, with `scratch` among its folders."""
    with deployed(cluster, loop.query, start=True) as running:
        subscription, schedule = running.subscribe(ANSWERS), loop.schedule()
        sender = Sender(schedule, loop.pool, lambda: cluster.publisher(VISITS))
        rule = LatencyRule(loop.workload, loop.shape, loop.terms, schedule, loop.pace.reports)
        before = totals(cluster)
        use, rows = loop.run(subscription, sender, cluster.processes(), rule, scratch, progress)
        use.processes += used_since(cluster, before)
        found = evidence(cluster, running, use)
    total = summed(loop.shape, rows(), loop.terms.window_ms)
    facts = {**cep_settings(loop.workload, len(cluster.instance_managers()), numa), **loop.facts(sender)}
    result = RunResult.measured("cep", "on" if numa else "off", loop.dataset.events, use, total.result(), facts, rule.samples.brief())
    tables = {**found.tables, "latency": rule.samples.table()}
    outcome = RunOutcome(result, rows, total.windows, tables, found.plan, found.explanation, found.placed)
    return outcome, loop.expected(schedule)


def published_columns(workload: Workload, dataset: Dataset, pace: Pace) -> dict[str, object]:
    """What is sent: what the workload needs, or the whole record with its padding."""
    if not pace.whole_records(dataset):
        return workload.columns
    return {**{name: workload.columns.get(name, str) for name in FIELDS}, CREATION: "timestamp[ms]", PADDING: str}


def horizon_ms(dataset: Dataset, pace: Pace) -> tuple[int, int]:
    """A time in ms before the first record of a run that begins soon, and one behind its last."""
    moment = int(time.time() * 1000)
    return moment - dataset.disorder_ms, moment + dataset.events * 1000 // pace.rate + _SIDE_MARGIN_MS


class LatencyRule:
    """From when to when a latency runs, by what the workload answers and for which report.

    reports   from the creation of a record (of a window: of its earliest) to the report of the last operator, once for every record;
              that is when its clock said so, or, with `delivered`, when the answer came here
    otherwise from the creation of the record that let the answer out to its delivery here, once for every answer: the record itself,
              or the first with event time ≥ the window's end + disorder. Answers that only the end of the stream let out are left out.
    """

    def __init__(
        self, workload: Workload, shape: Shape, terms: RunTerms, schedule: Schedule, reports: bool, delivered: bool = False
    ) -> None:
        self.workload, self.shape, self.terms, self.schedule = workload, shape, terms, schedule
        self.reports, self.delivered = reports, delivered
        self.samples = Latencies()

    def add(self, batch: pa.RecordBatch, delivered_us: int) -> None:
        if self.reports:
            counts = _integers(batch, self.shape.events) if self.shape.events else np.ones(batch.num_rows, np.int64)
            reported = np.full(batch.num_rows, delivered_us) if self.delivered else _integers(batch, REPORTED)
            self.samples.add(_integers(batch, self.workload.created), reported, counts)
            return
        created = self._closing(batch) if self.workload.by_window else _integers(batch, self.workload.created)
        self.samples.add(created, np.full(len(created), delivered_us), np.ones(len(created), np.int64))

    def _closing(self, batch: pa.RecordBatch) -> np.ndarray:
        """The creation of the record that closed the window, of every answer whose window a record closed."""
        slide_us, disorder_us = self.terms.slide_ms * 1000, self.terms.disorder_ms * 1000
        opens = _integers(batch, self.shape.time) // slide_us * slide_us
        closes_s = (opens + self.terms.window_ms * 1000 + disorder_us) / 1e6
        closing = self.schedule.first_from(closes_s)
        return self.schedule.created_us(closing[closing < self.schedule.events])


def _integers(batch: pa.RecordBatch, name: str) -> np.ndarray:
    return np.asarray(batch[name].cast(pa.int64()))
