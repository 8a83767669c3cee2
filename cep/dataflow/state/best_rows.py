"""Which rows of a pane may be answers, while they come: of each group the first, by words alone (`cep.kernels.best_rows`)."""

from __future__ import annotations

import numpy as np

from cep.dataflow.operators.ranking import Ranking
from cep.elements import Batch
from cep.kernels.best_rows import BEST, FRESH, GONE, NO_ROW, WORST, offer, put_ranked
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.keys import empty_keys, encoder


class BestRows:
    """Rows are numbered as they are taken; `left` of them are still among the first of their groups."""

    def __init__(self, ranking: Ranking) -> None:
        assert ranking.most is not None, "all rows are answers"
        self.ranking, self.most = ranking, ranking.most
        self._groups = GroupTable(FRESH)
        self._keys = encoder(tuple(ranking.schema[name] for name in ranking.by))
        self._nodes = np.empty((0, 0), np.int64)
        self._counts = np.zeros(2, np.int64)

    @property
    def left(self) -> int:
        return int(self._counts[1])

    @property
    def bytes(self) -> int:
        return self._groups.table.bytes + self._nodes.shape[1] * self._nodes.itemsize * int(self._counts[0])

    def taken(self, batch: Batch) -> Batch:
        """The rows of `batch` that may be answers; their numbers follow those of the rows taken before."""
        keys = self._keys(batch.columns) if self.ranking.by else empty_keys(len(batch))
        numbers, words, taken = self._groups.numbers(keys), self.ranking.place_words(batch), np.empty(len(batch), np.int64)
        used = int(self._counts[0])
        self._make_room(used, len(batch), 1 + words.shape[1])
        offer(numbers, words, *self._groups.words, self._nodes, self.most, self._counts, taken)
        taken = taken[: int(self._counts[0]) - used]
        return batch if len(taken) == len(batch) else batch.take(taken)

    def _make_room(self, used: int, more: int, width: int) -> None:
        if used + more > len(self._nodes):
            nodes = np.empty((max(used + more, 2 * len(self._nodes)), width), np.int64)
            if used:
                nodes[:used] = self._nodes[:used]
            self._nodes = nodes

    def ranked(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the rows that are left, int64[left], those of a group together and in order, and the rank of each, from 1."""
        rows, ranks = np.empty(self.left, np.int64), np.empty(self.left, np.int64)
        put_ranked(*self._groups.words, self._groups.rows, self._nodes, rows, ranks)
        return rows, ranks

    def forget(self) -> np.ndarray:
        """Numbers the rows that are left anew, in their order. Returns the numbers they had, int64[left]."""
        nodes, groups = self._nodes[: int(self._counts[0])], self._groups.matrix
        kept = nodes[:, 0] != GONE
        rows = np.flatnonzero(kept)
        number = np.append(np.cumsum(kept) - 1, [NO_ROW])  # what NO_ROW, -1, is numbered
        nodes[: len(rows)] = nodes[rows]
        nodes[: len(rows), 0] = number[nodes[: len(rows), 0]]
        groups[:, WORST], groups[:, BEST] = number[groups[:, WORST]], number[groups[:, BEST]]
        self._counts[:] = len(rows)
        return rows
