"""Rows held until the watermark has passed them, and then taken in stream order: what sequential operators do first (DESIGN 4.6).

Stream order is (event time, origin); what ties on both, which can be only where two ways from one beginning meet, is ordered by
all its columns. Rows that come in that order, as from one partition in order of time, are let out as they lie there, without a copy.

What is held is runs: batches that are each in stream order. A watermark cuts of each what is before it, and only that is merged: rows that
one sender is ahead of another with are not touched again with every watermark, however many they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.compile.aggregate_results import describe
from cep.compile.aggregate_ties import rows_of
from cep.dataflow.channel import batch_bytes
from cep.dataflow.output import compacted, concat
from cep.elements import Batch
from cep.kernels.column import Column
from cep.kernels.group_numbers import GroupNumbers
from cep.kernels.jit import kernel
from cep.model.schema import INT64, Field, Schema
from cep.wire import Format

ROWS_MAX = 65_536
#: To copy fewer rows takes less time than what follows takes for a batch of its own.
FEW_ROWS = 8_192
#: After so many more runs those of few rows are made one, so that none of very many is looked at with each watermark.
RUNS_MORE = 256


class Hold:
    """Rows of `schema` with origins of `origin_words` words. `ties`: may rows tie? Then they have all columns of their stream. Neighbours
    of fewer than `few_rows` rows are let out as one batch, and gathered into one run when there are `runs_more` more runs."""

    def __init__(self, schema: Schema, origin_words: int, ties: bool, few_rows: int = FEW_ROWS, runs_more: int = RUNS_MORE) -> None:
        self.schema, self.ties, self.few_rows, self.runs_more, self.format = schema, ties, few_rows, runs_more, Format(schema, origin_words)
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

    def largest_keys(self, by: tuple[Field, ...], most: int) -> list[str]:
        """The keys with most of what is held, for a person to read."""
        if not self._runs:
            return []
        held, numbers = concat(self._runs), GroupNumbers(by)
        counts = np.bincount(numbers.of(held.columns, len(held)))
        largest = np.argsort(-counts, kind="stable")[:most].tolist()
        return [f"{describe(numbers.columns, by, group)} ({counts[group]} rows)" for group in largest]

    def add(self, batch: Batch) -> None:
        """The run before it gets texts of its own; the last one need not, for it seldom stays."""
        if not len(batch.time):
            return
        if len(batch.columns) > len(self.schema.names):
            columns = {name: batch.columns[name] for name in self.schema.names}
            batch = Batch(columns, batch.time, batch.origin, batch.created, batch.source)
        batch, runs = in_stream_order(batch, self.schema, self.ties), self._runs
        if runs:
            self._in_order = self._in_order and _is_behind(batch, runs[-1])
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
        """Makes the runs of few rows one."""
        runs = self._runs
        few = [run for run in runs if len(run.time) < self.few_rows]
        self.clear()
        for run in runs:
            if len(run.time) >= self.few_rows:
                self._append(run)
        if few:
            self._append(in_stream_order(concat(few), self.schema, self.ties))
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
        if not in_order:
            passed = [in_stream_order(concat(passed), self.schema, self.ties)]
        for batch in passed if len(passed) == 1 else _few_together(passed, self.few_rows):
            if len(batch.time) <= ROWS_MAX:
                yield batch
                continue
            for start in range(0, len(batch.time), ROWS_MAX):
                yield batch.take(slice(start, start + ROWS_MAX))

    def _passed(self, watermark: int) -> list[Batch]:
        """Of each run what is before `watermark`, as it lies there; the rest stays."""
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
        return self.format.to_arrow(concat(self._runs)) if self._runs else pa.RecordBatch.from_pylist([], self.format.arrow)

    def columns(self, batch: pa.RecordBatch) -> dict[str, Column]:
        """Of the rows of a `snapshot`; the event time is among them, since there may be no other."""
        rows = self.format.from_arrow(batch)
        return {**rows.columns, "__time": Column(INT64, rows.time)}

    def restore(self, batch: pa.RecordBatch, kept: np.ndarray) -> None:
        """Adds the rows of a `snapshot` that `kept`, bool[n], names."""
        self.add(self.format.from_arrow(batch.filter(pa.array(kept))))


def _few_together(batches: Sequence[Batch], few_rows: int) -> Iterator[Batch]:
    """The same rows in the same order: neighbours of fewer than `few_rows` as one batch."""
    few: list[Batch] = []
    for batch in batches:
        if len(batch) < few_rows:
            few.append(batch)
            continue
        if few:
            yield concat(few)
            few = []
        yield batch
    if few:
        yield concat(few)


def in_stream_order(batch: Batch, schema: Schema, ties: bool) -> Batch:
    """The same rows, sorted."""
    if is_in_order(batch):
        return batch
    time, origin = _places(batch)
    order = np.lexsort((*(origin[:, word] for word in reversed(range(origin.shape[1]))), time))
    if ties:
        _untie(order, time, origin, batch, schema)
    return batch.take(order)


def _places(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """What stream order goes by: event times and origins."""
    assert batch.origin is not None, "rows that are taken in order must carry their origin"
    return np.ascontiguousarray(batch.time), np.ascontiguousarray(batch.origin)


def _is_behind(batch: Batch, last: Batch) -> bool:
    """Is its first row behind the last of `last`?"""
    before, after = last.time.item(-1), batch.time.item(0)
    return bool(before < after or (before == after and _place(last, -1) < _place(batch, 0)))


def _place(batch: Batch, row: int) -> tuple[int, ...]:
    assert batch.origin is not None, "rows that are taken in order must carry their origin"
    return int(batch.time[row]), *batch.origin[row].tolist()


def is_in_order(batch: Batch) -> bool:
    """Is every row strictly before the next one?"""
    return len(batch.time) == 1 or bool(in_order(*_places(batch)))


@kernel("boolean(const int64[:], const int64[:, :])")
def in_order(time: np.ndarray, origin: np.ndarray) -> bool:
    """Is every row strictly before the next one?"""
    for i in range(1, len(time)):
        if time[i - 1] < time[i]:
            continue
        if time[i - 1] > time[i]:
            return False
        k = 0
        while k < origin.shape[1] and origin[i - 1, k] == origin[i, k]:
            k += 1
        if k == origin.shape[1] or origin[i - 1, k] > origin[i, k]:
            return False
    return True


def _untie(order: np.ndarray, time: np.ndarray, origin: np.ndarray, batch: Batch, schema: Schema) -> None:
    """Sorts the runs of rows in `order` that tie by all their columns."""
    same = (time[order[1:]] == time[order[:-1]]) & (origin[order[1:]] == origin[order[:-1]]).all(axis=1)
    tied = np.flatnonzero(same)
    if not len(tied):
        return
    starts = tied[np.concatenate(([True], np.diff(tied) > 1))]
    stops = tied[np.concatenate((np.diff(tied) > 1, [True]))] + 2
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        rows = order[start:stop]
        part = batch.take(rows)
        order[start:stop] = rows[_by_columns(part, schema)]


def _by_columns(batch: Batch, schema: Schema) -> Sequence[int]:
    column = rows_of(batch.columns, schema.fields, len(batch))
    assert column.starts is not None and column.data is not None
    keys = [column.data[s : s + n].tobytes() for s, n in zip(column.starts.tolist(), column.values.tolist(), strict=True)]
    return sorted(range(len(keys)), key=keys.__getitem__)
