"""What our own commands have in common: a cluster whose processes are metered to the nanosecond, and one line of JSON at the end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from benchmarks.memory import at_hand, bytes_at_hand
from driver import LocalCluster, Subscription

_CPUCLOCK_SCHED = 2
_RESET_PEAK = "5"  # of VmHWM: proc(5), clear_refs


@dataclass
class Used:
    """What a metered block used: wall seconds, and of the CPU seconds of all processes those inside the kernel (to 10 ms); by name of
    process CPU seconds, resident bytes at its beginning and at their peak."""

    wall_s: float = 0.0
    kernel_s: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    begun_bytes: dict[str, int] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        return sum(self.cpu.values())

    def of_instance_managers(self) -> float:
        """CPU seconds of them alone."""
        return sum(used for name, used in self.cpu.items() if name.startswith("im-"))

    def grown_bytes(self) -> int:
        """By how much the instance managers' memory was greater at its peak than at the beginning."""
        return sum(peak - self.begun_bytes[name] for name, peak in self.peak_bytes.items() if name.startswith("im-"))

    def rates(self, records: int) -> dict[str, object]:
        """The figures that bars name."""
        return {
            "records": records,
            "cpu_s": round(self.cpu_s, 6),
            "kernel_s": round(self.kernel_s, 2),
            "wall_s": round(self.wall_s, 6),
            "records_per_cpu_s": records / self.cpu_s,
            "records_per_s": records / self.wall_s,
            "cpu_by_process": {name: round(used, 4) for name, used in self.cpu.items()},
            "memory_peak_mib": {name: round(peak / 2**20) for name, peak in self.peak_bytes.items() if name.startswith("im-")},
        }


@contextlib.contextmanager
def metered(cluster: LocalCluster) -> Iterator[Used]:
    """Meters all processes of `cluster` and this one while the block runs."""
    processes = {**dict(cluster.processes()), "client": os.getpid()}
    for pid in processes.values():
        Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
    at_hand(bytes_at_hand())
    used = Used(begun_bytes={name: _resident_bytes(pid, "VmRSS") for name, pid in processes.items()})
    before = {name: process_cpu_s(pid) for name, pid in processes.items()}
    kernel = _kernel_s(processes.values())
    start = time.perf_counter()
    yield used
    used.wall_s = time.perf_counter() - start
    used.cpu = {name: process_cpu_s(pid) - before[name] for name, pid in processes.items()}
    used.kernel_s = _kernel_s(processes.values()) - kernel
    used.peak_bytes = {name: _resident_bytes(pid, "VmHWM") for name, pid in processes.items()}


def process_cpu_s(pid: int) -> float:
    """User and system seconds of a process and all its threads, to the nanosecond: clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def _kernel_s(pids: Iterable[int]) -> float:
    return float(sum(psutil.Process(pid).cpu_times().system for pid in pids))


def _resident_bytes(pid: int, which: str) -> int:
    """VmRSS: now; VmHWM: the most since it was reset."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(which))


def turns(standing: bool) -> Iterator[None]:
    """One run, or one for every line that comes (`benchmarks.sides`)."""
    if not standing:
        yield
        return
    for _ in sys.stdin:
        yield


def recovering(asked: Any) -> dict[str, str]:
    """The options of a query whose command has `--recover`."""
    return {"recover": asked.recover, "checkpoint": "1s"}


def add_recovery(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recover", default="off", help="of the query; with a checkpoint a second")


def pin(pid: int, core: int) -> None:
    """Puts every thread of a process on a core."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


def drained(subscription: Subscription, take: Callable[[pa.RecordBatch], None]) -> int:
    """Hands every batch to `take`; returns how many rows there were."""
    rows = 0
    for batch in subscription:
        rows += batch.num_rows
        take(batch)
    return rows


def stopwatch() -> Callable[[str], None]:
    """Says on stderr what happens, with the seconds since now before it."""
    began = time.monotonic()
    return lambda what: print(f"{time.monotonic() - began:6.1f} s  {what}", file=sys.stderr, flush=True)


def say(**figures: object) -> None:
    """The last line of every command."""
    print(json.dumps(figures), flush=True)
