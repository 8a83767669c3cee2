"""What the machine has and what of it may be used, on made-up trees such as the kernel shows, and on the machine at hand."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cep.machine import available_cores, core_quota, read_topology
from cep.model.topology import NumaNode, Topology

HERE = sorted(os.sched_getaffinity(0))
CORE = HERE[0]
NO_CORE = 100_000


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


class TestReadTopology:
    def test_one_node(self, tmp_path: Path) -> None:
        root = tree(tmp_path, {0: "0-1"}, [[10]], online="0")
        assert read_topology(root) == Topology((NumaNode(0, (0, 1), 1 << 30),), ((10,),))

    def test_four_nodes(self, tmp_path: Path) -> None:
        rows = [[10, 15, 40, 40], [15, 10, 40, 40], [40, 40, 10, 15], [40, 40, 15, 10]]
        topology = read_topology(tree(tmp_path, {0: "0-1,8-9", 1: "2-3", 2: "4-5", 3: "6-7"}, rows, online="0-3"))
        assert topology.nodes[0].cores == (0, 1, 8, 9)
        assert topology.distances == tuple(map(tuple, rows))

    def test_sixteen_nodes_come_in_the_order_of_their_numbers_and_not_of_their_names(self, tmp_path: Path) -> None:
        bullion = Topology.bullion_s16()
        cores = {node.id: f"{node.cores[0]}-{node.cores[-1]}" for node in bullion.nodes}
        topology = read_topology(tree(tmp_path, cores, bullion.distances, online="0-15"))
        assert [node.id for node in topology.nodes] == list(range(16))
        assert topology.distances == bullion.distances
        assert topology.cores == bullion.cores

    def test_a_node_that_is_memory_only(self, tmp_path: Path) -> None:
        topology = read_topology(tree(tmp_path, {0: "0-3", 1: ""}, [[10, 20], [20, 10]], online="0-1"))
        assert topology.nodes[1] == NumaNode(1, (), 1 << 30)

    def test_gaps_in_the_numbers(self, tmp_path: Path) -> None:
        topology = read_topology(tree(tmp_path, {0: "0", 2: "1", 8: "2"}, [[10, 20, 30], [20, 10, 31], [30, 31, 10]]))
        assert [node.id for node in topology.nodes] == [0, 2, 8]
        assert topology.distance(2, 8) == 31

    def test_an_offline_node_stays_out(self, tmp_path: Path) -> None:
        rows = [[10, 20], [], [20, 10]]  # the kernel writes a column per online node
        topology = read_topology(tree(tmp_path, {0: "0", 1: "", 2: "2"}, rows, online="0,2"))
        assert [node.id for node in topology.nodes] == [0, 2]

    def test_without_a_table_of_distances_the_kernels_defaults(self, tmp_path: Path) -> None:
        assert read_topology(tree(tmp_path, {0: "0", 1: "1"}, [[], []])).distances == ((10, 20), (20, 10))

    def test_without_a_tree_one_node_with_all_online_cores(self, tmp_path: Path) -> None:
        (tmp_path / "cpu").mkdir()
        (tmp_path / "cpu" / "online").write_text("0-2,5\n")
        topology = read_topology(tmp_path / "node")
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
            read_topology(root)

    def test_this_machine(self) -> None:
        assert set(HERE) <= set(read_topology().cores)


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
            (  # its own group grants more than the one above
                {"membership": "0::/a", "cgroup.controllers": "", "cpu.max": "150000 100000", "a/cpu.max": "400000 100000"},
                1.5,
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
        assert core_quota(tmp_path, membership) == quota

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
        assert sorted(available_cores(tmp_path, membership)) == cores

    def test_this_machine(self) -> None:
        assert available_cores()
        quota = core_quota()
        assert quota is None or quota > 0
