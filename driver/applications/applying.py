"""Making a cluster have what an application declares: what is to change is known before anything does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from cep.errors import CepError, Conflict, NotFound, QueryError
from cep.model import query as queries
from cep.model import streams
from cep.model.streams import Stream
from driver.applications.change import Change, Kind
from driver.applications.declared import Application, declared
from driver.applications.difference import (
    LEAVING,
    ClusterContents,
    DeployedQuery,
    conflicts,
    differences,
    inputs_of,
    is_source,
    leaving_order,
    streams_of,
    with_readers,
)
from driver.applications.reading import Variable, WrittenApplication, read_application
from driver.cluster import Cluster
from driver.rest import path as address

_KINDS: tuple[tuple[Kind, str], ...] = (("stream", "streams"), ("query", "queries"), ("connector", "connectors"))
LEAVE_TRIES, LEAVE_PAUSE_S = 60, 0.25
"""How often it is looked whether the publisher of a connector that was stopped has gone, and how long between."""


class Applying:
    """What is to become of a cluster by a file. `changes` are those that it takes; none of them has come about before `run`.

    Raises:
        QueryError: the file is wrong: where, and why.
    """

    def __init__(self, cluster: Cluster, file: Path, variables: Mapping[str, Variable] | None = None) -> None:
        self._cluster = cluster
        written = read_application(file, variables)
        recorded = {each["name"]: each for each in cluster.applications()}
        self._record: Mapping[str, Any] = recorded.pop(written.name, {})
        self._found, known = self._look(written, recorded.values())
        self.application = declared(written, known)
        found = differences(self.application, self._found)
        for change in found:
            if change.kind == "connector" and change.action in ("create", "redeclare"):
                self._connect(change, dry_run=True)
        self.changes = with_readers(list(map(self._decided, found)), self.application, self._found)
        self.refused = [
            *(f"{change.kind} {change.name!r}: {change.why}" for change in self.changes if change.action == "refused"),
            *conflicts(self.application, self._found),
        ]

    @property
    def name(self) -> str:
        return self.application.name

    def check(self, anew: bool) -> None:
        """Raises Conflict: something of it is refused; or a query that runs would begin anew, and may not (`anew`)."""
        if self.refused:
            raise Conflict(f"application {self.name!r}: {'; '.join(self.refused)}")
        losing = [f"query {change.name!r}: {change.why}" for change in self.changes if change.action in ("fresh", "replace")]
        if losing and not anew:
            why = "cannot be upgraded with all that they know; --anew (anew=True) lets them begin without"
            raise Conflict(f"application {self.name!r}: these {why}: {'; '.join(losing)}")

    def run(self, anew: bool = False) -> Iterator[Change]:
        """Does it, and yields each change that has come about. What is broken off is taken up by doing the same again.

        Raises:
            Conflict: see `check`; nothing has changed.
            CepError: one did not come about; those before it have.
        """
        self.check(anew)
        own = {kind: list(getattr(self.application, kind)) for _, kind in _KINDS}
        self._keep({kind: [*names, *(each for each in self._record.get(kind, ()) if each not in names)] for kind, names in own.items()})
        yield from self._removed("connector", is_source)  # nothing more comes in that has nowhere to go
        by_name = {change.name: change for change in self.changes if change.kind == "query"}
        leaving = [name for name, change in by_name.items() if change.action in LEAVING]
        for name in leaving_order(self._found.queries, leaving):
            self._cluster.query(name).delete()
            if by_name[name].action == "remove":
                yield by_name[name]
        yield from self._removed("connector", is_sink)
        for change in self.changes:
            if change.kind == "stream" and change.action in ("create", "extend"):
                self._cluster.declare(self.application.streams[change.name])
                yield change
        yield from self._connected(is_sink)  # which misses nothing, if it is there before its query
        for change in by_name.values():
            if change.action != "remove" and change.action != "adopt":
                self._make(change)
                yield change
        yield from self._connected(is_source)  # whose rows nothing would read before its queries are there
        yield from self._removed("stream", lambda _: True)
        self._keep(own)

    def _removed(self, kind: Kind, which: Callable[[Mapping[str, Any]], bool]) -> Iterator[Change]:
        """`which`: of connectors, by their documents."""
        for change in self.changes:
            if change.kind == kind and change.action == "remove" and which(self._found.connectors.get(change.name, {})):
                (self._cluster.disconnect if kind == "connector" else partial(undeclare, self._cluster))(change.name)
                yield change

    def _connected(self, which: Callable[[Mapping[str, Any]], bool]) -> Iterator[Change]:
        for change in self.changes:
            is_new = change.kind == "connector" and change.action in ("create", "redeclare")
            if is_new and which(self.application.connectors[change.name].document):
                self._connect(change)
                yield change

    def _connect(self, change: Change, dry_run: bool = False) -> None:
        connector = self.application.connectors[change.name]
        try:
            self._cluster.connect(connector.document, dry_run)
        except QueryError as error:
            raise connector.wrong(error) from None

    def _make(self, change: Change) -> None:
        """A query as it is to be."""
        query = self.application.queries[change.name]
        try:
            if change.action in ("upgrade", "fresh"):
                self._cluster.query(change.name).upgrade(query, fresh=change.action == "fresh")
            else:
                self._cluster.deploy(query)
        except QueryError as error:
            raise QueryError(f"query {change.name!r}: {error.message}", error.pointer) from None

    def _decided(self, change: Change) -> Change:
        """Can a query that is to change be upgraded? The cluster says."""
        if change.action != "change":
            return self._deployable(change) if change.action in ("create", "restart") and change.kind == "query" else change
        running, query = self._cluster.query(change.name), self.application.queries[change.name]
        try:
            report = running.upgrade(query, dry_run=True)
            if report["possible"]:
                return replace(change, action="upgrade", lines=(*change.lines, *report["text"].splitlines()))
            fresh = running.upgrade(query, dry_run=True, fresh=True)
        except CepError as error:
            return self._deployable(replace(change, action="replace", why=str(error).removeprefix(f"query {change.name!r} ")))
        refused = "; ".join(f"{part['part']}: {part['advice'] or part['note']}" for part in report["parts"] if part["fate"] == "refused")
        if fresh["possible"]:
            return replace(change, action="fresh", lines=(*change.lines, *fresh["text"].splitlines()), why=refused)
        return self._deployable(replace(change, action="replace", why=refused))

    def _deployable(self, change: Change) -> Change:
        """Nothing is deleted, and nothing else made, for a query that cannot be deployed then. What reads a stream that is not there yet
        is not known to be wrong."""
        query, own = self.application.queries[change.name], self.application.streams
        more = [own[name] for name in sorted(inputs_of(query) & own.keys()) if name not in {each.name for each in query.streams}]
        query = replace(query, streams=(*query.streams, *more))
        there = (
            {each.name for each in query.streams}
            | {each.name for each in query.operators}
            | streams_of(Application("", {}, {}), self._found)
        )
        if inputs_of(query) <= there:
            try:
                self._cluster.explain(queries.to_json(query))
            except QueryError as error:
                return replace(change, action="refused", why=error.message)
        return change

    # --- what is there

    def _look(self, written: WrittenApplication, others: Iterable[Mapping[str, Any]]) -> tuple[ClusterContents, Mapping[str, Stream]]:
        """What the cluster has, and the streams that the application may read but that are not its own."""
        listed = self._cluster.rest.get("/streams")
        owned: set[tuple[Kind, str]] = {(kind, name) for kind, key in _KINDS for name in self._record.get(key, ())}
        ours = {name for kind, name in owned if kind == "query"} | written.queries.keys()
        owners: dict[tuple[Kind, str], str] = {
            (kind, name): other["name"] for other in others for kind, key in _KINDS for name in other[key]
        }
        there = {each["name"]: streams.of_listing(each) for each in listed if each["fed_by"] is None}
        known = {each["name"]: streams.of_listing(each) for each in listed if each["fed_by"] not in ours}
        connectors = {each["name"]: each["document"] for each in self._cluster.connectors()}
        return ClusterContents(there, deployed(self._cluster), connectors, owned, owners), known

    def _keep(self, parts: Mapping[str, Sequence[str]]) -> None:
        self._cluster.rest.put(address("applications", self.name), parts)


def remove(cluster: Cluster, name: str) -> Iterator[tuple[Kind, str]]:
    """Deletes all that an application has, and the application; yields what is gone. Raises NotFound, or Conflict: a query that is not of
    it reads something of it."""
    record: dict[str, Any] = cluster.rest.get(address("applications", name))
    connectors = {each["name"]: each["document"] for each in cluster.connectors() if each["name"] in record["connectors"]}
    for connector in filter(lambda name: is_source(connectors[name]), connectors):
        cluster.disconnect(connector)
        yield "connector", connector
    for query in leaving_order(deployed(cluster), record["queries"]):
        cluster.query(query).delete()
        yield "query", query
    for connector in filter(lambda name: is_sink(connectors[name]), connectors):
        cluster.disconnect(connector)
        yield "connector", connector
    for stream in {each["name"] for each in cluster.rest.get("/streams")}.intersection(record["streams"]):
        undeclare(cluster, stream)
        yield "stream", stream
    cluster.rest.delete(address("applications", name))


def is_sink(document: Mapping[str, Any]) -> bool:
    return not is_source(document)


def undeclare(cluster: Cluster, stream: str) -> None:
    """When the publishers have gone that connectors had, which takes a moment. Raises Conflict: a query reads it, or another publishes."""
    for _ in range(LEAVE_TRIES):
        try:
            cluster.undeclare(stream)
            return
        except Conflict:
            if cluster.rest.get(address("streams", stream))["read_by"]:  # the last publisher may have gone between the two questions
                raise
            Event().wait(LEAVE_PAUSE_S)
    cluster.undeclare(stream)


def deployed(cluster: Cluster) -> dict[str, DeployedQuery]:
    """The queries that the cluster has."""
    found: dict[str, DeployedQuery] = {}
    for name in [each["name"] for each in cluster.queries()]:
        with suppress(NotFound):  # it has just been deleted
            answer = cluster.rest.get(address("queries", name) + "?figures=false")
            cause = "" if answer["cause"] is None else answer["cause"]["cause"]
            reads = frozenset(each["query"] for each in answer["reads"])
            found[name] = DeployedQuery(queries.from_json(answer["document"]), answer["state"], cause, reads)
    return found
