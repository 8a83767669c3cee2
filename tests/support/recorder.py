"""A relay between a client and a server that keeps what the client says, as one who listens on the way could."""

from __future__ import annotations

import select
import socket
import threading

PIECE_BYTES = 1 << 16


class Recorder:
    """Between one connection to `address` and the port `to` on loopback."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._there = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.said = bytearray()
        self._ended, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._relay)
        self._thread.start()

    def _relay(self) -> None:
        if self._listening not in select.select([self._listening, self._ended], [], [])[0]:
            return
        client = self._listening.accept()[0]
        with client, socket.create_connection(self._there) as server:
            other = {client: server, server: client}
            while True:
                ready = select.select([client, server, self._ended], [], [])[0]
                for each in ready:
                    piece = b"" if each is self._ended else each.recv(PIECE_BYTES)
                    if not piece:
                        return
                    if each is client:
                        self.said += piece
                    other[each].sendall(piece)

    def close(self) -> None:
        self._end.close()
        self._thread.join()
        self._listening.close()
        self._ended.close()
