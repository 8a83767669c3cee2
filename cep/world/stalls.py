"""What holds a thread up: each piece of its work that takes more than a millisecond is laid beside what the thread had meanwhile.

Elapsed time is CPU time, waiting for a core, and what is left: asleep, for a lock, a disk or a function that sleeps. The greatest part
names the cause (`CAUSES`). The figures are those of the kernel, and reading them takes as long as a small message does; so they are read
when a piece has been slow, and before that at most every other millisecond (`refresh`): what is charged to a stall may be up to so much too
much, and never more than it took. Totals are kept by place and cause, and between two reports the slowest stall of each.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cep.world.clock import Clock
from cep.world.thread_usage import Had, ThreadUsage

SLOW_NS = 1_000_000
FRESH_NS = 2_000_000
PLACES_MAX = 64  # beyond, stalls are counted together
SLOWEST_MAX = 16  # told of in one report
TOLD_AGAIN = 20  # reports
REST = "other places"

#: Cause -> what it means. The order decides between equal parts.
CAUSES: Mapping[str, str] = {
    "computing": "it had its core and worked",
    "garbage": "it had its core and collected garbage",
    "kernel": "it had its core, and kernels were compiled or loaded meanwhile",
    "core": "it was ready, and others had its core",
    "lock": "it slept while another thread of Python's was ready for at least half as long: that may have held Python's lock",
    "disk": "it slept, and pages were read from a disk",
    "host": "it did not sleep, nor had it its core: the machine below, or interrupts, had it",
    "asleep": "it slept, and nothing says for what: a function that waits, a full socket, a file",
}


class Place(NamedTuple):
    """Where a stall was: the step as in `cep top`, or a part of the loop; `query` is empty where that is of no query."""

    step: str
    name: str = ""
    query: str = ""
    subquery: str = ""
    instance: int | None = None


class Stall(NamedTuple):
    """`took_ns` elapsed. `by`: the thread that may have held the lock."""

    at: float  # when it was over, s since 1970
    place: Place
    cause: str
    took_ns: int
    had: Had
    by: str = ""
    garbage_ns: int = 0

    def to_json(self) -> dict[str, Any]:
        figures = {"at": round(self.at, 6), "cause": self.cause, "by": self.by, "took_ns": self.took_ns, "garbage_ns": self.garbage_ns}
        return {**self.place._asdict(), **figures, **self.had._asdict()}


@dataclass(slots=True)
class _Total:
    count: int = 0
    total_ns: int = 0
    worst_ns: int = 0


class Stalls:
    """Of one thread, which makes it, or calls `begin`; for `compilations` see `cep.kernels.jit`."""

    def __init__(self, clock: Clock, usage: ThreadUsage, compilations: Callable[[], int] = lambda: 0) -> None:
        self._clock, self._usage, self._compilations = clock, usage, compilations
        self.began = clock.wall_ns() / 1e9
        self._thread = threading.get_ident()
        self._totals: dict[tuple[Place, str], _Total] = {}
        self._slowest: dict[tuple[Place, str], Stall] = {}  # since the last report
        self._quiet = 0  # reports since then
        self._garbage_ns = self._garbage_before = 0  # collected by this thread
        self._collecting: dict[int, int] = {}  # thread -> since when
        self._before, self._compiled, self._read_at = usage.had(), compilations(), clock.steady_ns()
        self._ready_before: dict[int, int] = {}
        self.look_at_others()

    def watch_garbage(self) -> None:
        """From now on, collections of this process are timed."""
        gc.callbacks.append(self._on_garbage)

    def _on_garbage(self, phase: str, _: Mapping[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting[0] = self._clock.steady_ns()
        elif (since := self._collecting.pop(0, None)) is not None:
            self._garbage_ns += self._clock.steady_ns() - since

    # what is read

    def refresh(self, now: int) -> None:
        """What the thread had until now belongs to no stall."""
        if now - self._read_at >= FRESH_NS:
            self._before, self._compiled, self._read_at = self._usage.had(), self._compilations(), now
            self._garbage_before = self._garbage_ns

    def look_at_others(self) -> None:
        """What other threads were ready for until now belongs to no stall; a few times a second."""
        self._ready_before = {thread.id: thread.ready_ns for thread in self._usage.others()}

    # stalls

    def slept(self, now: int) -> None:
        """The thread has waited, for more than a millisecond, for something to do. When it had to do something, others may have had its
        core; whether Python's lock, too, cannot be told."""
        before = self._before
        self._read_at = now - FRESH_NS
        self.refresh(now)
        had = self._before.since(before)
        if had.delay_ns > SLOW_NS:
            self._note(Place("waking"), "core", had.delay_ns, had)

    def late(self, late_ns: int, now: int) -> None:
        """It was to wake at a certain time and came so much later."""
        self.took(Place("waking"), late_ns, now)

    def took(self, place: Place, took_ns: int, now: int) -> None:
        """A piece of work took so long, until now."""
        before, compiled, garbage_before = self._before, self._compiled, self._garbage_before
        self._read_at = now - FRESH_NS
        self.refresh(now)
        had, garbage_ns = self._before.since(before), min(self._garbage_ns - garbage_before, took_ns)
        parts = _parts(took_ns, had, garbage_ns, self._compiled > compiled)
        cause, by = max(parts, key=parts.__getitem__), ""
        if cause == "asleep":
            by = self._who_was_ready(parts[cause])
            cause = "lock" if by else cause
        self._note(place, cause, took_ns, had, by, garbage_ns)

    def _who_was_ready(self, slept_ns: int) -> str:
        """Another thread of Python's, for half of that time or more."""
        spent = [(each.ready_ns - self._ready_before.get(each.id, 0), each.name) for each in self._usage.others()]
        self.look_at_others()
        ready_ns, name = max(spent, default=(0, ""))
        return name if 2 * ready_ns >= slept_ns else ""

    def _note(self, place: Place, cause: str, took_ns: int, had: Had, by: str = "", garbage_ns: int = 0) -> None:
        key = place, cause
        total = self._totals.get(key)
        if total is None:
            if len(self._totals) >= PLACES_MAX:
                key = Place(REST), cause
            total = self._totals.setdefault(key, _Total())
        total.count += 1
        total.total_ns += took_ns
        total.worst_ns = max(total.worst_ns, took_ns)
        slowest = self._slowest.get(key)
        if slowest is None or slowest.took_ns < took_ns:
            self._slowest[key] = Stall(self._clock.wall_ns() / 1e9, place, cause, took_ns, had, by, garbage_ns)

    def report(self) -> dict[str, Any] | None:
        """What there has been since `began`, and the slowest since the last report; None: nothing new. All the same every so often, for
        the process that keeps the reports may have been started anew."""
        self._quiet = 0 if self._slowest else self._quiet + 1
        if self._quiet % TOLD_AGAIN:
            return None
        slowest = sorted(self._slowest.values(), key=lambda stall: -stall.took_ns)[:SLOWEST_MAX]
        self._slowest.clear()
        return {"began": self.began, "totals": self.totals(), "slowest": [stall.to_json() for stall in slowest]}

    def totals(self) -> list[dict[str, Any]]:
        return [
            {**place._asdict(), "cause": cause, "count": each.count, "total_ns": each.total_ns, "worst_ns": each.worst_ns}
            for (place, cause), each in self._totals.items()
        ]


def _parts(took_ns: int, had: Had, garbage_ns: int, compiled: bool) -> dict[str, int]:
    """What `took_ns` consists of, by cause. What was had before it, too, may make the parts more than the whole: each is cut."""
    core = min(had.delay_ns, took_ns)
    cpu = min(had.cpu_ns, took_ns - core) if core < took_ns else 0
    garbage = min(garbage_ns, cpu)
    work = "kernel" if compiled else "computing"
    left = took_ns - core - cpu
    rest = "disk" if had.reads else "asleep" if had.asleep else "host"
    return {work: cpu - garbage, "garbage": garbage, "core": core, rest: left}
