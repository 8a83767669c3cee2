"""The table that every kind of report begins with: a row for each figure, a column for each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hibench.report.figures import RunFigures
from hibench.report.latency import PERCENTILES
from hibench.report.shown import NONE, mebibytes, milliseconds, percent, seconds, thousands

Row = tuple[str, tuple[str, ...]]


def key_figures(runs: Sequence[RunFigures]) -> list[Row]:
    """(name, a text for each run); rows in which no run has anything are left out."""
    rows = [(name, tuple(shown(run) for run in runs)) for name, shown in _ROWS]
    return [row for row in rows if set(row[1]) != {NONE}]


def _per_node(run: RunFigures) -> str:
    nodes = run.record.nodes
    return f"{run.record.result.events_per_second / nodes:,.0f} (÷ {nodes})"


def _percentile(percentile: float) -> Callable[[RunFigures], str]:
    return lambda run: NONE if run.latency is None else milliseconds(run.latency.at(percentile))


def _equal(run: RunFigures) -> str:
    result = run.record.result
    return "yes" if result.equal else "NO" if result.expected else "NOT CHECKED"


def _complete(run: RunFigures) -> str:
    figures = run.completeness
    return NONE if figures is None else f"{figures.complete:,} of {figures.windows:,}"


_ROWS: tuple[tuple[str, Callable[[RunFigures], str]], ...] = (
    ("records", lambda run: thousands(run.record.result.events)),
    ("offered rate, records/s", lambda run: thousands(run.record.rate)),
    ("time", lambda run: seconds(run.record.result.seconds)),
    ("throughput, records/s", lambda run: thousands(run.record.result.events_per_second)),
    ("throughput per NUMA node", _per_node),
    ("throughput, MB/s", lambda run: NONE if run.bytes_per_second is None else f"{run.bytes_per_second / 1e6:,.0f}"),
    ("CPU time", lambda run: seconds(run.record.result.cpu_seconds)),
    ("records per CPU second", lambda run: thousands(run.record.result.events_per_cpu_second)),
    ("peak anonymous memory", lambda run: mebibytes(run.record.result.peak_anonymous_bytes)),
    *((f"latency p{percentile:g}", _percentile(percentile)) for percentile in PERCENTILES),
    ("latency, largest", lambda run: NONE if run.latency is None else milliseconds(run.latency.most)),
    ("windows complete", _complete),
    ("least complete window", lambda run: NONE if run.completeness is None else percent(run.completeness.least)),
    ("answers", lambda run: thousands(run.record.result.answers)),
    ("checksum of the answers", lambda run: run.record.result.checksum),
    ("answers equal to the expected", _equal),
)
