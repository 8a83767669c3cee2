"""The data doors of REST, for clients without a data plane of their own: a small process that publishes and subscribes on their behalf.

The orchestrator forwards to it over a Unix socket, so that its own death closes no publisher, and so that it needs no data plane.
`python -m driver.gateway '<config>' FD`, FD a listening socket. Rows are JSON (`driver.rows.json_rows`).

The publishers of a stream, and every reader of one, have at most one thread each here, and there is room for all of them: a slow query
holds up its own publishers and readers, and no others.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pyarrow as pa
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from cep.config import TOKEN_VARIABLE, ClusterConfig
from cep.errors import CepError, Unauthorized
from cep.secret import Secret
from cep.service.access import OF_STREAMS, Role
from cep.service.documents import LIST_BYTES_MAX
from cep.service.logs import begin_logging
from cep.service.serving import CONNECTIONS_MAX, Bodies, served, share_interpreter
from cep.service.token_file import Tokens
from cep.world.descriptors import raise_descriptor_limit
from driver.cluster import Cluster
from driver.gateway_events import EventReader, EventResponse, Slow
from driver.gateway_keys import IN_MEMORY, KeptKeys, KeyFile, RowsKey
from driver.gateway_rows import GatewayPublisher, Saying, promise, reader_of
from driver.processes.run_folder import RunFolder
from driver.rows.json_rows import written
from driver.streams.subscription import Subscription

PUBLISHER = "rest"
IDLE_S = 60.0
"""A reader that does not ask for so long is given up, and so is what it has not read."""

READERS_MAX = 64
PUBLISHERS_MAX = 256
BUDGET_BYTES = 16 << 20
"""What is held for one reader, by each instance."""

WINDOW_BYTES = 1 << 20
"""What of that has been sent here. A reader that does not ask leaves it lying, and small messages take two or three times their bytes."""

ANSWER_BYTES_MAX = 4 << 20
"""How much an answer holds at most, as Arrow has it."""

SENT_S = 30.0
"""How long an answer to rows waits for those that were sent before, and for the query's readiness to take them."""

T = TypeVar("T")


class OverLimit(CepError):
    """Yours: more is asked for at a time than there is room for."""


class GatewayReader:
    """One reader of a stream: a subscription, which is made when it asks for the first time."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.used = time.monotonic()
        self.subscription: Subscription | None = None
        self.batches: deque[pa.RecordBatch] = deque()
        self.ended = False

    def take(self, subscribe: Callable[[], Subscription], most: int, wait_s: float) -> bytes:
        """The next rows as JSON. In a thread."""
        if self.subscription is None:
            self.subscription = subscribe()
        if not self.batches and not self.ended:
            self._fill(self.subscription, wait_s)
        rows = [written(batch) for batch in self._next(most)]
        ended = self.ended and not self.batches
        return b'{"rows":[' + b",".join(filter(None, rows)) + b'],"ended":' + (b"true" if ended else b"false") + b"}"

    def close(self) -> None:
        if self.subscription is not None:
            self.subscription.close()

    def _fill(self, subscription: Subscription, wait_s: float) -> None:
        try:
            batch = subscription.next_batch(timeout=max(wait_s, 0.01))
        except TimeoutError:
            return
        if batch is None:
            self.ended = True
        else:
            self.batches.append(batch)

    def _next(self, most: int) -> list[pa.RecordBatch]:
        """Up to so many rows, and at least one."""
        found: list[pa.RecordBatch] = []
        room = ANSWER_BYTES_MAX
        while self.batches and most and room > 0:
            batch = self.batches.popleft()
            rows = min(most, max(1, room * batch.num_rows // max(1, batch.nbytes)), batch.num_rows)
            if rows < batch.num_rows:
                self.batches.appendleft(batch.slice(rows))
            found.append(batch.slice(0, rows))
            most, room = most - rows, room - batch.nbytes * rows // max(1, batch.num_rows)
        return found


class Gateway:
    """Publishers by stream, readers by stream and name."""

    def __init__(self, cluster: Cluster, sent_s: float = SENT_S, keys: str = IN_MEMORY) -> None:
        self.cluster, self.sent_s = cluster, sent_s
        self.publishing: dict[str, GatewayPublisher] = {}
        self.readers: dict[tuple[str, str], GatewayReader] = {}
        self._threads = anyio.CapacityLimiter(READERS_MAX + PUBLISHERS_MAX)
        self._sending: set[asyncio.Task[int]] = set()
        self.keys = KeptKeys(KeyFile(keys))
        self.watching: dict[EventReader, asyncio.Task[None] | None] = {}  # and what pumps each, once it is open

    async def publish(self, stream: str, body: bytes, read: Callable[[bytes], Saying], end: bool = False, key: str | None = None) -> int:
        """How many rows were sent. `key`: those that were sent under it are not sent again. Raises Slow: they are still being sent, or
        those before them."""
        if key is not None:
            return await self._publish_once(stream, key, body, read, end)
        one = await self._turn(stream)
        done, task = await self._waited(asyncio.create_task(self._send(one, stream, body, read, end)), self.sent_s)
        if not done:
            raise Slow(f"stream {stream!r}: these rows were taken, and wait for a query that is slow; do not send them again")
        return task.result()

    async def _publish_once(self, stream: str, key: str, body: bytes, read: Callable[[bytes], Saying], end: bool) -> int:
        async def send(digest: bytes) -> int:
            return await self._send(await self._turn(stream), stream, body, read, end, RowsKey(key, digest))

        done, task = await self._waited(self.keys.sending(stream, key, body, send), 2 * self.sent_s)
        if not done:
            raise Slow(
                f"stream {stream!r}: these rows were taken, and wait for a query that is slow; the same key tells what becomes of them"
            )
        return task.result()

    async def _turn(self, stream: str) -> GatewayPublisher:
        """When those before have sent."""
        one = self._publishing(stream)
        one.wanted += 1
        try:
            async with asyncio.timeout(self.sent_s):
                await one.turn.acquire()
        except asyncio.CancelledError:  # the client has gone
            self._let_go(stream, one)
            raise
        except TimeoutError:
            self._let_go(stream, one)
            raise Slow(f"stream {stream!r}: rows sent before wait for a query that is slow; none of these were taken") from None
        return one

    async def _waited(self, task: asyncio.Task[int], seconds: float) -> tuple[bool, asyncio.Task[int]]:
        """Is it done within that time? It goes on in any case, also if the client has gone."""
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        done, _ = await asyncio.wait([task], timeout=seconds)
        return bool(done), task

    async def settle(self) -> None:
        """Once all rows that were taken are sent, or cannot be."""
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def answers(self, stream: str, reader: str, most: int, wait_s: float) -> bytes:
        """The next rows of this reader."""
        one = self._reader(stream, reader)
        async with one.turn:
            one.used = time.monotonic()
            try:
                found = await self._in_thread(lambda: one.take(lambda: self._subscribe(stream), most, wait_s))
            except CepError:
                await self._drop(stream, reader)
                raise
            one.used = time.monotonic()
            if one.ended and not one.batches:
                await self._drop(stream, reader)
            return found

    async def watch(self, stream: str, last: str | None) -> EventReader | None:
        """A reader of events, which goes on behind the one with the id `last`; None: that was the end."""
        self._check_room()
        reader = EventReader(self.cluster, stream, last, budget_bytes=BUDGET_BYTES, window_bytes=WINDOW_BYTES)
        self.watching[reader] = None
        try:
            is_open: bool = await self._in_thread(reader.open)
        except BaseException:
            del self.watching[reader]
            raise
        if not is_open:
            del self.watching[reader]
            return None
        task = self.watching[reader] = asyncio.create_task(reader.pump(self._in_thread))
        task.add_done_callback(lambda _: self.watching.pop(reader))
        return reader

    def leave(self) -> None:
        """Connections that stay open end."""
        for reader in self.watching:
            reader.leaving = True

    async def drop_idle(self) -> None:
        """For ever: gives up the readers that have stopped asking."""
        while True:
            await asyncio.sleep(IDLE_S / 6)
            late = time.monotonic() - IDLE_S
            for stream, reader in [key for key, one in self.readers.items() if one.used < late and not one.turn.locked()]:
                await self._drop(stream, reader)

    async def _send(
        self, one: GatewayPublisher, stream: str, body: bytes, read: Callable[[bytes], Saying], end: bool, key: RowsKey | None = None
    ) -> int:
        open_ = partial(self.cluster.publisher, stream, PUBLISHER)
        try:
            return await self._in_thread(lambda: one.send(open_, self.cluster.renew, body, read, end, key))
        finally:
            one.turn.release()
            self._let_go(stream, one)

    def _let_go(self, stream: str, one: GatewayPublisher) -> None:
        """One request less wants it. Whether its lock is held says nothing: a waiting thread has it only a moment after it is free."""
        one.wanted -= 1
        if one.publisher is None and not one.wanted:
            self.publishing.pop(stream, None)

    def _publishing(self, stream: str) -> GatewayPublisher:
        if stream not in self.publishing and len(self.publishing) == PUBLISHERS_MAX:
            raise OverLimit(f"REST publishes to {PUBLISHERS_MAX} streams already; end one, or publish with the driver")
        return self.publishing.setdefault(stream, GatewayPublisher(stream, self.keys.file))

    def _reader(self, stream: str, reader: str) -> GatewayReader:
        key = stream, reader
        if key not in self.readers:
            self._check_room()
        return self.readers.setdefault(key, GatewayReader())

    def _check_room(self) -> None:
        if len(self.readers) + len(self.watching) >= READERS_MAX:
            raise OverLimit(f"{READERS_MAX} readers read by REST already; one that does not ask for {IDLE_S:g} s makes room")

    def _subscribe(self, stream: str) -> Subscription:
        # A small client that stops asking must not slow the query.
        return self.cluster.subscribe(stream, on_slow="drop", budget_bytes=BUDGET_BYTES, window_bytes=WINDOW_BYTES)

    async def _drop(self, stream: str, reader: str) -> None:
        one = self.readers.pop((stream, reader), None)
        if one is not None:
            await self._in_thread(one.close)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(call, limiter=self._threads)


ROUTES = {
    ("POST", "/records"): "publish",
    ("POST", "/advance"): "publish",
    ("GET", "/answers"): "subscribe",
    ("GET", "/preview"): "deploy",
    ("GET", "/events"): "subscribe",
}
"""Route -> the role that it needs, of those for streams that for the one that is asked for. A route that is not here is not served."""


def make_app(gateway: Gateway, tokens: Tokens) -> FastAPI:
    """POST /records and /advance, GET /answers and /events, as the orchestrator forwards them, with the token that it was shown."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        dropping = asyncio.create_task(gateway.drop_idle())
        yield
        dropping.cancel()

    def admit(request: Request, stream: str) -> None:
        """The orchestrator has asked the same: what else of this user reaches the socket may do no more than its own token."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        access = tokens.access(shown if scheme.lower() == "bearer" else None)
        if access is None:
            raise Unauthorized("this needs a token: Authorization: Bearer TOKEN")
        kind = ROUTES[request.method, request.url.path]
        access.check(Role(kind, stream if kind in OF_STREAMS else ""))

    app = FastAPI(lifespan=life, openapi_url=None, dependencies=[Depends(admit)])
    app.add_middleware(Bodies, most=lambda path: LIST_BYTES_MAX, requests_max=CONNECTIONS_MAX, refuse=_refusal)

    @app.exception_handler(CepError)
    async def _problem(request: object, error: CepError) -> JSONResponse:
        return JSONResponse({"error": type(error).__name__, "detail": str(error), "pointer": getattr(error, "pointer", "")}, 400)

    @app.post("/records")
    async def records(stream: str, request: Request, end: bool = False) -> dict[str, Any]:
        read = reader_of(request.headers.get("content-type", ""))
        return {"rows": await gateway.publish(stream, await request.body(), read, end, request.headers.get("idempotency-key"))}

    @app.post("/advance")
    async def advance(stream: str, request: Request) -> dict[str, Any]:
        return {"rows": await gateway.publish(stream, await request.body(), promise)}

    @app.get("/preview")
    @app.get("/answers")
    async def answers(stream: str, reader: str, most: int = 1000, wait: float = 0.0) -> Response:
        return Response(await gateway.answers(stream, reader, most, wait), media_type="application/json")

    @app.get("/events")
    async def events(stream: str, request: Request, timeout: float | None = None) -> Response:
        reader = await gateway.watch(stream, request.headers.get("last-event-id"))
        return Response(status_code=204) if reader is None else EventResponse(reader, timeout)

    return app


def _refusal(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"error": "TooMuch", "detail": detail}, status)


def main(arguments: list[str]) -> int:
    config = ClusterConfig.from_json(json.loads(arguments[0]))
    begin_logging("gateway", config.log)
    pa.set_cpu_count(1)
    token = os.environ.get(TOKEN_VARIABLE)
    tokens = Tokens(Secret(token) if token else None, config.tokens)
    gateway = Gateway(Cluster(config.rest, token, ca=config.ca), keys=str(RunFolder(Path(config.home)).sent_keys))
    app = make_app(gateway, tokens)
    protocol = served(min(CONNECTIONS_MAX, raise_descriptor_limit() // 2))
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, fd=int(arguments[1]), log_level="warning", log_config=None))

    def end(*_: object) -> None:
        server.should_exit = True
        gateway.leave()

    signal.signal(signal.SIGTERM, end)
    share_interpreter()
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
