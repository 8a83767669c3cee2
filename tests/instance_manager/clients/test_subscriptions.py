"""Subscriptions at the instance that puts a stream out: rows are held within a budget, then they slow the query or are dropped."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from cep.elements import MAX_TIME, MIN_TIME, Batch, End, Idle, Watermark
from cep.errors import ProtocolError, QueryError
from cep.kernels.column import Column
from cep.model.schema import INT64, Schema
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Format, Header
from instance_manager.clients.subscriptions import BUDGET_BYTES, KEEP_S, SubscriptionChannel, Terms
from tests.instance_manager.recovery.test_kept import OUTLET, PLENTY, Sent

WHOLE = Format(Schema.of({"i": "int64", "j": "int64"}), 2)


def made(**terms: Any) -> tuple[SubscriptionChannel, Sent]:
    sent = Sent()
    return SubscriptionChannel(cast(Sockets, sent), OUTLET.to("s-1"), WHOLE, Terms("s-1", "ipc:///us", **terms)), sent


def put(channel: SubscriptionChannel, *numbers: int) -> int:
    """A batch of a row for each; its size."""
    values = np.array(numbers)
    batch = Batch({"i": Column(INT64, values), "j": Column(INT64, values)}, values, np.zeros((len(values), 2), np.int64), created=7)
    size = len(channel.format.encode(batch))
    channel.send(batch, size, MIN_TIME, 0)
    return size


def grant(channel: SubscriptionChannel, bytes_: int, watermark: int = MIN_TIME) -> None:
    channel.grant(Header(wire.CREDIT, channel.id, 0, record=bytes_, watermark=watermark))


def test_rows_go_as_far_as_the_client_has_credit_and_wait_in_order() -> None:
    """One batch may always be outstanding."""
    channel, sent = made()
    put(channel, 1, 2)
    size = put(channel, 3)
    assert sent.numbers() == [0] and channel.held_bytes == size
    grant(channel, PLENTY)
    assert sent.numbers() == [1] and channel.held_bytes == 0
    put(channel, 4)
    channel.send(End(), 0, MAX_TIME, 0)
    assert {endpoint for endpoint, _, _ in sent.messages} == {"ipc:///us"} and sent.messages[0][1].created == 7
    assert sent.numbers() == [2, 3] and channel.closed
    assert channel.rows == 4 and channel.dropped == 0


@pytest.mark.parametrize("on_slow", ["block", "drop"])
def test_beyond_the_budget_the_query_waits_or_rows_are_dropped_and_counted(on_slow: str) -> None:
    channel, _ = made(on_slow=on_slow, budget_bytes=1)
    while not channel.held:  # until its credit is used up
        size = put(channel, 1)
    assert channel.has_room(size) == channel.credit.allows(size) == (on_slow == "drop")
    before = channel.sequence
    put(channel, 2, 3, 4)
    assert channel.dropped == 3 and channel.sequence == before, "what is dropped has no number"
    channel.send(End(), 0, MAX_TIME, 0)
    assert channel.closed and channel.sequence == before + 1


@pytest.mark.parametrize("reader", ["", "other"])
def test_watermarks_are_for_queries_and_not_for_programs(reader: str) -> None:
    channel, sent = made(reader=reader)
    channel.send(Watermark(5), 0, 5, 0)
    channel.send(Idle(), 0, 5, 0)
    assert len(sent.messages) == channel.sequence == (2 if reader else 0)
    assert channel.credit.returned == (MIN_TIME if reader else MAX_TIME)
    grant(channel, PLENTY, watermark=9)
    assert channel.credit.returned == (9 if reader else MAX_TIME)


def test_a_client_gets_what_it_asked_for() -> None:
    assert Terms("s", "ipc:///us", columns=("j",)).format(WHOLE) == Format(Schema.of({"j": "int64"}), 0, wire.TIME)
    assert Terms("s", "ipc:///us", origin=True, event_time=False).format(WHOLE) == Format(WHOLE.schema, 2, "")


def test_terms_are_read_as_they_were_said() -> None:
    least = Terms.from_json({"id": "s", "endpoint": "ipc:///us"}, "ipc:///ours")
    assert least == Terms("s", "ipc:///us", "block", KEEP_S, BUDGET_BYTES) and not least.resumable
    said = {"id": "s", "endpoint": "ipc:///us", "on_slow": "drop", "keep_s": 5, "budget_bytes": 9, "reader": "q", "columns": ["j"]}
    said |= {"origin": True, "event_time": False, "grain": 4, "resumable": True, "holder": 2}
    read = Terms.from_json(said, "ipc:///ours")
    assert (read.on_slow, read.keep_s, read.budget_bytes, read.reader, read.columns) == ("drop", 5, 9, "q", ["j"])
    assert (read.origin, read.event_time, read.grain, read.resumable, read.holder) == (True, False, 4, True, 2)


@pytest.mark.parametrize(
    "wrong", [{"id": 3}, {"on_slow": "wait"}, {"keep_s": -1}, {"budget_bytes": 0}, {"columns": "j"}, {"endpoint": "tcp://x"}]
)
def test_what_are_no_terms(wrong: dict[str, Any]) -> None:
    with pytest.raises((ProtocolError, QueryError)):
        Terms.from_json({"id": "s", "endpoint": "ipc:///us", **wrong}, "ipc:///ours")
