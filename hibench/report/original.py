"""HiBench's own reports, so that what reads them reads ours: a row of `hibench.report`, and of the CSV of latencies.

Formats are those of HiBench 7.1 (bin/functions/workload_functions.sh, KafkaCollector.scala). What was always 0 there for streams,
the size and the throughput, is measured here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from hibench.report.figures import RunFigures
from hibench.report.latency import PERCENTILES, LatencySummary

REPORT_HEADER = ("Type", "Date", "Time", "Input_data_size", "Duration(s)", "Throughput(bytes/s)", "Throughput/node")
CSV_HEADER = (
    "time,count,throughput(msgs/s),max_latency(ms),mean_latency(ms),min_latency(ms),"
    "stddev_latency(ms),p50_latency(ms),p75_latency(ms),p95_latency(ms),p98_latency(ms),"
    "p99_latency(ms),p999_latency(ms)"
)
_WIDTHS = (12, 10, 8, 20, 20, 20, 20)
_WORKLOADS = {"wordcount": "WordCount", "fixed-window": "FixWindow"}


def report_lines(run: RunFigures) -> list[str]:
    """A comment that names the denominator, which HiBench's readers skip, and the row."""
    record, result = run.record, run.record.result
    began = datetime.fromisoformat(record.began).astimezone(UTC)
    size, rate = record.dataset.get("bytes", 0), run.bytes_per_second or 0
    row = (benchmark_type(run), f"{began:%F}", f"{began:%T}", size, f"{result.seconds:.3f}", int(rate), int(rate / record.nodes))
    nodes = f"{record.nodes} NUMA node{'s' * (record.nodes > 1)}"
    return [f"# {row[0]}: Throughput/node is Throughput divided by {nodes}; times are UTC; run {record.id}", _padded(row)]


def benchmark_type(run: RunFigures) -> str:
    """As HiBench calls its runs: FlinkFixWindow, StormTridentIdentity."""
    engine, numa = run.record.result.engine, run.record.result.numa
    engines = {"cep": "Cep" if numa == "on" else "CepUnbound", "spark": "SparkStructuredStreaming"}
    workload = run.record.workload
    return engines.get(engine, engine.title()) + _WORKLOADS.get(workload, workload.title().replace("-", ""))


def csv_line(run: RunFigures, latency: LatencySummary) -> str:
    """A row under CSV_HEADER."""
    began = datetime.fromisoformat(run.record.began).astimezone(UTC)
    moments = (latency.most, latency.mean, latency.least, latency.stddev, *(latency.at(each) for each in PERCENTILES))
    shown = ",".join(f"{value:.3f}" for value in moments)
    return f"{began:%a %b %d %H:%M:%S} UTC {began:%Y},{latency.answers},{int(latency.answers_per_second)},{shown}"


def append_report(file: Path, runs: Iterable[RunFigures]) -> None:
    """Adds a row for each run; the header first where the file is new or empty."""
    _append(file, _padded(REPORT_HEADER), [line for run in runs for line in report_lines(run)])


def append_csv(file: Path, runs: Iterable[RunFigures]) -> None:
    """Adds a row for each run with latencies; the header first where the file is new or empty."""
    _append(file, CSV_HEADER, [csv_line(run, run.latency) for run in runs if run.latency])


def _append(file: Path, header: str, lines: list[str]) -> None:
    with open(file, "a") as out:
        if not out.tell():
            out.write(f"{header}\n")
        out.writelines(f"{line}\n" for line in lines)


def _padded(row: Iterable[object]) -> str:
    return " ".join(f"{value!s:<{width}}" for value, width in zip(row, _WIDTHS, strict=True))
