"""REST for small clients that publish and subscribe: requests forwarded to the gateway, a process that has a data plane.

The orchestrator holds no publisher and no subscription itself: its death would close them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from anyio import CancelScope
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cep.errors import ClusterError

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=8)
_PATIENCE_S = 90.0
"""Longer than the gateway takes for an answer: a long-poll of 60 s, or twice 30 s for rows."""


class GatewayProxy:
    """Forwards over the Unix socket `path`; None: there is no gateway."""

    def __init__(self, path: str | None) -> None:
        # No TLS is spoken over a socket of this machine, and to read whom the machine trusts takes longer than all else here.
        transport = None if path is None else httpx.AsyncHTTPTransport(uds=path, limits=_LIMITS, verify=False)
        self._client = None if transport is None else httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=_PATIENCE_S)

    async def ask(
        self,
        method: str,
        path: str,
        parameters: dict[str, Any],
        body: bytes | None = None,
        shown: str | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> tuple[int, bytes]:
        """Status and answer, both JSON; a problem has `error` and `detail`. `shown`: what the client has as `Authorization`.

        Raises ClusterError: there is no gateway, or it is silent.
        """
        told = {name: value for name, value in {"Authorization": shown, **(headers or {})}.items() if value is not None}
        response = await self._sent(method, path, False, params=parameters, content=body, headers=told)
        return response.status_code, response.content

    async def open(self, path: str, parameters: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        """An answer that goes on and on, which the caller reads and closes. Raises ClusterError."""
        return await self._sent("GET", path, True, params=parameters, headers=headers)

    async def _sent(self, method: str, path: str, stream: bool, **options: Any) -> httpx.Response:
        if self._client is None:
            raise ClusterError("this orchestrator was started without a gateway: publish and subscribe with the driver")
        try:
            return await self._client.send(self._client.build_request(method, path, **options), stream=stream)
        except httpx.TransportError as error:
            raise ClusterError(f"the gateway does not answer: {type(error).__name__}: {error}") from error


class PassedOn(StreamingResponse):
    """What the gateway sends, as it comes. Where the gateway breaks off, so does this: a client never takes that for the end."""

    def __init__(self, answer: httpx.Response) -> None:
        kept = {name: answer.headers[name] for name in ("content-type", "cache-control") if name in answer.headers}
        super().__init__(self._chunks(), answer.status_code, kept)
        self.answer = answer

    async def _chunks(self) -> AsyncIterator[bytes]:
        whole = True  # the last event is
        try:
            async for chunk in self.answer.aiter_raw():
                whole = chunk.endswith(b"\n\n")
                yield chunk
        except httpx.TransportError as error:
            if not whole:
                raise
            detail = f"the gateway has broken off: {type(error).__name__}: {error}"
            yield f"event: error\ndata: {json.dumps({'error': 'ClusterError', 'detail': detail})}\n\n".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await self.answer.aclose()
