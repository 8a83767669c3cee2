"""Which readers there are, which gets a batch, and what they have said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cep.errors import ClusterError
from cep.model.limits import KEPT_BYTES_MAX
from cep.plan.channels import publisher_channel
from cep.plan.route import Route
from cep.transport import wire
from cep.transport.wire import Header
from cep.world.rings import Owner, Ring, Rings
from driver.streams.commands import Send
from driver.streams.publisher_core import PublisherCore
from driver.streams.readers import reads_of
from tests.support.publisher_cores import HERE, OURS, STREAM, THERE, core, document, hear, let_in, opened, said, send


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


def test_readers_that_have_not_all_said_what_they_read_get_all() -> None:
    _, readers = opened(document("a", 0), document("a", 1))
    assert reads_of(readers) is None
    for reader, reads in zip(readers, (["x"], ["x"]), strict=True):
        reader.open(Header(wire.OPENED, reader.channel), {"here": True, "reads": reads}, 0)
    assert reads_of(readers) == {"x"} and reads_of(reversed(readers)) == {"x"}
    for other in ({"reads": ["y"]}, {}):
        readers[1].open(Header(wire.OPENED, readers[1].channel), {"here": True, **other}, 0)
        assert reads_of(readers) is None is reads_of(reversed(readers))


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


class TestOfQueriesThatRecover:
    """What such a reader is sent is kept until a commit covers it."""

    def test_the_next_attempt_gets_what_no_commit_covers(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        for i in range(4):
            send(made, i)
        hear(made, reader, wire.COVERED, sequence=1)
        _, opening = made.drop_gone([document(keeps=True, attempt=1, endpoint=THERE)])
        assert isinstance(opening, Send) and opening.endpoint == THERE and wire.from_json(opening.body)["kept_from"] == 1
        again = let_in(made, reader, sequence=2, received=20, consumed=20)
        assert said(again)[:2] == [(wire.BATCH, THERE, 2), (wire.BATCH, THERE, 3)] and reader.is_here
        assert {each.header.channel for each in again if isinstance(each, Send)} == {reader.channel}

    def test_what_is_sent_again_has_its_own_stamp_and_watermark(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        before = [header for i in (5_000, 9_000) for _, header in send(made, i)]
        made.drop_gone([document(keeps=True, attempt=1)])
        again = [each.header for each in let_in(made, reader) if isinstance(each, Send)][:2]
        assert [header._replace(channel=0) for header in again] == [header._replace(channel=0) for header in before]

    def test_an_answer_that_is_older_than_the_attempt_says_nothing(self) -> None:
        made, (reader,) = opened(document(keeps=True, attempt=2))
        channel = reader.channel
        assert not made.drop_gone([document(keeps=True, attempt=1)]) and made.ask([document(keeps=True, attempt=1)])[0] == []
        assert reader.channel == channel and reader.is_here and list(made.readers.values()) == [reader]

    def test_it_is_asked_as_soon_as_it_is_built(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        assert not made.drop_gone([document(keeps=True, attempt=1, here=False)]) and not reader.gone and not reader.is_here
        assert made.drop_gone([document(keeps=True, attempt=1)])
        assert not made.drop_gone([document(keeps=True, attempt=1)]), "once"

    def test_one_that_is_relieved_is_sent_to_until_the_other_is_there(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        relieving = document(keeps=True, attempt=1, here=False, relieves=True, endpoint=THERE)
        assert not made.drop_gone([relieving]) and reader.is_here and reader.endpoint == HERE
        assert [(each.endpoint, header.kind) for each, header in send(made, 1)] == [(HERE, wire.BATCH)]
        _, opening = made.drop_gone([document(keeps=True, attempt=1, endpoint=THERE)])
        assert isinstance(opening, Send) and opening.endpoint == THERE and not reader.is_here

    def test_one_that_has_lost_its_place_goes_on_with_what_relieves_it(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        hear(made, reader, wire.CLOSED)
        assert not made.drop_gone([document(keeps=True, attempt=1, here=False, relieves=True, endpoint=THERE)])
        assert (reader.attempt, reader.endpoint) == (1, THERE)

    def test_one_that_has_lost_its_place_is_not_gone(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        send(made, 1)
        hear(made, reader, wire.CLOSED)
        assert not reader.is_here and not reader.gone and not reader.closed

    def test_it_is_gone_with_its_query(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        made.drop_gone([])
        assert reader.gone

    def test_the_last_word_is_confirmed_by_a_commit_alone(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        made.say_goodbye(True, [])
        hear(made, reader, wire.CLOSED, {"heard": True})
        assert made.readers.uncovered and not reader.is_here
        made.drop_gone([document(keeps=True, attempt=1)])
        assert (wire.CLOSE, HERE, 0) in said(let_in(made, reader))
        hear(made, reader, wire.CLOSED, {"heard": True, "covered": True})
        assert reader.closed and not made.readers.uncovered

    def test_it_gets_no_more_than_it_has_credit_for(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        for i in range(3):
            send(made, i, size=600)
        made.drop_gone([document(keeps=True, attempt=1)])
        assert said(let_in(made, reader, limit=1000)) == [(wire.BATCH, HERE, 0)] and not reader.is_here
        more = hear(made, reader, wire.CREDIT, sequence=600, record=5000)
        assert said(more)[:2] == [(wire.BATCH, HERE, 1), (wire.BATCH, HERE, 2)] and reader.is_here

    def test_silence_in_the_middle_is_over(self) -> None:
        """Others may not go on without it while more is on its way."""
        made, (reader,) = opened(document(keeps=True))
        made.silence.say_idle([reader])
        reader.told_idle = False
        send(made, 1)
        made.drop_gone([document(keeps=True, attempt=1)])
        assert said(let_in(made, reader))[:2] == [(wire.WATERMARK, HERE, 0), (wire.BATCH, HERE, 1)]

    def test_columns_that_came_meanwhile_are_told_before_rows_that_have_them(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        send(made, 1)
        made.drop_gone([document(keeps=True, attempt=1, here=False)])
        made.grow(STREAM)
        made.drop_gone([document(keeps=True, attempt=1)])
        assert said(let_in(made, reader))[:2] == [(wire.BATCH, HERE, 0), (wire.OPEN, HERE, 1)]

    def test_columns_that_came_before_where_it_goes_on_are_told_first(self) -> None:
        """It has not heard yet what a commit covers, so what it has said in opening is of before they came."""
        made, (reader,) = opened(document(keeps=True))
        send(made, 1)
        made.grow(STREAM)
        send(made, 2)
        send(made, 3)
        _, opening = made.drop_gone([document(keeps=True, attempt=1)])
        assert isinstance(opening, Send) and wire.from_json(opening.body)["kept_from"] == 0
        assert said(let_in(made, reader, sequence=2))[:2] == [(wire.OPEN, HERE, 2), (wire.BATCH, HERE, 2)]

    def test_columns_that_it_has_been_told_of_are_not_told_again(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        send(made, 1)
        assert made.grow(STREAM)
        send(made, 2)
        assert wire.OPEN not in [kind for kind, *_ in said(hear(made, reader, wire.CREDIT, sequence=600, record=5000))]

    def test_what_was_not_kept_is_not_passed_over(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        send(made, 1)
        made.drop_gone([document(keeps=True, attempt=1)])
        let_in(made, reader, sequence=9)
        assert reader.closed and "how many rows it took is not known" in made.unheard()

    def test_one_that_offers_no_ring_hears_that_all_is_kept_here_before_it_lets_us_in(self) -> None:
        """A commit has to know of it, for what was sent could not be told from nothing."""
        made = core()
        (reader,), _ = made.ask([document(keeps=True)])
        *_, asked = let_in(made, reader, volatile=False)
        assert isinstance(asked, Send) and wire.from_json(asked.body)["volatile"]
        assert not reader.is_here and made.readers.awaited
        let_in(made, reader)
        assert reader.is_here and not made.readers.awaited

    def test_one_whose_ring_we_see_is_sent_what_is_kept_there(self, tmp_path: Path) -> None:
        ring = Ring(tmp_path, "r", Owner("here", 1, "0"), 1 << 30)
        made = PublisherCore(STREAM, "p", OURS, "us#1", lambda place: ring if place["folder"] == "there" else None)
        (reader,), _ = made.ask([document(keeps=True)])
        (again,) = [each for each in let_in(made, reader, volatile=False, ring={"folder": "there"}) if isinstance(each, Send)]
        assert again.header.kind == wire.OPEN and made.readers.awaited  # the answer may be older than another one of our name
        let_in(made, reader, volatile=False, ring={"folder": "there"})
        send(made, 1)
        (log,) = Rings(tmp_path).logs("r", publisher_channel(reader.lasting, "p"))
        found = Rings(tmp_path).document("r", log) or {}
        assert reader.is_here and Rings(tmp_path).sealed("r", log).end == 1
        assert (found["query"], found["publisher"], found["incarnation"], found["entry"]) == ("q", "p", "us#1", reader.lasting)

    def test_one_for_which_nothing_more_has_room_is_asked_for_a_commit(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        send(made, 1, size=10)
        assert made.press([reader], 100) == []
        (asked,) = made.press([reader], KEPT_BYTES_MAX)
        assert isinstance(asked, Send) and (asked.header.kind, asked.header.channel) == (wire.OPEN, reader.entry)
        assert wire.from_json(asked.body) == {"publisher": "p", "endpoint": OURS, "keeps": 10}

    def test_one_that_was_sealed_counts_as_closed_and_its_publisher_hears_why(self, tmp_path: Path) -> None:
        made, (reader,) = opened(document(keeps=True))
        assert reader.log is not None
        reader.log.lay_in(Ring(tmp_path, "r", Owner("here", 1, "0"), 1 << 30).log(1, 0, {}))
        Rings(tmp_path).sealed("r", Rings(tmp_path).logs("r")[0])
        header = made.numbering.batch(reader, 10, 7, 0)
        with pytest.raises(ClusterError, match="another one goes on"):
            made.keep(reader, header, bytes(10))
        assert not reader.is_here
        with pytest.raises(ClusterError, match="which could not take what it sent: another one goes on"):
            made.choose([reader], 10)

    def test_so_does_one_that_only_tells_its_watermark(self, tmp_path: Path) -> None:
        made, (reader,) = opened(document(keeps=True))
        assert reader.log is not None
        reader.log.lay_in(Ring(tmp_path, "r", Owner("here", 1, "0"), 1 << 30).log(1, 0, {}))
        Rings(tmp_path).sealed("r", Rings(tmp_path).logs("r")[0])
        made.numbering.max_time = 1000
        assert made.tell_watermark() == [] and reader.closed and not made.say_goodbye(True, [])
        with pytest.raises(ClusterError, match="which could not take what it sent: another one goes on"):
            made.check_heard()

    def test_what_is_said_to_another_one_of_our_name_in_our_process_is_not_heard(self) -> None:
        made, (reader,) = opened(document(keeps=True))
        word = {"reason": "another one goes on", "replaced": True}
        made.heard(Header(wire.CLOSED, reader.channel), wire.to_json(word | {"incarnation": "us#0"}), 1)
        assert reader.is_here
        made.heard(Header(wire.CLOSED, reader.channel), wire.to_json(word | {"incarnation": made.incarnation}), 1)
        assert reader.closed and reader.is_replaced and made.say_goodbye(True, []) == []

    def test_a_publisher_waits_for_one_that_has_never_let_it_in(self) -> None:
        made = core()
        (reader,), _ = made.ask([document(keeps=True)])
        assert made.readers.awaited
        let_in(made, reader)
        assert not made.readers.awaited
