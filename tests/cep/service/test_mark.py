"""What a process is at, as others read it in its page; and what of that counts as holding it.

Tests `mark.py`, `driver/processes/watch.py`.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cep.service.mark import OPERATOR, PAGE_BYTES, Mark, Page, Seen, Work, label_of, make_page, read_page
from driver.processes.watch import LoopHold, OperatorWatch, at_death

S = 1_000_000_000
POISON = Work("q", "SQ1", 0, "poison")
OTHER = Work("r", "SQ2", 1, "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_page(tmp_path / "im-0.mark")
    return tmp_path / "im-0.mark"


class TestPage:
    def test_it_says_who_is_at_what(self, path: Path) -> None:
        mark = Mark.open(str(path))
        mark.begin(7)
        mark.loop.begin()
        assert (page := read_page(path)) and page.started == 7
        assert page.loop.work is None and page.loop.thread == threading.get_native_id() and page.control == Seen(0, 0, None)
        since = mark.loop.enter(label_of("q", "SQ1", 0, ["pick", "poison"]))
        mark.loop.words[OPERATOR] = 2
        assert read_page(path) == Page(7, Seen(since, threading.get_native_id(), POISON), Seen(0, 0, None))
        mark.control.enter(label_of("r", "SQ2", 1, ()))
        mark.loop.leave()
        assert (page := read_page(path)) and page.loop.work is None and page.control.work == OTHER
        mark.loop.enter(label_of("q", "SQ1", 0, ["pick", "poison"]))
        assert (page := read_page(path)) and page.loop.work == POISON._replace(operator="")

    def test_another_instance_leaves_nothing_of_the_one_before(self, path: Path) -> None:
        slot = Mark.open(str(path)).loop
        for label, work in ((b"a\0SQ10\x005\0operator", Work("a", "SQ10", 5, "operator")), (b"b\0S\x000", Work("b", "S", 0, ""))):
            slot.enter(label)
            slot.words[OPERATOR] = 1
            assert (page := read_page(path)) and page.loop.work == work

    def test_names_that_are_too_long_are_cut(self, path: Path) -> None:
        mark = Mark.open(str(path))
        for slot in (mark.loop, mark.control):
            slot.enter(label_of("q", "SQ1", 0, ["é" * PAGE_BYTES]))
            slot.words[OPERATOR] = 1
        page = read_page(path)
        assert page and page.loop.work and page.loop.work.operator.startswith("ééé") and page.loop.work[:3] == ("q", "SQ1", 0)
        assert page.control.work == page.loop.work
        slot.enter(label_of("q" * PAGE_BYTES, "SQ1", 0, []))
        assert (page := read_page(path)) and page.control.work and set(page.control.work.query) == {"q"}

    def test_without_a_page_nothing_is_seen(self, tmp_path: Path) -> None:
        Mark.open(str(tmp_path / "none")).loop.enter(b"a\0b\x000")
        Mark.open(None).loop.enter(b"a\0b\x000")
        (tmp_path / "short").write_bytes(b"")
        Mark.open(str(tmp_path / "short")).loop.enter(b"a\0b\x000")
        assert read_page(tmp_path / "none") is None and read_page(tmp_path / "short") is None

    def test_a_new_page_is_empty(self, path: Path) -> None:
        old = Mark.open(str(path))
        make_page(path)
        old.loop.enter(b"a\0b\x000")
        assert read_page(path) == Page(0, Seen(0, 0, None), Seen(0, 0, None))


def page(since_s: float, work: Work | None = POISON, prepared: Work | None = None) -> Page:
    return Page(1, Seen(int(since_s * S), 1, work), Seen(0, 2, prepared))


def looked(*looks: tuple[float, str, Page]) -> list[tuple[Work | None, float, bool] | None]:
    """(when, the state of the loop's thread, the page) -> what holds it, for how long, and whether it is prepared."""
    watch = OperatorWatch()
    found = [watch.look(page, int(when * S), {1: state, 2: "R"}.__getitem__) for when, state, page in looks]
    return [None if hold is None else (hold.work, round(hold.held_s, 1), hold.prepared) for hold in found]


class TestWatch:
    def test_a_loop_that_comes_round_is_held_by_nobody(self) -> None:
        assert looked(*((when, "R", page(when - 0.4)) for when in (10.0, 10.5, 11.0, 11.5))) == [None] * 4
        assert looked((10.0, "S", page(0.0, None))) == [None]  # it has not begun

    def test_one_that_does_not_is_held_by_its_operator(self) -> None:
        found = looked(*((when, "R", page(9.9)) for when in (10.0, 10.5, 11.0, 11.5)), (12.0, "R", page(11.9)))
        assert found == [None, None, (POISON, 1.1, False), (POISON, 1.6, False), None]

    def test_or_by_itself(self) -> None:
        assert looked(*((when, "S", page(8.0, None)) for when in (10.0,))) == [(None, 2.0, False)]

    def test_a_stopped_process_is_held_by_nobody(self) -> None:
        stopped = [(when / 2, "T", page(9.9)) for when in range(21, 100)]
        assert looked((10.0, "R", page(9.9)), *stopped, (50.0, "R", page(9.9))) == [None] * 81

    def test_nor_is_one_whose_supervisor_was_stopped(self) -> None:
        assert looked((10.0, "R", page(9.9)), (70.0, "R", page(9.9)), (70.5, "R", page(9.9))) == [None, None, (POISON, 1.1, False)]

    def test_the_time_of_a_stop_is_no_excuse_for_what_came_later(self) -> None:
        stopped = [(when / 2, "T", page(9.9)) for when in range(21, 60)]
        later = [(when / 2, "R", page(29.9)) for when in range(60, 64)]
        assert looked((10.0, "R", page(9.9)), *stopped, *later)[-2:] == [(POISON, 1.1, False), (POISON, 1.6, False)]

    def test_what_is_prepared_holds_a_loop_that_does_not_run(self) -> None:
        blocked = [(10 + step / 2, "S", page(9.9, None, OTHER)) for step in range(4)]
        assert looked(*blocked)[-1] == (OTHER, 1.6, True)
        assert looked(*blocked[:2], (11.0, "R", page(9.9, POISON, OTHER)), (11.5, "S", page(9.9, POISON, OTHER)))[-1] == (
            POISON,
            1.6,
            False,
        )

    def test_who_is_blamed_for_a_death(self) -> None:
        assert at_death(page(1.0, None)) is None
        assert at_death(page(1.0)) == LoopHold(POISON, 0.0)
        assert at_death(page(1.0, POISON, OTHER)) == LoopHold(OTHER, 0.0, prepared=True)

    def test_it_is_said_in_words(self) -> None:
        assert str(LoopHold(POISON, 2.0)) == "operator 'poison' (SQ1/0 of query 'q')"
        assert str(LoopHold(OTHER, 2.0, prepared=True)) == "the preparation of SQ2/1 of query 'r'"
        assert str(LoopHold(None, 2.0)) == "its own loop"
