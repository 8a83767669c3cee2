"""The open panes of an aggregate. Pane p holds the rows with p·pane <= event time - offset < (p + 1)·pane.

A pane has a table; but where rows that come together are of many panes, few of each, these are *thin*, and wait as rows
(`thin.py`). A pane may have both.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.compile.aggregate.rows import PartialRows, TimedRows
from cep.compile.aggregate.spec import TIME_MAX, AggregateSpec
from cep.compile.windows.pane_tables import PaneTables
from cep.compile.windows.thin import EVERY, ROWS_AT_ONCE, ThinPanes, are_thin, first_without_room
from cep.compile.windows.thin_panes import ThinRows, gathered
from cep.elements import describe_time
from cep.errors import DataError, ProtocolError
from cep.kernels.jit import kernel
from cep.kernels.tables.table import Table

#: Runs of rows of one pane found at a time, how many in disorder are taken one by one rather than sorted, and how many between two pauses.
RUNS_MAX, RUNS_UNSORTED, RUNS_TAKEN = 1 << 16, 16, 1024
#: Thin panes that get tables between two pauses.
SETTLED = 256


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
    """`tables` and `thin`. `merges`: rows of a window are needed more than once, so what is thin waits as groups, not as rows."""

    def __init__(self, spec: AggregateSpec, merges: bool = False) -> None:
        self.spec, self.pane, self.offset = spec, spec.window.pane, spec.window.offset
        self.tables, self.thin = PaneTables(spec), ThinPanes[ThinRows]()
        self._merges = merges
        self._cut_numbers, self._cut_stops = np.empty(RUNS_MAX, np.int64), np.empty(RUNS_MAX, np.int64)

    def __len__(self) -> int:
        return len(self.tables) + self.thin.panes

    @property
    def bytes(self) -> int:
        return self.tables.bytes + self.thin.bytes

    @property
    def first(self) -> int | None:
        """The first open pane."""
        return self.thin.first_beside(self.tables.numbers)

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
            self.tables.add(number, rows, bounds[i], bounds[i + 1])

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
        put = 0
        for piece in self.thin.before(end):
            numbers, starts = np.unique(piece.panes, return_index=True)
            for number, start, stop in zip(numbers.tolist(), starts.tolist(), [*starts[1:].tolist(), len(piece)], strict=True):
                self.tables.add(number, piece.rows, start, stop)
                put += 1
                if put % SETTLED == 0:
                    yield
        self.thin.free_before(end)

    def settle_run(self, first: int, over: int) -> Iterator[None]:
        """Of pane `first`, which has a table, and those right behind it that have one, what is thin goes into these."""
        if self.thin.first is not None and self.thin.first <= first:
            due = self.tables.between(first, min(over, first + SETTLED))
            yield from self.settle(first + next((i for i, number in enumerate(due) if number != first + i), len(due)))

    def together(self, first: int, over: int) -> int | None:
        """The end of the thin panes from `first`, the first open one, to before `over` that are made in one go; None: `first` has a
        table."""
        with_table = self.tables.numbers[0] if self.tables.numbers else EVERY
        if with_table == first:
            return None
        end = min(over, with_table)
        return min(end, max(first + 1, first_without_room(self.thin.between(first, end))))

    def pieces(self, first: int, end: int) -> list[ThinRows]:
        """The groups of all panes from `first` to before `end`, at a stage that merges."""
        found = self.thin.between(first, end)
        for number in self.tables.between(first, end):
            table = self.tables[number]
            found.append(ThinRows(PartialRows.of(self.spec, table), np.full(table.rows, number)))
        return found

    def groups(self, first: int, end: int) -> int:
        """How many groups panes `first` to before `end` have, about."""
        tables = self.tables.between(first, end)
        if len(tables) > ROWS_AT_ONCE:
            return len(tables)
        return sum(map(len, self.thin.between(first, end))) + sum(self.tables[number].rows for number in tables)

    def count(self, first: int, end: int) -> int:
        """How many of them there are, about."""
        return self.thin.count(first, end) + len(self.tables.between(first, end))

    def work(self, first: int, end: int, windows: int, span: int) -> int:
        """To make so many windows of `span` of these panes of them, by blocks (`of_windows`), is like so many rows, about."""
        groups = self.groups(first, end)
        return 2 * groups + windows * span.bit_length() * -(-groups // max(self.count(first, end), 1))

    def _cut(self, rows: TimedRows, start: int) -> tuple[np.ndarray, np.ndarray]:
        # The time of a partial row is an end of its pane.
        runs = cut_panes(rows.time, start, self.pane, self.offset, TIME_MAX + self.pane, self._cut_numbers, self._cut_stops)
        if runs < 0:
            raise DataError(
                f"operator {self.spec.operator.name!r}: event times must lie within ±{TIME_MAX} µs, got {int(rows.time[-1 - runs])}"
            )
        return self._cut_numbers[:runs], self._cut_stops[:runs]

    def largest(self) -> Table | None:
        """The pane with most groups; or all that is thin, as one pane."""
        if self.tables.numbers:
            return max((table for _, table in self.tables.items()), key=lambda table: table.rows)
        thin = [ThinRows(piece.rows, np.zeros(len(piece), np.int64)) for piece in self.thin.all()]
        return gathered(self.spec, thin).table if thin else None
