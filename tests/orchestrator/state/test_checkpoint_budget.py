"""Checkpoints of all queries of an instance manager cost its time so much, whatever they cost one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.state.checkpoint_budget import SHARE, CheckpointBudget

COSTS = st.floats(1e-6, 10.0)


def test_a_query_alone_has_the_whole_budget() -> None:
    budget = CheckpointBudget()
    assert budget.least_s("q") == 0.0
    budget.note("q", {"im-0": 0.03, "im-1": 0.06})
    assert budget.least_s("q") == pytest.approx(0.06 / SHARE)


@given(st.lists(COSTS, min_size=1, max_size=50), COSTS)
def test_all_of_them_cost_the_share(costs: list[float], other: float) -> None:
    budget = CheckpointBudget()
    budget.note("rests", {"im-0": other})
    for number, cost in enumerate(costs):
        budget.note(str(number), {"im-0": cost})
    budget.note("gone", {"im-0": other})
    budget.note("elsewhere", {"im-1": other})
    budget.rest("rests")
    budget.forget("gone")
    assert sum(cost / budget.least_s(str(number)) for number, cost in enumerate(costs)) == pytest.approx(SHARE)


@given(COSTS, COSTS)
def test_one_that_rests_is_told_what_it_would_have(mine: float, other: float) -> None:
    budget = CheckpointBudget()
    budget.note("mine", {"im-0": mine})
    budget.note("other", {"im-0": other})
    among = budget.least_s("mine")
    budget.rest("mine")
    assert budget.least_s("mine") == pytest.approx(among)
    assert budget.least_s("other") == pytest.approx(other / SHARE)
    budget.go_on("mine")
    assert budget.least_s("mine") == pytest.approx(among)
