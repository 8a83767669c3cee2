"""The fixed-window query on Spark Structured Streaming, as fast as we know to run it honestly.

Warm: the query runs twice in one session and the second run counts. Spark closes a window only when a later record
comes, so a sentinel an hour later ends the last file; its own window never closes and so is in no answer.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as arrow
import pyspark
from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming.query import StreamingQuery

from hibench.answers import summed
from hibench.dataset import FIELDS, Prepared
from hibench.errors import EngineError
from hibench.meter import metered
from hibench.outcome import Outcome, timeline_table
from hibench.run_result import RunResult
from hibench.spark import LocalSpark, local_spark
from hibench.workloads.workload import Terms, Workload

Progress = Callable[[str, int], None]
"""Told the stage ('warm-up' or 'run') and how many records of it are done."""

_SENTINEL_AFTER_MS = 3_600_000
_POLL_SECONDS = 0.5
_FILES_PER_BATCH = 5  # 10 M records on two cores, CPU s (wall s): one 34 (42), two 36 (35), five 24 (14), ten 27 (17)
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
CONF = {
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
    "spark.sql.streaming.numRecentProgressUpdates": "1000000",  # all micro-batches are counted at the end
}


def run_on_spark(
    workload: Workload, prepared: Prepared, terms: Terms, cores: int, progress: Progress = lambda stage, done: None
) -> Outcome:
    """Runs the records of `prepared` through the query on `cores` cores.

    Raises EngineError with the cause if Spark cannot start or fails.
    """
    with local_spark(cores, CONF) as spark:
        return run_in(spark, workload, prepared, terms, progress)


def run_in(
    spark: LocalSpark, workload: Workload, prepared: Prepared, terms: Terms, progress: Progress = lambda stage, done: None
) -> Outcome:
    """`run_on_spark` in a session that runs already (with CONF); it is left as it was, but warm."""
    scratch, window_ms = Path(tempfile.mkdtemp(dir=spark.scratch)), terms.window_ms
    feed, shape = _feed(scratch / "feed", prepared, window_ms), workload.shape(terms)
    for stage in ("warm-up", "run"):
        with metered([("spark jvm", spark.jvm)]) as use:
            query = _start(spark, feed, scratch / stage, window_ms, prepared.dataset.disorder_ms)
            _await(query, lambda done, stage=stage: progress(stage, prepared.events_before(done)))
        _expect_all_read(query, prepared.dataset.events + 1)
    answers = arrow.dataset(scratch / "run", format="parquet").to_table()
    total = summed(shape, [shape.of(answers)], window_ms)
    result = RunResult.measured("spark", None, prepared.dataset.events, use, total.result(), _settings(spark, prepared))
    return Outcome(result, lambda: [shape.of(answers)], total.windows, {"timeline": timeline_table(use)})


def _feed(folder: Path, prepared: Prepared, window_ms: int) -> Path:
    """A folder of links to the dataset's files, the last one a copy that ends with the sentinel.

    Spark takes files in the order of their modification times, so every file gets its own.
    """
    folder.mkdir()
    *links, last = prepared.paths
    for path in links:
        (folder / path.name).symlink_to(path)
    shutil.copyfile(last, folder / last.name)
    with open(folder / last.name, "ab") as file:
        newest = _newest_ms(prepared)
        file.write(f"{newest + window_ms + _SENTINEL_AFTER_MS},0.0.0.0,,,,,,,,\n".encode())
    return folder


def _newest_ms(prepared: Prepared) -> int:
    """An event time that no record exceeds: the last record's own, and what it may lie behind."""
    with open(prepared.paths[-1], "rb") as file:
        file.seek(-min(1024 + prepared.dataset.record_bytes, prepared.files[-1].bytes), 2)
        last = file.read().splitlines()[-1]
    return int(last.partition(b",")[0]) + prepared.dataset.disorder_ms


def _start(spark: LocalSpark, feed: Path, sink: Path, window_ms: int, disorder_ms: int) -> StreamingQuery:
    columns = ", ".join(f"{name} {'long' if name == FIELDS[0] else 'string'}" for name in (*FIELDS, "padding"))
    reader = spark.session.readStream.schema(columns).option("quote", "").option("maxFilesPerTrigger", _FILES_PER_BATCH)
    writer = _answers(reader.csv(str(feed)), window_ms, disorder_ms).writeStream.format("parquet").outputMode("append")
    return writer.option("path", str(sink)).option("checkpointLocation", f"{sink}-checkpoint").trigger(availableNow=True).start()


def _answers(visits: DataFrame, window_ms: int, disorder_ms: int) -> DataFrame:
    """Map (address, time) → window aggregate → map (adds the time of emission)."""
    picked = visits.select(
        functions.col("source_ip").alias("ip"),
        functions.col("creation_ms").alias("ms"),
        functions.timestamp_millis("creation_ms").alias("time"),
    ).withWatermark("time", f"{disorder_ms} milliseconds")
    windows = picked.groupBy(functions.window("time", f"{window_ms} milliseconds"), "ip").agg(
        functions.min("ms").alias("start"),
        functions.max("ms").alias("end"),
        functions.count("*").alias("visits"),
    )
    return windows.select("ip", "start", "end", "visits", functions.current_timestamp().alias("emitted"))


def _await(query: StreamingQuery, progress: Callable[[int], None]) -> None:
    """Waits for the end of the query, telling how many files are done. Raises what the query raised."""
    while not query.awaitTermination(_POLL_SECONDS):
        last = query.lastProgress
        progress((last["batchId"] + 1) * _FILES_PER_BATCH if last else 0)


def _expect_all_read(query: StreamingQuery, expected: int) -> None:
    read = sum(batch["numInputRows"] for batch in query.recentProgress)
    if read != expected:
        raise EngineError(f"Spark read {read:,} records, expected {expected:,} (one of them the sentinel)")


def _settings(spark: LocalSpark, prepared: Prepared) -> dict[str, object]:
    runtime = spark.session.sparkContext._jvm.java.lang.System
    return {
        "pyspark": pyspark.__version__,
        "java": runtime.getProperty("java.version"),
        "master": f"local[{spark.cores}]",
        "spark.sql.shuffle.partitions": spark.cores,
        "spark.driver.memory": f"{spark.memory_mb}m",
        "trigger": "availableNow",
        "micro-batches": f"{_FILES_PER_BATCH} files of {prepared.dataset.file_events:,} records each",
        "state store": _STATE_STORE.rpartition(".")[2],
        "sink": "parquet files",
        "warm": "second of two runs in one session",
    }
