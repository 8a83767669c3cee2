"""The client's end of the data plane: the sockets that all its publishers and subscriptions share, however many they are.

1. There is one inbound socket, and to each instance manager one outbound socket and one heartbeat a second. Users' threads send under a
   lock.
2. One thread at a time reads the inbound socket, for all. A user's thread that waits for rows reads by itself, which saves waking it; when
   its rows have come it stops, and another user's thread that waits takes over.
3. The plane's own thread sends the heartbeats. It reads when no user's thread has read for a while, or at once when a user's thread waits
   without reading (`attend`).
4. Handlers run in the thread that reads. They only put things into queues or grant credit.
5. A plane whose thread was not started does nothing but in `turn`, for programs with one thread.
"""

from __future__ import annotations

import itertools
import logging
import threading
import traceback
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from cep.errors import ProtocolError
from cep.kernels.tables.growing import keep_at_least, room
from cep.transport import wire
from cep.transport.connections import arrow_room
from cep.transport.keyring import Keyring
from cep.transport.sockets import Sockets, is_gone, open_sockets
from cep.transport.wire import Header
from cep.world.clock import Clock, SystemClock
from driver.processes.process import Home
from driver.streams.commands import Coalesce, Leave, Listen, Send, StreamCommand
from driver.streams.messages import Messages, next_within
from driver.streams.own_place import ALONE, OwnPlace
from driver.streams.own_rings import OwnRings

LOG = logging.getLogger(__name__)
BEAT_NS = 1_000_000_000
LARGE_BYTES = 1 << 20
KEPT_BYTES = 64 << 20  # of the memory of large batches that the program has let go of, for those to come
TICK_NS = 100_000_000
LOOK_S = 1.0  # so often it is looked whether what is waited for holds, which may be a time
ABSENCE_S = 0.01  # after this long without a reader, or twice that, the plane's own thread reads
Handler = Callable[[Header, Any], None]


def unique_name() -> str:
    """A part of a name that no other has."""
    return uuid.uuid4().hex[:12]


class DataPlane:
    """`handlers` are called by channel id; what an instance answers to a subscription goes to `subscribers`, by the subscription's id, for
    its channel may not be known yet. Close it, or it closes with the process.

    `unique` makes parts of names that no other has; `gone` says whether the process at an endpoint has ended; `on_close` takes down
    what the sockets stood in; `rings`: where we keep what readers may ask for again.
    """

    def __init__(
        self,
        sockets: Sockets,
        clock: Clock | None = None,
        unique: Callable[[], str] = unique_name,
        gone: Callable[[str], bool] | None = None,
        on_close: Callable[[], None] = lambda: None,
        rings: OwnRings | None = None,
    ) -> None:
        self.sockets, self.clock, self.unique, self.on_close = sockets, clock or SystemClock(), unique, on_close
        self.is_gone = gone or partial(is_gone, ours=sockets.endpoint)
        self.id = wire.name_id(self.endpoint)  # of our heartbeat
        self.handlers: dict[int, Handler] = {}
        self.homes: dict[int, str] = {}  # channel -> the endpoint where it lives by our heartbeat
        self.subscribers: dict[str, Handler] = {}
        self.beaten = 0  # so often; an answer names the heartbeat that it is of, for one sent before we were let in says nothing
        self.on_beat: dict[object, Callable[[], None]] = {}
        self.on_tick: dict[object, Callable[[], None]] = {}
        self.lock = threading.RLock()
        self.closed = False
        self.reading = threading.Lock()  # held by the thread that reads
        self.led = False  # that is a user's, or will be in a moment
        self.turns = 0  # of users' threads at reading
        self.waiting: list[Messages[Any]] = []  # of users' threads that do not read, what they wait for
        self.called = threading.Event()  # the plane's own thread is wanted
        self.thread = threading.Thread(target=self._run, name="cep-data", daemon=True)
        self._tick_due = self._beat_due = 0
        self._incarnations = itertools.count()
        self.rings = rings or OwnRings(f"{self.id:016x}")
        self.on_beat[self.rings] = self.rings.rest

    @staticmethod
    def open(place: OwnPlace = ALONE, keyring: Keyring | None = None) -> DataPlane:
        """With its thread at work. Our folder is taken down with it, or swept by the next plane should we be killed. `keyring`: for links,
        in a cluster of several hosts that has keys."""
        keep_at_least(KEPT_BYTES)
        home = Home.make(place.folder)
        sockets = open_sockets(place.endpoint(home.folder / "in"), keyring, room_for)
        plane = DataPlane(sockets, on_close=partial(home.leave, keep=False))
        plane.thread.start()
        return plane

    @property
    def endpoint(self) -> str:
        return self.sockets.endpoint

    def incarnation(self) -> str:
        """What tells one of our publishers from all others that have had its name, or will."""
        return f"{self.endpoint}#{next(self._incarnations)}"

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        """From any thread."""
        with self.lock:
            if not self.closed:
                self.sockets.send(endpoint, header, body)

    def obey(self, command: StreamCommand, handler: Handler) -> None:
        """What a core wants done; `handler` gets what comes on its channels."""
        match command:
            case Send():
                self.send(*command)
            case Listen(endpoint, channel):
                self.listen(endpoint, channel, handler)
            case Leave(channel):
                self.leave(channel)
            case Coalesce(channel, layout):
                self.sockets.join(channel, layout)

    def listen(self, endpoint: str, channel: int, handler: Handler) -> None:
        """What comes on a channel from `endpoint` goes to `handler`, and we are alive there."""
        with self.lock:
            self.homes[channel] = endpoint
            self.handlers[channel] = handler

    def leave(self, channel: int) -> None:
        """The channel is over."""
        with self.lock:
            self.homes.pop(channel, None)
            if self.handlers.pop(channel, None) is not None:
                self.sockets.join(channel, None)

    def turn(self) -> None:
        """What is due by the clock, and all messages that have come; for one thread that does everything."""
        self._tick()
        while (message := self._receive(look=True)) is not None:
            self._dispatch(*message)

    def wait_for(self, changed: threading.Condition, holds: Callable[[], bool]) -> None:
        """Until that holds, which changes with what handlers do. Without a thread of the plane's own the one that waits reads."""
        if self.thread.ident is None:
            while not holds():
                self._tick()
                self._take_arrived(TICK_NS // 1_000_000)
            return
        self.attend()
        with changed:
            while not holds():
                changed.wait(LOOK_S)

    def close(self) -> None:
        if self.closed:
            return
        with self.lock:
            self.closed = True
        self.called.set()
        self.sockets.wake()
        if self.thread.ident is None:  # it was not started
            self._end()
        elif threading.current_thread() is not self.thread:
            self.thread.join()

    def _end(self) -> None:
        with self.reading:
            self.sockets.close()
        self.rings.close()
        self.on_close()

    # Reading

    def next_of(self, messages: Messages[Any], timeout: float) -> Any:
        """The next of `messages`, which handlers fill; the calling thread reads meanwhile if no other user's does. Raises queue.Empty
        after `timeout` seconds without one."""
        deadline = None
        while True:
            if not messages.empty():
                if (found := messages.get()) is not None:
                    return found
                continue  # it may be its turn to read
            deadline = deadline or self.clock.steady_ns() + round(timeout * 1e9)  # as nearly always, none was needed
            left = deadline - self.clock.steady_ns()
            if left > 0 and self._read(messages, deadline):
                continue
            if (found := self._wait(messages, left / 1e9)) is not None:
                return found

    def nudge(self) -> None:
        """Something other than a handler has filled a queue: its reader looks again."""
        self.sockets.wake()

    def attend(self) -> None:
        """A thread is about to wait for what handlers do, and does not read."""
        if not self.led and not self.reading.locked():
            self.called.set()

    def _read(self, messages: Messages[Any], deadline: int) -> bool:
        """Until there is one of `messages`, in this thread; False: another user's does it. The plane's own makes room.

        KeyboardInterrupt may come at every call: so what is taken is noted by the statement that takes it, and given back before any call.
        """
        leads = False
        try:
            with self.lock:
                if self.led or self.closed:
                    return False
                self.led = leads = True
            if self.reading.locked():
                self.sockets.wake()
            with self.reading:
                while messages.empty() and not self.closed and (left := deadline - self.clock.steady_ns()) > 0:
                    self._take_arrived(left // 1_000_000 + 1)
            return True
        finally:
            if leads:
                self.turns += 1
                self.led = False
                self._call_successor()

    def _wait(self, messages: Messages[Any], left: float) -> Any:
        """The next of `messages`; None: it may be this thread's turn to read. Raises queue.Empty."""
        if left <= 0:
            return messages.get_nowait()
        try:
            with self.lock:
                self.waiting.append(messages)
            return next_within(messages, left)
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
        while (message := self._receive(look=False)) is not None:
            self._dispatch(*message)

    def _receive(self, look: bool) -> tuple[Header, Any] | None:
        while True:
            try:
                return self.sockets.receive(look)
            except ProtocolError as error:  # whose it was is not known; its reader notices by the numbers of what follows
                LOG.warning("message not understood: %s", error)

    def _run(self) -> None:
        turns = 0
        while not self.closed:
            self._tick()
            if self.led or turns != self.turns:
                turns = self.turns
                self.called.wait(ABSENCE_S)
                self.called.clear()
                continue
            with self.reading:
                self._take_arrived(0 if self.led else 100 if self.on_tick else 200)
        self._end()

    def _tick(self) -> None:
        """What is due by the clock."""
        now = self.clock.steady_ns()
        if self.on_tick and now >= self._tick_due:
            self._tick_due = now + TICK_NS
            for call in list(self.on_tick.values()):
                _told_if_it_fails(call)
        if now >= self._beat_due:
            self._beat_due = now + BEAT_NS
            self._beat()

    def _dispatch(self, header: Header, body: Any) -> None:
        if header.kind == wire.UNKNOWN:  # of all that we had there
            with self.lock:
                handlers = list(self.handlers.items())
            for channel, each in handlers:
                _told_if_it_fails(each, header._replace(channel=channel), body)
            return
        answer = header.kind == wire.SUBSCRIBED
        try:
            handler = self.subscribers.get(wire.from_json(body)["id"]) if answer else self.handlers.get(header.channel)
            if handler is not None:
                handler(header, body)
        except Exception:  # this thread reads for all
            LOG.warning("message not understood: %s\n%s", header, traceback.format_exc())

    def _beat(self) -> None:
        with self.lock:
            endpoints = dict.fromkeys(self.homes.values())
            self.beaten += 1
        for endpoint in endpoints:
            self.send(endpoint, Header(wire.BEAT, self.id, sequence=self.beaten), self.endpoint.encode())
        for call in list(self.on_beat.values()):
            _told_if_it_fails(call)


def room_for(size: int) -> memoryview:
    """Memory for the body of a message. Large pieces Arrow's pool has from the system each time, which takes as long as to fill them; so
    they are of the memory that this process keeps."""
    return room(size).data if size >= LARGE_BYTES else arrow_room(size)


def _told_if_it_fails(call: Callable[..., None], *given: Any) -> None:
    """The calling thread works for all: what one of them cannot do must not end it."""
    try:
        call(*given)
    except Exception:
        LOG.warning("failed in the data plane: %s", traceback.format_exc())
