"""What should be true, from ZooKeeper: assignments, and the plans, tables and publishers that they speak of. Read all at once: each is a
round trip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar
from urllib.parse import unquote

from cep.config import node
from cep.errors import CepError, ProtocolError
from cep.plan.physical import PhysicalPlan
from cep.world.coordination import Coordination, NodeRefused, NodeWatch, NoNode
from instance_manager.control.assignment_checks import Checkpointing, assigned_plan, checkpointing_of, decoded, tables_of
from instance_manager.control.obligations import TablesByHead

T = TypeVar("T")


class AskedNodes:
    """`on_listing`, `on_assignment` and `on_checkpoint` are watches."""

    def __init__(
        self, coordination: Coordination, im: str, on_listing: NodeWatch, on_assignment: NodeWatch, on_checkpoint: NodeWatch
    ) -> None:
        self._coordination, self._im = coordination, im
        self._on_listing, self._on_assignment, self._on_checkpoint = on_listing, on_assignment, on_checkpoint

    def keys(self) -> set[str]:
        """Of the assignments that there are. Raises NoNode or NodeRefused: nothing is watched."""
        [names] = self._coordination.children([node("assignments", self._im)], self._on_listing)
        if isinstance(names, NodeRefused):
            raise names
        if names is None:
            raise NoNode(node("assignments", self._im))
        return set(map(unquote, names))

    def assignments(self, keys: Iterable[str]) -> dict[str, Any]:
        """What is written there, of those that are there: JSON, None for what is none, ProtocolError where it cannot be read."""
        return self._documents("assignments", self._im, sorted(keys), self._on_assignment)

    def plans(self, queries: Iterable[str]) -> dict[str, PhysicalPlan | ProtocolError]:
        """Of those queries that have one."""
        return {
            query: each if isinstance(each, ProtocolError) else assigned_plan(each) for query, each in self._of("plans", queries).items()
        }

    def tables(self, queries: Iterable[str]) -> dict[str, TablesByHead | CepError]:
        """The tables of buckets of those queries that have some."""
        return {query: _tables(document) for query, document in self._of("tables", queries).items()}

    def checkpoints(self, queries: Iterable[str]) -> dict[str, Checkpointing | ProtocolError]:
        """What is asked of those queries, and what is committed; under a watch."""
        found = self._read({query: node("checkpoints", query) for query in sorted(queries)}, self._on_checkpoint)
        return {query: _checkpointing(document) for query, document in found.items()}

    def publishers(self, streams: Iterable[str]) -> dict[str, list[str]]:
        """The names of the publishers that are open, by stream."""
        asked = sorted(streams)
        found = self._coordination.children([node("publishers", stream) for stream in asked])
        return {stream: [unquote(name) for name in names] for stream, names in zip(asked, found, strict=True) if isinstance(names, list)}

    def _of(self, kind: str, queries: Iterable[str]) -> dict[str, Any]:
        return self._read({query: node(kind, query) for query in sorted(set(queries))})

    def _documents(self, kind: str, folder: str, names: Iterable[str], watch: NodeWatch) -> dict[str, Any]:
        return self._read({name: node(kind, folder, name) for name in names}, watch)

    def _read(self, paths: dict[str, str], watch: NodeWatch | None = None) -> dict[str, Any]:
        found = self._coordination.get(paths.values(), watch)
        return {name: _document(each) for name, each in zip(paths, found, strict=True) if each is not None}


def _document(found: Any) -> Any:
    """What is wrong with this node alone, such as a foreign access list, harms no other."""
    return ProtocolError(f"the node cannot be read: {found}") if isinstance(found, NodeRefused) else decoded(found.data)


def _checkpointing(document: Any) -> Checkpointing | ProtocolError:
    try:
        if isinstance(document, ProtocolError):
            raise document
        return checkpointing_of(document)
    except ProtocolError as error:
        return error


def _tables(document: Any) -> TablesByHead | CepError:
    try:
        if isinstance(document, ProtocolError):
            raise document
        return tables_of(document)
    except ProtocolError as error:
        return error
