"""The bodies of requests: how long each may be, and how they become values without holding up what else the server does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from cep.errors import ProtocolError
from cep.service.documents import DOCUMENT_BYTES_MAX, LIST_BYTES_MAX, YAML_BYTES_MAX, read_json, read_yaml
from orchestrator.rest.guard import YAML_TYPES, media_type

SMALL_BYTES = 4096
"""Such a document is read at once, in some tenth of a millisecond."""

_LISTS = ("/queries:bulk", "/queries:wait", "/publishers", "/publishers:close", "/streams:producers")
_READERS = anyio.CapacityLimiter(2)  # threads that read: the others of this process want the interpreter too


def bytes_max(path: str) -> int:
    """The size that the body of a request to `path` may have."""
    many = path in _LISTS or (path.startswith("/streams/") and path.endswith("/records"))
    return LIST_BYTES_MAX if many else DOCUMENT_BYTES_MAX


async def document(request: Request) -> Any:
    """The body as a value. Raises ProtocolError: it is neither JSON nor YAML, as its content type says; HTTPException: it is too long."""
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


def json_only(request: Request) -> None:
    """Raises HTTPException: the body is YAML, and not a document of a query or a stream."""
    if media_type(request.headers) in YAML_TYPES:
        raise HTTPException(415, "expected 'Content-Type: application/json'; only documents of queries and streams may be YAML")


class DocumentRoute(APIRoute):
    """A route whose body, if a model takes it, is read as all documents are."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        models_read = self.body_field is not None

        async def read(request: Request) -> Response:
            if models_read:
                json_only(request)
            return await handle(_Request(request.scope, request.receive))

        return read


class _Request(Request):
    async def json(self) -> Any:
        return await document(self)
