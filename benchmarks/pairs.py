"""What pairs of runs say: the median, an interval, and whether a bar is met. It is pure: numbers go in, numbers come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

TOLERANCE = 0.05
NOISE_LEAST = 0.03
"""Two reports that differ by less are the same, however narrow their intervals are."""


@dataclass(frozen=True)
class Bar:
    """What a figure of ours is to reach: `value` times the reference's figure, or `value` itself where there is no reference.

    Args:
        figure: the member of both runs' JSON that is compared; `a.b` is a member of a member, `a/b` one divided by another.
        sign: ">=" or "<=".
        per: for what the figure is, in words.
    """

    figure: str
    sign: str
    value: float
    per: str = ""

    def __post_init__(self) -> None:
        if self.sign not in (">=", "<="):
            raise ValueError(f"bar of {self.figure!r}: sign: expected '>=' or '<=', got {self.sign!r}")

    def met(self, measured: Measured) -> bool:
        """By the unfavourable end of the interval, with a tolerance of 5 %."""
        if self.sign == ">=":
            return measured.lower >= (1 - TOLERANCE) * self.value
        return measured.upper <= (1 + TOLERANCE) * self.value


@dataclass(frozen=True)
class Measured:
    """The median of some values, and the interval from the second smallest to the second largest."""

    median: float
    lower: float
    upper: float

    @property
    def spread(self) -> float:
        """Width of the interval, as a part of the median."""
        return (self.upper - self.lower) / abs(self.median) if self.median else 0.0


def measured(values: Sequence[float]) -> Measured:
    """Raises ValueError for no values. Up to three of them have the smallest and the largest as interval."""
    if not values:
        raise ValueError("no values: there is nothing to take the median of")
    ordered = sorted(values)
    cut = 1 if len(ordered) > 3 else 0
    return Measured(median(ordered), ordered[cut], ordered[-1 - cut])


def middles(values: Sequence[float], turns: int) -> list[float]:
    """The one in the middle of each so many."""
    return [median(values[start : start + turns]) for start in range(0, len(values), turns)]


def ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Ours over the reference, pair by pair."""
    return [mine / theirs for mine, theirs in zip(ours, reference, strict=True)]


def change(before: Measured, after: Measured) -> tuple[float, bool]:
    """(relative change of the median, whether it is more than noise): more than half of the wider interval and than NOISE_LEAST."""
    relative = after.median / before.median - 1
    return relative, abs(relative) > max(NOISE_LEAST, before.spread / 2, after.spread / 2)
