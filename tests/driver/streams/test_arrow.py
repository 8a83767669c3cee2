"""Tables that lack columns of their stream: NULL where that is allowed. And event times for a reader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cep.errors import DataError
from cep.model.schema import Schema
from cep.model.streams import Stream
from driver.streams.arrow import record_batches, with_shown_times

NULLABLE = {
    "b": "bool?",
    "i": "int32?",
    "f": "float64?",
    "t": "timestamp?",
    "u": "timestamp[ms]?",
    "s": "string?",
    "y": "binary?",
    "l": "list<string>?",
}
STREAM = Stream("s", Schema.of({"n": "int64", **NULLABLE}))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_columns_that_may_be_null_may_be_missing(rows: int) -> None:
    given = pa.table({"n": pa.array(range(rows), pa.int64()), "i": pa.array([7] * rows, pa.int64())})
    found = record_batches(given, STREAM)
    assert [row for batch in found for row in batch.to_pylist()] == [{"n": n, **dict.fromkeys(NULLABLE), "i": 7} for n in range(rows)]
    assert all(batch.schema == STREAM.schema.arrow for batch in found)


@pytest.mark.parametrize(
    ("columns", "said"),
    [(("i",), r"missing fields: \['n'\], unknown fields: \[\]"), (("n", "more"), r"missing fields: \[\], unknown fields: \['more'\]")],
)
def test_others_may_not_and_none_may_be_there_that_the_stream_has_not(columns: tuple[str, ...], said: str) -> None:
    with pytest.raises(DataError, match=said):
        record_batches(pa.table({name: [1] for name in columns}), STREAM)


def test_event_times_at_the_end_are_shown_as_null() -> None:
    def shown(*times: int) -> list[Any]:
        arrays = [pa.array(range(len(times))), pa.array(times, pa.timestamp("us", tz="UTC"))]
        batch = pa.RecordBatch.from_arrays(arrays, ["n", "event_time"])
        made = with_shown_times(batch)
        assert made.schema == batch.schema and made.column(0) == batch.column(0)
        return made.column(1).cast(pa.int64()).to_pylist()

    assert shown() == [] and shown(-5, 0, 2**61 - 1) == [-5, 0, 2**61 - 1]
    assert shown(7, 2**61, -(2**61), 2**61 + 10**6) == [7, None, -(2**61), None]
