"""Which instance gets which rows."""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import kernel


@kernel("void(const uint64[:], const int32[:], int32[:])")
def bucket_targets(hashes: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    mask = np.uint64(len(table) - 1)
    for i in range(len(hashes)):
        out[i] = table[np.int64(hashes[i] & mask)]


def partition(targets: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(targets, kind="stable")
    bounds = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(targets, minlength=parts), out=bounds[1:])
    return order, bounds
