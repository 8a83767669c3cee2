"""Held rows against lists: columns of numbers, texts and NULLs, cut out of larger buffers; what was given out stays."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from cep.dataflow.joins.held_rows import HeldRows
from cep.elements import Batch
from cep.kernels.columns import columns_from_arrow, columns_to_arrow
from cep.model.schema import Schema

SCHEMA = Schema.of({"n": "int64", "s": "string?", "b": "bool", "i": "int32?"})


def drawn(choose: random.Random, n: int) -> list[dict[str, object]]:
    return [
        {
            "n": choose.randint(-9, 9),
            "s": choose.choice([None, "", "short", "x" * choose.randint(0, 90)]),
            "b": choose.random() < 0.5,
            "i": choose.choice([None, choose.randint(0, 9)]),
        }
        for _ in range(n)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_they_are_what_was_put_in(seed: int) -> None:
    choose = random.Random(seed)
    held, expected, times, given_out = None, list[dict[str, object]](), list[int](), list[tuple[pa.RecordBatch, Batch]]()
    for _ in range(9):
        rows = drawn(choose, choose.randint(1, 90))
        some = sorted(choose.sample(range(len(rows)), choose.randint(1, len(rows))))
        columns = columns_from_arrow(pa.RecordBatch.from_pylist(rows, SCHEMA.arrow), SCHEMA)
        origin = np.array([[i, -i] for i in range(len(rows))], np.int64)
        batch = Batch(columns, np.arange(len(rows)), origin, choose.choice((0, 5, 7))).take(np.array(some))
        held = held or HeldRows(batch)
        held.add(batch, np.zeros(len(some), np.uint8))
        held.matched[-1] = 1
        expected += [rows[i] for i in some]
        times += some
        there = held.batch
        assert columns_to_arrow(there.columns, SCHEMA).to_pylist() == expected
        assert there.time.tolist() == held.time.tolist() == times
        assert there.origin is not None and there.origin.tolist() == [[i, -i] for i in times]
        given_out.append((columns_to_arrow(there.columns, SCHEMA), there))
    assert held is not None and held.matched.sum() == 9 and held.matched[-1] == 1
    for as_it_was, batch in given_out:
        assert columns_to_arrow(batch.columns, SCHEMA).equals(as_it_was)


def test_bytes_are_those_in_use() -> None:
    columns = columns_from_arrow(pa.RecordBatch.from_pylist([{"n": 1, "s": "x" * 10, "b": True, "i": 3}] * 100, SCHEMA.arrow), SCHEMA)
    held = HeldRows(batch := Batch(columns, np.zeros(100, np.int64)))
    for _ in range(3):
        held.add(batch, np.zeros(100, np.uint8))
    row = 8 + (4 + 8 + 10) + 1 + 4 + 8 + 1  # numbers, text, event time, mark
    assert held.bytes == 300 * row
