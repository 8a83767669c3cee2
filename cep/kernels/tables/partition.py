"""Cutting a batch into the parts that go to different instances (rule 6.3)."""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import kernel
from cep.kernels.tables.hashing import hash64


@kernel("void(const uint64[:], const uint64[:], const int32[:], int32[:])")
def bucket_targets(w0: np.ndarray, w1: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """`out[i]`, int32[n], is the instance that `table`, int32[a power of two], gives for the bucket of key i.

    The bucket is the low bits of `hash64`; tables of groups use the high ones.
    """
    low_bits = np.uint64(len(table) - 1)
    for i in range(len(w0)):
        out[i] = table[np.int64(hash64(w0[i], w1[i]) & low_bits)]


@kernel("void(const uint64[:], const uint64[:], int64[:])")
def count_buckets(w0: np.ndarray, w1: np.ndarray, counts: np.ndarray) -> None:
    """Adds to `counts`, int64[a power of two], the keys of each bucket."""
    low_bits = np.uint64(len(counts) - 1)
    for i in range(len(w0)):
        counts[np.int64(hash64(w0[i], w1[i]) & low_bits)] += 1


def partition(targets: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """(order int64[n], bounds int64[parts + 1]): rows `order[bounds[p] : bounds[p + 1]]` go to part p, as they came.

    `targets` is int32[n], each in [0, parts).
    """
    order, bounds = np.empty(len(targets), np.int64), np.empty(parts + 1, np.int64)
    _sort_by_counting(targets, order, bounds, np.empty(parts, np.int64))
    return order, bounds


@kernel("void(const int32[:], int64[:], int64[:], int64[:])")
def _sort_by_counting(targets: np.ndarray, order: np.ndarray, bounds: np.ndarray, cursor: np.ndarray) -> None:
    bounds[:] = 0
    for target in targets:
        bounds[target + 1] += 1
    for part in range(len(cursor)):
        bounds[part + 1] += bounds[part]
        cursor[part] = bounds[part]
    for i in range(len(targets)):
        target = targets[i]
        order[cursor[target]] = i
        cursor[target] += 1


@kernel("void(const int64[:, :], const int32[:], int32[:], int64[:], int64[:, :])")
def deal(rows: np.ndarray, table: np.ndarray, targets: np.ndarray, bounds: np.ndarray, out: np.ndarray) -> None:
    """Copies rows that begin with the two words of their keys, int64[n, any], to `out`, those of a target one behind the other as they
    came: target p's are `out[bounds[p] : bounds[p + 1]]`. `table` as for `bucket_targets`; `targets`, int32[n], is for use here."""
    low_bits = np.uint64(len(table) - 1)
    bounds[:] = 0
    for i in range(len(rows)):
        target = table[np.int64(hash64(np.uint64(rows[i, 0]), np.uint64(rows[i, 1])) & low_bits)]
        targets[i] = target
        bounds[target + 1] += 1
    for part in range(len(bounds) - 1):
        bounds[part + 1] += bounds[part]
    for i in range(len(rows)):  # a bound is where the next row of its target goes, and so in the end where the next target begins
        to = bounds[targets[i]]
        bounds[targets[i]] = to + 1
        for k in range(rows.shape[1]):
            out[to, k] = rows[i, k]
    for part in range(len(bounds) - 1, 0, -1):
        bounds[part] = bounds[part - 1]
    bounds[0] = 0


#: What cutting by buckets runs.
KERNELS = (bucket_targets, count_buckets, _sort_by_counting)
