"""The four balancers (paper 4.1.2, rule 6.2): which instances of the next subquery get which tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from cep.compile.aggregate.entries import keys_of_entries, rows_of_words, take_entries, words_of_rows
from cep.compile.aggregate.spec import AggregateSpec
from cep.elements import Batch
from cep.errors import ProtocolError
from cep.kernels.columns import with_wider_numbers
from cep.kernels.jit import warm
from cep.kernels.tables.keys import Keys, encode_keys, key_kernels
from cep.kernels.tables.partition import KERNELS, bucket_targets, count_buckets, deal, partition
from cep.kernels.text import gather
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


#: One of so many batches is counted by bucket, and all that are small: a sample is enough to see which buckets are heavy.
COUNTED_BATCHES, SMALL_ROWS = 16, 1_024


class RouteKey:
    """bucket = hash(fields) mod B, instance = table[bucket]: equal keys meet at one instance."""

    def __init__(self, fields: tuple[Field, ...], table: np.ndarray, targets: int) -> None:
        self.fields, self.targets = fields, targets
        self.table = np.ascontiguousarray(table, np.int32)  # int32[B], B a power of two
        self.counts = np.zeros(len(table), np.int64)  # rows of the batches that were counted, by bucket
        self._batches = 0
        warm(*KERNELS, *key_kernels(fields))

    def retable(self, table: Sequence[int]) -> None:
        """From now on by `table`. Raises ProtocolError: it names instances that are not there."""
        found = np.array(table, np.int64)
        if len(found) != len(self.table) or found.min() < 0 or found.max() >= self.targets:
            raise ProtocolError(
                f"a table of {len(self.table)} buckets and {self.targets} instances, got one of {len(found)}, or for others"
            )
        self.table = found.astype(np.int32)

    def keys(self, batch: Batch) -> Keys:
        """What is hashed."""
        return encode_keys(with_wider_numbers(batch.columns, self.fields), self.fields)

    def part(self, batch: Batch, rows: np.ndarray) -> Batch:
        """Rows `rows`, int64[m], which rise, for one target."""
        return batch.take(rows, rise=True)

    def is_next_counted(self, rows: int) -> bool:
        """Are the buckets of the next batch, which has so many rows, counted?"""
        return (self._batches + 1) % COUNTED_BATCHES == 0 or rows < SMALL_ROWS

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        keys = self.keys(batch)
        if self.is_next_counted(len(batch)):
            count_buckets(keys.w0, keys.w1, self.counts)
        self._batches += 1
        targets = np.empty(len(batch), np.int32)
        bucket_targets(keys.w0, keys.w1, self.table, targets)
        order, bounds = partition(targets, self.targets)
        for target in range(self.targets):
            rows = order[bounds[target] : bounds[target + 1]]
            if len(rows):
                yield target, self.part(batch, rows)


class RouteEntries(RouteKey):
    """The same for partial rows by their whole key, whose words they have; those of a target lie together then."""

    def __init__(self, spec: AggregateSpec, table: np.ndarray, targets: int) -> None:
        super().__init__(spec.by, table, targets)
        self.entry, self.width = spec.entry_fields[0].name, spec.width
        warm(deal, gather)

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        alone = len(batch.columns) == 1 and not self.is_next_counted(len(batch)) and bool((batch.time == batch.time[0]).all())
        words = words_of_rows(batch.columns[self.entry], self.width) if alone else None
        return super().route(batch) if words is None else self._deal(batch, words)

    def _deal(self, batch: Batch, words: np.ndarray) -> Iterator[tuple[int, Batch]]:
        """For rows of nothing but words, all of one pane: two passes."""
        self._batches += 1
        bounds, dealt = np.empty(self.targets + 1, np.int64), np.empty(words.shape, np.int64)
        deal(words, self.table, np.empty(len(words), np.int32), bounds, dealt)
        for target, (start, stop) in enumerate(pairwise(bounds.tolist())):
            if start < stop:
                rows = {self.entry: rows_of_words(dealt[start:stop])}
                yield target, Batch(rows, batch.time[: stop - start], None, batch.created, batch.source)

    def keys(self, batch: Batch) -> Keys:
        return keys_of_entries(batch.columns[self.entry], self.width)

    def part(self, batch: Batch, rows: np.ndarray) -> Batch:
        columns = {name: column.take(rows) for name, column in batch.columns.items() if name != self.entry}
        entries = take_entries(batch.columns[self.entry], rows, self.width)
        return Batch({self.entry: entries} | columns, batch.time[rows], None, batch.created, batch.source)


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
