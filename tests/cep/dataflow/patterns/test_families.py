"""Patterns of which all matches come out, whose families go on together: by the definitions, and as where each way goes on by itself.

Tests `families_snapshot.py`, `cep/compile/patterns/families.py`, `cep/kernels/patterns/columns.py`, `cep/kernels/patterns/families.py`,
`cep/kernels/patterns/family_heaps.py`, `cep/kernels/patterns/family_lines.py`, `cep/model/patterns/families.py`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event as seen
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.compile.patterns.families import FamilyBundles
from cep.compile.patterns.ways import Ways
from cep.dataflow.patterns.pattern import PatternOperator
from cep.errors import StateLimitExceeded
from cep.kernels.jit import compilations, interpreted, warm
from cep.kernels.patterns import places
from cep.model.expr import col
from cep.model.operators import Pattern
from cep.model.patterns.parts import PatternPart, event
from cep.model.patterns.rows import row
from tests.cep.dataflow.patterns.test_cohorts import fed, forget_idle, made_apart
from tests.cep.dataflow.patterns.test_pattern import (
    LEAVINGS,
    ONE_INSTANCE,
    SCHEMA,
    A,
    B,
    check,
    executions,
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
from tests.support.single_operator import feed, made, run_alone, run_restored

EVERY = patterns(("s",), SCHEMA, "p", ("k",), one_of_letters(), together="all")
C, EITHER = event("C", col("e") == "c"), event("C", col("e") == "a")


def families_of(pattern: Pattern) -> PatternOperator:
    """Mostly: a drawn one may still have too many kinds."""
    operator = make(pattern)
    seen("together" if isinstance(operator.ways, FamilyBundles) else f"apart: {operator.operator.families}")
    return operator


def every(part: Any, within: int = 9, **more: Any) -> Pattern:
    return pattern_of(part, within=within, matches="all", **more)


#: What bundles have to get right -> the pattern, and the letters that come, one a moment.
EXAMPLES: dict[str, tuple[Pattern, str]] = {
    "rows are left out in every way": (every(A.then_any(B).then_any(C)), "abbcac"),
    "what is taken is not skipped where it may not be": (every(A.then_any(B).then(C)), "abbcc"),
    "behind a row comes the next": (every(A.then_any(B).next(C)), "abbcabc"),
    "a row between is forbidden": (every(A.then_any(B).not_then(A).then(C)), "abcabac"),
    "a row ends a start": (every(A.next(B).then(C)), "aabcabxc"),
    "a row is a match": (every(A), "aba"),
    "a match may go on": (every(A.then_any(B.times(1, 3, by="any"))), "abxbb"),
    "a row is taken as either, once as each": (every((A | EITHER).then_any(A | EITHER).then_any(B)), "aabb"),
    "time ends the first starts alone": (every(A.then_any(B).then_any(C), within=3), "abaxcbcc"),
    "time to live is over": (every(A.then_any(B), ttl=2, rows="all", measures=(("n", row("A").count()),)), "abxxxbab"),
}


@pytest.mark.parametrize("what", EXAMPLES)
def test_by_example(what: str) -> None:
    pattern, letters = EXAMPLES[what]
    assert isinstance(make(pattern).ways, FamilyBundles)
    check(pattern, [row_at(time, letter, time) for time, letter in enumerate(letters)], ONE_INSTANCE)


@settings(deadline=None)
@given(EVERY, rows(9), executions(), LEAVINGS)
def test_it_finds_what_the_definitions_say(
    pattern: Pattern, given_rows: list[tuple[Any, ...]], execution: Execution, leaving: tuple[int, int, int]
) -> None:
    with leaving_rows(leaving):
        check(pattern, given_rows, execution)


@settings(deadline=None)
@given(EVERY, rows(24), st.integers(0, 999), st.none() | st.integers(1, 4))
def test_it_finds_what_ways_do(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int, limit: int | None) -> None:
    """Longer sequences than the definitions can be asked for, and groups with too many starts."""
    pattern = pattern if limit is None else replace(pattern, limit=limit, on_limit="drop_oldest")
    assert outcomes(pattern, given_rows, seed, apart=False) == outcomes(pattern, given_rows, seed, apart=True)


def outcomes(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int, apart: bool) -> tuple[Any, int]:
    """What comes out, and how many starts were dropped; nothing is left of anything."""
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        operator = made_apart(pattern) if apart else families_of(pattern)
        found = made(run_alone(operator, arrivals, SCHEMA, choose))
        if isinstance(operator.ways, FamilyBundles):
            operator.ways.settle(places.FAR)
            for left in (operator.ways.open_starts(), operator.ways.used_bundles(), operator.ways.used_nodes()):
                assert not len(left)
    return found, operator.incomplete


@settings(deadline=None)
@given(EVERY, rows(14), st.integers(0, 999))
def test_a_restored_instance_goes_on(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        whole = run_alone(made_apart(pattern), arrivals, SCHEMA, choose)
        restored = run_restored(lambda: families_of(pattern), ("k",), arrivals, SCHEMA, choose)
    assert made(restored) == made(whole)


@settings(deadline=None)
@given(EVERY, rows(14), st.integers(0, 999))
def test_groups_that_leave_and_come_back_go_on(pattern: Pattern, given_rows: list[tuple[Any, ...]], seed: int) -> None:
    """One group stays; idle ones are forgotten before the snapshot, and what time has ended is left behind."""
    choose = random.Random(seed)
    arrivals = tuples(given_rows, choose)
    with interpreted():
        whole = run_alone(made_apart(pattern), arrivals, SCHEMA, choose)
        operator, cut = families_of(pattern), choose.randrange(len(arrivals) + 1)
        found = feed(operator, arrivals[:cut], arrivals[cut:], SCHEMA, choose)
        held = [] if operator.hold.first is None else [operator.hold.first]
        operator.ways.settle(min([*held, *(each.time for each in arrivals[cut:])], default=0))
        forget_idle(operator)
        parts = operator.snapshot()
        operator.clear()
        for own in (True, False):
            operator.restore(parts, lambda port, columns, own=own: np.array([(key == "p") == own for key in keys_of(columns)], bool))  # type: ignore[misc]
        found += run_alone(operator, arrivals[cut:], SCHEMA, choose)
    assert made(found) == made(whole)


# --- by example -------------------------------------------------------------------------------------------------------


def test_what_is_by_ways_has_a_reason(as_python: None) -> None:
    for pattern, why in (
        (every(A.then_any(B), unmatched=True), "rows in no match are asked for"),
        (every(A.then_any(event("B", col("v") > row("A")["v"]))), "the condition of B reads rows of the match"),
        (every(A.then_any(B).gap("1s")), "a gap, or what may not come at the end, is of each way's own time"),
        (pattern_of(A.then(B)), "of each start one match is asked for"),
        (every(many(17)), "there are too many ways in which they may go on"),
        (every(many(30)), "there are too many ways in which they may go on"),
    ):
        assert pattern.finding.families == why
        assert not isinstance(make(pattern).ways, FamilyBundles)


def many(variables: int) -> PatternPart:
    """A row may be any of so many."""
    part: PatternPart = event("V0", col("v") >= 0)
    for number in range(1, variables):
        part = part | event(f"V{number}", col("v") > number)
    return A.then_any(part)


def test_a_row_costs_the_same_however_many_families_there_are() -> None:
    """A node for each row, though there are ninety families that await a c and await them still when it has come."""
    operator = make(every(A.then_any(B).then_any(C), within=90))
    with interpreted():
        fed(operator, [row_at(time, "ab"[time % 2]) for time in range(20)])
        assert isinstance(operator.ways, FamilyBundles)
        assert len(operator.ways.used_nodes()) == 20
        found = fed(operator, [row_at(20, "c")])
    assert len(found) == 55
    assert sorted(each.origin[-1] >> 32 for each in found) == list(range(55))  # type: ignore[index]


def test_restored_families_have_their_rows() -> None:
    """Of one of two groups, whose nodes are not the first ones."""
    pattern = every(A.then_any(B).then_any(C), measures=tuple((name, row(name)["v"]) for name in "ABC"))
    given_rows = [row_at(time, letter, time, key) for time, (letter, key) in enumerate(zip("aaabb", "qpqqp", strict=True))]
    with interpreted():
        operator, other = make(pattern), make(pattern)
        fed(operator, given_rows)
        other.restore(operator.snapshot(), lambda port, columns: np.array([key == "p" for key in keys_of(columns)], bool))
        (found,) = fed(other, [row_at(5, "c", 5, "p")])
    assert [found.row[f"match.{name}.last.v.0"] for name in "ABC"] == [1, 4, 5]


def test_what_time_has_ended_is_left_behind() -> None:
    """Though no b comes with which the heap would be looked through, and starts that are open are before it."""
    operator = make(every(A.then_any(B), within=4))
    with interpreted():
        fed(operator, [row_at(time, "a", time) for time in range(20)])
        ways = operator.ways
        assert isinstance(ways, FamilyBundles)
        assert (len(ways.open_starts()), len(ways.used_nodes())) == (5, 20)
        ways.settle(20)
        assert (len(ways.open_starts()), len(ways.used_nodes())) == (4, 4)
        assert ways.named_rows(20).tolist() == [0] * 16 + [1] * 4
        assert len(fed(operator, [row_at(20, "b")])) == 4


def test_starts_that_a_row_has_ended_do_not_count() -> None:
    """Of four the first two are matches; the limit is two, and the third start is dropped when a fifth comes."""
    pattern = every(A.then(B), within=90, limit=2, on_limit="drop_oldest")
    given_rows = [row_at(time, letter, time) for time, letter in enumerate("aabaaab")]
    with interpreted():
        for operator in (make(pattern), made_apart(pattern)):
            assert len(fed(operator, given_rows)) == 4
            assert operator.incomplete == 1


def test_a_group_with_too_many_open_starts_fails_by_name() -> None:
    operator = make(every(A.then_any(B), limit=2))
    arrivals = tuples([row_at(time, "a") for time in range(4)], random.Random(0))
    with interpreted(), pytest.raises(StateLimitExceeded, match=r"operator 'p': group k='p' has more than 2 open starts"):
        run_alone(operator, arrivals, SCHEMA, random.Random(0))


@pytest.mark.timeout(600)  # it compiles
def test_machine_code_finds_what_ways_find_and_nothing_compiles_while_it_runs() -> None:
    """More matches of a row than there is room for at first; so many rows that groups are forgotten."""
    warm()
    choose = random.Random(5)
    given_rows = [row_at(time, choose.choice("aabbcx"), time, choose.choice("pqrs") + str(time // 900)) for time in range(6_000)]
    for part, more in ((A.then_any(B).then_any(C), {"within": 60}), (A.then_any(B.times(1, 2)).then(C), {"within": 40, "ttl": 9})):
        pattern = every(part, **more)  # type: ignore[arg-type]
        arrivals = tuples(given_rows, choose)
        operator, other = make(pattern), made_apart(pattern)
        assert isinstance(operator.ways, FamilyBundles)
        assert isinstance(other.ways, Ways)
        before = compilations()
        found = made(run_alone(operator, arrivals, SCHEMA, random.Random(1)))
        assert compilations() == before
        assert found == made(run_alone(other, arrivals, SCHEMA, random.Random(1)))
        assert len(found) > 500
