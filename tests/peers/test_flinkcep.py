"""Our matches are FlinkCEP's, but for what is known to be otherwise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cep.kernels.jit import interpreted
from tests.peers.flinkcep import FLINK_CEP, theirs
from tests.peers.java import MARKS, JavaPeer
from tests.peers.pattern_cases import KINDS, WITHIN_MAX, Case, Part, Row, counted, drawn, ours

CASES = 3_000

pytestmark = MARKS


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    with JavaPeer.running(FLINK_CEP, tmp_path_factory.mktemp("flinkcep")) as running:
        yield running


def test_any_pattern_that_both_can_say(peer: JavaPeer) -> None:
    found = 0
    with interpreted():
        for number in range(CASES):
            case = drawn(random.Random(number))
            mine, others = ours(case), theirs(peer, case)
            assert mine == others, f"case {number}: {case}"
            found += mine.total()
    assert found > CASES // 2


def rows(text: str) -> tuple[Row, ...]:
    """A digit a row: its kind; one behind the other, and one that is behind all that is within."""
    kinds = [int(kind) for kind in text]
    return (*(Row(i, kind, 0) for i, kind in enumerate(kinds)), Row(len(kinds) + 2 * WITHIN_MAX, KINDS, 0))


def case(text: str, *parts: Part, after: str = "all", within: int = WITHIN_MAX) -> Case:
    return Case(parts, after, None, within, rows(text))


A, B, C = (Part(name, "then", kind) for kind, name in enumerate("abc"))
ABC = {"a": (0,), "b": (1,), "c": (2,)}
#: What is otherwise there, and by which rule of ours: (case, our matches, theirs).
KNOWN = {
    "a negation behind a repetition has to do with what is between its rows, too; ours: strictly between its neighbours": (
        case("0201", replace(A, times=2), replace(B, never=(2, "then"))),
        [{"a": (0, 2), "b": (3,)}],
        [],
    ),
    "a row that goes on, to a repetition, and is negated as well, ends what there was; ours: it is not between": (
        case("011", A, replace(B, times=2, never=(1, "then"))),
        [{"a": (0,), "b": (1, 2)}],
        [],
    ),
    "`then` leaves out a row that the part behind an optional one could take; ours: what a variable possible there takes is not left out": (
        case("0212", A, replace(B, optional=True), C),
        [{"a": (0,), "c": (1,)}],
        [{"a": (0,), "c": (1,)}, {"a": (0,), "b": (2,), "c": (3,)}],
    ),
    "a match of a start is the first that comes; ours: the preferred one, which takes an optional part": (
        case("022", A, replace(B, kind=2, optional=True), C, after="to_next"),
        [{"a": (0,), "b": (1,), "c": (2,)}],
        [{"a": (0,), "c": (1,)}],
    ),
}


@pytest.mark.parametrize("why", KNOWN)
def test_what_is_known_to_be_otherwise(peer: JavaPeer, why: str) -> None:
    asked, mine, others = KNOWN[why]
    assert ours(asked) == counted(mine)
    assert theirs(peer, asked) == counted(others)


def test_the_end_of_within_is_not_in_it(peer: JavaPeer) -> None:
    """That is why they are told a millisecond more."""
    asked = case("012", A, B, C, within=2)
    assert ours(asked) == theirs(peer, asked) == counted([ABC])
    assert theirs(peer, replace(asked, within=1)) == counted([])


def test_what_it_cannot_say_is_an_error(peer: JavaPeer) -> None:
    with pytest.raises(RuntimeError, match="optional path to NOT"):
        theirs(peer, case("012", A, replace(B, optional=True), replace(C, never=(0, "then"))))
    assert theirs(peer, case("012", A, B, C)) == counted([ABC])
