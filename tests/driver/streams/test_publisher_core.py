"""A publisher without input and output: what readers say, documents and times in; headers, commands and errors out.

Tests `publisher_core.py`, `following.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cep.elements import MIN_TIME, MoveBarrier
from cep.errors import ClusterError
from cep.model.schema import INT64, Field, Schema
from cep.transport import wire
from cep.transport.wire import Format, Header
from driver.streams.commands import NOTHING, Leave, Listen, Send, StreamCommand
from driver.streams.publisher_core import PublisherCore
from driver.streams.readers import StreamReader
from tests.support.publisher_cores import HERE, OURS, STREAM, THERE, core, document, hear, let_in, opened, said, send

# --- opening -----------------------------------------------------------------------------------------------------------


def test_asks_to_be_let_in_by_those_that_are_new() -> None:
    made = core()
    made.numbering.sent_until = 5
    (first,), commands = made.ask([document()])
    assert commands[0] == Listen(HERE, first.channel) and said(commands) == [(wire.OPEN, HERE, 0)]
    assert isinstance(commands[1], Send) and commands[1].header.channel == first.entry
    assert wire.from_json(commands[1].body) == {
        "publisher": "p",
        "endpoint": OURS,
        "schema": made.stream.schema.to_json(),
        "sent_until": 5,
    }
    assert made.ask([document()]) == ([], [])
    (second,), _ = made.ask([document(), document("other")])
    made.readers.drop_gone([document("other")])
    assert made.ask([]) == ([], [Leave(first.channel)]) and list(made.readers.values()) == [second]


def test_goes_on_where_an_earlier_one_of_its_name_was() -> None:
    made = core()
    (reader,), _ = made.ask([document()])
    made.heard(
        Header(wire.OPENED, reader.channel, 12, record=30), wire.to_json({"here": True, "received": 100, "consumed": 90, "limit": 500}), 0
    )
    ((_, header),) = send(made, 1)
    assert (header.sequence, header.record) == (12, 30)
    assert (reader.credit.sent, reader.credit.consumed, reader.credit.limit) == (110, 90, 500)


def test_a_reader_that_was_not_there_yet_is_asked_again_though_nobody_has_news() -> None:
    """The news that it runs came while our question was under way."""
    made = core()
    recovers = document() | {"keeps": True, "attempt": 1, "here": True}
    (reader,), _ = made.ask([recovers])
    assert not made.drop_gone([recovers]) and not made.has_astray
    hear(made, reader, wire.OPENED, {"here": False, "over": False})
    assert made.has_astray and said(made.ask_astray()) == [(wire.OPEN, HERE, 0)]
    assert not made.has_astray and not made.ask_astray(), "it has been asked"
    hear(made, reader, wire.OPENED, {"here": False, "over": False})
    made.leave()
    assert not made.has_astray and not made.ask_astray()


GROWN = replace(STREAM, schema=Schema((*STREAM.schema.fields, Field("price", INT64, True))))


def test_one_that_grows_says_so_to_all_that_are_there_with_the_numbers_it_has_come_to() -> None:
    made, readers = opened(document("a"), document("b"), document("gone"), document("closed"))
    send(made, 5_000)
    readers[2].gone = readers[3].closed = True
    commands = made.grow(GROWN)
    assert said(commands) == [(wire.OPEN, HERE, 1)] * 2
    for command, reader in zip(commands, readers, strict=False):
        assert isinstance(command, Send) and (command.header.channel, command.header.record) == (reader.entry, reader.credit.sent)
        assert wire.from_json(command.body)["schema"] == GROWN.schema.to_json()
    header = made.numbering.batch(readers[0], 10, 7, MIN_TIME)
    assert header.fingerprint == Format.published(GROWN).fingerprint != Format.published(STREAM).fingerprint


def test_one_that_has_grown_says_so_wherever_it_opens_next() -> None:
    made, (reader,) = opened()
    made.grow(GROWN)
    commands = [*redirect(made, reader), *made.ask([document("q"), document("new")])[1]]
    bodies = [wire.from_json(each.body) for each in commands if isinstance(each, Send) and each.header.kind == wire.OPEN]
    assert [body["schema"] for body in bodies] == [GROWN.schema.to_json()] * 2


def test_one_that_has_grown_and_is_asked_for_by_the_next_attempt_says_what_it_had_sent_when_it_opened() -> None:
    """The rows since are what that attempt asks for, sent to whichever reader."""
    made = core()
    made.numbering.sent_until = 5
    (reader,), _ = made.ask([document() | {"keeps": True}])
    made.numbering.sent_until = 7
    made.grow(GROWN)
    assert reader.log is not None
    assert (reader.log.opening["sent_until"], reader.log.opening["schema"]) == (5, GROWN.schema.to_json())


def test_one_that_is_closed_grows_in_silence() -> None:
    made, _ = opened()
    made.say_goodbye(False, [])
    assert made.grow(GROWN) == []


def test_a_reader_that_has_moved_answers_from_where_it_is() -> None:
    made = core()
    (reader,), _ = made.ask([document()])
    assert let_in(made, reader, endpoint=THERE) == [Listen(THERE, reader.channel)]
    assert reader.endpoint == THERE


def test_one_that_has_moved_before_it_heard_us_is_asked_where_it_is() -> None:
    """Its process may have been gone when what asked it came: its query never heard of this publisher, and its stream never ended."""
    made = core()
    (reader,), _ = made.ask([document()])
    commands = made.drop_gone([document(endpoint=THERE)])
    assert commands[0] == Listen(THERE, reader.channel) and said(commands) == [(wire.OPEN, THERE, 0)]
    assert let_in(made, reader) == []
    assert made.drop_gone([document(endpoint=HERE)]) == [] and reader.endpoint == THERE, "it says itself when it moves"


def test_one_that_has_moved_and_back_before_it_heard_us_is_asked_again() -> None:
    """What asked it came while it was elsewhere, and its publisher heard of neither move."""
    made = core()
    (reader,), _ = made.ask([document()])
    assert said(made.drop_gone([document()])) == [(wire.OPEN, HERE, 0)]
    assert let_in(made, reader) == []
    assert made.drop_gone([document()]) == [], "it has let us in"


def test_one_that_is_not_there_is_gone() -> None:
    made = core()
    (reader,), _ = made.ask([document()])
    let_in(made, reader, here=False)
    assert reader.gone and made.readers.forget_gone() == [Leave(reader.channel)] and not made.readers


ELSEWHERE = {"here": False, "over": False, "elsewhere": True}


def test_one_that_the_process_does_not_know_is_waited_for_until_the_orchestrator_says_where_it_is() -> None:
    """What asked it was late: it has moved away since, and another process has the address of the one before."""
    made = core()
    (reader,), _ = made.ask([document()])
    assert not hear(made, reader, wire.OPENED, ELSEWHERE) and not reader.gone and made.readers.awaited
    assert made.readers.forget_gone() == [] and not made.settled([reader], 10), "its rows wait"
    assert said(made.ask_astray()) == [(wire.OPEN, HERE, 0)] and not made.has_astray, "it may not have been made there yet"
    assert not hear(made, reader, wire.OPENED, ELSEWHERE) and made.has_astray
    assert said(made.drop_gone([document(endpoint=THERE)])) == [(wire.OPEN, THERE, 0)]
    let_in(made, reader)
    assert made.settled([reader], 10) and not made.readers.awaited
    hear(made, reader, wire.OPENED, ELSEWHERE)
    assert reader.is_here, "that is what asked the place before, and was late"


def test_one_that_the_process_does_not_know_is_gone_once_its_query_is() -> None:
    made = core()
    (reader,), _ = made.ask([document()])
    hear(made, reader, wire.OPENED, ELSEWHERE)
    assert made.drop_gone([]) == [] and made.settled([reader], 10) and made.choose([reader], 10) is None
    assert made.readers.forget_gone() == [Leave(reader.channel)] and not made.readers


def test_one_that_was_not_where_it_was_asked_hears_the_last_word_where_it_is() -> None:
    made = core()
    (reader,), _ = made.ask([document()])
    hear(made, reader, wire.OPENED, ELSEWHERE)
    assert made.say_goodbye(True, []) == [] and made.readers.uncovered, "where it is has to be asked"
    assert said(made.drop_gone([document(endpoint=THERE)])) == [(wire.OPEN, THERE, 0)]
    assert said(let_in(made, reader)) == [(wire.CLOSE, THERE, 0)] and not made.readers.uncovered
    hear(made, reader, wire.CLOSED, {"heard": True})
    assert not made.readers.unclosed


# --- sending -----------------------------------------------------------------------------------------------------------


def test_a_batch_goes_to_the_first_with_credit() -> None:
    made, (one, other) = opened(document("a", 0), document("a", 1), limit=0)
    taken = {send(made, 1)[0][0], send(made, 2)[0][0]}  # each may have one outstanding
    assert taken == {one, other} and not made.settled([one, other], 10)
    hear(made, other, wire.CREDIT, sequence=10, record=100)
    assert made.settled([one, other], 10) and made.choose([one, other], 10) is other


def test_one_that_has_not_let_us_in_is_waited_for() -> None:
    made, _ = opened()
    (late,), _ = made.ask([document(), document("late")])
    assert not made.settled([late], 10) and [late] in made.readers.queries()
    let_in(made, late)
    assert made.settled([late], 10)


def test_a_query_that_is_over_is_not_waited_for() -> None:
    made, (reader,) = opened(limit=0)
    send(made, 1)
    assert not made.settled([reader], 10)
    hear(made, reader, wire.CLOSED)  # without a word: it is over itself
    assert reader.gone and made.settled([reader], 10) and made.choose([reader], 10) is None and not made.unheard()


# --- closed by a reader ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ({"reason": "it lies"}, "was closed by query 'q', which could not take what it sent: it lies"),
        ({"record": 5}, "silent for so long that it counts as closed at query 'q' (which took rows up to number 4)"),
        ({"record": 0}, "(which took no row)"),
    ],
)
def test_a_reader_that_closes_it_is_an_error(word: dict[str, Any], complaint: str) -> None:
    made, (reader,) = opened()
    hear(made, reader, wire.CLOSED, word)
    assert made.readers.only(10) is None and made.settled([reader], 10)
    for call in (lambda: made.choose([reader], 10), lambda: made.promise(5)):
        with pytest.raises(ClusterError) as raised:
            call()
        assert complaint in str(raised.value)
    assert made.numbering.max_time == MIN_TIME


def test_the_cluster_is_lost_with_its_last_reader() -> None:
    made, (one, other) = opened(document("a"), document("b", endpoint=THERE))
    assert made.readers.endpoints == {HERE, THERE}
    made.lose({HERE}, "it is away", True)
    assert one.gone and not other.gone and made.lost is None
    made.lose({THERE}, "it is away", False)
    with pytest.raises(ClusterError, match=f"instance managers at {THERE} that read it have ended, and it is away"):
        made.check_open()
    empty = core()
    empty.lose(set(), "it is away", False)
    assert empty.lost is None
    empty.lose(set(), "it is away", True)
    assert "no query reads it" in str(empty.lost)


# --- a reader moves ----------------------------------------------------------------------------------------------------


def redirect(made: PublisherCore, reader: StreamReader) -> Sequence[StreamCommand]:
    barrier = MoveBarrier(3, "SQ1", 0, THERE)
    return made.heard(Header(wire.REDIRECT, reader.channel), wire.body_of(barrier, made.numbering.format), 0)


def test_it_follows_a_reader_that_moves() -> None:
    made, (reader,) = opened()
    send(made, 5_000)
    commands = redirect(made, reader)
    assert said(commands) == [(wire.BARRIER, HERE, 1), (wire.OPEN, THERE, 2)] and commands[1] == Listen(THERE, reader.channel)
    opening = commands[2]
    assert isinstance(opening, Send) and opening.header.record == reader.credit.sent == 10
    assert wire.from_json(opening.body) == {"publisher": "p", "endpoint": OURS, "schema": made.stream.schema.to_json()}
    ((_, header),) = send(made, 6_000)
    assert (header.sequence, reader.endpoint) == (2, THERE)
    hear(made, reader, wire.UNKNOWN, {"endpoint": HERE, "process": 1}, sequence=9)  # the old place has forgotten us
    assert reader.is_here


def test_what_it_says_to_one_that_moves_promises_nothing_of_rows_that_are_under_way() -> None:
    """They go to the new place, and the old one would give out what is younger before them. One that has its part knows better."""
    made, (one, other) = opened(document("a"), document("b"))
    send(made, 5_000)
    before = made.numbering.advance(9_000)
    made.numbering.batch(one, 10, 7, before)  # and the other one has no credit
    barriers = [redirect(made, reader)[0] for reader in (one, other)]
    assert [each.header.watermark for each in barriers if isinstance(each, Send)] == [8_000, 4_000]
    made.numbering.batch(other, 10, 7, before)
    made.numbering.sent(1)
    assert made.tell_watermark() == [] and (one.watermark, other.watermark) == (8_000, 8_000)


@pytest.mark.parametrize("state", ["not opened", "last word said"])
def test_it_follows_no_reader_then(state: str) -> None:
    made, (reader,) = opened()
    if state == "not opened":
        reader.opened = False
    else:
        made.say_goodbye(True, [])
    assert redirect(made, reader) == NOTHING and reader.endpoint == HERE


# --- closing -----------------------------------------------------------------------------------------------------------


def test_its_last_word_says_how_much_it_sent_and_which_others_are_open() -> None:
    made, (one, other) = opened(document("a"), document("b"))
    send(made, 5_000)
    assert made.give_up() and not made.give_up()
    with pytest.raises(ClusterError, match="is closed; open another one"):
        made.check_open()
    commands = made.say_goodbye(True, ["x", "y"])
    assert said(commands) == [(wire.CLOSE, HERE, 1)] * 2 and made.ask([document("late")]) == ([], [])
    words = [wire.from_json(each.body) for each in commands if isinstance(each, Send)]
    assert words == [{"last": True, "others": ["x", "y"], "endpoint": OURS, "entry": each.entry} for each in (one, other)]
    assert {each.header.record for each in commands if isinstance(each, Send)} == {10}
    hear(made, one, wire.CLOSED, {"heard": True})
    assert made.readers.unclosed == [other]
    hear(made, other, wire.CLOSED)
    assert not made.readers.unclosed and made.unconfirmed(60) == "" and made.leave() == [Leave(one.channel), Leave(other.channel)]


def test_one_that_has_not_let_it_in_hears_its_last_word_once_it_has() -> None:
    """Its numbers go on where an earlier publisher of the name has left off, which it alone knows."""
    made = core()
    one, other = made.ask([document("a"), document("b")])[0]
    assert made.say_goodbye(True, []) == [] and made.readers.unclosed == [one, other]
    assert said(let_in(made, one, sequence=4)) == [(wire.CLOSE, HERE, 4)]
    assert let_in(made, other, here=False) == [] and made.readers.unclosed == [one]
    hear(made, one, wire.CLOSED, {"heard": True})
    assert not made.readers.unclosed and said(made.leave()) == []


def test_one_that_never_has_hears_it_when_it_is_waited_for_no_longer() -> None:
    made = core()
    (reader,), _ = made.ask([document()])
    made.say_goodbye(True, [])
    assert said(made.leave()) == [(wire.CLOSE, HERE, 0)] and said(let_in(made, reader)) == []


def test_its_last_word_says_which_publisher_of_its_name_it_is() -> None:
    made, _ = opened()
    made.incarnation = "a"
    (command,) = made.say_goodbye(True, [])
    assert isinstance(command, Send) and wire.from_json(command.body)["incarnation"] == "a"


def test_a_word_that_crosses_the_last_one_is_no_answer_to_it() -> None:
    made, (reader,) = opened()
    made.say_goodbye(True, [])
    hear(made, reader, wire.CLOSED, {"record": 4})
    assert made.readers.unclosed == [reader]
    hear(made, reader, wire.CLOSED, {"heard": True, "record": 4})
    assert not made.readers.unclosed and "rows up to number 3" in made.unconfirmed(60)


def test_what_closed_it_before_is_asked_again() -> None:
    """It may have been stopped for a while: its answer to the last word counts."""
    made, (reader,) = opened()
    hear(made, reader, wire.CLOSED, {"record": 4})
    made.say_goodbye(True, [])
    assert made.readers.unclosed == [reader] and not made.unheard()


def test_a_reader_that_confirms_nothing_is_complained_of_unless_it_has_ended() -> None:
    made, _ = opened(document("a"), document("b", endpoint=THERE))
    made.say_goodbye(True, [])
    made.readers.lose_unclosed({HERE})
    assert made.unconfirmed(60) == (
        f"publisher 'p' of stream 's': query 'b' at {THERE}: being stopped or busy it has not confirmed within 60 s what it was sent, "
        "and that it is closed"
    )


@pytest.mark.parametrize(
    "call", [lambda made: made.choose(list(made.readers.values()), 10), lambda made: made.ask_awake([]), lambda made: made.check_open()]
)
def test_nothing_is_sent_once_it_closes(call: Callable[[PublisherCore], object]) -> None:
    made, _ = opened()
    made.give_up()
    with pytest.raises(ClusterError, match="closed"):
        call(made)


# --- two of something, one after the other -----------------------------------------------------------------------------


def test_another_one_of_its_name_in_its_process_goes_on_behind_it() -> None:
    made, readers = opened(document("a"), document("b"))
    send(made, 1)
    made.check_replaceable()
    assert made.be_replaced() == [Leave(reader.channel) for reader in readers] and made.is_replaced
    for call in (made.check_open, lambda: made.choose(readers, 10), lambda: made.ask_awake(readers)):
        with pytest.raises(ClusterError, match="another publisher of its name goes on in its place"):
            call()
    assert made.settled(readers, 10), "a send that waits for credit ends"
    assert not made.give_up() and made.ask([document("c")]) == ([], [])


def test_not_while_it_keeps_in_memory_what_a_query_that_recovers_may_ask_for() -> None:
    made = core()
    (reader,), _ = made.ask([document() | {"keeps": True}])
    let_in(made, reader, volatile=True)
    made.check_replaceable()
    header = made.numbering.batch(reader, 10, 7, MIN_TIME)
    made.keep(reader, header, b"rows")
    with pytest.raises(ClusterError, match="no commit of query 'q' covers in its memory: close it before another one"):
        made.check_replaceable()
    hear(made, reader, wire.COVERED, sequence=1)
    made.check_replaceable()


def test_its_numbers_go_on_behind_the_furthest_of_its_readers() -> None:
    made = core()
    one, other = made.ask([document("a"), document("b")])[0]
    for reader, record in ((one, 30), (other, 10)):
        made.heard(Header(wire.OPENED, reader.channel, record=record), wire.to_json({"here": True}), 0)
    assert made.numbering.record == 30


def test_of_two_readers_of_a_query_one_that_is_gone_is_not_both() -> None:
    made, (one, other) = opened(document("a", 0), document("a", 1), limit=0)
    other.credit.sent = 10
    hear(made, one, wire.CLOSED)
    assert not made.settled([one, other], 10)
    hear(made, other, wire.CLOSED)
    assert made.settled([one, other], 10)


def test_a_new_place_that_has_not_said_which_process_it_is_cannot_be_another() -> None:
    made, (reader,) = opened()
    redirect(made, reader)
    hear(made, reader, wire.UNKNOWN, {"endpoint": THERE, "process": 9}, sequence=9)
    assert reader.is_here
