"""Publishers that vanish: each by itself, whatever others do."""

from __future__ import annotations

from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.source import PublishedSource, Publisher
from cep.elements import MIN_TIME, Watermark


def opened(*names: str) -> PublishedSource:
    source = PublishedSource("s", 0, 0, True, DeadLetters())
    for number, name in enumerate(names):
        source.open(Publisher(name, number, Inbox(name, 1 << 20)))
    return source


def test_one_that_vanishes_takes_nobody_along_and_holds_nothing_back() -> None:
    source = opened("idle", "silent")
    source.publishers["idle"].inbox.accept(Watermark(7), 0, 0, 0, 7, MIN_TIME)
    source.poll()
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
    source.publishers["silent"].inbox.accept(Watermark(3), 0, 0, 0, 3, MIN_TIME)
    source.vanish("silent")
    assert not source.vanished
    source.poll()
    source.vanish("silent")
    assert list(source.vanished) == ["silent"]
    assert source.watermark == 3
