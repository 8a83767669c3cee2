"""The tables of cohorts, as all functions of their loop have them (`cep.kernels.machine.addresses.Handed`), the widths of lines being
known:

    0 groups  1 starts  2 stages  3 begins  4 rows  5 desk  6 emitted  7 heap  8 parameters     by the words of `cohort_places`, `places`
    9 moves  10 targets  11 firsts  12 chains  13 complete  14 done  15 heeded     and begins: of `cep.compile.patterns.cohorts`
    16 rare      what of groups few rows look at
"""

from __future__ import annotations

from cep.kernels.machine.addresses import table_at
from cep.kernels.patterns.cohort_places import COHORT_GROUP_WORDS, COHORT_START_WORDS, RARE_WORDS, STAGE_WORDS

cohort_groups_at = table_at(0, COHORT_GROUP_WORDS)
cohort_starts_at = table_at(1, COHORT_START_WORDS)
stages_at = table_at(2, STAGE_WORDS)
begins_at = table_at(3)
moves_at = table_at(9)
targets_at = table_at(10)
firsts_at = table_at(11)
chains_at = table_at(12, 2)
complete_at = table_at(13)
done_at = table_at(14)
heeded_at = table_at(15)
rare_at = table_at(16, RARE_WORDS)
