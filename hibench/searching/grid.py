"""The grid of searches: 1, 2, … NUMA nodes, spread and as replicas, NUMA on and off (the paper's Figure 13, on the machine at hand).

A cell uses the same number of cores on each of its nodes. `NUMA on` binds each instance manager to a core and its node and places by
distance; `NUMA off` is the paper's baseline: the same processes, free among the same cores, with no memory policy, and placed
in turn. *Spread* is one copy of the query over all nodes, *replicas* are a copy for each node.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cep.model.topology import NumaNode, Topology
from hibench.errors import OptionError


@dataclass(frozen=True)
class Cell:
    """One search of the grid.

    Args:
        nodes: the NUMA nodes that it may use.
        cores: one for each instance manager.
        replicas: copies of the query; 1 is spread.
        numa: bound and placed by distance; False: neither.
    """

    nodes: tuple[int, ...]
    cores: tuple[int, ...]
    replicas: int
    numa: bool

    @property
    def way(self) -> str:
        """How the query is put on the nodes."""
        return "one node" if len(self.nodes) == 1 else "spread" if self.replicas == 1 else "replicas"

    @property
    def name(self) -> str:
        many = f"{len(self.nodes)} nodes, {self.way}" if len(self.nodes) > 1 else self.way
        return f"{many}, NUMA {'on' if self.numa else 'off'}"

    @property
    def options(self) -> dict[str, Any]:
        """Those of its query."""
        return {} if self.replicas == 1 else {"replicas": self.replicas}


def cells(topology: Topology, per_node: int | None = None, counts: Sequence[int] | None = None, usable: int | None = None) -> list[Cell]:
    """The cells of the grid on the nodes of `topology` that have cores.

    Args:
        per_node: instance managers on each node; None: as many as the node with the fewest cores has cores, and `usable` allows.
        counts: how many nodes to use; None: 1, 2, 4, … and all.
        usable: how many cores' time this process may have on all of them; None: that of all cores.

    Raises:
        OptionError: there are not as many nodes, or cores, as asked for.
    """
    nodes = nearest_first(topology)
    fewest = min(len(node.cores) for node in nodes)
    if per_node is None:
        per_node = fewest if usable is None else max(1, min(fewest, usable // len(nodes)))
    if not 1 <= per_node <= fewest:
        raise OptionError(f"--instances: expected 1 to {fewest} for each node, which is what the smallest node has cores, got {per_node}")
    asked = doublings(len(nodes)) if counts is None else sorted(set(counts))
    if not asked or not 1 <= asked[0] <= asked[-1] <= len(nodes):
        raise OptionError(f"--nodes: expected numbers from 1 to {len(nodes)}, the nodes of this machine, got {list(counts or [])}")
    return [
        Cell(tuple(node.id for node in chosen), tuple(core for node in chosen for core in node.cores[:per_node]), replicas, numa)
        for count in asked
        for chosen in [sorted(nodes[:count], key=lambda node: node.id)]
        for replicas in ([1] if count == 1 else [1, count])
        for numa in (True, False)
    ]


def whole_machine(topology: Topology, instances: int, numa: bool) -> Cell:
    """One cell: so many instance managers on the machine's cores, in order of nodes."""
    places = [(node.id, core) for node in topology.nodes for core in node.cores]
    if not 1 <= instances <= len(places):
        raise OptionError(f"--instances: expected 1 to {len(places)}, which is how many cores there are, got {instances}")
    nodes, cores = zip(*places[:instances], strict=True)
    return Cell(tuple(sorted(set(nodes))), cores, 1, numa)


def doublings(most: int) -> list[int]:
    """1, 2, 4, … and `most`."""
    powers = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return [*powers, most]


def nearest_first(topology: Topology) -> list[NumaNode]:
    """The nodes that have cores, by their distance from the first of them."""
    nodes = [node for node in topology.nodes if node.cores]
    return sorted(nodes, key=lambda node: (topology.distance(nodes[0].id, node.id), node.id))


@contextlib.contextmanager
def confined(cores: Sequence[int]) -> Iterator[None]:
    """This thread runs on `cores` only while the block lasts, and so does for good whatever it starts in it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
