"""`python -m benchmarks fuzz-links --minutes 10`: random and nearly right bytes at the port of links; a good one is checked.

Thrown are bytes that are no ZeroMQ, frames that are none of a link, frames of links that are not there, and right frames with a wrong
number, size, version or payload, on links of their own. Whatever comes, the good link goes on, and memory does not grow.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import typer
import zmq

from benchmarks.faults.memory_watch import MemoryWatch
from cep.errors import ProtocolError
from cep.transport import frames, wire
from cep.transport.ends import hello_of
from cep.transport.frames import DATA, HELLO, Frame
from cep.transport.linked import LinkSockets
from cep.transport.wire import Header

GROWTH_BYTES = 64 << 20
WARM_S = 5.0
PARTS_MAX = 4


def raw(choose: random.Random) -> bytes:
    """What a peer says that speaks no ZeroMQ, or begins to."""
    greeting = bytes.fromhex("ff00000000000000017f0300") + b"NULL".ljust(20, b"\0") + bytes(32)
    begun = choose.choice((b"", b"GET / HTTP/1.1\r\n\r\n", greeting, greeting[: choose.randrange(64)]))
    return begun + choose.randbytes(choose.randrange(300))


def message(choose: random.Random, number: int, target: int) -> list[bytes]:
    """Parts of a ZeroMQ message: nonsense, or nearly a frame of the link with the incarnations `number` and `target`."""
    if choose.random() < 0.3:
        return [choose.randbytes(choose.randrange(200)) for _ in range(choose.randint(1, PARTS_MAX))]
    field = choose.choice((0, 1, choose.getrandbits(8), choose.getrandbits(64)))
    frame = Frame(choose.choice(list(frames.NAMES)), number, target, field, choose.choice((0, field)), choose.choice((1 << 24, field)))
    found = bytearray(frame.pack())
    for _ in range(choose.choice((0, 0, 1, 2))):
        found[choose.randrange(len(found))] = choose.getrandbits(8)
    payload = choose.choice((b"", hello_of(f"link://bad{choose.randrange(20)}@/x"), wire.pack_sized(3, Header(wire.BATCH, 9)) + b"abc"))
    payload = payload + choose.randbytes(choose.choice((0, 0, 5, 200)))
    more = [choose.randbytes(choose.randrange(100)) for _ in range(choose.choice((0, 0, 1, 2)))]
    return [bytes(found) + payload, *more]


class Attack:
    """On one address: raw connections, and a DEALER with a link of its own each time."""

    def __init__(self, address: str, seed: int) -> None:
        self.address, self.choose, self.context = address, random.Random(seed), zmq.Context()
        self.thrown = 0

    def round(self) -> None:
        host, _, port = self.address.rpartition(":")
        for _ in range(3):
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=1) as connection:
                connection.sendall(raw(self.choose))
        dealer = self.context.socket(zmq.DEALER)
        dealer.linger = 50
        dealer.rcvtimeo = 50
        dealer.connect(f"tcp://{self.address}")
        self._speak(dealer)
        dealer.close()

    def _speak(self, dealer: zmq.Socket[bytes]) -> None:
        number, target = self.choose.getrandbits(64) | 1, 0
        if self.choose.random() < 0.7:
            dealer.send(Frame(HELLO, number, 0, limit=1 << 24).pack() + hello_of(f"link://bad{number % 20}@/x"))
            with suppress(zmq.Again):
                target = frames.read(dealer.recv())[0].source
                dealer.send(Frame(DATA, number, target, 0, 0, 1 << 24).pack() + wire.pack_sized(2, Header(wire.BATCH, 8)) + b"ok")
        for _ in range(self.choose.randrange(12)):
            dealer.send_multipart(message(self.choose, number, target))
            self.thrown += 1

    def close(self) -> None:
        self.context.term()


class GoodLink:
    """Two members, one of which is attacked: each message that is sent comes."""

    def __init__(self, folder: str) -> None:
        self.here = LinkSockets(f"link://h1@127.0.0.1:0{folder}/here")
        self.there = LinkSockets(f"link://h2@127.0.0.1:0{folder}/there")
        self.sent = self.come = 0

    @property
    def address(self) -> str:
        return self.here.endpoint.removeprefix("link://h1@").partition("/")[0]

    def step(self, count: int, patience_s: float = 20.0) -> None:
        """Raises AssertionError: they have not come, or not so."""
        for _ in range(count):
            self.there.send(self.here.endpoint, Header(wire.BATCH, 7, self.sent), b"x" * (self.sent % 5000))
            self.sent += 1
        end = time.monotonic() + patience_s
        while self.come < self.sent:
            assert time.monotonic() < end, f"only {self.come} of {self.sent} messages have come"
            self.there.park(1)
            for header, size in self._received():
                assert (header.sequence, size) == (self.come, self.come % 5000), (header, size, self.come)
                self.come += 1

    def _received(self) -> Iterator[tuple[Header, int]]:
        self.here.park(1)
        while True:
            try:
                found = self.here.receive()
            except ProtocolError:  # of a link that is attacked with
                continue
            if found is None:
                return
            if found[0].channel == 7 and found[0].kind == wire.BATCH:
                yield found[0], len(found[1])

    def close(self) -> None:
        self.there.close()
        self.here.close()


def attacked(seconds: float, seed: int) -> tuple[int, int, MemoryWatch]:
    """Messages thrown, good ones checked, and the memory of the process: of both ends and the attack. Raises AssertionError."""
    with tempfile.TemporaryDirectory() as folder:
        good = GoodLink(folder)
        attack, begun = Attack(good.address, seed), time.monotonic()
        growth = MemoryWatch({"links": os.getpid()}, min(WARM_S, seconds / 2))
        try:
            while (passed := time.monotonic() - begun) < seconds:
                attack.round()
                good.step(20)
                growth.look(passed)
            growth.look(seconds, at_once=True)
            return attack.thrown, good.come, growth
        finally:
            attack.close()
            good.close()


def command(
    minutes: Annotated[float, typer.Option(min=0.05, help="how long")] = 10.0,
    seed: Annotated[int, typer.Option(help="of the bytes")] = 1,
) -> None:
    """Throws broken frames at a port of links; ends with 1 if the process has grown."""
    thrown, come, growth = attacked(60 * minutes, seed)
    print(f"{thrown} frames thrown, {come} messages of the good link have come")
    print(*growth.lines(), sep="\n")
    if growth.grown()["links"] > GROWTH_BYTES:
        raise typer.Exit(1)
