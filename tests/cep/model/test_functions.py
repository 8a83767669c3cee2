"""Functions of aggregates as they are described: documents, what builders refuse, types and classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from cep.errors import QueryError
from cep.model import functions
from cep.model.expr import col
from cep.model.functions import (
    FUNCTIONS,
    Function,
    Order,
    approx_count_distinct,
    arg_max,
    arg_min,
    collect,
    count,
    count_distinct,
    first,
    from_json,
    last,
    median,
    quantile,
    result_field,
    stddev,
    stddev_pop,
    sum_,
    to_json,
    var,
    var_pop,
)
from cep.model.schema import Schema

NAN = math.nan
ALL = [
    arg_min("x", "y"),
    arg_max("x", "y"),
    *(f("x") for f in (var, stddev, var_pop, stddev_pop, count_distinct, approx_count_distinct, median)),
    approx_count_distinct("x", 5),
    quantile("x", 0.25),
    quantile("x", 1),
    collect("x", 7),
]


@pytest.mark.parametrize("function", ALL)
def test_documents(function: Function) -> None:
    assert from_json(to_json(function)) == function


def test_a_document_by_hand() -> None:
    assert to_json(quantile("x", 0.5)) == {"function": "quantile", "column": "x", "q": 0.5}
    assert to_json(arg_max("url", "price")) == {"function": "arg_max", "column": "url", "by": "price"}
    assert from_json({"function": "approx_count_distinct", "column": "x"}) == approx_count_distinct("x")


@pytest.mark.parametrize(
    ("document", "pointer", "message"),
    [
        ({"function": "quantile", "column": "x"}, "/f/q", "q: expected a number between 0 and 1, got None"),
        ({"function": "quantile", "column": "x", "q": 1.5}, "/f/q", "got 1.5"),
        ({"function": "quantile", "column": "x", "q": "half"}, "/f/q", "got 'half'"),
        ({"function": "collect", "column": "x", "at_most": 10_001}, "/f/at_most", "a whole number between 1 and 10000, got 10001"),
        ({"function": "collect", "column": "x", "at_most": True}, "/f/at_most", "got True"),
        ({"function": "approx_count_distinct", "column": "x", "precision": 12.5}, "/f/precision", "between 4 and 16, got 12.5"),
        ({"function": "arg_min", "column": "x"}, "/f", "arg_min takes a column in 'by', got None"),
        ({"function": "min", "column": "x", "by": "y"}, "/f", "min takes no 'by', got 'y'"),
        ({"function": "arg_min", "column": "x", "by": 3}, "/f/by", "expected the name of a column, got 3"),
        ({"function": "median", "column": "x", "q": 0.5}, "/f/q", "unknown key 'q'; median has column"),
        ({"function": "var"}, "/f", "var takes one column"),
    ],
)
def test_what_documents_are_refused(document: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        from_json(document, "/f")
    assert raised.value.pointer == pointer and message in raised.value.message


def test_builders_refuse_the_same() -> None:
    for build in (lambda: quantile("x", NAN), lambda: collect("x", 0), lambda: approx_count_distinct("x", 3)):
        with pytest.raises(QueryError, match="expected a"):
            build()


def test_several_columns_in_the_builder() -> None:
    assert first(["a", "b"]) == {"a": first("a"), "b": first("b")} == last(("a", "b")) | first(["a", "b"])
    assert arg_max({"best": "price", "who": col("id")}, by="price") == {"best": arg_max("price", "price"), "who": arg_max("id", "price")}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: first([]), r'first: expected columns such as \["a", "b"\], or with names of their own, .*got \[\]'),
        (lambda: arg_min([col("a") * 2], by="b"), "arg_min: expected columns such as"),
        (lambda: last(["a", "b", "a"]), "last: expected every column once"),
    ],
)
def test_what_are_no_columns(make: Callable[[], object], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


@pytest.mark.parametrize(
    ("function", "type_", "expected"),
    [
        (var("v"), "int32", "float64?"),
        (var_pop("v"), "int32", "float64"),
        (median("v"), "int64?", "float64?"),
        (count_distinct("v"), "binary?", "int64"),
        (arg_min("v", "v"), "string", "string"),
        (collect("v", 3), "timestamp[ms]?", "list<timestamp[ms]>"),
    ],
)
def test_types(function: Function, type_: str, expected: str) -> None:
    field = Schema.of({"v": type_})["v"]
    assert str(result_field("r", function, field, field)) == f"r: {expected}"


@pytest.mark.parametrize("function", [var("v"), median("v"), quantile("v", 0.5), stddev_pop("v")])
def test_what_takes_numbers_says_so(function: Function) -> None:
    with pytest.raises(QueryError, match=rf"{function.name}\(v\): expected a number, got string"):
        result_field("r", function, Schema.of({"v": str})["v"])


def test_every_function_has_a_class() -> None:
    classes = {order: {name for name in FUNCTIONS if Function(name).order is order} for order in Order}
    assert classes[Order.MERGEABLE] == {"first", "last", "arg_min", "arg_max", "collect"}
    assert classes[Order.SEQUENTIAL] == {"lag", "row_number"}
    assert classes[Order.COMMUTATIVE] == FUNCTIONS.keys() - classes[Order.MERGEABLE] - {"lag", "row_number"}


def test_which_partials_are_large() -> None:
    types = Schema.of({"i": int, "x": float})
    large_of = {f.name for f in (*ALL, sum_("x"), functions.avg("x"), count("x")) if f.why_large(types["x"].type)}
    assert large_of == {"sum", "avg", "var", "stddev", "var_pop", "stddev_pop", "count_distinct", "collect"}
    assert {f.name for f in (*ALL, sum_("x")) if f.why_large(types["i"].type)} == {"count_distinct", "collect"}
