"""The tables of ways, as all functions of their loop have them (`cep.kernels.machine.addresses.Handed`), the widths of lines being known:

0 groups  1 starts  2 ways  3 nodes  4 waiting  5 desk  6 emitted  7 heap  8 parameters     by the words of `places`
9 edges  10 states  11 waits  12 arrive  13 arriving  14 initial                            the automaton, likewise
15 bits                                   which variables each row may be by what it is alone
16 registers  17 pool  18 sums            what ways remember (`cep.compile.patterns.registers`), and where in that exact sums are
19 takes                                  of the start at hand: is the row taken, for each edge of its ways?
20 the function that is compiled for each query: it gives registers what a row brings, and says whether the row is one of a variable
   by what they have then
"""

from __future__ import annotations

from cep.kernels.machine.addresses import table_at
from cep.kernels.patterns.places import (
    ARRIVE_WORDS,
    EDGE_WORDS,
    GROUP_WORDS,
    NODE_WORDS,
    START_WORDS,
    STATE_WORDS,
    WAIT_WORDS,
    WAITING_WORDS,
    WAY_WORDS,
)
from cep.kernels.states.exact_sum import POOL_WORDS

#: The number of the function.
JUDGE = 20

groups_at = table_at(0, GROUP_WORDS)
starts_at = table_at(1, START_WORDS)
ways_at = table_at(2, WAY_WORDS)
nodes_at = table_at(3, NODE_WORDS)
waiting_at = table_at(4, WAITING_WORDS)
edges_at = table_at(9, EDGE_WORDS)
states_at = table_at(10, STATE_WORDS)
waits_at = table_at(11, WAIT_WORDS)
arrive_at = table_at(12, ARRIVE_WORDS)
arriving_at = table_at(13)
initial_at = table_at(14)
bits_at = table_at(15)
registers_at = table_at(16)
pool_at = table_at(17, POOL_WORDS)
sums_at = table_at(18)
takes_at = table_at(19)
