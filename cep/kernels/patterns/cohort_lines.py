"""What becomes of cohorts and their starts when no row is looked at: they are made and dropped, and come out where they are decided.

`tables` are those of `cep.kernels.patterns.cohort_tables`. Whoever calls has made room for all lines that may be made; where there is none
for what comes out, that is said, and nothing is written.
"""

from __future__ import annotations

from cep.kernels.jit import apart, inlined
from cep.kernels.machine.memory import prefetch
from cep.kernels.patterns.cohort_places import (
    ABOVE,
    ALONG,
    BEGUN,
    COHORT_START_WORDS,
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
    STAGE,
    STAGE_GROUP,
    START_ROW,
    START_SEQ,
    START_TIME,
    START_USED,
    STEP_MOVE,
    STEP_ROW,
    STEP_SEQ,
    USES,
)
from cep.kernels.patterns.cohort_tables import (
    chains_at,
    cohort_groups_at,
    cohort_starts_at,
    complete_at,
    done_at,
    firsts_at,
    path_at,
    stages_at,
)
from cep.kernels.patterns.lines import (
    Number,
    Tables,
    desk_at,
    emitted_at,
    free_line,
    new_line,
    number_together,
    parameters_at,
    rows_at,
)
from cep.kernels.patterns.places import (
    AT,
    BY_ROW,
    EMITTED,
    FAR,
    FIRST_ROW,
    FIRST_TIME,
    HEAD,
    KIND,
    LAST_NODE,
    LIFE,
    MATCH,
    MATCHES,
    NONE,
    NUMBER,
    OF_GROUP,
    OPEN,
    OVER,
    PAST_LAST,
    ROWS_OUT,
    SKIP,
    SKIP_VARIABLE,
    TAIL,
    TO_FIRST,
    TO_NEXT,
    TOGETHER,
    WANTED,
    WANTS_TIMED_OUT,
)

# --- lines ------------------------------------------------------------------------------------------------------------


@inlined
def new_cohort(tables: Tables, group: int, outlook: int, following: int, first: int, last: int) -> Number:
    """One start, or stage below, has it."""
    stages = stages_at(tables)
    stage = new_line(stages, desk_at(tables), FREE_STAGES, LEFT_STAGES)
    stages[stage, OUTLOOK], stages[stage, USES], stages[stage, STAGE_GROUP] = outlook, 1, group
    stages[stage, FOLLOWING_COHORT], stages[stage, FIRST_START], stages[stage, LAST_START] = following, first, last
    return stage


@inlined
def step_up(tables: Tables, stage: int, above: int, row: int, seq: int, move: int) -> None:
    """A cohort until now is below another from now on."""
    stages = stages_at(tables)
    stages[stage, ABOVE], stages[stage, OUTLOOK] = above, NONE
    stages[stage, STEP_ROW], stages[stage, STEP_SEQ], stages[stage, STEP_MOVE] = row, seq, move


@inlined
def link_cohort(tables: Tables, group: int, before: int, cohort: int) -> None:
    """`cohort` (NONE: none) comes behind `before` (NONE: it is the first)."""
    groups, stages = cohort_groups_at(tables), stages_at(tables)
    if before >= 0:
        stages[before, FOLLOWING_COHORT] = cohort
    else:
        groups[group, HEAD] = cohort


@inlined
def _free_start(tables: Tables, group: int, start: int) -> None:
    """And the stages that nothing has any more; not the cohort."""
    starts, stages, desk = cohort_starts_at(tables), stages_at(tables), desk_at(tables)
    stage = starts[start, STAGE]
    stages[stage, USES] -= 1
    while stages[stage, USES] == 0 and stages[stage, OUTLOOK] < 0:
        above = stages[stage, ABOVE]
        free_line(stages, desk, stage, FREE_STAGES, LEFT_STAGES)
        stage = above
        stages[stage, USES] -= 1
    starts[start, START_ROW] = NONE
    free_line(starts, desk, start, FREE_COHORT_STARTS, LEFT_COHORT_STARTS)
    cohort_groups_at(tables)[group, OPEN] -= 1


@inlined
def _free_cohort(tables: Tables, cohort: int) -> None:
    """Its line; nothing has it any more."""
    stages = stages_at(tables)
    stages[cohort, OUTLOOK], stages[cohort, USES] = NONE, 0
    free_line(stages, desk_at(tables), cohort, FREE_STAGES, LEFT_STAGES)


@inlined
def _end_cohort(tables: Tables, group: int, before: int, cohort: int) -> None:
    """The cohort behind `before`, which has no start any more."""
    groups, stages = cohort_groups_at(tables), stages_at(tables)
    link_cohort(tables, group, before, stages[cohort, FOLLOWING_COHORT])
    if groups[group, TAIL] == cohort:
        groups[group, TAIL] = before
    _free_cohort(tables, cohort)
    if before < 0:
        _note_due(tables, group)


@inlined
def _note_due(tables: Tables, group: int) -> None:
    """The group has another first start."""
    groups, starts, stages, parameters = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables), parameters_at(tables)
    if groups[group, HEAD] < 0 or parameters[LIFE] == FAR:
        groups[group, FIRST_DUE] = FAR
    else:
        groups[group, FIRST_DUE] = starts[stages[groups[group, HEAD], FIRST_START], START_TIME] + parameters[LIFE]


@inlined
def drop_cohort(tables: Tables, group: int, before: int, cohort: int) -> None:
    """With all its starts."""
    starts, stages = cohort_starts_at(tables), stages_at(tables)
    start = stages[cohort, FIRST_START]
    while start >= 0:
        following = starts[start, NEXT_START]
        _free_start(tables, group, start)
        start = following
    _end_cohort(tables, group, before, cohort)


@inlined
def drop_first_start(tables: Tables, group: int, before: int, cohort: int) -> None:
    """The first start of a cohort, which ends with its last."""
    starts, stages = cohort_starts_at(tables), stages_at(tables)
    start = stages[cohort, FIRST_START]
    following = starts[start, NEXT_START]
    _free_start(tables, group, start)
    if following < 0:
        _end_cohort(tables, group, before, cohort)
    else:
        stages[cohort, FIRST_START] = following
        if before < 0:
            _note_due(tables, group)


# --- what comes out ---------------------------------------------------------------------------------------------------


@inlined
def tell_start(tables: Tables, kind: int, group: int, start: int, chain: int, now: int, by_row: int) -> bool:
    """Writes what has come of a start, with the rows of a chain; False: there is no room, and nothing is written."""
    groups, starts, stages, path, rows, desk, emitted = (
        cohort_groups_at(tables),
        cohort_starts_at(tables),
        stages_at(tables),
        path_at(tables),
        rows_at(tables),
        desk_at(tables),
        emitted_at(tables),
    )
    firsts, chains = firsts_at(tables), chains_at(tables)
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
    starts, stages, rows = cohort_starts_at(tables), stages_at(tables), rows_at(tables)
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
def _resume(tables: Tables, first: int, stop: int) -> Number:
    """The number of the first row that may begin a match behind the one whose rows came out from `first` to before `stop`."""
    rows, parameters = rows_at(tables), parameters_at(tables)
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
def take_cohort_match(tables: Tables, group: int, before: int, cohort: int, now: int, by_row: int) -> bool:
    """The first start of a cohort has its match: it comes out, and it goes on behind it. False: there is no room."""
    parameters = parameters_at(tables)
    stages, desk = stages_at(tables), desk_at(tables)
    start, first = stages[cohort, FIRST_START], desk[ROWS_OUT]
    if not tell_start(tables, MATCH, group, start, complete_at(tables)[stages[cohort, OUTLOOK]], now, by_row):
        return False
    if parameters[WANTS_TIMED_OUT] and parameters[SKIP] != PAST_LAST:
        _mark_used(tables, cohort, first, desk[ROWS_OUT])
    if parameters[SKIP] == TO_NEXT:
        drop_first_start(tables, group, before, cohort)
        return True
    _drop_before(tables, group, _resume(tables, first, desk[ROWS_OUT]))
    return True


@inlined
def _drop_before(tables: Tables, group: int, resume: int) -> None:
    """All starts of rows before number `resume` of the group."""
    groups, starts, stages = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables)
    cohort, left = groups[group, HEAD], NONE
    while cohort >= 0 and left < 0:
        left = stages[cohort, FIRST_START]
        while left >= 0 and starts[left, START_SEQ] < resume:
            following = starts[left, NEXT_START]
            _free_start(tables, group, left)
            left = following
        if left >= 0:
            stages[cohort, FIRST_START] = left
        else:
            behind = stages[cohort, FOLLOWING_COHORT]
            _free_cohort(tables, cohort)
            cohort = behind
    groups[group, HEAD] = cohort
    if cohort < 0:
        groups[group, TAIL] = NONE
    _note_due(tables, group)


@apart
def apart_decide_cohorts(tables: Tables, group: int, now: int, by_row: int) -> bool:
    """Matches of starts that are known, and do not wait for earlier ones; False: there is no room."""
    groups, stages, done, parameters = cohort_groups_at(tables), stages_at(tables), done_at(tables), parameters_at(tables)
    starts = cohort_starts_at(tables)
    before, cohort = NONE, groups[group, HEAD]
    while cohort >= 0:
        if done[stages[cohort, OUTLOOK]]:
            if stages[cohort, FOLLOWING_COHORT] >= 0:
                prefetch(starts, stages[stages[cohort, FOLLOWING_COHORT], FIRST_START] * COHORT_START_WORDS)
            last, after = stages[cohort, FIRST_START] == stages[cohort, LAST_START], stages[cohort, FOLLOWING_COHORT]
            if not take_cohort_match(tables, group, before, cohort, now, by_row):
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
