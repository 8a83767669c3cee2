"""The loop of trailing windows, as source: it is generated beside the loops of an accumulator and made of the same pieces
(`cep.compile.windows.accumulator_source`).

Every group has a ring of entries, its *region*: the entry at its base, then room for a power of two of rows, of which number n lies at
n modulo that. Two stacks lie in the ring one behind the other, oldest row first. With rows 0 to 4 taken before row 0 left:

    number        1    2    3    4  | 5    6   | 7
                 [front 1 ........ ] [back ... ] NEXT
                  FIRST              FLIP
    entry holds  1-4  2-4  3-4  4    5    6          and the base holds 5-6, the whole back

- A row goes into an entry of its own and into the base. What a row sees is entry FIRST and the base: two merges, whatever the window.
- Rows that are too old leave at FIRST. When the first of the back has left, what is left of the back becomes the front (*flip*): each entry
  takes in the one behind it, the newest first, down from DONE to FIRST. So a row is merged once in its life, and taken twice.
- A region that is full is left for one of twice the size; those that were left are kept by size, and taken again.

Rows of one event time are all taken before the first of them is answered, where the window is a span of time: they see each other.
It stops where entries, arena or pool lack room or its work is done, after any row and any merge of a flip, and goes on there when called
again: `desk` says how far it has come.
"""

from __future__ import annotations

#: Words of `desk`: entries in use, entries lacked, rows taken, rows answered, the row behind those of the event time at hand, whether the
#: row to be taken is in its entry already, and work left: a row taken, a row answered or a merge of a flip is 1.
USED, LACKED, TAKEN, ANSWERED, RUN, HALF, WORK = range(7)
DESK_WORDS = 7
#: Words of a group behind its key: first entry of its region; room for rows in it; numbers of the oldest row, of the first row of the back,
#: of the first row of the front that is merged, and of the next row.
BASE, ROOM, FIRST, FLIP, DONE, NEXT = range(2, 8)
#: A new group.
FRESH = (-1, 0, 0, 0, 0, 0)
#: Rows for which the first region of a group has room, and for how many sizes of regions there are lists of those that were left.
ROOM_MIN, SIZES = 2, 48
#: Rows ahead of which a group, and entries, are asked for.
GROUPS_AHEAD, ENTRIES_AHEAD = 24, 12

IMPORTS = """from cep.compile.windows.trailing_source import ANSWERED, BASE, DONE, ENTRIES_AHEAD, FIRST, FLIP, GROUPS_AHEAD, HALF, LACKED
from cep.compile.windows.trailing_source import NEXT, ROOM, ROOM_MIN, RUN, TAKEN, USED, WORK
"""

SOURCE = """

@inlined
def _size_of(room):
    size = 0
    while (1 << size) < room:
        size += 1
    return size


@inlined
def _entry(groups, at, number):
    return (groups[at + BASE] + 1 + (number & (groups[at + ROOM] - 1))) * {width}


@inlined
def _leave(groups, at, entries, count):
    # The oldest `count` rows.
    for number in range(groups[at + FIRST], groups[at + FIRST] + count):
        entries[_entry(groups, at, number)] = 0
    groups[at + FIRST] += count
    if groups[at + FIRST] > groups[at + FLIP]:  # of the back: what is left of it becomes the front
        groups[at + FLIP] = groups[at + NEXT]
        groups[at + DONE] = max(groups[at + FIRST], groups[at + NEXT] - 1)
        entries[groups[at + BASE] * {width}] = 0


@inlined
def _too_old(groups, at, entries, time, most, span, ttl):
    first, count = groups[at + FIRST], groups[at + NEXT] - groups[at + FIRST]
    if count == 0:
        return 0
    if ttl >= 0 and time - entries[_entry(groups, at, first + count - 1) + 1] > ttl:
        return count
    if span < 0:
        return max(0, count + 1 - most)
    old = 0
    while old < count and entries[_entry(groups, at, first + old) + 1] < time - span:
        old += 1
    return old


@inlined
def _larger(groups, at, entries, left, desk):
    # Moves the group to a region of twice the size; False where there is no room for one.
    room = max(ROOM_MIN, 2 * groups[at + ROOM])
    size = _size_of(room)
    base = left[size]
    if base >= 0:
        left[size] = entries[base * {width} + 1]
    elif (desk[USED] + 1 + room) * {width} <= len(entries):
        base = desk[USED]
        desk[USED] = base + 1 + room
    else:
        desk[LACKED] = 1 + room
        return False
    old, old_room = groups[at + BASE], groups[at + ROOM]
    if old >= 0:
        for k in range({width}):
            entries[base * {width} + k] = entries[old * {width} + k]
        for number in range(groups[at + FIRST], groups[at + NEXT]):
            to, s = (base + 1 + (number & (room - 1))) * {width}, _entry(groups, at, number)
            for k in range({width}):
                entries[to + k] = entries[s + k]
            entries[s] = 0
        entries[old * {width}], entries[old * {width} + 1] = 0, left[_size_of(old_room)]
        left[_size_of(old_room)] = old
    groups[at + BASE], groups[at + ROOM] = base, room
    return True


@kernel(
    "int64(int64[:], int64, const int64[:], int64, int64, int64, int64[:], int64[:], int64, {table}, {table}, {types})"
)
def trail(
    groups, width, numbers, most, span, ttl, left, desk, stop,
    entries, control, arena, pool, out, out_control, out_arena, out_pool, {arguments}
):
    control[ARENA_WANTED], out_control[ARENA_WANTED], desk[LACKED] = 0, 0, 0
    used, pooled = control[ARENA_USED], control[POOL_USED]
    row, out_used, out_pooled = out_control[ROWS], out_control[ARENA_USED], out_control[POOL_USED]
    taken, answered, run, work = desk[TAKEN], desk[ANSWERED], desk[RUN], desk[WORK]
    while answered < stop and work > 0:
        if run <= answered:
            run = answered + 1
            while span >= 0 and run < stop and time[run] == time[answered]:
                run += 1
        # Take a row.
        if taken < run:
            i = taken
            if i + GROUPS_AHEAD < stop:
                prefetch(groups, numbers[i + GROUPS_AHEAD] * width)
            if i + ENTRIES_AHEAD < stop:
                ahead = numbers[i + ENTRIES_AHEAD] * width
                if groups[ahead + BASE] >= 0:
                    prefetch(entries, groups[ahead + BASE] * {width})
                    prefetch(entries, _entry(groups, ahead, groups[ahead + FIRST]))
                    prefetch(entries, _entry(groups, ahead, groups[ahead + NEXT]))
            group = numbers[i] * width
            if desk[HALF] == 0:
                old = _too_old(groups, group, entries, time[i], most, span, ttl)
                if old > 0:
                    _leave(groups, group, entries, old)
                lacks = False
                while groups[group + DONE] > groups[group + FIRST]:
                    s = _entry(groups, group, groups[group + DONE])
                    at = _entry(groups, group, groups[group + DONE] - 1)
                    wanted = _merge_room(entries, at, entries, s, arena)
                    if used + wanted > len(arena) or pooled + {sums} > len(pool):
                        control[ARENA_WANTED] = wanted
                        lacks = True
                        break
                    if work <= 0:
                        lacks = True
                        break
                    used, pooled = _merge(entries, at, arena, used, pool, pooled, entries, s, arena, pool)
                    groups[group + DONE] -= 1
                    work -= 1
                if lacks:
                    break
                if groups[group + NEXT] - groups[group + FIRST] == groups[group + ROOM]:
                    if not _larger(groups, group, entries, left, desk):
                        break
                at = _entry(groups, group, groups[group + NEXT])
                _clear(entries, at)
                wanted = _update_room(entries, at, arena, i, {arguments})
                if used + wanted > len(arena) or pooled + {sums} > len(pool):
                    control[ARENA_WANTED] = wanted
                    break
                used, pooled = _update(entries, at, arena, used, pool, pooled, i, {arguments})
                entries[at], entries[at + 1] = 1, time[i]
                desk[HALF] = 1
            at = groups[group + BASE] * {width}
            if groups[group + NEXT] == groups[group + FLIP]:
                _clear(entries, at)
            wanted = _update_room(entries, at, arena, i, {arguments})
            if used + wanted > len(arena) or pooled + {sums} > len(pool):
                control[ARENA_WANTED] = wanted
                break
            used, pooled = _update(entries, at, arena, used, pool, pooled, i, {arguments})
            entries[at] = 1
            groups[group + NEXT] += 1
            desk[HALF] = 0
            taken += 1
            work -= 1
            continue
        # Answer one.
        group, to = numbers[answered] * width, row * {width}
        if to == len(out):
            break
        _clear(out, to)
        made, more = out_used, out_pooled
        if more + {sums} > len(out_pool):
            break
        if groups[group + FIRST] < groups[group + FLIP]:
            s = _entry(groups, group, groups[group + FIRST])
            wanted = _merge_room(out, to, entries, s, arena)
            if made + wanted > len(out_arena):
                out_control[ARENA_WANTED] = wanted
                break
            made, more = _merge(out, to, out_arena, made, out_pool, more, entries, s, arena, pool)
        if groups[group + FLIP] < groups[group + NEXT]:
            s = groups[group + BASE] * {width}
            wanted = _merge_room(out, to, entries, s, arena)
            if made + wanted > len(out_arena):
                out_control[ARENA_WANTED] = made - out_used + wanted
                break
            made, more = _merge(out, to, out_arena, made, out_pool, more, entries, s, arena, pool)
        out_used, out_pooled = made, more
        row += 1
        answered += 1
        work -= 1
    desk[TAKEN], desk[ANSWERED], desk[RUN], desk[WORK] = taken, answered, run, work
    return _left(control, used, pooled, out_control, row, out_used, out_pooled, answered)
"""
