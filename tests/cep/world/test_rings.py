"""Rings: logs in segments that are taken as they are needed, released when they are covered, read by another process and swept."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cep.world.rings import FIRST_BYTES, Owner, Ring, RingFull, RingLog, Rings, _decide, _path_of, is_here, place_of
from cep.world.segments import NoSegment, Sealed, Segment

KEY, GONE = 7, Owner("here", 1, "long ago")
BODY = b"x" * 1000


def ring(folder: Path, name: str = "r", bytes_max: int = 1 << 30) -> Ring:
    return Ring(folder, name, GONE, bytes_max)


def rings(folder: Path) -> Rings:
    return Rings(folder, lambda owner: owner == GONE)


def filled(folder: Path, elements: int, first: int = 0, **about: Any) -> RingLog:
    log = ring(folder, **about).log(KEY, first, {"publisher": "p"})
    for number in range(first, first + elements):
        log.append(number, b"head", BODY)
    return log


def numbers(folder: Path) -> list[int]:
    there = rings(folder)
    (name,) = there.logs("r", KEY)
    return [element.number for element in there.sealed("r", name).elements() if not element.is_note]


def test_it_takes_segments_as_it_needs_them(tmp_path: Path) -> None:
    log = filled(tmp_path, 500)
    assert 3 <= len(log.segments) <= 5 and log.segments[0].first == 0
    assert numbers(tmp_path) == list(range(500))
    assert log.ring.bytes == sum(segment.size for segment in log.segments)


def test_an_element_may_be_larger_than_any_segment(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    segment, at = log.append(2, b"head", bytes(5 << 20))
    assert segment.body(at, 5 << 20) == bytes(5 << 20) and numbers(tmp_path) == [0, 1, 2]


def test_segments_go_when_all_that_is_in_them_is_covered(tmp_path: Path) -> None:
    log = filled(tmp_path, 500)
    second, border = log.segments[1].first, log.segments[2].first
    log.release(border - 1)
    assert log.segments[0].first == second
    log.release(border)
    assert numbers(tmp_path) == list(range(border, 500))


def test_the_last_one_stays_and_says_how_far_it_came(tmp_path: Path) -> None:
    log = filled(tmp_path, 500)
    log.release(500)
    assert len(log.segments) == 1
    assert rings(tmp_path).sealed("r", log.name).end == 500


def test_one_whose_last_segment_is_empty_has_come_as_far(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    assert log.has_room(3, 4, 2 * FIRST_BYTES)
    log.release(3)
    assert (log.segments[0].first, rings(tmp_path).sealed("r", log.name).end) == (3, 3)


def test_all_logs_of_a_ring_together_have_a_bound(tmp_path: Path) -> None:
    made = ring(tmp_path, bytes_max=4 * FIRST_BYTES)
    first, second = (made.log(key, 0, {}) for key in (1, 2))
    number = 0
    while first.has_room(number, 4, 1000):
        first.append(number, b"head", BODY)
        number += 1
    assert number > 10 and not second.has_room(0, 4, 2 * FIRST_BYTES)
    with pytest.raises(RingFull, match="expected at most"):
        made.take("x", 2 * FIRST_BYTES, 0, {})
    first.remove()
    assert second.has_room(0, 4, FIRST_BYTES)


def test_a_last_word_has_room_where_a_batch_has_none(tmp_path: Path) -> None:
    log = ring(tmp_path, bytes_max=2 * FIRST_BYTES).log(KEY, 0, {})
    number = 0
    while log.has_room(number, 4, 1000):
        log.append(number, b"head", BODY)
        number += 1
    log.append(number, b"head", BODY)
    assert numbers(tmp_path)[-1] == number


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path, 3, bytes_max=2 * FIRST_BYTES)
    with pytest.raises(RingFull):
        log.append(3, b"head", bytes(3 * FIRST_BYTES))
    log.append(3, b"head", BODY)
    assert numbers(tmp_path) == [0, 1, 2, 3]


def test_what_is_said_in_between_holds_from_there(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    log.note(3, "opening", {"columns": 2})
    for number in range(3, 200):
        log.append(number, b"head", BODY)
    found = [element for segment in log.segments for element in segment.elements()]
    assert [element.number for element in found if element.is_note] == [3]
    log.release(log.segments[-1].first)
    assert Rings(tmp_path).document("r", log.name) == {"publisher": "p", "opening": {"columns": 2}}
    assert rings(tmp_path).sealed("r", log.name).end == 200


class TestSealed:
    def test_nothing_more_counts(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        assert rings(tmp_path).sealed("r", log.name).end == 3
        with pytest.raises(Sealed):
            log.append(3, b"head", BODY)

    def test_not_in_a_segment_either_that_was_begun_behind_it(self, tmp_path: Path) -> None:
        """The writer was stopped between its look for room and its writing."""
        log = filled(tmp_path, 3)
        for segment in log.segments:
            segment.seal()
        log._grow(3, FIRST_BYTES)
        with pytest.raises(Sealed):
            log.append(3, b"head", BODY)

    def test_its_writer_removes_nothing_of_it(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 500)
        rings(tmp_path).sealed("r", log.name)
        log.release(500)
        log.remove()
        assert numbers(tmp_path) == list(range(500))

    def test_one_of_a_process_that_lives_is_sealed_too(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        assert Rings(tmp_path, lambda owner: False).sealed("r", log.name).end == 3
        assert Rings(tmp_path).is_sealed("r", log.name)

    def test_where_it_ends_is_decided_once(self, tmp_path: Path) -> None:
        """Its writer was stopped in front of the instruction that makes its last element count."""
        log = filled(tmp_path, 3)
        assert rings(tmp_path).sealed("r", log.name).end == 3
        with pytest.raises(Sealed):
            log.append(3, b"head", BODY)
        assert len(list(log.segments[-1].elements())) == 4
        assert rings(tmp_path).sealed("r", log.name).end == 3 and numbers(tmp_path) == [0, 1, 2]

    def test_while_it_is_read_too(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        found = rings(tmp_path).sealed("r", log.name)
        with pytest.raises(Sealed):
            log.append(3, b"head", BODY)
        assert [element.number for element in found.elements()] == [0, 1, 2]

    def test_by_the_first_that_says_so(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        mark = _path_of(tmp_path / "r", f"{log.name}.end")
        assert _decide(mark, {"end": 2}) == {"end": 2} and _decide(mark, {"end": 3}) == {"end": 2}
        assert numbers(tmp_path) == [0, 1] and not list((tmp_path / "r").rglob(".*"))

    @pytest.mark.parametrize("left", [".{}-00000002", ".{}.end-123"])
    def test_what_a_killed_process_had_not_made_ready_keeps_nothing(self, tmp_path: Path, left: str) -> None:
        log = filled(tmp_path, 3)
        _path_of(tmp_path / "r", log.name).with_name(left.format(log.name)).write_bytes(b"")
        assert rings(tmp_path).logs("r") == [log.name]
        rings(tmp_path).sweep(lambda document: True)
        assert not (tmp_path / "r").exists()

    def test_a_folder_that_cannot_be_looked_at_is_not_empty(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(path: Path) -> list[str]:
            raise OSError(24, "Too many open files", str(path))

        made = ring(tmp_path)
        made.log(KEY, 0, {}).append(0, b"head", BODY)
        with monkeypatch.context() as patched:
            patched.setattr("cep.world.rings.os.listdir", refused)
            made.close()
            with pytest.raises(OSError, match="Too many"):
                rings(tmp_path).logs("r", KEY)
        assert numbers(tmp_path) == [0]

    def test_it_is_known_to_be_over_when_it_was_removed(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        assert not list(rings(tmp_path).ended("r", KEY))
        rings(tmp_path).sealed("r", log.name).remove()
        assert not rings(tmp_path).logs("r") and list(rings(tmp_path).ended("r", KEY)) == [{"publisher": "p"}]
        log.segments.append(log._segment(FIRST_BYTES, 3))  # its writer wakes up
        with pytest.raises(Sealed):
            log.append(3, b"head", BODY)
        assert numbers(tmp_path) == []

    def test_what_its_writer_begins_behind_that_is_no_reason_to_remove_it(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        rings(tmp_path).sealed("r", log.name)
        assert log.has_room(3, 4, 2 * FIRST_BYTES)
        log.remove()
        assert numbers(tmp_path) == [0, 1, 2]

    def test_what_has_no_room_is_not_kept_elsewhere(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        rings(tmp_path).sealed("r", log.name)
        with pytest.raises(Sealed):
            log.abandon()
        assert numbers(tmp_path) == [0, 1, 2]

    def test_what_lacks_a_segment_is_none(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 500)
        log.segments[1].remove()
        with pytest.raises(NoSegment, match="expected to begin at element"):
            rings(tmp_path).sealed("r", log.name)


class TestSwept:
    def test_what_is_over_goes_and_the_rest_stays(self, tmp_path: Path) -> None:
        made = ring(tmp_path)
        for key, query in ((1, "over"), (2, "on")):
            made.log(key, 0, {"query": query}).append(0, b"head", BODY)
        rings(tmp_path).sweep(lambda document: document["query"] == "over")
        assert [name[:16] for name in rings(tmp_path).logs("r")] == [f"{2:016x}"]
        rings(tmp_path).sweep(lambda document: True)
        assert not list(tmp_path.iterdir())

    def test_those_of_processes_that_live_stay(self, tmp_path: Path) -> None:
        filled(tmp_path, 3)
        Rings(tmp_path, lambda owner: False).sweep(lambda document: True)
        assert numbers(tmp_path) == [0, 1, 2]

    def test_its_own_process_takes_down_what_is_empty(self, tmp_path: Path) -> None:
        log = filled(tmp_path, 3)
        log.ring.close()
        assert numbers(tmp_path) == [0, 1, 2]
        made = ring(tmp_path, "other")
        made.log(KEY, 0, {}).remove()
        made.close()
        assert [path.name for path in tmp_path.iterdir()] == ["r"]
        rings(tmp_path).sealed("r", log.name).remove()
        log.ring.close()
        assert not list(tmp_path.iterdir())


def test_a_process_is_known_by_its_birth() -> None:
    ours = Owner.ours()
    assert not ours.is_gone and replace(ours, born="0").is_gone and not replace(ours, machine="other", born="0").is_gone


def test_a_folder_of_another_machine_is_not_this_one(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    assert is_here(place)
    assert not any(is_here(place | other) for other in ({"machine": "x"}, {"inode": 1}, {"folder": str(tmp_path / "none")}, {"more": 1}))


LARGE = b"x" * (1 << 20)


def large(log: RingLog, first: int, last: int) -> None:
    for number in range(first, last):
        log.append(number, b"head", LARGE)


def files(folder: Path) -> set[int]:
    """Inodes, whatever they are called."""
    return {path.stat().st_ino for path in (folder / "r").rglob("*") if path.is_file()}


def test_memory_of_large_segments_is_used_again(tmp_path: Path) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 40)
    log.release(39)
    before, taken = files(tmp_path), log.ring.bytes
    large(log, 40, 50)
    assert files(tmp_path) == before and log.ring.bytes > taken
    assert numbers(tmp_path) == list(range(log.segments[0].first, 50)) and log.segments[0].first in range(35, 40)


def test_what_another_process_reads_stays_as_it_was(tmp_path: Path) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 20)
    path = log.segments[1].path
    first = Segment.open(path)
    log.release(19)
    large(log, 20, 40)
    assert next(first.elements()).number == 0 and not path.exists()
    with pytest.raises(FileNotFoundError):
        Segment.open(path)


def test_memory_that_is_not_needed_is_let_go_of(tmp_path: Path) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 20)
    log.release(19)
    there = len(files(tmp_path))
    log.ring.rest()
    assert len(files(tmp_path)) == there, "it has just become free"
    large(log, 20, 24)
    log.ring.rest()
    assert len(files(tmp_path)) == 1 + len(log.segments) < there
    large(log, 24, 40)
    log.release(39)
    there = files(tmp_path)
    large(log, 40, 56)
    log.ring.rest()
    assert files(tmp_path) >= there, "all of it was needed"


def test_what_is_free_makes_room_for_what_is_larger(tmp_path: Path) -> None:
    log = ring(tmp_path, bytes_max=24 << 20).log(KEY, 0, {})
    large(log, 0, 18)
    log.release(17)
    log.append(18, b"head", bytes(17 << 20))
    assert len(files(tmp_path)) == 1 + len(log.segments), "else there would be more than the ring may have"


def test_memory_that_cannot_be_begun_anew_is_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 40)
    log.release(39)
    there = len(list((tmp_path / "r").glob(".free-*")))

    def refused(*given: object) -> Segment:
        raise OSError("no")

    monkeypatch.setattr(Segment, "begin_anew", refused)
    large(log, 40, 48)
    assert numbers(tmp_path)[-1] == 47 and len(list((tmp_path / "r").glob(".free-*"))) < there


def test_what_is_free_goes_with_the_ring(tmp_path: Path) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 20)
    log.release(19)
    log.remove()
    log.ring.close()
    assert not list(tmp_path.iterdir())


def test_a_sweep_takes_what_was_free(tmp_path: Path) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 20)
    log.release(19)
    there = len(files(tmp_path))
    rings(tmp_path).sweep(lambda document: False)
    assert 1 + len(log.segments) == len(files(tmp_path)) < there


def test_a_log_whose_writer_lets_go_of_a_segment_while_it_is_sealed_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ring(tmp_path).log(KEY, 0, {"publisher": "p"})
    large(log, 0, 20)
    there = rings(tmp_path)
    (name,) = there.logs("r", KEY)
    opened, first = Segment.open, log.segments[0].path

    def late(path: Path) -> Segment:
        if path == first and len(log.segments) > 3:
            log.release(10)
        return opened(path)

    monkeypatch.setattr(Segment, "open", staticmethod(late))
    assert there.document("r", name) == {"publisher": "p"}
    found = [element.number for element in there.sealed("r", name).elements() if not element.is_note]
    assert found == list(range(log.segments[0].first, 20)) and log.segments[0].first > 0
    with pytest.raises(Sealed):
        log.append(20, b"head", LARGE)


def test_what_comes_free_when_the_ring_is_closed_goes(tmp_path: Path) -> None:
    log = ring(tmp_path).log(KEY, 0, {})
    large(log, 0, 20)
    log.ring.close()
    log.release(19)
    assert len(files(tmp_path)) == 1 + len(log.segments)


SWAPPER = """
import sys
from pathlib import Path
from cep.world.rings import Owner, Ring

log, number = Ring(Path(sys.argv[1]), "r", Owner("here", 1, "long ago"), 1 << 30).log(7, 0, {}), 0
print(flush=True)
while number < 4000:
    log.append(number, b"head", number.to_bytes(8, "little") * 40_000)
    number += 1
    if number % 8 == 0:
        log.release(number - 4)
"""


def test_who_opens_segments_while_they_are_used_again_finds_each_whole(tmp_path: Path) -> None:
    """A real process writes, and its memory goes round; whatever is opened has elements that follow each other, as they were written."""
    with subprocess.Popen([sys.executable, "-c", SWAPPER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        looked = 0
        while process.poll() is None:
            for path in (tmp_path / "r").glob("*/0*-*"):
                with suppress(FileNotFoundError):
                    segment = Segment.open(path)
                    for number, element in enumerate(segment.elements(), segment.first):
                        assert element.number == number and bytes(element.body[-8:]) == number.to_bytes(8, "little") == bytes(
                            element.body[:8]
                        )
                        looked += 1
        assert process.returncode == 0 and looked > 100
