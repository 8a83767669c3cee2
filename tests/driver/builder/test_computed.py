"""Aggregates of expressions: a map computes them first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model import query as documents
from cep.model.operators import Aggregate, Map
from driver import TIME, Query, arg_max, avg, col, collect, count, first, max_, min_, quantile, stream, sum_
from driver.builder.computed import computed_first
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution
from tests.support.running import expected_of, outputs_of, run_case

SALES = stream(
    "sales", {"ts": "timestamp[us]", "k": "int64", "price": "int64?", "n": "int64", "total": "int64"}, event_time="ts", disorder="0s"
)
ROWS = [(1, 1, 5, 2, 7), (2, 2, None, 3, 1), (3, 1, 4, 4, 9), (4, 1, 2**62, 4, 9), (11, 1, 1, 1, 1)]


def totals() -> Query:
    functions = {
        "total": sum_(col("price") * col("n")),
        "least": min_(-col("n")),
        "most": max_(col("price") + col("n")),
        "mean": avg(col("n") / 2),
        "sold": count(col("price") + 0),
        "rows": count(),
        "plain": sum_(col("n")),
        "first": first(col("n") * 2),
        "best": arg_max("k", col("price") * col("n")),
        "all": collect(col("n") + 1, 3),
        "half": quantile(col("n") * 1, 0.5),
        "kept": sum_("total"),
    }
    return Query("totals").source(SALES).aggregate("w", TIME("10us"), functions, by="k").output("out")


def test_expressions_are_computed_in_a_map_before_the_aggregate() -> None:
    built = totals().build()
    before, after = built.operators
    assert isinstance(before, Map) and isinstance(after, Aggregate)
    assert (before.name, before.input, after.input) == ("w_values", "sales", "w_values")
    fields = dict(before.fields)
    assert {"k", "total", "total1"} <= fields.keys() and fields["total"].name == "total"  # type: ignore[attr-defined]
    assert dict(after.functions)["total"].column == "total1"
    assert dict(after.functions)["plain"].column == "n"
    assert documents.to_json(documents.from_json(documents.to_json(built))) == documents.to_json(built)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_their_answers_are_those_of_the_reference(parallelism: int) -> None:
    query = totals().build()
    execution = Execution(replace(query.options, parallelism=parallelism), (2,), (), (*range(parallelism), 0), 1 << 20, 0)
    case = Case(query, {"sales": [Partition(0, ROWS)]})
    expected = expected_of(query, case.inputs)
    with interpreted():
        ran = run_case(case, execution)
    assert_same_answer(outputs_of(query, expected), ran.outputs)
    assert ran.dead == expected.dead_counts() == {"w_values": 1}  # 2**62 * 4
    (first_window,) = [values for time, values in expected.outputs["out"] if (time, values[0]) == (9, 1)]
    assert first_window[1] == 5 * 2 + 4 * 4


def test_functions_of_columns_need_no_map() -> None:
    query = Query("plain").source(SALES).aggregate("w", TIME("10us"), by="k", total=sum_("n"), other=sum_(col("n"))).output("out").build()
    assert len(query.operators) == 1
    assert computed_first(TIME("10us"), (), (("a", sum_("n")),)) == ((), (("a", sum_("n")),))


def test_an_expression_is_computed_once() -> None:
    """So functions that compare the same choose the same row."""
    best = arg_max({"n": "n", "double": col("n") * 2}, by=col("price") * col("n"))
    built = Query("best").source(SALES).aggregate("w", TIME("10us"), best, most=max_(col("price") * col("n"))).output("out").build()
    before, after = built.operators
    assert isinstance(before, Map) and isinstance(after, Aggregate)
    made = dict(after.functions)
    assert made["n"].by == made["double"].by == made["most"].column and made["n"].column == "n"
    assert set(dict(before.fields)) == {"n", made["n"].by, made["double"].column}


def test_what_is_wrong_names_the_map() -> None:
    with pytest.raises(QueryError, match=r"w_values.*nothing"):
        Query("q").source(SALES).aggregate("w", TIME("10us"), total=sum_(col("nothing") * 2)).output("out").build()
