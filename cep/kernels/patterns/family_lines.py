"""What becomes of open starts and bundles when no row is looked at: they are made and dropped, and looked through.

`tables` are those of `cep.kernels.patterns.family_tables`. Whoever calls has made room for all that may be made.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.patterns.family_heaps import apart_release_heap
from cep.kernels.patterns.family_places import (
    BEHIND,
    BUNDLE_GROUP,
    BUNDLE_KIND,
    BUNDLES,
    FREE_BUNDLES,
    FREE_OPEN,
    HEAP_ROOT,
    LATEST,
    LEFT,
    LEFT_BUNDLES,
    LEFT_OPEN,
    LOOKED,
    NEXT_BUNDLE,
    NEXT_OPEN,
    OPEN_SEQ,
    OPEN_TIME,
    RIGHT,
    TAKEN_SEQ,
)
from cep.kernels.patterns.family_tables import (
    bundles_at,
    family_groups_at,
    heap_nodes_at,
    open_starts_at,
)
from cep.kernels.patterns.lines import Number, Tables, desk_at, free_line, new_line, parameters_at
from cep.kernels.patterns.places import (
    FAR,
    HEAD,
    LAST,
    NONE,
    OPEN,
    SEQ,
    TAIL,
    TTL,
    WITHIN,
)


@inlined
def family_floor(tables: Tables, group: int) -> Number:
    """The number of the first row of which families count."""
    groups = family_groups_at(tables)
    first = groups[group, HEAD]
    return open_starts_at(tables)[first, OPEN_SEQ] if first >= 0 else groups[group, SEQ]


@inlined
def drop_open_start(tables: Tables, group: int) -> None:
    """The first one; with the last all bundles are over."""
    groups, starts, desk = family_groups_at(tables), open_starts_at(tables), desk_at(tables)
    start = groups[group, HEAD]
    groups[group, HEAD] = starts[start, NEXT_OPEN]
    groups[group, OPEN] -= 1
    starts[start, OPEN_SEQ] = NONE
    free_line(starts, desk, start, FREE_OPEN, LEFT_OPEN)
    if groups[group, HEAD] < 0:
        groups[group, TAIL] = NONE
        apart_drop_bundles(tables, group)


@apart
def apart_drop_bundles(tables: Tables, group: int) -> None:
    """All of a group."""
    groups, bundles = family_groups_at(tables), bundles_at(tables)
    bundle = groups[group, BUNDLES]
    groups[group, BUNDLES] = NONE
    while bundle >= 0:
        following = bundles[bundle, NEXT_BUNDLE]
        apart_release_heap(tables, bundles[bundle, HEAP_ROOT])
        free_bundle(tables, bundle)
        bundle = following


@inlined
def free_bundle(tables: Tables, bundle: int) -> None:
    bundles = bundles_at(tables)
    bundles[bundle, BUNDLE_GROUP] = NONE
    free_line(bundles, desk_at(tables), bundle, FREE_BUNDLES, LEFT_BUNDLES)


@apart
def apart_leave_starts(tables: Tables, group: int, before: int) -> None:
    """Time passes until right before `before`."""
    groups, starts, parameters = family_groups_at(tables), open_starts_at(tables), parameters_at(tables)
    over = parameters[TTL] != FAR and groups[group, LAST] + parameters[TTL] < before
    while groups[group, HEAD] >= 0 and (over or starts[groups[group, HEAD], OPEN_TIME] + parameters[WITHIN] < before):
        drop_open_start(tables, group)


@inlined
def new_bundle(tables: Tables, following: int, kind: int, root: int, group: int) -> Number:
    bundles = bundles_at(tables)
    bundle = new_line(bundles, desk_at(tables), FREE_BUNDLES, LEFT_BUNDLES)
    bundles[bundle, NEXT_BUNDLE], bundles[bundle, BUNDLE_KIND] = following, kind
    bundles[bundle, HEAP_ROOT], bundles[bundle, BUNDLE_GROUP] = root, group
    return bundle


# --- all that is there ------------------------------------------------------------------------------------------------


@kernel("void(int64, int64, int64[:], int64)", on_demand=True)
def settle_families(tables: Tables, before: int, room: np.ndarray, stamp: int) -> None:
    """Time passes in all groups until right before `before`; nodes without a family that counts are left behind. `room`: three places for
    each node, and as many more."""
    groups, bundles, nodes = family_groups_at(tables), bundles_at(tables), heap_nodes_at(tables)
    for group in range(len(groups)):
        if groups[group, HEAD] < 0:
            continue
        apart_leave_starts(tables, group, before)
        floor, bundle, before_it = family_floor(tables, group), groups[group, BUNDLES], NONE
        while bundle >= 0:
            following, root = bundles[bundle, NEXT_BUNDLE], bundles[bundle, HEAP_ROOT]
            if nodes[root, LATEST] >= floor:
                apart_prune(tables, root, floor, room, stamp)
                before_it = bundle
            else:
                apart_release_heap(tables, root)
                free_bundle(tables, bundle)
                if before_it >= 0:
                    bundles[before_it, NEXT_BUNDLE] = following
                else:
                    groups[group, BUNDLES] = following
            bundle = following


@apart
def apart_prune(tables: Tables, root: int, floor: int, room: np.ndarray, stamp: int) -> None:
    """Below `root`, of which a family counts."""
    nodes, left = heap_nodes_at(tables), 1
    room[0] = root
    while left > 0:
        left -= 1
        node = room[left]
        if nodes[node, LOOKED] == stamp:
            continue
        nodes[node, LOOKED] = stamp
        for word in (LEFT, RIGHT, BEHIND):
            other = nodes[node, word]
            if other < 0:
                continue
            if nodes[other, LATEST] >= floor:
                room[left] = other
                left += 1
            else:
                nodes[node, word] = NONE
                apart_release_heap(tables, other)


@kernel("int64(int64, int64, int64[:], int64, int64[:])", on_demand=True)
def starts_alive(tables: Tables, group: int, room: np.ndarray, stamp: int, found: np.ndarray) -> Number:
    """The numbers in the group of starts of which a family is left, in any order and more than once; returns how many. `room`: as above."""
    groups, bundles, nodes, count = family_groups_at(tables), bundles_at(tables), heap_nodes_at(tables), 0
    floor, bundle = family_floor(tables, group), groups[group, BUNDLES]
    while bundle >= 0:
        room[0], left = bundles[bundle, HEAP_ROOT], 1
        while left > 0:
            left -= 1
            node = room[left]
            if nodes[node, LOOKED] == stamp or nodes[node, LATEST] < floor:
                continue
            nodes[node, LOOKED] = stamp
            if nodes[node, BEHIND] < 0:
                found[count] = nodes[node, TAKEN_SEQ]
                count += 1
            for word in (LEFT, RIGHT, BEHIND):
                if nodes[node, word] >= 0:
                    room[left] = nodes[node, word]
                    left += 1
        bundle = bundles[bundle, NEXT_BUNDLE]
    return count


@kernel("void(int64, int64, const int64[:])", on_demand=True)
def keep_starts(tables: Tables, group: int, alive: np.ndarray) -> None:
    """Of a group only the starts whose numbers are `alive`, ascending."""
    groups, starts, desk = family_groups_at(tables), open_starts_at(tables), desk_at(tables)
    start, last, k = groups[group, HEAD], NONE, 0
    groups[group, HEAD], groups[group, OPEN] = NONE, len(alive)
    while start >= 0:
        following = starts[start, NEXT_OPEN]
        if k < len(alive) and starts[start, OPEN_SEQ] == alive[k]:
            k += 1
            starts[start, NEXT_OPEN] = NONE
            if last >= 0:
                starts[last, NEXT_OPEN] = start
            else:
                groups[group, HEAD] = start
            last = start
        else:
            starts[start, OPEN_SEQ] = NONE
            free_line(starts, desk, start, FREE_OPEN, LEFT_OPEN)
        start = following
    groups[group, TAIL] = last
    if last < 0:
        apart_drop_bundles(tables, group)
