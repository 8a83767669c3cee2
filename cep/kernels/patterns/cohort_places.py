"""What stands where in the tables of cohorts: int64[any, words], as `places` has it for ways.

    group ── cohort ── cohort        in order of their starts, each of which has one outlook
      │        │
      │      stage ── stage          how starts came there: by which row, from which outlook; those behind them began in the cohort
      │        │
      │      stage ── stage
    ring of starts                   a line for each, one behind the other, in a piece of the table of starts that the group has

Starts of a group are numbered as they come, and lie in its ring by their numbers. A cohort has those of the numbers from FROM to before
UPTO, and so has a stage below. Cohorts that come to have one outlook are stages below one cohort. So the rows of a match are found from the
last to the first, down the stages that have its start: each says what its step took, and the start has its first row. A step whose row
nobody asks for makes no stage.

From a cohort, and from any stage that is not the first below another, a *line of descent* leads by first ones below to a last one, which it
knows as its LOWEST. Stages whose starts are over are found from there on upwards, each once. FROM of those on it stays as starts end: what
is before FROM of the cohort is over. To change it took a step for each row that a repeat had taken, for each start. Only the first cohort
of a group loses starts and goes on with others, and it never comes below another one: so FROM and LOWEST of the others are right.

Where a group has one cohort and no stage below, and nothing comes out when time passes, it is *plain*: HEAD says the outlook, and there is
no line for it. Most groups of most patterns are, most of the time.

A row is named by its number among all alone: those of a group are in order by it. Words of groups that have the same numbers as in `places`
are the same: HEAD and TAIL (of cohorts), DUE.
"""

from __future__ import annotations

from cep.kernels.patterns.places import DESK_WORDS, FAR, NONE

#: Of a group, a line of the cache: when its first start's time is over, FAR if that never is, or there is none; the number of its first
#: start, and of the next one; its ring: the first line, times RING_SCALE, and the logarithm of how many lines (0: it has none); variables,
#: by bits, on which it depends what becomes of its starts (at least); others: see above.
FIRST_DUE, FIRST_NUMBER, NEXT_NUMBER = range(3)
RING, HEEDING = 5, 6
COHORT_GROUP_WORDS = 8
FRESH_COHORT_GROUP = (FAR, 0, 0, NONE, NONE, 0, 0, FAR)
#: Of a group, what few rows look at, in a table of its own: event time of its last row, where it has a time to live; matches that came out;
#: starts that are over, and not before the first one.
RARE_LAST, RARE_MATCHES, HOLES = range(3)
RARE_WORDS = 4
FRESH_RARE = (NONE, 0, 0, 0)
RING_SCALE = 64
#: Of a stage: the first one below; the next beside it, of a cohort the next of its group; numbers of its first start, and behind its last
#: (NONE: the line is free); its outlook, or, if it is below another, -1 - the move of the step from there; the row of that step. Of a
#: cohort in place of that: the last one below. Of the first one below another, and of all while they are looked through: the one above.
#: Of a cohort, and of one that is not the first below another: the last of those that are first ones below, itself if it has none.
BELOW, BESIDE, FROM, UPTO, OUTLOOK, STEP_ROW, ABOVE, LOWEST = range(8)
LAST_BELOW = STEP_ROW
STAGE_WORDS = 8
#: Of a start: event time of its first row; the number of that among all, times START_SCALE, and twice the move that began it, and one if
#: the row was used by a match (NONE: the start is over, or there is none).
START_TIME, START_ROW = range(2)
START_SCALE_BITS = 20
START_SCALE = 1 << START_SCALE_BITS
COHORT_START_WORDS = 2
#: Of the desk: where stages are free (by twos, as in `places`: the first free one and the used ones) and how many are; lines of starts
#: that rings have, or had.
FREE_STAGES, USED_STAGES, USED_COHORT_STARTS = range(3)
#: How many groups are taken from the heap, and lie behind it, since time passes in them together; lines that a ring wants; how many groups
#: there are; the first line of a ring that is free, by the logarithm of its lines (its first word is the next).
LEFT_STAGES, PENDING, WANTED_STARTS, GROUPS = range(DESK_WORDS, DESK_WORDS + 4)
FREE_RINGS = DESK_WORDS + 4
COHORT_DESK_WORDS = FREE_RINGS + 48
#: The logarithm of the lines of a group's first ring: a line of the cache.
RING_AT_FIRST = 2
#: HEAD of a group that is plain, less its outlook.
PLAIN = -2
#: Of a move, in place of its number.
SAME, DEAD = -1, -2
#: Of a move, in place of its first chain: nobody asks for the row of that step. A cohort changes its outlook with it, and no stage knows.
SILENT = -1
