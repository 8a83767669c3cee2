"""Sort and TopN over TIME windows: rows wait in panes, and a window's rows are put in order when it fires.

    rows → pane [0, 10)  pane [10, 20)  pane [20, 30) …      a window of 20 every 10 is two panes:
           └────────── fires at 20 ──┘                        what each group has in it is ranked 1, 2, …
                         └────────── fires at 30 ──┘

The first n of a window are among the first n of each of its panes: a TopN cuts panes down to those as they grow. Where numbers decide
and n is small, a large pane keeps only rows that are among them when they come; where it is a window, nothing is sorted at all.

Restored rows join their panes once the watermark reaches that of the instance which wrote them: all windows that end by then
have been answered there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.results import listed
from cep.compile.aggregate.spec import free_prefix
from cep.compile.windows.thin import EVERY, AtOnce
from cep.dataflow.channel import batch_bytes
from cep.dataflow.operators.chunk_sort import ChunkSort
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import Keep, Part, check_state
from cep.dataflow.operators.ranking import Ranking
from cep.dataflow.operators.sequential import SequentialOperator
from cep.dataflow.operators.top_n import TopStacks
from cep.dataflow.state.gathering import together
from cep.dataflow.state.hold import LOOK_ROWS, up_to
from cep.dataflow.state.merging import ROWS_MAX
from cep.dataflow.state.row_panes import RowPanes
from cep.dataflow.state.thin_batches import joined
from cep.dataflow.state.window_numbers import WindowNumbers
from cep.elements import MIN_TIME, PAUSE, Batch, describe_time
from cep.kernels.arrays import empty_batch, numbers_in
from cep.kernels.best_rows import KERNELS
from cep.kernels.columns import Column, Columns
from cep.kernels.jit import warm
from cep.kernels.tables.keys import key_kernels
from cep.model.operators import Sort, TopN
from cep.model.schema import INT64, Schema
from cep.model.windows import SizeWindow, TimeWindow
from cep.transport.wire import Format

ROWS = "rows"
_WATERMARK = pa.field("__watermark", pa.int64(), nullable=False)


class SortOperator:
    """`schema` and `origin_words` are of the rows that come; `ties`: may they tie in stream order (`cep.dataflow.state.hold`)?
    `last`: see Ranking."""

    def __init__(self, operator: Sort | TopN, schema: Schema, origin_words: int, ties: bool, state_limit: int, last: bool = False) -> None:
        assert isinstance(operator.window, TimeWindow), "rows in stream order are no window's"
        self.name, self.rank, self.window = operator.name, operator.rank, operator.window
        self.format, self.state_limit = Format(schema, origin_words), state_limit
        self.ranking = Ranking(schema, operator.by, operator.order, operator.n if isinstance(operator, TopN) else None, ties, last)
        if self.ranking.by_words:
            warm(*KERNELS, *key_kernels(tuple(schema[name] for name in operator.by)))
        self.watermark = self.since = MIN_TIME
        self.incomplete = 0
        self._panes = RowPanes(self.name, self.window, self.ranking)
        self._numbers, self._choice = WindowNumbers(self.window), AtOnce()
        self._window = free_prefix("_window", (*schema.names, self.rank))
        sliding = self.window.size != self.window.advance
        self._stacks = TopStacks(self.window, self._panes) if isinstance(operator, TopN) and sliding else None
        self._next: int | None = None  # windows before it have fired
        self._restored: list[tuple[int, Batch]] = []  # rows that join at this watermark; in its order

    # --- rows in, answers out ---

    def on_batch(self, batch: Batch, port: int) -> Iterator[Batch]:
        if len(batch):
            yield from self._panes.add(replace(batch, columns={name: batch.columns[name] for name in self.format.schema.names}))
            self._check()

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        while self._restored and self._restored[0][0] <= watermark:
            yield from self._fire(self._restored[0][0])
            yield from self._panes.add(self._restored.pop(0)[1])
            if self._stacks is not None:
                self._stacks.clear()
        yield from self._fire(watermark)

    def _fire(self, watermark: int) -> Iterator[Batch]:
        last = self._numbers.last(watermark)
        while (k := self._next_window) is not None and k <= last:
            end = self._many(k, last)
            if end is not None:
                yield from self._answers_of(k, end)
            else:
                yield from self._panes.settle(self._numbers.panes(k, k + 1)[1])
                yield from self._answers(k)
            yield PAUSE
            self._leave(k + 1 if end is None else end)
        self._leave(last + 1)
        self.watermark = max(self.watermark, watermark)

    @property
    def _next_window(self) -> int | None:
        """The first window not yet fired that holds a row."""
        if (pane := self._panes.first) is None:
            return None
        first = self._numbers.first_with(pane)
        return first if self._next is None else max(first, self._next)

    def _many(self, k: int, last: int) -> int | None:
        """The window before which those from `k` on are better made in one go."""
        panes, overlap = self._panes, self._numbers.overlap
        rows, windows = (lambda n, of=of: overlap * of(*self._numbers.panes(k, k + n)) for of in (panes.rows, panes.count))
        return self._choice.end(k, last, rows, windows)

    def _leave(self, k: int) -> None:
        """Windows before `k` are over, and panes that no other has."""
        self._next = k if self._next is None else max(k, self._next)
        self._panes.leave(self._numbers.panes(self._next, self._next + 1)[0])
        if self._stacks is not None and self._panes.first is None:
            self._stacks.clear()

    def _answers(self, k: int) -> Iterator[Batch]:
        ranked = self._panes.ranked(self._numbers.panes(k, k + 1)[0]) if self.window.size == self.window.pane else None
        if ranked is None:
            ranked = self.ranking.of((yield from self._batches(k)))
        if self._numbers.start(k) < self.since:
            self.incomplete += len(ranked.rank)
            return
        for first in range(0, len(ranked.rank), ROWS_MAX):
            part = slice(first, first + ROWS_MAX)
            rows = ranked.rows.take(ranked.places[part])
            columns = {**rows.columns, self.rank: Column(INT64, ranked.rank[part])}
            yield replace(rows, columns=columns, time=np.full(len(rows), self._numbers.end(k) - 1))

    def _answers_of(self, k: int, end: int) -> Iterator[Batch]:
        """Of windows `k` to before `end`."""
        if self._stacks is not None:
            self._stacks.clear()  # they are made anew where they are needed
        pieces = self._panes.pieces(*self._numbers.panes(k, end))
        rows = joined([piece.repeated(*self._numbers.with_panes(piece.panes, k, end)) for piece in pieces])
        yield PAUSE
        assert rows is not None, "window k has a row"
        columns: Columns = {**rows.rows.columns, self._window: Column(INT64, rows.panes)}
        ranked = self.ranking.of([replace(rows.rows, columns=columns)], self._window)
        for first in range(0, len(ranked.rank), ROWS_MAX):
            part = slice(first, first + ROWS_MAX)
            rows_of = ranked.rows.take(ranked.places[part])
            named = {**rows_of.columns, self.rank: Column(INT64, ranked.rank[part])}
            starts = named.pop(self._window).values * self.window.advance + self.window.offset
            whole = np.flatnonzero(starts >= self.since)
            self.incomplete += len(starts) - len(whole)
            answers = replace(rows_of, columns=named, time=starts + self.window.size - 1)
            yield answers if len(whole) == len(starts) else answers.take(whole)

    def _batches(self, k: int) -> Generator[Batch, None, list[Batch]]:
        if self._stacks is not None:
            return (yield from self._stacks.batches(k))
        return (yield from together(self._panes.batches(*self._numbers.panes(k, k + 1))))

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # --- what is there ---

    @property
    def state_bytes(self) -> int:
        shared = 0 if self._stacks is None else self._stacks.bytes
        return self._panes.bytes + shared + sum(batch_bytes(batch) for _, batch in self._restored)

    @property
    def next_end(self) -> int | None:
        k = self._next_window
        return None if k is None else self._numbers.end(k)

    @property
    def last_end(self) -> int | None:
        return self.next_end

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        panes = f"{len(self._panes)} panes open from the window ending at {describe_time(self.next_end)}"
        largest = max(self._panes.all(), key=lambda batches: sum(map(len, batches)), default=None)
        keys = [] if largest is None else self.ranking.largest_groups(list(up_to(largest, LOOK_ROWS)), 3)
        return f"{panes}; largest keys: {listed(keys)}"

    # --- snapshots ---

    def snapshot(self) -> list[Part]:
        """Rows as they came, each with the watermark up to which its windows have fired."""
        own = [(self.watermark, batch) for batches in self._panes.all() for batch in batches]
        schema = self.format.arrow.append(_WATERMARK)
        marked = [self._marked(*each, schema) for each in (*own, *self._restored)]
        return [Part(ROWS, 0, pa.concat_batches(marked) if marked else empty_batch(schema))]

    def _marked(self, watermark: int, batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
        marks = pa.Array.from_buffers(pa.int64(), len(batch), [None, pa.py_buffer(np.full(len(batch), watermark))])
        return pa.RecordBatch.from_arrays([*self.format.to_arrow(batch).columns, marks], schema=schema)

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            rows = self.format.from_arrow(part.batch.select(self.format.arrow.names))
            marks = numbers_in(part.batch.column(_WATERMARK.name))
            kept = keep(part.port, rows.columns).astype(bool)
            for watermark in np.unique(marks[kept]).tolist():
                self._restored.append((watermark, rows.take(np.flatnonzero(kept & (marks == watermark)))))
        self._restored.sort(key=lambda each: each[0])
        self._check()

    def clear(self) -> None:
        self._panes.leave(EVERY)
        self._restored = []
        if self._stacks is not None:
            self._stacks.clear()


def build(operator: Sort | TopN, context: BuildContext) -> SortOperator | SequentialOperator:
    producer, layout = operator.input, context.layout
    if isinstance(operator, Sort) and isinstance(operator.window, SizeWindow):
        return ChunkSort(operator, context.hold(producer), context.state_limit)
    if operator.window is None:
        return SequentialOperator(operator.name, context.hold(producer), context.state_limit)
    return SortOperator(operator, context.columns(producer), layout.words(producer), layout.ties(producer), context.state_limit)
