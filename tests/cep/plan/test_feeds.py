"""What follows from a query that reads another one's output: how often its rows may have come the same way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.model.operators import Union
from cep.model.query import Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.feeds import feed_of, feeds_tie, ties
from cep.plan.physical import PhysicalPlan
from cep.plan.planner import plan
from tests.support import plans
from tests.support.plans import keep, one_node, pick, query


def doubling(name: str, input_: str) -> Query:
    """Puts out each row of `input_` twice."""
    made = query(pick("a", input_), pick("b", input_), Union("u", ("a", "b")))
    return replace(made, name=name, outputs=(replace(made.outputs[0], stream=f"{name}_out"),))


def passing(name: str, input_: str) -> Query:
    made = query(keep("u", input_))
    return replace(made, name=name, outputs=(replace(made.outputs[0], stream=f"{name}_out"),))


def reading(asked: Query, below: PhysicalPlan, stream: str) -> PhysicalPlan:
    known, feed = feed_of(below, 1, stream)
    return plan(replace(asked, streams=()), {stream: known}, plans.workers(one_node(2)), one_node(2), feeds={stream: feed})


@pytest.mark.parametrize(
    ("first", "second", "ways"), [(passing, passing, 1), (passing, doubling, 2), (doubling, passing, 2), (doubling, doubling, 4)]
)
def test_ways_through_two_queries_are_multiplied(first: type, second: type, ways: int) -> None:
    below = plans.planned(first("p", "s"))
    above = reading(second("q", "p_out"), below, "p_out")
    known, feed = feed_of(above, 2, "q_out")
    assert isinstance(known, Stream) and isinstance(known.schema, Schema)
    assert feed.beginnings == (("s", ways),) and feed.streams == ("s",)
    assert ties(above, "u") == (ways > 1)
    assert feeds_tie(above) == (first is doubling)
