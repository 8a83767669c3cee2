"""How complete the answers of every window were, computed by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from hibench.report.tables import all_records, by_run
from hibench.runs.record import RunRecord

WINDOWS_SHOWN = 240
"""Of more windows, that many runs of neighbours are shown."""

_SUMMED = ("events", "events_expected", "rows", "rows_expected")


@dataclass(frozen=True)
class WindowFigures:
    """One window, or neighbours taken together: shares of the records and of the rows that should be there; `seconds` since the first."""

    seconds: float
    events: float
    rows: float


@dataclass(frozen=True)
class CompletenessFigures:
    """`complete` of `windows` have all of their records and rows; `least`: the smallest share of its records that a window has."""

    windows: int
    complete: int
    least: float
    events: int
    events_expected: int
    rows: int
    rows_expected: int
    by_window: tuple[WindowFigures, ...] = ()


def completeness(spark: SparkSession, records: Sequence[RunRecord]) -> dict[int, CompletenessFigures]:
    """The completeness of every record with rows in its table `windows`, by place."""
    windows = all_records(spark, records, "windows")
    return {} if windows is None else {run: _figures(rows) for run, rows in by_run(_by_window(windows)).items()}


def _share(name: str) -> Column:
    """What of that which is expected is there; 1 where nothing is expected and nothing is."""
    expected, got = f.col(f"{name}_expected"), f.col(name)
    return f.when(expected > 0, got / expected).when(got == 0, f.lit(1.0)).otherwise(f.lit(0.0))


def _by_window(windows: DataFrame) -> DataFrame:
    """At most WINDOWS_SHOWN rows of a run, in order of time, each for all windows that begin in one piece of it."""
    run = Window.partitionBy("run")
    since_first = f.col("start_us") - f.min("start_us").over(run)
    piece_us = f.greatest(f.lit(1.0), (f.max("start_us").over(run) - f.min("start_us").over(run) + 1) / WINDOWS_SHOWN)
    complete = (f.col("events") == f.col("events_expected")) & (f.col("rows") == f.col("rows_expected"))
    least = f.min(f.least(_share("events"), _share("rows"))).alias("least")
    sums = [f.sum(name).alias(name) for name in _SUMMED]
    facts = [f.min("since_us").alias("since_us"), f.count("*").alias("windows"), f.count_if(complete).alias("complete"), least]
    pieces = windows.withColumn("since_us", since_first).withColumn("piece", f.floor(since_first / piece_us)).groupBy("run", "piece")
    shares = [_share(name).alias(f"share_of_{name}") for name in ("events", "rows")]
    return pieces.agg(*facts, *sums).select("*", *shares).orderBy("run", "piece")


def _figures(rows: list[Row]) -> CompletenessFigures:
    sums = {name: sum(row[name] for row in rows) for name in ("windows", "complete", *_SUMMED)}
    by_window = tuple(WindowFigures(row["since_us"] / 1e6, row["share_of_events"], row["share_of_rows"]) for row in rows)
    return CompletenessFigures(least=min(row["least"] for row in rows), by_window=by_window, **sums)
