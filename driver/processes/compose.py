"""`cep compose`: a compose file with a service of instance managers for every NUMA node of this machine."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from cep.errors import ClusterError
from cep.model.topology import Topology, core_list

SERVICE = "instance-managers"
_HEAD = "# Written by `cep compose` for a machine with {nodes}; it takes the place of compose.yaml, in whose folder it belongs.\n"


def read_compose(text: str) -> dict[str, Any]:
    """A compose file, with what its anchors stand for. Raises ClusterError: it is none."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClusterError(f"it cannot be read as YAML: {error}") from None
    if not isinstance(document, dict):
        raise ClusterError(f"expected a compose file, got {type(document).__name__}")
    return document


def for_machine(document: Mapping[str, Any], topology: Topology) -> dict[str, Any]:
    """`document`, a compose file, with its one service of instance managers made one for each node that has cores: confined to these
    cores. Raises ClusterError: it has no such service."""
    pattern = document.get("services", {}).get(SERVICE)
    if pattern is None:
        raise ClusterError(f"the compose file: expected a service {SERVICE!r}, got {', '.join(document.get('services', {})) or 'none'}")
    services: dict[str, Any] = {}
    for name, service in document["services"].items():
        if name == SERVICE:
            services |= {f"{SERVICE}-{node.id}": _at_node(pattern, node.id, core_list(node.cores)) for node in topology.nodes if node.cores}
        else:
            services[name] = service
    rest = {key: value for key, value in document.items() if not key.startswith("x-")}
    return copy.deepcopy(rest | {"services": services})


def compose_text(document: Mapping[str, Any], topology: Topology) -> str:
    """As YAML, without references, so that every service stands there whole."""
    nodes = ", ".join(f"node {node.id} (cores {core_list(node.cores)})" for node in topology.nodes if node.cores)
    whole: str = yaml.dump(dict(document), Dumper=_Whole, sort_keys=False, width=140)
    return _HEAD.format(nodes=nodes) + whole


def _at_node(pattern: Mapping[str, Any], node: int, cores: str) -> dict[str, Any]:
    health = pattern["healthcheck"]
    return {
        **pattern,
        "command": [*pattern["command"], "--node", str(node)],
        "cpuset": cores,
        "healthcheck": {**health, "test": [*health["test"], f"{SERVICE}-{node}"]},
    }


class _Whole(yaml.SafeDumper):
    """Writes what occurs twice in full both times, with no alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
