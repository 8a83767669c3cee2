"""A cluster as one machine of it sees it: one frozen value, from which each process's configuration is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.errors import ClusterError
from cep.model.topology import NumaNode, Topology, core_list
from driver.processes.run_folder import RunFolder
from driver.processes.zookeeper import patient


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster as one machine of it sees it.

    Args:
        run: the folder that the processes of this machine share.
        zookeeper: its servers, `host:port,host:port`.
        rest_host, rest_port: where an orchestrator answers.
        told: further fields of `cep.config.ClusterConfig`, as options have them (`driver.configuration.table`).
    """

    run: RunFolder
    zookeeper: str
    rest_host: str = "127.0.0.1"
    rest_port: int = 8765
    told: Mapping[str, Any] = field(default_factory=dict)

    def cluster(self) -> ClusterConfig:
        """What all processes of it agree on; without the token, which only servers and clients of REST need."""
        places = {
            "home": str(self.run.path),
            "zookeeper": patient(self.zookeeper),
            "rest_host": self.rest_host,
            "rest_port": self.rest_port,
            "metrics_in": self.run.socket("metrics-in"),
            "metrics_out": self.run.socket("metrics-out"),
            "zookeeper_secret": str(self.run.zookeeper_secret),
            "gateway": str(self.run.path / "gateway"),
            "reports": str(self.run.reports),
        }
        return ClusterConfig(**{**self.told, **places})


def managers_of(site: Site, topology: Topology, node: int | None = None, count: int | None = None) -> tuple[InstanceManagerConfig, ...]:
    """One instance manager for each core of `topology`, or of one of its nodes; `count` of them where that is given, beginning again
    when the cores are used up. They are called after their cores, so that those of several containers differ.

    Raises ClusterError: there is no core at that node for this process.
    """
    places = [(core, each.id) for each in _nodes(topology, node) for core in each.cores]
    if not places:
        have = ", ".join(f"{each.id} (cores {core_list(each.cores)})" for each in topology.nodes)
        raise ClusterError(f"--node {node}: no core of that node is for this process; it has nodes {have or 'none'}")
    cluster, total = site.cluster(), count or len(places)
    return tuple(
        InstanceManagerConfig(cluster, (name := _name(core, i // len(places))), core, at, site.run.socket(name), neighbours=total)
        for i, (core, at) in enumerate(places[i % len(places)] for i in range(total))
    )


def _nodes(topology: Topology, node: int | None) -> list[NumaNode]:
    return [each for each in topology.nodes if node in (None, each.id)]


def _name(core: int, turn: int) -> str:
    return f"im-{core}" if turn == 0 else f"im-{core}.{turn}"
