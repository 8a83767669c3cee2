"""Rows that something remembers by number: an array for each column, so that what is read of many rows is one look into it. What is not
remembered any more is left behind now and then: where most of it is older than all that is, the rows before that (`leave`), and nothing has
another number; else each by itself (`keep`), and the rest is numbered anew."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cep.elements import Batch
from cep.kernels.columns import Column, gathered, nulls
from cep.kernels.jit import warm
from cep.kernels.patterns.columns import number_named
from cep.kernels.text import gather
from cep.model.schema import DataType, Field, Schema

#: Rows are looked through when there are twice as many as were left the last time, and this many more.
ROWS_MORE = 65_536
#: Rows that there is room for at first.
_FEW = 64
#: Times as much room as rows that are left, and ROWS_MORE, need: more than that is given back.
_MUCH = 8
#: Rows for each that is remembered, and ROWS_MORE, which may stay where none is numbered anew; and how far numbers go.
SPARE, NUMBERS_MAX = 4, 1 << 20


class KeptRows:
    """Columns of `schema`, and origins: the first `words` words, 0 where nobody asks for them."""

    def __init__(self, schema: Schema, words: int) -> None:
        self.schema, self.words = schema, words
        if any(field.type.is_bytes for field in schema.fields):
            warm(gather)
        warm(number_named)
        self.clear()

    def clear(self) -> None:
        self._number_from_0(0)
        self._columns = {field.name: _KeptColumn(field) for field in self.schema.fields}
        self._origin = np.empty((_FEW, self.words), np.int64)

    def _number_from_0(self, rows: int) -> None:
        """There are so many rows. `rows`: the number of the next one; `first`: before it none is remembered; `_base`: of the first item of
        the arrays."""
        self.rows, self.first, self._base, self._fit = rows, 0, 0, 2 * rows

    @property
    def bytes(self) -> int:
        return self._origin.nbytes + sum(column.bytes for column in self._columns.values())

    def add(self, batch: Batch) -> None:
        """Its rows have the numbers from `rows` on."""
        assert batch.origin is not None
        begin, end = self.rows - self._base, self.rows - self._base + len(batch)
        for name, column in self._columns.items():
            column.put(batch.columns[name], begin, end)
        self._origin = _with_room(self._origin, begin, end)
        self._origin[begin:end] = batch.origin[:, : self.words]
        self.rows += len(batch)

    def _at(self, numbers: np.ndarray) -> np.ndarray:
        """Where the rows of these numbers lie."""
        return numbers - self._base if self._base else numbers

    def origins(self, numbers: np.ndarray) -> np.ndarray:
        """int64[n, words], of the rows of these numbers."""
        return self._origin.take(self._at(numbers), axis=0)

    def columns(self, numbers: np.ndarray, names: Collection[str]) -> dict[str, Column]:
        """Columns of the rows of these numbers."""
        at = self._at(numbers)
        return {name: self._columns[name].of(at) for name in names}

    def column(self, numbers: np.ndarray, name: str) -> Column:
        """A column of the rows of these numbers, NULL where one is negative."""
        column, there = self._columns[name], numbers >= 0
        if there.all():
            return column.of(self._at(numbers))
        if self.rows == self._base:
            return nulls(column.type, len(numbers))
        found = column.of(np.maximum(self._at(numbers), 0))
        valid = there.astype(np.uint8) if found.valid is None else found.valid & there
        return Column(found.type, found.values, valid, found.data, found.starts)

    @property
    def wants_sweep(self) -> bool:
        return self.rows - self.first > self._fit + ROWS_MORE

    def leave(self, first: int, named: int) -> bool:
        """No row before number `first` is remembered, and at least `named` are: leaves the others behind. False: some of them would stay
        for nothing, or numbers become too large, and nothing is done."""
        left = self.rows - first
        if left > SPARE * named + ROWS_MORE or self.rows > NUMBERS_MAX:
            return False
        self.first, self._fit = first, left
        if first - self._base > left:  # so each is moved once at most
            for column in self._columns.values():
                column.keep(slice(first - self._base, self.rows - self._base))
            self._origin = _left(self._origin, slice(first - self._base, self.rows - self._base))
            self._base = first
        return True

    def keep(self, named: np.ndarray) -> np.ndarray:
        """Keeps the rows that are `named`, uint8[rows]; returns their new numbers, int64[rows], nonsense for others."""
        kept, numbers = np.empty(self.rows - self._base, np.int64), np.empty(self.rows, np.int64)
        kept = kept[: number_named(named[self._base :], kept, numbers[self._base :])]
        for column in self._columns.values():
            column.keep(kept)
        self._origin = _left(self._origin, kept)
        self._number_from_0(len(kept))
        return numbers


class _KeptColumn:
    """A column as arrays with room for more. The bytes of its texts lie one behind the other; those that are there are never written again,
    for columns that came out look at them."""

    def __init__(self, field: Field) -> None:
        empty = nulls(field.type, 0)
        self.type: DataType = field.type
        self._values = empty.values
        self._valid = np.empty(0, np.uint8) if field.nullable else None
        self._data = None if empty.data is None else np.zeros(_FEW, np.uint8)
        self._starts, self._used = empty.starts, 0

    @property
    def bytes(self) -> int:
        return sum(each.nbytes for each in (self._values, self._valid, self._data, self._starts) if each is not None)

    def put(self, column: Column, begin: int, end: int) -> None:
        """The values of the rows from `begin` to before `end`."""
        self._values = _with_room(self._values, begin, end)
        if self._valid is not None:
            self._valid = _with_room(self._valid, begin, end)
            self._valid[begin:end] = 1 if column.valid is None else column.valid
        if self._data is None or self._starts is None:
            self._values[begin:end] = column.values
            return
        offsets, body = gathered(column)
        self._data = _with_room(self._data, self._used, self._used + len(body))
        self._data[self._used : self._used + len(body)] = body
        self._starts = _with_room(self._starts, begin, end)
        self._starts[begin:end] = offsets[:-1]
        self._starts[begin:end] += self._used
        self._values[begin:end] = offsets[1:] - offsets[:-1]
        self._used += len(body)

    def of(self, numbers: np.ndarray) -> Column:
        starts = None if self._starts is None else self._starts.take(numbers)
        valid = None if self._valid is None else self._valid.take(numbers)
        return Column(self.type, self._values.take(numbers), None if valid is None or valid.all() else valid, self._data, starts)

    def keep(self, kept: np.ndarray | slice) -> None:
        """Its rows `kept`, ascending, from 0 on."""
        if self._data is not None and self._starts is not None:
            column = self.of(np.arange(kept.start, kept.stop) if isinstance(kept, slice) else kept)
            self._starts, self._data, self._used = self._starts[:0], np.zeros(_FEW, np.uint8), 0
            self.put(column, 0, len(column))
            return
        self._values = _left(self._values, kept)
        if self._valid is not None:
            self._valid = _left(self._valid, kept)


def _with_room(array: np.ndarray, used: int, wanted: int) -> np.ndarray:
    """`array`, or a larger one that begins with as many of its items, with room for so many."""
    if wanted <= len(array):
        return array
    larger = np.empty((max(2 * wanted, _FEW), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


def _left(array: np.ndarray, kept: np.ndarray | slice) -> np.ndarray:
    """The items `kept` of `array`, from 0 on: in its place, unless it has much more room than they need. Memory that is new costs more than
    what is copied."""
    found = array[kept] if isinstance(kept, slice) else array.take(kept, axis=0)
    if len(array) > _MUCH * (len(found) + ROWS_MORE):
        return found.copy() if isinstance(kept, slice) else found
    array[: len(found)] = found
    return array
