"""What the process has used of its machine: what it reports of itself."""

from __future__ import annotations

import os
import time
from typing import Protocol

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(Protocol):
    """Processor time in ns, memory in bytes."""

    def thread_cpu_ns(self) -> int:
        """For how long the thread that asks has had a core."""

    def process_cpu_ns(self) -> int: ...

    def resident_bytes(self) -> int: ...


class SystemUsage:
    """As the kernel counts it."""

    thread_cpu_ns = staticmethod(time.thread_time_ns)
    process_cpu_ns = staticmethod(time.process_time_ns)

    def __init__(self) -> None:
        # Kept open: to look the name up takes as long as an instance's figures.
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def resident_bytes(self) -> int:
        return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE_BYTES
