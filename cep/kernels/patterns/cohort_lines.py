"""What becomes of cohorts and their starts when no row is looked at: they are made and dropped, and come out where they are decided.

`tables` are those of `cep.kernels.patterns.cohort_tables`. Whoever calls has made room for all lines that may be made; where there is none
for what comes out, that is said, and nothing is written.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import apart, inlined
from cep.kernels.patterns.cohort_places import (
    ABOVE,
    BELOW,
    BESIDE,
    FIRST_DUE,
    FIRST_NUMBER,
    FREE_STAGES,
    FROM,
    HEEDING,
    HOLES,
    LAST_BELOW,
    LEFT_STAGES,
    LOWEST,
    NEXT_NUMBER,
    OUTLOOK,
    PLAIN,
    RARE_MATCHES,
    RING,
    RING_SCALE,
    START_ROW,
    START_SCALE,
    START_SCALE_BITS,
    START_TIME,
    STEP_ROW,
    UPTO,
)
from cep.kernels.patterns.cohort_tables import (
    chains_at,
    cohort_groups_at,
    cohort_starts_at,
    complete_at,
    done_at,
    firsts_at,
    rare_at,
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
    NONE,
    NUMBER,
    OF_GROUP,
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

#: A row is looked for among at least so many starts for each row of its match.
FEW = 16

# --- lines ------------------------------------------------------------------------------------------------------------


@inlined
def start_line(tables: Tables, group: int, number: int) -> Number:
    """Where the start of that number lies."""
    ring = cohort_groups_at(tables)[group, RING]
    return (ring >> 6) + (number & ((1 << (ring & (RING_SCALE - 1))) - 1))


@inlined
def first_row(starts: np.ndarray, line: int) -> Number:
    """The number among all of a start's first row; negative: the start is over."""
    return starts[line, START_ROW] >> START_SCALE_BITS


@inlined
def new_cohort(tables: Tables, outlook: int, beside: int, first: int, upto: int, below: int) -> Number:
    """Of starts from `first` to before `upto`, those of the stage `below` (NONE: none) first."""
    stages = stages_at(tables)
    stage = new_line(stages, desk_at(tables), FREE_STAGES, LEFT_STAGES)
    stages[stage, BELOW], stages[stage, BESIDE], stages[stage, FROM], stages[stage, UPTO] = below, beside, first, upto
    stages[stage, OUTLOOK], stages[stage, LAST_BELOW], stages[stage, LOWEST] = outlook, below, stage
    if below >= 0:
        _be_first_below(tables, stage, stage, below)
    return stage


@inlined
def be_staged(tables: Tables, group: int) -> None:
    """A group that is plain has a line for its cohort from now on."""
    groups = cohort_groups_at(tables)
    if groups[group, HEAD] <= PLAIN:
        first, upto = groups[group, FIRST_NUMBER], groups[group, NEXT_NUMBER]
        groups[group, HEAD] = groups[group, TAIL] = new_cohort(tables, PLAIN - groups[group, HEAD], NONE, first, upto, NONE)


@inlined
def _be_first_below(tables: Tables, cohort: int, stage: int, below: int) -> None:
    """`below`, which was a cohort, or beside another one, is the first one below `stage`, which was the lowest one of `cohort`."""
    stages = stages_at(tables)
    stages[stage, BELOW], stages[below, ABOVE] = below, stage
    stages[cohort, LOWEST] = stages[below, LOWEST]


@inlined
def step_from(tables: Tables, stage: int, row: int, move: int) -> None:
    """A cohort until now is the last stage below another from now on."""
    stages = stages_at(tables)
    stages[stage, OUTLOOK], stages[stage, BESIDE], stages[stage, STEP_ROW] = -1 - move, NONE, row


@inlined
def put_below(tables: Tables, cohort: int, first: int, last: int) -> None:
    """Stages beside each other are the last ones below `cohort`."""
    stages = stages_at(tables)
    if stages[cohort, BELOW] >= 0:
        stages[stages[cohort, LAST_BELOW], BESIDE] = first
    else:
        _be_first_below(tables, cohort, cohort, first)
    stages[cohort, LAST_BELOW] = last


@inlined
def link_cohort(tables: Tables, group: int, before: int, cohort: int) -> None:
    """`cohort` (NONE: none) comes behind `before` (NONE: it is the first)."""
    groups, stages = cohort_groups_at(tables), stages_at(tables)
    if before >= 0:
        stages[before, BESIDE] = cohort
    else:
        groups[group, HEAD] = cohort


@apart
def apart_free_stages(tables: Tables, stage: int) -> None:
    """All from `stage` on that lie beside each other, with those below."""
    stages = stages_at(tables)
    while stage >= 0:
        following = stages[stage, BESIDE]
        if stages[stage, BELOW] >= 0:
            last = following = stages[stage, BELOW]
            while stages[last, BESIDE] >= 0:
                last = stages[last, BESIDE]
            stages[last, BESIDE] = stages[stage, BESIDE]
        free_stage(tables, stage)
        stage = following


@inlined
def free_stage(tables: Tables, stage: int) -> None:
    """Its line; nothing has it any more."""
    stages = stages_at(tables)
    stages[stage, UPTO] = NONE
    free_line(stages, desk_at(tables), stage, FREE_STAGES, LEFT_STAGES)


@inlined
def _end_cohort(tables: Tables, group: int, before: int, cohort: int, over: int) -> None:
    """The cohort behind `before`, of which `over` starts were open until now."""
    groups, stages = cohort_groups_at(tables), stages_at(tables)
    link_cohort(tables, group, before, stages[cohort, BESIDE])
    if groups[group, TAIL] == cohort:
        groups[group, TAIL] = before
    stages[cohort, BESIDE] = NONE
    apart_free_stages(tables, cohort)
    _note_over(tables, group, before, over)


@inlined
def _note_over(tables: Tables, group: int, before: int, over: int) -> None:
    """Starts of the cohort behind `before` are over: if it was the first one, the group has another first start, or none."""
    groups, starts, stages, parameters = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables), parameters_at(tables)
    if before >= 0:
        rare_at(tables)[group, HOLES] += over
        return
    cohort = groups[group, HEAD]
    first = stages[cohort, FROM] if cohort >= 0 else groups[group, NEXT_NUMBER]
    left = first - groups[group, FIRST_NUMBER] - over
    if left > 0:
        rare_at(tables)[group, HOLES] -= left
    groups[group, FIRST_NUMBER] = first
    if cohort < 0 or parameters[LIFE] == FAR:
        groups[group, FIRST_DUE] = FAR
    else:
        groups[group, FIRST_DUE] = starts[start_line(tables, group, first), START_TIME] + parameters[LIFE]


@apart
def apart_drop_cohort(tables: Tables, group: int, before: int, cohort: int) -> None:
    """With all its starts."""
    starts, stages, over = cohort_starts_at(tables), stages_at(tables), 0
    for number in range(stages[cohort, FROM], stages[cohort, UPTO]):
        line = start_line(tables, group, number)
        over += starts[line, START_ROW] >= 0
        starts[line, START_ROW] = NONE
    _end_cohort(tables, group, before, cohort, over)


@apart
def apart_drop_first(tables: Tables, group: int, before: int, cohort: int) -> None:
    """The first start of a cohort, which ends with its last."""
    starts, stages = cohort_starts_at(tables), stages_at(tables)
    number = stages[cohort, FROM]
    starts[start_line(tables, group, number), START_ROW] = NONE
    number += 1
    if number == stages[cohort, UPTO]:
        _end_cohort(tables, group, before, cohort, 1)
        return
    while starts[start_line(tables, group, number), START_ROW] < 0:
        number += 1  # the last one is open
    stages[cohort, FROM] = number
    _leave_stages(tables, cohort, number)
    _note_over(tables, group, before, 1)


@inlined
def _leave_stages(tables: Tables, cohort: int, number: int) -> None:
    """Stages whose starts are before `number`, which the cohort has, are over: those that are have the lowest one among them."""
    stages = stages_at(tables)
    stage = stages[cohort, LOWEST]
    while stages[stage, UPTO] <= number:
        above, beside = stages[stage, ABOVE], stages[stage, BESIDE]
        free_stage(tables, stage)
        stages[above, BELOW], stages[cohort, LOWEST] = NONE, above
        if beside >= 0:
            _be_first_below(tables, cohort, above, beside)
        stage = stages[cohort, LOWEST]


@apart
def apart_drop_all(tables: Tables, group: int) -> None:
    """All starts of a group."""
    groups, starts = cohort_groups_at(tables), cohort_starts_at(tables)
    for number in range(groups[group, FIRST_NUMBER], groups[group, NEXT_NUMBER]):
        starts[start_line(tables, group, number), START_ROW] = NONE
    apart_free_stages(tables, groups[group, HEAD])
    groups[group, HEAD], groups[group, TAIL], groups[group, FIRST_DUE], groups[group, HEEDING] = NONE, NONE, FAR, 0
    groups[group, FIRST_NUMBER] = groups[group, NEXT_NUMBER]
    if rare_at(tables)[group, HOLES] != 0:
        rare_at(tables)[group, HOLES] = 0


# --- what comes out ---------------------------------------------------------------------------------------------------


@apart
def apart_tell_start(
    tables: Tables, kind: int, group: int, number: int, below: int, chain: int, row: int, move: int, now: int, by_row: int
) -> bool:
    """Writes what has come of the start of that number, the first one of a cohort with stages from `below` on, with the rows of a chain,
    behind a step by `row` that is not made, unless `move` is negative; False: there is no room, and nothing is written."""
    starts, stages, rows, desk, emitted = (
        cohort_starts_at(tables),
        stages_at(tables),
        rows_at(tables),
        desk_at(tables),
        emitted_at(tables),
    )
    firsts, chains = firsts_at(tables), chains_at(tables)
    steps, stage = 1, below
    while stage >= 0 and stages[stage, FROM] <= number:
        steps += 1
        stage = stages[stage, BELOW]
    begin, line = desk[ROWS_OUT], desk[EMITTED]
    stop = begin + steps + 1
    if line == len(emitted) or stop > len(rows):
        desk[WANTED] = steps + 1
        return False
    at, stage = stop, below  # from the last row to the first: where that will be is not known before
    for _ in range(steps):
        if move >= 0:
            own = firsts[move] + chain
            chain = chains[own, 0]
            if chains[own, 1] >= 0:
                at -= 1
                rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = line, row, chains[own, 1], row
        if stage >= 0:
            row, move = stages[stage, STEP_ROW], -1 - stages[stage, OUTLOOK]
            stage = stages[stage, BELOW]
    at -= 1
    start = start_line(tables, group, number)
    row = first_row(starts, start)
    variable = chains[firsts[(starts[start, START_ROW] & (START_SCALE - 1)) >> 1] + chain, 1]
    rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = line, row, variable, row
    if at > begin:
        for k in range(stop - at):
            for word in range(4):
                rows[begin + k, word] = rows[at + k, word]
    desk[ROWS_OUT] = begin + stop - at
    emitted[line, TOGETHER] = number_together(rare_at(tables), RARE_MATCHES, desk, group, now, by_row) if kind == MATCH else 0
    emitted[line, KIND], emitted[line, OF_GROUP], emitted[line, BY_ROW], emitted[line, LAST_NODE] = kind, group, by_row, NONE
    emitted[line, AT], emitted[line, NUMBER] = OVER if now == FAR else now, rare_at(tables)[group, RARE_MATCHES]
    emitted[line, FIRST_TIME], emitted[line, FIRST_ROW] = starts[start, START_TIME], row
    desk[EMITTED] = line + 1
    return True


@inlined
def _mark_used(tables: Tables, group: int, cohort: int, first: int, stop: int) -> None:
    """Starts behind the first one of `cohort` whose rows are among those that came out from `first` to before `stop`. Of few rows each is
    looked for: all starts that are open between them need not be looked at, as they would be for each match in turn."""
    groups, starts, stages, rows = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables), rows_at(tables)
    from_, number, k = stages[cohort, FROM], groups[group, NEXT_NUMBER] - 1, stop - 1
    sought = FEW * (stop - first) < number - from_
    while k > first and number > from_:
        start = start_line(tables, group, number)
        row = first_row(starts, start)
        if 0 <= row < rows[k, 1]:
            k -= 1
        elif sought and row > rows[k, 1]:
            number = _last_start(tables, group, from_, number, rows[k, 1])
        else:  # also one that is over
            if row == rows[k, 1]:
                starts[start, START_ROW] |= 1
            number -= 1


@inlined
def _last_start(tables: Tables, group: int, first: int, stop: int, row: int) -> Number:
    """Of the open starts from `first`, which is one, to before `stop` the last one that begins with row `row` or one before it, as the
    first does."""
    starts = cohort_starts_at(tables)
    while first + 1 < stop:
        middle = (first + stop) // 2
        number = middle
        while number > first and first_row(starts, start_line(tables, group, number)) < 0:
            number -= 1
        if first_row(starts, start_line(tables, group, number)) <= row:
            first = middle
        else:
            stop = number
    while first_row(starts, start_line(tables, group, first)) < 0:
        first -= 1
    return first


@inlined
def _resume(tables: Tables, first: int, stop: int) -> Number:
    """The number of the first row that may begin a match behind the one whose rows came out from `first` to before `stop`."""
    rows, parameters = rows_at(tables), parameters_at(tables)
    if parameters[SKIP] == PAST_LAST:
        return rows[stop - 1, 1] + 1
    found = NONE
    for k in range(first, stop):
        if rows[k, 2] == parameters[SKIP_VARIABLE]:
            found = rows[k, 1]
            if parameters[SKIP] == TO_FIRST:
                return found
    return found


@inlined
def take_cohort_match(tables: Tables, group: int, before: int, cohort: int, now: int, by_row: int) -> bool:
    """The first start of a cohort has its match: it comes out, and it goes on behind it. False: there is no room."""
    parameters = parameters_at(tables)
    stages, desk = stages_at(tables), desk_at(tables)
    first, number, chain = desk[ROWS_OUT], stages[cohort, FROM], complete_at(tables)[stages[cohort, OUTLOOK]]
    if not apart_tell_start(tables, MATCH, group, number, stages[cohort, BELOW], chain, NONE, NONE, now, by_row):
        return False
    if parameters[WANTS_TIMED_OUT] and parameters[SKIP] != PAST_LAST:
        _mark_used(tables, group, cohort, first, desk[ROWS_OUT])
    if parameters[SKIP] == TO_NEXT:
        apart_drop_first(tables, group, before, cohort)
        return True
    _drop_before(tables, group, _resume(tables, first, desk[ROWS_OUT]))
    return True


@inlined
def _drop_before(tables: Tables, group: int, resume: int) -> None:
    """All starts of rows before number `resume` of the group, of which the first is one."""
    groups, starts, stages = cohort_groups_at(tables), cohort_starts_at(tables), stages_at(tables)
    last = stages[groups[group, TAIL], UPTO] - 1
    if first_row(starts, start_line(tables, group, last)) < resume:
        apart_drop_all(tables, group)
        return
    while first_row(starts, start_line(tables, group, groups[group, FIRST_NUMBER])) < resume:
        apart_drop_first(tables, group, NONE, groups[group, HEAD])


@apart
def apart_decide_cohorts(tables: Tables, group: int, now: int, by_row: int) -> bool:
    """Matches of starts that are known, and do not wait for earlier ones; False: there is no room."""
    groups, stages, done, parameters = cohort_groups_at(tables), stages_at(tables), done_at(tables), parameters_at(tables)
    before, cohort = NONE, groups[group, HEAD]
    while cohort >= 0:
        if done[stages[cohort, OUTLOOK]]:
            last, after = stages[cohort, FROM] + 1 == stages[cohort, UPTO], stages[cohort, BESIDE]
            if not take_cohort_match(tables, group, before, cohort, now, by_row):
                return False
            if parameters[SKIP] != TO_NEXT:
                cohort = groups[group, HEAD]
            elif last:
                cohort = after
        elif parameters[SKIP] != TO_NEXT:
            return True
        else:
            before, cohort = cohort, stages[cohort, BESIDE]
    return True
