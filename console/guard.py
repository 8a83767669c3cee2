"""Who may open the console: what stands before every request and every WebSocket.

1. `Host` names this console and `Origin`, if there is one, is its own page: a page of another site, which a browser on this machine shows,
   gets nothing, nor does one whose name has been pointed at 127.0.0.1.
2. Where there is a secret, a browser shows it once, as `?secret=` or in the form at /login, and then a cookie that is made of it. There is
   one where the console has a token, for what it may do every process of the machine could otherwise have it do, and beyond loopback.
3. No answer loads anything from elsewhere, or may stand in a page of another site (`Content-Security-Policy`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cep.service.addresses import is_loopback_address
from console.settings import ConsoleConfig

COOKIE = "cep_console"
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'self'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
}
_FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><title>cep console</title>
<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}
body{font:14px system-ui;display:grid;place-items:center;height:90vh}form{display:grid;gap:8px;width:320px}
input,button{font:inherit;padding:6px 8px}</style>
<form method="post" action="/login"><label for="secret">The secret of this console, which it printed when it started</label>
<input id="secret" name="secret" type="password" autofocus autocomplete="current-password"><button>Open</button></form></html>"""
_FORM_BYTES_MAX = 10_000


class ConsoleGuard:
    """Lets through only what may come in. `secret`: None: whoever reaches the address may look."""

    def __init__(self, app: ASGIApp, config: ConsoleConfig, secret: str | None) -> None:
        self._app, self._config, self._secret = app, config, secret
        self._names = frozenset(map(str.lower, (config.host, "localhost", *config.names)))
        self._cookie = "" if secret is None else hashlib.sha256(b"cep console\0" + secret.encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        refused = self._foreign(scope) or (self._without_secret(scope) if self._secret is not None else None)
        if scope["type"] == "websocket":
            return await (_closed if refused is not None else self._app)(scope, receive, send)
        if self._secret is not None and scope["path"] == "/login" and self._foreign(scope) is None:
            refused = await self._login(Request(scope, receive))
        return await (refused or self._app)(scope, receive, _with_headers(send))

    def _foreign(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in self._names and not is_loopback_address(name):
            return PlainTextResponse(f"Host {host!r} is no name of this console; start it with --name {name!r}", 403)
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return PlainTextResponse("a page of another site may not ask this console", 403)
        return None

    def _without_secret(self, scope: Scope) -> Response | None:
        """None: it has shown it."""
        if hmac.compare_digest(_cookie_of(scope).encode(), self._cookie.encode()):
            return None
        shown = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("secret", [""])[0]
        if shown and self._is_secret(shown):
            return self._welcome(scope["path"])
        is_page = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        return RedirectResponse("/login", 303) if is_page else PlainTextResponse("this console wants its secret: /login", 401)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return HTMLResponse(_FORM)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _FORM_BYTES_MAX:
                return PlainTextResponse("too long", 413)
        shown = parse_qs(body.decode("utf-8", "replace")).get("secret", [""])[0]
        return self._welcome("/") if self._is_secret(shown) else HTMLResponse(_FORM, 403)

    def _is_secret(self, shown: str) -> bool:
        return self._secret is not None and hmac.compare_digest(shown.encode(), self._secret.encode())

    def _welcome(self, path: str) -> Response:
        answer = RedirectResponse(path if path.startswith("/") and not path.startswith("//") else "/", 303)
        answer.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict", secure=self._config.tls_cert is not None)
        return answer


def _cookie_of(scope: Scope) -> str:
    try:
        found = SimpleCookie(Headers(scope=scope).get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _closed(scope: Scope, receive: Receive, send: Send) -> None:
    """A WebSocket that is refused."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})


def _with_headers(send: Send) -> Callable[[MutableMapping[str, Any]], Any]:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
