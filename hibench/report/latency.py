"""Latencies of runs, computed by Spark: each sample weighs as many answers as it stands for.

Percentiles are exact: the value at place q·(n - 1) of all n answers in order, linear between two of them, as NumPy has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from hibench.report.tables import all_records, by_run
from hibench.runs.record import RunRecord

PERCENTILES = (50.0, 75.0, 95.0, 98.0, 99.0, 99.9)
"""Those of the original's report."""

CURVE = tuple(
    100 - rest
    for rest in (100, 90, 80, 70, 60, 50, 40, 30, 25, 20, 15, 10, 7.5, 5, 3.5, 2, 1, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)
)
"""Percentiles that a distribution is drawn through; those beyond the number of answers are left out."""

MOMENTS = 60
"""Into how many pieces of equal length the time of a run is cut."""


@dataclass(frozen=True)
class Moment:
    """The answers delivered in one piece of the run, which ends `seconds` after the first tuple was created. Milliseconds."""

    seconds: float
    answers: int
    p50: float
    p99: float
    most: float


@dataclass(frozen=True)
class LatencySummary:
    """Milliseconds over `answers` answers. `percentiles`: those of PERCENTILES; `curve`: percentile → value.

    `span_us`: from the first creation to the last delivery.
    """

    answers: int
    mean: float
    stddev: float
    least: float
    most: float
    percentiles: dict[float, float]
    curve: dict[float, float]
    span_us: int
    moments: tuple[Moment, ...] = ()

    def at(self, percentile: float) -> float:
        return self.percentiles[percentile]

    @property
    def answers_per_second(self) -> float:
        """As the original computes its throughput; 0 for answers in no time."""
        return self.answers * 1e6 / self.span_us if self.span_us else 0.0


def latencies(spark: SparkSession, records: Sequence[RunRecord]) -> dict[int, LatencySummary]:
    """The latency of every record with answers in its table `latency`, by place."""
    samples = all_records(spark, records, "latency")
    if samples is None:
        return {}
    taken = f.greatest(f.lit(0), f.col("delivered_us") - f.col("created_us"))  # two clocks may disagree
    samples = samples.withColumn("ms", taken / 1000)
    summaries = {run: rows[0] for run, rows in by_run(_summaries(samples)).items() if rows[0]["answers"]}
    moments = by_run(_moments(spark, samples, summaries)) if summaries else {}
    return {run: _figures(summary, moments.get(run, [])) for run, summary in summaries.items()}


def _summaries(samples: DataFrame) -> DataFrame:
    weighted = f.col("ms") * f.col("answers")
    return samples.groupBy("run").agg(
        f.sum("answers").alias("answers"),
        f.sum(weighted).alias("total"),
        f.sum(weighted * f.col("ms")).alias("squares"),
        f.min("ms").alias("least"),
        f.max("ms").alias("most"),
        f.min("created_us").alias("begin_us"),
        f.max("delivered_us").alias("end_us"),
        _percentiles((*PERCENTILES, *CURVE)).alias("percentiles"),
    )


def _percentiles(wanted: Sequence[float]) -> Column:
    return f.percentile("ms", [each / 100 for each in wanted], f.col("answers"))


def _moments(spark: SparkSession, samples: DataFrame, summaries: dict[int, Row]) -> DataFrame:
    """One row for each piece of a run in which answers were delivered, in order."""
    spans = [(run, row["begin_us"], max(1.0, (row["end_us"] - row["begin_us"]) / MOMENTS)) for run, row in summaries.items()]
    pieces = f.broadcast(spark.createDataFrame(spans, "run int, begin_us long, piece_us double"))
    piece = f.least(f.lit(MOMENTS - 1), f.floor((f.col("delivered_us") - f.col("begin_us")) / f.col("piece_us")))
    return (
        samples.join(pieces, "run")
        .groupBy("run", "piece_us", piece.alias("piece"))
        .agg(f.sum("answers").alias("answers"), _percentiles((50, 99, 100)).alias("percentiles"))
        .withColumn("seconds", (f.col("piece") + 1) * f.col("piece_us") / 1e6)
        .orderBy("run", "piece")
    )


def _figures(row: Row, moments: list[Row]) -> LatencySummary:
    answers, mean = row["answers"], row["total"] / row["answers"]
    variance = max(0.0, row["squares"] - answers * mean * mean) / max(1, answers - 1)
    values = dict(zip((*PERCENTILES, *CURVE), row["percentiles"], strict=True))
    return LatencySummary(
        answers=answers,
        mean=mean,
        stddev=sqrt(variance),
        least=row["least"],
        most=row["most"],
        percentiles={each: values[each] for each in PERCENTILES},
        curve={each: values[each] for each in CURVE if (100 - each) * answers >= 100},
        span_us=row["end_us"] - row["begin_us"],
        moments=tuple(Moment(each["seconds"], each["answers"], *each["percentiles"]) for each in moments),
    )
