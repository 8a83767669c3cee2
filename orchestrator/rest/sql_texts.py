"""A text of SQL in place of a query's document: it is bound over the streams that the cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from cep.errors import ProtocolError, QueryError
from cep.model import streams as stream_documents
from cep.model.query import Query
from orchestrator.rest import views
from orchestrator.rest.api import Api
from orchestrator.rest.guard import SQL_TYPES, media_type

TEXT_BYTES_MAX = 256 << 10
"""Binding takes some milliseconds for each kilobyte."""


def is_sql(request: Request) -> bool:
    return media_type(request.headers) in SQL_TYPES


async def query_of_text(request: Request, api: Api, name: str | None) -> Query:
    """The query that the body makes, called `name`; a SELECT's rows are its output of that name. Raises QueryError: where it is wrong, and
    what to write instead; HTTPException: it is too long."""
    body = await request.body()
    if len(body) > TEXT_BYTES_MAX:
        raise HTTPException(413, f"{len(body):,} bytes of SQL, expected at most {TEXT_BYTES_MAX:,}")
    if not name:
        raise QueryError("a text of SQL does not name its query: POST /queries?name=NAME", "/name")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the text is not UTF-8: {error.reason}") from None
    known = await api.ask(views.streams)
    return await run_in_threadpool(_bound, text, name, known)


def _bound(text: str, name: str, known: Iterable[Mapping[str, Any]]) -> Query:
    """Loads the parser when it is first needed: most clusters never do."""
    front = import_module("driver.streaming_sql.front")
    try:
        query: Query = front.deployable(text, name, [stream_documents.of_listing(each) for each in known]).value()
    except QueryError as error:
        raise QueryError(error.message, error.pointer) from None  # its kind is of another package, and clients know kinds of errors
    return query
