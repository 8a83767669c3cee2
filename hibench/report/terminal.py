"""What a comparison found, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hibench.errors import AnswersDiffer, OptionError
from hibench.numa.machine import Machine
from hibench.runs.result import RunResult

TERMINAL_DEFINITIONS = (
    "events/s: records ÷ seconds. A run's clock starts when its query is started over files that lie ready (read once, "
    "kernels compiled, sources held; Spark: the query compiled) and stops when the last answer has reached the client, or its file.",
    "CPU s: user and system time of all of the engine's processes and of the client, within the clock.",
    "peak anonymous: greatest sum over those processes of memory they made themselves (RssAnon); no file pages.",
    "answers, checksum: rows with all their columns, added up so that order plays no part; the clock of the last operator is outside.",
)
IN_FILES = (
    "identity, repartition and wordcount answer every record, so their answers go to files, as in HiBench they go back where they came "
    "from: text in, text out. The clock stops when the files are closed; they are read and checked after that."
)
LAST_ONLY = (
    "A running count is an answer for every record here; Spark gives the last count of every address that a micro-batch had. So Spark's "
    "answers are compared after only the last of every address is left; ours one by one."
)
REPORT_DEFINITION = (
    "latency: from the creation of a record (by the sender's clock) to the report of the last operator, once for every record, as HiBench "
    "has it; of a window from the creation of the earliest record of its address, as often as it has records, so up to a window's length "
    "of it is waiting. Windows are of event time, which is the creation, so that answers can be checked; HiBench's are of the clock."
)
SPARK_REPORT_DEFINITION = (
    "Spark: its source is a folder into which a file falls for every burst (its own package has no other). It reads its clock once for a "
    "micro-batch, at its beginning, so the report is the answer's arrival here; of running counts a micro-batch reports the last."
)
RECORD_LATENCY_DEFINITION = (
    "latency: from the scheduled creation of a record to the delivery of its answer at the client. Records are sent on schedule whatever "
    "the engine does."
)
LATENCY_DEFINITION = (
    "latency: from the scheduled creation of the record that lets a window close (the first with event time ≥ the "
    "window's end + disorder) to the delivery of the window's answer at the client, for every answer. Records are sent "
    "on schedule whatever the engine does; answers that only the end of the stream released are left out."
)
ONE_NODE = (
    "This machine has one NUMA node: the two runs are called pinned (each instance manager bound to a core) and "
    "unpinned, and no NUMA gain can be shown here."
)


@dataclass(frozen=True)
class TimedStep:
    """A part of the command's work, and its wall time."""

    name: str
    seconds: float


@dataclass(frozen=True)
class ComparisonReport:
    """Everything a comparison found. `dataset`: options and facts of the records; `runs` are checked; `records`: the folders of the
    records of the runs (`hibench.runs.record`), which have `series` in common."""

    workload: str
    events: int
    window_ms: int
    dataset: dict[str, object]
    runs: tuple[RunResult, ...]
    steps: tuple[TimedStep, ...]
    machine: Machine
    rate: int | None = None
    mode: str = "paper"
    records: tuple[str, ...] = ()
    series: str = ""

    @property
    def answers_equal(self) -> bool:
        """Whether every run gave exactly the reference's answers; no run, no equality."""
        return bool(self.runs) and all(run.equal for run in self.runs)

    def to_json(self) -> dict[str, object]:
        return {
            "workload": self.workload,
            "mode": self.mode,
            "events": self.events,
            "answers_equal": self.answers_equal,
            "window_ms": self.window_ms,
            "rate": self.rate,
            "runs": [run.to_json() for run in self.runs],
            "dataset": self.dataset,
            "steps": [asdict(step) for step in self.steps],
            "machine": asdict(self.machine),
            "records": list(self.records),
            "series": self.series,
        }

    def write_json(self, path: Path) -> None:
        """To standard output if the path is '-'. Raises OptionError if the file cannot be written."""
        if str(path) == "-":
            print(json.dumps(self.to_json(), indent=1))
            return
        try:
            path.write_text(json.dumps(self.to_json(), indent=1) + "\n")
        except OSError as error:
            raise OptionError(f"--json: cannot write {str(path)!r}: {error.strerror}") from error

    def name(self, run: RunResult) -> str:
        """How the table calls a run; without a second node 'NUMA-aware' would promise too much."""
        if run.numa is None:
            return run.engine
        one_node = len(self.machine.numa_nodes) == 1
        aware, unaware = ("pinned", "unpinned") if one_node else ("NUMA-aware", "not NUMA-aware")
        return f"{run.engine} {aware if run.numa == 'on' else unaware}"


def show(report: ComparisonReport, console: Console) -> None:
    """The table, what its words mean, and the facts of machine and settings."""
    console.print(_table(report))
    for line in (*_ratios(report), *_definitions(report), *_facts(report)):
        console.print(line)


def expect_equal(report: ComparisonReport) -> None:
    """Raises AnswersDiffer, showing the rows that differ, if any run's answers are not the expected ones."""
    if report.answers_equal:
        return
    unequal = [
        f"{report.name(run)}: {run.answers:,} answers, checksum {run.checksum}\nexpected {run.expected}\n{run.difference}"
        for run in report.runs
        if not run.equal
    ]
    raise AnswersDiffer("\n".join(["ANSWERS DIFFER: nothing measured above counts", *(unequal or ["no engine ran"])]))


def _table(report: ComparisonReport) -> Table:
    """A column for every run, so that it fits a narrow terminal."""
    windows = f", {report.window_ms / 1000:g} s windows" if report.workload in ("fixed-window", "broadcast") else ""
    table = Table("engine", title=f"{report.workload}: {report.events:,} events{windows}")
    for run in report.runs:
        table.add_column(report.name(run), justify="right", style="" if run.equal else "bold red")
    for label, *figures in zip(_labels(report), *(_figures(report, run) for run in report.runs), strict=True):
        table.add_row(label, *figures)
    return table


def _labels(report: ComparisonReport) -> list[str]:
    latency = ["latency p50", "latency p95", "latency p99"] if report.rate else []
    memory, answers = "peak anonymous", ["answers", "checksum", "equal to expected"]
    return ["events", "seconds", "events/s", "CPU seconds", "events/CPU second", memory, *latency, *answers]


def _figures(report: ComparisonReport, run: RunResult) -> list[str]:
    """In the order of `_labels`."""
    return [
        f"{run.events:,}",
        f"{run.seconds:.2f}",
        f"{run.events_per_second:,.0f}",
        f"{run.cpu_seconds:.2f}",
        f"{run.events_per_cpu_second:,.0f}",
        f"{run.peak_anonymous_bytes / 2**20:,.0f} MiB",
        *(_latency(run) if report.rate else []),
        f"{run.answers:,}",
        run.checksum,
        "yes" if run.equal else "NO",
    ]


def _latency(run: RunResult) -> list[str]:
    if run.latency_ms is None:
        return ["no window closed"] * 3
    return [f"{value:.2f} ms" for value in (run.latency_ms.p50, run.latency_ms.p95, run.latency_ms.p99)]


def _ratios(report: ComparisonReport) -> list[str]:
    """Our runs against Spark's, where there are both."""
    spark = next((run for run in report.runs if run.engine == "spark"), None)
    if spark is None or report.rate:
        return []
    return [
        f"{report.name(run)}: {run.events_per_second / spark.events_per_second:.1f} times Spark by time, "
        f"{run.events_per_cpu_second / spark.events_per_cpu_second:.1f} times by CPU"
        for run in report.runs
        if run.engine != "spark"
    ]


def _definitions(report: ComparisonReport) -> list[str]:
    notes = [*TERMINAL_DEFINITIONS, *_workload_definitions(report)]
    one_node = len(report.machine.numa_nodes) == 1 and any(run.numa for run in report.runs)
    return ["", *notes, *([ONE_NODE] if one_node else [])]


def _workload_definitions(report: ComparisonReport) -> Iterator[str]:
    running, in_files = report.workload == "wordcount", report.workload in ("identity", "repartition", "wordcount")
    if in_files and not report.rate:
        yield IN_FILES
    if running and any(run.engine == "spark" for run in report.runs):
        yield LAST_ONLY
    if report.rate:
        if report.mode == "faithful" and any(run.engine == "spark" for run in report.runs):
            yield SPARK_REPORT_DEFINITION
        yield REPORT_DEFINITION if report.mode == "faithful" else RECORD_LATENCY_DEFINITION if in_files else LATENCY_DEFINITION


def _facts(report: ComparisonReport) -> list[str]:
    machine = report.machine
    nodes = "; ".join(f"node {node.number}: CPUs {node.cpus}" for node in machine.numa_nodes)
    libraries = ", ".join(f"{name} {found}" for name, found in machine.libraries.items())
    return [
        "",
        f"machine   {machine.cpu}, {machine.cores_usable} of {machine.cores_online} cores usable, "
        f"{machine.memory_bytes / 2**30:.1f} GiB, {machine.kernel}",
        f"topology  {len(machine.numa_nodes)} NUMA node{'s' * (len(machine.numa_nodes) > 1)} ({nodes})",
        f"software  Python {machine.python}, {libraries}",
        f"records   {', '.join(f'{name} {value}' for name, value in report.dataset.items())}",
        *(f"settings  {report.name(run)}: {_pairs(run.settings)}" for run in report.runs),
        f"steps     {', '.join(f'{step.name} {step.seconds:.1f} s' for step in report.steps)}",
    ]


def _pairs(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
