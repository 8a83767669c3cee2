"""All instances of a plan in one process, one thread, in-memory channels: the same parts, driven by a schedule that a test chooses.

This is the shipped double of a cluster: deterministic, so that a failing schedule can be replayed from its seed.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cep import wire
from cep.dataflow.build import STATE_FORMAT, Wiring, build
from cep.dataflow.channel import Channel, Credit, Inbox, LocalChannel
from cep.dataflow.checkpoint import keep_of
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.event_time import parser_of
from cep.dataflow.files import TextSource, cut_blocks
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.layout import Layout
from cep.dataflow.meter import Account, Meter
from cep.dataflow.operators import AggregateOperator
from cep.dataflow.pre_aggregation import PROBE_ROWS
from cep.dataflow.query_source import QuerySource
from cep.dataflow.relocation import Arrival, base_of, belongings, channel_at
from cep.dataflow.sink import Boundless
from cep.dataflow.source import ENOUGH_ROWS, Closing, Published, PublishedSource, Publisher, Source
from cep.elements import MIN_TIME, Barrier, Batch, Element, Grammar, Idle, Move, State, Watermark
from cep.errors import ProtocolError
from cep.kernels.jit import nothing_compiles
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.feeds import renumbered
from cep.plan.moving import moving_together, why_it_stays
from cep.plan.needed import grain
from cep.plan.physical import Edge, Feed, PhysicalPlan, channel_name
from cep.wire import Format, Header

#: One publisher's elements in order: what its inbox at each reader gets. Reader index -> [(element, size, watermark)].
Script = Mapping[int, Sequence[tuple[object, int, int]]]


def check(grammar: Grammar, element: Element, watermark: int) -> None:
    """Raises ProtocolError where `element`, or the watermark that its header says holds after it, breaks a rule."""
    grammar.check(element)
    if isinstance(element, Batch | Idle):
        grammar.check(Watermark(watermark))


class CheckedChannel(LocalChannel):
    """Asserts the grammar of what it carries, and takes every batch through the bytes it would be between two processes, unless
    its ends share memory."""

    def __init__(self, inbox: Inbox, wire_format: Format, shares: bool = False) -> None:
        super().__init__(inbox)
        self.format, self.shares, self.grammar = wire_format, shares, Grammar(inbox.name)

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        check(self.grammar, element, watermark)
        if isinstance(element, wire.COSTLY) and not self.shares:
            created = element.created if isinstance(element, Batch) else 0
            header = Header(wire.kind_of(element), 0, fingerprint=self.format.fingerprint, created=created)
            element = wire.element_of(header, wire.body_of(element, self.format), self.format)
        super().send(element, size, watermark, since)


class Sink:
    """The shipped double of a subscription: keeps every element."""

    shares = False

    def __init__(self, name: str) -> None:
        self.elements: list[Element] = []
        self.credit: Credit = Boundless()
        self.grammar = Grammar(name)

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        check(self.grammar, element, watermark)
        self.elements.append(element)

    def batches(self) -> list[Batch]:
        return [element for element in self.elements if isinstance(element, Batch)]


@dataclass
class Outcome:
    """What came out: per output stream, the late one too, its batches; dead letters; the last element of every output."""

    batches: dict[str, list[Batch]] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    last: list[Element] = field(default_factory=list)
    late_rows: int = 0  # of all streams
    dead_letters: list[DeadLetters] = field(default_factory=list)
    open_panes_max: int = 0  # of any instance of an aggregate, at the end of a turn
    steps: int = 0


#: The Barrier of `LocalRun.run_until_barrier`.
BARRIER = 1


def _through(instance: SubqueryInstance) -> bool:
    return instance.done and not any(output.blocked for output in instance.outputs)


class LocalRun:
    """Builds all instances of `plan`; `run` steps them, one at random at a time, until all are done.

    `published` gives, per stream, the scripts of its publishers by name. `credit_bytes` is the share of every channel.
    `upstream` are runs of the queries whose outputs this one reads, as far as they have come: from now on they go on here.
    `meter` measures what its instances do; it has a clock if somebody wants to know.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        published: Mapping[str, Mapping[str, Script]] | None = None,
        credit_bytes: int = 1 << 20,
        clock: Callable[[], int] = lambda: 0,
        read_bytes: int = 2 << 20,
        state_limit: int = 4 << 30,
        probe_rows: int = PROBE_ROWS,
        enough_rows: int = ENOUGH_ROWS,
        upstream: Sequence[LocalRun] = (),
        meter: Meter | None = None,
    ) -> None:
        self.plan, self.published, self.credit_bytes = plan, published or {}, credit_bytes
        self.clock, self.read_bytes, self.enough_rows = clock, read_bytes, enough_rows
        self.meter, self.account = meter or Meter(), Account()  # the account: the schedule and the channels
        self.layout = Layout(plan)
        self.upstream = {run.plan.query.name: run for run in upstream}
        self.inboxes: dict[str, Inbox] = {}
        self.channels: list[CheckedChannel] = []
        self.sinks: dict[tuple[str, int], Sink] = {}
        self._rerouting: list[tuple[SubqueryInstance, str, Barrier]] = []  # who has not heard yet of a new table
        self.ends: dict[str, tuple[tuple[str, int], tuple[str, int]]] = {}  # channel, as the plan names it -> who sends, who receives
        self.relocating: Relocating | None = None
        self.relocated: Counter[str] = Counter()  # subquery -> how often an instance of it has moved
        self.wiring = Wiring(self._connect, self._listen, self._subscribe, self._source, clock, state_limit, probe_rows, self.meter)
        self.instances = [build(plan, plan.subquery(i.subquery), i.index, self.wiring) for i in plan.instances]
        for instance in self.instances:
            instance.state, instance.enough_rows = "running", enough_rows

    def run(self, seed: int = 0, steps_max: int = 1_000_000) -> Outcome:
        """Raises RuntimeError when nothing can move any more: a deadlock."""
        outcome = Outcome()
        self._run(random.Random(seed), outcome, self._is_over, steps_max)
        return self.collect(outcome)

    def run_moving(self, moves: Sequence[tuple[int, str, Sequence[int]]], seed: int = 0, steps_max: int = 1_000_000) -> Outcome:
        """As `run`, while buckets move. Of each move: how many turns after the one before it is named, whose table it is
        (`cep.plan.moving.heads`), and the table. A table is named once the one before it holds everywhere."""
        choose, outcome, versions = random.Random(seed), Outcome(), Counter[str]()
        for turns, head, table in moves:
            self._run(choose, outcome, partial(self._is_over, outcome, outcome.steps + turns), steps_max)
            self._run(choose, outcome, partial(self.has_moved, head, versions[head]), steps_max)
            versions[head] += 1
            self.reroute(head, versions[head], table)
        self._run(choose, outcome, self._is_over, steps_max)
        return self.collect(outcome)

    def run_relocating(self, moves: Sequence[tuple[int, int]], seed: int = 0, steps_max: int = 1_000_000) -> Outcome:
        """As `run`, while instances move. Of each move: how many turns after the one before it is over it begins, and which of the
        instances it is that can."""
        choose, outcome = random.Random(seed), Outcome()
        for number, (turns, which) in enumerate(moves, 1):
            self._run(choose, outcome, partial(self._is_over, outcome, outcome.steps + turns), steps_max)
            there = [i for i in self.instances if i.state == "running" and why_it_stays(self.plan, i.subquery) is None]
            if there:
                self.relocating = Relocating(self, there[which % len(there)], number)
                self._run(choose, outcome, self.relocating.is_over, steps_max)
        self._run(choose, outcome, self._is_over, steps_max)
        return self.collect(outcome)

    def run_until_barrier(self, turns: int, seed: int = 0, steps_max: int = 1_000_000) -> Outcome:
        """Runs so many turns, then sends a Barrier from all sources, behind which every instance pauses; its state is then in
        `snapshots[BARRIER]`, and what no source has read in `unread`."""
        choose, outcome = random.Random(seed), Outcome()
        self._run(choose, outcome, lambda: outcome.steps >= turns or all(map(_through, self.instances)), steps_max)
        for instance in self.instances:
            instance.pause_at = BARRIER
            if instance.sources and not instance.done:
                instance.barrier(BARRIER)
        self._run(choose, outcome, lambda: all(i.done or BARRIER in i.snapshots for i in self.instances) and self._is_empty(), steps_max)
        return self.collect(outcome)

    def _is_over(self, outcome: Outcome | None = None, steps: int = 0) -> bool:
        """Is everything through, or has `outcome` taken so many `steps`?"""
        return (outcome is not None and outcome.steps >= steps) or all(map(_through, self._all_instances()))

    def _run(self, choose: random.Random, outcome: Outcome, until: Callable[[], bool], steps_max: int) -> None:
        while not until():
            outcome.steps += 1
            outcome.open_panes_max = max([outcome.open_panes_max, *self._open_panes()])
            with nothing_compiles():
                moved = self.turn(choose)
            if not moved or outcome.steps > steps_max:
                waits = {i.name: i.waits_for(self.clock()) for i in self._all_instances()}
                raise RuntimeError(f"nothing can move after {outcome.steps} turns: {waits}")

    def _is_empty(self) -> bool:
        """Nothing is on its way between instances."""
        on_the_way = any(output.blocked for instance in self.instances for output in instance.outputs)
        return not on_the_way and not any(inbox.queue for inbox in self.inboxes.values())

    def restore(self, before: LocalRun) -> None:
        """Takes over the state of a run that has paused, of the same query at any parallelism. Call it before `run`."""
        snapshots = [i.snapshots[BARRIER] for i in before.instances if BARRIER in i.snapshots]
        for instance in self.instances:
            instance.restore(snapshots, partial(keep_of, self.layout, self.plan.subquery(instance.subquery), index=instance.index))

    def reroute(self, head: str, version: int, table: Sequence[int]) -> None:
        """Names a new table of the buckets of `head`. Each instance that sends there hears of it at some turn to come."""
        barrier = Barrier(version, tuple(table))
        self._rerouting += [(instance, head, barrier) for instance in self.instances if head in instance.routes]

    def has_moved(self, head: str, version: int) -> bool:
        """Have all buckets the places of that table?"""
        together = moving_together(self.plan, head)
        moving = [i.moving for i in self.instances if i.subquery in together and i.moving is not None and not i.done]
        return not self._rerouting and all(each.version >= version for each in moving)

    def unread(self, stream: str) -> dict[str, list[tuple[Published, int, int]]]:
        """Of each publisher of `stream` what no reader has taken, in the order in which it was sent."""
        sources = [source for instance in self.instances for source, _ in instance.sources]
        readers = [source for source in sources if isinstance(source, PublishedSource) and source.stream == stream]
        left = [(name, each) for reader in readers for name, p in reader.publishers.items() for each in p.inbox.queue]
        batches = [(name, each) for name, each in left if isinstance(each[0], Published)]
        return {
            name: sorted((each for publisher, each in batches if publisher == name), key=lambda each: each[0].record)
            for name in self.published.get(stream, {})
        }

    def _runs(self) -> dict[str, LocalRun]:
        """This one and those before it, each once."""
        before = {name: run for each in self.upstream.values() for name, run in each._runs().items()}
        return before | {self.plan.query.name: self}

    def _all_instances(self) -> list[SubqueryInstance]:
        return [instance for run in self._runs().values() for instance in run.instances]

    def turn(self, choose: random.Random) -> bool:
        """Every instance steps once, in an order and for as long as `choose` says. Did anything move?"""
        order = self._all_instances()
        choose.shuffle(order)
        moved = bool(self._rerouting)
        for instance in order:
            self._tell_tables(instance, choose)
            self.meter.charge(self.account)
            moved |= instance.step(lambda: choose.random() < 0.5)
            moved |= self.relocating is not None and self.relocating.turn(choose)
            moved |= any([channel.settle() for run in self._runs().values() for channel in run.channels])
        if not moved:
            for instance in order:  # what a real instance manager does every 100 ms
                instance.tick()
            moved = any(inbox.queue for run in self._runs().values() for inbox in run.inboxes.values())
        return moved

    def _tell_tables(self, instance: SubqueryInstance, choose: random.Random) -> None:
        for each in [each for each in self._rerouting if each[0] is instance and choose.random() < 0.5]:
            self._rerouting.remove(each)
            instance.reroute(*each[1:])

    def _open_panes(self) -> Iterator[int]:
        operators = (node.operator for instance in self.instances for node in instance.nodes)
        return (operator.state.open_panes for operator in operators if isinstance(operator, AggregateOperator))

    def collect(self, outcome: Outcome) -> Outcome:
        """What has come out of this query so far."""
        for output in self.plan.query.outputs:
            outcome.schemas[output.stream] = self.layout.columns(output.input)
            outcome.batches[output.stream] = []
        for edge in (edge for edge in self.plan.edges if edge.late):
            outcome.schemas[edge.consumer], outcome.batches[edge.consumer] = self.layout.late_format(edge).schema, []
        for (stream, _), sink in sorted(self.sinks.items()):
            outcome.batches[stream] += sink.batches()
            outcome.last += sink.elements[-1:]
        for instance in self.instances:
            outcome.late_rows += sum(source.late_rows for source, _ in instance.sources)
            outcome.dead_letters.append(instance.dead_letters)
        return outcome

    # Wiring

    def _connect(self, edge: Edge, i: int, j: int, wire_format: Format) -> Channel:
        name = channel_name(self.plan.query.name, edge.name, i, j)
        self.ends[name] = (edge.source, i), (edge.target, j)
        neighbours = self._manager(edge.source, i) == self._manager(edge.target, j)
        return self.open(self._present(name), wire_format, neighbours)

    def open(self, name: str, wire_format: Format, neighbours: bool = False) -> CheckedChannel:
        """The sending end of a channel."""
        self.channels.append(CheckedChannel(self.inbox(name), wire_format, neighbours))
        return self.channels[-1]

    def _present(self, name: str) -> str:
        """The channel that the instance that is being built has, for the one that the plan names."""
        return name if self.relocating is None else channel_at(name, self.relocating.number)

    def _manager(self, subquery: str, index: int) -> str:
        return next(instance.im for instance in self.plan.instances_of(subquery) if instance.index == index)

    def _listen(self, edge: Edge, i: int, j: int, wire_format: Format) -> Inbox:
        return self.inbox(self._present(channel_name(self.plan.query.name, edge.name, i, j)))

    def inbox(self, name: str) -> Inbox:
        return self.inboxes.setdefault(name, Inbox(name, self.credit_bytes))

    def _subscribe(self, edge: Edge, i: int, wire_format: Format) -> list[Channel]:
        return [self.sinks.setdefault((edge.consumer, i), Sink(f"{edge.consumer}/{i}"))]

    def _source(
        self, stream: Stream, reader: int, readers: int, source_index: int, origin: bool, columns: Schema, dead_letters: DeadLetters
    ) -> Source:
        if stream.files is not None:
            parser = parser_of(stream, columns.names)
            parser.warm()
            blocks = cut_blocks(stream, self.plan.files[stream.name], parser)
            return TextSource(stream, parser, blocks, reader, readers, source_index, origin, dead_letters, self.clock, self.read_bytes)
        if stream.name in self.plan.feeds:
            feed = self.plan.feeds[stream.name]
            return self._feed(stream.name, feed, Format(columns, feed.origin_words if origin else 0))
        may_idle = stream.idle_after is not None
        source = PublishedSource(stream.name, stream.disorder or 0, source_index, origin, dead_letters, (), stream.times, may_idle)
        source.enough_rows = self.enough_rows
        scripts = self.published.get(stream.name, {}) if self.relocating is None else {}  # later, publishers come from where it was
        for number, (name, script) in enumerate(sorted(scripts.items())):
            inbox = Inbox(f"{stream.name}<{name}", self.credit_bytes)
            source.open(Publisher(name, number, inbox))
            for sequence, (element, size, watermark) in enumerate(script.get(reader, ())):
                inbox.accept(element, size, sequence, 0, watermark, -(2**63))
        return source

    def _feed(self, stream: str, feed: Feed, wire_format: Format) -> Source:
        """Attaches to the run of the query that puts the stream out."""
        source = QuerySource(stream, feed.query, [index for index, _ in feed.producers], renumbered(self.plan, feed))
        outputs = [(i.index, output) for i in self.upstream[feed.query].instances for output in i.outputs if output.name == stream]
        while wire_format.origin and not all(instance.number() for instance in self.upstream[feed.query].instances):
            self.upstream[feed.query].turn(random.Random(0))
        for index, output in outputs:
            channel = CheckedChannel(self.inbox(f"{feed.query}/{stream}/{index}>{self.plan.query.name}"), wire_format)
            self.channels.append(channel)
            output.attach(channel, wire_format.origin > 0, grain(self.plan.query, stream))
            source.attach(index, channel.inbox, output.sent_until)
        return source


# --- an instance that moves -----------------------------------------------------------------------------------------------


class Relocating:
    """The steps of `cep.dataflow.relocation` at turns that the schedule chooses: move `number` of `run`, of instance `old`. Everybody who
    sends to it hears of it at some turn."""

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
        self._untold = [partial(self._redirect, sender) for sender in run.instances] + list(self._publishers())
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

    def _publishers(self) -> Iterator[Callable[[random.Random], None]]:
        new = {source.stream: source for source, _ in self.new.sources if isinstance(source, PublishedSource)}
        for source in (source for source, _ in self.old.sources if isinstance(source, PublishedSource)):
            for name in source.publishers:
                yield partial(self._redirect_publisher, source, new[source.stream], name)

    def _redirect_publisher(self, old: PublishedSource, new: PublishedSource, name: str, choose: random.Random) -> None:
        """It sends some of what it has sent and is not taken, and all that comes then, to the new place; unless it has closed."""
        if name not in old.publishers:
            return
        publisher, inbox = old.publishers[name], Inbox(old.publishers[name].inbox.name, self.run.credit_bytes)
        queue = publisher.inbox.queue
        for _ in range(choose.randint(0, len(queue))):
            inbox.queue.appendleft(queue.pop())
        if not queue or not isinstance(queue[-1][0], Closing):
            queue.append((self.barrier, 0, MIN_TIME))
            new.open(Publisher(name, publisher.partition, inbox))

    def _redirect(self, sender: SubqueryInstance, choose: random.Random) -> None:
        """One that sends to the instance goes on at its new place."""
        if sender is self.old and sender.sources and not sender.done:
            sender.leave(self.barrier)
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
            self._untold.pop(choose.randrange(len(self._untold)))(choose)
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
