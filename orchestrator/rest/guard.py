"""Which clients may ask, and how: what stands before every request to REST.

1. With tokens, nothing is answered without one, but that it lives (`/health`). What is said then does not depend on what there is. A web
   page does not know them, so the next rule is for clusters without. Which roles a token needs, each route says (`roles.py`).
2. Without tokens, every process that can reach the address may ask; it is on loopback (`cep.service.exposure`). A web browser on this
   machine can reach it on behalf of any page that it shows, so what a browser says about itself is heard:
   - `Host` names this machine: a loopback name or address, the address REST is bound to, or one of the configured names. A page whose own
     name has been pointed at 127.0.0.1 (DNS rebinding) brings its own name along.
   - `Origin`, if there is one, is the page of this very server (`/docs`), and `Sec-Fetch-Site` does not speak of another site. Only the
     page itself may be opened by a link from elsewhere.
3. What has a body says that it is JSON, YAML or SQL. A page of another site can send other types without asking first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from cep.config import ClusterConfig
from cep.service.addresses import is_loopback_address
from cep.service.token_file import Tokens
from orchestrator.rest import problems
from orchestrator.rest.client import note_client
from orchestrator.rest.roles import OPEN

JSON_TYPES = ("application/json",)
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
PAGE = "/docs"
ROW_TYPES = ("application/x-ndjson", "application/vnd.apache.arrow.stream")
SQL_TYPES = ("text/sql", "application/sql")
_LOCAL = "localhost"


SCOPE = "cep.access"
"""Where a request's `Access` is in its scope; None: it has shown no token."""


class Guard:
    """Lets through only what may come in, and notes whose it is. `on_wrong`: is told the address that a wrong token came from, and the
    path that it was for."""

    def __init__(
        self, app: ASGIApp, config: ClusterConfig, tokens: Tokens, on_wrong: Callable[[str, str], None] = lambda address, path: None
    ) -> None:
        self._on_wrong = on_wrong
        self._app, self._names = app, frozenset(map(str.lower, (config.rest_host, *config.rest_names)))
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> ASGIApp | None:
        presented = bearer(headers)
        scope[SCOPE] = access = self._tokens.access(presented)
        if access is None and (presented is not None or scope["path"] not in OPEN):
            if presented is not None:
                self._on_wrong((scope.get("client") or ("",))[0], scope["path"])
            return _without_token()
        if not self._tokens.are_asked_for and (foreign := self._foreign(scope, headers)) is not None:
            return problems.problem(403, foreign, "Forbidden")
        if access is not None:
            note_client(scope, access.name)
        return problems.problem(415, wrong, "UnsupportedMediaType") if (wrong := _wrong_type(headers)) else None

    def _foreign(self, scope: Scope, headers: Mapping[str, str]) -> str | None:
        """Why this comes from elsewhere; None: it does not, as far as we hear."""
        host, origin, site = headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site", "none")
        if not self._is_here(host):
            return f"Host {host!r} is no name of this cluster; ask for localhost, or start it with --rest-name {_name_of(host)!r}"
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host.lower()}":
            return f"a page of {origin!r} may not ask this cluster; give it a token, and to the pages that may"
        if site not in ("same-origin", "none") and not _opens_page(scope, headers):
            return "a page of another site may not ask this cluster; give it a token, and to the pages that may"
        return None

    def _is_here(self, host: str) -> bool:
        name = _name_of(host)
        return name in self._names or name == _LOCAL or name.endswith(f".{_LOCAL}") or is_loopback_address(name)


def _name_of(host: str) -> str:
    """A `Host` header without its port: `localhost`, `127.0.0.1`, `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _opens_page(scope: Scope, headers: Mapping[str, str]) -> bool:
    """A person has followed a link to the page, or its address."""
    return scope["method"] == "GET" and scope["path"] == PAGE and headers.get("sec-fetch-mode") == "navigate"


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token that a request shows; None: it shows none. What is not a token's header is a token that no cluster has."""
    shown = headers.get("authorization")
    if shown is None:
        return None
    scheme, _, token = shown.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _without_token() -> ASGIApp:
    answer = problems.problem(401, "this cluster needs its token: Authorization: Bearer TOKEN", "Unauthorized")
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _wrong_type(headers: Mapping[str, str]) -> str | None:
    """What is wrong with the type of a body; None: nothing, or there is no body."""
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return None
    given = media_type(headers)
    if given in JSON_TYPES + YAML_TYPES + SQL_TYPES + ROW_TYPES:
        return None
    return f"expected a body with 'Content-Type: application/json', or application/yaml, of a query also text/sql; got {given or 'none'!r}"


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
