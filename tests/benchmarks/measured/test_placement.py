"""What our placement costs beside others. Nothing here asserts a speed."""

from __future__ import annotations

import pytest

from benchmarks.measured import placement


def test_our_placement_costs_least_and_replicas_the_same_over_any_nodes() -> None:
    found = placement.table((1, 2), draws=2)
    assert len(found) == 2 * 2 * len(placement.QUERIES)
    assert all(cost.ours <= min(cost.in_turn, cost.random) for cost in found)
    assert {cost.ours for cost in found if cost.query == "identity"} == {0.0}
    mesh = 10 * 17 / 18  # to 18 instances of a node, of which one shares the core
    assert [cost.ours for cost in found if cost.query == "fixed-window" and cost.shape == "replicas"] == pytest.approx([mesh, mesh])
    assert placement.markdown(found).count("\n") == len(found) + 1
