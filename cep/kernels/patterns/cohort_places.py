"""What stands where in the tables of cohorts: int64[any, words], as `places` has it for ways.

    group ── cohort ── cohort      in order of their starts, each of which has one outlook
               │ ▲
          starts └── stage ◄── stage      the way that starts have come together; a cohort is the stage at the top

A stage leads to the next by a row and a move (`cep.model.patterns.outlooks`); stages of several cohorts that come to have one outlook lead
to one. So the rows of a match are found from its start on: a start has its first row, and each step says what it took.

Words of groups that have the same numbers as in `places` are the same: LAST, SEQ, MATCHES, HEAD and TAIL (of cohorts), OPEN, DUE.
"""

from __future__ import annotations

from cep.kernels.patterns.places import DESK_WORDS, FAR, NONE

#: Of a group: when its first start's time is over, FAR if that never is, or there is none; others: see above.
FIRST_DUE = 6
COHORT_GROUP_WORDS = 8
FRESH_COHORT_GROUP = (NONE, 0, 0, NONE, NONE, 0, FAR, FAR)
#: Of a stage: its outlook, NONE if it is below others; how many starts and stages below have it (0: the line is free); its group. Of one
#: below: the next; the row of the step there, its number in the group, the move (ALONG: nothing changes). Of a cohort, in the same words:
#: the next of its group; its first start and its last.
ABOVE, OUTLOOK, USES, STAGE_GROUP, STEP_ROW, STEP_SEQ, STEP_MOVE = range(7)
FOLLOWING_COHORT, FIRST_START, LAST_START = ABOVE, STEP_ROW, STEP_SEQ
STAGE_WORDS = 8
ALONG = -1
#: Of a start: the next of its cohort; event time, number in the group and number among all rows of its first row (NONE: the line is free);
#: its stage; the move that began it; was its row used by a match?
NEXT_START, START_TIME, START_SEQ, START_ROW, STAGE, BEGUN, START_USED = range(7)
COHORT_START_WORDS = 8
#: Of the desk: where lines are free (by twos, as in `places`: the first free one and the used ones) and how many are.
FREE_STAGES, USED_STAGES, FREE_COHORT_STARTS, USED_COHORT_STARTS = range(4)
#: How many groups are taken from the heap, and lie behind it, since time passes in them together.
LEFT_STAGES, LEFT_COHORT_STARTS, PENDING = range(DESK_WORDS, DESK_WORDS + 3)
COHORT_DESK_WORDS = DESK_WORDS + 3
#: Of a move, in place of its number.
SAME, DEAD = -1, -2
