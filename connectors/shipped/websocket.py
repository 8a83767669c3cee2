"""WebSocket: a message is a value.

In, at most once: nothing says what has arrived, so what is under way when a connection or a process ends is lost. Out, at least once: a
commit waits until the other side has read all that was sent, or, with `answered`, until it has answered each message.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from connectors.contract import (
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Place,
    Polled,
    RecordReader,
    ValueFormat,
    library,
)
from connectors.shipped.plain import LiveSource, TokenlessSink

EXTRA = "websocket"
CONNECT_S, PING_S, AWAY_S, ACKNOWLEDGED_S, CLOSE_S = 10.0, 20.0, 30.0, 15.0, 1.0
MESSAGE_BYTES_MAX, READ_AHEAD = 16 << 20, 64
LOOK_S = 0.05

WsUrl = Annotated[str, Field(pattern="^wss?://", description="The address.")]
WsHeaders = Annotated[dict[str, str], Field(description="Headers, such as `Authorization: Bearer ${env:SHOP_TOKEN}`.")]


class WebsocketIn(ConnectorOptions):
    """`from`: {"connector": "websocket", "url": "wss://exchange/feed", "say": ["{\\"subscribe\\": \\"trades\\"}"]}"""

    url: WsUrl
    headers: WsHeaders = Field(default_factory=dict)
    say: Annotated[tuple[str, ...], Field(description="Messages that are sent when it is connected, such as one that subscribes.")] = ()


class WebsocketOut(ConnectorOptions):
    """`to`: {"connector": "websocket", "url": "wss://shop/alarms"}"""

    url: WsUrl
    headers: WsHeaders = Field(default_factory=dict)
    answered: Annotated[bool, Field(description="The other side sends a message for each of ours, once it has done with it.")] = False
    origin: Annotated[str | None, Field(description="A further member or column, with the row's origin.")] = None

    def written(self, schema: pa.Schema) -> pa.Schema:
        if self.origin in schema.names:
            raise ValueError(f"the stream has a column {self.origin!r}, so it cannot be that of the origin too: give another name")
        return schema if self.origin is None else schema.append(pa.field(self.origin, pa.string()))


class _Line:
    """A connection, which a thread of the library's keeps up. That the other side is gone is found out by the system, for its peer takes
    pings even if nothing is read here, and so no pong is seen. Raises ConnectorError."""

    def __init__(self, options: WebsocketIn | WebsocketOut) -> None:
        self.url, self.library = options.url, library("websockets.sync.client", EXTRA)
        self.closed = library("websockets.exceptions", EXTRA).ConnectionClosed
        with self.failing():
            self.connection = self.library.connect(
                options.url,
                additional_headers=options.headers,
                open_timeout=CONNECT_S,
                close_timeout=CLOSE_S,
                ping_interval=PING_S,
                ping_timeout=None,
                max_size=MESSAGE_BYTES_MAX,
                max_queue=READ_AHEAD,
            ).__enter__()
            self.connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(AWAY_S * 1000))

    @contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise ConnectorError(f"{self.url}: no answer within {CONNECT_S:g} s") from None
        except (self.closed, OSError, library("websockets.exceptions", EXTRA).WebSocketException) as error:
            raise ConnectorError(f"{self.url}: {error}") from None

    def close(self) -> None:
        self.connection.close()


class WebsocketReader(RecordReader):
    """What is not polled is not read, and the other side is held up."""

    def __init__(self, options: WebsocketIn) -> None:
        self.line = _Line(options)
        with self.line.failing():
            for each in options.say:
                self.line.connection.send(each)

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found: list[bytes] = []
        receive = self.line.connection.recv
        try:
            found.append(receive(timeout_s, decode=False))
            while len(found) < rows_max:
                found.append(receive(0, decode=False))
        except TimeoutError:
            pass
        except self.line.closed as error:
            if not found:
                raise ConnectorError(f"{self.line.url}: the connection has ended: {error}") from None
        return Polled(None, found)

    def committed(self, place: Place) -> None:
        """Nothing is told."""

    def close(self) -> None:
        self.line.close()


class WebsocketWriter(AnswerWriter):
    """Whatever comes is taken, by a thread, so that the other side is not held up; only how many there were is looked at."""

    def __init__(self, options: WebsocketOut, format: ValueFormat) -> None:
        self.options, self.format = options, format
        self.line = _Line(options)
        self.unanswered, self.answers = 0, threading.Semaphore(0)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        if self.options.origin is not None:
            rows = rows.append_column(self.options.origin, pa.array([f"{origin}-{at}" for at in range(rows.num_rows)]))
        with self.line.failing():
            for value in self.format.encode(rows):
                self.line.connection.send(value, text=self.format.text)
                self.unanswered += 1

    def commit(self, token: str) -> None:
        """Raises ConnectorError: the other side has not taken all."""
        if self.options.answered:
            while self.unanswered:
                self._wait(lambda seconds: self.answers.acquire(timeout=seconds), f"{self.unanswered} messages")
                self.unanswered -= 1
        elif self.unanswered:
            with self.line.failing():
                pong = self.line.connection.ping()  # it comes behind all that was sent before
            self._wait(pong.wait, "a ping")
            self.unanswered = 0

    def abort(self) -> None:
        """What was sent is sent."""

    def close(self) -> None:
        self.line.close()

    def _listen(self) -> None:
        with suppress(self.line.closed):
            while True:
                self.line.connection.recv(decode=False)
                self.answers.release()

    def _wait(self, happened: Callable[[float], bool], what: str) -> None:
        for _ in range(round(ACKNOWLEDGED_S / LOOK_S)):
            if happened(LOOK_S):
                return
            if not self.listener.is_alive():
                raise ConnectorError(f"{self.line.url}: the connection has ended before the other side had answered {what}")
        raise ConnectorError(f"{self.line.url}: the other side has not answered {what} within {ACKNOWLEDGED_S:g} s")


WEBSOCKET = Connector(
    WebsocketIn,
    lambda options, format: LiveSource(options.url, lambda: WebsocketReader(options)),
    WebsocketOut,
    lambda options, format: TokenlessSink(lambda *_: WebsocketWriter(options, format)),
    many=True,
)
