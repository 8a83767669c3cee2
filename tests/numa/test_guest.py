"""Binding proven on four NUMA nodes: a guest under software emulation, since most machines that test have one.

Build the guest once (about a minute, as root, see the head of guest.sh) and name its folder:

    tests/numa/guest.sh build ~/.cache/numa-guest
    CEP_NUMA_GUEST=~/.cache/numa-guest pytest tests/numa

The grid of searches starts six clusters in the guest, some minutes of CPU each: it shows placement and answers, never speed.
"""

import json
import os
import shutil
import subprocess
from collections import Counter
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


def test_copies_of_a_loader_and_what_they_share_with_it_are_at_their_node() -> None:
    """Four nodes, a loader on each and a copy for each of its two cores: rule 7.1."""
    packages = [REPOSITORY / name for name in ("cep", "driver", "instance_manager")]
    said = guest("python3 check_copies.py", *packages, HERE / "check_copies.py", TIMEOUT_S="900")
    print(said)
    assert [line.split(":")[0] for line in said.splitlines()] == [f"ok  copy at core {core} of node {core // 2}" for core in range(8)]


def test_discovery_of_sixteen_nodes() -> None:
    """The guest's nodes pair up as the Bullion's do, so its distances are the paper's, read through a real /sys."""
    program = "from cep.machine import read_topology; from cep.model.topology import Topology as T; " + (
        "print(read_topology().distances == T.bullion_s16().distances)"
    )
    said = guest(f'python3 -c "{program}"', REPOSITORY / "cep", NODES="16", CORES="1", MEMORY_MB="256")
    assert said.split() == ["True"]


def test_blocks_are_written_at_the_nodes_that_read_them() -> None:
    """Four nodes, two readers on each: every page of the page cache is at its reader's node, and not where the writer happened to run."""
    packages = [REPOSITORY / name for name in ("cep", "driver", "hibench")]
    said = json.loads(guest("python3 check_homes.py", *packages, HERE / "check_homes.py", TIMEOUT_S="900").splitlines()[-1])
    assert said["readers"] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {node for file in said["nodes"] for node in file} == {0, 1, 2, 3}
    assert said["pages"] == {"home": said["pages"]["home"], "away": 0, "absent": 0}


SEARCH = (
    "NUMBA_DISABLE_JIT=1 python3 -m hibench.cli numa-report --output /tmp/report.json --cache /tmp/cache --nodes 1,2 --instances 1 "
    "--seconds 4 --warm-up 5s --first 25 --most 25 --probes 1 --latency-limit 60s --keys zipf:20 --buffer-bytes 1048576 "
    "--patience 1000s 2>/tmp/said || { cat /tmp/said; exit 1; }; cat /tmp/report.json"
)


@pytest.mark.timeout(3700)
def test_the_grid_of_searches_and_its_report() -> None:
    """One node, two spread, two as replicas, NUMA on and off: each answers rightly, and the kernel says where it ran. Whether an emulator
    keeps up with 25 records a second is its own affair; that it did not is said, and no rate is claimed then."""
    packages = [REPOSITORY / name for name in ("cep", "driver", "hibench", "instance_manager", "orchestrator")]
    said = guest(SEARCH, *packages, NODES="2", CORES="2", MEMORY_MB="1536", TIMEOUT_S="3600")
    report = json.loads(said)
    assert [(pair["core_node"], pair["memory_node"]) for pair in report["memory"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(pair["pages_by_node"].keys() == {str(pair["memory_node"])} for pair in report["memory"])
    searches = report["searches"]["searches"]
    ways = ["one node", "2 nodes, spread", "2 nodes, replicas"]
    assert [search["name"] for search in searches] == [f"{way}, NUMA {numa}" for way in ways for numa in ("on", "off")]
    for search in searches:
        (why_not,) = [probe["why_not"] for probe in search["probes"]]
        assert search["rate"] == (0 if why_not else 25) and "wrong" not in why_not, search
        bound = Counter(placed["node"] for placed in search["placed"])
        assert bound == Counter(search["nodes"] if search["numa"] else [None] * len(search["nodes"])), search
