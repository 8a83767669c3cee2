"""The hosts of a cluster as the planner sees them: the topology of each, and how far one is from another.

A cluster of one machine has one host, whose name is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.model.topology import OWN_DISTANCE, Topology

HOST_DISTANCE = 100
"""Between two hosts, in the unit of `Topology.distances`: what crosses a network costs more than what crosses a machine (at most 40 there,
on the paper's), and is still worth it where one host has no room."""


@dataclass(frozen=True, slots=True)
class Machines:
    """Args:
    topologies: by the name of the host.
    between: the distance of two hosts, or of two places that are not known.
    """

    topologies: Mapping[str, Topology]
    between: int = HOST_DISTANCE

    @staticmethod
    def of(topology: Topology) -> Machines:
        """One machine."""
        return Machines({"": topology})

    def distance(self, source: tuple[str, int | None], target: tuple[str, int | None]) -> int:
        """What the receiver pays to read what the sender's node holds; both are (host, node), node None where it is not bound.

        What is not bound may be anywhere on its host: as far as any two nodes of that are. A host whose topology is not known counts as
        one node. Raises ValueError: the host has no such node.
        """
        if source[0] != target[0]:
            return self.between
        topology = self.topologies.get(source[0])
        if topology is None:
            return OWN_DISTANCE
        if source[1] is None or target[1] is None:
            return max(max(row) for row in topology.distances)
        return topology.distance(target[1], source[1])
