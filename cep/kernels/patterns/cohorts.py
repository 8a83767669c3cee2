"""The loop for patterns whose starts go on alike: those of one outlook are a *cohort*, and a row moves each cohort of its group as a whole.

`tables` are (groups, starts, stages, path, rows, desk, emitted, heap), by the words of `cep.kernels.patterns.cohort_places`; `outlooks` are
(begins, moves, targets, firsts, chains, complete, done) of `cep.compile.patterns.outlooks`, and the parameters of `places`.

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
from cep.kernels.machine.addresses import lines_of
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.cohort_places import (
    ABOVE,
    ALONG,
    BEGUN,
    COHORT_GROUP_WORDS,
    COHORT_START_WORDS,
    DEAD,
    FIRST_DUE,
    FIRST_START,
    FOLLOWING_COHORT,
    FREE_COHORT_STARTS,
    FREE_STAGES,
    LAST_START,
    LEFT_COHORT_STARTS,
    LEFT_STAGES,
    NEXT_START,
    OUTLOOK,
    ROWS_OUT,
    SAME,
    STAGE,
    STAGE_GROUP,
    STAGE_WORDS,
    START_ROW,
    START_SEQ,
    START_TIME,
    START_USED,
    STEP_MOVE,
    STEP_ROW,
    STEP_SEQ,
    TAKEN,
    USED_COHORT_STARTS,
    USED_STAGES,
    USES,
)
from cep.kernels.patterns.places import (
    AT,
    AT_ROW,
    BY_ROW,
    DROPPED,
    DROPS,
    DUE,
    EMITTED,
    EMITTED_WORDS,
    FAR,
    FIRST_ROW,
    FIRST_TIME,
    HEAD,
    HEAP,
    KIND,
    LAST,
    LAST_NODE,
    LIMIT,
    MATCH,
    MATCHES,
    NONE,
    NUMBER,
    OF_GROUP,
    OPEN,
    OVER,
    OVERFULL,
    PAST_LAST,
    QUIET,
    SEQ,
    SKIP,
    SKIP_VARIABLE,
    TAIL,
    TIMED_OUT,
    TO_FIRST,
    TO_NEXT,
    TOGETHER,
    TTL,
    VARIABLES,
    WANTED,
    WANTS_TIMED_OUT,
    WITHIN,
)
from cep.kernels.patterns.ways import Number, free_line, new_line, number_together, pop, push

Tables = Any
Outlooks = Any
#: Rows ahead at which a group is asked for, and the first cohort of one.
AHEAD, SOON = 16, 8


@inlined
def _tables_of(
    groups: np.ndarray,
    starts: np.ndarray,
    stages: np.ndarray,
    path: np.ndarray,
    rows: np.ndarray,
    desk: np.ndarray,
    emitted: np.ndarray,
    heap: np.ndarray,
) -> Tables:
    """As all functions here have them, the widths of lines being known."""
    return (
        lines_of(groups, COHORT_GROUP_WORDS),
        lines_of(starts, COHORT_START_WORDS),
        lines_of(stages, STAGE_WORDS),
        path,
        lines_of(rows, 4),
        desk,
        lines_of(emitted, EMITTED_WORDS),
        lines_of(heap, 2),
    )


# --- lines ------------------------------------------------------------------------------------------------------------


@inlined
def _new_cohort(tables: Tables, group: int, outlook: int, following: int, first: int, last: int) -> Number:
    """One start, or stage below, has it."""
    stages = tables[2]
    stage = new_line(stages, tables[5], FREE_STAGES, LEFT_STAGES)
    stages[stage, OUTLOOK], stages[stage, USES], stages[stage, STAGE_GROUP] = outlook, 1, group
    stages[stage, FOLLOWING_COHORT], stages[stage, FIRST_START], stages[stage, LAST_START] = following, first, last
    return stage


@inlined
def _step_up(tables: Tables, stage: int, above: int, row: int, seq: int, move: int) -> None:
    """A cohort until now is below another from now on."""
    stages = tables[2]
    stages[stage, ABOVE], stages[stage, OUTLOOK] = above, NONE
    stages[stage, STEP_ROW], stages[stage, STEP_SEQ], stages[stage, STEP_MOVE] = row, seq, move


@inlined
def _link(tables: Tables, group: int, before: int, cohort: int) -> None:
    """`cohort` (NONE: none) comes behind `before` (NONE: it is the first)."""
    groups, stages = tables[0], tables[2]
    if before >= 0:
        stages[before, FOLLOWING_COHORT] = cohort
    else:
        groups[group, HEAD] = cohort


@inlined
def _free_start(tables: Tables, group: int, start: int) -> None:
    """And the stages that nothing has any more; not the cohort."""
    starts, stages, desk = tables[1], tables[2], tables[5]
    stage = starts[start, STAGE]
    stages[stage, USES] -= 1
    while stages[stage, USES] == 0 and stages[stage, OUTLOOK] < 0:
        above = stages[stage, ABOVE]
        free_line(stages, desk, stage, FREE_STAGES, LEFT_STAGES)
        stage = above
        stages[stage, USES] -= 1
    starts[start, START_ROW] = NONE
    free_line(starts, desk, start, FREE_COHORT_STARTS, LEFT_COHORT_STARTS)
    tables[0][group, OPEN] -= 1


@inlined
def _end_cohort(tables: Tables, parameters: np.ndarray, group: int, before: int, cohort: int) -> None:
    """The cohort behind `before`, which has no start any more."""
    groups, stages, desk = tables[0], tables[2], tables[5]
    _link(tables, group, before, stages[cohort, FOLLOWING_COHORT])
    if groups[group, TAIL] == cohort:
        groups[group, TAIL] = before
    stages[cohort, OUTLOOK], stages[cohort, USES] = NONE, 0
    free_line(stages, desk, cohort, FREE_STAGES, LEFT_STAGES)
    if before < 0:
        _note_due(tables, parameters, group)


@inlined
def _note_due(tables: Tables, parameters: np.ndarray, group: int) -> None:
    """The group has another first start."""
    groups, starts, stages = tables[0], tables[1], tables[2]
    if groups[group, HEAD] < 0 or parameters[WITHIN] == FAR:
        groups[group, FIRST_DUE] = FAR
    else:
        groups[group, FIRST_DUE] = starts[stages[groups[group, HEAD], FIRST_START], START_TIME] + parameters[WITHIN]


@inlined
def _drop_cohort(tables: Tables, parameters: np.ndarray, group: int, before: int, cohort: int) -> None:
    """With all its starts."""
    starts, stages = tables[1], tables[2]
    start = stages[cohort, FIRST_START]
    while start >= 0:
        following = starts[start, NEXT_START]
        _free_start(tables, group, start)
        start = following
    _end_cohort(tables, parameters, group, before, cohort)


@inlined
def _drop_first(tables: Tables, parameters: np.ndarray, group: int, before: int, cohort: int) -> None:
    """The first start of a cohort, which ends with its last."""
    starts, stages = tables[1], tables[2]
    start = stages[cohort, FIRST_START]
    following = starts[start, NEXT_START]
    _free_start(tables, group, start)
    if following < 0:
        _end_cohort(tables, parameters, group, before, cohort)
    else:
        stages[cohort, FIRST_START] = following
        if before < 0:
            _note_due(tables, parameters, group)


# --- what comes out ---------------------------------------------------------------------------------------------------


@inlined
def _tell(tables: Tables, outlooks: Outlooks, kind: int, group: int, start: int, chain: int, now: int, by_row: int) -> bool:
    """Writes what has come of a start, with the rows of a chain; False: there is no room, and nothing is written."""
    groups, starts, stages, path, rows, desk, emitted = tables[0], tables[1], tables[2], tables[3], tables[4], tables[5], tables[6]
    firsts, chains = outlooks[3], outlooks[4]
    steps, stage = 0, starts[start, STAGE]
    while stages[stage, OUTLOOK] < 0:
        if steps < len(path):
            path[steps] = stage
        steps += 1
        stage = stages[stage, ABOVE]
    begin, line = desk[ROWS_OUT], desk[EMITTED]
    stop = begin + steps + 1
    if line == len(emitted) or steps > len(path) or stop > len(rows):
        desk[WANTED] = steps + 1
        return False
    at = stop  # from the last row to the first: where that will be is not known before
    for k in range(steps - 1, -1, -1):
        stage = path[k]
        if stages[stage, STEP_MOVE] != ALONG:
            own = firsts[stages[stage, STEP_MOVE]] + chain
            chain = chains[own, 0]
            if chains[own, 1] >= 0:
                at -= 1
                rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = line, stages[stage, STEP_ROW], chains[own, 1], stages[stage, STEP_SEQ]
    at -= 1
    variable = chains[firsts[starts[start, BEGUN]] + chain, 1]
    rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = line, starts[start, START_ROW], variable, starts[start, START_SEQ]
    if at > begin:
        for k in range(stop - at):
            for word in range(4):
                rows[begin + k, word] = rows[at + k, word]
    desk[ROWS_OUT] = begin + stop - at
    emitted[line, TOGETHER] = number_together(groups, desk, group, now, by_row) if kind == MATCH else 0
    emitted[line, KIND], emitted[line, OF_GROUP], emitted[line, BY_ROW], emitted[line, LAST_NODE] = kind, group, by_row, NONE
    emitted[line, AT], emitted[line, NUMBER] = OVER if now == FAR else now, groups[group, MATCHES]
    emitted[line, FIRST_TIME], emitted[line, FIRST_ROW] = starts[start, START_TIME], starts[start, START_ROW]
    desk[EMITTED] = line + 1
    return True


@inlined
def _mark_used(tables: Tables, cohort: int, first: int, stop: int) -> None:
    """Starts behind the first one of `cohort` whose rows are among those that came out from `first` to before `stop`."""
    starts, stages, rows = tables[1], tables[2], tables[4]
    other, k = starts[stages[cohort, FIRST_START], NEXT_START], first
    while k < stop:
        if other < 0:
            cohort = stages[cohort, FOLLOWING_COHORT]
            if cohort < 0:
                return
            other = stages[cohort, FIRST_START]
        elif starts[other, START_SEQ] < rows[k, 3]:
            other = starts[other, NEXT_START]
        else:
            if starts[other, START_SEQ] == rows[k, 3]:
                starts[other, START_USED] = 1
            k += 1


@inlined
def _resume(tables: Tables, parameters: np.ndarray, first: int, stop: int) -> Number:
    """The number of the first row that may begin a match behind the one whose rows came out from `first` to before `stop`."""
    rows = tables[4]
    if parameters[SKIP] == PAST_LAST:
        return rows[stop - 1, 3] + 1
    found = NONE
    for k in range(first, stop):
        if rows[k, 2] == parameters[SKIP_VARIABLE]:
            found = rows[k, 3]
            if parameters[SKIP] == TO_FIRST:
                return found
    return found


@inlined
def _take_match(
    tables: Tables, outlooks: Outlooks, parameters: np.ndarray, group: int, before: int, cohort: int, now: int, by_row: int
) -> bool:
    """The first start of a cohort has its match: it comes out, and it goes on behind it. False: there is no room."""
    groups, starts, stages, desk = tables[0], tables[1], tables[2], tables[5]
    start, first = stages[cohort, FIRST_START], desk[ROWS_OUT]
    if not _tell(tables, outlooks, MATCH, group, start, outlooks[5][stages[cohort, OUTLOOK]], now, by_row):
        return False
    if parameters[WANTS_TIMED_OUT] and parameters[SKIP] != PAST_LAST:
        _mark_used(tables, cohort, first, desk[ROWS_OUT])
    if parameters[SKIP] == TO_NEXT:
        _drop_first(tables, parameters, group, before, cohort)
        return True
    resume = _resume(tables, parameters, first, desk[ROWS_OUT])
    while groups[group, HEAD] >= 0:
        cohort = groups[group, HEAD]
        if starts[stages[cohort, FIRST_START], START_SEQ] >= resume:
            return True
        _drop_first(tables, parameters, group, NONE, cohort)
    return True


@apart
def apart_decide_cohorts(tables: Tables, outlooks: Outlooks, parameters: np.ndarray, group: int, now: int, by_row: int) -> bool:
    """Matches of starts that are known, and do not wait for earlier ones; False: there is no room."""
    groups, stages, done = tables[0], tables[2], outlooks[6]
    before, cohort = NONE, groups[group, HEAD]
    while cohort >= 0:
        if done[stages[cohort, OUTLOOK]]:
            last, after = stages[cohort, FIRST_START] == stages[cohort, LAST_START], stages[cohort, FOLLOWING_COHORT]
            if not _take_match(tables, outlooks, parameters, group, before, cohort, now, by_row):
                return False
            if parameters[SKIP] != TO_NEXT:
                cohort = groups[group, HEAD]
            elif last:
                cohort = after
        elif parameters[SKIP] != TO_NEXT:
            return True
        else:
            before, cohort = cohort, stages[cohort, FOLLOWING_COHORT]
    return True


# --- time -------------------------------------------------------------------------------------------------------------


@inlined
def _group_due(tables: Tables, parameters: np.ndarray, group: int) -> Number:
    """When time decides on anything of a group that has a start, or FAR."""
    groups = tables[0]
    due = groups[group, FIRST_DUE]
    return due if parameters[TTL] == FAR else min(due, groups[group, LAST] + parameters[TTL])


@apart
def apart_pass_cohorts(tables: Tables, outlooks: Outlooks, parameters: np.ndarray, group: int, before: int) -> bool:
    """Time passes until right before `before`, which is a row's or a watermark; FAR: for ever. False: there is no room for what comes
    out."""
    groups, starts, stages, complete = tables[0], tables[1], tables[2], outlooks[5]
    while groups[group, HEAD] >= 0:
        due = _group_due(tables, parameters, group)
        if due >= before and before != FAR:
            return True
        cohort = groups[group, HEAD]
        start = stages[cohort, FIRST_START]
        if complete[stages[cohort, OUTLOOK]] >= 0:
            if not _take_match(tables, outlooks, parameters, group, NONE, cohort, due, NONE):
                return False
        else:
            told = parameters[WANTS_TIMED_OUT] and not starts[start, START_USED]
            if told and not _tell(tables, outlooks, TIMED_OUT, group, start, 0, due, NONE):
                return False
            _drop_first(tables, parameters, group, NONE, cohort)
    return True


# --- a row ------------------------------------------------------------------------------------------------------------


@inlined
def _move_cohorts(tables: Tables, outlooks: Outlooks, parameters: np.ndarray, group: int, bits: int, row: int, seq: int) -> Number:
    """Returns whether a match of one of them is known."""
    groups, starts, stages = tables[0], tables[1], tables[2]
    moves, targets, done = outlooks[1], outlooks[2], outlooks[6]
    last, cohort, found = NONE, groups[group, HEAD], 0
    while cohort >= 0:
        following, outlook = stages[cohort, FOLLOWING_COHORT], stages[cohort, OUTLOOK]
        move = moves[(outlook << parameters[VARIABLES]) + bits]
        if move == DEAD:
            _drop_cohort(tables, parameters, group, last, cohort)
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
            _step_up(tables, cohort, last, row, seq, move)
        elif move != SAME:
            above = _new_cohort(tables, group, outlook, following, stages[cohort, FIRST_START], stages[cohort, LAST_START])
            _step_up(tables, cohort, above, row, seq, move)
            _link(tables, group, last, above)
            last = above
        else:
            last = cohort
        cohort = following
    groups[group, TAIL] = last
    return found


@inlined
def _begin(tables: Tables, outlooks: Outlooks, parameters: np.ndarray, group: int, move: int, time: int, row: int, seq: int) -> Number:
    """A start: of the last cohort if that has its outlook. Returns whether its match is known."""
    groups, starts, stages, desk = tables[0], tables[1], tables[2], tables[5]
    outlook, cohort = outlooks[2][move], groups[group, TAIL]
    start = new_line(starts, desk, FREE_COHORT_STARTS, LEFT_COHORT_STARTS)
    starts[start, NEXT_START], starts[start, START_TIME], starts[start, START_SEQ], starts[start, START_ROW] = NONE, time, seq, row
    starts[start, BEGUN], starts[start, START_USED] = move, 0
    if cohort >= 0 and stages[cohort, OUTLOOK] == outlook:
        starts[stages[cohort, LAST_START], NEXT_START] = start
        stages[cohort, LAST_START] = start
        stages[cohort, USES] += 1
    else:
        made = _new_cohort(tables, group, outlook, NONE, start, start)
        _link(tables, group, cohort, made)
        if cohort < 0 and parameters[WITHIN] != FAR:
            groups[group, FIRST_DUE] = time + parameters[WITHIN]
        groups[group, TAIL] = cohort = made
    starts[start, STAGE] = cohort
    groups[group, OPEN] += 1
    return outlooks[6][outlook]


@inlined
def _drop_oldest(tables: Tables, outlooks: Outlooks, parameters: np.ndarray, group: int, now: int, by_row: int) -> bool:
    """False: there is no room for what comes out."""
    groups, stages = tables[0], tables[2]
    cohort = groups[group, HEAD]
    if parameters[WANTS_TIMED_OUT] and not _tell(tables, outlooks, TIMED_OUT, group, stages[cohort, FIRST_START], 0, now, by_row):
        return False
    _drop_first(tables, parameters, group, NONE, cohort)
    tables[5][DROPPED] += 1
    return True


@inlined
def _has_room(group: int, tables: Tables) -> Any:
    """Is there room for all that the next row of the group may make?"""
    groups, starts, stages, desk, heap = tables[0], tables[1], tables[2], tables[5], tables[7]
    room = desk[LEFT_COHORT_STARTS] + len(starts) - desk[USED_COHORT_STARTS] > 1 and desk[HEAP] + 1 < len(heap)
    return room and desk[LEFT_STAGES] + len(stages) - desk[USED_STAGES] > groups[group, OPEN] + 2


@inlined
def _watch(tables: Tables, parameters: np.ndarray, group: int) -> None:
    """The heap knows when the group has to be looked at at the latest."""
    groups = tables[0]
    if groups[group, HEAD] >= 0:
        due = _group_due(tables, parameters, group)
        if due < groups[group, DUE]:
            push(tables, group, due)


COHORT_TABLES = ", ".join(["int64[:, :]"] * 3 + ["int64[:]", "int64[:, :]", "int64[:]"] + ["int64[:, :]"] * 2)
#: And the parameters.
OUTLOOKS = ", ".join(["const int64[:]"] * 4 + ["const int64[:, :]"] + ["const int64[:]"] * 3)


@kernel(f"int64({COHORT_TABLES}, {OUTLOOKS}, const int64[:], int64, const int64[:], const int64[:], int64)", on_demand=True)
def advance_cohorts(
    groups: np.ndarray,
    starts: np.ndarray,
    stages: np.ndarray,
    path: np.ndarray,
    rows: np.ndarray,
    desk: np.ndarray,
    emitted: np.ndarray,
    heap: np.ndarray,
    begins: np.ndarray,
    moves: np.ndarray,
    targets: np.ndarray,
    firsts: np.ndarray,
    chains: np.ndarray,
    complete: np.ndarray,
    done: np.ndarray,
    parameters: np.ndarray,
    bits: np.ndarray,
    n: int,
    numbers: np.ndarray,
    time: np.ndarray,
    first: int,
) -> int:
    """As `cep.kernels.patterns.loop.advance`."""
    tables = _tables_of(groups, starts, stages, path, rows, desk, emitted, heap)
    outlooks = (begins, moves, targets, firsts, chains, complete, done)
    lines = tables[0]
    while desk[AT_ROW] < n:
        i = desk[AT_ROW]
        group, t, found = numbers[i], time[i], desk[TAKEN]
        if i + AHEAD < n:
            prefetch(groups, numbers[i + AHEAD] * COHORT_GROUP_WORDS)
            prefetch(stages, lines[numbers[i + SOON], HEAD] * STAGE_WORDS)
        if not found:
            if not _has_room(group, tables):
                desk[WANTED] = lines[group, OPEN] + 3
                return 1
            over = lines[group, HEAD] >= 0 and _group_due(tables, parameters, group) < t
            if over and not apart_pass_cohorts(tables, outlooks, parameters, group, t):
                return 1
            if parameters[TTL] != FAR and lines[group, LAST] != NONE and t - lines[group, LAST] > parameters[TTL]:
                lines[group, MATCHES] = 0
            seq = lines[group, SEQ]
            if lines[group, HEAD] >= 0:
                found = _move_cohorts(tables, outlooks, parameters, group, bits[i], first + i, seq)
            if begins[bits[i]] >= 0:
                found |= _begin(tables, outlooks, parameters, group, begins[bits[i]], t, first + i, seq)
            lines[group, SEQ], lines[group, LAST] = seq + 1, t
            desk[TAKEN] = 1
        if found and not apart_decide_cohorts(tables, outlooks, parameters, group, t, i):
            return 1
        if lines[group, OPEN] > parameters[LIMIT]:
            if not parameters[DROPS]:
                desk[OVERFULL] = group
                return 2
            if not _drop_oldest(tables, outlooks, parameters, group, t, i):
                return 1
            if not apart_decide_cohorts(tables, outlooks, parameters, group, t, i):
                return 1
        if not parameters[QUIET]:
            _watch(tables, parameters, group)
        desk[TAKEN], desk[AT_ROW] = 0, i + 1
    return 0


@kernel(f"int64({COHORT_TABLES}, {OUTLOOKS}, int64)", on_demand=True)
def let_pass_cohorts(
    groups: np.ndarray,
    starts: np.ndarray,
    stages: np.ndarray,
    path: np.ndarray,
    rows: np.ndarray,
    desk: np.ndarray,
    emitted: np.ndarray,
    heap: np.ndarray,
    begins: np.ndarray,
    moves: np.ndarray,
    targets: np.ndarray,
    firsts: np.ndarray,
    chains: np.ndarray,
    complete: np.ndarray,
    done: np.ndarray,
    parameters: np.ndarray,
    before: int,
) -> int:
    """Time passes in the groups that the heap has until right before `before`; FAR: for ever. Returns 0 when it is done, 1 where there is
    no room."""
    tables = _tables_of(groups, starts, stages, path, rows, desk, emitted, heap)
    outlooks = (begins, moves, targets, firsts, chains, complete, done)
    lines, first = tables[0], tables[7]
    while desk[HEAP] > 0 and first[0, 0] < before:
        group = first[0, 1]
        if lines[group, DUE] == first[0, 0]:
            if not apart_pass_cohorts(tables, outlooks, parameters, group, before):
                return 1
            lines[group, DUE] = FAR
            pop(tables)
            _watch(tables, parameters, group)
        else:
            pop(tables)
    return 0


@kernel(f"void({COHORT_TABLES}, {OUTLOOKS}, int64)", on_demand=True)
def settle_cohorts(
    groups: np.ndarray,
    starts: np.ndarray,
    stages: np.ndarray,
    path: np.ndarray,
    rows: np.ndarray,
    desk: np.ndarray,
    emitted: np.ndarray,
    heap: np.ndarray,
    begins: np.ndarray,
    moves: np.ndarray,
    targets: np.ndarray,
    firsts: np.ndarray,
    chains: np.ndarray,
    complete: np.ndarray,
    done: np.ndarray,
    parameters: np.ndarray,
    before: int,
) -> None:
    """Time passes in all groups until right before `before`, where nothing comes out of that."""
    tables = _tables_of(groups, starts, stages, path, rows, desk, emitted, heap)
    outlooks = (begins, moves, targets, firsts, chains, complete, done)
    lines = tables[0]
    for group in range(len(lines)):
        if lines[group, HEAD] >= 0 and _group_due(tables, parameters, group) < before:
            apart_pass_cohorts(tables, outlooks, parameters, group, before)


@kernel(f"void({COHORT_TABLES}, const int64[:], const int64[:])", on_demand=True)
def watch_cohorts(
    groups: np.ndarray,
    starts: np.ndarray,
    stages: np.ndarray,
    path: np.ndarray,
    rows: np.ndarray,
    desk: np.ndarray,
    emitted: np.ndarray,
    heap: np.ndarray,
    parameters: np.ndarray,
    restored: np.ndarray,
) -> None:
    """The heap knows when the groups `restored` have to be looked at; it has room for them."""
    tables = _tables_of(groups, starts, stages, path, rows, desk, emitted, heap)
    for k in range(len(restored)):
        _watch(tables, parameters, restored[k])
