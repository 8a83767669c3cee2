"""The shell of a subscription: what waits in its queues, and what is asked of the orchestrator.

Tests `subscription.py`, `background.py`, `subscriptions.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pytest

from cep.elements import Batch, End
from cep.errors import CepError, ClusterError, NotFound, QueryFailed, StreamEnded
from cep.kernels.columns import Column
from cep.model.schema import INT64, Schema
from cep.transport import wire
from cep.transport.coalescing import Coalescer, last_of
from cep.transport.wire import Format, Header
from driver.rest import Rest
from driver.streams.background import Aside
from driver.streams.commands import StreamCommand
from driver.streams.data_plane import DataPlane
from driver.streams.producers import Producer, SubscriptionOptions
from driver.streams.subscription import Subscription
from driver.streams.subscription_core import ANSWER_NS, WORD
from driver.streams.subscriptions import Subscriptions
from tests.support.waiting import HANG_S

SCHEMA = Schema.of({"i": "int64"})
ANSWER = {"here": True, "ended": False, "schema": SCHEMA.to_json(), "time": wire.TIME, "process": 1}


@pytest.fixture
def plane() -> Iterator[DataPlane]:
    made = DataPlane.open()
    yield made
    made.close()


@pytest.fixture
def rest() -> Iterator[Rest]:
    made = Rest("http://127.0.0.1:1", None)
    yield made
    made.close()


@pytest.fixture
def subscription(rest: Rest, plane: DataPlane, request: pytest.FixtureRequest) -> Subscription:
    """At one instance, which has answered; its options may be a parameter."""
    return let_in(Subscription(rest, plane, "out", SubscriptionOptions(**getattr(request, "param", {}))))


def let_in(made: Subscription) -> Subscription:
    made.ask("q", [{"endpoint": "ipc:///tmp/old", "instance": 0, "epoch": 1}])
    made.answered(producer_of(made).outlet, ANSWER, 0)
    return made


def producer_of(made: Subscription) -> Producer:
    (producer,) = made.core.producers.values()
    return producer


def message(subscription: Subscription, sequence: int, last: int, time: int = 0) -> tuple[Header, object]:
    channel = producer_of(subscription).channel
    if sequence == last:
        return Header(wire.END, channel, sequence), wire.body_of(End(), Format(SCHEMA))
    batch = Batch({"i": Column(INT64, np.array([sequence]))}, np.array([time]))
    return Header(wire.BATCH, channel, sequence), bytes(Format(SCHEMA).encode(batch))


def test_small_batches_that_wait_come_as_one(subscription: Subscription) -> None:
    for n in range(3000):
        subscription.messages.put(message(subscription, n, 3000))
        subscription.messages.put(None)  # type: ignore[arg-type]  # as to a thread that waits
    subscription.messages.put(message(subscription, 3000, 3000))
    found = list(subscription)
    assert [len(batch) for batch in found] == [1024, 1024, 952]
    assert [row["i"] for batch in found for row in batch.to_pylist()] == list(range(3000))
    assert subscription.rows == 3000


@pytest.mark.parametrize("subscription", [{"event_time": True}], indirect=True)
def test_the_end_of_event_time_is_shown_as_null(subscription: Subscription) -> None:
    for n in range(2):
        subscription.messages.put(message(subscription, n, 9, time=[3, 2**61][n]))
    batch = subscription.turn()
    assert batch is not None and batch.to_pylist() == [
        {"i": 0, "event_time": datetime(1970, 1, 1, 0, 0, 0, 3, UTC)},
        {"i": 1, "event_time": None},
    ]


def test_batches_joined_where_they_came_count_one_by_one(subscription: Subscription) -> None:
    """For the order and for credit, which the sender spends for each."""
    sent = [message(subscription, n, 5) for n in range(5)]
    raw = b"".join(len(body).to_bytes(8, "little") + header.pack() + body for header, body in sent)  # type: ignore[arg-type, operator]
    begin, size = 8 + wire.HEADER_BYTES, len(sent[0][1])  # type: ignore[arg-type]
    header, body, end = Coalescer(Format(SCHEMA).layout).join(sent[0][0], memoryview(raw), begin, begin + size, len(raw))  # type: ignore[arg-type]
    assert (end, last_of(header)) == (len(raw), 4)
    for each in ((header, body), message(subscription, 5, 5)):
        subscription.messages.put(each)
    assert [batch.to_pydict() for batch in subscription] == [{"i": [0, 1, 2, 3, 4]}]
    assert producer_of(subscription).consumed == 5 * size


def test_a_turn_takes_what_has_come_and_waits_for_nothing(subscription: Subscription) -> None:
    assert subscription.turn() is None and subscription.core.goes_on
    for n in (0, 1, 2):
        subscription.messages.put(message(subscription, n, 2))
    batch = subscription.turn()
    assert batch is not None and batch.to_pydict() == {"i": [0, 1]}
    assert subscription.turn() is None and not subscription.core.goes_on


def test_a_loss_is_told_behind_what_came_before_it(subscription: Subscription) -> None:
    for n in (0, 1, 3):
        subscription.messages.put(message(subscription, n, 9))
    batch = subscription.next_batch()
    assert batch is not None and batch.to_pydict() == {"i": [0, 1]}
    for _ in range(2):
        with pytest.raises(ClusterError, match="expected element 2, got 3: messages were lost"):
            subscription.next_batch()


def test_it_lives_by_heartbeats_at_the_new_place(subscription: Subscription) -> None:
    producer, plane = producer_of(subscription), subscription.plane
    place = {"endpoint": "ipc:///tmp/new", "channel": producer.channel}
    for _ in range(2):
        subscription._answered(Header(wire.SUBSCRIBED, producer.outlet), wire.to_json({"id": subscription.core.id, "place": place}))
    assert plane.homes == {producer.channel: "ipc:///tmp/new"} and producer.endpoint == "ipc:///tmp/new"
    subscription.close()
    assert not plane.homes and not plane.handlers and not plane.subscribers


@pytest.fixture
def early(rest: Rest, plane: DataPlane) -> Subscription:
    """Subscribed before its query is there."""
    return Subscription(rest, plane, "out", SubscriptionOptions())


def found(early: Subscription, **more: object) -> None:
    """As the orchestrator says it of a query that is there now."""
    answer = {"name": "q", "epoch": 0, "state": "running", "schemas": {}, "outputs": {"out": []}, "rows": {}}
    early.messages.put((Header(WORD, 0), answer | more))


def test_what_came_before_its_query_was_known_is_read_first(early: Subscription) -> None:
    """The instance sends from the beginning; where it is, and how its batches look, is heard later."""
    there = {"endpoint": "ipc:///tmp/old", "instance": 0, "epoch": 1}
    producer = Producer(there, "q", "out", early.core.id)
    place = {"endpoint": "ipc:///tmp/old", "channel": producer.channel, "process": 1}
    early._answered(Header(wire.SUBSCRIBED, producer.outlet), wire.to_json({"id": early.core.id, "place": place}))
    bodies = [bytes(Format(SCHEMA).encode(Batch({"i": Column(INT64, np.array([n]))}, np.array([n])))) for n in range(3)]
    for n in (0, 1):
        early._hear(Header(wire.BATCH, producer.channel, n), bodies[n])
    assert early.turn() is None and len(early.core.held) == 2
    found(early, outputs={"out": [there]})
    early._hear(Header(wire.BATCH, producer.channel, 2), bodies[2])
    assert early.turn() is None and early.core.asked  # how they look is not known
    early._answered(Header(wire.SUBSCRIBED, producer.outlet), wire.to_json({"id": early.core.id} | ANSWER))
    rows = []
    while (batch := early.turn()) is not None:
        rows += batch.to_pydict()["i"]
    assert rows == [0, 1, 2]


@pytest.mark.parametrize(("more", "error"), [({"state": "failed"}, QueryFailed), ({"outputs": {"other": []}}, NotFound)])
def test_a_query_that_is_no_good_when_it_is_found_is_no_end(early: Subscription, more: dict[str, object], error: type[CepError]) -> None:
    found(early, **more)
    for _ in range(2):
        with pytest.raises(error):
            early.next_batch()
    assert not early.plane.subscribers


def test_a_query_that_is_over_when_it_is_found_is_an_end(early: Subscription) -> None:
    found(early, state="ended")
    with pytest.raises(StreamEnded):
        early.next_batch()
    assert early.next_batch() is None and not early.plane.subscribers


def test_what_is_closed_before_its_query_was_there_waits_for_it_no_longer(early: Subscription) -> None:
    early.close()
    found(early)
    with pytest.raises(ClusterError, match="stream 'out': this subscription was closed before"):
        early.next_batch()
    early.take(*early.messages.get())
    assert not early.core.query


@pytest.mark.parametrize("subscribe", [Subscription.register, lambda early: early.attach("q")])
def test_a_failed_subscription_leaves_nothing_behind(early: Subscription, subscribe: Callable[[Subscription], object]) -> None:
    early.inquiry.rest.patience_s = 0.0
    with pytest.raises(ClusterError):
        subscribe(early)
    assert not early.plane.subscribers


def test_one_of_many_that_has_lost_messages_is_over_and_the_others_go_on(rest: Rest, plane: DataPlane) -> None:
    many = Subscriptions(rest, plane, ["out", "other"], SubscriptionOptions())
    for stream, member in many.members.items():
        let_in(member)
        many.open.add(stream)
    broken, whole = many.members.values()
    broken._hear(*message(broken, 1, 9))
    for n in (0, 1):
        whole._hear(*message(whole, n, 1))
    with pytest.raises(ClusterError, match="expected element 0, got 1: messages were lost"):
        many.next_batch()
    assert [(stream, batch.to_pydict()) for stream, batch in many] == [("other", {"i": [0]})]


def test_a_question_that_fails_is_not_the_last_one() -> None:
    aside, asked = Aside(), threading.Event()
    aside.ask("wrong", lambda: [][0])
    aside.ask("right", asked.set)
    assert asked.wait(HANG_S)
    aside.close()


def test_a_query_that_recovers_is_not_waited_for(rest: Rest, plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instances are being made, and do not answer; once made they know of the subscription."""
    made = Subscription(rest, plane, "out", SubscriptionOptions(resumable=True))
    outputs = {"out": [{"endpoint": "ipc:///tmp/nobody", "instance": 0, "epoch": 1}]}
    found = {"name": "q", "epoch": 1, "attempt": 2, "recovers": True, "state": "recovering", "schemas": {}, "rows": {}, "outputs": outputs}
    monkeypatch.setattr(made.inquiry, "query", lambda name: found)
    monkeypatch.setattr(made.inquiry, "register", lambda: None)
    begun = plane.clock.steady_ns()
    made.attach("q")
    assert plane.clock.steady_ns() - begun < ANSWER_NS and made.core.asked
    assert producer_of(made).attempt == 2


THERE = {"endpoint": "ipc:///tmp/nobody", "instance": 0, "epoch": 1}


class Asked:
    """A subscription at an instance that gives these answers, each to one question; `states`: those of its query, whenever that is asked
    for, the last one from then on."""

    def __init__(self, made: Subscription, monkeypatch: pytest.MonkeyPatch, answers: Iterable[dict[str, Any]], *states: str) -> None:
        self.made, self.answers, self.states = made, iter(answers), list(states)
        for ask in ("ask", "look_again"):
            monkeypatch.setattr(made.core, ask, partial(self.answer, getattr(made.core, ask)))
        monkeypatch.setattr(made.inquiry, "query", self.query)

    def answer(self, ask: Callable[..., Sequence[StreamCommand]], *asked: Any) -> Sequence[StreamCommand]:
        commands = ask(*asked)
        for producer in self.made.core.asked.values():
            self.made._answered(Header(wire.SUBSCRIBED, producer.outlet), wire.to_json(next(self.answers)))
        return commands

    def query(self, name: str) -> dict[str, Any]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"name": name, "epoch": 1, "state": state, "schemas": {}, "rows": {}, "outputs": {"out": [THERE]}}


def test_an_instance_that_is_not_where_it_was_asked_is_looked_for(rest: Rest, plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has the address of the one that it was in, or it has not been made there yet."""
    made = Subscription(rest, plane, "out", SubscriptionOptions())
    asked = Asked(made, monkeypatch, [{"here": False}, {"here": False}, ANSWER], "running")
    assert made.attach("q").core.goes_on and made.schema == SCHEMA and not list(asked.answers)


def test_one_whose_query_is_over_by_then_has_ended(rest: Rest, plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Subscription(rest, plane, "out", SubscriptionOptions())
    Asked(made, monkeypatch, [{"here": False}, {"here": False}], "running", "running", "ended")
    with pytest.raises(StreamEnded):
        made.attach("q")


def test_one_that_is_nowhere_is_an_error(rest: Rest, plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the orchestrator says that it runs."""
    monkeypatch.setattr("driver.streams.subscription.ANSWER_NS", 1)
    made = Subscription(rest, plane, "out", SubscriptionOptions())
    Asked(made, monkeypatch, [{"here": False}], "running")
    with pytest.raises(ClusterError, match="the instance managers at ipc:///tmp/nobody do not know its instances"):
        made.attach("q")


@pytest.mark.parametrize(("state", "open_"), [("running", {"out"}), ("ended", set())])
def test_likewise_in_many(rest: Rest, plane: DataPlane, monkeypatch: pytest.MonkeyPatch, state: str, open_: set[str]) -> None:
    many = Subscriptions(rest, plane, ["out"], SubscriptionOptions())
    Asked(many.members["out"], monkeypatch, [{"here": False}, ANSWER], state)
    monkeypatch.setattr(rest, "post", lambda *_: [{"query": "q", "producers": [THERE]}])
    assert many.attach().open == open_


def test_what_comes_while_an_instance_is_looked_for_waits(rest: Rest, plane: DataPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was registered before its query, so the instance that is astray knows it and sends: how its rows look is not known yet."""
    made = Subscription(rest, plane, "out", SubscriptionOptions())
    asked = Asked(made, monkeypatch, [{"here": False}, ANSWER], "running")
    monkeypatch.setattr(rest.aside, "ask", lambda key, question: question())
    monkeypatch.setattr(rest, "get", lambda *_, **__: asked.query("q"))
    made._found(asked.query("q"))
    for sequence in (0, 1):
        made.messages.put(message(made, sequence, 1))
    assert [batch.to_pydict() for batch in made] == [{"i": [0]}] and not list(asked.answers)
