"""What processes use while a run lasts: CPU seconds, and the peak of their anonymous memory.

Anonymous memory (RssAnon) is what a process has made itself: heap, stacks, arrays. Pages of files it reads, of
libraries and of the page cache belong to the machine and are left out. The peak is that of the sum over all processes,
sampled ten times a second; each process's own peak is kept beside it, and so are the samples.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_SAMPLE_SECONDS = 0.1
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessUse:
    """One process's part: CPU seconds within the run, and its own peak of anonymous memory in bytes."""

    name: str
    pid: int
    cpu_seconds: float
    peak_anonymous_bytes: int


@dataclass(frozen=True)
class ProcessSample:
    """One look at one process: seconds since the block began, CPU seconds since then, its anonymous memory now, and how many records
    the answers counted by then (None: not known)."""

    seconds: float
    process: str
    cpu_seconds: float
    anonymous_bytes: int
    events: int | None


@dataclass
class Use:
    """What a metered block used; complete when the block has ended."""

    seconds: float = 0.0
    peak_anonymous_bytes: int = 0
    processes: list[ProcessUse] = field(default_factory=list)
    samples: list[ProcessSample] = field(default_factory=list)
    done: int | None = None  # set by the block: how many records are done

    @property
    def cpu_seconds(self) -> float:
        return sum(process.cpu_seconds for process in self.processes)


@contextlib.contextmanager
def metered(processes: list[tuple[str, int]], done: Callable[[], int | None] | None = None) -> Iterator[Use]:
    """Meters `processes` (name, pid) and this process (`client`) while the block runs; wall time is the block's.

    A process that dies meanwhile counts with what was last seen of it. `done` is asked with every sample how many records are done;
    without it the block may say so in `Use.done`.
    """
    use, over = Use(), threading.Event()
    sampler = _Sampler([*processes, ("client", os.getpid())], done or (lambda: use.done))
    thread = threading.Thread(target=sampler.run, args=(over,), daemon=True)
    sampler.sample()
    thread.start()
    start = time.perf_counter()
    try:
        yield use
    finally:
        use.seconds = time.perf_counter() - start
        over.set()
        thread.join()
        sampler.sample()
        use.processes, use.peak_anonymous_bytes = sampler.result(), sampler.peak
        use.samples = sampler.samples


class _Sampler:
    """First and last CPU time and the greatest memory seen of every process."""

    def __init__(self, processes: list[tuple[str, int]], done: Callable[[], int | None]) -> None:
        self._names = {pid: name for name, pid in processes}
        self._done, self._began = done, time.perf_counter()
        self.samples: list[ProcessSample] = []
        self._cpu_first: dict[int, float] = {}
        self._cpu_last: dict[int, float] = {}
        self._peaks: dict[int, int] = {}
        self.peak = 0

    def run(self, over: threading.Event) -> None:
        while not over.wait(_SAMPLE_SECONDS):
            self.sample()

    def sample(self) -> None:
        total, moment, done = 0, time.perf_counter() - self._began, self._done()
        for pid, name in self._names.items():
            try:
                cpu, anonymous = _cpu_seconds(pid), _anonymous_bytes(pid)
            except (OSError, LookupError):  # gone, or a zombie without memory
                continue
            used = cpu - self._cpu_first.setdefault(pid, cpu)
            self.samples.append(ProcessSample(moment, name, used, anonymous, done))
            self._cpu_last[pid] = cpu
            self._peaks[pid] = max(self._peaks.get(pid, 0), anonymous)
            total += anonymous
        self.peak = max(self.peak, total)

    def result(self) -> list[ProcessUse]:
        return [ProcessUse(self._names[pid], pid, last - self._cpu_first[pid], self._peaks[pid]) for pid, last in self._cpu_last.items()]


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        values = file.read().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / _TICKS_PER_SECOND


def _anonymous_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        line = next((line for line in file if line.startswith("RssAnon:")), None)
    if line is None:
        raise LookupError(f"process {pid} has no memory of its own")
    return int(line.split()[1]) * 1024
