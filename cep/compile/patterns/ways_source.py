"""The loop that takes rows along the ways of a pattern, as source: generated for each set of conditions over rows of the match. What
becomes of ways otherwise is in `cep.kernels.patterns.ways`, whose tables and automaton it has.

A row of a group, at number `q`, is tried by every way of every open start, in two passes: first what each way awaits is looked at, and the
nodes from which it is taken are marked; then ways are made of those that take it, and others stay or die. For a way may not skip what
another way with the same rows takes. `apart_holds(v, i, way)` is generated: is row i one of variable v, behind the rows of the way
(NONE: of no row)? `apart_take` gives a way the registers that it has behind row i.
"""

from __future__ import annotations

IMPORTS = """from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.patterns.places import *  # noqa: F403
from cep.kernels.patterns.ways import apart_cut, apart_decide, apart_drop_start, apart_emit_match, apart_merge_equal, apart_pass_time
from cep.kernels.patterns.ways import apart_release
from cep.kernels.patterns.ways import complete_one, drop_if_over, drop_way, emit, new_node, new_start, new_waiting, new_way, watch
"""

SOURCE = """

@inlined
def _any_holds(names, i, way, {given}):
    # Is row i one of the variables whose bits are in `names`?
    v = 0
    while names:
        if names & 1 and apart_holds(v, i, way, {given}):
            return True
        names >>= 1
        v += 1
    return False


@inlined
def _taken(edge, state, i, t, q, way, tables, automaton, {given}):
    # May row i be the next one of the way by this edge, and is it one of its variable?
    ways, edges = tables[2], automaton[0]
    directly = q == ways[way, WAY_SEQ] + 1
    if edges[edge, BY] == BY_NEXT and not directly or edges[edge, BY] == BY_THEN and ways[way, PASSED]:
        return False
    if edges[edge, FORBIDS] & ways[way, BROKEN] or edges[edge, DIRECTLY] & ways[way, DIRECT]:
        return False
    if edges[edge, GAP] != FAR and t - ways[way, TIME] > edges[edge, GAP]:
        return False
    if directly and edges[edge, DIRECTLY] and _any_holds(edges[edge, DIRECTLY], i, way, {given}):
        return False
    return apart_holds(edges[edge, TAKES], i, way, {given})


@inlined
def _child(node, variable, i, q, row, mark, stamp, tables):
    # The node of row i behind `node`, as `variable`: one for all ways.
    nodes = tables[3]
    if nodes[node, HIT] != stamp:
        nodes[node, HIT], nodes[node, CHILD] = stamp, NONE
    child = nodes[node, CHILD]
    while child >= 0 and nodes[child, VARIABLE] != variable:
        child = nodes[child, SIBLING]
    if child < 0:
        child = new_node(tables, node, row, variable, q, mark)
        nodes[child, SIBLING], nodes[node, CHILD] = nodes[node, CHILD], child
    return child


@inlined
def _arrive(start, position, node, parent, i, t, q, by_row, last, tables, automaton, {given}):
    # The ways that come to `position` with row i, behind the way `last` of the start; returns the last one.
    groups, starts, ways, nodes = tables[0], tables[1], tables[2], tables[3]
    arrive, arriving, parameters, group = automaton[3], automaton[4], automaton[6], starts[start, GROUP]
    for k in range(arrive[position, 0], arrive[position, 1]):
        if parameters[ALL] and arriving[k] == COMPLETE:
            complete_one(tables, automaton, start, node, t, by_row)
            continue
        way = new_way(tables, group, arriving[k], node, t, q)
        apart_take(nodes[node, VARIABLE], i, parent, way, {given})
        if last >= 0:
            ways[last, FOLLOWING] = way
        else:
            starts[start, WAY] = way
        last = way
    return last


@inlined
def _waits_on(way, i, t, q, tables, automaton, {given}):
    # Does what waits for nothing to come still wait, or is it over well?
    ways, states, waits = tables[2], automaton[1], automaton[2]
    state = ways[way, STATE]
    for k in range(states[state, WAIT_FIRST], states[state, WAIT_STOP]):
        if t - ways[way, TIME] <= waits[k, 1] and apart_holds(waits[k, 0], i, way, {given}):
            return False
    if q == ways[way, WAY_SEQ] + 1 and states[state, WAIT_DIRECTLY]:
        if _any_holds(states[state, WAIT_DIRECTLY], i, way, {given}):
            return False
        if states[state, WAIT_FIRST] == states[state, WAIT_STOP]:
            ways[way, STATE] = COMPLETE
    return True


@inlined
def _stays(way, i, t, q, hit, tables, automaton, {given}):
    # Does the way still await something behind row i, which it has not taken?
    ways, edges, states = tables[2], automaton[0], automaton[1]
    state, alive = ways[way, STATE], False
    if states[state, EDGE_FIRST] == states[state, EDGE_STOP]:
        return _waits_on(way, i, t, q, tables, automaton, {given})
    if hit:
        ways[way, PASSED] = 1
    for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
        if edges[e, BY] == BY_NEXT or (edges[e, BY] == BY_THEN and ways[way, PASSED]):
            continue
        if q == ways[way, WAY_SEQ] + 1 and edges[e, DIRECTLY]:
            for v in range({variables}):
                if edges[e, DIRECTLY] >> v & 1 and apart_holds(v, i, way, {given}):
                    ways[way, DIRECT] |= 1 << v
        if edges[e, FORBIDS]:
            for v in range({variables}):
                if edges[e, FORBIDS] >> v & 1 and not ways[way, BROKEN] >> v & 1 and apart_holds(v, i, way, {given}):
                    ways[way, BROKEN] |= 1 << v
        if not edges[e, FORBIDS] & ways[way, BROKEN] and not edges[e, DIRECTLY] & ways[way, DIRECT]:
            alive = True
    return alive


@apart
def apart_look(start, i, t, q, stamp, takes, tables, automaton, {given}):
    # The first pass.
    starts, ways, nodes, states = tables[1], tables[2], tables[3], automaton[1]
    way, k = starts[start, WAY], 0
    while way >= 0:
        state = ways[way, STATE]
        if state != COMPLETE:
            for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
                takes[k] = _taken(e, state, i, t, q, way, tables, automaton, {given})
                if takes[k] and nodes[ways[way, NODE], HIT] != stamp:
                    nodes[ways[way, NODE], HIT], nodes[ways[way, NODE], CHILD] = stamp, NONE
                k += 1
        way = ways[way, FOLLOWING]


@apart
def apart_step(start, i, t, q, row, mark, stamp, takes, tables, automaton, {given}):
    # The second pass.
    starts, ways, nodes, edges, states = tables[1], tables[2], tables[3], automaton[0], automaton[1]
    group, parameters = starts[start, GROUP], automaton[6]
    way, last, k, made = starts[start, WAY], NONE, 0, False
    starts[start, WAY] = NONE
    while way >= 0:
        following, state, node = ways[way, FOLLOWING], ways[way, STATE], ways[way, NODE]
        ways[way, FOLLOWING] = NONE
        stays = True
        if state != COMPLETE:
            hit = nodes[node, HIT] == stamp
            for e in range(states[state, EDGE_FIRST], states[state, EDGE_STOP]):
                if takes[k]:
                    child = _child(node, edges[e, TAKES], i, q, row, mark, stamp, tables)
                    nodes[child, USES] += 1
                    last = _arrive(start, edges[e, TARGET], child, way, i, t, q, i, last, tables, automaton, {given})
                    nodes[child, USES] -= 1
                    made = True
                k += 1
            stays = _stays(way, i, t, q, hit, tables, automaton, {given})
            if stays and parameters[ALL] and ways[way, STATE] == COMPLETE:
                complete_one(tables, automaton, start, node, t, i)
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
    if not parameters[ALL] and starts[start, WAY] >= 0:
        if made and ways[starts[start, WAY], FOLLOWING] >= 0:
            apart_merge_equal(tables, registers, parameters[REGISTERS], start, q)
        apart_cut(tables, start, stamp)


@apart
def apart_begin(group, i, t, q, row, mark, stamp, tables, automaton, {given}):
    # A start, if row i may be the first of a match.
    groups, starts, ways, nodes = tables[0], tables[1], tables[2], tables[3]
    arrive, initial, parameters = automaton[3], automaton[5], automaton[6]
    start, last, first = NONE, NONE, NONE
    for k in range(len(initial)):
        variable = arrive[initial[k], 2]
        if not apart_holds(variable, i, NONE, {given}):
            continue
        if start < 0:
            start = new_start(tables, group, t, q, row)
        node = first
        while node >= 0 and nodes[node, VARIABLE] != variable:
            node = nodes[node, SIBLING]
        if node < 0:
            node = new_node(tables, NONE, row, variable, q, mark)
            nodes[node, USES] += 1
            nodes[node, SIBLING], first = first, node
        last = _arrive(start, initial[k], node, NONE, i, t, q, i, last, tables, automaton, {given})
    while first >= 0:
        node, first = first, nodes[first, SIBLING]
        apart_release(nodes, tables[5], node)
    if start >= 0:
        if not parameters[ALL] and starts[start, WAY] >= 0:
            apart_merge_equal(tables, registers, parameters[REGISTERS], start, q)
            apart_cut(tables, start, stamp)
        drop_if_over(tables, parameters, start)


@inlined
def _is_full(group, i, t, tables, automaton):
    # Has the group as many open starts as it may have? Then the oldest is dropped, or the query fails.
    groups, starts, ways, desk, parameters = tables[0], tables[1], tables[2], tables[5], automaton[6]
    if groups[group, OPEN] <= parameters[LIMIT]:
        return False
    if not parameters[DROPS]:
        desk[OVERFULL] = group
        return True
    oldest = groups[group, HEAD]
    if parameters[WANTS_TIMED_OUT] and starts[oldest, WAY] >= 0:
        emit(tables, TIMED_OUT, group, t, i, ways[starts[oldest, WAY], NODE], starts[oldest, TIME0], starts[oldest, ROW0])
    apart_drop_start(tables, oldest)
    apart_decide(tables, automaton, group, t, i)
    desk[DROPPED] += 1
    return False


@kernel("int64({types})")
def advance({arguments}):
    # Takes rows from desk[AT_ROW] to before n. Returns 0 when it is done, 1 where there is no room, 2 where a group has too many starts.
    tables = (groups, starts, ways, nodes, waiting, desk, emitted, heap)
    automaton = (edges, states, waits, arrive, arriving, initial, parameters)
    fan, begin = {fan}, {begin}
    while desk[AT_ROW] < n:
        i = desk[AT_ROW]
        group, t = numbers[i], time[i]
        wanted = (groups[group, WAYS] + 1) * fan + begin
        room = desk[LEFT_WAYS] + len(ways) - desk[USED_WAYS] > wanted and desk[LEFT_NODES] + len(nodes) - desk[USED_NODES] > wanted
        room = room and desk[LEFT_STARTS] + len(starts) - desk[USED_STARTS] > 1 and desk[HEAP] + 1 < len(heap)
        room = room and desk[LEFT_WAITING] + len(waiting) - desk[USED_WAITING] > 1 and len(takes) > wanted
        if not room or desk[EMITTED] + wanted + 2 * groups[group, OPEN] + groups[group, WAITING] + 3 > len(emitted):
            desk[WANTED] = wanted + 2 * groups[group, OPEN] + groups[group, WAITING] + 4
            return 1
        if groups[group, DUE] < t:
            apart_pass_time(tables, automaton, group, t)
            groups[group, DUE] = FAR
        if parameters[TTL] != FAR and groups[group, LAST] != NONE and t - groups[group, LAST] > parameters[TTL]:
            groups[group, MATCHES] = 0
        q, row = groups[group, SEQ], first + i
        desk[STAMP] += 1
        stamp = desk[STAMP]
        mark = new_waiting(tables, group, row, q) if parameters[WANTS_UNMATCHED] else NONE
        start = groups[group, HEAD]
        while start >= 0:
            after = starts[start, AFTER]
            apart_look(start, i, t, q, stamp, takes, tables, automaton, {given})
            apart_step(start, i, t, q, row, mark, stamp, takes, tables, automaton, {given})
            drop_if_over(tables, parameters, start)
            start = after
        apart_begin(group, i, t, q, row, mark, stamp, tables, automaton, {given})
        groups[group, SEQ], groups[group, LAST] = q + 1, t
        apart_decide(tables, automaton, group, t, i)
        if _is_full(group, i, t, tables, automaton):
            return 2
        desk[AT_ROW] = i + 1
        if groups[group, HEAD] >= 0:
            watch(tables, automaton, group)
    return 0
"""
