"""What the loops of patterns have in common: lines of tables that are free and in use, numbers of matches, the heap of what time decides.

`tables` is what a loop is handed (`cep.kernels.machine.addresses.Handed`): all its tables by number, of which these four are the same
everywhere, by the words of `places`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined
from cep.kernels.machine.addresses import table_at
from cep.kernels.patterns.places import DUE, EMITTED_WORDS, HEAP, TOLD, TOLD_AT, TOLD_BY, TOLD_GROUP

Tables = Any
#: The number of a line, or a time: to the type checker whatever an array has.
Number = Any

#: Of what came out: (which of them, number among all, variable, number in its group) of each row; of ways these are looked up later.
rows_at = table_at(4, 4)
desk_at = table_at(5)
emitted_at = table_at(6, EMITTED_WORDS)
heap_at = table_at(7, 2)
parameters_at = table_at(8)


@inlined
def new_line(table: np.ndarray, desk: np.ndarray, free: int, left: int) -> Number:
    """The number of a line that nothing has."""
    line = desk[free]
    if line >= 0:
        desk[free] = table[line, 0]
        desk[left] -= 1
    else:
        line = desk[free + 1]
        desk[free + 1] += 1
    return line


@inlined
def free_line(table: np.ndarray, desk: np.ndarray, line: int, free: int, left: int) -> None:
    table[line, 0] = desk[free]
    desk[free] = line
    desk[left] += 1


@inlined
def number_together(groups: np.ndarray, matches: int, desk: np.ndarray, group: int, now: int, by_row: int) -> Number:
    """A match more of the group, whose word `matches` has them: how many came out before it that were decided with it."""
    groups[group, matches] += 1
    together = desk[TOLD_GROUP] == group and desk[TOLD_AT] == now and desk[TOLD_BY] == by_row
    desk[TOLD_GROUP], desk[TOLD_AT], desk[TOLD_BY] = group, now, by_row
    desk[TOLD] = desk[TOLD] + 1 if together else 0
    return desk[TOLD]


@inlined
def push(groups: np.ndarray, desk: np.ndarray, heap: np.ndarray, group: int, due: int) -> None:
    """Has the group looked at when `due` has passed; what the heap had of it is void."""
    groups[group, DUE] = due
    at = desk[HEAP]
    desk[HEAP] += 1
    while at > 0 and heap[(at - 1) // 2, 0] > due:
        above = (at - 1) // 2
        heap[at, 0], heap[at, 1] = heap[above, 0], heap[above, 1]
        at = above
    heap[at, 0], heap[at, 1] = due, group


@inlined
def pop(desk: np.ndarray, heap: np.ndarray) -> None:
    """Takes the first away."""
    size = desk[HEAP] - 1
    desk[HEAP] = size
    due, group, at = heap[size, 0], heap[size, 1], 0
    while True:
        below = 2 * at + 1
        if below + 1 < size and heap[below + 1, 0] < heap[below, 0]:
            below += 1
        if below >= size or heap[below, 0] >= due:
            break
        heap[at, 0], heap[at, 1] = heap[below, 0], heap[below, 1]
        at = below
    if size > 0:
        heap[at, 0], heap[at, 1] = due, group
