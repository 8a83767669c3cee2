"""Random queries over random published data, run in any way: always the reference's answer, late rows and dead letters.

Any cutting into batches, any publishers, readers and instances, any split, any balancer that is sound, any bucket table, any
credit, any order of turns (`tests.strategies.Execution`). A failing example is printed whole; its `seed` replays the turns.
Most run with the kernels interpreted, since machine code for a query of its own takes longer than the query.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted
from cep.model.expr import ColumnRef, Literal, col, lit
from cep.model.functions import avg, count, first, last, max_, min_, sum_
from cep.model.operators import Aggregate, Deduplicate, Delay, Filter, FlatMap, Map, StatefulMap, Union
from cep.model.query import Output, Query
from cep.model.schema import INT64, Schema
from cep.model.streams import Stream
from cep.model.windows import SizeWindow, TimeWindow, UnboundedWindow
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution, cases, executions, partitions, tied_cases
from tests.strategies.seeded import published, published_cases
from tests.support.running import expected_of, outputs_of, run_case

#: Hypothesis shrinks for up to five minutes; cut off before that, it has no example to show.
pytestmark = pytest.mark.timeout(900)


def check(case: Case, execution: Execution) -> None:
    expected = expected_of(case.query, case.inputs)
    ran = run_case(case, execution)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()


@given(cases(), executions())
def test_any_execution_of_a_query_answers_as_the_reference_does(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


@given(tied_cases(), executions())
def test_rows_that_tie_in_event_time_and_origin_are_ordered_by_their_columns(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


@published_cases()
def test_machine_code_answers_as_the_reference_does(number: int, way: int) -> None:
    check(*published(number, way))


# --- one query whose answers depend on everything that an execution could change ---------------------------------------

READINGS = Stream(
    "s", Schema.of({"t": "timestamp[us]?", "k": "string?", "v": "int64?", "x": "float64?", "w": "string?"}), ColumnRef("t"), 3
)
KEPT = ("t", "k", "v", "x", "w")


def everything() -> Query:
    """Two ways to one union, a sliding window by key, and one without a key over its answers, which the hash orders.

    s ─┬─ near ─┬─ all ─ inner ─ outer
       ├─ far ──┘
       └─ exact
    """
    # v orders the two that come of one row, x alone would order many of them the other way round
    far = tuple((name, {"v": col("v") + 1, "x": -col("x")}.get(name, col(name))) for name in KEPT)
    inner = {"n": count(), "sum": sum_("v"), "mean": avg("v"), "first": first("v"), "last": last("w"), "least": min_("w"), "x": first("x")}
    outer = {"n": count(), "most": max_("n"), "first": first("first"), "last": last("last"), "k": last("k"), "sum": sum_("n")}
    exact = {"sum": sum_("x"), "mean": avg("x"), "last": last("x")}
    return Query(
        "everything",
        (READINGS,),
        (
            Filter("near", "s", col("w").is_null() | (col("w") < "x")),
            Map("far", "s", far),
            Union("all", ("near", "far")),
            Aggregate("inner", "all", TimeWindow(10, 4), ("k",), tuple(inner.items())),
            Aggregate("outer", "inner", TimeWindow(12, 12), (), tuple(outer.items())),
            Aggregate("exact", "s", TimeWindow(5, 5), ("k",), tuple(exact.items())),
        ),
        (Output("answers", "outer"), Output("seen", "inner"), Output("exactly", "exact")),
        "late",
    )


@st.composite
def data_for_everything(draw: st.DrawFn) -> Case:
    return Case(everything(), {"s": draw(partitions(READINGS, 4, 16))})


@given(data_for_everything(), executions())
def test_a_query_that_depends_on_everything_as_machine_code(case: Case, execution: Execution) -> None:
    check(case, execution)


# --- operators for which the order of rows is everything ----------------------------------------------------------------

MOMENTS = Stream("s", Schema.of({"t": "timestamp[us]", "k": "int64", "v": "int64"}), ColumnRef("t"), 1)


def in_order() -> Query:
    """Two ways to one union, whose rows tie on event time and origin, and what takes them one by one; and rows that do not tie."""
    both = (Map("one", "s", tuple((n, col(n)) for n in "tkv")), Map("other", "s", (("t", col("t")), ("k", col("k")), ("v", 5 - col("v")))))
    functions = (("n", count()), ("first", first("v")), ("last", last("v")))
    change = {"state": (("before", Literal(-1, INT64)),), "update": (("before", (col("before") * 7 + col("v")) % 100_003),)}
    return Query(
        "in-order",
        (MOMENTS,),
        (
            *both,
            Union("all", ("one", "other")),
            FlatMap("each", "s", (("k", col("k")), ("v", lit("b,c,a").split(","))), "v"),
            Aggregate("elements", "each", UnboundedWindow(None, None), ("k",), functions),
            Delay("later", "s", 1),
            Aggregate("delayed", "later", TimeWindow(2, 2), ("k",), functions),
            Aggregate("so far", "all", UnboundedWindow(None, 2), ("k",), functions),
            Aggregate("pairs", "all", SizeWindow(3, 2), ("k",), functions),
            Deduplicate("once", "all", ("k",), 1),
            StatefulMap("alone", "s", ("k",), None, fields=(("k", col("k")), ("so far", col("before"))), **change),
            StatefulMap("chain", "all", ("k",), None, fields=(("k", col("k")), ("so far", col("before") // (col("v") - 3))), **change),
        ),
        tuple(Output(f"out {name}", name) for name in ("so far", "pairs", "once", "alone", "chain", "elements", "delayed")),
    )


@st.composite
def moments(draw: st.DrawFn) -> Case:
    """Partitions that meet at a few instants again and again, each with rows out of order, as far as they may be."""
    row = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 5))
    drawn = draw(st.lists(st.lists(row, min_size=4, max_size=12), min_size=2, max_size=4))
    return Case(in_order(), {"s": [Partition(i, sorted(rows, key=lambda each: each[0] + each[2] % 2)) for i, rows in enumerate(drawn)]})


@given(moments(), executions())
def test_rows_are_taken_in_stream_order(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


# --- zeros of both signs, and partitions without disorder that meet -------------------------------------------------------

SIGNS = Stream("s", Schema.of({"t": "timestamp[us]", "k": "int64", "x": "float64?"}), ColumnRef("t"), 0)


def extremes() -> Query:
    """MIN and MAX, where -0.0 is 0.0, over every kind of window."""
    functions = (("least", min_("x")), ("most", max_("x")), ("n", count()), ("last", last("x")))
    windows = {"tumbling": TimeWindow(4, 4), "sliding": TimeWindow(6, 2), "so far": UnboundedWindow(None, None), "sizes": SizeWindow(2, 1)}
    operators = tuple(Aggregate(name, "s", window, ("k",), functions) for name, window in windows.items())
    return Query("extremes", (SIGNS,), operators, tuple(Output(f"out {name}", name) for name in windows))


@st.composite
def zeros(draw: st.DrawFn) -> Case:
    values = st.sampled_from((0.0, -0.0, -0.0, 1.0, -1.0, float("nan"), None))
    row = st.tuples(st.integers(0, 9), st.integers(0, 1), values)
    drawn = draw(st.lists(st.lists(row, min_size=1, max_size=8), min_size=1, max_size=3))
    return Case(extremes(), {"s": [Partition(i, sorted(rows, key=lambda each: each[0])) for i, rows in enumerate(drawn)]})


@given(zeros(), executions())
def test_minus_zero_is_zero_to_extremes(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


# --- the long run ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(cases(), executions())
def test_long_any_execution(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(tied_cases(), executions())
def test_long_ties(case: Case, execution: Execution) -> None:
    with interpreted():
        check(case, execution)


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(data_for_everything(), executions())
def test_long_machine_code(case: Case, execution: Execution) -> None:
    check(case, execution)


@pytest.mark.long
@pytest.mark.timeout(7200)
@settings(max_examples=300)  # each is compiled
@given(cases(operators_max=3), executions())
def test_long_machine_code_of_any_query(case: Case, execution: Execution) -> None:
    check(case, execution)
