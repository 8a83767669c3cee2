"""Publishers that know other columns than the query: what it reads of their rows, and what they send."""

from __future__ import annotations

import random

import pytest

from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from simulation.growth import UNREAD, Growth, as_known, batches_of, drawn_growth
from tests.reference import Partition

STREAM = Stream("s", Schema.of({"t": "timestamp[us]", "a": "int64?", "b": "string?"}), col("t"), 0)
WIDER = Stream("s", Schema((*STREAM.schema.fields, *UNREAD)), col("t"), 0)
ROWS = [(i, i * 10, f"b{i}") for i in range(10)]


def narrow(width: int) -> Stream:
    return Stream("s", Schema(WIDER.schema.fields[:width]), col("t"), 0)


def test_what_a_publisher_did_not_know_is_null() -> None:
    """It learns of a column behind row 4, and sends three rows at a time: the batch that begins with row 6 has it."""
    growth = Growth(narrow(2), narrow(3), 4)
    found = as_known(growth, STREAM, Partition(1, list(ROWS)), (3,))
    assert found.index == 1
    assert [row[2] for row in found.rows] == [None] * 6 + [f"b{i}" for i in range(6, 10)]  # type: ignore[index]
    assert [row[:2] for row in found.rows] == [row[:2] for row in ROWS]  # type: ignore[index]


def test_batches_have_the_columns_that_are_declared_for_them() -> None:
    growth = Growth(narrow(2), WIDER, 4)
    found = list(batches_of(growth, STREAM, Partition(1, list(ROWS)), (3,)))
    assert [(known.schema.names, batch.num_rows) for known, batch in found] == [
        (("t", "a"), 3),
        (("t", "a"), 3),
        (("t", "a", "b", "unread", "unread_text"), 3),
        (("t", "a", "b", "unread", "unread_text"), 1),
    ]
    assert all(tuple(batch.schema.names) == known.schema.names for known, batch in found)
    assert [value for _, batch in found for value in batch.column("a").to_pylist()] == [row[1] for row in ROWS]
    assert found[2][1].column("unread").to_pylist() == pytest.approx([6 / 7, 1.0, 8 / 7])


def test_some_grow_and_none_lacks_what_it_must_have() -> None:
    drawn = [drawn_growth(random.Random(seed), STREAM, 10) for seed in range(200)]
    widths = {(len(each.first.schema.fields), len(each.later.schema.fields)) for each in drawn}
    assert widths == {(first, later) for first in range(1, 6) for later in range(first, 6)}
    assert 60 < sum(each == Growth(STREAM, STREAM, 0) for each in drawn) < 140
    assert all(0 <= each.at <= 10 for each in drawn)
    no_null = Stream("s", Schema.of({"a": "int64?", "t": "timestamp[us]", "b": "string?"}), col("t"), 0)
    assert {each.schema.names[:2] for seed in range(50) for each in [drawn_growth(random.Random(seed), no_null, 10).first]} == {("a", "t")}
