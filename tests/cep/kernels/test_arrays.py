"""Arrow arrays that are made without `pa.array` are what that would have made, and the engine makes none with it."""

from __future__ import annotations

import ast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.kernels.arrays import bytes_array, empty_batch, flags_in, int64_array, mask_array, numbers_in, text_array
from tests.support.paths import ROOT

#: Where pandas may be read, if there is one: while a query is described or built, or for values that a user's function gives.
IN_NO_HASTE = {"cep/model/function_types.py", "cep/dataflow/outputs/text_codes.py", "cep/compile/user/values.py"}


@given(st.lists(st.none() | st.binary(max_size=9), max_size=20))
def test_bytes(values: list[bytes | None]) -> None:
    made = bytes_array(values, pa.large_binary())
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.large_binary()))
    small = bytes_array(values, pa.binary())
    small.validate(full=True)
    assert small.equals(pa.array(values, pa.binary()))


@given(st.lists(st.text(max_size=5), max_size=9))
def test_texts(values: list[str]) -> None:
    assert text_array(values).equals(pa.array(values, pa.string()))


@pytest.mark.parametrize("kind", ["int64", "int32", "uint64"])
def test_numbers_are_read_where_they_lie(kind: str) -> None:
    numbers = np.arange(10).astype(kind)
    array = pa.array(numbers)
    assert (
        numbers_in(array.slice(3, 4), numbers.dtype).tolist() == [3, 4, 5, 6]
        and numbers_in(array.slice(4, 0), numbers.dtype).dtype == numbers.dtype
    )
    assert numbers_in(pa.nulls(0, array.type), numbers.dtype).tolist() == []


@given(st.lists(st.booleans(), max_size=20))
def test_masks_and_numbers(flags: list[bool]) -> None:
    numbers = np.arange(2 * len(flags))[::2]
    masks = mask_array(np.array(flags, bool))
    assert masks.equals(pa.array(flags, pa.bool_()))
    assert flags_in(masks.slice(1)).tolist() == flags[1:] and flags_in(masks).dtype == bool
    assert int64_array(numbers).equals(pa.array(numbers))


def test_batches_of_no_rows() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), False), ("text", pa.string()), ("at", pa.timestamp("us"))])
    assert empty_batch(schema).equals(pa.RecordBatch.from_pylist([], schema))


def test_the_engine_converts_no_arrays_by_what_reads_pandas() -> None:
    """`array` and `to_numpy` of pyarrow do, 0.2 to 0.4 s. As `asarray` of an Arrow array and functions with constants of Python do, which
    are not looked for."""
    found = set()
    for folder in ("cep", "instance_manager"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and (node.attr == "to_numpy" or ast.unparse(node) == "pa.array"):
                    found.add(str(path.relative_to(ROOT)))
    assert found <= IN_NO_HASTE, f"use cep.kernels.arrays: {found - IN_NO_HASTE}"
