"""An instance that moves while a `LocalRun` runs: the steps of `cep.dataflow.relocation` in one thread, at turns that a test chooses."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from cep import wire
from cep.dataflow.build import STATE_FORMAT, build
from cep.dataflow.channel import Channel
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.relocation import Arrival, base_of, belongings, channel_at
from cep.elements import Barrier, Move, State
from cep.errors import ProtocolError
from cep.wire import Header

if TYPE_CHECKING:
    from cep.dataflow.local import CheckedChannel, LocalRun


class Relocating:
    """Move `number` of `run`, of instance `old`. Everybody who sends to it hears of it at some turn."""

    def __init__(self, run: LocalRun, old: SubqueryInstance, number: int) -> None:
        self.run, self.old, self.number = run, old, number
        self.place = (old.subquery, old.index)
        self.barrier = Barrier(number, move=Move(*self.place, "elsewhere"))
        run.relocating = self  # from now on what is built gets channels of this move
        self.new = build(run.plan, run.plan.subquery(old.subquery), old.index, run.wiring)
        self.new.enough_rows = old.enough_rows
        self.arrival = Arrival(self.new, self._stray)
        self._on_the_way: deque[State | Barrier] = deque()
        self._listen()
        self._untold = list(run.instances)
        old.on_departure = self._depart

    def _listen(self) -> None:
        """Who hears from the instance opens the channels from its new place."""
        for channel in self._present_channels():
            sender, receiver = self.run.ends[base_of(channel.inbox.name)]
            if sender == self.place and receiver[0] != sender[0]:
                self._instance(receiver).next_inboxes[channel.inbox] = self.run.inbox(channel_at(channel.inbox.name, self.number))

    def _present_channels(self) -> list[CheckedChannel]:
        """Of each channel of the plan the last that was opened before this move."""
        before = [channel for channel in self.run.channels if not channel.inbox.name.endswith(f"#{self.number}")]
        there = {base_of(channel.inbox.name): channel for channel in before}
        return [channel for base, channel in there.items() if base in self.run.ends]

    def _instance(self, place: tuple[str, int]) -> SubqueryInstance:
        return next(i for i in self.run.instances if (i.subquery, i.index) == place)

    def _redirect(self, sender: SubqueryInstance) -> None:
        """One that sends to the instance goes on at its new place."""
        if sender.done:
            return
        ends = _place(sender), self.place
        there = [channel for channel in self._present_channels() if self.run.ends[base_of(channel.inbox.name)] == ends]
        own: dict[Channel, Channel] = {channel: self._opened(channel) for channel in there}
        sender.redirect(self.barrier, own)
        if sender.moving is not None and self.new.moving is not None and sender.subquery == self.old.subquery and sender is not self.old:
            index = self.new.moving.index
            before = sender.moving.channels[index], sender.moving.inboxes[index]
            channel = next(new for old, new in own.items() if old is before[0])
            sender.moving.meet(index, channel, self.run.inbox(channel_at(before[1].name, self.number)))

    def _opened(self, old: CheckedChannel) -> CheckedChannel:
        return self.run.open(channel_at(old.inbox.name, self.number), old.format)

    def turn(self, choose: random.Random) -> bool:
        """Perhaps one more hears of it, perhaps a piece of state arrives. Was there something to come?"""
        there = bool(self._untold or self._on_the_way)
        if self._untold and choose.random() < 0.5:
            self._redirect(self._untold.pop())
        if self._on_the_way and choose.random() < 0.5:
            self.arrival.take(_sent(self._on_the_way.popleft()))
        return there

    def _depart(self, barrier: Barrier) -> None:
        self._on_the_way.extend([*belongings(self.old), barrier])
        self.run.instances[self.run.instances.index(self.old)] = self.new
        self.run.relocated[self.old.subquery] += 1

    def is_over(self) -> bool:
        """The instance is at its new place; or it had nothing more to do before it could go."""
        return not self._untold and (self.old.done if self.old.state != "moved" else not self._on_the_way)

    def _stray(self, piece: State) -> None:
        raise ProtocolError(f"a piece of state that no operator has: {piece.part!r}")


def _place(instance: SubqueryInstance) -> tuple[str, int]:
    return instance.subquery, instance.index


def _sent(element: State | Barrier) -> State | Barrier:
    """As it would come out of the bytes between two processes."""
    found = wire.element_of(Header(wire.kind_of(element), 0), wire.body_of(element, STATE_FORMAT), STATE_FORMAT)
    assert isinstance(found, State | Barrier)
    return found
