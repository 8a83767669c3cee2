"""Which news reaches which publishers, whatever order the answers come in."""

from __future__ import annotations

from typing import Any

from driver.streams.following_core import FollowingCore

NEWS: list[dict[str, Any]] = [{"query": "q"}]
LATER: list[dict[str, Any]] = [{"query": "later"}]


def following() -> FollowingCore[str]:
    made: FollowingCore[str] = FollowingCore()
    made.opened([("s", "one"), ("s", "two"), ("t", "three")], "1.5")
    return made


def answer(after: str, **streams: list[dict[str, Any]]) -> dict[str, Any]:
    return {"after": after, "streams": streams}


def test_all_publishers_of_a_stream_hear_of_it() -> None:
    made = following()
    assert made.answered(answer("1.6", s=NEWS, unknown=NEWS)) == {"one": NEWS, "two": NEWS} and made.after == "1.6"


def test_an_older_answer_says_nothing() -> None:
    made = following()
    assert made.answered(answer("2.1", s=NEWS))
    for older in ("1.9", "2.0"):
        assert made.answered(answer(older, s=LATER)) == {} and made.after == "2.1"
    assert made.answered(answer("2.1", t=LATER)) == {"three": LATER}
    assert made.answered(answer("2.10", s=LATER)) and made.answered(answer("2.9", s=NEWS)) == {}  # they are numbers


def test_the_first_opening_says_where_to_begin() -> None:
    made = following()
    assert made.after == "1.5"
    made.opened([("u", "four")], "1.9")  # what lies between would be missed
    assert made.after == "1.5" and made.open == ["one", "two", "three", "four"]


def test_news_for_one_that_is_sending_waits_and_what_comes_later_replaces_it() -> None:
    made = following()
    made.put_off("one", NEWS)
    assert made.due({}) == {"one": NEWS} and not made.late
    made.put_off("one", NEWS)
    assert made.due({"one": LATER, "two": LATER}) == {"one": LATER, "two": LATER}


def test_one_that_has_closed_hears_nothing_more() -> None:
    made = following()
    made.put_off("one", NEWS)
    made.closed("s", "one")
    assert not made.late and made.answered(answer("1.6", s=NEWS)) == {"two": NEWS}
    made.closed("t", "three")
    assert made.publishers == {"s": ["two"]} and made.answered(answer("1.7", t=NEWS)) == {}
