"""Sort and TopN over TIME windows: rows wait in panes, and a window's rows are put in order when it fires.

    rows → pane [0, 10)  pane [10, 20)  pane [20, 30) …      a window of 20 every 10 is two panes:
           └────────── fires at 20 ──┘                        what each group has in it is ranked 1, 2, …
                         └────────── fires at 30 ──┘

The first n of a window are among the first n of each of its panes, so a TopN cuts a pane down to those whenever it has grown to twice
what was left of it the last time.

Restored rows join their panes once the watermark reaches that of the instance which wrote them: all windows that end by then
have been answered there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cep.compile.aggregate_results import describe
from cep.compile.aggregate_spec import TIME_MAX
from cep.dataflow.channel import batch_bytes
from cep.dataflow.hold import ROWS_MAX, in_stream_order
from cep.dataflow.operators import Keep, Part, check_state
from cep.dataflow.output import concat
from cep.elements import MIN_TIME, Batch
from cep.errors import DataError
from cep.kernels.columns import Column, compact
from cep.kernels.order_words import order_words
from cep.model.operators import Sort, TopN
from cep.model.schema import INT64, Schema
from cep.wire import Format

ROWS = "rows"
_WATERMARK = pa.field("__watermark", pa.int64(), nullable=False)
#: A TopN does not cut a pane down before it has so many rows more than it had after the last time.
PRUNE_ROWS = 4_096


@dataclass
class Pane:
    """Rows with event times in one span, in batches; `left` is how many the last cut left."""

    batches: list[Batch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    left: int = 0

    def add(self, batch: Batch) -> int:
        """Returns the bytes it takes."""
        size = batch_bytes(batch)
        self.batches.append(batch)
        self.rows += len(batch)
        self.bytes += size
        return size


class SortOperator:
    """`schema` and `origin_words` are of the rows that come; `ties`: may they tie in stream order (`cep.dataflow.hold`)?"""

    def __init__(self, operator: Sort | TopN, schema: Schema, origin_words: int, ties: bool, state_limit: int) -> None:
        assert operator.window is not None, "rows in stream order are no window's"
        self.name, self.operator, self.window, self.schema, self.ties = operator.name, operator, operator.window, schema, ties
        self.format, self.state_limit = Format(schema, origin_words), state_limit
        self.most = operator.n if isinstance(operator, TopN) else None
        self.by = tuple(schema[name] for name in operator.by)
        self.watermark = self.since = MIN_TIME
        self.incomplete = 0
        self._panes: dict[int, Pane] = {}
        self._numbers: list[int] = []  # of the panes, sorted
        self._bytes = 0  # in the panes
        self._next: int | None = None  # windows before it have fired
        self._restored: list[tuple[int, Batch]] = []  # rows that join at this watermark; in its order

    # --- rows in ---

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        if len(batch):
            self._add(replace(batch, columns={name: compact(batch.columns[name]) for name in self.schema.names}))
            self._check()
        yield from ()

    def _add(self, batch: Batch) -> None:
        numbers = self._pane_numbers(batch.time)
        if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
            self._add_to(int(numbers[0]), batch)
            return
        order = np.argsort(numbers, kind="stable")
        starts = [0, *(np.flatnonzero(np.diff(numbers[order])) + 1).tolist(), len(order)]
        for start, stop in pairwise(starts):
            rows = order[start:stop]
            self._add_to(int(numbers[rows[0]]), batch.take(rows))

    def _pane_numbers(self, time: np.ndarray) -> np.ndarray:
        least, latest = int(time.min()), int(time.max())
        if not -TIME_MAX <= least <= latest <= TIME_MAX:
            wrong = latest if latest > TIME_MAX else least
            raise DataError(f"operator {self.name!r}: event times must lie within ±{TIME_MAX} µs, got {wrong}")
        return time // self.window.pane

    def _add_to(self, number: int, batch: Batch) -> None:
        if number not in self._panes:
            insort(self._numbers, number)
            self._panes[number] = Pane()
        pane = self._panes[number]
        self._bytes += pane.add(batch)
        if self.most is not None and pane.rows > 2 * pane.left + PRUNE_ROWS:
            self._cut(pane)

    def _cut(self, pane: Pane) -> None:
        """Leaves of each group the first n, in stream order."""
        rows, order, _ = self._ranked(pane.batches)
        left = rows.take(np.sort(order))
        self._bytes -= pane.bytes
        pane.batches, pane.rows, pane.bytes = [], 0, 0
        self._bytes += pane.add(replace(left, columns={name: compact(column) for name, column in left.columns.items()}))
        pane.left = pane.rows

    # --- answers out ---

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        while self._restored and self._restored[0][0] <= watermark:
            yield from self._fire(self._restored[0][0])
            self._add(self._restored.pop(0)[1])
        yield from self._fire(watermark)

    def _fire(self, watermark: int) -> Iterator[Batch]:
        while (k := self._next_window) is not None and self._end(k) <= watermark:
            yield from self._answers(k)
            self._leave(k + 1)
        self._leave((watermark - self.window.size) // self.window.advance + 1)
        self.watermark = max(self.watermark, watermark)

    @property
    def _next_window(self) -> int | None:
        """The first window not yet fired that holds a row."""
        if not self._numbers:
            return None
        first = (self._numbers[0] * self.window.pane - self.window.size) // self.window.advance + 1
        return first if self._next is None else max(first, self._next)

    def _end(self, k: int) -> int:
        return k * self.window.advance + self.window.size

    def _leave(self, k: int) -> None:
        """Windows before `k` are over, and panes that no other has."""
        self._next = k if self._next is None else max(k, self._next)
        over = bisect_left(self._numbers, self._next * self.window.advance // self.window.pane)
        for number in self._numbers[:over]:
            self._bytes -= self._panes.pop(number).bytes
        del self._numbers[:over]

    def _answers(self, k: int) -> Iterator[Batch]:
        start, pane = k * self.window.advance, self.window.pane
        inside = self._numbers[bisect_left(self._numbers, start // pane) : bisect_left(self._numbers, self._end(k) // pane)]
        rows, order, rank = self._ranked([batch for number in inside for batch in self._panes[number].batches])
        if start < self.since:
            self.incomplete += len(order)
            return
        for first in range(0, len(order), ROWS_MAX):
            part = slice(first, first + ROWS_MAX)
            answers = rows.take(order[part])
            columns = {**answers.columns, self.operator.rank: Column(INT64, rank[part])}
            yield replace(answers, columns=columns, time=np.full(len(answers), self._end(k) - 1))

    def _ranked(self, batches: list[Batch]) -> tuple[Batch, np.ndarray, np.ndarray]:
        """The rows in stream order; then in order, for a TopN the first n of each group, their places, int64[m], and ranks, int64[m]."""
        rows = in_stream_order(concat(batches), self.schema, self.ties)
        groups = [word for field in self.by for word in order_words(rows.columns[field.name])]
        words = [word for name, descending in self.operator.order for word in order_words(rows.columns[name], descending)]
        order = np.lexsort((*reversed(words), *reversed(groups)))
        rank = _ranks([word[order] for word in groups], len(rows))
        if self.most is not None:
            chosen = rank <= self.most
            order, rank = order[chosen], rank[chosen]
        return rows, order, rank

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # --- what is there ---

    @property
    def state_bytes(self) -> int:
        return self._bytes + sum(batch_bytes(batch) for _, batch in self._restored)

    @property
    def next_end(self) -> int | None:
        k = self._next_window
        return None if k is None else self._end(k)

    def _check(self) -> None:
        size = self.state_bytes
        if size > self.state_limit:
            panes = f"{len(self._numbers)} panes open from the window ending at {self.next_end} µs"
            check_state(self.name, size, self.state_limit, f"{panes}; largest keys: {self._largest_keys(3)}")

    def _largest_keys(self, most: int) -> list[str]:
        """The groups with most rows in the pane with most rows."""
        if not self._numbers:
            return []
        rows, order, rank = self._ranked(max(self._panes.values(), key=lambda pane: pane.rows).batches)
        last = np.flatnonzero(np.append(rank[1:] == 1, [True]))  # of each group
        largest = last[np.argsort(-rank[last], kind="stable")[:most]].tolist()
        return [f"{describe(dict(rows.columns), self.by, int(order[at]))} ({rank[at]} rows)" for at in largest]

    # --- snapshots ---

    def snapshot(self) -> list[Part]:
        """Rows as they came, each with the watermark up to which its windows have fired."""
        own = [(self.watermark, batch) for pane in self._panes.values() for batch in pane.batches]
        schema = self.format.arrow.append(_WATERMARK)
        parts = [self._marked(*each, schema) for each in (*own, *self._restored)]
        return [Part(ROWS, 0, pa.Table.from_batches(parts, schema).combine_chunks().to_batches()[0] if parts else _empty(schema))]

    def _marked(self, watermark: int, batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
        marks = pa.Array.from_buffers(pa.int64(), len(batch), [None, pa.py_buffer(np.full(len(batch), watermark))])
        return pa.RecordBatch.from_arrays([*self.format.to_arrow(batch).columns, marks], schema=schema)

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            rows = self.format.from_arrow(part.batch.select(self.format.arrow.names))
            marks = part.batch.column(_WATERMARK.name).to_numpy()
            kept = keep(part.port, rows.columns).astype(bool)
            for watermark in np.unique(marks[kept]).tolist():
                self._restored.append((watermark, rows.take(np.flatnonzero(kept & (marks == watermark)))))
        self._restored.sort(key=lambda each: each[0])
        self._check()


def _ranks(groups: list[np.ndarray], n: int) -> np.ndarray:
    """Of `n` rows in order, whose groups lie together, each one's number in its group from 1."""
    begins = np.zeros(n, bool)
    begins[:1] = True
    for words in groups:
        begins[1:] |= words[1:] != words[:-1]
    starts = np.flatnonzero(begins)
    return np.arange(1, n + 1) - np.repeat(starts, np.diff(np.append(starts, n)))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)
