"""What is kept for a subscription of a query that recovers, in particular for tokens."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from cep.elements import MAX_TIME, Batch, CheckpointBarrier, End
from cep.kernels.columns import Column
from cep.model.schema import INT64, Schema
from cep.plan.channels import ChannelId
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Format, Header
from instance_manager.clients.subscriptions import Terms
from instance_manager.recovery.kept import DROPPED, KeptChannel

OUTLET = ChannelId.outlet("q", "out", 0, 1, 0)
PLENTY = 1 << 40


class Sent:
    """The sending half of sockets: what was sent, and to where."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Header, Any]] = []

    def send(self, endpoint: str, header: Header, body: Any = None) -> None:
        self.messages.append((endpoint, header, body))

    def numbers(self) -> list[int]:
        """Of the elements since it was asked last."""
        found = [header.sequence for _, header, _ in self.messages if header.kind in (wire.BATCH, wire.END)]
        self.messages.clear()
        return found


def made(**terms: Any) -> tuple[KeptChannel, Sent]:
    sent = Sent()
    kept = KeptChannel(cast(Sockets, sent), OUTLET.to("s-1"), Format(Schema.of({"i": "int64"})), Terms("s-1", "ipc:///us", **terms))
    kept.lineage = "0.1"
    kept.grant(Header(wire.CREDIT, kept.id, 0, record=PLENTY))
    return kept, sent


def put(kept: KeptChannel, *numbers: int) -> int:
    """A batch of a row for each; its size."""
    batch = Batch({"i": Column(INT64, np.array(numbers))}, np.array(numbers))
    size = len(kept.format.encode(batch))
    kept.send(batch, size, MAX_TIME, 0)
    return size


def covered(kept: KeptChannel, count: int) -> int:
    """So many batches, and a commit behind them; the size of one."""
    sizes = [put(kept, number) for number in range(count)]
    kept.send(CheckpointBarrier(5), 0, 0, 0)
    kept.cover(5)
    return sizes[0]


def test_what_a_client_has_taken_is_kept_until_it_is_acknowledged() -> None:
    kept, sent = made(resumable=True)
    covered(kept, 3)
    assert sent.numbers() == [0, 1, 2]
    kept.grant(Header(wire.CREDIT, kept.id, PLENTY >> 1, record=PLENTY))
    assert [header.sequence for header, _, _ in kept.kept()] == [0, 1, 2]
    kept.acknowledge(2)
    assert [header.sequence for header, _, _ in kept.kept()] == [2] and not kept.is_delivered
    kept.acknowledge(3)
    assert kept.is_delivered


def test_credit_confirms_where_nothing_is_resumed() -> None:
    """By the number of the element that the client takes next: what has no rows costs no credit, and may be on its way."""
    kept, _ = made()
    covered(kept, 3)
    kept.grant(Header(wire.CREDIT, kept.id, PLENTY >> 1, record=PLENTY, created=2))
    assert not kept.is_delivered and kept.first_unconfirmed == 2
    kept.grant(Header(wire.CREDIT, kept.id, PLENTY >> 1, record=PLENTY, created=3))
    assert kept.is_delivered


def test_a_query_that_reads_this_one_confirms_by_what_it_has_consumed() -> None:
    kept, _ = made(reader="v")
    covered(kept, 3)
    kept.grant(Header(wire.CREDIT, kept.id, PLENTY >> 1, record=PLENTY))
    assert kept.is_delivered


def test_another_process_gets_what_comes_behind_its_token_on_a_channel_of_its_own() -> None:
    kept, sent = made(resumable=True)
    covered(kept, 4)
    put(kept, 4)
    sent.messages.clear()
    terms = Terms("s-1", "ipc:///other", resumable=True, holder=1)
    kept.hand_over(terms, OUTLET.to("s-1", 1).id)
    kept.pump()
    assert sent.messages == [], "before it has said where it goes on"
    kept.resume(2, 2)
    kept.grant(Header(wire.CREDIT, kept.id, 0, record=PLENTY))
    kept.send(End(), 0, MAX_TIME, 0)
    kept.send(CheckpointBarrier(6), 0, 0, 0)
    kept.cover(6)
    assert {(to, header.channel) for to, header, _ in sent.messages} == {("ipc:///other", OUTLET.to("s-1", 1).id)}
    assert sent.numbers() == [2, 3, 4, 5]
    assert OUTLET.to("s-1", 1).id != OUTLET.to("s-1").id


def test_one_that_goes_on_at_the_next_attempt_may_be_killed_before_it_acknowledges() -> None:
    before, _ = made(resumable=True)
    covered(before, 4)
    kept, sent = made(resumable=True)
    kept.restore(list(before.kept()), 1, 5)
    kept.sequence = before.sequence
    kept.resume(3, 1)  # it has taken 0 to 2, and a token behind 0 is the last one acknowledged
    kept.grant(Header(wire.CREDIT, kept.id, 0, record=PLENTY))
    assert sent.numbers() == [3]
    kept.hand_over(Terms("s-1", "ipc:///other", resumable=True, holder=1), OUTLET.to("s-1", 1).id)
    assert kept.why_not_from("0.1", 1) == ""
    kept.resume(1, 1)
    kept.grant(Header(wire.CREDIT, kept.id, 0, record=PLENTY))
    assert sent.numbers() == [1, 2, 3]


def test_it_goes_on_nowhere_else() -> None:
    kept, _ = made(resumable=True)
    covered(kept, 4)
    kept.acknowledge(2)
    assert [kept.why_not_from("0.1", each) for each in (2, 3, 4)] == ["", "", ""]
    assert kept.why_not_from("0.1", 5) == "element 5 was never sent, 4 were"
    assert "what was sent before element 2 is not kept any more" in kept.why_not_from("0.1", 1)
    assert "what was sent before element 2 is not kept any more" in kept.why_not_from("", 0)
    assert kept.why_not_from("1.1", 3) == DROPPED


@pytest.mark.parametrize("resumable", [True, False])
def test_what_is_kept_for_tokens_is_bounded(resumable: bool) -> None:
    size = covered(made()[0], 1)
    kept, sent = made(resumable=resumable, budget_bytes=3 * size)
    for _ in range(2):
        covered(kept, 5)
        kept.grant(Header(wire.CREDIT, kept.id, PLENTY >> 1, record=PLENTY))
    if not resumable:
        assert sent.numbers() == list(range(10)) and not kept.is_full
        return
    assert sent.numbers() == [0, 1, 2] and kept.is_full and not kept.credit.allows(size), "its query waits"
    kept.acknowledge(2)
    assert sent.numbers() == [3, 4] and kept.is_full and kept.first_unconfirmed == 2
    for number in (5, 8, 10):
        kept.acknowledge(number)
    assert sent.numbers() == [5, 6, 7, 8, 9] and not kept.is_full and kept.credit.allows(size)


@pytest.mark.parametrize("on_slow", ["block", "drop"])
def test_what_a_slow_client_leaves_blocks_its_query_or_is_dropped_and_counted(on_slow: str) -> None:
    """Before it has a number, whatever waits for a commit behind it; what waits for a commit alone is nobody's fault."""
    size = covered(made()[0], 1)
    kept, sent = made(on_slow=on_slow, budget_bytes=4 * size)
    kept.client.limit = kept.client.consumed = 0
    kept.client.sent = 1  # more than an eighth of nothing
    for number in range(6):
        put(kept, number)
    assert kept.has_room(size) and kept.dropped == 0 and kept.sequence == 6
    kept.send(CheckpointBarrier(5), 0, 0, 0)
    kept.cover(5)
    assert kept.has_room(size) == (on_slow == "drop") and kept.held_rows == 6
    if on_slow == "drop":
        assert put(kept, 6, 7) and kept.dropped == 2 and kept.sequence == 6
        kept.grant(Header(wire.CREDIT, kept.id, 1, record=1 + 4 * size))
        assert sent.numbers() == [0, 1, 2, 3], "for two there is no credit"
        for number in range(4):
            put(kept, number)
        assert (kept.dropped, kept.sequence, kept.behind_bytes) == (4, 8, 2 * size)
    kept.send(End(), 0, MAX_TIME, 0)
    assert kept.closed
