"""From a plan to instances: which operators run as one, which balancer an output has, and what travels where.

Tests `build.py`, `layout.py`, `operators/factory.py`, `sources/opening.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from cep.dataflow.layout import Layout
from cep.dataflow.local import LocalRun
from cep.dataflow.operators.operator import (
    AggregateOperator,
    ChainOperator,
    PassOperator,
    RunningOperator,
    TextChainOperator,
)
from cep.dataflow.operators.sequential_aggregate import SequentialAggregate
from cep.dataflow.operators.user_aggregate import UserAggregateOperator
from cep.model.expr import col
from cep.model.functions import Function, count, first, sum_
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import Query
from cep.model.windows import SIZE
from cep.plan.physical import PhysicalPlan
from driver.builder.functions import aggregate_function
from tests.support import functions_of_users
from tests.support.plans import SCHEMA, group, keep, pick, planned, query

pytestmark = pytest.mark.usefixtures("as_python")


def built(asked: Query) -> dict[str, list[RunningOperator]]:
    """Of the first instance of each subquery: its operators, in order."""
    run = LocalRun(planned(asked), {stream.name: {} for stream in asked.streams})
    found: dict[str, list[RunningOperator]] = {}
    for instance in run.instances:
        found.setdefault(instance.subquery, [node.operator for node in instance.nodes])
    return found


def names(operators: list[RunningOperator]) -> list[str]:
    return [operator.name for operator in operators]


def test_maps_and_filters_that_only_each_other_read_are_one_loop() -> None:
    (operators,) = built(query(pick("a", "s"), keep("b", "a"), pick("c", "b"), keep("d", "b"), split="single")).values()
    assert sorted(names(operators)) == ["a+b", "c", "d", "s"]
    (operators,) = built(query(pick("a", "s"), keep("b", "a"), outputs=("a", "b"), split="single")).values()
    assert sorted(names(operators)) == ["a", "b", "s"]  # what leaves is computed by itself


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (Map("x", "s", (("n", col("bytes") + 1),)), ChainOperator),
        (Filter("x", "s", col("ip") == "10.0.0.1"), ChainOperator),
        (Map("x", "s", (("n", col("ip").upper()),)), TextChainOperator),
        (Union("x", ("s", "t")), PassOperator),
        (group("x", "s", "ip"), AggregateOperator),
        (group("x", "s", "ip", functions=(("n", count()), ("f", first("url")))), AggregateOperator),
        (
            group("x", "s", "ip", functions=(("u", aggregate_function(functions_of_users.Longest, "bytes", returns=int)),)),
            UserAggregateOperator,
        ),
    ],
)
def test_a_description_becomes_the_operator_that_does_it(operator: Operator, kind: type) -> None:
    (operators,) = built(query(operator, split="single", parallelism=1, pre_aggregation="off")).values()
    (found,) = [each for each in operators if each.name == "x"]
    assert type(found) is kind


def test_windows_by_rows_take_them_one_by_one() -> None:
    by_rows = Aggregate("x", "s", SIZE(3), ("ip",), (("n", count()),))
    (operators,) = built(query(by_rows, split="single", parallelism=1)).values()
    assert isinstance(operators[0], SequentialAggregate)


PARTIAL: tuple[tuple[str, Function], ...] = (("n", count()), ("total", sum_("bytes")))


@pytest.mark.parametrize(
    ("asked", "edge", "balancer"),
    [
        (query(pick("m", "s"), keep("f", "m"), split="per-operator", parallelism=2), "m>f", "RoundRobin"),
        (query(pick("m", "s"), group("a", "m", "ip"), parallelism=2, pre_aggregation="off"), "m>a", "RouteKey"),
        (query(pick("m", "s"), group("a", "m", "ip", functions=PARTIAL), parallelism=2, pre_aggregation="on"), "s>a", "RouteEntries"),
        (query(pick("m", "s"), group("a", "m"), parallelism=2, pre_aggregation="off"), "m>a", "PointToPoint"),
    ],
)
def test_an_output_has_the_balancer_of_its_edge(asked: Query, edge: str, balancer: str) -> None:
    run = LocalRun(planned(asked), {"s": {}})
    (inner,) = [each for each in run.plan.edges if each.is_inner]
    found = [output for instance in run.instances for output in instance.outputs if output.name == f"q/{inner.name}"]
    assert len(found) == run.plan.subquery("SQ1").parallelism
    assert {type(output.balancer).__name__ for output in found} == {balancer}
    (out,) = [each for each in run.plan.edges if each.is_output]
    assert {type(o.balancer).__name__ for i in run.instances for o in i.outputs if o.name == out.consumer} == {"Broadcast"}


def layout_of(*operators: Operator, **options: Any) -> tuple[Layout, PhysicalPlan]:
    plan = planned(query(*operators, **options))
    return Layout(plan), plan


def test_only_what_is_needed_below_travels() -> None:
    layout, plan = layout_of(pick("m", "s"), group("a", "m", "ip", functions=PARTIAL), pre_aggregation="off")
    assert (layout.columns("s").names, layout.columns("m").names) == (SCHEMA.names, ("ip", "bytes"))  # the map makes all of its fields
    (inner,) = [edge for edge in plan.edges if edge.is_inner]
    assert layout.format(inner).schema.names == ("ip", "bytes") and layout.format(inner).origin == 0
    (entry,) = [edge for edge in plan.edges if edge.is_input]
    assert layout.late_format(entry).schema == SCHEMA
    assert [field.name for field in layout.route_fields(inner)] == ["ip"]


def test_origins_travel_where_something_orders_by_them() -> None:
    layout, plan = layout_of(pick("m", "s"), group("a", "m", "ip", functions=(("f", first("url")),)), pre_aggregation="off")
    (inner,) = [edge for edge in plan.edges if edge.is_inner]
    assert layout.ordered("m") and layout.format(inner).origin == layout.words("m") == 2
    assert not Layout(planned(query(pick("m", "s"), group("a", "m", "ip")))).ordered("m")


def test_partial_rows_have_a_schema_of_their_own() -> None:
    layout, plan = layout_of(pick("m", "s"), group("a", "m", "ip", functions=PARTIAL), pre_aggregation="on")
    (partial,) = [edge for edge in plan.edges if edge.partial]
    assert layout.stage("a") == "final" and layout.deals_entries(layout.aggregate("a"))
    assert layout.format(partial).schema == layout.spec(layout.aggregate("a"), "partial").entry_schema
    assert layout_of(group("a", "s"), pre_aggregation="off")[0].stage("a") == "whole"
