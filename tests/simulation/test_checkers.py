"""Each checker finds what it is there for, and lets pass what is right."""

from __future__ import annotations

from cep.elements import EVENT_TIME_MAX, MIN_TIME
from cep.model.expr import ColumnRef
from cep.model.functions import count
from cep.model.operators import Aggregate, Filter
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import TimeWindow
from cep.transport import wire
from cep.transport.wire import Header
from simulation.checkers import AnswersAgree, CountsAgree, Numbers, Promises, complaints
from tests.reference import Answer
from tests.reference.rows import DeadLetter

STREAM = Stream("s", Schema.of({"t": "timestamp[us]", "k": "int64"}), ColumnRef("t"), 0)
COUNTS = Aggregate("counts", "s", TimeWindow(10, 10), ("k",), (("n", count()),))
QUERY = Query("q", (STREAM,), (COUNTS, Filter("kept", "s", ColumnRef("k") > 0)), (Output("out", "counts"), Output("rows", "kept")), "late")


def sent(*headers: Header) -> list[str]:
    numbers = Numbers()
    for header in headers:
        numbers.sent("im-0", header)
    return complaints([numbers])


def test_numbers_may_begin_anywhere_and_have_no_gaps() -> None:
    assert sent(Header(wire.BATCH, 1, 5), Header(wire.BATCH, 2, 0), Header(wire.CREDIT, 1, 99), Header(wire.END, 1, 6)) == []
    assert sent(Header(wire.BATCH, 1, 5), Header(wire.BATCH, 1, 7)) == ["Numbers: im-0 sent element 7 of channel 1, expected 6"]


def test_nothing_follows_the_last_element() -> None:
    assert sent(Header(wire.END, 1, 0), Header(wire.WATERMARK, 1, 1)) == ["Numbers: im-0 sent element 1 of channel 1, which has ended"]


def took(stream: str, *batches: tuple[int, int, list[tuple[int, tuple[int, ...]]]]) -> list[str]:
    """Batches are (channel, watermark, rows)."""
    promises = Promises(QUERY)
    for channel, watermark, rows in batches:
        promises.took(stream, ("k", "n"), Header(wire.BATCH, channel, watermark=watermark), rows)
    return complaints([promises])


def test_no_row_is_older_than_a_watermark_of_its_instance() -> None:
    early, late = (1, 20, [(19, (1, 1))]), (1, 30, [(9, (2, 1))])
    assert took("out", early, (2, 10, [(9, (2, 1))])) == []
    assert took("out", early, late) == ["Promises: stream 'out': a row at 9 came behind the watermark 20: (2, 1)"]
    assert took("late", early, late) == []


def test_rows_of_one_key_come_by_event_time_from_each_instance() -> None:
    later, earlier = (1, MIN_TIME, [(19, (1, 1))]), (1, MIN_TIME, [(9, (1, 1))])
    assert took("out", later, earlier) == ["Promises: stream 'out': of key [1] a row at 9 came behind one at 19"]
    assert took("out", later, (2, MIN_TIME, [(9, (1, 1))]), (1, MIN_TIME, [(9, (2, 1))])) == []
    assert took("rows", later, earlier) == []  # a filter promises no order


def test_what_the_end_lets_out_may_come_behind_windows_that_end_later() -> None:
    end = (1, MIN_TIME, [(EVENT_TIME_MAX, (1, 1))])
    assert took("out", (1, MIN_TIME, [(EVENT_TIME_MAX + 296, (1, 1))]), end) == []
    assert len(took("out", end, (1, MIN_TIME, [(EVENT_TIME_MAX - 1, (1, 1))]))) == 1


def test_answers_are_compared_stream_by_stream() -> None:
    answers = AnswersAgree(QUERY, Answer({"out": [(9, (1, 1))], "rows": []}))
    answers.took("out", [(9, (1, 2))])
    (text,) = complaints([answers])
    assert text.startswith("AnswersAgree: stream 'out': expected 1 rows, got 1\n  missing 1 x at 9: (1, 1)")


def test_counts_are_those_of_the_record() -> None:
    answer = Answer({"out": [(9, (1, 1))], "rows": []}, {"s": [(1, (1, 1)), (2, (1, 1))]}, [DeadLetter("kept", "bad input", (0, 0))])
    counts = CountsAgree(QUERY, answer)
    assert complaints([counts]) == []  # what counted is gone
    counts.ended(2, {"kept": 1}, {"out": 1, "rows": 0, "late": 2})
    assert complaints([counts]) == []
    counts.ended(1, {"kept": 2}, {"out": 1, "rows": 1, "late": 2})
    assert complaints([counts]) == [
        "CountsAgree: late rows: expected 2, counted 1",
        "CountsAgree: dead letters: expected {'kept': 1}, counted {'kept': 2}",
        "CountsAgree: rows out: expected {'out': 1, 'rows': 0, 'late': 2}, counted {'out': 1, 'rows': 1, 'late': 2}",
    ]
