"""REST for small clients that publish and subscribe: requests forwarded to the gateway, a process that has a data plane.

The orchestrator holds no publisher and no subscription itself: its death would close them.
"""

from __future__ import annotations

from typing import Any

import httpx

from cep.errors import ClusterError

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=8)
_PATIENCE_S = 90.0
"""Longer than the gateway takes for an answer: a long-poll of 60 s, or twice 30 s for rows."""


class GatewayProxy:
    """Forwards over the Unix socket `path`; None: there is no gateway."""

    def __init__(self, path: str | None) -> None:
        transport = None if path is None else httpx.AsyncHTTPTransport(uds=path, limits=_LIMITS)
        self._client = None if transport is None else httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=_PATIENCE_S)

    async def ask(
        self, method: str, path: str, parameters: dict[str, Any], body: bytes | None = None, shown: str | None = None
    ) -> tuple[int, bytes]:
        """Status and answer, both JSON; a problem has `error` and `detail`. `shown`: what the client has as `Authorization`.

        Raises ClusterError: there is no gateway, or it is silent.
        """
        if self._client is None:
            raise ClusterError("this orchestrator was started without a gateway: publish and subscribe with the driver")
        headers = {} if shown is None else {"Authorization": shown}
        try:
            response = await self._client.request(method, path, params=parameters, content=body, headers=headers)
        except httpx.TransportError as error:
            raise ClusterError(f"the gateway does not answer: {type(error).__name__}: {error}") from error
        return response.status_code, response.content
