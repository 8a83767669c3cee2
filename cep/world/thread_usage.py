"""What a thread has had of its machine, and what it has waited for: by these figures a stall is told from work."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import suppress
from operator import sub
from typing import NamedTuple, Protocol

from cep.world.usage import SystemUsage


class Had(NamedTuple):
    """Totals of a thread, or their differences. `delay_ns`: it was ready to run, and others had its core; `asleep`: how
    often it has gone to sleep by itself; `preempted`: how often its core was taken from it; `faults`: pages that were mapped; `reads`:
    those that had to be read from a disk."""

    cpu_ns: int = 0
    delay_ns: int = 0
    asleep: int = 0
    preempted: int = 0
    faults: int = 0
    reads: int = 0

    def since(self, before: Had) -> Had:
        return Had(*map(sub, self, before))


class OtherThread(NamedTuple):
    """Another thread of Python's of this process, and for how long it has been ready to run or has run, ns."""

    id: int
    name: str
    ready_ns: int


class ThreadUsage(Protocol):
    """Of the thread that made it, which alone asks."""

    def had(self) -> Had: ...

    def others(self) -> Iterator[OtherThread]:
        """Those that may hold Python's lock."""


class SystemThreadUsage:
    """As the kernel counts it. `had` takes 2 to 3 µs."""

    def __init__(self) -> None:
        self._id = threading.get_native_id()
        # Kept open: to look the names up takes longer than to read. A kernel without CONFIG_SCHED_INFO has no such file.
        self._own = _opened(self._id)
        self._others: dict[int, int | None] = {}  # by thread

    def had(self) -> Had:
        used = resource.getrusage(resource.RUSAGE_THREAD)  # whose CPU time is that of the last tick of the core's clock
        return Had(SystemUsage.thread_cpu_ns(), _ready(self._own)[1], used.ru_nvcsw, used.ru_nivcsw, used.ru_minflt, used.ru_majflt)

    def others(self) -> Iterator[OtherThread]:
        there = {thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id not in (None, self._id)}
        for gone in self._others.keys() - there.keys():
            if (file := self._others.pop(gone)) is not None:
                os.close(file)
        for id_, name in there.items():
            assert id_ is not None
            if id_ not in self._others:
                self._others[id_] = _opened(id_)
            yield OtherThread(id_, name, sum(_ready(self._others[id_])))


def _opened(thread: int) -> int | None:
    with suppress(OSError):
        return os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    return None


def _ready(file: int | None) -> tuple[int, int]:
    """For how long a thread has had a core, and has waited for one, ns; it may have ended."""
    if file is not None:
        with suppress(OSError):
            cpu_ns, delay_ns, _ = os.pread(file, 64, 0).split()
            return int(cpu_ns), int(delay_ns)
    return 0, 0
