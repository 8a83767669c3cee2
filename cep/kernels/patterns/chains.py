"""The rows of matches, walked from their last nodes; and which rows anything has."""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.lines import Tables
from cep.kernels.patterns.places import (
    FAR,
    FOLLOWING,
    GROUP,
    LAST_NODE,
    NODE,
    NODE_SEQ,
    NODE_WORDS,
    NONE,
    PARENT,
    ROW,
    ROW0,
    USES,
    VARIABLE,
    WAITING_ROW,
    WAY,
    WITH,
)
from cep.kernels.patterns.way_lines import apart_release
from cep.kernels.patterns.way_tables import nodes_at

#: Matches ahead at which the last node of one is asked for, and the one before that.
_AHEAD, _SOON = 16, 8


@inlined
def _ask_ahead(nodes: np.ndarray, emitted: np.ndarray, k: int) -> None:
    """The last node of a later match, and the one before that of one that is sooner. They are too many to stay from counting to taking."""
    last = len(emitted) - 1
    prefetch(nodes, emitted[min(k + _AHEAD, last), LAST_NODE] * NODE_WORDS)
    prefetch(nodes, nodes[max(emitted[min(k + _SOON, last), LAST_NODE], 0), PARENT] * NODE_WORDS)


@kernel("int64(const int64[:, :], const int64[:, :], int64[:])", on_demand=True)
def count_rows(nodes: np.ndarray, emitted: np.ndarray, counts: np.ndarray) -> int:
    """How many rows each of `emitted` has, int64[n]; returns all of them."""
    total = 0
    for k in range(len(emitted)):
        _ask_ahead(nodes, emitted, k)
        count, node = 0, emitted[k, LAST_NODE]
        while node >= 0:
            count += 1
            node = nodes[node, PARENT]
        counts[k] = count
        total += count
    return total


@kernel("void(int64, const int64[:, :], const int64[:], int64[:, :])", on_demand=True)
def take_rows_of(tables: Tables, emitted: np.ndarray, counts: np.ndarray, out: np.ndarray) -> None:
    """For each of `emitted` its rows in order, `counts` of them: (which of them, number of all, variable, number in the group). They
    have the nodes no more."""
    nodes, stop = nodes_at(tables), 0
    for k in range(len(emitted)):
        _ask_ahead(nodes, emitted, k)
        stop += counts[k]
        at, node = stop, emitted[k, LAST_NODE]
        while node >= 0:
            at -= 1
            out[at, 0], out[at, 1], out[at, 2], out[at, 3] = k, nodes[node, ROW], nodes[node, VARIABLE], nodes[node, NODE_SEQ]
            node = nodes[node, PARENT]
        apart_release(tables, emitted[k, LAST_NODE])


@kernel("void(const int64[:, :], const int64[:, :], uint8[:])", on_demand=True)
def mark_rows(nodes: np.ndarray, waiting: np.ndarray, out: np.ndarray) -> None:
    """Sets 1 for each row that a node, or a row that waits, is."""
    for node in range(len(nodes)):
        if nodes[node, USES] != NONE:
            out[nodes[node, ROW]] = 1
    for line in range(len(waiting)):
        if waiting[line, WAITING_ROW] != NONE:
            out[waiting[line, WAITING_ROW]] = 1


@kernel("UniTuple(int64, 2)(const int64[:, :])", on_demand=True)
def oldest_way_row(starts: np.ndarray) -> tuple[int, int]:
    """The first row of all starts, before which no node is, FAR if there is none; and how many starts there are."""
    oldest, count = FAR, 0
    for start in range(len(starts)):
        if starts[start, GROUP] != NONE:
            oldest = min(oldest, starts[start, ROW0])
            count += 1
    return oldest, count


@inlined
def _renumbered(row: int, numbers: np.ndarray) -> int:
    """Its new number; the row of a start that nothing has any more keeps the one that it had."""
    return numbers[row] if 0 <= row < len(numbers) else row


@kernel("void(int64[:, :], int64[:, :], int64[:, :], const int64[:])", on_demand=True)
def renumber_way_rows(nodes: np.ndarray, starts: np.ndarray, waiting: np.ndarray, numbers: np.ndarray) -> None:
    """`numbers`: of each row that a node, a start or a row that waits is its new number."""
    for node in range(len(nodes)):
        if nodes[node, USES] != NONE:
            nodes[node, ROW] = _renumbered(nodes[node, ROW], numbers)
    for start in range(len(starts)):
        if starts[start, GROUP] != NONE:
            starts[start, ROW0] = _renumbered(starts[start, ROW0], numbers)
    for line in range(len(waiting)):
        if waiting[line, WAITING_ROW] != NONE:
            waiting[line, WAITING_ROW] = _renumbered(waiting[line, WAITING_ROW], numbers)


@kernel("void(const int64[:, :], const int64[:, :], int64[:], int64[:])", on_demand=True)
def place_ways(starts: np.ndarray, ways: np.ndarray, start_of: np.ndarray, place: np.ndarray) -> None:
    """For each way the start that has it, NONE if none has, and its place among the ways of that."""
    start_of[:] = NONE
    for start in range(len(starts)):
        if starts[start, GROUP] != NONE:
            way, at = starts[start, WAY], 0
            while way >= 0:
                start_of[way], place[way] = start, at
                way, at = ways[way, FOLLOWING], at + 1


@kernel("void(const int64[:, :], const int64[:, :], const int64[:, :], const int64[:], int64[:])", on_demand=True)
def place_nodes(starts: np.ndarray, ways: np.ndarray, nodes: np.ndarray, start_of: np.ndarray, group_of: np.ndarray) -> None:
    """For each node the group of whose ways and starts it is, NONE if of none; `start_of`: by way."""
    group_of[:] = NONE
    for way in range(len(start_of)):
        if start_of[way] != NONE:
            node, group = ways[way, NODE], starts[start_of[way], GROUP]
            while node >= 0 and group_of[node] == NONE:
                group_of[node] = group
                node = nodes[node, PARENT]
    for start in range(len(starts)):
        if starts[start, GROUP] != NONE:
            node = starts[start, WITH]
            while node >= 0 and group_of[node] == NONE:
                group_of[node] = starts[start, GROUP]
                node = nodes[node, PARENT]


KERNELS = count_rows, take_rows_of, mark_rows, oldest_way_row, renumber_way_rows, place_ways, place_nodes
