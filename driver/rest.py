"""The orchestrator's REST API as the driver calls it: JSON in, JSON out, problem documents as this project's errors."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx

from cep.errors import (
    CepError,
    ClusterError,
    Conflict,
    DataError,
    DiskFull,
    Forbidden,
    NotFound,
    PlacementError,
    QueryError,
    Unauthorized,
    meant,
)
from cep.service.tls import trusting, untrusted
from driver.orchestrators import Orchestrators, address_list
from driver.streams.background import Aside

TIMEOUT_S = 60.0  # for an answer of an orchestrator that takes our requests
PATIENCE_S = 15.0
"""How long an orchestrator may be out of reach before that is an error: one that was killed is back within this time."""
WORD_S = 1.0
"""Out of reach for so long, that is said while it is tried further, once: a program, and a person at a terminal, wait for something."""
_LOG = logging.getLogger(__name__)
_BY_NAME: dict[str, type[CepError]] = {
    kind.__name__: kind for kind in (Conflict, DataError, DiskFull, Forbidden, NotFound, PlacementError, Unauthorized)
}


def path(*names: str) -> str:
    """The address of something with these names, which may hold any character."""
    return "".join("/" + quote(name, safe="") for name in names)


class Unreachable(ClusterError):
    """No orchestrator answers at `url`, since `since`; `refused`: no process takes requests there, so its process has ended. `gone`: why it
    will not answer any more, where that is known."""

    def __init__(self, url: str, since: float, refused: bool, why: Exception, gone: str = "") -> None:
        broke_off = isinstance(why, httpx.NetworkError | httpx.RemoteProtocolError)
        silent = "broke a request off, which it may have obeyed" if broke_off else "takes requests and does not answer"
        if isinstance(why, httpx.RemoteProtocolError) and url.startswith("http:"):
            silent = "broke a request off; if it speaks TLS, its address begins with https://"
        what = "cannot be reached" if refused else silent
        super().__init__(gone or f"the orchestrator at {url} {what}, since {clock(since)} ({type(why).__name__}: {why})")
        self.url, self.since, self.refused = url, since, refused


def clock(when: float) -> str:
    """A time as messages have it, and how long ago that is; `when`: seconds since the epoch."""
    return f"{time.strftime('%H:%M:%S', time.localtime(when))}, {time.time() - when:.0f} s ago"


class Rest:
    """`url` is the orchestrator's, such as http://127.0.0.1:8080, or theirs, with commas. `aside` asks for callers that do not wait.

    An address of https:// is known by a certificate of the authority `ca`, a file; None: of one that this machine trusts.

    An orchestrator that is out of reach is tried again for `patience_s` seconds, of which a warning tells; one that takes a request has
    TIMEOUT_S to answer it.
    """

    def __init__(self, url: str, token: str | None = None, patience_s: float = PATIENCE_S, ca: str | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {_checked(token)}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
        self.url, self.patience_s = url, patience_s
        self.aside = Aside()
        self.gone: Callable[[], str] = lambda: ""  # why it will not answer any more; empty: it may
        self.away_since = 0.0  # by the clock; 0: its last word was an answer
        self._told_of = 0.0  # since when it was away as that was said last
        known: ssl.SSLContext | bool = (
            trusting(ca) if ca is not None or "https:" in url.lower() else False
        )  # no time for what is not needed
        way = Orchestrators(address_list(url), httpx.HTTPTransport(limits=limits, trust_env=False, verify=known))
        self.client = httpx.Client(base_url=address_list(url)[0], headers=headers, timeout=TIMEOUT_S, transport=way, trust_env=False)

    def get(self, path: str, timeout: float = TIMEOUT_S) -> Any:
        return self._call("GET", path, timeout=timeout)

    def post(self, path: str, document: Any = None, again: bool = False) -> Any:
        """`again`: obeyed twice it does what it does once, so that it may be sent again where the first has broken off."""
        return self._call("POST", path, again, json=document)

    def send(self, path: str, text: str, media_type: str) -> Any:
        """Posts a text as it is: YAML, JSON or SQL."""
        return self._call("POST", path, content=text.encode(), headers={"Content-Type": media_type})

    def put(self, path: str, document: Any) -> Any:
        return self._call("PUT", path, json=document)

    def delete(self, path: str, timeout: float = TIMEOUT_S) -> Any:
        return self._call("DELETE", path, timeout=timeout)

    def text(self, path: str) -> str:
        return str(self._answer("GET", path).text)

    def nearest(self, error: NotFound, listing: str, name: str) -> NotFound:
        """The same, with the name that may be meant of those at `listing`, as far as this client may see them."""
        try:
            names = [each["name"] for each in self.get(listing)]
        except CepError:
            return error
        return NotFound(f"{error}{meant(name, names)}")

    def close(self) -> None:
        self.aside.close()
        self.client.close()

    def _call(self, method: str, path: str, again: bool = False, **options: Any) -> Any:
        response = self._answer(method, path, again, **options)
        return response.json() if response.content else None

    def _answer(self, method: str, path: str, again: bool = False, **options: Any) -> httpx.Response:
        deadline, broke = time.monotonic() + self.patience_s, 0.0
        while not self.client.is_closed:
            asked = time.time()
            try:
                response = self.client.request(method, path, **options)
            except httpx.TransportError as broken:
                if (why := untrusted(broken, self.url)) is not None:
                    raise Untrusted(why) from None
                self.away_since = self.away_since or asked
                refused = isinstance(broken, httpx.ConnectError)
                if gone := self.gone():
                    raise Unreachable(self.url, self.away_since, True, broken, gone) from broken
                # Whether a request that broke off was obeyed is unknown; only what may be asked twice is.
                safe = again or refused or method in ("GET", "PUT", "DELETE")
                away = Unreachable(self.url, self.away_since, refused, broken)
                if not safe or time.monotonic() > deadline:
                    raise away from broken
                broke = broke or time.monotonic()
                if time.monotonic() - broke >= WORD_S:
                    self._say_once(away)
                time.sleep(0.1)
                continue
            self.away_since = 0.0
            if response.is_success:
                return response
            error = _error_of(response)
            if not isinstance(error, NotLeading) or time.monotonic() > deadline:
                raise error
            time.sleep(0.1)
        raise ClusterError(f"this client of {self.url} is closed")

    def _say_once(self, away: Unreachable) -> None:
        if self._told_of != away.since:
            self._told_of = away.since
            _LOG.warning("%s; it is tried again for up to %g s", away, self.patience_s)


class Untrusted(ClusterError):
    """The surroundings': whatever answers there does not show by TLS that it is the orchestrator, or does not speak TLS."""


class NotLeading(ClusterError):
    """That orchestrator stands by, or has just been started: asked again, it or another will answer."""


def _checked(token: str) -> str:
    """Raises ClusterError: that can be no token. It is not shown, for it may be one nearly."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ClusterError("the token has characters that no token has: a space, a line's end, or none of ASCII")
    return token


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
    kinds: dict[str, type[CepError]] = {**_BY_NAME, "NotLeading": NotLeading}
    return kinds.get(problem.get("error", ""), ClusterError)(detail)
