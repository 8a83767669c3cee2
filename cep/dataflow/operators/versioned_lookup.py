"""A lookup at work in a table that has versions: how they come is said in `cep.dataflow.operators.table_versions`.

1. A tuple is answered from the version that holds at its event time, at once if that has come; otherwise it is held until it comes. So what
   comes out depends on the tuples and on the rows of the versions, and not on which of them comes first.
2. By the clock it is answered from the version that came last, and held only before the first.
3. A version is freed when the watermark has passed the end of its time.
4. Every instance has been given the same versions. A restored one gets those of all former instances, and takes those of one that has
   most: the others have freed more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cep.compile.join_rows import LEFT, RIGHT, JoinSpec
from cep.dataflow.channel import batch_bytes
from cep.dataflow.joins.matching import SideFormat, compacted_rows, spec_of
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.lookup import LookupTable
from cep.dataflow.operators.operator import NOTHING, Keep, Part, check_state
from cep.dataflow.operators.table_versions import end_of_version, rows_of_version
from cep.dataflow.outputs.output import concatenated
from cep.elements import MAX_TIME, MIN_TIME, PAUSE, Batch, describe_time, greatest_time
from cep.kernels.jit import warm
from cep.kernels.join import PIECEWISE
from cep.model.operators import VersionedLookup
from cep.model.operators.table_versions import CLOCK, UNTIL, VERSION, column_of, travelling
from cep.transport.wire import Format

_TABLE, _HELD = "table", "held"


@dataclass
class Version:
    """It holds for event times before `until`, and from that of the version before it on."""

    number: int
    until: int
    table: LookupTable


class _Waiting(NamedTuple):
    """Tuples that wait for a version; `first`: the least of their event times."""

    first: int
    batch: Batch


class VersionedLookupOperator:
    def __init__(self, described: VersionedLookup, spec: JoinSpec, held: SideFormat, rows: Format, state_limit: int) -> None:
        self.name, self.spec, self.versions_by, self.by_clock = described.name, spec, described.versions, described.by == CLOCK
        self.held_format, self.rows_format, self.state_limit = held, rows, state_limit
        self.since, self.incomplete = MIN_TIME, 0
        self.versions: list[Version] = []  # in use, oldest first
        self._coming: list[Batch] = []  # rows of the next version
        self._held: list[_Waiting] = []
        self._bytes = 0  # of what is held and coming

    @property
    def state_bytes(self) -> int:
        return self._bytes + sum(version.table.bytes for version in self.versions)

    @property
    def next_end(self) -> int | None:
        """It waits for the next version: that comes when the watermark is where the last one ends."""
        return self.versions[-1].until if self._held and self.versions else None

    @property
    def last_end(self) -> int | None:
        return self.next_end

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        return self._take_rows(batch) if port == RIGHT else self._take_tuples(batch)

    def on_watermark(self, watermark: int) -> Iterable[Batch]:
        while len(self.versions) > 1 and self.versions[0].until <= watermark:
            del self.versions[0]
        return NOTHING

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    # Tuples

    def _take_tuples(self, batch: Batch) -> Iterator[Batch]:
        until = self.versions[-1].until if self.versions else MIN_TIME
        if until < MAX_TIME and greatest_time(batch.time) >= until:
            early = batch.time < until
            self._hold(batch.take(np.flatnonzero(~early)))
            batch = batch.take(np.flatnonzero(early))
        since = MIN_TIME
        for version in self.versions if len(batch) else ():
            if len(self.versions) == 1:
                yield from version.table.joined(batch)
                return
            own = np.flatnonzero((batch.time >= since) & (batch.time < version.until))
            since = version.until
            if len(own):
                yield from version.table.joined(batch.take(own))

    def _hold(self, batch: Batch) -> None:
        kept = self.held_format.kept(batch)
        self._held.append(_Waiting(int(kept.time.min()), kept))
        self._bytes += batch_bytes(kept)
        self._check()

    # The table

    def _take_rows(self, batch: Batch) -> Iterator[Batch]:
        """Rows of the next version; or, in a row of its own, which version holds until when."""
        start = 0
        for last in np.flatnonzero(batch.columns[UNTIL].values != MIN_TIME).tolist():
            self._add(batch.take(slice(start, last)))
            yield from self._use(int(batch.columns[VERSION].values[last]), int(batch.columns[UNTIL].values[last]), batch.take(slice(0, 0)))
            start = last + 1
            until = self.versions[-1].until  # batches that are all behind it stay as they are, whatever versions come before theirs
            due = [each.batch for each in self._held if each.first < until]
            self._held = [each for each in self._held if each.first >= until]
            self._bytes -= sum(map(batch_bytes, due))
            for tuples in due:
                yield from self._take_tuples(tuples)
                yield PAUSE
        self._add(batch.take(slice(start, None)))

    def _add(self, rows: Batch) -> None:
        if len(rows):
            kept = compacted_rows(Batch(rows.columns, rows.time))
            self._coming.append(kept)
            self._bytes += batch_bytes(kept)
            self._check()

    def _use(self, number: int, until: int, none: Batch) -> Iterator[Batch]:
        """It pauses. `none`: no row, of the columns that all have."""
        coming, self._coming = self._coming, []
        self._bytes -= sum(map(batch_bytes, coming))
        if self.versions and self.versions[-1].number == number:
            self.versions[-1].until = until
            return
        rows = [batch.take(np.flatnonzero(batch.columns[VERSION].values == number)) for batch in coming]
        whole = concatenated([Batch(none.columns, none.time), *rows])
        columns = {column: whole.columns[name] for name in whole.columns if (column := column_of(name)) is not None}
        table = yield from LookupTable.building(self.spec, columns, len(whole), self.versions_by)
        if self.by_clock:
            self.versions = []
        self.versions.append(Version(number, until, table))
        self._check()

    # State

    def snapshot(self) -> list[Part]:
        """The versions as they came, what has come of the next, and the tuples that wait for it."""
        rows = [each for version in self.versions for each in self._as_they_came(version)]
        table = concatenated([*rows, *self._coming]) if rows or self._coming else None
        held = [each.batch for each in self._held]
        parts = [] if table is None else [Part(_TABLE, RIGHT, self.rows_format.to_arrow(table))]
        return [*parts, self.held_format.part(held, [np.zeros(len(batch), np.int64) for batch in held])]

    def _as_they_came(self, version: Version) -> tuple[Batch, Batch]:
        rows = version.table.rows
        columns = {travelling(name): column for name, column in rows.columns.items()}
        end = end_of_version(version.number, version.until, self.rows_format)
        return rows_of_version(columns, len(rows), version.number, self.rows_format), end

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        tables = [self.rows_format.from_arrow(part.batch) for part in parts if part.name == _TABLE]
        if tables and not self.versions:
            for _ in self._take_rows(max(tables, key=len)):
                """No tuple is held yet."""
        for part in parts:
            if part.name == _HELD:
                held, _ = self.held_format.rows(part, keep)
                if len(held):
                    self._hold(held)
        self._check()

    def clear(self) -> None:
        self.versions, self._coming, self._held, self._bytes = [], [], [], 0

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        rows = [len(version.table.rows) for version in self.versions]
        waiting = f"{sum(len(each.batch) for each in self._held)} tuples wait from the watermark {describe_time(self.next_end)} on"
        return f"versions of {', '.join(map(str, rows)) or 'no'} rows in use; {waiting}"


def build(described: VersionedLookup, context: BuildContext) -> VersionedLookupOperator:
    warm(*PIECEWISE)
    layout, left = context.layout, described.left
    words = layout.words(left) if layout.origin(left) else 0
    held = SideFormat(_HELD, LEFT, context.columns(left), words)
    rows = Format(context.columns(described.right))
    return VersionedLookupOperator(described, spec_of(described, described.table.schema, context), held, rows, context.state_limit)
