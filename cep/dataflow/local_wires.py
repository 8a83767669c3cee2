"""The channels of a run in one process (`cep.dataflow.local`): in memory, and checked. What comes in is scripted, what goes out is kept."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from cep.dataflow.channel import Channel, Credit, Inbox, LocalChannel
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.outputs.sink import Boundless
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import PublisherPartition
from cep.dataflow.sources.query_source import QuerySource
from cep.dataflow.sources.source import Reading
from cep.elements import MIN_TIME, Batch, Element, Grammar, Idle, Watermark
from cep.plan.channels import ChannelId
from cep.plan.needed import grain
from cep.plan.physical import Edge, Feed, PhysicalPlan
from cep.transport import wire
from cep.transport.wire import Format, Header

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


class Upstream(Protocol):
    """The run of a query that this one reads."""

    instances: list[SubqueryInstance]

    def turn(self, choose: random.Random) -> bool: ...


class LocalWires:
    """Channels, sinks, scripted publishers and other queries of one run. `move`: the number of the last move of an instance; what is opened
    from then on is of it."""

    def __init__(
        self,
        plan: PhysicalPlan,
        published: Mapping[str, Mapping[str, Script]],
        credit_bytes: int,
        enough_rows: int,
        upstream: Mapping[str, Upstream],
    ) -> None:
        self.plan, self.published, self.credit_bytes = plan, published, credit_bytes
        self.enough_rows, self.upstream = enough_rows, upstream
        self.inboxes: dict[ChannelId | str, Inbox] = {}
        self.ids: dict[Inbox, ChannelId] = {}  # of channels between instances of this query
        self.channels: list[CheckedChannel] = []
        self.sinks: dict[tuple[str, int], Sink] = {}
        self.ends: dict[ChannelId, tuple[tuple[str, int], tuple[str, int]]] = {}  # channel, as the plan names it -> sender, receiver
        self.move = 0

    def connect(self, edge: Edge, i: int, j: int, wire_format: Format) -> Channel:
        channel = self._channel(edge, i, j)
        self.ends[channel.planned] = (edge.source, i), (edge.target, j)
        neighbours = self._manager(edge.source, i) == self._manager(edge.target, j)
        return self.open(channel, wire_format, neighbours)

    def open(self, channel: ChannelId, wire_format: Format, neighbours: bool = False) -> CheckedChannel:
        """The sending end of a channel."""
        self.channels.append(CheckedChannel(self.inbox(channel), wire_format, neighbours))
        return self.channels[-1]

    def _channel(self, edge: Edge, i: int, j: int) -> ChannelId:
        """Of the instance that is being built."""
        return ChannelId(self.plan.query.name, edge.name, i, j, move=self.move)

    def _manager(self, subquery: str, index: int) -> str:
        return next(instance.im for instance in self.plan.instances_of(subquery) if instance.index == index)

    def listen(self, edge: Edge, i: int, j: int, wire_format: Format) -> Inbox:
        return self.inbox(self._channel(edge, i, j))

    def inbox(self, channel: ChannelId) -> Inbox:
        """The receiving end of a channel."""
        inbox = self.inboxes.setdefault(channel, Inbox(str(channel), self.credit_bytes))
        self.ids[inbox] = channel
        return inbox

    def subscribe(self, edge: Edge, i: int, wire_format: Format) -> list[Channel]:
        return [self.sinks.setdefault((edge.consumer, i), Sink(f"{edge.consumer}/{i}"))]

    def admit(self, source: PublishedSource, reading: Reading) -> None:
        """All its publishers are there, and have sent all that they will."""
        source.enough_rows = self.enough_rows
        scripts = self.published.get(source.stream, {}) if not self.move else {}  # later, publishers come from where it was
        for number, (name, script) in enumerate(sorted(scripts.items())):
            inbox = Inbox(f"{source.stream}<{name}", self.credit_bytes)
            source.open(PublisherPartition(name, number, inbox))
            for sequence, (element, size, watermark) in enumerate(script.get(reading.reader, ())):
                inbox.accept(element, size, sequence, watermark, MIN_TIME)

    def attach(self, source: QuerySource, feed: Feed, reading: Reading) -> None:
        """To the run of the query that puts the stream out."""
        stream, wire_format = source.stream, Format(reading.columns, feed.origin_words if reading.origin else 0)
        outputs = [(i.index, output) for i in self.upstream[feed.query].instances for output in i.outputs if output.name == stream]
        while wire_format.origin and not all(instance.number_rows() for instance in self.upstream[feed.query].instances):
            self.upstream[feed.query].turn(random.Random(0))
        for index, output in outputs:
            name = f"{feed.query}/{stream}/{index}>{self.plan.query.name}"
            channel = CheckedChannel(self.inboxes.setdefault(name, Inbox(name, self.credit_bytes)), wire_format)
            self.channels.append(channel)
            output.attach(channel, wire_format.origin > 0, grain(self.plan.query, stream))
            source.attach(index, channel.inbox, output.sent_until)
