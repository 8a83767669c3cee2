"""Which buckets should move, so that no instance has much more to do than the others (paper 4.1.1): a pure function.

A bucket's share of its instance's CPU is that of its rows, so a bucket whose rows cost more is moved as if they cost the same as its
neighbours'; what is left of the difference shows the next time. No table can bring the busiest instance under its hottest
bucket: max / mean is at least max(1, n · p), where p is that bucket's share of everything.

Hysteresis: nothing moves before the busiest instance is `START` over the mean, then it is brought to within `STOP`; and nothing moves
for less than `GAIN` of it. So noise smaller than the gap between the two moves nothing, and what cannot be mended is let be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

START, STOP, GAIN = 1.08, 1.01, 0.03
#: Of a core, that the busiest instance has to use.
BUSY = 0.05


def rebalanced(cpu: Sequence[float], rows: Sequence[int], table: Sequence[int]) -> tuple[int, ...] | None:
    """A better table, or None where the present one is good enough.

    Args:
        cpu: of each instance, the share of a core that it used.
        rows: of each bucket, rows that came (or a sample of them, the same of all).
        table: bucket -> instance.
    """
    loads, places = np.array(cpu, float), np.array(table)
    before, mean = loads.max(), loads.mean()
    if len(loads) == 1 or before < BUSY or before <= START * mean:
        return None
    weights = _weights(loads, np.array(rows, float), places)
    _level(loads, weights, places, STOP * mean)
    return tuple(places.tolist()) if loads.max() <= (1 - GAIN) * before else None


def bound(cpu: Sequence[float], rows: Sequence[int], table: Sequence[int]) -> float:
    """What max / mean of the instances' CPU cannot be less than, whatever the table."""
    loads = np.array(cpu, float)
    return float(max(1.0, _weights(loads, np.array(rows, float), np.array(table)).max() / loads.mean())) if loads.any() else 1.0


def _weights(loads: np.ndarray, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """CPU of each bucket, float64[buckets]."""
    came = np.bincount(places, rows, len(loads))
    each = np.divide(loads, came, out=np.zeros(len(loads)), where=came > 0)
    weights: np.ndarray = rows * each[places]
    return weights


def _level(loads: np.ndarray, weights: np.ndarray, places: np.ndarray, enough: float) -> None:
    """Moves buckets from the busiest instance to the idlest, each the one that fits best, until the busiest has `enough` or cannot be
    helped. Every step brings the two closer, so there are finitely many."""
    mean = loads.mean()
    while (most := int(loads.argmax())) != (least := int(loads.argmin())) and loads[most] > enough:
        own = np.flatnonzero((places == most) & (weights > 0) & (weights < loads[most] - loads[least]))
        if not len(own):
            return
        wanted = min(loads[most] - mean, mean - loads[least])
        bucket = own[np.abs(weights[own] - wanted).argmin()]
        places[bucket] = least
        loads[most] -= weights[bucket]
        loads[least] += weights[bucket]
