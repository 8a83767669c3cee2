"""What a pane takes of batches and keeps of that, numbered anew at any time, and in which order, against a sort of all rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cep.dataflow.operators.ranking import Ranking
from cep.dataflow.state.best_rows import BestRows
from cep.elements import Batch
from cep.kernels.columns import Column
from cep.model.schema import Schema

SCHEMA = Schema.of({"k": "int64", "x": "int64"})


@pytest.mark.parametrize("most", [1, 2, 7, 64])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_left_are_the_first_of_each_group(seed: int, most: int) -> None:
    choose = np.random.default_rng(seed)
    descending, spread = random.Random(seed).random() < 0.5, random.Random(seed).choice((3, 1000))
    best = BestRows(Ranking(SCHEMA, ("k",), (("x", descending),), most, False))
    given, held = np.empty((0, 3), np.int64), np.empty((0, 3), np.int64)  # rows of (k, x, origin)
    for _ in range(30):
        n = int(choose.integers(1, 80))
        batch = np.column_stack((choose.integers(0, 3, n), choose.integers(0, spread, n), np.arange(len(given), len(given) + n)))
        columns = {"k": Column(SCHEMA["k"].type, batch[:, 0].copy()), "x": Column(SCHEMA["x"].type, batch[:, 1].copy())}
        taken = best.taken(Batch(columns, np.zeros(n, np.int64), batch[:, 2:].copy()))
        assert taken.origin is not None
        given = np.concatenate((given, batch))
        held = np.concatenate((held, given[taken.origin[:, 0]]))
        if choose.random() < 0.5:
            held = held[best.forget()]
            order = np.lexsort((given[:, 2], -given[:, 1] if descending else given[:, 1], given[:, 0]))
            expected = [row for k in range(3) for row in given[order][given[order, 0] == k][:most].tolist()]
            assert sorted(held.tolist()) == sorted(expected)
            assert best.left == len(held)
            rows, ranks = best.ranked()
            answers = [[*held[place].tolist(), rank] for place, rank in zip(rows, ranks.tolist(), strict=True)]
            firsts = {k: next(i for i, row in enumerate(answers) if row[0] == k) for k in {row[0] for row in answers}}
            assert [rank for *_, rank in answers] == [i - firsts[row[0]] + 1 for i, row in enumerate(answers)]
            assert sorted(answers, key=lambda row: row[0]) == [
                [*row, rank] for k in range(3) for rank, row in enumerate((row for row in expected if row[0] == k), 1)
            ]
