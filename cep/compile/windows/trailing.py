"""The state of trailing windows: of every row an answer of the rows of its group that are in the window which ends with it. Rules:

1. Rows come in stream order, those of one event time in one batch where the window is a span of time. FIRST and LAST go by the number
   of a row in that order, as in `cep.compile.windows.sequential`.
2. What is kept of a row is its states, merged with those of rows behind it (`trailing_source`); the row itself is not.
3. A row leaves when a later one of its group comes. Groups whose last row is too old for any row to come are forgotten, and regions that
   have become too large are cut down, once as many rows and watermarks have come as there are groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cep.compile.aggregate import results
from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.results import GroupFailure, partial_columns
from cep.compile.aggregate.rows import TupleRows, partial_rows, tuple_rows
from cep.compile.aggregate.spec import AggregateSpec, free_prefix
from cep.compile.windows.accumulator import Accumulator
from cep.compile.windows.trailing_source import (
    ANSWERED,
    BASE,
    DESK_WORDS,
    DONE,
    FIRST,
    FLIP,
    FRESH,
    NEXT,
    ROOM,
    ROOM_MIN,
    RUN,
    SIZES,
    TAKEN,
    USED,
    WORK,
)
from cep.elements import PAUSE, Batch
from cep.kernels.arrays import mask_array
from cep.kernels.columns import Column, Columns, columns_from_arrow, columns_to_arrow
from cep.kernels.jit import kernel, warm
from cep.kernels.tables.group_table import GroupTable, number_groups
from cep.kernels.tables.keys import Keys, decode_keys
from cep.model.schema import INT64, Field, Schema
from cep.model.windows import TrailingWindow

#: Answers at a time, and their bytes.
ROWS_MAX, BATCH_BYTES = 65_536, 1 << 24
#: Rows taken, answers and merges between two pauses, and the bytes that these may write where states have no bound.
PIECE_WORK, PIECE_BYTES = 131_072, 1 << 22
#: Groups that are looked through between two pauses.
PIECE_GROUPS = 1 << 16
#: Groups to forget are looked for after so many rows at least, and what a watermark counts among them.
WORK_MIN, WATERMARK_ROWS = 4_096, 64
#: So many times as many entries as hold something are too many.
EXCESS = 8
FAILURES_MAX = 10_000
NO_BOUND = -1
_ORIGIN_WORDS = 2
_KEY_WORDS = 2

RowFilter = Callable[[Columns], np.ndarray]


@dataclass(frozen=True)
class RowAnswers:
    """The answers to rows `start` to before `stop` of a batch."""

    start: int
    stop: int
    columns: dict[str, Column]


@kernel("int64(const int64[:], int64, int64, int64, int64[:, :])", on_demand=True)
def list_rows(groups: np.ndarray, width: int, begin: int, end: int, out: np.ndarray) -> int:
    """Group, number and entry of each row that is kept of the groups from `begin` to before `end`, those of a group in order; returns how
    many."""
    count = 0
    for group in range(begin, end):
        at = group * width
        for number in range(groups[at + FIRST], groups[at + NEXT]):
            entry = groups[at + BASE] + 1 + (number & (groups[at + ROOM] - 1))
            out[count, 0], out[count, 1], out[count, 2] = group, number, entry
            count += 1
    return count


class TrailingState:
    """What one instance keeps of groups. `ttl` in µs, or None. Batches of answers have at most `rows_max` rows.

    Taking, forgetting and moving are in one class, since all of them work on the same entries.
    """

    def __init__(self, spec: AggregateSpec, name: str, window: TrailingWindow, ttl: int | None, rows_max: int = ROWS_MAX) -> None:
        self.spec = replace(spec, ties=False, origin_words=_ORIGIN_WORDS)
        self.name, self.window, self.ttl, self.rows_max = name, window, ttl, rows_max
        bounds = window.rows, window.size, ttl
        rows, span, age = (NO_BOUND if bound is None else bound for bound in bounds)
        self._bounds = rows, span, age
        self.accumulator = Accumulator(self.spec)
        self.sequence = 0
        self.failures: list[GroupFailure] = []
        self.failed = 0
        self._desk = np.zeros(DESK_WORDS, np.int64)
        self._bounded = not any(part.kind == "block" for _, part in self.spec.parts)
        self._piece = PIECE_WORK if self._bounded else 1
        self.clear()
        self.accumulator.warm(trails=True)
        warm(number_groups, list_rows)

    def clear(self) -> None:
        """Forgets all groups; the numbers of rows go on."""
        self.groups = GroupTable(FRESH)
        self.accumulator.empty()
        self._left = np.full(SIZES, -1, np.int64)
        self._desk[USED] = 0
        self._work, self._due = 0, WORK_MIN

    # Rows in, answers out

    def take(self, batch: Batch) -> Iterator[RowAnswers | None]:
        """Rows in stream order, none before any that were taken; None where others may work. To be pulled to its end before anything
        else is called."""
        n, rows, desk = len(batch), self._numbered(batch), self._desk
        numbers = self.groups.numbers(Keys(*rows.arrays[:3]))
        desk[TAKEN] = desk[ANSWERED] = desk[RUN] = start = 0
        while start < n:
            room = min(n - start, self.rows_max)
            self.accumulator.clear(room)
            while True:
                for _ in self._go_on(numbers, rows.arrays[3:]):
                    yield None
                output = self.accumulator.output
                if desk[ANSWERED] == n or output.rows == room or output.bytes_used > BATCH_BYTES:
                    break
                yield None
            yield self._answers(batch, start, int(desk[ANSWERED]))
            start = int(desk[ANSWERED])
        self._work += n

    def _numbered(self, batch: Batch) -> TupleRows:
        """The rows as arguments of the loop; their origins are their numbers in stream order."""
        if self.spec.needs_origin:
            origin = np.zeros((len(batch), _ORIGIN_WORDS), np.int64)
            origin[:, 1] = np.arange(self.sequence, self.sequence + len(batch))
            self.sequence += len(batch)
            batch = replace(batch, origin=origin)
        return tuple_rows(self.spec, batch)

    def _go_on(self, numbers: np.ndarray, arguments: tuple[np.ndarray, ...]) -> Iterator[None]:
        """A piece of work, which pauses while it makes room. Where states have no bound, how large the next one may be follows from what it
        wrote."""
        written, self._desk[WORK] = self.accumulator.written, self._piece
        yield from self.accumulator.trail(self.groups, numbers, self._bounds, self._left, self._desk, arguments)
        if not self._bounded:
            done = self._piece - int(self._desk[WORK])
            fitting = done * PIECE_BYTES // max(self.accumulator.written - written, 1)
            self._piece = max(1, min(2 * self._piece, fitting, PIECE_WORK))

    def _answers(self, batch: Batch, start: int, stop: int) -> RowAnswers:
        rows = batch.take(slice(start, stop))
        failures: list[GroupFailure] = []
        made = Groups(self.accumulator.output, 0, stop - start)
        columns = results.answer_columns(self.spec, self.name, made, (rows.time, 0, 0), failures, rows.columns)
        self.failed += len(failures)
        self.failures += failures[: FAILURES_MAX - len(self.failures)]
        return RowAnswers(start, stop, {answer.field.name: columns[answer.field.name] for answer in self.spec.answers})

    def take_failures(self) -> tuple[list[GroupFailure], int]:
        """Results that could not be given since the last call: the first of them, and how many more there were."""
        taken, more = self.failures, self.failed - len(self.failures)
        self.failures, self.failed = [], 0
        return taken, more

    # What is there

    @property
    def bytes(self) -> int:
        return self.groups.table.bytes + self.accumulator.bytes

    def largest_keys(self, most: int) -> list[str]:
        """The groups with most rows in their windows, for a person to read."""
        counts = self._counts
        order = np.argsort(-counts, kind="stable")[:most].tolist()
        keys = decode_keys(Groups(self.groups.table, 0, self.groups.rows).keys(0), self.spec.by)
        return [f"{results.describe_group(keys, self.spec.by, row)} ({counts[row]} rows)" for row in order]

    @property
    def _counts(self) -> np.ndarray:
        """int64[groups]: rows that are kept."""
        words = self.groups.matrix
        counts: np.ndarray = words[:, NEXT] - words[:, FIRST]
        return counts

    def _rows(self, begin: int = 0, end: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Group, number and entry of each row that is kept, of all groups or those from `begin` to before `end`."""
        end = self.groups.rows if end is None else end
        listed = np.empty((int(self._counts[begin:end].sum()), 3), np.int64)
        list_rows(*self.groups.words, begin, end, listed)
        group, number, entry = np.ascontiguousarray(listed.T)
        return group, number, entry

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """All groups, so many at a time."""
        rows = self.groups.rows
        return ((begin, min(begin + PIECE_GROUPS, rows)) for begin in range(0, rows, PIECE_GROUPS))

    def _times(self, entries: np.ndarray) -> np.ndarray:
        """The event times of the rows in `entries`."""
        times: np.ndarray = self.accumulator.slots.entries[entries * self.spec.width + 1]
        return times

    # Forgetting

    def forget(self, watermark: int) -> Iterator[Batch]:
        """Every row before `watermark` was taken: frees, now and then, what no row to come sees. It pauses; to be pulled to its end before
        anything else is called."""
        self._work += WATERMARK_ROWS
        if self._work < self._due:
            return
        over = np.zeros(self.groups.rows, bool)
        for begin, end in self._pieces():
            over[begin:end] = self._over(watermark, begin, end)
            yield PAUSE
        if 2 * int(over.sum()) > len(over) or EXCESS * self.accumulator.count() < self.accumulator.capacity:
            yield from self._rebuild(~over)
        self._work, self._due = 0, max(self.groups.rows, WORK_MIN)

    def _over(self, watermark: int, begin: int, end: int) -> np.ndarray:
        """bool[end - begin]: of which of these groups are all rows too old for every row from `watermark` on?"""
        spans = [span for span in (self.window.size, self.ttl) if span is not None]
        words = self.groups.matrix[begin:end]
        if not spans:
            return np.zeros(len(words), bool)
        last = words[:, BASE] + 1 + ((words[:, NEXT] - 1) & (words[:, ROOM] - 1))
        over: np.ndarray = self._times(last) < max(watermark, -(2**62)) - min(spans)
        return over

    def _rebuild(self, kept: np.ndarray) -> Iterator[Batch]:
        """Keeps the groups `kept`, bool[groups], in regions as large as they need."""
        for _ in self.groups.keeping(kept):
            yield PAUSE
        sources, times = [], []
        for begin, end in self._pieces():
            _, _, entry = self._rows(begin, end)
            sources += [self.groups.matrix[self._with_backs(begin, end), BASE], entry]
            times.append(self._times(entry))
            yield PAUSE
        targets, rows = [], []
        self._desk[USED], self._left[:] = 0, -1
        for begin, end in self._pieces():
            self._lay_out(begin, end)
            _, _, entry = self._rows(begin, end)
            targets += [self.groups.matrix[self._with_backs(begin, end), BASE], entry]
            rows.append(entry)
            yield PAUSE
        capacity = max(2 * int(self._desk[USED]), 64)
        for _ in self.accumulator.rewriting(capacity, _joined(sources), _joined(targets)):
            yield PAUSE
        for entry, time in zip(rows, times, strict=True):
            self._set_times(entry, time)
            yield PAUSE
        self.accumulator.forget()

    def _with_backs(self, begin: int, end: int) -> np.ndarray:
        """The groups among these that have rows in the back."""
        words = self.groups.matrix[begin:end]
        return begin + np.flatnonzero(words[:, FLIP] < words[:, NEXT])

    def _lay_out(self, begin: int, end: int) -> None:
        """Gives the groups from `begin` to before `end` regions, one behind the other behind those in use."""
        words = self.groups.matrix[begin:end]
        room = np.maximum(words[:, NEXT] - words[:, FIRST], ROOM_MIN)
        words[:, ROOM] = 1 << np.ceil(np.log2(room)).astype(np.int64)
        ends = self._desk[USED] + np.cumsum(1 + words[:, ROOM])
        words[:, BASE] = ends - 1 - words[:, ROOM]
        self._desk[USED] = ends[-1] if len(ends) else self._desk[USED]

    def _entries(self, group: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Where rows of these groups and numbers are."""
        words = self.groups.matrix[group]
        entries: np.ndarray = words[:, BASE] + 1 + (number & (words[:, ROOM] - 1))
        return entries

    def _set_times(self, entries: np.ndarray, times: np.ndarray) -> None:
        self.accumulator.slots.entries[entries * self.spec.width + 1] = times

    # Snapshots

    @property
    def _snapshot_schema(self) -> Schema:
        """Number, event time, the numbers of its group's first row and of the first of the back, rows taken; and a partial row."""
        prefix = free_prefix("_w", self.spec.operator.by)
        return Schema((*(Field(f"{prefix}{k}", INT64) for k in range(5)), *self.spec.partial_schema.fields))

    def snapshot(self) -> pa.RecordBatch:
        """All rows that are kept, as they are merged."""
        group, number, entry = self._rows()
        words = self.groups.matrix[group]
        place = [number, self._times(entry), words[:, FIRST], words[:, FLIP], np.full(len(group), self.sequence)]
        partial = partial_columns(self.spec, self.accumulator.groups(self.groups.table, entry, group))
        schema = self._snapshot_schema
        hidden = {name: Column(INT64, np.ascontiguousarray(values)) for name, values in zip(schema.names, place, strict=False)}
        return columns_to_arrow(hidden | partial, schema)

    def restore(self, batch: pa.RecordBatch, keep: RowFilter) -> None:
        """Adds the rows of a `snapshot` of the same operator, at any parallelism, of which `keep` (by columns -> bool[n]) chooses whole
        groups."""
        schema, before = self._snapshot_schema, self.groups.rows
        kept = keep(columns_from_arrow(batch, schema)).astype(bool)
        columns = columns_from_arrow(batch.filter(mask_array(kept)), schema)
        n = int(kept.sum())
        if not n:
            return
        number, time, first, flip, sequence = (columns[name].values for name in schema.names[:5])
        rows = partial_rows(self.spec, columns, time, 0)
        key0, key1 = (np.ascontiguousarray(rows.matrix[:, k]).view(np.uint64) for k in range(_KEY_WORDS))
        group = self.groups.numbers(Keys(key0, key1, rows.arena))
        words = self.groups.matrix
        words[group, FIRST], words[group, DONE], words[group, FLIP] = first, first, flip
        np.maximum.at(words[:, NEXT], group, number + 1)
        self._lay_out(before, self.groups.rows)
        if self._desk[USED] > self.accumulator.capacity:
            self.accumulator.extend(2 * int(self._desk[USED]))
        entries = self._entries(group, number)
        other = rows.matrix.reshape(-1), rows.arena, rows.pool
        self.accumulator.absorb(entries, np.arange(n), np.ones(n, np.uint8), *other)
        self._set_times(entries, time)
        back = np.flatnonzero(number >= flip)
        _, firsts = np.unique(group[back], return_index=True)
        fresh = np.zeros(len(back), np.uint8)
        fresh[firsts] = 1
        self.accumulator.absorb(words[group[back], BASE], back, fresh, *other)
        self.sequence = max(self.sequence, int(sequence.max()))


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
