"""Discovery on made-up /sys trees, and binding on the machine at hand, whatever it has and permits.

Whatever binds runs in a process of its own: affinity and memory policy must not leak into other tests.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cep import numa
from cep.model.topology import Node, Topology

HERE = sorted(os.sched_getaffinity(0))
CORE = HERE[0]
NODE = numa.read_topology().node_of(CORE)
NO_CORE = 100_000
NO_NODE = 1_000
PERMITTED = bool(numa.usable_nodes())
permitted = pytest.mark.skipif(not PERMITTED, reason="this kernel or container permits no memory policy (cap_add: [SYS_NICE])")


def tree(folder: Path, nodes: Mapping[int, str], distances: Sequence[Sequence[int]], online: str | None = None) -> Path:
    """A tree such as /sys/devices/system/node: id → cpulist, 1 GiB each; without `online` that file is missing."""
    root = folder / "node"
    for (id, cores), row in zip(nodes.items(), distances, strict=True):
        node = root / f"node{id}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{cores}\n")
        (node / "distance").write_text(" ".join(map(str, row)) + "\n")
        (node / "meminfo").write_text(f"Node {id} MemTotal:        1048576 kB\nNode {id} MemFree:    1 kB\n")
    if online is not None:
        (root / "online").write_text(f"{online}\n")
    return root


def in_a_process(program: str, prefix: Sequence[str] = ()) -> Any:
    """What `program`, which finds `numa`, `json` and `os` imported, prints as JSON."""
    text = "import json, os\nfrom cep import numa\n" + textwrap.dedent(program)
    ran = subprocess.run([*prefix, sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


class TestReadTopology:
    def test_one_node(self, tmp_path: Path) -> None:
        root = tree(tmp_path, {0: "0-1"}, [[10]], online="0")
        assert numa.read_topology(root) == Topology((Node(0, (0, 1), 1 << 30),), ((10,),))

    def test_four_nodes(self, tmp_path: Path) -> None:
        rows = [[10, 15, 40, 40], [15, 10, 40, 40], [40, 40, 10, 15], [40, 40, 15, 10]]
        topology = numa.read_topology(tree(tmp_path, {0: "0-1,8-9", 1: "2-3", 2: "4-5", 3: "6-7"}, rows, online="0-3"))
        assert topology.nodes[0].cores == (0, 1, 8, 9)
        assert topology.distances == tuple(map(tuple, rows))

    def test_sixteen_nodes_come_in_the_order_of_their_numbers_and_not_of_their_names(self, tmp_path: Path) -> None:
        bullion = Topology.bullion_s16()
        cores = {node.id: f"{node.cores[0]}-{node.cores[-1]}" for node in bullion.nodes}
        topology = numa.read_topology(tree(tmp_path, cores, bullion.distances, online="0-15"))
        assert [node.id for node in topology.nodes] == list(range(16))
        assert topology.distances == bullion.distances
        assert topology.cores == bullion.cores

    def test_a_node_that_is_memory_only(self, tmp_path: Path) -> None:
        topology = numa.read_topology(tree(tmp_path, {0: "0-3", 1: ""}, [[10, 20], [20, 10]], online="0-1"))
        assert topology.nodes[1] == Node(1, (), 1 << 30)

    def test_gaps_in_the_numbers(self, tmp_path: Path) -> None:
        topology = numa.read_topology(tree(tmp_path, {0: "0", 2: "1", 8: "2"}, [[10, 20, 30], [20, 10, 31], [30, 31, 10]]))
        assert [node.id for node in topology.nodes] == [0, 2, 8]
        assert topology.distance(2, 8) == 31

    def test_an_offline_node_stays_out(self, tmp_path: Path) -> None:
        rows = [[10, 20], [], [20, 10]]  # the kernel writes a column per online node
        topology = numa.read_topology(tree(tmp_path, {0: "0", 1: "", 2: "2"}, rows, online="0,2"))
        assert [node.id for node in topology.nodes] == [0, 2]

    def test_without_a_table_of_distances_the_kernels_defaults(self, tmp_path: Path) -> None:
        assert numa.read_topology(tree(tmp_path, {0: "0", 1: "1"}, [[], []])).distances == ((10, 20), (20, 10))

    def test_without_a_tree_one_node_with_all_online_cores(self, tmp_path: Path) -> None:
        (tmp_path / "cpu").mkdir()
        (tmp_path / "cpu" / "online").write_text("0-2,5\n")
        topology = numa.read_topology(tmp_path / "node")
        assert [(node.id, node.cores) for node in topology.nodes] == [(0, (0, 1, 2, 5))]
        assert topology.nodes[0].memory_bytes > 0

    @pytest.mark.parametrize(
        ("file", "text", "complaint"),
        [
            ("cpulist", "0-x", "expected a list such as '0-3,8', got '0-x'"),
            ("distance", "10 20", r"1 rows of 1 distances, got rows of \[2\]"),
            ("distance", "11", "node 0: expected the distance 10 to itself, got 11"),
        ],
    )
    def test_a_broken_tree_is_named(self, tmp_path: Path, file: str, text: str, complaint: str) -> None:
        root = tree(tmp_path, {0: "0-1"}, [[10]])
        (root / "node0" / file).write_text(text)
        with pytest.raises(ValueError, match=f"{root}: .*{complaint}"):
            numa.read_topology(root)

    def test_this_machine(self) -> None:
        assert set(HERE) <= set(numa.read_topology().cores)


class TestControlGroups:
    """The files of both versions of control groups, as a host and as a container show them."""

    @staticmethod
    def files(root: Path, texts: Mapping[str, str]) -> Path:
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"{text}\n")
        return root / "membership"

    @pytest.mark.parametrize(
        ("texts", "quota"),
        [
            ({}, None),
            ({"membership": "0::/", "cgroup.controllers": "cpu", "cpu.max": "max 100000"}, None),
            ({"membership": "0::/", "cgroup.controllers": "cpu", "cpu.max": "150000 100000"}, 1.5),
            (  # the tightest on the way up
                {
                    "membership": "0::/a/b",
                    "cgroup.controllers": "",
                    "cpu.max": "800000 100000",
                    "a/cpu.max": "200000 100000",
                    "a/b/cpu.max": "max 100000",
                },
                2.0,
            ),
            ({"membership": "4:cpu,cpuacct:/", "cpu,cpuacct/cpu.cfs_quota_us": "-1"}, None),
            (
                {
                    "membership": "4:cpu,cpuacct:/docker/1\n0::/",  # by the host's name, which the container has not
                    "cpu,cpuacct/cpu.cfs_quota_us": "50000",
                    "cpu,cpuacct/cpu.cfs_period_us": "100000",
                },
                0.5,
            ),
            ({"membership": "0::/../../a", "cgroup.controllers": "cpu", "cpu.max": "100000 100000"}, 1.0),
        ],
    )
    def test_core_quota(self, tmp_path: Path, texts: Mapping[str, str], quota: float | None) -> None:
        membership = self.files(tmp_path, texts)
        assert numa.core_quota(tmp_path, membership) == quota

    @pytest.mark.parametrize(
        ("texts", "cores"),
        [
            ({}, HERE),
            ({"membership": "0::/", "cgroup.controllers": "", "cpuset.cpus.effective": f"{CORE}"}, [CORE]),
            ({"membership": "0::/a", "unified/a/cgroup.type": "", "unified/cpuset.cpus.effective": f"{CORE}"}, [CORE]),
            ({"membership": "3:cpuset:/a", "cpuset/a/cpuset.cpus": f"{CORE},{NO_CORE}"}, [CORE]),
            ({"membership": "3:cpuset:/", "cpuset/cpuset.cpus": f"{NO_CORE}"}, []),
        ],
    )
    def test_available_cores(self, tmp_path: Path, texts: Mapping[str, str], cores: list[int]) -> None:
        membership = self.files(tmp_path, texts)
        assert sorted(numa.available_cores(tmp_path, membership)) == cores

    def test_this_machine(self) -> None:
        assert numa.available_cores()
        quota = numa.core_quota()
        assert quota is None or quota > 0


class TestBinding:
    def test_a_core(self) -> None:
        for core in HERE:
            said = in_a_process(f"print(json.dumps(numa.bind({core}, None).to_json()))")
            assert (said["bound"], said["note"], said["cores"], said["core_now"]) == (True, "", [core], core)

    @permitted
    def test_a_core_and_its_node(self) -> None:
        said = in_a_process(f"print(json.dumps([numa.bind({CORE}, {NODE}).to_json(), numa.verify().to_json()]))")
        for binding in said:
            assert binding == {
                "cores": [CORE],
                "policy": "bind",
                "policy_nodes": [NODE],
                "core_now": CORE,
                "node_now": NODE,
                "bound": True,
                "note": "",
            }

    @permitted
    def test_pages_come_from_the_node(self) -> None:
        said = in_a_process(f"""
            import ctypes, mmap
            numa.bind({CORE}, {NODE}, required=True)
            region = mmap.mmap(-1, 64 * mmap.PAGESIZE)
            for page in range(16):
                region[page * mmap.PAGESIZE] = 1
            address = ctypes.addressof(ctypes.c_char.from_buffer(region))
            print(json.dumps({{
                "region": numa.pages_by_node(address, len(region)),
                "bytes_across_a_border": numa.pages_by_node(address + mmap.PAGESIZE - 1, 2),
                "process": numa.process_pages_by_node(),
            }}))
        """)
        assert said["region"] == {str(NODE): 16, str(numa.NOT_PRESENT): 48}
        assert said["bytes_across_a_border"] == {str(NODE): 2}
        assert said["process"] is None or said["process"][str(NODE)] > 16

    def test_children_inherit_it_and_unbind_takes_it_off(self) -> None:
        said = in_a_process(f"""
            import subprocess, sys
            numa.bind({CORE}, {NODE if PERMITTED else None})
            child = "import json; from cep import numa; "
            child += "print(json.dumps([numa.verify().to_json(), numa.unbind().to_json()]))"
            print(subprocess.run([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True).stdout)
        """)
        inherited, unbound = said
        assert inherited["cores"] == [CORE]
        assert set(unbound["cores"]) >= set(HERE)
        if PERMITTED:
            assert (inherited["policy"], unbound["policy"]) == ("bind", "default")

    def test_unbind_to_a_set_of_cores(self) -> None:
        assert in_a_process(f"print(json.dumps(numa.unbind([{CORE}]).to_json()))")["cores"] == [CORE]

    def test_an_unbound_process_says_what_it_lacks(self) -> None:
        said = in_a_process(f"numa.unbind(); print(json.dumps(numa.verify({NO_CORE}, {NO_NODE}).to_json()))")
        assert not said["bound"]
        assert f"not bound to core {NO_CORE}: runs on " in said["note"]
        assert f"memory not bound to node {NO_NODE}: its policy is " in said["note"]


class TestImpossibleBinding:
    @pytest.mark.parametrize("core", [NO_CORE, -1])
    def test_an_absent_core_is_a_note(self, core: int) -> None:
        said = in_a_process(f"print(json.dumps(numa.bind({core}, None).to_json()))")
        assert not said["bound"]
        assert f"core {core} is absent or offline; online are " in said["note"]
        assert said["cores"] == HERE  # as it was

    @permitted
    @pytest.mark.parametrize("node", [NO_NODE, 1 << 20, -1])
    def test_an_absent_node_is_a_note_and_the_core_is_bound_all_the_same(self, node: int) -> None:
        said = in_a_process(f"print(json.dumps(numa.bind({CORE}, {node}).to_json()))")
        assert not said["bound"]
        assert f"node {node} is absent or has no memory for this process; usable are " in said["note"]
        assert (said["cores"], said["policy"]) == ([CORE], "default")

    def test_required_raises_with_the_note(self) -> None:
        said = in_a_process(f"""
            try:
                numa.bind({NO_CORE}, None, required=True)
            except numa.ClusterError as error:
                print(json.dumps({{"error": str(error)}}))
        """)
        assert said["error"].startswith(f"cannot bind to core {NO_CORE} and node None: core {NO_CORE} is absent")

    def test_a_container_that_refuses_is_told_what_to_add(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(name: str, *arguments: object) -> int:
            raise PermissionError(1, "Operation not permitted", name)

        monkeypatch.setattr(numa, "_system_call", refuse)
        binding = numa.bind(None, 0)
        assert (binding.bound, binding.policy, binding.core_now, binding.node_now) == (False, "unknown", None, None)
        assert binding.note == (
            "memory is not bound to node 0: set_mempolicy answers EPERM (Operation not permitted); "
            "in a container add the capability SYS_NICE"
        )
        assert numa.numactl_prefix(CORE, 0) == []

    def test_a_machine_whose_system_calls_are_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(numa, "_SYSTEM_CALLS", {})
        assert "set_mempolicy answers ENOSYS" in numa.bind(None, 0).note
        with pytest.raises(OSError, match="is not known here"):
            numa.pages_by_node(0, 1)


class TestNumactl:
    @pytest.fixture
    def numactl(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A stand-in on the PATH, so that the test does not depend on the package."""
        program = tmp_path / "numactl"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return program

    @permitted
    def test_the_words_before_the_command(self, numactl: Path) -> None:
        assert numa.numactl_prefix(CORE, NODE) == ["numactl", f"--physcpubind={CORE}", f"--membind={NODE}"]

    def test_no_words_where_it_would_end_instead_of_running_the_command(self, numactl: Path) -> None:
        assert numa.numactl_prefix(NO_CORE, NODE) == []
        assert numa.numactl_prefix(CORE, NO_NODE) == []

    def test_no_words_where_it_is_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert numa.numactl_prefix(CORE, NODE) == []

    def test_a_process_under_the_real_one_starts_bound(self) -> None:
        prefix = numa.numactl_prefix(CORE, NODE)
        if not prefix:
            pytest.skip("numactl is not installed or may not bind here")
        said = in_a_process(f"print(json.dumps(numa.verify({CORE}, {NODE}).to_json()))", prefix)
        assert (said["bound"], said["note"]) == (True, "")


class TestNumaMaps:
    def test_pages_of_all_mappings_in_the_systems_page_size(self, tmp_path: Path) -> None:
        maps = tmp_path / "numa_maps"
        maps.write_text(
            "55d1 default file=/usr/bin/python3.11 mapped=3 N0=1 N12=2 kernelpagesize_kB=4\n"
            "7f00 bind:1 anon=512 dirty=512 N0=2 kernelpagesize_kB=2048\n"
            "7fff default stack anon=4 dirty=4 N0=4\n"
        )
        assert numa.process_pages_by_node(maps) == {0: 1 + 2 * 512 + 4, 12: 2}

    def test_none_where_the_kernel_does_not_tell(self, tmp_path: Path) -> None:
        assert numa.process_pages_by_node(tmp_path / "absent") is None


def test_importing_it_imports_nothing_large_and_binds_nothing() -> None:
    said = in_a_process("import sys; print(json.dumps({'modules': sorted(sys.modules), 'now': numa.verify().to_json()}))")
    assert {"numpy", "pyarrow", "numba", "zmq", "kazoo"}.isdisjoint(said["modules"])
    assert said["now"]["cores"] == HERE
