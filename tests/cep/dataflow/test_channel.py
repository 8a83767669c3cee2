"""One conformance suite for every channel: in one process, and over real sockets of either transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pytest

from cep.dataflow.channel import Inbox, LocalChannel, WatermarkMerge
from cep.dataflow.meter import Account, Meter
from cep.dataflow.outputs.balancer import PointToPoint
from cep.dataflow.outputs.output import BATCH_BYTES_MAX, EdgeOutput, Target
from cep.elements import MAX_TIME, MIN_TIME, Batch, CheckpointBarrier, Element, End, Fail, Grammar, Idle, Stop, Watermark
from cep.errors import ProtocolError
from cep.kernels.columns import Column
from cep.model.schema import INT64, Schema
from cep.plan.channels import ChannelId
from cep.transport import linked
from cep.transport.sockets import open_sockets
from cep.transport.wire import Format
from instance_manager.network import Network
from instance_manager.ports import InPort, RemoteChannel
from tests.support.waiting import until

SCHEMA = Schema.of({"n": int})
SHARE = 4 << 20


def batch(rows: int, start: int = 0) -> Batch:
    """Rows start, start + 1, …, each with its number as its event time."""
    numbers = np.arange(start, start + rows, dtype=np.int64)
    return Batch({"n": Column(INT64, numbers)}, numbers, None, 7)


def numbers(batch: Batch) -> list[int]:
    return batch.columns["n"].values.tolist()


class Link(Protocol):
    """A channel with both its ends, and what moves its messages."""

    channel: LocalChannel | RemoteChannel
    inbox: Inbox

    def move(self) -> None:
        """One turn of both processes' loops."""

    def broken(self) -> list[str]:
        """What was said of channels that broke."""


CHANNEL = ChannelId("q", "e", 0, 0, lineage=2)


class LocalLink:
    def __init__(self, share: int) -> None:
        self.inbox = Inbox("q/e/0>0", share)
        self.channel = LocalChannel(self.inbox)

    def move(self) -> None:
        self.channel.settle()


class RemoteLink:
    """Two processes' ends, here in one: each with sockets of its own."""

    def __init__(self, share: int, endpoints: Sequence[str]) -> None:
        self.format = Format(SCHEMA)
        self.causes: list[str] = []
        self.here, self.there = map(open_sockets, endpoints)
        self.networks = [
            Network(sockets, lambda header, body: None, lambda header, body: None, self._on_broken, Meter())
            for sockets in (self.here, self.there)
        ]
        self.inbox = Inbox("q/e/0>0", share)
        self.port = InPort(CHANNEL, self.inbox, self.format, Account(), self.here.endpoint, paced=True)
        self.channel = RemoteChannel(self.here, CHANNEL, "s", self.there.endpoint, self.format)
        self.networks[0].channels[self.port.id] = self.channel
        self.networks[1].incoming[self.port.id] = self.port

    def _on_broken(self, port: InPort, error: Exception) -> None:
        self.causes.append(f"{port.inbox.name}: {error}")

    def move(self) -> None:
        for network in self.networks:
            network.receive()
            network.emit(network.incoming)

    def close(self) -> None:
        self.here.close()
        self.there.close()


Make = Callable[..., Link]


@pytest.fixture(params=["memory", "ipc", "link"])
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(linked, "LINGER_S", 0.0)  # one end would wait for the other, which is in this thread
    made: list[RemoteLink] = []

    def link(share: int = SHARE) -> Link:
        if request.param == "memory":
            return LocalLink(share)
        folder = tmp_path_factory.mktemp("s")
        prefix = "link://{0}@127.0.0.1:0" if request.param == "link" else "ipc://"
        endpoints = [f"{prefix.format(name)}{folder}/{name}" for name in ("here", "there")]
        made.append(RemoteLink(share, endpoints))
        until(lambda: made[-1].move() or made[-1].channel.credit.limit == share)  # the first grant
        return made[-1]

    yield link
    for each in made:
        each.close()


def arrived(link: Link, count: int) -> list[tuple[Element, int]]:
    """The next `count` elements, each with the watermark that holds after it."""
    until(lambda: link.move() or len(link.inbox.queue) >= count)
    return [link.inbox.take() for _ in range(count)]


def send(link: Link, element: Element, watermark: int = MIN_TIME, size: int = 0, since: int = MIN_TIME) -> None:
    link.channel.send(element, size or (8 * len(element) if isinstance(element, Batch) else 0), watermark, since)


# --- grammar and order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [End(), Stop(), Fail("SQ2", 3, "it broke: 'x' is 7 €")])
def test_every_element_arrives_in_order_as_it_was(make: Make, last: Element) -> None:
    link = make()
    sent: list[Element] = [batch(3), Watermark(3), Idle(), CheckpointBarrier(5), batch(2, 3), Watermark(MAX_TIME), last]
    for element in sent:
        send(link, element)
    got = [element for element, _ in arrived(link, len(sent))]
    assert [numbers(e) if isinstance(e, Batch) else e for e in got] == [numbers(e) if isinstance(e, Batch) else e for e in sent]
    grammar = Grammar("q/e/0>0")
    for element in got:
        grammar.check(element)


def test_a_batch_carries_times_creation_and_the_watermark_after_it(make: Make) -> None:
    link = make()
    send(link, batch(4, 10), watermark=12, since=9)
    ((got, watermark),) = arrived(link, 1)
    assert isinstance(got, Batch)
    assert (got.time.tolist(), got.created, watermark, link.inbox.since) == ([10, 11, 12, 13], 7, 12, 9)


def test_an_empty_batch(make: Make) -> None:
    link = make()
    send(link, batch(0))
    ((got, _),) = arrived(link, 1)
    assert isinstance(got, Batch) and not len(got)


# --- credit ----------------------------------------------------------------------------------------------------------


def test_one_batch_always_goes_whatever_its_size(make: Make) -> None:
    link = make(share=1000)
    assert link.channel.credit.allows(1 << 30)
    send(link, batch(100_000))
    assert not link.channel.credit.allows(1)
    arrived(link, 1)
    until(lambda: link.move() or link.channel.credit.allows(1 << 30))


def test_beyond_one_the_limit_holds(make: Make) -> None:
    link = make(share=1 << 16)
    send(link, batch(2000))
    spent = link.channel.credit.sent
    assert link.channel.credit.allows((1 << 16) - spent)
    assert not link.channel.credit.allows((1 << 16) - spent + 1)


def test_credit_comes_back_when_an_element_is_taken_not_when_it_arrives(make: Make) -> None:
    link = make(share=1)
    send(link, batch(10))
    until(lambda: link.move() or link.inbox.queue)
    link.move()
    assert not link.channel.credit.allows(1)
    assert link.inbox.held() == link.channel.credit.sent
    link.inbox.take()
    until(lambda: link.move() or link.channel.credit.allows(1))
    assert link.inbox.held() == 0


def test_control_elements_cost_nothing(make: Make) -> None:
    """With no credit left they still go, in their place."""
    link = make(share=1)
    send(link, batch(10))
    for element in (Watermark(1), CheckpointBarrier(1), Idle(), End()):
        send(link, element)
    assert [type(element) for element, _ in arrived(link, 5)] == [Batch, Watermark, CheckpointBarrier, Idle, End]


def test_the_receivers_watermark_comes_back(make: Make) -> None:
    link = make()
    link.inbox.merge = merge = WatermarkMerge()
    merge.add("q/e/0>0")
    assert link.channel.credit.returned == MIN_TIME
    merge.update("q/e/0>0", 42)
    until(lambda: link.move() or link.channel.credit.returned == 42)


# --- what must not be ------------------------------------------------------------------------------------------------


def broken(link: Link) -> str:
    """The complaint, by whatever way it comes."""
    if isinstance(link, RemoteLink):
        return until(lambda: link.move() or link.causes)[0]
    raise AssertionError("a local channel raises at once")


def test_a_gap_names_the_channel_and_what_was_expected(make: Make) -> None:
    link = make()
    send(link, Watermark(1))
    link.channel.sequence += 1
    try:
        send(link, Watermark(2))
        complaint = broken(link)
    except ProtocolError as error:
        complaint = str(error)
    assert "q/e/0>0" in complaint and "expected element 1, got 2" in complaint


def test_what_an_earlier_deployment_has_left_behind_is_of_no_channel_here(make: Make) -> None:
    """What waited for a process that has died reaches the next one at the same address; it is counted, and changes nothing."""
    link = make()
    if not isinstance(link, RemoteLink):
        return  # within a process nothing is left behind
    old = RemoteChannel(link.here, replace(CHANNEL, lineage=CHANNEL.lineage - 1), "s", link.there.endpoint, link.format)
    send(link, Watermark(1))
    old.send(Watermark(99), 0, 99, MIN_TIME)
    old.send(batch(3), 24, 99, MIN_TIME)
    send(link, Watermark(2))
    assert [element for element, _ in arrived(link, 2)] == [Watermark(1), Watermark(2)]
    assert link.networks[1].strays == 2 and not link.causes


# --- backpressure ----------------------------------------------------------------------------------------------------


def test_a_sender_stops_at_the_limit_and_goes_on(make: Make) -> None:
    link = make(share=64 << 10)
    output = EdgeOutput("q/e", PointToPoint(), [link.channel], ["n"])
    for part in range(50):
        output.add(batch(1000, part * 1000))
        output.flush_rows()
    output.close(End())
    assert output.blocked
    assert link.channel.credit.sent <= 64 << 10
    got: list[int] = []

    def drain() -> bool:
        link.move()
        assert link.inbox.held() <= 64 << 10
        while link.inbox.queue:
            element, _ = link.inbox.take()
            if isinstance(element, End):
                return True
            got.extend(numbers(element))
        output.pump()
        return False

    until(drain)
    assert got == list(range(50_000))
    assert not output.blocked


def test_a_batch_over_the_size_of_a_batch_is_cut(make: Make) -> None:
    """Unless both ends share memory."""
    link = make(share=1)
    target = Target(link.channel)
    rows = 3 * BATCH_BYTES_MAX // 16
    target.add(batch(rows), rows, MIN_TIME, 1 << 40)
    target.cut(rows, MIN_TIME)
    pieces: list[tuple[Batch, int]] = []
    while not target.pump():
        pieces += arrived(link, 1)
        until(lambda: link.move() or link.channel.credit.allows(1))
    pieces += arrived(link, 1)
    assert [n for piece, _ in pieces for n in numbers(piece)] == list(range(rows))
    assert [watermark for _, watermark in pieces] == [rows] if link.channel.shares else [MIN_TIME, MIN_TIME, rows]
