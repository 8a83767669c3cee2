"""Rows by key and time against a dict of lists: batches in and out of order, with NULLs, texts long and short."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

from cep.kernels.columns import from_arrow
from cep.kernels.jit import interpreted
from cep.kernels.join import NO_NULLS
from cep.kernels.tables.keys import Keys, encode_keys
from cep.kernels.time_index import TimeIndex
from cep.model.schema import Field, Schema

LONG = "a key of more than fifteen bytes"
_TEXT = Schema.of({"k": "string"})


def keys_of(values: Sequence[str]) -> Keys:
    field: Field = _TEXT["k"]
    return encode_keys({"k": from_arrow(pa.array(values, pa.string()), field.type)}, (field,))


def met(index: TimeIndex, keys: Sequence[str], spans: Sequence[tuple[int, int]], null: np.ndarray = NO_NULLS) -> list[list[int]]:
    low, high = (np.array([span[k] for span in spans], np.int64) for k in range(2))
    ranges = index.probe(keys_of(keys), null, low, high)
    return [ranges.order[a:b].tolist() for a, b in zip(ranges.first, ranges.stop, strict=True)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_rows_of_a_key_and_a_span_of_time_in_order_of_time(seed: int, compiled: bool) -> None:
    choose = random.Random(seed)
    names = ["", "a", "b", LONG, LONG + "!"] + [f"key {i}" for i in range(choose.choice((0, 200)))]
    index, rows, disorder = TimeIndex(), list[tuple[str | None, int]](), choose.choice((0, 5, 1000))
    with nullcontext() if compiled else interpreted():
        for batch in range(8):
            n = choose.randint(0, 60)
            given = [choose.choice(names) for _ in range(n)]
            null = np.array([choose.random() < 0.1 for _ in range(n)], np.uint8) if choose.random() < 0.5 else NO_NULLS
            time = np.array([batch * 20 + choose.randint(-disorder, 20) for _ in range(n)], np.int64)
            index.add(keys_of(given), null, time, len(rows))
            rows += [(None if len(null) and null[i] else given[i], int(time[i])) for i in range(n)]
            asked = [choose.choice([*names, "not there"]) for _ in range(30)]
            spans = [(start := choose.randint(-100, 200), start + choose.choice((-1, 0, 10, 1000))) for _ in asked]
            found = met(index, asked, spans)
            for key, (low, high), got in zip(asked, spans, found, strict=True):
                expected = [i for i, (k, t) in enumerate(rows) if k == key and low <= t <= high]
                assert got == sorted(expected, key=lambda i: (rows[i][1], i))


def test_a_key_that_is_null_meets_nothing() -> None:
    index = TimeIndex()
    index.add(keys_of(["a", "a"]), NO_NULLS, np.array([1, 2]), 0)
    assert met(index, ["a", "a"], [(0, 9), (0, 9)], np.array([0, 1], np.uint8)) == [[0, 1], []]


def test_room_is_a_bounded_multiple_of_the_rows() -> None:
    index = TimeIndex()
    for start in range(0, 20_000, 50):
        index.add(keys_of([f"{i % 7}" for i in range(50)]), NO_NULLS, np.arange(start, start + 50), start)
    assert int(index.used[0]) < 4 * 20_000
