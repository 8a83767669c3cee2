"""A subscription without input and output: messages, answers and times in; rows, commands and errors out.

Tests `subscription_core.py`, `producers.py`, `resuming/resumable.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cep.elements import Batch
from cep.errors import ClusterError, NotFound, QueryError, QueryFailed, QueryStopped, StreamEnded
from cep.kernels.columns import Column
from cep.model.schema import INT64, Schema
from cep.transport import wire
from cep.transport.wire import Format, Header
from driver.streams.commands import NOTHING, Coalesce, Leave, Listen, Send, StreamCommand
from driver.streams.producers import Producer, SubscriptionOptions
from driver.streams.resuming.tokens import Position, ResumeToken
from driver.streams.subscription_core import ANSWER_NS, SMALL_BYTES, SubscriptionCore

OURS, OLD, NEW = "ipc:///us", "ipc:///old", "ipc:///new"
SCHEMA = Schema.of({"i": "int64"})
FORMAT = Format(SCHEMA)


def core(**options: Any) -> SubscriptionCore:
    return SubscriptionCore("out", "s-1", OURS, SubscriptionOptions(**options))


def answer(*columns: str, **more: object) -> dict[str, object]:
    """The answer of an instance that puts out these columns, with event times."""
    schema = Schema.of(dict.fromkeys(columns or ("i",), "int64"))
    return {"here": True, "ended": False, "schema": schema.to_json(), "time": wire.TIME, "process": 1} | more


def attached(instances: int = 1, **options: Any) -> tuple[SubscriptionCore, list[Producer]]:
    """At so many instances, which have answered."""
    made = core(**options)
    made.ask("q", [{"endpoint": OLD, "instance": i, "epoch": 1} for i in range(instances)], 0)
    producers = list(made.producers.values())
    for producer in producers:
        made.answered(producer.outlet, answer(), 4)
    return made, producers


def body_of(*values: int) -> bytes:
    return bytes(FORMAT.encode(Batch({"i": Column(INT64, np.array(values))}, np.array(values))))


def rows(producer: Producer, number: int, *values: int) -> tuple[Header, bytes]:
    return Header(wire.BATCH, producer.channel, number), body_of(*(values or (number,)))


def taken(made: SubscriptionCore, messages: Iterable[tuple[Header, Any]]) -> list[int]:
    """The values of all rows, with what is held in between."""
    found: list[int] = []
    for message in messages:
        made.held.append(message)
        while made.held:
            batch, _ = made.take(*made.held.popleft())
            found += [] if batch is None else batch.to_pydict()["i"]
    return found


# --- opening -----------------------------------------------------------------------------------------------------------


def test_asks_every_instance_and_grants_to_each_that_answers() -> None:
    made = core(keep_s=5.0, on_slow="drop", budget_bytes=1000)
    commands = made.ask("q", [{"endpoint": OLD, "instance": 0, "epoch": 1}, {"endpoint": NEW, "instance": 1, "epoch": 1}], 7)
    first, second = made.producers.values()
    terms = {"id": "s-1", "endpoint": OURS, "event_time": False, "on_slow": "drop", "keep_s": 5.0, "budget_bytes": 1000}
    assert commands[:2] == [Listen(OLD, first.channel), Listen(NEW, second.channel)]
    assert [(each.endpoint, each.header, wire.from_json(each.body)) for each in commands[2:] if isinstance(each, Send)] == [
        (OLD, Header(wire.SUBSCRIBE, first.outlet), terms),
        (NEW, Header(wire.SUBSCRIBE, second.outlet), terms),
    ]
    granted = made.answered(second.outlet, answer(), 3)
    assert granted == [Coalesce(second.channel, FORMAT.layout), Send(NEW, Header(wire.CREDIT, second.channel, 0, record=1000))]
    assert list(made.asked.values()) == [first] and (second.process, second.since) == (1, 3)
    assert made.answered(second.outlet, answer(), 3) == NOTHING  # it is heard once


@pytest.mark.parametrize(("now", "late"), [(7, []), (6 + ANSWER_NS, []), (7 + ANSWER_NS, [OLD])])
def test_is_overdue_after_fifteen_seconds(now: int, late: list[str]) -> None:
    made = core()
    made.ask("q", [{"endpoint": OLD, "instance": 0, "epoch": 1}], 7)
    assert made.overdue(now) == late


NOT_HERE, ENDED = {"here": False}, {"here": True, "ended": True, "rows": 5}


@pytest.mark.parametrize(
    ("answers", "over"), [([ENDED, ENDED], 10), ([NOT_HERE, ENDED], 5), ([NOT_HERE, NOT_HERE], 0), ([answer(rows=2), ENDED], None)]
)
@pytest.mark.parametrize("state", ["ended", "stopped"])
def test_is_over_if_all_instances_are(answers: Sequence[dict[str, object]], over: int | None, state: str) -> None:
    made = core()
    made.ask("q", [{"endpoint": OLD, "instance": i, "epoch": 1} for i in range(2)], 0)
    for producer, said in zip(made.producers.values(), answers, strict=True):
        assert made.over is None
        made.answered(producer.outlet, said, 0)
    if NOT_HERE in answers:
        assert made.over is None and made.wonders, "of one that is not there the orchestrator says whether its query is over"
        made.look_again(FOUND | {"state": state, "epoch": 1}, 0)
    assert not made.astray
    assert (made.over is None) == (over is None) == made.goes_on
    assert made.over is None or made.over.args == StreamEnded("out", over or 0).args


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ({"state": "failed", "cause": {"subquery": "SQ1", "instance": 0, "cause": "broken"}}, QueryFailed),
        ({"state": "running", "epoch": 2}, ClusterError),
    ],
)
def test_one_that_was_not_where_it_was_asked_and_whose_query_is_no_more_is_no_end(found: dict[str, object], error: type) -> None:
    made = core()
    made.ask("q", [{"endpoint": OLD, "instance": 0, "epoch": 1}], 0)
    (producer,) = made.producers.values()
    made.answered(producer.outlet, NOT_HERE, 0)
    assert not made.look_again(FOUND | found, 0) and isinstance(made.broken, error) and made.over is None


def test_one_that_was_not_where_it_was_asked_is_asked_where_it_is() -> None:
    """What asked it was late: it has moved away since, and another process has the address of the one before."""
    made = core()
    made.ask("q", [{"endpoint": OLD, "instance": i, "epoch": 1} for i in range(2)], 0)
    here, moved = made.producers.values()
    made.answered(here.outlet, answer(), 0)
    made.answered(moved.outlet, NOT_HERE, 0)
    assert made.over is None and made.goes_on and made.wonders
    places = [{"endpoint": OLD, "instance": 0, "epoch": 1}, {"endpoint": NEW, "instance": 1, "epoch": 1}]
    commands = made.look_again(FOUND | {"epoch": 1, "outputs": {"out": places}}, 0)
    assert [each.endpoint for each in commands if isinstance(each, Send)] == [NEW] and list(made.asked) == [moved.outlet]
    assert made.producers[here.channel] is here
    made.answered(moved.outlet, answer(), 0)
    assert made.goes_on and not made.wonders


def astray() -> tuple[SubscriptionCore, Producer]:
    """Its only instance was not where it was asked."""
    made = core()
    made.ask("q", [{"endpoint": OLD, "instance": 0, "epoch": 1}], 0)
    (producer,) = made.producers.values()
    made.answered(producer.outlet, NOT_HERE, 0)
    return made, producer


def test_one_that_has_said_where_it_is_is_asked_there() -> None:
    """The orchestrator's answer may be older."""
    made, producer = astray()
    made.placed(producer.channel, NEW, 5, 1)
    commands = made.look_again(FOUND | {"epoch": 1}, 0)
    assert [each.endpoint for each in commands if isinstance(each, Send)] == [NEW]
    assert made.asked == {producer.outlet: producer} and producer.ahead is not None


def test_one_that_has_ended_meanwhile_is_not_asked() -> None:
    made, producer = astray()
    made.take(Header(wire.END, producer.channel, 0), b"")
    assert made.look_again(FOUND | {"epoch": 1}, 0) == [] and made.over is not None


def test_one_that_was_made_anew_is_asked_as_what_it_is() -> None:
    """Its query had recovered before it was asked for as if it had not."""
    made, producer = astray()
    before = producer.outlet
    (_, said) = made.look_again(FOUND | {"epoch": 1, "attempt": 3, "recovers": True}, 0)
    assert isinstance(said, Send) and said.header.channel == producer.outlet != before
    assert list(made.producers) == [producer.channel] and producer.attempt == 3 and made.recovers


OUTPUTS = {"out": [{"endpoint": OLD, "instance": 0, "epoch": 1}]}
FOUND = {"name": "q", "epoch": 2, "state": "running", "schemas": {}, "outputs": OUTPUTS, "rows": {}}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, type(None)),
        ({"state": "failed", "cause": {"subquery": "SQ1", "instance": 0, "cause": "broken"}}, QueryFailed),
        ({"outputs": {"other": []}}, NotFound),
        ({"outputs": {"out": []}, "rows": {"out": 9}}, StreamEnded),
    ],
)
def test_a_query_that_is_found(more: dict[str, object], told: type) -> None:
    made = core()
    assert made.goes_on
    commands = made.found(FOUND | more, 0)
    assert (made.query, made.epoch) == ("q", 2)
    assert type(made.broken or made.over) is told and bool(commands) == (told is type(None)) == made.goes_on


def test_a_column_of_the_users_is_not_hidden_by_the_event_time() -> None:
    def shown(event_time: bool | str, *columns: str) -> Any:
        made, (producer,) = attached(event_time=event_time)
        made.asked[producer.outlet] = producer
        made.answered(producer.outlet, answer(*columns), 0)
        return made.broken or (producer.shown and producer.shown.names)

    assert shown("at", "i", "event_time") == ["i", "event_time", "at"]
    assert shown(True, "i", "at") == ["i", "at", "event_time"]
    error = shown(True, "i", "event_time")
    assert isinstance(error, QueryError) and "subscribe(..., event_time=" in str(error)


# --- messages ----------------------------------------------------------------------------------------------------------


def test_credit_goes_back_once_an_eighth_of_the_window_is_owed() -> None:
    size = len(body_of(0))
    made, (producer,) = attached(budget_bytes=8 * size)
    granted = [made.take(*rows(producer, n))[1] for n in range(4)]
    consumed = 2 * size
    assert granted[0] == granted[2] == NOTHING
    credit = Header(wire.CREDIT, producer.channel, consumed, record=consumed + made.window, created=2)
    assert granted[1] == (Send(OLD, credit),)
    assert made.rows == 4 and granted[3] != NOTHING


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (lambda channel: Header(wire.BATCH, channel, 1), [0, 1]),
        (lambda channel: Header(wire.BATCH, channel, 2), [0]),
        (lambda channel: Header(wire.BATCH, channel + 1, 1), [0]),
        (lambda channel: Header(wire.END, channel, 1), [0]),
    ],
)
def test_what_follows_is_the_next_of_the_same_instance(header: Callable[[int], Header], expected: list[int]) -> None:
    made, (producer,) = attached()
    first, _ = made.take(*rows(producer, 0))
    message = header(producer.channel), body_of(1)
    batches, commands = made.following(producer.channel, first, [message])
    assert [i for batch in batches for i in batch.to_pydict()["i"]] == expected and commands == NOTHING
    assert list(made.held) == ([] if len(expected) == 2 else [message])


def test_what_follows_is_taken_until_credit_is_owed() -> None:
    size = len(body_of(0))
    made, (producer,) = attached(budget_bytes=20 * size)
    first, _ = made.take(*rows(producer, 0))
    arrived = iter([rows(producer, n) for n in range(1, 5)])
    batches, commands = made.following(producer.channel, first, arrived)
    assert len(batches) == 3 and [each.header.sequence for each in commands if isinstance(each, Send)] == [3 * size]
    assert next(arrived)[0].sequence == 3 and not made.held


def test_what_is_large_is_not_taken_together_with_others() -> None:
    made, (producer,) = attached()
    first, _ = made.take(*rows(producer, 0))
    assert made.following(producer.channel, first, [rows(producer, 1, *range(SMALL_BYTES))]) == ([first], NOTHING) and len(made.held) == 1


def test_a_gap_of_one_that_stayed_is_a_loss() -> None:
    made, (producer,) = attached()
    assert taken(made, [rows(producer, 0), rows(producer, 2)]) == [0]
    assert "expected element 1, got 2: messages were lost" in str(made.broken) and not made.goes_on


def test_what_is_no_batch_breaks_off() -> None:
    made, (producer,) = attached()
    made.take(Header(wire.BATCH, producer.channel, 0), b"nonsense")
    assert "what came is no batch of" in str(made.broken)


def test_what_overtakes_waits() -> None:
    """Two ways, each in its order, mixed as chance has it."""
    choose = random.Random(3)
    made, (producer,) = attached()
    assert made.placed(producer.channel, NEW, 2, 9)[0] == Listen(NEW, producer.channel)
    assert (producer.endpoint, producer.process, producer.since) == (NEW, 2, 9)
    ways = [
        [rows(producer, n) for n in range(25)],
        [*[rows(producer, n) for n in range(25, 40)], (Header(wire.END, producer.channel, 40), b"")],
    ]
    mixed = []
    while any(ways):
        mixed.append(choose.choice([way for way in ways if way]).pop(0))
    assert taken(made, mixed) == list(range(40)) and not made.goes_on and made.broken is None


def test_one_that_moves_twice_loses_nothing_that_has_overtaken() -> None:
    made, (producer,) = attached()
    made.placed(producer.channel, NEW, 2, 9)
    assert taken(made, [rows(producer, 2)]) == []
    made.placed(producer.channel, "ipc:///third", 3, 12)
    assert taken(made, [rows(producer, n) for n in (0, 1, 3)]) == [0, 1, 2, 3]


def test_one_that_moves_hears_what_it_may_send_in_its_new_place() -> None:
    """What was granted last may have come to a process that was gone by then."""
    made, (producer,) = attached()
    made.take(*rows(producer, 0))
    listen, grant = made.placed(producer.channel, NEW, 2, 9)
    assert listen == Listen(NEW, producer.channel)
    assert isinstance(grant, Send) and grant.endpoint == NEW and grant.header.kind == wire.CREDIT
    assert grant.header.sequence == producer.consumed > 0 and grant.header.record == producer.consumed + made.window
    assert made.placed(producer.channel, NEW, 2, 10) == [listen], "it is there already"


def test_it_ends_when_all_have_ended() -> None:
    made, producers = attached(3)
    for left, producer in zip((2, 1, 0), producers, strict=True):
        made.take(Header(wire.END, producer.channel, 0), b"")
        assert made.goes_on == (left > 0)
    assert made.broken is None


FAIL = wire.to_json({"subquery": "SQ1", "instance": 0, "cause": "broken"})


@pytest.mark.parametrize(
    ("kind", "body", "error", "said"),
    [
        (wire.STOP, b"", QueryStopped, "open windows of stream 'out' did not fire"),
        (wire.FAIL, FAIL, QueryFailed, "broken"),
        (wire.UNSUBSCRIBE, b"", ClusterError, "silent for too long and was dropped"),
    ],
)
def test_what_breaks_off_is_no_end(kind: int, body: bytes, error: type, said: str) -> None:
    made, producers = attached(2)
    made.take(Header(kind, producers[0].channel, 0), body)
    assert type(made.broken) is error and said in str(made.broken) and not made.goes_on
    made.fail(ClusterError("what comes later changes nothing"))
    assert type(made.broken) is error and said in str(made.broken)


# --- not known there ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beat", "process", "endpoint", "dropped", "replaced"),
    [
        (4, 1, OLD, False, False),  # that heartbeat was sent before we were let in
        (5, 1, OLD, True, False),
        (5, 2, OLD, False, True),  # another process: the orchestrator knows what became of the query
        (5, 1, NEW, False, False),  # it has gone on from there
    ],
)
def test_a_process_that_does_not_know_us(beat: int, process: int, endpoint: str, dropped: bool, replaced: bool) -> None:
    made, (producer,) = attached()
    made.take(Header(wire.UNKNOWN, producer.channel, beat), wire.to_json({"endpoint": endpoint, "process": process}))
    assert (made.broken is not None, made.wonders) == (dropped, replaced)


def test_one_that_has_not_said_which_process_it_is_was_not_replaced() -> None:
    made = core()
    made.ask("q", [{"endpoint": OLD, "instance": 0, "epoch": 1}], 0)
    (producer,) = made.producers.values()
    made.take(Header(wire.UNKNOWN, producer.channel, 5), wire.to_json({"endpoint": OLD, "process": 2}))
    assert made.goes_on and not made.wonders


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"state": "running"}, None),
        ({"state": None}, "was deleted"),
        ({"state": "running", "epoch": 3}, "another of its name deployed"),
        ({"state": "failed", "cause": {"cause": "broken"}}, "broken"),
        ({"state": "ended", "outputs": {"out": []}}, "what was not read in time is gone"),
        ({"state": "ended", "outputs": {"out": [{}]}}, None),
        ({"state": "ended"}, None),
    ],
)
def test_what_the_orchestrator_says_of_the_query(said: dict[str, Any], error: str | None) -> None:
    made = core()
    made.found(FOUND, 0)
    found = made.judge(said)
    assert (found is None) == (error is None) and (error or "") in str(found)


def test_the_cluster_does_not_answer() -> None:
    made, producers = attached(2)
    assert made.sources == [OLD] and made.doubt([], "gone", True) is None
    assert f"{OLD} that put it out have ended, and gone" in str(made.doubt([OLD], "gone", False))
    assert core().doubt([], "gone", False) is None
    assert "no query was found" in str(core().doubt([], "gone", True))
    made.take(Header(wire.UNKNOWN, producers[0].channel, 5), wire.to_json({"endpoint": OLD, "process": 2}))
    assert f"{OLD} that put it out have ended" in str(made.doubt([], "gone", False))


def test_a_query_that_recovers_goes_on_when_the_orchestrator_answers_again() -> None:
    """It takes requests, and waits for ZooKeeper."""
    made, _ = attached()
    made.recovers = True
    assert made.doubt([OLD], "gone", False) is None
    assert f"{OLD} that put it out have ended" in str(made.doubt([OLD], "gone", True))


def test_of_two_instances_one_that_has_ended_need_not_be_there() -> None:
    made, (one, _) = attached(2)
    made.take(Header(wire.UNKNOWN, one.channel, 5), wire.to_json({"endpoint": OLD, "process": 2}))
    made.take(Header(wire.END, one.channel, 0), b"")
    assert made.doubt([], "gone", True) is None


# --- ending ------------------------------------------------------------------------------------------------------------


def test_leaves_every_channel_once() -> None:
    made, (producer,) = attached()
    made.placed(7, OLD, 1, 0)  # an instance that has not been asked
    leaving: list[StreamCommand] = [Send(OLD, Header(wire.UNSUBSCRIBE, producer.channel)), Leave(producer.channel), Leave(7)]
    assert made.leave() == leaving and made.leave() == NOTHING
    assert not made.goes_on and made.broken is None


def test_what_is_closed_before_its_end_has_not_ended() -> None:
    made, (producer,) = attached()
    made.close()
    assert "was closed before the stream had ended" in str(made.broken)
    ended, (producer,) = attached()
    ended.take(Header(wire.END, producer.channel, 0), b"")
    ended.close()
    assert ended.broken is None


@pytest.mark.parametrize("wrong", [{"on_slow": "wait"}, {"keep_s": -1.0}, {"budget_bytes": 0}])
def test_options_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=next(iter(wrong))):
        SubscriptionOptions(**wrong)


# --- tokens ------------------------------------------------------------------------------------------------------------


def found(**more: Any) -> dict[str, Any]:
    """A query that recovers, with two instances that put the stream out."""
    outputs = {"out": [{"endpoint": OLD, "instance": i, "epoch": 1} for i in range(2)]}
    return {
        "name": "q",
        "epoch": 1,
        "attempt": 0,
        "recovers": True,
        "state": "running",
        "schemas": {},
        "rows": {},
        "outputs": outputs,
    } | more


def resumable(token: ResumeToken | None = None, holder: int = 0) -> SubscriptionCore:
    """Whose instances have answered."""
    made = SubscriptionCore("out", "s-1", OURS, SubscriptionOptions(resumable=True), token)
    made.holder = holder
    made.found(found(), 0)
    for producer in list(made.asked.values()):
        made.answered(producer.outlet, answer(lineage=f"0.{producer.instance + 1}"), 4)
    return made


def terms_of(commands: Iterable[StreamCommand]) -> list[dict[str, Any]]:
    asked = [each for each in commands if isinstance(each, Send) and each.header.kind == wire.SUBSCRIBE]
    return [wire.from_json(each.body) for each in asked]


def test_a_token_says_where_the_program_is() -> None:
    made = resumable()
    first, second = made.producers.values()
    assert made.position().positions == (Position(0, "0.1", 0), Position(1, "0.2", 0))
    taken(made, [rows(first, 0), rows(first, 1), rows(second, 0), (Header(wire.END, second.channel, 1), None)])
    assert made.position() == ResumeToken("q", 1, "out", "s-1", False, (Position(0, "0.1", 2), Position(1, "0.2", 2, ended=True)))


def test_what_came_and_was_not_given_to_the_program_is_behind_the_token() -> None:
    made = resumable()
    first, _ = made.producers.values()
    made.held.append(rows(first, 1))
    taken_, _ = made.take(*rows(first, 0))
    assert taken_ is not None and made.position().positions[0].following == 1


def test_another_process_goes_on_at_its_token_and_says_what_it_may_ask_for_again() -> None:
    token = ResumeToken("q", 1, "out", "s-1", False, (Position(0, "0.1", 5), Position(1, "0.2", 9, ended=True)))
    made = SubscriptionCore("out", "s-1", OURS, SubscriptionOptions(resumable=True), token)
    made.holder = 3
    first, second = terms_of(made.found(found(), 0))
    assert (first["next"], first["acknowledged"], first["lineage"], first["holder"], first["resumable"]) == (5, 5, "0.1", 3, True)
    assert (second["next"], second["acknowledged"]) == (9, 9), "it waits to hear that its end was taken"
    before, after = resumable(), resumable(token, 3)
    assert not before.producers.keys() & after.producers.keys(), "a channel of its own"
    first_of_all = next(iter(after.producers.values()))
    assert taken(after, [rows(first_of_all, 5), rows(first_of_all, 6)]) == [5, 6]
    assert taken(after, [(Header(wire.END, first_of_all.channel, 7), None)]) == [] and not after.goes_on and after.over is None


def test_at_the_next_attempt_it_says_what_it_has_and_what_it_has_acknowledged() -> None:
    made = resumable()
    first, second = made.producers.values()
    taken(made, [rows(first, 0)])
    made.acknowledge(made.position())
    taken(made, [rows(first, 1), rows(first, 2), (Header(wire.END, second.channel, 0), None)])
    said = terms_of(made.recovered(found(attempt=1)))
    assert [(each["next"], each["acknowledged"]) for each in said] == [(3, 1), (1, 0)]


def test_acknowledging_tells_each_instance_once() -> None:
    made = resumable()
    first, second = made.producers.values()
    early = made.position()
    taken(made, [rows(first, 0), rows(first, 1), rows(second, 0)])
    late = made.position()
    assert made.acknowledge(late) == [Send(OLD, Header(wire.ACK, first.channel, 2)), Send(OLD, Header(wire.ACK, second.channel, 1))]
    assert made.acknowledge(late) == made.acknowledge(early) == []
    assert not made.is_settled
    taken(made, [(Header(wire.END, first.channel, 2), None), (Header(wire.END, second.channel, 1), None)])
    assert not made.is_settled
    made.acknowledge(made.position())
    assert made.is_settled


def test_a_token_of_something_else_is_not_acknowledged() -> None:
    made = resumable()
    for other in (replace(made.position(), id="s-2"), replace(made.position(), epoch=2)):
        with pytest.raises(QueryError, match="of another subscription"):
            made.acknowledge(other)
    with pytest.raises(QueryError, match="what has not been read here"):
        made.acknowledge(replace(made.position(), positions=(Position(0, "0.1", 1),)))


def test_one_that_does_not_acknowledge_hears_why_nothing_comes() -> None:
    made = resumable()
    first, _ = made.producers.values()
    taken(made, [rows(first, 0)])
    made.acknowledge(made.position())
    made.full(first.channel, 0)  # said before it has heard
    made.full(7, 0)  # of the process before
    assert made.broken is None
    made.full(first.channel, 1)
    assert "since the last token that was acknowledged" in str(made.broken)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"recovers": False}, "query 'q' does not recover, so nothing of it is resumed"),
        ({"epoch": 2}, "the token is of another deployment of query 'q'"),
        ({"outputs": {"out": []}}, "it is over, and what was not read in time is gone"),
    ],
)
def test_where_nothing_can_be_resumed_is_said_by_name(more: dict[str, Any], why: str) -> None:
    token = ResumeToken("q", 1, "out", "s-1", False, (Position(0, "0.1", 5),))
    made = SubscriptionCore("out", "s-1", OURS, SubscriptionOptions(resumable=True), token)
    made.found(found(**more), 0)
    assert why in str(made.broken)


def test_an_instance_that_keeps_nothing_for_it_says_why() -> None:
    token = ResumeToken("q", 1, "out", "s-1", False, (Position(0, "0.1", 5), Position(1, "0.2", 2, ended=True)))
    for number, broken in ((0, True), (1, False)):
        made = SubscriptionCore("out", "s-1", OURS, SubscriptionOptions(resumable=True), token)
        made.found(found(), 0)
        refused = list(made.producers.values())[number]
        made.answered(refused.outlet, {"here": True, "refused": "it was dropped"}, 1)
        assert isinstance(made.broken, QueryError) == broken and refused.outlet not in made.asked


def test_a_stream_that_a_program_had_taken_whole_has_nothing_more() -> None:
    made = resumable(ResumeToken("q", 1, "out", "s-1", False, (Position(0, "0.1", 5, ended=True), Position(1, "0.2", 2, ended=True))))
    assert not made.goes_on and made.over is None and made.broken is None and made.is_settled


def test_there_are_no_tokens_where_none_were_asked_for() -> None:
    made, _ = attached()
    with pytest.raises(QueryError, match="subscribe with resumable=True"):
        made.position()
    with pytest.raises(QueryError, match="'drop' loses rows"):
        core(resumable=True, on_slow="drop")
