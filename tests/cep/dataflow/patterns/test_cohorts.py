"""Patterns whose starts go on together: by the definitions, and as where each way goes on by itself.

Tests `cohorts_snapshot.py`, `cep/compile/patterns/cohorts.py`, `cep/kernels/patterns/cohort_lines.py`,
`cep/kernels/patterns/cohort_places.py`, `cep/kernels/patterns/cohorts.py`, `cep/kernels/patterns/lines.py`,
`cep/model/patterns/outlooks.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import event as seen
from hypothesis import strategies as st

from cep.compile.patterns.choice import each_way_apart
from cep.compile.patterns.cohorts import Cohorts
from cep.compile.patterns.ways import Ways
from cep.dataflow.patterns.pattern import PatternOperator
from cep.elements import MAX_TIME, PAUSE
from cep.kernels.jit import compilations, interpreted, warm
from cep.kernels.patterns import cohort_lines, cohort_places, cohorts, places
from cep.model.expr import col
from cep.model.operators import Pattern
from cep.model.patterns.parts import PatternPart, event
from cep.model.patterns.rows import prev, row
from tests.cep.dataflow.patterns.test_pattern import (
    EITHER,
    EXAMPLES,
    LEAVINGS,
    ONE_INSTANCE,
    SCHEMA,
    A,
    B,
    C,
    D,
    check,
    executions,
    in_turn,
    keys_of,
    leaving_rows,
    make,
    one_of_letters,
    pattern_of,
    row_at,
    rows,
    tuples,
)
from tests.strategies import Execution
from tests.strategies.patterns import patterns
from tests.support.single_operator import Tuple, feed, made, run_alone, run_restored, tuples_of

TOGETHER = patterns(("s",), SCHEMA, "p", ("k",), one_of_letters(), together="first")


def cohorts_of(pattern: Pattern) -> PatternOperator:
    """Mostly: a drawn one may still have too many outlooks."""
    operator = make(pattern)
    seen("together" if isinstance(operator.ways, Cohorts) else f"apart: {operator.operator.outlooks}")
    return operator


@pytest.mark.parametrize("what", EXAMPLES)
def test_by_example(what: str) -> None:
    pattern, letters = EXAMPLES[what]
    assert isinstance(make(pattern).ways, Cohorts)
    check(pattern, in_turn(letters), ONE_INSTANCE)


@settings(deadline=None)
@given(TOGETHER, rows(), executions(), LEAVINGS)
def test_it_finds_what_the_definitions_say(
    pattern: Pattern, given_rows: list[tuple[Any, ...]], execution: Execution, leaving: tuple[int, int, int]
) -> None:
    with leaving_rows(leaving):
        check(pattern, given_rows, execution)
        with each_way_apart():
            check(pattern, given_rows, execution)


@settings(deadline=None)
@given(TOGETHER, rows(40), st.integers(0, 999), st.none() | st.integers(1, 4), st.sampled_from((1, 3, cohorts.PASSED_MAX)), st.booleans())
def test_it_finds_what_ways_do(
    pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int, limit: int | None, most: int, sought: bool
) -> None:
    """Longer sequences than the definitions can be asked for, and groups with too many starts; time decides on `most` of these at once.
    Each row of a match is `sought` among the starts, or all of these are looked at."""
    pattern = pattern if limit is None else replace(pattern, limit=limit, on_limit="drop_oldest")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cohorts, "PASSED_MAX", most)
        patched.setattr(cohort_lines, "FEW", 0 if sought else 1_000)
        assert outcomes(pattern, given_rows, seed, apart=False) == outcomes(pattern, given_rows, seed, apart=True)


def outcomes(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int, apart: bool) -> tuple[Any, int]:
    """What comes out, and how many starts were dropped; nothing is left of anything."""
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        operator = made_apart(pattern) if apart else cohorts_of(pattern)
        found = made(run_alone(operator, arrivals, SCHEMA, choose))
    if isinstance(operator.ways, Cohorts):
        operator.ways.settle(places.FAR)
        assert not len(operator.ways.open_starts()[0])
        assert not len(operator.ways.used_stages())
    return found, operator.incomplete


def made_apart(pattern: Pattern) -> PatternOperator:
    with each_way_apart():
        operator = make(pattern)
    assert isinstance(operator.ways, Ways)
    return operator


@settings(deadline=None)
@given(TOGETHER, rows(20), st.integers(0, 999))
def test_a_restored_instance_goes_on(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        whole = run_alone(made_apart(pattern), arrivals, SCHEMA, choose)
        restored = run_restored(lambda: cohorts_of(pattern), ("k",), arrivals, SCHEMA, choose)
    assert made(restored) == made(whole)


@settings(deadline=None)
@given(TOGETHER, rows(40), st.integers(0, 999))
def test_stages_are_where_they_are_looked_for(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    """Whatever has ended, in the instance that took the rows and in one that is restored, and goes on with some of them."""
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    cut = choose.randrange(len(arrivals) + 1)
    with interpreted():
        operator, restored = cohorts_of(pattern), make(pattern)
        assume(isinstance(operator.ways, Cohorts))
        feed(operator, arrivals[:cut], arrivals[cut:], SCHEMA, choose)
        restored.restore(operator.snapshot(), lambda port, columns: np.ones(len(keys_of(columns)), bool))
        for each in (operator, restored):
            assert isinstance(each.ways, Cohorts)
            each.ways.settle(
                places.FAR // 2 if each is operator and choose.random() < 0.2 else min((row.time for row in arrivals[cut:]), default=0)
            )
            are_in_place(each.ways)
        feed(restored, arrivals[cut:], [], SCHEMA, choose)
        are_in_place(restored.ways)


def are_in_place(ways: Any) -> None:
    """Stages in use are those that cohorts lead to, and each has an open start."""
    reached = [
        stage for group in np.flatnonzero(ways.groups[:, places.HEAD] >= 0) for stage in stages_of(ways, ways.groups[group, places.HEAD])
    ]
    assert sorted(reached) == ways.used_stages().tolist()


def stages_of(ways: Cohorts, first: int) -> Iterator[int]:
    """`first` and those beside it, and all below."""
    while first >= 0:
        line, lowest = ways.stages[first], first
        assert line[cohort_places.FROM] < line[cohort_places.UPTO]
        while (below := ways.stages[lowest, cohort_places.BELOW]) >= 0:
            assert ways.stages[below, cohort_places.ABOVE] == lowest
            assert line[cohort_places.FROM] < ways.stages[below, cohort_places.UPTO] <= ways.stages[lowest, cohort_places.UPTO]
            yield below
            yield from stages_of(ways, ways.stages[below, cohort_places.BESIDE])
            lowest = below
        assert line[cohort_places.LOWEST] == lowest
        yield first
        first = line[cohort_places.BESIDE]


@settings(deadline=None)
@given(TOGETHER, rows(20), st.integers(0, 999))
def test_groups_that_leave_and_come_back_go_on(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    """One group stays; idle ones are forgotten before the snapshot."""
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        whole = run_alone(made_apart(pattern), arrivals, SCHEMA, choose)
        operator, cut = cohorts_of(pattern), choose.randrange(len(arrivals) + 1)
        found = feed(operator, arrivals[:cut], arrivals[cut:], SCHEMA, choose)
        forget_idle(operator)
        parts = operator.snapshot()
        operator.clear()
        for own in (True, False):
            operator.restore(parts, lambda port, columns, own=own: np.array([(key == "p") == own for key in keys_of(columns)], bool))  # type: ignore[misc]
        found += run_alone(operator, arrivals[cut:], SCHEMA, choose)
    assert made(found) == made(whole)


def forget_idle(operator: PatternOperator) -> None:
    """As where there are many groups; rows that nothing has are left behind too."""
    numbered = operator.operator.rows == "all" and operator.operator.time_to_live is None
    operator.ways.renumber_rows(operator.kept.keep(operator.ways.named_rows(operator.kept.rows)))
    if not numbered:
        kept = np.flatnonzero(~operator.ways.idle_groups(len(operator.numbers)))
        for _ in operator.numbers.keeping(kept):
            pass
        operator.ways.keep_groups(kept)


# --- by example -------------------------------------------------------------------------------------------------------


def test_what_is_apart_has_a_reason() -> None:
    for pattern, why in (
        (pattern_of(A.then(B), unmatched=True), "rows in no match are asked for"),
        (pattern_of(A.then(event("B", col("v") > row("A")["v"]))), "the condition of B reads rows of the match"),
        (pattern_of(A.then(B).absent(C, for_="1s")), "a gap, or what may not come at the end, is of each way's own time"),
        (pattern_of(A.absent(B, for_="1s").absent(C, for_="2s")), "a gap, or what may not come at the end, is of each way's own time"),
        (pattern_of(A.then(B).gap("1s")), "a gap, or what may not come at the end, is of each way's own time"),
        (many_kinds(), "there are too many ways in which they may go on"),
    ):
        assert pattern.finding.outlooks == why
        assert isinstance(make(pattern).ways, Ways)
    assert isinstance(make(pattern_of(A.then(event("B", col("v") > prev("v"))))).ways, Cohorts)
    assert pattern_of(A.then(B), within=5, matches="all").finding.outlooks == "all matches are asked for"


def many_kinds() -> Pattern:
    """Of nineteen variables a row may be any."""
    part = event("A", col("v") >= 0)
    for number in range(18):
        part = part.then(event(f"V{number}", col("v") > number))
    return pattern_of(part)


def test_starts_that_await_the_same_are_one_cohort() -> None:
    """Two that await a b, two that await a c, of which one came later; and one way for both."""
    operator = make(pattern_of(A.then(B).then(C), after="to_next"))
    with interpreted():
        fed(operator, [row_at(0, "a"), row_at(1, "a"), row_at(2, "b"), row_at(3, "a"), row_at(4, "b"), row_at(5, "a"), row_at(6, "a")])
    ways = operator.ways
    assert isinstance(ways, Cohorts)
    assert ways.opened(1).tolist() == [5]
    assert (ways.stages[ways.used_stages(), cohort_places.OUTLOOK] >= 0).sum() == 2
    with interpreted():
        found = fed(operator, [row_at(7, "c")], end=True)
    assert [(each.time, each.origin) for each in found] == [(7, (0, 7, number << 32)) for number in range(3)]


def test_a_start_that_ends_costs_the_same_however_many_rows_a_repeat_took() -> None:
    """Only the cohort knows of it, not each of the fifty stages below."""
    operator = make(pattern_of(A.then(B.one_or_more()).then(C), after="to_next", within=100, measures=(("b", row("B")["v"]),)))
    with interpreted():
        fed(operator, [row_at(0, "a"), row_at(1, "a"), *(row_at(time, "b") for time in range(2, 52))])
        ways = operator.ways
        assert isinstance(ways, Cohorts)
        before = ways.stages[: ways.desk[cohort_places.USED_STAGES]].copy()
        assert list(ways.pass_time(101)) == [None]
    assert ways.opened(1).tolist() == [1]
    assert len(before) > 50
    assert (ways.stages[: len(before)] != before).any(axis=1).sum() == 1


def test_what_came_out_is_not_looked_for_among_all_starts_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty have their matches by one row, of which none has another's first row: it took 1,300 looks to know that."""
    looks, first_row = [], cohort_lines.first_row

    def looked(starts: np.ndarray, start: int) -> int:
        looks.append(start)
        return int(first_row(starts, start))

    monkeypatch.setattr(cohort_lines, "first_row", looked)
    operator = make(pattern_of(A.then(B), after="to_next", within=100, timed_out=True))
    with interpreted():
        assert len(fed(operator, [row_at(time, "a") for time in range(50)] + [row_at(50, "b")])) == 50
    assert isinstance(operator.ways, Cohorts)
    assert 50 <= len(looks) < 200


def test_a_row_that_came_out_is_looked_for_among_the_starts_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty matches have the first row of one start, behind which seventy are open: to find it all of these were looked at, for each."""
    looks, first_row = [], cohort_lines.first_row

    def looked(starts: np.ndarray, start: int) -> int:
        looks.append(start)
        return int(first_row(starts, start))

    second = event("B", (col("e") == "a") & (col("v") == 1))
    operator = make(pattern_of(A.then(second).then(C), after="to_next", within=1000, timed_out=True))
    given_rows = [row_at(time, "a", int(time == 20)) for time in range(91)]
    with interpreted():
        assert fed(operator, given_rows) == []
        monkeypatch.setattr(cohort_lines, "first_row", looked)
        assert len(fed(operator, [row_at(91, "c")])) == 20
    assert isinstance(operator.ways, Cohorts)
    assert len(looks) < 20 * 30


def test_what_may_begin_nothing_is_not_remembered_for_starts_that_time_out() -> None:
    """Of *a, as many b as come, c*, all b's rows were: each match walked down them, to see whether a start's first row was among them."""
    operator = make(pattern_of(A.then(B.one_or_more()).then(C), after="to_next", within=1000, timed_out=True))
    with interpreted():
        fed(operator, [row_at(time, "ab"[time % 2], time) for time in range(40)])
        ways = operator.ways
        assert isinstance(ways, Cohorts)
        assert len(ways.used_stages()) <= 2
        found = fed(operator, [row_at(40, "c")])
    assert len(found) == 20


def test_stages_are_over_with_their_last_start() -> None:
    """Those beside each other, with those below, while time ends one start after the other."""
    asked = (("b", row("B")["v"]), ("c", row("C")["v"]))
    operator = make(pattern_of(A.then(B).then(C).then(D), after="to_next", within=100, measures=asked))
    with interpreted():
        fed(operator, [row_at(time, letter) for time, letter in enumerate("aababcabcabab")])
        ways, counts = operator.ways, []
        assert isinstance(ways, Cohorts)
        for before in range(100, 114):
            list(operator.on_watermark(before))
            operator.ways.settle(before)
            are_in_place(ways)
            counts.append(len(ways.used_stages()))
    assert counts == [9, 9, 8, 8, 6, 6, 6, 3, 3, 3, 2, 2, 0, 0]


def test_a_step_whose_row_nobody_asks_for_makes_no_stage() -> None:
    """Of a b, where only the last row is asked for; where there is one cohort, it has no line either."""
    asked = (("first", row("A")["v"]), ("last", row("C")["v"]))
    operator = make(pattern_of(A.then(B).then(C), within=100, measures=asked))
    with interpreted():
        fed(operator, [row_at(time, letter, time) for time, letter in enumerate("aab")])
        ways = operator.ways
        assert isinstance(ways, Cohorts)
        assert not len(ways.used_stages())
        assert ways.groups[0, places.HEAD] <= cohort_places.PLAIN
        fed(operator, [row_at(3, "a", 3)])
        assert len(ways.used_stages()) == 2
        fed(operator, [row_at(4, "b", 4)])
        assert not len(ways.used_stages())
        (found,) = fed(operator, [row_at(5, "c", 5)])
    assert ways.groups[0, places.HEAD] == places.NONE
    assert (found.row["match.A.last.v.0"], found.row["match.C.last.v.0"]) == (0, 5)


def test_stages_go_on_with_starts_that_have_other_numbers() -> None:
    """The first of those that took the b is over, and a later one, when the ring of starts is made anew."""
    part = A.then(B).then(C) | D.then(event("X", col("e") == "x"))
    operator = make(pattern_of(part, after="to_next", within=20, measures=(("b", row("B")["v"]),)))
    given_rows = [row_at(1_000, "a"), row_at(1_001, "a"), row_at(1_002, "b", 7), *(row_at(1_021, letter) for letter in "dxaaac")]
    arrivals = [Tuple(each[0], (0, number), dict(zip(SCHEMA.names, each, strict=True))) for number, each in enumerate(given_rows)]
    with interpreted():
        found = run_alone(operator, arrivals, SCHEMA, random.Random(0))
    assert [each.row["match.B.last.v.0"] for each in found] == [None, 7]


def test_time_that_ends_many_starts_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing comes out of that, of one group or of many."""
    monkeypatch.setattr(cohorts, "PASSED_MAX", 8)
    pattern = pattern_of(A.then(B) | C.then(D), within=100)
    for keys in ("p", "pqrst"):
        operator = make(pattern)
        with interpreted():
            fed(operator, [row_at(time, "a", time, keys[time % len(keys)]) for time in range(40)])
            assert not operator.ways.quiet
            opened = [40]
            for found in operator.on_watermark(500):
                assert found is PAUSE
                opened.append(int(operator.ways.opened(len(keys)).sum()))
        assert opened[-1] == 0
        assert all(before - after <= 8 for before, after in pairwise(opened))


def test_time_that_ends_nothing_in_many_groups_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their starts have had their matches, but the heap knows of when they would be over."""
    monkeypatch.setattr(cohorts, "PASSED_MAX", 8)
    operator = make(pattern_of(A.then(B) | C.then(D), within=100))
    with interpreted():
        fed(operator, [row_at(time, letter, time, f"{number}") for time, letter in enumerate("ab") for number in range(40)])
        assert list(operator.on_watermark(500)) == [PAUSE] * 5


def test_restored_stages_have_their_rows() -> None:
    """Both starts await the c in one cohort, to which each came by a b of its own."""
    measures = (("a", row("A")["v"]), ("b", row("B")["v"]))
    pattern = pattern_of(A.then(B).then(C), within=9, after="to_next", measures=measures)
    former, latter = make(pattern), make(pattern)
    with interpreted():
        assert not fed(former, [row_at(time, letter, time) for time, letter in enumerate("abab")])
        latter.restore(former.snapshot(), lambda port, columns: np.ones(len(keys_of(columns)), bool))
        found = fed(latter, [row_at(4, "c")], end=True)
    assert [(each.row["match.A.last.v.0"], each.row["match.B.last.v.0"]) for each in found] == [(0, 1), (2, 3)]


@pytest.mark.parametrize("part", [C.next(D) | A.then(B) | C.then(B), A.then(B) | C.then(D)])
def test_a_match_that_waited_comes_out_when_time_passes(part: PatternPart) -> None:
    """By the watermark that ends the earlier start, though no row of the group comes any more."""
    operator = make(pattern_of(part, within=9, measures=(("n", row("A").count()),)))
    with interpreted():
        assert not fed(operator, [row_at(0, "a"), row_at(1, "c"), row_at(2, "d")])
        assert operator.next_end == 10
        found = [each for batch in operator.on_watermark(10) for each in tuples_of(batch)]
    assert [(each.time, each.row["out"]) for each in found] == [(9, places.MATCH)]
    assert not pattern_of(A.then(B).then(C), within=9).finding.outlooks.overtakes  # type: ignore[union-attr]


@pytest.mark.parametrize("pairs", [1, 2, 7])
def test_a_ring_has_room_for_what_is_open_and_not_for_what_is_over(pairs: int) -> None:
    """An old start stays, and those behind it go; before the ring is made anew some have come to one cohort in steps of their own."""
    part = A.then(B).then(D) | C.then(B).then(D) | event("E", col("e") == "x").then(event("F", col("e") == "y"))
    pattern = pattern_of(part, after="to_next", within=10_000, measures=(("n", row("A").count()), ("m", row("C").count())))
    letters = "acbacb" + "xy" * 40 * pairs + "ab" + "xy" * 9 + "acbd"
    given_rows = [row_at(time, letter, time) for time, letter in enumerate(letters)]
    arrivals = [Tuple(each[0], (0, each[0]), dict(zip(SCHEMA.names, each, strict=True))) for each in given_rows]
    with interpreted():
        operator = make(pattern)
        found = made(run_alone(operator, arrivals, SCHEMA, random.Random(0)))
        assert found == made(run_alone(made_apart(pattern), arrivals, SCHEMA, random.Random(1)))
    assert isinstance(operator.ways, Cohorts)
    assert operator.ways.desk[cohort_places.USED_COHORT_STARTS] <= 128


def test_matches_that_are_decided_together_are_numbered_however_much_comes_out_at_a_time() -> None:
    """By a row, and by a time, when their last way has died."""
    for part, letter, time in ((A.then(B), "b", 300), (A.then(EITHER.times(1, 3)), "x", 1_000)):
        pattern = pattern_of(part, within=500, after="to_next")
        operator = make(pattern)
        given_rows = [(0, "p", "a", number, 0.0, "") for number in range(300)]
        arrivals = [Tuple(each[0], (0, number), dict(zip(SCHEMA.names, each, strict=True))) for number, each in enumerate(given_rows)]
        arrivals.append(Tuple(time, (0, 300), dict(zip(SCHEMA.names, row_at(time, letter), strict=True))))
        with interpreted():
            found = run_alone(operator, arrivals, SCHEMA, random.Random(0))
            other = run_alone(made_apart(pattern), arrivals, SCHEMA, random.Random(1))
        assert made(found) == made(other)
        assert len({(each.time, each.origin) for each in found}) == len(found) >= 297


def fed(operator: PatternOperator, given_rows: list[tuple[Any, ...]], end: bool = False) -> list[Tuple]:
    """In order, and the watermark behind them."""
    arrivals = [Tuple(each[0], (0, each[0]), dict(zip(SCHEMA.names, each, strict=True))) for each in given_rows]
    found = feed(operator, arrivals, [], SCHEMA, random.Random(0))
    for batch in operator.on_watermark(MAX_TIME if end else arrivals[-1].time + 1):
        found += tuples_of(batch)
    return found


@pytest.mark.timeout(600)  # it compiles
def test_machine_code_finds_what_ways_find_and_nothing_compiles_while_it_runs() -> None:
    """So many rows that those of matches are looked through, and groups forgotten; in a pattern whose starts time ends quietly, and in one
    of which something comes out then."""
    warm()
    part = A.then(B.times(1, 3)).then(C)
    choose = random.Random(5)
    given_rows = [row_at(time, choose.choice("aabbcx"), time, choose.choice("pqrs") + str(time // 900)) for time in range(9_000)]
    for more in ({}, {"after": "to_next", "timed_out": True}, {"after": "to_last B", "ttl": 20}):
        pattern = pattern_of(part, **{"within": 40, **more})
        arrivals = tuples(given_rows, choose)
        operator, other = make(pattern), made_apart(pattern)
        assert isinstance(operator.ways, Cohorts)
        before = compilations()
        found = made(run_alone(operator, arrivals, SCHEMA, random.Random(1)))
        assert compilations() == before
        assert found == made(run_alone(other, arrivals, SCHEMA, random.Random(1)))
        assert len(found) > 500
