"""The four balancers (paper 4.1.2, DESIGN 6): which instances of the next subquery get which tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from cep.elements import Batch
from cep.kernels.columns import widened as widened  # for everybody else
from cep.kernels.jit import warm
from cep.kernels.keys import encode_keys, kernels_of
from cep.kernels.partition import KERNELS, bucket_targets, count_buckets, partition
from cep.model.schema import Field
from cep.plan.physical import Edge


class Balancer(Protocol):
    targets: int

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        """(index of the target instance, its tuples in order); every tuple goes where the balancer's name says."""


class PointToPoint:
    """All tuples to one instance."""

    targets = 1

    def __init__(self, target: int = 0) -> None:
        self.target = target

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        yield self.target, batch


class RoundRobin:
    """Whole batches in turn (the paper's is by tuple: a batch is what arrived together), passing over targets without credit."""

    def __init__(self, targets: int, has_room: Callable[[int], bool]) -> None:
        self.targets, self.has_room, self.next = targets, has_room, 0

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        turn = [(self.next + i) % self.targets for i in range(self.targets)]
        target = next((t for t in turn if self.has_room(t)), self.next)
        self.next = (target + 1) % self.targets
        yield target, batch


#: Of so many batches one is counted by bucket, and all that are small: a sample is enough to see which buckets are heavy.
COUNTED_BATCHES, SMALL_ROWS = 16, 1_024


class RouteKey:
    """bucket = hash(fields) mod B, instance = table[bucket]: equal keys meet at one instance."""

    def __init__(self, fields: tuple[Field, ...], table: np.ndarray, targets: int) -> None:
        self.fields, self.targets = fields, targets
        self.table = np.ascontiguousarray(table, np.int32)  # int32[B], B a power of two
        self.counts = np.zeros(len(table), np.int64)  # rows of the batches that were counted, by bucket
        self._batches = 0
        warm(*KERNELS, *kernels_of(fields))

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        keys = encode_keys(widened(batch.columns, self.fields), self.fields)
        self._batches += 1
        if self._batches % COUNTED_BATCHES == 0 or len(batch) < SMALL_ROWS:
            count_buckets(keys.w0, keys.w1, self.counts)
        targets = np.empty(len(batch), np.int32)
        bucket_targets(keys.w0, keys.w1, self.table, targets)
        order, bounds = partition(targets, self.targets)
        for target in range(self.targets):
            rows = order[bounds[target] : bounds[target + 1]]
            if len(rows):
                yield target, batch.take(rows)


class Broadcast:
    """Every tuple to every instance."""

    def __init__(self, targets: int) -> None:
        self.targets = targets

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        for target in range(self.targets):
            yield target, batch


def uniform_table(buckets: int, targets: int) -> np.ndarray:
    """int32[buckets]: neighbouring buckets to one instance, as evenly as whole numbers allow."""
    return (np.arange(buckets, dtype=np.int64) * targets // buckets).astype(np.int32)


def bucket_table(edge: Edge, buckets: int, targets: int) -> np.ndarray:
    """int32[buckets]: bucket -> instance of the target of a route-key edge."""
    return uniform_table(buckets, targets) if edge.table is None else np.array(edge.table, np.int32)
