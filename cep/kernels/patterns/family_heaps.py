"""Heaps of families, which many have at once (persistent leftist heaps, by the latest start of a node's families): two become one in the
logarithm of their size, mostly at once, since what is put in is the latest; and what is not too early is found without looking at the rest.
"""

from __future__ import annotations

from cep.kernels.jit import apart, inlined
from cep.kernels.patterns.family_places import (
    BEHIND,
    FREE_HEAP,
    HEAP_GROUP,
    HEAP_USES,
    HEAP_WORDS,
    LATEST,
    LEFT,
    LEFT_HEAP,
    LOOKED,
    RANK,
    RIGHT,
    TAKEN_AS,
    TAKEN_ROW,
    TAKEN_SEQ,
)
from cep.kernels.patterns.family_tables import heap_nodes_at
from cep.kernels.patterns.lines import Number, Tables, desk_at, free_line, new_line
from cep.kernels.patterns.places import NONE


@inlined
def new_heap(tables: Tables, group: int, row: int, seq: int, variable: int, behind: int) -> Number:
    """Of one node, a row behind all families of `behind`, or the first; one has it."""
    nodes = heap_nodes_at(tables)
    node = new_line(nodes, desk_at(tables), FREE_HEAP, LEFT_HEAP)
    nodes[node, LEFT], nodes[node, RIGHT], nodes[node, RANK], nodes[node, HEAP_USES] = NONE, NONE, 1, 1
    nodes[node, TAKEN_ROW], nodes[node, TAKEN_SEQ], nodes[node, TAKEN_AS], nodes[node, BEHIND] = row, seq, variable, behind
    nodes[node, HEAP_GROUP], nodes[node, LOOKED] = group, NONE
    if behind >= 0:
        nodes[behind, HEAP_USES] += 1
        nodes[node, LATEST] = nodes[behind, LATEST]
    else:
        nodes[node, LATEST] = seq
    return node


@apart
def apart_release_heap(tables: Tables, node: int) -> None:
    """One that had it has it no more."""
    nodes, desk = heap_nodes_at(tables), desk_at(tables)
    nodes[node, HEAP_USES] -= 1
    if nodes[node, HEAP_USES] > 0:
        return
    over = node  # nodes that none has, linked by RANK
    nodes[node, RANK] = NONE
    while over >= 0:
        node, over = over, nodes[over, RANK]
        for word in (LEFT, RIGHT, BEHIND):
            other = nodes[node, word]
            if other >= 0:
                nodes[other, HEAP_USES] -= 1
                if nodes[other, HEAP_USES] == 0:
                    nodes[other, RANK] = over
                    over = other
        free_line(nodes, desk, node, FREE_HEAP, LEFT_HEAP)


@inlined
def _own(tables: Tables, node: int) -> Number:
    """The node, or one in its place, that nothing else has: whoever asks had it."""
    nodes = heap_nodes_at(tables)
    if nodes[node, HEAP_USES] == 1:
        return node
    nodes[node, HEAP_USES] -= 1
    made = new_line(nodes, desk_at(tables), FREE_HEAP, LEFT_HEAP)
    for word in range(HEAP_WORDS):
        nodes[made, word] = nodes[node, word]
    nodes[made, HEAP_USES] = 1
    for word in (LEFT, RIGHT, BEHIND):
        if nodes[made, word] >= 0:
            nodes[nodes[made, word], HEAP_USES] += 1
    return made


@inlined
def _in_time(tables: Tables, node: int, floor: int) -> Number:
    """The heap, or NONE if all its starts are before `floor`; then it is had no more."""
    if node >= 0 and heap_nodes_at(tables)[node, LATEST] < floor:
        apart_release_heap(tables, node)
        return NONE
    return node


@apart
def apart_meld(tables: Tables, one: int, other: int, floor: int) -> Number:
    """Two heaps as one, which has what they had; what is before `floor` may be left out."""
    nodes, above = heap_nodes_at(tables), NONE  # nodes on the way down, each with the one above it on its right
    while True:
        one, other = _in_time(tables, one, floor), _in_time(tables, other, floor)
        if one < 0 or other < 0:
            break
        if nodes[one, LATEST] < nodes[other, LATEST]:
            one, other = other, one
        one = _own(tables, one)
        below = nodes[one, RIGHT]
        nodes[one, RIGHT] = above
        above, one = one, below
    rest = max(one, other)
    while above >= 0:
        node, left = above, nodes[above, LEFT]
        above = nodes[node, RIGHT]
        if left < 0 or (rest >= 0 and nodes[left, RANK] < nodes[rest, RANK]):
            left, rest = rest, left
        nodes[node, LEFT], nodes[node, RIGHT] = left, rest
        nodes[node, RANK] = 1 + (nodes[rest, RANK] if rest >= 0 else 0)
        rest = node
    return rest
