"""Who may open the console: the address, the page that asks, the secret; HTTP and WebSocket alike.

Tests `guard.py`, `settings.py`, `__main__.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cep.errors import ClusterError
from console.__main__ import secret_of
from console.guard import COOKIE, ConsoleGuard
from console.settings import ConsoleConfig, check_open

SECRET = "a secret of enough characters"
CONFIG = ConsoleConfig("http://127.0.0.1:1", names=("cep.example.org",))


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """What is behind the guard."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await PlainTextResponse("inside")(scope, receive, send)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def client(secret: str | None = SECRET, url: str = "http://127.0.0.1:8780") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(ConsoleGuard(inside, CONFIG, secret)), base_url=url)


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["http://localhost:8780", "http://[::1]:8780", "http://127.9.9.9", "http://CEP.example.org"])
async def test_names_of_the_console(url: str) -> None:
    async with client(None, url) as asking:
        answer = await asking.get("/")
    assert (answer.status_code, answer.text) == (200, "inside")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.anyio
async def test_another_name_or_page_gets_nothing() -> None:
    async with client(None, "http://evil.example") as asking:
        assert (await asking.get("/")).status_code == 403
    async with client(None) as asking:
        assert (await asking.get("/", headers={"Origin": "http://evil.example"})).status_code == 403
        assert (await asking.get("/", headers={"Origin": "null"})).status_code == 403
        assert (await asking.get("/", headers={"Origin": "http://127.0.0.1:8780"})).status_code == 200


@pytest.mark.anyio
async def test_the_secret_opens_once_and_for_all() -> None:
    async with client() as asking:
        assert (await asking.get("/")).status_code == 401
        turned = await asking.get("/", headers={"Accept": "text/html"})
        assert (turned.status_code, turned.headers["location"]) == (303, "/login")
        assert "password" in (await asking.get("/login")).text
        assert (await asking.get("/?secret=wrong")).status_code == 401
        opened = await asking.get("/queries", params={"secret": SECRET})
        assert (opened.status_code, opened.headers["location"]) == (303, "/queries")
        cookie = opened.headers["set-cookie"]
        assert SECRET not in cookie and "HttpOnly" in cookie and "SameSite=strict" in cookie
        assert (await asking.get("/queries")).text == "inside"
    async with client() as asking:
        assert (await asking.get("/", headers={"Cookie": f"{COOKIE}=guessed"})).status_code == 401


@pytest.mark.anyio
async def test_the_form() -> None:
    async with client() as asking:
        assert (await asking.post("/login", data={"secret": "wrong"})).status_code == 403
        assert (await asking.post("/login", data={"secret": "x" * 20_000})).status_code == 413
        assert (await asking.post("/login", data={"secret": SECRET})).headers["location"] == "/"
        assert (await asking.get("/")).text == "inside"
        assert (await asking.post("/login", data={"secret": SECRET}, headers={"Origin": "http://evil.example"})).status_code == 403


async def said_to(headers: dict[str, str], secret: str | None) -> str:
    """The first word that a WebSocket gets."""
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        said.append(message["type"])

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": "/_nicegui_ws/socket.io/", "headers": raw, "query_string": b""}
    await ConsoleGuard(inside, CONFIG, secret)(scope, receive, send)
    return str(said[0])


@pytest.mark.anyio
async def test_a_websocket_is_asked_the_same() -> None:
    here = {"Host": "127.0.0.1:8780"}
    assert await said_to(here, None) == "websocket.accept"
    assert await said_to(here | {"Origin": "http://evil.example"}, None) == "websocket.close"
    assert await said_to({"Host": "evil.example"}, None) == "websocket.close"
    assert await said_to(here, SECRET) == "websocket.close"
    async with client() as asking:
        cookie = (await asking.get("/", params={"secret": SECRET})).headers["set-cookie"].partition(";")[0]
    assert await said_to(here | {"Cookie": cookie}, SECRET) == "websocket.accept"


def test_beyond_loopback_it_needs_tls() -> None:
    beyond = {"url": "http://x", "host": "0.0.0.0"}
    with pytest.raises(ClusterError, match="its secret would travel in the clear"):
        check_open(ConsoleConfig.from_json(beyond))
    with pytest.raises(ClusterError, match="go together"):
        check_open(ConsoleConfig.from_json(beyond | {"tls_cert": "c"}))
    check_open(ConsoleConfig.from_json(beyond | {"tls_cert": "c", "tls_key": "k"}))
    check_open(ConsoleConfig.from_json(beyond | {"insecure_http": True}))
    check_open(CONFIG)


def test_a_secret_is_made_where_one_is_needed(tmp_path: Path) -> None:
    assert secret_of(CONFIG, None) == (None, False)
    made, is_new = secret_of(CONFIG, "a token")
    assert is_new and made is not None and len(made) > 30
    assert secret_of(ConsoleConfig("http://x", host="0.0.0.0", insecure_http=True), None)[1]
    file = tmp_path / "secret"
    with pytest.raises(ClusterError, match="No such file"):
        secret_of(ConsoleConfig("http://x", secret_file=str(file)), None)
    file.write_text("short\n")
    with pytest.raises(ClusterError, match="at least 16 characters, got 5"):
        secret_of(ConsoleConfig("http://x", secret_file=str(file)), None)
    file.write_text(f"{SECRET}\n")
    assert secret_of(ConsoleConfig("http://x", secret_file=str(file)), None) == (SECRET, False)
