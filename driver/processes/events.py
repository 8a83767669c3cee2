"""What one thread waits for: descriptors, signals and times. A supervisor is made of these events and of nothing else."""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Callback = Callable[[], None]


class Events:
    """`stopping` is set by a signal, by the death of the parent, or by `stop`."""

    def __init__(self) -> None:
        self.stopping = False
        self._selector = selectors.DefaultSelector()
        self._times: list[tuple[float, int, Callback]] = []  # a heap, by the steady clock
        self._count = itertools.count()
        self._kept: list[socket.socket] = []

    def listen(self) -> None:
        """Takes notice of signals and of the parent's death."""
        receiver, sender = socket.socketpair()
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        self._kept += [receiver, sender]
        self._stop_at(receiver.fileno())
        if parent := os.getppid():  # 0: it is outside this container
            self._stop_at(os.pidfd_open(parent))

    def _stop_at(self, handle: int) -> None:
        """Once: it can be read from then on, and what has stopped may still wait for something."""

        def stop() -> None:
            self.off(handle)
            self.stop()

        self.on(handle, stop)

    def on(self, handle: int, callback: Callback) -> None:
        """Calls `callback` whenever the descriptor can be read."""
        self._selector.register(handle, selectors.EVENT_READ, callback)

    def off(self, handle: int) -> None:
        self._selector.unregister(handle)

    def after(self, delay_s: float, callback: Callback) -> None:
        """Calls `callback` once, when so much time has passed."""
        heapq.heappush(self._times, (time.monotonic() + delay_s, next(self._count), callback))

    def step(self, timeout_s: float | None = None) -> None:
        """Waits for events, at most so long, and acts on them."""
        for key, _ in self._selector.select(self._patience_s(timeout_s)):
            key.data()
        while self._times and self._times[0][0] <= time.monotonic():
            heapq.heappop(self._times)[2]()

    def stop(self) -> None:
        self.stopping = True

    def close(self) -> None:
        for each in self._kept:
            each.close()
        self._selector.close()

    def _patience_s(self, timeout_s: float | None) -> float | None:
        if not self._times:
            return timeout_s
        due_s = max(0.0, self._times[0][0] - time.monotonic())
        return due_s if timeout_s is None else min(due_s, timeout_s)
