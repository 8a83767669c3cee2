"""How many requests a second a client may make: what is above it is answered 429, and when to ask again.

A client has a bucket of tokens: each request takes one, `per_s` come back each second, and `burst` are its most. So a client may be quick
for a moment and no faster than `per_s` over time, and one that is too fast is in no other's way.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.rest import problems
from orchestrator.rest.client import client_of

BURST_S = 2.0
"""A bucket holds what comes in so long, and at least one."""

CLIENTS_MAX = 10_000
"""Buckets that are kept; the one that was not asked for longest goes first, and would be full again after BURST_S anyway."""


class TokenBuckets:
    """One for each client; pure."""

    def __init__(self, per_s: float) -> None:
        self.per_s, self.burst = per_s, max(1.0, per_s * BURST_S)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client -> (tokens, when), least recently asked first

    def take(self, client: str, now: float) -> float:
        """Takes a token of `client` at the steady time `now`, s. 0.0: there was one; else in how many seconds there will be one."""
        tokens, before = self._buckets.get(client, (self.burst, now))
        tokens = min(self.burst, tokens + max(0.0, now - before) * self.per_s)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self.per_s
        self._buckets[client] = (tokens - 1 if not wait_s else tokens, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        return wait_s


class RateLimit:
    """Stands behind what finds out which client asks (`orchestrator.rest.client`); `now`: the steady clock, in s."""

    def __init__(self, app: ASGIApp, per_s: float, now: Callable[[], float]) -> None:
        self._app, self._buckets, self._now = app, TokenBuckets(per_s), now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait_s = self._buckets.take(client_of(scope), self._now()) if scope["type"] == "http" else 0.0
        await (self._refusal(wait_s) if wait_s else self._app)(scope, receive, send)

    def _refusal(self, wait_s: float) -> ASGIApp:
        detail = f"expected at most {self._buckets.per_s:g} requests a second of a client (requests_per_s_max); ask again in {wait_s:.2g} s"
        answer = problems.problem(HTTPStatus.TOO_MANY_REQUESTS, detail, "TooManyRequests")
        answer.headers["Retry-After"] = str(math.ceil(wait_s))
        return answer
