"""The groups of rows of many panes, numbered without a table for each pane."""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import kernel
from cep.kernels.tables.hashing import hash64, is_long, mix64
from cep.kernels.tables.keys import Keys, same_bytes
from cep.kernels.tables.table import slot_shift, slots_for


@kernel("int64(const uint64[:], const uint64[:], const uint8[:], const int64[:], int32[:], int64[:], int64[:])")
def number_pane_groups(
    w0: np.ndarray, w1: np.ndarray, data: np.ndarray, panes: np.ndarray, slots: np.ndarray, numbers: np.ndarray, firsts: np.ndarray
) -> int:
    """Numbers rows by pane and key. `slots` is all zeros, and has at least twice as many places as there are rows."""
    shift, mask, groups = slot_shift(slots), len(slots) - 1, 0
    for i in range(len(panes)):
        place = np.int64(mix64(hash64(w0[i], w1[i]), np.uint64(panes[i])) >> shift)
        long = is_long(w1[i])
        group = np.int64(slots[place])  # 1 + its number
        while group != 0:
            first = firsts[group - 1]
            if panes[first] == panes[i] and w0[first] == w0[i]:
                if not long:
                    if w1[first] == w1[i]:
                        break
                elif is_long(w1[first]) and same_bytes(data, w1[first], data, w1[i]):
                    break
            place = (place + 1) & mask
            group = np.int64(slots[place])
        if group == 0:
            firsts[groups] = i
            groups += 1
            group = np.int64(groups)
            slots[place] = groups
        numbers[i] = group - 1
    return groups


def pane_groups(keys: Keys, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the groups of n rows, whose panes are `panes`, int64[n], in the order in which they are first seen: int64[n], and the
    first row of each group, int64[m]."""
    n = len(panes)
    numbers, firsts = np.empty((2, n), np.int64)
    count = number_pane_groups(keys.w0, keys.w1, keys.data, panes, np.zeros(slots_for(n), np.int32), numbers, firsts)
    return numbers, firsts[:count]
