"""Lists: as Arrow has them, through the border and back; exploded; ordered; in whole queries.

Tests `lists.py`, `cep/kernels/column.py`, `cep/kernels/columns.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.compile.aggregate.ties import packed_column, rows_of
from cep.dataflow.outputs.output import concatenated
from cep.elements import Batch
from cep.kernels.columns import Column, compact, from_arrow, to_arrow
from cep.kernels.jit import interpreted
from cep.kernels.states.lists import elements_at, encode_elements, explode, list_lengths, lists_of
from cep.model.expr import col
from cep.model.functions import count, first, last, sum_
from cep.model.operators import Aggregate, Map
from cep.model.query import Options, Output, Query
from cep.model.schema import STRING, DataType, Field, Schema, list_of, parse_type
from cep.model.streams import Stream
from cep.model.windows import TIME
from cep.transport.wire import Format
from tests.reference.rows import Partition
from tests.strategies import Case, Execution, values_of
from tests.support.running import run_case

ELEMENTS = ("bool", "int32", "int64", "float64", "timestamp[us]", "string", "binary")


@pytest.fixture(params=["interpreted", "compiled"])
def mode(request: pytest.FixtureRequest) -> Any:
    return interpreted if request.param == "interpreted" else nullcontext


def arrow_of(values: list[Any], element: DataType) -> pa.Array:
    """Timestamps are given as µs."""
    if element.name == "timestamp":
        return pa.array(values, pa.list_(pa.int64())).cast(pa.list_(element.arrow))
    return pa.array(values, pa.list_(element.arrow))


def plain(array: pa.Array) -> list[Any]:
    """Timestamps as µs, NaN as a word, so that what is the same is equal."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_list(array.type) and pa.types.is_timestamp(array.type.value_type):
        array = array.cast(pa.list_(pa.int64()))
    return [[_named(v) for v in each] if isinstance(each, list) else _named(each) for each in array.to_pylist()]


def _named(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


@st.composite
def lists(draw: DrawFn) -> tuple[DataType, list[Any]]:
    element = parse_type(draw(st.sampled_from(ELEMENTS)))[0]
    one = st.one_of(st.none(), st.lists(st.one_of(st.none(), values_of(element)), max_size=4))
    return element, draw(st.lists(one, max_size=8))


@given(case=lists(), start=st.integers(0, 3))
def test_lists_come_back_from_the_border_as_they_were(case: tuple[DataType, list[Any]], start: int) -> None:
    element, values = case
    with interpreted():
        array = arrow_of(values, element)[start:]
        column = from_arrow(array, list_of(element))
        back = to_arrow(column)
        back.validate(full=True)
        assert back.type == array.type and plain(back) == plain(array)
        reversed_ = np.arange(len(array))[::-1].copy()
        assert plain(to_arrow(compact(column.take(reversed_)))) == plain(array)[::-1]


@given(case=lists(), data=st.data())
def test_explode_lengths_and_elements_are_those_of_python(case: tuple[DataType, list[Any]], data: st.DataObject) -> None:
    element, values = case
    wanted = [(i, k, _named(v)) for i, each in enumerate(values) for k, v in enumerate(each or [])]
    ordinals = data.draw(st.lists(st.integers(-1, 5), min_size=len(values), max_size=len(values)))
    with interpreted():
        column = from_arrow(arrow_of(values, element), list_of(element))
        rows, places, elements = explode(column)
        assert elements.type == element
        assert list(zip(rows.tolist(), places.tolist(), plain(to_arrow(elements)), strict=True)) == wanted
        assert list_lengths(column).tolist() == [len(each or []) for each in values]
        chosen = plain(to_arrow(elements_at(column, np.array(ordinals, np.int64))))
        assert chosen == [_named(each[k]) if each and 0 <= k < len(each) else None for each, k in zip(values, ordinals, strict=True)]


@given(case=lists(), other=lists())
def test_lists_are_a_part_of_a_row_and_travel(case: tuple[DataType, list[Any]], other: tuple[DataType, list[Any]]) -> None:
    (a, left), (b, right) = case, other
    n = min(len(left), len(right))
    fields = (Field("a", list_of(a), True), Field("b", list_of(b), True), Field("c", STRING))
    with interpreted():
        columns = {
            "a": from_arrow(arrow_of(left[:n], a), list_of(a)),
            "b": from_arrow(arrow_of(right[:n], b), list_of(b)),
            "c": from_arrow(pa.array(["x"] * n, pa.string()), STRING),
        }
        rows = rows_of(columns, fields, n)
        for field in fields:
            assert plain(to_arrow(packed_column(rows, fields, field.name))) == plain(to_arrow(columns[field.name]))
        batch = Batch(columns, np.zeros(n, np.int64))
        both = concatenated([batch, batch.take(slice(0, n // 2))])
        assert plain(to_arrow(both.columns["a"])) == [*plain(to_arrow(columns["a"])), *plain(to_arrow(columns["a"]))[: n // 2]]
        wire = Format(Schema(fields), False)
        there = wire.decode(memoryview(wire.to_arrow(batch).serialize()))
        assert {name: plain(to_arrow(c)) for name, c in there.columns.items()} == {name: plain(to_arrow(c)) for name, c in columns.items()}


def test_machine_code_does_the_same() -> None:
    values = [["a\0b", None, "", "\0"], None, [], ["日本語", "x" * 40] * 3]
    column = from_arrow(pa.array(values, pa.list_(pa.string())), list_of(STRING))
    rows, ordinals, elements = explode(column)
    assert (rows.tolist(), ordinals.tolist()) == ([0] * 4 + [3] * 6, [*range(4), *range(6)])
    assert to_arrow(elements).to_pylist() == values[0] + values[3]
    assert to_arrow(elements_at(column, np.array([1, 0, 0, 5]))).to_pylist() == [None, None, None, "x" * 40]
    assert to_arrow(column).to_pylist() == values


def test_elements_encoded_one_by_one_are_what_lists_consist_of(mode: Callable[[], Any]) -> None:
    with mode():
        numbers = from_arrow(pa.array([3, None, -1], pa.int64()), DataType("int64"))
        encoded = encode_elements(numbers)
        whole = lists_of(numbers, np.array([0, 0, 3]))
        assert whole.data is not None and encoded.data is not None
        assert bytes(encoded.data[:27]) == bytes(whole.data[:27]) and whole.values.tolist() == [0, 27]
        by_hand = Column(whole.type, np.array([18], np.int32), None, encoded.data, np.array([9]))
        assert to_arrow(by_hand).to_pylist() == [[None, -1]]


def test_lists_are_ordered_element_by_element(mode: Callable[[], Any]) -> None:
    values = [[], [None], ["", "z"], ["a"], ["a", None], ["a", "a"], ["a\0"], ["b"]]
    fields = (Field("a", list_of(STRING)),)
    with mode():
        rows = rows_of({"a": from_arrow(pa.array(values, pa.list_(pa.string())), list_of(STRING))}, fields, len(values))
        written = to_arrow(rows).to_pylist()
    assert written == sorted(written)


# --- in queries ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pre_aggregation", ["off", "on"])
def test_lists_are_split_kept_by_windows_and_answered(pre_aggregation: str) -> None:
    r"""One window; FIRST and LAST of what a map splits, and of a list that was published.

    t   0    1    2
        a,b  ""   c
    """
    published = Stream("s", Schema.of({"t": "timestamp[us]", "s": str, "w": "list<int64>?"}), col("t"), 0)
    mapped = Map("m", "s", (("parts", col("s").split(",")), ("w", col("w")), ("n", col("s").split(",").list_length())))
    functions = {"f": first("parts"), "l": last("parts"), "w": first("w"), "v": last("w"), "c": count("w"), "n": sum_("n")}
    asked = Query("q", (published,), (mapped, Aggregate("a", "m", TIME("10us"), (), tuple(functions.items()))), (Output("out", "a"),))
    rows = [(0, "a,b", None), (1, "", [1, None]), (2, "c", [])]
    options = Options(parallelism=2, pre_aggregation=pre_aggregation)
    with interpreted():
        ran = run_case(Case(asked, {"s": [Partition(0, rows)]}), Execution(options, (2,), (), (0, 1), 1 << 20, 1))
    assert ran.outputs["out"] == [(9, (["a", "b"], ["c"], None, [], 2, 4))]
