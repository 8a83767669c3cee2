"""What goes into a pattern's loop and comes out of it as columns: bits of variables in, and of matches the rows that measures read.

`rows` are as in `cep.compile.patterns.groups.Emitted`: (match, number, variable, number in the group) of the rows of each match, in order.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.patterns.places import AT, BY_ROW, NONE, TOGETHER

#: Rows at a time: what is made of them stays in the first cache.
_BLOCK = 1_024


@kernel("int64(const uint8[:, :], const int64[:], int64[:])", on_demand=True)
def bits_of(true: np.ndarray, numbers: np.ndarray, bits: np.ndarray) -> int:
    """Of each row the bits `numbers` of the conditions that are true, which lie one behind the other. Returns how many rows have none."""
    none = 0
    for begin in range(0, len(bits), _BLOCK):
        end = min(begin + _BLOCK, len(bits))
        for row in range(begin, end):
            bits[row] = 0
        for k in range(len(numbers)):
            number = numbers[k]
            for row in range(begin, end):
                bits[row] |= np.int64(true[k, row] != 0) << number
        for row in range(begin, end):
            none += int(bits[row] == 0)
    return none


@kernel("int64(const uint8[:], int64[:], int64[:])", on_demand=True)
def number_named(named: np.ndarray, kept: np.ndarray, numbers: np.ndarray) -> int:
    """The rows that are named one behind the other, and of each its number there; of others nonsense. Returns how many; `kept` has room for
    all rows."""
    count = 0
    for row in range(len(named)):
        kept[count], numbers[row] = row, count
        count += int(named[row])
    return count


@kernel("void(const int64[:, :], int64, int64[:])", on_demand=True)
def first_rows_of(rows: np.ndarray, variable: int, found: np.ndarray) -> None:
    """Of each match the first row that the variable has, or NONE."""
    found[:] = NONE
    for i in range(len(rows) - 1, -1, -1):
        if rows[i, 2] == variable:
            found[rows[i, 0]] = rows[i, 1]


@kernel("void(const int64[:, :], int64, int64, int64[:])", on_demand=True)
def last_rows_of(rows: np.ndarray, variable: int, k: int, found: np.ndarray) -> None:
    """Of each match the k-th row before the last that the variable has, or NONE."""
    found[:] = NONE
    match, behind = NONE, 0
    for i in range(len(rows) - 1, -1, -1):
        if rows[i, 0] != match:
            match, behind = rows[i, 0], 0
        if rows[i, 2] == variable:
            if behind == k:
                found[match] = rows[i, 1]
            behind += 1


@kernel("void(const int64[:, :], int64, int64[:])", on_demand=True)
def count_rows_of(rows: np.ndarray, variable: int, counts: np.ndarray) -> None:
    """How many rows the variable has in each match."""
    counts[:] = 0
    for i in range(len(rows)):
        counts[rows[i, 0]] += np.int64(rows[i, 2] == variable)


@kernel("void(const int64[:, :], int64[:])", on_demand=True)
def begins_of(rows: np.ndarray, begins: np.ndarray) -> None:
    """Where the rows of each match begin, and where the last ones end, int64[n + 1]; all have some."""
    begins[len(begins) - 1] = len(rows)
    for i in range(len(rows) - 1, -1, -1):
        begins[rows[i, 0]] = i


@kernel("int64(const int64[:, :], const int64[:, :], int64[:], int64[:], int64[:, :])", on_demand=True)
def told_by_rows(lines: np.ndarray, origin: np.ndarray, time: np.ndarray, rows: np.ndarray, found: np.ndarray) -> int:
    """Of matches, `lines` as in `Emitted`, their event times; and of the row at hand by which each was decided, in a batch with `origin`,
    its number there and its origin, with one word more: which it is of the matches that are decided together, above 32 bits. Returns how
    many time has decided, of which there is no row, nor origin."""
    by_time, words = 0, found.shape[1] - 1
    for i in range(len(lines)):
        row = lines[i, BY_ROW]
        time[i], rows[i] = lines[i, AT], row
        if row < 0:
            by_time += 1
            continue
        for k in range(words):
            found[i, k] = origin[row, k]
        found[i, words] = lines[i, TOGETHER] << 32
    return by_time


@inlined
def _comes_before(rows: np.ndarray, begins: np.ndarray, one: int, other: int) -> bool:
    """By their rows, then their variables."""
    first, second = begins[one], begins[other]
    count, others = begins[one + 1] - first, begins[other + 1] - second
    for k in range(min(count, others)):
        if rows[first + k, 3] != rows[second + k, 3]:
            return bool(rows[first + k, 3] < rows[second + k, 3])
    if count != others:
        return bool(count < others)
    for k in range(count):
        if rows[first + k, 2] != rows[second + k, 2]:
            return bool(rows[first + k, 2] < rows[second + k, 2])
    return False


@inlined
def _merge(rows: np.ndarray, begins: np.ndarray, order: np.ndarray, room: np.ndarray, first: int, half: int, stop: int) -> None:
    """`order` from `first` to before `half`, and from there to before `stop`, which are in order each."""
    one, other = first, half
    for at in range(first, stop):
        if one < half and (other == stop or not _comes_before(rows, begins, order[other], order[one])):
            room[at] = order[one]
            one += 1
        else:
            room[at] = order[other]
            other += 1
    for at in range(first, stop):
        order[at] = room[at]


@kernel("void(const int64[:, :], const int64[:], const int64[:], int64[:], int64[:])", on_demand=True)
def order_together(rows: np.ndarray, begins: np.ndarray, together: np.ndarray, order: np.ndarray, room: np.ndarray) -> None:
    """Of matches, int64[n], those that were decided together in order: such are neighbours, and the first of them has 0 in `together`."""
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and together[end] > 0:
            end += 1
        for at in range(begin, end):
            order[at] = at
        width = 1
        while width < end - begin:
            for first in range(begin, end - width, 2 * width):
                _merge(rows, begins, order, room, first, first + width, min(first + 2 * width, end))
            width *= 2
        begin = end


COLUMN_KERNELS = bits_of, number_named, first_rows_of, last_rows_of, count_rows_of, begins_of, order_together, told_by_rows
