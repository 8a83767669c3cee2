"""Whether a rate was sustained, judged by the latencies of one probe.

A probe creates records at a fixed rate for a warm-up and then for a steady stretch. Its rate is sustained if over what was created in
the steady stretch

1. the 99th percentile of latency is within the limit, and
2. the backlog does not grow. In an open loop a record that waits is late by as long as it waited, whether at the publisher, held
   back by credit, or inside the engine; so a backlog that grows is a latency that rises. Of records created for a second
   at rate r, r / (1 + rise) are answered in a second, where rise is how many seconds latency rises a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

RISE_LEAST = 0.01
"""Below this a rise of latency is taken for noise: the backlog grows by less than a hundredth of the rate."""

GROWTH_LEAST_MS = 100.0
"""So is one that comes to less than this over the stretch, or less than a tenth of the latency limit."""

_PARTS = 3


@dataclass(frozen=True)
class Stretch:
    """The steady stretch in event time, µs since 1970: records created in [start, end)."""

    start_us: int
    end_us: int


@dataclass(frozen=True)
class SteadyVerdict:
    """Over the steady stretch: latency in ms, by how many seconds it rose a second, and why the rate is not sustained ('': it is)."""

    why_not: str
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    rise: float = 0.0
    answers: int = 0


def judged(latency: pa.Table, stretch: Stretch, rate: int, limit_ms: float) -> SteadyVerdict:
    """The verdict over a probe's latencies: `created_us`, `delivered_us`, `answers` (for how many a row stands), in any order."""
    created, milliseconds, answers = _steady(latency, stretch)
    if not len(created):
        return SteadyVerdict("nothing that was created in the steady stretch was answered")
    p50, p99 = (_quantile(milliseconds, answers, share) for share in (0.5, 0.99))
    rise = _rise(created, milliseconds, answers, stretch)
    reasons = []
    if rise > RISE_LEAST and rise * (stretch.end_us - stretch.start_us) / 1000 > min(GROWTH_LEAST_MS, limit_ms / 10):
        reasons.append(f"the backlog grows: {rate / (1 + rise):,.0f}/s of {rate:,}/s were worked off")
    if p99 > limit_ms:
        reasons.append(f"latency p99 {p99:,.0f} ms is over {limit_ms:,.0f} ms")
    return SteadyVerdict("; ".join(reasons), p50, p99, rise, int(answers.sum()))


def _steady(latency: pa.Table, stretch: Stretch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Creation in µs, latency in ms and answers of what was created in the stretch, in order of creation."""
    created, delivered, answers = (latency[name].to_numpy() for name in ("created_us", "delivered_us", "answers"))
    inside = np.flatnonzero((created >= stretch.start_us) & (created < stretch.end_us) & (answers > 0))
    inside = inside[np.argsort(created[inside], kind="stable")]
    return created[inside], (delivered - created)[inside] / 1000, answers[inside]


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The least value that at least `share` of the weight does not exceed."""
    order = np.argsort(values)
    ends = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(ends, share * ends[-1])])


def _rise(created: np.ndarray, milliseconds: np.ndarray, answers: np.ndarray, stretch: Stretch) -> float:
    """Seconds by which latency rises a second: from the median of the first third of the stretch to that of the last."""
    third = (stretch.end_us - stretch.start_us) / _PARTS
    parts = [created < stretch.start_us + third, created >= stretch.end_us - third]
    if not all(part.any() for part in parts):
        return 0.0
    (early, late), (began, ended) = (
        [_quantile(values[part], answers[part], 0.5) for part in parts] for values in (milliseconds, created / 1000)
    )
    return (late - early) / (ended - began)
