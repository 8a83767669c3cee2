"""Groups by number: a table (`cep.kernels.table`) whose entries are keys and words of their own, which some kernel keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.kernels.keys import Keys
from cep.kernels.programs import number_groups
from cep.kernels.table import Table

_KEY_WORDS = 2


class GroupTable:
    """`fresh`: the words of a new group behind its key."""

    def __init__(self, fresh: Sequence[int]) -> None:
        self.fresh = np.array(fresh, np.int64)
        self.width = _KEY_WORDS + len(fresh)
        self.table = Table.make(self.width, 0)

    @property
    def rows(self) -> int:
        return self.table.rows

    @property
    def matrix(self) -> np.ndarray:
        """The words of each group, its key first, int64[rows, width]; a view."""
        return self.table.matrix

    @property
    def words(self) -> tuple[np.ndarray, int]:
        """The same for kernels."""
        return self.table.entries, self.width

    def numbers(self, keys: Keys) -> np.ndarray:
        """The number of the group of each key, int64[n]."""
        numbers = np.empty(len(keys), np.int64)
        table, start = self.table, 0
        while True:
            arrays = table.slots, table.entries, table.control, table.arena, self.width
            start = number_groups(*arrays, keys.w0, keys.w1, keys.data, start, len(keys), self.fresh, numbers)
            if start == len(keys):
                return numbers
            table.grow()

    def keep(self, kept: np.ndarray) -> np.ndarray:
        """Forgets the groups that `kept`, bool[rows], does not name. Returns the new number of each, int64[rows]; of others nonsense."""
        old, rows = self.table, np.flatnonzero(kept)
        self.table = Table.make(self.width, 0, len(rows))
        key0, key1 = (np.ascontiguousarray(old.matrix[rows, k]).view(np.uint64) for k in range(_KEY_WORDS))
        self.numbers(Keys(key0, key1, old.arena))
        self.matrix[:, _KEY_WORDS:] = old.matrix[rows, _KEY_WORDS:]
        return np.cumsum(kept) - 1
