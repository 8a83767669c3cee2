"""Answers as server-sent events: one reader's connection (docs/rest.md).

A thread pumps the subscription into a queue of events, and does not wait for the client: a slow one slows no query. What would be more than
the queue holds is an error, or where there are tokens the end of the connection, behind which the client goes on by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cep.errors import CepError, Conflict, NotFound
from driver.cluster import Cluster
from driver.rest import path
from driver.rows.json_rows import written
from driver.streams.subscription import Subscription

HELD_BYTES = 4 << 20
"""Of events that the client has not taken."""

CONFIRM_BYTES = 4 << 20
"""After so many bytes of rows a connection with tokens ends: by connecting again the client acknowledges them."""

BATCH_BYTES = 1024
"""What a batch costs besides its values, where it is kept."""

HEARTBEAT_S = 10.0
LOOK_S = 0.5
"""So long a thread waits for rows at a time; that is how soon it sees that the client has gone."""

RETRY_MS = 1000
NO_TOKEN = "no-token"

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Slow(CepError):
    """No fault of any side: one is slower than what is sent to it."""


class EventReader:
    """`last`: the id of the last event that the client has; `options`: of its subscription."""

    def __init__(self, cluster: Cluster, stream: str, last: str | None, **options: Any) -> None:
        self.cluster, self.stream, self.last, self.options = cluster, stream, last, options
        self.leaving = False  # the client has gone, or the gateway is about to
        self._over = self._resumable = False
        self._events: deque[bytes] = deque()
        self._held = self._taken = 0
        self._changed = asyncio.Event()

    def open(self) -> bool:
        """In a thread. False: the client has all, and knows that the stream has ended. Raises CepError."""
        if self.last == NO_TOKEN:
            why = "its query does not recover, so rows may have been missed since"
            raise Conflict(f"stream {self.stream!r}: nothing goes on behind the last event, for {why}; connect without Last-Event-ID")
        self._resumable = self.last is not None or self._recovers()
        self.subscription = self.cluster.subscribe(self.stream, resumable=self._resumable, resume=self.last, **self.options)
        if self.last is not None and self.subscription.core.has_ended:
            self.subscription.acknowledge(self.last)
            self.subscription.close()
            return False
        try:
            self._add(b"retry: %d\n" % RETRY_MS + self._id() + b"\n")
        except CepError:  # its query recovers just now
            self.subscription.close()
            raise
        return True

    async def pump(self, in_thread: InThread) -> None:
        """Until the stream ends, for the client or by itself."""
        subscription: Subscription = self.subscription
        try:
            while not self.leaving and not self._over:
                event, last = await in_thread(self._next)
                self._add(event)
                self._over = last or self._is_behind(len(event))
                self._changed.set()
        finally:
            self._over = True
            self._changed.set()
            await in_thread(subscription.close)

    async def chunks(self, seconds: float | None) -> AsyncIterator[bytes]:
        """What is sent, for at most so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (seconds or float("inf"))
        while True:
            while self._events:
                event = self._events.popleft()
                self._held -= len(event)
                yield event
            left = until - loop.time()
            if self._over or left <= 0:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(min(HEARTBEAT_S, left)):
                    await self._changed.wait()
            except TimeoutError:
                yield b": there are no rows now\n\n"

    def _recovers(self) -> bool:
        """Does the query that puts the stream out?"""
        try:
            query = self.cluster.rest.get(path("streams", self.stream))["fed_by"]
        except NotFound:  # it may be deployed yet
            return False
        return query is not None and bool(self.cluster.query(query).status()["recovers"])

    def _next(self) -> tuple[bytes, bool]:
        """In a thread: the next event, empty where there is none yet; is it the last?"""
        try:
            batch = self.subscription.next_batch(timeout=LOOK_S)
        except TimeoutError:
            return b"", False
        except CepError as error:
            return _event(self._id(), error_document(error), b"error"), True
        if batch is None:
            return _event(self._id(), b"{}", b"end"), True
        self._taken += batch.nbytes + BATCH_BYTES
        return _event(self._id(), b"[" + written(batch) + b"]"), self._resumable and self._taken > CONFIRM_BYTES

    def _is_behind(self, newest: int) -> bool:
        """Does the client not keep up? One event, of `newest` bytes, is always held, for a batch of answers may be more than is held of
        several. Without tokens it is told that there are rows which it does not get."""
        if self._held - newest <= HELD_BYTES:
            return False
        if not self._resumable:
            slow = f"stream {self.stream!r}: more than {HELD_BYTES:,} bytes of answers were not taken: rows are missing from here on"
            self._add(_event(self._id(), error_document(Slow(slow)), b"error"))
        return True

    def _add(self, event: bytes) -> None:
        if event:
            self._events.append(event)
            self._held += len(event)

    def _id(self) -> bytes:
        return f"id: {self.subscription.token() if self._resumable else NO_TOKEN}\n".encode()


class EventResponse(StreamingResponse):
    """Its reader leaves when the client has gone, even before the first byte."""

    def __init__(self, reader: EventReader, seconds: float | None) -> None:
        super().__init__(reader.chunks(seconds), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self.reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.reader.leaving = True


def _event(id_: bytes, data: bytes, name: bytes = b"") -> bytes:
    """JSON has no line's end in it."""
    return (b"event: " + name + b"\n" if name else b"") + id_ + b"data: " + data + b"\n\n"


def error_document(error: CepError) -> bytes:
    """Why no more comes."""
    return json.dumps({"error": type(error).__name__, "detail": str(error)}).encode()
