"""Barriers at an instance, and the channels that wait behind them.

Rules:

1. What follows a Barrier on its channel waits until it has come on all channels and from all sources. Then its handler works, and what
   waited goes on.
2. Barriers of a kind are in the order of their numbers. One that is not greater than the last of its kind is ignored: it was heard
   before, or is too late. One that comes while another is under way is queued behind it; none takes another's place.
3. A sender never goes back. So a Barrier stands, on its channel, also for the lesser ones of its kind, which its sender has passed over.
4. A handler's work is a generator: what it yields is work for the instance's step, or None while it waits for something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cep.dataflow.channel import Inbox
from cep.dataflow.nodes import Input
from cep.dataflow.sources.source import Source
from cep.elements import Barrier
from cep.errors import ProtocolError

#: Work that a step runs, and may stop wherever it yields.
Work = Iterator[None]


class Handler(Protocol):
    """What is done about the Barriers of one kind."""

    def begin(self) -> None:
        """One has come on the first channel."""

    def is_past(self, source: Source) -> bool:
        """Does what `source` reads from now on come behind the Barrier?"""

    def run(self, barrier: Any) -> Iterator[Work | None]:
        """It has come on all."""

    @property
    def waits_for(self) -> str:
        """Why it does not go on, in one line; empty: it does."""


@dataclass
class _UnderWay:
    barrier: Barrier
    came: set[Inbox] = field(default_factory=set)


class Alignment:
    """`held`: the channels and sources of which nothing is taken now."""

    def __init__(self, inputs: Sequence[Input], sources: Sequence[Source]) -> None:
        self.inputs, self.sources = inputs, sources
        self.handlers: dict[type[Barrier], Handler] = {}
        self.last: dict[str, int] = {}  # by kind: the greatest number so far
        self.queue: deque[_UnderWay] = deque()
        self.held: set[object] = set()
        self._running: Iterator[Work | None] | None = None  # what the handler of the first in the queue does

    def begin(self, barrier: Barrier) -> bool:
        """It has come on some channel, or the sources are told of it. Is it under way now?"""
        kind = type(barrier)
        if barrier.number <= self.last.get(kind.__name__, -1):
            return any(_same(each.barrier, barrier) for each in self.queue)
        if kind not in self.handlers:
            raise ProtocolError(f"{kind.__name__} {barrier.number} came to an instance that can do nothing about it")
        self.last[kind.__name__] = barrier.number
        self.queue.append(_UnderWay(barrier))
        self.handlers[kind].begin()
        self._hold()
        return True

    def came(self, inbox: Inbox, barrier: Barrier) -> None:
        """It is the next element of this channel."""
        if not self.begin(barrier):
            return
        for each in self.queue:
            if type(each.barrier) is type(barrier) and each.barrier.number <= barrier.number:
                each.came.add(inbox)
            elif inbox not in each.came and type(each.barrier) is not type(barrier):
                raise ProtocolError(f"channel {inbox.name!r}: {barrier} came before {each.barrier}, which another sender put before it")
            if each.barrier == barrier:
                break
        self.held.add(inbox)

    def complete(self) -> bool:
        """Has the first Barrier of the queue come on all channels, and from all sources?"""
        first = self.queue[0]
        past = self.handlers[type(first.barrier)].is_past
        channels = (inbox for input_ in self.inputs for inbox in input_.inboxes)
        return all(inbox.ended or inbox in first.came for inbox in channels) and all(map(past, self.sources))

    def work(self) -> Work | None:
        """What is to be done now for the first Barrier of the queue; None: nothing yet."""
        if self._running is None:
            if not self.complete():
                return None
            self.held.update(self.sources)
            barrier = self.queue[0].barrier
            self._running = self.handlers[type(barrier)].run(barrier)
        for work in self._running:
            return work
        self._running = None
        self.queue.popleft()
        self._hold()
        return iter(())

    @property
    def works(self) -> bool:
        """Has a Barrier come on all, and its handler not done yet what is to be done?"""
        return self._running is not None

    @property
    def waits_for(self) -> str:
        if why := next((why for handler in self.handlers.values() if (why := handler.waits_for)), ""):
            return why
        if not self.queue or self.works:
            return ""
        missing = [i.name for input_ in self.inputs for i in input_.inboxes if not i.ended and i not in self.queue[0].came]
        return f"{self.queue[0].barrier.called} on {', '.join(missing)}" if missing else ""

    def take_last(self, last: Mapping[str, int]) -> None:
        """What it has heard at its old place."""
        self.last |= last

    def _hold(self) -> None:
        self.held = {inbox for each in self.queue for inbox in each.came}
        for each in self.queue:
            self.held.update(source for source in self.sources if self.handlers[type(each.barrier)].is_past(source))


def _same(under_way: Barrier, come: Barrier) -> bool:
    if type(under_way) is type(come) and under_way.number == come.number and under_way != come:
        raise ProtocolError(f"two Barriers of one number: expected {under_way}, got {come}")
    return under_way == come
