"""One end of a link, or of a bare PUSH and PULL, in a process of its own: `python -m benchmarks.link_ends ROLE KIND JSON`.

Both ends of both kinds do the same work: of each message a header is packed and unpacked, as the data plane's is. Both have their memory
as instance managers have, which are the ends of links.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import zmq

from cep.transport import wire
from cep.transport.keyring import Keyring
from cep.transport.sockets import open_sockets
from cep.transport.wire import HEADER_BYTES, Header
from instance_manager import own_memory

UNDER_WAY_BYTES = 64 << 20  # that the sender of a link may be ahead by: channels of the data plane have as much credit
GRANT_BYTES = 8 << 20
LOOK_BYTES = 256 << 10  # after so many a sender looks at its sockets, as a loop does in every turn
LARGE_BYTES = 16 << 10


class Sending(Protocol):
    def send(self, number: int, body: bytes, created: int = 0) -> None: ...

    def end(self) -> None: ...


class BareSending:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PUSH)
        self.socket.set_hwm(0)
        if asked["keys"]:
            public, secret = (key.encode() for key in asked["keys"])
            self.socket.curve_publickey, self.socket.curve_secretkey, self.socket.curve_serverkey = public, secret, public
        self.socket.connect(f"tcp://{asked['address']}")

    def send(self, number: int, body: bytes, created: int = 0) -> None:
        header = Header(wire.BATCH, 1, number, created=created).pack()
        if len(body) < LARGE_BYTES:
            self.socket.send(b"".join((header, body)))
        else:
            self.socket.send(header, zmq.SNDMORE)
            self.socket.send(body, 0, copy=len(body) < 64 << 10)

    def end(self) -> None:
        self.socket.close(linger=60_000)
        self.context.term()


class LinkSending:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.sockets = open_sockets(f"link://sender@/tmp/{asked['name']}-s", _keyring(asked))
        self.there = f"link://receiver@{asked['address']}/tmp/{asked['name']}-r"
        self.sent = self.looked = 0
        self.granted = UNDER_WAY_BYTES

    def send(self, number: int, body: bytes, created: int = 0) -> None:
        self.sockets.send(self.there, Header(wire.BATCH, 1, number, created=created), body)
        self.sent += len(body) + HEADER_BYTES
        if self.sent - self.looked >= LOOK_BYTES or created:
            self.looked = self.sent
            self._look()

    def _look(self) -> None:
        while True:
            while (message := self.sockets.receive()) is not None:
                self.granted = message[0].sequence + UNDER_WAY_BYTES
            if self.sent < self.granted:
                return
            self.sockets.park(100)

    def end(self) -> None:
        while self.granted - UNDER_WAY_BYTES < self.sent:
            self.sockets.park(100)
            while (message := self.sockets.receive()) is not None:
                self.granted = message[0].sequence + UNDER_WAY_BYTES
        self.sockets.close()


def _keyring(asked: dict[str, Any]) -> Keyring | None:
    if not asked["keys"]:
        return None
    public, secret = asked["keys"]
    return Keyring(public, secret, public)


def bare_receiving(asked: dict[str, Any]) -> Iterator[tuple[Header, int]]:
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.set_hwm(0)
    if asked["keys"]:
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = (key.encode() for key in asked["keys"])
    socket.bind(f"tcp://{asked['address']}")
    print("ready", flush=True)
    large = asked["size"] >= LARGE_BYTES
    for _ in range(asked["count"]):
        frame = socket.recv()
        header = wire.unpack(frame[:HEADER_BYTES])
        body = socket.recv(copy=False).buffer if large else memoryview(frame)[HEADER_BYTES:]
        yield header, len(body)
    socket.close(linger=0)
    context.term()


def link_receiving(asked: dict[str, Any]) -> Iterator[tuple[Header, int]]:
    sockets = open_sockets(f"link://receiver@{asked['address']}/tmp/{asked['name']}-r", _keyring(asked))
    there, taken, told = f"link://sender@/tmp/{asked['name']}-s", 0, 0
    print("ready", flush=True)
    for number in range(asked["count"]):
        while (message := sockets.receive()) is None:
            sockets.park(1000)
        header, body = message
        taken += len(body) + HEADER_BYTES
        if taken - told >= GRANT_BYTES or number == asked["count"] - 1:
            told = taken
            sockets.send(there, Header(wire.CREDIT, 1, taken))
        yield header, len(body)
    sockets.close()


def receive(receiving: Iterator[tuple[Header, int]], asked: dict[str, Any]) -> dict[str, Any]:
    """Seconds from the first message to the last, CPU seconds of this process; of messages sent at a fixed rate their latencies."""
    began, latencies = 0.0, list[int]()
    for expected, (header, size) in enumerate(receiving):
        now = time.monotonic_ns()
        began = began or now
        assert header.sequence == expected and size == asked["size"], (header, size, expected)
        if asked["rate"]:
            latencies.append(now - header.created)
    took = (time.monotonic_ns() - began) / 1e9
    found: dict[str, Any] = {"took_s": took, "cpu_s": time.process_time()}
    if latencies:
        p50, p99 = np.percentile(np.array(latencies[len(latencies) // 10 :]) / 1e3, [50, 99])
        found |= {"p50_us": p50, "p99_us": p99}
    return found


def send(sending: Sending, asked: dict[str, Any]) -> dict[str, Any]:
    body = bytes(asked["size"])
    if asked["rate"]:
        _send_at(sending, asked, body)
    else:
        for number in range(asked["count"]):
            sending.send(number, body)
    sending.end()
    return {"cpu_s": time.process_time()}


def _send_at(sending: Sending, asked: dict[str, Any], body: bytes) -> None:
    """Open loop: each message at its time, by which its latency counts."""
    pause_ns, due = round(1e9 / asked["rate"]), time.monotonic_ns() + 300_000_000
    for number in range(asked["count"]):
        while (now := time.monotonic_ns()) < due:
            time.sleep((due - now) / 1e9)
        sending.send(number, body, due)
        due += pause_ns


if __name__ == "__main__":
    role, kind, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    own_memory.take()
    if role == "send":
        print(json.dumps(send(BareSending(asked) if kind == "bare" else LinkSending(asked), asked)))
    else:
        print(json.dumps(receive(bare_receiving(asked) if kind == "bare" else link_receiving(asked), asked)))
