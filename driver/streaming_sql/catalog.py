"""The catalogue: streams, tables, views, sinks and functions by name. Names ignore case; each is one thing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlglot import exp

from cep.errors import QueryError, meant
from cep.model import file_documents, sinks, streams
from cep.model.expr import ColumnRef
from cep.model.references import split_reference
from cep.model.schema import DataType, Field, Schema
from cep.model.sinks import SinkFiles
from cep.model.streams import SOURCE_FORMATS, USUAL_TIMES, Stream
from cep.model.tables import StaticTable
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of
from driver.streaming_sql.spans import interval_us, span_us
from driver.streaming_sql.statements import CreateFunction, CreateStatement, CreateView, Drop, WithOption
from driver.streaming_sql.types import engine_type

_FLAGS = {"true": True, "false": False}
_STREAM_OPTIONS = ("connector", "idle_after", "event_times", "clock")
_FILE_OPTIONS = ("connector", "path", "paths", "format", "separator", "header", "block_bytes", "event_times", "partitioned_by")
_TABLE_OPTIONS = ("connector", "path", "versions", "refresh", "by")
_SINK_STREAM_OPTIONS = ("connector", "stream")
_SINK_FILE_OPTIONS = ("path", "folder", "format", "separator", "header", "overwrite")


@dataclass(frozen=True)
class CatalogTable:
    """A static table of lookups; `versions`: its column that says from when a row holds."""

    name: str
    table: StaticTable
    versions: str | None = None
    refresh: int | None = None
    by: str = "event_time"


@dataclass(frozen=True)
class View:
    """A query by name, bound anew where it is read. `text`: the statements it stands in, for places in messages."""

    name: str
    query: exp.Expr
    text: str


@dataclass(frozen=True)
class NamedSink:
    """Where INSERT INTO writes: the stream of this name, and files, where there are some. `fields`: what was declared; None: anything."""

    name: str
    stream: str
    files: SinkFiles | None = None
    schema: Schema | None = None


@dataclass(frozen=True)
class NamedFunction:
    """A user's function "module:name"."""

    name: str
    reference: str
    type: DataType
    aggregate: bool = False


Entry: TypeAlias = Stream | CatalogTable | View | NamedSink | NamedFunction
_KINDS: dict[type[Any], str] = {Stream: "stream", CatalogTable: "table", View: "view", NamedSink: "sink", NamedFunction: "function"}


def kind_of(entry: Entry) -> str:
    return _KINDS[type(entry)]


def _same(one: Entry, other: Entry) -> bool:
    if isinstance(one, Stream) and isinstance(other, Stream):  # of expressions == is an expression
        return streams.to_json(one) == streams.to_json(other)
    return type(one) is type(other) and not isinstance(one, Stream | View) and one == other


@dataclass(frozen=True)
class SqlCatalog:
    """What statements know by name. Immutable: a statement makes a new one. `known`: streams, by folded name, that queries read by name
    and do not declare, since the cluster knows them or another query puts them out. `exact`: of those of them whose names differ in
    nothing but case all but the first, which is found by their very names alone."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    exact: Mapping[str, Stream] = field(default_factory=dict)

    @staticmethod
    def of(entries: Iterable[Entry], known: Iterable[Stream] = ()) -> SqlCatalog:
        """Of declarations of streams, and others. Raises QueryError: two have names that differ in nothing but case."""
        first: dict[str, Stream] = {}
        others: dict[str, Stream] = {}
        for each in known:
            if first.setdefault(each.name.casefold(), each) is not each:
                others[each.name] = each
        return replace(SqlCatalog._of([*first.values(), *entries]), known=frozenset(first), exact=others)

    @staticmethod
    def _of(entries: Iterable[Entry]) -> SqlCatalog:
        made: dict[str, Entry] = {}
        for entry in entries:
            key = entry.name.casefold()
            if key in made and not _same(made[key], entry):
                raise QueryError(f"{kind_of(entry)} {entry.name!r}: SQL's names ignore case, and {made[key].name!r} is there already")
            made[key] = entry
        return SqlCatalog(made)

    def of_kind(self, kind: str) -> Iterator[Entry]:
        return (entry for entry in self.entries.values() if kind_of(entry) == kind)

    def find(self, name: str) -> Entry | None:
        return self.exact.get(name) or self.entries.get(name.casefold())

    def with_entry(self, entry: Entry, text: str, start: int) -> SqlCatalog:
        """Raises SqlError: the name is taken by something else."""
        there = self.find(entry.name)
        if there is not None and not _same(there, entry):
            raise SqlError("SQL-EXISTS", f"there is a {kind_of(there)} {there.name!r} already", text, start)
        return replace(self, entries={**self.entries, entry.name.casefold(): entry})

    def create(self, statement: CreateStatement | CreateView | CreateFunction, text: str) -> SqlCatalog:
        """The catalogue with what a statement creates. Raises SqlError."""
        start = start_of(statement.name) or statement.start
        return self.with_entry(_entry(statement, text), text, start)

    def drop(self, statement: Drop, text: str) -> SqlCatalog:
        """Raises SqlError: it is not there, or of another kind."""
        name, start = statement.name.name, start_of(statement.name) or statement.start
        there = self.find(name)
        if there is None and statement.if_exists:
            return self
        if there is None or kind_of(there) != statement.kind:
            raise SqlError("SQL-NAME", f"there is no {statement.kind} {name!r}{self.near(name)}", text, start)
        return replace(self, entries={key: entry for key, entry in self.entries.items() if key != name.casefold()})

    def near(self, name: str) -> str:
        """What a message says behind a name that is not there."""
        near = meant(name.casefold(), self.entries)
        return near or (f"; there are {', '.join(sorted(e.name for e in self.entries.values()))}" if self.entries else "; there are none")


def _entry(statement: CreateStatement | CreateView | CreateFunction, text: str) -> Entry:
    name, place = statement.name.name, start_of(statement.name) or statement.start
    try:
        match statement:
            case CreateView():
                return View(name, statement.query, text)
            case CreateFunction():
                split_reference(statement.reference)
                return NamedFunction(name, statement.reference, engine_type(statement.returns, text, place), statement.aggregate)
            case CreateStatement(kind="stream"):
                return _stream(statement, text)
            case CreateStatement(kind="table"):
                return _table(statement, text)
        return _sink(statement, text)
    except SqlError:
        raise
    except QueryError as error:
        raise SqlError("SQL-OPTION", error.message, text, place, "") from None


def _stream(statement: CreateStatement, text: str) -> Stream:
    name, given = statement.name.name, _options(statement, text)
    from_files = given.get("connector", "stream") == "files"
    _check_options(statement, text, _FILE_OPTIONS if from_files else _STREAM_OPTIONS, ("stream", "files"))
    if not statement.columns:
        raise SqlError(
            "SQL-SYNTAX", f"stream {name!r} has no columns", text, start_of(statement.name) or 0, "CREATE STREAM s (a BIGINT, …)"
        )
    time, disorder = _watermark(statement, text)
    schema = _schema(statement, text, time)
    files = _source_files(statement, text, given) if from_files else None
    idle = span_us(given["idle_after"], text, _place(statement, "idle_after")) if "idle_after" in given else None
    clock = "clock" if _flag(statement, text, given, "clock") else None
    event_time = None if time is None else ColumnRef(time)
    times, by = given.get("event_times", USUAL_TIMES), _partitioned_by(given.get("partitioned_by", ""), schema)
    return Stream(name, schema, event_time, disorder, files, times, idle, clock, by)


def _partitioned_by(given: str, schema: Schema) -> tuple[str, ...]:
    """Columns, in the way in which they are declared."""
    declared = {name.casefold(): name for name in schema.names}
    asked = [each.strip() for each in given.split(",") if each.strip()]
    return tuple(declared.get(each.casefold(), each) for each in asked)


def _watermark(statement: CreateStatement, text: str) -> tuple[str | None, int | None]:
    """The column of the event time, as it is declared, and the disorder."""
    if statement.watermark is None:
        return None, None
    asked, expression = statement.watermark.column.name, statement.watermark.expression
    place = start_of(statement.watermark.column) or 0
    column = next((each for each in statement.columns if each.name.name.casefold() == asked.casefold()), None)
    if column is None or column.type is None:
        near = meant(asked, [each.name.name for each in statement.columns])
        raise SqlError("SQL-COLUMN", f"WATERMARK FOR {asked}: no such column{near}", text, place, "a TIMESTAMP(3) column of the stream")
    if engine_type(column.type, text, place).name != "timestamp":
        raise SqlError("SQL-WATERMARK", f"{asked} is no timestamp", text, place, f"{asked} TIMESTAMP(3)")
    of, disorder = expression, 0
    if isinstance(expression, exp.Sub) and isinstance(expression.expression, exp.Interval):
        of, disorder = expression.this, interval_us(expression.expression, text)
    if not isinstance(of, exp.Column) or of.name.casefold() != asked.casefold() or disorder < 0:
        raise SqlError("SQL-WATERMARK", f"a watermark {expression.sql()}", text, start_of(expression) or place)
    return column.name.name, disorder


def _schema(statement: CreateStatement, text: str, time: str | None = None) -> Schema:
    """NULL is allowed unless NOT NULL is said; the event time is never NULL."""
    fields: list[Field] = []
    for column in statement.columns:
        name, place = column.name.name, start_of(column.name) or 0
        if column.type is None:
            assert column.computed is not None
            if isinstance(column.computed, exp.Anonymous) and column.computed.name.upper() == "PROCTIME":
                raise SqlError("SQL-PROCTIME", f"column {name!r} AS PROCTIME()", text, place)
            raise SqlError("SQL-EXPRESSION", f"column {name!r} is computed", text, place, "a view over the stream that computes it")
        if name.casefold() in {each.name.casefold() for each in fields}:
            raise SqlError("SQL-EXISTS", f"column {name!r} is there already", text, place)
        fields.append(Field(name, engine_type(column.type, text, place), column.nullable and name != time))
    return Schema(tuple(fields))


def _table(statement: CreateStatement, text: str) -> CatalogTable:
    _check_options(statement, text, _TABLE_OPTIONS, ("files",))
    given, name = _options(statement, text), statement.name.name
    if "path" not in given:
        place = start_of(statement.name) or 0
        expected = "WITH (path = '/data/t.parquet'); what rows are published to is a stream: WATERMARK, or CREATE STREAM"
        raise SqlError("SQL-OPTION", f"table {name!r} has no path", text, place, expected)
    schema = _schema(statement, text)
    versions = given.get("versions")
    if versions is not None:
        versions = next((each for each in schema.names if each.casefold() == versions.casefold()), versions)
    if statement.watermark is not None and statement.watermark.column.name.casefold() != str(versions).casefold():
        raise _no_event_time(statement, text)
    refresh = span_us(given["refresh"], text, _place(statement, "refresh")) if "refresh" in given else None
    return CatalogTable(name, StaticTable(schema, given["path"]), versions, refresh, given.get("by", "event_time"))


def _sink(statement: CreateStatement, text: str) -> NamedSink:
    given, name = _options(statement, text), statement.name.name
    to_files = given.get("connector", "files" if given.keys() & set(_SINK_FILE_OPTIONS) else "stream") == "files"
    _check_options(statement, text, _SINK_STREAM_OPTIONS + _SINK_FILE_OPTIONS * to_files, ("files", "stream"))
    if statement.watermark is not None:
        raise _no_event_time(statement, text)
    folder = _one_of(statement, text, given, "path", "folder")
    schema = _schema(statement, text) if statement.columns else None
    stream = given.get("stream", name)
    if not to_files:
        return NamedSink(name, stream, None, schema)
    if folder is None:
        raise SqlError("SQL-OPTION", f"sink {name!r} has no path", text, start_of(statement.name) or 0, "WITH (path = '/data/answers')")
    document = {key: _FLAGS.get(value.lower(), value) for key, value in given.items() if key in _SINK_FILE_OPTIONS[2:]}
    return NamedSink(name, stream, sinks.from_json({"folder": folder, **document}), schema)


def _source_files(statement: CreateStatement, text: str, given: Mapping[str, str]) -> Any:
    paths = [each.strip() for each in (_one_of(statement, text, given, "path", "paths") or "").split(",") if each.strip()]
    document: dict[str, Any] = {"paths": paths}
    for key in ("format", "separator", "header", "block_bytes"):
        if key in given:
            value = given[key]
            document[key] = int(value) if key == "block_bytes" and value.isdecimal() else _FLAGS.get(value.lower(), value)
    return file_documents.from_json(document, SOURCE_FORMATS, "")


def _one_of(statement: CreateStatement, text: str, given: Mapping[str, str], name: str, other: str) -> str | None:
    """Of an option with two names; None: it is not there."""
    if name in given and other in given:
        raise SqlError("SQL-OPTION", f"options {name!r} and {other!r} are one", text, _place(statement, other), f"{name} alone")
    return given.get(name, given.get(other))


def _flag(statement: CreateStatement, text: str, given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "false")
    if value.lower() not in _FLAGS:
        raise SqlError("SQL-OPTION", f"{name} = {value!r}", text, _place(statement, name), f"{name} = true, or false")
    return _FLAGS[value.lower()]


def _no_event_time(statement: CreateStatement, text: str) -> SqlError:
    """Of a statement with a watermark, which means nothing there."""
    assert statement.watermark is not None
    said, place = f"WATERMARK: {statement.kind} {statement.name.name!r} has no event time", start_of(statement.watermark.column) or 0
    return SqlError("SQL-SYNTAX", said, text, place, "WATERMARK in CREATE STREAM")


def _options(statement: CreateStatement, text: str) -> dict[str, str]:
    return {option.name: option.value for option in statement.options}


def _check_options(statement: CreateStatement, text: str, known: tuple[str, ...], connectors: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for option in statement.options:
        if option.name == "connector" and option.value not in connectors:
            expected = f"connector = {' or '.join(map(repr, connectors))}"
            raise SqlError("SQL-OPTION", f"connector {option.value!r}{meant(option.value, connectors)}", text, option.start, expected)
        if option.name not in known:
            raise SqlError(
                "SQL-OPTION", f"option {option.name!r}{meant(option.name, known)}", text, option.start, f"one of {', '.join(known)}"
            )
        if option.name in seen:
            raise SqlError("SQL-OPTION", f"option {option.name!r} stands twice", text, option.start, "it once")
        seen.add(option.name)


def _place(statement: CreateStatement, name: str) -> int:
    found: WithOption = next(option for option in statement.options if option.name == name)
    return found.start
