"""Rows that something remembers by number, in pieces as they came; what is not remembered any more is left behind now and then."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cep.dataflow.channel import batch_bytes
from cep.dataflow.outputs.output import compacted, concatenated
from cep.elements import Batch
from cep.kernels.columns import Column, nulls
from cep.model.schema import Schema

#: Rows are looked through when there are twice as many as were left the last time, and this many more.
ROWS_MORE = 65_536
#: Pieces of fewer rows are put together, each at most half as long as the one before.
FEW_ROWS = 8_192


class KeptRows:
    """Columns of `schema`, with event times and origins."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.clear()

    def clear(self) -> None:
        self._pieces: list[Batch] = []
        self.rows = self._left = 0

    @property
    def bytes(self) -> int:
        return sum(map(batch_bytes, self._pieces))

    def add(self, batch: Batch) -> None:
        """Its rows have the numbers from `rows` on."""
        self._put(Batch({name: batch.columns[name] for name in self.schema.names}, batch.time, batch.origin))

    def _put(self, batch: Batch) -> None:
        pieces = self._pieces
        pieces.append(compacted(batch))
        while len(pieces) > 1 and len(pieces[-2]) <= min(2 * len(pieces[-1]), FEW_ROWS):
            pieces[-2:] = [concatenated(pieces[-2:])]
        self.rows += len(batch)

    def take(self, numbers: np.ndarray, names: Collection[str]) -> Batch:
        """The rows of these numbers, with columns `names`; there is at least one row."""
        ends = np.cumsum([len(piece) for piece in self._pieces])
        where = np.searchsorted(ends, numbers, side="right")
        order, found = np.argsort(where, kind="stable"), []
        pieces, firsts = np.unique(where[order], return_index=True)
        for number, mine in zip(pieces.tolist(), np.split(order, firsts[1:]), strict=True):
            piece = self._pieces[number]
            chosen = Batch({name: piece.columns[name] for name in names}, piece.time, piece.origin)
            found.append(chosen.take(numbers[mine] - (int(ends[number]) - len(piece))))
        place = np.empty(len(numbers), np.int64)
        place[order] = np.arange(len(numbers))
        return concatenated(found).take(place)

    def column(self, numbers: np.ndarray, name: str) -> Column:
        """A column of the rows of these numbers, NULL where one is negative."""
        there = numbers >= 0
        if not there.any():
            return nulls(self.schema[name].type, len(numbers))
        column = self.take(np.where(there, numbers, numbers[np.argmax(there)]), (name,)).columns[name]
        valid = there.astype(np.uint8) if column.valid is None else column.valid & there
        return Column(column.type, column.values, None if valid.all() else valid, column.data, column.starts)

    @property
    def wants_sweep(self) -> bool:
        return self.rows > 2 * self._left + ROWS_MORE

    def keep(self, named: np.ndarray) -> np.ndarray:
        """Keeps the rows that are `named`, uint8[rows]; returns their new numbers, int64[rows], of others nonsense."""
        numbers = np.cumsum(named, dtype=np.int64) - 1
        pieces, begin, self._pieces, self.rows = self._pieces, 0, [], 0
        for piece in pieces:
            kept = np.flatnonzero(named[begin : begin + len(piece)])
            begin += len(piece)
            if len(kept):
                self._put(piece.take(kept))
        self._left = self.rows
        return numbers
