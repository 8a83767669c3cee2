"""What stands in ZooKeeper for each query, and the commands that make it what it should be."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from cep.config import ROOT, node, query_of_node
from cep.errors import TooLarge
from orchestrator.state.events import ClusterCommand, Delete, Put

NODE_BYTES_MAX = 900_000
"""ZooKeeper's packets end at 1 MiB (jute.maxbuffer), and a larger one shows only as a lost connection."""

_ASSIGNMENTS = node("assignments") + "/"
_OF_QUERIES = tuple(node(kind) + "/" for kind in ("queries", "plans", "tables", "checkpoints", "assignments"))


def as_json(value: Any) -> bytes:
    """As it is written."""
    return json.dumps(value, separators=(",", ":")).encode()


def encode(path: str, value: Any, growth: int = 0) -> bytes:
    """JSON. Raises TooLarge: with `growth`, the bytes by which it may become longer of itself, it is more than a node can hold."""
    data = as_json(value)
    if len(data) > NODE_BYTES_MAX - growth:
        parts = "cut the query into several, or give it a lower parallelism" if path.startswith(_OF_QUERIES) else "make it shorter"
        raise TooLarge(f"{path[:200]} would take {len(data):,} bytes, and a ZooKeeper node holds {NODE_BYTES_MAX - growth:,}: {parts}")
    return data


class DesiredNodes:
    """Only differences become commands."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = defaultdict(dict)  # query -> path -> value
        self._outbox: list[ClusterCommand] = []

    def put(self, path: str, value: Any) -> None:
        """Raises TooLarge, and puts nothing: who asks for it changes nothing before."""
        encode(path, value)
        self._outbox.append(Put(path, value))

    def delete(self, path: str) -> None:
        self._outbox.append(Delete(path))

    def do(self, command: ClusterCommand) -> None:
        """Before what is put from now on."""
        self._outbox.append(command)

    def commands(self) -> list[ClusterCommand]:
        """What has come together since it was asked last, in order."""
        commands, self._outbox = self._outbox, []
        return commands

    def write(self, query: str, wanted: dict[str, Any], relieves: bool = False) -> None:
        """All that should stand there for a query: path -> value. `relieves`: instances that are not to be there any more work on, until
        it is written without."""
        written = self._nodes[query]
        if relieves:
            wanted = {path: value for path, value in written.items() if path.startswith(_ASSIGNMENTS)} | wanted
        for path in [path for path in reversed(written) if path not in wanted]:
            self.delete(path)
        for path, value in wanted.items():
            if path not in written or written[path] != value:
                self._outbox.append(Put(path, value))
        self._nodes[query] = wanted

    def erase(self, query: str) -> None:
        self.write(query, {})
        del self._nodes[query]

    def paths(self, query: str) -> list[str]:
        """Where something stands for it."""
        return list(self._nodes.get(query, ()))

    def restore(self, nodes: Mapping[str, Any], known: Collection[str]) -> None:
        """Files what is written under the query it belongs to, by its path; what belongs to none that is known is to go."""
        for kind in ("queries", "plans", "tables", "checkpoints", "assignments"):
            for path, value in below(nodes, kind):
                name = names_of(path)[-1]
                query = query_of_node(name) if kind == "assignments" else name
                if query in known:
                    self._nodes[query][path] = value
                else:
                    self.delete(path)


DEPTHS = {
    "streams": 1,
    "queries": 1,
    "plans": 1,
    "tables": 1,
    "checkpoints": 1,
    "assignments": 2,
    "publishers": 2,
    "subscriptions": 2,
    "blames": 1,
    "evacuations": 1,
    "keys": 1,
    "applications": 1,
    "connectors": 1,
}
"""Kind of nodes -> how many names are in the paths of those that hold something."""


def strays(nodes: Mapping[str, Any]) -> Iterator[str]:
    """The paths of nodes that hold something and are not as deep as those of their kind."""
    for path, value in nodes.items():
        kind, *names = path.removeprefix(f"{ROOT}/").split("/")
        if value is not None and len(names) != DEPTHS.get(kind) and path not in (node("queries"), node("connectors")):
            yield path


def empty_folders(nodes: Mapping[str, Any]) -> Iterator[str]:
    """The folders of streams without a publisher, or a subscription."""
    parents = {path.rpartition("/")[0] for path in nodes}
    folders = (node("publishers"), node("subscriptions"))
    return (path for path, value in nodes.items() if path.rpartition("/")[0] in folders and value is None and path not in parents)


def names_of(path: str) -> list[str]:
    """Those that `node` made a path of, behind its kind."""
    return [unquote(part) for part in path.removeprefix(f"{ROOT}/").split("/")[1:]]


def below(nodes: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Any]]:
    """(path, value) of the nodes of a kind."""
    prefix, depth = node(kind) + "/", node(kind).count("/") + DEPTHS[kind]
    return ((path, value) for path, value in nodes.items() if path.startswith(prefix) and value is not None and path.count("/") == depth)
