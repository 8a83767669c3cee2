"""Lists that are published: what is taken, and what is refused with its place."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from cep.errors import DataError
from cep.kernels.columns import from_arrow, to_arrow
from cep.model.schema import Schema, parse_type
from cep.model.streams import Stream
from driver.streams.arrow import record_batches


def stream(type_: object) -> Stream:
    return Stream("s", Schema.of({"a": type_}))


@pytest.mark.parametrize(
    ("type_", "data", "wanted"),
    [
        ("list<int32>?", [{"a": [1, None]}, {"a": None}, {"a": []}], [[1, None], None, []]),
        ("list<string>", pa.table({"a": pa.array([["x"]], pa.large_list(pa.large_string()))}), [["x"]]),
        ("list<float64>", pa.table({"a": pa.array([[1, 2]], pa.list_(pa.int32(), 2))}), [[1.0, 2.0]]),
        ("list<string>?", pa.table({"a": pa.nulls(1)}), [None]),
        ("list<string>", pa.table({"a": pa.array([["x"], ["y", None]])}).slice(1), [["y", None]]),
    ],
)
def test_lists_that_are_published(type_: str, data: Any, wanted: list[Any]) -> None:
    (batch,) = record_batches(data, stream(type_))
    assert batch.column("a").to_pylist() == wanted
    assert to_arrow(from_arrow(batch.column("a"), parse_type(type_)[0])).to_pylist() == wanted


def test_integers_in_lists_of_timestamps_are_of_their_unit() -> None:
    (batch,) = record_batches([{"a": [1, None]}], stream("list<timestamp[ms]>"))
    assert batch.column("a").cast(pa.list_(pa.int64())).to_pylist() == [[1000, None]]
    (batch,) = record_batches([{"a": [datetime(1970, 1, 1)]}], stream("list<timestamp>"))
    assert batch.column("a").cast(pa.list_(pa.int64())).to_pylist() == [[0]]


@pytest.mark.parametrize(
    ("type_", "data", "message"),
    [
        ("list<int64>", [{"a": ["x"]}], r"stream 's', field a: list<int64>"),
        ("list<int64>", pa.table({"a": [["x"]]}), r"field a\[\]: int64\?: expected int64, got string"),
        ("list<int64>", pa.table({"a": [1]}), r"field a: list<int64>: expected list<item: int64>, got int64"),
        ("list<int64>", [{"a": None}], r"1 NULL where none is allowed"),
        ("list<binary>", [{"a": [b"x" * (1 << 24)]}], r"a value of 16777219 bytes; expected at most"),
    ],
)
def test_lists_that_are_refused(type_: str, data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        record_batches(data, stream(type_))


@pytest.mark.parametrize("type_", ["int64", "int32", "float64", "string", "timestamp[ms]", "timestamp", "list<int64>", "list<float64>"])
def test_an_integer_that_python_writes_no_text_of_is_refused_with_its_place(type_: str) -> None:
    """Before, a ValueError of Python's own."""
    huge: Any = [10**5000] if type_.startswith("list") else 10**5000
    with pytest.raises(DataError, match=r"stream 's', field a: .*, row 1: ") as refused:
        record_batches([{"a": None}, {"a": huge}], stream(f"{type_}?"))
    assert refused.value.pointer == "/1/a"
    with pytest.raises(DataError, match="row 0: expected a dict, got a number of thousands of digits"):
        record_batches([10**5000], stream(f"{type_}?"))
