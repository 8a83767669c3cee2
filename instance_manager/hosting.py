"""Subquery instances at home in this process: built from plan and assignment, wired to the network, taken down without a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from cep.config import InstanceManagerConfig, instance_node
from cep.dataflow.build import STATE_FORMAT, Wiring, build
from cep.dataflow.channel import Channel, Inbox, LocalChannel
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import Account, Meter
from cep.dataflow.movement.movement import Movement
from cep.dataflow.reports import mark_label
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.query_source import QuerySource
from cep.dataflow.sources.source import READ_BYTES, Reading
from cep.elements import MIN_TIME, MoveBarrier
from cep.model.limits import SUBSCRIPTIONS_MAX
from cep.plan.channels import ChannelId
from cep.plan.checkpoints import folder_of, recovers, tells_at_once
from cep.plan.needed import grain
from cep.plan.physical import Edge, Feed, PhysicalPlan
from cep.plan.route import Route
from cep.plan.sources import source_of
from cep.service.folders import inside
from cep.service.logs import about
from cep.transport.sockets import Sockets
from cep.transport.wire import Format, Header
from cep.world.archive import Archive
from cep.world.clock import Clock, SystemClock
from cep.world.store import DiskStore, Store
from instance_manager.clients.subscriptions import SubscriptionChannel, Terms
from instance_manager.control.assignment_checks import Assignment, Moving, check_paths
from instance_manager.ports import InPort, OutPort, Ports, RemoteChannel
from instance_manager.recovery.kept import KeptChannel
from instance_manager.recovery.told import ToldChannel

NEIGHBOUR_BYTES = 1 << 20  # under way between two instances of one thread: while it is still in the caches
ARRIVAL_BYTES = 8 << 20  # of an instance that moves, under way to its new place
READER_HELD_BYTES = 8 << 20  # held for it by each producer beside what is under way


class Taken(NamedTuple):
    """Of a publisher's channel: the number of the first element that was not taken; `closed`: its last word was; which publisher it was."""

    sequence: int
    closed: bool
    incarnation: str


@dataclass
class HostRecovery:
    """How far the checkpoints of an instance have come. Numbers are packed (`CheckpointNumber.packed`)."""

    attempt: int
    archive: Archive
    asked: int = -1  # the greatest that was heard of
    last: int = -1  # the last that was taken
    written: Mapping[str, Any] | None = None  # what is to be told of the last that is on the disk, or could not be
    stored: Mapping[str, Any] | None = None  # what is told: that of the last for which all others of its query here have theirs
    wants: bool = False  # another one should be taken at once
    calls: int = 0  # so often it has begun to want one
    covered: bool = False  # all that it has put out is committed, and its clients have it; looked at when it has ended, or is restored so
    given_up: bool = False  # its query is stopped, or has failed: its end waits for no client
    taken: dict[int, Mapping[int, Taken]] = field(default_factory=dict)  # by checkpoint: of which of its publishers it had what
    taken_last: Mapping[int, Taken] = field(default_factory=dict)  # likewise, at the last one
    come: tuple[int, int] = (-1, -1)  # so often its sources had been read then, and so many subscriptions had come
    news: bool = True  # something has come in, or gone out, that the last one that is stored has not
    is_busy: bool = False  # has it had news again and again lately?
    had_news_ns: int = -(1 << 62)  # when one was taken that had any
    pressing: bool = False  # a publisher waits for the next commit
    received: int = 0  # bytes that had come of publishers at the last one
    restored: int = 0  # the checkpoint from which this attempt goes on
    pieces: dict[int, tuple[str, int]] = field(default_factory=dict)  # by checkpoint: name and CRC of those that later ones may need


@dataclass
class Outlet:
    """An output stream of an instance: its format, and the subscriptions to it. `keeps`: what it puts out, in case it is asked for again;
    `tells`: clients at once, not when a commit covers it. `is_late`: it is that of late rows, in no order. `most`: subscriptions of clients
    that it may have."""

    channel: ChannelId  # to whichever client comes
    format: Format
    keeps: bool = False
    tells: bool = False
    is_late: bool = False
    most: int = SUBSCRIPTIONS_MAX
    registered: dict[str, str] = field(default_factory=dict)  # subscriptions that the orchestrator knows, and their clients' endpoints
    subscriptions: dict[str, SubscriptionChannel] = field(default_factory=dict)
    dropped_rows: int = 0
    opened: int = 0  # subscriptions so far
    dropped: set[str] = field(default_factory=set)  # subscriptions whose clients were silent for too long, which none may go on with

    @property
    def stream(self) -> str:
        return self.channel.edge


@dataclass
class Entry:
    """A published stream as this instance reads it."""

    source: PublishedSource
    format: Format
    account: Account = field(default_factory=Account)  # of receiving it
    endpoints: dict[str, str] = field(default_factory=dict)
    gone_on: dict[str, str] = field(default_factory=dict)  # publishers that send to where it moves, and their endpoints
    early: list[tuple[Header, bytes]] | None = None  # what some have said before it had what it had at its old place; None: it has
    followers: frozenset[str] = frozenset()  # those that had gone on from there
    lasting: int = 0  # its id, whatever the attempt
    refused: set[int] = field(default_factory=set)  # channels of publishers of which batches are missing for what they sent


@dataclass
class Attachment:
    """A stream of another query as this instance reads it; `share`: bytes that each of the producers may have under way.

    Args:
        attempt: that query's, with which it is, or is about to be.
        endpoints: of the producers.
        joined: of those that have answered: what has come, and the lineage of its numbers.
        behind: of these, those that have not answered in this attempt.
    """

    source: QuerySource
    feed: Feed
    terms: dict[str, Any]
    share: int
    attempt: int = 0
    endpoints: dict[int, str] = field(default_factory=dict)
    joined: dict[int, tuple[Inbox, str]] = field(default_factory=dict)
    behind: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.endpoints = dict(self.feed.producers)

    def outlet(self, producer: int) -> ChannelId:
        return ChannelId.outlet(self.feed.query, self.source.stream, producer, self.feed.epoch, self.attempt)

    def channel(self, producer: int) -> ChannelId:
        return self.outlet(producer).to(self.terms["id"])

    def asked(self, producer: int) -> dict[str, Any]:
        """What a producer is asked for: all from now on, or from where we are."""
        if producer not in self.behind:
            return self.terms
        inbox, lineage = self.joined[producer]
        return self.terms | {"next": inbox.taken, "lineage": lineage}


class Leaving(Protocol):
    def pump(self) -> bool:
        """Sends what has credit. Was there anything?"""


@dataclass
class HostMove:
    """How far a move of an instance of its query is here, be it this one or another (`instance_manager.moves`)."""

    done: Moving | None = None  # the last step that was done here
    arrival: InPort | None = None  # on which comes what it had where it was before
    wanted: list[Mapping[str, Any]] = field(default_factory=list)  # subscriptions that were taken before that came
    newest: SubscriptionChannel | None = None  # the last that has come
    to_drain: bool = False  # as soon as it has come
    leaving: MoveBarrier | None = None  # with which it moves, once its publishers send to its new place
    departure: Leaving | None = None  # it has moved, and this is what is on its way


def _not_at_home() -> None:
    """It is looked at when it comes home."""


@dataclass
class InstanceHost:
    """A subquery instance with everything that it occupies in this process."""

    key: str
    instance: SubqueryInstance
    movement: Movement
    epoch: int
    ports: Ports = field(default_factory=Ports)
    outlets: dict[int, Outlet] = field(default_factory=dict)  # by the id that clients name
    entries: dict[int, Entry] = field(default_factory=dict)
    attachments: list[Attachment] = field(default_factory=list)
    move: HostMove = field(default_factory=HostMove)
    recovery: HostRecovery | None = None  # None: its query does not recover
    polls: bool = False  # its query asks that messages be waited for awake
    depth: int = 0  # its subquery's place in the plan: it reads those of smaller ones only
    wake: Callable[[], None] = field(default=_not_at_home, repr=False)  # it has something to do; set while it is at home
    lost: tuple[tuple[str, str, str], ...] = ()  # what the orchestrator knows and is here no more: stream, subscription, endpoint
    reported: tuple[object, ...] = ()  # `tellable`, as the orchestrator knows it
    traceback: str = ""
    label: bytes = b""  # of `cep.service.mark`

    def __post_init__(self) -> None:
        self.label = mark_label(self.instance)

    def about(self, **more: Any) -> dict[str, Any]:
        """For a line of the log that is about it."""
        return about(self.instance.query, f"{self.instance.subquery}/{self.instance.index}", **more)

    @property
    def attempt(self) -> int:
        """How often its query has recovered."""
        return 0 if self.recovery is None else self.recovery.attempt

    @property
    def waits_for_others(self) -> bool:
        """Of a recovery: not all of its attempt are there, or it has not heard so, however long it takes them to read their state."""
        return self.attempt > 0 and self.instance.state == "ready"

    @property
    def tellable(self) -> tuple[object, ...]:
        """What the orchestrator is told as soon as it changes."""
        state = self.instance.state, self.table_version, self.step, self.lost
        own = self.recovery
        return state if own is None else (*state, own.stored and tuple(own.stored["number"]), own.calls, own.news, own.covered)

    @property
    def table_version(self) -> int:
        """Of the table by which its buckets are where they are."""
        return 0 if self.movement.buckets is None else self.movement.buckets.version

    @property
    def step(self) -> int:
        """Of a move of an instance of its query, done here."""
        return 0 if self.move.done is None else self.move.done.step


class Preparation:
    """Makes a `InstanceHost` from a plan: compiles, reads the heads of files. Runs beside the engine's thread and touches no socket."""

    def __init__(
        self,
        config: InstanceManagerConfig,
        sockets: Sockets,
        inbox: Callable[[ChannelId], Inbox],
        meter: Meter,
        clock: Clock | None = None,
        store: Store | None = None,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self.read_bytes = read_bytes
        self.config, self.sockets, self.inbox, self.meter = config, sockets, inbox, meter
        self.clock = clock or SystemClock()
        self.store, self.own_store = store or DiskStore(), store or DiskStore(own=True)

    def archive(self, query: str, epoch: int) -> Archive:
        """Of the checkpoints of a deployment."""
        return Archive(self.own_store, f"{self.config.cluster.checkpoints}/{folder_of(query, epoch)}")

    def now_us(self) -> int:
        """Since 1970."""
        return self.clock.wall_ns() // 1000

    def prepare(
        self, plan: PhysicalPlan, assignment: Assignment, channels_here: int, publishers: Mapping[str, Sequence[str]]
    ) -> InstanceHost:
        """`publishers`: the names of those that are open, by stream."""
        return _Maker(self, plan, assignment, channels_here, publishers).make()


class _Maker:
    def __init__(
        self,
        preparation: Preparation,
        plan: PhysicalPlan,
        assignment: Assignment,
        channels_here: int,
        publishers: Mapping[str, Sequence[str]],
    ) -> None:
        self.preparation, self.plan, self.assignment, self.publishers = preparation, plan, assignment, publishers
        self.config, self.sockets = preparation.config, preparation.sockets
        self.index = assignment.instance
        self.subquery = plan.subquery(assignment.subquery)
        self.share = self.config.cluster.budget_bytes // max(1, channels_here)
        self.ports = Ports(self.share)
        self.outlets: dict[int, Outlet] = {}
        self.entries: dict[int, Entry] = {}
        self.attachments: list[Attachment] = []
        self.arriving: Moving | None = assignment.move if assignment.arrives_at(self.config.id) else None

    def make(self) -> InstanceHost:
        check_paths(self.plan, self.subquery, self.index, self.config.cluster.data)
        limit, meter = self.config.cluster.state_limit_bytes, self.preparation.meter
        check_file = partial(inside, folders=self.config.cluster.data)
        ways = self.connect, self.listen, self.subscribe, self
        wiring = Wiring(*ways, self.preparation.now_us, limit, check_file=check_file, meter=meter)
        wiring = replace(wiring, store=self.preparation.store, read_bytes=self.preparation.read_bytes, attempt=self.assignment.attempt)
        instance, movement = build(self.plan, self.subquery, self.index, wiring, arriving=self.arriving is not None)
        key = instance_node(self.plan.query.name, self.subquery.name, self.index)
        move = HostMove() if self.arriving is None else HostMove(self.arriving, self._expect(self.arriving))
        polls = self.plan.query.options.message_policy == "poll"
        clients, depth = (self.outlets, self.entries, self.attachments), self.plan.subqueries.index(self.subquery)
        recovery = None
        if recovers(self.plan):
            recovery = HostRecovery(self.assignment.attempt, self.preparation.archive(self.plan.query.name, self.assignment.epoch))
        return InstanceHost(key, instance, movement, self.assignment.epoch, self.ports, *clients, move, recovery, polls, depth)

    def _expect(self, move: Moving) -> InPort:
        """Where what it has now comes."""
        channel = transfer_channel(self.plan.query.name, self.subquery.name, self.index, self.assignment.epoch, move.number)
        inbox, account = self.preparation.inbox(channel), self.ports.account_of(channel.edge)
        inbox.share = ARRIVAL_BYTES
        port = InPort(channel, inbox, STATE_FORMAT, account, move.source)
        self.ports.add_in(port)
        return port

    def _channel(self, edge: Edge, i: int, j: int) -> ChannelId:
        """Of this deployment, after the move that brings the instance here."""
        move = 0 if self.arriving is None else self.arriving.number
        return ChannelId(self.plan.query.name, edge.name, i, j, self.assignment.epoch, self.assignment.attempt, move)

    def _worker(self, subquery: str, index: int) -> tuple[str, str]:
        """(instance manager, endpoint) of an instance."""
        instance = next(i for i in self.plan.instances_of(subquery) if i.index == index)
        return instance.im, self.plan.worker_of(instance).endpoint

    def connect(self, edge: Edge, i: int, j: int, wire_format: Format) -> Channel:
        channel = self._channel(edge, i, j)
        im, endpoint = self._worker(edge.target, j)
        if im == self.config.id:
            way: RemoteChannel | LocalChannel = LocalChannel(self.preparation.inbox(channel))
        else:
            way = RemoteChannel(self.sockets, channel, edge.producer, endpoint, wire_format)
        self.ports.add_out(OutPort(channel, way, wire_format, (edge.target, j), edge.producer))
        return way

    def listen(self, edge: Edge, i: int, j: int, wire_format: Format) -> Inbox:
        channel = self._channel(edge, i, j)
        im, endpoint = self._worker(edge.source, i)
        here, inbox = im == self.config.id, self.preparation.inbox(channel)
        inbox.share = min(self.share, NEIGHBOUR_BYTES) if here else self.share
        paced = any(source_of(self.plan, stream).is_paced for stream in self.plan.subquery(edge.source).streams)
        account, at = (Account(), "") if here else (self.ports.account_of(edge.name), endpoint)
        self.ports.add_in(InPort(channel, inbox, wire_format, account, at, paced, (edge.source, i)))
        return inbox

    def subscribe(self, edge: Edge, i: int, wire_format: Format) -> list[Channel]:
        own = self.assignment.epoch, self.assignment.attempt
        channel, is_late = ChannelId.outlet(self.plan.query.name, edge.consumer, i, *own), edge.consumer == self.plan.query.late
        outlet = Outlet(channel, wire_format, recovers(self.plan), tells_at_once(self.plan), is_late, self.assignment.subscribers_max)
        self.outlets[outlet.channel.id] = outlet
        documents = [document for document in self.assignment.subscriptions if document["stream"] == edge.consumer]
        terms = [Terms.from_json(document, self.sockets.endpoint) for document in documents]
        outlet.registered = {each.id: each.endpoint for each in terms}
        there = terms if self.arriving is None else ()  # they come with what it had
        opened: list[SubscriptionChannel] = [open_subscription(self.sockets, outlet, each) for each in there]
        for each in opened:
            each.begin_anew(self.assignment.attempt, is_first=True)
        return [*opened]

    def admit(self, source: PublishedSource, reading: Reading) -> None:
        if self.arriving is None:  # otherwise it was waited for them where it was
            source.expected = set(self.publishers.get(source.stream, ()))
        edge = next(edge for edge in self.plan.edges if edge.is_input and edge.consumer == source.stream)
        numbered = Route.of(self.plan, edge) is not None  # then rows carry their numbers
        entry = Entry(source, Format.published(reading.stream, int(numbered)), early=None if self.arriving is None else [])
        own = self.assignment.epoch, self.assignment.attempt
        source.is_restored = self.assignment.attempt > 0
        entry.lasting = ChannelId.entry(self.plan.query.name, source.stream, reading.reader, self.assignment.epoch).id
        self.entries[ChannelId.entry(self.plan.query.name, source.stream, reading.reader, *own).id] = entry

    def attach(self, source: QuerySource, feed: Feed, reading: Reading) -> None:
        """The producers are asked once the instance is at home, for only then can they answer."""
        query = self.plan.query.name
        terms = {
            "id": f"{query}@{self.assignment.epoch}",
            "endpoint": self.sockets.endpoint,
            "keep_s": self.config.cluster.silence_s,  # after which it is gone, as a publisher would be
            "budget_bytes": min(self.share, READER_HELD_BYTES),
            "reader": query,
            "columns": reading.columns.names,
            "origin": reading.origin,
            "grain": grain(self.plan.query, source.stream),
        }
        self.attachments.append(Attachment(source, feed, terms, self.share))


def transfer_channel(query: str, subquery: str, index: int, epoch: int, move: int) -> ChannelId:
    """From the old place to the new one; an instance has none to itself otherwise."""
    return ChannelId(query, subquery, index, index, epoch, move=move)


def open_subscription(sockets: Sockets, outlet: Outlet, terms: Terms, sent_until: int = MIN_TIME) -> SubscriptionChannel:
    make = KeptChannel if outlet.keeps else SubscriptionChannel
    if outlet.tells and not (terms.resumable or terms.reader):  # these could not say what they had of what no commit covers
        make = ToldChannel
    subscription = make(sockets, outlet.channel.to(terms.id, terms.holder), outlet.format, terms, sent_until)
    subscription.is_late = outlet.is_late
    outlet.opened += 1
    subscription.lineage = f"{outlet.channel.attempt}.{outlet.opened}"
    outlet.subscriptions[terms.id] = subscription
    return subscription


__all__ = [
    "Attachment",
    "Entry",
    "HostMove",
    "HostRecovery",
    "InstanceHost",
    "Leaving",
    "Outlet",
    "Preparation",
    "Taken",
    "open_subscription",
    "transfer_channel",
]
