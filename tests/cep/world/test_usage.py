"""What a process says that it has used."""

from __future__ import annotations

from cep.world.usage import SystemUsage, Usage


def test_what_was_used_does_not_fall() -> None:
    usage: Usage = SystemUsage()
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
