"""The hosts of a cluster as the planner sees them: the topology of each, and how far one is from another.

A cluster of one machine has one host, whose name is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from cep.errors import ProtocolError
from cep.model.shapes import read_shape
from cep.model.topology import OWN_DISTANCE, Topology

VERSION = "1.0"
"""Of what the hosts of a cluster say to each other. Another minor version is understood, another major one is not."""

CLOCK_OFF_MS = 1000
"""A clock that is so far off is warned of: event times of ingestion and life times of state are by it."""

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


class AgentProcess(NamedTuple):
    """The process that keeps a host's instance managers up: the next one of that name is another host's, or the same joined anew."""

    pid: int
    started: int  # µs since 1970


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of the cluster, as its agent registers it.

    Args:
        name: no two have the same.
        address: at which the others reach its processes.
        topology: the nodes and cores that its instance managers may use, and their distances.
        agent: the process that keeps them up.
        version: `VERSION` there.
        since: when it joined, in seconds since 1970 by its own clock.
        clock_ms: how far its clock is ahead of ZooKeeper's; None: it has not been measured yet.
        load: processes that wanted a core in the last minute, as its kernel counts them.
        reports: what its supervisors say of the processes that they keep up (`cep.service.reports`).
    """

    name: str
    address: str
    topology: Topology
    agent: AgentProcess
    version: str = VERSION
    since: float = 0.0
    clock_ms: int | None = None
    load: float = 0.0
    reports: Sequence[Mapping[str, Any]] = ()

    @property
    def is_clock_off(self) -> bool:
        """Is it so far off that it is to be warned of?"""
        return self.clock_ms is not None and abs(self.clock_ms) > CLOCK_OFF_MS

    def to_json(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return own | {"topology": self.topology.to_json(), "agent": list(self.agent), "reports": list(self.reports)}

    @staticmethod
    def from_json(document: Any) -> Host:
        """Raises ProtocolError: it is no registration."""
        found = read_shape(_Registration, document)
        try:
            topology = Topology.from_json(found.topology)
        except ValueError as error:
            raise ProtocolError(f"host {found.name!r}: topology{error}") from None
        plain = {each.name: getattr(found, each.name) for each in fields(found)}
        return replace(Host(found.name, found.address, topology, found.agent), **plain | {"topology": topology})


@dataclass(frozen=True, slots=True)
class _Registration:
    """What stands there, as far as shapes can say."""

    name: str
    address: str
    topology: Mapping[str, Any]
    agent: AgentProcess
    version: str = VERSION
    since: float = 0.0
    clock_ms: int | None = None
    load: float = 0.0
    reports: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def check_version(theirs: str, ours: str = VERSION) -> None:
    """Raises ProtocolError: another major version, or none."""
    if theirs.partition(".")[0] != ours.partition(".")[0]:
        raise ProtocolError(
            f"a host of version {theirs[:40]!r} cannot join a cluster of version {ours!r}: use the same release on all hosts"
        )
