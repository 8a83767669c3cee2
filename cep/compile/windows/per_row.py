"""The state of UNBOUNDED with an answer per row: a table of groups as they are so far, and each row is answered from its group's entry.

1. Rows come in stream order, as to `cep.compile.windows.sequential`. So FIRST and LAST go by the number of a row in that order.
2. An entry is all that there is of a group: finding, taking and answering touch one place in memory, whatever the functions.
3. What states leave behind in arena and pool (`cep.kernels.tables.table`) would pile up, for groups live long. So where these are full,
   all groups are first written anew; then arena and pool are twice as large as what is in use, and that work is shared by as many changes.
4. Groups that begin anew with whatever comes are forgotten, once as many rows and watermarks have come as there are groups.
5. A checkpoint has what has changed (`cep.kernels.tables.changes`): groups keep their places until some are forgotten, over a recovery too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from cep.compile.aggregate import results
from cep.compile.aggregate.groups import Groups
from cep.compile.aggregate.results import GroupFailure, partial_columns
from cep.compile.aggregate.rows import PartialRows, TupleRows, partial_rows, tuple_rows
from cep.compile.aggregate.source import KEY_WORDS
from cep.compile.aggregate.spec import AggregateSpec, free_prefix
from cep.compile.aggregate.states import Count
from cep.compile.windows.accumulator import is_full, make_ample, plain_table
from cep.compile.windows.sequential import FAILURES_MAX, PIECE_BYTES, PIECE_OPERATIONS, WATERMARK_ROWS, WORK_MIN
from cep.elements import Batch
from cep.kernels.arrays import mask_array
from cep.kernels.columns import Column, Columns, columns_from_arrow, columns_to_arrow
from cep.kernels.jit import warm
from cep.kernels.states.exact_sum import round_exact
from cep.kernels.tables.changes import ChangedBlocks, FoundBlocks, TakenBlocks
from cep.kernels.tables.keys import Keys, decode_keys, key_kernels
from cep.kernels.tables.table import ARENA_USED, ARENA_WANTED, ROWS, FrozenTable, Table, fill_slots
from cep.model.schema import INT64, Field, Schema
from cep.model.windows import UnboundedWindow

_ORIGIN_WORDS = 2
#: Groups that are made batches of, or restored, at a time: what is made of them on the way lies in memory that is used again.
PIECE_ROWS = 65_536
#: Event times of entries, which have none.
_AT_ZERO = np.zeros(PIECE_ROWS, np.int64)


class PerRowState:
    """What one instance has seen. Rows of which the functions read the origin are numbered here."""

    incomplete = outside = 0  # every row is answered
    first_deadline: int | None = None

    def __init__(self, spec: AggregateSpec, operator_name: str) -> None:
        self.spec = replace(spec, ties=False, origin_words=_ORIGIN_WORDS, each=True)
        self.name, self.window = operator_name, spec.operator.window
        assert isinstance(self.window, UnboundedWindow)
        self.ttl = self.window.ttl
        #: Texts are keys as they stand; numbers are written anew, for -0.0 is 0.0 in keys.
        self.by_text = all(field.type.is_text for field in self.spec.by)
        self.stride = sum(state.words for state in self.spec.asked)
        self.sequence = 0
        self.failures: list[GroupFailure] = []
        self.failed = 0
        #: Rows that are answered at a time; where states have no bound that follows from what they write.
        self._bounded = not any(part.kind == "block" for _, part in self.spec.parts)
        self._piece = PIECE_OPERATIONS if self._bounded else 1
        self._spare: list[np.ndarray] = []  # memory for the next snapshot
        self._tables = 0  # so many there have been
        self.clear()
        loops = self.spec.loops
        assert loops.each is not None
        self._each = loops.each
        warm(self._each, loops.merge, fill_slots, *key_kernels(self.spec.by), *([round_exact] if self.spec.sums else []))

    def clear(self) -> None:
        """Forgets all groups; the numbers of rows go on."""
        self.groups, self.answers = self._table(0), plain_table(self.stride, self.spec.sums, 0)
        self._begin_blocks()
        self._work, self._due = 0, WORK_MIN  # rows and watermarks since groups were looked through, and after how many that is due

    def _table(self, rows: int) -> Table:
        return Table.make(self.spec.width, self.spec.sums, rows)

    def _begin_blocks(self) -> None:
        """Its entries are others: no checkpoint has them."""
        self._tables += 1
        self._changed = ChangedBlocks(self._tables)

    # Rows in, answers out

    def take(self, batch: Batch) -> Iterator[Batch]:
        """Rows in stream order, none before any that were taken; an answer for each, which has its key, event time and origin."""
        start, n = 0, len(batch.time)
        while start < n:
            stop, written = min(start + self._piece, n), self._written
            yield self._answered(batch if stop - start == n else batch.take(slice(start, stop)))
            self._learn(stop - start, self._written - written)
            start = stop
        self._work += n

    @property
    def _written(self) -> int:
        """Bytes that lie in arenas: what grows with the work of functions whose states have no bound."""
        return int(self.groups.control[ARENA_USED]) + int(self.answers.control[ARENA_USED])

    def _learn(self, done: int, written: int) -> None:
        """So much was written by a piece of `done` rows: how large may the next one be?"""
        if not self._bounded:
            fitting = done * PIECE_BYTES // max(written, 1)
            self._piece = max(1, min(2 * self._piece, fitting, PIECE_OPERATIONS))

    def _answered(self, batch: Batch) -> Batch:
        rows, n = self._numbered(batch), len(batch.time)
        self._write(rows, n)
        by = batch.columns if self.by_text else self.spec.decode(Keys(*rows.arrays[:3]))
        failures: list[GroupFailure] = []
        answers = Groups(self.answers, 0, n, stays=True)
        columns = results.answer_columns(self.spec, self.name, answers, (batch.time, 0, 0), failures, by)
        self.failed += len(failures)
        self.failures += failures[: FAILURES_MAX - len(self.failures)]
        return Batch(columns, batch.time, batch.origin if self.spec.origin else None, batch.created)

    def _write(self, rows: TupleRows, n: int) -> None:
        """Takes all rows and writes their answers, for which there are new entries: columns of the last ones may look at those."""
        answers = self.answers
        answers.entries = np.empty(n * self.stride + KEY_WORDS, np.int64)
        answers.control[:] = 0
        start, taken, ttl = 0, 0, self.ttl or 0
        while True:
            out = answers.entries, answers.control, answers.arena, answers.pool
            groups = self.groups
            table = groups.slots, groups.entries, groups.control, groups.arena, groups.pool
            self._changed.fit(groups.capacity)
            marks = self._changed.marks, self._changed.sizes.shift
            stop = int(self._each(*table, start, n, taken, ttl, *out, *marks, *rows.arrays))
            if stop == n:
                return
            start = stop if stop >= 0 else -1 - stop
            taken = max(taken, stop if stop >= 0 else -stop)  # what is taken stays so, though it finds no room the next time
            self._make_room()

    def _make_room(self) -> None:
        """Where groups or answers lack it."""
        if is_full(self.groups):
            self._rewrite(np.arange(self.groups.rows))
        elif self.groups.rows == self.groups.capacity:
            self.groups.grow()
        self.answers.grow_bytes()

    def _numbered(self, batch: Batch) -> TupleRows:
        """The rows as arguments of the loop; their origins are their numbers in stream order."""
        if self.spec.needs_origin:
            origin = np.zeros((len(batch), _ORIGIN_WORDS), np.int64)
            origin[:, 1] = np.arange(self.sequence, self.sequence + len(batch))
            self.sequence += len(batch)
            batch = replace(batch, origin=origin)
        return tuple_rows(self.spec, batch)

    def take_failures(self) -> tuple[list[GroupFailure], int]:
        """Results that could not be given since the last call: the first of them, and how many more there were."""
        taken, more = self.failures, self.failed - len(self.failures)
        self.failures, self.failed = [], 0
        return taken, more

    # Watermarks: nothing comes out with them

    def close(self, watermark: int) -> Iterator[Batch]:
        """Forgets groups that begin anew with whatever comes, if they are most."""
        self._work += WATERMARK_ROWS
        if self.spec.last is not None and self.ttl is not None and self._work >= self._due:
            kept = self.groups.matrix[:, self.spec.last] >= max(watermark, -(2**62)) - self.ttl
            if 2 * int(kept.sum()) < len(kept):
                self._rewrite(np.flatnonzero(kept))
                self._begin_blocks()
            self._work, self._due = 0, max(self.groups.rows, WORK_MIN)
        yield from ()

    def finish(self) -> Iterator[Batch]:
        yield from ()

    def _rewrite(self, kept: np.ndarray) -> None:
        """Only groups `kept`, int64[n] ascending, and nothing that states have left behind."""
        old, self.groups = self.groups, self._table(len(kept))
        matrix = old.matrix if len(kept) == old.rows else old.matrix[kept]
        self._join(PartialRows(self.spec.loops, np.zeros(len(kept), np.int64), 0, matrix, old.arena, old.pool))
        self.groups.control[ARENA_WANTED] = old.control[ARENA_WANTED]
        make_ample(self.groups)

    def _join(self, rows: PartialRows) -> None:
        rows.into(self.groups, 0, len(rows.matrix))

    # What is there

    @property
    def bytes(self) -> int:
        return self.groups.bytes + self._changed.bytes + self.answers.arena.nbytes + self.answers.pool.nbytes

    def largest_keys(self, most: int) -> list[str]:
        """The groups of which most rows were taken, for a person to read."""
        counts = self.groups.matrix[:, self.spec.places[Count()]]
        order = np.argsort(-counts, kind="stable")[:most].tolist()
        keys = decode_keys(Groups(self.groups, 0, self.groups.rows).keys(0).take(order), self.spec.by)
        return [f"{results.describe_group(keys, self.spec.by, i)} ({counts[row]} rows)" for i, row in enumerate(order)]

    # As rows and back: partial rows, and how many rows the instance had taken

    @property
    def _snapshot_schema(self) -> Schema:
        return Schema((Field(free_prefix("_w", self.spec.operator.by), INT64), *self.spec.partial_schema.fields))

    def snapshot(self) -> list[Callable[[], pa.RecordBatch]]:
        """What makes batches of all groups, as they are now; a group has its key, so they can be dealt to any number of instances."""
        return self._pieces_of(FrozenTable(self.groups, self._spare))

    def changes(self, number: int) -> list[tuple[Callable[[], pa.RecordBatch], TakenBlocks]]:
        """The same of the blocks that checkpoint `number` has to write, and which they are."""
        self._changed.fit(self.groups.rows)
        taken = self._changed.take(number, self.groups.rows, 8 * self.spec.width)
        pieces = self._pieces_of(FrozenTable(self.groups, self._spare, taken))
        return [(piece, taken.between(k * PIECE_ROWS, (k + 1) * PIECE_ROWS)) for k, piece in enumerate(pieces)]

    def stored(self, number: int) -> None:
        """What was taken for checkpoint `number` is on the disk."""
        self._changed.stored(number)

    def _pieces_of(self, frozen: FrozenTable) -> list[Callable[[], pa.RecordBatch]]:
        rows = frozen.table.rows
        return [partial(self._rows_of, frozen, start, min(start + PIECE_ROWS, rows), self.sequence) for start in range(0, rows, PIECE_ROWS)]

    def _rows_of(self, frozen: FrozenTable, start: int, stop: int, sequence: int) -> pa.RecordBatch:
        schema = self._snapshot_schema
        hidden = {schema.names[0]: Column(INT64, np.full(stop - start, sequence))}
        return columns_to_arrow(hidden | partial_columns(self.spec, Groups(frozen.table, start, stop)), schema)

    def restore(
        self,
        batches: Sequence[pa.RecordBatch],
        keep: Callable[[Columns], np.ndarray],
        found: Sequence[FoundBlocks] = (),
    ) -> None:
        """Adds the rows of `snapshot`s of the same operator, at any parallelism, of which `keep` (by columns -> bool[n]) chooses. `found`:
        which blocks each of them is, of one table that nothing is kept from."""
        if len(found) == len(batches) > 0 and not self.groups.rows and self._restore_blocks(batches, found):
            return
        rows, made = sum(batch.num_rows for batch in batches), not self.groups.rows
        for batch in batches:
            for start in range(0, batch.num_rows, PIECE_ROWS):
                made = self._add(batch.slice(start, PIECE_ROWS), keep, rows, made)
        if made:
            self.groups.find_all()
        self._begin_blocks()

    def _restore_blocks(self, batches: Sequence[pa.RecordBatch], found: Sequence[FoundBlocks]) -> bool:
        """Each in its place, so that checkpoints before go on counting. False: that cannot be, and nothing has happened."""
        if (changed := ChangedBlocks.going_on(found)) is None:
            return False
        rows = found[0].blocks.rows
        table = self._table(rows)
        for batch, (blocks, _) in zip(batches, found, strict=True):
            for start in range(0, batch.num_rows, PIECE_ROWS):
                piece, numbers = batch.slice(start, PIECE_ROWS), blocks.between(start, start + PIECE_ROWS).numbers
                part = self._partial_rows(piece, into := table.places_of(numbers, blocks.size, piece.num_rows))
                if part.refers:
                    return False
                if into is None:
                    table.put_blocks(part.matrix, numbers, blocks.size)
        table.control[ROWS] = rows
        table.find_all()
        self.groups, self._changed, self._tables = table, changed, changed.table
        return True

    def _partial_rows(self, batch: pa.RecordBatch, into: np.ndarray | None = None) -> PartialRows:
        schema = self._snapshot_schema
        columns = columns_from_arrow(batch, schema)
        self.sequence = max(self.sequence, int(columns[schema.names[0]].values.max()))
        return partial_rows(self.spec, columns, _AT_ZERO[: batch.num_rows], 0, into)

    def _add(self, batch: pa.RecordBatch, keep: Callable[[Columns], np.ndarray], of_rows: int, made: bool) -> bool:
        """A part of `of_rows`, of which as large a share is kept as of the first. `made`: all groups so far are of such parts, where each
        is once, and have no slots yet. Is it still so?"""
        kept = keep(columns_from_arrow(batch, self._snapshot_schema)).astype(bool)
        if not (n := int(kept.sum())):
            return made
        if not self.groups.rows:
            self.groups = self._table(n * of_rows // batch.num_rows)
        rows = self._partial_rows(batch if n == len(kept) else batch.filter(mask_array(kept)))
        if made and not rows.refers and self.groups.put(rows.matrix):
            return True
        if made:
            self.groups.find_all()
        self._join(rows)
        return False
