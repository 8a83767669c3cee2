"""What a user with a machine of many NUMA nodes can send: one JSON file with its facts, its measured distances and what was found on it.

    machine      cores, memory, kernel, versions, and the nodes with their distances
    kernel       what /sys and /proc say of nodes, policies and settings that matter for placement, and numactl if there is one
    memory       from a core of every node to the memory of every node: GB/s, ns, and where the kernel says that the buffer was
    searches     the grid of `hibench search --grid`: highest sustained rates with NUMA on and off, every probe, and where the kernel
                 says that processes and their pages were

No name of a host or a user is in it: nothing here asks for one, and `anonymous` takes out what could have slipped in. No serial numbers,
addresses or command lines either.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cep import numa
from cep.machine import available_cores, core_quota, read_topology
from cep.model.topology import Topology, core_list
from hibench.errors import EngineError
from hibench.numa.machine import Machine

VERSION = 1
FILE = "numa-report.json"
_PROBE_SECONDS = 600
_BUFFER_BYTES_LEAST = 64 << 20
_SYSTEM = Path("/sys/devices/system")
_ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = {
    "numa_balancing": Path("/proc/sys/kernel/numa_balancing"),
    "zone_reclaim_mode": Path("/proc/sys/vm/zone_reclaim_mode"),
    "transparent_hugepages": Path("/sys/kernel/mm/transparent_hugepage/enabled"),
    "smt": _SYSTEM / "cpu/smt/active",
    "governor": _SYSTEM / "cpu/cpu0/cpufreq/scaling_governor",
    "isolated_cores": _SYSTEM / "cpu/isolated",
    "online_cores": _SYSTEM / "cpu/online",
    "online_nodes": _SYSTEM / "node/online",
    "nodes_with_memory": _SYSTEM / "node/has_memory",
    "clocksource": _SYSTEM / "clocksource/clocksource0/current_clocksource",
}
_NODE_FILES = ("cpulist", "distance", "meminfo", "numastat")


def numa_report(
    searches: dict[str, Any] | None, topology: Topology, progress: Callable[[str], None], buffer_bytes: int | None = None
) -> dict[str, Any]:
    """The report as JSON values; `searches` are those of the grid, None: they were not asked for.

    Raises EngineError: a core could not be measured.
    """
    progress("facts of the machine and its kernel")
    report: dict[str, Any] = {
        "version": VERSION,
        "made": datetime.now(UTC).date().isoformat(),
        "machine": asdict(Machine.here()),
        "topology": {"all": read_topology().to_json(), "usable": topology.to_json(), "in_words": topology.describe()},
        "kernel": kernel_facts(topology),
        "memory": memory_matrix(topology, buffer_bytes or _buffer_bytes(topology), progress),
        "searches": searches,
    }
    return anonymous(report)


def kernel_facts(topology: Topology) -> dict[str, Any]:
    """What the kernel says; '' where it does not tell."""
    return {
        "release": platform.release(),
        "architecture": platform.machine(),
        "settings": {name: _text(path) for name, path in _SETTINGS.items()},
        "nodes": {str(node.id): {name: _text(_SYSTEM / f"node/node{node.id}/{name}") for name in _NODE_FILES} for node in topology.nodes},
        "caches": [_cache(folder) for folder in sorted((_SYSTEM / "cpu/cpu0/cache").glob("index*"))],
        "usable_cores": core_list(available_cores()),
        "usable_nodes": core_list(numa.usable_nodes()),
        "core_quota": core_quota(),
        "numactl": _numactl(),
    }


def memory_matrix(topology: Topology, size: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """One measurement for each pair of a node with cores and a node with memory (`hibench.numa.memory_probe`), by the node's first core."""
    usable = sorted(numa.usable_nodes()) or [node.id for node in topology.nodes]
    pairs = []
    for node in topology.nodes:
        if node.cores:
            progress(f"memory as a core of node {node.id} finds it")
            asked = {"core": node.cores[0], "home": node.id, "nodes": usable, "bytes": size}
            pairs += [{"core_node": node.id, **found} for found in _probed(asked)]
    return pairs


def anonymous(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the names of this host and this user, and without folders of theirs, wherever a text has them."""
    home = str(Path.home())
    names = {socket.gethostname(), platform.node(), _user(), *([home] if len(home) > 1 else [])}
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    found: dict[str, Any] = _without(re.compile(rf"(?<![\w-])(?:{words})(?![\w-])"), document)
    return found


def write(report: dict[str, Any], file: Path) -> None:
    file.write_text(json.dumps(report, indent=1) + "\n")


def _without(names: re.Pattern[str], value: Any) -> Any:
    match value:
        case str():
            return names.sub("…", value)
        case dict():
            return {key: _without(names, each) for key, each in value.items()}
        case list() | tuple():
            return [_without(names, each) for each in value]
    return value


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return ""


def _probed(asked: dict[str, Any]) -> list[dict[str, Any]]:
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "hibench.numa.memory_probe", json.dumps(asked)]
    prefix = numa.numactl_prefix(asked["core"], asked["home"])[:2]  # the core alone: the memory's node changes
    ran = subprocess.run([*prefix, *command], capture_output=True, text=True, timeout=_PROBE_SECONDS, env=os.environ | {"PYTHONPATH": path})
    if ran.returncode:
        raise EngineError(f"core {asked['core']} could not be measured: {ran.stderr.strip().splitlines()[-1:]}")
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def _buffer_bytes(topology: Topology) -> int:
    """Four times the last cache, at least 64 MiB, and no more than an eighth of the smallest node's memory."""
    last = max((_size(_cache(folder)["size"]) for folder in (_SYSTEM / "cpu/cpu0/cache").glob("index*")), default=0)
    smallest = min((node.memory_bytes for node in topology.nodes if node.memory_bytes), default=1 << 30)
    return max(1 << 20, min(max(4 * last, _BUFFER_BYTES_LEAST), smallest // 8))


def _cache(folder: Path) -> dict[str, str]:
    return {name: _text(folder / name) for name in ("level", "type", "size", "shared_cpu_list")}


def _size(text: str) -> int:
    """'32768K' in bytes."""
    return int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1) if text[:-1].isdecimal() else 0


def _numactl() -> str:
    """What `numactl --hardware` says; '' where there is none."""
    try:
        return subprocess.run(["numactl", "--hardware"], capture_output=True, text=True, timeout=60).stdout
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
