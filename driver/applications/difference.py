"""What has to change in a cluster so that it has what an application declares. Pure: what is there comes in, changes come out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Any

import yaml

from cep.errors import QueryError, meant
from cep.model import query as queries
from cep.model import streams
from cep.model.growth import wider
from cep.model.query import Query
from cep.model.streams import Stream
from driver.applications.change import Change, Kind
from driver.applications.declared import Application, outputs_of

LEAVING = ("replace", "restart", "remove")
"""Of a query: it is deleted, whatever comes then."""

_ENDED_BADLY = ("failed", "stopped")
_AROUND = 1  # lines around one that differs


@dataclass(frozen=True, slots=True)
class DeployedQuery:
    """A query of the cluster. `reads`: the queries whose outputs it reads."""

    query: Query
    state: str
    cause: str = ""
    reads: frozenset[str] = frozenset()

    def lines(self, wanted: Query) -> tuple[str, ...]:
        """Those of the two documents that differ; none: they are the same."""
        return _lines(queries.to_json(self.query), queries.to_json(wanted))


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """What the cluster has. `owned`: what belongs to the application so far; `owners`: (kind, name) -> another application."""

    streams: Mapping[str, Stream]
    queries: Mapping[str, DeployedQuery]
    connectors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    owned: Collection[tuple[Kind, str]] = ()
    owners: Mapping[tuple[Kind, str], str] | None = None


def is_over(state: str) -> bool:
    """Of a query: nothing more comes of it."""
    return state in (*_ENDED_BADLY, "ended")


def differences(application: Application, found: ClusterContents) -> list[Change]:
    """In the order in which they are shown: streams, queries as they can be deployed, and what goes."""
    changes = [*_of_streams(application, found), *_of_queries(application, found), *_of_connectors(application, found)]
    wanted: set[tuple[Kind, str]] = {("stream", name) for name in application.streams} | {("query", name) for name in application.queries}
    wanted |= {("connector", name) for name in application.connectors}
    gone: dict[Kind, list[str]] = {"stream": [], "query": [], "connector": []}
    for kind, name in found.owned:
        if (kind, name) not in wanted:
            gone[kind].append(name)
    changes += [Change("query", name, "remove") for name in leaving_order(found.queries, gone["query"])]
    changes += [Change("connector", name, "remove") for name in sorted(gone["connector"]) if name in found.connectors]
    return changes + [_of_gone(name, gone["query"], application, found) for name in sorted(gone["stream"]) if name in found.streams]


def _of_gone(stream: str, leaving: Collection[str], application: Application, found: ClusterContents) -> Change:
    """A stream that is declared no more."""
    staying = {name: each.query for name, each in found.queries.items() if name not in leaving and not is_over(each.state)}
    readers = [name for name, query in sorted((staying | dict(application.queries)).items()) if stream in inputs_of(query)]
    return Change("stream", stream, "refused", why=f"query {readers[0]!r} reads it") if readers else Change("stream", stream, "remove")


def inputs_of(query: Query) -> frozenset[str]:
    """What its operators and outputs take: streams, and operators."""
    return frozenset([*(each for operator in query.operators for each in operator.inputs), *(output.input for output in query.outputs)])


def streams_of(application: Application, found: ClusterContents) -> frozenset[str]:
    """Those that are there, or will be."""
    deployed = [*application.queries.values(), *(each.query for each in found.queries.values())]
    return frozenset([*application.streams, *found.streams]).union(*map(outputs_of, deployed))


def is_source(document: Mapping[str, Any]) -> bool:
    """Of a connector: it brings rows."""
    return "from" in document


def leaving_order(there: Mapping[str, DeployedQuery], leaving: Collection[str]) -> list[str]:
    """Of those that are there, each before those whose outputs it reads."""
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name in leaving and name in there and name not in ordered:
            for reader in sorted(other for other, each in there.items() if name in each.reads):
                visit(reader)
            if name not in ordered:
                ordered.append(name)

    for name in sorted(leaving):
        visit(name)
    return ordered


def _of_streams(application: Application, found: ClusterContents) -> Iterator[Change]:
    for name, stream in application.streams.items():
        there = found.streams.get(name)
        if owner := (found.owners or {}).get(("stream", name)):
            yield Change("stream", name, "refused", why=f"it belongs to application {owner!r}")
        elif there is None:
            yield Change("stream", name, "create")
        else:
            yield from _of_stream(stream, there, ("stream", name) in found.owned)


def _of_stream(stream: Stream, there: Stream, is_own: bool) -> Iterator[Change]:
    try:
        together = wider(there, stream)
    except QueryError as error:
        yield Change("stream", stream.name, "refused", why=error.message)
        return
    if together is not there and together != there:
        yield Change("stream", stream.name, "extend", _lines(streams.to_json(there), streams.to_json(together)))
    elif not is_own:
        yield Change("stream", stream.name, "adopt")


def _of_queries(application: Application, found: ClusterContents) -> Iterator[Change]:
    for name, query in application.queries.items():
        there = found.queries.get(name)
        if owner := (found.owners or {}).get(("query", name)):
            yield Change("query", name, "refused", why=f"it belongs to application {owner!r}")
        elif there is None:
            yield Change("query", name, "create")
        elif there.state in _ENDED_BADLY:
            why = there.state + (f": {there.cause}" if there.cause else "")
            yield Change("query", name, "restart", there.lines(query), why)
        elif lines := there.lines(query):
            yield Change("query", name, "change", lines)
        elif ("query", name) not in found.owned:
            yield Change("query", name, "adopt")


def _of_connectors(application: Application, found: ClusterContents) -> Iterator[Change]:
    known = streams_of(application, found)
    for name, wanted in application.connectors.items():
        there = found.connectors.get(name)
        if owner := (found.owners or {}).get(("connector", name)):
            yield Change("connector", name, "refused", why=f"it belongs to application {owner!r}")
        elif (stream := wanted.document["stream"]) not in known:
            yield Change("connector", name, "refused", why=f"there is no stream {stream!r}{meant(stream, known)}")
        elif there is None:
            yield Change("connector", name, "create")
        elif dict(there) != dict(wanted.document):
            yield Change("connector", name, "redeclare", _lines(there, wanted.document))
        elif ("connector", name) not in found.owned:
            yield Change("connector", name, "adopt")


def with_readers(changes: Sequence[Change], application: Application, found: ClusterContents) -> list[Change]:
    """A query that reads one that goes, or begins anew, begins anew, too; where it is not of this application, the change is refused."""
    by_name = {change.name: change for change in changes if change.kind == "query"}
    going = [name for name, change in by_name.items() if change.action in LEAVING]
    for source in going:  # which grows
        for reader in sorted(name for name, each in found.queries.items() if source in each.reads and not is_over(each.state)):
            if reader not in application.queries and reader not in going:
                by_name[source] = replace(by_name[source], action="refused", why=f"query {reader!r}, which is not of it, reads it")
            elif reader not in going:
                lines = by_name[reader].lines if reader in by_name else ()
                by_name[reader] = Change("query", reader, "replace", lines, f"it reads {source!r}, which begins anew")
                going.append(reader)
    return _shown(by_name, changes, application)


def _shown(by_name: Mapping[str, Change], changes: Sequence[Change], application: Application) -> list[Change]:
    others = {kind: [change for change in changes if change.kind == kind] for kind in ("stream", "connector")}
    order = [*application.queries, *(name for name in by_name if name not in application.queries)]
    return [
        *(change for change in others["stream"] if change.action != "remove"),
        *(by_name[name] for name in order if name in by_name),
        *others["connector"],
        *(change for change in others["stream"] if change.action == "remove"),
    ]


def conflicts(application: Application, found: ClusterContents) -> Iterator[str]:
    """Streams that would come from two places: an output of a query that is not of this application."""
    for query in application.queries.values():
        for name in sorted(outputs_of(query)):
            for other, each in found.queries.items():
                is_ours = other in application.queries or ("query", other) in found.owned
                if not is_ours and not is_over(each.state) and name in outputs_of(each.query):
                    yield f"query {query.name!r} puts out stream {name!r}, and so does query {other!r}, which is {each.state}"


def _lines(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """The lines of the two documents that differ."""
    before, after = (yaml.safe_dump(dict(each), sort_keys=False, allow_unicode=True).splitlines() for each in (there, wanted))
    return tuple(line for line in list(unified_diff(before, after, n=_AROUND, lineterm=""))[2:] if not line.startswith("@@"))
