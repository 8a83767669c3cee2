"""Small batches as they travel: what is written is read as it was, and what has to be looked into is not written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.elements import MIN_TIME
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.transport.wire import Format
from driver.streams.small_batches import ROWS_MAX, SmallBatches, small_batches

SCHEMA = Schema.of({"k": str, "n": "int32?", "ts": "timestamp[us]", "late": "timestamp[us]?"})
NOW = 1_700_000_000_000_000


def batch(rows: int, **others: Any) -> pa.RecordBatch:
    i = np.arange(rows)
    columns = {"k": [f"k{j}" for j in i], "n": i, "ts": NOW - 1000 * i, "late": NOW + 1000 * i} | others
    return pa.record_batch([pa.array(columns[name], SCHEMA.arrow.field(name).type) for name in SCHEMA.names], schema=SCHEMA.arrow)


def stream_of(event_time: str | None, schema: Schema = SCHEMA) -> Stream:
    return Stream("s", schema) if event_time is None else Stream("s", schema, event_time=col(event_time), disorder=0)


def small(event_time: str | None) -> SmallBatches:
    found = small_batches(stream_of(event_time))
    assert found is not None
    return found


@pytest.mark.parametrize("event_time", [None, "ts", "late"])
@pytest.mark.parametrize("rows", [1, 2, ROWS_MAX])
def test_what_is_written_is_read(event_time: str | None, rows: int) -> None:
    """Twice, as the second batch is of metadata that are known; and of a batch that is a part of another one."""
    made, format_ = small(event_time), Format.published(stream_of(event_time))
    for sent in (batch(rows), batch(rows, n=[None] * rows), batch(rows, n=np.full(rows, 7)), batch(rows + 3).slice(2, rows)):
        written = made.write(sent, NOW)
        if written is None:  # numbers that begin within a word
            assert sent.column(0).offset
            continue
        times = np.full(rows, NOW) if event_time is None else sent[event_time].cast("int64").to_numpy()
        assert (written.rows, written.greatest, written.whole) == (rows, times.max(), None)
        read = format_.decode(bytes(written.body))
        assert read.time.tolist() == times.tolist()
        assert format_.to_arrow(read).select(SCHEMA.names).to_pydict() == sent.to_pydict()
    assert made.write(batch(rows), NOW) is not None


def test_a_time_that_is_not_allowed_is_not_the_greatest() -> None:
    made = small("ts")
    before = made.write(batch(1, ts=[-(1 << 62)]), NOW), made.write(batch(2, ts=[NOW, -(1 << 62)]), NOW)
    assert [written and written.greatest for written in before] == [MIN_TIME, NOW]


def test_others_are_not_written() -> None:
    made = small("late")
    assert made.write(batch(0), NOW) is None and made.write(batch(ROWS_MAX + 1), NOW) is None
    assert made.write(batch(2, late=[None, NOW]), NOW) is None
    assert made.write(batch(2).select(["k", "n", "late", "ts"]), NOW) is None
    assert made.write(batch(2).set_column(1, "n", pa.array([1, 2], pa.int64())), NOW) is None
    assert made.write(batch(1, k=["x" * (1 << 20)]), NOW) is None
    loose = [pa.record_batch([pa.array(texts), *batch(2).columns[1:]], names=SCHEMA.names) for texts in (["a", None], ["a", "b"])]
    assert [made.write(each, NOW) is None for each in loose] == [True, False], "a NULL, where only the schema allows one"


def test_times_that_are_computed_and_lists_are_looked_into() -> None:
    computed = Stream("s", SCHEMA, event_time=col("ts") + col("n"), disorder=0)
    assert small_batches(computed) is None
    assert small_batches(stream_of("ts", Schema.of({"ts": "timestamp[us]", "x": "list<int64>"}))) is None
