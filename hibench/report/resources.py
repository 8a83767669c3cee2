"""What runs used, computed by Spark: CPU of every step, CPU and memory of every process over time, where the pages are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Row, SparkSession, Window
from pyspark.sql import functions as f

from hibench.report.tables import all_records, by_run
from hibench.runs.record import RunRecord

PIECES = 100
PIECE_SECONDS_LEAST = 0.25  # CPU times come in ticks of 10 ms


@dataclass(frozen=True)
class StepFigures:
    """A step of a subquery (docs/measuring.md), over all of its instances. `share`: of the CPU time of all steps."""

    subquery: str
    operator: str
    step: str
    rows: int
    cpu_seconds: float
    share: float

    @property
    def name(self) -> str:
        of = self.subquery if self.operator == self.subquery else f"{self.subquery} {self.operator}"
        return of if self.step == "operator" else f"{of} ({self.step})"

    @property
    def ns_per_row(self) -> float | None:
        return self.cpu_seconds * 1e9 / self.rows if self.rows else None


@dataclass(frozen=True)
class ProcessFigures:
    """A process over time: at `seconds[i]` it has used `cores[i]` cores since the point before, and has `anonymous_bytes[i]`."""

    process: str
    seconds: tuple[float, ...]
    cores: tuple[float, ...]
    anonymous_bytes: tuple[int, ...]


@dataclass(frozen=True)
class PageFigures:
    """Where a process has its memory: node → pages. `node_bound` None: it was not bound."""

    process: str
    node_bound: int | None
    pages: dict[int, int]

    @property
    def local_share(self) -> float | None:
        """The share of its pages that lie at the node it is bound to; None if it is bound to none."""
        total = sum(self.pages.values())
        return None if self.node_bound is None or not total else self.pages.get(self.node_bound, 0) / total


def step_costs(spark: SparkSession, records: Sequence[RunRecord]) -> dict[int, tuple[StepFigures, ...]]:
    """The most expensive first."""
    operators = all_records(spark, records, "operators")
    if operators is None:
        return {}
    summed = operators.groupBy("run", "subquery", "operator", "step").agg(f.sum("rows").alias("rows"), f.sum("cpu_ns").alias("cpu_ns"))
    whole = f.sum("cpu_ns").over(Window.partitionBy("run"))
    share = f.when(whole > 0, f.col("cpu_ns") / whole).otherwise(f.lit(0.0))
    shared = summed.withColumn("share", share).orderBy("run", f.desc("cpu_ns"), "subquery", "operator", "step")
    return {
        run: tuple(StepFigures(r["subquery"], r["operator"], r["step"], r["rows"], r["cpu_ns"] / 1e9, r["share"]) for r in rows)
        for run, rows in by_run(shared).items()
    }


def process_resources(spark: SparkSession, records: Sequence[RunRecord]) -> dict[int, tuple[ProcessFigures, ...]]:
    """By name; at most PIECES points of each."""
    timeline = all_records(spark, records, "timeline")
    if timeline is None:
        return {}
    piece = f.greatest(f.lit(PIECE_SECONDS_LEAST), f.max("seconds").over(Window.partitionBy("run")) / PIECES)
    pieces = timeline.withColumn("piece", f.ceil(f.col("seconds") / piece)).groupBy("run", "process", "piece")
    last = pieces.agg(f.max("seconds").alias("seconds"), f.max("cpu_seconds").alias("cpu"), f.max("anonymous_bytes").alias("bytes"))
    of_process = Window.partitionBy("run", "process").orderBy("seconds")
    used, passed = (f.col(name) - f.lag(name).over(of_process) for name in ("cpu", "seconds"))
    rated = last.withColumn("cores", f.when(passed > 0, used / passed))
    listed = f.sort_array(f.collect_list(f.struct("seconds", "cores", "bytes"))).alias("points")
    return {
        run: tuple(_process(row["process"], row["points"]) for row in rows)
        for run, rows in by_run(rated.groupBy("run", "process").agg(listed).orderBy("run", "process")).items()
    }


def _process(name: str, points: list[Row]) -> ProcessFigures:
    """The first point has no CPU of its own: it begins the next one's time."""
    rated = [point for point in points if point["cores"] is not None]
    columns = zip(*((point["seconds"], point["cores"], point["bytes"]) for point in rated), strict=True)
    return ProcessFigures(name, *columns) if rated else ProcessFigures(name, (), (), ())


def pages(spark: SparkSession, records: Sequence[RunRecord]) -> dict[int, tuple[PageFigures, ...]]:
    """By name."""
    placed = all_records(spark, records, "pages")
    if placed is None:
        return {}
    by_node = placed.groupBy("run", "process", "node_bound", "node").agg(f.sum("pages").alias("pages"))
    nodes = f.map_from_entries(f.collect_list(f.struct("node", "pages"))).alias("nodes")
    listed = by_node.groupBy("run", "process", "node_bound").agg(nodes).orderBy("run", "process")
    return {
        run: tuple(PageFigures(row["process"], row["node_bound"], dict(sorted(row["nodes"].items()))) for row in rows)
        for run, rows in by_run(listed).items()
    }
