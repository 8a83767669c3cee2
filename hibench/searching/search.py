"""The search for the highest rate that a system sustains (paper 5: the load is raised until the maximum throughput is reached).

How it goes, and why:
1. The rate doubles as long as it is sustained, and is halved as long as even the first is not; then the gap between the highest sustained
   rate and the lowest failed one is bisected until it is within `precision`. A rate far beyond what is sustained is never tried.
2. A rate has failed when it failed in every one of `attempts` tries in a row: machines hiccup, and one hiccup early on would end
   the search far too low. A rate is sustained when one try was.
3. `next_rate` is a pure function of what was tried so far. What runs a probe, and how long that takes, it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hibench.errors import OptionError


@dataclass(frozen=True)
class Limits:
    """Where a search begins and ends.

    Args:
        first: the rate it begins at, records a second.
        most: the highest that it tries.
        precision: it ends when the lowest failed rate is at most this share above the highest sustained one.
        attempts: tries in a row that must fail.
        probes: how many tries there are at most.
    """

    first: int = 100_000
    most: int = 100_000_000
    precision: float = 0.05
    attempts: int = 2
    probes: int = 40

    def __post_init__(self) -> None:
        _expect(1 <= self.most <= 10**9, "--most", "1 to 10**9 records a second", self.most)
        _expect(1 <= self.first <= self.most, "--first", f"1 to --most, {self.most}", self.first)
        _expect(0 < self.precision <= 1, "--precision", "more than 0 and at most 1", self.precision)
        _expect(1 <= self.attempts <= 10, "--attempts", "1 to 10", self.attempts)
        _expect(1 <= self.probes <= 1000, "--probes", "1 to 1000", self.probes)


@dataclass(frozen=True)
class Tried:
    """A rate, and why it was not sustained; '': it was."""

    rate: int
    why_not: str = ""

    @property
    def sustained(self) -> bool:
        return not self.why_not


@dataclass(frozen=True)
class Found:
    """How a search ended.

    Args:
        rate: the highest sustained one; 0: not even the lowest that was tried.
        failed: the lowest rate that failed for good; None: none did.
        why: why `rate` is the highest, in words.
    """

    rate: int
    failed: int | None
    why: str


def next_rate(tried: Sequence[Tried], limits: Limits) -> int | None:
    """The rate to try next; None: the search is over."""
    if len(tried) >= limits.probes:
        return None
    if tried and not tried[-1].sustained and not _failed(tried, tried[-1].rate, limits):
        return tried[-1].rate
    low, high = bracket(tried, limits)
    if high is None:
        return _after_success(low, limits)
    if not low:
        return high // 2 or None
    return _between(low, high, limits)


def bracket(tried: Sequence[Tried], limits: Limits) -> tuple[int, int | None]:
    """The highest sustained rate, 0 if there is none, and the lowest above it that has failed for good."""
    low = max((each.rate for each in tried if each.sustained), default=0)
    failed = {each.rate for each in tried if each.rate > low and _failed(tried, each.rate, limits)}
    return low, min(failed, default=None)


def found(tried: Sequence[Tried], limits: Limits) -> Found:
    """What the tries so far come to."""
    low, high = bracket(tried, limits)
    reasons = [each.why_not for each in tried if each.rate == high]
    if reasons:
        return Found(low, high, f"at {high:,}/s: {reasons[-1]}")
    if low == limits.most:
        return Found(low, None, f"{low:,}/s was the most to be tried (--most)")
    unfinished = [f"at {each.rate:,}/s, tried once: {each.why_not}" for each in tried[-1:] if not each.sustained]
    return Found(low, None, "; ".join([f"the search ended after {len(tried)} probes (--probes)", *unfinished]))


def search_rates(probe: Callable[[int], str], limits: Limits) -> tuple[Found, list[Tried]]:
    """Tries rates until the search is over. `probe(rate)` says why the rate was not sustained; '': it was."""
    tried: list[Tried] = []
    while (rate := next_rate(tried, limits)) is not None:
        tried.append(Tried(rate, probe(rate)))
    return found(tried, limits), tried


def _failed(tried: Sequence[Tried], rate: int, limits: Limits) -> bool:
    tries = [each for each in tried if each.rate == rate]
    return len(tries) >= limits.attempts and not any(each.sustained for each in tries)


def _after_success(low: int, limits: Limits) -> int | None:
    if not low:
        return limits.first
    return min(2 * low, limits.most) if low < limits.most else None


def _between(low: int, high: int, limits: Limits) -> int | None:
    """About the middle, with as few digits as the precision needs; None: the gap is small enough."""
    if high - low <= max(1, limits.precision * low):
        return None
    middle = (low + high) // 2
    step = 10 ** max(0, len(str(high - low)) - 2)
    rounded = middle // step * step
    return rounded if low < rounded < high else middle


def _expect(holds: bool, option: str, expected: str, got: object) -> None:
    if not holds:
        raise OptionError(f"{option}: expected {expected}, got {got}")
