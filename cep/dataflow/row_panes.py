"""Rows by pane of event time: pane p holds those with p·pane <= t < (p + 1)·pane, as the batches in which they came."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from cep.compile.aggregate_spec import TIME_MAX
from cep.dataflow.channel import batch_bytes
from cep.dataflow.ranking import Ranking
from cep.elements import PAUSE, Batch
from cep.errors import DataError

#: A pane is not cut down before it has so many rows more than twice those that were left of it the last time.
CUT_ROWS = 4_096
#: Panes that get rows between two pauses.
PANES_A_PIECE = 512


@dataclass
class Pane:
    """`left`: how many rows there were after it was cut down."""

    batches: list[Batch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    left: int = 0

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.rows += len(batch)
        self.bytes += batch_bytes(batch)

    def cut(self, ranking: Ranking) -> None:
        """Leaves only what may be an answer."""
        batches, self.batches, self.rows, self.bytes = self.batches, [], 0, 0
        self.add(ranking.answers(batches))
        self.left = self.rows


class RowPanes:
    """`ranking` says which rows may be answers, where not all may (TopN)."""

    def __init__(self, name: str, pane: int, ranking: Ranking) -> None:
        self.name, self.pane, self.ranking = name, pane, ranking
        self.numbers: list[int] = []  # sorted
        self.bytes = 0
        self._panes: dict[int, Pane] = {}

    def __getitem__(self, number: int) -> Pane:
        return self._panes[number]

    def add(self, batch: Batch) -> Iterator[Batch]:
        """It pauses where rows are of very many panes. Raises DataError for event times beyond ±TIME_MAX."""
        numbers = self._numbers_of(batch.time)
        if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
            self._add(int(numbers[0]), batch)
            return
        order = np.argsort(numbers, kind="stable")
        for i, (start, stop) in enumerate(pairwise([0, *(np.flatnonzero(np.diff(numbers[order])) + 1).tolist(), len(order)])):
            if i % PANES_A_PIECE == PANES_A_PIECE - 1:
                yield PAUSE
            self._add(int(numbers[order[start]]), batch.take(order[start:stop]))

    def _numbers_of(self, time: np.ndarray) -> np.ndarray:
        least, latest = int(time.min()), int(time.max())
        if not -TIME_MAX <= least <= latest <= TIME_MAX:
            wrong = latest if latest > TIME_MAX else least
            raise DataError(f"operator {self.name!r}: event times must lie within ±{TIME_MAX} µs, got {wrong}")
        return time // self.pane

    def _add(self, number: int, batch: Batch) -> None:
        if number not in self._panes:
            insort(self.numbers, number)
            self._panes[number] = Pane()
        pane = self._panes[number]
        before = pane.bytes
        pane.add(batch)
        if self.ranking.most is not None and pane.rows > 2 * pane.left + CUT_ROWS:
            pane.cut(self.ranking)
        self.bytes += pane.bytes - before

    def between(self, first: int, end: int) -> list[int]:
        """Numbers of the panes from `first` to before `end`."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_left(self.numbers, end)]

    def batches(self, first: int, end: int) -> list[Batch]:
        """What is in the panes from `first` to before `end`."""
        return [batch for number in self.between(first, end) for batch in self._panes[number].batches]

    def leave(self, end: int) -> None:
        """Frees the panes before `end`."""
        over = bisect_left(self.numbers, end)
        for number in self.numbers[:over]:
            self.bytes -= self._panes.pop(number).bytes
        del self.numbers[:over]

    def all(self) -> list[Pane]:
        return list(self._panes.values())
