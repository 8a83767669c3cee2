"""Rows held until the watermark has passed them, and then taken in stream order: what sequential operators do first (DESIGN 4.6).

Stream order is (event time, origin); what ties on both, which can be only where two ways from one beginning meet, is ordered by
all its columns. Rows that come in that order, as from one partition in order of time, are let out as they lie there, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


class Hold:
    """Rows of `schema` with origins of `origin_words` words. `ties`: may rows tie? Then they have all columns of their stream. Neighbours
    of fewer than `few_rows` rows are let out as one batch."""

    def __init__(self, schema: Schema, origin_words: int, ties: bool, few_rows: int = FEW_ROWS) -> None:
        self.schema, self.ties, self.few_rows, self.format = schema, ties, few_rows, Format(schema, origin_words)
        self.bytes = self.released = 0  # of what is held, and of all that was let out
        self._batches: list[Batch] = []
        self._sizes: list[int] = []  # their bytes
        self._first = 0  # least event time of what is held, if there is anything
        self._in_order = True  # what is held, one batch behind the other

    def __len__(self) -> int:
        return sum(map(len, self._batches))

    @property
    def first(self) -> int | None:
        """The least event time that is held."""
        return self._first if self._batches else None

    def largest_keys(self, by: tuple[Field, ...], most: int) -> list[str]:
        """The keys with most of what is held, for a person to read."""
        if not self._batches:
            return []
        held, numbers = concat(self._batches), GroupNumbers(by)
        counts = np.bincount(numbers.of(held.columns, len(held)))
        largest = np.argsort(-counts, kind="stable")[:most].tolist()
        return [f"{describe(numbers.columns, by, group)} ({counts[group]} rows)" for group in largest]

    def add(self, batch: Batch) -> None:
        """The batch before it gets texts of its own; the last one need not, for it seldom stays."""
        if not len(batch.time):
            return
        if len(batch.columns) > len(self.schema.names):
            columns = {name: batch.columns[name] for name in self.schema.names}
            batch = Batch(columns, batch.time, batch.origin, batch.created, batch.source)
        held = self._batches
        behind = not held or (self._in_order and _is_behind(batch, held[-1]))
        self._in_order = behind and is_in_order(batch)
        if not held:
            self._first = int(batch.time.item(0) if self._in_order else batch.time.min())
        else:
            held[-1] = compacted(held[-1])
            if not self._in_order:
                self._first = min(self._first, int(batch.time.min()))
        size = batch_bytes(batch)
        held.append(batch)
        self._sizes.append(size)
        self.bytes += size

    def clear(self) -> None:
        self._batches, self._sizes, self.bytes = [], [], 0

    def release(self, watermark: int) -> Iterator[Batch]:
        """The rows before `watermark`, in stream order, at most ROWS_MAX at a time."""
        if not self._batches or self._first >= watermark:
            return
        before = self.bytes
        passed = self._passed(watermark) if self._in_order else [self._sorted(watermark)]
        self.released += before - self.bytes
        for batch in passed if len(passed) == 1 else _few_together(passed, self.few_rows):
            if len(batch.time) <= ROWS_MAX:
                yield batch
                continue
            for start in range(0, len(batch.time), ROWS_MAX):
                yield batch.take(slice(start, start + ROWS_MAX))

    def _passed(self, watermark: int) -> list[Batch]:
        """Of batches in stream order what is before `watermark`, as it lies there; the others stay."""
        held, sizes, whole = self._batches, self._sizes, 0
        while whole < len(held) and held[whole].time.item(-1) < watermark:
            self.bytes -= sizes[whole]
            whole += 1
        passed = held[:whole]
        del held[:whole], sizes[:whole]
        if not held:
            return passed
        batch = held[0]
        if batch.time.item(0) < watermark:
            ready = int(batch.time.searchsorted(watermark))
            passed.append(batch.take(slice(0, ready)))
            held[0] = batch.take(slice(ready, None))
            self.bytes -= sizes[0]
            sizes[0] = batch_bytes(held[0])
            self.bytes += sizes[0]
        self._first = held[0].time.item(0)
        return passed

    def _sorted(self, watermark: int) -> Batch:
        """Of batches in any order the rows before `watermark`, in stream order; the others stay."""
        held = concat(self._batches)
        self.clear()
        before = held.time < watermark
        if not before.all():
            self.add(held.take(np.flatnonzero(~before)))
            held = held.take(np.flatnonzero(before))
        return in_stream_order(held, self.schema, self.ties)

    def snapshot(self) -> pa.RecordBatch:
        """What is held, with event time and origin in hidden columns."""
        return self.format.to_arrow(concat(self._batches)) if self._batches else pa.RecordBatch.from_pylist([], self.format.arrow)

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
