"""`python -m tests.support.flooded_link FOLDER`: a process whose links are not looked at while more comes than one connection may have
waiting; then that connection is closed. With ZeroMQ's heartbeats the next one ended this process."""

from __future__ import annotations

import sys
import threading

import zmq

from cep.transport.endpoints import Endpoint
from cep.transport.linked import LinkSockets
from cep.transport.zeromq import INBOUND_MAX

SILENT_S = 1.2  # two heartbeats of half a second


def main(folder: str) -> None:
    sockets = LinkSockets(f"link://h1@127.0.0.1:0{folder}/h1")
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.set_hwm(0)
        dealer.connect(f"tcp://{Endpoint.parse(sockets.endpoint).address}")
        for _ in range(INBOUND_MAX + 1000):
            dealer.send(b"")
    threading.Event().wait(SILENT_S)
    assert sockets.receive() is None
    sockets.close()
    print("went on")


if __name__ == "__main__":
    main(sys.argv[1])
