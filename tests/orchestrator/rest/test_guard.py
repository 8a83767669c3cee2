"""Which clients may ask REST: tokens, hosts, pages of other sites, types of bodies."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi.responses import PlainTextResponse

from cep.config import ClusterConfig
from cep.secret import Secret
from cep.service.token_file import Tokens
from orchestrator.rest.guard import Guard

pytestmark = pytest.mark.anyio
ANYWHERE = {"home": "/h", "zookeeper": "z:1", "rest_port": 8765, "metrics_in": "ipc:///in", "metrics_out": "ipc:///out"}
JSON = {"content-type": "application/json"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def ask(method: str = "POST", path: str = "/queries", body: bytes = b"", token: str | None = None, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    config = ClusterConfig(rest_host="127.0.0.1", rest_names=("cep.example",), **ANYWHERE)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(Guard(PlainTextResponse("in"), config, Tokens(None if token is None else Secret(token))))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8765") as client:
        return await client.request(method, path, content=body or None, headers={**(JSON if body else {}), **named})


@pytest.mark.parametrize(
    "host", ["localhost:8765", "127.0.0.1:8765", "127.8.9.1", "[::1]:8765", "LOCALHOST", "my.localhost:1", "cep.example:80", "CEP.example"]
)
async def test_names_of_this_machine_and_configured_ones(host: str) -> None:
    assert (await ask(host=host)).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "", "[::2]"]
)
async def test_another_name_has_been_pointed_here(host: str) -> None:
    """DNS rebinding: the page's own name, now with our address."""
    for method, path in (("GET", "/queries"), ("POST", "/queries"), ("GET", "/docs")):
        answer = await ask(method, path, host=host)
        assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
        assert "--rest-name" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "https://localhost:8765"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
    ],
)
async def test_a_page_of_another_site(headers: dict[str, str]) -> None:
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = await ask(method, "/queries/q", **headers)
        assert answer.status_code == 403 and "may not ask this cluster" in answer.json()["detail"]


async def test_our_own_page_may_ask_and_links_lead_to_it() -> None:
    own: dict[str, Any] = {"origin": "http://localhost:8765", "sec_fetch_site": "same-origin"}
    assert (await ask("POST", body=b"{}", **own)).status_code == 200
    link: dict[str, Any] = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert (await ask("GET", "/docs", **link)).status_code == 200
    assert (await ask("GET", "/docs", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")).status_code == 403


@pytest.mark.parametrize(
    "type_", ["text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_a_body_that_does_not_say_that_it_is_a_document(type_: str) -> None:
    answer = await ask(body=b"{}", content_type=type_)
    assert answer.status_code == 415 and "application/json" in answer.json()["detail"]


@pytest.mark.parametrize("type_", ["application/json", "Application/JSON; charset=utf-8", "application/yaml", "text/yaml"])
async def test_documents(type_: str) -> None:
    assert (await ask(body=b"{}", content_type=type_)).status_code == 200


async def test_with_a_token_it_alone_counts() -> None:
    there: dict[str, Any] = {"host": "cep.svc:80", "origin": "https://a.example", "authorization": "Bearer s"}
    assert (await ask(token="s", **there)).status_code == 200
    for wrong in ("Bearer t", "s", "", "Bearer s\xe9"):
        answer = await ask(token="s", **there | {"authorization": wrong.encode("latin-1")})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
