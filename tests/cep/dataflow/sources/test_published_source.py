"""Publishers that vanish: each by itself, whatever others do.

Tests `published.py`, `publishers.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Published, PublisherPartition
from cep.elements import MAX_TIME, MIN_TIME, Batch, Watermark
from cep.kernels.columns import Column
from cep.model.schema import INT64


def opened(*names: str) -> PublishedSource:
    source = PublishedSource("s", 0, 0, True, DeadLetters())
    for number, name in enumerate(names):
        source.open(PublisherPartition(name, number, Inbox(name, 1 << 20)))
    return source


def test_one_that_vanishes_takes_nobody_along_and_holds_nothing_back() -> None:
    source = opened("idle", "silent")
    source.publishers["idle"].inbox.accept(Watermark(7), 0, 0, 7, MIN_TIME)
    source.read()
    assert source.watermark == MIN_TIME
    source.vanish("silent")
    assert list(source.vanished) == ["silent"]
    assert list(source.publishers) == ["idle"]
    assert source.watermark == 7
    assert not source.ended
    source.vanish("silent")
    assert list(source.vanished) == ["silent"]


def test_what_it_sent_before_is_taken_first() -> None:
    source = opened("silent")
    source.publishers["silent"].inbox.accept(Watermark(3), 0, 0, 3, MIN_TIME)
    source.vanish("silent")
    assert not source.vanished
    source.read()
    source.vanish("silent")
    assert list(source.vanished) == ["silent"]
    assert source.watermark == 3


def test_one_that_goes_on_from_a_checkpoint_is_where_it_was_though_it_says_no_more() -> None:
    before = opened("ahead", "behind")
    for name, until in (("ahead", 9), ("behind", 3)):
        publisher = before.publishers[name]
        publisher.incarnation = name
        publisher.inbox.accept(Watermark(until), 0, 0, until, MIN_TIME)
    before.read()
    after = PublishedSource("s", 0, 0, True, DeadLetters())
    after.restore([before.position()])
    after.expect_again(before.position())
    for number, name in enumerate(("ahead", "behind")):
        publisher = PublisherPartition(name, number, Inbox(name, 1 << 20))
        elements, size, publisher.taken_until = after.left_off(name)
        publisher.inbox.go_on_from(elements, size)
        after.open(publisher)
    assert after.watermark == 3
    after.publishers["behind"].inbox.accept(Watermark(8), 0, 1, 8, MIN_TIME)
    after.read()
    assert after.watermark == 8


@pytest.mark.parametrize(
    ("sent", "since"),
    [({"a": 5, "b": 9}, 10), ({"b": 9, "a": 5}, 10), ({"a": MIN_TIME, "b": -3}, -2), ({"a": MAX_TIME}, MAX_TIME), ({}, MIN_TIME)],
)
def test_a_query_begins_behind_all_that_was_sent_before_it(sent: dict[str, int], since: int) -> None:
    source = opened()
    source.expected.update(sent)
    for number, (name, until) in enumerate(sent.items()):
        source.open(PublisherPartition(name, number, Inbox(name, 1 << 20)), until)
    source.open(PublisherPartition("later", 7, Inbox("later", 1 << 20)), 100)  # which was not open when the query was deployed
    assert source.since == since and not source.expected


def test_what_has_come_is_one_batch_of_the_columns_that_are_read() -> None:
    source = PublishedSource("s", 0, 0, True, DeadLetters(), columns=("b",))
    publisher = PublisherPartition("p", 0, Inbox("p", 1 << 20))
    source.open(publisher)
    for number in range(2):
        values = np.arange(2 * number, 2 * number + 2)
        batch = Batch({"a": Column(INT64, values), "b": Column(INT64, 10 * values)}, values)
        publisher.inbox.accept(Published(batch, MIN_TIME, 2 * number), 1, 2 * number, int(values[0]), MIN_TIME)
        publisher.inbox.accept(Watermark(int(values[-1])), 0, 2 * number + 1, MIN_TIME, MIN_TIME)
    read = source.read()
    assert read is not None and list(read.columns) == ["b"]
    assert (read.columns["b"].values.tolist(), read.time.tolist(), source.watermark) == ([0, 10, 20, 30], [0, 1, 2, 3], 3)
    assert source.read() is None
