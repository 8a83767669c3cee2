"""The grid of searches in a cluster that runs already: 1, 2, 4, … and all of its hosts, spread and as replicas.

What its instance managers are bound to is as it is. On how many hosts a query runs is an option of it (`hosts`), and of as many the
planner takes those with the most room: of a cluster with nothing else to do, those with the most instance managers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hibench.engines.clusters import GivenCluster
from hibench.errors import OptionError
from hibench.searching.grid import doublings


@dataclass(frozen=True)
class HostCell:
    """One search of the grid.

    Args:
        hosts: those that the planner takes; '' is a cluster of one machine.
        instance_managers: how many are on them.
        replicas: copies of the query, one for each NUMA node of these hosts; 1 is spread.
        numa: bound, as they all are, or not.
    """

    hosts: tuple[str, ...]
    instance_managers: int
    replicas: int
    numa: bool

    @property
    def cores(self) -> int:
        return self.instance_managers

    @property
    def way(self) -> str:
        """How the query is put on the hosts."""
        return "one host" if len(self.hosts) == 1 and self.replicas == 1 else "spread" if self.replicas == 1 else "replicas"

    @property
    def name(self) -> str:
        many = "one host" if len(self.hosts) == 1 else f"{len(self.hosts)} hosts"
        return many if self.way == "one host" else f"{many}, {self.way}"

    @property
    def options(self) -> dict[str, Any]:
        """Those of its query."""
        return {"hosts": len(self.hosts)} | ({} if self.replicas == 1 else {"replicas": self.replicas})


def host_cells(managers: Sequence[tuple[str, int | None]], numa: bool, counts: Sequence[int] | None = None) -> list[HostCell]:
    """The cells of the grid.

    Args:
        managers: of each instance manager, its host and the NUMA node that it is bound to; None: it is not.
        counts: how many hosts to use; None: 1, 2, 4, … and all.

    Raises:
        OptionError: there are not as many hosts as asked for.
    """
    nodes: dict[str, list[int | None]] = {}
    for host, node in managers:
        nodes.setdefault(host, []).append(node)
    roomiest = sorted(nodes, key=lambda host: (-len(nodes[host]), host))
    asked = doublings(len(roomiest)) if counts is None else sorted(set(counts))
    if not asked or not 1 <= asked[0] <= asked[-1] <= len(roomiest):
        raise OptionError(
            f"--hosts: expected numbers from 1 to {len(roomiest)}, "
            f"the hosts of this cluster with instance managers, got {list(counts or [])}"
        )
    return [cell for count in asked for cell in _of_hosts(roomiest[:count], nodes, numa)]


def _of_hosts(hosts: Sequence[str], nodes: Mapping[str, Sequence[int | None]], numa: bool) -> list[HostCell]:
    copies = len({(host, node) for host in hosts for node in nodes[host]})
    instance_managers = sum(len(nodes[host]) for host in hosts)
    return [HostCell(tuple(hosts), instance_managers, replicas, numa) for replicas in sorted({1, copies})]


def cells_of(cluster: GivenCluster, grid: bool, counts: Sequence[int] | None = None) -> list[HostCell]:
    """Those of the cluster's hosts that are not leaving; without `grid` the one on all of them, spread.

    Raises ClusterError: it is not to be had. OptionError: it has not as many hosts, or no instance manager.
    """
    node_of = {each["id"]: each["node"] for each in cluster.instance_managers()}
    there = [(host["name"], node_of.get(im)) for host in cluster.hosts() if not host["leaving"] for im in host["instance_managers"]]
    if not there:
        raise OptionError("--cluster: expected a cluster with instance managers, got one without")
    cells = host_cells(there, cluster.numa, counts)
    return cells if grid else [cell for cell in cells if cell.replicas == 1][-1:]
