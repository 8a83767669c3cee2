"""The first rows of each group by words, against a sort of all rows: batches in any order.

Tests `best_rows.py`, `tables/group_table.py`.
"""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy as np
import pytest

from cep.kernels.best_rows import BEST, FRESH, GONE, NO_ROW, offer
from cep.kernels.jit import interpreted
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.keys import Keys


def linked(nodes: np.ndarray, row: int) -> list[int]:
    """The rows of a group from its worst."""
    found = []
    while row != NO_ROW:
        found.append(row)
        row = int(nodes[row, 0])
    return found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_first_of_each_group_worst_first(seed: int, compiled: bool) -> None:
    choose = random.Random(seed)
    most, keys, spread = choose.choice((1, 2, 5, 64)), choose.choice((1, 3, 40)), choose.choice((1, 4, 10**18))
    groups, counts, nodes = GroupTable(FRESH), np.zeros(2, np.int64), np.empty((1200, 4), np.int64)
    given: list[tuple[int, tuple[int, ...]]] = []
    held: list[int] = []  # of each node its row in `given`
    with nullcontext() if compiled else interpreted():
        for _ in range(10):
            n = choose.randint(0, 100)
            batch = [(choose.randrange(keys), (choose.randint(-spread, spread), choose.randint(0, 1), len(given) + i)) for i in range(n)]
            choose.shuffle(batch)
            numbers = groups.numbers(Keys(np.array([key for key, _ in batch], np.uint64), np.zeros(n, np.uint64), np.zeros(0, np.uint8)))
            words, taken = np.array([words for _, words in batch], np.int64).reshape(n, 3), np.empty(n, np.int64)
            entries, width = groups.words
            offer(numbers, words, entries, width, nodes, most, counts, taken)
            held += [len(given) + int(row) for row in taken[: int(counts[0]) - len(held)]]
            given += batch
            best = {key: sorted(words for k, words in given if k == key)[:most][::-1] for key in {key for key, _ in given}}
            found = {int(w0): [given[held[row]][1] for row in linked(nodes, int(worst))] for w0, _, _, worst, _, _ in groups.matrix}
            assert found == best
            assert [given[held[row]][1] for row in groups.matrix[:, BEST]] == [best[key][-1] for key in groups.matrix[:, 0].tolist()]
            assert counts.tolist() == [len(held), sum(map(len, best.values()))]
            assert int((nodes[: len(held), 0] != GONE).sum()) == counts[1]


def test_a_row_beaten_within_its_batch_takes_no_node() -> None:
    groups, counts, nodes, taken = GroupTable(FRESH), np.zeros(2, np.int64), np.empty((8, 2), np.int64), np.empty(4, np.int64)
    numbers = groups.numbers(Keys(np.zeros(4, np.uint64), np.zeros(4, np.uint64), np.zeros(0, np.uint8)))
    offer(numbers, np.array([[4], [2], [3], [1]]), *groups.words, nodes, 1, counts, taken)
    assert (counts.tolist(), taken[:1].tolist()) == ([1, 1], [3])
    offer(numbers[:2], np.array([[1], [0]]), *groups.words, nodes, 1, counts, taken)
    assert (counts.tolist(), taken[:1].tolist(), nodes[:2].tolist()) == ([2, 1], [1], [[GONE, 1], [NO_ROW, 0]])
