"""Statements of SQL against a cluster: streams and queries are the cluster's; views, sinks, tables and functions the console's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any

from rich.table import Table

from cep.errors import CepError, NotFound
from cep.model import streams as stream_documents
from cep.model.schema import Field, Schema
from cep.model.streams import Stream
from driver.builder.query import Query
from driver.cluster import Cluster, Running
from driver.rows.json_rows import shown_rows
from driver.streaming_sql.catalog import CatalogTable as StaticTable
from driver.streaming_sql.catalog import Entry, NamedFunction, NamedSink, SqlCatalog, View, kind_of
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of
from driver.streaming_sql.session import Session
from driver.streaming_sql.statements import (
    CreateFunction,
    CreateStatement,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Select,
    SetOption,
    Show,
    Statement,
    statements,
)
from driver.streaming_sql.types import sql_type
from driver.streams.subscription import Subscription
from driver.terminal import out

_KINDS = {"STREAMS": "stream", "TABLES": "table", "VIEWS": "view", "SINKS": "sink", "FUNCTIONS": "function"}
_NULL = "NULL"
#: For so long a query runs whose plan is shown with what was observed, unless its streams end before.
ANALYZE_S = 10.0


class SqlConsole:
    """A session: what statements have said so far, and the cluster that they are for."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.session, self._numbers = cluster, Session(), count(1)
        self._own: dict[str, Entry] = {}  # by folded name: what the cluster does not keep

    def run(self, text: str) -> None:
        """Statement by statement; a SELECT's rows are shown until the streams end, or until KeyboardInterrupt, which ends its query and
        comes through. Raises CepError."""
        for statement in statements(text):
            self.refresh()
            self._run(statement, text)

    def refresh(self) -> Session:
        """The session with the streams that the cluster has now."""
        known = [stream for stream in self._streams() if stream.name.casefold() not in self._own]
        self.session = replace(self.session, catalog=SqlCatalog.of(self._own.values(), known))
        return self.session

    def _streams(self) -> Iterator[Stream]:
        for found in self.cluster.rest.get("/streams"):
            yield stream_documents.of_listing(found)

    def _run(self, statement: Statement, text: str) -> None:
        match statement:
            case Select():
                self._select(statement, text)
            case Insert():
                self._insert(statement, text)
            case Explain():
                self._explain(statement, text)
            case Show():
                self._show(statement)
            case Describe():
                self._describe(statement, text)
            case Drop():
                self._drop(statement, text)
            case SetOption():
                self.session = self.session.define(statement, text)
            case CreateStatement() | CreateView() | CreateFunction():
                self._create(statement, text)

    # --- queries ---

    def _select(self, statement: Select, text: str) -> None:
        rows = 0
        with self._running(statement, text) as (_, answers):
            for batch in answers:
                shown = shown_rows(batch)
                if not rows:
                    out.print(_line(batch.schema.names))
                for row in shown:
                    out.print(_line(row))
                rows += len(shown)
        out.print(f"({rows:,} rows)")

    @contextmanager
    def _running(self, statement: Select, text: str) -> Iterator[tuple[Running, Subscription]]:
        """A query under a name of its own and what it puts out; it is deleted at the end."""
        name = f"sql-{os.getpid()}-{next(self._numbers)}"
        running = self.cluster.deploy(self.session.query(name, [statement], text).output(f"{name}.rows"), start=False)
        try:
            with running.subscribe(f"{name}.rows") as answers:
                running.start()
                yield running, answers
        finally:
            with suppress(NotFound):
                running.delete()

    def _insert(self, statement: Insert, text: str) -> None:
        query = self._free(self.session.query(f"insert-into-{statement.into.name}", [statement], text))
        out.print(f"{self.cluster.deploy(query).name}: running")

    def _free(self, query: Query) -> Query:
        """Under a name that no query has."""
        taken = {each["name"] for each in self.cluster.queries()}
        names = (query.name if number == 1 else f"{query.name}-{number}" for number in count(1))
        return replace(query, name=next(name for name in names if name not in taken))

    def _explain(self, statement: Explain, text: str) -> None:
        if statement.analyze:
            self._analyze(statement, text)
        else:
            query = self.session.query("explained", [statement.of], text)
            out.print(self.cluster.explain(query if query.outputs else query.output("rows")))

    def _analyze(self, statement: Explain, text: str) -> None:
        """Runs a SELECT until its streams end, or for `ANALYZE_S`; prints its plan then, with what was observed of it."""
        if not isinstance(statement.of, Select):
            writes, advice = "EXPLAIN ANALYZE runs it, and INSERT INTO leaves rows behind", "EXPLAIN ANALYZE of its SELECT"
            raise SqlError("SQL-STATEMENT", writes, text, statement.start, advice)
        with self._running(statement.of, text) as (running, answers):
            rows, began, has_ended = 0, time.monotonic(), False
            with suppress(TimeoutError):
                while (left := began + ANALYZE_S - time.monotonic()) > 0 and not has_ended:
                    batch = answers.next_batch(left)
                    rows, has_ended = rows + (0 if batch is None else batch.num_rows), batch is None
            spent = time.monotonic() - began
            out.print(running.explain())
            _print_table(("operator", "step", "rows in", "rows out", "ns a row"), _observed(running.status()["placed"]))
        out.print(f"({rows:,} rows in {spent:.1f} s{'' if has_ended else '; its streams have not ended'})")

    # --- the catalogue ---

    def _create(self, statement: CreateStatement | CreateView | CreateFunction, text: str) -> None:
        self.session = self.session.define(statement, text)
        entry = self.session.catalog.find(statement.name.name)
        if isinstance(entry, Stream):
            self.cluster.declare(entry)
        elif entry is not None:
            self._own[entry.name.casefold()] = entry
        out.print(f"{statement.name.name}: created")

    def _drop(self, statement: Drop, text: str) -> None:
        name = statement.name.name
        if statement.kind == "query":
            self._drop_query(name, statement.if_exists)
        else:
            entry = self.session.catalog.find(name)
            self.session = self.session.define(statement, text)
            if isinstance(entry, Stream):
                self.cluster.undeclare(entry.name)
            self._own.pop(name.casefold(), None)
        out.print(f"{name}: dropped")

    def _drop_query(self, name: str, if_exists: bool) -> None:
        try:
            Running(self.cluster, name).delete()
        except NotFound:
            if not if_exists:
                raise

    def _show(self, statement: Show) -> None:
        if statement.what == "QUERIES":
            _print_table(("query", "state"), [(each["name"], each["state"]) for each in self.cluster.queries()])
            return
        found = self.session.catalog.of_kind(_KINDS[statement.what])
        _print_table(("name", "what it is"), [(each.name, _about(each)) for each in sorted(found, key=lambda each: each.name)])

    def _describe(self, statement: Describe, text: str) -> None:
        name = statement.name.name
        entry = self.session.catalog.find(name)
        if entry is None:
            near = self.session.catalog.near(name)
            raise SqlError("SQL-NAME", f"there is no {name!r}{near}", text, start_of(statement.name) or statement.start)
        out.print(f"{kind_of(entry)} {entry.name}: {_about(entry)}")
        fields = self._fields(entry)
        if fields is not None:
            rows = [(each.name, sql_type(each.type), "" if each.nullable else "NOT NULL") for each in fields]
            _print_table(("column", "type", ""), rows)

    def _fields(self, entry: Entry) -> Sequence[Field] | None:
        match entry:
            case Stream(schema=schema):
                return schema.fields
            case StaticTable(table=table):
                return table.schema.fields
            case NamedSink(schema=Schema() as schema):
                return schema.fields
            case View():
                return self._fields_of_view(entry)
        return None

    def _fields_of_view(self, view: View) -> Sequence[Field]:
        query = self.session.query("described", [Select(0, view.query)], view.text)
        known = {entry.name: entry.schema for entry in self.session.catalog.of_kind("stream") if isinstance(entry, Stream)}
        return _schema_of(query, known).fields


def _schema_of(query: Query, known: Mapping[str, Schema]) -> Schema:
    """What stands before the builder's next call."""
    schemas = {**known, **{stream.name: stream.schema for stream in query.streams}}
    for operator in query.operators:
        made = operator.output_schema(*(schemas[each] for each in operator.inputs))
        schemas |= dict.fromkeys(operator.branches, made)
    return schemas[query.current or ""]


def _about(entry: Entry) -> str:
    match entry:
        case Stream(event_time=None):
            return "its rows are stamped as they arrive"
        case Stream():
            parts = f", partitioned by {', '.join(entry.partitioned_by)}" if entry.partitioned_by else ""
            return f"event time {entry.event_time_column or 'computed'}, {(entry.disorder or 0) / 1e6:g} s of disorder{parts}"
        case StaticTable(table=table):
            return str(table.path)
        case View(query=query):
            return str(query.sql())
        case NamedSink(stream=stream, files=None):
            return f"the stream {stream!r}"
        case NamedSink(files=files):
            return f"files in {files.folder if files is not None else ''}"
        case NamedFunction(reference=reference, type=type_):
            return f"{reference}, {sql_type(type_)}"
    return ""


def _observed(placed: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Of each step of each operator what all its instances have counted; `ns a row`: CPU time by rows in."""
    steps: dict[tuple[str, str], list[int]] = {}
    for place in placed:
        for each in (place["metrics"] or {}).get("operators", ()):
            counted = steps.setdefault((each["name"], each["step"]), [0, 0, 0])
            counted[:] = [a + each[key] for a, key in zip(counted, ("rows_in", "rows_out", "cpu_ns"), strict=True)]
    return [
        (name, step, f"{rows_in:,}", f"{rows_out:,}", f"{cpu_ns / rows_in:,.0f}")
        for (name, step), (rows_in, rows_out, cpu_ns) in steps.items()
        if rows_in
    ]


def _line(values: Any) -> str:
    return " | ".join(_NULL if each is None else str(each) for each in values)


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        out.print("none")
        return
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def words_of(console: SqlConsole) -> list[str]:
    """What a shell completes: names of the catalogue, and their columns."""
    try:
        entries = list(console.refresh().catalog.entries.values())
    except CepError:
        return []
    columns = {field.name for entry in entries if isinstance(entry, Stream) for field in entry.schema.fields}
    return sorted({entry.name for entry in entries} | columns)
