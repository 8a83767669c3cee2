"""A workload's query on Spark Structured Streaming: the same `Query`, compiled by the driver.

Warm: the query runs twice in one session and the second run counts. Answers go where those of our engine go: to files, or to this
process.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyspark

from driver import Query, deploy
from driver.spark.session import FAST, SESSIONS, Spark
from driver.spark.standalone import StandaloneSpark
from hibench.engines.cep_engine import answers_and_use, answers_folder, columns_of_answers, written_rows
from hibench.records.dataset import Prepared
from hibench.runs.answers import RowsAgain, Shape, folded, summed
from hibench.runs.meter import Use, metered
from hibench.runs.outcome import RunOutcome, timeline_table
from hibench.runs.result import RunResult
from hibench.workloads.workload import ANSWERS, RunTerms, Workload, visits_of_files

STANDALONE = "standalone:"
"""Begins a master that is a cluster of our own: how many workers comes after it."""

BatchProgress = Callable[[str, int], None]
"""Told the stage ('warm-up' or 'run') and how many records of it the answers so far count."""


@dataclass(frozen=True)
class SparkEngine:
    """A Spark that is there: its session, the address that queries are deployed to, the processes of a cluster of our own."""

    spark: Spark
    master: str
    workers: tuple[int, ...] = ()

    def processes(self) -> list[tuple[str, int]]:
        """(name, pid) of all of it that is on this machine and ours, as of now."""
        executors = [child.pid for pid in self.workers for child in psutil.Process(pid).children(recursive=True)]
        named = [(f"spark {kind} {pid}", pid) for kind, pids in (("daemon", self.workers), ("executor", executors)) for pid in pids]
        return [("spark jvm", self.spark.jvm), *named]


@contextlib.contextmanager
def spark_at(master: str, cores: int) -> Iterator[SparkEngine]:
    """Spark at `master`, whose session all queries share while the block runs; `standalone:N` is a cluster of N workers with `cores`
    between them, on this machine and for as long. Raises ClusterError: it cannot start."""
    with contextlib.ExitStack() as stack:
        workers = int(master.partition(":")[2]) if master.startswith(STANDALONE) else 0
        cluster = stack.enter_context(StandaloneSpark(workers, max(1, cores // workers))) if workers else None
        address = cluster.master if cluster else master
        spark = SESSIONS.acquire(address)
        stack.callback(SESSIONS.release)
        yield SparkEngine(spark, address, tuple(process.pid for process in cluster.processes) if cluster else ())


def run_on_spark(
    workload: Workload,
    prepared: Prepared,
    terms: RunTerms,
    engine: SparkEngine,
    scratch: Path,
    progress: BatchProgress = lambda stage, done: None,
    stages: tuple[str, ...] = ("warm-up", "run"),
) -> RunOutcome:
    """Runs the records of `prepared` through the query on Spark, once for each stage, of which the last counts. Answers that go to files
    go to `scratch`, where they have to stay as long as they may be asked for. Of running answers only the last of every key is left.

    What the driver raises passes through.
    """
    query = workload.query(visits_of_files(workload.columns, prepared.paths, terms.disorder_ms), terms)
    shape, run = workload.shape(terms), _into_files if workload.in_files else _to_subscriber
    for stage in stages:
        done = lambda count, stage=stage: progress(stage, min(count, prepared.dataset.events))  # noqa: E731
        rows, use, explanation = run(engine, query, shape, scratch, done)
    facts = spark_settings(workload, engine)
    rows, shape = last_answers(shape, rows)
    total = summed(shape, rows(), terms.window_ms)
    result = RunResult.measured("spark", None, prepared.dataset.events, use, total.result(), facts)
    return RunOutcome(result, rows, total.windows, {"timeline": timeline_table(use)}, explanation=explanation)


def last_answers(shape: Shape, rows: RowsAgain) -> tuple[RowsAgain, Shape]:
    """The last running answer of every key; other answers as they are."""
    return (lambda: [folded(shape, rows())], shape.last_only()) if shape.key else (rows, shape)


def _to_subscriber(
    engine: SparkEngine, query: Query, shape: Shape, scratch: Path, progress: Callable[[int], None]
) -> tuple[RowsAgain, Use, str]:
    """The answers come to this process and stay in memory."""
    with deploy(query.output(ANSWERS), engine="spark", master=engine.master, start=False) as running:
        rows, use = answers_and_use(running, engine.processes(), shape, progress)
        return rows, use, running.explain()


def _into_files(
    engine: SparkEngine, query: Query, shape: Shape, scratch: Path, progress: Callable[[int], None]
) -> tuple[RowsAgain, Use, str]:
    """Spark's tasks write the answers."""
    folder = answers_folder(scratch)
    shutil.rmtree(folder, ignore_errors=True)
    with deploy(query.output(ANSWERS, folder=folder), engine="spark", master=engine.master, start=False) as running:

        def written() -> int:
            rows = int(running.status()["rows"][ANSWERS])
            progress(rows)
            return rows

        with metered(engine.processes(), written) as use:
            running.start()
            running.wait()
        explanation = running.explain()
    return (lambda: written_rows(folder, shape, columns_of_answers(query))), use, explanation


def spark_settings(workload: Workload, engine: SparkEngine) -> dict[str, object]:
    spark = engine.spark
    runtime: Any = spark.session.sparkContext._jvm  # untyped: every name of a JVM
    return {
        "pyspark": pyspark.__version__,
        "java": runtime.java.lang.System.getProperty("java.version"),
        "master": engine.master,
        "spark.sql.shuffle.partitions": spark.cores,
        "workers": len(engine.workers) - 1 if engine.workers else "none, all in one process",
        "spark.driver.memory": f"{spark.memory_mb}m",
        "trigger": "availableNow",
        "state store": FAST["spark.sql.streaming.stateStore.providerClass"].rpartition(".")[2],
        "answers go to": "text files, one for each task" if workload.in_files else "this process, which has subscribed to them",
        "warm": "second of two runs in one session",
    }
