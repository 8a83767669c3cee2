"""The state of an Aggregate over TIME windows, or with periodic answers. Rules:

1. A row goes into the table of its pane; windows are made of whole panes (`cep.compile.windows.firing`).
2. A window fires when the watermark reaches its end, once, if it holds a row; windows fire in order of end. MAX_TIME fires all.
3. What comes out of a stage "partial" is one row for each group and pane; "final" merges them. Any cut of the rows into
   batches, stages and instances gives the same answers to the bit, since states merge exactly (`states.py`).
4. Rows older than the watermark of an earlier `advance` are a broken promise, not late rows: ProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from cep.compile.aggregate import results
from cep.compile.aggregate.entries import entry_columns, entry_rows, partials
from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.results import GroupFailure, Instant
from cep.compile.aggregate.rows import TimedRows, partial_rows, tuple_rows
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.states import Count
from cep.compile.windows.firing import Firing, firing_of, merges
from cep.compile.windows.panes import Panes, cut_panes
from cep.compile.windows.running import RunningFiring
from cep.compile.windows.thin_panes import ThinRows, gathered
from cep.elements import MAX_TIME, MIN_TIME, PAUSE, Batch
from cep.errors import ProtocolError
from cep.kernels.arrays import mask_array
from cep.kernels.columns import Column, Columns, columns_from_arrow, columns_to_arrow
from cep.kernels.jit import warm
from cep.kernels.tables.changes import ChangedBlocks, TakenBlocks
from cep.kernels.tables.keys import decode_keys
from cep.kernels.tables.pane_groups import number_pane_groups
from cep.kernels.tables.table import FrozenTable, Table
from cep.kernels.text import gather
from cep.model.schema import INT64, Field, Schema

__all__ = ["AggregateSpec", "GroupFailure", "WindowState"]

ROWS_MAX = 65_536
#: What the groups of a batch take, about.
BATCH_BYTES = 1 << 24
FAILURES_MAX = 10_000
RowFilter = Callable[[Columns], np.ndarray]

#: In place of the first instant of a pane: what groups of periodic answers were so far.
_RUNNING = MIN_TIME
_PLACE = (Field("_watermark", INT64), Field("_pane", INT64))


class WindowState:
    """What one instance of an Aggregate (or of a stage of it) has seen and not yet answered.

    `operator_name` is part of the origin of the answers; batches have at most `rows_max` rows.
    """

    def __init__(self, spec: AggregateSpec, operator_name: str, rows_max: int = ROWS_MAX) -> None:
        self.spec, self.name, self.rows_max = spec, operator_name, rows_max
        self.watermark = MIN_TIME
        self._panes = Panes(spec, merges(spec))
        self._running = RunningFiring(spec, self._panes) if spec.periodic and spec.stage != "partial" else None
        self._firing: Firing = self._running or firing_of(spec, self._panes)
        self._restored: list[tuple[int, pa.RecordBatch]] = []  # not before this watermark; in its order
        self._failures: list[GroupFailure] = []
        self.failed = 0
        self._emitting = False
        self._single: Table | None = None
        self._spare: list[np.ndarray] = []  # memory for the next snapshot
        self._tables = 0  # so many were taken for checkpoints
        spec.warm()
        warm(cut_panes, number_pane_groups, gather, *results.answer_kernels(spec))

    # Rows in

    def add(self, batch: Batch) -> None:
        """Takes tuples, or at stage "final" partial rows; none older than the watermark, none while an `advance` is unfinished."""
        for _ in self.adding(batch):
            pass

    def adding(self, batch: Batch) -> Iterator[None]:
        """As `add`, in steps where rows are of very many panes. To be pulled to its end like `advance`."""
        if self._emitting:
            raise ProtocolError(f"operator {self.name!r}: rows came while a window was being emitted")
        if len(batch.time):
            yield from self._panes.add(self._rows(batch), self.watermark)

    def singly(self, batch: Batch) -> Batch:
        """Stage "partial": each tuple as a partial row of its own, without gathering; the state stays as it is."""
        rows = tuple_rows(self.spec, batch)
        table = self._single or Table.make(self.spec.width, self.spec.sums, len(batch))
        self._single = table
        table.clear()
        numbers = np.arange(len(batch), dtype=np.uint64)
        rows.numbered(numbers).into(table, 0, len(batch))  # so row i is entry i; the true keys take the place of numbers below
        keys, n, width = rows.keys, len(batch), self.spec.width
        matrix = table.entries[: n * width].reshape(n, width).copy()  # the next call uses the table again
        matrix[:, 0], matrix[:, 1] = keys.w0, keys.w1
        columns = entry_columns(self.spec, matrix, keys.data, Groups(table, 0, n))
        if self.spec.keyed:
            columns |= {field.name: batch.columns[field.name] for field in self.spec.by}
        time = self._panes.last_instants(batch.time)
        return Batch(columns, time, None, batch.created)

    @property
    def groups(self) -> int:
        """In all open panes; what is thin has not been put into groups yet."""
        return sum(table.rows for _, table in self._panes.tables.items())

    def _rows(self, batch: Batch) -> TimedRows:
        if self.spec.stage == "final":
            return entry_rows(self.spec, batch.columns, np.ascontiguousarray(batch.time), batch.created)
        return tuple_rows(self.spec, batch)

    # Answers out

    def keeps_all(self, watermark: int) -> bool:
        """Does `watermark` close nothing? Then it is noted, and there is no need to `advance`."""
        end = self._firing.next_end
        if self._restored or (end is not None and end <= watermark):
            return False
        self.watermark = max(self.watermark, watermark)
        return True

    def advance(self, watermark: int) -> Iterator[Batch]:
        """What closes at `watermark`, in order of window end. May be pulled in steps, but must be pulled to its end before
        the next `add`, `advance` or `snapshot`."""
        self._emitting = True
        while self._restored and self._restored[0][0] <= watermark:
            yield from self._fire(self._restored[0][0])
            yield from self._join(self._restored.pop(0)[1])
        yield from self._fire(watermark)
        self._emitting = False

    def flush(self) -> Iterator[Batch]:
        """Stage "partial": partial rows of all that is there, panes still open included; the rest of those panes follows
        in other partial rows. To be pulled to its end like `advance`."""
        assert self.spec.stage == "partial", "only partial rows can leave before their time"
        self._emitting = True
        yield from self._emit_all(MAX_TIME)
        self._emitting = False

    def _fire(self, watermark: int) -> Iterator[Batch]:
        yield from self._emit_all(watermark)
        self.watermark = max(self.watermark, watermark)

    def _emit_all(self, watermark: int) -> Iterator[Batch]:
        for fired in self._firing.fire(watermark):
            if fired is None:
                yield PAUSE
                continue
            start, end, table = fired
            rows = table.rows
            most = self._rows_of_batch(rows, table.bytes_used)
            for row in range(0, rows, most):
                piece = slice(row, min(row + most, rows))
                bounds = (start, end) if isinstance(start, int) or isinstance(end, int) else (start[piece], end[piece])
                yield self._emit(bounds, Groups(table, piece.start, piece.stop))

    def _rows_of_batch(self, rows: int, size: int) -> int:
        """Fewer where groups, of `size` bytes in all, are large, so that a column does not outgrow its offsets of 32 bits."""
        return max(1, min(self.rows_max, rows * BATCH_BYTES // max(size, 1)))

    def _emit(self, bounds: tuple[Instant, Instant], groups: Groups) -> Batch:
        if self.spec.stage == "partial":
            return partials(self.spec, groups, bounds[1])
        failures: list[GroupFailure] = []
        batch = results.answers_of_window(self.spec, self.name, groups, bounds, failures)
        self.failed += len(failures)
        self._failures += failures[: FAILURES_MAX - len(self._failures)]
        return batch

    def take_failures(self) -> tuple[list[GroupFailure], int]:
        """Sums that did not fit since the last call: the first of them, and how many more there were."""
        taken, more = self._failures, self.failed - len(self._failures)
        self._failures, self.failed = [], 0
        return taken, more

    # What is there

    @property
    def bytes(self) -> int:
        """Memory of all tables."""
        restored = sum([batch.nbytes for _, batch in self._restored]) if self._restored else 0
        return self._panes.bytes + self._firing.bytes + restored

    @property
    def open_panes(self) -> int:
        return len(self._panes)

    @property
    def oldest_window_end(self) -> int | None:
        """End of the next window that will fire, µs; None while there is no row."""
        return self._firing.next_end

    def largest_keys(self, most: int) -> list[str]:
        """The groups with most rows (where rows are counted) in the pane with most groups, for a person to read."""
        table = self._panes.largest()
        if table is None:
            return []
        groups = Groups(table, 0, table.rows)
        counts = groups.word(self.spec.places[Count()]) if Count() in self.spec.places else np.zeros(len(groups), np.int64)
        order = np.argsort(-counts, kind="stable")[:most].tolist()
        keys = decode_keys(groups.keys(0).take(order), self.spec.by)
        counted = [f" ({counts[row]} rows)" if counts[row] else "" for row in order]
        return [results.describe_group(keys, self.spec.by, i) + count for i, count in enumerate(counted)]

    # Snapshots

    @property
    def snapshot_schema(self) -> Schema:
        """Where a row belongs (the watermark up to which its windows have fired, the first instant of its pane), and a partial row."""
        return Schema(_PLACE + self.spec.partial_schema.fields)

    def snapshot(self) -> list[Callable[[], pa.RecordBatch]]:
        """What makes batches, rows of `snapshot_schema`, of all groups of all panes that a window still needs, as they are now."""
        there = [(self._panes.start(number), table) for number, table in self._panes.tables.items()]
        found = [partial(self._rows_of, self.watermark, start, FrozenTable(table, self._spare)) for start, table in there if table.rows]
        return [*found, *self._without_tables()]

    def changes(self, number: int) -> list[tuple[Callable[[], pa.RecordBatch], TakenBlocks | None]]:
        """The same of what checkpoint `number` has to write: panes that something has gone into, and some blocks of the others."""
        found = list[tuple[Callable[[], pa.RecordBatch], TakenBlocks | None]]()
        for pane, table in self._panes.tables.items():
            if table.rows:
                taken = self._taken(table, number)
                rows = partial(self._rows_of, self.watermark, self._panes.start(pane), FrozenTable(table, self._spare, taken))
                found.append((rows, taken))
        return found + [(rows, None) for rows in self._without_tables()]

    def _taken(self, table: Table, number: int) -> TakenBlocks:
        if table.changed is None:
            self._tables += 1
            table.changed = ChangedBlocks(self._tables)
        table.changed.fit(table.rows)
        if table.touched:
            table.changed.mark_all()
        table.touched = False
        return table.changed.take(number, table.rows, 8 * self.spec.width)

    def stored(self, number: int) -> None:
        """What was taken for checkpoint `number` is on the disk."""
        for _, table in self._panes.tables.items():
            if table.changed is not None:
                table.changed.stored(number)

    def _without_tables(self) -> list[Callable[[], pa.RecordBatch]]:
        found = list[Callable[[], pa.RecordBatch]]()
        if thin := self._panes.thin.all():
            found.append(partial(self._thin_rows, self.watermark, thin))
        if self._running is not None and (running := self._running.running().table).rows:
            found.append(partial(self._rows_of, self.watermark, _RUNNING, FrozenTable(running, self._spare)))
        return found + [partial(_itself, batch) for _, batch in self._restored]

    def _thin_rows(self, watermark: int, pieces: Sequence[ThinRows]) -> pa.RecordBatch:
        made = gathered(self.spec, pieces)
        return self._saved(made.table, watermark, self._panes.starts(made.panes))

    def _rows_of(self, watermark: int, start: int, frozen: FrozenTable) -> pa.RecordBatch:
        return self._saved(frozen.table, watermark, start)

    def _saved(self, table: Table, watermark: int, starts: Instant) -> pa.RecordBatch:
        n = table.rows
        place = {"_watermark": np.full(n, watermark), "_pane": np.full(n, starts)}
        columns = {name: Column(INT64, values) for name, values in place.items()}
        return columns_to_arrow(columns | results.partial_columns(self.spec, Groups(table, 0, n)), self.snapshot_schema)

    def restore(self, batch: pa.RecordBatch, keep: RowFilter | None = None) -> None:
        """Adds the rows of a `snapshot` of the same operator, at any parallelism, of which `keep` (by columns -> bool[n])
        chooses this instance's. They join once the watermark reaches that of the instance which wrote them, so that none
        of their windows fires twice. Raises ProtocolError for rows of an instance that was behind this one."""
        self.spec.warm(restored=True)
        columns = columns_from_arrow(batch, self.snapshot_schema)
        marks = columns["_watermark"].values
        kept = np.ones(len(marks), bool) if keep is None else keep(columns).astype(bool)
        for watermark in np.unique(marks[kept]).tolist():
            if watermark < self.watermark:
                raise ProtocolError(f"operator {self.name!r}: restored rows at watermark {watermark}, already at {self.watermark}")
            own = kept & (marks == watermark)
            rows = batch if own.all() else batch.filter(mask_array(own))
            self._restored += [(watermark, rows.slice(start, ROWS_MAX)) for start in range(0, rows.num_rows, ROWS_MAX)]
        self._restored.sort(key=lambda each: each[0])

    def clear(self) -> None:
        """Forgets all groups; which windows have fired stays as it is."""
        self._panes, self._restored = Panes(self.spec, merges(self.spec)), []
        self._firing.clear(self._panes)

    def _join(self, batch: pa.RecordBatch) -> Iterator[Batch]:
        columns = columns_from_arrow(batch, self.snapshot_schema)
        rows = partial_rows(self.spec, columns, np.ascontiguousarray(columns["_pane"].values), 0)
        if self._running is not None:
            self._running.join(rows.take(np.flatnonzero(rows.time == _RUNNING)))
            rows = rows.take(np.flatnonzero(rows.time != _RUNNING))
        for _ in self._panes.add(rows, MIN_TIME):  # panes that are over, but not for every window
            yield PAUSE
        self._firing.panes_changed()
        yield PAUSE


def _itself(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch
