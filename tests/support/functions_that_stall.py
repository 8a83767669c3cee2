"""Functions that hold an instance manager up, each for another reason: a module that clusters are started with."""

from __future__ import annotations

import gc
import time

import numpy as np

from cep.kernels.jit import kernel

SLEPT_S = 0.02
WORKED_S = 0.02
_kept: list[list[int]] = []


def sleeps(x: int) -> int:
    time.sleep(SLEPT_S)
    return x


def works(x: int) -> int:
    end = time.thread_time() + WORKED_S
    while time.thread_time() < end:
        pass
    return x


def collects(x: int) -> int:
    """Has many objects looked at, again and again."""
    _kept[:] = _kept or [[i] for i in range(100_000)]
    for _ in range(20):
        gc.collect()
    return x


def compiles(x: int) -> int:
    """Calls a kernel for the first time, each time another one: of a single one a busy machine may have taken the greater part."""

    @kernel("int64(const int64[:])")
    def total(numbers: np.ndarray) -> int:
        found = 0
        for i in range(len(numbers)):
            found += numbers[i]
        return found

    total(np.zeros(1, np.int64))
    return x
