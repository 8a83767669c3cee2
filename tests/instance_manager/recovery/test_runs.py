"""Runs of messages that are kept as they lie on the wire: what they are one by one, what goes, what stays, and what a piece has of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from cep.elements import MIN_TIME, Batch, CheckpointBarrier, Stop
from cep.kernels.columns import Column
from cep.model.schema import INT64
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Header
from instance_manager.recovery import pieces
from instance_manager.recovery.kept import KeptChannel
from instance_manager.recovery.pieces import TakenMessages, kept_in
from instance_manager.recovery.runs import Message, Run, behind_of, first_of, joined, messages_of, rows_of, size_of
from instance_manager.recovery.told import ToldChannel
from tests.instance_manager.recovery import test_kept, test_told


class Relayed:
    """The sending half of sockets: runs that were sent count as their messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[Header, bytes]] = []
        self.relays = 0

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        self.messages.append((header, bytes(body or b"")))

    def relay(self, endpoint: str, messages: memoryview | bytes) -> None:
        self.relays += 1
        self.messages += [(header, body) for header, body, _ in Run(bytes(messages), 0, 0, 0, 0, 0).messages()]

    def numbers(self) -> list[int]:
        """Since it was asked last."""
        found = [header.sequence for header, _ in self.messages]
        self.messages.clear()
        return found


def run_of(channel: KeptChannel, *sizes: int) -> Run:
    """Messages of so many rows, with the numbers that come next, as the fast path writes and counts them."""
    first, laid, bodies = channel.sequence, list[bytes](), 0
    assert channel.format.layout is not None and channel.format.layout.lines is not None
    for rows in sizes:
        body = bytes(channel.format.encode(Batch({"i": Column(INT64, np.arange(rows))}, np.arange(rows))))
        header = Header(wire.BATCH, channel.id, channel.sequence, channel.stream, channel.format.fingerprint, 7, since=MIN_TIME)
        laid.append(wire.pack_sized(len(body), header) + body)
        bodies += len(body)
        channel.sequence += 1
    channel.rows += sum(sizes)
    return Run(b"".join(laid), first, channel.sequence, sum(sizes), bodies, channel.format.layout.lines[0])


def kept(**terms: Any) -> tuple[KeptChannel, Relayed]:
    made, _ = test_kept.made(**terms)
    sent = made.sockets = cast(Sockets, Relayed())
    return made, cast(Relayed, sent)


def told(**terms: Any) -> tuple[ToldChannel, Relayed]:
    made, _ = test_told.made(**terms)
    sent = made.sockets = cast(Sockets, Relayed())
    return made, cast(Relayed, sent)


def cover(channel: KeptChannel, number: int) -> None:
    channel.send(CheckpointBarrier(number), 0, 0, 0)
    channel.cover(number)


def plain(messages: list[Message]) -> list[tuple[Header, bytes, int]]:
    return [(header, bytes(body), rows) for header, body, rows in messages]


def test_a_run_is_its_messages() -> None:
    channel, _ = kept()
    run = run_of(channel, 2, 1, 300)
    found = list(run.messages())
    assert [(header.sequence, rows) for header, _, rows in found] == [(0, 2), (1, 1), (2, 300)]
    assert sum(len(body) for _, body, _ in found) == run.size == size_of(run) and rows_of(run) == 303
    assert [channel.format.decode(body).columns["i"].values.tolist()[-1] for _, body, _ in found] == [1, 0, 299]
    assert (first_of(run), behind_of(run)) == (0, 3) == (first_of(found[0]), behind_of(found[2]))


def test_runs_that_follow_each_other_are_one() -> None:
    channel, _ = kept()
    one, two = run_of(channel, 1, 2), run_of(channel, 3)
    test_kept.put(channel, 4)
    (message,) = (each for each in channel.behind if not isinstance(each, int))
    three = run_of(channel, 5)
    found = list(joined([one, two, message, three]))
    assert [type(each) for each in found] == [Run, tuple, Run] and found[2] == three
    assert plain(list(messages_of(found))) == plain(list(messages_of([one, two, message, three])))
    first = found[0]
    assert isinstance(first, Run) and (first.first, first.behind, first.rows, first.size) == (0, 3, 6, one.size + two.size)
    assert [each for each in joined([one, two, three], one.size + 1)] == [
        Run(one.laid + two.laid, 0, 3, 6, one.size + two.size, one.rows_at),
        three,
    ]
    assert list(joined([])) == [] and list(joined([one, one._replace(rows_at=0)])) == [one, one._replace(rows_at=0)]


def test_on_commit_a_run_goes_when_a_commit_covers_it_and_many_go_at_once() -> None:
    channel, sent = kept()
    for _ in range(3):
        channel.pass_on(run_of(channel, 1, 1))
    assert channel.is_new and channel.behind_bytes > 0 and sent.numbers() == []
    cover(channel, 5)
    assert sent.numbers() == [0, 1, 2, 3, 4, 5] and sent.relays == 1
    assert channel.behind_bytes == channel.held_bytes == 0 and not channel.held
    assert channel.unconfirmed_bytes == channel.client.sent > 0


def test_a_run_for_which_there_is_no_credit_goes_as_far_as_there_is() -> None:
    channel, sent = kept()
    run = run_of(channel, 1, 1, 1, 1)
    channel.client.limit = channel.client.consumed = 0
    channel.client.sent = 1  # more than an eighth of nothing
    channel.pass_on(run)
    cover(channel, 5)
    assert sent.numbers() == [] and channel.held_rows == 4 and channel.held_bytes == run.size
    size = run.size // 4
    channel.grant(Header(wire.CREDIT, channel.id, 1, record=1 + 2 * size))
    assert sent.numbers() == [0, 1] and channel.held_bytes == 2 * size
    channel.grant(Header(wire.CREDIT, channel.id, 1 + 2 * size, record=1 + 9 * size, created=2))
    assert sent.numbers() == [2, 3] and [header.sequence for header, _, _ in messages_of(channel.kept())] == [2, 3]


def test_a_run_is_confirmed_with_the_last_of_it() -> None:
    channel, sent = told()
    channel.pass_on(run_of(channel, 1, 1, 1))
    channel.pass_on(run_of(channel, 1))
    assert sent.numbers() == [0, 1, 2, 3]
    assert channel.first_unconfirmed == 0
    for following, left in ((2, 4), (3, 1), (4, 0)):
        channel.grant(Header(wire.CREDIT, channel.id, 0, record=test_kept.PLENTY, created=following))
        assert len(list(messages_of(channel.kept()))) == left
    assert channel.unconfirmed_bytes == 0 and channel.is_delivered


def test_a_resumable_one_acknowledges_in_the_midst_of_what_was_a_run() -> None:
    channel, sent = kept(resumable=True)
    channel.pass_on(run_of(channel, 1, 1, 1))
    cover(channel, 5)
    assert sent.numbers() == [0, 1, 2] and not sent.relays
    channel.acknowledge(2)
    assert channel.first_unconfirmed == 2 and channel.why_not_from("0.1", 1).startswith("what was sent before element 2")


def test_a_next_attempt_goes_on_in_the_midst_of_a_run() -> None:
    """Its client has taken two of three, and has not confirmed them."""
    before, _ = told()
    before.pass_on(run_of(before, 1, 2, 3))
    before.send(CheckpointBarrier(5), 0, 100, 0)
    after, sent = test_told.next_attempt(before, 5)
    assert after.following(2, 0) == 2
    after.resume(2, 2)
    after.pump()
    assert [header.sequence for _, header, _ in sent.messages] == [2, 3, 4]  # the mark before the kill, and that of the new attempt


def test_one_that_goes_on_for_another_process_names_its_channel_anew() -> None:
    channel, sent = kept(resumable=True)
    channel.pass_on(run_of(channel, 1, 1))
    channel.hand_over(channel.terms, 99)
    channel.resume(0, 0)
    channel.grant(Header(wire.CREDIT, channel.id, 0, record=test_kept.PLENTY))
    cover(channel, 5)
    assert [header.channel for header, _ in sent.messages] == [99, 99]


def test_what_is_given_up_has_its_numbers_and_rows_back() -> None:
    channel, sent = kept()
    test_kept.put(channel, 1)
    cover(channel, 5)
    channel.pass_on(run_of(channel, 2, 3))
    channel.end(Stop())
    assert sent.numbers() == [0, 1] and channel.rows == 1, "of which the second is the stop"


@pytest.mark.parametrize("make", [kept, told])
def test_a_piece_has_all_of_it_one_by_one(make: Any) -> None:
    channel, _ = make()
    for sizes in ((1, 2), (3,)):
        channel.pass_on(run_of(channel, *sizes))
    test_kept.put(channel, 7)
    (state,) = TakenMessages(list(channel.kept())).states()
    batch = state.rows
    assert batch.num_rows == 2, "the runs are one row, and the message another"
    found = [message for row in batch.to_pylist() for message in kept_in(row)]
    assert plain(found) == plain(list(messages_of(channel.kept()))) and len(found) == 4
    old = batch.drop_columns(["rows_at"]).slice(1)
    assert plain([message for row in old.to_pylist() for message in kept_in(row)]) == plain(found[3:]), "as pieces were before"


@pytest.mark.parametrize("large", [1, 30, 1 << 20], ids=["all alone", "some alone", "all together"])
def test_large_messages_are_states_of_their_own_and_all_of_it_is_there(monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(pieces, "LARGE_BYTES", large)
    channel, _ = kept()
    channel.pass_on(run_of(channel, 1, 2))
    test_kept.put(channel, 7)
    test_kept.put(channel, 8)
    states = list(TakenMessages(list(channel.kept())).states())
    found = [message for state in states for row in state.rows.to_pylist() for message in kept_in(row)]
    assert plain(found) == plain(list(messages_of(channel.kept()))) and len(found) == 4
    assert len(states) in ((1,) if large == 1 << 20 else (2, 3))
