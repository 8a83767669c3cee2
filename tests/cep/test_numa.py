"""Binding on the machine at hand, whatever it has and permits.

Whatever binds runs in a process of its own: affinity and memory policy must not leak into other tests.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cep import numa
from cep.machine import read_topology

HERE = sorted(os.sched_getaffinity(0))
CORE = HERE[0]
NODE = read_topology().node_of(CORE)
NO_CORE = 100_000
NO_NODE = 1_000
PERMITTED = bool(numa.usable_nodes())
permitted = pytest.mark.skipif(not PERMITTED, reason="this kernel or container permits no memory policy (cap_add: [SYS_NICE])")


def in_a_process(program: str, prefix: Sequence[str] = ()) -> Any:
    """What `program`, which finds `numa`, `json` and `os` imported, prints as JSON. Without a prefix it begins with no memory policy: this
    process may have one from another test, and a child has its parent's."""
    begins = "" if prefix or not PERMITTED else "numa._system_call('set_mempolicy', numa._POLICY_DEFAULT, None, 0)\n"
    text = f"import json, os\nfrom cep import numa\n{begins}" + textwrap.dedent(program)
    ran = subprocess.run([*prefix, sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


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

    def test_children_inherit_it(self) -> None:
        inherited = in_a_process(f"""
            import subprocess, sys
            numa.bind({CORE}, {NODE if PERMITTED else None})
            child = "import json; from cep import numa; print(json.dumps(numa.verify().to_json()))"
            print(subprocess.run([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True).stdout)
        """)
        assert inherited["cores"] == [CORE]
        if PERMITTED:
            assert inherited["policy"] == "bind"

    def test_an_unbound_process_says_what_it_lacks(self) -> None:
        said = in_a_process(f"print(json.dumps(numa.verify({NO_CORE}, {NO_NODE}).to_json()))")
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


@pytest.mark.parametrize(
    ("cores", "asked", "bound"),
    [((3,), 3, True), ((3,), None, True), ((3,), 5, False), ((3, 5), 5, False), ((3, 5), None, False), ((0,), 1, False)],
)
def test_bound_to_a_core_is_bound_to_the_one_that_was_asked_for(cores: tuple[int, ...], asked: int | None, bound: bool) -> None:
    assert (numa._core_shortfall(cores, asked) == "") == bound


@pytest.mark.parametrize("nodes", [(), (0,), (63,), (64,), (0, 1, 63, 64, 127, 1023)])
def test_each_node_has_a_bit_of_its_own(nodes: tuple[int, ...]) -> None:
    mask = numa.node_mask(nodes)
    assert numa.nodes_of(mask) == nodes
    assert sum(1 << node for node in nodes) == int.from_bytes(bytes(mask), "little")


def test_importing_it_imports_nothing_large_and_binds_nothing() -> None:
    said = in_a_process("import sys; print(json.dumps({'modules': sorted(sys.modules), 'now': numa.verify().to_json()}))")
    assert {"numpy", "pyarrow", "numba", "zmq", "kazoo"}.isdisjoint(said["modules"])
    assert said["now"]["cores"] == HERE
