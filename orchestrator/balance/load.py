"""Which buckets should move, so that no instance has much more to do than the others (paper 4.1.1): a pure function.

What a row costs is learnt from the CPU of the instance that has its bucket and the rows that it took, and the load is what is sent,
not what is worked off: right after a move an instance may be busy with what came before. A bucket whose rows cost more than its
neighbours' is moved as if they did not; what is left of the difference shows the next time. No table can bring the busiest
instance under its hottest bucket: max / mean is at least max(1, n · p), where p is that bucket's share of everything.

Hysteresis: nothing moves before the busiest instance is `START` over the mean, then it is brought to within `STOP`; and nothing moves
for less than `GAIN` of it. So noise smaller than the gap between the two moves nothing, and what cannot be mended is let be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

START, STOP, GAIN = 1.08, 1.01, 0.03
#: Of the busiest instance's load, what a step has to be worth.
NOTICEABLE = 1e-9
#: Of a core, that the busiest instance has to use; and rows by bucket that say anything.
BUSY, ROWS_MIN = 0.05, 10_000


@dataclass(frozen=True)
class Load:
    """The load of an interval.

    Args:
        cpu: of each instance, the share of a core that it used.
        taken: of each instance, the rows it took.
        sent: of each bucket, the rows that were sent, or a sample of them.
    """

    cpu: Sequence[float]
    taken: Sequence[int]
    sent: Sequence[int]


def rebalanced(load: Load, table: Sequence[int], start: float = START) -> tuple[int, ...] | None:
    """A better table, bucket -> instance, or None where the present one is good enough: the busiest instance is not `start` over the
    mean, or would still be nearly as busy."""
    if len(load.cpu) == 1 or max(load.cpu) < BUSY or sum(load.sent) < ROWS_MIN:
        return None
    places, weights = np.array(table), weights_of(load, table)
    loads = np.bincount(places, weights, len(load.cpu))
    before, mean = loads.max(), loads.mean()
    if before <= start * mean:
        return None
    _level(loads, weights, places, STOP * mean)
    return tuple(places.tolist()) if loads.max() <= (1 - GAIN) * before else None


def weights_of(load: Load, table: Sequence[int]) -> np.ndarray:
    """float64[buckets]: what the rows of each bucket cost. An instance that took no rows is taken for an average one."""
    cpu, taken = np.array(load.cpu, float), np.array(load.taken, float)
    mean = cpu.sum() / max(taken.sum(), 1.0)
    each = np.divide(cpu, taken, out=np.full(len(cpu), mean), where=taken > 0)
    weights: np.ndarray = np.array(load.sent, float) * each[np.array(table)]
    return weights


def _level(loads: np.ndarray, weights: np.ndarray, places: np.ndarray, enough: float) -> None:
    """Moves buckets from the busiest instance to the idlest, each the one that fits best, until the busiest has `enough` or cannot be
    helped. Every step brings the two closer by more than sums of floats are off, so there are finitely many."""
    mean = loads.mean()
    least_gain = loads.max() * NOTICEABLE
    while (most := int(loads.argmax())) != (least := int(loads.argmin())) and loads[most] > enough:
        own = np.flatnonzero((places == most) & (weights > least_gain) & (weights < loads[most] - loads[least] - least_gain))
        if not len(own):
            return
        wanted = min(loads[most] - mean, mean - loads[least])
        bucket = own[np.abs(weights[own] - wanted).argmin()]
        places[bucket] = least
        loads[most] -= weights[bucket]
        loads[least] += weights[bucket]
