"""The tables of cohorts, as all functions of their loop have them (`cep.kernels.machine.addresses.Handed`), the widths of lines being
known:

    0 groups  1 starts  2 stages  3 path  4 rows  5 desk  6 emitted  7 heap  8 parameters       by the words of `cohort_places`, `places`
    9 begins  10 moves  11 targets  12 firsts  13 chains  14 complete  15 done       of `cep.compile.patterns.cohorts`
"""

from __future__ import annotations

from cep.kernels.machine.addresses import table_at
from cep.kernels.patterns.cohort_places import COHORT_GROUP_WORDS, COHORT_START_WORDS, STAGE_WORDS

cohort_groups_at = table_at(0, COHORT_GROUP_WORDS)
cohort_starts_at = table_at(1, COHORT_START_WORDS)
stages_at = table_at(2, STAGE_WORDS)
path_at = table_at(3)
begins_at = table_at(9)
moves_at = table_at(10)
targets_at = table_at(11)
firsts_at = table_at(12)
chains_at = table_at(13, 2)
complete_at = table_at(14)
done_at = table_at(15)
