"""SIZE windows: `size` rows of a group, one every `advance` rows, made of panes of gcd(size, advance) rows.

What the panes of overlapping windows share is merged once, by two stacks of slots, as `cep.compile.windows.firing` does with tables. With
size 5, advance 2 and so panes of one row:

    row       0    1    2    3    4    5    6    7    8
    window 0  [front 0 . 1 .. 2 .. 3 .. 4]                    flip: slot k holds rows k to 4, merged from the newest back
    window 1            [front 2 ....... | back .. ]          front 2, and back = rows 5, 6
    window 2                      [front 4 | back ........ ]  front 4, and back = rows 5 to 8

- The *back* has the panes that came since the last flip, the newest on top; each is merged into one slot more (`SLOT`) when it is whole,
  but only while there is a front: a flip makes that anew.
- A *flip*, when the front is empty, moves the back over, so that the oldest pane is on top and each holds what is under it too.
- An answer is the top of the front and `SLOT`. A pane is merged twice, whatever the overlap; panes before the next window leave.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.windows.assigners import ASSIGNER, ENDING
from cep.kernels.windows.programs import (
    ADD,
    AT_GROUP,
    AT_WINDOW,
    BACK,
    BACK_PANES,
    COUNT,
    FRONT,
    LAST,
    MERGE,
    NONE,
    OLDEST,
    SLOT,
    UPDATE,
    append_operation,
    emit,
    free_slot,
    no_room,
    take_slot,
)

#: Operations of a row besides those of a flip and those that free panes.
_OPERATIONS = 10


@kernel(ASSIGNER, on_demand=True)
def assign_size(
    groups: np.ndarray,
    width: int,
    numbers: np.ndarray,
    time: np.ndarray,
    opens: np.ndarray,
    closes: np.ndarray,
    parameters: np.ndarray,
    program: np.ndarray,
    emitted: np.ndarray,
    links: np.ndarray,
    begun: np.ndarray,
    desk: np.ndarray,
    heap: np.ndarray,
    start: int,
    stop: int,
) -> int:
    """`parameters`: size, advance and pane, in rows."""
    size, advance, pane = parameters[0], parameters[1], parameters[2]
    for i in range(start, stop):
        at = numbers[i] * width
        if no_room(program, emitted, links, desk, _OPERATIONS + 2 * groups[at + BACK_PANES] + advance // pane):
            return i
        count = groups[at + COUNT]
        if count % pane == 0:
            slot = take_slot(program, links, desk)
            begun[slot] = time[i]
            links[slot] = groups[at + BACK]
            groups[at + BACK] = slot
            groups[at + BACK_PANES] += 1
        append_operation(program, desk, UPDATE, groups[at + BACK], i)
        count += 1
        groups[at + COUNT], groups[at + LAST] = count, time[i]
        if count % pane == 0:
            ends = count >= size and (count - size) % advance == 0
            if groups[at + FRONT] >= 0:
                _merge_back(groups, at, program, links, desk)
            elif ends:
                _flip(groups, at, program, links, desk)
            if ends:
                first = (count - size) // pane
                _leave(groups, at, first, program, links, desk)
                top = groups[at + FRONT]
                emit(program, emitted, desk, top, numbers[i], i, time[i], begun[top], time[i] + 1)
                if groups[at + SLOT] >= 0:
                    append_operation(program, desk, ADD, groups[at + SLOT], 0)
                _leave(groups, at, first + advance // pane, program, links, desk)
    return stop


@inlined
def _merge_back(groups: np.ndarray, at: int, program: np.ndarray, links: np.ndarray, desk: np.ndarray) -> None:
    """The newest pane goes into SLOT."""
    if groups[at + SLOT] < 0:
        groups[at + SLOT] = take_slot(program, links, desk)
    append_operation(program, desk, MERGE, groups[at + SLOT], groups[at + BACK])


@inlined
def _flip(groups: np.ndarray, at: int, program: np.ndarray, links: np.ndarray, desk: np.ndarray) -> None:
    """The back becomes the front, which is empty."""
    slot, front = groups[at + BACK], NONE
    while slot >= 0:
        below = links[slot]
        links[slot] = front
        if front >= 0:
            append_operation(program, desk, MERGE, slot, front)
        front, slot = slot, below
    groups[at + FRONT], groups[at + BACK], groups[at + BACK_PANES] = front, NONE, 0


@inlined
def _leave(groups: np.ndarray, at: int, first: int, program: np.ndarray, links: np.ndarray, desk: np.ndarray) -> None:
    """Panes of the front before number `first` leave, and with the last of them SLOT."""
    while groups[at + OLDEST] < first and groups[at + FRONT] >= 0:
        top = groups[at + FRONT]
        groups[at + FRONT] = links[top]
        groups[at + OLDEST] += 1
        free_slot(program, links, desk, top)
    if groups[at + FRONT] < 0 and groups[at + SLOT] >= 0:
        free_slot(program, links, desk, groups[at + SLOT])
        groups[at + SLOT] = NONE


@kernel(ENDING, on_demand=True)
def end_size(
    groups: np.ndarray,
    width: int,
    rows: int,
    parameters: np.ndarray,
    time: int,
    program: np.ndarray,
    emitted: np.ndarray,
    links: np.ndarray,
    begun: np.ndarray,
    desk: np.ndarray,
) -> int:
    """Answers of windows that have a row and are not complete, from `desk[AT_WINDOW]` on (-1: the group has not begun). Returns 1 if that
    was all."""
    size, advance, pane = parameters[0], parameters[1], parameters[2]
    for group in range(desk[AT_GROUP], rows):
        desk[AT_GROUP] = group
        at = group * width
        count = groups[at + COUNT]
        if desk[AT_WINDOW] < 0:
            if no_room(program, emitted, links, desk, 2):
                return 0
            if count % pane != 0 and groups[at + FRONT] >= 0:
                _merge_back(groups, at, program, links, desk)
            desk[AT_WINDOW] = max(0, (count - size) // advance + 1)
        for window in range(desk[AT_WINDOW], (count - 1) // advance + 1):
            desk[AT_WINDOW] = window
            if no_room(program, emitted, links, desk, _OPERATIONS + 2 * groups[at + BACK_PANES] + 2 * (size // pane)):
                return 0
            first = window * advance // pane
            _leave(groups, at, first, program, links, desk)
            if groups[at + FRONT] < 0:
                _flip(groups, at, program, links, desk)
                _leave(groups, at, first, program, links, desk)
            top = groups[at + FRONT]
            emit(program, emitted, desk, top, group, NONE, time, begun[top], groups[at + LAST] + 1)
            if groups[at + SLOT] >= 0:
                append_operation(program, desk, ADD, groups[at + SLOT], 0)
        desk[AT_WINDOW] = NONE
    return 1
