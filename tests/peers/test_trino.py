"""What comes out of our MATCH_RECOGNIZE is what comes out of Trino's, but for what is known to be otherwise."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cep.kernels.jit import interpreted
from driver import sql
from driver.streaming_sql.errors import SqlError
from tests.peers.java import MARKS, JavaPeer
from tests.peers.row_patterns import Asked, lines
from tests.peers.row_queries import ALL, EVENTS, ONE, RowQuery, drawn, our_text, ours
from tests.peers.test_esper import rows
from tests.peers.trino import TRINO, theirs

CASES = 200

pytestmark = MARKS


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    with JavaPeer.running(TRINO, tmp_path_factory.mktemp("trino")) as running, interpreted():
        yield running


def test_any_query_of_rows_that_both_can_say(peer: JavaPeer) -> None:
    found = 0
    for number in range(CASES):
        case = drawn(random.Random(number))
        mine = ours(case)
        assert mine == theirs(peer, case), f"case {number}: {our_text(case)} {case}"
        found += mine.total()
    assert found > CASES


def case(text: str, pattern: str, after: str = "PAST LAST ROW", out: str = ONE, measure: str = "LAST(B.i)") -> RowQuery:
    """Of variables A (0), B (1) and C (2), those that it has."""
    names = "".join(name for name in "ABC" if name in pattern)
    define = tuple((name, f"{name}.kind = {'ABC'.index(name)}") for name in names)
    return RowQuery(Asked(pattern, define, after, None, rows(text)), names, out, (measure,), ())


def test_matches_behind_to_next_row_are_numbered_as_they_come_out(peer: JavaPeer) -> None:
    """There in the order of their first rows: of those the first is known last."""
    query = replace(case("0112", "A B+ C | B", "TO NEXT ROW", ALL), numbered=True)
    mine, others = (sorted({(number, i) for _, i, number, name, _ in each if name != "C"}) for each in (ours(query), theirs(peer, query)))
    assert mine == [(1, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert others == [(1, 0), (1, 1), (1, 2), (2, 1), (3, 2)]


def refused(query: RowQuery) -> str:
    with pytest.raises(SqlError) as raised:
        sql(our_text(query), streams=[EVENTS])
    return str(raised.value)


def test_a_match_of_no_row_is_refused(peer: JavaPeer) -> None:
    """There each row that begins no other match is one."""
    query = case("01", "B*")
    assert "the pattern may take no row" in refused(query)
    assert theirs(peer, query) == Counter({(None,): 2, (1,): 1})


def test_what_is_repeated_takes_a_row(peer: JavaPeer) -> None:
    query = case("011", "(A?)+ B")
    assert "what is repeated may take no row" in refused(query)
    assert theirs(peer, query) == Counter([(1,), (2,)])


@pytest.mark.parametrize(
    ("pattern", "after", "text", "mine", "others"),
    [
        ("A C? B", "TO C", "01", "'C' may have no row", "variable is not present in match"),
        ("A? B", "TO B", "1", "may be the first of a match", "cannot skip to first row of match"),
    ],
)
def test_where_it_goes_on_is_known_before_it_runs(peer: JavaPeer, pattern: str, after: str, text: str, mine: str, others: str) -> None:
    """There a match from which it cannot go on ends the query."""
    query = case(text, pattern, after)
    assert mine in refused(query)
    with pytest.raises(RuntimeError, match=others):
        theirs(peer, query)
    assert not theirs(peer, case("2", pattern, after))


def test_a_condition_that_fails_is_not_true(peer: JavaPeer) -> None:
    """There it ends the query."""
    query = case("01", "A B")
    failing = replace(query, asked=replace(query.asked, define=(("A", "A.kind = 0"), ("B", "B.kind % A.kind = 0"))))
    assert not ours(failing)
    with pytest.raises(RuntimeError, match="Division by zero"):
        theirs(peer, failing)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("MEASURES RUNNING LAST(B.i) AS m ALL ROWS PER MATCH PATTERN (A B+)", "there is no RUNNING"),
        ("MEASURES MATCH_NUMBER() AS m ONE ROW PER MATCH PATTERN (A B+)", "MATCH_NUMBER() is of one row"),
        ("MEASURES CLASSIFIER() AS m ONE ROW PER MATCH PATTERN (A B+)", "CLASSIFIER() is of one row"),
        ("MEASURES FIRST(B.i, 1) AS m PATTERN (A B+)", "first takes a column of a variable"),
        ("MEASURES LAST(i) AS m PATTERN (A B+)", "last takes a column of a variable"),
        ("MEASURES COUNT(B.v) AS m PATTERN (A B+)", "count is of rows"),
        ("MEASURES LAST(U.i) AS m PATTERN (A B+) SUBSET U = (A, B)", "SUBSET"),
        ("MEASURES LAST(B.i) AS m PATTERN (^ A B+)", "there is no ^"),
        ("MEASURES LAST(B.i) AS m PATTERN (A B+ $)", "there is no $"),
        ("MEASURES FINAL LAST(B.i) AS m ALL ROWS PER MATCH PATTERN (A {- B+ -})", "there is no {- -}"),
        ("MEASURES FINAL LAST(B.i) AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+)", "UNMATCHED ROWS"),
        ("MEASURES NEXT(LAST(B.i)) AS m PATTERN (A B+)", "NEXT asks for a row that has not come"),
    ],
)
def test_what_it_alone_can_say(peer: JavaPeer, inside: str, said: str) -> None:
    text = f"SELECT m FROM events MATCH_RECOGNIZE (ORDER BY t {inside} DEFINE A AS A.kind = 0, B AS B.kind = 1)"
    assert peer.ask(lines(rows("011")[:-1], text))
    with pytest.raises(SqlError, match=re.escape(said)):
        sql(text.replace(" DEFINE", " NO TTL DEFINE"), streams=[EVENTS])


@pytest.mark.parametrize("pattern", ["A -> B", "A ->> B", "A !C B", "A B) GAP (C", "A B) WITHIN INTERVAL '1' SECOND (C"])
def test_what_it_cannot_say_is_an_error(peer: JavaPeer, pattern: str) -> None:
    with pytest.raises(RuntimeError, match="ParsingException"):
        theirs(peer, case("01", pattern))
