"""Rows by pane of event time: pane p holds those with p·pane <= t - offset < (p + 1)·pane, as the batches in which they came."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cep.compile.aggregate.spec import TIME_MAX
from cep.compile.windows.thin import EVERY, ThinPanes, are_thin
from cep.dataflow.channel import batch_bytes
from cep.dataflow.operators.ranking import RankedRows, Ranking
from cep.dataflow.outputs.output import compacted, concatenated
from cep.dataflow.state.best_rows import BestRows
from cep.dataflow.state.thin_batches import ThinBatch
from cep.elements import PAUSE, Batch
from cep.errors import DataError
from cep.model.windows import TimeWindow

#: A pane is not cut down before it has so many rows more than twice those that were left of it the last time.
CUT_ROWS = 4_096
#: Panes that get rows between two pauses.
PANES_A_PIECE = 512


@dataclass
class Pane:
    """`left`: how many rows there were after it was cut down; once rows are chosen as they come, how many may be answers now."""

    batches: list[Batch] = field(default_factory=list)
    rows: int = 0
    left: int = 0
    _row_bytes: int = 0
    _best: BestRows | None = None

    def add(self, batch: Batch, ranking: Ranking) -> None:
        if self._best is None:
            self._keep(batch)
        else:
            self._keep_best(self._best, batch)
        if ranking.most is not None and self.rows > 2 * self.left + CUT_ROWS:
            self._cut(ranking)

    def _keep(self, batch: Batch) -> None:
        """Of texts only the bytes of these rows: a batch may look at a block of a file, of which most rows are in no pane any more."""
        if len(batch):
            batch = compacted(batch)
            self.batches.append(batch)
            self._row_bytes += batch_bytes(batch)
            self.rows += len(batch)

    def _keep_best(self, best: BestRows, batch: Batch) -> None:
        self._keep(best.taken(batch))
        self.left = best.left

    @property
    def bytes(self) -> int:
        return self._row_bytes + (0 if self._best is None else self._best.bytes)

    @property
    def ranked(self) -> RankedRows | None:
        """Its answers, where rows were chosen as they came; None: they have not been put in order."""
        return None if self._best is None else RankedRows(concatenated(self.batches), *self._best.ranked())

    def _cut(self, ranking: Ranking) -> None:
        """Leaves only what may be an answer."""
        batches, self.batches, self.rows, self._row_bytes = self.batches, [], 0, 0
        if not ranking.by_words:
            self._keep(ranking.answers(batches))
            self.left = self.rows
        elif self._best is None:
            self._best = BestRows(ranking)
            for batch in batches:
                self._keep_best(self._best, batch)
        else:
            self._keep(concatenated(list(_parts(batches, self._best.forget()))))


def _parts(batches: list[Batch], rows: np.ndarray) -> Iterator[Batch]:
    """Those of `rows`, int64[m] ascending, that lie in each of `batches`, which are one behind the other."""
    ends = np.cumsum([len(batch) for batch in batches])
    for batch, end, part in zip(batches, ends.tolist(), np.split(rows, np.searchsorted(rows, ends[:-1])), strict=True):
        if len(part):
            yield batch if len(part) == len(batch) else batch.take(part - (end - len(batch)))


class RowPanes:
    """`ranking` says which rows may be answers, where not all may (TopN). `numbers` are those of the panes that are kept by themselves,
    sorted; others are thin (`cep.compile.windows.thin`), and a pane may be both."""

    def __init__(self, name: str, window: TimeWindow, ranking: Ranking) -> None:
        self.name, self.pane, self.offset, self.ranking = name, window.pane, window.offset, ranking
        self.numbers: list[int] = []
        self.thin = ThinPanes[ThinBatch]()
        self._bytes = 0
        self._panes: dict[int, Pane] = {}

    def __getitem__(self, number: int) -> Pane:
        return self._panes[number]

    def __len__(self) -> int:
        return len(self.numbers) + self.thin.panes

    @property
    def bytes(self) -> int:
        return self._bytes + self.thin.bytes

    @property
    def first(self) -> int | None:
        """The first pane with a row."""
        return self.thin.first_beside(self.numbers)

    def add(self, batch: Batch) -> Iterator[Batch]:
        """It pauses where rows are of very many panes. Raises DataError for event times beyond ±TIME_MAX."""
        numbers = self._numbers_of(batch.time)
        if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
            self._add(int(numbers[0]), batch)
            return
        rows = ThinBatch.of(batch, numbers)
        if are_thin(len(rows.starts), len(rows)):
            self.thin.put(rows.compacted())
            if self.thin.too_many:
                yield from self.settle(EVERY)
        else:
            yield from self._add_runs(rows)

    def _add_runs(self, rows: ThinBatch) -> Iterator[Batch]:
        for i, (number, batch) in enumerate(rows.apart()):
            if i % PANES_A_PIECE == PANES_A_PIECE - 1:
                yield PAUSE
            self._add(number, batch)

    def settle(self, end: int) -> Iterator[Batch]:
        """Thin panes before `end` are kept by themselves."""
        for piece in self.thin.before(end):
            yield from self._add_runs(piece)
        self.thin.free_before(end)

    def _numbers_of(self, time: np.ndarray) -> np.ndarray:
        least, latest = int(time.min()), int(time.max())
        if not -TIME_MAX <= least <= latest <= TIME_MAX:
            wrong = latest if latest > TIME_MAX else least
            raise DataError(f"operator {self.name!r}: event times must lie within ±{TIME_MAX} µs, got {wrong}")
        return (time - self.offset) // self.pane

    def _add(self, number: int, batch: Batch) -> None:
        if number not in self._panes:
            insort(self.numbers, number)
            self._panes[number] = Pane()
        pane = self._panes[number]
        before = pane.bytes
        pane.add(batch, self.ranking)
        self._bytes += pane.bytes - before

    def between(self, first: int, end: int) -> list[int]:
        """Numbers of the panes from `first` to before `end`."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_left(self.numbers, end)]

    def batches(self, first: int, end: int) -> list[Batch]:
        """What is in the panes from `first` to before `end`."""
        return [batch for number in self.between(first, end) for batch in self._panes[number].batches]

    def rows(self, first: int, end: int) -> int:
        """How many there are in panes `first` to before `end`, about."""
        return sum(map(len, self.thin.between(first, end))) + sum(self._panes[number].rows for number in self.between(first, end))

    def count(self, first: int, end: int) -> int:
        """How many panes they are in, about."""
        return self.thin.count(first, end) + len(self.between(first, end))

    def pieces(self, first: int, end: int) -> list[ThinBatch]:
        """What is in them."""
        kept = [(number, batch) for number in self.between(first, end) for batch in self._panes[number].batches]
        return [*self.thin.between(first, end), *(ThinBatch(batch, np.full(len(batch), number)) for number, batch in kept)]

    def ranked(self, number: int) -> RankedRows | None:
        """The answers of a pane, where it knows them."""
        return self._panes[number].ranked if number in self._panes else None

    def leave(self, end: int) -> None:
        """Frees the panes before `end`."""
        over = bisect_left(self.numbers, end)
        for number in self.numbers[:over]:
            self._bytes -= self._panes.pop(number).bytes
        del self.numbers[:over]
        self.thin.free_before(end)

    def all(self) -> list[list[Batch]]:
        """The rows of each pane that is kept by itself, and what is thin."""
        thin = [[piece.rows] for piece in self.thin.all()]
        return [*(pane.batches for pane in self._panes.values()), *thin]
