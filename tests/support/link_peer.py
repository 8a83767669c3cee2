"""A process at one end of a link: sends numbered messages at a steady pace until it is told to stop, and checks those that come.

`python -m tests.support.link_peer OURS THEIRS FOLDER NAME KEYS`: the file FOLDER/NAME has how many have come, FOLDER/stop ends it. What it
prints at the end is JSON: how many were sent and have come, and what was wrong.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.keyring import Keyring
from cep.transport.sockets import Sockets, open_sockets
from cep.transport.wire import Header

SIZES = (0, 24, 200, 4096, 65_536, 200_000)
PACE_S = 0.002  # a message each: some 20 MB/s
END = 1  # in `record`: it is the last one
PATIENCE_S = 40.0


class Peer:
    def __init__(self, sockets: Sockets, there: str, progress: Path) -> None:
        self.sockets, self.there = sockets, there
        self.progress = os.open(progress, os.O_CREAT | os.O_RDWR)
        self.sent = self.come = 0
        self.told = False
        self.other_ended = False
        self.wrong: list[str] = []

    def send(self, last: bool = False) -> None:
        size = SIZES[self.sent % len(SIZES)]
        self.sockets.send(self.there, Header(wire.BATCH, 1, self.sent, record=END if last else 0), body(self.sent, size))
        self.sent += 1

    def take(self) -> None:
        while True:
            try:
                message = self.sockets.receive()
            except ProtocolError as error:
                self.wrong.append(str(error))
                continue
            if message is None:
                break
            self.check(*message)
        os.pwrite(self.progress, self.come.to_bytes(8, "little"), 0)

    def check(self, header: Header, found: Any) -> None:
        expected = body(self.come, SIZES[self.come % len(SIZES)]) or b""
        if header.sequence != self.come or bytes(found) != expected:
            self.wrong.append(f"expected message {self.come} of {len(expected)} bytes, got {header.sequence} of {len(found)}")
        self.come += 1
        self.other_ended |= header.record == END

    def run(self, stop: Path) -> None:
        due, patience = time.monotonic(), 0.0
        while not (patience and self.other_ended):
            if not patience and stop.exists():
                self.send(last=True)
                patience = time.monotonic() + PATIENCE_S
            while not patience and time.monotonic() >= due:
                self.send()
                due += PACE_S
            if patience and time.monotonic() > patience:
                self.wrong.append("the end has not come")
                return
            self.sockets.park(1)
            self.take()


def body(number: int, size: int) -> bytes | None:
    return number.to_bytes(8, "little") * (size // 8) if size else None


def main() -> None:
    ours, theirs, folder, name, keys = sys.argv[1:]
    public, secret = keys.split() if keys else ("", "")
    sockets = open_sockets(ours, Keyring(public, secret, public) if keys else None)
    peer = Peer(sockets, theirs, Path(folder) / name)
    peer.run(Path(folder) / "stop")
    sockets.close()
    print(json.dumps({"sent": peer.sent, "come": peer.come, "wrong": peer.wrong}))


if __name__ == "__main__":
    main()
