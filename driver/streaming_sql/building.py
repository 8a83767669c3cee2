"""The query as it grows: operators, the streams they read, outputs. Names of operators are what they are made of: `where`, `group_2`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cep.errors import QueryError
from cep.model import operator_documents
from cep.model.expr import ColumnRef, Expr, check_nested
from cep.model.functions import row_number
from cep.model.operators import Map, Operator, Over
from cep.model.query import Output
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import TrailingWindow
from driver.streaming_sql.catalog import SqlCatalog
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.relation import RANK, Relation, SqlColumn, plain_columns, same

Make = Callable[[str], Operator]
ROW = TrailingWindow(None, 1)
"""Of OVERs that no frame binds."""


class Building:
    """A query under construction; `text`s of views and statements add to one."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self.known = catalog.known
        self.streams: dict[str, Stream] = {}
        self.operators: list[Operator] = []
        self.outputs: list[Output] = []
        self.schemas: dict[str, Schema] = {}
        self._made: dict[str, str] = {}  # an operator's document without its name -> its name
        #: By id, a query of WITH or of a view, and what it was bound to; it is kept, so that the id stays its own.
        self._bound: dict[int, tuple[object, Relation]] = {}

    def read(self, stream: Stream) -> str:
        """The name of a stream that is read."""
        if stream.name.casefold() not in self.known:
            self.streams.setdefault(stream.name, stream)
        self.schemas[stream.name] = stream.schema
        return stream.name

    def once(self, query: object, bind: Callable[[], Relation]) -> Relation:
        """What it was bound to; however often it is read: one that reads the one before twice would double the work with each."""
        if id(query) not in self._bound:
            self._bound[id(query)] = query, bind()
        return self._bound[id(query)][1]

    def add(self, kind: str, make: Make, text: str, start: int, fresh: bool = False) -> str:
        """Adds what `make` makes of a free name that begins with `kind`; what is there already, of a WITH that is read twice for one, is
        not made again, unless `fresh`. Raises SqlError: the engine refuses it."""
        name, number = kind, 1
        while name in self.schemas or any(each.name == name for each in self.operators):
            number += 1
            name = f"{kind}_{number}"
        try:
            operator = make(name)
            schema = operator.output_schema(*(self.schemas[each] for each in operator.inputs))
            document = operator_documents.to_json(operator)
            _check_depth(document, text, start)
        except SqlError:
            raise
        except QueryError as error:
            message = error.message.removeprefix(f"operator {name!r}").lstrip(":, ")
            raise SqlError("SQL-QUERY", message, text, start) from None
        except RecursionError:
            raise SqlError("SQL-DEPTH", "operations are too deep inside each other", text, start) from None
        written = json.dumps(document | {"name": ""}, sort_keys=True)
        if written in self._made and not fresh:
            return self._made[written]
        self._made[written] = name
        self.operators.append(operator)
        self.schemas[name] = schema
        return name

    def branched(self, at: str, branch: str) -> str:
        """The name of a branch (a flag, too) that a pattern which is there has from now on."""
        index, described = next((i, each) for i, each in enumerate(self.operators) if each.name == at)
        pattern: Any = described
        self.operators[index] = replace(pattern, **{branch: True})
        for full in self.operators[index].in_full():
            self.schemas.setdefault(full.name, full.output_schema(*(self.schemas[each] for each in full.inputs)))
        return f"{at}.{branch}"

    def mapped(self, kind: str, at: str, fields: tuple[tuple[str, Expr], ...], text: str, start: int, fresh: bool = False) -> str:
        """All columns as they are and some more behind them are said so, as the builder's `with_columns` says it."""
        names = self.schemas[at].names
        others = len(fields) > len(names) and all(
            named == name and same(expr, ColumnRef(name)) for (named, expr), name in zip(fields, names, strict=False)
        )
        new = fields[len(names) :] if others else fields
        return self.add(kind, lambda name: Map(name, at, new, others), text, start, fresh)

    def materialised(self, relation: Relation, text: str, start: int, always: bool = False) -> Relation:
        """The relation with its columns as an operator's, under their names."""
        relation = self.numbered(relation, text, start)
        if relation.is_plain and not always:
            return relation
        fields = tuple((each.name, of_row(each, text, start)) for each in relation.columns)
        at = self.mapped("select", relation.at, fields, text, start, always)
        columns = tuple(SqlColumn(each.name, ColumnRef(each.name), each.of, each.kind) for each in relation.columns)
        time = next((ColumnRef(each.name) for each in relation.columns if same(each.expr, relation.time)), None)
        made = replace(relation, at=at, schema=self.schemas[at], columns=columns, time=time)
        return replace(made, partition=None, rank=None)

    def numbered(self, relation: Relation, text: str, start: int) -> Relation:
        """The relation with a ROW_NUMBER that goes by event time as a column of its operator."""
        rank = relation.rank
        if rank is None or not rank.counted:
            return relation
        field = free("rank", relation.schema.names)
        functions = ((field, row_number()),)
        at = self.add("number", lambda name: Over(name, relation.at, ROW, rank.by, functions, rank.ttl), text, start)
        columns = tuple(replace(each, expr=ColumnRef(field), kind="") if each.kind == RANK else each for each in relation.columns)
        return replace(relation, at=at, schema=self.schemas[at], columns=columns, rank=None)

    def with_columns(self, kind: str, relation: Relation, computed: list[tuple[str, Expr]], text: str, start: int) -> Relation:
        """The relation whose operator has these fields too, behind all that it has."""
        if not computed:
            return relation
        at = self.add(kind, lambda name: Map(name, relation.at, tuple(computed), keep_others=True), text, start)
        return _moved(relation, at, self.schemas[at])


def _check_depth(document: Any, text: str, start: int) -> None:
    try:
        check_nested(document, "")
    except QueryError as error:
        raise SqlError("SQL-DEPTH", error.message, text, start) from None


def _moved(relation: Relation, at: str, schema: Schema) -> Relation:
    return replace(relation, at=at, schema=schema)


def of_row(column: SqlColumn, text: str, start: int) -> Expr:
    """Raises SqlError: the column has no value in a row."""
    if column.expr is not None:
        return column.expr
    start = column.start if column.start >= 0 else start
    if column.kind == RANK:
        raise SqlError("SQL-ROW-NUMBER", f"{column.name}, a ROW_NUMBER without a bound", text, start)
    raise SqlError("SQL-WINDOW-ROWS", f"the {column.name} of a row", text, start)


def free(wanted: str, taken: object) -> str:
    """`wanted`, or it with a number, that is not in `taken`."""
    names = set(taken)  # type: ignore[call-overload]
    number, name = 1, wanted
    while name in names:
        number += 1
        name = f"{wanted}_{number}"
    return str(name)


def of_stream(stream: Stream, at: str, alias: str) -> Relation:
    time = stream.event_time
    return Relation(at, stream.schema, plain_columns(stream.schema, alias), time)
