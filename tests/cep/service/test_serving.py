"""What an HTTP server of ours lets others take of it: real sockets, an application of three lines, and short patience."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
import uvicorn
from fastapi.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cep.service.serving import Bodies, Patient
from tests.support.waiting import HANG_S, until

MOST = 100_000
LONG = 8 << 20


class Hasty(Patient):
    head_s = body_s = unread_s = 0.3
    connections_max = 8


class Application:
    """Answers with the length of the body; `/long` with a long answer, `/wait` when it is let go."""

    def __init__(self) -> None:
        self.waiting = 0
        self.go = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        if scope["path"] == "/wait":
            self.waiting += 1
            assert (await receive())["type"] == "http.disconnect"
            return
        content = "x" * LONG if scope["path"] == "/long" else str(len(body))
        await PlainTextResponse(content)(scope, receive, send)


class Server:
    def __init__(self, protocol: type[Patient], requests_max: int = 100) -> None:
        self.application = Application()
        refuse = lambda status, detail: PlainTextResponse(detail, status)  # noqa: E731  # the shape that Bodies takes
        self.bodies = Bodies(self.application, lambda path: MOST, requests_max, refuse)
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = listener.getsockname()[1]
        self.server = uvicorn.Server(
            uvicorn.Config(self.bodies, http=protocol, lifespan="off", log_level="error", timeout_graceful_shutdown=1)
        )
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self.thread.start()
        until(lambda: self.server.started)

    def connect(self, send: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S)
        connection.sendall(send)
        return connection

    def open(self) -> int:
        return len(self.server.server_state.connections)

    def post(self, body: bytes | Iterator[bytes]) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{self.port}/", content=body, timeout=HANG_S, trust_env=False)


@contextmanager
def serving(protocol: type[Patient] = Patient, requests_max: int = 100) -> Iterator[Server]:
    server = Server(protocol, requests_max)
    try:
        yield server
    finally:
        server.server.should_exit = True
        server.thread.join(HANG_S)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nX",
    ],
    ids=["nothing", "half a head", "half a body", "half a second head"],
)
def test_a_client_that_says_it_slowly_is_cut_off(sent: bytes) -> None:
    with serving(Hasty) as server, closing(server.connect(sent)) as connection:
        with pytest.raises(ConnectionResetError):
            while connection.recv(1000):
                pass
            raise ConnectionResetError  # it was closed, as good
        until(lambda: server.open() == 0)
        until(lambda: server.bodies._bytes == server.bodies._requests == 0)


def test_a_client_that_drips_bytes_is_cut_off() -> None:
    """Every byte of a head is a sign of life, but the head has one deadline."""
    with serving(Hasty) as server, closing(server.connect(b"GET / HTTP/1.1\r\n")) as connection:
        pause = threading.Event()
        with pytest.raises(OSError):
            while True:
                connection.sendall(b"X")
                pause.wait(0.02)
        until(lambda: server.open() == 0)


def test_a_client_that_does_not_read_its_answer_is_cut_off() -> None:
    with serving(Hasty) as server, closing(server.connect()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: server.open() == 0)


def test_a_head_that_is_too_long_is_told_so() -> None:
    with serving() as server:
        answer = httpx.get(f"http://127.0.0.1:{server.port}/", headers={"x": "x" * 3_000_000}, timeout=HANG_S, trust_env=False)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
        assert "16 KiB" in answer.json()["detail"]
        until(lambda: server.open() == 0)


def test_idle_connections_shut_nobody_out() -> None:
    """The one that has been idle for longest makes room."""
    with serving(type("Full", (Patient,), {"connections_max": 8})) as server:
        idle = [server.connect() for _ in range(20)]
        assert server.post(b"abc").text == "3"
        assert server.open() <= 8
        for connection in idle:
            connection.close()


def test_long_polls_shut_nobody_out() -> None:
    with serving(requests_max=3) as server:
        waiting = [server.connect(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(3)]
        until(lambda: server.application.waiting == 3)
        assert server.post(b"").status_code == 429
        waiting.pop().close()
        until(lambda: server.post(b"abc").text == "3")
        for connection in waiting:
            connection.close()


def test_a_body_that_is_too_long_is_refused_and_not_kept() -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 10_000

    with serving() as server:
        assert server.post(b"x" * MOST).text == str(MOST)
        for body in (b"x" * (MOST + 1), endless()):
            answer = server.post(body)
            assert answer.status_code == 413 and f"{MOST:,} bytes" in answer.text
        assert server.post(b"x").text == "1"
        until(lambda: server.bodies._bytes == 0)
