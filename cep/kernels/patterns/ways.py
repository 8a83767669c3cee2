"""What a start keeps of its ways, and what time does to them.

`tables` are those of `cep.kernels.patterns.way_tables`, by the words of `places`. Whoever calls has made room for all that may be made.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.patterns.lines import (
    Number,
    Tables,
    desk_at,
    emitted_at,
    heap_at,
    parameters_at,
    pop,
    push,
)
from cep.kernels.patterns.places import (
    AFTER,
    ALL,
    BROKEN,
    BY,
    BY_NEXT,
    BY_THEN,
    COMPLETE,
    DIRECT,
    DIRECTLY,
    DUE,
    EDGE_FIRST,
    EDGE_STOP,
    EMITTED,
    FAR,
    FOLLOWING,
    FORBIDS,
    GAP,
    GROUP,
    HEAD,
    HEAP,
    LAST,
    LIFE,
    NODE,
    NODE_SEQ,
    NONE,
    OPEN,
    PASSED,
    QUIET,
    REGISTERS,
    SEEN,
    SEQ,
    SIMPLE,
    SPAN,
    STAMP,
    STATE,
    TIME,
    TIME0,
    TTL,
    USES,
    WAIT_FIRST,
    WAIT_STOP,
    WAITING,
    WANTS_TIMED_OUT,
    WAY,
    WAY_SEQ,
    WAYS,
    WITH,
    WITHIN,
)
from cep.kernels.patterns.way_lines import (
    apart_complete_one,
    apart_decide,
    apart_drop_start,
    apart_release,
    drop_way,
)
from cep.kernels.patterns.way_tables import (
    edges_at,
    groups_at,
    nodes_at,
    registers_at,
    starts_at,
    states_at,
    ways_at,
)

# --- what a start keeps -----------------------------------------------------------------------------------------------


@apart
def apart_cut(tables: Tables, start: int, stamp: int) -> None:
    """Behind a way that is complete none can be preferred. Those stay whose rows are those of a way before it: that one may not skip
    what they take."""
    starts, ways, nodes = starts_at(tables), ways_at(tables), nodes_at(tables)
    group, way, last, complete = starts[start, GROUP], starts[start, WAY], NONE, False
    while way >= 0:
        following, node = ways[way, FOLLOWING], ways[way, NODE]
        if complete and (ways[way, STATE] == COMPLETE or nodes[node, SEEN] != stamp):
            drop_way(tables, group, way)
            ways[last, FOLLOWING] = following
        else:
            if not complete:
                nodes[node, SEEN] = stamp
            if ways[way, STATE] == COMPLETE:
                complete = True
            last = way
        way = following
    if complete and ways[starts[start, WAY], STATE] == COMPLETE:
        _drop_behind(tables, group, starts[start, WAY])


@inlined
def _drop_behind(tables: Tables, group: int, way: int) -> None:
    """All ways behind it: it is the match."""
    ways = ways_at(tables)
    following = ways[way, FOLLOWING]
    ways[way, FOLLOWING] = NONE
    while following >= 0:
        after = ways[following, FOLLOWING]
        drop_way(tables, group, following)
        following = after


@apart
def apart_merge_equal(tables: Tables, start: int, seq: int) -> None:
    """Of rows taken up to the row `seq` in two ways that go on alike, only the preferred ones stay."""
    starts, ways, nodes = starts_at(tables), ways_at(tables), nodes_at(tables)
    group, way = starts[start, GROUP], starts[start, WAY]
    while way >= 0:
        following, node = ways[way, FOLLOWING], ways[way, NODE]
        if nodes[node, NODE_SEQ] == seq and _first_of(tables, start, node) == way:
            other = starts[start, WAY]
            while other != way:
                rival = ways[other, NODE]
                alike = rival != node and nodes[rival, NODE_SEQ] == seq and _first_of(tables, start, rival) == other
                if alike and _alike(tables, other, way):
                    following = _drop_of(tables, group, start, node, following)
                    break
                other = ways[other, FOLLOWING]
        way = following


@inlined
def _first_of(tables: Tables, start: int, node: int) -> Number:
    """The first way of `start` that has `node`."""
    starts, ways = starts_at(tables), ways_at(tables)
    way = starts[start, WAY]
    while way >= 0 and ways[way, NODE] != node:
        way = ways[way, FOLLOWING]
    return way


@inlined
def _next_of(ways: np.ndarray, way: int, node: int) -> int:
    way = ways[way, FOLLOWING]
    while way >= 0 and ways[way, NODE] != node:
        way = ways[way, FOLLOWING]
    return way


@inlined
def _alike(tables: Tables, one: int, other: int) -> bool:
    """Do the ways with the node of `one` await what those with the node of `other` do, each before its like?"""
    ways, registers, width = ways_at(tables), registers_at(tables), parameters_at(tables)[REGISTERS]
    first, second = ways[one, NODE], ways[other, NODE]
    while one >= 0 and other >= 0:
        if ways[one, STATE] != ways[other, STATE] or not _before(ways, one, other):
            return False
        for k in range(width):
            if registers[one * width + k] != registers[other * width + k]:
                return False
        one, other = _next_of(ways, one, first), _next_of(ways, other, second)
    return one < 0 and other < 0


@inlined
def _before(ways: np.ndarray, one: int, other: int) -> bool:
    while one >= 0 and one != other:
        one = ways[one, FOLLOWING]
    return one == other


@inlined
def _drop_of(tables: Tables, group: int, start: int, node: int, following: int) -> Number:
    """Drops the ways with `node`; returns the first of the others from `following` on."""
    starts, ways = starts_at(tables), ways_at(tables)
    while following >= 0 and ways[following, NODE] == node:
        following = ways[following, FOLLOWING]
    way, last = starts[start, WAY], NONE
    while way >= 0:
        after = ways[way, FOLLOWING]
        if ways[way, NODE] == node:
            drop_way(tables, group, way)
            if last >= 0:
                ways[last, FOLLOWING] = after
            else:
                starts[start, WAY] = after
        else:
            last = way
        way = after
    return following


# --- time -------------------------------------------------------------------------------------------------------------


@inlined
def way_due(tables: Tables, start: int, way: int) -> Number:
    """When time decides on a way, or FAR."""
    groups, starts, ways = groups_at(tables), starts_at(tables), ways_at(tables)
    edges, states, parameters = edges_at(tables), states_at(tables), parameters_at(tables)
    state = ways[way, STATE]
    if state == COMPLETE:
        return FAR
    if states[state, EDGE_FIRST] == states[state, EDGE_STOP]:
        return ways[way, TIME] + states[state, SPAN] if states[state, WAIT_STOP] > states[state, WAIT_FIRST] else FAR
    gap = NONE
    directly = groups[starts[start, GROUP], SEQ] == ways[way, WAY_SEQ] + 1
    for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
        alive = (directly or edges[e, BY] != BY_NEXT) and not (edges[e, FORBIDS] & ways[way, BROKEN])
        alive = alive and not (edges[e, BY] == BY_THEN and ways[way, PASSED])
        if alive and not (edges[e, DIRECTLY] & ways[way, DIRECT]):
            gap = max(gap, edges[e, GAP])
    due = FAR if gap == FAR else ways[way, TIME] + gap
    return due if parameters[WITHIN] == FAR else min(due, starts[start, TIME0] + parameters[WITHIN])


@apart
def apart_group_due(tables: Tables, group: int) -> Number:
    """When time decides on anything of a group, or FAR."""
    groups, starts, ways, parameters = groups_at(tables), starts_at(tables), ways_at(tables), parameters_at(tables)
    start = groups[group, HEAD]
    if start < 0:
        return FAR if parameters[TTL] == FAR or groups[group, WAITING] == 0 else groups[group, LAST] + parameters[TTL]
    due = FAR if parameters[TTL] == FAR else groups[group, LAST] + parameters[TTL]
    if parameters[SIMPLE]:
        while start >= 0 and starts[start, WAY] < 0:
            start = starts[start, AFTER]
        return min(due, starts[start, TIME0] + parameters[LIFE]) if start >= 0 else due
    while start >= 0:
        way = starts[start, WAY]
        while way >= 0:
            due = min(due, way_due(tables, start, way))
            way = ways[way, FOLLOWING]
        start = starts[start, AFTER]
    return due


@inlined
def _expire(tables: Tables, start: int, now: int, whole: bool) -> None:
    """Ways of `start` on which time has decided at `now`; all of them, if the sequence is over."""
    starts, ways, nodes = starts_at(tables), ways_at(tables), nodes_at(tables)
    states, parameters, group = states_at(tables), parameters_at(tables), starts[start, GROUP]
    way, last, died = starts[start, WAY], NONE, NONE
    while way >= 0:
        following, state = ways[way, FOLLOWING], ways[way, STATE]
        due = state != COMPLETE and (whole or way_due(tables, start, way) <= now)
        if due and states[state, EDGE_FIRST] == states[state, EDGE_STOP]:
            ways[way, STATE] = COMPLETE
            if parameters[ALL]:
                apart_complete_one(tables, start, ways[way, NODE], now, NONE)
        elif due and died < 0:
            died = ways[way, NODE]
            nodes[died, USES] += 1
        if (due and ways[way, STATE] != COMPLETE) or (parameters[ALL] and ways[way, STATE] == COMPLETE):
            drop_way(tables, group, way)
            if last >= 0:
                ways[last, FOLLOWING] = following
            else:
                starts[start, WAY] = following
        else:
            last = way
        way = following
    if died >= 0 and starts[start, WAY] < 0 and starts[start, WITH] < 0:
        starts[start, WITH] = died
    elif died >= 0:
        apart_release(tables, died)


@inlined
def drop_if_over(tables: Tables, start: int) -> None:
    """A start without a way of which nothing is to be said."""
    starts, parameters = starts_at(tables), parameters_at(tables)
    if starts[start, WAY] < 0 and (starts[start, WITH] == NONE or not parameters[WANTS_TIMED_OUT]):
        apart_drop_start(tables, start)


@inlined
def _expire_all(tables: Tables, group: int, now: int, whole: bool) -> None:
    groups, starts, desk, parameters = groups_at(tables), starts_at(tables), desk_at(tables), parameters_at(tables)
    desk[STAMP] += 1
    start = groups[group, HEAD]
    while start >= 0:
        expired = start
        _expire(tables, start, now, whole)
        if not parameters[ALL] and starts[start, WAY] >= 0:
            apart_cut(tables, start, desk[STAMP])
        start = starts[start, AFTER]
        drop_if_over(tables, expired)
        if parameters[SIMPLE] and not whole and start >= 0 and starts[start, TIME0] + parameters[LIFE] > now:
            break
    apart_decide(tables, group, now, NONE)


@apart
def apart_pass_time(tables: Tables, group: int, before: int) -> None:
    """Time passes until right before `before`, which is a row's or a watermark; FAR: for ever."""
    groups, starts, parameters = groups_at(tables), starts_at(tables), parameters_at(tables)
    if parameters[QUIET]:
        whole = parameters[TTL] != FAR and groups[group, LAST] + parameters[TTL] < before
        while groups[group, HEAD] >= 0 and (whole or starts[groups[group, HEAD], TIME0] + parameters[WITHIN] < before):
            apart_drop_start(tables, groups[group, HEAD])
        return
    while groups[group, HEAD] >= 0 or groups[group, WAITING] > 0:
        due = apart_group_due(tables, group)
        if due >= before and before != FAR:
            return
        over = due == FAR or (parameters[TTL] != FAR and due == groups[group, LAST] + parameters[TTL])
        _expire_all(tables, group, due, over)


@inlined
def watch(tables: Tables, group: int) -> None:
    """The heap knows when the group has to be looked at at the latest; its line alone does where nothing comes out then."""
    due = apart_group_due(tables, group)
    if parameters_at(tables)[QUIET]:
        groups_at(tables)[group, DUE] = due
    elif due < groups_at(tables)[group, DUE]:
        push(groups_at(tables), desk_at(tables), heap_at(tables), group, due)


@kernel("int64(int64, int64)", on_demand=True)
def let_pass(tables: Tables, before: int) -> Number:
    """Time passes in all groups until right before `before`; FAR: for ever. Returns how much room what comes out wants, or 0 when it is
    done."""
    groups, desk, emitted, heap = groups_at(tables), desk_at(tables), emitted_at(tables), heap_at(tables)
    while desk[HEAP] > 0 and heap[0, 0] < before:
        group = heap[0, 1]
        if groups[group, DUE] == heap[0, 0]:
            wanted = groups[group, OPEN] + groups[group, WAYS] + groups[group, WAITING]
            if desk[EMITTED] + wanted > len(emitted):
                return wanted
            groups[group, DUE] = FAR
            pop(desk, heap)
            apart_pass_time(tables, group, before)
            watch(tables, group)
        else:
            pop(desk, heap)
    return 0


@kernel("void(int64, int64)", on_demand=True)
def settle_ways(tables: Tables, before: int) -> None:
    """Time passes in all groups until right before `before`, where nothing comes out of that."""
    groups = groups_at(tables)
    for group in range(len(groups)):
        if groups[group, HEAD] >= 0 and groups[group, DUE] < before:
            apart_pass_time(tables, group, before)
            groups[group, DUE] = FAR
            if groups[group, HEAD] >= 0:
                watch(tables, group)


@kernel("void(int64, const int64[:])", on_demand=True)
def watch_groups(tables: Tables, restored: np.ndarray) -> None:
    """The heap knows when the groups `restored` have to be looked at; it has room for them."""
    for k in range(len(restored)):
        watch(tables, restored[k])
