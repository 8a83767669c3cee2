"""Rows of one side of an interval join by key, those of a key in order of time, while rows come.

    groups      b              a                 of each key a table's entry: where its region begins, its rows, its room
    when        3  5  9  .  |  2  4              the rows' times in a region, ascending; room behind them
    order       0  7  4  .  |  1  2              the rows' numbers

A region without room moves behind all others, with room for twice as many. What it leaves is less than what it takes. Rows mostly come in
order and go to the end of their region; of those that do not, a whole batch moves what is behind them once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import Kernel, inlined, kernel
from cep.kernels.join import Ranges
from cep.kernels.machine.memory import prefetch
from cep.kernels.tables.group_table import GroupTable, number_groups
from cep.kernels.tables.growing import grow
from cep.kernels.tables.hashing import hash64, is_long
from cep.kernels.tables.keys import Keys
from cep.kernels.tables.table import same_long

#: Keys between one and the one for which memory is asked.
AHEAD = 16
#: Words of a group: where its region begins, rows, room; and of the batch that is put in the rows to come, and older ones not yet moved.
_START, _ROWS, _ROOM, _COMING, _OLDER = 2, 3, 4, 5, 6
_FRESH = (0, 0, 0, 0, 0, 0)  # one word is spare: an entry is a cache line
_ROOM_MIN = 64


class TimeIndex:
    """`order` and `when`, int64[room], are the regions of all keys."""

    def __init__(self) -> None:
        self.groups = GroupTable(_FRESH)
        self.order, self.when = np.empty((2, _ROOM_MIN), np.int64)
        self.used = np.zeros(1, np.int64)  # of the regions

    @property
    def bytes(self) -> int:
        return self.groups.table.bytes + 16 * int(self.used[0])

    def add(self, keys: Keys, null: np.ndarray, time: np.ndarray, first: int) -> None:
        """Puts in the rows `first`, `first` + 1, … with these keys and times, int64[n]. `null`, uint8[n] or empty: those without a key."""
        rows = np.flatnonzero(null == 0) if len(null) else np.arange(len(time))
        if len(null):
            keys, time = Keys(keys.w0[rows], keys.w1[rows], keys.data), time[rows]
        numbers = self.groups.numbers(keys)
        if not bool((time[1:] >= time[:-1]).all()):
            order = np.argsort(time, kind="stable")
            numbers, time, rows = numbers[order], time[order], rows[order]
        entries, width = self.groups.words
        _announce(entries, width, numbers)
        reached = 0
        while (reached := _make_room(entries, width, numbers, reached, self.used, self.order, self.when)) < len(numbers):
            room = 2 * len(self.order)
            grow(self, "order", room)
            grow(self, "when", room)
        _place(entries, width, numbers, time, rows + first, self.order, self.when)

    def probe(self, keys: Keys, null: np.ndarray, low: np.ndarray, high: np.ndarray) -> Ranges:
        """For each of `keys` the rows of a time from low[i] to high[i], int64[n], both included."""
        first, stop = np.empty((2, len(keys)), np.int64)
        slots, entries, _, arena, width = self.groups.arrays
        _find_between(keys.w0, keys.w1, keys.data, null, slots, entries, width, arena, self.when, low, high, first, stop)
        return Ranges(self.order, first, stop)


@kernel("void(int64[:], int64, const int64[:])", on_demand=True)
def _announce(entries: np.ndarray, width: int, numbers: np.ndarray) -> None:
    """Counts the rows that come to each group."""
    for i in range(len(numbers)):
        at = numbers[i] * width
        entries[at + _ROWS] += 1
        entries[at + _COMING] += 1


@kernel("int64(int64[:], int64, const int64[:], int64, int64[:], int64[:], int64[:])", on_demand=True)
def _make_room(
    entries: np.ndarray, width: int, numbers: np.ndarray, start: int, used: np.ndarray, order: np.ndarray, when: np.ndarray
) -> int:
    """Makes room in the group of each row from `start` on for all that come to it. Returns the row for which there was none behind the
    regions, or how many rows there are."""
    for i in range(start, len(numbers)):
        at = numbers[i] * width
        rows = entries[at + _ROWS]
        older = rows - entries[at + _COMING]
        entries[at + _OLDER] = older
        room = entries[at + _ROOM]
        if rows <= room:
            continue
        room = max(2 * room, rows)
        if used[0] + room > len(order):
            return i
        old, new = entries[at + _START], used[0]
        for k in range(older):
            order[new + k], when[new + k] = order[old + k], when[old + k]
        entries[at + _START], entries[at + _ROOM] = new, room
        used[0] += room
    return len(numbers)


@kernel("void(int64[:], int64, const int64[:], const int64[:], const int64[:], int64[:], int64[:])", on_demand=True)
def _place(
    entries: np.ndarray, width: int, numbers: np.ndarray, time: np.ndarray, rows: np.ndarray, order: np.ndarray, when: np.ndarray
) -> None:
    """Puts the rows, which are in order of time, behind the older ones that are not later: the last first, so that each older one moves
    once, to its place."""
    for i in range(len(numbers) - 1, -1, -1):
        at = numbers[i] * width
        start, older = entries[at + _START], entries[at + _OLDER]
        to = start + older + entries[at + _COMING] - 1
        while older > 0 and when[start + older - 1] > time[i]:
            older -= 1
            order[to], when[to] = order[start + older], when[start + older]
            to -= 1
        order[to], when[to] = rows[i], time[i]
        entries[at + _OLDER] = older
        entries[at + _COMING] -= 1


@inlined
def _shift(slots: np.ndarray) -> Any:
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    return np.uint64(64 - bits)


@kernel(
    "void(const uint64[:], const uint64[:], const uint8[:], const uint8[:], const int32[:], const int64[:], int64, const uint8[:], "
    "const int64[:], const int64[:], const int64[:], int64[:], int64[:])",
    on_demand=True,
)
def _find_between(
    w0: np.ndarray,
    w1: np.ndarray,
    data: np.ndarray,
    null: np.ndarray,
    slots: np.ndarray,
    entries: np.ndarray,
    width: int,
    arena: np.ndarray,
    when: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    first: np.ndarray,
    stop: np.ndarray,
) -> None:
    shift, mask, nullable = _shift(slots), len(slots) - 1, len(null) > 0
    for i in range(len(w0)):
        if i + 2 * AHEAD < len(w0):
            prefetch(slots, np.int64(hash64(w0[i + 2 * AHEAD], w1[i + 2 * AHEAD]) >> shift))
            prefetch(entries, (np.int64(slots[np.int64(hash64(w0[i + AHEAD], w1[i + AHEAD]) >> shift)]) - 1) * width)
        first[i], stop[i] = 0, 0
        if nullable and null[i] != 0:
            continue
        place = np.int64(hash64(w0[i], w1[i]) >> shift)
        row = np.int64(slots[place])
        while row != 0:
            at = (row - 1) * width
            if entries[at] == np.int64(w0[i]):
                if is_long(w1[i]):
                    if same_long(entries[at + 1], arena, w1[i], data):
                        break
                elif entries[at + 1] == np.int64(w1[i]):
                    break
            place = (place + 1) & mask
            row = np.int64(slots[place])
        if row != 0:
            at = (row - 1) * width
            a = entries[at + _START]
            b = a + entries[at + _ROWS]
            first[i] = _earliest(when, a, b, low[i], False)
            stop[i] = _earliest(when, first[i], b, high[i], True)


@inlined
def _earliest(when: np.ndarray, a: int, b: int, time: int, later: bool) -> int:
    """The first place from `a` to `b` of a time not before `time`, or later than that; `b` if there is none. Both ends are looked at
    first: mostly all or none are meant."""
    if a == b or when[a] > time or (not later and when[a] == time):
        return a
    if when[b - 1] < time or (later and when[b - 1] == time):
        return b
    while a < b:
        middle = (a + b) >> 1
        if when[middle] < time or (later and when[middle] == time):
            a = middle + 1
        else:
            b = middle
    return a


#: What has to be compiled before an interval join begins.
KERNELS: tuple[Kernel, ...] = (_announce, _make_room, _place, _find_between, number_groups)
