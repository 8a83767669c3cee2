"""Texts of statements: what they create, and the query they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cep.errors import QueryError, meant
from cep.model import query as model
from cep.model.schema import Field, Schema
from cep.model.streams import Stream
from cep.service.documents import read_json
from driver.builder.query import Query
from driver.streaming_sql.binder import Binder
from driver.streaming_sql.building import Building
from driver.streaming_sql.catalog import Entry, NamedSink, SqlCatalog, kind_of
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of
from driver.streaming_sql.relation import Relation, SqlSettings
from driver.streaming_sql.spans import span_us
from driver.streaming_sql.statements import (
    CreateFunction,
    CreateStatement,
    CreateView,
    Drop,
    Insert,
    Select,
    SetOption,
    Statement,
    statements,
)
from driver.streaming_sql.types import sql_column

STATE_TTL = "state_ttl"


@dataclass(frozen=True)
class Session:
    """What statements so far have said. Immutable: `define` gives the next one."""

    catalog: SqlCatalog = field(default_factory=SqlCatalog)
    settings: SqlSettings = field(default_factory=SqlSettings)

    def define(self, statement: Statement, text: str) -> Session:
        """After a statement that makes no query. Raises SqlError."""
        match statement:
            case CreateStatement() | CreateView() | CreateFunction():
                return replace(self, catalog=self.catalog.create(statement, text))
            case Drop():
                return replace(self, catalog=self.catalog.drop(statement, text))
            case SetOption():
                return replace(self, settings=_set(self.settings, statement, text))
        raise SqlError(
            "SQL-STATEMENT", "a text that makes a query has no such statement", text, statement.start, "CREATE, SET, SELECT and INSERT INTO"
        )

    def query(self, name: str, made: Iterable[Select | Insert], text: str) -> Query:
        """The query of a SELECT, whose rows stand before what the builder adds; or of INSERTs, whose sinks are its outputs. Raises
        SqlError."""
        building = Building(self.catalog)
        current = None
        for statement in made:
            binder = Binder(building, self.catalog, self.settings, text)
            try:
                relation = binder.query(statement.query)
            except RecursionError:
                raise SqlError("SQL-DEPTH", "operations are too deep inside each other", text, statement.start) from None
            if isinstance(statement, Insert):
                relation = self._inserted(relation, statement, building, text)
                continue
            current = building.materialised(relation, text, statement.start).at
        query = Query(name, tuple(building.streams.values()), tuple(building.operators), tuple(building.outputs), None, current=current)
        return query.options(**self.settings.options) if self.settings.options else query

    def _inserted(self, relation: Relation, statement: Insert, building: Building, text: str) -> Relation:
        into, place = statement.into.name, start_of(statement.into) or statement.start
        sink = self._sink(into, text, place)
        if statement.columns:
            relation = _named(relation, statement, text)
        made = building.materialised(relation, text, statement.start)
        if sink.schema is not None:
            made = _as_declared(made, sink, sink.schema, building, text, place)
        if sink.stream in {each.stream for each in building.outputs}:
            raise SqlError("SQL-SINK", f"two queries write to {into!r}", text, place, "one INSERT INTO of a UNION ALL")
        building.outputs.append(model.Output(sink.stream, made.at, sink.files))
        return made

    def _sink(self, name: str, text: str, place: int) -> NamedSink:
        entry = self.catalog.find(name)
        if entry is None:
            return NamedSink(name, name)
        if isinstance(entry, NamedSink):
            return entry
        raise SqlError("SQL-SINK", f"{entry.name!r} is a {kind_of(entry)}", text, place)


def _named(relation: Relation, statement: Insert, text: str) -> Relation:
    """Under the names that stand behind INTO. Raises SqlError: they are more or fewer."""
    if len(statement.columns) != len(relation.columns):
        place = start_of(statement.columns[0]) or statement.start
        said = f"{len(statement.columns)} names, and the query has {len(relation.columns)} columns"
        raise SqlError("SQL-SINK", said, text, place, "as many of each")
    columns = zip(relation.columns, statement.columns, strict=True)
    return replace(relation, columns=tuple(replace(each, name=name.name) for each, name in columns))


def _as_declared(made: Relation, sink: NamedSink, schema: Schema, building: Building, text: str, place: int) -> Relation:
    """The columns by place, under the sink's names. Raises SqlError: others, of other types, or NULL where the sink has none."""
    have = [building.schemas[made.at][each.name] for each in made.columns]
    if len(have) != len(schema.fields) or not all(_fits(a, b) for a, b in zip(have, schema.fields, strict=False)):
        asked, got = ", ".join(map(sql_column, schema.fields)), ", ".join(map(sql_column, have))
        raise SqlError(
            "SQL-SINK",
            f"sink {sink.name!r} has ({asked}), the query ({got})",
            text,
            place,
            "SELECT with the sink's columns, CAST to their types",
        )
    columns = tuple(replace(each, name=field.name) for each, field in zip(made.columns, schema.fields, strict=True))
    return building.materialised(replace(made, columns=columns), text, place)


def _fits(have: Field, wanted: Field) -> bool:
    return have.type == wanted.type and (wanted.nullable or not have.nullable)


def _set(settings: SqlSettings, statement: SetOption, text: str) -> SqlSettings:
    name = statement.name.lower()
    if name == STATE_TTL:
        ttl = None if statement.value.lower() in ("none", "null") else span_us(statement.value, text, statement.start)
        if ttl is not None and ttl <= 0:
            raise SqlError("SQL-OPTION", f"{name} = {statement.value!r}", text, statement.start, "SET state_ttl = '1 d'")
        return replace(settings, state_ttl=ttl)
    known = [STATE_TTL, *model.options_to_json(model.Options())]
    if name not in known:
        raise SqlError(
            "SQL-OPTION", f"there is no option {name!r}{meant(name, known)}", text, statement.start, f"one of {', '.join(known)}"
        )
    try:
        options = {**settings.options, name: _value(statement.value)}
        model.options_from_json(options)
    except (QueryError, ValueError) as error:
        raise SqlError("SQL-OPTION", str(getattr(error, "message", error)), text, statement.start, "") from None
    return replace(settings, options=options)


def _value(written: str) -> Any:
    """A number, a list or an object as JSON; else the text. Raises ValueError: what begins as a list or an object is none."""
    try:
        return read_json(written.encode())
    except ValueError as error:
        if written.lstrip()[:1] in ("{", "["):
            raise ValueError(f"{written[:100]!r} is no JSON: {error}") from None
        return written


def session_of(streams: Iterable[Stream | Entry] = (), known: Iterable[Stream] = ()) -> Session:
    return Session(SqlCatalog.of(streams, known))


def query_of(text: str, name: str, session: Session) -> tuple[Query, Session]:
    """The one query of a text: CREATE, SET and DROP, and then a SELECT or INSERTs. Raises SqlError."""
    made: list[Select | Insert] = []
    for statement in statements(text):
        if isinstance(statement, Select | Insert):
            if any(isinstance(each, Select) for each in made) or (made and isinstance(statement, Select)):
                raise SqlError("SQL-STATEMENT", "a second query", text, statement.start, "one SELECT, or INSERTs")
            made.append(statement)
            continue
        session = session.define(statement, text)
    if not made:
        raise SqlError("SQL-STATEMENT", "the text has no query", text, 0, "a SELECT, or INSERT INTO")
    return session.query(name, made, text), session


def functions_of(session: Session) -> Mapping[str, Entry]:
    return {entry.name: entry for entry in session.catalog.of_kind("function")}
