"""The open panes of an aggregate. Pane p holds the rows with p·pane <= event time - offset < (p + 1)·pane.

A pane has a table; but where rows that come together are of many panes, few of each, these are *thin*, and wait as rows
(`thin.py`). A pane may have both.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from cep.compile.aggregate.rows import PartialRows, TimedRows, oldest
from cep.compile.aggregate.spec import TIME_MAX, AggregateSpec
from cep.compile.windows.thin import EVERY, ThinPanes, are_thin
from cep.compile.windows.thin_panes import ThinRows, gathered
from cep.elements import describe_time
from cep.errors import DataError, ProtocolError
from cep.kernels.jit import kernel
from cep.kernels.tables.table import Table

#: Runs of rows of one pane found at a time, how many in disorder are taken one by one rather than sorted, and how many between two pauses.
RUNS_MAX, RUNS_UNSORTED, RUNS_TAKEN = 1 << 16, 16, 1024
#: Thin panes that get tables between two pauses.
SETTLED = 256
#: Freed tables kept for new panes, and how many times larger than what the last pane used one may be (small ones are kept anyway).
SPARES_MAX, SPARE_EXCESS, SPARE_BYTES_SMALL = 2, 4, 4_096


@kernel("int64(const int64[:], int64, int64, int64, int64, int64[:], int64[:])")
def cut_panes(time: np.ndarray, start: int, pane: int, offset: int, time_max: int, numbers: np.ndarray, stops: np.ndarray) -> int:
    """Cuts rows from `start` on into runs of one pane: their numbers, and the row after each. Returns how many runs, or
    -1 - (row) for one beyond ±time_max."""
    runs, i, n = 0, start, len(time)
    while i < n and runs < len(stops):
        if time[i] < -time_max or time[i] > time_max:
            return -1 - i
        numbers[runs] = (time[i] - offset) // pane  # floors, also before the epoch
        low = numbers[runs] * pane + offset
        high = low + pane
        while i < n and low <= time[i] < high:
            i += 1
        stops[runs] = i
        runs += 1
    return runs


class Panes:
    """`numbers` are those of the panes with a table, sorted. `merges`: rows of a window are needed more than once, so what is thin waits
    as groups, not as rows."""

    def __init__(self, spec: AggregateSpec, merges: bool = False) -> None:
        self.spec, self.pane, self.offset = spec, spec.window.pane, spec.window.offset
        self.numbers: list[int] = []
        self.thin = ThinPanes[ThinRows]()
        self._merges = merges
        self._bytes = 0  # of the tables of open panes and the spares
        self._tables: dict[int, Table] = {}
        self._spares: list[Table] = []
        self._rows = 0  # groups of the pane freed last: what the next will need
        self._cut_numbers, self._cut_stops = np.empty(RUNS_MAX, np.int64), np.empty(RUNS_MAX, np.int64)

    def __getitem__(self, number: int) -> Table:
        """The table of a pane that has one."""
        return self._tables[number]

    def __len__(self) -> int:
        return len(self.numbers) + self.thin.panes

    @property
    def bytes(self) -> int:
        return self._bytes + self.thin.bytes

    @property
    def first(self) -> int | None:
        """The first open pane."""
        if not self.numbers:
            return self.thin.first
        return self.numbers[0] if self.thin.first is None else min(self.numbers[0], self.thin.first)

    def start(self, number: int) -> int:
        """The first instant of a pane, µs."""
        return number * self.pane + self.offset

    def starts(self, numbers: np.ndarray) -> np.ndarray:
        """Those of panes, int64[n]."""
        return numbers * self.pane + self.offset

    def over(self, watermark: int) -> int:
        """Panes before this one are over."""
        return (watermark - self.offset) // self.pane

    def last_instants(self, time: np.ndarray) -> np.ndarray:
        """int64[n]: the last µs of the pane of each event time."""
        return ((time - self.offset) // self.pane + 1) * self.pane + self.offset - 1

    def add(self, rows: TimedRows, watermark: int) -> Iterator[None]:
        """Puts every row into its pane. It yields where there are many panes. Raises ProtocolError for a row of a pane that ended by
        `watermark`."""
        start = 0
        while start < len(rows.time):
            if start:
                yield
            numbers, stops = self._cut(rows, start)
            stop, rise = int(stops[-1]), (numbers[1:] > numbers[:-1]).all()
            if are_thin(len(numbers) if rise else len(np.unique(numbers)), stop - start):
                self._add_thin(rows.cut(start, stop), watermark)
                if self.thin.too_many:
                    yield from self.settle(EVERY)
            elif rise or len(numbers) <= RUNS_UNSORTED:
                yield from self._add_runs(numbers.tolist(), rows, [start, *stops.tolist()], watermark)
            else:
                order = np.argsort((rows.time[start:] - self.offset) // self.pane, kind="stable")
                rows, stop = rows.take(start + order), 0
            start = stop

    def _add_runs(self, numbers: list[int], rows: TimedRows, bounds: list[int], watermark: int) -> Iterator[None]:
        for i, number in enumerate(numbers):
            if i and i % RUNS_TAKEN == 0:
                yield
            self._check_open(number, int(rows.time[bounds[i]]), watermark)
            self._add(number, rows, bounds[i], bounds[i + 1])

    def _check_open(self, number: int, time: int, watermark: int) -> None:
        if self.start(number + 1) <= watermark:
            raise ProtocolError(
                f"operator {self.spec.operator.name!r}: a row at {describe_time(time)} came after watermark {describe_time(watermark)}"
            )

    def _add_thin(self, rows: TimedRows, watermark: int) -> None:
        piece = ThinRows.of(rows, (rows.time - self.offset) // self.pane)
        self._check_open(int(piece.panes[0]), int(piece.rows.time[0]), watermark)
        self.thin.put(gathered(self.spec, [piece]).rows(self.spec) if self._merges else piece)

    def settle(self, end: int) -> Iterator[None]:
        """Thin panes before `end` get tables. It yields where there are many."""
        for piece in self.thin.before(end):
            numbers, starts = np.unique(piece.panes, return_index=True)
            stops = [*starts[1:].tolist(), len(piece)]
            for i, (number, start, stop) in enumerate(zip(numbers.tolist(), starts.tolist(), stops, strict=True), start=1):
                self._add(number, piece.rows, start, stop)
                if i % SETTLED == 0:
                    yield
            yield
        self.thin.free_before(end)

    def pieces(self, first: int, end: int) -> list[ThinRows]:
        """The groups of all panes from `first` to before `end`, at a stage that merges."""
        found = self.thin.between(first, end)
        for number in self.between(first, end):
            table = self._tables[number]
            found.append(ThinRows(PartialRows.of(self.spec, table), np.full(table.rows, number)))
        return found

    def groups(self, first: int, end: int) -> int:
        """How many groups panes `first` to before `end` have, about."""
        return sum(map(len, self.thin.between(first, end))) + sum(self._tables[number].rows for number in self.between(first, end))

    def _cut(self, rows: TimedRows, start: int) -> tuple[np.ndarray, np.ndarray]:
        # The time of a partial row is an end of its pane.
        runs = cut_panes(rows.time, start, self.pane, self.offset, TIME_MAX + self.pane, self._cut_numbers, self._cut_stops)
        if runs < 0:
            raise DataError(
                f"operator {self.spec.operator.name!r}: event times must lie within ±{TIME_MAX} µs, got {int(rows.time[-1 - runs])}"
            )
        return self._cut_numbers[:runs], self._cut_stops[:runs]

    def _add(self, number: int, rows: TimedRows, start: int, stop: int) -> None:
        table = self._tables.get(number) or self._open(number)
        self._bytes += rows.into(table, start, stop)
        table.created = oldest(table.created, rows.created)

    def _open(self, number: int) -> Table:
        self._let_go()
        fitting = [spare for spare in self._spares if spare.capacity >= self._rows]
        if fitting:
            table = fitting[0]
            self._spares.remove(table)
            table.clear()
        else:
            table = Table.make(self.spec.width, self.spec.sums, self._rows)
            self._bytes += table.bytes
        insort(self.numbers, number)
        self._tables[number] = table
        return table

    def _let_go(self) -> None:
        """Spares that partial rows on their way look at are theirs: one reference to the entries is the table's, one the argument's."""
        kept = [spare for spare in self._spares if sys.getrefcount(spare.entries) <= 2]
        if len(kept) < len(self._spares):
            self._bytes += sum(spare.bytes for spare in kept) - sum(spare.bytes for spare in self._spares)
            self._spares = kept

    def free(self, number: int) -> None:
        """The pane is over."""
        self.numbers.pop(bisect_left(self.numbers, number))
        table = self._tables.pop(number)
        self._rows = table.rows
        freed, most = [*self._spares, table], SPARE_EXCESS * max(table.bytes_used, SPARE_BYTES_SMALL)
        self._spares = [each for each in freed if each.bytes <= most][-SPARES_MAX:]
        if len(self._spares) < len(freed):
            self._bytes += sum(each.bytes for each in self._spares) - sum(each.bytes for each in freed)

    def grown(self, size: int) -> None:
        """A table of an open pane takes `size` more bytes."""
        self._bytes += size

    def largest(self) -> Table | None:
        """The pane with most groups; or all that is thin, as one pane."""
        if self.numbers:
            return max(self._tables.values(), key=lambda table: table.rows)
        thin = [ThinRows(piece.rows, np.zeros(len(piece), np.int64)) for piece in self.thin.all()]
        return gathered(self.spec, thin).table if thin else None

    def before(self, number: int) -> list[int]:
        """Numbers of the panes before `number` that have a table."""
        return self.numbers[: bisect_left(self.numbers, number)]

    def between(self, first: int, end: int) -> list[int]:
        """The same from `first` to before `end`."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_left(self.numbers, end)]

    def items(self) -> Iterator[tuple[int, Table]]:
        """Panes with a table, by number."""
        for number in self.numbers:
            yield number, self._tables[number]
