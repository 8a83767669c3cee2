"""The loop that takes rows along the ways of a pattern.

A row of a group, at number `q`, is tried by every way of every open start, in two passes: first what each way awaits is looked at, and the
nodes from which it is taken are marked; then ways are made of those that take it, and others stay or die. For a way may not skip what
another way with the same rows takes.

`tables` are those of `cep.kernels.patterns.way_tables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.lines import (
    Tables,
    desk_at,
    emitted_at,
    heap_at,
    parameters_at,
)
from cep.kernels.patterns.places import (
    AFTER,
    ALL,
    ANY_ROW,
    AT_ROW,
    BROKEN,
    BY,
    BY_NEXT,
    BY_THEN,
    CHILD,
    COMPLETE,
    DIRECT,
    DIRECTLY,
    DROPPED,
    DROPS,
    DUE,
    EDGE_FIRST,
    EDGE_STOP,
    EMITTED,
    FAN,
    FAN_FIRST,
    FAR,
    FOLLOWING,
    FORBIDS,
    FRAGILE,
    GAP,
    GROUP,
    HEAD,
    HEAP,
    HEEDS,
    HIT,
    INITIAL,
    LAST,
    LEFT_NODES,
    LEFT_STARTS,
    LEFT_WAITING,
    LEFT_WAYS,
    LIMIT,
    MATCHES,
    NODE,
    NONE,
    OPEN,
    OVERFULL,
    PASSED,
    REGISTERS,
    ROW0,
    SEQ,
    SIBLING,
    STAMP,
    START_WORDS,
    STATE,
    TAIL,
    TAKES,
    TARGET,
    TIME,
    TIME0,
    TIMED_OUT,
    TTL,
    USED_NODES,
    USED_STARTS,
    USED_WAITING,
    USED_WAYS,
    USES,
    VARIABLE,
    WAIT_DIRECTLY,
    WAIT_FIRST,
    WAIT_STOP,
    WAITING,
    WANTED,
    WANTS_TIMED_OUT,
    WANTS_UNMATCHED,
    WAY,
    WAY_SEQ,
    WAY_WORDS,
    WAYS,
)
from cep.kernels.patterns.way_conditions import any_way_holds, copy_registers, remember_row, way_holds, which_hold
from cep.kernels.patterns.way_lines import (
    apart_complete_one,
    apart_decide,
    apart_drop_start,
    apart_emit,
    apart_release,
    drop_way,
    new_node,
    new_start,
    new_waiting,
    new_way,
)
from cep.kernels.patterns.way_tables import (
    arrive_at,
    arriving_at,
    bits_at,
    edges_at,
    groups_at,
    initial_at,
    nodes_at,
    registers_at,
    starts_at,
    states_at,
    takes_at,
    waiting_at,
    waits_at,
    ways_at,
)
from cep.kernels.patterns.ways import (
    apart_cut,
    apart_merge_equal,
    apart_pass_time,
    drop_if_over,
    watch,
)

#: Of the row at hand: its number in the batch, event time, number in the group, number among all rows, the waiting row that it is (or
#: NONE), and its stamp.
Row = tuple[Any, Any, Any, Any, Any, Any]
#: Rows ahead at which a group is asked for, the starts at the ends of one, the way of the first, of the second and of the third.
GROUP_AHEAD, START_AHEAD, WAY_AHEAD, NEXT_AHEAD, LAST_AHEAD = 24, 16, 10, 6, 3


# --- a row and a way --------------------------------------------------------------------------------------------------


@inlined
def _taken(edge: int, way: int, here: Row, tables: Tables) -> Any:
    """May the row be the next one of the way by this edge, and is it one of its variable?"""
    ways, edges = ways_at(tables), edges_at(tables)
    i, t, q = here[0], here[1], here[2]
    directly = q == ways[way, WAY_SEQ] + 1
    if (edges[edge, BY] == BY_NEXT and not directly) or (edges[edge, BY] == BY_THEN and ways[way, PASSED]):
        return False
    if edges[edge, FORBIDS] & ways[way, BROKEN] or edges[edge, DIRECTLY] & ways[way, DIRECT]:
        return False
    if edges[edge, GAP] != FAR and t - ways[way, TIME] > edges[edge, GAP]:
        return False
    if directly and edges[edge, DIRECTLY] and any_way_holds(edges[edge, DIRECTLY], i, way, tables):
        return False
    return way_holds(edges[edge, TAKES], i, way, tables)


@inlined
def _child(node: int, variable: int, here: Row, tables: Tables) -> Any:
    """The node of the row behind `node`, as `variable`: one for all ways."""
    nodes = nodes_at(tables)
    if nodes[node, HIT] != here[5]:
        nodes[node, HIT], nodes[node, CHILD] = here[5], NONE
    child = nodes[node, CHILD]
    while child >= 0 and nodes[child, VARIABLE] != variable:
        child = nodes[child, SIBLING]
    if child < 0:
        child = new_node(tables, node, here[3], variable, here[2], here[4])
        nodes[child, SIBLING], nodes[node, CHILD] = nodes[node, CHILD], child
    return child


@apart
def apart_arrive(start: int, position: int, node: int, parent: int, last: int, here: Row, tables: Tables) -> Any:
    """The ways that come to `position` with the row, behind the way `last` of the start; returns the last one."""
    starts, ways, nodes = starts_at(tables), ways_at(tables), nodes_at(tables)
    arrive, arriving, parameters, group = arrive_at(tables), arriving_at(tables), parameters_at(tables), starts[start, GROUP]
    for k in range(arrive[position, 0], arrive[position, 1]):
        if parameters[ALL] and arriving[k] == COMPLETE:
            apart_complete_one(tables, start, node, here[1], here[0])
            continue
        way = new_way(tables, group, arriving[k], node, here[1], here[2])
        if arriving[k] == COMPLETE:
            copy_registers(way, NONE, tables)  # what a match remembers is not asked
        else:
            remember_row(nodes[node, VARIABLE], here[0], way, parent, tables)
        if last >= 0:
            ways[last, FOLLOWING] = way
        else:
            starts[start, WAY] = way
        last = way
    return last


@inlined
def _waits_on(way: int, here: Row, tables: Tables) -> bool:
    """Does what waits for nothing to come still wait, or is it over well?"""
    ways, states, waits = ways_at(tables), states_at(tables), waits_at(tables)
    state, i = ways[way, STATE], here[0]
    for k in range(states[state, WAIT_FIRST], states[state, WAIT_STOP]):
        if here[1] - ways[way, TIME] <= waits[k, 1] and way_holds(waits[k, 0], i, way, tables):
            return False
    if here[2] == ways[way, WAY_SEQ] + 1 and states[state, WAIT_DIRECTLY]:
        if any_way_holds(states[state, WAIT_DIRECTLY], i, way, tables):
            return False
        if states[state, WAIT_FIRST] == states[state, WAIT_STOP]:
            ways[way, STATE] = COMPLETE
    return True


@apart
def apart_stays(way: int, hit: bool, here: Row, tables: Tables) -> bool:
    """Does the way still await something behind the row, which it has not taken?"""
    ways, edges, states = ways_at(tables), edges_at(tables), states_at(tables)
    state, i, alive = ways[way, STATE], here[0], False
    if states[state, EDGE_FIRST] == states[state, EDGE_STOP]:
        return _waits_on(way, here, tables)
    if hit:
        ways[way, PASSED] = 1
    for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
        if edges[e, BY] == BY_NEXT or (edges[e, BY] == BY_THEN and ways[way, PASSED]):
            continue
        if here[2] == ways[way, WAY_SEQ] + 1 and edges[e, DIRECTLY]:
            ways[way, DIRECT] |= which_hold(edges[e, DIRECTLY], i, way, tables)
        if edges[e, FORBIDS]:
            ways[way, BROKEN] |= which_hold(edges[e, FORBIDS] & ~ways[way, BROKEN], i, way, tables)
        if not edges[e, FORBIDS] & ways[way, BROKEN] and not edges[e, DIRECTLY] & ways[way, DIRECT]:
            alive = True
    return alive


# --- a row and a start ------------------------------------------------------------------------------------------------


@apart
def apart_look(start: int, here: Row, tables: Tables) -> bool:
    """The first pass. Does the row change anything of the start?"""
    starts, ways, nodes, states, stamp = starts_at(tables), ways_at(tables), nodes_at(tables), states_at(tables), here[5]
    takes, way, k, changes = takes_at(tables), starts[start, WAY], 0, False
    while way >= 0:
        state = ways[way, STATE]
        if state != COMPLETE:
            changes |= states[state, FRAGILE] != 0
            for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
                takes[k] = _taken(e, way, here, tables)
                if takes[k]:
                    changes = True
                    if nodes[ways[way, NODE], HIT] != stamp:
                        nodes[ways[way, NODE], HIT], nodes[ways[way, NODE], CHILD] = stamp, NONE
                k += 1
        way = ways[way, FOLLOWING]
    return changes


@apart
def apart_step(start: int, here: Row, tables: Tables) -> None:
    """The second pass."""
    starts, ways, nodes, edges, states = starts_at(tables), ways_at(tables), nodes_at(tables), edges_at(tables), states_at(tables)
    group, parameters, takes = starts[start, GROUP], parameters_at(tables), takes_at(tables)
    way, last, k, made = starts[start, WAY], NONE, 0, False
    starts[start, WAY] = NONE
    while way >= 0:
        following, state, node = ways[way, FOLLOWING], ways[way, STATE], ways[way, NODE]
        ways[way, FOLLOWING] = NONE
        stays = True
        if state != COMPLETE:
            hit = nodes[node, HIT] == here[5]
            for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
                if takes[k]:
                    child = _child(node, edges[e, TAKES], here, tables)
                    nodes[child, USES] += 1
                    last = apart_arrive(start, edges[e, TARGET], child, way, last, here, tables)
                    nodes[child, USES] -= 1
                    made = True
                k += 1
            stays = apart_stays(way, hit, here, tables)
            if stays and parameters[ALL] and ways[way, STATE] == COMPLETE:
                apart_complete_one(tables, start, node, here[1], here[0])
                stays = False
        if not stays:
            drop_way(tables, group, way)
        elif last >= 0:
            ways[last, FOLLOWING] = way
            last = way
        else:
            starts[start, WAY] = way
            last = way
        way = following
    if not parameters[ALL] and starts[start, WAY] >= 0 and ways[starts[start, WAY], FOLLOWING] >= 0:
        if made:
            apart_merge_equal(tables, start, here[2])
        apart_cut(tables, start, here[5])


@inlined
def _is_decided(start: int, tables: Tables) -> Any:
    """Is its match known, or that it has none?"""
    way = starts_at(tables)[start, WAY]
    return way < 0 or ways_at(tables)[way, STATE] == COMPLETE


@apart
def apart_begin(group: int, here: Row, tables: Tables) -> bool:
    """A start, if the row may be the first of a match; is it decided?"""
    starts, nodes, ways, decided = starts_at(tables), nodes_at(tables), ways_at(tables), False
    arrive, initial, parameters = arrive_at(tables), initial_at(tables), parameters_at(tables)
    start, last, first = NONE, NONE, NONE
    for k in range(len(initial)):
        variable = arrive[initial[k], 2]
        if not way_holds(variable, here[0], NONE, tables):
            continue
        if start < 0:
            start = new_start(tables, group, here[1], here[2], here[3])
        node = first
        while node >= 0 and nodes[node, VARIABLE] != variable:
            node = nodes[node, SIBLING]
        if node < 0:
            node = new_node(tables, NONE, here[3], variable, here[2], here[4])
            nodes[node, USES] += 1
            nodes[node, SIBLING], first = first, node
        last = apart_arrive(start, initial[k], node, NONE, last, here, tables)
    while first >= 0:
        node, first = first, nodes[first, SIBLING]
        apart_release(tables, node)
    if start >= 0:
        if not parameters[ALL] and starts[start, WAY] >= 0 and ways[starts[start, WAY], FOLLOWING] >= 0:
            apart_merge_equal(tables, start, here[2])
            apart_cut(tables, start, here[5])
        decided = bool(_is_decided(start, tables))
        drop_if_over(tables, start)
    return decided


@inlined
def _is_full(group: int, here: Row, tables: Tables) -> bool:
    """Has the group as many open starts as it may have? Then the oldest is dropped, or the query fails."""
    groups, starts, ways, desk, parameters = groups_at(tables), starts_at(tables), ways_at(tables), desk_at(tables), parameters_at(tables)
    if groups[group, OPEN] <= parameters[LIMIT]:
        return False
    if not parameters[DROPS]:
        desk[OVERFULL] = group
        return True
    oldest = groups[group, HEAD]
    if parameters[WANTS_TIMED_OUT] and starts[oldest, WAY] >= 0:
        node = ways[starts[oldest, WAY], NODE]
        apart_emit(tables, TIMED_OUT, group, here[1], here[0], node, starts[oldest, TIME0], starts[oldest, ROW0])
    apart_drop_start(tables, oldest)
    apart_decide(tables, group, here[1], here[0])
    desk[DROPPED] += 1
    return False


# --- all rows ---------------------------------------------------------------------------------------------------------


@inlined
def _has_room(group: int, tables: Tables) -> bool:
    """Is there room for all that the next row of the group may make? Else `desk` says how much is wanted."""
    parameters = parameters_at(tables)
    groups, starts, ways, nodes, waiting = groups_at(tables), starts_at(tables), ways_at(tables), nodes_at(tables), waiting_at(tables)
    desk, emitted, heap, takes = desk_at(tables), emitted_at(tables), heap_at(tables), takes_at(tables)
    wanted = (groups[group, WAYS] + 1) * parameters[FAN] + parameters[FAN_FIRST]
    out = wanted + 2 * groups[group, OPEN] + groups[group, WAITING] + 3
    room = desk[LEFT_WAYS] + len(ways) - desk[USED_WAYS] > wanted and desk[LEFT_NODES] + len(nodes) - desk[USED_NODES] > wanted
    room = room and desk[LEFT_STARTS] + len(starts) - desk[USED_STARTS] > 1 and desk[HEAP] + 1 < len(heap)
    room = room and desk[LEFT_WAITING] + len(waiting) - desk[USED_WAITING] > 1 and len(takes) > wanted
    if not room or desk[EMITTED] + out > len(emitted):
        desk[WANTED] = out + 1
        return False
    return True


@inlined
def _ask_for_line(table: np.ndarray, line: int) -> None:
    """Its lines lie in two of the cache each."""
    prefetch(table, line * table.shape[1])
    prefetch(table, (line + 1) * table.shape[1] - 1)


@inlined
def _there(number: int) -> Any:
    """The line of that number; 0, which is always there, in place of none. It takes no branch, which would often be guessed wrong."""
    return number & ~(number >> 63)


@inlined
def _ask_for_way(start: int, tables: Tables) -> None:
    """What a row will look at of a start, and the next start."""
    starts = starts_at(tables)
    way = starts[start, WAY]
    prefetch(ways_at(tables), way * WAY_WORDS)
    prefetch(registers_at(tables), way * parameters_at(tables)[REGISTERS])
    prefetch(starts, starts[start, AFTER] * START_WORDS)


@inlined
def _ask_for_node(start: int, tables: Tables) -> None:
    """What is looked at where a row is taken, or the way is dropped."""
    _ask_for_line(nodes_at(tables), ways_at(tables)[_there(starts_at(tables)[start, WAY]), NODE])


@inlined
def _ask_ahead(tables: Tables, numbers: np.ndarray, i: int) -> None:
    """What rows soon look at is asked for, one after the other: each line leads to the next. Two thirds of the loop waited for these."""
    groups, starts = groups_at(tables), starts_at(tables)
    _ask_for_line(groups, numbers[i + GROUP_AHEAD])
    prefetch(starts, groups[numbers[i + START_AHEAD], HEAD] * START_WORDS)
    prefetch(starts, groups[numbers[i + START_AHEAD], TAIL] * START_WORDS)
    _ask_for_way(_there(groups[numbers[i + WAY_AHEAD], HEAD]), tables)
    first = _there(groups[numbers[i + NEXT_AHEAD], HEAD])
    _ask_for_node(first, tables)
    _ask_for_way(_there(starts[first, AFTER]), tables)
    second = _there(starts[_there(groups[numbers[i + LAST_AHEAD], HEAD]), AFTER])
    _ask_for_node(second, tables)
    _ask_for_way(_there(starts[second, AFTER]), tables)


@kernel("int64(int64, int64, const int64[:], const int64[:], int64)", on_demand=True)
def advance(tables: Tables, n: int, numbers: np.ndarray, time: np.ndarray, first: int) -> int:
    """Takes rows from `desk[AT_ROW]` to before n, whose groups are `numbers`, and of which the first is number `first` of all. Returns 0
    when it is done, 1 where there is no room, 2 where a group has too many starts."""
    groups, starts, desk, parameters = groups_at(tables), starts_at(tables), desk_at(tables), parameters_at(tables)
    bits = bits_at(tables)
    while desk[AT_ROW] < n:
        i = desk[AT_ROW]
        group, t = numbers[i], time[i]
        if i + GROUP_AHEAD < n:
            _ask_ahead(tables, numbers, i)
        if not _has_room(group, tables):
            return 1
        if groups[group, DUE] < t:
            apart_pass_time(tables, group, t)
            groups[group, DUE] = FAR
        if parameters[TTL] != FAR and t - groups[group, LAST] > parameters[TTL]:
            groups[group, MATCHES] = 0
        q, row = groups[group, SEQ], first + i
        desk[STAMP] += 1
        mark = new_waiting(tables, group, row, q) if parameters[WANTS_UNMATCHED] else NONE
        here = (i, t, q, row, mark, desk[STAMP])
        changed, decided = False, parameters[WANTS_UNMATCHED] != 0
        start = groups[group, HEAD] if (bits[i] | ANY_ROW) & groups[group, HEEDS] else NONE
        while start >= 0:
            after = starts[start, AFTER]
            if apart_look(start, here, tables):
                apart_step(start, here, tables)
                decided |= _is_decided(start, tables)
                drop_if_over(tables, start)
                changed = True
            start = after
        if bits[i] & parameters[INITIAL]:
            decided |= apart_begin(group, here, tables)
            changed = True
        groups[group, SEQ], groups[group, LAST] = q + 1, t
        if decided:
            apart_decide(tables, group, t, i)
        if _is_full(group, here, tables):
            return 2
        desk[AT_ROW] = i + 1
        if (changed or groups[group, DUE] == FAR) and groups[group, HEAD] >= 0:
            watch(tables, group)
    return 0
