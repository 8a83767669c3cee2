"""The data doors of REST, for clients without a data plane of their own: a small process that publishes and subscribes on their behalf.

The orchestrator forwards to it over a Unix socket, so that its own death closes no publisher, and so that it needs no data plane.
`python -m driver.gateway '<config>' FD`, FD a listening socket. Rows are JSON: timestamps are
integers of the declared unit going in, ISO 8601 coming out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
import uvicorn
from fastapi import Body, FastAPI
from fastapi.responses import JSONResponse

from cep.config import TOKEN_VARIABLE, ClusterConfig
from cep.errors import CepError, ClusterError
from driver.cluster import Cluster
from driver.publisher import Publisher
from driver.subscription import Subscription

PUBLISHER = "rest"
IDLE_S = 60.0  # an answer stream that nobody asks for is given up after this


class Reading:
    """The one subscription that all REST readers of a stream share."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.rows: deque[dict[str, Any]] = deque()
        self.ended = False
        self.used = time.monotonic()
        self.lock = threading.Lock()

    def take(self, most: int, wait_s: float) -> tuple[list[dict[str, Any]], bool]:
        with self.lock:
            self.used = time.monotonic()
            if not self.rows and not self.ended:
                self._fill(wait_s)
            taken = [self.rows.popleft() for _ in range(min(most, len(self.rows)))]
            return taken, self.ended and not self.rows

    def _fill(self, wait_s: float) -> None:
        try:
            batch = self.subscription.next_batch(timeout=max(wait_s, 0.01))
        except TimeoutError:
            return
        if batch is None:
            self.ended = True
        else:
            self.rows.extend(batch.to_pylist())


class Writing:
    """The one publisher that all REST clients of a stream share, opened with the first row."""

    def __init__(self, open_: Callable[[], Publisher]) -> None:
        self.open = open_
        self.publisher: Publisher | None = None
        self.lock = threading.Lock()

    def send(self, rows: list[dict[str, Any]], end: bool) -> int:
        with self.lock:
            if self.publisher is None:
                self.publisher = self.open()
            try:
                sent = self.publisher.send(rows) if rows else 0
            except ClusterError:  # it counts as closed somewhere; who sends again opens another one
                self._close(keep_open=True)
                raise
            if end:
                self._close()
            return sent

    def _close(self, keep_open: bool = False) -> None:
        publisher, self.publisher = self.publisher, None
        if publisher is not None:
            with suppress(ClusterError) if keep_open else nullcontext():
                publisher.close(keep_open)


class Gateway:
    """Publishers and subscriptions by stream. Who waits at one stream keeps nobody waiting at another."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writings: dict[str, Writing] = {}
        self.readings: dict[str, Reading] = {}
        self.lock = threading.Lock()

    def publish(self, stream: str, rows: list[dict[str, Any]], end: bool) -> int:
        with self.lock:
            writing = self.writings.setdefault(stream, Writing(partial(self.cluster.publisher, stream, PUBLISHER)))
        return writing.send(rows, end)

    def answers(self, stream: str, most: int, wait_s: float) -> tuple[list[dict[str, Any]], bool]:
        rows, ended = self._reading(stream).take(most, wait_s)
        if ended:
            self._drop(stream)
        return rows, ended

    def _reading(self, stream: str) -> Reading:
        with self.lock:
            for name, reading in list(self.readings.items()):
                if name != stream and time.monotonic() - reading.used > IDLE_S:
                    self.readings.pop(name).subscription.close()
            if stream not in self.readings:
                # A small client that stops asking must not slow the query.
                self.readings[stream] = Reading(self.cluster.subscribe(stream, on_slow="drop"))
            return self.readings[stream]

    def _drop(self, stream: str) -> None:
        with self.lock:
            reading = self.readings.pop(stream, None)
        if reading is not None:
            reading.subscription.close()


def make_app(gateway: Gateway) -> FastAPI:
    """POST /records, GET /answers, as the orchestrator forwards them."""
    app = FastAPI()

    @app.exception_handler(CepError)
    def _problem(request: object, error: CepError) -> JSONResponse:
        return JSONResponse({"error": type(error).__name__, "detail": str(error)}, 400)

    @app.post("/records")
    def records(stream: str, rows: Annotated[list[dict[str, Any]], Body()], end: bool = False) -> dict[str, Any]:
        return {"rows": gateway.publish(stream, rows, end)}

    @app.get("/answers")
    def answers(stream: str, most: int = 1000, wait: float = 0.0) -> JSONResponse:
        try:
            rows, ended = gateway.answers(stream, most, wait)
        except CepError:
            gateway._drop(stream)
            raise
        return JSONResponse({"rows": json.loads(json.dumps(rows, default=_plain)), "ended": ended})

    return app


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value.hex() if isinstance(value, bytes) else str(value)


def main(arguments: list[str]) -> int:
    config = ClusterConfig.from_json(json.loads(arguments[0]))
    pa.set_cpu_count(1)
    app = make_app(Gateway(Cluster(config.rest, os.environ.get(TOKEN_VARIABLE))))
    server = uvicorn.Server(uvicorn.Config(app, fd=int(arguments[1]), log_level="warning"))
    signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
