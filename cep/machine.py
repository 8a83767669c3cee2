"""The machine as the kernel shows it: nodes, cores and their distances, and what of them this process may use.

`cep.numa` binds threads to it. Only the standard library is imported here, since a process binds before it imports anything large.

Manual pages: sysfs(5), cpuset(7), cgroups(7), numa(7).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cep.model.topology import OWN_DISTANCE, NumaNode, Topology, parse_core_list

NODE_ROOT = Path("/sys/devices/system/node")
CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")

_REMOTE_DISTANCE = 20  # the kernel's own REMOTE_DISTANCE, for a machine whose firmware gives no table
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def read_topology(root: str | Path = NODE_ROOT) -> Topology:
    """The online NUMA nodes of this machine, with cores, memory and distances.

    What this process may use of it is `read_topology().restricted(available_cores())`. A kernel without NUMA has no
    such tree: then the machine is one node with all online cores.

    Args:
        root: the folder of `node0`, `node1` …, `online`; the machine's own unless a test gives another.

    Raises:
        ValueError: a file of the tree does not say what the kernel documents.
    """
    root = Path(root)
    ids = _online_nodes(root)
    try:
        nodes = tuple(_read_node(root / f"node{id}", id) for id in ids)
        if not any(node.cores for node in nodes):
            return Topology.one_node(online_cores(root), _PAGE_BYTES * os.sysconf("SC_PHYS_PAGES"))
        return Topology(nodes, tuple(_read_distances(root / f"node{id}", id, ids) for id in ids))
    except ValueError as error:
        raise ValueError(f"{root}: {error}") from error


def available_cores(cgroup_root: Path = CGROUP_ROOT, membership: Path = CGROUP_MEMBERSHIP) -> frozenset[int]:
    """The cores this thread may run on: its affinity, within the cpuset of its control group. After `bind` it is one."""
    affinity = frozenset(os.sched_getaffinity(0))
    for folder in _cgroup_folders("cpuset", cgroup_root, membership):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            cpuset = file_text(folder / name).strip()
            if cpuset:
                return affinity & set(parse_core_list(cpuset))
    return affinity


def core_quota(cgroup_root: Path = CGROUP_ROOT, membership: Path = CGROUP_MEMBERSHIP) -> float | None:
    """How many cores' worth of time the control groups grant (2.0 = two cores); None is without limit."""
    quotas = [_quota(folder) for folder in _cgroup_folders("cpu", cgroup_root, membership)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _online_nodes(root: Path) -> tuple[int, ...]:
    folders = (folder.name.removeprefix("node") for folder in root.glob("node[0-9]*") if folder.is_dir())
    present = {int(name) for name in folders if name.isdecimal()}
    online = file_text(root / "online").strip()
    return tuple(sorted(present & set(parse_core_list(online)) if online else present))


def _read_node(folder: Path, id: int) -> NumaNode:
    return NumaNode(id, parse_core_list(file_text(folder / "cpulist")), _memory_bytes(folder / "meminfo"))


def _memory_bytes(meminfo: Path) -> int:
    for line in file_text(meminfo).splitlines():
        words = line.split()  # Node 0 MemTotal: 7825624 kB
        if "MemTotal:" in words:
            return 1024 * int(words[words.index("MemTotal:") + 1])
    return 0


def _read_distances(folder: Path, id: int, ids: tuple[int, ...]) -> tuple[int, ...]:
    """One row: the kernel writes a column per online node, in ascending order of ids."""
    words = file_text(folder / "distance").split()
    return tuple(map(int, words)) if words else tuple(OWN_DISTANCE if i == id else _REMOTE_DISTANCE for i in ids)


def online_cores(node_root: Path) -> tuple[int, ...]:
    online = parse_core_list(file_text(node_root.parent / "cpu" / "online"))
    return online or tuple(range(os.cpu_count() or 1))


def _cgroup_folders(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The folders that govern `controller` for this process, from its own control group up to the root of the mount."""
    for line in file_text(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / controllers if controllers else _unified(root)
        # A container may see its group by the host's name or by a way out of its mount: then the mount is the group
        own = Path() if ".." in path else Path(path.lstrip("/"))
        yield from (mount / group for group in (own, *own.parents) if (mount / group).is_dir())


def _unified(root: Path) -> Path:
    """Where version 2 is mounted: alone, or beside version 1."""
    return root if (root / "cgroup.controllers").exists() else root / "unified"


def _quota(folder: Path) -> float | None:
    quota_us, _, period_us = file_text(folder / "cpu.max").strip().partition(" ")
    if not quota_us:
        quota_us, period_us = (file_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return int(quota_us) / int(period_us) if quota_us.isdecimal() and period_us.isdecimal() and int(period_us) else None


def file_text(file: Path) -> str:
    """The file's text, empty where it cannot be read: on /sys and /proc that means the kernel does not tell."""
    try:
        return file.read_text()
    except OSError:
        return ""
