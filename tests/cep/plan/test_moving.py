"""Which subqueries' buckets move together, and which do not."""

from __future__ import annotations

from cep.plan.moving import head_of, heads, moving_together
from tests.support.plans import group, one_node, planned, query


def test_all_that_keep_a_partitioning_move_together() -> None:
    row = query(group("a", "s", "ip"), group("b", "a", "ip"), group("c", "b", "ip"), pre_aggregation="off")
    made = planned(row, one_node(2))
    assert heads(made) == ("SQ2",) and moving_together(made, "SQ2") == ("SQ2", "SQ3", "SQ4")
    assert [head_of(made, each.name) for each in made.subqueries] == [None, "SQ2", "SQ2", "SQ2"]


def test_each_of_two_partitionings_moves_by_itself() -> None:
    made = planned(query(group("a", "s", "ip"), group("b", "s", "url"), group("c", "b", "url"), pre_aggregation="off"), one_node(2))
    assert [moving_together(made, head) for head in heads(made)] == [("SQ2",), ("SQ3", "SQ4")]
