"""Rows kept by number, as a list of Python rows has them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.dataflow.patterns.kept_rows import KeptRows
from cep.kernels.columns import Column
from cep.kernels.jit import interpreted
from cep.model.schema import Schema
from tests.support.single_operator import Tuple, batch_of, rows_of

SCHEMA = Schema.of({"t": "string?", "v": "int64?", "x": "float64", "b": "bool?"})


def drawn(choose: random.Random, number: int) -> Tuple:
    text = choose.choice((None, "", "a", "longer than fifteen bytes"))
    row = {"t": text, "v": choose.choice((None, number)), "x": number / 2, "b": choose.choice((None, True, False))}
    return Tuple(0, (0, number), row)


@given(st.integers(0, 999))
def test_rows_that_stay_are_found_under_their_new_numbers(seed: int) -> None:
    """And columns that came out are what they were."""
    choose, kept, told = random.Random(seed), KeptRows(SCHEMA, 2), list[tuple[dict[str, Column], list[Any]]]()
    there: list[Tuple] = []
    with interpreted():
        for step in range(6):
            more = [drawn(choose, 100 * step + k) for k in range(choose.randrange(1, 40))]
            kept.add(batch_of(more, SCHEMA))
            there += more
            numbers = np.array([choose.randrange(len(there)) for _ in range(9)])
            told.append((kept.columns(numbers, SCHEMA.names), [there[number].row for number in numbers]))
            assert kept.origins(numbers).tolist() == [list(there[number].origin) for number in numbers]
            if choose.random() < 0.5:
                named = np.array([choose.random() < 0.4 for _ in there], np.uint8)
                renumbered, before = kept.keep(named), there
                there = [each for each, stays in zip(before, named, strict=True) if stays]
                assert [there[renumbered[i]] for i in np.flatnonzero(named)] == [before[i] for i in np.flatnonzero(named)]
            assert kept.rows == len(there)
        for columns, rows in told:
            assert rows_of(columns) == rows


def test_where_there_is_no_row_a_value_is_null() -> None:
    kept = KeptRows(SCHEMA, 2)
    with interpreted():
        for numbers in ([-1, -1], [0, -1]):
            for name in SCHEMA.names:
                found = [row[name] for row in rows_of({name: kept.column(np.array(numbers), name)})]
                assert found == [None if number < 0 else drawn(random.Random(0), 7).row[name] for number in numbers]
            kept.add(batch_of([drawn(random.Random(0), 7)], SCHEMA))
