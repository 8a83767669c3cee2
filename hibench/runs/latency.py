"""Latencies of a run: from when to when, for how many answers; and what they come to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from hibench.runs.record import TABLES
from hibench.runs.result import LatencyPercentiles


class Latencies:
    """Collects them a batch at a time; equal ones of a batch become one with a count."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []

    def add(self, created_us: np.ndarray, delivered_us: np.ndarray, answers: np.ndarray) -> None:
        """int64[n] each, times in µs since 1970; `answers`: for how many answers each stands."""
        pairs, inverse = np.unique(np.stack([created_us, delivered_us], axis=1), axis=0, return_inverse=True)
        counts = np.bincount(inverse.ravel(), weights=answers, minlength=len(pairs)).astype(np.int64)
        self._parts.append(np.column_stack([pairs, counts]))

    def table(self) -> pa.Table:
        """As a run record has them."""
        rows = np.concatenate([np.empty((0, 3), np.int64), *self._parts])
        return pa.table([np.ascontiguousarray(column) for column in rows.T], schema=TABLES["latency"])

    def brief(self) -> LatencyPercentiles | None:
        """Percentiles over all answers, 0 at least (two clocks may disagree); None if there was none."""
        rows = np.concatenate([np.empty((0, 3), np.int64), *self._parts])
        if not len(rows):
            return None
        milliseconds = np.maximum(0, rows[:, 1] - rows[:, 0]) / 1000
        order = np.argsort(milliseconds)
        p50, p95, p99 = _percentiles(milliseconds[order], rows[order, 2])
        return LatencyPercentiles(p50, p95, p99, samples=int(rows[:, 2].sum()))


def _percentiles(values: np.ndarray, counts: np.ndarray) -> Iterable[float]:
    """Linear between the two samples next to each rank, as if every value stood `counts` times in one sorted row."""
    ends = np.cumsum(counts)
    ranks = (int(ends[-1]) - 1) * np.array([0.50, 0.95, 0.99])
    low, high = (values[np.searchsorted(ends, rank, side="right")] for rank in (np.floor(ranks), np.ceil(ranks)))
    return map(float, low + (high - low) * (ranks - np.floor(ranks)))
