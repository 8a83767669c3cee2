"""Runs of `LocalRun` during which something is moved, or that pause at a Barrier, at turns that the schedule chooses."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from cep.dataflow.build import STATE_FORMAT, build
from cep.dataflow.channel import Channel, Inbox
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.local import BARRIER, LocalRun, Outcome, is_through
from cep.dataflow.local_wires import CheckedChannel
from cep.dataflow.movement.instance_move import Arrival, belongings
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, PublisherPartition
from cep.elements import MIN_TIME, CheckpointBarrier, MoveBarrier, State
from cep.errors import ProtocolError
from cep.plan.moving import why_it_stays
from cep.transport import wire
from cep.transport.wire import Header


def run_moving(run: LocalRun, moves: Sequence[tuple[int, str, Sequence[int]]], seed: int = 0) -> Outcome:
    """As `LocalRun.run`, while buckets move. Of each move: how many turns after the one before it is named, whose table it is
    (`cep.plan.moving.heads`), and the table. A table is named once the one before it holds everywhere."""
    choose, outcome, versions = random.Random(seed), Outcome(), Counter[str]()
    for turns, head, table in moves:
        run.drive(choose, outcome, partial(run.is_over, outcome, outcome.steps + turns))
        run.drive(choose, outcome, partial(run.has_moved, head, versions[head]))
        versions[head] += 1
        run.reroute(head, versions[head], table)
    run.drive(choose, outcome, run.is_over)
    return run.collect(outcome)


def run_relocating(run: LocalRun, moves: Sequence[tuple[int, int]], seed: int = 0) -> tuple[Outcome, int]:
    """As `LocalRun.run`, while instances move; and how many have. Of each move: how many turns after the one before it is over it begins,
    and which of the instances it is that can."""
    choose, outcome, relocated = random.Random(seed), Outcome(), 0
    for number, (turns, which) in enumerate(moves, 1):
        run.drive(choose, outcome, partial(run.is_over, outcome, outcome.steps + turns))
        there = [i for i in run.instances if i.state == "running" and why_it_stays(run.plan, i.subquery) is None]
        if there:
            relocating = Relocating(run, there[which % len(there)], number)
            run.drive(choose, outcome, relocating.is_over)
            relocated += relocating.has_departed
    run.drive(choose, outcome, run.is_over)
    return run.collect(outcome), relocated


def run_until_barrier(run: LocalRun, turns: int, seed: int = 0) -> Outcome:
    """Runs so many turns, then sends a Barrier from all sources, behind which every instance pauses; its state is then in
    `run.snapshots(BARRIER)`, and what no source has read in `run.unread`."""
    choose, outcome = random.Random(seed), Outcome()
    run.drive(choose, outcome, lambda: outcome.steps >= turns or all(map(is_through, run.instances)))
    for instance in run.instances:
        if instance.sources and not instance.done:
            run.movement(instance).begin(CheckpointBarrier(BARRIER, pauses=True))
    run.drive(choose, outcome, lambda: run.is_past(BARRIER) and run.is_empty())
    return run.collect(outcome)


class Relocating:
    """The steps of `cep.dataflow.movement.instance_move` at turns that the schedule chooses: move `number` of `run`, of instance `old`.
    Each of its senders hears of it at some turn."""

    def __init__(self, run: LocalRun, old: SubqueryInstance, number: int) -> None:
        self.run, self.old, self.number = run, old, number
        self.place, self.has_departed = (old.subquery, old.index), False
        self.barrier = MoveBarrier(number, *self.place, "elsewhere")
        run.between, run.wires.move = self.turn, number  # from now on what is built gets channels of this move
        self.new, self.movement = build(run.plan, run.plan.subquery(old.subquery), old.index, run.wiring, arriving=True)
        self.new.intake.enough_rows = old.intake.enough_rows
        self.arrival = Arrival(self.new, self.movement.buckets, self._stray)
        self._on_the_way: deque[State | MoveBarrier] = deque()
        self._listen()
        self._untold = [partial(self._redirect, sender) for sender in run.instances] + list(self._publishers())

    def _listen(self) -> None:
        """The receivers of the instance open the channels from its new place."""
        for channel in self._present_channels():
            sender, receiver = self._ends(channel)
            if sender == self.place and receiver[0] != sender[0]:
                self.run.movements[receiver].listen(channel.inbox, self._inbox_at(channel.inbox))

    def _present_channels(self) -> list[CheckedChannel]:
        """For each channel of the plan the last that was opened before this move."""
        inner = [(self.run.wires.ids[channel.inbox], channel) for channel in self.run.wires.channels if channel.inbox in self.run.wires.ids]
        return list({id_.planned: channel for id_, channel in inner if id_.move != self.number}.values())

    def _ends(self, channel: CheckedChannel) -> tuple[tuple[str, int], tuple[str, int]]:
        return self.run.wires.ends[self.run.wires.ids[channel.inbox].planned]

    def _inbox_at(self, inbox: Inbox) -> Inbox:
        """Of the channel that takes its place."""
        return self.run.wires.inbox(self.run.wires.ids[inbox].at(self.number))

    def _publishers(self) -> Iterator[Callable[[random.Random], None]]:
        new = {source.stream: source for source, _ in self.new.sources if isinstance(source, PublishedSource)}
        for source in (source for source, _ in self.old.sources if isinstance(source, PublishedSource)):
            for name in source.publishers:
                yield partial(self._redirect_publisher, source, new[source.stream], name)

    def _redirect_publisher(self, old: PublishedSource, new: PublishedSource, name: str, choose: random.Random) -> None:
        """It sends some of what it has sent and is not taken, and all that comes then, to the new place; unless it has closed."""
        if name not in old.publishers:
            return
        publisher, inbox = old.publishers[name], Inbox(old.publishers[name].inbox.name, self.run.wires.credit_bytes)
        queue = publisher.inbox.queue
        for _ in range(choose.randint(0, len(queue))):
            inbox.queue.appendleft(queue.pop())
        if not queue or not isinstance(queue[-1][0], Closing):
            queue.append((self.barrier, 0, MIN_TIME))
            new.open(PublisherPartition(name, publisher.partition, inbox))

    def _redirect(self, sender: SubqueryInstance, choose: random.Random) -> None:
        """One that sends to the instance goes on at its new place."""
        movement = self.run.movement(sender)
        if sender is self.old and sender.sources and not sender.done:
            movement.begin(self.barrier)
        if sender.done:
            return
        ends = _place(sender), self.place
        there = [channel for channel in self._present_channels() if self._ends(channel) == ends]
        own: dict[Channel, Channel] = {channel: self._opened(channel) for channel in there}
        movement.redirect(self.barrier, own)
        mine, theirs = movement.buckets, self.movement.buckets
        if mine is not None and theirs is not None and sender.subquery == self.old.subquery and sender is not self.old:
            index = theirs.index
            before = mine.channels[index], mine.inboxes[index]
            channel = next(new for old, new in own.items() if old is before[0])
            mine.meet(index, channel, self._inbox_at(before[1]))

    def _opened(self, old: CheckedChannel) -> CheckedChannel:
        return self.run.wires.open(self.run.wires.ids[old.inbox].at(self.number), old.format)

    def turn(self, choose: random.Random) -> bool:
        """Perhaps one more hears of it, perhaps a piece of state arrives. Was there something to come?"""
        if self.run.movement(self.old).place.left is not None:
            self._depart()
        there = bool(self._untold or self._on_the_way)
        if self._untold and choose.random() < 0.5:
            self._untold.pop(choose.randrange(len(self._untold)))(choose)
        if self._on_the_way and choose.random() < 0.5:
            self.arrival.take(_sent(self._on_the_way.popleft()))
        return there

    def _depart(self) -> None:
        movement = self.run.movement(self.old)
        self._on_the_way.extend([*belongings(self.old, movement.buckets), self.barrier])
        movement.place.depart()
        self.run.instances[self.run.instances.index(self.old)], self.run.movements[self.place] = self.new, self.movement
        self.has_departed = True

    def is_over(self) -> bool:
        """The instance is at its new place; or it had nothing more to do before it could go."""
        return not self._untold and (self.old.done if self.old.state != "moved" else self.new.state != "arriving")

    def _stray(self, piece: State) -> None:
        raise ProtocolError(f"a piece of state that no operator has: {piece.part!r}")


def _place(instance: SubqueryInstance) -> tuple[str, int]:
    return instance.subquery, instance.index


def _sent(element: State | MoveBarrier) -> State | MoveBarrier:
    """As it would come out of the bytes between two processes."""
    found = wire.element_of(Header(wire.kind_of(element), 0), wire.body_of(element, STATE_FORMAT), STATE_FORMAT)
    assert isinstance(found, State | MoveBarrier)
    return found
