"""The reading end of a subscription: what it makes of messages that wait, and of a producer that moves."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from waiting import HANG_S

from cep import wire
from cep.elements import Batch, End
from cep.errors import CepError, ClusterError, NotFound, QueryError, QueryFailed, StreamEnded
from cep.joint import Joint, last_of
from cep.kernels.columns import Column
from cep.model.schema import INT64, Schema
from cep.wire import Format, Header
from driver.arrow import shown
from driver.aside import Aside
from driver.data import DataPlane
from driver.rest import Rest
from driver.subscription import WORD, Producer, Subscription

SCHEMA = Schema.of({"i": "int64"})


@pytest.fixture
def subscription() -> Iterator[Subscription]:
    plane = DataPlane()
    made = Subscription(Rest("http://127.0.0.1:1", None), plane, "out")
    made.query, made.schema = "q", SCHEMA
    producer = Producer({"endpoint": "ipc:///tmp/old", "instance": 0}, "q", "out", made.id)
    producer.shown = shown(Format(SCHEMA))
    made.producers[producer.channel] = producer
    plane.listen(producer.endpoint, producer.channel, made._hear)
    yield made
    plane.close()


def message(subscription: Subscription, sequence: int, last: int) -> tuple[Header, object]:
    (producer,) = subscription.producers.values()
    if sequence == last:
        return Header(wire.END, producer.channel, sequence), wire.body_of(End(), Format(SCHEMA))
    batch = Batch({"i": Column(INT64, np.array([sequence]))}, np.array([sequence]))
    return Header(wire.BATCH, producer.channel, sequence), bytes(Format(SCHEMA).encode(batch))


def has_moved(subscription: Subscription) -> None:
    """As the new place says it."""
    (producer,) = subscription.producers.values()
    place = {"endpoint": "ipc:///tmp/new", "channel": producer.channel}
    subscription._answered(Header(wire.SUBSCRIBED, producer.outlet), wire.to_json({"id": subscription.id, "place": place}))


def test_small_batches_that_wait_come_as_one(subscription: Subscription) -> None:
    for n in range(3000):
        subscription.messages.put(message(subscription, n, 3000))
        subscription.messages.put(None)  # as to a thread that waits
    subscription.messages.put(message(subscription, 3000, 3000))
    found = list(subscription)
    assert [len(batch) for batch in found] == [1024, 1024, 952]
    assert [row["i"] for batch in found for row in batch.to_pylist()] == list(range(3000))
    assert subscription.rows == 3000


def test_batches_joined_where_they_came_count_one_by_one(subscription: Subscription) -> None:
    """For the order and for credit, which the sender spends for each."""
    (producer,) = subscription.producers.values()
    sent = [message(subscription, n, 5) for n in range(5)]
    raw = b"".join(len(body).to_bytes(8, "little") + header.pack() + body for header, body in sent)
    begin, size = 8 + wire.HEADER_BYTES, len(sent[0][1])
    header, body, end = Joint(Format(SCHEMA).layout).join(sent[0][0], memoryview(raw), begin, begin + size, len(raw))
    assert (end, last_of(header)) == (len(raw), 4)
    for each in ((header, body), message(subscription, 5, 5)):
        subscription.messages.put(each)
    assert [batch.to_pydict() for batch in subscription] == [{"i": [0, 1, 2, 3, 4]}]
    assert producer.consumed == 5 * size


def test_a_loss_is_told_behind_what_came_before_it(subscription: Subscription) -> None:
    for n in (0, 1, 3):
        subscription.messages.put(message(subscription, n, 9))
    assert subscription.next_batch().to_pydict() == {"i": [0, 1]}
    with pytest.raises(ClusterError, match="expected element 2, got 3: messages were lost"):
        subscription.next_batch()


def test_what_overtakes_waits(subscription: Subscription) -> None:
    """Two ways, each in its order, mixed as chance has it."""
    choose = random.Random(3)
    ways = [[message(subscription, n, 40) for n in range(25)], [message(subscription, n, 40) for n in range(25, 41)]]
    has_moved(subscription)
    while any(ways):
        subscription.messages.put(choose.choice([way for way in ways if way]).pop(0))
    assert [row["i"] for batch in subscription for row in batch.to_pylist()] == list(range(40))


def test_it_lives_by_heartbeats_at_the_new_place(subscription: Subscription) -> None:
    has_moved(subscription)
    has_moved(subscription)
    assert +subscription.plane.beats == {"ipc:///tmp/new": 1}
    assert {producer.endpoint for producer in subscription.producers.values()} == {"ipc:///tmp/new"}


def test_a_gap_of_one_that_stayed_is_a_loss(subscription: Subscription) -> None:
    subscription.take(*message(subscription, 0, 9))
    with pytest.raises(ClusterError, match="expected element 1, got 2: messages were lost"):
        subscription.take(*message(subscription, 2, 9))


def answer_of(subscription: Subscription, *columns: str) -> dict[str, object]:
    """What an instance says that puts out these columns, with event times."""
    schema = Schema.of(dict.fromkeys(columns, "int64"))
    return {"here": True, "ended": False, "schema": schema.to_json(), "time": wire.TIME, "process": 1}


def test_a_column_of_the_users_is_not_hidden_by_the_event_time(subscription: Subscription) -> None:
    (producer,) = subscription.producers.values()
    subscription.event_time = "at"
    assert subscription.subscribed(producer, answer_of(subscription, "i", "event_time")) == 0
    assert producer.shown is not None and producer.shown.names == ["i", "event_time", "at"]
    subscription.event_time = True
    assert subscription.subscribed(producer, answer_of(subscription, "i", "at")) == 0
    assert producer.shown.names == ["i", "at", "event_time"]
    with pytest.raises(QueryError, match=r"stream 'out' has a column 'event_time' of its own.*subscribe\(\.\.\., event_time="):
        subscription.subscribed(producer, answer_of(subscription, "i", "event_time"))
    with pytest.raises(QueryError):
        subscription.next_batch()


def test_what_has_broken_off_breaks_off_again(subscription: Subscription) -> None:
    """And never looks like an end."""
    subscription.messages.put(message(subscription, 0, 9))
    (producer,) = subscription.producers.values()
    producer.process = 1
    gone = {"endpoint": producer.endpoint, "process": 1}
    for process in (2, 1):  # that one is another process: it is the orchestrator who knows what became of the query
        subscription.messages.put((Header(wire.UNKNOWN, producer.channel, sequence=1), wire.to_json({**gone, "process": process})))
    assert subscription.next_batch().to_pydict() == {"i": [0]}
    for _ in range(2):
        with pytest.raises(ClusterError, match="was silent for too long and was dropped"):
            subscription.next_batch()


def test_a_heartbeat_from_before_we_were_let_in_says_nothing(subscription: Subscription) -> None:
    """It was sent when the channel was known here and not yet there: its answer came first, and was read when all was well."""
    (producer,) = subscription.producers.values()
    producer.process, producer.since = 1, 4
    there = wire.to_json({"endpoint": producer.endpoint, "process": 1})
    subscription.messages.put((Header(wire.UNKNOWN, producer.channel, sequence=4), there))
    subscription.messages.put(message(subscription, 0, 9))
    assert subscription.next_batch().to_pydict() == {"i": [0]}
    subscription.messages.put((Header(wire.UNKNOWN, producer.channel, sequence=5), there))
    with pytest.raises(ClusterError, match="was silent for too long and was dropped"):
        subscription.next_batch()


def test_what_is_closed_before_its_end_has_not_ended(subscription: Subscription) -> None:
    subscription.close()
    with pytest.raises(ClusterError, match="was closed before the stream had ended"):
        subscription.next_batch()


@pytest.fixture
def early(subscription: Subscription) -> Subscription:
    """Subscribed before its query is there."""
    return Subscription(subscription.rest, subscription.plane, "out")


def found(early: Subscription, **more: object) -> None:
    """As the orchestrator says it of a query that is there now."""
    answer = {"name": "q", "epoch": 0, "state": "running", "schemas": {}, "outputs": {"out": []}, "rows": {}}
    early.messages.put((Header(WORD, 0), answer | more))


@pytest.mark.parametrize(("more", "error"), [({"state": "failed"}, QueryFailed), ({"outputs": {"other": []}}, NotFound)])
def test_a_query_that_is_no_good_when_it_is_found_is_no_end(early: Subscription, more: dict[str, object], error: type[CepError]) -> None:
    found(early, **more)
    for _ in range(2):
        with pytest.raises(error):
            early.next_batch()
    assert early.id not in early.plane.subscribers


def test_a_query_that_is_over_when_it_is_found_is_an_end(early: Subscription) -> None:
    found(early, state="ended")
    with pytest.raises(StreamEnded):
        early.next_batch()
    assert early.next_batch() is None and early.id not in early.plane.subscribers


def test_what_is_closed_before_its_query_was_there_waits_for_it_no_longer(early: Subscription) -> None:
    early.close()
    found(early)
    with pytest.raises(ClusterError, match="stream 'out': this subscription was closed before"):
        early.next_batch()
    early.take(*early.messages.get())
    assert not early.query


@pytest.mark.parametrize("subscribe", [Subscription.register, lambda early: early.attach("q")])
def test_who_cannot_subscribe_leaves_nothing_behind(early: Subscription, subscribe: Callable[[Subscription], object]) -> None:
    early.rest.patience_s = 0.0
    with pytest.raises(ClusterError):
        subscribe(early)
    assert early.id not in early.plane.subscribers


def test_a_question_that_fails_is_not_the_last_one() -> None:
    aside, asked = Aside(), threading.Event()
    aside.ask("wrong", {}.popitem)
    aside.ask("right", asked.set)
    assert asked.wait(HANG_S)
    aside.close()
