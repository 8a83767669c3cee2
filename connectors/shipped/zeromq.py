"""ZeroMQ: a message is a value. At most once, both ways: nothing says what has arrived, so what is under way when a process dies is
lost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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

SEND_MS, LINGER_MS = 10_000, 2_000
Endpoint = Annotated[str, Field(pattern="^(tcp|ipc)://", description="`tcp://HOST:PORT` or `ipc://PATH`.")]
Bind = Annotated[bool, Field(description="It is listened at; else it is called.")]


class ZeromqIn(ConnectorOptions):
    """`from`: {"connector": "zeromq", "endpoint": "tcp://127.0.0.1:5555", "kind": "pull"}"""

    endpoint: Endpoint
    kind: Literal["pull", "sub"] = "pull"
    bind: Bind = False
    topic: Annotated[str, Field(description="Of `sub`: with what messages begin.")] = ""


class ZeromqOut(ConnectorOptions):
    """`to`: {"connector": "zeromq", "endpoint": "tcp://127.0.0.1:5556", "kind": "push"}"""

    endpoint: Endpoint
    kind: Literal["push", "pub"] = "push"
    bind: Bind = False


def _socket(options: ZeromqIn | ZeromqOut) -> Any:
    """Raises ConnectorError: the endpoint cannot be had."""
    zmq = library("zmq", "zeromq")
    made = zmq.Context.instance().socket(getattr(zmq, options.kind.upper()))
    made.setsockopt(zmq.LINGER, LINGER_MS)
    made.setsockopt(zmq.SNDTIMEO, SEND_MS)
    try:
        (made.bind if options.bind else made.connect)(options.endpoint)
    except zmq.ZMQError as error:
        made.close(0)
        raise ConnectorError(f"{options.endpoint}: {error}") from None
    return made


class ZeromqReader(RecordReader):
    """Of a message of several parts the last is the value."""

    def __init__(self, options: ZeromqIn) -> None:
        self.zmq, self.socket = library("zmq", "zeromq"), _socket(options)
        if options.kind == "sub":
            self.socket.setsockopt(self.zmq.SUBSCRIBE, options.topic.encode())

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found: list[bytes] = []
        if self.socket.poll(round(timeout_s * 1000)):
            try:
                while len(found) < rows_max:
                    found.append(self.socket.recv_multipart(self.zmq.NOBLOCK)[-1])
            except self.zmq.Again:
                pass
        return Polled(None, found)

    def committed(self, place: Place) -> None:
        """Nothing is told."""

    def close(self) -> None:
        self.socket.close(0)


class ZeromqWriter(AnswerWriter):
    """`push` waits for one that pulls, `pub` for none."""

    def __init__(self, options: ZeromqOut, format: ValueFormat) -> None:
        self.options, self.format = options, format
        self.zmq, self.socket = library("zmq", "zeromq"), _socket(options)

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        try:
            for value in self.format.encode(rows):
                self.socket.send(value)
        except self.zmq.Again:
            raise ConnectorError(f"{self.options.endpoint}: nothing has taken a message for {SEND_MS // 1000} s") from None

    def commit(self, token: str) -> None:
        """What was sent is sent."""

    def abort(self) -> None:
        """Likewise."""

    def close(self) -> None:
        self.socket.close()


ZEROMQ = Connector(
    ZeromqIn,
    lambda options, format: LiveSource(options.endpoint, lambda: ZeromqReader(options)),
    ZeromqOut,
    lambda options, format: TokenlessSink(lambda *_: ZeromqWriter(options, format)),
    many=True,
)
