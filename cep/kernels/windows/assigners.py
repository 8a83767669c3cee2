"""Which rows are in which window, for windows that take the rows of a group one by one in stream order.

One assigner for each kind of window: it walks rows, knows of each its group's number, and writes a program
(`cep.kernels.windows.programs`). All take the same arguments, so that one caller serves them; each returns the row for which room was
lacking, or `stop`.

    groups, width    the entries of the groups
    numbers, time    of each row: its group, its event time
    opens, closes    uint8[rows] of transactions, else of no length
    parameters       of the window, int64[3]
    heap             int64[groups, 2], of sessions

Open sessions are in a heap by when they may close at the earliest: (time, group), each once. A row only moves that time further, and
the heap is not touched; when the time has come it is looked at again. So a session costs a look for each gap that it is long.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.windows.programs import (
    AT_GROUP,
    COUNT,
    FIRST,
    LAST,
    NONE,
    OPEN,
    OUTSIDE,
    RESET,
    SLOT,
    UPDATE,
    append_operation,
    emit,
    free_slot,
    no_room,
    take_slot,
)

ASSIGNER = (
    "int64(int64[:], int64, const int64[:], const int64[:], const uint8[:], const uint8[:], const int64[:], "
    "int64[:, :], int64[:, :], int64[:], int64[:], int64[:], int64[:, :], int64, int64)"
)


@kernel(ASSIGNER, on_demand=True)
def assign_transactions(
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
    """From a row that opens to the first from there on that closes."""
    for i in range(start, stop):
        if no_room(program, emitted, links, desk, 4):
            return i
        at = numbers[i] * width
        slot = groups[at + SLOT]
        if slot < 0:
            if opens[i] == 0:
                desk[OUTSIDE] += 1
                continue
            slot = take_slot(program, links, desk)
            groups[at + SLOT], groups[at + FIRST], groups[at + COUNT] = slot, time[i], 0
        groups[at + LAST] = time[i]
        groups[at + COUNT] += 1
        append_operation(program, desk, UPDATE, slot, i)
        if closes[i] != 0:
            emit(program, emitted, desk, slot, numbers[i], i, time[i], groups[at + FIRST], time[i] + 1)
            free_slot(program, links, desk, slot)
            groups[at + SLOT] = NONE
    return stop


#: The end of windows that wait for more rows: `rows` groups, from `desk[AT_GROUP]` on; they come out at event time `time`.
ENDING = "int64(int64[:], int64, int64, const int64[:], int64, int64[:, :], int64[:, :], int64[:], int64[:], int64[:])"


@kernel(ENDING, on_demand=True)
def end_transactions(
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
    """Answers of those that are open. Returns 1 if that was all."""
    for group in range(desk[AT_GROUP], rows):
        desk[AT_GROUP] = group
        at = group * width
        if groups[at + SLOT] >= 0:
            if no_room(program, emitted, links, desk, 1):
                return 0
            emit(program, emitted, desk, groups[at + SLOT], group, NONE, time, groups[at + FIRST], groups[at + LAST] + 1)
    return 1


# --- sessions --------------------------------------------------------------------------------------------------------


@kernel(ASSIGNER, on_demand=True)
def assign_sessions(
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
    """Runs of rows at most a gap apart. `parameters`: gap."""
    gap = parameters[0]
    for i in range(start, stop):
        if no_room(program, emitted, links, desk, 3):
            return i
        at = numbers[i] * width
        slot, last = groups[at + SLOT], groups[at + LAST]
        if slot < 0:
            slot = take_slot(program, links, desk)
            groups[at + SLOT], groups[at + FIRST], groups[at + COUNT] = slot, time[i], 0
            _push(heap, desk, time[i] + gap, numbers[i])
        elif time[i] - last > gap:
            emit(program, emitted, desk, slot, numbers[i], NONE, last + gap, groups[at + FIRST], last + gap)
            append_operation(program, desk, RESET, slot, 0)
            groups[at + FIRST], groups[at + COUNT] = time[i], 0
        groups[at + LAST] = time[i]
        groups[at + COUNT] += 1
        append_operation(program, desk, UPDATE, slot, i)
    return stop


@kernel("int64(int64[:], int64, int64, int64, int64[:, :], int64[:, :], int64[:], int64[:], int64[:, :])", on_demand=True)
def close_sessions(
    groups: np.ndarray,
    width: int,
    gap: int,
    watermark: int,
    program: np.ndarray,
    emitted: np.ndarray,
    links: np.ndarray,
    desk: np.ndarray,
    heap: np.ndarray,
) -> int:
    """Answers of sessions whose last row is more than `gap` before `watermark`. Returns 1 if that was all."""
    while desk[OPEN] > 0 and heap[0, 0] < watermark:
        if no_room(program, emitted, links, desk, 2):
            return 0
        group = heap[0, 1]
        at = group * width
        deadline = groups[at + LAST] + gap
        if deadline < watermark:
            slot = groups[at + SLOT]
            emit(program, emitted, desk, slot, group, NONE, deadline, groups[at + FIRST], deadline)
            free_slot(program, links, desk, slot)
            groups[at + SLOT] = NONE
            desk[OPEN] -= 1
            _sink(heap, desk[OPEN], heap[desk[OPEN], 0], heap[desk[OPEN], 1])
        else:
            _sink(heap, desk[OPEN], deadline, group)
    return 1


@kernel("void(const int64[:], int64, int64, const int64[:], int64[:], int64[:, :])", on_demand=True)
def open_sessions(groups: np.ndarray, width: int, gap: int, numbers: np.ndarray, desk: np.ndarray, heap: np.ndarray) -> None:
    """Puts the open sessions of groups `numbers` into the heap."""
    for i in range(len(numbers)):
        _push(heap, desk, groups[numbers[i] * width + LAST] + gap, numbers[i])


@inlined
def _push(heap: np.ndarray, desk: np.ndarray, deadline: int, group: int) -> None:
    at = desk[OPEN]
    desk[OPEN] = at + 1
    while at > 0 and heap[(at - 1) // 2, 0] > deadline:
        above = (at - 1) // 2
        heap[at, 0], heap[at, 1] = heap[above, 0], heap[above, 1]
        at = above
    heap[at, 0], heap[at, 1] = deadline, group


@inlined
def _sink(heap: np.ndarray, size: int, deadline: int, group: int) -> None:
    """Puts (deadline, group) in the place of the first of `size`."""
    at = 0
    while True:
        below = 2 * at + 1
        if below + 1 < size and heap[below + 1, 0] < heap[below, 0]:
            below += 1
        if below >= size or heap[below, 0] >= deadline:
            break
        heap[at, 0], heap[at, 1] = heap[below, 0], heap[below, 1]
        at = below
    if size > 0:
        heap[at, 0], heap[at, 1] = deadline, group
