"""Broken messages end neither the process nor another query: their channel is closed with a reason, and their sender hears of it.

Tests `network.py`, `benchmarks/faults/messages.py`.
"""

from __future__ import annotations

import resource
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.faults.messages import PUBLISHERS, Aims, messages, publisher_name
from cep.config import ClusterConfig, InstanceManagerConfig
from cep.elements import Batch
from cep.kernels.columns import columns_from_arrow
from cep.plan import planner
from cep.plan.channels import ChannelId, publisher_channel
from cep.plan.physical import PhysicalPlan, Worker
from cep.transport import wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Format, Header
from driver import TIME, Query, col, count, first, stream, sum_
from instance_manager.control.assignment_checks import Assignment
from instance_manager.control.commands import AddInstance, RunInstance
from instance_manager.hosting import InstanceHost, Preparation
from instance_manager.loop import Loop
from tests.support.plans import one_node

BUDGET = 8 << 20
EVENTS = stream("events", at="timestamp[us]", key="string", n="int64?", event_time="at", disorder="3us")


def query_of(name: str) -> Query:
    """Those that are called `partial...` send partial rows."""
    query = Query(name).source(EVENTS).map("pick", key=col("key"), n=col("n"), word=col("key").upper())
    windows = query.aggregate("w", TIME("10us"), by="key", rows=count(), n=sum_("n"), word=first("word"))
    return windows.output(f"{name}_answers").options(parallelism=1, pre_aggregation="on" if name.startswith("partial") else "off")


class Station:
    """The loop of an instance manager with several queries: of each the instance that reads the stream and the one that has its windows."""

    def __init__(self, folder: Path) -> None:
        self.here = f"ipc://{folder}/im0"
        self.sockets, self.client = LocalSockets(self.here), LocalSockets(f"ipc://{folder}/client")
        self.loop = Loop(self.sockets, BUDGET, lambda hosted: None, lambda loop, at_once: None)
        self.folder, self.plans, self.hosted = folder, dict[str, PhysicalPlan](), dict[tuple[str, int], InstanceHost]()
        cluster = ClusterConfig(str(folder), "", "", 0, f"{self.here}m", f"{self.here}n", budget_bytes=BUDGET)
        config = InstanceManagerConfig(cluster, "im-0", None, None, self.here)
        self.preparation = Preparation(config, self.sockets, self.loop.inbox, self.loop.meter)

    def host(self, name: str, number: int, im: str) -> None:
        """Instance 0 of SQ`number`, as instance manager `im` would."""
        workers = [Worker(f"im-{i}", None, None, f"ipc://{self.folder}/im{i}") for i in range(1 if name == "good" else 2)]
        plan = self.plans.setdefault(name, planner.plan(query_of(name).build(), {}, workers, one_node(2), numa=False))
        self.preparation.config = replace(self.preparation.config, id=im)
        assignment = Assignment("q", f"SQ{number}", 0, 1, (0, 0), "ready")
        hosted = self.hosted[name, number] = self.preparation.prepare(plan, assignment, 1, {})
        self.loop.ask(AddInstance(hosted))
        self.loop.ask(RunInstance(hosted.key))
        self.turn()

    def turn(self) -> None:
        for _ in range(3):
            while self.loop.turn():
                pass

    def close(self) -> None:
        self.sockets.close()
        self.client.close()

    @property
    def strays(self) -> int:
        return self.loop.network.strays


class Client:
    """Publishes to one query and reads its answers, by the book."""

    def __init__(self, station: Station, name: str) -> None:
        self.station, self.format = station, Format.published(EVENTS)
        self.entry = ChannelId.entry(name, "events", 0, 1).id
        self.channel = publisher_channel(self.entry, "good")
        self.outlet = ChannelId.outlet(name, f"{name}_answers", 0, 1).id
        self.subscription = ChannelId.outlet(name, f"{name}_answers", 0, 1).to("s-good").id
        self.sequence = self.record = self.taken = self.consumed = 0
        self.answers: list[dict[str, Any]] = []
        self.heard = defaultdict[int, list[bytes]](list)  # by channel, what came with CLOSED
        self.say(Header(wire.OPEN, self.entry), {"publisher": "good", "endpoint": station.client.endpoint, "sent_until": 0})
        self.say(Header(wire.SUBSCRIBE, self.outlet), {"id": "s-good", "endpoint": station.client.endpoint})
        self.grant()

    def say(self, header: Header, document: object = None) -> None:
        self.station.client.send(self.station.here, header, None if document is None else wire.to_json(document))
        self.station.turn()
        self.hear()

    def grant(self) -> None:
        self.say(Header(wire.CREDIT, self.subscription, self.consumed, record=self.consumed + (1 << 20)))

    def send(self, rows: int) -> None:
        """Row k at k µs, n = k, its key one of three."""
        numbers = list(range(self.record, self.record + rows))
        arrays = {"at": pa.array(numbers, EVENTS.schema["at"].type.arrow), "key": pa.array([f"k{k % 3}" for k in numbers]), "n": numbers}
        batch = Batch(columns_from_arrow(pa.record_batch(arrays), EVENTS.schema), np.array(numbers, np.int64))
        watermark, body = numbers[-1] - 3, self.format.encode(batch)
        header = Header(wire.BATCH, self.channel, self.sequence, 0, self.format.fingerprint, watermark, 0, numbers[0] - 1)
        self.station.client.send(self.station.here, header._replace(record=self.record), body)
        self.sequence, self.record = self.sequence + 1, self.record + rows
        self.station.turn()
        self.hear()

    def hear(self) -> None:
        while (message := self.station.client.receive()) is not None:
            header, body = message
            if header.channel == self.subscription and header.kind == wire.BATCH:
                self.consumed += len(body)
                (outlet,) = self.station.hosted["good", 2].outlets.values()
                plain = Format(outlet.format.schema)
                self.answers += plain.to_arrow(plain.decode(body)).to_pylist()
            elif header.kind == wire.CLOSED:
                self.heard[header.channel].append(bytes(body))

    def expected(self) -> list[dict[str, Any]]:
        """Of the windows that the watermark has passed."""
        ends = range(10, self.record - 3, 10)
        groups = [(end, key, [k for k in range(end - 10, end) if k % 3 == key]) for end in ends for key in range(3)]
        return [{"key": f"k{key}", "rows": len(rows), "n": sum(rows), "word": f"K{key}", "__time": end - 1} for end, key, rows in groups]


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    made = Station(tmp_path)
    yield made
    made.close()


ROUNDS = 40
VICTIMS = (("source", 1, "im-0"), ("windows", 2, "im-1"), ("partial-source", 1, "im-0"), ("partial-windows", 2, "im-1"))


def aims_of(station: Station) -> Aims:
    victims = [station.hosted[name, number] for name, number, _ in VICTIMS]
    entries = [id_ for hosted in victims for id_ in hosted.entries]
    names = [publisher_name(number) for number in range(PUBLISHERS)]
    published = [(publisher_channel(id_, name), Format.published(EVENTS)) for id_ in entries for name in names]
    remotes = [(id_, remote.format) for hosted in victims for id_, remote in hosted.ports.remote.items()]
    outlets = [id_ for hosted in victims for id_ in hosted.outlets]
    subscriptions = [ChannelId.outlet(name, f"{name}_answers", 0, 1).to("s").id for name, _, _ in VICTIMS]
    leaving = [id_ for hosted in victims for id_ in hosted.ports.outgoing]
    return Aims([*published, *remotes * 100], entries, [*outlets, *subscriptions, *leaving], station.client.endpoint)


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_another_querys_answers_stay_right(station: Station, seed: int) -> None:
    """Between its rows come hundreds of messages of every kind for four other instances, which come home anew as they fail."""
    for number in (1, 2):
        station.host("good", number, "im-0")
    for victim in VICTIMS:
        station.host(*victim)
    client, next_message = Client(station, "good"), messages(aims_of(station), seed)
    for _ in range(ROUNDS):
        _throw(station, [next_message() for _ in range(40)])
        client.send(7)
        client.grant()
        for victim in VICTIMS:
            if station.hosted[victim[:2]].instance.done:
                station.host(*victim)
    assert sorted(client.answers, key=_place) == client.expected()
    assert len(client.answers) > 50
    assert {station.hosted["good", number].instance.state for number in (1, 2)} == {"running"}
    assert station.strays > 100


def test_a_publisher_hears_why_it_was_closed(station: Station) -> None:
    """Before, what Arrow raised for its batch ended the loop; and what the engine refused failed the query of all its publishers."""
    for number in (1, 2):
        station.host("good", number, "im-0")
    client = Client(station, "good")
    bad = publisher_channel(client.entry, "bad")
    client.say(Header(wire.OPEN, client.entry), {"publisher": "bad", "endpoint": station.client.endpoint, "sent_until": 0})
    heard = client.heard[bad]
    station.client.send(station.here, Header(wire.BATCH, bad, 0, fingerprint=client.format.fingerprint), b"no batch at all")
    station.turn()
    client.send(40)
    assert b"expected an Arrow IPC message with at, key, n" in heard[-1]
    instance = station.hosted["good", 1].instance
    (entry,) = station.hosted["good", 1].entries.values()
    assert list(entry.source.vanished) == ["bad"]
    assert [letter.reason[:32] for letter in instance.dead_letters.letters] == ["closed: ProtocolError: a batch: "]
    assert sorted(client.answers, key=_place) == client.expected() != []  # the bad one holds no watermark back


def test_the_last_word_of_one_that_was_refused_ends_nothing(station: Station) -> None:
    """Before, the stream ended as if it were complete, without the batches that were not taken. One that comes again ends it."""
    station.host("good", 1, "im-0")
    client = Client(station, "good")
    station.client.send(station.here, Header(wire.BATCH, client.channel, 0, fingerprint=client.format.fingerprint), b"no batch at all")
    station.turn()
    (entry,) = station.hosted["good", 1].entries.values()
    closing = {"last": True, "others": [], "endpoint": station.client.endpoint, "entry": client.entry}
    client.say(Header(wire.CLOSE, client.channel), closing)
    assert client.heard[client.channel][-1] == wire.to_json({"heard": True})
    assert not entry.source.ended
    client.say(Header(wire.OPEN, client.entry), {"publisher": "good", "endpoint": station.client.endpoint, "sent_until": 0})
    client.say(Header(wire.CLOSE, client.channel), closing)
    assert entry.source.ended


def test_who_comes_again_at_once_after_it_was_refused_is_heard(station: Station) -> None:
    """Before, it was let in, and then closed without a word by what was still to be taken of its refusal."""
    for number in (1, 2):
        station.host("good", number, "im-0")
    client = Client(station, "good")
    opening = {"publisher": "good", "endpoint": station.client.endpoint, "sent_until": 0}
    station.client.send(station.here, Header(wire.BATCH, client.channel, 0, fingerprint=client.format.fingerprint), b"no batch at all")
    client.say(Header(wire.OPEN, client.entry), opening)  # both are heard before anything is taken
    client.send(40)
    assert sorted(client.answers, key=_place) == client.expected() != []
    letters = station.hosted["good", 1].instance.dead_letters.letters
    assert [letter.reason[:32] for letter in letters] == ["closed: ProtocolError: a batch: "]


def test_a_gap_in_what_a_publisher_sent_fails_the_query(station: Station) -> None:
    """No other process knows what is missing (rule 4.3)."""
    for number in (1, 2):
        station.host("good", number, "im-0")
    client = Client(station, "good")
    client.sequence = 1
    client.send(3)
    assert "expected element 0, got 1: messages were lost" in station.hosted["good", 1].instance.cause


def test_no_descriptors_are_left(station: Station) -> None:
    """Before, an endpoint at which more knocked than it had descriptors for ended its process. Those that are in are heard meanwhile."""
    for number in (1, 2):
        station.host("good", number, "im-0")
    client = Client(station, "good")
    client.send(20)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    knocking = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(5)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 4, limits[1]))
        for each in knocking:
            each.connect(station.here.removeprefix("ipc://"))
        client.send(20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in knocking:
            each.close()
    station.sockets.park(200)
    client.send(20)
    assert sorted(client.answers, key=_place) == client.expected()


def _throw(station: Station, found: list[bytes]) -> None:
    """Each on a connection of its own, and all at once on one."""
    for data in (*found, b"".join(found)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, suppress(ConnectionError, BlockingIOError):
            connection.connect(station.here.removeprefix("ipc://"))
            connection.setblocking(False)
            connection.send(data)
            station.turn()
    station.turn()


def _place(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["__time"], answer["key"]
