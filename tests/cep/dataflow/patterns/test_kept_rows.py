"""Rows kept by number, as a list of Python rows has them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.dataflow.patterns import kept_rows
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
def test_rows_that_stay_are_found_by_their_numbers(seed: int) -> None:
    """Which are new ones where some are left behind one by one; and columns that came out are what they were."""
    choose, kept, told = random.Random(seed), KeptRows(SCHEMA, 2), list[tuple[dict[str, Column], list[Any]]]()
    there: dict[int, Tuple] = {}
    with interpreted():
        for step in range(8):
            more = [drawn(choose, 100 * step + k) for k in range(choose.randrange(1, 40))]
            there |= dict(enumerate(more, kept.rows))
            kept.add(batch_of(more, SCHEMA))
            numbers = np.array(choose.choices(sorted(there), k=9))
            told.append((kept.columns(numbers, SCHEMA.names), [there[number].row for number in numbers]))
            assert kept.origins(numbers).tolist() == [list(there[number].origin) for number in numbers]
            if choose.random() < 0.3:
                named = np.array([number in there and choose.random() < 0.4 for number in range(kept.rows)], np.uint8)
                renumbered = kept.keep(named)
                there = {int(renumbered[number]): each for number, each in there.items() if named[number]}
                assert list(there) == list(range(kept.rows))
            elif choose.random() < 0.7:
                first = choose.randrange(min(there), kept.rows + 1)
                assert kept.leave(first, 0)
                there = {number: each for number, each in there.items() if number >= first}
            assert kept.rows - kept.first == len(there)
        for columns, rows in told:
            assert rows_of(columns) == rows


def test_rows_are_not_left_by_age_where_most_would_stay_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "ROWS_MORE", 4)
    kept = KeptRows(SCHEMA, 2)
    with interpreted():
        kept.add(batch_of([drawn(random.Random(0), k) for k in range(30)], SCHEMA))
    assert kept.wants_sweep
    assert not kept.leave(10, 3)  # 20 would stay, of which 3 are remembered
    assert kept.leave(10, 4)
    assert not kept.wants_sweep
    monkeypatch.setattr(kept_rows, "NUMBERS_MAX", 29)
    assert not kept.leave(20, 10)


def test_where_there_is_no_row_a_value_is_null() -> None:
    kept = KeptRows(SCHEMA, 2)
    with interpreted():
        for numbers in ([-1, -1], [0, -1]):
            for name in SCHEMA.names:
                found = [row[name] for row in rows_of({name: kept.column(np.array(numbers), name)})]
                assert found == [None if number < 0 else drawn(random.Random(0), 7).row[name] for number in numbers]
            kept.add(batch_of([drawn(random.Random(0), 7)], SCHEMA))
