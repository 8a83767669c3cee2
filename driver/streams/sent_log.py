"""What a reader of a query that recovers was sent and no commit covers: it is sent once more to the one that comes in its place.

An element keeps its number, stamp, watermark and bytes. So the reader of the next attempt gets what the one before got, in that order,
and judges every row as that did. It lies in a ring in shared memory where the reader's process sees that, so that it outlives ours
(`cep.world.rings`); else, or where that has no room, in our own memory.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from cep.model.limits import KEPT_BYTES_MAX
from cep.transport.wire import HEADER_BYTES, Header
from cep.world.rings import RingFull, RingLog
from cep.world.segments import Segment

LOG = logging.getLogger(__name__)
OPENING = "opening"

Opening = dict[str, Any]
Place = tuple[Segment, int, int]
"""Where a body is in the ring, and how long."""


class SentLog:
    """Elements in the order of their numbers, which have no gaps, from number `first` on."""

    def __init__(self) -> None:
        self.elements: list[tuple[Header, Any]] = []  # the second is its body, or its Place
        self.head = 0  # of those, so many are covered
        self.first = 0
        self.bytes = 0
        self.openings: deque[tuple[int, Opening]] = deque()  # from which number on what was said in opening holds
        self.ring: RingLog | None = None  # None: in our own memory

    @property
    def end(self) -> int:
        """The number of the next element."""
        return self.first + len(self.elements) - self.head

    def has_room(self, size: int) -> bool:
        """One more may always be kept."""
        if not self.bytes:
            return True
        return self.bytes + size <= KEPT_BYTES_MAX and (self.ring is None or self.ring.has_room(self.end, HEADER_BYTES, size))

    def begin_at(self, sequence: int) -> None:
        """Nothing was sent yet."""
        self.first = sequence

    def lay_in(self, ring: RingLog) -> None:
        """Nothing was sent yet, and what will be is kept there."""
        self.ring = ring

    def add(self, header: Header, body: Any) -> None:
        """Raises Sealed: another publisher goes on with what is kept here, and that is not taken any more."""
        kept = body if self.ring is None else self._laid(self.ring, header, body)
        self.elements.append((header, kept))
        self.bytes += len(body or b"")

    def _laid(self, ring: RingLog, header: Header, body: Any) -> Any:
        """What of it is kept here."""
        try:
            segment, at = ring.append(self.end, header.pack(), body)
        except RingFull as full:
            self._fall_back(ring, full)
            return body
        return None if body is None else (segment, at, len(body))

    def _fall_back(self, ring: RingLog, full: RingFull) -> None:
        """What is in the ring comes here."""
        LOG.warning("what is sent is kept in this process, and goes with it: %s", full)
        self.elements[self.head :] = [self._whole(each) for each in self.elements[self.head :]]
        self.ring = None
        ring.abandon()

    def _whole(self, element: tuple[Header, Any]) -> tuple[Header, Any]:
        """With its body as bytes: what is on its way may outlive the segment."""
        header, kept = element
        if not isinstance(kept, tuple):
            return element
        segment, at, size = kept
        return header, segment.body(at, size)

    def opens(self, opening: Opening) -> None:
        """It holds for what comes next."""
        self.openings.append((self.end, opening))
        if self.ring is not None:
            try:
                self.ring.note(self.end, OPENING, opening)
            except RingFull as full:
                self._fall_back(self.ring, full)

    @property
    def opening(self) -> Opening:
        """What holds for the first of them."""
        return self.opening_of(self.first)

    def opening_of(self, sequence: int) -> Opening:
        """What holds for that element: the last that was said before it, for there may have been several with nothing between them."""
        return next(opening for at, opening in reversed(self.openings) if at <= sequence)

    def cover(self, sequence: int) -> None:
        """A commit covers what is before that number."""
        while self.first < min(sequence, self.end):
            header, kept = self.elements[self.head]
            self.elements[self.head] = header, None
            self.bytes -= kept[2] if isinstance(kept, tuple) else len(kept or b"")
            self.head, self.first = self.head + 1, self.first + 1
        if self.head > len(self.elements) // 2:
            del self.elements[: self.head]
            self.head = 0
        while len(self.openings) > 1 and self.openings[1][0] <= self.first:
            self.openings.popleft()
        if self.ring is not None:
            self.ring.release(self.first)

    def reaches(self, sequence: int) -> bool:
        """Can it go on from there?"""
        return self.first <= sequence <= self.end

    def at(self, sequence: int) -> tuple[Header, Any]:
        return self._whole(self.elements[self.head + sequence - self.first])

    def forget(self) -> None:
        """Nothing of it will be asked for."""
        self.cover(self.end)
        if self.ring is not None:
            self.ring.remove()
            self.ring = None
