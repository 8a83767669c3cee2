"""The memory of processes while something is thrown at them: looked at once a minute, from the moment on when they are warm."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

MINUTE_S = 60.0


class MemoryWatch:
    """Resident bytes of the processes `pids`, by name; the first look is after `warm_s` seconds."""

    def __init__(self, pids: Mapping[str, int], warm_s: float) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._next_s = warm_s
        self.seen: dict[str, list[int]] = {name: [] for name in pids}

    def look(self, passed_s: float, at_once: bool = False) -> None:
        """Notes them if it is time. Raises psutil.NoSuchProcess: one has gone."""
        if passed_s < self._next_s and not at_once:
            return
        self._next_s += MINUTE_S
        for name, process in self._processes.items():
            self.seen[name].append(process.memory_info().rss)

    def grown(self) -> dict[str, int]:
        """By how many bytes each is larger than at the first look."""
        return {name: found[-1] - found[0] for name, found in self.seen.items()}

    def lines(self) -> list[str]:
        """Of each process: MiB at each look, by how much more it has in all, and by how much a minute in the second half."""
        return [_line(name, [bytes_ / 2**20 for bytes_ in found]) for name, found in self.seen.items()]


def _line(name: str, found: list[float]) -> str:
    half = found[len(found) // 2 :]
    late = (half[-1] - half[0]) / max(1, len(half) - 1)
    return f"{name}: {found[-1] - found[0]:+.1f} MiB, {late:+.2f} MiB a minute in the second half; " + " ".join(f"{x:.1f}" for x in found)
