"""What a host is told that wants to join the cluster, and why it may not: pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cep.config import ClusterConfig
from cep.errors import ClusterError, Conflict, ProtocolError, QueryError
from cep.model.hosts import VERSION, Host, check_version
from cep.service.keys import pair_to_json
from cep.transport.curve import KeyPair
from cep.transport.endpoints import HOST_NAME

SAME = (
    *("zookeeper", "metrics_in", "modules", "session_timeout_s", "grace_s", "budget_bytes", "state_limit_bytes"),
    *("checkpoint_folder", "recover"),
    *("numa", "fast_path", "stock_numba", "loaders"),
)
FILES = ("zookeeper_secret", "ca", "zookeeper_cert", "zookeeper_key", "members")
"""Fields that name files which every member has a copy of."""


def membership(config: ClusterConfig, hosts: Mapping[str, Host], name: str, version: str, members: KeyPair | None = None) -> dict[str, Any]:
    """What it has to know. `members`: the members' key pair as it is now; None: links have no keys.

    Raises:
        QueryError: that is no name for a host.
        Conflict: another host has that name, it is of another major version, or this cluster is of one machine.
        ClusterError: a file that it needs cannot be read.
    """
    if not HOST_NAME.fullmatch(name):
        raise QueryError(f"a host is called by letters, digits, dots and dashes, at most 63, got {name[:100]!r}", "/name")
    try:
        check_version(version)
    except ProtocolError as error:
        raise Conflict(str(error)) from None
    if not config.host or config.address is None:
        raise Conflict("this cluster is of one machine: start it with `cep up --listen ADDRESS`, an address that other hosts reach")
    taken = hosts.get(name)
    if taken is not None or name == config.host:
        where = config.address if taken is None else f"{taken.address}, process {taken.agent.pid}"
        raise Conflict(f"there is a host {name!r} already, at {where}: give this one another name, --name NAME")
    return {"version": VERSION, "host": config.host, "cluster": _cluster(config), "files": _files(config) | _pair(members)}


def _cluster(config: ClusterConfig) -> dict[str, Any]:
    """What is the same on all hosts."""
    document = config.to_json()
    return {key: document[key] for key in SAME} | {"rest_url": config.rest}


def _files(config: ClusterConfig) -> dict[str, str]:
    """Field of `ClusterConfig` -> what is in the file that it names. Raises ClusterError: one cannot be read."""
    named = {key: getattr(config, key, None) for key in FILES}
    return {key: _text(path) for key, path in named.items() if path is not None}


def _pair(members: KeyPair | None) -> dict[str, str]:
    """As it is now: the file has the first one."""
    return {} if members is None else {"members": json.dumps(pair_to_json(members))}


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ClusterError(f"{path}, which a host that joins needs, cannot be read: {error.strerror}") from None
