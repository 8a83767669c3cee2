"""Subquery instances at home in this process: built from plan and assignment, wired to the network, taken down without a trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cep import wire
from cep.config import InstanceManagerConfig, instance_node
from cep.dataflow.build import STATE_FORMAT, Wiring, build
from cep.dataflow.channel import Channel, Inbox, LocalChannel
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.event_time import parser_of
from cep.dataflow.files import TextSource, cut_blocks
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import Account, Meter
from cep.dataflow.query_source import QuerySource
from cep.dataflow.relocation import channel_at, transfer_name
from cep.dataflow.source import PublishedSource, Source
from cep.elements import MIN_TIME, Barrier
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.feeds import renumbered
from cep.plan.needed import grain
from cep.plan.physical import Edge, Feed, PhysicalPlan, channel_name
from cep.plan.route import Route
from cep.transport import Sockets
from cep.wire import Format, Header
from instance_manager.asked import check_paths
from instance_manager.network import RemoteChannel, RemoteInbox
from instance_manager.subscriptions import Subscription, Terms

NEIGHBOUR_BYTES = 1 << 20  # under way between two instances of one thread: while it is still in the caches
ARRIVAL_BYTES = 8 << 20  # of an instance that moves, under way to its new place
READER_HELD_BYTES = 8 << 20  # held for it by each producer beside what is under way


def clock_us() -> int:
    return time.time_ns() // 1000


@dataclass
class Outlet:
    """An output stream of an instance: its format, and the subscriptions to it."""

    stream: str
    format: Format
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    dropped_rows: int = 0


@dataclass
class Entry:
    """A published stream as this instance reads it."""

    source: PublishedSource
    format: Format
    account: Account = field(default_factory=Account)  # of receiving it
    endpoints: dict[str, str] = field(default_factory=dict)
    gone_on: dict[str, str] = field(default_factory=dict)  # publishers that send to where it moves, and their endpoints
    early: list[tuple[Header, bytes]] | None = None  # what some have said before it had what it had at its old place; None: it has
    followers: frozenset[str] = frozenset()  # who had gone on from there
    refused: set[int] = field(default_factory=set)  # channels of publishers of which batches are missing for what they sent


@dataclass
class Attachment:
    """A stream of another query as this instance reads it; `share`: bytes that each of the producers may have under way."""

    source: QuerySource
    feed: Feed
    terms: dict[str, Any]
    share: int

    def outlet(self, producer: int) -> int:
        return outlet_id(self.feed.query, self.source.stream, producer)

    def channel(self, producer: int) -> str:
        return subscription_name(self.feed.query, self.source.stream, producer, self.terms["id"])


#: (subquery, instance)
Place = tuple[str, int]


class Leaving(Protocol):
    def pump(self) -> bool:
        """Sends what has credit. Was there anything?"""


def _not_at_home() -> None:
    """It is looked at when it comes home."""


@dataclass
class Hosted:
    """A subquery instance with everything that it occupies in this process."""

    key: str
    instance: SubqueryInstance
    epoch: int
    inboxes: dict[str, tuple[Inbox, Format, str | None]] = field(default_factory=dict)  # name -> inbox, format, sender's endpoint
    paced: set[str] = field(default_factory=set)  # of those, as planned, where the sender reads files and waits for our watermark
    channels: dict[str, RemoteChannel | LocalChannel] = field(default_factory=dict)
    outlets: dict[int, Outlet] = field(default_factory=dict)  # by the id that clients name
    entries: dict[int, Entry] = field(default_factory=dict)
    attachments: list[Attachment] = field(default_factory=list)
    senders: dict[str, Place] = field(default_factory=dict)  # of inboxes, as the plan names them
    receivers: dict[str, tuple[Place, str, Format]] = field(default_factory=dict)  # of channels, likewise; and what stream flows, how
    share: int = 0  # of the budget, for a channel from another process
    received: dict[str, Account] = field(default_factory=dict)  # of what comes from other processes, by the name of the edge
    polls: bool = False  # its query asks that messages be waited for awake
    remotes: dict[int, RemoteInbox] = field(default_factory=dict)  # of `inboxes`, those whose senders are elsewhere
    wake: Callable[[], None] = field(default=_not_at_home, repr=False)  # it has something to do; set while it is at home
    reported: tuple[str, int, int] = ("", 0, 0)  # the state, the table's version and the step that the orchestrator knows of
    step: int = 0  # of a move of an instance of its query, done here (`instance_manager.moves`)
    arrival: str = ""  # the channel on which comes what it had where it was before
    wanted: list[dict[str, Any]] = field(default_factory=list)  # subscriptions that were taken before that came
    newest: Subscription | None = None  # the last that has come
    departure: Leaving | None = None  # it has moved, and this is what is on its way
    leaving: Barrier | None = None  # with which it moves, once its publishers send to its new place
    to_drain: bool = False  # as soon as it has come
    traceback: str = ""
    label: bytes = b""  # of `cep.mark`

    def __post_init__(self) -> None:
        self.label = self.instance.label

    @property
    def table_version(self) -> int:
        """Of the table by which its buckets are where they are."""
        return 0 if self.instance.moving is None else self.instance.moving.version

    def receiving(self, channel: str) -> Account:
        """On which the channel's receiving is; one for all channels of an edge."""
        return self.received.setdefault(channel.rsplit("/", 1)[0], Account())


class Preparation:
    """Makes a `Hosted` from a plan: compiles, reads the heads of files. Runs beside the engine's thread and touches no socket."""

    def __init__(self, config: InstanceManagerConfig, sockets: Sockets, local_inboxes: Callable[[str, int], Inbox], meter: Meter) -> None:
        self.config, self.sockets, self.local_inboxes, self.meter = config, sockets, local_inboxes, meter

    def prepare(
        self, plan: PhysicalPlan, assignment: dict[str, Any], channels_here: int, publishers: Mapping[str, Sequence[str]]
    ) -> Hosted:
        """`publishers`: the names of those that are open, by stream."""
        return _Maker(self, plan, assignment, channels_here, publishers).make()


class _Maker:
    def __init__(
        self,
        preparation: Preparation,
        plan: PhysicalPlan,
        assignment: dict[str, Any],
        channels_here: int,
        publishers: Mapping[str, Sequence[str]],
    ) -> None:
        self.preparation, self.plan, self.assignment, self.publishers = preparation, plan, assignment, publishers
        self.config, self.sockets = preparation.config, preparation.sockets
        self.index = int(assignment["instance"])
        self.subquery = plan.subquery(assignment["subquery"])
        self.share = self.config.cluster.budget_bytes // max(1, channels_here)
        self.inboxes: dict[str, tuple[Inbox, Format, str | None]] = {}
        self.paced: set[str] = set()
        self.channels: dict[str, RemoteChannel | LocalChannel] = {}
        self.outlets: dict[int, Outlet] = {}
        self.entries: dict[int, Entry] = {}
        self.attachments: list[Attachment] = []
        self.senders: dict[str, Place] = {}
        self.receivers: dict[str, tuple[Place, str, Format]] = {}
        self.arriving: dict[str, Any] | None = assignment["move"] if is_arriving(assignment, self.config.id) else None

    def make(self) -> Hosted:
        check_paths(self.plan, self.subquery, self.index, self.config.cluster.data)
        limit, meter = self.config.cluster.state_limit_bytes, self.preparation.meter
        wiring = Wiring(self.connect, self.listen, self.subscribe, self.source, clock_us, limit, meter=meter)
        instance = build(self.plan, self.subquery, self.index, wiring)
        key = instance_node(self.plan.query.name, self.subquery.name, self.index)
        arrival = "" if self.arriving is None else self._expect(self.arriving)
        ways = (self.inboxes, self.paced, self.channels, self.outlets, self.entries, self.attachments, self.senders, self.receivers)
        polls = self.plan.query.options.message_policy == "poll"
        step = 0 if self.arriving is None else self.arriving["step"]
        return Hosted(key, instance, self.assignment["epoch"], *ways, self.share, polls=polls, step=step, arrival=arrival)

    def _expect(self, move: dict[str, Any]) -> str:
        """The channel on which what it has now comes."""
        name = transfer_name(self.plan.query.name, self.subquery.name, self.index, move["number"])
        inbox = self.preparation.local_inboxes(name, self.assignment["epoch"])
        inbox.share = ARRIVAL_BYTES
        self.inboxes[name] = (inbox, STATE_FORMAT, move["source"])
        return name

    def _present(self, name: str) -> str:
        """What the channel that the plan calls so is called after the move that brings the instance here."""
        return name if self.arriving is None else channel_at(name, self.arriving["number"])

    def _worker(self, subquery: str, index: int) -> tuple[str, str]:
        """(instance manager, endpoint) of an instance."""
        instance = next(i for i in self.plan.instances_of(subquery) if i.index == index)
        return instance.im, self.plan.worker_of(instance).endpoint

    def connect(self, edge: Edge, i: int, j: int, wire_format: Format) -> Channel:
        planned = channel_name(self.plan.query.name, edge.name, i, j)
        self.receivers[planned] = (edge.target, j), edge.producer, wire_format
        name = self._present(planned)
        im, endpoint = self._worker(edge.target, j)
        if im == self.config.id:
            inbox = self.preparation.local_inboxes(name, self.assignment["epoch"])
            channel: RemoteChannel | LocalChannel = LocalChannel(inbox, self.assignment["epoch"])
        else:
            channel = RemoteChannel(self.sockets, name, edge.producer, endpoint, wire_format, 0, self.assignment["epoch"])
        self.channels[name] = channel
        return channel

    def listen(self, edge: Edge, i: int, j: int, wire_format: Format) -> Inbox:
        planned = channel_name(self.plan.query.name, edge.name, i, j)
        self.senders[planned] = edge.source, i
        name = self._present(planned)
        im, endpoint = self._worker(edge.source, i)
        inbox = self.preparation.local_inboxes(name, self.assignment["epoch"])
        inbox.share = self.share if im != self.config.id else min(self.share, NEIGHBOUR_BYTES)
        self.inboxes[name] = (inbox, wire_format, None if im == self.config.id else endpoint)
        if any(stream in self.plan.files for stream in self.plan.subquery(edge.source).streams):
            self.paced.add(planned)
        return inbox

    def subscribe(self, edge: Edge, i: int, wire_format: Format) -> list[Channel]:
        outlet = Outlet(edge.consumer, wire_format)
        self.outlets[outlet_id(self.plan.query.name, edge.consumer, i)] = outlet
        documents = self.assignment.get("subscriptions", ()) if self.arriving is None else ()  # they come with what it had
        terms = [Terms.from_json(d, self.sockets.endpoint) for d in documents if d["stream"] == edge.consumer]
        return [self.open_subscription(outlet, i, t) for t in terms]

    def open_subscription(self, outlet: Outlet, index: int, terms: Terms) -> Subscription:
        return open_subscription(self.sockets, self.plan.query.name, outlet, index, terms)

    def source(
        self, stream: Stream, reader: int, readers: int, source_index: int, origin: bool, columns: Schema, dead_letters: DeadLetters
    ) -> Source:
        if stream.name in self.plan.feeds:
            return self._attach(stream.name, self.plan.feeds[stream.name], columns, origin)
        if stream.files is None:
            expected = self.publishers.get(stream.name, ()) if self.arriving is None else ()  # it was waited for them where it was
            times, may_idle = stream.times, stream.idle_after is not None
            source = PublishedSource(stream.name, stream.disorder or 0, source_index, origin, dead_letters, expected, times, may_idle)
            edge = next(edge for edge in self.plan.edges if edge.is_input and edge.consumer == stream.name)
            numbered = Route.of(self.plan, edge) is not None  # then rows carry their numbers
            entry = Entry(source, Format.published(stream, int(numbered)), early=None if self.arriving is None else [])
            self.entries[entry_id(self.plan.query.name, stream.name, reader)] = entry
            return source
        parser = parser_of(stream, columns.names)
        parser.warm()
        blocks = cut_blocks(stream, self.plan.files[stream.name], parser)
        return TextSource(stream, parser, blocks, reader, readers, source_index, origin, dead_letters, clock_us)

    def _attach(self, stream: str, feed: Feed, columns: Schema, origin: bool) -> QuerySource:
        """The producers are asked once the instance is at home, for only then can they answer."""
        query = self.plan.query.name
        source = QuerySource(stream, feed.query, [index for index, _ in feed.producers], renumbered(self.plan, feed))
        terms = {
            "id": f"{query}@{self.assignment['epoch']}",
            "endpoint": self.sockets.endpoint,
            "keep_s": self.config.cluster.silence_s,  # after which it is gone, as a publisher would be
            "budget_bytes": min(self.share, READER_HELD_BYTES),
            "reader": query,
            "columns": columns.names,
            "origin": origin,
            "grain": grain(self.plan.query, stream),
        }
        self.attachments.append(Attachment(source, feed, terms, self.share))
        return source


def is_arriving(assignment: Mapping[str, Any], im: str) -> bool:
    """Does this assignment bring an instance here that runs elsewhere?"""
    move = assignment.get("move")
    own = assignment["subquery"], assignment["instance"], im
    return bool(move) and (move["subquery"], move["instance"], move["im"]) == own


def outlet_id(query: str, stream: str, index: int) -> int:
    """What a subscriber names instance `index` of the subquery that produces `stream` by."""
    return wire.name_id(f"{query}/{stream}/{index}")


def entry_id(query: str, stream: str, reader: int) -> int:
    """What a publisher names reader `reader` of `stream` by."""
    return wire.name_id(f"{query}/{stream}<{reader}")


def subscription_name(query: str, stream: str, index: int, id_: str) -> str:
    """The channel from instance `index` of the subquery that produces `stream` to subscription `id_`."""
    return f"{query}/{stream}/{index}>{id_}"


def open_subscription(sockets: Sockets, query: str, outlet: Outlet, index: int, terms: Terms, sent_until: int = MIN_TIME) -> Subscription:
    name = subscription_name(query, outlet.stream, index, terms.id)
    subscription = Subscription(sockets, name, outlet.stream, outlet.format, terms, sent_until)
    outlet.subscriptions[terms.id] = subscription
    return subscription


def publisher_channel(entry: int, publisher: str) -> int:
    return wire.name_id(f"{entry}<{publisher}")


__all__ = [
    "Attachment",
    "Entry",
    "Hosted",
    "Leaving",
    "Outlet",
    "Preparation",
    "clock_us",
    "entry_id",
    "is_arriving",
    "open_subscription",
    "outlet_id",
    "publisher_channel",
    "subscription_name",
]
