"""Checkpoints of all queries of an instance manager cost its time so much, whatever they cost one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.state.checkpoint_budget import AT_ONCE, LED_SHARE, SHARE, CheckpointBudget

COSTS = st.floats(1e-6, 10.0)


def test_a_query_alone_has_the_whole_budget() -> None:
    budget = CheckpointBudget(0.0)
    assert budget.least_s("q") == 0.0
    budget.note("q", {"im-0": 0.03, "im-1": 0.06}, 2)
    assert budget.least_s("q") == pytest.approx(0.06 / SHARE)


@given(st.lists(COSTS, min_size=1, max_size=50), COSTS)
def test_all_of_them_cost_the_share(costs: list[float], other: float) -> None:
    budget = CheckpointBudget(0.0)
    budget.note("rests", {"im-0": other}, 2)
    for number, cost in enumerate(costs):
        budget.note(str(number), {"im-0": cost}, 2)
    budget.note("gone", {"im-0": other}, 2)
    budget.note("elsewhere", {"im-1": other}, 2)
    budget.rest("rests")
    budget.forget("gone")
    assert sum(cost / budget.least_s(str(number)) for number, cost in enumerate(costs)) == pytest.approx(SHARE)


@given(COSTS, COSTS)
def test_one_that_rests_is_told_what_it_would_have(mine: float, other: float) -> None:
    budget = CheckpointBudget(0.0)
    budget.note("mine", {"im-0": mine}, 2)
    budget.note("other", {"im-0": other}, 2)
    among = budget.least_s("mine")
    budget.rest("mine")
    assert budget.least_s("mine") == pytest.approx(among)
    assert budget.least_s("other") == pytest.approx(other / SHARE)
    budget.go_on("mine")
    assert budget.least_s("mine") == pytest.approx(among)


@given(st.integers(1, 50), st.integers(0, 5))
def test_what_those_who_lead_do_has_a_share_of_its_own(queries: int, managers: int) -> None:
    """Of small queries it is most of what one costs, wherever they are."""
    budget = CheckpointBudget(0.007)
    for number in range(queries):
        budget.note(str(number), {f"im-{number % 3}": 1e-6}, managers)
    led_s = sum(0.007 / budget.least_s(str(number)) for number in range(queries))
    assert led_s == pytest.approx(LED_SHARE * max(managers, 1))
    budget.note("large", {"im-0": 10.0}, managers)
    assert budget.least_s("large") > 10.0 / SHARE


def test_of_many_that_are_due_at_once_most_wait_for_their_turn() -> None:
    budget, apart_s = CheckpointBudget(0.012), 0.012 / LED_SHARE / 2
    begins = [budget.turn(100.0, 2, 1000) for _ in range(1000)]
    assert begins[:AT_ONCE] == [100.0] * AT_ONCE and begins[AT_ONCE] == pytest.approx(100.0 + apart_s)
    assert begins[-1] == pytest.approx(100.0 + (1000 - AT_ONCE) * apart_s)
    assert budget.turn(begins[-1] + 1000.0, 2, 1000) == begins[-1] + 1000.0, "they have had their share by then"
    assert [CheckpointBudget(0.0).turn(100.0, 2, 1000) for _ in range(1000)] == [100.0] * 1000


def test_turns_of_queries_that_are_gone_hold_up_none() -> None:
    budget, apart_s = CheckpointBudget(0.012), 0.012 / LED_SHARE / 2
    for _ in range(1000):
        budget.turn(100.0, 2, 1000)
    assert budget.turn(101.0, 2, AT_ONCE - 1) == 101.0
    assert budget.turn(101.0, 2, 20) == pytest.approx(101.0 + apart_s), "it comes behind the one before"
