"""What checkpoints may cost of an instance manager, and of those who lead, and what that means for how often each query has one. Pure.

Where n queries share an instance manager and a checkpoint of query i costs it c_i seconds, one every t_i seconds costs c_i / t_i of its
time. Of all t_i for which the sum of that is SHARE, those have the least mean that go with the square root of c_i:
t_i = sqrt(c_i) * (sqrt(c_1) + … + sqrt(c_n)) / SHARE. A query alone has c / SHARE; of n alike each has n times that.

What orchestrator and ZooKeeper do for one is shared out likewise, among all queries: LED_SHARE for each instance manager that there is.
Where many are due at once, as when all begin to be fed, AT_ONCE of them begin, and the others in turn as far apart as that share says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import sqrt

#: Of the time of an instance manager, what checkpoints may cost it as far as that is counted; and what orchestrator and ZooKeeper may
#: have for them. That caches are empty behind one is in neither, nor are the first and the last of a query: with these it is at most three
#: per cent (`benchmarks/log/recovery.md`).
SHARE, LED_SHARE = 0.01, 0.01
#: Of their CPU, in seconds, what one costs them: of a small query, among many (`benchmarks/log/recovery.md`).
LED_S = 0.0067
AT_ONCE = 16
_LED = ""  # no instance manager's name


class CheckpointBudget:
    """Used by the orchestrator's core alone. `led_s`: of the CPU of orchestrator and ZooKeeper, what one costs."""

    def __init__(self, led_s: float) -> None:
        self._led_s = led_s
        self._roots: dict[str, Mapping[str, float]] = {}  # query -> instance manager -> the root of what one costs it, in seconds
        self._counted: set[str] = set()  # those that have checkpoints now
        self._sums = Counter[str]()  # instance manager -> of those
        self._led_until = 0.0  # by the steady clock: when those that have begun, or are to, have had their share

    @property
    def counted(self) -> int:
        """How many queries have checkpoints now."""
        return len(self._counted)

    def note(self, query: str, costs_s: Mapping[str, float], managers: int) -> None:
        """What a checkpoint costs each instance manager, in seconds of its time, and how many of these there are."""
        self.rest(query)
        led_s = self._led_s * SHARE / LED_SHARE / max(managers, 1)
        self._roots[query] = {im: sqrt(cost) for im, cost in (*costs_s.items(), (_LED, led_s))}
        self.go_on(query)

    def rest(self, query: str) -> None:
        """It has none for now."""
        if query in self._counted:
            self._counted.remove(query)
            self._sums.subtract(self._roots[query])

    def go_on(self, query: str) -> None:
        if query in self._roots and query not in self._counted:
            self._counted.add(query)
            self._sums.update(self._roots[query])

    def forget(self, query: str) -> None:
        self.rest(query)
        self._roots.pop(query, None)

    def least_s(self, query: str) -> float:
        """Seconds between two of its checkpoints, at least; 0: it has had none yet."""
        roots = self._roots.get(query, {})
        rests = query not in self._counted
        return max((root * (self._sums[im] + rests * root) / SHARE for im, root in roots.items()), default=0.0)

    def turn(self, now: float, managers: int, queries: int) -> float:
        """When the next one that is due may begin, by the steady clock, and it is counted. `queries`: no more than so many can be waiting;
        others that were counted are gone, and hold up none."""
        apart_s = self._led_s / LED_SHARE / max(managers, 1)
        until = min(max(self._led_until, now), now + queries * apart_s)
        self._led_until = until + apart_s
        return max(now, until - (AT_ONCE - 1) * apart_s)
