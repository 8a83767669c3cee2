"""Which readers there are, which gets a batch, and what they have said."""

from __future__ import annotations

from typing import Any

import pytest

from cep.plan.route import Route
from cep.transport import wire
from tests.support.publisher_cores import HERE, STREAM, THERE, core, document, hear, opened, send


def test_a_query_of_the_same_name_deployed_anew_is_another_reader() -> None:
    made, (before,) = opened(document(epoch=1))
    made.readers.drop_gone([document(epoch=2)])
    assert before.gone
    (anew,), _ = made.ask([document(epoch=2)])
    assert list(made.readers.values()) == [anew] and not anew.opened


def test_each_query_gets_a_batch_and_its_readers_take_turns() -> None:
    made, _ = opened(document("a", 0), document("a", 1), document("b", 0))
    sent = [[(reader.query, reader.entry) for reader, _ in send(made, i)] for i in range(4)]
    assert [[query for query, _ in each] for each in sent] == [["a", "b"]] * 4
    assert len({each[0] for each in sent}) == 2 and [each[0] for each in sent[:2]] == [each[0] for each in sent[2:]]


@pytest.mark.parametrize(
    ("more", "only"),
    [({}, True), ({"route": Route(STREAM.schema.fields[:1], 8, 2).to_json()}, False)],
)
def test_the_only_reader_is_found_at_once(more: dict[str, Any], only: bool) -> None:
    made, (reader,) = opened(document(**more))
    assert (made.readers.only(10) is reader) == only
    reader.credit.sent, reader.credit.limit = 1000, 900
    assert made.readers.only(10) is None
    assert core().readers.only(10) is None and opened(document("a"), document("b"))[0].readers.only(10) is None


@pytest.mark.parametrize("state", ["gone", "closed", "not opened"])
def test_one_that_is_not_there_is_not_the_only_one(state: str) -> None:
    made, (reader,) = opened()
    reader.opened, reader.gone, reader.closed = state != "not opened", state == "gone", state == "closed"
    assert made.readers.only(10) is None


def test_two_queries_that_closed_it_are_both_named() -> None:
    made, (one, other) = opened(document("a"), document("b"))
    hear(made, one, wire.CLOSED, {"record": 3})
    hear(made, other, wire.CLOSED, {"record": 7})
    assert "query 'a' (which took rows up to number 2), query 'b' (which took rows up to number 6)" in made.unheard()


@pytest.mark.parametrize(
    ("beat", "process", "endpoint", "expected"),
    [
        (4, 1, HERE, ""),  # that heartbeat was sent before we were let in
        (5, 1, HERE, "closed"),
        (5, 2, HERE, "gone"),
        (5, 1, THERE, ""),
    ],
)
def test_a_process_that_does_not_know_us(beat: int, process: int, endpoint: str, expected: str) -> None:
    made, (reader,) = opened()
    hear(made, reader, wire.UNKNOWN, {"endpoint": endpoint, "process": process}, sequence=beat)
    assert (reader.closed, reader.gone) == (expected == "closed", expected == "gone")
    assert ("how many rows it took is not known" in made.unheard()) == (expected == "closed")


def test_what_a_reader_has_said_is_not_unsaid() -> None:
    made, (one, other) = opened(document("a"), document("b"))
    hear(made, one, wire.CLOSED)
    hear(made, one, wire.CLOSED, {"record": 3})
    assert one.gone
    hear(made, other, wire.CLOSED, {"reason": "it lies"})
    hear(made, other, wire.CLOSED, {"record": 3})
    assert "could not take what it sent: it lies" in made.unheard()
