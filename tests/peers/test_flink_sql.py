"""The matches of our MATCH_RECOGNIZE are Flink's, but for what is known to be otherwise."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from cep.kernels.jit import interpreted
from tests.peers.flink_sql import FLINK_SQL, drawn, ours_told, theirs
from tests.peers.java import MARKS, JavaPeer
from tests.peers.row_patterns import Asked
from tests.peers.test_esper import rows

CASES = 60

pytestmark = MARKS


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    with JavaPeer.running(FLINK_SQL, tmp_path_factory.mktemp("flink_sql")) as running, interpreted():
        yield running


def test_any_row_pattern_that_both_can_say(peer: JavaPeer) -> None:
    found = 0
    for number in range(CASES):
        case = drawn(random.Random(number))
        mine = ours_told(case)
        assert mine == theirs(peer, case), f"case {number}: {case}"
        found += mine.total()
    assert found > CASES


def case(text: str, pattern: str, within: int | None = None, **define: str) -> Asked:
    return Asked(pattern, tuple(define.items()), "PAST LAST ROW", within, rows(text))


#: What is otherwise there: (case, our match, theirs), a match as the first and last row of each variable and how many.
KNOWN = {
    "what takes as many rows as it can gives none back, so a match is lost": (
        case("0111", "A B+ C", A="A.kind = 0", B="B.kind = 1", C="C.kind = 1"),
        (("A", 0, 0, 1), ("B", 1, 2, 2), ("C", 3, 3, 1)),
        None,
    ),
    "what takes as few rows as it can takes more, if what follows can take them": (
        case("0112", "A+? B+ C", A="A.kind <= 1", B="B.kind = 1", C="C.kind = 2"),
        (("A", 0, 0, 1), ("B", 1, 2, 2), ("C", 3, 3, 1)),
        (("A", 0, 1, 2), ("B", 2, 2, 1), ("C", 3, 3, 1)),
    ),
}


@pytest.mark.parametrize("why", KNOWN)
def test_what_is_known_to_be_otherwise(peer: JavaPeer, why: str) -> None:
    asked, mine, others = KNOWN[why]
    assert list(ours_told(asked)) == [(0, mine)]
    assert list(theirs(peer, asked)) == ([(0, others)] if others else [])


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("A B+", "last element of a Pattern"), ("A (B | C)", "branch"), ("A+ B? C", "Optional pattern cannot"), ("A B?? C", "Reluctant")],
)
def test_what_it_cannot_say_is_an_error(peer: JavaPeer, pattern: str, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        theirs(peer, case("012", pattern, A="A.kind = 0", B="B.kind = 1", C="C.kind = 2"))
