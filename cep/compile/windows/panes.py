"""The open panes of an aggregate: one table each. Pane p holds the rows with p·pane <= event time - offset < (p + 1)·pane."""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from cep.compile.aggregate.rows import TimedRows, oldest
from cep.compile.aggregate.spec import TIME_MAX, AggregateSpec
from cep.elements import describe_time
from cep.errors import DataError, ProtocolError
from cep.kernels.jit import kernel
from cep.kernels.tables.table import Table

#: Runs of rows of one pane found at a time, and how many in disorder are taken one by one rather than sorted.
RUNS_MAX, RUNS_UNSORTED = 1024, 16
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
    """Tables by pane number. `numbers` is sorted."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec, self.pane, self.offset = spec, spec.window.pane, spec.window.offset
        self.numbers: list[int] = []
        self.bytes = 0  # of the tables of open panes and the spares
        self._tables: dict[int, Table] = {}
        self._spares: list[Table] = []
        self._rows = 0  # groups of the pane freed last: what the next will need
        self._cut_numbers, self._cut_stops = np.empty(RUNS_MAX, np.int64), np.empty(RUNS_MAX, np.int64)

    def __getitem__(self, number: int) -> Table:
        return self._tables[number]

    def start(self, number: int) -> int:
        """The first instant of a pane, µs."""
        return number * self.pane + self.offset

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
            if len(numbers) > RUNS_UNSORTED and numbers != sorted(numbers):
                rows, start = rows.take(start + np.argsort((rows.time[start:] - self.offset) // self.pane, kind="stable")), 0
                continue
            for number, stop in zip(numbers, stops, strict=True):
                if self.start(number + 1) <= watermark:
                    raise ProtocolError(
                        f"operator {self.spec.operator.name!r}: a row at {describe_time(int(rows.time[start]))} came "
                        f"after watermark {describe_time(watermark)}"
                    )
                self._add(number, rows, start, stop)
                start = stop

    def _cut(self, rows: TimedRows, start: int) -> tuple[list[int], list[int]]:
        # The time of a partial row is an end of its pane.
        runs = cut_panes(rows.time, start, self.pane, self.offset, TIME_MAX + self.pane, self._cut_numbers, self._cut_stops)
        if runs < 0:
            raise DataError(
                f"operator {self.spec.operator.name!r}: event times must lie within ±{TIME_MAX} µs, got {int(rows.time[-1 - runs])}"
            )
        return self._cut_numbers[:runs].tolist(), self._cut_stops[:runs].tolist()

    def _add(self, number: int, rows: TimedRows, start: int, stop: int) -> None:
        table = self._tables.get(number) or self._open(number)
        self.bytes += rows.into(table, start, stop)
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
            self.bytes += table.bytes
        insort(self.numbers, number)
        self._tables[number] = table
        return table

    def _let_go(self) -> None:
        """Spares that partial rows on their way look at are theirs: one reference to the entries is the table's, one the argument's."""
        kept = [spare for spare in self._spares if sys.getrefcount(spare.entries) <= 2]
        if len(kept) < len(self._spares):
            self.bytes += sum(spare.bytes for spare in kept) - sum(spare.bytes for spare in self._spares)
            self._spares = kept

    def free(self, number: int) -> None:
        """The pane is over."""
        self.numbers.pop(bisect_left(self.numbers, number))
        table = self._tables.pop(number)
        self._rows = table.rows
        freed, most = [*self._spares, table], SPARE_EXCESS * max(table.bytes_used, SPARE_BYTES_SMALL)
        self._spares = [each for each in freed if each.bytes <= most][-SPARES_MAX:]
        if len(self._spares) < len(freed):
            self.bytes += sum(each.bytes for each in self._spares) - sum(each.bytes for each in freed)

    def before(self, number: int) -> list[int]:
        """Numbers of the open panes before `number`."""
        return self.numbers[: bisect_left(self.numbers, number)]

    def between(self, first: int, end: int) -> list[int]:
        """Numbers of the open panes from `first` to before `end`."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_left(self.numbers, end)]

    def items(self) -> Iterator[tuple[int, Table]]:
        """Panes and their tables, by number."""
        for number in self.numbers:
            yield number, self._tables[number]
