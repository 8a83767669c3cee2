"""Our matches are Esper's, but for what is known to be otherwise."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from cep.kernels.jit import interpreted
from cep.model.expr import col
from cep.model.patterns.parts import event
from tests.peers import event_patterns
from tests.peers.esper import ESPER, drawn, text_of, theirs
from tests.peers.event_patterns import Following
from tests.peers.java import MARKS, JavaPeer
from tests.peers.row_patterns import LAST_MS, Asked, Row, ours

CASES = 400

pytestmark = MARKS


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    with JavaPeer.running(ESPER, tmp_path_factory.mktemp("esper")) as running, interpreted():
        yield running


def test_any_row_pattern_that_both_can_say(peer: JavaPeer) -> None:
    found = 0
    for number in range(CASES):
        case = drawn(random.Random(number))
        mine = ours(case)
        assert mine == theirs(peer, case.rows, text_of(case)), f"case {number}: {case}"
        found += mine.total()
    assert found > CASES


def test_any_pattern_of_events_that_both_can_say(peer: JavaPeer) -> None:
    found = 0
    for number in range(CASES):
        case = event_patterns.drawn(random.Random(number))
        mine = event_patterns.ours(case)
        assert mine == theirs(peer, case.rows, event_patterns.text_of(case)), f"case {number}: {case}"
        found += mine.total()
    assert found > CASES


def rows(text: str) -> tuple[Row, ...]:
    """A digit a row of one group: its kind, a millisecond each; and one far behind."""
    return (*(Row(0, i, i, int(kind), 0) for i, kind in enumerate(text)), Row(0, LAST_MS, len(text), 9, 0))


def of_rows(text: str, pattern: str, after: str = "PAST LAST ROW", **define: str) -> Asked:
    return Asked(pattern, tuple(define.items()), after, None, rows(text))


def test_of_several_matches_of_a_start_the_one_that_ends_first_is_told(peer: JavaPeer) -> None:
    """Ours is the preferred one, as SQL:2016 has it: B takes what it can."""
    case = of_rows("0111", "A B+ C", A="A.kind = 0", B="B.kind = 1", C="C.kind = 1")
    assert list(ours(case)) == [(0, (("A", (0,)), ("B", (1, 2)), ("C", (3,))))]
    assert list(theirs(peer, case.rows, text_of(case))) == [(0, (("A", (0,)), ("B", (1,)), ("C", (2,))))]


def test_two_matches_of_a_group_at_once_are_lost_behind_partition_by(peer: JavaPeer) -> None:
    """It looks for a group that it has let go, and by itself only logs that."""
    case = of_rows("001", "A+ B", "TO NEXT ROW", A="A.kind = 0", B="B.kind = 1")
    assert list(ours(case)) == [(0, (("A", (0, 1)), ("B", (2,)))), (0, (("A", (1,)), ("B", (2,))))]
    assert theirs(peer, case.rows, text_of(case)) == ours(case)
    _, text = text_of(case).split(";")
    with pytest.raises(RuntimeError, match="NullPointerException"):
        theirs(peer, case.rows, text.replace("context Groups", "").replace("match_recognize (", "match_recognize (partition by g "))


def test_a_row_that_is_two_parts_of_all_of_them_is_both(peer: JavaPeer) -> None:
    """`b and c` of it are true by one event; ours takes a row once."""
    b, c = event("b", col("kind") == 1), event("c", col("kind") >= 1)
    part = event("a", col("kind") == 0).then(event_patterns.all_of(b, c, by="then"))
    said = "every a=Events(kind=0) -> (b=Events(kind=1) and c=Events(kind>=1)) where timer:within(16 msec)"
    case = Following(part, said, "abc", 15, rows("012"))
    assert list(event_patterns.ours(case)) == [(0, (("a", (0,)), ("b", (1,)), ("c", (2,))))]
    assert list(theirs(peer, case.rows, event_patterns.text_of(case))) == [(0, (("a", (0,)), ("b", (1,)), ("c", (1,))))]


def test_the_end_of_a_time_is_not_in_it(peer: JavaPeer) -> None:
    """That is why it is told a millisecond more."""
    part = event("a", col("kind") == 0).then(event("b", col("kind") == 1))
    said = "every a=Events(kind=0) -> b=Events(kind=1) where timer:within({} msec)"
    asked = {time: Following(part, said.format(time), "ab", 2, rows("021")) for time in (2, 3)}
    assert event_patterns.ours(asked[2]) == theirs(peer, asked[3].rows, event_patterns.text_of(asked[3]))
    assert not theirs(peer, asked[2].rows, event_patterns.text_of(asked[2]))


def test_what_every_begins_anew_when_its_time_is_over_does_not_see_starts_between(peer: JavaPeer) -> None:
    """`every (a -> b)` has one start at a time; ours has each a."""
    part = event("a", col("kind") == 0).then(event("b", col("kind") == 1))
    case = Following(part, "every (a=Events(kind=0) -> b=Events(kind=1) where timer:within(4 msec))", "ab", 3, rows("02021"))
    assert list(event_patterns.ours(case)) == [(0, (("a", (2,)), ("b", (4,))))]
    assert not theirs(peer, case.rows, event_patterns.text_of(case))
