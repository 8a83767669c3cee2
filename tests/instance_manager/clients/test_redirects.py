"""What publishers and the two places of an instance that moves say to each other, message by message: two loops, and a client by hand.

Tests `redirects.py`, `client_documents.py`, `instance_manager/hosting.py`, `instance_manager/metrics.py`, `instance_manager/moves.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.kernels.columns import Column
from cep.kernels.jit import interpreted
from cep.model.schema import INT64, TIMESTAMP_US
from cep.plan import planner
from cep.plan.channels import ChannelId, publisher_channel
from cep.plan.physical import PhysicalPlan, Worker
from cep.transport import wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Format, Header
from cep.world.clock import SystemClock
from cep.world.usage import SystemUsage
from driver import Query, col, stream
from instance_manager.control.assignment_checks import Assignment
from instance_manager.control.assignment_checks import Moving as AskedMove
from instance_manager.control.commands import AddInstance, Command, DrainInstance, RemoveInstance, RunInstance, TakeMoveStep
from instance_manager.hosting import InstanceHost, Preparation
from instance_manager.loop import Loop
from instance_manager.metrics import Reporter
from tests.support.plans import one_node
from tests.support.waiting import until

EVENTS = stream("events", at="timestamp[us]", n="int64", event_time="at", disorder="0us")
GROWN = stream("events", at="timestamp[us]", n="int64", more="int64?", event_time="at", disorder="0us")
ENTRY = ChannelId.entry("q", "events", 0, 1).id
NEVER, BUDGET = 1 << 62, 1 << 20


class Place:
    """An instance manager without its control thread, and the instance there."""

    def __init__(self, folder: str, im: str) -> None:
        self.sockets = LocalSockets(f"ipc://{folder}/{im}")
        self.loop = Loop(self.sockets, BUDGET, lambda hosted: None, lambda loop, at_once: None)
        cluster = ClusterConfig(folder, "", "", 0, f"ipc://{folder}/m", f"ipc://{folder}/n", budget_bytes=BUDGET)
        config = InstanceManagerConfig(cluster, im, None, None, self.sockets.endpoint)
        self.preparation = Preparation(config, self.sockets, self.loop.inbox, self.loop.meter)
        self.reporter = Reporter(config, self.sockets, SystemClock(), SystemUsage())

    def add(self, plan: PhysicalPlan, move: AskedMove | None = None) -> None:
        assignment = Assignment("q", "SQ1", 0, 1, (0, 0), "ready", move=move)
        self.hosted: InstanceHost = self.preparation.prepare(plan, assignment, 1, {})
        self.loop.ask(AddInstance(self.hosted))
        self.ask(RunInstance)

    def ask(self, command: Callable[[str], Command]) -> None:
        self.loop.ask(command(self.hosted.key))

    @property
    def source(self) -> Any:
        return self.hosted.instance.sources[0][0]

    @property
    def state(self) -> str:
        return self.hosted.instance.state


class Moving:
    """A query of one subquery at the old place, about to move to the new one; a client that publishes to it."""

    def __init__(self, folder: str) -> None:
        self.old, self.new, self.client = Place(folder, "old"), Place(folder, "new"), LocalSockets(f"ipc://{folder}/client")
        query = Query("q").source(EVENTS).filter("all", col("n") >= 0).output("answers").options(split="single")
        workers = [Worker("old", None, None, self.old.sockets.endpoint)]
        self.plan = planner.plan(query.build(), {}, workers, one_node(1), numa=False)
        self.old.add(self.plan)
        self.metrics = LocalSockets(f"ipc://{folder}/m")
        self.heard: list[tuple[int, int, Any]] = []  # kind, channel and document of what the client got

    def close(self) -> None:
        for sockets in (self.old.sockets, self.new.sockets, self.client, self.metrics):
            sockets.close()

    def step(self, step: int) -> AskedMove:
        return AskedMove(1, step, "SQ1", 0, "new", self.old.sockets.endpoint, self.new.sockets.endpoint)

    def build(self) -> None:
        """The first step: it waits at the new place."""
        there = Worker("new", None, None, self.new.sockets.endpoint)
        self.new.add(self.plan.with_instance_at("SQ1", 0, there), move=self.step(2))
        self.settle()

    def begin(self) -> None:
        """Both steps; the publishers are told."""
        self.build()
        self.redirect()

    def redirect(self) -> None:
        for place in (self.old, self.new):
            place.ask(lambda key: TakeMoveStep(key, self.step(3)))
        self.settle()

    def settle(self, ticks: bool = False) -> None:
        for _ in range(6):
            for place in (self.old, self.new):
                place.loop.next_tick = 0 if ticks else NEVER
                while place.loop.turn():
                    pass
            while (message := self.client.receive()) is not None:
                header, body = message[0], bytes(message[1])
                self.heard.append((header.kind, header.channel, wire.from_json(body) if body else header))

    def reported(self) -> dict[str, int]:
        """What reports the instance now -> the tuples that it says to have taken."""
        reports = [self._report_of(place) for place in (self.old, self.new)]
        return {report["im"]: each["rows_in"] for report in reports for each in report["instances"]}

    def _report_of(self, place: Place) -> Any:
        place.hosted.wake()
        self.settle()
        place.reporter.tick(place.loop, at_once=True)
        _, body, *_ = until(self.metrics.receive)
        return wire.from_json(bytes(body))

    def heard_by(self, publisher: Publisher) -> list[int]:
        """The kinds of what it got, credit aside; forgotten then."""
        kinds = [kind for kind, channel, _ in self.heard if channel == publisher.channel and kind != wire.CREDIT]
        self.heard = [each for each in self.heard if each[1] != publisher.channel]
        return kinds


class Publisher:
    def __init__(self, moving: Moving, name: str) -> None:
        self.moving, self.name, self.channel = moving, name, publisher_channel(ENTRY, name)
        self.sequence = self.sent = self.record = 0
        self.declared = EVENTS

    def say(self, place: Place, kind: int, document: Any = None, channel: int = 0, **more: Any) -> None:
        body = document if isinstance(document, bytes) else wire.to_json(document) if document else None
        self.moving.client.send(place.sockets.endpoint, Header(kind, channel or self.channel, **more), body)

    def open(self, place: Place, **numbers: int) -> None:
        document = {"publisher": self.name, "endpoint": self.moving.client.endpoint, "schema": self.declared.schema.to_json()}
        self.say(place, wire.OPEN, document | {"sent_until": MIN_TIME}, ENTRY, **numbers)

    def send(self, place: Place, rows: int = 1) -> None:
        numbers = np.arange(self.record, self.record + rows)
        columns = {"at": Column(TIMESTAMP_US, numbers), "n": Column(INT64, numbers), "more": Column(INT64, numbers)}
        form = Format.published(self.declared)
        stamp = {"stamp": self.record - 1, "watermark": self.record + rows - 1, "record": self.record, "fingerprint": form.fingerprint}
        body = bytes(form.encode(Batch(columns, numbers)))
        self.say(place, wire.BATCH, body, sequence=self.sequence, **stamp)
        self.sequence, self.sent, self.record = self.sequence + 1, self.sent + len(body), self.record + rows

    def go_on(self) -> None:
        """As it has been told to."""
        document = next(document for kind, channel, document in self.moving.heard if (kind, channel) == (wire.REDIRECT, self.channel))
        self.say(self.moving.old, wire.BARRIER, document, sequence=self.sequence)
        self.sequence += 1
        self.open(self.moving.new, sequence=self.sequence, record=self.sent)

    def close(self, place: Place, *others: str) -> None:
        document = {"last": True, "others": others, "endpoint": self.moving.client.endpoint, "entry": ENTRY}
        self.say(place, wire.CLOSE, document, sequence=self.sequence, record=self.sent)
        self.sequence += 1


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Moving]:
    with interpreted():
        made = Moving(str(tmp_path))
        yield made
        made.close()


def publishers(moving: Moving, *names: str) -> list[Publisher]:
    """Open at the old place, with three rows each."""
    found = [Publisher(moving, name) for name in names]
    for publisher in found:
        publisher.open(moving.old)
        publisher.send(moving.old, 3)
    moving.settle()
    moving.heard.clear()
    return found


def test_what_is_sent_on_both_ways_is_taken_once_and_in_order(moving: Moving) -> None:
    a, b = publishers(moving, "a", "b")
    moving.begin()
    a.send(moving.old)  # before it has heard
    a.go_on()
    a.send(moving.new, 2)
    moving.settle()
    assert moving.old.source.records == {"a": 4, "b": 3} and moving.old.state == "running" and moving.new.state == "arriving"
    a.close(moving.new, "b")
    moving.settle()
    b.go_on()
    moving.settle()
    assert (moving.old.state, moving.new.state) == ("moved", "running")
    assert moving.new.source.records == {"a": 6, "b": 3} and list(moving.new.source.publishers) == ["b"]
    assert moving.new.source.watermark == 2  # as b has promised, although it has said nothing yet at the new place
    assert moving.heard_by(a) == [wire.REDIRECT, wire.CLOSED]
    b.send(moving.new)
    b.close(moving.new)
    moving.settle()
    assert moving.new.state == "ended" and moving.new.source.watermark == MAX_TIME
    assert moving.new.hosted.instance.nodes[0].rows_out == 6 + 4
    assert [entry.account.rows for entry in moving.new.hosted.entries.values()] == [6 + 4]


def test_one_that_declares_more_goes_on_with_that_at_the_new_place(moving: Moving) -> None:
    """And one that learns of a column while it is on its way, behind what it has sent without."""
    a, b = publishers(moving, "a", "b")
    a.declared = GROWN
    a.open(moving.old, sequence=a.sequence, record=a.sent)
    a.send(moving.old)
    moving.begin()
    a.go_on()
    a.send(moving.new, 2)
    b.send(moving.old)
    b.go_on()
    b.send(moving.new)
    b.declared = GROWN
    b.open(moving.new, sequence=b.sequence, record=b.sent)
    b.send(moving.new, 3)
    moving.settle()
    assert moving.new.state == "running" and moving.new.source.records == {"a": 3 + 1 + 2, "b": 3 + 1 + 1 + 3}
    assert set(moving.heard_by(a) + moving.heard_by(b)) == {wire.REDIRECT}, "nobody was refused"
    assert not moving.old.hosted.instance.dead_letters.counts and not moving.new.hosted.instance.dead_letters.counts


def test_who_opens_at_the_old_place(moving: Moving) -> None:
    a, b = publishers(moving, "a", "b")
    moving.begin()
    a.go_on()
    moving.settle()
    c, again, late = Publisher(moving, "c"), Publisher(moving, "a"), Publisher(moving, "late")
    a.close(moving.new, "b", "c")
    c.open(moving.old)
    again.open(moving.old)  # has gone on already: waits at the new place
    moving.settle()
    assert moving.heard_by(again) == [wire.REDIRECT, wire.CLOSED]
    for publisher in (b, c):
        publisher.go_on()
    moving.settle()
    assert moving.new.state == "running" and set(moving.new.source.publishers) == {"a", "b", "c"}
    (opened,) = [document for kind, channel, document in moving.heard if (kind, channel) == (wire.OPENED, again.channel)]
    assert opened["here"] and opened["endpoint"] == moving.new.sockets.endpoint
    late.open(moving.old)
    moving.settle()
    assert moving.heard_by(late) == [wire.OPENED] and "late" in moving.new.source.publishers


def test_who_was_silent_counts_as_closed_at_both_places(moving: Moving) -> None:
    a, silent = publishers(moving, "a", "silent")
    moving.begin()
    silent.sequence = 2
    silent.open(moving.new, sequence=2, record=silent.sent)  # on its way to the old place its Barrier is stuck
    silent.send(moving.new)
    a.go_on()
    moving.settle()
    assert moving.old.state == "running"
    (peer,) = moving.old.loop.clients.peers.known.values()
    peer.heard = -1000.0
    moving.settle(ticks=True)
    assert (moving.old.state, moving.new.state) == ("moved", "running")
    assert moving.heard_by(silent) == [wire.REDIRECT, wire.CLOSED, wire.CLOSED]
    assert moving.new.source.records == {"a": 3, "silent": 3} and moving.new.source.vanished.keys() == {"silent"}
    silent.open(moving.new, sequence=3, record=silent.sent)
    moving.settle()
    assert moving.heard_by(silent) == [wire.CLOSED]
    a.close(moving.new, "silent")
    moving.settle(ticks=True)
    assert moving.new.state == "failed", "a row of it is missing"
    assert "'silent' was silent for so long that it counts as closed, its rows up to number 2" in moving.new.hosted.instance.cause


def test_who_was_silent_and_closes_at_the_new_place_may_end_the_stream(moving: Moving) -> None:
    a, silent = publishers(moving, "a", "silent")
    moving.begin()
    silent.sequence = 2
    silent.open(moving.new, sequence=2, record=silent.sent)
    silent.close(moving.new)
    a.go_on()
    a.close(moving.new, "silent")
    moving.settle()
    (peer,) = moving.old.loop.clients.peers.known.values()
    peer.heard = -1000.0
    moving.settle(ticks=True)
    assert moving.new.state == "ended" and moving.heard_by(silent) == [wire.REDIRECT, wire.CLOSED, wire.CLOSED]


@pytest.mark.parametrize(("rows", "state"), [(0, "ended"), (1, "failed")])
def test_the_last_word_of_one_that_is_not_let_in_is_heard(moving: Moving, rows: int, state: str) -> None:
    """It may be the one that ends the stream, and rows that were not taken are missing."""
    a, silent = publishers(moving, "a", "silent")
    moving.begin()
    silent.sequence = 2
    silent.open(moving.new, sequence=2, record=silent.sent)
    for _ in range(rows):
        silent.send(moving.new)
    silent.close(moving.new)
    a.go_on()
    keeps_open = {"last": False, "others": ["silent"], "endpoint": moving.client.endpoint, "entry": ENTRY}
    a.say(moving.new, wire.CLOSE, keeps_open, sequence=a.sequence, record=a.sent)
    moving.settle()
    (peer,) = moving.old.loop.clients.peers.known.values()
    peer.heard = -1000.0
    moving.settle(ticks=True)
    assert moving.new.state == state


def test_its_last_word_at_the_old_place_is_passed_on(moving: Moving) -> None:
    (silent,) = publishers(moving, "silent")
    (peer,) = moving.old.loop.clients.peers.known.values()
    peer.heard = -1000.0
    moving.settle(ticks=True)
    moving.begin()
    assert moving.new.state == "running" and moving.heard_by(silent) == [wire.CLOSED]
    silent.close(moving.old)
    moving.settle()
    assert moving.new.state == "ended" and moving.heard_by(silent) == [wire.CLOSED], "it has sent no more than was taken"


def test_what_one_has_sent_since_it_counts_as_closed_is_missing_wherever_it_closes(moving: Moving) -> None:
    (silent,) = publishers(moving, "silent")
    (peer,) = moving.old.loop.clients.peers.known.values()
    peer.heard = -1000.0
    moving.settle(ticks=True)
    silent.send(moving.old)
    moving.begin()
    assert moving.new.state == "running"
    silent.close(moving.old)
    moving.settle(ticks=True)
    assert moving.new.state == "failed" and "it sent more" in moving.new.hosted.instance.cause
    assert moving.heard_by(silent) == [wire.CLOSED, wire.CLOSED]


def test_a_process_that_does_not_know_the_instance_says_that_it_may_be_elsewhere(moving: Moving) -> None:
    """And not that its query is over: what asks it may be late, and meant for the process that had its address before."""
    a = Publisher(moving, "a")
    a.open(moving.new)
    moving.settle()
    assert [document for kind, _, document in moving.heard if kind == wire.OPENED] == [{"here": False, "over": False, "elsewhere": True}]


def test_a_new_place_that_is_given_up_lets_them_look_again(moving: Moving) -> None:
    a, _ = publishers(moving, "a", "b")
    moving.begin()
    a.go_on()
    c = Publisher(moving, "c")
    c.open(moving.new)
    moving.settle()
    moving.heard_by(a)
    moving.old.ask(DrainInstance)
    moving.settle()
    assert moving.old.state == "ended"
    moving.new.ask(RemoveInstance)
    moving.settle()
    assert [document["here"] for kind, _, document in moving.heard if kind == wire.OPENED] == [False, False]
    assert moving.heard_by(a) == moving.heard_by(c) == [wire.OPENED]
    assert not moving.new.loop.clients.peers.known and not moving.new.loop.clients.publishers.here


def test_drained_on_its_way(moving: Moving) -> None:
    (a,) = publishers(moving, "a")
    moving.begin()
    moving.new.ask(DrainInstance)
    a.go_on()
    moving.settle()
    assert (moving.old.state, moving.new.state) == ("moved", "ended")


def test_one_place_reports_it_and_its_totals_do_not_fall(moving: Moving) -> None:
    one = publishers(moving, "one")[0]
    moving.build()
    assert moving.reported() == {"old": 3}
    moving.redirect()
    one.go_on()
    moving.settle()
    assert moving.reported() == {"new": 3}
