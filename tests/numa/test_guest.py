"""Binding proven on four NUMA nodes: a guest under software emulation, since most machines that test have one.

Build the guest once (about a minute, as root, see the head of guest.sh) and name its folder:

    tests/numa/guest.sh build ~/.cache/numa-guest
    CEP_NUMA_GUEST=~/.cache/numa-guest pytest tests/numa
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = os.environ.get("CEP_NUMA_GUEST", "")
HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent


def reason_not_to_run() -> str:
    if not FOLDER:
        return "CEP_NUMA_GUEST names no guest (tests/numa/guest.sh build FOLDER)"
    if not Path(FOLDER, "root.img").is_file():
        return f"CEP_NUMA_GUEST={FOLDER} holds no built guest (tests/numa/guest.sh build {FOLDER})"
    return "" if shutil.which("qemu-system-x86_64") else "qemu-system-x86_64 is not installed"


pytestmark = [pytest.mark.skipif(bool(reason_not_to_run()), reason=reason_not_to_run()), pytest.mark.timeout(400)]


def guest(command: str, *paths: Path, **settings: str) -> str:
    """What the command prints inside the guest; fails with it when the command fails."""
    words = [str(HERE / "guest.sh"), "run", FOLDER, command, *map(str, paths)]
    ran = subprocess.run(words, env=os.environ | settings, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_processes_and_their_pages_are_at_the_node_they_are_bound_to() -> None:
    """Nodes 0 to 3, each under numactl and by system calls: affinity, policy, and 32 MiB of touched pages."""
    said = guest("python3 check_binding.py", REPOSITORY / "cep", HERE / "check_binding.py", NODES="4", CORES="2")
    print(said)
    assert "4 nodes (ids 0-3) of 2 cores, 8 cores" in said
    for node in range(4):
        for way in ("numactl", "system calls"):
            assert f"ok  node {node} core {2 * node + 1} {way}\n" in said
    assert "ok  node 3 core 0 of node 0" in said  # the policy alone, against first touch
    assert "ok  absent node" in said


def test_discovery_of_sixteen_nodes() -> None:
    """The guest's nodes pair up as the Bullion's do, so its distances are the paper's, read through a real /sys."""
    program = "from cep import numa; from cep.model.topology import Topology as T; " + (
        "print(numa.read_topology().distances == T.bullion_s16().distances)"
    )
    said = guest(f'python3 -c "{program}"', REPOSITORY / "cep", NODES="16", CORES="1", MEMORY_MB="256")
    assert said.split() == ["True"]
