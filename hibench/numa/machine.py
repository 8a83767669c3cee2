"""Facts about the machine and the software that a reader of figures needs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

_LIBRARIES = ("numa-cep", "numpy", "numba", "pyarrow", "pyzmq", "pyspark")
_NODES = Path("/sys/devices/system/node")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True)
class MemoryNode:
    """One memory node: its number, its CPUs as the kernel lists them ('0-7,16'), its distances to all nodes."""

    number: int
    cpus: str
    distances: tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """`cores_usable`: what affinity and the cgroup's quota leave of `cores_online`."""

    cpu: str
    cores_online: int
    cores_usable: int
    memory_bytes: int
    kernel: str
    python: str
    libraries: dict[str, str]
    numa_nodes: tuple[MemoryNode, ...]

    @classmethod
    def here(cls) -> Machine:
        return cls(
            cpu=_cpu_model(),
            cores_online=os.cpu_count() or 1,
            cores_usable=cores_usable(),
            memory_bytes=psutil.virtual_memory().total,
            kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
            python=platform.python_version(),
            libraries={name: found for name in _LIBRARIES if (found := _version(name))},
            numa_nodes=_numa_nodes(),
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Machine:
        """The machine whose fields are this JSON. Raises KeyError or TypeError: it is none."""
        nodes = tuple(MemoryNode(node["number"], node["cpus"], tuple(node["distances"])) for node in document["numa_nodes"])
        return cls(**{**document, "numa_nodes": nodes})


def cores_usable() -> int:
    """CPUs this process may run on, no more than the cgroup's quota pays for; at least 1."""
    allowed = len(os.sched_getaffinity(0))
    quota, _, period = _read(_CPU_QUOTA).partition(" ")
    return max(1, min(allowed, int(quota) // int(period))) if quota.isdecimal() else allowed


def _numa_nodes() -> tuple[MemoryNode, ...]:
    """The nodes that have CPUs; one holding all of them where the kernel shows none."""
    numbers = sorted(int(path.name[4:]) for path in _NODES.glob("node[0-9]*"))
    nodes = [MemoryNode(number, _read(_NODES / f"node{number}/cpulist"), _distances(number)) for number in numbers]
    return tuple(node for node in nodes if node.cpus) or (MemoryNode(0, f"0-{(os.cpu_count() or 1) - 1}", (10,)),)


def _distances(node: int) -> tuple[int, ...]:
    return tuple(map(int, _read(_NODES / f"node{node}/distance").split()))


def _cpu_model() -> str:
    lines = (line.partition(":") for line in _read(Path("/proc/cpuinfo")).splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == "model name"), platform.machine())


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _read(path: Path) -> str:
    """'' where there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
