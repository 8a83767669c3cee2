"""The sockets of a process that has links: Unix sockets to processes of its own host, links over ZeroMQ to all others.

1. It calls an endpoint that has an address by a DEALER, and is called at its own address by a ROUTER. A client has no address: what is
   sent to it goes back on the connection that it has opened, and waits for that if it has not yet.
2. Whatever thread sends writes. Messages that follow each other quickly are gathered, and leave with the first that comes late enough, when
   they fill a packet, or when the thread that receives looks again.
3. One thread receives, and sleeps in the epoll of the Unix sockets, where ZeroMQ's descriptors are, too. These tell only once that
   something has come, so each socket is looked at after whatever is done with it.
4. A link that breaks is over, with what was under way on it: `receive` raises LinkBroken once, and what is sent next begins another one.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from typing import Any

from cep.errors import ProtocolError
from cep.transport import zeromq
from cep.transport.arrivals import Arrivals
from cep.transport.called import Called
from cep.transport.calling import Calling
from cep.transport.connections import Inbound, Message, Room, heap_room
from cep.transport.endpoints import LOCAL_SCHEME, Endpoint
from cep.transport.ends import CalledEnd, LinkEnd
from cep.transport.ipc import MessageLayout
from cep.transport.keyring import Keyring, Speaker
from cep.transport.local import LINGER_S, LocalSockets
from cep.transport.wire import Header

READ_BYTES = 16 << 20  # of one ZeroMQ socket, before others are looked at
FRAME_BYTES = 1024  # that a frame counts for besides: many that carry nothing take their time, too
GATHER_NS = 50_000  # a message that comes sooner than that after a packet is gathered
STREAM_NS, STREAM_BYTES = 400_000, 4096  # the same behind a packet of so much: where much comes, a packet costs more than its wait
LOOK_S = 0.25  # the longest sleep where there are links
RETRY_S = 1.0  # after which one whose key was refused tries again
LEAVE_S = 20.0  # how long an endpoint that is given up has to take what was sent: longer than a cut that is to be survived
LOG = logging.getLogger(__name__)


class LinkSockets:
    """See `cep.transport.sockets.Sockets`. `send`, `hang_up`, `wake`, `rekey` and `close` may come from any thread.

    Args:
        endpoint: `link://HOST@ADDRESS:PORT/PATH`; of port 0 the system chooses one, which `self.endpoint` then has. Without an address: it
            is not called.
        keyring: None: no CURVE.
    Raises OSError: the endpoint cannot be had.
    """

    def __init__(self, endpoint: str, keyring: Keyring | None = None, room: Room = heap_room) -> None:
        own = Endpoint.parse(endpoint, own=True)
        self.keyring, self._host = keyring, own.host
        self.speaker: Speaker | None = None  # whose key the message was sent under that was received last
        self.local = LocalSockets(f"{LOCAL_SCHEME}{own.path}", room)
        self._lock = threading.RLock()  # of what follows
        self._context = zeromq.make_context()
        self._door: zeromq.DoorKeeper | None = None
        self._called: Called | None = None
        self._ways: dict[str, str | LinkEnd] = {}  # by endpoint: of our own host the Unix socket, else the end of a link
        self._calling: dict[str, Calling] = {}  # by endpoint
        self._gathering: set[LinkEnd] = set()
        self._unread: set[Calling | Called] = set()  # whose ZeroMQ sockets may have something
        self._arrivals = Arrivals(self._take, self._spoil)
        self._local_next = False
        self._due = math.inf  # when a link wants its tick, at the earliest
        self._receiver = 0  # the thread that receives
        self._closed = False
        try:
            self._listen(own)
        except BaseException:
            self.close()
            raise

    def _listen(self, own: Endpoint) -> None:
        if own.address:
            if self.keyring is not None:
                self._door = zeromq.DoorKeeper(self._context, self._knows)
            self._called = Called(self._context, own, self.keyring, self.inbound.coalescers, self._end)
            self._watch_called(self._called)
            self._due = 0.0
            own = Endpoint(own.path, own.host, self._called.address)
        self.endpoint = str(own)

    def _knows(self, key: str) -> bool:
        speaker = None if self.keyring is None else self.keyring.speaker(key)
        return speaker is not None and speaker.holds_at(time.time())

    # sending

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        with self._lock:
            way = self._ways.get(endpoint) or self._way(endpoint)
            if isinstance(way, str):
                self.local.send(way, header, body)
            elif way is not None:
                now_ns = time.monotonic_ns()
                way.add(header, body, now_ns)
                if way not in self._gathering or way.link.out or now_ns >= way.cut_at_ns:
                    self._added(way, now_ns)

    def relay(self, endpoint: str, messages: memoryview | bytes) -> None:
        with self._lock:
            way = self._ways.get(endpoint) or self._way(endpoint)
            if isinstance(way, str):
                self.local.relay(way, messages)
            elif way is not None:
                now_ns = time.monotonic_ns()
                way.add_whole(bytes(messages), now_ns)
                self._added(way, now_ns)

    def _way(self, endpoint: str) -> str | LinkEnd | None:
        """Of an endpoint that was not sent to yet. None: it cannot be."""
        there = Endpoint.parse(endpoint)
        if not there.host or there.host == self._host:
            self._ways[endpoint] = way = f"{LOCAL_SCHEME}{there.path}"
            return way
        now = time.monotonic()
        if there.address:
            self._ways[endpoint] = end = self._calling.get(endpoint) or self._call(endpoint, there.address, now)
            end.leave_at = 0.0
            return end
        if self._called is None or self._closed:
            LOG.warning("nothing can be sent to %s: it has no address, and this process none that it could call", endpoint)
            return None
        self._ways[endpoint] = called = self._called.board.end_of(endpoint, now)
        called.leave_at = 0.0
        return called

    def _call(self, endpoint: str, address: str, now: float) -> Calling:
        end = Calling(self._context, endpoint, address, self.endpoint, self.keyring, self.inbound.coalescers, now)
        self._calling[endpoint] = end
        self._watch_calling(end)
        end.link.tick(now)
        self._write(end)
        return end

    def _added(self, end: LinkEnd, now_ns: int) -> None:
        """Something was. It leaves at once, or when what is gathered does."""
        if end.link.out or now_ns >= end.cut_at_ns:
            self._flush(end, now_ns)
        elif end not in self._gathering:
            self._gathering.add(end)
            if threading.get_ident() != self._receiver:
                self.local.wake()

    def _flush(self, end: LinkEnd, now_ns: int) -> None:
        is_stream = end.gathered_bytes >= STREAM_BYTES or bool(end.link.out)
        end.cut(now_ns / 1e9)
        end.cut_at_ns = now_ns + (STREAM_NS if is_stream else GATHER_NS)
        self._gathering.discard(end)
        self._write(end)

    def _write(self, end: LinkEnd) -> None:
        """What is ready goes to ZeroMQ, which may tell by that that something has come, and then does not tell again."""
        if end.link.out:
            end.write()
            source = end if isinstance(end, Calling) else self._called
            assert isinstance(source, Calling | Called)
            self._note_written(source)
        self._due = min(self._due, end.link.due)

    def _note_written(self, source: Calling | Called) -> None:
        if source not in self._unread and zeromq.is_readable(source.socket):
            self._unread.add(source)
            if threading.get_ident() != self._receiver:
                self.local.wake()

    def hang_up(self, endpoint: str) -> None:
        with self._lock:
            way = self._ways.pop(endpoint, None)
            if isinstance(way, str):
                self.local.hang_up(way)
            elif way is not None:
                self._flush(way, time.monotonic_ns())
                way.link.hasten(time.monotonic())
                way.leave_at = time.monotonic() + LEAVE_S
                self._write(way)

    # receiving

    def receive(self, look: bool = True) -> Message | None:
        if look and self._gathering:
            self._leave_gathered()
        if (message := self._arrivals.rest()) is not None:  # a packet is taken whole before anything else
            return message
        if look and not self.at_hand:
            self._turn(0)
        if self._local_next and self.local.at_hand:
            return self._receive_local()
        if (message := self._arrivals.next()) is not None:
            of = self._arrivals.of
            self._local_next, self.speaker = True, None if of is None else of.speaker
            return message
        return self._receive_local() if self.local.at_hand else None

    def _receive_local(self) -> Message | None:
        self._local_next, self.speaker = False, None
        return self.local.receive(look=False)

    def _take(self, end: LinkEnd, size: int) -> None:
        """A packet is used up. Its sender hears that it may go on before the next one is taken apart."""
        with self._lock:
            now = time.monotonic()
            end.link.take(size, now)
            if end.link.due <= now:
                end.link.tick(now)
            self._write(end)

    def _spoil(self, end: LinkEnd, why: str) -> None:
        with self._lock:
            self._arrivals.drop(end)
            end.link.break_off(why)
            self._end(end)

    def join(self, channel: int, layout: MessageLayout | None) -> None:
        self.local.join(channel, layout)

    @property
    def inbound(self) -> Inbound:
        """See `LocalSockets`."""
        return self.local.inbound

    @property
    def at_hand(self) -> bool:
        """See `LocalSockets`."""
        return self._arrivals.at_hand or self.local.at_hand

    def poll(self, span_ns: int) -> bool:
        end, self.inbound.used = time.monotonic_ns() + span_ns, False
        while not self.at_hand:
            self._turn(0)
            if self.inbound.used or self.at_hand:
                return True
            if time.monotonic_ns() > end:
                return False
            os.sched_yield()
        return True

    def park(self, timeout_ms: int) -> None:
        end = time.monotonic() + timeout_ms / 1000
        left, woken = timeout_ms / 1000, False
        if self.at_hand:  # links go on, also where their packets are not taken
            self._turn(0)
        while not self.at_hand and not woken and left >= 0:
            woken = self._turn(left)
            left = end - time.monotonic()

    def _turn(self, timeout_s: float) -> bool:
        """One look: what is gathered leaves, what has come is read, what is due is done. Was it woken?"""
        self._receiver = threading.get_ident()
        if self._gathering:
            self._leave_gathered()
        if timeout_s:
            timeout_s = 0.0 if self._unread else max(0.0, min(timeout_s, LOOK_S, self._due - time.monotonic()))
        woken = self.local.look(timeout_s)
        if self._unread:
            self._read_all()
        if self._due <= (now := time.monotonic()):
            self._tick(now)
        return woken

    def _leave_gathered(self) -> None:
        with self._lock:
            now_ns = time.monotonic_ns()
            for end in list(self._gathering):
                self._flush(end, now_ns)

    def _read_all(self) -> None:
        with self._lock:
            for source in list(self._unread):
                self._read(source)

    def _read(self, source: Calling | Called) -> None:
        """What has come, up to a bound, and the answers to it."""
        taken, touched, now = 0, set[LinkEnd](), time.monotonic()
        while taken < READ_BYTES:
            found = source.read(now)
            if found is None:
                self._unread.discard(source)
                break
            end, parts, size = found
            taken += size + FRAME_BYTES
            if size and end is not None:
                self._arrivals.add(end, parts, size)
            if end is not None:
                touched.add(end)
        for end in touched:
            self._write(end)
            if isinstance(end, Calling) and (end.link.broken is not None or end.link.over):
                self._end(end)
        if source not in self._unread and not source.closed and zeromq.is_readable(source.socket):
            self._unread.add(source)

    def _tick(self, now: float) -> None:
        """What is due."""
        with self._lock:
            if self._called is not None:
                self._called.tick(now)
                self._note_written(self._called)
            for end in list(self._calling.values()):
                if end.link.due <= now:
                    end.link.tick(now)
                    self._write(end)
                if end.retry_at <= now:
                    self._rekey(end)
                if end.leave_at and (end.link.is_settled or end.leave_at < now):
                    self._let_go(end)
            ends = [*self._calling.values(), *(self._called.board.by_endpoint.values() if self._called else ())]
            self._due = min((now + LOOK_S, *(end.link.due for end in ends))) if ends or self._called else math.inf

    # ends that are over

    def _let_go(self, end: Calling) -> None:
        """It was hung up on, and has taken what was sent, or has had its time."""
        if not end.link.is_settled:
            end.link.break_off(f"it was given up, and took nothing for {LEAVE_S:.0f} s")
            self._end(end)
            return
        end.link.say_goodbye()
        end.write()
        self._end(end)

    def _end(self, end: LinkEnd) -> None:
        """It is over. Where it is broken, that is told."""
        if end.link.broken is not None:
            self._arrivals.add_broken(end.broken())
            if threading.get_ident() != self._receiver:
                self.local.wake()
        self._gathering.discard(end)
        self._ways = {endpoint: way for endpoint, way in self._ways.items() if way is not end}
        if isinstance(end, Calling):
            self._calling.pop(end.endpoint, None)
            self._unread.discard(end)
            self._unwatch(end)
            end.close(linger_ms=500 if end.link.broken is None else 0)
        elif isinstance(end, CalledEnd) and self._called is not None:
            self._called.board.forget(end)

    # descriptors

    def _watch_called(self, called: Called) -> None:
        self.local.watch(called.descriptor, lambda: self._unread.add(called))

    def _watch_calling(self, end: Calling) -> None:
        socket, events = end.descriptors
        self.local.watch(socket, lambda: self._unread.add(end))
        self.local.watch(events, lambda: self._note_connections(end))
        self._note_connections(end)  # ZeroMQ tells by a descriptor of what comes after a look, and not of the first thing otherwise

    def _unwatch(self, end: Calling) -> None:
        for descriptor in end.descriptors:
            self.local.unwatch(descriptor)

    def _note_connections(self, end: Calling) -> None:
        with self._lock:
            connected = end.watch.connected()
            if end.watch.refused and end.retry_at == math.inf:
                end.retry_at = time.monotonic() + RETRY_S
            if connected:
                end.link.reconnected(time.monotonic())
                self._write(end)

    # keys, waking, closing

    def rekey(self, keyring: Keyring) -> None:
        """From now on these keys; with another pair than before every connection is made anew. Clients come and go without that, for each
        frame is asked whose it is. Raises ProtocolError: there was no CURVE before."""
        with self._lock:
            if self.keyring is None:
                raise ProtocolError("sockets that were opened without keys cannot have any: open them with a keyring")
            same, self.keyring = keyring.pairs == self.keyring.pairs, keyring
            if self._called is not None:
                self._called.keyring = keyring
            if same:
                return
            if self._called is not None:
                self.local.unwatch(self._called.descriptor)
                self._called.rekey(keyring)
                self._watch_called(self._called)
            for end in self._calling.values():
                self._rekey(end)
            self.local.wake()

    def _rekey(self, end: Calling) -> None:
        """Tries with the keys that there are now."""
        self._unwatch(end)
        end.rekey(self.keyring)
        self._watch_calling(end)

    def wake(self) -> None:
        self.local.wake()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._leave_gathered()
            self._settle(time.monotonic() + LINGER_S)
            for end in [*self._calling.values(), *(self._called.board.by_endpoint.values() if self._called else ())]:
                end.link.say_goodbye()
                end.write()
            for calling in self._calling.values():
                calling.close(linger_ms=500 if calling.link.peer else 0)
            if self._called is not None:
                self._called.close(linger_ms=500)
            if self._door is not None:
                self._door.close()
            self.local.close()
        self._context.term()

    def _settle(self, deadline: float) -> None:
        """What was sent is acknowledged, as long as there is time."""
        ends: list[LinkEnd] = [*self._calling.values(), *(self._called.board.by_endpoint.values() if self._called else ())]
        for end in ends:
            end.link.hasten(time.monotonic())
            self._write(end)
        while (left := deadline - time.monotonic()) > 0 and any(end.link.broken is None and not end.link.is_settled for end in ends):
            self._turn(left)
