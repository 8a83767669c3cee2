"""A subscription to a query that recovers and tells its answers at once."""

from __future__ import annotations

from typing import Any

import pytest

from cep.elements import MIN_TIME
from cep.errors import ReplayMismatch
from cep.transport import wire
from cep.transport.wire import Header
from driver.streams.commands import NOTHING, Send
from driver.streams.producers import Producer
from driver.streams.subscription_core import SubscriptionCore
from tests.driver.streams.test_subscription_core import NEW, OLD, OURS, answer, core, rows, taken

QUERY = {"name": "q", "epoch": 1, "state": "running", "schemas": {"out": {}}, "rows": {}, "recovers": True}


def described(attempt: int, endpoint: str, instances: int) -> dict[str, Any]:
    there = [{"endpoint": endpoint, "instance": i, "epoch": 1} for i in range(instances)]
    return {**QUERY, "attempt": attempt, "outputs": {"out": there}}


def attached(instances: int = 1, **options: Any) -> tuple[SubscriptionCore, list[Producer]]:
    made = core(**options)
    made.found(described(0, OLD, instances), 0)
    for producer in list(made.producers.values()):
        made.answered(producer.outlet, answer(told=True, **{"from": 0}), 4)
    return made, list(made.producers.values())


def goes_on(made: SubscriptionCore, producer: Producer, restored: int, sequence: int) -> None:
    made.answered(producer.outlet, answer(told=True, restored=restored, **{"from": sequence}), 5)


def mark(producer: Producer, sequence: int, number: int, committed: int, watermark: int = MIN_TIME) -> tuple[Header, bytes]:
    body = wire.to_json({"number": number, "committed": committed})
    return Header(wire.BARRIER, producer.channel, sequence, watermark=watermark), body


def test_event_times_are_for_us_and_not_for_the_program() -> None:
    made, (producer,) = attached()
    batch, _ = made.take(*rows(producer, 0, 7))
    assert batch is not None and batch.to_pydict() == {"i": [7]}


def test_a_mark_is_confirmed_at_once() -> None:
    """So what came before it is in no later checkpoint."""
    made, (producer,) = attached()
    made.take(*rows(producer, 0, 7))
    nothing, (credit,) = made.take(*mark(producer, 1, 5, 0))
    assert nothing is None and isinstance(credit, Send) and credit.header.sequence == producer.consumed > 0


def test_what_was_taken_behind_the_checkpoint_is_taken_once() -> None:
    made, (first, second) = attached(2)
    assert taken(made, [rows(first, 0, 1), mark(first, 1, 5, 0), rows(first, 2, 2), rows(second, 0, 3)]) == [1, 2, 3]
    commands = made.recovered(described(1, NEW, 2))
    asked = [wire.from_json(each.body) for each in commands if isinstance(each, Send)]
    assert [(each["next"], each["attempt"], each["counted"]) for each in asked] == [(3, 0, 0), (1, 0, 0)]
    goes_on(made, first, 5, 1)
    goes_on(made, second, 5, 1)
    assert taken(made, [mark(first, 1, 5, 5), mark(second, 1, 5, 5), rows(second, 2, 2, 4), rows(first, 2, 3)]) == [4, 3]


def test_what_comes_of_the_attempt_before_is_not_taken_any_more() -> None:
    made, (first, second) = attached(2)
    old = rows(second, 0, 9)
    made.recovered({**described(1, NEW, 2), "outputs": {"out": [{"endpoint": NEW, "instance": 0, "epoch": 1}]}})
    assert taken(made, [old]) == [] and made.broken is None
    made.recovered(described(1, NEW, 2))
    goes_on(made, first, 0, 0)
    goes_on(made, second, 0, 0)
    assert taken(made, [mark(second, 0, 0, 0), rows(second, 1, 9)]) == [9]


def test_a_recovery_that_is_heard_of_behind_the_taking_of_rows_takes_none_of_them() -> None:
    """By another thread, before the reader has looked for what follows, and for the name."""
    made, (producer,) = attached()
    message, following = rows(producer, 0, 1), rows(producer, 1, 2)
    batch, _ = made.take(*message)
    assert batch is not None
    name = made.name_of(message[0])
    made.recovered(described(1, NEW, 1))
    assert made.following(message[0].channel, batch, iter([following])) == ([batch], NOTHING) and not made.held
    assert made.name_of(message[0]) == name
    goes_on(made, producer, 0, 0)
    assert taken(made, [mark(producer, 0, 0, 0), rows(producer, 1, 1), rows(producer, 2, 2)]) == [2]


def test_one_that_recovers_twice_before_all_has_come_again() -> None:
    made, (producer,) = attached()
    taken(made, [rows(producer, 0, 1, 2)])
    for attempt in (1, 2):
        made.recovered(described(attempt, NEW, 1))
        goes_on(made, producer, 0, 0)
        assert taken(made, [mark(producer, 0, 0, 0), rows(producer, 1, 1)]) == []
    assert taken(made, [rows(producer, 2, 2, 3)]) == [3]


def test_rows_that_do_not_come_again_break_the_stream_once_nothing_so_old_can_come() -> None:
    made, (first, second) = attached(2)
    taken(made, [rows(first, 0, 10), rows(second, 0, 20)])
    made.recovered(described(1, NEW, 2))
    goes_on(made, first, 0, 0)
    goes_on(made, second, 0, 0)
    taken(made, [mark(first, 0, 0, 0), mark(second, 0, 0, 0), mark(first, 1, 6, 0, watermark=50)])
    assert made.broken is None, "the other may have it yet"
    taken(made, [mark(second, 1, 6, 0, watermark=15)])
    assert isinstance(made.broken, ReplayMismatch) and "1 row that had been told did not come again" in str(made.broken)


@pytest.mark.parametrize("on_slow", ["block", "drop"])
def test_rows_that_have_not_come_again_at_the_end_break_it_unless_they_may_be_dropped(on_slow: str) -> None:
    made, (producer,) = attached(on_slow=on_slow)
    taken(made, [rows(producer, 0, 10)])
    made.recovered(described(1, NEW, 1))
    goes_on(made, producer, 0, 0)
    taken(made, [mark(producer, 0, 0, 0), (Header(wire.END, producer.channel, 1), None)])
    assert (made.broken is not None) == (on_slow == "block")


def test_a_column_called_as_event_times_are_hides_nothing() -> None:
    made = core()
    made.found(described(0, OLD, 1), 0)
    (producer,) = made.producers.values()
    made.answered(producer.outlet, answer("event_time", told=True, **{"from": 0}), 4)
    assert made.broken is None and producer.shown is not None and producer.shown.names == ["event_time", wire.TIME]
    assert made.endpoint == OURS
