"""What is kept for a reader of a query that recovers, until a commit covers it."""

from __future__ import annotations

from cep.model.limits import KEPT_BYTES_MAX
from cep.transport import wire
from cep.transport.wire import Header
from driver.streams.sent_log import SentLog


def filled(elements: int, first: int = 0) -> SentLog:
    log = SentLog()
    log.begin_at(first)
    log.opens({"columns": 1})
    for i in range(first, first + elements):
        log.add(Header(wire.BATCH, 1, i), bytes(10))
    return log


def test_what_is_covered_is_let_go() -> None:
    log = filled(10)
    log.cover(4)
    assert (log.first, log.end, log.bytes) == (4, 10, 60)
    assert [log.at(i)[0].sequence for i in range(4, 10)] == [4, 5, 6, 7, 8, 9]


def test_what_was_covered_before_is_covered() -> None:
    log = filled(10)
    log.cover(9)
    log.cover(3)
    assert (log.first, log.end) == (9, 10) and log.at(9)[0].sequence == 9


def test_no_more_is_covered_than_there_is() -> None:
    log = filled(3)
    log.cover(100)
    assert (log.first, log.end, log.bytes) == (3, 3, 0)
    log.add(Header(wire.BATCH, 1, 3), b"x")
    assert log.at(3)[0].sequence == 3


def test_one_that_begins_later_reaches_from_there() -> None:
    log = filled(3, first=5)
    assert [log.reaches(i) for i in (4, 5, 8, 9)] == [False, True, True, False]


def test_one_element_always_has_room() -> None:
    log = SentLog()
    assert log.has_room(KEPT_BYTES_MAX + 1)
    log.add(Header(wire.BATCH, 1, 0), b"x")
    assert log.has_room(KEPT_BYTES_MAX - 1) and not log.has_room(KEPT_BYTES_MAX)


def test_what_was_said_in_opening_holds_for_what_came_behind_it() -> None:
    log = filled(3)
    log.opens({"columns": 2})
    log.add(Header(wire.BATCH, 1, 3), b"x")
    assert log.opening == {"columns": 1} and log.opening_at(3) == {"columns": 2} and log.opening_at(2) is None
    log.cover(2)
    assert log.opening == {"columns": 1}
    log.cover(3)
    assert log.opening == {"columns": 2} and log.opening_at(3) is None
