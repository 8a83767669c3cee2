"""The machine as the kernel shows it, and the binding of a thread to one core and one NUMA node.

How to read this file:
1. Affinity and memory policy belong to a *thread*, and a page stays at the node where it was first touched. So a
   process binds before it starts threads and before it imports anything large: hence only the standard library here,
   and no work at import. Best is to start bound (`numactl_prefix`): then the interpreter's own pages are at home too.
2. What is reported is what the kernel answers afterwards (`verify`), never what was asked of it.
3. An impossible binding is a state, not a failure: the engine says so and runs (DESIGN §7), unless it is `required`.
4. There is no libnuma: five system calls by number, for x86-64 and aarch64.

Manual pages: set_mempolicy(2), get_mempolicy(2), move_pages(2), getcpu(2), cpuset(7), cgroups(7), numa(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from cep.errors import ClusterError
from cep.model.topology import OWN_DISTANCE, Node, Topology, core_list, parse_core_list

NODE_ROOT = Path("/sys/devices/system/node")
CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")
NUMA_MAPS = Path("/proc/self/numa_maps")

NOT_PRESENT = -1
"""The node of a page that nothing has touched yet."""

_REMOTE_DISTANCE = 20  # the kernel's own REMOTE_DISTANCE, for a machine whose firmware gives no table
_SYSTEM_CALLS = {
    "x86_64": {"set_mempolicy": 238, "get_mempolicy": 239, "move_pages": 279, "getcpu": 309},
    "aarch64": {"set_mempolicy": 237, "get_mempolicy": 236, "move_pages": 239, "getcpu": 168},
}
_POLICIES = ("default", "preferred", "bind", "interleave", "local", "preferred-many", "weighted-interleave")
_POLICY_DEFAULT = _POLICIES.index("default")
_POLICY_BIND = _POLICIES.index("bind")
_POLICY_MASK = 0x0FFF  # above it are the mode's flags (MPOL_F_STATIC_NODES and its like)
_MEMORY_ALLOWED = 1 << 2  # MPOL_F_MEMS_ALLOWED
_NODE_BITS = 1024  # the largest MAX_NUMNODES a kernel is built with
_MASK_BITS = _NODE_BITS + 1  # the kernel reads one bit less than it is told
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_HINTS = {
    errno.EPERM: "; in a container add the capability SYS_NICE",
    errno.ENOSYS: "; this kernel has no NUMA policies",
}
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAGES_PER_CALL = 1 << 14


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the kernel lets the calling thread run and from where it gives it memory.

    Args:
        cores: the cores of its affinity, ascending.
        policy: its memory policy: default, bind, preferred, interleave …; unknown where the kernel does not tell.
        policy_nodes: the nodes that policy names; empty for default.
        core_now: the core it ran on when asked; None where the kernel does not tell.
        node_now: that core's node.
        bound: everything that was asked for holds.
        note: what does not hold and why, for a person; empty when bound.
    """

    cores: tuple[int, ...]
    policy: str
    policy_nodes: tuple[int, ...]
    core_now: int | None
    node_now: int | None
    bound: bool
    note: str

    def to_json(self) -> dict[str, object]:
        """The fields as JSON values, under their own names."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


# --- what is there ---------------------------------------------------------------------------------------------------


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
            return Topology.one_node(_online_cores(root), _PAGE_BYTES * os.sysconf("SC_PHYS_PAGES"))
        return Topology(nodes, tuple(_read_distances(root / f"node{id}", id, ids) for id in ids))
    except ValueError as error:
        raise ValueError(f"{root}: {error}") from error


def available_cores(cgroup_root: Path = CGROUP_ROOT, membership: Path = CGROUP_MEMBERSHIP) -> frozenset[int]:
    """The cores this thread may run on: its affinity, within the cpuset of its control group. After `bind` it is one."""
    affinity = frozenset(os.sched_getaffinity(0))
    for folder in _cgroup_folders("cpuset", cgroup_root, membership):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            cpuset = _text(folder / name).strip()
            if cpuset:
                return affinity & set(parse_core_list(cpuset))
    return affinity


def usable_nodes() -> frozenset[int]:
    """The nodes whose memory this process may have; empty where the kernel does not tell.

    A container that refuses this question refuses set_mempolicy too.
    """
    try:
        _, allowed = _get_mempolicy(_MEMORY_ALLOWED)
    except OSError:
        return frozenset()
    return frozenset(allowed) & set(parse_core_list(_text(NODE_ROOT / "has_memory")))


def core_quota(cgroup_root: Path = CGROUP_ROOT, membership: Path = CGROUP_MEMBERSHIP) -> float | None:
    """How many cores' worth of time the control groups grant (2.0 = two cores); None is without limit."""
    quotas = [_quota(folder) for folder in _cgroup_folders("cpu", cgroup_root, membership)]
    return min((quota for quota in quotas if quota is not None), default=None)


# --- binding ---------------------------------------------------------------------------------------------------------


def bind(core: int | None, node: int | None, required: bool = False) -> Binding:
    """Makes the calling thread run on `core` and take its memory from `node` only; None leaves that half as it is.

    Threads and processes started afterwards inherit both. Pages touched before stay where they are.

    Args:
        required: raise where it is impossible, instead of saying so in the note.

    Raises:
        ClusterError: it is impossible, and `required`.
    """
    refusals = [refusal for refusal in (_refused_core(core), _refused_node(node)) if refusal]
    now = verify(core, node)
    if refusals:
        now = _with_note(now, "; ".join(refusals))
    if required and not now.bound:
        raise ClusterError(f"cannot bind to core {core} and node {node}: {now.note}")
    return now


def unbind(cores: Collection[int] | None = None) -> Binding:
    """Takes both bindings off the calling thread: the baseline that the kernel's scheduler places as it likes.

    Args:
        cores: where it may run from now on; by default on every core that its control group allows.
    """
    os.sched_setaffinity(0, _online_cores(NODE_ROOT) if cores is None else cores)
    try:
        _system_call("set_mempolicy", _POLICY_DEFAULT, None, 0)
    except OSError as error:
        return _with_note(verify(), f"the memory policy is as it was: {_reason('set_mempolicy', error)}")
    return verify()


def verify(core: int | None = None, node: int | None = None) -> Binding:
    """What the kernel says of the calling thread. Never raises: what it does not tell is `unknown` or None.

    `bound` judges by the core and the node given. Given neither, it means bound at all: to one core, and memory by the
    policy `bind`.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    policy, nodes = _memory_policy()
    shortfalls = [_core_shortfall(cores, core)] if core is not None or node is None else []
    shortfalls += [_node_shortfall(policy, nodes, node)] if node is not None or core is None else []
    note = "; ".join(shortfall for shortfall in shortfalls if shortfall)
    return Binding(cores, policy, nodes, *_running_on(), bound=not note, note=note)


def numactl_prefix(core: int, node: int) -> list[str]:
    """The words to put before a command so that it starts bound; none where numactl is missing or would refuse.

    numactl ends instead of running the command when it cannot bind. Without the words the command runs, and the `bind`
    that it calls first says what is impossible.
    """
    if not _has_numactl() or core not in available_cores() or node not in usable_nodes():
        return []
    return ["numactl", f"--physcpubind={core}", f"--membind={node}"]


# --- where pages are -------------------------------------------------------------------------------------------------


def pages_by_node(address: int, length: int) -> dict[int, int]:
    """How many pages of this process's memory `[address, address + length)` are at each node.

    Returns:
        node id → pages of the system's page size; untouched pages count under `NOT_PRESENT`.

    Raises:
        OSError: the kernel does not tell (no NUMA, or a container that forbids move_pages).
    """
    first = address - address % _PAGE_BYTES
    addresses = range(first, address + length, _PAGE_BYTES)
    pages: Counter[int] = Counter()
    for start in range(0, len(addresses), _PAGES_PER_CALL):
        pages.update(_nodes_of_pages(addresses[start : start + _PAGES_PER_CALL]))
    return dict(sorted(pages.items()))


def process_pages_by_node(numa_maps: Path = NUMA_MAPS) -> dict[int, int] | None:
    """How many pages of the whole process are at each node, in pages of the system's size.

    The kernel walks every mapping for it: something for a report, not for a loop.

    Returns:
        node id → pages; None where the kernel does not tell.
    """
    text = _text(numa_maps)
    if not text:
        return None
    pages: Counter[int] = Counter()
    for line in text.splitlines():
        fields = dict(field.split("=", 1) for field in line.split() if "=" in field)
        scale = int(fields.get("kernelpagesize_kB", _PAGE_BYTES // 1024)) * 1024 // _PAGE_BYTES
        for name, count in fields.items():
            if name.startswith("N") and name[1:].isdecimal():
                pages[int(name[1:])] += int(count) * scale
    return dict(sorted(pages.items()))


# --- reading /sys ----------------------------------------------------------------------------------------------------


def _online_nodes(root: Path) -> tuple[int, ...]:
    folders = (folder.name.removeprefix("node") for folder in root.glob("node[0-9]*") if folder.is_dir())
    present = {int(name) for name in folders if name.isdecimal()}
    online = _text(root / "online").strip()
    return tuple(sorted(present & set(parse_core_list(online)) if online else present))


def _read_node(folder: Path, id: int) -> Node:
    return Node(id, parse_core_list(_text(folder / "cpulist")), _memory_bytes(folder / "meminfo"))


def _memory_bytes(meminfo: Path) -> int:
    for line in _text(meminfo).splitlines():
        words = line.split()  # Node 0 MemTotal: 7825624 kB
        if "MemTotal:" in words:
            return 1024 * int(words[words.index("MemTotal:") + 1])
    return 0


def _read_distances(folder: Path, id: int, ids: tuple[int, ...]) -> tuple[int, ...]:
    """One row: the kernel writes a column per online node, in ascending order of ids."""
    words = _text(folder / "distance").split()
    return tuple(map(int, words)) if words else tuple(OWN_DISTANCE if i == id else _REMOTE_DISTANCE for i in ids)


def _online_cores(node_root: Path) -> tuple[int, ...]:
    online = parse_core_list(_text(node_root.parent / "cpu" / "online"))
    return online or tuple(range(os.cpu_count() or 1))


def _cgroup_folders(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The folders that govern `controller` for this process, from its own control group up to the root of the mount."""
    for line in _text(membership).splitlines():
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
    quota_us, _, period_us = _text(folder / "cpu.max").strip().partition(" ")
    if not quota_us:
        quota_us, period_us = (_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return int(quota_us) / int(period_us) if quota_us.isdecimal() and period_us.isdecimal() and int(period_us) else None


def _text(file: Path) -> str:
    """The file's text, empty where it cannot be read: on /sys and /proc that means the kernel does not tell."""
    try:
        return file.read_text()
    except OSError:
        return ""


# --- asking the kernel -----------------------------------------------------------------------------------------------


def _refused_core(core: int | None) -> str:
    """Binds to the core; why not, where that is impossible."""
    if core is None:
        return ""
    online = _online_cores(NODE_ROOT)
    if core not in online:
        return f"core {core} is absent or offline; online are {core_list(online)}"
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        allowed = core_list(os.sched_getaffinity(0))
        return f"core {core} is not for this process, which may run on {allowed}: {_reason('sched_setaffinity', error)}"
    return ""


def _refused_node(node: int | None) -> str:
    """Binds memory to the node; why not, where that is impossible."""
    if node is None:
        return ""
    unusable = f"node {node} is absent or has no memory for this process; usable are {core_list(usable_nodes())}"
    if not 0 <= node < _NODE_BITS:
        return unusable
    mask = _node_mask()
    mask[node // _WORD_BITS] = 1 << node % _WORD_BITS
    try:
        _system_call("set_mempolicy", _POLICY_BIND, mask, _MASK_BITS)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return unusable
        return f"memory is not bound to node {node}: {_reason('set_mempolicy', error)}"
    return ""


def _reason(call: str, error: OSError) -> str:
    code = error.errno or 0
    return f"{call} answers {errno.errorcode.get(code, code)} ({error.strerror}){_HINTS.get(code, '')}"


def _core_shortfall(cores: tuple[int, ...], core: int | None) -> str:
    if len(cores) == 1 and core in (None, cores[0]):
        return ""
    asked = "one core" if core is None else f"core {core}"
    return f"not bound to {asked}: runs on {core_list(cores)}"


def _node_shortfall(policy: str, nodes: tuple[int, ...], node: int | None) -> str:
    if policy == "bind" and (node is None or nodes == (node,)):
        return ""
    asked = "a node" if node is None else f"node {node}"
    return f"memory not bound to {asked}: its policy is {policy}{' ' + core_list(nodes) if nodes else ''}"


def _with_note(binding: Binding, note: str) -> Binding:
    return replace(binding, bound=False, note=note)


def _memory_policy() -> tuple[str, tuple[int, ...]]:
    """The policy's name and the nodes that it names."""
    try:
        mode, nodes = _get_mempolicy(0)
    except OSError:
        return "unknown", ()
    number = mode & _POLICY_MASK
    return _POLICIES[number] if number < len(_POLICIES) else f"policy-{number}", nodes


def _get_mempolicy(flags: int) -> tuple[int, tuple[int, ...]]:
    mode, mask = ctypes.c_int(), _node_mask()
    _system_call("get_mempolicy", ctypes.byref(mode), mask, _MASK_BITS, None, flags)
    nodes = (node for node in range(_NODE_BITS) if mask[node // _WORD_BITS] >> node % _WORD_BITS & 1)
    return mode.value, tuple(nodes)


def _running_on() -> tuple[int | None, int | None]:
    core, node = ctypes.c_uint(), ctypes.c_uint()
    try:
        _system_call("getcpu", ctypes.byref(core), ctypes.byref(node), None)
    except OSError:
        return None, None
    return core.value, node.value


def _nodes_of_pages(addresses: range) -> list[int]:
    """The node of each page, NOT_PRESENT for one that is not there: move_pages(2) that moves nothing only reports."""
    count = len(addresses)
    pages, nodes = (ctypes.c_void_p * count)(*addresses), (ctypes.c_int * count)()
    _system_call("move_pages", 0, count, pages, None, nodes, 0)
    return [node if node >= 0 else NOT_PRESENT for node in nodes]


def _node_mask() -> ctypes.Array[ctypes.c_ulong]:
    # One word to spare: the kernel rounds what it copies up to words
    return (ctypes.c_ulong * (_NODE_BITS // _WORD_BITS + 1))()


def _has_numactl() -> bool:
    return any(os.access(os.path.join(folder, "numactl"), os.X_OK) for folder in os.get_exec_path())


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _system_call(name: str, *arguments: object) -> int:
    """The call's result. Raises OSError: the kernel's, or ENOSYS on a machine whose numbers are not known here."""
    number = _SYSTEM_CALLS.get(os.uname().machine, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"its number on {os.uname().machine} is not known here", name)
    # A bare int would travel as 32 bits, and the kernel reads 64
    words = (ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments)
    result: int = _libc().syscall(ctypes.c_long(number), *words)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result
