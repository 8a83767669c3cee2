"""What becomes of ways and starts when nothing is compared: they are made and dropped, and come out where they are decided.

`tables` are those of `cep.kernels.patterns.way_tables`, by the words of `places`. Whoever calls has made room for all that may be made.
"""

from __future__ import annotations

from cep.kernels.jit import apart, inlined
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.lines import (
    Number,
    Tables,
    desk_at,
    emitted_at,
    free_line,
    new_line,
    number_together,
    parameters_at,
)
from cep.kernels.patterns.places import (
    AFTER,
    ALL,
    AT,
    BEFORE,
    BROKEN,
    BY_ROW,
    CAME_OUT,
    CHILD,
    COMPLETE,
    DIRECT,
    EMITTED,
    FAR,
    FIRST_ROW,
    FIRST_TIME,
    FOLLOWING,
    FREE_NODES,
    FREE_STARTS,
    FREE_WAITING,
    FREE_WAYS,
    GROUP,
    HEAD,
    HEEDED,
    HEEDS,
    HIT,
    KIND,
    LAST_NODE,
    LEFT_NODES,
    LEFT_STARTS,
    LEFT_WAITING,
    LEFT_WAYS,
    MARK,
    MATCH,
    MATCHED,
    MATCHES,
    NEXT,
    NODE,
    NODE_SEQ,
    NODE_WORDS,
    NONE,
    NUMBER,
    OF_GROUP,
    OPEN,
    OVER,
    PARENT,
    PASSED,
    PAST_LAST,
    ROW,
    ROW0,
    SEEN,
    SEQ0,
    SIBLING,
    SIMPLE,
    SKIP,
    SKIP_VARIABLE,
    START_WORDS,
    STATE,
    TAIL,
    TIME,
    TIME0,
    TIMED_OUT,
    TO_FIRST,
    TO_NEXT,
    TOGETHER,
    UNMATCHED,
    USES,
    VARIABLE,
    WAITING,
    WAITING_FIRST,
    WAITING_LAST,
    WAITING_ROW,
    WAITING_SEQ,
    WANTS_TIMED_OUT,
    WANTS_UNMATCHED,
    WAY,
    WAY_SEQ,
    WAY_WORDS,
    WAYS,
    WITH,
)
from cep.kernels.patterns.way_tables import (
    groups_at,
    nodes_at,
    starts_at,
    states_at,
    waiting_at,
    ways_at,
)

# --- lines ------------------------------------------------------------------------------------------------------------


@apart
def apart_release(tables: Tables, node: int) -> None:
    """One that had the node has it no more."""
    nodes, desk = nodes_at(tables), desk_at(tables)
    while node >= 0:
        nodes[node, USES] -= 1
        if nodes[node, USES] > 0:
            return
        parent = nodes[node, PARENT]
        nodes[node, USES] = NONE
        free_line(nodes, desk, node, FREE_NODES, LEFT_NODES)
        node = parent


@inlined
def new_node(tables: Tables, parent: int, row: int, variable: int, seq: int, mark: int) -> Number:
    """A row taken behind those of `parent`; nobody has it yet."""
    nodes, desk = nodes_at(tables), desk_at(tables)
    node = new_line(nodes, desk, FREE_NODES, LEFT_NODES)
    prefetch(nodes, desk[FREE_NODES] * NODE_WORDS)  # the next one, which may have been free for long
    nodes[node, PARENT], nodes[node, ROW], nodes[node, VARIABLE], nodes[node, NODE_SEQ] = parent, row, variable, seq
    nodes[node, USES], nodes[node, HIT], nodes[node, SEEN] = 0, NONE, NONE
    nodes[node, CHILD], nodes[node, SIBLING], nodes[node, MARK], nodes[node, CAME_OUT] = NONE, NONE, mark, 0
    if parent >= 0:
        nodes[parent, USES] += 1
    return node


@inlined
def new_way(tables: Tables, group: int, state: int, node: int, time: int, seq: int) -> Number:
    groups, ways, nodes, desk = groups_at(tables), ways_at(tables), nodes_at(tables), desk_at(tables)
    way = new_line(ways, desk, FREE_WAYS, LEFT_WAYS)
    prefetch(ways, desk[FREE_WAYS] * WAY_WORDS)
    ways[way, FOLLOWING], ways[way, STATE], ways[way, NODE] = NONE, state, node
    ways[way, TIME], ways[way, WAY_SEQ], ways[way, BROKEN], ways[way, DIRECT] = time, seq, 0, 0
    ways[way, PASSED] = 0
    nodes[node, USES] += 1
    groups[group, WAYS] += 1
    if state != COMPLETE:
        groups[group, HEEDS] |= states_at(tables)[state, HEEDED]
    return way


@inlined
def drop_way(tables: Tables, group: int, way: int) -> None:
    groups, ways, desk = groups_at(tables), ways_at(tables), desk_at(tables)
    apart_release(tables, ways[way, NODE])
    free_line(ways, desk, way, FREE_WAYS, LEFT_WAYS)
    groups[group, WAYS] -= 1


@inlined
def new_start(tables: Tables, group: int, time: int, seq: int, row: int) -> Number:
    """At the end of those of its group, without a way."""
    groups, starts, desk = groups_at(tables), starts_at(tables), desk_at(tables)
    start = new_line(starts, desk, FREE_STARTS, LEFT_STARTS)
    prefetch(starts, desk[FREE_STARTS] * START_WORDS)
    last = groups[group, TAIL]
    starts[start, AFTER], starts[start, BEFORE], starts[start, GROUP] = NONE, last, group
    starts[start, TIME0], starts[start, SEQ0], starts[start, ROW0] = time, seq << 1, row
    starts[start, WAY], starts[start, WITH] = NONE, NONE
    if last >= 0:
        starts[last, AFTER] = start
    else:
        groups[group, HEAD] = start
    groups[group, TAIL] = start
    groups[group, OPEN] += 1
    return start


@apart
def apart_drop_start(tables: Tables, start: int) -> None:
    """With all its ways."""
    groups, starts, ways, desk = groups_at(tables), starts_at(tables), ways_at(tables), desk_at(tables)
    group, way = starts[start, GROUP], starts[start, WAY]
    while way >= 0:
        following = ways[way, FOLLOWING]
        drop_way(tables, group, way)
        way = following
    if starts[start, WITH] >= 0:
        apart_release(tables, starts[start, WITH])
    before, after = starts[start, BEFORE], starts[start, AFTER]
    if before >= 0:
        starts[before, AFTER] = after
    else:
        groups[group, HEAD] = after
    if after >= 0:
        starts[after, BEFORE] = before
    else:
        groups[group, TAIL] = before
    groups[group, OPEN] -= 1
    if groups[group, OPEN] == 0:
        groups[group, HEEDS] = 0
    starts[start, GROUP] = NONE
    free_line(starts, desk, start, FREE_STARTS, LEFT_STARTS)


# --- what comes out ---------------------------------------------------------------------------------------------------


@apart
def apart_emit(tables: Tables, kind: int, group: int, now: int, by_row: int, node: int, first_time: int, first_row: int) -> None:
    groups, nodes, desk, emitted = groups_at(tables), nodes_at(tables), desk_at(tables), emitted_at(tables)
    at = desk[EMITTED]
    emitted[at, KIND], emitted[at, OF_GROUP], emitted[at, BY_ROW] = kind, group, by_row
    emitted[at, AT] = OVER if now == FAR else now
    emitted[at, LAST_NODE], emitted[at, FIRST_TIME], emitted[at, FIRST_ROW] = node, first_time, first_row
    if node >= 0:
        nodes[node, USES] += 1
    emitted[at, TOGETHER] = number_together(groups, MATCHES, desk, group, now, by_row) if kind == MATCH else 0
    emitted[at, NUMBER] = groups[group, MATCHES]
    desk[EMITTED] = at + 1


@apart
def apart_emit_match(tables: Tables, wants_unmatched: int, start: int, node: int, now: int, by_row: int) -> None:
    """A match of `start`, whose last row is `node`; its rows are in a match from now on."""
    starts, nodes, waiting = starts_at(tables), nodes_at(tables), waiting_at(tables)
    apart_emit(tables, MATCH, starts[start, GROUP], now, by_row, node, starts[start, TIME0], starts[start, ROW0])
    while wants_unmatched and node >= 0:
        waiting[nodes[node, MARK], MATCHED] = 1
        node = nodes[node, PARENT]


@apart
def apart_complete_one(tables: Tables, start: int, node: int, now: int, by_row: int) -> None:
    """Where all matches come out: this one, unless it has."""
    nodes, parameters = nodes_at(tables), parameters_at(tables)
    if not nodes[node, CAME_OUT]:
        nodes[node, CAME_OUT] = 1
        apart_emit_match(tables, parameters[WANTS_UNMATCHED], start, node, now, by_row)


@inlined
def _resume(tables: Tables, node: int) -> Number:
    """The number of the first row that may begin a match behind the one that ends with `node`."""
    nodes, parameters = nodes_at(tables), parameters_at(tables)
    if parameters[SKIP] == PAST_LAST:
        return nodes[node, NODE_SEQ] + 1
    found = NONE
    while node >= 0:
        if nodes[node, VARIABLE] == parameters[SKIP_VARIABLE]:
            found = nodes[node, NODE_SEQ]
            if parameters[SKIP] != TO_FIRST:
                return found
        node = nodes[node, PARENT]
    return found


@inlined
def _mark_used(tables: Tables, start: int, node: int) -> None:
    """Starts behind `start` whose rows are in the match that ends with `node`. Those between its first two rows need not be looked at, as
    they would be for each of them in turn."""
    starts, nodes = starts_at(tables), nodes_at(tables)
    other = groups_at(tables)[starts[start, GROUP], TAIL]
    while other != start and nodes[node, PARENT] >= 0:
        if starts[other, SEQ0] >> 1 > nodes[node, NODE_SEQ]:
            other = starts[other, BEFORE]
        elif starts[other, SEQ0] >> 1 < nodes[node, NODE_SEQ]:
            node = nodes[node, PARENT]
        else:
            starts[other, SEQ0] |= 1
            other = starts[other, BEFORE]


@inlined
def _take_match(tables: Tables, start: int, now: int, by_row: int) -> None:
    """The preferred way of `start` is a match that is decided; and then on behind it."""
    groups, starts, ways, parameters = groups_at(tables), starts_at(tables), ways_at(tables), parameters_at(tables)
    group, node = starts[start, GROUP], ways[starts[start, WAY], NODE]
    apart_emit_match(tables, parameters[WANTS_UNMATCHED], start, node, now, by_row)
    if parameters[WANTS_TIMED_OUT] and parameters[SKIP] != PAST_LAST:
        _mark_used(tables, start, node)
    if parameters[SKIP] == TO_NEXT:
        apart_drop_start(tables, start)
        return
    resume = _resume(tables, node)
    while groups[group, HEAD] >= 0 and starts[groups[group, HEAD], SEQ0] >> 1 < resume:
        apart_drop_start(tables, groups[group, HEAD])


@apart
def apart_decide(tables: Tables, group: int, now: int, by_row: int) -> None:
    """What is known of a group's starts after a row, or when time has passed until `now`."""
    groups, starts, ways, parameters = groups_at(tables), starts_at(tables), ways_at(tables), parameters_at(tables)
    start = groups[group, HEAD]
    while start >= 0:
        after, way, first = starts[start, AFTER], starts[start, WAY], starts[start, BEFORE] < 0
        if way < 0:
            timed_out = starts[start, WITH] != NONE and parameters[WANTS_TIMED_OUT] != 0
            if timed_out and first and not starts[start, SEQ0] & 1:
                apart_emit(tables, TIMED_OUT, group, now, by_row, starts[start, WITH], starts[start, TIME0], starts[start, ROW0])
            if first or not timed_out:
                apart_drop_start(tables, start)
        elif parameters[SIMPLE] and by_row < 0 and ways[way, STATE] != COMPLETE:
            break  # time decides on those in front alone
        elif parameters[ALL]:
            pass
        elif ways[way, STATE] == COMPLETE:
            _take_match(tables, start, now, by_row)
            after = after if parameters[SKIP] == TO_NEXT else groups[group, HEAD]
        elif parameters[SKIP] != TO_NEXT:
            break  # those behind wait for it
        start = after
    if parameters[WANTS_UNMATCHED]:
        _settle(tables, group, now, by_row)


@inlined
def _settle(tables: Tables, group: int, now: int, by_row: int) -> None:
    """Rows before every open start are in no match any more, if they are in none."""
    groups, starts, waiting, desk = groups_at(tables), starts_at(tables), waiting_at(tables), desk_at(tables)
    open_from = FAR if groups[group, HEAD] < 0 else starts[groups[group, HEAD], SEQ0] >> 1
    row = groups[group, WAITING_FIRST]
    while row >= 0 and waiting[row, WAITING_SEQ] < open_from:
        following = waiting[row, NEXT]
        if not waiting[row, MATCHED]:
            apart_emit(tables, UNMATCHED, group, now, by_row, NONE, 0, waiting[row, WAITING_ROW])
        waiting[row, WAITING_ROW] = NONE
        free_line(waiting, desk, row, FREE_WAITING, LEFT_WAITING)
        groups[group, WAITING] -= 1
        row = following
    groups[group, WAITING_FIRST] = row
    if row < 0:
        groups[group, WAITING_LAST] = NONE


@inlined
def new_waiting(tables: Tables, group: int, row: int, seq: int) -> Number:
    """A row that is said unmatched unless it comes to be in a match."""
    groups, waiting, desk = groups_at(tables), waiting_at(tables), desk_at(tables)
    line = new_line(waiting, desk, FREE_WAITING, LEFT_WAITING)
    waiting[line, NEXT], waiting[line, WAITING_ROW], waiting[line, WAITING_SEQ], waiting[line, MATCHED] = NONE, row, seq, 0
    last = groups[group, WAITING_LAST]
    if last >= 0:
        waiting[last, NEXT] = line
    else:
        groups[group, WAITING_FIRST] = line
    groups[group, WAITING_LAST] = line
    groups[group, WAITING] += 1
    return line
