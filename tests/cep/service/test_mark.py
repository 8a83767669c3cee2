"""What a process is at, as others read it in its page."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cep.service.mark import OPERATOR, PAGE_BYTES, UNREAD, Mark, Page, Seen, Work, label_of, make_page, read_page

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

    def test_it_says_whether_readers_have_to_take_something(self, path: Path) -> None:
        mark = Mark.open(str(path))
        for unread in (True, False):
            mark.loop.words[UNREAD] = unread
            assert (page := read_page(path)) and page.unread is unread

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
