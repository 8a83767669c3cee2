"""Tables of groups: open addressing from keys (`cep.kernels.tables.keys`) to entries. Rules:

- An entry is `width` int64 words, w0 and w1 of its key first; entries lie one after the other in order of insertion
  (`entries`, int64[any]), so that what a row touches is one cache line or two and emission is a walk.
- `slots`, int32[power of two], holds 1 + the number of an entry, 0 where there is none; at most half are taken. A key's
  place is the *high* bits of its hash: the low bits have chosen the bucket, so here they are all alike.
- Bytes of long keys and values lie in `arena`, uint8[any]: a uint32 of bytes reserved, then (where the offset points) a
  uint32 length and the bytes, so `Keys(w0, w1, arena)` can be decoded. A value that changes is written over the old one if it fits,
  else reserved anew with room for its double; the bytes left behind are fewer than those in use.
- `control`, int64[4 + 128]: entries, bytes of arena, rows of pool in use; the bytes of arena that a kernel lacked; and places in
  `slots` looked up ahead.
- A kernel never allocates. Where it lacks room for a row it stops *before* touching it, and says which row; the caller
  grows and goes on there.

Hashes of a block of rows are made ahead of its rows, and slots and entries prefetched: [ran] 100k zipf keys, count, min and
max, 55 M rows/s without, 67 with slots only, 87 with both; padding entries to a cache line costs 10 %.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import copy_bytes, prefetch
from cep.kernels.states.exact_sum import POOL_WORDS
from cep.kernels.tables.changes import ChangedBlocks, TakenBlocks
from cep.kernels.tables.growing import empty, grow
from cep.kernels.tables.hashing import LONG, hash64, is_long
from cep.kernels.tables.keys import long_length, same_bytes

#: Rows whose places in the table are looked up ahead.
AHEAD = 64
#: Of loops that go on asking: while a step of rows is taken, of those behind it the entries are asked for, which their slots name, and of
#: those behind these the slots. Places are kept in a ring, RING being its last.
STEP, RING = 32, 127
#: While an entry gets its slot, the slot of that many entries behind it is asked for.
FILL_AHEAD = 48
SLOTS_MIN = 64

ROWS, ARENA_USED, POOL_USED, ARENA_WANTED, AHEAD_FROM = 0, 1, 2, 3, 4
CONTROL_WORDS = AHEAD_FROM + RING + 1

#: Top byte of the second word of a text that is NULL, and that word; the second word of a long text at 0.
NULL = 255
NULL_WORD = np.uint64(NULL << 56)
LONG_WORD = np.uint64(LONG << 56)

_4, _56 = np.uint64(4), np.uint64(56)
_LOW_56 = np.uint64((1 << 56) - 1)
_LOW_8 = np.uint64(255)


# --- the loops that generated kernels are made of --------------------------------------------------------------------


@inlined
def look_ahead(
    slots: np.ndarray, entries: np.ndarray, width: int, w0: np.ndarray, w1: np.ndarray, start: int, stop: int, control: np.ndarray
) -> None:
    """Puts the places of keys `start` to `stop` into `control`, and asks for what they will touch."""
    shift = slot_shift(slots)
    for i in range(stop - start):
        row = start + i
        control[AHEAD_FROM + i] = np.int64(hash64(w0[row], w1[row]) >> shift)
    for i in range(stop - start):
        prefetch(slots, control[AHEAD_FROM + i])
    for i in range(stop - start):
        prefetch(entries, (np.int64(slots[control[AHEAD_FROM + i]]) - 1) * width)


@inlined
def slot_shift(slots: np.ndarray) -> Any:
    """By how many bits a hash is shifted for a place in `slots`."""
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    return np.uint64(64 - bits)


@inlined
def same_long(found: int, arena: np.ndarray, w1: Any, data: np.ndarray) -> bool:
    """Is `found`, the second word of an entry, of a long key with the same bytes as the long key of `w1`?"""
    return is_long(np.uint64(found)) and same_bytes(arena, np.uint64(found), data, w1)


@inlined
def put_key(entries: np.ndarray, at: int, arena: np.ndarray, used: int, w1: Any, data: np.ndarray) -> Any:
    """Copies the bytes of the long key of a new entry; returns the bytes of `arena` in use after."""
    length = long_length(data, w1)
    _write_length(arena, used, length)
    copy_bytes(data, offset_of(w1), arena, used + 4, length + 4)
    entries[at + 1] = np.int64(long_word(used + 4))
    return used + 8 + length


@inlined
def put_bytes(arena: np.ndarray, used: int, data: np.ndarray, w1: Any, times: int) -> Any:
    """Copies the long text of `w1` to behind `used` + 4, room for `times` its length being reserved; returns the bytes of `arena` in
    use after."""
    length = long_length(data, w1)
    _write_length(arena, used, times * length)
    copy_bytes(data, offset_of(w1), arena, used + 4, length + 4)
    return used + 8 + times * length


@inlined
def key_room(w1: Any, data: np.ndarray) -> Any:
    """Bytes of arena that `put_key` may take."""
    return 8 + long_length(data, w1) if is_long(w1) else 0


@inlined
def text_room(w1: Any, data: np.ndarray) -> Any:
    """Bytes of arena that `put_text` may take."""
    return 8 + 2 * long_length(data, w1) if is_long(w1) else 0


# --- texts, in two words or in an arena ------------------------------------------------------------------------------


@inlined
def offset_of(w1: Any) -> Any:
    return np.int64(w1 & _LOW_56)


@inlined
def long_word(offset: int) -> Any:
    return (np.uint64(LONG) << _56) | np.uint64(offset)


@inlined
def is_null(w1: Any) -> Any:
    return (w1 >> _56) == np.uint64(NULL)


@inlined
def _write_length(data: np.ndarray, at: int, length: int) -> None:
    for i in range(4):
        data[at + i] = (length >> (8 * i)) & 255


@inlined
def _text_length(w1: Any, data: np.ndarray) -> Any:
    return long_length(data, w1) if is_long(w1) else np.int64(w1 >> _56)


@inlined
def _text_byte(w0: Any, w1: Any, data: np.ndarray, i: int) -> Any:
    if is_long(w1):
        return np.int64(data[offset_of(w1) + 4 + i])
    word = w0 if i < 8 else w1
    return np.int64((word >> np.uint64(8 * (i & 7))) & _LOW_8)


@inlined
def compare_text(a0: Any, a1: Any, a_data: np.ndarray, b0: Any, b1: Any, b_data: np.ndarray) -> Any:
    """-1, 0 or 1: lexicographic by bytes, NULL before everything."""
    if a0 == b0 and a1 == b1 and not is_long(a1):
        return 0
    if is_null(a1) or is_null(b1):
        return np.int64(is_null(b1)) - np.int64(is_null(a1)) if is_null(a1) != is_null(b1) else 0
    a_length, b_length = _text_length(a1, a_data), _text_length(b1, b_data)
    for i in range(min(a_length, b_length)):
        a, b = _text_byte(a0, a1, a_data, i), _text_byte(b0, b1, b_data, i)
        if a != b:
            return -1 if a < b else 1
    return np.int64(a_length > b_length) - np.int64(a_length < b_length)


@inlined
def put_text(entries: np.ndarray, at: int, arena: np.ndarray, used: int, w0: Any, w1: Any, data: np.ndarray) -> Any:
    """Replaces the text in the two words at `at`; returns the bytes of `arena` in use after."""
    old = np.uint64(entries[at + 1])
    entries[at], entries[at + 1] = np.int64(w0), np.int64(w1)
    if not is_long(w1):
        return used
    offset, length = offset_of(w1), long_length(data, w1)
    if is_long(old) and long_length(arena, old - _4) >= length:  # 4 before a length is what was reserved
        copy_bytes(data, offset, arena, offset_of(old), length + 4)
        entries[at + 1] = np.int64(old)
        return used
    _write_length(arena, used, 2 * length)
    copy_bytes(data, offset, arena, used + 4, length + 4)
    entries[at + 1] = np.int64(long_word(used + 4))
    return used + 8 + 2 * length


# --- the table -------------------------------------------------------------------------------------------------------


@kernel("void(const int64[:], int64, int64, int32[:], int64[:])")
def fill_slots(entries: np.ndarray, width: int, rows: int, slots: np.ndarray, control: np.ndarray) -> None:
    """Gives the first `rows` entries their slots; `slots` is all zeros."""
    shift, mask = slot_shift(slots), len(slots) - 1
    for row in range(-FILL_AHEAD, rows):
        if row + FILL_AHEAD < rows:
            at = (row + FILL_AHEAD) * width
            place = np.int64(hash64(np.uint64(entries[at]), np.uint64(entries[at + 1])) >> shift)
            control[AHEAD_FROM + ((row + FILL_AHEAD) & RING)] = place
            prefetch(slots, place)
        if row >= 0:
            place = control[AHEAD_FROM + (row & RING)]
            while slots[place] != 0:
                place = (place + 1) & mask
            slots[place] = row + 1


@dataclass(slots=True, eq=False)
class Table:
    """The groups of one pane. `created` is the oldest creation time (ns) of what went in, 0 if unknown. `changed`: which of them
    a checkpoint has to write, once one was taken; `touched`: something went in since."""

    width: int
    sums: int  # exact sums in an entry
    slots: np.ndarray
    entries: np.ndarray
    arena: np.ndarray
    pool: np.ndarray
    control: np.ndarray
    created: int = 0
    changed: ChangedBlocks | None = None
    touched: bool = True

    @staticmethod
    def make(width: int, sums: int, rows: int = 0) -> Table:
        """Room for `rows` entries."""
        count = slots_for(rows)
        slots, entries = empty(count, np.dtype(np.int32)), empty(count // 2 * width, np.dtype(np.int64))
        slots[:] = 0
        arrays = slots, entries, np.empty(0, np.uint8)
        return Table(width, sums, *arrays, np.empty((sums, POOL_WORDS), np.int64), np.zeros(CONTROL_WORDS, np.int64))

    @property
    def rows(self) -> int:
        return int(self.control[ROWS])

    @property
    def capacity(self) -> int:
        return len(self.slots) // 2

    @property
    def bytes(self) -> int:
        return self.slots.nbytes + self.entries.nbytes + self.arena.nbytes + self.pool.nbytes

    @property
    def bytes_used(self) -> int:
        """What a table without room to spare would take."""
        words = self.rows * (self.width + 1) + POOL_WORDS * int(self.control[POOL_USED])
        return 8 * words + int(self.control[ARENA_USED])

    @property
    def matrix(self) -> np.ndarray:
        """The entries in use, int64[rows, width]; a view."""
        return self.entries[: self.rows * self.width].reshape(-1, self.width)

    def grow(self) -> None:
        """Makes room where a kernel lacked it."""
        self.grow_bytes()
        if self.rows == self.capacity:
            grow(self, "entries", 2 * len(self.entries))
            self.slots = np.zeros(2 * len(self.slots), np.int32)
            fill_slots(self.entries, self.width, self.rows, self.slots, self.control)

    def put(self, matrix: np.ndarray) -> bool:
        """Entries of groups that are not there, int64[n, width], and refer to nothing; nothing finds them before `find_all`. False: there
        is no room for them, and nothing has happened."""
        rows, end = self.rows, self.rows + len(matrix)
        if end > self.capacity:
            return False
        self.entries[rows * self.width : end * self.width] = matrix.reshape(-1)
        self.control[ROWS] = end
        return True

    def put_blocks(self, matrix: np.ndarray, numbers: np.ndarray, size: int) -> None:
        """The same of blocks `numbers` of `size` entries, each in its place, for which there is room; of the last one perhaps fewer."""
        words, whole = size * self.width, len(matrix) // size
        places = self.entries[: len(self.entries) // words * words].reshape(-1, words)
        places[numbers[:whole]] = matrix[: whole * size].reshape(-1, words)
        if len(matrix) > whole * size:
            start = int(numbers[whole]) * words
            rest = matrix[whole * size :].reshape(-1)
            self.entries[start : start + len(rest)] = rest

    def places_of(self, numbers: np.ndarray, size: int, rows: int) -> np.ndarray | None:
        """Where entries of blocks `numbers` of `size` lie, `rows` together, int64[rows, width], a view to be written; None where they do
        not lie one behind the other."""
        if int(numbers[-1]) - int(numbers[0]) >= len(numbers):
            return None
        start = int(numbers[0]) * size * self.width
        return self.entries[start : start + rows * self.width].reshape(-1, self.width)

    def find_all(self) -> None:
        """Gives all entries their slots, of which none has any."""
        fill_slots(self.entries, self.width, self.rows, self.slots, self.control)

    def grow_bytes(self) -> None:
        """Makes room in arena and pool."""
        used, wanted = int(self.control[ARENA_USED]), int(self.control[ARENA_WANTED])
        if used + wanted > len(self.arena):
            grow(self, "arena", max(2 * len(self.arena), used + wanted, 1024))
        if self.control[POOL_USED] + self.sums > len(self.pool):
            pool = np.empty((2 * len(self.pool), POOL_WORDS), np.int64)
            pool[: len(self.pool)] = self.pool
            self.pool = pool

    def clear(self) -> None:
        self.slots[:] = 0
        self.control[:] = 0
        self.created, self.changed = 0, None

    def copy(self) -> Table:
        """A table of its own with the same groups and no more room than it needs."""
        arrays = {name: getattr(self, name).copy() for name in ("slots", "entries", "pool", "control")}
        return replace(self, **arrays, arena=self.arena[: self.control[ARENA_USED]].copy(), changed=None)


_NOTHING = np.empty(0, np.int64)
#: Spare memory of no more words than these stays as it is, however little was copied.
SPARE_WORDS = 1 << 17


class FrozenTable:
    """The groups of a table as they were, or blocks `taken` of them one behind the other, of which `table` can be read, and has no slots.
    Its memory is taken from `spare` and goes back there when nothing looks at it any more, with room for more groups than there were: what
    is copied for every checkpoint would cost several times as much in memory that is touched for the first time."""

    def __init__(self, table: Table, spare: list[np.ndarray], taken: TakenBlocks | None = None) -> None:
        blocks = taken is not None and len(taken.numbers) * taken.size < table.rows
        self._size = (len(taken.numbers) * taken.size if taken is not None and blocks else table.rows) * table.width
        memory = spare.pop() if spare else _NOTHING
        self._memory, self._spare = memory if len(memory) >= self._size else empty(self._size, _NOTHING.dtype), spare
        entries, control = self._memory[: self._size], table.control.copy()
        if taken is not None and blocks:
            words = taken.size * table.width
            np.take(table.entries.reshape(-1, words), taken.numbers, axis=0, out=entries.reshape(-1, words), mode="clip")
            control[ROWS] = taken.entries
        else:
            entries[:] = table.entries[: self._size]
        arena, pool = table.arena[: table.control[ARENA_USED]].copy(), table.pool[: table.control[POOL_USED]].copy()
        self.table = replace(table, slots=np.zeros(0, np.int32), entries=entries, arena=arena, pool=pool, control=control)

    def __del__(self) -> None:
        memory = self._memory
        if not self._size + self._size // 4 <= len(memory) <= max(4 * self._size, SPARE_WORDS):
            memory = empty(self._size + self._size // 2, memory.dtype)
            memory[:: mmap.PAGESIZE // 8] = 0  # it is touched here, and not while an instance stands still
        self._spare[:] = [memory]


def slots_for(rows: int) -> int:
    """How many slots a table of `rows` entries has."""
    return max(SLOTS_MIN, 1 << (2 * rows - 1).bit_length() if rows else 0)
