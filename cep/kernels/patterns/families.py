"""The loop for patterns of which all matches come out: families that await the same are a *bundle*, and a row costs what the bundles of its
group cost, however many families they have. What comes out costs what its rows cost.

What stands where: `cep.kernels.patterns.family_places`, `family_tables`. The structure is that of CORE (Bucchi, Grez, Quintana, Riveros,
Vansummeren: CORE: a complex event recognition engine, VLDB 2022) with heaps in place of its unions.

1. A row leads each bundle to another kind, for it may be left out, and adds to others a node: the row behind all families of the bundle.
2. Starts are in order in their group, and time ends them in front: what is before the first one that is open counts no more.
3. Matches of a row are written when it has been taken, all of them or none; where there is no room the loop stops, and goes on there.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.family_heaps import apart_meld, apart_release_heap, new_heap
from cep.kernels.patterns.family_lines import (
    apart_leave_starts,
    drop_open_start,
    family_floor,
    free_bundle,
    new_bundle,
)
from cep.kernels.patterns.family_places import (
    BEHIND,
    BUNDLE_KIND,
    BUNDLE_WORDS,
    BUNDLES,
    CHILD_AS,
    CHILD_COMPLETE,
    CHILD_KIND,
    FAMILY_GROUP_WORDS,
    FREE_OPEN,
    HEAP_ROOT,
    HEAP_USES,
    LATEST,
    LEFT,
    LEFT_BUNDLES,
    LEFT_HEAP,
    LEFT_OPEN,
    MELD_MAX,
    NEXT_BUNDLE,
    NEXT_OPEN,
    OPEN_GROUP,
    OPEN_SEQ,
    OPEN_TIME,
    RECOUNTED,
    RIGHT,
    TAKEN_AS,
    TAKEN_ROW,
    TAKEN_SEQ,
    TO_TELL,
    USED_BUNDLES,
    USED_HEAP,
    USED_OPEN,
    WANTS_OUT,
)
from cep.kernels.patterns.family_tables import (
    bundles_at,
    children_at,
    chosen_at,
    family_begins_at,
    family_groups_at,
    first_children_at,
    heap_nodes_at,
    open_starts_at,
    stays_at,
    steps_at,
    waiting_heaps_at,
)
from cep.kernels.patterns.lines import Number, Tables, desk_at, emitted_at, new_line, parameters_at, rows_at
from cep.kernels.patterns.places import (
    AT,
    AT_ROW,
    BY_ROW,
    DROPPED,
    DROPS,
    EMITTED,
    FAN,
    FAR,
    FIRST_ROW,
    FIRST_TIME,
    HEAD,
    KIND,
    LAST,
    LAST_NODE,
    LIMIT,
    MATCH,
    MATCHES,
    MAY_END,
    NONE,
    NUMBER,
    OF_GROUP,
    OPEN,
    OVERFULL,
    ROWS_OUT,
    SEQ,
    TAIL,
    TAKEN,
    TOGETHER,
    TTL,
    VARIABLES,
    WANTED,
)

#: Rows ahead at which a group is asked for, and its first bundle.
GROUP_SOON, BUNDLE_SOON = 16, 8


# --- a row ------------------------------------------------------------------------------------------------------------


@apart
def apart_add_families(tables: Tables, group: int, first: int, kind: int, root: int, floor: int) -> Number:
    """A heap of families of a kind, to the bundles from `first` on; returns the first of these now."""
    bundles = bundles_at(tables)
    bundle = first
    while bundle >= 0 and bundles[bundle, BUNDLE_KIND] != kind:
        bundle = bundles[bundle, NEXT_BUNDLE]
    if bundle < 0:
        return new_bundle(tables, first, kind, root, group)
    bundles[bundle, HEAP_ROOT] = apart_meld(tables, bundles[bundle, HEAP_ROOT], root, floor)
    return first


@inlined
def _add_children(tables: Tables, group: int, first: int, step: int, behind: int, row: int, seq: int, floor: int) -> Number:
    """The families that a row makes of those of the heap `behind`, NONE: of none; returns the first bundle now."""
    firsts, children, nodes, desk = first_children_at(tables), children_at(tables), heap_nodes_at(tables), desk_at(tables)
    for child in range(firsts[step], firsts[step + 1]):
        node = new_heap(tables, group, row, seq, children[child, CHILD_AS], behind)
        if children[child, CHILD_COMPLETE]:
            nodes[node, HEAP_USES] += 1
            desk[TO_TELL] = new_bundle(tables, desk[TO_TELL], NONE, node, group)
        if children[child, CHILD_KIND] >= 0:
            first = apart_add_families(tables, group, first, children[child, CHILD_KIND], node, floor)
        else:
            apart_release_heap(tables, node)
    return first


@inlined
def _take(tables: Tables, group: int, bits: int, row: int, seq: int, time: int) -> None:
    """All that a row makes of what its group has."""
    groups, bundles, nodes, desk = family_groups_at(tables), bundles_at(tables), heap_nodes_at(tables), desk_at(tables)
    steps, stays, starts, begins = steps_at(tables), stays_at(tables), open_starts_at(tables), family_begins_at(tables)
    floor, bundle, first = family_floor(tables, group), groups[group, BUNDLES], NONE
    while bundle >= 0:
        following, root = bundles[bundle, NEXT_BUNDLE], bundles[bundle, HEAP_ROOT]
        if nodes[root, LATEST] >= floor:
            step = steps[(bundles[bundle, BUNDLE_KIND] << parameters_at(tables)[VARIABLES]) + bits]
            first = _add_children(tables, group, first, step, root, row, seq, floor)
            if stays[step] >= 0:
                first = apart_add_families(tables, group, first, stays[step], root, floor)
            else:
                apart_release_heap(tables, root)
        else:
            apart_release_heap(tables, root)
        free_bundle(tables, bundle)
        bundle = following
    if begins[bits] >= 0:
        start = new_line(starts, desk, FREE_OPEN, LEFT_OPEN)
        starts[start, NEXT_OPEN], starts[start, OPEN_TIME], starts[start, OPEN_SEQ], starts[start, OPEN_GROUP] = NONE, time, seq, group
        if groups[group, TAIL] >= 0:
            starts[groups[group, TAIL], NEXT_OPEN] = start
        else:
            groups[group, HEAD] = start
        groups[group, TAIL] = start
        groups[group, OPEN] += 1
        first = _add_children(tables, group, first, begins[bits], NONE, row, seq, floor)
    groups[group, BUNDLES] = first


# --- what comes out ---------------------------------------------------------------------------------------------------


@inlined
def _tell_chosen(tables: Tables, group: int, last: int, now: int, by_row: int, together: int) -> bool:
    """The match whose rows, the last one first, are chosen from 0 to `last`. False: there is no room."""
    groups, nodes, chosen, rows = family_groups_at(tables), heap_nodes_at(tables), chosen_at(tables), rows_at(tables)
    desk, emitted = desk_at(tables), emitted_at(tables)
    line, begin = desk[EMITTED], desk[ROWS_OUT]
    if line == len(emitted) or begin + last + 1 > len(rows):
        return False
    for k in range(last + 1):
        node, at = chosen[last - k], begin + k
        rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = line, nodes[node, TAKEN_ROW], nodes[node, TAKEN_AS], nodes[node, TAKEN_SEQ]
    groups[group, MATCHES] += 1
    emitted[line, KIND], emitted[line, OF_GROUP], emitted[line, BY_ROW], emitted[line, LAST_NODE] = MATCH, group, by_row, NONE
    emitted[line, AT], emitted[line, NUMBER], emitted[line, TOGETHER] = now, groups[group, MATCHES], together
    emitted[line, FIRST_TIME], emitted[line, FIRST_ROW] = now, rows[begin, 1]
    desk[EMITTED], desk[ROWS_OUT] = line + 1, begin + last + 1
    return True


@apart
def apart_tell_heap(tables: Tables, group: int, root: int, floor: int, now: int, by_row: int, together: int) -> Number:
    """Matches that are the families of a heap, of which `together` were decided before with them; returns how many were then, or NONE if
    there is no room. Each node that is looked at has a family that counts, so to find a match takes what its rows take."""
    nodes, waiting, chosen = heap_nodes_at(tables), waiting_heaps_at(tables), chosen_at(tables)
    waiting[0, 0], waiting[0, 1] = root, 0
    left = 1
    while left > 0:
        left -= 1
        node, place = waiting[left, 0], waiting[left, 1]
        if left + 3 > len(waiting) or place == len(chosen):
            return NONE
        chosen[place] = node
        for word in (LEFT, RIGHT):
            other = nodes[node, word]
            if other >= 0 and nodes[other, LATEST] >= floor:
                waiting[left, 0], waiting[left, 1] = other, place
                left += 1
        if nodes[node, BEHIND] >= 0:
            waiting[left, 0], waiting[left, 1] = nodes[node, BEHIND], place + 1
            left += 1
        elif _tell_chosen(tables, group, place, now, by_row, together):
            together += 1
        else:
            return NONE
    return together


@inlined
def _tell_all(tables: Tables, group: int, now: int, by_row: int) -> bool:
    """Matches of the row at hand. False: there is no room, and nothing is written."""
    groups, bundles, desk = family_groups_at(tables), bundles_at(tables), desk_at(tables)
    emitted, rows, matches, together = desk[EMITTED], desk[ROWS_OUT], groups[group, MATCHES], 0
    floor, bundle = family_floor(tables, group), desk[TO_TELL]
    while bundle >= 0:
        together = apart_tell_heap(tables, group, bundles[bundle, HEAP_ROOT], floor, now, by_row, together)
        if together < 0:
            desk[EMITTED], desk[ROWS_OUT], groups[group, MATCHES] = emitted, rows, matches
            desk[WANTED] = WANTS_OUT
            return False
        bundle = bundles[bundle, NEXT_BUNDLE]
    while desk[TO_TELL] >= 0:
        bundle = desk[TO_TELL]
        desk[TO_TELL] = bundles[bundle, NEXT_BUNDLE]
        apart_release_heap(tables, bundles[bundle, HEAP_ROOT])
        free_bundle(tables, bundle)
    return True


# --- all rows ---------------------------------------------------------------------------------------------------------


@inlined
def _has_room(tables: Tables) -> Number:
    """Is there room for all that the next row may make?"""
    starts, bundles, nodes, desk = open_starts_at(tables), bundles_at(tables), heap_nodes_at(tables), desk_at(tables)
    wanted = parameters_at(tables)[FAN]
    room = desk[LEFT_OPEN] + len(starts) - desk[USED_OPEN] > 1 and desk[LEFT_BUNDLES] + len(bundles) - desk[USED_BUNDLES] > wanted
    desk[WANTED] = wanted * (MELD_MAX + 1)
    return room and desk[LEFT_HEAP] + len(nodes) - desk[USED_HEAP] > desk[WANTED]


@kernel("int64(int64, const int64[:], int64, const int64[:], const int64[:], int64)", on_demand=True)
def advance_families(tables: Tables, bits: np.ndarray, n: int, numbers: np.ndarray, time: np.ndarray, first: int) -> int:
    """As `cep.kernels.patterns.loop.advance`; 3 where a group has too many starts if those count of which nothing is left."""
    groups, desk, parameters = family_groups_at(tables), desk_at(tables), parameters_at(tables)
    while desk[AT_ROW] < n:
        i = desk[AT_ROW]
        group, t = numbers[i], time[i]
        if i + GROUP_SOON < n:
            prefetch(groups, numbers[i + GROUP_SOON] * FAMILY_GROUP_WORDS)
            prefetch(bundles_at(tables), groups[numbers[i + BUNDLE_SOON], BUNDLES] * BUNDLE_WORDS)
        if not desk[TAKEN]:
            if not _has_room(tables):
                return 1
            if groups[group, HEAD] >= 0:
                apart_leave_starts(tables, group, t)
            if parameters[TTL] != FAR and t - groups[group, LAST] > parameters[TTL]:
                groups[group, MATCHES] = 0
            _take(tables, group, bits[i], first + i, groups[group, SEQ], t)
            groups[group, SEQ], groups[group, LAST] = groups[group, SEQ] + 1, t
            desk[TAKEN] = 1
        if desk[TO_TELL] >= 0 and not _tell_all(tables, group, t, i):
            return 1
        if groups[group, OPEN] > parameters[LIMIT]:
            if parameters[MAY_END] and not desk[RECOUNTED]:
                desk[OVERFULL] = group
                return 3
            if not parameters[DROPS]:
                desk[OVERFULL] = group
                return 2
            drop_open_start(tables, group)
            desk[DROPPED] += 1
        desk[TAKEN], desk[RECOUNTED], desk[AT_ROW] = 0, 0, i + 1
    return 0
