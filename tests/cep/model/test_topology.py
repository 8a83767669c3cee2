"""The machine as a value: what it refuses, what can be asked of it, and the paper's machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cep.model.topology import NumaNode, Topology, core_list, parse_core_list

# Two nodes of two cores with a hole in the numbering, and one that is memory only; not symmetric, as on some boards.
NODES = (NumaNode(0, (0, 1), 1 << 30), NumaNode(2, (4, 5), 1 << 30), NumaNode(3, (), 4 << 30))
DISTANCES = ((10, 15, 40), (16, 10, 40), (40, 40, 10))
MACHINE = Topology(NODES, DISTANCES)


def test_answers_by_id_and_by_core() -> None:
    assert MACHINE.cores == (0, 1, 4, 5)
    assert MACHINE.node_of(5) == 2
    assert MACHINE.node(3) == NODES[2]
    assert MACHINE.distance(0, 2) == 15
    assert MACHINE.distance(2, 0) == 16
    assert MACHINE.distance(3, 3) == 10


def test_says_which_core_and_node_there_are() -> None:
    with pytest.raises(ValueError, match=r"core 2 is not in this topology; its cores are 0-1,4-5"):
        MACHINE.node_of(2)
    with pytest.raises(ValueError, match=r"node 1 is not in this topology; its nodes are 0,2-3"):
        MACHINE.distance(0, 1)


@pytest.mark.parametrize(
    ("nodes", "distances", "complaint"),
    [
        ((), (), "at least one core"),
        ((NumaNode(0, (), 1),), ((10,),), "at least one core"),
        ((NumaNode(1, (0,), 0), NumaNode(0, (1,), 0)), ((10, 20), (20, 10)), r"ascending ids, got \[1, 0\]"),
        ((NumaNode(0, (0,), 0), NumaNode(0, (1,), 0)), ((10, 20), (20, 10)), r"ascending ids, got \[0, 0\]"),
        ((NumaNode(0, (0,), 0), NumaNode(1, (0,), 0)), ((10, 20), (20, 10)), "core 0 is at node 0 and at node 1"),
        ((NumaNode(0, (0,), 0), NumaNode(1, (1,), 0)), ((10, 20),), r"2 rows of 2 distances, got rows of \[2\]"),
        ((NumaNode(0, (0,), 0), NumaNode(1, (1,), 0)), ((10, 20), (20,)), r"2 rows of 2 distances, got rows of \[2, 1\]"),
        (
            (NumaNode(0, (0,), 0), NumaNode(4, (1,), 0)),
            ((10, 20), (20, 11)),
            "node 4: expected the distance 10 to itself, got 11",
        ),
        ((NumaNode(0, (0,), 0), NumaNode(4, (1,), 0)), ((10, 9), (20, 10)), "node 0 to node 4: .* 10 to 255, got 9"),
        ((NumaNode(0, (0,), 0), NumaNode(4, (1,), 0)), ((10, 20), (256, 10)), "node 4 to node 0: .* 10 to 255, got 256"),
    ],
)
def test_refuses_what_is_no_machine(nodes: tuple[NumaNode, ...], distances: tuple[tuple[int, ...], ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Topology(nodes, distances)


@pytest.mark.parametrize(
    ("id", "cores", "memory_bytes", "complaint"),
    [
        (-1, (0,), 0, "node -1: expected an id of 0 or more"),
        (0, (-1, 0), 0, "node 0: expected ascending core numbers"),
        (0, (1, 0), 0, r"node 0: expected ascending core numbers of 0 or more, got \[1, 0\]"),
        (0, (1, 1), 0, "node 0: expected ascending core numbers"),
        (7, (0,), -1, "node 7: expected memory_bytes of 0 or more, got -1"),
    ],
)
def test_refuses_what_is_no_node(id: int, cores: tuple[int, ...], memory_bytes: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        NumaNode(id, cores, memory_bytes)


def test_restricted_keeps_ids_and_distances_of_the_nodes_that_have_a_core() -> None:
    assert MACHINE.restricted({1, 4, 5, 99}) == Topology((NumaNode(0, (1,), 1 << 30), NODES[1]), ((10, 15), (16, 10)))
    assert MACHINE.restricted({5}) == Topology((NumaNode(2, (5,), 1 << 30),), ((10,),))
    assert MACHINE.restricted(frozenset(MACHINE.cores)).cores == MACHINE.cores


def test_restricted_to_no_core_says_which_there_are() -> None:
    with pytest.raises(ValueError, match=r"none of the cores 7-8 is in this topology; its cores are 0-1,4-5"):
        MACHINE.restricted({7, 8})
    with pytest.raises(ValueError, match=r"none of the cores \(none\)"):
        MACHINE.restricted(set())


def test_one_node() -> None:
    assert Topology.one_node({3, 1}) == Topology((NumaNode(0, (1, 3), 0),), ((10,),))


@pytest.mark.parametrize("topology", [MACHINE, Topology.one_node([0, 1], 1 << 30), Topology.bullion_s16()])
def test_json_there_and_back_is_the_identity(topology: Topology) -> None:
    assert Topology.from_json(json.loads(json.dumps(topology.to_json()))) == topology


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], r"/: expected an object, got \[\]"),
        ({"nodes": []}, r"/: expected the member 'distances', got \['nodes'\]"),
        ({"nodes": 3, "distances": []}, "/nodes: expected a list, got 3"),
        ({"nodes": [3], "distances": []}, "/nodes/0: expected an object, got 3"),
        ({"nodes": [{"id": 0, "cores": [0]}], "distances": []}, "/nodes/0: expected the member 'memory_bytes'"),
        ({"nodes": [{"id": "0", "cores": [0], "memory_bytes": 0}], "distances": []}, "/nodes/0/id: .* got '0'"),
        ({"nodes": [{"id": 0, "cores": [True], "memory_bytes": 0}], "distances": []}, "/nodes/0/cores/0: .* got True"),
        ({"nodes": [{"id": 0, "cores": "3-1", "memory_bytes": 0}], "distances": []}, "/nodes/0/cores: .* got '3-1'"),
        ({"nodes": [{"id": 0, "cores": "0", "memory_bytes": 0}], "distances": [[1.5]]}, "/distances/0/0: .* got 1.5"),
    ],
)
def test_a_document_that_is_no_topology_names_the_place(document: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Topology.from_json(document)


def test_a_file_that_is_no_topology_is_named(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    for text in ("{", '{"nodes": []}'):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"machine\.json: "):
            Topology.from_file(file)
    with pytest.raises(FileNotFoundError, match=r"absent\.json"):
        Topology.from_file(tmp_path / "absent.json")


def test_bullion_s16_is_the_machine_of_the_paper() -> None:
    machine = Topology.bullion_s16()
    assert [node.id for node in machine.nodes] == list(range(16))
    assert {len(node.cores) for node in machine.nodes} == {18}
    assert machine.cores == tuple(range(288))
    for source in range(16):
        away = [machine.distance(source, target) for target in range(16)]
        assert away[source] == 10
        assert away[source ^ 1] == 15  # the paired node
        assert away.count(40) == 14  # "any of the 14 remaining nodes"


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (Topology.one_node([0, 1], 3 << 29), "1 node (id 0) of 2 cores, 1.5 GiB: all memory is equally near"),
        (MACHINE, "3 nodes (ids 0,2-3) of 0 to 2 cores, 4 cores, 6.0 GiB: distance 10 at home and 15 to 40 away"),
        (Topology.bullion_s16(), "16 nodes (ids 0-15) of 18 cores, 288 cores: distance 10 at home and 15 to 40 away"),
        (
            Topology.bullion_s16().restricted({0, 18}),
            "2 nodes (ids 0-1) of 1 cores, 2 cores: distance 10 at home and 15 away",
        ),
    ],
)
def test_describe(topology: Topology, text: str) -> None:
    assert topology.describe() == text


@pytest.mark.parametrize(("text", "numbers"), [("", ()), ("\n", ()), ("0\n", (0,)), ("0-2,8", (0, 1, 2, 8)), ("3,0-1", (0, 1, 3))])
def test_the_list_notation_of_the_kernel(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_core_list(text) == numbers
    assert parse_core_list(core_list(numbers)) == numbers


@pytest.mark.parametrize("text", ["a", "1-", "-1", "2-1", "0,,1", "0-1-2", "0x1"])
def test_what_is_no_list_of_the_kernel(text: str) -> None:
    with pytest.raises(ValueError, match="expected a list such as '0-3,8', got"):
        parse_core_list(text)


def test_importing_it_imports_nothing_from_outside_the_standard_library() -> None:
    program = "import sys, cep.model.topology; print(*{name.partition('.')[0] for name in sys.modules})"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "pyarrow", "numba", "zmq"}.isdisjoint(modules)
