"""The open panes of an aggregate that have a table each, and the tables of those that are over, which serve others."""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections.abc import Iterator

from cep.compile.aggregate.rows import TimedRows, oldest
from cep.compile.aggregate.spec import AggregateSpec
from cep.kernels.tables.table import Table

#: Freed tables kept for new panes, and how many times larger than what the last pane used one may be (small ones are kept anyway).
SPARES_MAX, SPARE_EXCESS, SPARE_BYTES_SMALL = 2, 4, 4_096


class PaneTables:
    """Tables by pane number. `numbers` is sorted."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec
        self.numbers: list[int] = []
        self.bytes = 0  # of the tables of open panes and the spares
        self._tables: dict[int, Table] = {}
        self._spares: list[Table] = []
        self._rows = 0  # groups of the pane freed last: what the next will need

    def __getitem__(self, number: int) -> Table:
        return self._tables[number]

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int, rows: TimedRows, start: int, stop: int) -> None:
        """Puts rows `start` to `stop` into a pane."""
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
        """Numbers of the panes before `number`."""
        return self.numbers[: bisect_left(self.numbers, number)]

    def between(self, first: int, end: int) -> list[int]:
        """The same from `first` to before `end`."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_left(self.numbers, end)]

    def items(self) -> Iterator[tuple[int, Table]]:
        """Panes and their tables, by number."""
        for number in self.numbers:
            yield number, self._tables[number]
