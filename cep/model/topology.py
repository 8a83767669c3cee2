"""The machine as a value: which cores sit at which NUMA node, and how far the nodes are from each other.

The planner places subqueries over a `Topology`, never over the machine itself: the same plan can be made for the
machine at hand (`cep.machine.read_topology`), for one in a file, or for the paper's Bullion S16, which ships with us.
Only the standard library is imported, for instance managers read this before they bind themselves (rule 7.1).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

OWN_DISTANCE = 10
"""Distance of a node to its own memory: the unit of all others (ACPI, System Locality Information Table)."""

UNREACHABLE_DISTANCE = 255
"""The table's largest value: one byte, and no path between the two."""

BULLION_S16_FILE = Path(__file__).with_name("bullion-s16.json")


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node: the cores that reach its memory first, and that memory's size.

    Args:
        id: the kernel's number of the node; numbers may have gaps.
        cores: the kernel's numbers of its online cores, ascending; empty for a node that is memory only.
        memory_bytes: its memory; 0 where it is unknown.

    Raises:
        ValueError: a negative number, or cores that are not ascending.
    """

    id: int
    cores: tuple[int, ...]
    memory_bytes: int

    def __post_init__(self) -> None:
        if self.id < 0:
            raise ValueError(f"node {self.id}: expected an id of 0 or more")
        if self.memory_bytes < 0:
            raise ValueError(f"node {self.id}: expected memory_bytes of 0 or more, got {self.memory_bytes}")
        if any(core < 0 for core in self.cores) or list(self.cores) != sorted(set(self.cores)):
            raise ValueError(f"node {self.id}: expected ascending core numbers of 0 or more, got {list(self.cores)}")


@dataclass(frozen=True, slots=True)
class Topology:
    """The nodes of a machine, ascending by id, and the distances between them.

    `distances[i][j]` is the cost at which a core of `nodes[i]` reaches the memory of `nodes[j]`, 10 being its own: rows
    and columns go by position in `nodes`, not by id, and need not be symmetric.

    Raises:
        ValueError: no core at all, a core at two nodes, ids not ascending, distances that are not one row and column
            per node, an own distance other than 10, or a distance outside 10..255.
    """

    nodes: tuple[NumaNode, ...]
    distances: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        _check_nodes(self.nodes)
        _check_distances(self.nodes, self.distances)

    @property
    def cores(self) -> tuple[int, ...]:
        """Every core of the machine, ascending."""
        return tuple(sorted(core for node in self.nodes for core in node.cores))

    def node(self, id: int) -> NumaNode:
        """The node with this id. Raises ValueError where there is none."""
        return self.nodes[self._position(id)]

    def node_of(self, core: int) -> int:
        """The id of the node that `core` sits at. Raises ValueError where there is no such core."""
        for node in self.nodes:
            if core in node.cores:
                return node.id
        raise ValueError(f"core {core} is not in this topology; its cores are {core_list(self.cores)}")

    def distance(self, source: int, target: int) -> int:
        """The cost at which a core of node `source` reaches the memory of node `target`, both by id.

        Raises:
            ValueError: there is no such node.
        """
        return self.distances[self._position(source)][self._position(target)]

    def restricted(self, cores: Collection[int]) -> Topology:
        """The part a process that may run on `cores` only can use: a node without such a core stays out.

        Raises:
            ValueError: none of `cores` is in this topology.
        """
        kept = [i for i, node in enumerate(self.nodes) if any(core in cores for core in node.cores)]
        if not kept:
            raise ValueError(f"none of the cores {core_list(cores) or '(none)'} is in this topology; its cores are {core_list(self.cores)}")
        nodes = (self.nodes[i] for i in kept)
        return Topology(
            tuple(NumaNode(n.id, tuple(core for core in n.cores if core in cores), n.memory_bytes) for n in nodes),
            tuple(tuple(self.distances[i][j] for j in kept) for i in kept),
        )

    def describe(self) -> str:
        """One line for a person, such as `2 nodes (ids 0-1) of 8 cores, 16 cores: distance 10 at home and 20 away`."""
        sizes = sorted({len(node.cores) for node in self.nodes})
        per_node = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        memory_bytes = sum(node.memory_bytes for node in self.nodes)
        memory = f", {memory_bytes / 2**30:.1f} GiB" if memory_bytes else ""
        if len(self.nodes) == 1:
            return f"1 node (id {self.nodes[0].id}) of {per_node} cores{memory}: all memory is equally near"
        away = [d for i, row in enumerate(self.distances) for j, d in enumerate(row) if i != j]
        span = f"{min(away)}" if min(away) == max(away) else f"{min(away)} to {max(away)}"
        return (
            f"{len(self.nodes)} nodes (ids {core_list(n.id for n in self.nodes)}) of {per_node} cores, "
            f"{len(self.cores)} cores{memory}: distance {OWN_DISTANCE} at home and {span} away"
        )

    def to_json(self) -> dict[str, object]:
        """The topology as JSON values: `{"nodes": [{"id", "cores", "memory_bytes"}], "distances": [[...]]}`."""
        return {
            "nodes": [{"id": n.id, "cores": list(n.cores), "memory_bytes": n.memory_bytes} for n in self.nodes],
            "distances": [list(row) for row in self.distances],
        }

    @staticmethod
    def from_json(document: object) -> Topology:
        """The inverse of `to_json`; a node's cores may also be written as the kernel does, `"0-17"`.

        Raises:
            ValueError: naming the place in the document, what was expected and what was got.
        """
        nodes = _items(_member(document, "nodes", ""), "/nodes")
        distances = _items(_member(document, "distances", ""), "/distances")
        return Topology(
            tuple(_node_from_json(node, f"/nodes/{i}") for i, node in enumerate(nodes)),
            tuple(_integers(row, f"/distances/{i}") for i, row in enumerate(distances)),
        )

    @staticmethod
    def from_file(path: str | Path) -> Topology:
        """The topology in a JSON file. Raises OSError, or a ValueError that names the file."""
        try:
            return Topology.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @staticmethod
    def one_node(cores: Iterable[int], memory_bytes: int = 0) -> Topology:
        """A machine without NUMA: all of `cores` at node 0."""
        return Topology((NumaNode(0, tuple(sorted(cores)), memory_bytes),), ((OWN_DISTANCE,),))

    @staticmethod
    def bullion_s16() -> Topology:
        """The paper's machine (§2, Figures 1 and 2): 16 nodes of 18 cores; 15 to the paired node, 40 to all others.

        The paper gives no memory size and no numbering: here memory is unknown, node n has cores 18n to 18n + 17, and
        the pairs are 0 and 1, 2 and 3, and so on.
        """
        return Topology.from_file(BULLION_S16_FILE)

    def _position(self, id: int) -> int:
        for position, node in enumerate(self.nodes):
            if node.id == id:
                return position
        raise ValueError(f"node {id} is not in this topology; its nodes are {core_list(n.id for n in self.nodes)}")


def parse_core_list(text: str) -> tuple[int, ...]:
    """The numbers in the kernel's list notation: `"0-2,8"` → `(0, 1, 2, 8)`; empty text is no number.

    Raises:
        ValueError: the text is not such a list.
    """
    numbers: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first):
            raise ValueError(f"expected a list such as '0-3,8', got {text!r}")
        numbers.update(range(int(first), int(last) + 1))
    return tuple(sorted(numbers))


def core_list(numbers: Iterable[int]) -> str:
    """Numbers in the kernel's list notation, the inverse of `parse_core_list`: `{0, 1, 2, 8}` → `"0-2,8"`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def _check_nodes(nodes: tuple[NumaNode, ...]) -> None:
    ids = [node.id for node in nodes]
    if ids != sorted(set(ids)):
        raise ValueError(f"expected nodes with ascending ids, got {ids}")
    home: dict[int, int] = {}
    for node in nodes:
        for core in node.cores:
            if home.setdefault(core, node.id) != node.id:
                raise ValueError(f"core {core} is at node {home[core]} and at node {node.id}; expected one of them")
    if not home:
        raise ValueError(f"expected a node with at least one core, got {len(nodes)} nodes without any")


def _check_distances(nodes: tuple[NumaNode, ...], distances: tuple[tuple[int, ...], ...]) -> None:
    widths = [len(row) for row in distances]
    if widths != [len(nodes)] * len(nodes):
        raise ValueError(f"expected {len(nodes)} rows of {len(nodes)} distances, got rows of {widths}")
    for source, row in zip(nodes, distances, strict=True):
        for target, distance in zip(nodes, row, strict=True):
            _check_distance(source.id, target.id, distance)


def _check_distance(source: int, target: int, distance: int) -> None:
    if source == target and distance != OWN_DISTANCE:
        raise ValueError(f"node {source}: expected the distance {OWN_DISTANCE} to itself, got {distance}")
    if not OWN_DISTANCE <= distance <= UNREACHABLE_DISTANCE:
        raise ValueError(f"node {source} to node {target}: expected a distance of {OWN_DISTANCE} to {UNREACHABLE_DISTANCE}, got {distance}")


def _node_from_json(document: object, place: str) -> NumaNode:
    cores = _member(document, "cores", place)
    return NumaNode(
        _integer(_member(document, "id", place), f"{place}/id"),
        _parsed_cores(cores, f"{place}/cores") if isinstance(cores, str) else _integers(cores, f"{place}/cores"),
        _integer(_member(document, "memory_bytes", place), f"{place}/memory_bytes"),
    )


def _parsed_cores(text: str, place: str) -> tuple[int, ...]:
    try:
        return parse_core_list(text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _member(document: object, name: str, place: str) -> object:
    if not isinstance(document, Mapping):
        raise ValueError(f"{place or '/'}: expected an object, got {document!r}")
    if name not in document:
        raise ValueError(f"{place or '/'}: expected the member {name!r}, got {sorted(document)}")
    member: object = document[name]
    return member


def _items(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{place}: expected a list, got {value!r}")
    return value


def _integers(value: object, place: str) -> tuple[int, ...]:
    return tuple(_integer(item, f"{place}/{i}") for i, item in enumerate(_items(value, place)))


def _integer(value: object, place: str) -> int:
    # bool is an int to Python and never one to JSON
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{place}: expected an integer, got {value!r}")
    return value
