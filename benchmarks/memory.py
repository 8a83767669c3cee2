"""Memory that is at hand: what a virtual machine's kernel takes from its host anew costs ten times as much as what it used lately.

Guests report free pages to their host, which takes them away; the next touch of such a page costs some 13 µs (measured here: writing a
file of 1.3 GB took 0.3 s of CPU or 2.2 s, by nothing but where its pages came from). So before anything is timed this much is touched and
given back, and both sides of a pair find the same.
"""

from __future__ import annotations

import mmap
import os

import psutil

AT_HAND_BYTES = 3 << 30
_STEP_BYTES = 1 << 20


ASKED = "BENCHMARK_BYTES_AT_HAND"
"""The variable by which the harness tells its commands how much; a try with few records needs none."""


def bytes_at_hand() -> int:
    """Bytes: what the harness wants."""
    return int(os.environ.get(ASKED, AT_HAND_BYTES))


def at_hand(size: int) -> None:
    """Touches `size` bytes, or half of what is available if that is less, and gives them back to the kernel."""
    size = min(size, psutil.virtual_memory().available // 2) // _STEP_BYTES * _STEP_BYTES
    if not size:
        return
    filling = bytes(_STEP_BYTES)
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, _STEP_BYTES):
            memory[start : start + _STEP_BYTES] = filling
