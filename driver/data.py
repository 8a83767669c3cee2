"""The client's end of the data plane: one inbound socket, one thread that takes what arrives and sends heartbeats.

All publishers and subscriptions of a client share it, however many they are: to each instance manager there is one socket, and one
heartbeat a second. Users' threads send under a lock; handlers run in the plane's thread and only put things into queues or grant credit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from cep import wire
from cep.transport import open_sockets
from cep.wire import Header
from driver.processes import Home

BEAT_S = 1.0
Handler = Callable[[Header, Any], None]


class DataPlane:
    """`handlers` are called by channel id; what an instance answers to a subscription goes to `subscribers`, by the subscription's id, for
    its channel may not be known yet. Close it, or it closes with the process.

    `folder`: the private folder of a local cluster, taken down with it; None: one of our own, swept by the next who makes one
    should we be killed.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.home = Home.make(folder)
        self.sockets = open_sockets(self.home.socket("in"))
        self.id = wire.name_id(self.endpoint)  # of our heartbeat
        self.handlers: dict[int, Handler] = {}
        self.subscribers: dict[str, Handler] = {}
        self.beats: Counter[str] = Counter()  # endpoint -> channels of ours that live by our heartbeat there
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

    def listen(self, endpoint: str, channel: int, handler: Handler) -> None:
        """What comes on a channel from `endpoint` goes to `handler`, and we are alive there."""
        with self.lock:
            self.beats[endpoint] += channel not in self.handlers
            self.handlers[channel] = handler

    def leave(self, endpoint: str, channel: int) -> None:
        """The channel is over."""
        with self.lock:
            if self.handlers.pop(channel, None) is not None:
                self.beats[endpoint] -= 1

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
        answer = header.kind == wire.SUBSCRIBED
        handler = self.subscribers.get(wire.from_json(body)["id"]) if answer else self.handlers.get(header.channel)
        if handler is not None:
            handler(header, body)

    def _beat(self) -> None:
        with self.lock:
            endpoints = [endpoint for endpoint, channels in self.beats.items() if channels]
        for endpoint in endpoints:
            self.send(endpoint, Header(wire.BEAT, self.id))
        for call in list(self.on_beat.values()):
            call()
