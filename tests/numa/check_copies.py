"""Makes copies of a loader at every NUMA node of this machine, and prints where the kernel says that they and their pages are.

    python3 tests/numa/check_copies.py          a loader for each node, a copy for each of its cores; its status tells
    python3 tests/numa/check_copies.py CORE N   one loader: binds, reads what takes memory, and answers at the descriptor N

`test_guest.py` runs it in a guest with four nodes. A loader reads less here than that of an instance manager: to the kernel it is the same.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the guest unpacks packages beside this file

from cep import numa
from cep.machine import available_cores, read_topology
from driver.processes.events import Events
from driver.processes.loaders import Adopted, Loader
from instance_manager.copying import copy_on_request

WRITTEN_BYTES = 16 << 20


def main(arguments: list[str]) -> int:
    if not arguments:
        return check_machine()
    core, handle = map(int, arguments)
    node = read_topology().node_of(core)
    numa.bind(core, node)
    shared = bytearray(b"x") * WRITTEN_BYTES
    import pyarrow  # noqa: F401  # after the binding, as an instance manager does

    if (request := copy_on_request(handle)) is not None:
        own = request["config"]["core"]
        binding = numa.bind(own, node)
        written = bytearray(b"y") * WRITTEN_BYTES
        shared[:: 1 << 13] = b"z" * len(shared[:: 1 << 13])  # every second page becomes its own
        print(
            json.dumps({"core": own, "node": node, "binding": binding.to_json(), "pages": anonymous_pages(), "written": len(written)}),
            flush=True,
        )
    return 0


def anonymous_pages() -> dict[str, int]:
    """How many pages of this process that no file has are at each node: those it shares with its loader, and its own."""
    pages: dict[str, int] = {}
    for line in numa.NUMA_MAPS.read_text().splitlines():
        words = line.split()
        for word in words if not any(each.startswith("file=") for each in words) else ():
            if word[0] == "N" and word[1].isdecimal():
                node, count = word[1:].split("=")
                pages[node] = pages.get(node, 0) + int(count)
    return pages


def check_machine() -> int:
    """Returns the number of copies that are not as they should be."""
    topology, events, log = read_topology().restricted(available_cores()), Events(), Path("/tmp/copies.log")
    log.unlink(missing_ok=True)  # of a run before
    loaders = []
    for node in topology.nodes:
        first = node.cores[0]
        command = [*numa.numactl_prefix(first, node.id), sys.executable, __file__, str(first)]
        loaders.append(Loader(command, Path("/tmp/loader.log"), os.environ, events))
        for core in node.cores:
            made: list[Adopted | None] = []
            loaders[-1].ask(f"im-{core}", {"core": core}, log, made.append)
            while not made:
                events.step()
            if made[0] is None or made[0].wait():
                print(Path("/tmp/loader.log").read_text(), log.read_text() if log.exists() else "")
                return 1
    failures = 0
    for line in log.read_text().splitlines():
        said = json.loads(line)
        binding, pages = said["binding"], said["pages"]
        is_right = binding["bound"] and binding["cores"] == [said["core"]] and pages.keys() == {str(said["node"])}
        failures += not is_right
        print(f"{'ok' if is_right else 'FAILED'}  copy at core {said['core']} of node {said['node']}: pages {pages}, {binding}")
    for loader in loaders:
        loader.stop()
    return failures


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))
