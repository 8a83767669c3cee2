"""Figures of the last hours, of the cluster and of each query: what comes in and goes out, load, lag and latency, every STEP_S seconds.

It is bounded: KEPT samples of each, of at most QUERIES_MAX queries, 28 bytes a sample. A query's figures stay while it is known here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import isnan, nan
from typing import Any

from cep.dataflow.meter import LATENCY_BOUNDS_US
from orchestrator.metrics.exposition import InstanceReport, ReportedInstance
from orchestrator.records import Now

STEP_S = 10.0
KEPT = 2160
"""Six hours."""
QUERIES_MAX = 500
ALL = ""
FIELDS = ("rows_in_s", "rows_out_s", "cores", "lag_s", "latency_p99_s")


@dataclass(slots=True)
class _Totals:
    """Of a query, all its instances together, at one time. `latencies`: rows by class of latency."""

    at: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    cpu_ns: int = 0
    watermark: float = nan
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_US) + 1))

    def add(self, report: Mapping[str, Any]) -> None:
        self.cpu_ns += report.get("cpu_ns", 0)
        steps = report.get("operators", ())
        self.rows_in += sum(each["rows_in"] for each in steps if each["step"] == "read")
        if (watermark := report.get("watermark")) is not None and not self.watermark < watermark / 1e6:
            self.watermark = watermark / 1e6
        for output in report.get("outputs", ()):
            if "latency_us" in output:
                name = output["name"]
                self.rows_out += sum(each["rows_in"] for each in steps if (each["step"], each["name"]) == ("output", name))
                for i, count in enumerate(output["latency_us"]["counts"]):
                    self.latencies[i] += count


class FigureHistory:
    """Samples by query; of all together under ALL."""

    def __init__(self) -> None:
        self._due = 0.0
        self._before: dict[str, tuple[int, _Totals]] = {}  # query -> its epoch, and what was so at the last sample
        self._series: dict[str, _Series] = {ALL: _Series()}

    def note(self, instances: Mapping[ReportedInstance, InstanceReport], managers: Iterable[str], now: Now) -> None:
        """Takes a sample, if one is due."""
        if now.steady < self._due:
            return
        self._due = now.steady + STEP_S
        found: dict[str, tuple[int, _Totals]] = {}
        for where, figures in instances.items():
            found.setdefault(where.query, (figures.report["epoch"], _Totals(now.steady)))[1].add(figures.report)
        for gone in self._series.keys() - found.keys() - {ALL}:
            del self._series[gone]
        samples = [self._sample(name, epoch, totals, now) for name, (epoch, totals) in found.items()]
        self._before = found
        self._series[ALL].add(now.wall, _together(samples))

    def answer(self, query: str | None) -> dict[str, Any]:
        """Of a query, or of all; nothing where there is none of that name."""
        return {"step_s": STEP_S, **self._series.get(query or ALL, _Series()).answer()}

    def _sample(self, name: str, epoch: int, totals: _Totals, now: Now) -> tuple[tuple[float, ...], list[int]]:
        """Its figures since the last sample, and rows by latency; nothing of a deployment that has just begun."""
        known, before = self._before.get(name, (epoch, totals))
        seconds = totals.at - before.at if known == epoch else 0.0
        latencies = (
            [max(0, b - a) for a, b in zip(before.latencies, totals.latencies, strict=True)] if seconds else [0] * len(totals.latencies)
        )
        rates = (nan, nan, nan)
        if seconds:
            counts = (totals.rows_in - before.rows_in, totals.rows_out - before.rows_out, (totals.cpu_ns - before.cpu_ns) / 1e9)
            rates = tuple(max(0.0, count / seconds) for count in counts)  # type: ignore[assignment]
        figures = (*rates, now.wall - totals.watermark, _p99_s(latencies))
        if name in self._series or len(self._series) <= QUERIES_MAX:
            self._series.setdefault(name, _Series()).add(now.wall, figures)
        return figures, latencies


def _together(samples: list[tuple[tuple[float, ...], list[int]]]) -> tuple[float, ...]:
    """Of all queries: sums, the greatest lag, and the latency of all rows."""
    known = [[figures[i] for figures, _ in samples if not isnan(figures[i])] for i in range(4)]
    counts = [sum(column) for column in zip(*(latencies for _, latencies in samples), strict=True)]
    return (*(sum(values) for values in known[:3]), max(known[3], default=nan), _p99_s(counts))


def _p99_s(counts: Sequence[int]) -> float:
    """The upper bound of the class in which 99 of 100 rows are."""
    if not (total := sum(counts)):
        return nan
    reached = bisect_left(list(accumulate(counts)), 0.99 * total)
    return float(LATENCY_BOUNDS_US[min(reached, len(LATENCY_BOUNDS_US) - 1)]) / 1e6


class _Series:
    """Samples of one query, the oldest first."""

    def __init__(self) -> None:
        self._times = array("d")
        self._values = [array("f") for _ in FIELDS]

    def add(self, at: float, figures: Iterable[float]) -> None:
        for column, value in zip((self._times, *self._values), (at, *figures), strict=True):
            column.append(value)
            if len(column) > KEPT:
                del column[: len(column) - KEPT]

    def answer(self) -> dict[str, list[float | None]]:
        columns = zip(FIELDS, self._values, strict=True)
        found: dict[str, list[float | None]] = {"times": [*self._times]}
        return found | {name: [None if isnan(value) else float(f"{value:.4g}") for value in values] for name, values in columns}
