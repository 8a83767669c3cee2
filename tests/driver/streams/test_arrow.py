"""Tables that lack columns of their stream: NULL where that is allowed. And event times, for a reader and of a promise."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from cep.errors import DataError
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from driver.streams.arrow import instant, record_batches, with_shown_times

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


def test_a_promised_time_is_text_by_the_rules_of_rows_an_integer_of_the_unit_or_a_datetime() -> None:
    """Before, the first text that is refused was 09:00 UTC, and the last one the Monday of the week before."""
    stream = Stream("s", Schema.of({"t": "timestamp[s]"}), event_time=col("t"), disorder=0)
    given = ("2020-01-01", "2020-01-01t09:00:00+0900", 1_577_836_800, datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC))
    assert {instant(time, stream) for time in given} == {1_577_836_800_000_000}
    for text in ("2020-01-01+09:00", "2020-01-01T00:00:00.1234567", "20200101", "soon", "2020-W01"):
        with pytest.raises(DataError, match=rf"stream 's': '{re.escape(text)}': (expected an instant in ISO 8601|timestamps are stored)"):
            instant(text, stream)
    with pytest.raises(DataError, match="1900 to 2199"):
        instant("+012345-01-31", stream)
