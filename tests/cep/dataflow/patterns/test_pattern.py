"""Pattern against its definitions (`tests/reference/patterns.py`): drawn patterns over drawn rows, cut and dealt anyhow.

Tests `pattern.py`, `outcomes.py`, `saved.py`, `ways_snapshot.py`, `cep/compile/patterns/conditions.py`,
`cep/compile/patterns/conditions_source.py`, `cep/compile/patterns/groups.py`, `cep/compile/patterns/measures.py`,
`cep/compile/patterns/registers.py`, `cep/compile/patterns/ways.py`, `cep/kernels/patterns/chains.py`, `cep/kernels/patterns/lines.py`,
`cep/kernels/patterns/loop.py`, `cep/kernels/patterns/places.py`, `cep/kernels/patterns/way_conditions.py`,
`cep/kernels/patterns/way_lines.py`, `cep/kernels/patterns/ways.py`, `cep/model/operators/pattern_ways.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event as seen
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.compile.patterns.choice import each_way_apart
from cep.compile.patterns.conditions import compile_conditions
from cep.compile.patterns.groups import life_of
from cep.compile.patterns.ways import Ways
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.patterns import kept_rows
from cep.dataflow.patterns.pattern import PatternOperator
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME
from cep.errors import StateLimitExceeded
from cep.kernels.columns import Columns
from cep.kernels.jit import compilations, interpreted
from cep.model.expr import ColumnRef, Expr, col, now
from cep.model.operators import Pattern
from cep.model.patterns.parts import PatternPart, bare, definitions, event
from cep.model.patterns.rows import prev, row
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution
from tests.strategies.patterns import patterns
from tests.support.plans import planned
from tests.support.running import expected_of, run_case
from tests.support.single_operator import Tuple, batch_of, feed, made, rows_of, run_alone, run_restored, watermark

SCHEMA = Schema.of({"t": "timestamp[us]", "k": "string", "e": "string?", "v": "int64?", "x": "float64", "w": "string?"})
STREAM = Stream("s", SCHEMA, ColumnRef("t"), 3)
LETTERS = ("a", "b", "c")
#: Of which x is: sums that round, that need many words, that are NaN.
REALS = (0.1, 0.2, 1e300, -1e300, 3.0, float("nan"), -0.0)


@st.composite
def rows(draw: st.DrawFn, most: int = 12) -> list[tuple[Any, ...]]:
    cells = st.tuples(
        st.integers(-3, 6),
        st.sampled_from(("p", "q", "p")),
        st.sampled_from((*LETTERS, *LETTERS, None)),
        st.sampled_from((0, 1, 2, 3, None, 2**62)),
        st.sampled_from(REALS),
        st.sampled_from(("", "u", "longer than fifteen bytes", None)),
    )
    count = draw(st.integers(0, most))
    return sorted(draw(st.lists(cells, min_size=count, max_size=count)), key=lambda cell: cell[0])


def one_of_letters() -> st.SearchStrategy[Expr]:
    """Mostly few, so that rows differ in what they may be."""
    chosen = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3, unique=True)
    return chosen.map(lambda letters: col("e").is_in(letters))


#: What rows there may be more before they are looked through, and stay for each that is named, if they leave by age; and their numbers.
LEAVINGS = st.sampled_from(((0, 1, 6), (2, 1, 1_000), (kept_rows.ROWS_MORE, kept_rows.SPARE, kept_rows.NUMBERS_MAX)))


@contextmanager
def leaving_rows(leaving: tuple[int, int, int]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in zip(("ROWS_MORE", "SPARE", "NUMBERS_MAX"), leaving, strict=True):
            patched.setattr(kept_rows, name, value)
        yield


def query_of(pattern: Pattern) -> Query:
    outputs = tuple(Output(f"out {name}", name) for name in pattern.branches)
    return Query("q", (STREAM,), (pattern,), outputs)


def executions() -> st.SearchStrategy[Execution]:
    made = st.tuples(st.integers(1, 4), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 99))
    return made.map(lambda drawn: Execution(Options(parallelism=drawn[0]), tuple(drawn[1]), (), (*range(drawn[0]), 0), 1 << 20, drawn[2]))


@settings(deadline=None)
@given(patterns(("s",), SCHEMA, "p", ("k",), one_of_letters()), rows(), executions(), LEAVINGS)
def test_it_finds_what_the_definitions_say(
    pattern: Pattern, given_rows: list[tuple[Any, ...]], execution: Execution, leaving: tuple[int, int, int]
) -> None:
    with leaving_rows(leaving):
        check(pattern, given_rows, execution)


@settings(deadline=None)
@given(patterns(("s",), SCHEMA, "p", ("k",)), rows(), executions())
def test_rows_of_any_condition_are_left_out_before_they_are_sent(
    pattern: Pattern, given_rows: list[tuple[Any, ...]], execution: Execution
) -> None:
    """Conditions over the row that are NULL, and that fail."""
    seen("none" if pattern.relevant is None else "left out")
    check(pattern, given_rows, execution)


def check(pattern: Pattern, given_rows: list[tuple[Any, ...]], execution: Execution) -> None:
    query = query_of(pattern)
    inputs = {"s": [Partition(0, given_rows)]}
    expected = expected_of(query, inputs)
    with interpreted():
        ran = run_case(Case(query, inputs), execution)
    assert_same_answer(expected.outputs, ran.outputs)
    assert Counter(expected.dead_counts()) == ran.dead


# --- state that moves -------------------------------------------------------------------------------------------------


def make(pattern: Pattern) -> PatternOperator:
    """What finds matches, by itself."""
    ways = pattern.finding
    conditions = compile_conditions(ways, SCHEMA, None, pattern.name)
    return PatternOperator(ways, conditions, [SCHEMA], None, Hold(SCHEMA, 2, ties=False), 1 << 30, lambda: 0, DeadLetters())


def tuples(given_rows: list[tuple[Any, ...]], choose: random.Random) -> list[Tuple]:
    """As they arrive, in a little disorder."""
    found = [Tuple(row[0], (0, number), dict(zip(SCHEMA.names, row, strict=True))) for number, row in enumerate(given_rows)]
    return sorted(found, key=lambda each: each.time + choose.randrange(3))


@settings(deadline=None)
@given(patterns(("s",), SCHEMA, "p", ("k",), one_of_letters()), rows(), st.integers(0, 999))
def test_a_restored_instance_goes_on(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    check_restored(pattern, given_rows, random.Random(seed))


def check_restored(pattern: Pattern, given_rows: list[tuple[Any, ...]], choose: random.Random) -> None:
    """What came to some instances and, from a moment on, to others with their state, comes out as from one."""
    arrivals = tuples(given_rows, choose)
    with interpreted():
        whole = run_alone(make(pattern), arrivals, SCHEMA, choose)
        restored = run_restored(lambda: make(pattern), ("k",), arrivals, SCHEMA, choose)
    assert made(restored) == made(whole)


@settings(deadline=None)
@given(patterns(("s",), SCHEMA, "p", ("k",), one_of_letters()), rows(), st.integers(0, 999))
def test_state_that_is_taken_out_and_put_back_is_the_same(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    """As where buckets move: an instance is without some of its groups, and gets them back, while it is at work."""
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        whole = run_alone(make(pattern), arrivals, SCHEMA, choose)
        operator, found, cut = make(pattern), [], choose.randrange(len(arrivals) + 1)
        found += feed(operator, arrivals[:cut], arrivals[cut:], SCHEMA, choose)
        parts = operator.snapshot()
        operator.clear()
        for own in (True, False):
            operator.restore(parts, lambda port, columns, own=own: np.array([(key == "p") == own for key in keys_of(columns)], bool))  # type: ignore[misc]
        found += run_alone(operator, arrivals[cut:], SCHEMA, choose)
    assert made(found) == made(whole)


def keys_of(columns: Columns) -> list[Any]:
    return [row["k"] for row in rows_of({"k": columns["k"]})]


# --- limits, several inputs, machine code -----------------------------------------------------------------------------


def pattern_of(part: PatternPart, **more: Any) -> Pattern:
    given_: dict[str, Any] = {"ttl": None, "measures": (("v", row("A")["v"]),), **more}
    return Pattern("p", ("s",), tuple(definitions(part).items()), bare(part), ("k",), **given_)


A, B = event("A", col("e") == "a"), event("B", col("e") == "b")
C, D = event("C", col("e") == "c"), event("D", col("e") == "d")
EITHER = event("C", col("e") == "a")
ONE_INSTANCE = Execution(Options(parallelism=1), (2,), (), (0, 0), 1 << 20, 0)


def row_at(time: int, letter: str, v: int = 0, key: str = "p") -> tuple[Any, ...]:
    return (time, key, letter, v, 0.0, "")


def in_turn(letters: str) -> list[tuple[Any, ...]]:
    """One a moment; nothing comes where there is a space."""
    return [row_at(time, letter, time) for time, letter in enumerate(letters) if letter != " "]


#: What has to be right, starts together or each way by itself -> the pattern, and the letters that come (`in_turn`).
EXAMPLES: dict[str, tuple[Pattern, str]] = {
    "a way may not skip what another with its rows takes": (pattern_of(A.then(C) | A.then(B).then(D), within=9), "abcd"),
    "a row between is forbidden": (pattern_of(A.not_then(B).then(C), within=9), "abcac"),
    "a row right behind is forbidden": (pattern_of(A.not_next(B).then(C), within=9, after="to_next"), "aabcc"),
    "a row right behind is another": (pattern_of(A.next(B), within=3, timed_out=True), "axxxxabxx"),
    "of ways that go on alike the preferred one stays": (pattern_of((A | EITHER).then(B).then(D), within=9), "abd"),
    "each start has the rows that its cohort came by": (
        pattern_of(A.then(B).then(C), within=9, after="to_next", measures=(("a", row("A")["v"]), ("b", row("B")["v"]))),
        "abaabbc",
    ),
    "it goes on at the row that is named": (pattern_of(A.then(EITHER).then(B), within=9, after="to_first C"), "aaababb"),
    "and at the last": (pattern_of(A.then(EITHER.times(1, 2)).then(B), within=9, after="to_last C"), "aaaabaab"),
    "what a match has used has not timed out": (pattern_of(A.then(EITHER).then(B), within=4, after="to_next", timed_out=True), "aabaxxxxx"),
    "a match is known when its last way has died": (pattern_of(A.then(B.times(1, 3)), within=4, timed_out=True), "abbaxxxxxab"),
    "a match that waited for an earlier start comes out when that is over": (pattern_of(A.then(B) | C.then(D), within=9), "acdxxxxxxxxxx"),
    "however often": (pattern_of(C.next(D) | A.then(B) | C.then(B), within=9), "acdacdxxxxxxxxxx"),
    "a match that another way was preferred to comes out when time ends that": (
        pattern_of(A.then(C) | A, within=3, after="to_next"),
        "axaxcxxxxx",
    ),
    "the row that ends what was preferred to a match may begin the next": (pattern_of(A.not_then(A).then(C) | A, within=9), "aacaaxc"),
    "and starts are open behind that match": (pattern_of(A.not_then(B).then(C) | A | D.then(C), within=9), "adbxcx"),
    "next that joins nothing has all rows in the sequence": (
        pattern_of(A.times(1, 1, by="next"), ttl=2, rows="all", measures=(("m", row("A")["v"]),)),
        "axxxxxa",
    ),
    "what may not come has not come": (pattern_of(A.absent(B, for_="3us"), measures=(("t", row("A")["t"]),)), "aaxbaxaxxxab"),
    "nor in the moment in which it is over": (pattern_of(A.absent(B, for_="3us")), "axxbaxxxb"),
    "nor right behind, as long as it may not come": (
        pattern_of(A.absent(B, for_="2us").not_next(C), after="to_next"),
        "a cxxa  c",
    ),
    "nor right behind": (pattern_of(A.absent(B, for_="4us").not_next(C), after="to_next"), "aaxacxbaxxxxx"),
    "of two that wait the preferred one is the match, or what is left": (
        pattern_of(A.absent(B, for_="4us") | EITHER.absent(D, for_="4us")),
        "axbxxxaxdxxxaxbdxaxxxxx",
    ),
    "what comes later is not decided before": (pattern_of(A.absent(B, for_="3us") | C.absent(D, for_="3us") | D), "acdxxxacxbxxx"),
    "when the group begins anew a match has waited as long": (
        pattern_of(A.absent(B, for_="3us"), ttl=3, rows="all", measures=(("n", row("A").count()),)),
        "abaxxxaabaxxxx",
    ),
    "time to live is over": (
        pattern_of(A.then(B).then(C), ttl=2, timed_out=True, rows="all", measures=(("n", row("B").count()),)),
        "abxxxcabc",
    ),
}


@pytest.mark.parametrize("what", EXAMPLES)
@each_way_apart()
def test_by_example(what: str) -> None:
    pattern, letters = EXAMPLES[what]
    assert isinstance(make(pattern).ways, Ways)
    check(pattern, in_turn(letters), ONE_INSTANCE)


COUNTED: dict[str, Any] = {"ttl": 2, "rows": "all", "measures": (("n", row("A").count()),)}


IN_EACH_LOOP = pytest.mark.parametrize(
    "pattern",
    [
        pattern_of(A, within=1, matches="all", **COUNTED),
        pattern_of(A.then(B), **COUNTED),
        pattern_of(A.then(event("B", (col("e") == "b") & (col("v") > row("A")["v"]))), **COUNTED),
    ],
    ids=["families", "cohorts", "ways"],
)


@IN_EACH_LOOP
@pytest.mark.parametrize("last", [-2, -1, 0])
def test_matches_are_numbered_anew_with_the_group_whenever_its_last_row_was(pattern: Pattern, last: int) -> None:
    """The microsecond before 1970 stood for no row."""
    letters = ((-1, "a"), (0, "b"), (9, "a"), (10, "b"))
    check(pattern, [row_at(last + time, letter, time) for time, letter in letters], ONE_INSTANCE)


@IN_EACH_LOOP
def test_matches_are_numbered_on_where_groups_without_any_start_are_forgotten(pattern: Pattern, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as their time to live is not over."""
    monkeypatch.setattr("cep.dataflow.patterns.pattern.GROUPS_MORE", -100)
    operator, found = make(pattern), []
    with interpreted():
        for time, letter in ((0, "a"), (1, "b"), (2, "a"), (3, "b"), (9, "a"), (10, "b")):
            arrival = Tuple(time, (0, time), dict(zip(SCHEMA.names, row_at(time, letter, time), strict=True)))
            operator.on_batch(batch_of([arrival], SCHEMA), 0)
            found += watermark(operator, time + 1)
        found += watermark(operator, MAX_TIME)
    assert [each.row["match_number"] for each in found if each.row["variable"] == "A"] == [1, 2, 1]
    assert not len(operator.numbers)


@settings(deadline=None, max_examples=30)
@given(rows(), executions(), st.sampled_from(("past_last", "to_next")), st.booleans(), st.sampled_from((None, 2)))
def test_starts_that_all_live_as_long_as_nothing_comes(
    given_rows: list[tuple[Any, ...]], execution: Execution, after: str, timed_out: bool, within: int | None
) -> None:
    """Time is asked of the first of them alone, where they do not go on together."""
    with each_way_apart():
        check(pattern_of(A.absent(B, for_="4us"), after=after, timed_out=timed_out, within=within), given_rows, execution)


def test_where_starts_live_as_long_is_known() -> None:
    lives = {A.absent(B, for_="4us"): 4, A | B.absent(A, for_="4us"): 4, A.then(A.absent(B, for_="4us")): None, A.then(B): None}
    lives |= {A.absent(B, for_="4us") | B.absent(A, for_="5us"): None, A.absent(B, for_="4us") | B.not_next(A): None, A.not_next(B): None}
    assert [life_of(pattern_of(part).finding) for part in lives] == list(lives.values())
    assert life_of(pattern_of(A.then(B), within=7).finding) == 7


def test_a_group_with_too_many_open_starts_fails_by_name() -> None:
    operator = make(pattern_of(A.then(B), limit=2))
    arrivals = tuples([row_at(time, "a") for time in range(4)], random.Random(0))
    with interpreted(), pytest.raises(StateLimitExceeded, match=r"operator 'p': group k='p' has more than 2 open starts"):
        run_alone(operator, arrivals, SCHEMA, random.Random(0))


def test_what_is_over_the_limit_is_called_as_the_query_calls_it() -> None:
    operator = make(pattern_of(A.then(B)))
    operator.state_limit = 100
    arrivals = tuples([row_at(time, "a") for time in range(40)], random.Random(0))
    with interpreted(), pytest.raises(StateLimitExceeded, match=r"operator 'p': its state of \d+ bytes is over the limit of 100 bytes"):
        run_alone(operator, arrivals, SCHEMA, random.Random(0))


def test_the_oldest_start_is_dropped_where_that_is_asked_for() -> None:
    pattern = pattern_of(A.then(B), limit=2, on_limit="drop_oldest", timed_out=True, after="to_next")
    operator = make(pattern)
    arrivals = [
        Tuple(r[0], (0, i), dict(zip(SCHEMA.names, r, strict=True)))
        for i, r in enumerate([*(row_at(t, "a", t) for t in range(4)), row_at(9, "b")])
    ]
    with interpreted():
        found = run_alone(operator, arrivals, SCHEMA, random.Random(0))
    assert sorted((each.time, each.row["out"], each.row["match.A.last.v.0"]) for each in found) == [
        (2, 1, 0),
        (3, 1, 1),
        (9, 0, 2),
        (9, 0, 3),
    ]
    assert operator.incomplete == 2


@each_way_apart()
def test_starts_that_timed_out_are_those_that_no_match_has_used() -> None:
    """The second start is a row of the first one's match; the third is in none."""
    part = A.then(event("C", col("e") == "a")).then(B)
    check(
        pattern_of(part, within=5, ttl=None, after="to_next", timed_out=True),
        [row_at(0, "a", 1), row_at(1, "a", 2), row_at(2, "b"), row_at(3, "a", 3)],
        ONE_INSTANCE,
    )


def test_ways_that_remember_different_rows_do_not_go_on_alike() -> None:
    """Both a's may be taken before the b, whose condition is over the last of them."""
    part = (event("A", col("e") == "a") | event("C", col("e") == "a")).times(1, 2, by="then").then(event("B", col("v") == row("A")["v"]))
    given_rows = [row_at(0, "a", 1), row_at(1, "a", 2), row_at(2, "b", 1), row_at(3, "b", 2)]
    for after in ("past_last", "to_next"):
        check(pattern_of(part, within=5, after=after), given_rows, ONE_INSTANCE)


def test_restored_ways_of_a_start_are_in_their_order() -> None:
    """Each a may be A or C, and both ways are kept, since what they remember differs; A is preferred."""
    part = (event("A", col("e") == "a") | event("C", col("e") == "a")).then(event("B", (col("e") == "b") & (row("A").count() >= 0)))
    pattern = pattern_of(part, within=9, measures=(("n", row("A").count()),))
    given_rows = [row_at(time, "ab"[time % 2]) for time in range(10)]
    for seed in range(8):
        check_restored(pattern, given_rows, random.Random(seed))


def test_of_ways_that_remember_different_rows_both_go_on() -> None:
    """Of two a's the first is the A of the preferred way, and the last the one of the other; only that one's B comes."""
    part = (event("A", col("e") == "a") | event("C", col("e") == "a")).times(2, 2, by="then").then(event("B", col("v") == row("C")["v"]))
    check(pattern_of(part, within=9), [row_at(0, "a", 1), row_at(1, "a", 2), row_at(2, "b", 1)], ONE_INSTANCE)


@each_way_apart()
def test_restored_ways_have_their_rows() -> None:
    part = A.then(B).then(event("C", col("e") == "c"))
    pattern = pattern_of(part, within=9, measures=(("a", row("A")["v"]), ("b", row("B")["v"])))
    given_rows = [row_at(time, "abc"[time % 3], time) for time in range(9)]
    for seed in range(8):
        check_restored(pattern, given_rows, random.Random(seed))


def test_an_irrelevant_row_is_not_the_last_of_its_group() -> None:
    """The c is no row of the sequence, so the first a has timed out before its b: where the c is left out before it is sent, and where
    that is not known of it by itself."""
    for b in (B, event("B", (col("e") == "b") & (col("t") < now()))):
        pattern = pattern_of(A.then(b), ttl=3)
        assert (pattern.relevant is None) == (b is not B)
        check(pattern, [row_at(0, "a"), row_at(2, "c"), row_at(4, "b"), row_at(5, "a"), row_at(6, "b")], ONE_INSTANCE)


def test_an_instance_without_any_way_moves() -> None:
    """Nothing is sent of it."""
    operator = make(pattern_of(A.then(B), within=5))
    operator.restore([], lambda port, columns: np.ones(0, bool))
    with interpreted():
        assert run_alone(operator, tuples([row_at(0, "a", 7), row_at(3, "b")], random.Random(0)), SCHEMA, random.Random(0))


def test_what_no_variable_may_be_is_left_out_where_it_is_read() -> None:
    """Before the balancer; a row on which a condition fails goes on, and is a dead letter of the pattern."""
    part = A.then(event("B", (col("e") == "b") & (col("v") + col("v") > 0)))
    pattern = pattern_of(part)
    assert pattern.relevant is not None
    plan = planned(replace(query_of(pattern), options=Options(parallelism=2)))
    (edge,) = (each for each in plan.edges if each.consumer == "p.ways")
    assert (edge.producer, edge.balancer) == ("p.relevant", "route-key")
    check(pattern, [row_at(0, "a", 1), row_at(1, "c", 2**62), row_at(2, "b", 2**62), row_at(3, "c"), row_at(4, "b", 3)], ONE_INSTANCE)


def test_rows_are_not_left_out_where_all_are_in_the_sequence_or_that_is_not_known() -> None:
    for pattern in (
        pattern_of(A.next(B)),
        pattern_of(A.then(B), unmatched=True),
        pattern_of(A.then(event("B", col("v") > prev("v")))),
        pattern_of(A.then(event("B", row("A").count() > 0))),
        pattern_of(A.then(event("B"))),
        pattern_of(A.then(event("B", col("t") < now()))),
    ):
        assert pattern.relevant is None
        assert pattern.in_full()[0].name == "p.ways"


@each_way_apart()
def test_a_pattern_goes_on_at_the_row_that_is_named() -> None:
    part = event("X", col("e") == "c").then(A.times(1, None, by="then")).then(B)
    again = [row_at(0, "c"), row_at(1, "a", 1), row_at(2, "c"), row_at(3, "a", 2), row_at(4, "b")]
    for after in ("to_first A", "to_last A", "to_first B"):
        check(pattern_of(part, within=9, after=after), again, ONE_INSTANCE)


@settings(deadline=None)
@given(patterns(("s", "r"), SCHEMA, "p", ("k",), one_of_letters()), rows(7), rows(7), executions())
def test_of_two_streams(pattern: Pattern, one: list[tuple[Any, ...]], other: list[tuple[Any, ...]], execution: Execution) -> None:
    outputs = tuple(Output(f"out {name}", name) for name in pattern.branches)
    query = Query("q", (STREAM, Stream("r", SCHEMA, ColumnRef("t"), 3)), (pattern,), outputs)
    inputs = {"s": [Partition(0, one)], "r": [Partition(0, other)]}
    expected = expected_of(query, inputs)
    with interpreted():
        ran = run_case(Case(query, inputs), execution)
    assert_same_answer(expected.outputs, ran.outputs)


def test_a_measure_that_fails_is_said_as_it_is_written() -> None:
    """Not by what finds matches calls what it reads."""
    pattern = pattern_of(A.then(B), measures=(("s", row("A")["v"] + row("B").max("v")),))
    with interpreted():
        ran = run_case(Case(query_of(pattern), {"s": [Partition(0, [row_at(0, "a", 2**62), row_at(1, "b", 2**62)])]}), ONE_INSTANCE)
    (letter,) = [each for letters in ran.outcome.dead_letters for each in letters.take(2)]
    assert (letter.operator, letter.reason) == ("p", "field 's': integer overflow in A.v + B.max(v)")
    assert letter.record == f"k='p', A.v={2**62}, B.max(v)={2**62}"


@pytest.mark.timeout(600)  # it compiles half a minute where nothing else runs
def test_machine_code_finds_the_same_and_nothing_compiles_while_it_runs() -> None:
    """Conditions of every kind at once."""
    more = (col("v") >= row("A").first("v")) & (row("B").sum("x") < 1e9) & (row("B").avg("v") >= 0) & (row("B").min("x") > -1.0)
    part = (
        event("A", (col("e") == "a") & (col("v") + 1 > 0))
        .then(event("B", (col("e") == "b") & more & (col("w") == row("A")["w"])).times(1, 3))
        .not_then(event("D", (col("e") == "c") & (col("v") > row("B").last("v", 1))))
        .then(event("C", (col("e") == "c") & (prev("v") <= row("B").max("v"))))
    )
    pattern = pattern_of(
        part, within=20, timed_out=True, unmatched=True, measures=(("n", row("B").count()), ("x", row("B").sum("x")), ("w", row("C")["w"]))
    )
    choose = random.Random(7)
    given_rows = sorted(
        (choose.randrange(60), choose.choice("pq"), choose.choice("aabbc"), choose.randrange(4), 0.1, "u") for _ in range(200)
    )
    query, inputs = query_of(pattern), {"s": [Partition(0, given_rows)]}
    operator = make(pattern)
    arrivals = tuples(given_rows, choose)
    before = compilations()
    run_alone(operator, arrivals, SCHEMA, choose)
    assert compilations() == before
    expected, ran = expected_of(query, inputs), run_case(Case(query, inputs), ONE_INSTANCE)
    assert_same_answer(expected.outputs, ran.outputs)
    assert len(expected.outputs["out p"]) > 5
