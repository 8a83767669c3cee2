"""Which process it is: its number alone is given to another one some day."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """This boot of this machine, and this container's process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}"


def born(pid: int) -> str | None:
    """When a process was started, in ticks since boot; None: there is none, or it is dead and only not buried yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
