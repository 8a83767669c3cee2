"""Groups by number: 0, 1, … in the order in which their keys were first seen. What is remembered of them stands in arrays by number.

So an operator's loop knows nothing of keys and tables: it is handed the number of each row's group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.kernels.columns import Column, Columns
from cep.kernels.tables.group_table import GroupTable
from cep.kernels.tables.keys import Keys, decode_keys, empty_keys, encoder
from cep.kernels.tables.near_keys import NearKeys
from cep.model.schema import INT64, Field


class GroupNumbers:
    """The groups of rows by their columns `by`; without any, all rows are one group."""

    def __init__(self, by: tuple[Field, ...]) -> None:
        self.by, self._encode = by, encoder(by)
        self._table = GroupTable(())
        self._near = NearKeys() if len(by) == 1 and by[0].type == INT64 else None

    def __len__(self) -> int:
        return self._table.rows

    @property
    def bytes(self) -> int:
        return self._table.table.bytes + (0 if self._near is None else self._near.bytes)

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """int64[n]: the group of each row; groups not seen before get the next numbers."""
        if self._near is None:
            return self._table.numbers(self._encode(columns) if self.by else empty_keys(n))
        column = columns[self.by[0].name]
        if column.valid is not None or not self._near.is_there:
            numbers = self._table.numbers(self._encode(columns))
        else:
            numbers = self._found_near(self._near, column)
        self._near.look(len(self), self._whole_numbers)
        return numbers

    def _found_near(self, near: NearKeys, column: Column) -> np.ndarray:
        numbers, missing = near.find(np.ascontiguousarray(column.values))
        if len(missing):
            others = column.take(missing)
            numbers[missing] = found = self._table.numbers(self._encode({self.by[0].name: others}))
            near.note(others.values, found, len(numbers))
        return numbers

    def _whole_numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys of groups, but for that of NULL, and their numbers."""
        column, numbers = self.columns[self.by[0].name], np.arange(len(self))
        if column.valid is None:
            return column.values, numbers
        there = column.valid != 0
        return column.values[there], numbers[there]

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
        if self._near is not None:
            self._near.forget()
        return self._table.keeping(kept)
