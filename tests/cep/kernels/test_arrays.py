"""Arrow arrays that are made without `pa.array` are what that would have made."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cep.kernels.arrays import bytes_array, empty_batch, int64_array, mask_array


@given(st.lists(st.none() | st.binary(max_size=9), max_size=20))
def test_bytes(values: list[bytes | None]) -> None:
    made = bytes_array(values, pa.large_binary())
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.large_binary()))


@given(st.lists(st.booleans(), max_size=20))
def test_masks_and_numbers(flags: list[bool]) -> None:
    numbers = np.arange(2 * len(flags))[::2]
    assert mask_array(np.array(flags, bool)).equals(pa.array(flags, pa.bool_()))
    assert int64_array(numbers).equals(pa.array(numbers))


def test_batches_of_no_rows() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), False), ("text", pa.string()), ("at", pa.timestamp("us"))])
    assert empty_batch(schema).equals(pa.RecordBatch.from_pylist([], schema))
