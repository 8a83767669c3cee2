"""The tables of families, as all functions of their loop have them (`cep.kernels.machine.addresses.Handed`):

0 groups  1 starts  2 bundles  3 nodes  4 rows  5 desk  6 emitted  7 heap  8 parameters     by the words of `family_places`, `places`
9 begins  10 steps  11 stays  12 firsts  13 children                                        of `cep.compile.patterns.families`
14 waiting, 15 chosen                     of matches that are told: heaps to be looked through and their places, and rows so far
"""

from __future__ import annotations

from cep.kernels.machine.addresses import table_at
from cep.kernels.patterns.family_places import BUNDLE_WORDS, CHILD_WORDS, FAMILY_GROUP_WORDS, HEAP_WORDS, OPEN_WORDS

family_groups_at = table_at(0, FAMILY_GROUP_WORDS)
open_starts_at = table_at(1, OPEN_WORDS)
bundles_at = table_at(2, BUNDLE_WORDS)
heap_nodes_at = table_at(3, HEAP_WORDS)
family_begins_at = table_at(9)
steps_at = table_at(10)
stays_at = table_at(11)
first_children_at = table_at(12)
children_at = table_at(13, CHILD_WORDS)
waiting_heaps_at = table_at(14, 2)
chosen_at = table_at(15)
