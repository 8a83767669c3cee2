"""How much memory there is for a process: what control groups of both versions, limits and the machine say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cep.world.memory import Bound, SystemMemory, control_groups
from tests.support.paths import ROOT

MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    300 kB\n"


def machine(root: Path, cgroup: str, **files: str) -> Path:
    """A folder as the kernel has it: what `/proc/self/cgroup` says, and files below /sys/fs/cgroup, `__` for `/`."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def shared(root: Path) -> list[tuple[int, int]]:
    return [(each.used, each.most) for each in SystemMemory(root=root).bounds() if each.shared]


def test_the_machine_has_what_is_not_available() -> None:
    [found] = [each for each in SystemMemory().bounds() if each.what == "the memory of the machine"]
    assert 0 < found.used < found.most and found.shared


def test_version_2_and_the_groups_above(tmp_path: Path) -> None:
    files = {
        "a__memory_max": "5000\n", "a__memory_current": "4000\n", "a__memory_stat": "anon 1\ninactive_file 500\n",
        "a__b__memory_max": "max\n", "a__b__memory_current": "7\n",
        "a__b__c__memory_max": "3000\n", "a__b__c__memory_current": "2000\n", "a__b__c__memory_stat": "inactive_file 100\n",
    }  # fmt: skip
    root = machine(tmp_path, "0::/a/b/c\n", **files)
    assert shared(root) == [(1900, 3000), (3500, 5000), (700 << 10, 1000 << 10)]


def test_version_1_whose_largest_number_is_no_bound(tmp_path: Path) -> None:
    files = {
        "memory__x__memory_limit_in_bytes": "9223372036854771712\n",
        "memory__x__memory_usage_in_bytes": "2000\n",
        "memory__x__memory_stat": "total_inactive_file 0\n",
        "memory__x__y__memory_limit_in_bytes": "8000\n",
        "memory__x__y__memory_usage_in_bytes": "900\n",
        "memory__x__y__memory_stat": "inactive_file 1\ntotal_inactive_file 50\n",
    }
    root = machine(tmp_path, "5:cpu:/\n4:memory,hugetlb:/x/y\n0::/\n", **files)
    assert shared(root)[:-1] == [(850, 8000)]


def test_in_a_container_the_path_is_that_of_outside(tmp_path: Path) -> None:
    files = {"memory_max": "6000\n", "memory_current": "10\n", "memory_stat": ""}
    assert shared(machine(tmp_path, "0::/docker/123\n", **files))[:-1] == [(10, 6000)]


def test_a_group_that_is_removed_is_no_bound_any_more(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/a\n", a__memory_max="5000\n", a__memory_current="1\n", a__memory_stat="")
    memory = SystemMemory(root=root)
    assert len(list(memory.bounds())) == 2
    (root / "sys/fs/cgroup/a/memory.current").unlink()
    assert len(list(memory.bounds())) == 1


def test_nothing_says_of_groups(tmp_path: Path) -> None:
    root = machine(tmp_path, "")
    (root / "proc/self/cgroup").unlink()
    assert control_groups(root) == ()


def test_what_one_process_may_have() -> None:
    memory = SystemMemory(own_most=1 << 40)
    own = next(iter(memory.bounds()))
    assert own.most == 1 << 40 and not own.shared and own.used == pytest.approx(memory.resident_bytes(), rel=0.1)


def test_limits_of_the_process() -> None:
    """What counts towards each: its whole address space, and of that its data."""
    program = (
        "import resource\nfor each in (resource.RLIMIT_AS, resource.RLIMIT_DATA): resource.setrlimit(each, (1 << 33, 1 << 33))\n"
        "from cep.world.memory import SystemMemory\nfor each in SystemMemory().bounds():\n    print(tuple(each))"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    first, second = (Bound(*eval(line)) for line in said.splitlines()[:2])
    assert first.what == "the process's limit of address space" and second.what == "the process's limit of data"
    assert first.most == second.most == 1 << 33 and 0 < second.used < first.used < first.most
