"""The fast path and the plain one send the same messages and count the same, whatever comes and whoever looks in between.

Tests `fast_path.py`, `form.py`, `cep/kernels/relay.py`.
"""

from __future__ import annotations

import random
import socket
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.dataflow.channel import Credit, Inbox
from cep.dataflow.meter import LATENCY_BOUNDS_US, Latency
from cep.dataflow.reports import watermark_of
from cep.dataflow.sources.lateness import greatest_of, stamp_of
from cep.elements import MIN_TIME, Batch
from cep.kernels import relay
from cep.kernels.columns import Column
from cep.kernels.jit import interpreted, no_garbage, nothing_compiles
from cep.kernels.relay import MESSAGES, pass_on
from cep.model.limits import ANY_TIME
from cep.model.schema import FLOAT64, INT64, TIMESTAMP_US
from cep.model.streams import Stream
from cep.plan import planner
from cep.plan.channels import ChannelId, publisher_channel
from cep.plan.checkpoints import CheckpointNumber
from cep.plan.physical import PhysicalPlan, Worker
from cep.transport import wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Format, Header
from cep.world.store import MemoryStore
from driver import Query, col, stream
from instance_manager import loop
from instance_manager.accounts import step_accounts
from instance_manager.clients.subscriptions import SubscriptionChannel
from instance_manager.control.assignment_checks import Assignment, Checkpointing
from instance_manager.control.commands import AddInstance, DrainInstance, HearCheckpoints, RemoveInstance, RunInstance, StopInstance
from instance_manager.fast_path.fast_path import FastPath
from instance_manager.fast_path.form import prepare
from instance_manager.hosting import InstanceHost, Preparation
from instance_manager.loop import Loop
from instance_manager.ports import PlainRelay
from instance_manager.recovery.pieces import kept_of
from instance_manager.recovery.runs import Run, messages_of
from instance_manager.recovery.told import ToldChannel
from tests.support.plans import one_node

DISORDER_US = 3
NEVER = 1 << 62
EVENTS = stream("events", at="timestamp[us]", key="int64?", price="float64", event_time="at", disorder="3us")
COLUMNS = {"at": TIMESTAMP_US, "key": INT64, "price": FLOAT64, "more": FLOAT64}
#: What its publishers may declare: as the query does, a column more, one less.
WIDER = stream("events", at="timestamp[us]", key="int64?", price="float64", more="float64?", event_time="at", disorder="3us")
NARROWER = stream("events", at="timestamp[us]", price="float64", event_time="at", disorder="3us")


def plan_of(folder: str, recover: str = "off") -> PhysicalPlan:
    query = Query("q").source(EVENTS).map("first", price=col("price"), at=col("at"), number=col("key"))
    query = query.map("second", key=col("number"), price=col("price"), when=col("at"))
    query = query.output("answers").options(split="per-operator", parallelism=1, recover=recover)
    workers = [Worker(f"im-{i}", None, None, f"ipc://{folder}/im{i}") for i in (0, 1)]
    return planner.plan(query.build(), {}, workers, one_node(2), numa=False)


@dataclass
class Sender:
    """A publisher or an instance above: its numbers, and a stamp that moves as its rows do."""

    channel: int
    format: Format
    publisher: bool
    sequence: int = 0
    max_time: int = -1_000
    record: int = 0

    def batch(self, offsets: list[int], nulls: bool = False, created: int = 0, since: int = MIN_TIME) -> tuple[Header, Any]:
        """Rows so many µs from the greatest event time so far; an instance sends none that is late."""
        n = len(offsets)
        times = np.array([self.max_time + (offset if self.publisher else max(offset, 0)) for offset in offsets], np.int64)
        numbers = np.arange(self.record, self.record + n)
        valid = np.zeros(n, np.uint8) if nulls else None
        arrays = {"at": times, "key": numbers, "number": numbers, "price": numbers / 3, "more": numbers / 7}
        types = {**COLUMNS, "number": INT64}
        names = self.format.schema.names
        columns = {name: Column(types[name], arrays[name], valid if name in ("key", "number") else None) for name in names}
        origin = np.stack([numbers * 7, numbers], axis=1) if self.format.origin else None
        stamp, self.max_time = self.max_time, max(self.max_time, greatest_of(times, ANY_TIME))
        more: dict[str, Any] = {"stamp": stamp, "record": self.record} if self.publisher else {"since": since}
        self.record += n
        body = self.format.encode(Batch(columns, times, origin))
        return self.header(wire.BATCH, created=created, fingerprint=self.format.fingerprint, **more), body

    def header(self, kind: int, **more: Any) -> Header:
        watermark = stamp_of(self.max_time, DISORDER_US) if self.publisher else self.max_time
        self.sequence += 1
        return Header(kind, self.channel, self.sequence - 1, **{"watermark": watermark, **more})


ENDS = {"drain": DrainInstance, "stop": StopInstance}


class Station:
    """An instance at home, the first of the query, which reads publishers, or the second; `near` sends to it, `far` takes what leaves."""

    def __init__(self, folder: str, first: bool, fast: bool, budget: int, recover: str = "off") -> None:
        self.first, self.folder, self.plan = first, folder, plan_of(folder, recover)
        here, other = (f"ipc://{folder}/im{i}" for i in ((0, 1) if first else (1, 0)))
        self.sockets = LocalSockets(here)
        self.far, self.near = (LocalSockets(name) for name in ((other, f"{other}p") if first else (f"{other}s", other)))
        process = 1  # part of what clients are told, which is compared
        self.loop = Loop(self.sockets, budget, lambda hosted: None, self.report, fast_path=fast, process=process)
        self.report_due = False
        cluster = ClusterConfig(folder, "", "", 0, f"{here}m", f"{here}n", budget_bytes=budget)
        config = InstanceManagerConfig(cluster, "im", None, None, here)
        preparation = Preparation(config, self.sockets, self.loop.inbox, self.loop.meter, store=MemoryStore())
        preparation.config = replace(preparation.config, id=f"im-{0 if first else 1}")
        assignment = Assignment("q", f"SQ{1 if first else 2}", 0, 1, (0, 0), "ready")
        self.hosted = preparation.prepare(self.plan, assignment, 1, {})
        prepare(self.hosted)
        self.loop.ask(AddInstance(self.hosted))
        self.loop.ask(RunInstance(self.hosted.key))
        self.loop.turn()
        assert isinstance(self.hosted.ports.relay, FastPath if fast else PlainRelay)
        self.found: list[tuple[str, Header, bytes]] = []
        self.got = dict[int, int]()  # bytes by channel, for credit

    def close(self) -> None:
        for sockets in (self.sockets, self.near, self.far):
            sockets.close()

    def send(self, *messages: tuple[Header, Any], by_far: bool = False) -> None:
        for header, body in messages:
            (self.far if by_far else self.near).send(self.sockets.endpoint, header, body)
        self.settle()

    def settle(self) -> None:
        for _ in range(3):  # what has not been heard of is let in first
            self.loop.next_tick = NEVER
            while self.loop.turn():
                pass
        for name, sockets in (("near", self.near), ("far", self.far)):
            for _ in range(3):
                while (message := sockets.receive()) is not None:
                    self.found.append((name, message[0], bytes(message[1]).replace(self.folder.encode(), b"")))
                    self.got[message[0].channel] = self.got.get(message[0].channel, 0) + len(message[1])

    def following(self, channel: int) -> int:
        """The number of the element of that channel that comes next."""
        return (
            max((header.sequence for _, header, _ in self.found if header.channel == channel and header.kind < wire.CREDIT), default=-1) + 1
        )

    def hear(self, asked: int, committed: int) -> None:
        said = Checkpointing(CheckpointNumber.unpacked(asked), CheckpointNumber.unpacked(committed), False)
        self.loop.ask(HearCheckpoints(self.hosted.key, said))
        self.settle()

    def report(self, loop: Loop, at_once: bool) -> None:
        """What a report does to the fast paths."""
        if self.report_due:
            with loop.settled():
                assert not loop.fast_paths.entered

    def tick(self, report_due: bool) -> None:
        self.settle()
        self.report_due = report_due
        self.loop.next_tick = 0
        self.loop.turn()
        self.settle()

    def look(self) -> dict[str, Any]:
        """All that is counted."""
        for hosted in self.loop.fast_paths.leave_all():
            hosted.wake()
        self.settle()
        return counters(self)


def plain(state: object) -> dict[str, Any]:
    return {name: each for name, each in vars(state).items() if isinstance(each, int)}


def counters(station: Station) -> dict[str, Any]:
    instance, hosted = station.hosted.instance, station.hosted
    publishers = [p for entry in hosted.entries.values() for p in entry.source.publishers.values()]
    merges = [i.merge for i in instance.inputs] + [n.merge for n in instance.nodes] + [e.source.merge for e in hosted.entries.values()]
    inboxes: list[Inbox] = [port.inbox for port in hosted.ports.incoming.values()] + [p.inbox for p in publishers]
    outputs = []
    for output in instance.outputs:
        targets = [(t.promised, t.sent_bytes, t.bytes, plain(t.channel), channel_credit(t.channel)) for t in output.targets]
        assert output.latency is not None or station.first
        outputs.append((plain(output), output.latency and output.latency.counts, output.rows, output.bytes, targets))
    return {
        "instance": (instance.state, instance.cause, instance.since, watermark_of(instance), sorted(hosted.movement.checkpoint.snapshots)),
        "steps": [(s.step, s.name, s.account.rows, s.account.bytes, s.account.batches, s.rows_out) for s in step_accounts(hosted)],
        "inboxes": [plain(inbox) for inbox in inboxes],
        "merges": [(dict(merge.times), merge.combined, set(merge.idle)) for merge in merges],
        "outputs": outputs,
        "sources": [(plain(e.source), e.source.records, sorted(e.source.publishers)) for e in hosted.entries.values()],
        "dead": dict(instance.dead_letters.counts),
        "publishers": [(p.taken, p.as_owed, p.promised, p.behind, p.waits_with) for p in publishers],
        "recovery": recovery_of(hosted),
    }


def recovery_of(hosted: InstanceHost) -> tuple[object, ...]:
    """What is known of its checkpoints, and what is kept for its clients."""
    if (own := hosted.recovery) is None:
        return ()
    counts = own.asked, own.last, own.wants, own.news, own.covered, own.pressing, own.received, own.taken, own.taken_last
    kept = [(header, bytes(body or b""), rows) for each in kept_of(hosted) for header, body, rows in messages_of(each.kept())]
    return *counts, kept, [(each.tells, each.is_new) for each in kept_of(hosted) if isinstance(each, ToldChannel)]


def channel_credit(channel: Any) -> list[dict[str, Any]]:
    credits: list[Credit] = [channel.credit, *([channel.client] if isinstance(channel, SubscriptionChannel) else [])]
    return [plain(credit) for credit in credits]


@dataclass
class Script:
    """What happens, done to every station alike."""

    stations: list[Station]
    share: int
    senders: list[Sender] = field(default_factory=list)
    subscribed: list[str] = field(default_factory=list)
    event_time: bool = True  # is it wanted?
    asked: int = 0  # the number of the last checkpoint
    committed: int = 0

    @property
    def first(self) -> bool:
        return self.stations[0].first

    def send(self, *messages: tuple[Header, Any], by_far: bool = False) -> None:
        for station in self.stations:
            station.send(*messages, by_far=by_far)

    def begin(self) -> None:
        if self.first:
            self.open("p0")
        else:
            wire_format = self.stations[0].hosted.ports.incoming[self.inner].format
            self.senders.append(Sender(self.inner, wire_format, False))
            self.subscribe("s0")
        self.grant()

    def open(self, name: str) -> None:
        """Once more where it is open already."""
        entry = ChannelId.entry("q", "events", 0, 1).id
        if all(sender.channel != publisher_channel(entry, name) for sender in self.senders):
            self.senders.append(Sender(publisher_channel(entry, name), Format.published(EVENTS), True))
        sender = next(sender for sender in self.senders if sender.channel == publisher_channel(entry, name))
        for station in self.stations:
            document = {"publisher": name, "endpoint": station.near.endpoint, "schema": sender.format.schema.to_json(), "incarnation": name}
            station.send((Header(wire.OPEN, entry), wire.to_json(document | {"sent_until": MIN_TIME})))

    def declare(self, sender: Sender, declared: Stream) -> None:
        """The publisher has these columns from now on."""
        sender.format = Format.published(declared)
        entry = ChannelId.entry("q", "events", 0, 1).id
        self.open(next(name for name in ("p0", "p1") if publisher_channel(entry, name) == sender.channel))

    def cut(self, message: tuple[Header, Any], which: int) -> None:
        """The message comes in two pieces."""
        whole = len(message[1]).to_bytes(8, "little") + message[0].pack() + bytes(message[1])
        for station in self.stations:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(station.sockets.endpoint.removeprefix("ipc://"))
                for piece in (whole[: len(whole) * (which + 1) // 5], whole[len(whole) * (which + 1) // 5 :]):
                    connection.sendall(piece)
                    station.settle()

    def subscribe(self, name: str) -> None:
        self.subscribed.append(name)
        for station in self.stations:
            document = {"id": name, "endpoint": station.far.endpoint, "event_time": self.event_time}
            station.send((Header(wire.SUBSCRIBE, ChannelId.outlet("q", "answers", 0, 1).id), wire.to_json(document)), by_far=True)

    def unsubscribe(self) -> None:
        if self.subscribed:
            self.send((Header(wire.UNSUBSCRIBE, self.channel(self.subscribed.pop())), None), by_far=True)

    @property
    def inner(self) -> int:
        """The channel between the two instances."""
        edge = self.stations[0].plan.edges_into("SQ2")[0].name
        return ChannelId("q", edge, 0, 0, 1).id

    def channel(self, subscription: str = "") -> int:
        if self.first:
            return self.inner
        return ChannelId.outlet("q", "answers", 0, 1).to(subscription).id

    def grant(self) -> None:
        for channel in [self.channel()] if self.first else map(self.channel, self.subscribed):
            for station in self.stations:
                got = station.got.get(channel, 0)
                following = station.following(channel)
                station.send((Header(wire.CREDIT, channel, got, record=got + self.share, created=following), None), by_far=True)

    def act(self, action: str, offsets: list[int], which: int, created: int) -> None:
        sender = self.senders[which % len(self.senders)]
        match action:
            case "batch":
                self.send(sender.batch(offsets, created=created))
            case "burst":
                self.send(*[sender.batch(offsets, created=created) for _ in range(which + 2)])
            case "nulls":
                self.send(sender.batch(offsets, nulls=True))
            case "many":
                self.send(sender.batch([1] * 300, created=created))
            case "since" if not sender.publisher:
                self.send(sender.batch(offsets, since=sender.max_time))
            case "far off" if sender.publisher:
                self.send(sender.batch([*offsets, 1 << 62]))
            case "watermark":
                sender.max_time += 1_000 * which  # time goes on without rows
                self.send((sender.header(wire.WATERMARK), None))
            case "checkpoint" if self.recovers:
                self.checkpoint()
            case "commit" if self.recovers:
                self.commit()
            case "idle" | "barrier" | "end" if not (sender.publisher or (action == "barrier" and self.recovers)):
                self.control(action, sender)
            case "end" if sender.publisher:
                self.close(sender)
            case "gap":
                sender.sequence += 1
            case "cut":
                self.cut(sender.batch(offsets, created=created), which)
            case "open" if sender.publisher:
                self.open(f"p{which // 3}")
            case "declare" if sender.publisher:
                self.declare(sender, (EVENTS, WIDER, NARROWER)[which % 3])
            case "subscribe" if not self.first and len(self.subscribed) < 2:
                self.subscribe(f"s{which}")
            case "unsubscribe":
                self.unsubscribe()
            case "grant":
                self.grant()
            case "drain" | "stop":
                for station in self.stations:
                    station.loop.ask(ENDS[action](station.hosted.key))
                    station.settle()
            case "tick":
                for station in self.stations:
                    station.tick(which % 2 == 0)

    @property
    def recovers(self) -> bool:
        return self.stations[0].hosted.recovery is not None

    def checkpoint(self) -> None:
        """The next one is asked for."""
        self.asked += 1
        for station in self.stations:
            station.hear(self.asked, self.committed)
        if not self.first:
            self.send((self.senders[0].header(wire.BARRIER), wire.to_json({"number": self.asked})))

    def commit(self) -> None:
        self.committed = self.asked
        for station in self.stations:
            station.hear(self.asked, self.committed)

    def control(self, action: str, sender: Sender) -> None:
        kind = {"idle": wire.IDLE, "barrier": wire.BARRIER, "end": wire.END}[action]
        self.send((sender.header(kind), wire.to_json({"number": sender.sequence}) if kind == wire.BARRIER else None))

    def close(self, sender: Sender) -> None:
        header, entry = sender.header(wire.CLOSE), ChannelId.entry("q", "events", 0, 1).id
        for station in self.stations:
            document = {
                "entry": entry,
                "endpoint": station.near.endpoint,
                "last": len(self.senders) == 1,
                "others": [],
                "incarnation": next(name for name in ("p0", "p1") if publisher_channel(entry, name) == sender.channel),
            }
            station.send((header, wire.to_json(document)))
        if len(self.senders) > 1:
            self.senders.remove(sender)


@contextmanager
def script(first: bool, share: int, budget: int, recover: str = "off") -> Iterator[Script]:
    """A station whose instance has the fast path, and one whose instance has the plain one."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "SLICE_NS", 1 << 60)  # what has come out must not depend on how busy the machine is
        stations = []
        for fast in (True, False):
            folder = stack.enter_context(TemporaryDirectory(prefix="cep-"))
            stations.append(Station(folder, first, fast, budget, recover))
            stack.callback(stations[-1].close)
        made = Script(stations, share, event_time=budget % 2 == 0)
        made.begin()
        if recover != "off":  # a subscription that comes while its query runs is told at once behind a commit
            made.checkpoint()
            made.commit()
        yield made


#: What may happen, and how often.
ACTIONS = {
    "batch": 30,
    **dict.fromkeys(["grant", "tick", "look", "checkpoint", "commit"], 3),
    **dict.fromkeys(
        ["nulls", "many", "cut", "since", "far off", "watermark", "idle", "barrier", "open", "declare", "subscribe", "unsubscribe"], 1.5
    ),
    **dict.fromkeys(["gap", "end", "drain", "stop"], 0.2),
}


RECOVER = ("off", "off", "at-once", "at-once", "on-commit")


@given(seed=st.integers(0, 1 << 32))
def test_both_paths_send_and_count_the_same(seed: int) -> None:
    """Made from a seed: what Hypothesis draws is mostly short, and then little passes."""
    choose = random.Random(seed)
    share, budget = choose.choice([100, 2_000, 1 << 20, 1 << 20]), choose.choice([16_000, 60_000, 1 << 20, 16_001, (1 << 20) + 1])
    with interpreted(), script(choose.random() < 0.5, share, budget, choose.choice(RECOVER)) as made, nothing_compiles():
        for action in choose.choices(list(ACTIONS), list(ACTIONS.values()), k=25):
            offsets = [choose.randint(-DISORDER_US - 1, 4) if choose.random() < 0.3 else 1 for _ in range(choose.randint(1, 4))]
            if action == "look":
                check(made)
            else:
                made.act(action, offsets, choose.randrange(4), choose.choice([0, 1_000, 2_000_000]))
        check(made)


@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32))
def test_of_a_burst_the_same_rows_leave(seed: int) -> None:
    """The plain path takes small batches together, the fast path does not."""
    choose = random.Random(seed)
    recover = choose.choice(RECOVER)
    with interpreted(), script(choose.random() < 0.5, 1 << 20, 1 << 20, recover) as made:
        for _ in range(6):
            made.act("burst", [choose.randint(-1, 2) for _ in range(choose.randint(1, 3))], choose.randrange(12), 0)
        if recover != "off":
            made.checkpoint()
            made.commit()
        fast, plain_ = made.stations
        assert rows_of(fast) == rows_of(plain_)
        assert [station.look()["instance"] for station in (fast, plain_)] == [plain_.look()["instance"]] * 2
        found, expected = (
            [(step.name, step.account.rows, step.rows_out) for step in step_accounts(station.hosted)] for station in (fast, plain_)
        )
        assert found == expected


def rows_of(station: Station) -> tuple[list[tuple[int, ...]], int]:
    """What has left, and the watermark after it."""
    (target,) = station.hosted.instance.outputs[0].targets
    wire_format = target.channel.format  # type: ignore[attr-defined]
    messages = [(header, body) for name, header, body in station.found if name == "far" and header.kind == wire.BATCH]
    batches = [wire_format.to_arrow(wire_format.decode(body)) for _, body in messages]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()], messages[-1][0].watermark


def test_what_is_simple_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)  # a step that is cut short enters later
    for first in (True, False):
        with interpreted(), script(first, 1 << 20, 1 << 20) as made:
            for _ in range(8):
                made.act("batch", [1, 0, 1], 0, 1_000)
            path = fast_path_of(made)
            assert path.state[MESSAGES] == 7, "the first asks for credit"
            station = made.stations[0]
            assert list(station.loop.ready.unreported()) == [station.hosted]
            made.act("batch", [1], 0, 0)
            assert not station.loop.ready.has_unreported
            station.tick(report_due=True)
            assert list(station.loop.ready.unreported()) == [station.hosted], "what was relayed is to be reported"
            made.act("nulls", [1], 0, 0)
            assert not made.stations[0].loop.sockets.inbound.takers.keys() - {path.entrance.id if path.entrance else 0}
            check(made)


@pytest.mark.parametrize(("declared", "fast"), [(WIDER, True), (NARROWER, False)], ids=["a column more", "a column less"])
def test_publishers_that_declare_other_columns(monkeypatch: pytest.MonkeyPatch, declared: Stream, fast: bool) -> None:
    """A column that is not read costs nothing; one that is missing is made."""
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    with interpreted(), script(True, 1 << 20, 1 << 20) as made:
        made.act("batch", [1, 0, 1], 0, 1_000)
        made.declare(made.senders[0], declared)
        path = fast_path_of(made)
        for _ in range(8):
            made.act("batch", [1, 0, 1], 0, 1_000)
        assert (path.entered and path.state[MESSAGES] > 0) == fast
        made.act("nulls", [1], 0, 0)
        check(made)


def test_what_was_sent_before_the_query_was_there_passes_on_no_path() -> None:
    with interpreted(), script(True, 1 << 20, 1 << 20) as made:
        entry = ChannelId.entry("q", "events", 0, 1).id
        for station in made.stations:
            station.hosted.instance.sources[0][0].expected.add("p1")
            document = {"publisher": "p1", "endpoint": station.near.endpoint, "sent_until": 50}
            station.send((Header(wire.OPEN, entry), wire.to_json(document)))
        made.senders.append(Sender(publisher_channel(entry, "p1"), Format.published(EVENTS), True, max_time=0))
        made.close(made.senders[0])
        for offsets in ([52], *[[0]] * 20, [0, -2, 0], [0], [0, -2, -1]):
            made.act("batch", offsets, 0, 1_000)
        check(made)
        assert [station.hosted.instance.sources[0][0].before_since for station in made.stations] == [2, 2]


@pytest.mark.parametrize("first", [True, False])
def test_who_leaves_is_freed_at_once(first: bool) -> None:
    with interpreted(), script(first, 1 << 20, 1 << 20) as made, no_garbage():
        made.act("batch", [1, 0, 1], 0, 1_000)
        for station in made.stations:
            left = weakref.ref(station.hosted), weakref.ref(station.hosted.instance)
            station.loop.ask(RemoveInstance(station.hosted.key))
            del station.hosted
            station.settle()
            assert [each() for each in left] == [None, None]


def test_every_word_of_the_metadata_counts() -> None:
    """A message that differs in one of them is not what is expected."""
    with interpreted(), script(True, 1 << 20, 1 << 20) as made:
        for _ in range(2):
            made.act("batch", [1, 1], 0, 1_000)
        path = fast_path_of(made)
        header, body = made.senders[0].batch([1, 1])
        whole = np.frombuffer(len(body).to_bytes(8, "little") + header.pack() + bytes(body), np.int64)
        words = np.arange(relay.HEAD_WORDS, relay.HEAD_WORDS + path.form[relay.WORDS_IN])
        for word in words.tolist():
            other = whole.copy()
            other[word] += 1
            assert pass_on(other.view(np.uint8), 0, other.nbytes, 0, path.state.copy(), path.form, path.paths.out) == 0
        assert pass_on(whole.view(np.uint8), 0, whole.nbytes, 0, path.state.copy(), path.form, path.paths.out) > 0


@given(latency=st.integers(-10, 10**9), rows=st.integers(1, 5))
def test_latencies_are_classed_alike(latency: int, rows: int) -> None:
    created = 1_000_000
    noted = Latency(lambda: created + latency)
    noted.note(created * 1000, rows)
    staging, state = np.zeros(8 * 64, np.uint8), np.zeros(relay.STATE_WORDS, np.int64)
    form = np.zeros(relay.PICKED, np.int64)
    form[relay.TIMED], form[relay.BOUNDS :] = 1, LATENCY_BOUNDS_US
    staging.view(np.int64)[relay.CREATED] = created * 1000
    relay.count_message(staging, 0, rows, created + latency, state, form)
    assert (state[relay.LATENCY], state[relay.COUNTS :].tolist()) == (noted.sum_us, noted.counts)


@pytest.mark.parametrize("recover", ["at-once", "on-commit"])
@pytest.mark.parametrize("first", [True, False])
def test_a_query_that_recovers_takes_it_too(monkeypatch: pytest.MonkeyPatch, first: bool, recover: str) -> None:
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    with interpreted(), script(first, 1 << 20, 1 << 20, recover) as made:
        for _ in range(2):
            for _ in range(12):
                made.act("batch", [1, 0, 1], 0, 1_000)
            path = fast_path_of(made)
            assert path.state[MESSAGES] >= 4, "the first asks for credit, and a path that was left unused waits a little"
            made.checkpoint()
            check(made)
            made.commit()
            check(made)
        fast, _ = made.stations
        (told,) = kept_of(fast.hosted) or [None]
        if told is not None:
            assert any(isinstance(each, Run) for each in told.kept()), "what the client has not confirmed is kept as it was written"
            made.grant()
            assert not list(told.kept())


def test_one_with_nothing_new_says_so_by_its_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    monkeypatch.setattr("instance_manager.recovery.checkpoints.QUIET_NS", 0)
    for first in (True, False):
        with interpreted(), script(first, 1 << 20, 1 << 20, "at-once") as made:
            for _ in range(4):
                made.act("batch", [1], 0, 1_000)
            made.grant()
            made.checkpoint()
            path, own = fast_path_of(made), made.stations[0].hosted.recovery
            assert own is not None and not own.news and not path.entered
            made.act("batch", [1], 0, 1_000)
            assert own.news and path.entered


def test_one_with_news_again_and_again_does_not_say_that_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word of it costs the orchestrator time; one that has been quiet for a while says so."""
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    with interpreted(), script(True, 1 << 20, 1 << 20, "on-commit") as made:
        own, said = made.stations[0].hosted.recovery, list[bool]()
        assert own is not None
        for quiet_ns, rows in ((0, [1]), (NEVER, [1]), (NEVER, []), (0, [])):
            monkeypatch.setattr("instance_manager.recovery.checkpoints.QUIET_NS", quiet_ns)
            if rows:
                made.act("batch", rows, 0, 1_000)
            made.checkpoint()
            made.commit()
            said.append(own.news)
        assert said == [False, True, True, False]


def test_what_a_restored_reader_may_not_take_passes_on_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are on time by their own stamp, and behind what its publisher has promised."""
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    with interpreted(), script(True, 1 << 20, 1 << 20, "at-once") as made:
        for station in made.stations:
            station.hosted.instance.sources[0][0].is_restored = True
        sender = made.senders[0]
        for _ in range(4):
            made.act("batch", [1], 0, 1_000)
        assert fast_path_of(made).state[MESSAGES] > 0
        far = sender.max_time + 10
        made.send((sender.header(wire.WATERMARK, watermark=far), None))
        for station in made.stations:
            station.tick(report_due=False)
        for _ in range(3):
            made.grant()
        assert fast_path_of(made).entered
        made.act("batch", [1], 0, 1_000)
        assert [station.hosted.instance.state for station in made.stations] == ["failed", "failed"]
        check(made)


def test_what_is_kept_has_a_bound_behind_which_a_step_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    monkeypatch.setattr("instance_manager.fast_path.fast_path.KEPT_BYTES", 2_000)
    monkeypatch.setattr("instance_manager.recovery.checkpoints.EARLY_BYTES", 8_000)
    with interpreted(), script(False, 1 << 20, 1 << 20, "on-commit") as made:
        own = made.stations[0].hosted.recovery
        for _ in range(60):
            made.act("batch", [1], 0, 1_000)
        assert own is not None and own.wants
        check(made)


def test_where_rows_are_dropped_none_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instance_manager.loop.SLICE_NS", NEVER)
    with interpreted(), script(False, 1 << 20, 1 << 20, "on-commit") as made:
        for station in made.stations:
            (kept,) = kept_of(station.hosted)
            kept.terms = replace(kept.terms, on_slow="drop", budget_bytes=1_000)
            kept.client.limit = kept.client.consumed = 0
            kept.client.sent = 1
        for number in range(36):
            made.act("batch", [1], 0, 1_000)
            if number == 12:
                made.checkpoint()
                made.commit()
        fast, _ = made.stations
        assert kept_of(fast.hosted)[0].dropped > 0
        check(made)


def fast_path_of(made: Script) -> FastPath:
    path = made.stations[0].hosted.ports.relay
    assert isinstance(path, FastPath)
    return path


def check(made: Script) -> None:
    fast, plain_ = made.stations
    assert fast.found == plain_.found
    assert fast.look() == plain_.look()
