"""Packets of links that have come, taken apart message by message as they are asked for: what is not taken leaves no room for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from cep.transport.connections import Message
from cep.transport.ends import LinkBroken, LinkEnd


class Arrivals:
    """Args:
    taken: is called with an end whose packet, of so many bytes, is used up.
    spoilt: is called with an end whose packet is none, and why.
    """

    def __init__(self, taken: Callable[[LinkEnd, int], None], spoilt: Callable[[LinkEnd, str], None]) -> None:
        self._taken, self._spoilt = taken, spoilt
        self._packets: deque[tuple[LinkEnd, list[Any], int]] = deque()
        self._broken: deque[LinkBroken] = deque()
        self._messages: Iterator[Message] | None = None  # of the packet that is taken apart
        self.of: LinkEnd | None = None  # whose it is
        self._size = 0

    def add(self, end: LinkEnd, parts: list[Any], size: int) -> None:
        self._packets.append((end, parts, size))

    def add_broken(self, error: LinkBroken) -> None:
        """Is raised behind all that has come."""
        self._broken.append(error)

    def drop(self, end: LinkEnd) -> None:
        """What has come of it is not given out."""
        self._packets = deque(each for each in self._packets if each[0] is not end)

    @property
    def at_hand(self) -> bool:
        """Is there something that `next` gives out, or may?"""
        return self._messages is not None or bool(self._packets) or bool(self._broken)

    def rest(self) -> Message | None:
        """The next message of the packet that is half taken; None: none is, or it has no more."""
        if self._messages is None:
            return None
        assert self.of is not None
        try:
            if (message := next(self._messages, None)) is not None:
                return message
        except Exception as error:  # whatever it is of, only this link is harmed
            self._messages = None
            self._spoilt(self.of, f"{type(error).__name__}: {error}")
            return None
        self._messages = None
        self._taken(self.of, self._size)
        return None

    def next(self) -> Message | None:
        """None: there is none. Raises LinkBroken."""
        while self._messages is not None or self._begin():
            if (message := self.rest()) is not None:
                return message
        if self._broken:
            raise self._broken.popleft()
        return None

    def _begin(self) -> bool:
        if not self._packets:
            return False
        self.of, parts, self._size = self._packets.popleft()
        self._messages = self.of.messages(parts)
        return True
