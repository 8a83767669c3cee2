"""The loop for patterns whose starts go on alike: those of one outlook are a *cohort*, and a row moves each cohort of its group as a whole.

What stands where in its tables: `cep.kernels.patterns.cohort_places`, `cohort_tables`; what becomes of cohorts and starts: `cohort_lines`.

1. Starts of a group are in order in its cohorts, and the cohorts are in order too; neighbours have different outlooks. So what is decided
   first, and what time is over for first, is in front.
2. A cohort that moves is a stage below from then on, and there is a new one above it. If the cohort before it has come to the same outlook
   that one is above it, and its starts are that one's last.
3. What comes out is written when it is decided, rows and all; where there is no room the loop stops, and goes on there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.cohort_lines import (
    apart_decide_cohorts,
    drop_cohort,
    drop_first_start,
    link_cohort,
    new_cohort,
    step_up,
    take_cohort_match,
    tell_start,
)
from cep.kernels.patterns.cohort_places import (
    BEGUN,
    COHORT_GROUP_WORDS,
    COHORT_START_WORDS,
    DEAD,
    FIRST_DUE,
    FIRST_START,
    FOLLOWING_COHORT,
    FREE_COHORT_STARTS,
    LAST_START,
    LEFT_COHORT_STARTS,
    LEFT_STAGES,
    NEXT_START,
    OUTLOOK,
    PENDING,
    SAME,
    STAGE,
    STAGE_WORDS,
    START_ROW,
    START_SEQ,
    START_TIME,
    START_USED,
    STEP_ROW,
    USED_COHORT_STARTS,
    USED_STAGES,
    USES,
)
from cep.kernels.patterns.cohort_tables import (
    begins_at,
    cohort_groups_at,
    cohort_starts_at,
    complete_at,
    done_at,
    moves_at,
    stages_at,
    targets_at,
)
from cep.kernels.patterns.lines import (
    Number,
    Tables,
    desk_at,
    heap_at,
    new_line,
    parameters_at,
    pop,
    push,
)
from cep.kernels.patterns.places import (
    AT_ROW,
    DROPPED,
    DROPS,
    DUE,
    FAR,
    HEAD,
    HEAP,
    LAST,
    LIFE,
    LIMIT,
    MATCHES,
    NONE,
    OPEN,
    OVERFULL,
    QUIET,
    SEQ,
    TAIL,
    TAKEN,
    TIMED_OUT,
    TTL,
    VARIABLES,
    WANTED,
    WANTS_TIMED_OUT,
)

#: Rows ahead at which a group is asked for, the cohorts of one, their starts, their stages.
AHEAD, SOON, NEXT_SOON, LAST_SOON = 24, 14, 8, 4
#: Groups in which time passes together, and starts of each that are asked for: a quarter of a megabyte.
DUE_GROUPS, DUE_STARTS = 32, 128


# --- time -------------------------------------------------------------------------------------------------------------


@inlined
def _group_due(tables: Tables, group: int) -> Number:
    """When time decides on anything of a group, or FAR; of one that has no start that does not matter."""
    groups, parameters = cohort_groups_at(tables), parameters_at(tables)
    due = groups[group, FIRST_DUE]
    return due if parameters[TTL] == FAR else min(due, groups[group, LAST] + parameters[TTL])


@apart
def apart_pass_cohorts(tables: Tables, group: int, before: int) -> bool:
    """Time passes until right before `before`, which is a row's or a watermark; FAR: for ever. False: there is no room for what comes
    out."""
    parameters = parameters_at(tables)
    groups, starts, stages = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables)
    complete, done = complete_at(tables), done_at(tables)
    while groups[group, HEAD] >= 0:
        due = _group_due(tables, group)
        if due >= before and before != FAR:
            return True
        cohort = groups[group, HEAD]
        start = stages[cohort, FIRST_START]
        if complete[stages[cohort, OUTLOOK]] >= 0:
            if not take_cohort_match(tables, group, NONE, cohort, due, NONE):
                return False
        else:
            told = parameters[WANTS_TIMED_OUT] and not starts[start, START_USED]
            if told and not tell_start(tables, TIMED_OUT, group, start, 0, due, NONE):
                return False
            drop_first_start(tables, group, NONE, cohort)
        cohort = groups[group, HEAD]
        if cohort >= 0 and done[stages[cohort, OUTLOOK]]:
            groups[group, FIRST_DUE] = due  # it has waited for those that are gone
    return True


# --- a row ------------------------------------------------------------------------------------------------------------


@inlined
def _move_cohorts(tables: Tables, group: int, bits: int, row: int, seq: int) -> Number:
    """Returns whether a match of one of them is known."""
    groups, starts, stages, parameters = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables), parameters_at(tables)
    moves, targets, done = moves_at(tables), targets_at(tables), done_at(tables)
    last, cohort, found = NONE, groups[group, HEAD], 0
    while cohort >= 0:
        following, outlook = stages[cohort, FOLLOWING_COHORT], stages[cohort, OUTLOOK]
        move = moves[(outlook << parameters[VARIABLES]) + bits]
        if move == DEAD:
            drop_cohort(tables, group, last, cohort)
            cohort = following
            continue
        if move != SAME:
            outlook = targets[move]
        found |= done[outlook]
        if last >= 0 and stages[last, OUTLOOK] == outlook:
            starts[stages[last, LAST_START], NEXT_START] = stages[cohort, FIRST_START]
            stages[last, LAST_START] = stages[cohort, LAST_START]
            stages[last, FOLLOWING_COHORT] = following
            stages[last, USES] += 1
            step_up(tables, cohort, last, row, seq, move)
        elif move != SAME:
            above = new_cohort(tables, group, outlook, following, stages[cohort, FIRST_START], stages[cohort, LAST_START])
            step_up(tables, cohort, above, row, seq, move)
            link_cohort(tables, group, last, above)
            last = above
        else:
            last = cohort
        cohort = following
    groups[group, TAIL] = last
    return found


@inlined
def _begin(tables: Tables, group: int, move: int, time: int, row: int, seq: int) -> Number:
    """A start: of the last cohort if that has its outlook. Returns whether its match is known."""
    parameters = parameters_at(tables)
    groups, starts, stages, desk = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables), desk_at(tables)
    outlook, cohort = targets_at(tables)[move], groups[group, TAIL]
    start = new_line(starts, desk, FREE_COHORT_STARTS, LEFT_COHORT_STARTS)
    starts[start, NEXT_START], starts[start, START_TIME], starts[start, START_SEQ], starts[start, START_ROW] = NONE, time, seq, row
    starts[start, BEGUN], starts[start, START_USED] = move, 0
    if cohort >= 0 and stages[cohort, OUTLOOK] == outlook:
        starts[stages[cohort, LAST_START], NEXT_START] = start
        stages[cohort, LAST_START] = start
        stages[cohort, USES] += 1
    else:
        made = new_cohort(tables, group, outlook, NONE, start, start)
        link_cohort(tables, group, cohort, made)
        if cohort < 0 and parameters[LIFE] != FAR:
            groups[group, FIRST_DUE] = time + parameters[LIFE]
        groups[group, TAIL] = cohort = made
    starts[start, STAGE] = cohort
    groups[group, OPEN] += 1
    return done_at(tables)[outlook]


@inlined
def _drop_oldest(tables: Tables, group: int, now: int, by_row: int) -> bool:
    """False: there is no room for what comes out."""
    groups, stages, parameters = cohort_groups_at(tables), stages_at(tables), parameters_at(tables)
    cohort = groups[group, HEAD]
    if parameters[WANTS_TIMED_OUT] and not tell_start(tables, TIMED_OUT, group, stages[cohort, FIRST_START], 0, now, by_row):
        return False
    drop_first_start(tables, group, NONE, cohort)
    desk_at(tables)[DROPPED] += 1
    return True


@inlined
def _rows_with_room(tables: Tables) -> Any:
    """For how many rows there is room at least, but for stages: each begins a start at most, and goes into the heap once."""
    starts, desk = cohort_starts_at(tables), desk_at(tables)
    return min(desk[LEFT_COHORT_STARTS] + len(starts) - desk[USED_COHORT_STARTS], len(heap_at(tables)) - desk[HEAP]) - 1


@inlined
def _has_stages(group: int, tables: Tables) -> Any:
    """Is there room for all stages that the next row of the group may make?"""
    stages, desk = stages_at(tables), desk_at(tables)
    return desk[LEFT_STAGES] + len(stages) - desk[USED_STAGES] > cohort_groups_at(tables)[group, OPEN] + 2


@inlined
def _watch(tables: Tables, group: int) -> None:
    """The heap knows when the group has to be looked at at the latest."""
    groups = cohort_groups_at(tables)
    if groups[group, HEAD] >= 0:
        due = _group_due(tables, group)
        if due < groups[group, DUE]:
            push(groups, desk_at(tables), heap_at(tables), group, due)


@inlined
def _ask_ahead(tables: Tables, numbers: np.ndarray, i: int) -> None:
    """What rows soon look at is asked for, one after the other: a group, its first and last cohorts, the starts at their ends, the stage
    that the first start has. Half of the loop waited for these. There are no branches, which would often be guessed wrong: what is not
    there is line 0."""
    lines, stages, starts = cohort_groups_at(tables), stages_at(tables), cohort_starts_at(tables)
    prefetch(lines, numbers[i + AHEAD] * COHORT_GROUP_WORDS)
    group = numbers[i + SOON]
    prefetch(stages, lines[group, HEAD] * STAGE_WORDS)
    prefetch(stages, lines[group, TAIL] * STAGE_WORDS)
    group = numbers[i + NEXT_SOON]
    there = ~(lines[group, HEAD] >> 63)
    prefetch(starts, stages[lines[group, HEAD] & there, FIRST_START] * COHORT_START_WORDS)
    prefetch(starts, stages[lines[group, TAIL] & there, LAST_START] * COHORT_START_WORDS)
    group = numbers[i + LAST_SOON]
    there = ~(lines[group, HEAD] >> 63)
    start = stages[lines[group, HEAD] & there, FIRST_START] & there
    prefetch(stages, starts[start, STAGE] * STAGE_WORDS)
    prefetch(starts, starts[start, NEXT_START] * COHORT_START_WORDS)


@kernel("int64(int64, const int64[:], int64, const int64[:], const int64[:], int64)", on_demand=True)
def advance_cohorts(tables: Tables, bits: np.ndarray, n: int, numbers: np.ndarray, time: np.ndarray, first: int) -> int:
    """As `cep.kernels.patterns.loop.advance`."""
    lines, desk, parameters, begins = cohort_groups_at(tables), desk_at(tables), parameters_at(tables), begins_at(tables)
    taken, with_room, ttl = desk[TAKEN], 0, parameters[TTL]
    for i in range(desk[AT_ROW], n):
        group, t, found = numbers[i], time[i], taken
        if i + AHEAD < n:
            _ask_ahead(tables, numbers, i)
        if not taken:
            with_room -= 1
            if with_room < 0:
                with_room = _rows_with_room(tables) - 1
            if with_room < 0 or not _has_stages(group, tables):
                desk[WANTED] = lines[group, OPEN] + 3
                return _stop(desk, i, 0, 1)
            if _group_due(tables, group) < t and not apart_pass_cohorts(tables, group, t):
                return _stop(desk, i, 0, 1)
            if ttl != FAR and lines[group, LAST] != NONE and t - lines[group, LAST] > ttl:
                lines[group, MATCHES] = 0
            seq = lines[group, SEQ]
            if lines[group, HEAD] >= 0:
                found = _move_cohorts(tables, group, bits[i], first + i, seq)
            if begins[bits[i]] >= 0:
                found |= _begin(tables, group, begins[bits[i]], t, first + i, seq)
            lines[group, SEQ], lines[group, LAST] = seq + 1, t
        taken = 0
        if found and not apart_decide_cohorts(tables, group, t, i):
            return _stop(desk, i, 1, 1)
        if lines[group, OPEN] > parameters[LIMIT]:
            if not parameters[DROPS]:
                desk[OVERFULL] = group
                return _stop(desk, i, 1, 2)
            if not _drop_oldest(tables, group, t, i) or not apart_decide_cohorts(tables, group, t, i):
                return _stop(desk, i, 1, 1)
        if not parameters[QUIET]:
            _watch(tables, group)
    return _stop(desk, n, 0, 0)


@inlined
def _stop(desk: np.ndarray, row: int, taken: int, why: int) -> int:
    """The loop goes on at `row`; is that taken, and only what is decided to be said? Returns `why`."""
    desk[AT_ROW], desk[TAKEN] = row, taken
    return why


@inlined
def _take_due(tables: Tables, before: int) -> None:
    """The next groups of the heap in which time decides something before `before`; they lie behind it."""
    lines, heap, desk = cohort_groups_at(tables), heap_at(tables), desk_at(tables)
    while desk[PENDING] < DUE_GROUPS and desk[HEAP] > 0 and heap[0, 0] < before:
        due, group = heap[0, 0], heap[0, 1]
        pop(desk, heap)
        if lines[group, DUE] == due:
            lines[group, DUE] = FAR
            heap[desk[HEAP], 1] = group
            desk[PENDING] += 1
        else:
            heap[desk[HEAP], 1] = heap[desk[HEAP] + desk[PENDING], 1]
        prefetch(lines, group * COHORT_GROUP_WORDS)


@inlined
def _ask_for_due(tables: Tables, before: int) -> None:
    """The starts of these groups are asked for, a step in each at a time: each leads to the next, and to wait for one after the other took
    nine tenths of the time."""
    lines, stages, starts, heap = cohort_groups_at(tables), stages_at(tables), cohort_starts_at(tables), heap_at(tables)
    first, life = desk_at(tables)[HEAP], parameters_at(tables)[LIFE]
    stop = first + desk_at(tables)[PENDING]
    for k in range(first, stop):
        prefetch(stages, lines[heap[k, 1], HEAD] * STAGE_WORDS)
    for k in range(first, stop):
        cohort = lines[heap[k, 1], HEAD]
        heap[k, 0] = stages[cohort, FIRST_START] if cohort >= 0 else NONE
        prefetch(starts, heap[k, 0] * COHORT_START_WORDS)
    more, steps = True, 0
    while more and steps < DUE_STARTS:
        more, steps = False, steps + 1
        for k in range(first, stop):
            start = heap[k, 0]
            if start >= 0:
                heap[k, 0] = starts[start, NEXT_START] if before == FAR or starts[start, START_TIME] + life < before else NONE
                prefetch(starts, heap[k, 0] * COHORT_START_WORDS)
                more = True


@kernel("int64(int64, int64)", on_demand=True)
def let_pass_cohorts(tables: Tables, before: int) -> int:
    """Time passes in the groups that the heap has until right before `before`; FAR: for ever. Returns 0 when it is done, 1 where there is
    no room."""
    heap, desk = heap_at(tables), desk_at(tables)
    while desk[PENDING] > 0 or (desk[HEAP] > 0 and heap[0, 0] < before):
        if desk[PENDING] == 0:
            _take_due(tables, before)
            _ask_for_due(tables, before)
        while desk[PENDING] > 0:
            group, known = heap[desk[HEAP], 1], desk[HEAP]
            if not apart_pass_cohorts(tables, group, before):
                return 1
            desk[PENDING] -= 1
            _watch(tables, group)
            if desk[HEAP] == known:
                heap[known, 1] = heap[known + desk[PENDING], 1]
    return 0


@kernel("void(int64, int64)", on_demand=True)
def settle_cohorts(tables: Tables, before: int) -> None:
    """Time passes in all groups until right before `before`, where nothing comes out of that."""
    lines = cohort_groups_at(tables)
    for group in range(len(lines)):
        if lines[group, HEAD] >= 0 and _group_due(tables, group) < before:
            apart_pass_cohorts(tables, group, before)


@kernel("void(int64, const int64[:])", on_demand=True)
def watch_cohorts(tables: Tables, restored: np.ndarray) -> None:
    """The heap knows when the groups `restored` have to be looked at; it has room for them."""
    for k in range(len(restored)):
        _watch(tables, restored[k])


@kernel("void(int64, uint8[:])", on_demand=True)
def mark_cohort_rows(tables: Tables, out: np.ndarray) -> None:
    """Sets 1 for each row that a start or a stage has."""
    starts, stages, desk = cohort_starts_at(tables), stages_at(tables), desk_at(tables)
    for start in range(desk[USED_COHORT_STARTS]):
        if starts[start, START_ROW] >= 0:
            out[starts[start, START_ROW]] = 1
    for stage in range(desk[USED_STAGES]):
        if stages[stage, USES] > 0 and stages[stage, OUTLOOK] < 0:
            out[stages[stage, STEP_ROW]] = 1


@kernel("void(int64, const int64[:])", on_demand=True)
def renumber_cohort_rows(tables: Tables, numbers: np.ndarray) -> None:
    """`numbers`: of each row that a start or a stage has its new number."""
    starts, stages, desk = cohort_starts_at(tables), stages_at(tables), desk_at(tables)
    for start in range(desk[USED_COHORT_STARTS]):
        if starts[start, START_ROW] >= 0:
            starts[start, START_ROW] = numbers[starts[start, START_ROW]]
    for stage in range(desk[USED_STAGES]):
        if stages[stage, USES] > 0 and stages[stage, OUTLOOK] < 0:
            stages[stage, STEP_ROW] = numbers[stages[stage, STEP_ROW]]
