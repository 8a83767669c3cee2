"""A cluster as one machine of it sees it: one frozen value, from which each process's configuration is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.errors import ClusterError
from cep.model.topology import NumaNode, Topology, core_list
from driver.processes.reach import ALONE, Reach, fixed_endpoint
from driver.processes.run_folder import RunFolder
from driver.processes.zookeeper import patient


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster as one machine of it sees it.

    Args:
        run: the folder that the processes of this machine share.
        zookeeper: its servers, `host:port,host:port`.
        rest_host, rest_port: where an orchestrator answers.
        metrics_port: of the metric server, where other hosts reach this one.
        told: further fields of `cep.config.ClusterConfig`, as options have them (`driver.configuration.table`).
    """

    run: RunFolder
    zookeeper: str
    rest_host: str = "127.0.0.1"
    rest_port: int = 8765
    metrics_port: int = 8764
    told: Mapping[str, Any] = field(default_factory=dict)

    def cluster(self) -> ClusterConfig:
        """What all processes of it agree on; without the token, which only servers and clients of REST need.

        Raises ClusterError: the run folder's path is too long for sockets.
        """
        metrics_in = self.run.socket_path("metrics-in")
        places = {
            "home": str(self.run.path),
            "zookeeper": patient(self.zookeeper),
            "rest_host": self.rest_host,
            "rest_port": self.rest_port,
            "metrics_in": fixed_endpoint(metrics_in, self.told.get("host", ""), self.told.get("address"), self.metrics_port),
            "metrics_out": self.run.socket("metrics-out"),
            "zookeeper_secret": str(self.run.zookeeper_secret),
            "gateway": str(self.run.socket_path("gateway")),
            "reports": str(self.run.reports),
        }
        return ClusterConfig(**{**self.told, **places})


def managers_of(
    site: Site, topology: Topology, node: int | None = None, count: int | None = None, reach: Reach = ALONE
) -> tuple[InstanceManagerConfig, ...]:
    """One instance manager for each core of `topology`, or of one of its nodes; `count` of them where that is given, beginning again
    when the cores are used up. They are called after host and core, so that those of several containers differ. `reach`: gives them their
    ports; keep it for as long as they are there.

    Raises ClusterError: there is no core at that node for this process, no port at the host's address, or no room for a socket's path.
    """
    places = [(core, each.id) for each in _nodes(topology, node) for core in each.cores]
    if not places:
        have = ", ".join(f"{each.id} (cores {core_list(each.cores)})" for each in topology.nodes)
        raise ClusterError(f"--node {node}: no core of that node is for this process; it has nodes {have or 'none'}")
    cluster, total = site.cluster(), count or len(places)
    named = ((_name(cluster.host, core, i // len(places)), core, at) for i, (core, at) in _turns(places, total))
    return tuple(
        InstanceManagerConfig(cluster, name, core, at, reach.endpoint(site.run.socket_path(name)), neighbours=total)
        for name, core, at in named
    )


def keeps_host(topology: Topology, node: int | None) -> bool:
    """Of a host's agents, one for each node, one alone says in ZooKeeper that the host is there: that of the first node with cores."""
    return node in (None, min(each.id for each in topology.nodes if each.cores))


def _nodes(topology: Topology, node: int | None) -> list[NumaNode]:
    return [each for each in topology.nodes if node in (None, each.id)]


def _turns(places: Sequence[tuple[int, int]], total: int) -> Iterator[tuple[int, tuple[int, int]]]:
    return ((i, places[i % len(places)]) for i in range(total))


def _name(host: str, core: int, turn: int) -> str:
    return (f"{host}." if host else "") + f"im-{core}" + ("" if turn == 0 else f".{turn}")
