"""The loop for patterns whose starts go on alike: those of one outlook are a *cohort*, and a row moves each cohort of its group as a whole.

What stands where in its tables: `cep.kernels.patterns.cohort_places`, `cohort_tables`; what becomes of cohorts and starts: `cohort_lines`.

1. Starts of a group are in order in its cohorts, and the cohorts are in order too; neighbours have different outlooks. So what is decided
   first, and what time is over for first, is in front.
2. A cohort that moves is a stage below a new one from then on. If the cohort before it has come to the same outlook it is below that one,
   whose last starts are its.
3. Where the first start has its match by a row, and all others are over then, that is told without a step.
4. What comes out is written when it is decided, rows and all; where there is no room the loop stops, and goes on there.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import apart, inlined, kernel
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.cohort_lines import (
    apart_decide_cohorts,
    apart_drop_all,
    apart_drop_cohort,
    apart_drop_first,
    apart_tell_start,
    be_staged,
    first_row,
    free_stage,
    link_cohort,
    new_cohort,
    put_below,
    start_line,
    step_from,
    take_cohort_match,
)
from cep.kernels.patterns.cohort_places import (
    ABOVE,
    BELOW,
    BESIDE,
    COHORT_GROUP_WORDS,
    COHORT_START_WORDS,
    DEAD,
    FIRST_DUE,
    FIRST_NUMBER,
    FREE_RINGS,
    FROM,
    GROUPS,
    HEEDING,
    HOLES,
    LAST_BELOW,
    LEFT_STAGES,
    NEXT_NUMBER,
    OUTLOOK,
    PENDING,
    PLAIN,
    RARE_LAST,
    RARE_MATCHES,
    RARE_WORDS,
    RING,
    RING_AT_FIRST,
    RING_SCALE,
    SAME,
    SILENT,
    STAGE_WORDS,
    START_ROW,
    START_SCALE,
    START_SCALE_BITS,
    START_TIME,
    STEP_ROW,
    UPTO,
    USED_COHORT_STARTS,
    USED_STAGES,
    WANTED_STARTS,
)
from cep.kernels.patterns.cohort_tables import (
    begins_at,
    chains_at,
    cohort_groups_at,
    cohort_starts_at,
    complete_at,
    done_at,
    firsts_at,
    heeded_at,
    moves_at,
    rare_at,
    stages_at,
    targets_at,
)
from cep.kernels.patterns.lines import (
    Number,
    Tables,
    desk_at,
    heap_at,
    parameters_at,
    pop,
    push,
)
from cep.kernels.patterns.places import (
    ANY_ROW,
    AT_ROW,
    DROPPED,
    DROPS,
    DUE,
    FAR,
    HEAD,
    HEAP,
    LIFE,
    LIMIT,
    MATCH,
    NONE,
    OVERFULL,
    PAST_LAST,
    QUIET,
    SKIP,
    TAIL,
    TAKEN,
    TIMED_OUT,
    TTL,
    VARIABLES,
    WANTED,
    WANTS_TIMED_OUT,
)

#: Rows ahead at which a group is asked for, the cohorts of one and its starts.
AHEAD, SOON, LAST_SOON = 24, 14, 7
#: Groups in which time passes together, and starts of each that are asked for: a quarter of a megabyte.
DUE_GROUPS, DUE_STARTS = 32, 128
#: Starts on which time decides in one call, and groups, behind which others may have their turn.
PASSED_MAX = 8_192


# --- time -------------------------------------------------------------------------------------------------------------


@inlined
def _group_due(tables: Tables, group: int) -> Number:
    """When time decides on anything of a group, or FAR; of one that has no start that does not matter."""
    groups, parameters = cohort_groups_at(tables), parameters_at(tables)
    due = groups[group, FIRST_DUE]
    return due if parameters[TTL] == FAR else min(due, rare_at(tables)[group, RARE_LAST] + parameters[TTL])


@apart
def apart_pass_cohorts(tables: Tables, group: int, before: int, most: int) -> Number:
    """Time passes until right before `before`, which is a row's or a watermark; FAR: for ever. It decides on `most` starts at most. Returns
    how many it may still, of which 0 is where it may not be done; NONE: there is no room for what comes out."""
    parameters = parameters_at(tables)
    groups, starts, stages = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables)
    complete, done = complete_at(tables), done_at(tables)
    while groups[group, HEAD] >= 0 and most > 0:
        due = _group_due(tables, group)
        if due >= before and before != FAR:
            return most
        cohort = groups[group, HEAD]
        if complete[stages[cohort, OUTLOOK]] >= 0:
            if not take_cohort_match(tables, group, NONE, cohort, due, NONE):
                return NONE
        else:
            number, below = groups[group, FIRST_NUMBER], stages[cohort, BELOW]
            told = parameters[WANTS_TIMED_OUT] and not starts[start_line(tables, group, number), START_ROW] & 1
            if told and not apart_tell_start(tables, TIMED_OUT, group, number, below, 0, NONE, NONE, due, NONE):
                return NONE
            apart_drop_first(tables, group, NONE, cohort)
        most -= 1
        cohort = groups[group, HEAD]
        if cohort >= 0 and done[stages[cohort, OUTLOOK]]:
            groups[group, FIRST_DUE] = due  # it has waited for those that are gone
    return most


# --- a row ------------------------------------------------------------------------------------------------------------


@inlined
def _move_cohorts(tables: Tables, group: int, bits: int, row: int) -> Number:
    """Of a group that is not plain; returns whether a match of one of them is known."""
    groups, stages, parameters = cohort_groups_at(tables), stages_at(tables), parameters_at(tables)
    moves, targets, firsts, done = moves_at(tables), targets_at(tables), firsts_at(tables), done_at(tables)
    heeded, heeding = heeded_at(tables), 0
    last, cohort, found = NONE, groups[group, HEAD], 0
    while cohort >= 0:
        following, outlook = stages[cohort, BESIDE], stages[cohort, OUTLOOK]
        move = moves[(outlook << parameters[VARIABLES]) + bits]
        if move == DEAD:
            apart_drop_cohort(tables, group, last, cohort)
            cohort = following
            continue
        told = move != SAME and firsts[move] != SILENT
        if move != SAME:
            outlook = targets[move]
        found |= done[outlook]
        heeding |= heeded[outlook]
        if last >= 0 and stages[last, OUTLOOK] == outlook:
            stages[last, UPTO], stages[last, BESIDE] = stages[cohort, UPTO], following
            if told:
                step_from(tables, cohort, row, move)
                put_below(tables, last, cohort, cohort)
            else:
                if stages[cohort, BELOW] >= 0:
                    put_below(tables, last, stages[cohort, BELOW], stages[cohort, LAST_BELOW])
                free_stage(tables, cohort)
        elif told:
            above = new_cohort(tables, outlook, following, stages[cohort, FROM], stages[cohort, UPTO], cohort)
            step_from(tables, cohort, row, move)
            link_cohort(tables, group, last, above)
            last = above
        else:
            stages[cohort, OUTLOOK] = outlook
            last = cohort
        cohort = following
    groups[group, TAIL], groups[group, HEEDING] = last, heeding
    alone = last >= 0 and groups[group, HEAD] == last and stages[last, BELOW] < 0
    if alone and not found and _may_be_plain(parameters) and rare_at(tables)[group, HOLES] == 0:
        groups[group, HEAD], groups[group, TAIL] = PLAIN - stages[last, OUTLOOK], NONE
        free_stage(tables, last)
    return found


@inlined
def _may_be_plain(parameters: np.ndarray) -> bool:
    """Does nothing come out when time passes, which does nothing but end the first start?"""
    return bool(parameters[QUIET] and parameters[TTL] == FAR)


@inlined
def _move_plain(tables: Tables, group: int, bits: int, row: int) -> Number:
    """As `_move_cohorts`, of a group that is plain."""
    groups, parameters = cohort_groups_at(tables), parameters_at(tables)
    move = moves_at(tables)[((PLAIN - groups[group, HEAD]) << parameters[VARIABLES]) + bits]
    if move == SAME:
        return 0
    if move == DEAD:
        apart_drop_all(tables, group)
        return 0
    if firsts_at(tables)[move] == SILENT:
        outlook = targets_at(tables)[move]
        groups[group, HEAD], groups[group, HEEDING] = PLAIN - outlook, heeded_at(tables)[outlook]
        return 0  # no match is known behind such a step
    be_staged(tables, group)
    return _move_cohorts(tables, group, bits, row)


@inlined
def _ends_all(tables: Tables, group: int, bits: int) -> Number:
    """The move that the row is to the group's first start, if that has its match with it and all that are open are over then; or NONE: also
    where it only ends what was preferred to a match without it, behind which others are open, and it may begin one."""
    groups, stages, parameters = cohort_groups_at(tables), stages_at(tables), parameters_at(tables)
    head = groups[group, HEAD]
    if parameters[SKIP] != PAST_LAST or head == NONE:
        return NONE
    outlook = PLAIN - head if head <= PLAIN else stages[head, OUTLOOK]
    move = moves_at(tables)[(outlook << parameters[VARIABLES]) + bits]
    if move < 0 or not done_at(tables)[targets_at(tables)[move]]:
        return NONE
    last = chains_at(tables)[firsts_at(tables)[move] + complete_at(tables)[targets_at(tables)[move]], 1]
    return move if last >= 0 else NONE


@inlined
def open_starts_of(tables: Tables, group: int) -> Number:
    """How many starts are open."""
    groups = cohort_groups_at(tables)
    return groups[group, NEXT_NUMBER] - groups[group, FIRST_NUMBER] - rare_at(tables)[group, HOLES]


@inlined
def _begin(tables: Tables, group: int, move: int, time: int, row: int) -> Number:
    """A start: of the last cohort if that has its outlook. Returns whether its match is known."""
    parameters = parameters_at(tables)
    groups, starts, stages = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables)
    outlook, head, number = targets_at(tables)[move], groups[group, HEAD], groups[group, NEXT_NUMBER]
    start = start_line(tables, group, number)
    starts[start, START_TIME], starts[start, START_ROW] = time, row << START_SCALE_BITS | move << 1
    if head == NONE:
        groups[group, FIRST_NUMBER] = number
        if parameters[LIFE] != FAR:
            groups[group, FIRST_DUE] = time + parameters[LIFE]
        if _may_be_plain(parameters):
            groups[group, HEAD] = PLAIN - outlook
        else:
            groups[group, HEAD] = groups[group, TAIL] = new_cohort(tables, outlook, NONE, number, number + 1, NONE)
    elif head != PLAIN - outlook:
        be_staged(tables, group)
        cohort = groups[group, TAIL]
        if stages[cohort, OUTLOOK] == outlook:
            stages[cohort, UPTO] = number + 1
        else:
            made = new_cohort(tables, outlook, NONE, number, number + 1, NONE)
            link_cohort(tables, group, cohort, made)
            groups[group, TAIL] = made
    groups[group, HEEDING] |= heeded_at(tables)[outlook]
    groups[group, NEXT_NUMBER] = number + 1
    return done_at(tables)[outlook]


@inlined
def _drop_oldest(tables: Tables, group: int, now: int, by_row: int) -> bool:
    """False: there is no room for what comes out."""
    groups, parameters = cohort_groups_at(tables), parameters_at(tables)
    cohort = groups[group, HEAD]
    number, below = groups[group, FIRST_NUMBER], stages_at(tables)[cohort, BELOW]
    if parameters[WANTS_TIMED_OUT] and not apart_tell_start(tables, TIMED_OUT, group, number, below, 0, NONE, NONE, now, by_row):
        return False
    apart_drop_first(tables, group, NONE, cohort)
    desk_at(tables)[DROPPED] += 1
    return True


# --- room -------------------------------------------------------------------------------------------------------------


@apart
def apart_renew_ring(tables: Tables, group: int) -> bool:
    """Another ring for the starts of a group, twice as long as they are many; those that are over are left out. False: there is no room for
    it."""
    groups, starts, desk = cohort_groups_at(tables), cohort_starts_at(tables), desk_at(tables)
    class_ = RING_AT_FIRST
    while 1 << class_ < 2 * open_starts_of(tables, group):
        class_ += 1
    ring, mask = desk[FREE_RINGS + class_], (1 << class_) - 1
    if ring >= 0:
        desk[FREE_RINGS + class_] = starts[ring, START_TIME]
    elif desk[USED_COHORT_STARTS] + mask + 1 > len(starts):
        desk[WANTED_STARTS] = mask + 1
        return False
    else:
        ring = desk[USED_COHORT_STARTS]
        desk[USED_COHORT_STARTS] += mask + 1
        for line in range(ring, ring + mask + 1):
            starts[line, START_ROW] = NONE
    number, upto = groups[group, FIRST_NUMBER], groups[group, NEXT_NUMBER]
    for was in range(number, upto):
        line = start_line(tables, group, was)
        if starts[line, START_ROW] >= 0:
            for word in range(COHORT_START_WORDS):
                starts[ring + (number & mask), word] = starts[line, word]
            number += 1
        starts[line, START_TIME] = number  # behind it
    if number < upto:
        _renumber_stages(tables, group)
        groups[group, NEXT_NUMBER], rare_at(tables)[group, HOLES] = number, 0
    free_ring(tables, group)
    groups[group, RING] = ring * RING_SCALE + class_
    return True


@inlined
def free_ring(tables: Tables, group: int) -> None:
    """The group has none any more."""
    groups, starts, desk = cohort_groups_at(tables), cohort_starts_at(tables), desk_at(tables)
    ring, class_ = groups[group, RING] // RING_SCALE, groups[group, RING] % RING_SCALE
    if class_ > 0:
        for line in range(ring, ring + (1 << class_)):
            starts[line, START_ROW] = NONE
        starts[ring, START_TIME] = desk[FREE_RINGS + class_]
        desk[FREE_RINGS + class_] = ring
    groups[group, RING] = 0


@inlined
def _renumber_stages(tables: Tables, group: int) -> None:
    """Starts of the group have other numbers, of which its old ring says what is behind each. A stage below knows the one above it by its
    last word."""
    groups, stages = cohort_groups_at(tables), stages_at(tables)
    cohort = groups[group, HEAD]
    while cohort >= 0:
        stage = cohort
        while True:
            below = stages[stage, BELOW]
            if below >= 0:
                stages[below, FROM] = max(stages[below, FROM], stages[stage, FROM])
            _renumber_stage(tables, group, stage)
            if below >= 0:
                stages[below, ABOVE] = stage
                stage = below
                continue
            while stage != cohort and stages[stage, BESIDE] < 0:
                stage = stages[stage, ABOVE]
            if stage == cohort:
                break
            stages[stages[stage, BESIDE], ABOVE] = stages[stage, ABOVE]
            stage = stages[stage, BESIDE]
        cohort = stages[cohort, BESIDE]


@inlined
def _renumber_stage(tables: Tables, group: int, stage: int) -> None:
    """Its first and last starts are open."""
    starts, stages = cohort_starts_at(tables), stages_at(tables)
    stages[stage, FROM] = starts[start_line(tables, group, stages[stage, FROM]), START_TIME] - 1
    stages[stage, UPTO] = starts[start_line(tables, group, stages[stage, UPTO] - 1), START_TIME]


@inlined
def _has_room(group: int, tables: Tables) -> bool:
    """Is there room for all stages that the next row of the group may make, and in the heap? Else `desk` says how much is wanted."""
    groups, stages, desk, heap = cohort_groups_at(tables), stages_at(tables), desk_at(tables), heap_at(tables)
    wanted = groups[group, NEXT_NUMBER] - groups[group, FIRST_NUMBER] + 3
    if desk[LEFT_STAGES] + len(stages) - desk[USED_STAGES] > wanted and len(heap) > desk[HEAP] + 1:
        return True
    desk[WANTED] = wanted + 1
    return False


@inlined
def _watch(tables: Tables, group: int) -> None:
    """The heap knows when the group has to be looked at at the latest."""
    groups = cohort_groups_at(tables)
    if groups[group, HEAD] >= 0:
        due = _group_due(tables, group)
        if due < groups[group, DUE]:
            push(groups, desk_at(tables), heap_at(tables), group, due)


@inlined
def _ask_ahead(tables: Tables, numbers: np.ndarray, bits: np.ndarray, i: int) -> None:
    """What rows soon look at is asked for, one after the other: a group, its first and last cohorts, its first start and the next one.
    There are no branches, which would often be guessed wrong: what is not there is asked for all the same."""
    lines, stages, starts = cohort_groups_at(tables), stages_at(tables), cohort_starts_at(tables)
    prefetch(lines, numbers[i + AHEAD] * COHORT_GROUP_WORDS)
    group = numbers[i + SOON]
    prefetch(stages, _there(lines[group, HEAD]) * STAGE_WORDS)
    prefetch(stages, _there(lines[group, TAIL]) * STAGE_WORDS)
    prefetch(starts, start_line(tables, group, lines[group, FIRST_NUMBER]) * COHORT_START_WORDS)
    group = numbers[i + LAST_SOON]
    head = _there(lines[group, HEAD])
    prefetch(stages, _there(stages[head, BELOW]) * STAGE_WORDS)
    heeds = ((bits[i + LAST_SOON] | ANY_ROW) & lines[group, HEEDING]) != 0
    prefetch(rare_at(tables), group * heeds * RARE_WORDS)


@inlined
def _there(line: int) -> Number:
    """0, which is at hand, in place of what is negative."""
    return line & ~(line >> 63)


@inlined
def _leave_behind(tables: Tables, group: int, before: int) -> None:
    """Time passes until right before `before`, where nothing comes out of that."""
    groups, starts, stages, parameters = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables), parameters_at(tables)
    while groups[group, FIRST_DUE] < before:
        cohort, number = groups[group, HEAD], groups[group, FIRST_NUMBER] + 1
        start = start_line(tables, group, number)
        if cohort <= PLAIN and number == groups[group, NEXT_NUMBER]:
            apart_drop_all(tables, group)
        elif cohort <= PLAIN or (stages[cohort, BELOW] < 0 and number < stages[cohort, UPTO] and starts[start, START_ROW] >= 0):
            starts[start_line(tables, group, number - 1), START_ROW] = NONE
            groups[group, FIRST_NUMBER] = number
            groups[group, FIRST_DUE] = starts[start, START_TIME] + parameters[LIFE]
            if cohort >= 0:
                stages[cohort, FROM] = number
        else:
            apart_drop_first(tables, group, NONE, cohort)


@inlined
def _pass(tables: Tables, group: int, before: int) -> bool:
    """As `apart_pass_cohorts`."""
    parameters = parameters_at(tables)
    if parameters[QUIET] and parameters[TTL] == FAR:
        _leave_behind(tables, group, before)
        return True
    return _group_due(tables, group) >= before or bool(apart_pass_cohorts(tables, group, before, FAR) >= 0)


@apart
def apart_settle_row(tables: Tables, group: int, now: int, by_row: int) -> Number:
    """What is decided by a row comes out, and where the group has too many starts the oldest is dropped. Returns 0, 1 where there is no
    room, 2 where the group has too many starts and none may be dropped."""
    parameters, desk = parameters_at(tables), desk_at(tables)
    if not apart_decide_cohorts(tables, group, now, by_row):
        return 1
    if open_starts_of(tables, group) > parameters[LIMIT]:
        if not parameters[DROPS]:
            desk[OVERFULL] = group
            return 2
        if not _drop_oldest(tables, group, now, by_row) or not apart_decide_cohorts(tables, group, now, by_row):
            return 1
    return 0


@kernel("int64(int64, const int64[:], int64, const int64[:], const int64[:], int64)", on_demand=True)
def advance_cohorts(tables: Tables, bits: np.ndarray, n: int, numbers: np.ndarray, time: np.ndarray, first: int) -> int:
    """As `cep.kernels.patterns.loop.advance`."""
    lines, desk, parameters, begins = cohort_groups_at(tables), desk_at(tables), parameters_at(tables), begins_at(tables)
    rare, complete, targets, stages = rare_at(tables), complete_at(tables), targets_at(tables), stages_at(tables)
    at, ttl, limit, quiet = desk[AT_ROW], parameters[TTL], parameters[LIMIT], parameters[QUIET]
    if desk[TAKEN]:
        why = apart_settle_row(tables, numbers[at], time[at], at)
        if why:
            return _stop(desk, at, 1, why)
        if not quiet:
            _watch(tables, numbers[at])
        at += 1
    for i in range(at, n):
        group, t, own = numbers[i], time[i], bits[i]
        if i + AHEAD < n:
            _ask_ahead(tables, numbers, bits, i)
        begun, found = begins[own], 0
        if not _has_room(group, tables):
            return _stop(desk, i, 0, 1)
        if not _pass(tables, group, t):
            return _stop(desk, i, 0, 1)
        if ttl != FAR and t - rare[group, RARE_LAST] > ttl:
            rare[group, RARE_MATCHES] = 0
        if begun >= 0:
            size = 1 << (lines[group, RING] & (RING_SCALE - 1))
            if lines[group, NEXT_NUMBER] - lines[group, FIRST_NUMBER] + 1 >= size and not apart_renew_ring(tables, group):
                return _stop(desk, i, 0, 1)
        if (own | ANY_ROW) & lines[group, HEEDING]:
            move = _ends_all(tables, group, own)
            head = lines[group, HEAD]
            if move >= 0:
                number, chain = lines[group, FIRST_NUMBER], complete[targets[move]]
                below = stages[head, BELOW] if head >= 0 else NONE
                if not apart_tell_start(tables, MATCH, group, number, below, chain, first + i, move, t, i):
                    return _stop(desk, i, 0, 1)
                apart_drop_all(tables, group)
                begun = NONE
            elif head <= PLAIN:
                found = _move_plain(tables, group, own, first + i)
            else:
                found = _move_cohorts(tables, group, own, first + i)
        if begun >= 0:
            found |= _begin(tables, group, begun, t, first + i)
        if ttl != FAR:
            rare[group, RARE_LAST] = t
        if found or lines[group, NEXT_NUMBER] - lines[group, FIRST_NUMBER] > limit:
            be_staged(tables, group)
            why = apart_settle_row(tables, group, t, i)
            if why:
                return _stop(desk, i, 1, why)
        if not quiet:
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
    """The first starts of these groups are asked for, and their cohorts: to wait for one after the other took nine tenths of the time."""
    lines, stages, starts, heap = cohort_groups_at(tables), stages_at(tables), cohort_starts_at(tables), heap_at(tables)
    first = desk_at(tables)[HEAP]
    for k in range(first, first + desk_at(tables)[PENDING]):
        group = heap[k, 1]
        prefetch(stages, lines[group, HEAD] * STAGE_WORDS)
        prefetch(starts, start_line(tables, group, lines[group, FIRST_NUMBER]) * COHORT_START_WORDS)


@kernel("int64(int64, int64)", on_demand=True)
def let_pass_cohorts(tables: Tables, before: int) -> int:
    """Time passes in the groups that the heap has until right before `before`; FAR: for ever. Returns 0 when it is done, 1 where there is
    no room, 2 where others may have their turn, and it has not come to the end."""
    heap, desk, left = heap_at(tables), desk_at(tables), PASSED_MAX
    while desk[PENDING] > 0 or (desk[HEAP] > 0 and heap[0, 0] < before):
        if desk[PENDING] == 0:
            _take_due(tables, before)
            _ask_for_due(tables, before)
        while desk[PENDING] > 0:
            group, known = heap[desk[HEAP], 1], desk[HEAP]
            left = apart_pass_cohorts(tables, group, before, left)
            if left <= 0:
                return 2 if left == 0 else 1
            left -= 1
            desk[PENDING] -= 1
            _watch(tables, group)
            if desk[HEAP] == known:
                heap[known, 1] = heap[known + desk[PENDING], 1]
    return 0


@kernel("void(int64, int64)", on_demand=True)
def settle_cohorts(tables: Tables, before: int) -> None:
    """Time passes in all groups until right before `before`, where nothing comes out of that."""
    lines = cohort_groups_at(tables)
    for group in range(desk_at(tables)[GROUPS]):
        if lines[group, HEAD] <= PLAIN:
            _leave_behind(tables, group, before)
        elif lines[group, HEAD] >= 0 and _group_due(tables, group) < before:
            apart_pass_cohorts(tables, group, before, FAR)


@kernel("void(int64, const int64[:])", on_demand=True)
def watch_cohorts(tables: Tables, restored: np.ndarray) -> None:
    """The heap knows when the groups `restored` have to be looked at; it has room for them."""
    for k in range(len(restored)):
        _watch(tables, restored[k])


@kernel("UniTuple(int64, 2)(int64)", on_demand=True)
def oldest_cohort_row(tables: Tables) -> tuple[int, int]:
    """The first row that a start or a stage has, FAR if none has one, and how many starts there are. That of a group's first start is
    before all others of the group."""
    lines, starts, groups = cohort_groups_at(tables), cohort_starts_at(tables), desk_at(tables)[GROUPS]
    oldest, open_ = FAR, 0
    for group in range(groups):
        ahead = min(group + AHEAD, groups - 1)
        prefetch(starts, start_line(tables, ahead, lines[ahead, FIRST_NUMBER]) * COHORT_START_WORDS)
        if lines[group, HEAD] != NONE:
            oldest = min(oldest, first_row(starts, start_line(tables, group, lines[group, FIRST_NUMBER])))
            open_ += open_starts_of(tables, group)
    return oldest, open_


@kernel("int64(int64, uint8[:], int64[:])", on_demand=True)
def mark_cohort_rows(tables: Tables, out: np.ndarray, lines: np.ndarray) -> int:
    """Sets 1 for each row that a start or a stage has; `out` has one item more. `lines`: of open starts, with room for one more than there
    are lines; returns how many. There is no branch by what nobody could foretell: whether a line is one of an open start."""
    starts, stages, desk, count = cohort_starts_at(tables), stages_at(tables), desk_at(tables), 0
    none = len(out) - 1
    for start in range(desk[USED_COHORT_STARTS]):
        row = first_row(starts, start)
        over = row >> 63
        out[(row & ~over) | (none & over)] = 1
        lines[count] = start
        count += 1 + over
    for stage in range(desk[USED_STAGES]):
        if stages[stage, UPTO] != NONE and stages[stage, OUTLOOK] < 0:
            out[stages[stage, STEP_ROW]] = 1
    return count


@kernel("void(int64, const int64[:], const int64[:])", on_demand=True)
def renumber_cohort_rows(tables: Tables, lines: np.ndarray, numbers: np.ndarray) -> None:
    """`numbers`: of each row that a start or a stage has its new number; `lines`: of open starts."""
    starts, stages, desk = cohort_starts_at(tables), stages_at(tables), desk_at(tables)
    for k in range(len(lines)):
        begun = starts[lines[k], START_ROW] & (START_SCALE - 1)
        starts[lines[k], START_ROW] = numbers[first_row(starts, lines[k])] << START_SCALE_BITS | begun
    for stage in range(desk[USED_STAGES]):
        if stages[stage, UPTO] != NONE and stages[stage, OUTLOOK] < 0:
            stages[stage, STEP_ROW] = numbers[stages[stage, STEP_ROW]]


@kernel("void(int64, const int64[:])", on_demand=True)
def free_rings(tables: Tables, groups: np.ndarray) -> None:
    """Of groups that have no start, and are forgotten."""
    for k in range(len(groups)):
        free_ring(tables, groups[k])


@kernel("void(int64, int64[:], int64[:])", on_demand=True)
def place_stages(tables: Tables, group_of: np.ndarray, before: np.ndarray) -> None:
    """Of each stage that is in use its group. `before`: room for the stage that each is first below, or beside."""
    lines, stages = cohort_groups_at(tables), stages_at(tables)
    group_of[:] = NONE
    for stage in range(len(before)):
        if stages[stage, UPTO] != NONE:
            for word in (BELOW, BESIDE):
                if stages[stage, word] >= 0:
                    before[stages[stage, word]] = stage
    for group in range(desk_at(tables)[GROUPS]):
        if lines[group, HEAD] >= 0:
            group_of[lines[group, HEAD]] = group
    for stage in range(len(before)):
        if stages[stage, UPTO] != NONE:
            known = stage
            while group_of[known] < 0:
                known = before[known]
            group, known = group_of[known], stage
            while group_of[known] < 0:
                group_of[known] = group
                known = before[known]
