"""Which clients may ask, and how: what stands before every request to REST.

1. With a token, nothing is answered without it. A web page does not know it, so the rest of this is for clusters without one.
2. Without a token, every process that can reach the address may ask; it is on loopback (`check_exposure`). A web browser on this machine
can reach
   it on behalf of any page that it shows, so what a browser says about itself is heard:
   - `Host` names this machine: a loopback name or address, the address REST is bound to, or one of the configured names. A page whose own
     name has been pointed at 127.0.0.1 (DNS rebinding) brings its own name along.
   - `Origin`, if there is one, is the page of this very server (`/docs`), and `Sec-Fetch-Site` does not speak of another site. Only the
     page itself may be opened by a link from elsewhere.
3. What has a body says that it is JSON or YAML. A page of another site can send other types without asking first.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from cep.config import ClusterConfig
from cep.errors import ClusterError
from orchestrator.rest import problems

JSON_TYPES = ("application/json",)
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
PAGE = "/docs"
_LOCAL = "localhost"


class Guard:
    """Lets through only what may come in."""

    def __init__(self, app: ASGIApp, config: ClusterConfig) -> None:
        self._app, self._names = app, frozenset(map(str.lower, (config.rest_host, *config.rest_names)))
        self._expected = None if config.token is None else f"Bearer {config.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> ASGIApp | None:
        if self._expected is not None:
            if not hmac.compare_digest(headers.get("authorization", "").encode("latin-1"), self._expected):
                return _without_token()
        elif (foreign := self._foreign(scope, headers)) is not None:
            return problems.problem(403, foreign, "Forbidden")
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
        return name in self._names or name == _LOCAL or name.endswith(f".{_LOCAL}") or _is_loopback_address(name)


def check_exposure(config: ClusterConfig) -> None:
    """Raises ClusterError: REST would be open to other machines without a token, or its address is not known."""
    if config.token is None and not _is_loopback(config.rest_host):
        raise ClusterError(
            f"REST at {config.rest_host} can be reached from other machines: give the cluster a token, or bind it to 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ClusterError(f"REST address {host!r}: {error}") from error
    return all(_is_loopback_address(str(address).partition("%")[0]) for address in found)


def _is_loopback_address(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """A `Host` header without its port: `localhost`, `127.0.0.1`, `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _opens_page(scope: Scope, headers: Mapping[str, str]) -> bool:
    """A person has followed a link to the page, or its address."""
    return scope["method"] == "GET" and scope["path"] == PAGE and headers.get("sec-fetch-mode") == "navigate"


def _without_token() -> ASGIApp:
    answer = problems.problem(401, "this cluster needs its token: Authorization: Bearer TOKEN", "Unauthorized")
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _wrong_type(headers: Mapping[str, str]) -> str | None:
    """What is wrong with the type of a body; None: nothing, or there is no body."""
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return None
    given = media_type(headers)
    if given in JSON_TYPES + YAML_TYPES:
        return None
    return f"expected a body with 'Content-Type: application/json', or of a document application/yaml; got {given or 'none'!r}"


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()
