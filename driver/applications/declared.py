"""What an application is to be, as values: its streams, and its queries in an order in which each can be deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any

from cep.errors import QueryError, escaped, meant
from cep.model import query as queries
from cep.model import streams
from cep.model.query import Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.validate import validate
from cep.service.documents import read_json, read_yaml
from driver.applications.reading import ApplicationPart, WrittenApplication

_OF_DOCUMENTS = ("streams", "operators", "outputs", "late")
_FORMS = ("sql", "file", *_OF_DOCUMENTS)


@dataclass(frozen=True)
class DeclaredConnector:
    """What `cep connect` takes, and where it stands."""

    document: Mapping[str, Any]
    part: ApplicationPart

    def wrong(self, error: QueryError) -> QueryError:
        """What the cluster says of the document, seen from the file: of a sink its options stand beside the stream's name."""
        return self.part.wrong(QueryError(error.message, error.pointer.removeprefix("/to")))


@dataclass(frozen=True)
class Application:
    """`queries`: each behind those whose outputs it reads."""

    name: str
    streams: Mapping[str, Stream]
    queries: Mapping[str, Query]
    connectors: Mapping[str, DeclaredConnector] = field(default_factory=dict)


def declared(written: WrittenApplication, known: Mapping[str, Stream]) -> Application:
    """`known`: the streams that the cluster has besides, those that its queries put out among them. Raises QueryError: which part of which
    file is wrong, and why."""
    own = {name: _stream(name, part) for name, part in written.streams.items()}
    there = dict(known) | own
    ordered: dict[str, Query] = {}
    waiting = {name: _Waiting(part) for name, part in written.queries.items()}
    came: list[str] = []
    for name in _worth_trying(waiting, came):
        each = waiting[name]
        each.tried_at = len(came)
        try:
            query = _query(name, each.part, there)
            schemas = _checked(query, each.part, there)
        except QueryError as error:
            each.error = error  # perhaps it reads one that comes later
            continue
        _check_outputs(query, ordered, own, each.part)
        there |= {put_out: Stream(put_out, schema) for put_out, schema in schemas.items()}
        came += schemas
        ordered[name] = query
        del waiting[name]
    if waiting:
        raise _cause(waiting)
    return Application(written.name, own, ordered, _connectors(written))


class _Waiting:
    """A query that is not bound yet. `tried_at`: how many outputs had come when it was tried last; -1: it never was. `error`: of then."""

    def __init__(self, part: ApplicationPart) -> None:
        self.part = part
        self.tried_at = -1
        self.error = QueryError("")

    def names_one(self, came: Sequence[str]) -> bool:
        """Does it name an output that has come since? One that was never tried is worth it, too."""
        return self.tried_at < 0 or any(put_out.casefold() in self._text for put_out in came[self.tried_at :])

    @cached_property
    def _text(self) -> str:
        """All that is written of it; SQL's names ignore case."""
        text, file = json.dumps(self.part.document, ensure_ascii=False), self.part.document.get("file")
        if isinstance(file, str):
            with suppress(QueryError):  # it is said where the query is made
                text += self.part.text(file)
        return text.casefold()


def _worth_trying(waiting: Mapping[str, _Waiting], came: Sequence[str]) -> Iterator[str]:
    """The names of those that may find now what they lacked, until nothing more comes. To bind all of them for every output takes time with
    the square of their number; that is done only where none names what came, since a name may be written with escapes."""
    found = True
    while found:
        found = False
        for name in list(waiting):
            if waiting[name].names_one(came):
                found = True
                yield name
        for name in () if found else list(waiting):
            if waiting[name].tried_at < len(came):
                found = True
                yield name


def _cause(waiting: Mapping[str, _Waiting]) -> QueryError:
    """The error that is not about the output of another query that is wrong itself, if there is one."""
    named = {name: (name, *_named_outputs(each.part)) for name, each in waiting.items()}
    for name, each in waiting.items():
        others = (put_out for other, outputs in named.items() if other != name for put_out in outputs)
        if not any(repr(put_out) in each.error.message for put_out in others):
            return each.error
    return next(iter(waiting.values())).error


def _named_outputs(part: ApplicationPart) -> Iterator[str]:
    """Those that its document names, as far as it can be read."""
    outputs = part.document.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict) and isinstance(output.get("stream"), str):
            yield output["stream"]


def _connectors(written: WrittenApplication) -> dict[str, DeclaredConnector]:
    """Those of streams have their names."""
    found = {
        name: DeclaredConnector({"name": name, "stream": name, "from": part.document["from"]}, part)
        for name, part in written.streams.items()
        if "from" in part.document
    }
    for name, part in written.sinks.items():
        if name in found:
            raise part.wrong(QueryError(f"the connector of stream {name!r} has this name; give the sink another one"))
        own = dict(part.document)
        stream = own.pop("stream", None)
        if not isinstance(stream, str):
            raise part.wrong(QueryError(f"stream: expected the name of a stream, got {stream!r}", "/stream"))
        found[name] = DeclaredConnector({"name": name, "stream": stream, "to": own}, part)
    return found


def outputs_of(query: Query) -> frozenset[str]:
    """The streams that it puts out."""
    return frozenset({output.stream for output in query.outputs} | ({query.late} if query.late is not None else set()))


def _stream(name: str, part: ApplicationPart) -> Stream:
    document = {key: each for key, each in part.document.items() if key != "from"}
    if not isinstance(schema := document.get("schema"), dict | list):
        raise part.wrong(QueryError("schema: expected a mapping from columns to types, such as {ip: string}", "/schema"))
    if isinstance(schema, dict):
        document["schema"] = [{"name": field, "type": type_} for field, type_ in schema.items()]
    if document.setdefault("name", name) != name:
        raise part.wrong(QueryError(f"the name is {document['name']!r} here, and {name!r} as its key", "/name"))
    try:
        return streams.from_json(document)
    except QueryError as error:
        steps = error.pointer.split("/")
        if isinstance(schema, dict) and steps[1:2] == ["schema"] and len(steps) > 2:  # by columns, and not by numbers, as it is written
            error = QueryError(error.message, f"/schema/{escaped(list(schema)[int(steps[2])])}")
        raise part.wrong(error) from None


def _query(name: str, part: ApplicationPart, known: Mapping[str, Stream]) -> Query:
    document = dict(part.document)
    options = document.pop("options", {})
    _check_form(document, part)
    try:
        query = _of_form(name, document, part, known)
    except QueryError as error:
        raise part.wrong(error, "/sql" if "sql" in document else "") from None
    if not isinstance(options, dict):
        raise part.wrong(QueryError(f"expected options, got {options!r}", "/options"))
    try:
        return replace(query, options=queries.options_from_json(queries.options_to_json(query.options) | options))
    except QueryError as error:
        raise part.wrong(error, "/options") from None


def _check_form(document: Mapping[str, Any], part: ApplicationPart) -> None:
    for key in document.keys() - {"name", *_FORMS}:
        raise part.wrong(QueryError(f"unknown key {key!r}{meant(key, _FORMS)}; a query has sql, or file, or a document's keys", f"/{key}"))
    forms = [key for key in ("sql", "file") if key in document] + ["a document"] * any(key in document for key in _OF_DOCUMENTS)
    if len(forms) != 1:
        raise part.wrong(QueryError(f"expected one of sql, file and a document's keys, got {' and '.join(forms) or 'none'}"))


def _of_form(name: str, document: dict[str, Any], part: ApplicationPart, known: Mapping[str, Stream]) -> Query:
    if "sql" in document:
        return _of_sql(name, document["sql"], known)
    if "file" not in document:
        return queries.from_json({"name": name, **document})
    path = document["file"]
    if not isinstance(path, str):
        raise QueryError(f"file: expected the name of a file, got {path!r}", "/file")
    text = part.text(path)
    if path.endswith(".sql"):
        return _of_sql(name, text, known)
    try:
        read = read_json if path.endswith(".json") else read_yaml
        return queries.from_json(read(text.encode()) | {"name": name})
    except QueryError as error:
        raise QueryError(f"{path}: at {error.pointer or '/'}: {error.message}", "/file") from None
    except (ValueError, TypeError) as error:
        raise QueryError(f"{path} cannot be read as a query: {error}", "/file") from None


def _of_sql(name: str, text: Any, known: Mapping[str, Stream]) -> Query:
    if not isinstance(text, str):
        raise QueryError(f"expected a text of SQL, got {text!r}")
    front = import_module("driver.streaming_sql.front")  # the parser is loaded where there is SQL
    query: Query = front.deployable(text, name, known.values()).value()
    return query


def _checked(query: Query, part: ApplicationPart, known: Mapping[str, Stream]) -> Mapping[str, Schema]:
    """The schemas of what it puts out."""
    try:
        schemas = validate(query, known).schemas
    except QueryError as error:
        raise part.wrong(error if not {"sql", "file"} & part.document.keys() else QueryError(error.message)) from None
    return {name: schemas[name] for name in outputs_of(query)}


def _check_outputs(query: Query, others: Mapping[str, Query], own: Mapping[str, Stream], part: ApplicationPart) -> None:
    """Each stream comes from one place."""
    for name in outputs_of(query):
        if name in own:
            raise part.wrong(QueryError(f"it puts out stream {name!r}, which the application declares as one that is published or read"))
        if other := next((other.name for other in others.values() if name in outputs_of(other)), None):
            raise part.wrong(QueryError(f"it puts out stream {name!r}, and so does query {other!r}"))
