"""Errors as RFC 9457 problem details; those of a document point into it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from cep.errors import (
    CepError,
    ClusterError,
    Conflict,
    DataError,
    DiskFull,
    Forbidden,
    NotFound,
    PlacementError,
    ProtocolError,
    QueryError,
    QueryFailed,
    QueryStopped,
    StreamEnded,
    TooLarge,
    Unauthorized,
)
from orchestrator.service import NotLeading

MEDIA_TYPE = "application/problem+json"

DETAIL_CHARS_MAX = 4000
"""An error that shows a document shows its beginning."""

STATUS: tuple[tuple[type[CepError], HTTPStatus], ...] = (
    (QueryError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DataError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ProtocolError, HTTPStatus.BAD_REQUEST),
    (Unauthorized, HTTPStatus.UNAUTHORIZED),
    (Forbidden, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Conflict, HTTPStatus.CONFLICT),
    (PlacementError, HTTPStatus.CONFLICT),
    (QueryFailed, HTTPStatus.CONFLICT),
    (QueryStopped, HTTPStatus.CONFLICT),
    (StreamEnded, HTTPStatus.GONE),
    (DiskFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (ClusterError, HTTPStatus.SERVICE_UNAVAILABLE),
)


class Problem(BaseModel):
    """What is wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str = Field(examples=["Unprocessable Entity"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["operator 'pick' reads 'visit', which is no operator and no stream"])
    error: str = Field(description="The kind of error, as in `cep.errors`.", examples=["QueryError"])
    pointer: str | None = Field(None, description="Where in the document sent (RFC 6901).", examples=["/operators/0/input"])
    leader: str | None = Field(None, description="Where the leading orchestrator answers, if this one does not lead.")


def problem(status: int, detail: str, error: str, **more: Any) -> JSONResponse:
    """The answer."""
    return _answer(Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, error=error, **more))


def peer_problem(error: str, detail: str, pointer: str | None = None) -> JSONResponse:
    """What another process of the cluster met."""
    kinds = {kind.__name__: status for kind, status in STATUS} | {
        "TooMuch": HTTPStatus.TOO_MANY_REQUESTS,
        "Slow": HTTPStatus.TOO_MANY_REQUESTS,
    }
    return problem(kinds.get(error, HTTPStatus.SERVICE_UNAVAILABLE), detail, error, pointer=pointer)


def refusal(status: int, detail: str) -> JSONResponse:
    """The answer to what has not come as far as a route."""
    return problem(status, detail, "".join(HTTPStatus(status).phrase.title().split()))


def _answer(body: Problem) -> JSONResponse:
    status = body.status
    headers = {"Retry-After": "1"} if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS) else None
    body.detail = body.detail if len(body.detail) <= DETAIL_CHARS_MAX else f"{body.detail[:DETAIL_CHARS_MAX]}…"
    return JSONResponse(body.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Has the application answer with problems."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[JSONResponse]]] = {
        CepError: _of_ours,
        RequestValidationError: _of_parameters,
        HTTPException: _of_http,
        Exception: _of_a_bug,
    }
    for error, handler in handlers.items():
        app.add_exception_handler(error, handler)


def cause_of(error: Exception) -> Exception:
    """What an answer tells of: a document that cannot be read comes wrapped from FastAPI."""
    return error.__cause__ if isinstance(error, HTTPException) and isinstance(error.__cause__, CepError) else error


def status_of(error: Exception) -> int:
    """With which an answer says of it."""
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, RequestValidationError):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    return next((status for kind, status in STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def problem_of(error: CepError) -> Problem:
    """One of our errors as a problem, for an answer that holds several."""
    status = HTTPStatus(status_of(error))
    more: dict[str, Any] = {"pointer": error.pointer} if isinstance(error, QueryError) else {}
    more |= {"leader": error.leader} if isinstance(error, NotLeading) else {}
    return Problem(title=status.phrase, status=status, detail=str(error), error=type(error).__name__, **more)


async def _of_ours(request: Request, error: CepError) -> JSONResponse:
    return _answer(problem_of(error))


async def _of_parameters(request: Request, error: RequestValidationError) -> JSONResponse:
    """A parameter or a body that is not of the declared shape: the first thing that is wrong."""
    first = error.errors()[0]
    place, *path = first["loc"]
    where = "/" + "/".join(map(str, path)) if place == "body" and path else None
    what = "" if place == "body" else f"{place} parameter {path[0] if path else ''!r}: "
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{what}{first['msg']}", "QueryError", pointer=where)


async def _of_http(request: Request, error: HTTPException) -> JSONResponse:
    if isinstance(cause := cause_of(error), CepError):
        return _answer(problem_of(cause))
    answer = problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}", "HTTPException")
    answer.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return answer


def _methods(request: Request) -> set[str]:
    """All with which its path may be asked for; a router says those of one of its routes."""
    there = (route for route in _routes(request.app.routes) if route.matches(request.scope)[0] is not Match.NONE)
    return {method for route in there for method in route.methods or ()}


def _routes(found: Iterable[BaseRoute]) -> Iterator[Route]:
    for route in found:
        if isinstance(route, Route):
            yield route
        elif (included := getattr(route, "original_router", None)) is not None:  # as newer versions of FastAPI list one
            yield from _routes(included.routes)


async def _of_a_bug(request: Request, error: Exception) -> JSONResponse:
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}", "InternalError")
