"""Two groups of runs against each other: what became worse, beyond what runs of one group differ among themselves.

A figure of a group is the median over its runs. Where a group has several runs, the noise is the greater spread of the two groups (largest
less smallest, by the median), and at least NOISE_LEAST; where a group has one, it is a stated default. Completeness has no noise.
Medians and spreads are computed by Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from hibench.errors import OptionError
from hibench.report.completeness import CompletenessFigures, completeness
from hibench.report.latency import PERCENTILES, LatencySummary, latencies
from hibench.report.tables import collected
from hibench.runs.record import RunRecord

NOISE_LEAST = 0.02
NOISE_OF_ONE = {"throughput": 0.10, "CPU": 0.10, "latency": 0.25, "completeness": 0.0}
"""What a figure of that kind may differ by where a group has one run only."""


@dataclass(frozen=True)
class Difference:
    """One figure of both groups: medians and numbers of runs that have it.

    change  of the second against the first, as a share of the first; None where the first is 0
    noise   how large a change for the worse still says nothing
    """

    figure: str
    kind: str
    higher_is_better: bool
    first: float
    second: float
    runs: tuple[int, int]
    noise: float

    def __str__(self) -> str:
        change = "" if self.change is None else f", {100 * self.change:+.1f} % where {100 * self.noise:.1f} % may be noise"
        return f"{self.figure} from {self.first:,.6g} to {self.second:,.6g}{change}"

    @property
    def change(self) -> float | None:
        return self.second / self.first - 1 if self.first else None

    @property
    def worse(self) -> bool:
        """Beyond the noise."""
        lost = self.first - self.second if self.higher_is_better else self.second - self.first
        return lost > abs(self.first) * self.noise

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "change": self.change, "worse": self.worse}


@dataclass(frozen=True)
class Compared:
    """`unlike`: in what the groups differ that should be equal; `unequal`: runs of the second group whose answers are wrong."""

    differences: tuple[Difference, ...]
    unlike: tuple[str, ...]
    unequal: tuple[str, ...]

    @property
    def worse(self) -> list[Difference]:
        return [each for each in self.differences if each.worse]

    def to_json(self) -> dict[str, object]:
        regressed = bool(self.worse or self.unequal)
        differences = [each.to_json() for each in self.differences]
        return {"regressed": regressed, "answers_differ": self.unequal, "unlike": self.unlike, "figures": differences}


def compared(spark: SparkSession, first: Sequence[RunRecord], second: Sequence[RunRecord], noise: float | None = None) -> Compared:
    """The second group against the first. `noise`: a share in place of what the spread or the defaults say, completeness aside.

    Raises OptionError: the groups are not of one workload and mode.
    """
    records = [*first, *second]
    _expect_one_workload(records)
    latency, windows = latencies(spark, records), completeness(spark, records)
    values = [(int(i >= len(first)), *row) for i, record in enumerate(records) for row in _values(record, latency.get(i), windows.get(i))]
    differences = [_difference(rows, noise) for rows in collected(_medians(spark, values), "figure").values() if len(rows) == 2]
    unequal = tuple(record.id for record in second if not record.result.equal)
    return Compared(tuple(differences), tuple(_unlike(first, second)), unequal)


def _values(
    record: RunRecord, latency: LatencySummary | None, windows: CompletenessFigures | None
) -> Iterator[tuple[str, str, bool, float]]:
    """(figure, kind, whether higher is better, value) of everything that the run has."""
    yield ("throughput, records/s", "throughput", True, float(record.result.events_per_second))
    yield ("records per CPU second", "CPU", True, float(record.result.events_per_cpu_second))
    if latency is not None:
        for percentile in PERCENTILES:
            yield (f"latency p{percentile:g}, ms", "latency", False, float(latency.at(percentile)))
    if windows is not None:
        yield ("windows complete, share", "completeness", True, windows.complete / windows.windows)
        yield ("least complete window, share", "completeness", True, float(windows.least))


def _medians(spark: SparkSession, values: Sequence[tuple[int, str, str, bool, float]]) -> DataFrame:
    """A row for each figure and group that has it; figures in the order in which they come."""
    numbered = [(place, *row) for place, row in enumerate(values)]
    frame = spark.createDataFrame(numbered, "place int, group int, figure string, kind string, higher boolean, value double")
    facts = [f.percentile("value", 0.5).alias("median"), (f.max("value") - f.min("value")).alias("spread"), f.count("*").alias("runs")]
    return frame.groupBy("figure", "kind", "higher", "group").agg(f.min("place").alias("place"), *facts).orderBy("group", "place")


def _difference(rows: list[Row], noise: float | None) -> Difference:
    one, other = rows
    kind = one["kind"]
    spreads = [row["spread"] / abs(row["median"]) if row["median"] else 0.0 for row in rows]
    seen = max(NOISE_LEAST, *spreads) if min(one["runs"], other["runs"]) > 1 else NOISE_OF_ONE[kind]
    used = 0.0 if kind == "completeness" else seen if noise is None else noise
    return Difference(one["figure"], kind, one["higher"], one["median"], other["median"], (one["runs"], other["runs"]), used)


def _expect_one_workload(records: Sequence[RunRecord]) -> None:
    found = {f"{record.workload}, {record.mode} mode" for record in records}
    if len(found) > 1:
        raise OptionError(f"only runs of one workload and mode can be compared, got {'; '.join(sorted(found))}")


def _unlike(first: Sequence[RunRecord], second: Sequence[RunRecord]) -> list[str]:
    """What the comparison would be unfair by; engine and binding may be what is compared."""
    facts = [{name: {repr(of(record)) for record in group} for name, of in _SAME.items()} for group in (first, second)]
    return [f"{name}: {_either(facts[0][name])} against {_either(facts[1][name])}" for name in _SAME if facts[0][name] != facts[1][name]]


def _either(values: set[str]) -> str:
    return " or ".join(sorted(values))


_SAME: dict[str, Callable[[RunRecord], object]] = {
    "records": lambda record: record.dataset.get("sha256") or {name: value for name, value in record.dataset.items() if name != "bytes"},
    "window": lambda record: record.window_ms,
    "rate": lambda record: record.rate,
    "processor": lambda record: record.machine.cpu,
    "usable cores": lambda record: record.machine.cores_usable,
    "NUMA nodes": lambda record: len(record.machine.numa_nodes),
}
