"""How complete the answers of every window were, computed by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from hibench.report.tables import by_run, joined
from hibench.run_record import RunRecord

WINDOWS_SHOWN = 240
"""Of more windows, that many runs of neighbours are shown."""


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
    """Of every record with rows in its table `windows`, by place."""
    windows = joined(spark, records, "windows")
    if windows is None:
        return {}
    windows = windows.cache()
    by_window = by_run(_by_window(windows))
    found = {run: _figures(row, by_window[run]) for run, (row,) in by_run(_summaries(windows)).items()}
    windows.unpersist()
    return found


def _summaries(windows: DataFrame) -> DataFrame:
    complete = (f.col("events") == f.col("events_expected")) & (f.col("rows") == f.col("rows_expected"))
    share = f.least(_share("events"), _share("rows"))
    sums = [f.sum(name).alias(name) for name in ("events", "events_expected", "rows", "rows_expected")]
    summary = [f.count("*").alias("windows"), f.count_if(complete).alias("complete"), f.min(share).alias("least")]
    return windows.groupBy("run").agg(*summary, *sums)


def _share(name: str) -> f.Column:
    """What of that which is expected is there; 1 where nothing is expected and nothing is."""
    expected, got = f.col(f"{name}_expected"), f.col(name)
    return f.when(expected > 0, got / expected).when(got == 0, f.lit(1.0)).otherwise(f.lit(0.0))


def _by_window(windows: DataFrame) -> DataFrame:
    """At most WINDOWS_SHOWN rows of a run, in order of time."""
    first = windows.groupBy("run").agg(f.min("start_us").alias("first_us"), f.max("start_us").alias("last_us"))
    width = f.greatest(f.lit(1.0), (f.col("last_us") - f.col("first_us") + 1) / WINDOWS_SHOWN)
    places = windows.join(f.broadcast(first), "run").withColumn("place", f.floor((f.col("start_us") - f.col("first_us")) / width))
    sums = [f.sum(name).alias(name) for name in ("events", "events_expected", "rows", "rows_expected")]
    seconds = f.min((f.col("start_us") - f.col("first_us")) / 1e6).alias("seconds")
    shares = [_share("events").alias("events"), _share("rows").alias("rows")]
    return places.groupBy("run", "place").agg(seconds, *sums).select("run", "seconds", *shares).orderBy("run", "seconds")


def _figures(row: Row, windows: list[Row]) -> CompletenessFigures:
    names = ("windows", "complete", "least", "events", "events_expected", "rows", "rows_expected")
    by_window = tuple(WindowFigures(each["seconds"], each["events"], each["rows"]) for each in windows)
    return CompletenessFigures(*(row[name] for name in names), by_window=by_window)
