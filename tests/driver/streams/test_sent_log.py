"""What is kept for a reader of a query that recovers, until a commit covers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.model.limits import KEPT_BYTES_MAX
from cep.transport import wire
from cep.transport.wire import Header
from cep.world.rings import FIRST_BYTES, Owner, Ring, Rings
from cep.world.segments import NoSegment, Sealed
from driver.streams.sent_log import OPENING, SentLog

GONE = Owner("here", 1, "long ago")


@pytest.fixture(params=["in memory", "in a ring"])
def ring(request: pytest.FixtureRequest, tmp_path: Path) -> Ring | None:
    return Ring(tmp_path, "r", GONE, 1 << 30) if request.param == "in a ring" else None


def filled(ring: Ring | None, elements: int, first: int = 0) -> SentLog:
    log = SentLog()
    log.begin_at(first)
    log.opens({"columns": 1})
    if ring is not None:
        log.lay_in(ring.log(1, first, {OPENING: log.opening}))
    for i in range(first, first + elements):
        log.add(Header(wire.BATCH, 1, i), bytes(10))
    return log


def test_what_is_covered_is_let_go(ring: Ring | None) -> None:
    log = filled(ring, 10)
    log.cover(4)
    assert (log.first, log.end, log.bytes) == (4, 10, 60)
    assert [log.at(i)[0].sequence for i in range(4, 10)] == [4, 5, 6, 7, 8, 9]


def test_what_was_covered_before_is_covered(ring: Ring | None) -> None:
    log = filled(ring, 10)
    log.cover(9)
    log.cover(3)
    assert (log.first, log.end) == (9, 10) and log.at(9)[0].sequence == 9


def test_no_more_is_covered_than_there_is(ring: Ring | None) -> None:
    log = filled(ring, 3)
    log.cover(100)
    assert (log.first, log.end, log.bytes) == (3, 3, 0)
    log.add(Header(wire.BATCH, 1, 3), b"x")
    assert log.at(3)[0].sequence == 3


def test_one_that_begins_later_reaches_from_there(ring: Ring | None) -> None:
    log = filled(ring, 3, first=5)
    assert [log.reaches(i) for i in (4, 5, 8, 9)] == [False, True, True, False]


def test_one_element_always_has_room() -> None:
    log = SentLog()
    assert log.has_room(KEPT_BYTES_MAX + 1)
    log.add(Header(wire.BATCH, 1, 0), b"x")
    assert log.has_room(KEPT_BYTES_MAX - 1) and not log.has_room(KEPT_BYTES_MAX)


def test_what_was_said_in_opening_holds_for_what_came_behind_it(ring: Ring | None) -> None:
    log = filled(ring, 3)
    log.opens({"columns": 2})
    log.add(Header(wire.BATCH, 1, 3), b"x")
    assert log.opening == {"columns": 1} == log.opening_of(2) and log.opening_of(3) == {"columns": 2}
    log.cover(2)
    assert log.opening == {"columns": 1}
    log.cover(3)
    assert log.opening == {"columns": 2} == log.opening_of(3)


def test_of_two_openings_with_nothing_between_them_the_later_one_holds(ring: Ring | None) -> None:
    log = filled(ring, 0)
    log.opens({"columns": 2})
    assert log.opening == {"columns": 2} == log.opening_of(0)


def bodies(log: SentLog) -> list[bytes]:
    return [bytes(log.at(number)[1]) for number in range(log.first, log.end)]


def test_bodies_are_read_back_as_they_were(ring: Ring | None) -> None:
    log = filled(ring, 0)
    for number in range(300):
        log.add(Header(wire.BATCH, 1, number), bytes([number % 256]) * number)
    log.cover(100)
    assert bodies(log) == [bytes([number % 256]) * number for number in range(100, 300)]
    assert log.bytes == sum(range(100, 300))


def test_a_ring_that_is_full_makes_its_publisher_wait(tmp_path: Path) -> None:
    log = filled(Ring(tmp_path, "r", GONE, 2 * FIRST_BYTES), 50)
    assert log.has_room(1000) and not log.has_room(FIRST_BYTES)
    log.cover(50)
    assert log.has_room(FIRST_BYTES), "nothing will be covered, so it cannot be waited for"


def test_what_has_no_room_in_a_ring_is_kept_in_the_process_with_all_before_it(tmp_path: Path) -> None:
    """And the part of it in the ring does not look like the whole."""
    log = filled(Ring(tmp_path, "r", GONE, 2 * FIRST_BYTES), 50)
    log.add(Header(wire.BATCH, 1, 50), bytes(2 * FIRST_BYTES))
    with pytest.raises(NoSegment, match="the rest was kept by its process"):
        Rings(tmp_path).sealed("r", Rings(tmp_path).logs("r")[0])
    assert log.ring is None and bodies(log) == [bytes(10)] * 50 + [bytes(2 * FIRST_BYTES)]
    log.cover(51)
    assert log.bytes == 0


def test_what_is_covered_goes_from_the_ring_and_what_is_forgotten_goes_whole(tmp_path: Path) -> None:
    log = filled(Ring(tmp_path, "r", GONE, 1 << 30), 3000)
    assert log.ring is not None and len(log.ring.segments) > 2
    log.cover(3000)
    assert len(log.ring.segments) == 1
    log.forget()
    assert log.ring is None and not Rings(tmp_path).logs("r")


def test_one_in_whose_place_another_goes_on_is_told_so_where_it_has_no_room_too(tmp_path: Path) -> None:
    log = filled(Ring(tmp_path, "r", GONE, 2 * FIRST_BYTES), 50)
    assert log.ring is not None
    Rings(tmp_path).sealed("r", log.ring.name)
    with pytest.raises(Sealed, match="another one goes on"):
        log.add(Header(wire.BATCH, 1, 50), bytes(2 * FIRST_BYTES))


def test_one_in_whose_place_another_goes_on_is_told_so(tmp_path: Path) -> None:
    log = filled(Ring(tmp_path, "r", GONE, 1 << 30), 3)
    assert log.ring is not None
    Rings(tmp_path).sealed("r", log.ring.name)
    with pytest.raises(Sealed, match="another one goes on"):
        log.add(Header(wire.BATCH, 1, 3), b"x")
