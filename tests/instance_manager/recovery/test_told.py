"""A subscription that is told its answers at once: what goes when, and what an attempt goes on with."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from cep.elements import MIN_TIME, Batch, CheckpointBarrier, End
from cep.kernels.columns import Column
from cep.model.schema import INT64, Schema
from cep.plan.channels import ChannelId
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Format, Header
from instance_manager.clients.subscriptions import Terms
from instance_manager.recovery.kept import DROPPED, Restored
from instance_manager.recovery.told import ToldChannel
from tests.instance_manager.recovery.test_kept import PLENTY, Sent

OUTLET = ChannelId.outlet("q", "out", 0, 1, 0)


def made(attempt: int = 0, restored: int = 0, is_first: bool = True, room: int = PLENTY, **terms: Any) -> tuple[ToldChannel, Sent]:
    sent = Sent()
    told = ToldChannel(cast(Sockets, sent), OUTLET.to("s-1"), Format(Schema.of({"i": "int64"})), Terms("s-1", "ipc:///us", **terms))
    told.lineage = f"{attempt}.1"
    told.begin_anew(attempt, restored, is_first)
    told.grant(Header(wire.CREDIT, told.id, 0, record=room))
    return told, sent


def put(told: ToldChannel, *numbers: int) -> None:
    """A batch of a row for each."""
    batch = Batch({"i": Column(INT64, np.array(numbers))}, np.array(numbers))
    told.send(batch, len(told.format.encode(batch)), max(numbers), 0)


def mark(told: ToldChannel, number: int, watermark: int = 100) -> None:
    told.send(CheckpointBarrier(number), 0, watermark, 0)


def heard(sent: Sent) -> list[tuple[int, object]]:
    """(number, what) since it was asked last: a mark as the two checkpoints that it names, the end, or a batch."""
    names = {wire.BATCH: "rows", wire.END: "end"}
    found = [
        (header.sequence, tuple(wire.from_json(body).values()) if header.kind == wire.BARRIER else names[header.kind])
        for _, header, body in sent.messages
    ]
    sent.messages.clear()
    return found


def next_attempt(before: ToldChannel, number: int, attempt: int = 1) -> tuple[ToldChannel, Sent]:
    """As the piece of checkpoint `number` has it, which was taken just now."""
    told, sent = made(attempt, number, is_first=False)
    told.sequence, told.closed, told.lineage = before.sequence, before.closed, before.lineage
    told.restores = list(before.restores)
    told.restore(list(before.kept()), attempt, number)
    return told, sent


def test_rows_go_as_they_are_made_with_marks_between_them() -> None:
    told, sent = made()
    put(told, 1)
    assert heard(sent) == [(0, "rows")]
    mark(told, 5)
    put(told, 2)
    assert heard(sent) == [(1, (5, 0)), (2, "rows")]
    told.cover(5)
    mark(told, 6)
    assert heard(sent) == [(3, (6, 5))]


def test_a_mark_says_up_to_where_its_instance_has_come_but_of_late_rows() -> None:
    told, sent = made()
    mark(told, 5, watermark=70)
    told.is_late = True
    mark(told, 6, watermark=80)
    assert [header.watermark for _, header, _ in sent.messages] == [70, MIN_TIME]


def test_the_end_is_told_when_a_commit_covers_it() -> None:
    told, sent = made()
    put(told, 1)
    told.send(End(), 0, 0, 0)
    assert heard(sent) == [(0, "rows")] and told.is_new
    mark(told, 5)
    assert heard(sent) == [] and not told.is_new
    told.cover(5)
    assert heard(sent) == [(1, "end")]


def test_one_that_came_later_is_told_nothing_before_a_commit_covers_that_it_is_there() -> None:
    told, sent = made(is_first=False)
    put(told, 1)
    told.cover(4)  # was taken before
    mark(told, 5)
    put(told, 2)
    assert heard(sent) == []
    told.cover(5)
    put(told, 3)
    assert heard(sent) == [(0, "rows"), (1, (5, 4)), (2, "rows"), (3, "rows")]


def test_one_that_came_later_and_has_ended_gets_its_rows_first() -> None:
    told, sent = made(is_first=False)
    mark(told, 5)
    put(told, 1)
    told.send(End(), 0, 0, 0)
    mark(told, 6)
    told.cover(5)
    assert heard(sent) == [(0, (5, 0)), (1, "rows")]
    told.cover(6)
    assert heard(sent) == [(2, "end")]


def test_a_next_attempt_goes_on_at_the_mark_of_its_checkpoint_whatever_its_client_has_had_since() -> None:
    before, _ = made()
    put(before, 1)
    put(before, 2)
    told, sent = next_attempt(before, 5)
    assert told.following(7, 0) == 2 and told.going_on(2, 0) == {"told": True, "from": 2, "restored": 5}
    told.resume(2, 2)
    told.pump()
    put(told, 3)
    assert heard(sent) == [(2, (5, 5)), (3, "rows")]


def test_a_client_that_was_behind_gets_what_it_has_not_had_by_its_number() -> None:
    before, _ = made()
    put(before, 1)
    put(before, 2)
    told, sent = next_attempt(before, 5)
    assert told.following(1, 0) == 1
    told.resume(1, 1)
    told.pump()
    assert heard(sent) == [(1, "rows"), (2, (5, 5))]


def test_a_client_that_slept_through_an_attempt_hears_of_the_first_that_it_does_not_know() -> None:
    """That one went on from 5, and made rows again that the client has; the next from 9, with what the client was not sent."""
    first, _ = made()
    put(first, 1)
    second, _ = next_attempt(first, 5)
    put(second, 2)
    mark(second, 8)
    third, sent = next_attempt(second, 9, attempt=2)
    assert third.restores == [Restored(1, 5, 1), Restored(2, 9, 4)]
    assert third.following(6, 0) == 1 and third.going_on(1, 0)["restored"] == 5
    assert third.following(6, 1) == 4 and third.going_on(4, 1)["restored"] == 9
    third.resume(1, 1)
    third.pump()
    assert heard(sent) == [(1, (5, 5)), (2, "rows"), (3, (8, 5)), (4, (9, 9))]


def test_two_attempts_from_one_checkpoint_are_one_to_those_that_know_neither() -> None:
    before, _ = made()
    put(before, 1)
    second, _ = next_attempt(before, 5)
    third, _ = next_attempt(before, 5, attempt=2)
    assert second.restores == [Restored(1, 5, 1)] and third.restores == [Restored(2, 5, 1)]


def test_where_nothing_was_committed_all_begins_anew() -> None:
    told, _ = made(attempt=1)
    assert told.why_not_from("0.1", 7, 0) == "" and told.following(7, 0) == 0
    assert told.going_on(0, 0) == {"told": True, "from": 0, "restored": 0}


def test_what_was_dropped_meanwhile_is_not_gone_on_from() -> None:
    told, _ = made(attempt=1, restored=5, is_first=False)
    assert told.why_not_from("0.1", 7, 0) == DROPPED
    same, _ = made()
    assert same.why_not_from("0.9", 7, 0) == DROPPED


def test_a_client_that_takes_nothing_blocks_and_one_that_asked_to_drop_loses_rows() -> None:
    told, _ = made(room=0, budget_bytes=100)
    put(told, 1)
    put(told, 2)
    assert not told.has_room(1000)
    dropping, _ = made(room=0, budget_bytes=100, on_slow="drop")
    for number in range(3):  # one goes whatever the credit, one waits
        put(dropping, number)
    assert dropping.has_room(1000) and dropping.dropped == 1 and len(dropping.held) == 1
