"""What connectors that are declared ask of the streams that they take: the columns that a sink names. Whoever deploys a query, alone or
with others, is held to it where its plan is made (`orchestrator.deploying`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cep.errors import QueryError, meant
from cep.model.query import Query
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


def check_columns(found: Described, there: Sequence[str] | None) -> None:
    """Raises QueryError: an option of a sink names a column that its stream has not. None: nothing is known of the stream yet."""
    for option, column in found.options.wanted_columns():
        if there is not None and column not in there:
            known = f"{meant(column, there)}; it has {', '.join(there)}"
            raise QueryError(f"{option}: stream {found.stream!r} has no column {column!r}{known}", f"/to/{option}")


def check_sinks(records: Iterable[ConnectorRecord], query: Query, known: Callable[[], Mapping[str, Stream]]) -> None:
    """`known`: the streams that it may read, which is asked for where there is such a sink. Raises QueryError: a sink that is declared
    already names a column that an output of the query has not."""
    streams = {output.stream for output in query.outputs}
    declared = [each for each in records if "to" in each.document and each.document["stream"] in streams]
    if not declared:
        return
    schemas = validate(query, known()).schemas
    for record in sorted(declared, key=lambda each: each.name):
        try:
            check_columns(checked_document(record.document), schemas[record.document["stream"]].names)
        except QueryError as error:
            raise QueryError(f"connector {record.name!r}: {error.message}") from None
