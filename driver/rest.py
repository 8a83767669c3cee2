"""The orchestrator's REST API as the driver calls it: JSON in, JSON out, problem documents as this project's errors."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import httpx

from cep.errors import CepError, ClusterError, Conflict, DataError, NotFound, PlacementError, QueryError

TIMEOUT_S = 60.0
PATIENCE_S = 20.0  # an orchestrator that was killed is back within this time
_BY_NAME: dict[str, type[CepError]] = {kind.__name__: kind for kind in (Conflict, DataError, NotFound, PlacementError)}


def path(*names: str) -> str:
    """The address of something with these names, which may hold any character."""
    return "".join("/" + quote(name, safe="") for name in names)


class Rest:
    """`url` is the orchestrator's, such as http://127.0.0.1:8080."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
        self.url = url
        self.client = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, limits=limits, trust_env=False)

    def get(self, path: str, timeout: float = TIMEOUT_S) -> Any:
        return self._call("GET", path, timeout=timeout)

    def post(self, path: str, document: Any = None) -> Any:
        return self._call("POST", path, json=document)

    def put(self, path: str, document: Any) -> Any:
        return self._call("PUT", path, json=document)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path)

    def text(self, path: str) -> str:
        return str(self._answer("GET", path).text)

    def close(self) -> None:
        self.client.close()

    def _call(self, method: str, path: str, **options: Any) -> Any:
        response = self._answer(method, path, **options)
        return response.json() if response.content else None

    def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_S
        while not self.client.is_closed:
            try:
                response = self.client.request(method, path, **options)
            except httpx.TransportError as broken:
                # Whether a request that broke off was obeyed is unknown; only what may be asked twice is.
                safe = method in ("GET", "PUT", "DELETE") or isinstance(broken, httpx.ConnectError)
                if not safe or time.monotonic() > deadline:
                    raise ClusterError(f"the orchestrator at {self.url} does not answer: {type(broken).__name__}: {broken}") from broken
                time.sleep(0.1)
                continue
            if response.is_success:
                return response
            error = _error_of(response)
            if not isinstance(error, NotLeading) or time.monotonic() > deadline:
                raise error
            time.sleep(0.1)
        raise ClusterError(f"this client of {self.url} is closed")


class NotLeading(ClusterError):
    """That orchestrator stands by, or has just been started: asked again, it or another will answer."""


def _error_of(response: httpx.Response) -> CepError:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    problem.setdefault("detail", f"HTTP {response.status_code}: {response.text[:200]}")
    return error_of(problem)


def error_of(problem: dict[str, Any]) -> CepError:
    """The error that a problem document tells of."""
    detail = problem["detail"]
    if problem.get("error") == "QueryError":
        return QueryError(detail, problem.get("pointer") or "")
    kinds = {**_BY_NAME, "NotLeading": NotLeading}
    return kinds.get(problem.get("error", ""), ClusterError)(detail)
