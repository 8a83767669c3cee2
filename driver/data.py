"""The client's end of the data plane: one inbound socket, one thread that sends heartbeats and takes what arrives while nobody waits.

All publishers and subscriptions of a client share it, however many they are: to each instance manager there is one socket, and one
heartbeat a second. Users' threads send under a lock. One thread at a time reads: a user's that waits for rows reads for all, so that what
it waits for wakes no other thread first; when it has found something it goes and makes another one that waits its successor. The plane's
own thread reads when none has for a while, or at once when somebody waits for something else (`attend`). Handlers run in the thread that
reads, and only put things into queues or grant credit.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from cep import wire
from cep.errors import ProtocolError
from cep.transport import open_sockets
from cep.wire import Header
from driver.processes import Home

LOG = logging.getLogger(__name__)
BEAT_S = 1.0
TICK_S = 0.1
ABSENCE_S = 0.01  # after this long without a reader, or twice that, the plane's own thread reads
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
        self.beaten = 0  # so often; an answer names the heartbeat that it is of, for one sent before we were let in says nothing
        self.on_beat: dict[object, Callable[[], None]] = {}
        self.on_tick: dict[object, Callable[[], None]] = {}
        self.lock = threading.RLock()
        self.closed = False
        self.reading = threading.Lock()  # held by the thread that reads
        self.led = False  # that is a user's, or will be in a moment
        self.turns = 0  # of users' threads at reading
        self.waiting: list[queue.SimpleQueue[Any]] = []  # of users' threads that do not read, what they wait for
        self.called = threading.Event()  # the plane's own thread is wanted
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
            self.sockets.join(channel, None)

    def redirect(self, before: str, after: str) -> None:
        """A channel goes on at another endpoint."""
        with self.lock:
            self.beats[before] -= 1
            self.beats[after] += 1

    def close(self) -> None:
        if self.closed:
            return
        with self.lock:
            self.closed = True
        self.called.set()
        self.sockets.wake()
        if threading.current_thread() is not self.thread:
            self.thread.join()

    # Reading

    def next_of(self, messages: queue.SimpleQueue[Any], timeout: float) -> Any:
        """The next of `messages`, which handlers fill; the calling thread reads meanwhile if no other user's does. Raises queue.Empty
        after `timeout` seconds without one."""
        deadline = time.monotonic() + timeout
        while True:
            if not messages.empty():
                if (found := messages.get()) is not None:
                    return found
                continue  # it may be its turn to read
            left = deadline - time.monotonic()
            if left > 0 and self._lead():
                self._read(messages, deadline)
            elif (found := self._wait(messages, left)) is not None:
                return found

    def nudge(self) -> None:
        """Somebody else than a handler has filled a queue: whoever reads looks again."""
        self.sockets.wake()

    def attend(self) -> None:
        """Somebody is about to wait for what handlers do, and does not read."""
        if not self.led and not self.reading.locked():
            self.called.set()

    def _lead(self) -> bool:
        """Is it this thread that reads from now on? The plane's own makes room."""
        with self.lock:
            if self.led or self.closed:
                return False
            self.led = True
        if not self.reading.acquire(blocking=False):
            self.sockets.wake()
            self.reading.acquire()
        return True

    def _read(self, messages: queue.SimpleQueue[Any], deadline: float) -> None:
        """Until there is one of `messages`."""
        try:
            while messages.empty() and not self.closed and (left := deadline - time.monotonic()) > 0:
                self._take_arrived(int(left * 1000) + 1)
        finally:
            self.turns += 1
            self.led = False
            self.reading.release()
            self._call_successor()

    def _wait(self, messages: queue.SimpleQueue[Any], left: float) -> Any:
        """The next of `messages`; None: it may be this thread's turn to read. Raises queue.Empty."""
        if left <= 0:
            return messages.get_nowait()
        with self.lock:
            self.waiting.append(messages)
        try:
            return messages.get(timeout=left)
        finally:
            with self.lock:
                self.waiting = [each for each in self.waiting if each is not messages]
            if not self.led:
                self._call_successor()

    def _call_successor(self) -> None:
        if self.waiting:
            with self.lock:
                for messages in self.waiting[:1]:
                    messages.put(None)

    def _take_arrived(self, timeout_ms: int) -> None:
        """What comes first, and what has come with it."""
        self.sockets.park(timeout_ms)
        while True:
            try:
                message = self.sockets.receive(look=False)
            except ProtocolError as error:  # whose it was is not known; its reader notices by the numbers of what follows
                LOG.warning("message not understood: %s", error)
                continue
            if message is None:
                return
            self._dispatch(*message)

    def _run(self) -> None:
        due, tick, turns = 0.0, 0.0, 0
        while not self.closed:
            if self.on_tick and time.monotonic() >= tick:
                tick = time.monotonic() + TICK_S
                for call in list(self.on_tick.values()):
                    _told_if_it_fails(call)
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT_S
                self._beat()
            if self.led or turns != self.turns:
                turns = self.turns
                self.called.wait(ABSENCE_S)
                self.called.clear()
                continue
            with self.reading:
                self._take_arrived(0 if self.led else 100 if self.on_tick else 200)
        with self.reading:
            self.sockets.close()
        self.home.leave(keep=False)

    def _dispatch(self, header: Header, body: Any) -> None:
        if header.kind == wire.UNKNOWN:  # of all that we had there
            with self.lock:
                handlers = list(self.handlers.items())
            for channel, handler in handlers:
                _told_if_it_fails(handler, header._replace(channel=channel), body)
            return
        answer = header.kind == wire.SUBSCRIBED
        try:
            handler = self.subscribers.get(wire.from_json(body)["id"]) if answer else self.handlers.get(header.channel)
            if handler is not None:
                handler(header, body)
        except Exception:  # this thread reads for everybody
            LOG.warning("message not understood: %s\n%s", header, traceback.format_exc())

    def _beat(self) -> None:
        with self.lock:
            endpoints = [endpoint for endpoint, channels in self.beats.items() if channels]
            self.beaten += 1
        for endpoint in endpoints:
            self.send(endpoint, Header(wire.BEAT, self.id, sequence=self.beaten), self.endpoint.encode())
        for call in list(self.on_beat.values()):
            _told_if_it_fails(call)


def _told_if_it_fails(call: Callable[..., None], *given: Any) -> None:
    """The thread that calls works for everybody: what one of them cannot do must not end it."""
    try:
        call(*given)
    except Exception:
        LOG.warning("failed in the data plane: %s", traceback.format_exc())
