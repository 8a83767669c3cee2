"""What time it is. Everything that asks is given a `Clock`, so that a test, or a simulation, says how time passes."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two times, in nanoseconds. What is decided about others, such as that one is silent, goes by the steady one."""

    def steady_ns(self) -> int:
        """Since some moment of the past. It never goes back, and is never set."""

    def wall_ns(self) -> int:
        """Since 1970, as people and event times count. It may jump, for it may be set."""


class SystemClock:
    """The machine's. Its methods are the functions themselves, so that to ask through it costs nothing."""

    steady_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


class ManualClock:
    """A clock that stands still until it is moved: the shipped double.

    Args:
        steady_ns, wall_ns: what it shows first.
    """

    def __init__(self, steady_ns: int = 0, wall_ns: int = 0) -> None:
        self._steady_ns, self._wall_ns = steady_ns, wall_ns

    def steady_ns(self) -> int:
        return self._steady_ns

    def wall_ns(self) -> int:
        return self._wall_ns

    def advance(self, ns: int) -> None:
        """Lets time pass. Raises ValueError: it does not go back."""
        if ns < 0:
            raise ValueError(f"a steady clock does not go back: expected ns of at least 0, got {ns!r}; `set_wall` sets the wall clock")
        self._steady_ns += ns
        self._wall_ns += ns

    def set_wall(self, wall_ns: int) -> None:
        """The wall clock is set; no time passes."""
        self._wall_ns = wall_ns
