"""What publishers have kept whose processes are gone, taken by the readers that it was for: a loop, and rings written by hand.

Tests `heir.py`, `instance_manager/recovery/pieces.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cep.config import ClusterConfig, InstanceManagerConfig
from cep.dataflow.sources.publishers import Owed
from cep.elements import MIN_TIME, Batch
from cep.kernels.columns import Column
from cep.kernels.jit import interpreted
from cep.model.schema import INT64, TIMESTAMP_US
from cep.plan import planner
from cep.plan.channels import ChannelId, publisher_channel
from cep.plan.physical import PhysicalPlan, Worker
from cep.transport import wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Format, Header
from cep.world.rings import Owner, Ring, RingLog, Rings
from cep.world.segments import Sealed
from driver import Query, col, stream
from instance_manager.clients.clients import SILENCE_S
from instance_manager.clients.heir import LOOK_TICKS
from instance_manager.control.assignment_checks import Assignment
from instance_manager.control.commands import AddInstance, RunInstance
from instance_manager.hosting import InstanceHost, Preparation
from instance_manager.loop import Loop
from instance_manager.recovery.pieces import bytes_of, restore, states_in, states_made, taken_of
from tests.support.plans import one_node

EVENTS = stream("events", at="timestamp[us]", n="int64", event_time="at", disorder="0us")
FORMAT = Format.published(EVENTS)
LASTING = ChannelId.entry("q", "events", 0, 1).id
NEVER = 1 << 62


class Reader:
    """An instance of a query that recovers, of one attempt after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gone, self.heard = folder, set[Owner](), list[tuple[int, Any, Header]]()
        (folder / "sent").mkdir()
        self.client = LocalSockets(f"ipc://{folder}/client")
        query = Query("q").source(EVENTS).filter("all", col("n") >= 0).output("answers").options(split="single", recover="on-commit")
        worker = Worker("im", None, None, f"ipc://{folder}/im0")
        self.plan: PhysicalPlan = planner.plan(query.build(), {}, [worker], one_node(1), numa=False)
        self.sockets: LocalSockets | None = None
        self.begin()

    def begin(self, piece: bytes = b"") -> None:
        """The next attempt, in a process of its own."""
        attempt = 0
        if self.sockets is not None:
            attempt = self.hosted.attempt + 1
            self.sockets.close()
        self.sockets = LocalSockets(f"ipc://{self.folder}/im{attempt}")
        rings = Rings(self.folder / "sent", lambda owner: owner in self.gone)
        self.loop = Loop(self.sockets, 1 << 20, lambda hosted: None, lambda loop, at_once: None, rings=rings)
        cluster = ClusterConfig(str(self.folder), "", "", 0, "ipc:///m", "ipc:///n", budget_bytes=1 << 20)
        config = InstanceManagerConfig(cluster, "im", None, None, self.sockets.endpoint)
        preparation = Preparation(config, self.sockets, self.loop.inbox, self.loop.meter)
        self.hosted: InstanceHost = preparation.prepare(self.plan, Assignment("q", "SQ1", 0, 1, (0, 0), "ready", attempt=attempt), 1, {})
        if piece:
            restore(self.hosted, states_in(memoryview(piece)), (), 0)
        self.entry = ChannelId.entry("q", "events", 0, 1, attempt).id
        self.loop.ask(AddInstance(self.hosted))
        self.loop.ask(RunInstance(self.hosted.key))
        self.settle()

    @property
    def source(self) -> Any:
        return self.hosted.instance.sources[0][0]

    @property
    def publishers(self) -> Any:
        return self.loop.clients.publishers

    def settle(self, ticks: int = 0) -> None:
        for tick in range(ticks + 1):
            self.loop.next_tick = 0 if tick else NEVER
            while self.loop.turn():
                pass
        for _ in range(4):  # to be let in, and then to be heard
            while (message := self.client.receive()) is not None:
                body = bytes(message[1])
                self.heard.append((message[0].kind, wire.from_json(body) if body else None, message[0]))

    def checkpoint(self) -> bytes:
        return b"".join(bytes_of(states_made(taken_of(self.hosted, 1))))

    def last(self, kind: int) -> tuple[Any, Header]:
        return next((said, header) for each, said, header in reversed(self.heard) if each == kind)

    def process(self, name: str) -> Process:
        return Process(self, name)


class Process:
    """A publisher, in a process of its own, with a ring."""

    def __init__(self, reader: Reader, name: str, first: int = 0, record: int = 0) -> None:
        self.reader, self.owner, self.incarnation = reader, Owner("here", 1, name), name
        self.opening = {"publisher": "p", "endpoint": reader.client.endpoint, "schema": EVENTS.schema.to_json(), "sent_until": MIN_TIME}
        self.opening["incarnation"] = name
        self.sequence = self.first = first
        self.record = record
        self.log: RingLog | None = None

    def keep(self) -> Process:
        about = {"query": "q", "epoch": 1, "instance": 0, "stream": "events", "publisher": "p", "entry": LASTING}
        document = about | {"incarnation": self.incarnation, "opening": self.opening}
        ring = Ring(self.reader.folder / "sent", self.incarnation, self.owner, 1 << 30)
        self.log = ring.log(publisher_channel(LASTING, "p"), self.first, document)
        return self

    def open(self) -> Process:
        header = Header(wire.OPEN, self.reader.entry)
        self.reader.publishers.open(header, self.opening | {"kept_from": self.first})
        self.reader.settle()
        return self

    def send(self, rows: int = 1, comes: bool = True) -> Header:
        """Kept, and on its way unless it is killed between the two."""
        numbers = np.arange(self.record, self.record + rows)
        body = bytes(FORMAT.encode(Batch({"at": Column(TIMESTAMP_US, numbers), "n": Column(INT64, numbers)}, numbers)))
        until, channel = self.record + rows - 1, publisher_channel(self.reader.entry, "p")
        header = Header(wire.BATCH, channel, self.sequence, 0, FORMAT.fingerprint, until, 0, self.record - 1, MIN_TIME, self.record)
        self.sequence, self.record = self.sequence + 1, self.record + rows
        if self.log is not None:
            self.log.append(header.sequence, header.pack(), body)
        if comes:
            self.come(header, body)
        return header

    def come(self, header: Header, body: bytes) -> None:
        self.reader.publishers.published(header, body)
        self.reader.settle()

    def close(self, last: bool = True) -> None:
        """Its last word is kept, and does not leave."""
        assert self.log is not None
        word = {"last": last, "others": [], "endpoint": self.reader.client.endpoint, "entry": self.reader.entry}
        header = Header(wire.CLOSE, publisher_channel(self.reader.entry, "p"), self.sequence)
        self.log.append(self.sequence, header.pack(), wire.to_json(word))

    def die(self) -> None:
        self.reader.gone.add(self.owner)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with interpreted():
        made = Reader(tmp_path)
        yield made
        assert made.sockets is not None
        made.client.close()
        made.sockets.close()


def rows(reader: Reader) -> int:
    return int(reader.hosted.instance.nodes[0].rows_in)


def opened(reader: Reader, name: str = "a") -> Process:
    """It has sent three rows, which a commit covers."""
    process = reader.process(name).open().keep()
    process.send(3)
    return process


def grace(reader: Reader) -> int:
    return round(SILENCE_S * 10)


def test_what_was_kept_and_did_not_come_is_taken(reader: Reader) -> None:
    process = opened(reader)
    process.send(2, comes=False)
    process.die()
    reader.settle(LOOK_TICKS)
    assert (reader.source.records, rows(reader), reader.hosted.instance.state) == ({"p": 5}, 5, "running")


def test_nothing_is_taken_of_a_process_that_lives(reader: Reader) -> None:
    process = opened(reader)
    process.send(2, comes=False)
    reader.settle(2 * LOOK_TICKS)
    assert rows(reader) == 3


def test_what_comes_all_the_same_has_come_already(reader: Reader) -> None:
    """It was on its way."""
    process = opened(reader)
    header = process.send(2, comes=False)
    process.die()
    reader.settle(LOOK_TICKS)
    process.come(header, b"never looked at")
    assert (rows(reader), reader.hosted.instance.state, list(reader.source.publishers)) == (5, "running", ["p"])


def test_its_partition_stays_open_for_a_while_and_then_is_complete(reader: Reader) -> None:
    opened(reader).die()
    reader.settle(LOOK_TICKS + grace(reader) - 2)
    assert "p" in reader.source.publishers
    reader.settle(3)
    assert "p" not in reader.source.publishers and reader.source.vanished["p"].complete
    assert reader.hosted.instance.state == "running"


def test_another_one_of_its_name_goes_on_behind_it(reader: Reader) -> None:
    process = opened(reader)
    process.send(2, comes=False)
    process.die()
    other = reader.process("b").open()
    assert not [kind for kind, _, _ in reader.heard if kind == wire.OPENED][1:], "a commit has to know of it first"
    taken = reader.publishers.taken(reader.hosted)
    reader.publishers.cover(taken)
    reader.settle()
    _, header = reader.last(wire.OPENED)
    assert (header.sequence, header.record, header.watermark) == (2, 5, 4)
    other.first, other.sequence, other.record = 2, 2, 5
    other.send(1)
    reader.settle(LOOK_TICKS + grace(reader) + 2)
    assert (rows(reader), list(reader.source.publishers)) == (6, ["p"])


def test_one_made_anew_takes_what_is_behind_the_checkpoint(reader: Reader) -> None:
    process = opened(reader)
    piece = reader.checkpoint()
    process.send(2)
    process.send(4, comes=False)
    process.die()
    reader.begin(piece)
    assert reader.source.records == {"p": 9} and not reader.source.expected
    assert rows(reader) == 3 + 6, "three were taken before the checkpoint, and are counted"


def test_a_checkpoint_knows_of_those_that_have_not_come_back_yet(reader: Reader) -> None:
    """Another recovery comes before its publisher does."""
    process = opened(reader)
    reader.begin(reader.checkpoint())
    assert reader.source.expected == {"p"}
    reader.begin(reader.checkpoint())
    assert reader.source.expected == {"p"}
    process.open()
    reader.settle()
    assert reader.last(wire.OPENED)[1].sequence == 1 and reader.hosted.instance.state == "running"


def test_one_that_had_taken_all_knows_that_it_is_gone(reader: Reader) -> None:
    process = opened(reader)
    piece = reader.checkpoint()
    process.die()
    reader.begin(piece)
    assert not reader.source.expected and "p" in reader.source.publishers
    reader.settle(grace(reader) + 2)
    assert (reader.hosted.instance.state, reader.source.vanished["p"].complete) == ("running", True)


def test_one_whose_log_is_gone_and_that_had_sent_something_fails_the_query(reader: Reader) -> None:
    """A ring's folder was removed by hand, and then the process was killed: what it had sent since is not known to be nothing."""
    process = opened(reader)
    piece = reader.checkpoint()
    process.send(2)
    process.die()
    shutil.rmtree(reader.folder / "sent" / "a")
    reader.begin(piece)
    assert reader.source.expected == {"p"}
    reader.source.expected_from_us = 1
    reader.settle(1)
    assert reader.hosted.instance.state == "failed" and "publisher 'p' does not answer" in reader.hosted.instance.cause


def test_one_that_another_one_goes_on_for_is_told_so(reader: Reader) -> None:
    """It was stopped, perhaps in a `send` that waits for credit."""
    opened(reader)
    other, elsewhere = reader.process("b"), LocalSockets(f"ipc://{reader.folder}/elsewhere")
    other.opening["endpoint"] = elsewhere.endpoint
    other.open()
    elsewhere.close()
    assert "another publisher of its name" in reader.last(wire.CLOSED)[0]["reason"]


def test_several_of_one_name_are_taken_one_behind_the_other(reader: Reader) -> None:
    first = opened(reader, "z")
    piece = reader.checkpoint()
    first.send(2)
    first.die()
    second = Process(reader, "a", first=2, record=5).open().keep()
    second.send(1)
    second.die()
    reader.begin(piece)
    assert reader.source.records == {"p": 6} and reader.source.publishers["p"].incarnation == "a"


@pytest.mark.parametrize("is_gone", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize("comes", [True, False], ids=["comes", "silent"])
def test_one_that_had_sent_nothing_has_left_nothing_behind_one_that_went_on_from_there(reader: Reader, is_gone: bool, comes: bool) -> None:
    """Both begin at the same number. The checkpoint knows the first of them, and a third one comes, or none."""
    first = reader.process("z").open().keep()
    piece = reader.checkpoint()
    second = reader.process("a").open().keep()
    second.send(3)
    second.die()
    if is_gone:
        first.die()
    reader.begin(piece)
    assert (rows(reader), reader.source.publishers["p"].incarnation) == (3, "a")
    if comes:
        reader.process("b").open()
    reader.settle(grace(reader) + 2)
    assert (reader.hosted.instance.state, reader.hosted.instance.cause) == ("running", "")
    assert ("p" in reader.source.publishers, "p" in reader.source.owed) == (comes, False)
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    assert not any(Rings(reader.folder / "sent").logs(ring) for ring in "az")


def test_before_the_first_checkpoint_all_is_taken(reader: Reader) -> None:
    process = opened(reader)
    process.send(2)
    process.die()
    reader.begin()
    assert (rows(reader), reader.source.records) == (5, {"p": 5})


def test_what_it_has_taken_of_one_that_closed_is_not_taken_again(reader: Reader) -> None:
    process = opened(reader)
    process.close()
    process.die()
    reader.settle(LOOK_TICKS)
    assert reader.hosted.instance.state == "ended"
    piece = reader.checkpoint()
    reader.begin(piece)
    assert rows(reader) == 3 and reader.source.ended


def test_one_that_is_owed_and_does_not_come_fails_the_query(reader: Reader) -> None:
    """What the first of a name has kept is not what the second has sent."""
    opened(reader, "a").die()
    reader.settle(LOOK_TICKS)
    reader.source.owed["p"] = Owed("b", "")  # which a checkpoint knew, and which has come behind it and kept nothing
    reader.settle(grace(reader) + 2)
    assert reader.hosted.instance.state == "failed" and "is lost" in reader.hosted.instance.cause


def test_one_that_is_owed_and_was_only_stopped_has_kept_what_comes_next(reader: Reader) -> None:
    opened(reader, "a").die()
    reader.settle(LOOK_TICKS)
    Process(reader, "b", first=1, record=3).keep().send(2, comes=False)
    reader.source.owed["p"] = Owed("b", reader.publishers.heir.place)
    reader.settle(grace(reader) + 2)
    assert (rows(reader), reader.source.records, reader.hosted.instance.state) == (5, {"p": 5}, "running")


def test_one_that_is_owed_is_so_at_the_next_checkpoint_too(reader: Reader) -> None:
    """Nothing of it had been taken at the first, and of the one before it, which has kept what came, not all."""
    before = reader.process("a").open().keep()
    before.send(3, comes=False)
    owed = reader.process("b")
    reader.publishers.open(Header(wire.OPEN, reader.entry), owed.opening | {"volatile": True})
    piece = reader.checkpoint()
    before.die()
    reader.begin(piece)
    assert (rows(reader), reader.source.owed["p"]) == (3, Owed("b", ""))
    reader.begin(reader.checkpoint())
    assert reader.source.owed["p"] == Owed("b", "")
    reader.source.expected_from_us = 1
    reader.settle(grace(reader) + 2)
    assert reader.hosted.instance.state == "failed" and "is lost" in reader.hosted.instance.cause


def test_a_stranger_of_the_name_does_not_stand_in_for_one_that_has_kept_nothing(reader: Reader) -> None:
    process = reader.process("a")
    process.opening["volatile"] = True
    process.open().send(3)
    piece = reader.checkpoint()
    reader.begin(piece)
    reader.process("b").open()
    reader.settle()
    assert reader.hosted.instance.state == "failed" and "another one of its name" in reader.hosted.instance.cause


def test_a_publisher_without_room_asks_for_a_commit_and_is_named(reader: Reader) -> None:
    process = opened(reader)
    reader.settle()
    reader.hosted.recovery.pressing = False  # type: ignore[union-attr]
    reader.publishers.open(Header(wire.OPEN, reader.entry), process.opening | {"keeps": 1 << 28})
    assert reader.hosted.recovery is not None and reader.hosted.recovery.pressing
    assert "a commit, as publisher p of stream 'events' does: it keeps 268,435,456 bytes" in reader.source.waits_for(0)
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    assert "a commit" not in reader.source.waits_for(0)


def test_one_that_has_sent_nothing_leaves_nothing(reader: Reader) -> None:
    """It was killed before it heard that it was let in, for its log is begun then."""
    reader.process("a").open()
    piece = reader.checkpoint()
    reader.begin(piece)
    other = reader.process("b").open()
    other.send(2)
    assert (rows(reader), reader.hosted.instance.state) == (2, "running")


def test_behind_one_that_had_sent_nothing_and_does_not_come_the_next_one_goes_on(reader: Reader) -> None:
    """Where the one before it had left off."""
    opened(reader, "z").die()
    reader.process("a").open()
    reader.begin(reader.checkpoint())
    reader.source.expected_from_us = 1
    reader.settle(grace(reader) + 2)
    assert not reader.source.expected and not reader.source.publishers
    reader.process("b").open()
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    reader.settle()
    _, header = reader.last(wire.OPENED)
    assert (header.sequence, header.record, reader.hosted.instance.state) == (1, 3, "running")


def test_its_log_stays_until_a_commit_knows_of_the_one_that_goes_on(reader: Reader) -> None:
    """The checkpoint was taken before that came, and is committed behind it: a recovery from there asks for the first one."""
    process = opened(reader)
    piece, taken = reader.checkpoint(), reader.publishers.taken(reader.hosted)
    process.die()
    reader.settle(LOOK_TICKS)
    reader.process("b").open()
    reader.publishers.cover(taken)
    reader.begin(piece)
    reader.process("b").open()
    assert (reader.hosted.instance.state, reader.hosted.instance.cause) == ("running", "")


def test_what_has_gone_on_elsewhere_is_not_all(reader: Reader) -> None:
    """Its ring was full."""
    process = opened(reader)
    piece = reader.checkpoint()
    process.send(2)
    assert process.log is not None
    process.log.abandon()
    process.die()
    reader.begin(piece)
    assert reader.source.expected == {"p"}
    reader.process("b").open()
    assert reader.hosted.instance.state == "failed" and "another one of its name" in reader.hosted.instance.cause


def test_one_that_keeps_what_it_sends_to_itself_is_let_in_when_a_commit_knows_that(reader: Reader) -> None:
    process = reader.process("a").open()
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    reader.settle()
    said, _ = reader.last(wire.OPENED)
    assert not said["volatile"] and said["ring"]
    process.opening["volatile"] = True
    reader.heard.clear()
    process.open()
    assert not [kind for kind, _, _ in reader.heard if kind == wire.OPENED]
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    reader.settle()
    assert reader.last(wire.OPENED)[0]["volatile"]


def test_a_commit_that_knows_the_one_before_says_nothing_of_another(reader: Reader) -> None:
    """It had closed; the other came behind that."""
    process = opened(reader)
    process.close(last=False)
    process.die()
    reader.settle(LOOK_TICKS)
    taken = reader.publishers.taken(reader.hosted)
    reader.process("b").open()
    reader.heard.clear()
    reader.publishers.cover(taken)
    reader.settle()
    channel = publisher_channel(reader.entry, "p")
    assert not [kind for kind, _, header in reader.heard if header.channel == channel] and channel in reader.publishers.here


class TestStopped:
    """A process that lives, and comes too late."""

    def test_nothing_of_it_counts_that_is_not_here(self, reader: Reader) -> None:
        process = opened(reader)
        process.send(2, comes=False)
        reader.process("b").open()
        assert rows(reader) == 5
        with pytest.raises(Sealed):
            process.send(1)
        assert (rows(reader), reader.hosted.instance.state) == (5, "running")

    def test_it_is_told_that_another_goes_on(self, reader: Reader) -> None:
        process = opened(reader)
        reader.process("b").open()
        process.open()
        said, _ = reader.last(wire.CLOSED)
        assert "another publisher of its name" in said["reason"] and reader.source.publishers["p"].incarnation == "b"

    def test_it_is_told_so_too_when_what_it_kept_was_removed(self, reader: Reader) -> None:
        process = opened(reader)
        reader.process("b").open()
        reader.publishers.cover(reader.publishers.taken(reader.hosted))
        assert not Rings(reader.folder / "sent").logs("a")
        process.open()
        said, _ = reader.last(wire.CLOSED)
        assert said["replaced"] and said["incarnation"] == "a" and reader.source.publishers["p"].incarnation == "b"

    def test_what_it_makes_count_when_it_is_too_late_counts_in_no_attempt(self, reader: Reader) -> None:
        """It was stopped in front of the instruction by which its last rows count."""
        process = opened(reader)
        piece = reader.checkpoint()
        process.send(2, comes=False)
        other = reader.process("b").open()
        other.sequence = other.first = reader.source.publishers["p"].inbox.sequence
        other.record = 5
        with pytest.raises(Sealed):
            process.send(1, comes=False)
        other.keep().send(3)
        reader.begin(piece)
        other.open()
        assert (rows(reader), reader.source.records) == (5, {"p": 5})
        assert reader.source.publishers["p"].inbox.sequence == other.first and reader.hosted.instance.state == "running"

    def test_what_came_before_one_that_a_checkpoint_knows_is_taken_before_it(self, reader: Reader) -> None:
        """Nothing of all that had been taken when the checkpoint was."""
        reader.process("a").open().keep().send(3, comes=False)
        other = reader.process("b")
        reader.publishers.open(Header(wire.OPEN, reader.entry), other.opening)
        piece = reader.checkpoint()
        reader.begin(piece)
        assert (reader.source.owed["p"], rows(reader)) == (Owed("b", reader.publishers.heir.place), 0)
        other.open()
        assert (rows(reader), reader.source.records, reader.hosted.instance.state) == (3, {"p": 3}, "running")

    @pytest.mark.parametrize("named", [True, False], ids=["incarnation", "endpoint"])
    def test_its_last_word_closes_no_other(self, reader: Reader, named: bool) -> None:
        opened(reader)
        other, elsewhere = reader.process("b"), LocalSockets(f"ipc://{reader.folder}/elsewhere")
        other.opening["endpoint"] = elsewhere.endpoint
        other.open()
        channel = publisher_channel(reader.entry, "p")
        word = {"last": True, "others": [], "endpoint": reader.client.endpoint, "entry": reader.entry}
        reader.publishers.close(
            Header(wire.CLOSE, channel, reader.source.publishers["p"].inbox.sequence), word | ({"incarnation": "a"} if named else {})
        )
        reader.settle()
        elsewhere.close()
        said, _ = reader.last(wire.CLOSED)
        assert said["covered"] and "another publisher of its name" in said["reason"]
        assert channel in reader.publishers.here and not reader.source.ending and "p" in reader.source.publishers


class TestRemoved:
    def test_a_log_goes_when_a_commit_covers_its_end(self, reader: Reader) -> None:
        process = opened(reader)
        process.close()
        process.die()
        reader.settle(LOOK_TICKS)
        rings = Rings(reader.folder / "sent")
        assert rings.logs("a")
        reader.publishers.cover(reader.publishers.taken(reader.hosted))
        assert not rings.logs("a")

    def test_one_that_has_closed_for_its_silence_goes_too(self, reader: Reader) -> None:
        opened(reader).die()
        reader.settle(LOOK_TICKS + grace(reader) + 2)
        reader.publishers.cover(reader.publishers.taken(reader.hosted))
        assert not Rings(reader.folder / "sent").logs("a")

    def test_one_stays_that_a_recovery_would_ask_for(self, reader: Reader) -> None:
        process = opened(reader)
        process.die()
        reader.settle(LOOK_TICKS)
        reader.publishers.cover(reader.publishers.taken(reader.hosted))
        assert Rings(reader.folder / "sent").logs("a")


def test_a_log_that_was_cut_short_is_none(reader: Reader) -> None:
    process = opened(reader)
    piece = reader.checkpoint()
    process.send(2)
    process.die()
    assert process.log is not None
    process.log.segments[0].path.write_bytes(process.log.segments[0].path.read_bytes()[:128])
    reader.begin(piece)
    assert reader.source.expected == {"p"} and rows(reader) == 3


def test_one_that_a_commit_covers_asks_for_none_when_it_opens_again(reader: Reader) -> None:
    """As each does once it has laid out what it keeps: that is known of it already. Of another one of its name nothing is."""
    own, process = reader.hosted.recovery, reader.process("a").open()
    assert own is not None and own.pressing and not any(kind == wire.OPENED for kind, *_ in reader.heard)
    reader.checkpoint()
    own.pressing = False
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    process.keep().open()
    assert not own.pressing and reader.last(wire.OPENED)[0]["here"]
    process.die()
    reader.process("b").open()
    assert own.pressing


def test_another_one_of_its_name_that_opens_before_a_commit_covers_its_end_asks_for_one(reader: Reader) -> None:
    own, process = reader.hosted.recovery, reader.process("a").open()
    assert own is not None
    reader.checkpoint()
    reader.publishers.cover(reader.publishers.taken(reader.hosted))
    process.keep().open().send(3)
    word = {"last": False, "others": [], "endpoint": reader.client.endpoint, "entry": reader.entry, "incarnation": "a"}
    reader.publishers.close(Header(wire.CLOSE, publisher_channel(reader.entry, "p"), process.sequence), word)
    reader.settle()
    assert "p" not in reader.source.publishers
    own.pressing = False  # the checkpoint is taken, and not committed
    other = reader.process("b")
    other.first = other.sequence = process.sequence + 1
    other.record = process.record
    other.open()
    assert own.pressing
