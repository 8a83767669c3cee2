"""Groups by number: a table (`cep.kernels.tables.table`) whose entries are keys and words of their own, which some kernel keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cep.kernels.jit import inlined, kernel, warm
from cep.kernels.tables.hashing import is_long
from cep.kernels.tables.keys import Keys
from cep.kernels.tables.table import AHEAD, AHEAD_FROM, ARENA_USED, ARENA_WANTED, ROWS, Table, key_room, look_ahead, put_key, same_long

_KEY_WORDS = 2
#: Groups that are kept at a time.
PIECE_GROUPS = 1 << 16


@inlined
def number_block(
    slots: np.ndarray,
    entries: np.ndarray,
    control: np.ndarray,
    arena: np.ndarray,
    width: int,
    key0: np.ndarray,
    key1: np.ndarray,
    key_data: np.ndarray,
    start: int,
    stop: int,
    fresh: np.ndarray,
    numbers: np.ndarray,
    to: int,
) -> int:
    """As `number_groups`, of at most AHEAD keys; the first number is put at `numbers[to]`."""
    rows, used = control[ROWS], control[ARENA_USED]
    capacity, mask = len(slots) // 2, len(slots) - 1
    look_ahead(slots, entries, width, key0, key1, start, stop, control)
    for i in range(start, stop):
        w0, w1, place = key0[i], key1[i], control[AHEAD_FROM + i - start]
        elsewhere = is_long(w1)
        row = np.int64(slots[place])
        while row != 0:
            at = (row - 1) * width
            if entries[at] == np.int64(w0):
                if not elsewhere:
                    if entries[at + 1] == np.int64(w1):
                        break
                elif same_long(entries[at + 1], arena, w1, key_data):
                    break
            place = (place + 1) & mask
            row = np.int64(slots[place])
        if row == 0:
            wanted = key_room(w1, key_data)
            if rows == capacity or used + wanted > len(arena):
                control[ROWS], control[ARENA_USED], control[ARENA_WANTED] = rows, used, wanted
                return i
            at = rows * width
            rows += 1
            row = rows
            slots[place] = rows
            entries[at], entries[at + 1] = np.int64(w0), np.int64(w1)
            if elsewhere:
                used = put_key(entries, at, arena, used, w1, key_data)
            for k in range(len(fresh)):
                entries[at + 2 + k] = fresh[k]
        numbers[to + i - start] = row - 1
    control[ROWS], control[ARENA_USED], control[ARENA_WANTED] = rows, used, 0
    return stop


@kernel(
    "int64(int32[:], int64[:], int64[:], uint8[:], int64, const uint64[:], const uint64[:], const uint8[:], int64, int64, "
    "const int64[:], int64[:])",
    on_demand=True,
)
def number_groups(
    slots: np.ndarray,
    entries: np.ndarray,
    control: np.ndarray,
    arena: np.ndarray,
    width: int,
    key0: np.ndarray,
    key1: np.ndarray,
    key_data: np.ndarray,
    start: int,
    stop: int,
    fresh: np.ndarray,
    numbers: np.ndarray,
) -> int:
    """The number of the group of each key, its entry in a table; a new one gets the words `fresh` behind its key. Returns `stop`, or
    the row for which the table lacked room."""
    for block in range(start, stop, AHEAD):
        end = min(block + AHEAD, stop)
        reached = number_block(slots, entries, control, arena, width, key0, key1, key_data, block, end, fresh, numbers, block)
        if reached < end:
            return reached
    return stop


class GroupTable:
    """`fresh`: the words of a new group behind its key."""

    def __init__(self, fresh: Sequence[int]) -> None:
        self.fresh = np.array(fresh, np.int64)
        self.width = _KEY_WORDS + len(fresh)
        self.table = Table.make(self.width, 0)
        warm(number_groups)

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

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
        """What `number_block` takes of it."""
        return self.table.slots, self.table.entries, self.table.control, self.table.arena, self.width

    def numbers(self, keys: Keys) -> np.ndarray:
        """The number of the group of each key, int64[n]."""
        n, start = len(keys.w0), 0
        numbers = np.empty(n, np.int64)
        while True:
            start = number_groups(*self.arrays, keys.w0, keys.w1, keys.data, start, n, self.fresh, numbers)
            if start == n:
                return numbers
            self.table.grow()

    def keep(self, kept: np.ndarray) -> np.ndarray:
        """Forgets the groups that `kept`, bool[rows], does not name. Returns the new number of each, int64[rows]; of others nonsense."""
        for _ in self.keeping(kept):
            """In one go."""
        return np.cumsum(kept) - 1

    def keeping(self, kept: np.ndarray) -> Iterator[None]:
        """Forgets the same groups, yielding between pieces. To be pulled to its end before anything else is called."""
        old, rows = self.table, np.flatnonzero(kept)
        self.table = Table.make(self.width, 0, len(rows))
        for start in range(0, len(rows), PIECE_GROUPS):
            words = old.matrix[rows[start : start + PIECE_GROUPS]]
            key0, key1 = (np.ascontiguousarray(words[:, k]).view(np.uint64) for k in range(_KEY_WORDS))
            self.numbers(Keys(key0, key1, old.arena))
            self.matrix[start:, _KEY_WORDS:] = words[:, _KEY_WORDS:]
            yield
