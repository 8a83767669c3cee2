"""The binding of a thread to one core and one NUMA node of the machine (`cep.machine`), and where its pages are.

How to read this file:
1. Affinity and memory policy belong to a *thread*, and a page stays at the node where it was first touched. So a
   process binds before it starts threads and before it imports anything large: hence only the standard library here,
   and no work at import. Best is to start bound (`numactl_prefix`): then the interpreter's own pages are at home too.
2. What is reported is what the kernel answers afterwards (`verify`), never what was asked of it.
3. An impossible binding is a state, not a failure: the engine says so and runs (rule 7.1), unless it is `required`.
4. There is no libnuma: five system calls by number, for x86-64 and aarch64.

Manual pages: set_mempolicy(2), get_mempolicy(2), move_pages(2), getcpu(2), numa(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from cep.errors import ClusterError
from cep.machine import NODE_ROOT, available_cores, file_text, online_cores
from cep.model.topology import core_list, parse_core_list

NUMA_MAPS = Path("/proc/self/numa_maps")

NOT_PRESENT = -1
"""The node of a page that nothing has touched yet."""

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


def usable_nodes() -> frozenset[int]:
    """The nodes whose memory this process may have; empty where the kernel does not tell.

    A container that refuses this question refuses set_mempolicy too.
    """
    try:
        _, allowed = _get_mempolicy(_MEMORY_ALLOWED)
    except OSError:
        return frozenset()
    return frozenset(allowed) & set(parse_core_list(file_text(NODE_ROOT / "has_memory")))


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
    text = file_text(numa_maps)
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


# --- asking the kernel -----------------------------------------------------------------------------------------------


def _refused_core(core: int | None) -> str:
    """Binds to the core; why not, where that is impossible."""
    if core is None:
        return ""
    online = online_cores(NODE_ROOT)
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
    try:
        _system_call("set_mempolicy", _POLICY_BIND, node_mask((node,)), _MASK_BITS)
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
    mode, mask = ctypes.c_int(), node_mask()
    _system_call("get_mempolicy", ctypes.byref(mode), mask, _MASK_BITS, None, flags)
    return mode.value, nodes_of(mask)


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


def node_mask(nodes: Iterable[int] = ()) -> ctypes.Array[ctypes.c_ulong]:
    """The nodes as the kernel reads and writes them: a bit each."""
    # One word to spare: the kernel rounds what it copies up to words
    mask = (ctypes.c_ulong * (_NODE_BITS // _WORD_BITS + 1))()
    for node in nodes:
        mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    return mask


def nodes_of(mask: ctypes.Array[ctypes.c_ulong]) -> tuple[int, ...]:
    """The nodes whose bits are set."""
    return tuple(node for node in range(_NODE_BITS) if mask[node // _WORD_BITS] >> node % _WORD_BITS & 1)


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
