"""Of each group the first rows by the words they are ordered by, while rows come.

    group       rows 3   worst o→ row 7   its first word   best o→ row 9      of each key a table's entry
    nodes       row 7: next o→ row 2: next o→ row 9: -1       a group's rows, the worst first, each with all its words

A row that is not among its group's first costs the look-up of its group and one comparison; the row it is compared with is looked
at only where the first words tie. One that is before all others, as where the latest are asked for, is put behind the best at once.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import Kernel, inlined, kernel
from cep.kernels.tables.group_table import number_groups

#: Words of a group behind its key: how many rows it has, the number of the worst, that one's first word, and the number of the best.
FRESH = (0, -1, 0, -1)
_ROWS, WORST, _WORD, BEST = 2, 3, 4, 5
#: In a node's place of the next one: no row comes after it; it is among the first no more.
NO_ROW, GONE = -1, -2


@inlined
def _is_before(words: np.ndarray, i: int, nodes: np.ndarray, row: int) -> bool:
    for k in range(words.shape[1]):
        if words[i, k] != nodes[row, k + 1]:
            return bool(words[i, k] < nodes[row, k + 1])
    return False


@kernel("void(const int64[:], const int64[:, :], int64[:], int64, int64[:, :], int64, int64[:], int64[:])", on_demand=True)
def offer(
    numbers: np.ndarray,
    words: np.ndarray,
    entries: np.ndarray,
    width: int,
    nodes: np.ndarray,
    most: int,
    counts: np.ndarray,
    taken: np.ndarray,
) -> None:
    """Puts in those rows of a batch that are among the first `most` of their groups, `numbers`, int64[n], by `words`, int64[n, w].

    `counts`, int64[2]: nodes in use, and those of them that are among the first of their groups. `nodes`, int64[in use + n or more, 1 + w].
    `taken`, int64[n], gets the batch's row of each new node; one that is beaten by another of the batch leaves its node to that."""
    first = used = counts[0]
    for i in range(len(numbers)):
        at = numbers[i] * width
        worst = entries[at + WORST]
        if entries[at + _ROWS] == most:
            if words[i, 0] > entries[at + _WORD] or not _is_before(words, i, nodes, worst):
                continue
            entries[at + WORST] = nodes[worst, 0]
            nodes[worst, 0] = GONE
            row = worst if worst >= first else used
        else:
            entries[at + _ROWS] += 1
            counts[1] += 1
            row = used
        used += row == used
        taken[row - first] = i
        before, after = NO_ROW, entries[at + WORST]
        if after != NO_ROW and _is_before(words, i, nodes, entries[at + BEST]):
            before, after = entries[at + BEST], NO_ROW
        while after != NO_ROW and _is_before(words, i, nodes, after):
            before, after = after, nodes[after, 0]
        nodes[row, 0] = after
        if after == NO_ROW:
            entries[at + BEST] = row
        for k in range(words.shape[1]):
            nodes[row, k + 1] = words[i, k]
        if before == NO_ROW:
            entries[at + WORST] = row
        else:
            nodes[before, 0] = row
        entries[at + _WORD] = nodes[entries[at + WORST], 1]
    counts[0] = used


@kernel("void(int64[:], int64, int64, int64[:, :], int64[:], int64[:])", on_demand=True)
def put_ranked(entries: np.ndarray, width: int, groups: int, nodes: np.ndarray, rows: np.ndarray, ranks: np.ndarray) -> None:
    """The rows that are left, int64[left], group by group, the first one first, and the rank of each in its group, from 1."""
    end = 0
    for group in range(groups):
        at = group * width
        rank, row = entries[at + _ROWS], entries[at + WORST]
        end += rank
        place = end
        while row != NO_ROW:
            place -= 1
            rows[place], ranks[place] = row, rank
            rank -= 1
            row = nodes[row, 0]


#: What has to be compiled before the first row comes.
KERNELS: tuple[Kernel, ...] = (offer, put_ranked, number_groups)
