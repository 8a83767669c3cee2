"""How much memory there is for a process, and how much of it is used: its own bounds, and those that it shares with others.

Shared are the memory of its control groups (version 2: `memory.max`, version 1: `memory.limit_in_bytes`), where one is set, and that of
the machine. What the kernel keeps of files and would give back (`inactive_file`; what is `MemAvailable`) is not counted as used.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UNBOUND = 1 << 60  # version 1 says "no limit" as the largest number of pages there is


class Bound(NamedTuple):
    """`most` bytes, of which `used` are; `shared`: by other processes too."""

    what: str
    used: int
    most: int
    shared: bool = False


class Memory(Protocol):
    """What a process may have."""

    def resident_bytes(self) -> int:
        """Of this process."""

    def bounds(self) -> Iterator[Bound]:
        """All that there are, now."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group of processes whose memory is bounded together."""

    path: Path
    most: int
    usage: str  # the name of the file
    cache: str  # the name of what can be given back, in memory.stat

    def used(self) -> int:
        """Raises OSError: it is gone."""
        return max(0, int((self.path / self.usage).read_text()) - self._cached())

    def _cached(self) -> int:
        lines = (self.path / "memory.stat").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{self.cache} ")), 0)


class SystemMemory:
    """As the kernel says it.

    Args:
        own_most: what this process may have, bytes; None: what the system gives.
        root: the folder in which `proc` and `sys` are.
    """

    def __init__(self, own_most: int | None = None, root: Path = Path("/")) -> None:
        self.own_most = own_most
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._meminfo = os.open(root / "proc/meminfo", os.O_RDONLY | os.O_CLOEXEC)
        self.groups = control_groups(root)

    def resident_bytes(self) -> int:
        return self._pages(1)

    def bounds(self) -> Iterator[Bound]:
        if self.own_most is not None:
            yield Bound("what an instance manager may have (memory_bytes_max)", self.resident_bytes(), self.own_most)
        yield from self._limits()
        for group in self.groups:
            with suppress(OSError, ValueError):  # it has been removed
                yield Bound(f"the memory of control group {group.path}", group.used(), group.most, True)
        with suppress(KeyError):
            most, available = _meminfo(os.pread(self._meminfo, 4096, 0))
            yield Bound("the memory of the machine", most - available, most, True)

    def _limits(self) -> Iterator[Bound]:
        for what, number, field in (("address space", resource.RLIMIT_AS, 0), ("data", resource.RLIMIT_DATA, 5)):
            most = resource.getrlimit(number)[0]
            if most != resource.RLIM_INFINITY:
                yield Bound(f"the process's limit of {what}", self._pages(field), most)

    def _pages(self, field: int) -> int:
        return int(os.pread(self._statm, 128, 0).split()[field]) * _PAGE_BYTES


def control_groups(root: Path = Path("/")) -> tuple[ControlGroup, ...]:
    """Those of this process that have a bound: its own and the ones above it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ()
    return tuple(group for line in lines for group in _groups_of(line, root))


def _groups_of(line: str, root: Path) -> Iterator[ControlGroup]:
    """`line`: `0::/PATH` of version 2, `4:memory:/PATH` of version 1. In a container the path may be that of outside: then its end has no
    folder, and what is mounted is the container's own."""
    number, controllers, path = line.split(":", 2)
    mounts: tuple[str, ...]
    if number == "0" and not controllers:
        mounts, most, usage, cache = ("sys/fs/cgroup", "sys/fs/cgroup/unified"), "memory.max", "memory.current", "inactive_file"
    elif "memory" in controllers.split(","):
        mounts, most, usage, cache = ("sys/fs/cgroup/memory",), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    else:
        return
    for mount in mounts:
        own = root / mount / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root / mount) and (bytes_most := _most(folder / most)) is not None:
                yield ControlGroup(folder, bytes_most, usage, cache)


def _most(file: Path) -> int | None:
    try:
        found = file.read_text().strip()
    except OSError:
        return None
    return int(found) if found.isdecimal() and int(found) < _UNBOUND else None


def _meminfo(text: bytes) -> tuple[int, int]:
    """(all, available), bytes. Raises KeyError."""
    found = dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
    total, available = (int(found[name].split()[0]) << 10 for name in (b"MemTotal", b"MemAvailable"))
    return total, available


class ScriptedMemory:
    """The shipped double: what it is told."""

    def __init__(self, resident: int = 0, *bounds: Bound) -> None:
        self.resident, self.told = resident, bounds

    def resident_bytes(self) -> int:
        return self.resident

    def bounds(self) -> Iterator[Bound]:
        return iter(self.told)
