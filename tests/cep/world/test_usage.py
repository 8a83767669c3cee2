"""What a process says that it has used."""

from __future__ import annotations

import pytest

from cep.world.clock import ManualClock
from cep.world.usage import ClockUsage, SystemUsage, Usage


@pytest.mark.parametrize("usage", [SystemUsage(), ClockUsage(ManualClock(), 1)], ids=lambda usage: type(usage).__name__)
def test_what_was_used_does_not_fall(usage: Usage) -> None:
    for ask in (usage.thread_cpu_ns, usage.process_cpu_ns):
        shown = [ask() for _ in range(20)]
        assert shown == sorted(shown) and shown[0] >= 0
    assert usage.resident_bytes() > 0


def test_work_is_seen() -> None:
    usage = SystemUsage()
    before = usage.thread_cpu_ns()
    sum(range(100_000))
    assert usage.thread_cpu_ns() - before > 0
    assert usage.resident_bytes() > 1 << 20


def test_a_core_is_had_while_time_passes() -> None:
    clock = ManualClock()
    usage = ClockUsage(clock)
    clock.advance(7)
    assert (usage.thread_cpu_ns(), usage.process_cpu_ns()) == (7, 7)
