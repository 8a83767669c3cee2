"""Sort over SIZE windows: each so many rows of a group, in stream order, are put in order once the last of them is there.

Rows wait by number in arrays of their own (`KeptRows`), and each knows the row of its chunk before it, so a group costs two words and a row
one, however many rows a chunk has. A chunk that is whole is walked back from its last row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cep.compile.aggregate.results import describe_group, listed
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.operators.sequential import HELD, SequentialOperator
from cep.dataflow.patterns.kept_rows import KeptRows
from cep.dataflow.state.hold import Hold
from cep.dataflow.state.merging import ROWS_MAX
from cep.elements import EVENT_TIME_MAX, MAX_TIME, PAUSE, Batch
from cep.kernels.columns import Column
from cep.kernels.jit import kernel, warm
from cep.kernels.order_words import order_words
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.kernels.tables.keys import key_kernels
from cep.model.operators import Sort
from cep.model.schema import INT64, Field
from cep.model.windows import SizeWindow

CHUNKS = "chunks"
#: Groups that have no row are forgotten when there are so many, and more than of the others.
GROUPS_MORE = 4_096


@kernel("int64(int64, const int64[:], int64, int64[:], int64[:], int64[:], int64[:, :], int64[:])", on_demand=True)
def fill_chunks(
    begin: int,
    groups: np.ndarray,
    first: int,
    counts: np.ndarray,
    last: np.ndarray,
    before: np.ndarray,
    chunks: np.ndarray,
    ends: np.ndarray,
) -> int:
    """Takes rows from `begin` on until `chunks` is full; row i has number `first` + i. Chunk k that became whole is `chunks[k]`, numbers of
    rows in stream order, and ended with row `ends[k]`; behind the last one stands -1. Returns how many rows were taken."""
    most, size = chunks.shape
    done = 0
    for i in range(begin, len(groups)):
        group, number = groups[i], first + i
        before[number] = last[group]
        last[group] = number
        counts[group] += 1
        if counts[group] == size:
            counts[group] = 0
            for place in range(size - 1, -1, -1):
                chunks[done, place] = number
                number = before[number]
            ends[done] = i
            done += 1
            if done == most:
                return i + 1
    ends[done] = -1
    return len(groups)


@kernel("void(const int64[:], const int64[:], const int64[:], int64[:])", on_demand=True)
def list_waiting(counts: np.ndarray, last: np.ndarray, before: np.ndarray, out: np.ndarray) -> None:
    """The numbers of the rows of chunks that are not whole, group by group, in stream order."""
    end = 0
    for group in range(len(counts)):
        end += counts[group]
        number = last[group]
        for back in range(counts[group]):
            out[end - 1 - back] = number
            number = before[number]


class Chunks:
    """Rows that wait for the rest of their `size`."""

    def __init__(self, by: tuple[Field, ...], size: int, kept: KeptRows) -> None:
        self.by, self.size, self.kept = by, size, kept
        self.clear()
        warm(fill_chunks, list_waiting, *key_kernels(by))

    def clear(self) -> None:
        self.kept.clear()
        self.numbers = GroupNumbers(self.by)
        self._counts, self._last = np.zeros((2, 0), np.int64)
        self._before = np.zeros(0, np.int64)

    @property
    def bytes(self) -> int:
        return self.kept.bytes + self.numbers.bytes + self._counts.nbytes + self._last.nbytes + self._before.nbytes

    @property
    def counts(self) -> np.ndarray:
        """int64[groups]: rows that wait."""
        return self._counts[: len(self.numbers)]

    def take(self, batch: Batch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows in stream order, behind those taken before. Yields chunks that became whole, numbers of rows, int64[k, size], and which row
        of `batch` was the last of each, int64[k]."""
        groups, first = self.numbers.of(batch.columns, len(batch)), self.kept.rows
        self._counts, self._last = (_with_room(each, len(self.numbers)) for each in (self._counts, self._last))
        self._before = _with_room(self._before, first + len(batch))
        self.kept.add(batch)
        most = max(min(ROWS_MAX // self.size, len(batch)), 1)
        chunks, ends, taken = np.empty((most, self.size), np.int64), np.empty(most + 1, np.int64), 0
        while taken < len(batch):
            ends[most] = -1
            taken = fill_chunks(taken, groups, first, self._counts, self._last, self._before, chunks, ends)
            done = int(np.flatnonzero(ends == -1)[0])
            if done:
                yield chunks[:done], ends[:done]
        if self.kept.wants_sweep:
            self._sweep()

    def waiting(self) -> np.ndarray:
        """int64[n]: the rows that wait, group by group, in stream order."""
        found = np.empty(int(self.counts.sum()), np.int64)
        list_waiting(self.counts, self._last, self._before, found)
        return found

    def _sweep(self) -> None:
        """Leaves behind the rows that came out, and groups that have none where these are most."""
        waiting, named = self.waiting(), np.zeros(self.kept.rows, np.uint8)
        named[waiting] = 1
        numbers = self.kept.keep(named)
        self._before[: self.kept.rows] = numbers[self._before[: len(named)][named == 1]]
        self._last = numbers.take(self._last, mode="clip") if len(numbers) else self._last
        full = np.flatnonzero(self.counts)
        if len(self.numbers) > 2 * len(full) + GROUPS_MORE:
            self.numbers.keep(full)
            self._counts, self._last = self._counts[full], self._last[full]


class ChunkSort(SequentialOperator):
    """The rows of each chunk with their `rank`, at the event time of its last one."""

    def __init__(self, sort: Sort, hold: Hold, state_limit: int) -> None:
        super().__init__(sort.name, hold, state_limit)
        assert isinstance(sort.window, SizeWindow)
        self.sort = sort
        by = tuple(hold.schema[name] for name in sort.by)
        self.chunks = Chunks(by, sort.window.size, KeptRows(hold.schema, hold.format.origin))

    @property
    def memory_bytes(self) -> int:
        return self.chunks.bytes

    def _take(self, batch: Batch) -> Iterator[Batch]:
        for numbers, ends in self.chunks.take(batch):
            lengths = np.full(len(numbers), self.chunks.size)
            yield from self._ranked(numbers.ravel(), lengths, np.repeat(batch.time[ends], lengths), batch.created)
            yield PAUSE

    def _ranked(self, rows: np.ndarray, lengths: np.ndarray, time: np.ndarray, created: int) -> Iterator[Batch]:
        """The rows of chunks of these lengths, in stream order each, in the order that is asked for."""
        chunk, kept = np.repeat(np.arange(len(lengths)), lengths), self.chunks.kept
        read = kept.columns(rows, {name for name, _ in self.sort.order})
        words = [word for name, descending in self.sort.order for word in order_words(read[name], descending)]
        rows = rows[np.lexsort((*reversed(words), chunk))]
        rank = np.arange(1, len(rows) + 1) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        for begin in range(0, len(rows), ROWS_MAX):
            part = slice(begin, begin + ROWS_MAX)
            columns = kept.columns(rows[part], kept.schema.names) | {self.sort.rank: Column(INT64, rank[part])}
            yield Batch(columns, time[part], kept.origins(rows[part]), created)

    def on_watermark(self, watermark: int) -> Iterator[Batch]:
        yield from super().on_watermark(watermark)
        if watermark == MAX_TIME:
            lengths = self.chunks.counts[self.chunks.counts > 0]
            if self.sort.emit_partial:
                rows = self.chunks.waiting()
                yield from self._ranked(rows, lengths, np.full(len(rows), EVENT_TIME_MAX), 0)
            else:
                self.incomplete += len(lengths)

    def snapshot(self) -> list[Part]:
        rows, kept = self.chunks.waiting(), self.chunks.kept
        waiting = Batch(kept.columns(rows, kept.schema.names), np.zeros(len(rows), np.int64), kept.origins(rows))
        return [Part(HELD, 0, self.hold.snapshot()), Part(CHUNKS, 0, self.hold.format.to_arrow(waiting))]

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        for part in parts:
            if part.name == HELD:
                self.hold.restore(part.batch, keep(0, self.hold.columns(part.batch)))
                continue
            rows = self.hold.format.from_arrow(part.batch)
            whole = list(self.chunks.take(rows.take(np.flatnonzero(keep(0, rows.columns)))))
            assert not whole, "what waits in one instance is no whole chunk, and no other has rows of its groups"
        self._check()

    def clear(self) -> None:
        self.hold.clear()
        self.chunks.clear()

    def contents(self) -> str:
        counts = self.chunks.counts
        largest = np.argsort(-counts, kind="stable")[:3]
        columns = self.chunks.numbers.columns_of(largest)
        keys = [f"{describe_group(columns, self.chunks.by, i)} ({counts[group]} rows)" for i, group in enumerate(largest.tolist())]
        held = self.hold.largest_keys(self.chunks.by, 3) or keys
        waiting = f"{int(counts.sum())} rows wait for the rest of {self.chunks.size}, {len(self.hold)} for the watermark"
        return f"{waiting}; largest keys: {listed(held)}"


def _with_room(array: np.ndarray, wanted: int) -> np.ndarray:
    """`array`, or a larger one that begins with its items, zeros behind them."""
    if wanted <= len(array):
        return array
    larger = np.zeros(max(2 * wanted, 64), np.int64)
    larger[: len(array)] = array
    return larger
