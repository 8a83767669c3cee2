"""Windows as descriptions: what may be said of them, and their documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cep.errors import QueryError
from cep.model.contract import phrases
from cep.model.operators import Join
from cep.model.windows import CUMULATE, TIME, CumulateWindow, TimeWindow, from_json, to_json
from driver import Query, count, stream

DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("offset", "us"),
    [("0s", 0), ("2h", 7_200_000_000), ("-2h", DAY_US - 7_200_000_000), ("1d", 0), ("50h", 7_200_000_000), ("-1us", DAY_US - 1)],
)
def test_an_offset_counts_modulo_the_advance(offset: str, us: int) -> None:
    assert TIME("1d", offset=offset) == TimeWindow(DAY_US, DAY_US, us) == from_json({"type": "time", "size": "1d", "offset": offset})


@pytest.mark.parametrize("window", [TIME("1d", offset="-2h"), TIME("10s", "3s", offset="2s"), TIME("10s")])
def test_a_document_gives_the_same_window(window: TimeWindow) -> None:
    assert from_json(to_json(window)) == window


def test_a_window_says_where_it_begins() -> None:
    assert phrases.window(TIME("1d", offset="-2h")) == "1d from 22h on"
    assert phrases.window(TIME("1d", "1h", offset="5m")) == "1d every 1h from 5m on"
    assert to_json(TIME("1d")) == {"type": "time", "size": "1d", "advance": "1d"}  # as documents were before there were offsets


def test_watermarks_that_are_waited_for_are_where_panes_begin() -> None:
    assert TIME("30s", "20s").grain == 10_000_000
    assert TIME("30s", "20s", offset="4s").grain == 2_000_000


def test_both_windows_of_a_join_have_one_offset() -> None:
    with pytest.raises(QueryError, match="both windows of a join have one offset, got 0s and 3s") as caught:
        Join("j", "l", "r", TIME("10s"), TIME("20s", "10s", offset="3s"), (("k", "k"),))
    assert caught.value.pointer == "/right_window/offset"


def test_an_offset_that_is_no_part_of_the_advance_is_refused() -> None:
    with pytest.raises(QueryError, match="window offset must be from 0 to before the advance") as caught:
        TimeWindow(10, 5, 5)
    assert caught.value.pointer == "/offset"


def test_a_cumulating_window_has_a_document_and_a_phrase() -> None:
    window = CUMULATE("10m", "1h", offset="-5m")
    assert window == from_json(to_json(window)) == CumulateWindow(600_000_000, 3_600_000_000, 3_300_000_000)
    assert phrases.window(window) == "so far of each 1h from 55m on, every 10m"
    assert window.grain == 300_000_000


@pytest.mark.parametrize(
    ("made", "what", "pointer"),
    [
        (lambda: CUMULATE("7m", "1h"), r"window size must be a multiple of the step \(7m\), got 1h", "/size"),
        (lambda: CUMULATE("0s", "1h"), "window step must be greater than zero", "/step"),
        (lambda: CUMULATE("1h", "0s"), "window size must be greater than zero", "/size"),
        (lambda: CumulateWindow(5, 10, 10), "window offset must be from 0 to before the size", "/offset"),
    ],
)
def test_a_cumulating_window_that_is_none(made: Callable[[], CumulateWindow], what: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=what) as caught:
        made()
    assert caught.value.pointer == pointer


def test_steps_that_are_too_many_are_refused_with_their_number() -> None:
    asked = Query("q").source(stream("s", {"t": "timestamp[ms]"}, event_time="t", disorder="0s"))
    with pytest.raises(QueryError, match=r"a row lies in 86,400,000 windows \(size ÷ step\).*take a longer step"):
        asked.aggregate("a", CUMULATE("1ms", "1d"), n=count()).output("o").build()
