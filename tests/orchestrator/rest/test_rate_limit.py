"""Requests of a client a second: token buckets, and what REST answers where they are empty."""

from __future__ import annotations

import httpx
import pytest
from fastapi.responses import PlainTextResponse
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from orchestrator.rest.client import note_client
from orchestrator.rest.rate_limit import BURST_S, CLIENTS_MAX, RateLimit, TokenBuckets

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_burst_and_then_so_many_a_second() -> None:
    buckets = TokenBuckets(per_s=10)
    assert [buckets.take("a", 0.0) for _ in range(21)] == [0.0] * 20 + [pytest.approx(0.1)]
    assert buckets.take("a", 0.05) == pytest.approx(0.05)
    assert buckets.take("a", 0.1) == 0.0 and buckets.take("a", 0.1) > 0


def test_a_client_is_in_no_other_clients_way() -> None:
    buckets = TokenBuckets(per_s=0.5)
    assert buckets.take("a", 0.0) == 0.0 and buckets.take("a", 0.0) == 2.0
    assert buckets.take("b", 0.0) == 0.0


def test_a_refused_request_takes_nothing() -> None:
    buckets = TokenBuckets(per_s=1)
    assert [buckets.take("a", 0.0) for _ in range(2)] == [0.0, 0.0]
    for at in (0.2, 0.4, 0.6, 0.8):
        assert buckets.take("a", at) == pytest.approx(1 - at)
    assert buckets.take("a", 1.0) == 0.0


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 3), max_size=200))
def test_never_more_than_the_burst_and_the_rate(per_s: float, waits: list[float]) -> None:
    buckets, now, taken = TokenBuckets(per_s), 0.0, 0
    for wait in waits:
        now += wait
        taken += buckets.take("a", now) == 0.0
    assert taken <= max(1.0, per_s * BURST_S) + per_s * now + 1e-6


def test_buckets_are_bounded_and_the_one_not_asked_for_longest_goes() -> None:
    buckets = TokenBuckets(per_s=0.5)
    for i in range(CLIENTS_MAX):
        buckets.take(str(i), 0.0)
    assert buckets.take("0", 0.0) > 0
    buckets.take("new", 0.0)
    assert buckets.take("0", 0.0) > 0 and buckets.take("1", 0.0) == 0.0


async def test_rest_says_when_to_ask_again() -> None:
    now = [0.0]
    limited = RateLimit(PlainTextResponse("in"), 0.25, lambda: now[0])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        note_client(scope, dict(scope["headers"])[b"x-client"].decode())
        await limited(scope, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        async def ask(name: str) -> httpx.Response:
            return await client.get("/queries", headers={"x-client": name})

        assert (await ask("a")).status_code == 200
        refused = await ask("a")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "4")
        assert refused.json()["error"] == "TooManyRequests" and "requests_per_s_max" in refused.json()["detail"]
        assert (await ask("b")).status_code == 200
        now[0] = 4.0
        assert (await ask("a")).status_code == 200
