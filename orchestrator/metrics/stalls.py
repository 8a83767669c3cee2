"""What has held the instance managers up, as they report it (`cep.world.stalls`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SLOWEST_MAX = 256
"""Kept of each instance manager: the slowest stalls of its last reports."""

#: metric, type, help
STALLS = ("cep_stalls_total", "counter", "Pieces of work that took an instance manager more than a millisecond")
STALLED = ("cep_stalled_seconds_total", "counter", "How long they took")

Sample = tuple[dict[str, str], float | None]


@dataclass
class _OfManager:
    """`began`: since when it counts; another process counts anew."""

    began: float
    reported: float
    totals: Sequence[Mapping[str, Any]] = ()
    slowest: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=SLOWEST_MAX))


class ReportedStalls:
    """By instance manager."""

    def __init__(self) -> None:
        self._managers: dict[str, _OfManager] = {}

    def take(self, im: str, report: Mapping[str, Any] | None, wall: float) -> None:
        """None: nothing new."""
        if report is None:
            return
        known = self._managers.get(im)
        if known is None or known.began != report["began"]:
            known = self._managers[im] = _OfManager(report["began"], wall)
        known.reported, known.totals = wall, report["totals"]
        known.slowest.extend(report["slowest"])

    def forget(self, im: str) -> None:
        self._managers.pop(im, None)

    def answer(self) -> list[dict[str, Any]]:
        return [
            {"im": im, "began": each.began, "reported": each.reported, "totals": each.totals, "slowest": list(each.slowest)}
            for im, each in sorted(self._managers.items())
        ]

    def samples(self, figure: str, unit: float = 1.0) -> Iterator[Sample]:
        """For Prometheus, by instance manager and cause."""
        for im, each in self._managers.items():
            sums: dict[str, float] = {}
            for total in each.totals:
                sums[total["cause"]] = sums.get(total["cause"], 0) + total[figure] / unit
            yield from (({"im": im, "cause": cause}, value) for cause, value in sums.items())
