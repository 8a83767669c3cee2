"""Which subqueries' buckets move together, and which do not."""

from __future__ import annotations

import pytest

from cep.errors import ProtocolError
from cep.plan import physical
from cep.plan.moving import first_table, head_of, heads, moving_together, planned_table, with_table
from cep.plan.planner import replanned
from tests.support.plans import group, one_node, planned, query


def test_all_that_keep_a_partitioning_move_together() -> None:
    row = query(group("a", "s", "ip"), group("b", "a", "ip"), group("c", "b", "ip"), pre_aggregation="off")
    made = planned(row, one_node(2))
    assert heads(made) == ("SQ2",) and moving_together(made, "SQ2") == ("SQ2", "SQ3", "SQ4")
    assert [head_of(made, each.name) for each in made.subqueries] == [None, "SQ2", "SQ2", "SQ2"]


def test_each_of_two_partitionings_moves_by_itself() -> None:
    made = planned(query(group("a", "s", "ip"), group("b", "s", "url"), group("c", "b", "url"), pre_aggregation="off"), one_node(2))
    assert [moving_together(made, head) for head in heads(made)] == [("SQ2",), ("SQ3", "SQ4")]


def test_a_table_is_that_of_all_ways_into_its_subquery_and_stays_in_the_next_plan() -> None:
    made = planned(query(group("a", "s", "ip"), group("b", "s", "url"), group("c", "b", "url"), pre_aggregation="off"), one_node(2))
    table = [1] * 1000 + [0] * (made.buckets - 1000)
    dealt = with_table(made, "SQ3", table)
    assert planned_table(dealt, "SQ3") == tuple(table) and first_table(dealt, "SQ3") == planned_table(made, "SQ3")
    assert planned_table(dealt, "SQ2") == planned_table(made, "SQ2")
    assert planned_table(physical.from_json(physical.to_json(dealt)), "SQ3") == tuple(table)
    assert planned_table(replanned(dealt, {"SQ2": 1}), "SQ3") == tuple(table)
    assert planned_table(replanned(dealt, {"SQ3": 3, "SQ4": 3}), "SQ3") == tuple(b * 3 // made.buckets for b in range(made.buckets))
    with pytest.raises(ProtocolError, match="has a table that leads nowhere"):
        physical.from_json(physical.to_json(with_table(made, "SQ3", [2] * made.buckets)))
