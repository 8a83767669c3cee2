"""What a reader of a query that recovers was sent and no commit covers: it is sent once more to the one that comes in its place.

An element keeps its number, stamp, watermark and bytes. So the reader of the next attempt gets what the one before got, in that order,
and judges every row as that did.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from cep.model.limits import KEPT_BYTES_MAX
from cep.transport.wire import Header

Opening = dict[str, Any]


class SentLog:
    """Elements in the order of their numbers, which have no gaps, from number `first` on."""

    def __init__(self) -> None:
        self.elements: list[tuple[Header, Any]] = []
        self.head = 0  # of those, so many are covered
        self.first = 0
        self.bytes = 0
        self.openings: deque[tuple[int, Opening]] = deque()  # from which number on what was said in opening holds

    @property
    def end(self) -> int:
        """The number of the next element."""
        return self.first + len(self.elements) - self.head

    def has_room(self, size: int) -> bool:
        """One more may always be kept."""
        return not self.bytes or self.bytes + size <= KEPT_BYTES_MAX

    def begin_at(self, sequence: int) -> None:
        """Nothing was sent yet."""
        self.first = sequence

    def add(self, header: Header, body: Any) -> None:
        self.elements.append((header, body))
        self.bytes += len(body or b"")

    def opens(self, opening: Opening) -> None:
        """It holds for what comes next."""
        self.openings.append((self.end, opening))

    @property
    def opening(self) -> Opening:
        """What holds for the first of them."""
        return self.openings[0][1]

    def opening_at(self, sequence: int) -> Opening | None:
        """What is to be said anew before that element."""
        return next((opening for at, opening in self.openings if at == sequence and at > self.first), None)

    def cover(self, sequence: int) -> None:
        """A commit covers what is before that number."""
        while self.first < min(sequence, self.end):
            header, body = self.elements[self.head]
            self.elements[self.head] = header, None
            self.bytes -= len(body or b"")
            self.head, self.first = self.head + 1, self.first + 1
        if self.head > len(self.elements) // 2:
            del self.elements[: self.head]
            self.head = 0
        while len(self.openings) > 1 and self.openings[1][0] <= self.first:
            self.openings.popleft()

    def reaches(self, sequence: int) -> bool:
        """Can it go on from there?"""
        return self.first <= sequence <= self.end

    def at(self, sequence: int) -> tuple[Header, Any]:
        return self.elements[self.head + sequence - self.first]

    def forget(self) -> None:
        """Nothing of it will be asked for."""
        self.cover(self.end)
