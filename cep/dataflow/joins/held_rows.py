"""Rows that a join holds: columns that grow at their end, so that a row is copied once when it comes, whatever its batch brings. Of rows
that are put together of few tuples (`cep.kernels.composed`), the joined rows of another join say, the tuples are held once.

Arrays are twice as long as what is in them at most. What was given out of them stays as it is: more is only written behind it.
"""

from __future__ import annotations

import numpy as np

from cep.elements import Batch
from cep.kernels.columns import NO_BYTES, Column, is_loose, offsets_of
from cep.kernels.composed import Component, Composed, arranged, as_composed
from cep.kernels.tables.growing import grow
from cep.kernels.text import gather

_ROWS_MIN = 64


class _GrowingColumn:
    """The values of one column, `rows` of them."""

    def __init__(self, like: Column, room: int) -> None:
        self.type, self.rows, self.body_bytes = like.type, 0, 0
        self.values = np.empty(room, like.values.dtype)
        self.valid: np.ndarray | None = None
        self.starts, self.data = np.empty(room if like.type.is_bytes else 0, np.int64), np.empty(0, np.uint8)

    def add(self, column: Column, rows: np.ndarray | None) -> int:
        """Puts `rows`, int64[n], of `column`, None: all of them, behind the others. Returns how many bytes more are in use."""
        there = column.valid if rows is None or column.valid is None else column.valid[rows]
        n = len(column.values) if rows is None else len(rows)
        end = self.rows + n
        size = n * self.values.itemsize
        if end > len(self.values):
            make_room(self, "values", end)
        self.values[self.rows : end] = column.values if rows is None else column.values[rows]
        if self.valid is None and there is not None:
            self.valid = np.ones(self.rows, np.uint8)
        if self.valid is not None:
            make_room(self, "valid", end)
            self.valid[self.rows : end] = 1 if there is None else there
            size += n
        if column.data is not None:
            size += 8 * n + self._add_texts(column, rows, there, end)
        self.rows = end
        return size

    def _add_texts(self, column: Column, rows: np.ndarray | None, there: np.ndarray | None, end: int) -> int:
        """The bytes as they lie; or just those of the texts, where these are not all there are or lie in much more."""
        assert column.data is not None and column.starts is not None
        if end > len(self.starts):
            make_room(self, "starts", end)
        at = self.body_bytes
        if rows is None and not is_loose(column):
            self._reach(at + len(column.data))
            np.add(column.starts, at, out=self.starts[self.rows : end])
            self.data[at : self.body_bytes] = column.data
        else:
            starts = column.starts if rows is None else column.starts[rows]
            offsets = offsets_of(Column(column.type, self.values[self.rows : end], there))
            self._reach(at + int(offsets[-1]))
            np.add(offsets[:-1], at, out=self.starts[self.rows : end])
            gather(column.data, starts, offsets, self.data[at : self.body_bytes])
        return self.body_bytes - at

    def _reach(self, end: int) -> None:
        self.body_bytes = end
        if end > len(self.data):
            make_room(self, "data", end)

    def column(self) -> Column:
        n = self.rows
        valid = None if self.valid is None else self.valid[:n]
        if not self.type.is_bytes:
            return Column(self.type, self.values[:n], valid)
        return Column(self.type, self.values[:n], valid, self.data[: self.body_bytes] if self.body_bytes else NO_BYTES, self.starts[:n])


class _Tuples:
    """What rows have in common, or each for itself: the tuples of one component of theirs, and, where they are `repeated`, which of them
    each row has."""

    def __init__(self, like: Component, room: int) -> None:
        self.columns = {name: _GrowingColumn(column, room) for name, column in like.columns.items()}
        self.repeated = like.index is not None
        self.index, self.count = np.empty(room if self.repeated else 0, np.int64), 0

    def add(self, component: Component, start: int, end: int) -> int:
        """The tuples of the rows from `start` to `end`. Returns how many bytes more are in use."""
        rows, index = component.used() if self.repeated else (component.rows(), None)
        size = sum([column.add(component.columns[name], rows) for name, column in self.columns.items()])
        if self.repeated:
            make_room(self, "index", end)
            self.index[start:end] = np.arange(end - start) if index is None else index
            self.index[start:end] += self.count
            self.count += component.tuples if rows is None else len(rows)
            size += 8 * (end - start)
        return size

    def component(self, rows: int) -> Component:
        columns = {name: column.column() for name, column in self.columns.items()}
        return Component(columns, None, self.index[:rows] if self.repeated else None)


class HeldRows:
    """Rows like those of `like`, with room for so many at first. `matched`, uint8 by row, says what was answered of them; `bytes` are in
    use."""

    def __init__(self, like: Batch, room: int = _ROWS_MIN) -> None:
        self.rows = self.bytes = self.created = 0
        whole = as_composed(like.columns, len(like))
        self._places, self._tuples = whole.places, [_Tuples(component, room) for component in whole.components]
        self._time, self._matched = np.empty(room, np.int64), np.empty(room, np.uint8)
        self._origin = None if like.origin is None else np.empty(0, np.int64)
        self._words = 0 if like.origin is None else like.origin.shape[1]
        self._batch: Batch | None = None

    def __len__(self) -> int:
        return self.rows

    def add(self, batch: Batch, matched: np.ndarray) -> None:
        self._batch = None  # what nothing looks at grows where it is
        start, end, words = self.rows, self.rows + len(matched), self._words
        size = (end - start) * (9 + 8 * words)
        for tuples, component in zip(self._tuples, arranged(batch.columns, self._places, end - start).components, strict=True):
            size += tuples.add(component, start, end)
        if end > len(self._time):
            make_room(self, "_time", end)
            make_room(self, "_matched", end)
        self._time[start:end], self._matched[start:end] = batch.time, matched
        if self._origin is not None:
            assert batch.origin is not None, "rows that a join holds have origins all or none"
            make_room(self, "_origin", end * words)
            self._origin[start * words : end * words] = batch.origin.reshape(-1)
        if batch.created:
            self.created = min(self.created or batch.created, batch.created)
        self.rows = end
        self.bytes += size

    @property
    def time(self) -> np.ndarray:
        """Their event times, int64[n]."""
        return self._time[: self.rows]

    @property
    def batch(self) -> Batch:
        """All of them, as they lie."""
        if self._batch is None:
            columns = Composed([tuples.component(self.rows) for tuples in self._tuples], self._places, self.rows)
            origin = None if self._origin is None else self._origin[: self.rows * self._words].reshape(self.rows, self._words)
            self._batch = Batch(columns, self.time, origin, self.created)
        return self._batch

    @property
    def matched(self) -> np.ndarray:
        return self._matched[: self.rows]


def make_room(holder: object, name: str, length: int) -> None:
    """Makes the array `name` of `holder` at least `length` long."""
    there = len(getattr(holder, name))
    if there < length:
        grow(holder, name, max(2 * there, length, _ROWS_MIN))
