"""Lateness: which rows of a source's partition are late (rule 4.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel

_MIN_TIME = -(2**63)


@inlined
def is_late(time: Any, max_time: int, disorder: int) -> bool:
    """The rule itself; the lower bound keeps the difference within int64."""
    return bool(time < max(max_time, _MIN_TIME + disorder) - disorder)


@kernel("boolean(const int64[:])")
def rises(time: np.ndarray) -> bool:
    """Is no time less than the one before it? Looked at to the end, many at a time."""
    falls = 0
    for i in range(1, len(time)):
        falls |= time[i] < time[i - 1]
    return falls == 0


@kernel("boolean(const int64[:], int64, int64, int64, int64)")
def on_time(time: np.ndarray, max_time: int, disorder: int, least: int, most: int) -> bool:
    """Is no row late, and every event time from `least` to `most`?"""
    for i in range(len(time)):
        if time[i] < least or time[i] > most or is_late(time[i], max_time, disorder):
            return False
        max_time = max(max_time, time[i])
    return True


@kernel("int64(const int64[:], int64, int64, uint8[:])")
def late(time: np.ndarray, max_time: int, disorder: int, mask: np.ndarray) -> int:
    """Sets `mask[i]`, uint8[n], to 1 where row i of a source's partition is late (rule 4.7), else to 0.

    Late is what has an event time below the greatest one before it less `disorder` (>= 0, µs). `max_time` is the
    greatest before the first row, MIN_TIME if there is none; the greatest after the last row is returned.
    """
    for i in range(len(time)):
        mask[i] = is_late(time[i], max_time, disorder)
        max_time = max(max_time, time[i])
    return max_time


@kernel("int64(const int64[:], int64, int64, uint8[:], const int64[:], const int64[:])")
def late_among(time: np.ndarray, max_time: int, disorder: int, mask: np.ndarray, bad_rows: np.ndarray, bad_times: np.ndarray) -> int:
    """`late` where bad records whose event times parse stood between the rows: they move the stamp too.

    The greatest of those that stood before row `bad_rows[k]` (rising, n = behind the last row) is `bad_times[k]`.
    """
    bad = 0
    for i in range(len(time) + 1):
        while bad < len(bad_rows) and bad_rows[bad] == i:
            max_time = max(max_time, bad_times[bad])
            bad += 1
        if i < len(time):
            mask[i] = is_late(time[i], max_time, disorder)
            max_time = max(max_time, time[i])
    return max_time


#: What judging lateness runs.
LATENESS = (late, late_among, on_time, rises)
