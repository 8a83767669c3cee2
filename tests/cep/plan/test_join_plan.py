"""What a plan knows of joins: the columns that travel to them, whether their tuples can tie, and where they run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.dataflow.layout import Layout
from cep.model.expr import col
from cep.model.functions import count
from cep.model.operators import Aggregate, AsOfJoin, Filter, IntervalJoin, Join, Lookup, Map, Operator, Union
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.tables import StaticTable
from cep.model.windows import TimeWindow
from cep.plan.needed import may_tie, origin_words
from cep.plan.physical import PhysicalPlan
from tests.reference import Partition
from tests.strategies import Case, Execution
from tests.support.plans import one_node, planned
from tests.support.running import run_case

TEN = TimeWindow(10, 10)
LEFT = Stream("l", Schema.of({"t": "timestamp[us]", "k": "int32", "a": "int64", "x": str, "y": str}), col("t"), 0)
RIGHT = Stream("r", Schema.of({"t": "timestamp[us]", "k": "int64", "b": "int64", "x": str, "y": str}), col("t"), 0)
NAMES = StaticTable(Schema.of({"k": "int64", "name": str}), "/data/names.csv")
WINDOW = Join("j", "l", "r", TEN, TEN, (("k", "k"),), "inner", None, "r_")
INTERVAL = IntervalJoin("j", "l", "r", 0, 5, (("k", "k"),), "inner", col("x") == col("r_x"), "r_")
AS_OF = AsOfJoin("j", "l", "r", (("k", "k"), ("a", "b")), "left", None, "r_")


def plan(*operators: Operator, **options: object) -> PhysicalPlan:
    read = {name for operator in operators for name in operator.inputs}
    streams = tuple(stream for stream in (LEFT, RIGHT) if stream.name in read)
    asked = Query("q", streams, operators, (Output("out", operators[-1].name),))
    return planned(replace(asked, options=Options(**options)), one_node(3))  # type: ignore[arg-type]


def travelling(joined: Operator, *wanted: str) -> list[tuple[str, ...]]:
    """The columns of both inputs, and those of the joined tuple, where only `wanted` of these is read."""
    layout = Layout(plan(joined, Map("m", "j", tuple((name, col(name)) for name in wanted))))
    return [layout.columns(name).names for name in (*joined.inputs, "j")]


def test_keys_and_what_is_read_of_the_joined_tuple_travel() -> None:
    assert travelling(WINDOW, "r_b", "a") == [("k", "a"), ("k", "b"), ("a", "r_b")]
    assert travelling(WINDOW, "k") == [("k",), ("k",), ("k",)]
    assert travelling(AS_OF, "r_x") == [("k", "a"), ("k", "b", "x"), ("r_x",)]


def test_what_a_condition_reads_travels_but_goes_no_further() -> None:
    assert travelling(INTERVAL, "r_y") == [("k", "x"), ("k", "x", "y"), ("r_y",)]


def test_the_key_of_a_lookup_travels() -> None:
    assert travelling(Lookup("j", "l", NAMES, (("k", "k"),)), "name", "x") == [("k", "x"), ("x", "name")]


@pytest.mark.parametrize("joined", [WINDOW, INTERVAL, AS_OF])
def test_joined_tuples_tie_where_those_of_a_side_do(joined: Operator) -> None:
    ways = (Filter("one", "l", col("a") > 0), Filter("other", "l", col("a") < 5), Union("u", ("one", "other")))
    both = plan(*ways, replace(joined, left="u")).query
    assert may_tie(both, "u") and may_tie(both, "j")
    assert not may_tie(plan(joined).query, "j")
    assert origin_words(both, "j") == 2


def test_a_lookup_appends_a_word_to_the_origin() -> None:
    assert origin_words(plan(Lookup("j", "l", NAMES, (("k", "k"),))).query, "j") == 3


@pytest.mark.parametrize("joined", [WINDOW, INTERVAL, replace(AS_OF, on=(("k", "k"),))])
def test_both_sides_are_routed_by_the_key_in_its_common_type(joined: Operator) -> None:
    made = plan(joined)
    layout = Layout(made)
    edges = [edge for edge in made.edges if edge.consumer == "j" and edge.is_inner]
    assert [(edge.balancer, edge.fields) for edge in edges] == [("route-key", ("k",))] * 2
    assert [[str(field) for field in layout.route_fields(edge)] for edge in edges] == [["k: int64"]] * 2


def test_a_theta_join_that_reads_its_streams_itself_runs_on_one_instance() -> None:
    theta = replace(WINDOW, on=())
    assert [subquery.parallelism for subquery in plan(theta).subqueries] == [3, 3, 3]
    (alone,) = plan(theta, split="single").subqueries
    assert alone.parallelism == 1


@pytest.mark.parametrize("type_", ["int64", "int64?"], ids=["as nullable", "nullable"])
def test_partial_rows_meet_the_rows_that_they_are_joined_with(type_: str) -> None:
    """Where the other side's key may be NULL, one of sixteen bytes has other words than the entries of partial rows: another bucket."""
    left = Stream("l", Schema.of({"t": "timestamp[us]", "x": "int64", "y": "int64"}), col("t"), 0)
    right = Stream("r", Schema.of({"t": "timestamp[us]", "x": type_, "y": type_}), col("t"), 0)
    counted = Aggregate("n", "l", TEN, ("x", "y"), (("n", count()),))
    joined = Join("j", "n", "r", TEN, TEN, (("x", "x"), ("y", "y")), "inner", None, "r_")
    options = Options(subqueries=(("n", "j"),), parallelism=2)
    asked = Query("q", (left, right), (counted, joined), (Output("out", "j"),), options=options)
    made = planned(asked)
    assert [edge.partial for edge in made.edges if edge.consumer in ("n", "j")] == [True, False]
    assert Layout(made).deals_entries(counted) == (type_ == "int64")
    rows = [(time, time % 7, -time) for time in range(60)]
    case = Case(asked, {"l": [Partition(0, rows)], "r": [Partition(0, rows)]})
    ran = run_case(case, Execution(options, (7,), (), tuple(bucket % 2 for bucket in range(options.buckets)), 1 << 20, 0, (0,)))
    assert len(ran.outputs["out"]) == len(rows)
