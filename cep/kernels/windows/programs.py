"""Programs: what assigners of windows (`cep.kernels.windows.assigners`) tell an accumulator (`cep.compile.windows.accumulator`) to do.
Rules:

- A *slot* is a place for the states of one window of one group, or of a pane of it. A program is int64[n, 3]: an operation, a slot,
  an operand. It knows nothing of functions, and the accumulator nothing of windows:

      RESET  slot          it holds no row
      FREE   slot          it holds nothing any more
      UPDATE slot, row     it holds this row too
      MERGE  slot, slot    the first holds also what the second holds
      EMIT   slot          what it holds is the next answer, whose group is in `emitted`
      ADD    slot          the last answer holds also what it holds

- `emitted`, int64[n, 5], says of each answer: number of its group; the row whose origin it has, -1 for none; event time, start and
  end of its window.
- `links`, int64[slots], is for each slot the next one of its stack, or of those that are free; `begun` is for slots that are panes the
  event time of their first row.
- `desk`, int64[DESK_WORDS], is what goes on: operations and answers written, the first free slot (-1: none), slots that were
  ever used, free slots among those, open sessions in the heap, rows outside every window, the operations for which room was
  lacking, and how far the end has come: group and window.
- A group is an entry of a `cep.kernels.tables.table.Table` of `width` words: its key, then the words below.
- A kernel never allocates. Where it lacks room it stops before a row, and the caller makes room and goes on there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel

RESET, FREE, UPDATE, MERGE, EMIT, ADD = range(6)
GROUP, ROW, TIME, START, END = range(5)
OPERATIONS, ANSWERS, FREE_SLOT, SLOTS, SLOTS_FREE, OPEN, OUTSIDE, WANTED, AT_GROUP, AT_WINDOW = range(10)
DESK_WORDS = 10

#: Words of a group behind its key: the slot of the open window (-1: none), rows taken, event times of its last row and of the first row
#: of the open window. Of groups of SIZE windows also the tops of two stacks of panes, how many are in the second, and the number
#: of the oldest pane; there SLOT is what is merged of the second stack. A window has as many of them as it needs, the first ones: the
#: smaller a group, the more of them are in the cache.
SLOT, COUNT, LAST, FIRST, FRONT, BACK, BACK_PANES, OLDEST = range(2, 10)
NONE = -1

#: Slots that a row may take.
SLOTS_A_ROW = 2


@inlined
def append_operation(program: np.ndarray, desk: np.ndarray, operation: int, slot: int, operand: int) -> None:
    n = desk[OPERATIONS]
    program[n, 0], program[n, 1], program[n, 2] = operation, slot, operand
    desk[OPERATIONS] = n + 1


@inlined
def slots_left(links: np.ndarray, desk: np.ndarray) -> Any:
    """How many may be taken before there must be room for more."""
    return desk[SLOTS_FREE] + len(links) - desk[SLOTS]


@inlined
def no_room(program: np.ndarray, emitted: np.ndarray, links: np.ndarray, desk: np.ndarray, operations: int) -> bool:
    """Is there no room for so many operations, an answer and the slots of a row?"""
    desk[WANTED] = operations
    full = desk[OPERATIONS] + operations > len(program) or desk[ANSWERS] == len(emitted)
    return bool(full or slots_left(links, desk) < SLOTS_A_ROW)


@inlined
def next_slot(links: np.ndarray, desk: np.ndarray) -> Any:
    """A slot that is free."""
    slot = desk[FREE_SLOT]
    if slot >= 0:
        desk[FREE_SLOT] = links[slot]
        desk[SLOTS_FREE] -= 1
    else:
        slot = desk[SLOTS]
        desk[SLOTS] = slot + 1
    return slot


@inlined
def take_slot(program: np.ndarray, links: np.ndarray, desk: np.ndarray) -> Any:
    """A slot that holds no row."""
    slot = next_slot(links, desk)
    append_operation(program, desk, RESET, slot, 0)
    return slot


@inlined
def free_slot(program: np.ndarray, links: np.ndarray, desk: np.ndarray, slot: int) -> None:
    append_operation(program, desk, FREE, slot, 0)
    links[slot] = desk[FREE_SLOT]
    desk[FREE_SLOT] = slot
    desk[SLOTS_FREE] += 1


@inlined
def emit(
    program: np.ndarray, emitted: np.ndarray, desk: np.ndarray, slot: int, group: int, row: int, time: int, start: int, end: int
) -> None:
    n = desk[ANSWERS]
    emitted[n, GROUP], emitted[n, ROW], emitted[n, TIME], emitted[n, START], emitted[n, END] = group, row, time, start, end
    desk[ANSWERS] = n + 1
    append_operation(program, desk, EMIT, slot, 0)


@kernel("void(const int64[:], int64[:], int64[:])", on_demand=True)
def free_slots(slots: np.ndarray, links: np.ndarray, desk: np.ndarray) -> None:
    """Adds `slots` to those that are free."""
    for i in range(len(slots)):
        links[slots[i]] = desk[FREE_SLOT]
        desk[FREE_SLOT] = slots[i]
    desk[SLOTS_FREE] += len(slots)


#: What a slot is to its group.
IN_FRONT, IN_BACK, ITS_OWN = range(3)


@kernel("int64(const int64[:], int64, int64, boolean, const int64[:], int64[:, :])", on_demand=True)
def list_slots(groups: np.ndarray, width: int, rows: int, stacks: bool, links: np.ndarray, out: np.ndarray) -> int:
    """Group, what it is, how deep in its stack, and number of each slot that is held; returns how many. `stacks`: may there be some?"""
    count = 0
    for group in range(rows):
        at = group * width
        if groups[at + SLOT] >= 0:
            out[count, 0], out[count, 1], out[count, 2], out[count, 3] = group, ITS_OWN, 0, groups[at + SLOT]
            count += 1
        if stacks:
            for what in range(2):
                slot, depth = groups[at + FRONT + what], 0
                while slot >= 0:
                    out[count, 0], out[count, 1], out[count, 2], out[count, 3] = group, what, depth, slot
                    count += 1
                    slot, depth = links[slot], depth + 1
    return count
