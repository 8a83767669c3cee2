"""A link: packets from one end to the other, once and in order, over connections that may be cut. Pure: frames and the time go in, frames
come out.

1. The end that calls says HELLO until it hears WELCOME. Each end has an incarnation, a number that no other end ever has, and every
   frame says of which end it is and for which: one that is not for us, or not of the end that we know, is ignored.
2. A packet gets the next number, and is kept until it is acknowledged. The receiver takes the one that it waits for, drops those that it
   has, and says AGAIN where one is missing. The sender then goes back to what the receiver waits for, once a round.
3. Acknowledgements go in lots: with whatever is sent, after `LOT_PACKETS`, half of the window, or `ACK_S`.
4. The receiver says how many bytes may be sent in all: what has been taken there, and its window. Packets go while less has been sent, so
   that one too large for the window passes, too. What has no room waits in order.
5. A sender that has something under way, or waiting, and gets no acknowledgement for `PROBE_S` asks: a PROBE is answered at once. So there
   is no frame that must not get lost.
6. A link breaks, and never heals, where the other end is another one than before (UNKNOWN), speaks another version (REFUSED), or nonsense.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from cep.errors import ProtocolError
from cep.transport import frames as f
from cep.transport.frames import Frame

WINDOW_BYTES = 64 << 20
LOT_PACKETS = 64
ACK_S = 0.02
PROBE_S = 0.25
HELLO_S = 0.5
KEEP_S = 20.0  # the end that calls lets itself be heard so often


class Packet(NamedTuple):
    """What has one number: `parts` are bytes that are never written to again."""

    parts: tuple[Any, ...]
    size: int


class Link:
    """One end.

    Args:
        incarnation: of this end; no other end has it.
        now: s, of a clock that never steps back, as everywhere here.
        hello: what to say of ourselves to the end that we call; None: this one is called (`answer`).
        window: bytes that the other end may have sent beyond what was taken here.
    """

    def __init__(self, incarnation: int, now: float, hello: bytes | None = None, window: int = WINDOW_BYTES) -> None:
        self.incarnation, self.window = incarnation, window
        self.peer = 0  # the incarnation of the other end, once it is known
        self.calls, self._hello = hello is not None, hello or b""
        self.out: deque[tuple[Frame, tuple[Any, ...]]] = deque()  # frames to be written, with their payloads
        self.broken: str | None = None  # why
        self.over = False  # the other end has said goodbye
        self.heard = now
        self.stale = self.duplicates = self.rounds_made = 0  # counted
        # sending
        self.unacknowledged: deque[Packet] = deque()
        self.waiting: deque[Packet] = deque()
        self.acknowledged = 0  # the number of the first of `unacknowledged`
        self.sent_bytes = 0  # of all that has a number
        self.limit = 0
        self.round = 0
        self._probe_at = math.inf
        # receiving
        self.expected = 0
        self.received_bytes = self.taken_bytes = 0
        self._told_bytes = 0  # `taken_bytes` as the other end knows it
        self._told_expected = 0
        self._asked_round = -1
        self._ack_at = math.inf
        self._hello_at = now if self.calls else math.inf
        self._keep_at = now + KEEP_S if self.calls else math.inf

    # what is asked of it

    @property
    def is_up(self) -> bool:
        """Have both ends met, and neither gone?"""
        return bool(self.peer) and self.broken is None and not self.over

    @property
    def pending_bytes(self) -> int:
        """Of what was not acknowledged."""
        return sum(packet.size for packet in (*self.unacknowledged, *self.waiting))

    @property
    def is_settled(self) -> bool:
        """Is all acknowledged that was sent?"""
        return not self.unacknowledged and not self.waiting

    @property
    def due(self) -> float:
        """When `tick` has something to do, s."""
        return math.inf if self.broken is not None else min(self._ack_at, self._probe_at, self._hello_at, self._keep_at)

    # sending

    def send(self, packet: Packet, now: float) -> None:
        self.waiting.append(packet)
        self._pump(now)

    def _pump(self, now: float) -> None:
        """What there is room for goes."""
        while self.waiting and self.sent_bytes < self.limit and self.is_up:
            packet = self.waiting.popleft()
            self.sent_bytes += packet.size
            self.unacknowledged.append(packet)
            self._put(f.DATA, self.acknowledged + len(self.unacknowledged) - 1, packet.parts)
        if not self.is_settled and self._probe_at == math.inf and self.peer:
            self._probe_at = now + PROBE_S

    def _put(self, kind: int, number: int = 0, parts: tuple[Any, ...] = (), flags: int = 0, round_: int | None = None) -> None:
        """Every frame says what has come, and what may come."""
        limit = self.taken_bytes + self.window
        round_ = self.round if round_ is None else round_
        self.out.append((Frame(kind, self.incarnation, self.peer, number, self.expected, limit, round_, flags), parts))
        self._told_expected, self._told_bytes, self._ack_at = self.expected, self.taken_bytes, math.inf

    def _go_back(self) -> None:
        """All that was not acknowledged goes again."""
        self.round += 1
        self.rounds_made += 1
        for number, packet in enumerate(self.unacknowledged, self.acknowledged):
            self._put(f.DATA, number, packet.parts)

    def _probe(self, now: float) -> None:
        self._put(f.PROBE, self.acknowledged + len(self.unacknowledged))
        self._probe_at = math.inf if self.is_settled else now + PROBE_S
        self._keep_at = now + KEEP_S if self.calls else math.inf

    def reconnected(self, now: float) -> None:
        """Frames go another way from now on; what was on the way before may be lost. The end that calls asks what is; for the other one
        all is that has not been acknowledged."""
        if self.broken is not None:
            return
        if not self.peer:
            self._hello_at = now
            self.tick(now)
        elif self.calls:
            self._probe(now)
        elif self.unacknowledged:
            self._go_back()

    def hasten(self, now: float) -> None:
        """An acknowledgement is wanted now."""
        if self.is_up and not self.is_settled:
            self._probe(now)

    def say_goodbye(self) -> None:
        """It will say nothing more."""
        if self.is_up:
            self._put(f.BYE)
        self.over = True

    # receiving

    def receive(self, frame: Frame, size: int, now: float) -> bool:
        """Is the payload, of `size` bytes, the packet that was waited for? Then it is handed on, and `take` is called when it is used up.
        What breaks the link is in `broken`."""
        if self.broken is not None or not self._is_ours(frame):
            self.stale += 1
            return False
        if frame.kind in (f.UNKNOWN, f.REFUSED):
            self._end(frame)
            return False
        if not self.peer:
            self._meet(frame, now)
        if not self.peer:
            return False
        self.heard = now
        try:
            return self._take_in(frame, size, now)
        except ProtocolError as error:
            self.break_off(str(error))
            return False

    def _is_ours(self, frame: Frame) -> bool:
        """For this end, and of the one that it knows; what ends a link may come of one that knows neither."""
        if frame.kind == f.HELLO:
            return frame.source == self.peer
        if frame.target != self.incarnation:
            return False
        if frame.kind == f.UNKNOWN:
            return frame.number == self.peer
        return frame.kind == f.REFUSED or frame.source == self.peer or not self.peer

    def _end(self, frame: Frame) -> None:
        if frame.kind == f.UNKNOWN:
            self.break_off("the process at the other end is another one than before, or has let go of this link")
        else:
            self.break_off("the other end refuses it")

    def _meet(self, frame: Frame, now: float) -> None:
        if frame.kind == f.WELCOME and frame.source:
            self.peer, self._hello_at = frame.source, math.inf
            self._keep_at = now + KEEP_S

    def _take_in(self, frame: Frame, size: int, now: float) -> bool:
        self._note_acknowledged(frame, now)
        match frame.kind:
            case f.ACK if frame.flags & f.AGAIN and frame.round == self.round:
                self._go_back()
            case f.DATA if frame.number == self.expected:
                self._accept(size, now)
                return True
            case f.DATA if frame.number < self.expected:
                self.duplicates += 1
                self._ack_at = now
            case f.DATA if frame.round != self._asked_round:
                self._ask_again(frame.round)
            case f.PROBE if frame.number > self.expected:
                self._ask_again(frame.round)
            case f.PROBE:
                self._put(f.ACK, round_=frame.round)
            case f.HELLO:  # our WELCOME has not come there
                self._put(f.WELCOME)
            case f.BYE:
                self.over = True
        return False

    def answer(self, hello: Frame, now: float) -> None:
        """This end, which knows no other yet, is called."""
        self.peer, self.limit, self.heard = hello.source, hello.limit, now
        self._put(f.WELCOME)
        self._pump(now)

    def _note_acknowledged(self, frame: Frame, now: float) -> None:
        if frame.acknowledged > self.acknowledged + len(self.unacknowledged):
            sent = self.acknowledged + len(self.unacknowledged)
            raise ProtocolError(f"link: expected an acknowledgement of at most {sent} packets, got one of {frame.acknowledged}")
        before = self.acknowledged, self.limit
        while self.acknowledged < frame.acknowledged:
            self.unacknowledged.popleft()
            self.acknowledged += 1
        self.limit = max(self.limit, frame.limit)
        if before != (self.acknowledged, self.limit):
            self._probe_at = math.inf if self.is_settled else now + PROBE_S
        self._pump(now)

    def _accept(self, size: int, now: float) -> None:
        if self.received_bytes >= self.taken_bytes + self.window:
            raise ProtocolError(f"link: expected at most {self.window} bytes beyond those taken, got {size} more")
        self.expected += 1
        self.received_bytes += size
        if self.expected - self._told_expected >= LOT_PACKETS or self.received_bytes - self._told_bytes >= self.window // 2:
            self._ack_at = min(self._ack_at, now)
        else:
            self._ack_at = min(self._ack_at, now + ACK_S)

    def _ask_again(self, round_: int) -> None:
        self._asked_round = round_
        self._put(f.ACK, flags=f.AGAIN, round_=round_)

    def take(self, size: int, now: float) -> None:
        """A packet of `size` bytes is used up: there is room for as much again."""
        self.taken_bytes += size
        if self.taken_bytes - self._told_bytes >= self.window // 4:
            self._ack_at = min(self._ack_at, now)

    # time

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self.broken is not None or self.over:
            self._ack_at = self._probe_at = self._hello_at = self._keep_at = math.inf
            return
        if self._hello_at <= now:
            self.out.append((Frame(f.HELLO, self.incarnation, 0, limit=self.window), (self._hello,)))
            self._hello_at = now + HELLO_S
        if self._ack_at <= now:
            self._put(f.ACK)
        if self.peer and min(self._probe_at, self._keep_at) <= now:
            self._probe(now)

    def break_off(self, why: str) -> None:
        """It is over; nothing more goes out, nothing comes in."""
        self.broken = self.broken or why
        self.out.clear()

    def frames(self) -> Iterator[tuple[Frame, tuple[Any, ...]]]:
        """What is to be written, in order."""
        while self.out:
            yield self.out.popleft()
