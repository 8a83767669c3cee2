"""What a stall is put down to, and what of it is kept.

Tests `stalls.py`, `thread_usage.py`.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from cep.world.clock import ManualClock, SystemClock
from cep.world.stalls import CAUSES, FRESH_NS, PLACES_MAX, REST, SLOW_NS, SLOWEST_MAX, TOLD_AGAIN, Place, Stalls
from cep.world.thread_usage import Had, OtherThread, SystemThreadUsage

MS = 1_000_000
PICK = Place("operator", "pick", "q", "SQ1", 0)


class Told:
    """A thread of which is told what it had."""

    def __init__(self) -> None:
        self.had_so_far, self.ready_ns = Had(), {"control": 0, "zookeeper": 0}

    def had(self) -> Had:
        return self.had_so_far

    def others(self) -> Iterator[OtherThread]:
        return iter([OtherThread(i, name, ns) for i, (name, ns) in enumerate(self.ready_ns.items())])


class Bench:
    def __init__(self) -> None:
        self.clock, self.thread, self.compiled = ManualClock(wall_ns=10**18), Told(), 0
        self.stalls = Stalls(self.clock, self.thread, lambda: self.compiled)

    def took(self, ms: int, place: Place = PICK, **had: int) -> str:
        """A piece of work; the cause that is found."""
        self.clock.advance(ms * MS)
        self.thread.had_so_far = Had(*(sum(pair) for pair in zip(self.thread.had_so_far, Had(**had), strict=True)))
        self.stalls.took(place, ms * MS, self.clock.steady_ns())
        return str(self.report()["slowest"][0]["cause"])

    def report(self) -> dict[str, list[dict[str, object]]]:
        report = self.stalls.report()
        assert report is not None
        return report


@pytest.mark.parametrize(
    ("had", "cause"),
    [
        ({"cpu_ns": 6 * MS, "delay_ns": 4 * MS}, "computing"),
        ({"cpu_ns": 4 * MS, "delay_ns": 6 * MS}, "core"),
        ({"cpu_ns": 4 * MS, "preempted": 3}, "host"),
        ({"cpu_ns": 4 * MS, "asleep": 1}, "asleep"),
        ({"cpu_ns": 4 * MS, "asleep": 1, "reads": 1}, "disk"),
        ({"cpu_ns": 50 * MS}, "computing"),
    ],
)
def test_the_greatest_part_names_the_cause(had: dict[str, int], cause: str) -> None:
    assert Bench().took(10, **had) == cause
    assert cause in CAUSES


def test_kernels_that_were_compiled_meanwhile() -> None:
    bench = Bench()
    bench.compiled += 1
    assert bench.took(10, cpu_ns=9 * MS) == "kernel"
    assert bench.took(10, cpu_ns=9 * MS) == "computing"


def test_a_thread_that_was_ready_may_have_held_the_lock() -> None:
    bench = Bench()
    bench.thread.ready_ns["control"] += 6 * MS
    assert bench.took(10, asleep=1) == "lock"
    assert bench.took(10, asleep=1) == "asleep"
    bench.thread.ready_ns["control"] += 9 * MS
    bench.stalls.look_at_others()
    assert bench.took(10, asleep=1) == "asleep"


def test_what_was_had_before_belongs_to_no_stall() -> None:
    bench = Bench()
    bench.thread.had_so_far = Had(cpu_ns=90 * MS)
    bench.clock.advance(FRESH_NS)
    bench.stalls.refresh(bench.clock.steady_ns())
    assert bench.took(10, delay_ns=9 * MS) == "core"


def test_one_that_slept_stalls_where_others_had_its_core() -> None:
    bench = Bench()
    bench.clock.advance(100 * MS)
    bench.stalls.slept(bench.clock.steady_ns())
    assert bench.stalls.report() is None
    bench.thread.had_so_far = Had(delay_ns=3 * MS)
    bench.stalls.slept(bench.clock.steady_ns())
    (stall,) = bench.report()["slowest"]
    assert (stall["step"], stall["cause"], stall["took_ns"]) == ("waking", "core", 3 * MS)


def test_totals_and_the_slowest_of_each() -> None:
    bench = Bench()
    for ms in (3, 7, 5):
        bench.clock.advance(ms * MS)
        bench.stalls.took(PICK, ms * MS, bench.clock.steady_ns())
    report = bench.report()
    assert [(each["count"], each["total_ns"], each["worst_ns"]) for each in report["totals"]] == [(3, 15 * MS, 7 * MS)]
    assert [each["took_ns"] for each in report["slowest"]] == [7 * MS]
    told = [bench.stalls.report() for _ in range(TOLD_AGAIN)]
    assert told[:-1] == [None] * (TOLD_AGAIN - 1)
    assert told[-1] == {"began": bench.stalls.began, "totals": report["totals"], "slowest": []}


def test_what_is_kept_is_bounded() -> None:
    bench = Bench()
    for i in range(2 * PLACES_MAX):
        bench.stalls.took(Place("operator", f"o{i}"), (2 + i) * MS, bench.clock.steady_ns())
    report = bench.report()
    assert len(report["totals"]) == PLACES_MAX + 1 and len(report["slowest"]) == SLOWEST_MAX
    assert [each["count"] for each in report["totals"] if each["step"] == REST] == [PLACES_MAX]


# --- the machine's ---------------------------------------------------------------------------------------------------


def stall_of(stalls: Stalls, took_ns: int) -> dict[str, object]:
    stalls.took(PICK, took_ns, SystemClock.steady_ns())
    report = stalls.report()
    assert report is not None
    return dict(report["slowest"][0])


def test_sleep_work_and_garbage_of_this_thread() -> None:
    stalls = Stalls(SystemClock(), SystemThreadUsage())
    began = time.monotonic_ns()
    threading.Event().wait(0.02)
    slept = stall_of(stalls, time.monotonic_ns() - began)
    assert slept["cause"] == "asleep" and slept["asleep"] != 0
    began, end = time.monotonic_ns(), time.thread_time_ns() + 20 * SLOW_NS
    while time.thread_time_ns() < end:
        pass
    assert int(str(stall_of(stalls, time.monotonic_ns() - began)["cpu_ns"])) >= 19 * SLOW_NS
    stalls.watch_garbage()
    try:
        kept, began = [[i] for i in range(300_000)], time.monotonic_ns()
        gc.collect()
        took_ns = time.monotonic_ns() - began
    finally:
        gc.callbacks.pop()
    assert int(str(stall_of(stalls, took_ns)["garbage_ns"])) > took_ns / 2 and len(kept) == 300_000


def test_other_threads_are_seen_while_they_are_there() -> None:
    usage, go_on = SystemThreadUsage(), threading.Event()
    other = threading.Thread(target=go_on.wait, name="other")
    other.start()
    try:
        assert "other" in [each.name for each in usage.others()]
    finally:
        go_on.set()
        other.join()
    assert "other" not in [each.name for each in usage.others()]
