"""Rows of thin panes (`cep.compile.windows.thin`) as batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from cep.compile.windows.thin import repeated
from cep.dataflow.channel import batch_bytes
from cep.dataflow.outputs.output import compacted, concatenated
from cep.elements import Batch
from cep.values import value


@value
class ThinBatch:
    """Rows in ascending order of their panes, or windows, whose numbers are `panes`, int64[n]."""

    rows: Batch
    panes: np.ndarray

    @staticmethod
    def of(rows: Batch, panes: np.ndarray) -> ThinBatch:
        """Rows in any order."""
        if (panes[1:] < panes[:-1]).any():
            order = np.argsort(panes, kind="stable")
            rows, panes = rows.take(order), panes[order]
        return ThinBatch(rows, panes)

    def __len__(self) -> int:
        return len(self.panes)

    @property
    def nbytes(self) -> int:
        return batch_bytes(self.rows) + self.panes.nbytes

    @property
    def starts(self) -> np.ndarray:
        """The first row of each pane, int64[panes]."""
        return np.append(np.zeros(1, np.int64), np.flatnonzero(np.diff(self.panes)) + 1)

    def compacted(self) -> ThinBatch:
        """Without the bytes of texts that no row looks at."""
        return ThinBatch(compacted(self.rows), self.panes)

    def between(self, first: int, end: int) -> ThinBatch | None:
        """Those of panes `first` to before `end`, if there are any."""
        start, stop = np.searchsorted(self.panes, (first, end)).tolist()
        if stop - start == len(self):
            return self
        return ThinBatch(self.rows.take(slice(start, stop)), self.panes[start:stop]) if start < stop else None

    def copied(self) -> ThinBatch:
        return ThinBatch(self.rows.take(np.arange(len(self))), self.panes.copy()).compacted()

    def apart(self) -> Iterator[tuple[int, Batch]]:
        """Panes and their rows, in memory of their own where there are several."""
        for start, stop in pairwise([*self.starts.tolist(), len(self)]):
            yield int(self.panes[start]), self.rows if stop - start == len(self) else self.rows.take(np.arange(start, stop))

    def repeated(self, least: np.ndarray, greatest: np.ndarray) -> ThinBatch:
        """Each row once for each of the windows `least` to `greatest`, int64[n], which may be none; windows take the place of panes."""
        if (least == greatest).all():
            return ThinBatch.of(self.rows, least)
        order, windows = repeated(least, greatest)
        return ThinBatch.of(self.rows.take(order), windows)


def joined(pieces: Sequence[ThinBatch]) -> ThinBatch | None:
    """All of them in one; None: there is no row."""
    there = [piece for piece in pieces if len(piece)]
    if not there:
        return None
    return ThinBatch.of(concatenated([piece.rows for piece in there]), np.concatenate([piece.panes for piece in there]))
