"""Groups by number: 0, 1, … in the order in which their keys were first seen. What is remembered of them stands in arrays by number.

So an operator's loop knows nothing of keys and tables: it is handed the number of each row's group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.kernels.columns import Column, Columns
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.keys import Keys, decode_keys, empty_keys, encoder
from cep.model.schema import Field


class GroupNumbers:
    """The groups of rows by their columns `by`; without any, all rows are one group."""

    def __init__(self, by: tuple[Field, ...]) -> None:
        self.by, self._encode = by, encoder(by)
        self._table = GroupTable(())

    def __len__(self) -> int:
        return self._table.rows

    @property
    def bytes(self) -> int:
        return self._table.table.bytes

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """int64[n]: the group of each row; groups not seen before get the next numbers."""
        return self._table.numbers(self._encode(columns) if self.by else empty_keys(n))

    @property
    def columns(self) -> dict[str, Column]:
        """The values of `by` of every group, by number."""
        return self.columns_of(slice(None))

    def columns_of(self, numbers: np.ndarray | slice) -> dict[str, Column]:
        """The same of the groups `numbers`, int64[m]."""
        matrix = self._table.matrix.view(np.uint64)
        if isinstance(numbers, slice):
            w0, w1 = (matrix[numbers, k].copy() for k in range(2))
        else:  # by `take`: rows by index cost NumPy ten times as much
            words, first = matrix.ravel(), 2 * numbers
            w0, w1 = words.take(first), words.take(first + 1)
        return decode_keys(Keys(w0, w1, self._table.table.arena), self.by)

    def keep(self, numbers: np.ndarray) -> None:
        """Forgets all groups but `numbers`, int64[m] ascending, which are 0 to m - 1 from now on."""
        for _ in self.keeping(numbers):
            """In one go."""

    def keeping(self, numbers: np.ndarray) -> Iterator[None]:
        """The same, yielding between pieces."""
        kept = np.zeros(len(self), bool)
        kept[numbers] = True
        return self._table.keeping(kept)
