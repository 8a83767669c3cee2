"""Groups by number: 0, 1, … in the order in which their keys were first seen. What is remembered of them stands in arrays by number.

So an operator's loop knows nothing of keys and tables: it is handed the number of each row's group.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.columns import Column, Columns
from cep.kernels.hashing import is_long
from cep.kernels.jit import kernel
from cep.kernels.keys import Keys, decode_keys, empty_keys, encode_keys
from cep.kernels.table import (
    AHEAD,
    AHEAD_FROM,
    ARENA_USED,
    ARENA_WANTED,
    ROWS,
    Table,
    key_room,
    look_ahead,
    put_key,
    same_long,
)
from cep.model.schema import Field

_WIDTH = 2  # words of an entry: its key alone


@kernel("int64(int32[:], int64[:], int64[:], uint8[:], int64, int64, const uint64[:], const uint64[:], const uint8[:], int64[:])")
def find(
    slots: np.ndarray,
    entries: np.ndarray,
    control: np.ndarray,
    arena: np.ndarray,
    start: int,
    stop: int,
    key0: np.ndarray,
    key1: np.ndarray,
    data: np.ndarray,
    numbers: np.ndarray,
) -> int:
    """The number of each row's group, a new one for a new key. Returns the row at which the table lacked room, or `stop`."""
    rows, used = control[ROWS], control[ARENA_USED]
    capacity, mask = len(slots) // 2, len(slots) - 1
    for block in range(start, stop, AHEAD):
        end = min(block + AHEAD, stop)
        look_ahead(slots, entries, _WIDTH, key0, key1, block, end, control)
        for i in range(block, end):
            w0, w1, place = key0[i], key1[i], control[AHEAD_FROM + i - block]
            elsewhere = is_long(w1)
            row = np.int64(slots[place])
            while row != 0:
                at = (row - 1) * _WIDTH
                if entries[at] == np.int64(w0):
                    if not elsewhere:
                        if entries[at + 1] == np.int64(w1):
                            break
                    elif same_long(entries[at + 1], arena, w1, data):
                        break
                place = (place + 1) & mask
                row = np.int64(slots[place])
            if row == 0:
                wanted = key_room(w1, data)
                if rows == capacity or used + wanted > len(arena):
                    control[ROWS], control[ARENA_USED], control[ARENA_WANTED] = rows, used, wanted
                    return i
                at = rows * _WIDTH
                rows += 1
                row = rows
                slots[place] = rows
                entries[at], entries[at + 1] = np.int64(w0), np.int64(w1)
                if elsewhere:
                    used = put_key(entries, at, arena, used, w1, data)
            numbers[i] = row - 1
    control[ROWS], control[ARENA_USED], control[ARENA_WANTED] = rows, used, 0
    return stop


class GroupNumbers:
    """The groups of rows by their columns `by`; without any, all rows are one group."""

    def __init__(self, by: tuple[Field, ...]) -> None:
        self.by = by
        self._table = Table.make(_WIDTH, 0)

    def __len__(self) -> int:
        return self._table.rows

    @property
    def bytes(self) -> int:
        return self._table.bytes

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """int64[n]: the group of each row; groups not seen before get the next numbers."""
        keys = encode_keys(columns, self.by) if self.by else empty_keys(n)
        numbers, table, row = np.empty(n, np.int64), self._table, 0
        while True:
            row = find(table.slots, table.entries, table.control, table.arena, row, n, keys.w0, keys.w1, keys.data, numbers)
            if row == n:
                return numbers
            table.grow()

    @property
    def columns(self) -> dict[str, Column]:
        """The values of `by` of every group, by number."""
        words = self._table.matrix.view(np.uint64)
        return decode_keys(Keys(words[:, 0].copy(), words[:, 1].copy(), self._table.arena), self.by)

    def keep(self, numbers: np.ndarray) -> None:
        """Forgets all groups but `numbers`, int64[m] ascending, which are 0 to m - 1 from now on."""
        taken = {name: column.take(numbers) for name, column in self.columns.items()}
        self._table = Table.make(_WIDTH, 0, len(numbers))
        self.of(taken, len(numbers))
