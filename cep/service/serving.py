"""What an HTTP server of ours lets others take of it: connections, time, memory. REST and its gateway are both served by it.

Rules:
1. A client that has said nothing yet, or says it slowly, holds a connection for seconds; so does one that does not read its answer, or
   does not go on with TLS.
2. Connections are fewer than half of what the process may open, so that ZooKeeper, files and pipes have room. When all are used, the one
   that has been idle for longest makes room for a new one.
3. Fewer requests are worked on at a time than there are connections, so that long-polls do not shut others out.
4. A body is in memory before it is looked at, so its size is bounded by its route, and that of all bodies together.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cep.transport.peers import may_speak

HEAD_S = 10.0
"""How long the head of a request may take, from the connection, or the end of the request before, to its last line."""

BODY_S = 60.0
"""How long the body of a request may take."""

UNREAD_S = 30.0
"""How long an answer may wait for a client that does not read it."""

SWITCH_S = 0.001
CONNECTIONS_MAX = 8192
BODIES_BYTES_MAX = 256 << 20
"""What all bodies may take together that have not been answered yet."""

Refuse = Callable[[int, str], ASGIApp]
"""Status and detail to an answer."""


class ServingLoop(asyncio.SelectorEventLoop):
    """A loop whose servers give a client that begins TLS as long as one that begins a request, instead of a minute."""

    async def create_server(self, *args: Any, **named: Any) -> asyncio.Server:
        if named.get("ssl") is not None:
            named.setdefault("ssl_handshake_timeout", HEAD_S)
        return await super().create_server(*args, **named)


def share_interpreter() -> None:
    """For a process whose threads serve others while some read documents: a thread that waits for the interpreter gets it soon, and a
    collection of garbage, which lets no other thread run, walks only what was made since."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()


class Patient(H11Protocol):
    """A connection that is closed when its client takes too long. Times: HEAD_S, BODY_S, UNREAD_S."""

    connections_max = CONNECTIONS_MAX
    head_s, body_s, unread_s = HEAD_S, BODY_S, UNREAD_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.idle_since = time.monotonic()
        self._awaited: Any = None  # the state of the client for which we wait
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._refused = False

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    # What happens to a connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the class it is made of
        super().connection_made(transport)
        known = transport.get_extra_info("socket")  # asyncio's, which is asked as a socket is
        if known is not None and not may_speak(known):
            self._refused = True
            transport.abort()
            return
        if len(self.connections) > self.connections_max:
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP, or its head is too long. The rest of it is read and forgotten, so that the client reads this."""
        self._refused = True
        problem = {
            "type": "about:blank",
            "title": "Bad Request",
            "status": 400,
            "detail": f"{msg} A head may have 16 KiB.",
            "error": "BadRequest",
        }
        body = json.dumps(problem).encode()
        headers = [("content-type", "application/problem+json"), ("content-length", str(len(body))), ("connection", "close")]
        parts = h11.Response(status_code=400, headers=headers, reason="Bad Request"), h11.Data(data=body), h11.EndOfMessage()
        self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half of a connection to close
            self.transport.close()
        self._watch()
        self._abort_unread()

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._abort_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_unread()  # closing it waits for a client that may not read what was said last

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()

    # What follows

    def _watch(self) -> None:
        """What we wait for has a deadline: the head of a request, then its body."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._awaited = state
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        seconds = {h11.IDLE: self.head_s, h11.SEND_BODY: self.body_s}.get(state)
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _abort_unread(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self.unread_s, self.transport.abort)

    def _make_room(self) -> None:
        """The connection that has been idle for longest goes; where none is, the new one."""
        others = [each for each in self.connections if isinstance(each, Patient) and each.is_idle and each is not self]
        oldest = min(others, key=lambda each: each.idle_since, default=self)
        self.connections.discard(oldest)  # before the loop has time to say that it is lost
        oldest.transport.abort()


def served(connections_max: int) -> type[Patient]:
    """What serves so many connections."""
    return type("Patient", (Patient,), {"connections_max": connections_max})


class Bodies:
    """Has a request's body whole before the application is called, within the size that its path may have."""

    def __init__(self, app: ASGIApp, most: Callable[[str], int], requests_max: int, refuse: Refuse) -> None:
        self._app, self._most, self._requests_max, self._refuse = app, most, requests_max, refuse
        self._bytes = self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._requests >= self._requests_max:
            await self._refuse(429, f"{self._requests:,} requests are being answered; try again soon")(scope, receive, send)
        else:
            self._requests += 1
            try:
                await self._with_body(scope, receive, send)
            finally:
                self._requests -= 1

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        most = self._most(scope["path"])
        body = _Body()
        try:
            answer = await self._take(body, most, scope, receive)
            if answer is not None:
                await answer(scope, receive, send)
            elif body.whole:
                await self._app(scope, body.give_to(receive), send)
        finally:
            self._bytes -= body.size

    async def _take(self, body: _Body, most: int, scope: Scope, receive: Receive) -> ASGIApp | None:
        """Fills the body. What to answer instead of calling the application, if it cannot be had."""
        too_large = self._refuse(413, f"the body of a request to {scope['path']} may have {most:,} bytes")
        if _declared_length(scope) > most:
            return too_large
        while not body.whole:
            message = await receive()
            if message["type"] != "http.request":
                return None  # it has gone
            self._bytes += body.add(message)
            if body.size > most:
                return too_large
            if self._bytes > BODIES_BYTES_MAX:
                return self._refuse(429, "too many large requests at a time; try again soon")
        return None


class _Body:
    """What has come of a body."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0
        self.whole = False

    def add(self, message: Message) -> int:
        part = message.get("body", b"")
        self._parts.append(part)
        self.size += len(part)
        self.whole = not message.get("more_body", False)
        return len(part)

    def give_to(self, receive: Receive) -> Receive:
        """For the application: the body, and then what else happens to the request."""
        given = False

        async def give() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": b"".join(self._parts), "more_body": False}

        return give


def _declared_length(scope: Scope) -> int:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    return int(declared) if declared.isdigit() and len(declared) < 20 else 0
