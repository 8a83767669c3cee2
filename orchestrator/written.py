"""What stands in ZooKeeper for each query, and the commands that make it what it should be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from cep.config import node
from orchestrator.events import Command, Delete, Put


class Written:
    """Only differences become commands."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = defaultdict(dict)  # query -> path -> value
        self._outbox: list[Command] = []

    def put(self, path: str, value: Any) -> None:
        self._outbox.append(Put(path, value))

    def delete(self, path: str) -> None:
        self._outbox.append(Delete(path))

    def commands(self) -> list[Command]:
        """What has come together since it was asked last, in order."""
        commands, self._outbox = self._outbox, []
        return commands

    def write(self, query: str, wanted: dict[str, Any]) -> None:
        """All that should stand there for a query: path -> value."""
        written = self._nodes[query]
        for path in [path for path in reversed(written) if path not in wanted]:
            self.delete(path)
        for path, value in wanted.items():
            if path not in written or written[path] != value:
                self.put(path, value)
        self._nodes[query] = wanted

    def erase(self, query: str) -> None:
        self.write(query, {})
        del self._nodes[query]

    def restore(self, nodes: Mapping[str, Any], known: Collection[str]) -> None:
        """Files what is written under the query it belongs to; what belongs to none that is known is to go."""
        for kind in ("queries", "plans", "tables", "assignments"):
            for path, value in below(nodes, kind):
                name = value["query"] if kind == "assignments" else _query_of(value)
                if name in known:
                    self._nodes[name][path] = value
                else:
                    self.delete(path)


def _query_of(value: Mapping[str, Any]) -> str:
    """The name in a query's record or in its plan."""
    return str(value["name"] if "name" in value else value["query"]["name"])


def below(nodes: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Any]]:
    """(path, value) of the nodes of a kind."""
    prefix = node(kind) + "/"
    return ((path, value) for path, value in nodes.items() if path.startswith(prefix) and value is not None)
