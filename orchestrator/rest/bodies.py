"""The bodies of requests: how long each may be, and how they become values without holding up what else the server does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope

from cep.errors import ProtocolError, Unauthorized
from cep.service.access import Access
from cep.service.documents import DOCUMENT_BYTES_MAX, LIST_BYTES_MAX, YAML_BYTES_MAX, read_json, read_yaml
from orchestrator.rest import problems
from orchestrator.rest.guard import ROW_TYPES, SCOPE, SQL_TYPES, YAML_TYPES, media_type
from orchestrator.rest.roles import Need, needed
from orchestrator.service import NotLeading

SMALL_BYTES = 4096
"""Such a document is read at once, in some tenth of a millisecond."""

_LISTS = ("/queries:bulk", "/queries:wait", "/publishers", "/publishers:close", "/streams:producers", "/connectors:work")
_READERS = anyio.CapacityLimiter(2)  # threads that read: the others of this process want the interpreter too


def bytes_max(path: str) -> int:
    """The size that the body of a request to `path` may have."""
    many = path in _LISTS or (path.startswith("/streams/") and path.endswith("/records"))
    return LIST_BYTES_MAX if many else DOCUMENT_BYTES_MAX


async def document(request: Request) -> Any:
    """The body as a value. Raises ProtocolError: it is neither JSON nor YAML, as its content type says; HTTPException: it is too long."""
    _no_sql(request)
    body = await request.body()
    is_yaml = media_type(request.headers) in YAML_TYPES
    if is_yaml and len(body) > YAML_BYTES_MAX:
        raise HTTPException(413, f"{len(body):,} bytes of YAML, expected at most {YAML_BYTES_MAX:,}; JSON may be longer")
    read = read_yaml if is_yaml else read_json
    try:
        if len(body) <= SMALL_BYTES:
            return read(body)
        return await anyio.to_thread.run_sync(read, body, limiter=_READERS)
    except ValueError as error:
        raise ProtocolError(f"the document cannot be read: {error}") from None


def json_only(request: Request, rows: bool = False) -> None:
    """Raises HTTPException: the body is YAML, and not a document of a query or a stream; or SQL; or `rows` of another kind than JSON, where
    none are expected."""
    _no_sql(request, rows)
    if media_type(request.headers) in YAML_TYPES:
        raise HTTPException(415, "expected 'Content-Type: application/json'; only documents of queries and streams may be YAML")


def _no_sql(request: Request, rows: bool = False) -> None:
    if not rows and media_type(request.headers) in ROW_TYPES:
        raise HTTPException(415, "expected 'Content-Type: application/json'; lines of JSON and Arrow go to POST /streams/NAME/records")
    if media_type(request.headers) in SQL_TYPES:
        raise HTTPException(
            415, "expected a document, 'Content-Type: application/json'; a text of SQL goes to POST /queries and POST /explain"
        )


_Handle = Callable[[Request], Coroutine[Any, Any, Response]]


class DocumentRoute(APIRoute):
    """A route that answers those that have the role it needs, and whose body, if a model takes it, is read as all documents are. Raises
    KeyError where it is made: the table of roles does not have it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        models_read = self.body_field is not None
        needs = {method: needed(method, self.path_format) for method in self.methods or ()}

        async def read(request: Request) -> Response:
            need = needs[request.method]
            if need.audited:
                return await _audited(request, need, handle, models_read)
            return await _admitted(request, need, handle, models_read)

        return read


async def _admitted(request: Request, need: Need, handle: _Handle, models_read: bool) -> Response:
    if not need.open:
        need.check(access_of(request), request.path_params)
    if models_read:
        json_only(request)
    return await handle(_Request(request.scope, request.receive, need))


async def _audited(request: Request, need: Need, handle: _Handle, models_read: bool) -> Response:
    """What only stands by decides nothing, and notes nothing: another is asked next."""
    status, error = 499, None  # as nginx has it: the client has gone
    try:
        answer = await _admitted(request, need, handle, models_read)
        status = answer.status_code
        return answer
    except Exception as wrong:
        error = problems.cause_of(wrong)
        status = problems.status_of(error)
        raise
    finally:
        if not isinstance(error, NotLeading):
            request.app.state.api.audit.note(access_of(request), request, need.audited, status, error)


def access_of(request: Request) -> Access:
    """Whoever asks. The guard has let it in."""
    access: Access | None = request.scope[SCOPE]
    if access is None:
        raise Unauthorized("this needs a token")  # a route that is open, and asks for it all the same
    return access


class _Request(Request):
    def __init__(self, scope: Scope, receive: Receive, need: Need) -> None:
        super().__init__(scope, receive)
        self._need = need

    async def json(self) -> Any:
        found = await document(self)
        self._need.check_body(access_of(self), found)
        return found
