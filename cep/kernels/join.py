"""Rows of one side of a join by key, and the pairs that rows of the other side make with them.

    keys of one side    b  a  NULL  b  a  c          groups in order of appearance: b, a, c
    order               0  3 | 1  4 | 5              rows of a group side by side, in their order; NULL is nowhere
    starts              0      2      4   5
    probe with a, x, b  [2, 4)  [0, 0)  [0, 2)       a range of `order` for each row, empty where nothing is equal

Ranges become pairs of row numbers in portions of bounded size, so that a key with 10^5 rows on both sides takes no memory. Where the
rows lie in order of time, a range is narrowed to a span of time by binary search.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep.kernels.jit import Kernel, inlined, kernel
from cep.kernels.machine.memory import prefetch
from cep.kernels.tables.hashing import hash64, is_long
from cep.kernels.tables.keys import Keys, same_bytes
from cep.kernels.tables.table import slots_for

#: Pairs in a portion.
PAIRS_MAX = 65_536
#: Rows that an index of very many takes at a time: a millisecond's work or two.
PIECE_ROWS = 65_536
#: Keys between one and the one for which memory is asked.
AHEAD = 16
NO_NULLS = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The rows of one side by key: those of group g are `order[starts[g] : starts[g + 1]]`, int64."""

    groups: Keys  # the key of each group
    slots: np.ndarray  # int32[power of two]: 1 + group, 0 where there is none; at most half are taken
    starts: np.ndarray  # int64[groups + 1]
    order: np.ndarray  # int64[rows that have a key]

    @staticmethod
    def of(keys: Keys, null: np.ndarray = NO_NULLS) -> KeyIndex:
        """`null`, uint8[n] or empty: the rows that have no key, since a field of it is NULL."""
        n = len(keys)
        slots, group = np.zeros(slots_for(n), np.int32), np.empty(n, np.int32)
        w0, w1, starts = np.empty(n, np.uint64), np.empty(n, np.uint64), np.zeros(n + 1, np.int64)
        count = _group(keys.w0, keys.w1, keys.data, null, _shift(slots), slots, w0, w1, 0, group)
        order = np.empty(n - int(np.count_nonzero(null)), np.int64)
        _arrange(group, count, starts, np.empty(count, np.int64), order)
        return KeyIndex(Keys(w0[:count], w1[:count], keys.data), slots, starts[: count + 1], order)

    @staticmethod
    def building(keys: Keys, null: np.ndarray = NO_NULLS, rows: int = PIECE_ROWS) -> Generator[None, None, KeyIndex]:
        """The same, with other work between pieces of `rows` rows. `PIECEWISE` have to be compiled."""
        n, count = len(keys), 0
        slots, group = np.zeros(slots_for(n), np.int32), np.empty(n, np.int32)
        w0, w1 = np.empty(n, np.uint64), np.empty(n, np.uint64)
        parts = [slice(first, first + rows) for first in range(0, n, rows)]
        for part in parts:
            own = keys.w0[part], keys.w1[part], keys.data, null[part]
            count = _group(*own, _shift(slots), slots, w0, w1, count, group[part])
            yield
        starts, order = np.zeros(count + 1, np.int64), np.empty(n - int(np.count_nonzero(null)), np.int64)
        for part in parts:
            _tally(group[part], starts)
            yield
        np.cumsum(starts, out=starts)
        cursor = starts[:-1].copy()
        for part in parts:
            _place(group[part], part.start, cursor, order)
            yield
        return KeyIndex(Keys(w0[:count], w1[:count], keys.data), slots, starts, order)

    @property
    def bytes(self) -> int:
        return self.slots.nbytes + self.starts.nbytes + self.order.nbytes + self.groups.w0.nbytes + self.groups.w1.nbytes

    @property
    def last_rows(self) -> np.ndarray:
        """int64[groups], ascending: of each group the last row."""
        return np.sort(self.order[self.starts[1:] - 1])

    def probe(self, keys: Keys, null: np.ndarray = NO_NULLS) -> Ranges:
        """The range of each of `keys`, which were encoded with the same types."""
        first, stop = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        wanted, known = (keys.w0, keys.w1, keys.data), (self.groups.w0, self.groups.w1, self.groups.data)
        _find(*wanted, null, _shift(self.slots), self.slots, *known, self.starts, first, stop)
        return Ranges(self.order, first, stop)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Row i of one side meets the rows `order[first[i] : stop[i]]` of the other."""

    order: np.ndarray
    first: np.ndarray
    stop: np.ndarray

    def narrow(self, time: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Leaves of each range i the rows with low[i] <= time <= high[i]; `time`, int64 by row, rises along `order` within a group."""
        _narrow(self.order, time, low, high, self.first, self.stop)

    def pairs(self, outer: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(rows that met, rows they met, numbers of the meetings of each from 0), int64[m], m <= PAIRS_MAX, row by row. `outer`: a row that
        meets none comes once, with -1."""
        counts = self.stop - self.first
        total = int(np.maximum(counts, 1).sum() if outer else counts.sum())
        at = np.zeros(2, np.int64)
        while total:
            rows, partners, numbers = np.empty((3, min(total, PAIRS_MAX)), np.int64)
            _take_pairs(self.order, self.first, self.stop, outer, at, rows, partners, numbers)
            yield rows, partners, numbers
            total -= len(rows)


def _shift(slots: np.ndarray) -> np.uint64:
    """A key's place is the high bits of its hash: the low ones have chosen its instance."""
    return np.uint64(65 - len(slots).bit_length())


@inlined
def _same(a0: Any, a1: Any, a_data: np.ndarray, b0: Any, b1: Any, b_data: np.ndarray) -> bool:
    if a0 != b0:
        return False
    if is_long(a1):
        return is_long(b1) and same_bytes(a_data, a1, b_data, b1)
    return bool(a1 == b1)


@inlined
def _look_ahead(w0: np.ndarray, w1: np.ndarray, i: int, shift: Any, slots: np.ndarray, group_w0: np.ndarray) -> None:
    """Asks for what key i + 2·AHEAD will touch in `slots`, and i + AHEAD, by what it finds there, in `group_w0`."""
    if i + 2 * AHEAD < len(w0):
        prefetch(slots, np.int64(hash64(w0[i + 2 * AHEAD], w1[i + 2 * AHEAD]) >> shift))
        prefetch(group_w0, np.int64(slots[np.int64(hash64(w0[i + AHEAD], w1[i + AHEAD]) >> shift)]) - 1)


@kernel(
    "int64(const uint64[:], const uint64[:], const uint8[:], const uint8[:], uint64, int32[:], uint64[:], uint64[:], int64, int32[:])",
    on_demand=True,
)
def _group(
    w0: np.ndarray,
    w1: np.ndarray,
    data: np.ndarray,
    null: np.ndarray,
    shift: Any,
    slots: np.ndarray,
    group_w0: np.ndarray,
    group_w1: np.ndarray,
    count: int,
    group: np.ndarray,
) -> int:
    """Puts the group of each row into `group`, -1 where it has none. Returns how many groups there are, of which `count` were before."""
    mask, nullable = len(slots) - 1, len(null) > 0
    for i in range(len(w0)):
        _look_ahead(w0, w1, i, shift, slots, group_w0)
        if nullable and null[i] != 0:
            group[i] = -1
            continue
        place = np.int64(hash64(w0[i], w1[i]) >> shift)
        g = np.int64(slots[place]) - 1
        while g >= 0 and not _same(w0[i], w1[i], data, group_w0[g], group_w1[g], data):
            place = (place + 1) & mask
            g = np.int64(slots[place]) - 1
        if g < 0:
            g = np.int64(count)
            slots[place], group_w0[g], group_w1[g] = g + 1, w0[i], w1[i]
            count += 1
        group[i] = g
    return count


@kernel("void(const int32[:], int64, int64[:], int64[:], int64[:])", on_demand=True)
def _arrange(group: np.ndarray, groups: int, starts: np.ndarray, cursor: np.ndarray, order: np.ndarray) -> None:
    """Sorts by counting. `starts` is all zeros."""
    for i in range(len(group)):
        starts[group[i] + 1] += group[i] >= 0
    for g in range(groups):
        starts[g + 1] += starts[g]
        cursor[g] = starts[g]
    for i in range(len(group)):
        if group[i] >= 0:
            order[cursor[group[i]]] = i
            cursor[group[i]] += 1


@kernel("void(const int32[:], int64[:])", on_demand=True)
def _tally(group: np.ndarray, starts: np.ndarray) -> None:
    """Counts the rows of group g at `starts[g + 1]`."""
    for i in range(len(group)):
        if group[i] >= 0:
            starts[group[i] + 1] += 1


@kernel("void(const int32[:], int64, int64[:], int64[:])", on_demand=True)
def _place(group: np.ndarray, first: int, cursor: np.ndarray, order: np.ndarray) -> None:
    """Puts the rows from number `first` on where their groups go on, which `cursor` says."""
    for i in range(len(group)):
        if group[i] >= 0:
            order[cursor[group[i]]] = first + i
            cursor[group[i]] += 1


@kernel(
    "void(const uint64[:], const uint64[:], const uint8[:], const uint8[:], uint64, const int32[:], const uint64[:], const uint64[:], "
    "const uint8[:], const int64[:], int64[:], int64[:])",
    on_demand=True,
)
def _find(
    w0: np.ndarray,
    w1: np.ndarray,
    data: np.ndarray,
    null: np.ndarray,
    shift: Any,
    slots: np.ndarray,
    group_w0: np.ndarray,
    group_w1: np.ndarray,
    group_data: np.ndarray,
    starts: np.ndarray,
    first: np.ndarray,
    stop: np.ndarray,
) -> None:
    mask, nullable = len(slots) - 1, len(null) > 0
    for i in range(len(w0)):
        _look_ahead(w0, w1, i, shift, slots, group_w0)
        first[i], stop[i] = 0, 0
        if nullable and null[i] != 0:
            continue
        place = np.int64(hash64(w0[i], w1[i]) >> shift)
        g = np.int64(slots[place]) - 1
        while g >= 0 and not _same(w0[i], w1[i], data, group_w0[g], group_w1[g], group_data):
            place = (place + 1) & mask
            g = np.int64(slots[place]) - 1
        if g >= 0:
            first[i], stop[i] = starts[g], starts[g + 1]


@kernel("void(const int64[:], const int64[:], const int64[:], const int64[:], int64[:], int64[:])", on_demand=True)
def _narrow(order: np.ndarray, time: np.ndarray, low: np.ndarray, high: np.ndarray, first: np.ndarray, stop: np.ndarray) -> None:
    for i in range(len(first)):
        a, b = first[i], stop[i]
        while a < b:
            middle = (a + b) >> 1
            if time[order[middle]] < low[i]:
                a = middle + 1
            else:
                b = middle
        first[i] = a
        b = stop[i]
        while a < b:
            middle = (a + b) >> 1
            if time[order[middle]] <= high[i]:
                a = middle + 1
            else:
                b = middle
        stop[i] = a


@kernel("void(const int64[:], const int64[:], const int64[:], boolean, int64[:], int64[:], int64[:], int64[:])", on_demand=True)
def _take_pairs(
    order: np.ndarray,
    first: np.ndarray,
    stop: np.ndarray,
    outer: bool,
    at: np.ndarray,
    rows: np.ndarray,
    partners: np.ndarray,
    numbers: np.ndarray,
) -> None:
    """Fills `rows` and the others with what comes from `at` on, (row, number of its meeting), and moves that."""
    i, number, n = at[0], at[1], 0
    while n < len(rows):
        if outer and first[i] == stop[i]:
            rows[n], partners[n], numbers[n] = i, -1, 0
            n += 1
        count = stop[i] - first[i]
        while number < count and n < len(rows):
            rows[n], partners[n], numbers[n] = i, order[first[i] + number], number
            n += 1
            number += 1
        if number >= count:
            i += 1
            number = 0
    at[0], at[1] = i, number


#: What has to be compiled before a join begins.
KERNELS: tuple[Kernel, ...] = (_group, _arrange, _find, _narrow, _take_pairs)
#: And before an index is made in pieces.
PIECEWISE: tuple[Kernel, ...] = (_tally, _place)
