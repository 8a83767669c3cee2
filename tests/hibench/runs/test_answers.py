"""Answers: the checksum, and what tells them apart."""

import numpy as np
import pyarrow as pa
import pytest

from hibench.runs.answers import AnswerSum, difference, folded, row_hashes, summed
from hibench.workloads import WORKLOADS
from hibench.workloads.workload import RunTerms

FIXED_WINDOW = WORKLOADS["fixed-window"]
SHAPE = FIXED_WINDOW.shape(RunTerms(30_000, 30_000, 0, 0))
ROWS = [
    ("10.0.0.1", 1, 5, 3),
    ("10.0.0.2", 1, 1, 1),
    ("255.255.255.255", 0, 9, 2),
    ("a-much-longer-key-than-that", 2, 2, 1),
]


def table(rows, shape=SHAPE):
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, shape.schema, strict=True)], schema=shape.schema)


def summarise(found, shape=SHAPE):
    return summed(shape, [found], 30_000).result()


def differing(expected, got):
    return difference(SHAPE, lambda: [expected], lambda: [got])


def test_the_last_of_running_answers_is_taken_however_they_are_cut():
    shape = WORKLOADS["wordcount"].shape(RunTerms(1, 1, 0, 0))
    rows = [("a", 1, 1), ("b", 1, 1), ("a", 5, 2), ("a", 9, 3), ("b", 7, 2)]
    pieces = [table(rows[:2], shape), table(rows[2:], shape)]
    assert sorted(map(tuple, (row.values() for row in folded(shape, reversed(pieces)).to_pylist()))) == [("a", 9, 3), ("b", 7, 2)]


def test_the_checksum_knows_no_order_and_no_cutting():
    whole = summarise(table(ROWS))
    total = AnswerSum(SHAPE, 30_000)
    for row in reversed(ROWS):
        total.add(table([row]))
    assert total.result() == whole
    assert whole.rows == 4
    assert whole.events == 7


@pytest.mark.parametrize(
    "changed",
    [
        [*ROWS[1:]],
        [*ROWS, ROWS[0]],
        [("10.0.0.3", *ROWS[0][1:]), *ROWS[1:]],
        [("10.0.0.1", 2, 5, 3), *ROWS[1:]],
        [("10.0.0.1", 1, 6, 3), *ROWS[1:]],
        [("10.0.0.1", 1, 5, 4), *ROWS[1:]],
        [("10.0.0.1", 5, 1, 3), *ROWS[1:]],
        [("10.0.0.2", 1, 5, 3), ("10.0.0.1", 1, 1, 1), *ROWS[2:]],
        [*ROWS[:3], ("a-much-longer-key-than-thaT", 2, 2, 1)],
        [*ROWS, ROWS[0], ROWS[0]],
    ],
)
def test_the_checksum_and_the_difference_see_every_change(changed):
    assert summarise(table(changed)) != summarise(table(ROWS))
    assert summarise(table(changed)).checksum != summarise(table(ROWS)).checksum
    assert differing(table(ROWS), table(changed)) != ""


def test_random_answers_hardly_ever_collide():
    numbers = np.arange(100_000)
    rows = pa.table([pa.array(numbers.astype(str)), numbers, numbers, numbers], schema=SHAPE.schema)
    assert len(np.unique(row_hashes(rows))) == len(rows)


def test_texts_floats_and_nulls_count_too():
    shape = WORKLOADS["broadcast"].shape(RunTerms(1, 1, 0, 0))
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.float64()), ("d", pa.int64())])
    rows = [
        ("x", "y", 1.0, 1),
        ("xy", "", 1.0, 1),
        ("", "xy", 1.0, 1),
        (None, "xy", 1.0, 1),
        ("x", "y", 1.5, 1),
        ("x", "y", None, 1),
        ("x", "y", 1.0, None),
    ]
    found = row_hashes(
        pa.table([pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), schema.types, strict=True)], schema=schema)
    )
    assert len(set(found.tolist())) == len(rows)
    zeros = [table([("1.2.3.4", 1, zero, 0)], shape) for zero in (0.0, -0.0)]
    assert row_hashes(zeros[0])[0] == row_hashes(zeros[1])[0]


def test_no_answers_at_all():
    nothing = SHAPE.schema.empty_table()
    assert summarise(nothing).rows == 0
    assert differing(nothing, nothing) == ""


def test_the_difference_names_rows_of_both_sides():
    text = differing(table(ROWS), table([("10.0.0.1", 1, 5, 4), *ROWS[1:]]))
    assert "expected but missing: 1 different rows\n  ip '10.0.0.1', start 1, end 5, visits 3" in text
    assert "got but not expected: 1 different rows\n  ip '10.0.0.1', start 1, end 5, visits 4" in text
