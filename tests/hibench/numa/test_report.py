"""The file for machines with many nodes: whole, and without names of people."""

import getpass
import json
import socket
from pathlib import Path

import pytest

from cep import numa
from cep.kernels.jit import interpreted
from cep.model.topology import Topology
from hibench.numa.memory_walk import walk, walk_of
from hibench.numa.node_local import here
from hibench.numa.report import anonymous, kernel_facts, numa_report, write


@pytest.fixture(scope="module")
def report():
    said = []
    made = numa_report({"searches": []}, here(), said.append, buffer_bytes=1 << 20)
    assert said[0] == "facts of the machine and its kernel"
    return made


def test_it_is_whole(report, tmp_path):
    write(report, tmp_path / "report.json")
    read = json.loads((tmp_path / "report.json").read_text())
    assert set(read) == {"version", "made", "machine", "topology", "kernel", "memory", "searches"}
    assert Topology.from_json(read["topology"]["usable"]) == here()
    assert {"numpy", "pyarrow", "numba"} <= set(read["machine"]["libraries"])
    assert read["kernel"]["settings"]["online_cores"]
    assert all("MemTotal" in facts["meminfo"] for facts in read["kernel"]["nodes"].values())


def test_memory_is_measured_for_each_pair_and_lies_where_it_should(report):
    nodes = sorted(numa.usable_nodes())
    if not nodes:
        pytest.skip("this kernel or container permits no memory policy (cap_add: [SYS_NICE])")
    assert [(pair["core_node"], pair["memory_node"]) for pair in report["memory"]] == [(a.id, b) for a in here().nodes for b in nodes]
    for pair in report["memory"]:
        assert pair["gigabytes_per_second"] > 0
        assert pair["nanoseconds_per_step"] > 0
        assert pair["pages_by_node"].keys() == {str(pair["memory_node"])}
        assert sum(pair["pages_by_node"].values()) * 4096 >= 1 << 20
        assert pair["binding"]["bound"]


def test_it_names_nobody(report):
    text = json.dumps(report)
    for name in (socket.gethostname(), str(Path.home()), str(Path.cwd())):
        assert f'"{name}"' not in text
        assert f"/{name}/" not in text
    assert str(Path.home()) + "/" not in text


def test_names_that_slipped_in_are_taken_out():
    host, user, home = socket.gethostname(), getpass.getuser(), Path.home()
    document = {"note": f"{host}: file {home}/data of {user}.", "list": [host, {"user": user}], "number": 3}
    said = json.dumps(anonymous(document), ensure_ascii=False)
    assert said == '{"note": "…: file …/data of ….", "list": ["…", {"user": "…"}], "number": 3}'
    assert anonymous({"word": f"a{user}b"}) == {"word": f"a{user}b"}, "a part of a word is no name"


def test_a_kernel_that_does_not_tell():
    facts = kernel_facts(Topology.bullion_s16())
    assert facts["nodes"]["15"] == {"cpulist": "", "distance": "", "meminfo": "", "numastat": ""} or len(here().nodes) > 15


def test_a_walk_visits_every_line_once():
    chain, place, seen = walk_of(50), 0, []
    with interpreted():
        for _ in range(50):
            seen.append(place)
            place = walk(chain, place, 1)
        assert walk(chain, 0, 50) == place == 0
    assert sorted(seen) == list(range(0, 400, 8))
