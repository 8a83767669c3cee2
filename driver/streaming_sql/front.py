"""`sql("SELECT …", streams=[…])`: a query from a text, which the builder's methods continue."""

from __future__ import annotations

from collections.abc import Iterable

from cep.model.streams import Stream
from driver.builder.query import Query
from driver.streaming_sql.session import query_of, session_of


def sql(text: str, *, streams: Iterable[Stream] = (), known: Iterable[Stream] = (), name: str = "sql") -> Query:
    """The query that the statements of `text` make. docs/features/sql.md is the dialect.

    A SELECT's rows are what the next call of the builder reads: `sql("SELECT …", streams=[bids]).output("answers")`. INSERT INTO writes
    outputs itself.

    Args:
        text: CREATE and SET statements, if any, and one SELECT or some INSERT INTO, with semicolons between them.
        streams: declarations that it reads by name, as `stream` and `files` make them.
        known: likewise, of streams that the query is not to declare: the cluster has them, or another query puts them out.
        name: of the query.

    Raises:
        QueryError: what is wrong, where, and what to write instead (`driver.streaming_sql.errors.SqlError`).
    """
    return query_of(text, name, session_of(streams, known))[0]


def deployable(text: str, name: str, known: Iterable[Stream]) -> Query:
    """The same for a cluster that has the streams `known`; a SELECT's rows are its output `name`. Raises QueryError."""
    query = sql(text, known=known, name=name)
    return query if query.outputs else query.output(name)
