"""Text as bytes: records and their fields, UTF-8, gathering; and which rows of a source are late."""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.memory import BLOCK, high_block, load_word, lowest_bit, match_block

NEWLINE, RETURN = np.uint8(10), np.uint8(13)
_MIN_TIME = -(2**63)
_ONE = np.uint64(1)
_HIGH = np.uint64(0x8080808080808080)


@kernel("void(const uint8[:], const int64[:], const int32[:], uint8[:])")
def gather(data: np.ndarray, starts: np.ndarray, offsets: np.ndarray, body: np.ndarray) -> None:
    """Copies the bytes of text i from `data[starts[i]]` on to `body[offsets[i] : offsets[i + 1]]`, for n starts."""
    for i in range(len(starts)):
        start, to = starts[i], offsets[i]
        for k in range(offsets[i + 1] - to):
            body[to + k] = data[start + k]


@kernel("int64(const int64[:], int64, int64, const int64[:], const int64[:], uint8[:])")
def late(
    time: np.ndarray, max_time: int, disorder: int, bad_rows: np.ndarray, bad_times: np.ndarray, mask: np.ndarray
) -> int:
    """Sets `mask[i]`, uint8[n], to 1 where row i of a source's partition is late (DESIGN 4.7), else to 0.

    Late is what has an event time below the greatest one before it less `disorder` (>= 0, µs). `max_time` is the
    greatest before the first row, MIN_TIME if there is none; the greatest after the last row is returned.
    Records that are bad but for their event time count: before row `bad_rows[k]` (rising) there was one at
    `bad_times[k]`. 0.9 ns a row.
    """
    lowest = _MIN_TIME + disorder
    bad = 0
    for i in range(len(time)):
        while bad < len(bad_rows) and bad_rows[bad] <= i:
            max_time = max(max_time, bad_times[bad])
            bad += 1
        mask[i] = time[i] < max(max_time, lowest) - disorder
        max_time = max(max_time, time[i])
    while bad < len(bad_rows):
        max_time = max(max_time, bad_times[bad])
        bad += 1
    return max_time
