"""Binds processes to every NUMA node of this machine and proves from the kernel where they and their pages are.

    python3 tests/numa/check_binding.py             every node, under numactl and by system calls; its status tells
    python3 tests/numa/check_binding.py CORE NODE   one process: binds, touches memory, prints what the kernel says

It runs wherever `cep` can be imported and needs nothing but Python; `test_guest.py` runs it in a guest with four nodes.
"""

import ctypes
import json
import mmap
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the guest unpacks `cep` beside this file

from cep import numa
from cep.machine import available_cores, read_topology

TOUCHED_BYTES = 32 << 20


def main(arguments: list[str]) -> int:
    if arguments:
        core, node = map(int, arguments)
        print(json.dumps(bound_process(core, node)))
        return 0
    return check_machine()


def bound_process(core: int, node: int) -> dict[str, object]:
    """The child: binds, touches memory page by page, and reports what the kernel says of both."""
    started = numa.verify(core, node)
    binding = numa.bind(core, node)
    region = mmap.mmap(-1, TOUCHED_BYTES)
    for offset in range(0, TOUCHED_BYTES, mmap.PAGESIZE):
        region[offset] = 1
    pages = numa.pages_by_node(ctypes.addressof(ctypes.c_char.from_buffer(region)), TOUCHED_BYTES)
    return {
        "started_bound": started.bound,
        "binding": binding.to_json(),
        "pages": pages,
        "process_pages": numa.process_pages_by_node(),
    }


def check_machine() -> int:
    """Every node in both ways, then a node that is absent; the number of failures."""
    topology = read_topology().restricted(available_cores())
    print(topology.describe())
    failures = 0
    for node in topology.nodes:
        core = node.cores[-1]
        for way, prefix in (("numactl", numa.numactl_prefix(core, node.id)), ("system calls", [])):
            failures += report(f"node {node.id} core {core} {way}", faults(way, prefix, core, node.id))
    near, far = topology.nodes[0], topology.nodes[-1]
    if near != far:  # first touch alone would put the pages at the core's own node: only the policy sends them elsewhere
        found = faults("system calls", [], near.cores[0], far.id, node_of_core=near.id)
        failures += report(f"node {far.id} core {near.cores[0]} of node {near.id}", found)
    return failures + report("absent node", faults_of_absent_node(topology.cores[0], topology.nodes[-1].id + 1))


def faults(way: str, prefix: list[str], core: int, node: int, node_of_core: int | None = None) -> list[str]:
    """What is not as it should be in a process bound to the core and the node, which are at one place unless told."""
    if way == "numactl" and not prefix:
        return ["numactl is not installed or not permitted here"]
    said = child(prefix, core, node)
    binding, pages = said["binding"], said["pages"]
    print(f"  {json.dumps(said)}")
    expected = {
        "started bound": (said["started_bound"], bool(prefix)),
        "bound": (binding["bound"], True),
        "cores": (binding["cores"], [core]),
        "core now": (binding["core_now"], core),
        "node now": (binding["node_now"], node if node_of_core is None else node_of_core),
        "policy": ([binding["policy"], binding["policy_nodes"]], ["bind", [node]]),
        "pages": (pages, {str(node): TOUCHED_BYTES // mmap.PAGESIZE}),
    }
    return [f"{what}: expected {want}, got {got}" for what, (got, want) in expected.items() if got != want]


def faults_of_absent_node(core: int, node: int) -> list[str]:
    if numa.numactl_prefix(core, node):
        return [f"numactl is to be called for node {node}, which is absent"]
    binding = child([], core, node)["binding"]
    print(f"  {json.dumps(binding)}")
    note = str(binding["note"])
    return [] if not binding["bound"] and f"node {node} is absent" in note else [f"the note is {note!r}"]


def child(prefix: list[str], core: int, node: int) -> dict[str, dict[str, object]]:
    command = [*prefix, sys.executable, __file__, str(core), str(node)]
    said: dict[str, dict[str, object]] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return said


def report(what: str, faults: list[str]) -> int:
    print(f"{'FAILED' if faults else 'ok'}  {what}{''.join(f'; {fault}' for fault in faults)}", flush=True)
    return len(faults)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))
