"""Rows as JSON, out and in again: of every type, with the values that are most unlike others."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from cep.errors import DataError
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.service.documents import read_json
from driver.rows.json_rows import lines, taken, written
from driver.streams.arrow import record_batches
from driver.streams.resuming.row_keys import keys_of, salt_of

INSTANTS = [0, -1, 1_700_000_000_123_456, 253_402_300_800_000_000, -62_135_596_800_000_001, 2**63 - 1, -(2**63), None]
VALUES: dict[str, list[Any]] = {
    "bool": [True, False, None],
    "int32": [2**31 - 1, -(2**31), None],
    "int64": [2**63 - 1, -(2**63), 2**53 + 1, None],
    "float64": [math.inf, -math.inf, math.nan, -0.0, 5e-324, 0.1, 1e308, None],
    "string": ["", "00ff", "2020-01-01", "nan", "ä\n\0\u2028", None],
    "binary": [b"", b"\x00\xff", "ä".encode(), None],
    "timestamp": INSTANTS,
    "timestamp[s]": INSTANTS,
    "timestamp[ns]": INSTANTS,
}


def bits(batch: pa.RecordBatch) -> tuple[bytes, bytes]:
    """Equal for equal rows, NaN and -0.0 among them."""
    return keys_of(batch, salt_of("")), written(batch)


@pytest.mark.parametrize("of", VALUES)
@pytest.mark.parametrize("is_list", [False, True])
def test_what_went_out_comes_in_as_it_was(of: str, is_list: bool) -> None:
    """Each value in a row, or all of them in a list, an empty one and none."""
    name = f"list<{of}>?" if is_list else f"{of}?"
    stream = Stream("s", Schema.of({"v": name}))
    rows = [VALUES[of], [], None] if is_list else VALUES[of]
    given = pa.record_batch([pa.array(rows, stream.schema["v"].type.arrow)], schema=stream.schema.arrow)
    (again,) = record_batches(taken(read_json(b"[" + written(given) + b"]"), stream), stream)
    assert again.schema == given.schema and bits(again) == bits(given)
    assert [json.loads(line) for line in lines(given)] == read_json(b"[" + written(given) + b"]")


def test_a_text_that_stands_for_nothing_is_refused_with_its_row() -> None:
    stream = Stream("s", Schema.of({"at": "timestamp[ms]", "b": "binary"}))
    with pytest.raises(DataError, match=r"stream 's', field at: timestamp\[ms\], row 1: 'soon': expected an instant") as error:
        taken([{"at": "2024-01-01", "b": ""}, {"at": "soon"}], stream)
    assert error.value.pointer == "/1/at"
