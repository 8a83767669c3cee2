"""The client's end of the data plane: one inbound socket, one thread that takes what arrives and sends heartbeats.

Users' threads send under a lock; handlers run in the plane's thread and only put things into queues or grant credit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cep import wire
from cep.transport import Sockets
from cep.wire import Header
from driver.processes import Home

BEAT_S = 1.0
Handler = Callable[[Header, Any], None]


class DataPlane:
    """`handlers` are called by channel id. Close it, or it closes with the process.

    `folder`: the private folder of a local cluster, taken down with it; None: one of our own, swept by the next who makes one
    should we be killed.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.home = Home.make(folder)
        self.sockets = Sockets(self.home.socket("in"))
        self.handlers: dict[int, Handler] = {}
        self.fallback: Handler = lambda header, body: None  # for channels without a handler
        self.beats: dict[tuple[str, int], None] = {}
        self.on_beat: dict[object, Callable[[], None]] = {}
        self.lock = threading.RLock()
        self.closed = False
        self.thread = threading.Thread(target=self._run, name="cep-data", daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return self.sockets.endpoint

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        """From any thread."""
        with self.lock:
            if not self.closed:
                self.sockets.send(endpoint, header, body)

    def close(self) -> None:
        if self.closed:
            return
        with self.lock:
            self.closed = True
        self.sockets.wake()
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def _run(self) -> None:
        due = 0.0
        while not self.closed:
            while (message := self.sockets.receive()) is not None:
                self._dispatch(*message)
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT_S
                self._beat()
            self.sockets.park(200)
        self.sockets.close()
        self.home.leave(keep=False)

    def _dispatch(self, header: Header, body: Any) -> None:
        self.handlers.get(header.channel, self.fallback)(header, body)

    def _beat(self) -> None:
        for endpoint, channel in list(self.beats):
            self.send(endpoint, Header(wire.BEAT, channel))
        for call in list(self.on_beat.values()):
            call()
