"""What connectors that are declared ask of the streams that they take: the columns that a sink names, and rows that its format can hold.
Whoever deploys a query, alone or with others, is held to it where its plan is made (`orchestrator.deploying`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cep.errors import QueryError, meant
from cep.model.query import Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.validate import validate
from connectors.documents import Described, WrongDocument, described
from orchestrator.state.connectors import ConnectorRecord


def checked_document(found: Any) -> Described:
    """Raises QueryError."""
    try:
        return described(found)
    except WrongDocument as wrong:
        raise QueryError(str(wrong), wrong.pointer) from None


def check_columns(found: Described, schema: Schema | None) -> None:
    """Raises QueryError: an option of a sink names a column that its stream has not, or its format cannot hold the stream's rows. None:
    nothing is known of the stream yet."""
    if schema is None:
        return
    for option, column in found.options.wanted_columns():
        if column not in schema.names:
            known = f"{meant(column, schema.names)}; it has {', '.join(schema.names)}"
            raise QueryError(f"{option}: stream {found.stream!r} has no column {column!r}{known}", f"/to/{option}")
    try:
        found.check_rows(schema.arrow)
    except ValueError as error:
        raise QueryError(f"format: stream {found.stream!r}: {error}", "/to/format") from None


def check_sinks(records: Iterable[ConnectorRecord], query: Query, known: Callable[[], Mapping[str, Stream]]) -> None:
    """`known`: the streams that it may read, which is asked for where there is such a sink. Raises QueryError: a sink that is declared
    already cannot have the rows of an output of the query."""
    streams = {output.stream for output in query.outputs}
    declared = [each for each in records if "to" in each.document and each.document["stream"] in streams]
    if not declared:
        return
    schemas = validate(query, known()).schemas
    for record in sorted(declared, key=lambda each: each.name):
        try:
            check_columns(checked_document(record.document), schemas[record.document["stream"]])
        except QueryError as error:
            raise QueryError(f"connector {record.name!r}: {error.message}") from None
