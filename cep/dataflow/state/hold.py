"""Rows held until the watermark has passed them, and then taken in stream order: what sequential operators do first (rule 4.6).

Stream order is (event time, origin); what ties on both, which can be only where two ways from one beginning meet, is ordered by
all its columns. Rows that come in that order, as from one partition in order of time, are let out as they lie there, without a copy.

What is held is runs: batches that are each in stream order. A watermark cuts of each what is before it, and only that is merged: rows that
one sender is ahead of another with are not touched again with every watermark, however many they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import describe_group
from cep.dataflow.channel import batch_bytes
from cep.dataflow.outputs.output import compacted, concatenated
from cep.dataflow.state.merging import APART_ROWS, ROWS_MAX, in_stream_order, is_behind, merged, pieces_apart
from cep.elements import Batch
from cep.kernels.arrays import empty_batch, mask_array
from cep.kernels.column import Column
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.schema import INT64, Field, Schema
from cep.transport.wire import Format

#: To copy fewer rows takes less time than what follows takes for a batch of its own.
FEW_ROWS = 8_192
#: After so many more runs those of few rows are made one, so that none of very many is looked at with each watermark.
RUNS_MORE = 256
LOOK_ROWS = 1 << 18
"""Of which the largest keys are looked for: they are named where memory is short, and a copy of all rows would take the rest."""


class Hold:
    """Rows of `schema` with origins of `origin_words` words. `ties`: may rows tie? Then they have all columns of their stream. Neighbours
    of fewer than `few_rows` rows are let out as one batch, and gathered into one run when there are `runs_more` more runs; `apart_rows`: as
    for `pieces_apart`."""

    def __init__(
        self,
        schema: Schema,
        origin_words: int,
        ties: bool,
        few_rows: int = FEW_ROWS,
        runs_more: int = RUNS_MORE,
        apart_rows: int = APART_ROWS,
    ) -> None:
        self.schema, self.ties, self.few_rows, self.runs_more, self.format = schema, ties, few_rows, runs_more, Format(schema, origin_words)
        self.apart_rows = apart_rows
        self.bytes = self.released = 0  # of what is held, and of all that was let out
        self._runs: list[Batch] = []
        self._firsts: list[int] = []  # their least event times
        self._sizes: list[int] = []  # their bytes
        self._in_order = True  # the runs, one behind the other
        self._gather_at = runs_more

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def first(self) -> int | None:
        """The least event time that is held."""
        if self._in_order:
            return self._firsts[0] if self._firsts else None
        return min(self._firsts)

    @property
    def last(self) -> int | None:
        """The greatest event time that is held."""
        return max((run.time.item(-1) for run in self._runs), default=None)

    def largest_keys(self, by: tuple[Field, ...], most: int) -> list[str]:
        """The keys with most of what is held, as far as it is looked at, for a person to read."""
        if not self._runs:
            return []
        held, numbers = self.some(), GroupNumbers(by)
        counts = np.bincount(numbers.of(held.columns, len(held)))
        largest = np.argsort(-counts, kind="stable")[:most].tolist()
        return [f"{describe_group(numbers.columns, by, group)} ({counts[group]} rows)" for group in largest]

    def some(self) -> Batch:
        """At most LOOK_ROWS of what is held, which may not be nothing."""
        return concatenated(list(up_to(self._runs, LOOK_ROWS)))

    def add(self, batch: Batch) -> None:
        """The run before it gets texts of its own; the last one need not, for it seldom stays."""
        if not len(batch.time):
            return
        if len(batch.columns) > len(self.schema.names):
            columns = {name: batch.columns[name] for name in self.schema.names}
            batch = Batch(columns, batch.time, batch.origin, batch.created, batch.source, batch.in_order)
        batch, runs = in_stream_order(batch, self.schema, self.ties), self._runs
        if runs:
            self._in_order = self._in_order and is_behind(batch, runs[-1])
            runs[-1] = compacted(runs[-1])
        self._append(batch)
        if not self._in_order and len(runs) >= self._gather_at:
            self._gather()

    def _append(self, run: Batch) -> None:
        size = batch_bytes(run)
        self._runs.append(run)
        self._firsts.append(int(run.time.item(0)))
        self._sizes.append(size)
        self.bytes += size

    def _gather(self) -> None:
        """Makes the runs of few rows one, or those of fewest if they are very many rows."""
        runs = sorted(self._runs, key=len)
        rows = accumulate(len(run) if len(run) < self.few_rows else 1 + ROWS_MAX for run in runs)
        few = sum(count <= ROWS_MAX for count in rows)
        self.clear()
        for run in runs[few:]:
            self._append(run)
        if few:
            self._append(in_stream_order(concatenated(runs[:few]), self.schema, self.ties))
        self._in_order, self._gather_at = len(self._runs) == 1, len(self._runs) + self.runs_more

    def clear(self) -> None:
        self._runs, self._firsts, self._sizes, self.bytes = [], [], [], 0
        self._in_order, self._gather_at = True, self.runs_more

    def release(self, watermark: int) -> Iterator[Batch]:
        """The rows before `watermark`, in stream order, at most ROWS_MAX at a time."""
        first = self.first
        if first is None or first >= watermark:
            return
        before = self.bytes
        in_order = self._in_order
        passed = self._passed(watermark)
        self.released += before - self.bytes
        apart, rest = (passed, []) if in_order else pieces_apart(passed, self.apart_rows)
        for batch in chain(_few_together(apart, self.few_rows), merged(rest, self.schema, self.ties)):
            if len(batch.time) <= ROWS_MAX:
                yield batch
                continue
            for start in range(0, len(batch.time), ROWS_MAX):
                yield batch.take(slice(start, start + ROWS_MAX))

    def _passed(self, watermark: int) -> list[Batch]:
        """What of each run is before `watermark`, as it lies there; the rest stays."""
        runs, firsts, sizes = self._runs, self._firsts, self._sizes
        if self._in_order:  # what passes is at the beginning
            count = bisect_left(firsts, watermark)
            concerned: Iterable[int] = range(count)
        else:
            concerned = [i for i, first in enumerate(firsts) if first < watermark]
        passed, over = [], []
        for i in concerned:
            run = runs[i]
            self.bytes -= sizes[i]
            if run.time.item(-1) < watermark:
                passed.append(run)
                over.append(i)
                continue
            ready = int(run.time.searchsorted(watermark))
            passed.append(run.take(slice(0, ready)))
            runs[i] = rest = run.take(slice(ready, None))
            firsts[i], sizes[i] = int(rest.time.item(0)), batch_bytes(rest)
            self.bytes += sizes[i]
        self._drop(over)
        return passed

    def _drop(self, over: list[int]) -> None:
        """Runs `over`, whose numbers rise, have passed."""
        if over and over[-1] == len(over) - 1:
            for each in (self._runs, self._firsts, self._sizes):
                del each[: len(over)]
        else:
            for i in reversed(over):
                del self._runs[i], self._firsts[i], self._sizes[i]
        if len(self._runs) < 2:
            self._in_order, self._gather_at = True, self.runs_more

    def snapshot(self) -> pa.RecordBatch:
        """What is held, with event time and origin in hidden columns."""
        return self.format.to_arrow(concatenated(self._runs)) if self._runs else empty_batch(self.format.arrow)

    def columns(self, batch: pa.RecordBatch) -> dict[str, Column]:
        """The columns of the rows of a `snapshot`; the event time is among them, since there may be no other."""
        rows = self.format.from_arrow(batch)
        return {**rows.columns, "__time": Column(INT64, rows.time)}

    def restore(self, batch: pa.RecordBatch, kept: np.ndarray) -> None:
        """Adds the rows of a `snapshot` that `kept`, bool[n], names."""
        self.add(self.format.from_arrow(batch.filter(mask_array(kept))))


def up_to(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The first so many rows of them."""
    for batch in batches:
        if rows > 0:
            yield batch if len(batch) <= rows else batch.take(slice(0, rows))
        rows -= len(batch)


def whole_instants(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same rows in the same order, cut so that those of one event time are in one batch."""
    kept: list[Batch] = []  # what ends with an event time that may go on
    for batch in batches:
        if not len(batch):
            yield batch
            continue
        first = batch.time.item(0)
        if kept and kept[-1].time.item(-1) == first:
            begins, ends = int(kept[0].time.searchsorted(first)), int(batch.time.searchsorted(first, "right"))
            if begins:  # only the first of them has rows of other times
                yield kept[0].take(slice(0, begins))
                kept[0] = kept[0].take(slice(begins, None))
            kept.append(batch.take(slice(0, ends)))
            batch = batch.take(slice(ends, None))
            if not len(batch):
                continue
        if kept:
            yield concatenated(kept)
        kept = [batch]
    if kept:
        yield concatenated(kept)


def _few_together(batches: Sequence[Batch], few_rows: int) -> Iterator[Batch]:
    """The same rows in the same order: neighbours of fewer than `few_rows` as one batch."""
    few: list[Batch] = []
    rows = 0
    for batch in batches:
        if few and (len(batch) >= few_rows or rows >= ROWS_MAX):
            yield concatenated(few)
            few, rows = [], 0
        if len(batch) >= few_rows:
            yield batch
        else:
            few.append(batch)
            rows += len(batch)
    if few:
        yield concatenated(few)
