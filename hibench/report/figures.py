"""Everything that a report says of a run, computed by Spark from its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from hibench.report.completeness import CompletenessFigures, completeness
from hibench.report.latency import LatencySummary, latencies
from hibench.report.resources import PageFigures, ProcessFigures, StepFigures, pages, process_resources, step_costs
from hibench.runs.record import RunRecord

_FACTS = ("id", "workload", "mode", "began", "window_ms", "rate", "series", "command", "nodes", "explanation")


@dataclass(frozen=True)
class RunFigures:
    """A run and what is computed from its tables; None or () where it has no such table. `label`: how the report calls it."""

    record: RunRecord
    label: str
    latency: LatencySummary | None = None
    completeness: CompletenessFigures | None = None
    steps: tuple[StepFigures, ...] = ()
    processes: tuple[ProcessFigures, ...] = ()
    pages: tuple[PageFigures, ...] = ()

    @property
    def bytes_per_second(self) -> float | None:
        """None where the size of the records is not known."""
        size = self.record.dataset.get("bytes")
        return size / self.record.result.seconds if isinstance(size, int) and self.record.result.seconds else None

    def to_json(self) -> dict[str, object]:
        record = self.record
        facts = {
            name: getattr(record, name) for name in ("id", "workload", "mode", "began", "window_ms", "rate", "series", "command", "nodes")
        }
        computed = {
            "latency": self.latency and asdict(self.latency),
            "completeness": self.completeness and asdict(self.completeness),
            "steps": [{**asdict(step), "ns_per_row": step.ns_per_row} for step in self.steps],
            "processes": [asdict(process) for process in self.processes],
            "pages": [{**asdict(each), "local_share": each.local_share} for each in self.pages],
        }
        described = {
            "machine": asdict(record.machine),
            "dataset": dict(record.dataset),
            "plan": record.plan,
            "explanation": record.explanation,
        }
        return {**facts, "label": self.label, "result": record.result.to_json(), **computed, **described}


def run_figures(spark: SparkSession, records: Sequence[RunRecord]) -> tuple[RunFigures, ...]:
    """The figures of every record, in their order."""
    latency, windows = latencies(spark, records), completeness(spark, records)
    costs, used, placed = step_costs(spark, records), process_resources(spark, records), pages(spark, records)
    return tuple(
        RunFigures(record, label, latency.get(i), windows.get(i), costs.get(i, ()), used.get(i, ()), placed.get(i, ()))
        for i, (record, label) in enumerate(zip(records, labels(records), strict=True))
    )


def labels(records: Sequence[RunRecord]) -> list[str]:
    """What tells runs apart that stand side by side: engine, binding, rate where rates differ, a number where all that is equal."""
    rates = len({record.rate for record in records if record.rate is not None}) > 1
    names = [
        f"{engine_name(record)} at {record.rate:,}/s" if rates and record.rate is not None else engine_name(record) for record in records
    ]
    keys = [(record.workload, record.mode, record.rate is None, name) for record, name in zip(records, names, strict=True)]
    return [f"{key[3]} #{keys[: i + 1].count(key)}" if keys.count(key) > 1 else key[3] for i, key in enumerate(keys)]


def engine_name(record: RunRecord) -> str:
    """Without a second node 'NUMA-aware' would promise too much."""
    if record.result.numa is None:
        return record.result.engine
    one_node = len(record.machine.numa_nodes) == 1
    aware, unaware = ("pinned", "unpinned") if one_node else ("NUMA-aware", "not NUMA-aware")
    return f"{record.result.engine} {aware if record.result.numa == 'on' else unaware}"
