"""What goes into the tables of an aggregate: tuples, or partial rows, as the arguments of its loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cep.compile.aggregate.source import Loops
from cep.compile.aggregate.spec import AggregateSpec
from cep.compile.aggregate.states import StatePart
from cep.compile.aggregate.ties import ROW, rows_of
from cep.elements import Batch
from cep.kernels.blocks import BLOCK_WORDS, place_blocks
from cep.kernels.columns import NO_BYTES, Column, Columns, gathered
from cep.kernels.jit import Kernel
from cep.kernels.states.exact_sum import POOL_WORDS, SPILLED
from cep.kernels.tables.hashing import LONG
from cep.kernels.tables.keys import Keys, empty_keys, encode_keys
from cep.kernels.tables.table import Table
from cep.model.schema import Field
from cep.values import value

_TOP = np.uint64(56)
#: Entries merged at a time.
MERGED_ROWS = 65_536


class TimedRows(Protocol):
    """n rows with their event times. They go into tables a run at a time."""

    @property
    def time(self) -> np.ndarray: ...

    @property
    def created(self) -> int: ...

    def into(self, table: Table, start: int, stop: int) -> int:
        """Returns the bytes by which the table has grown."""

    def take(self, order: np.ndarray) -> TimedRows: ...

    def cut(self, start: int, stop: int) -> TimedRows:
        """Rows `start` to `stop`, which look at the same memory."""

    @property
    def keys(self) -> Keys: ...

    def numbered(self, numbers: np.ndarray) -> TimedRows:
        """With `numbers`, uint64[n], in place of their keys."""

    @property
    def nbytes(self) -> int: ...


def run_loop(loop: Kernel, table: Table, start: int, stop: int, *arguments: Any) -> int:
    """Runs a generated loop to its end, making room in `table` whenever it asks for it. Returns the bytes by which it has grown."""
    grown, table.touched = 0, True
    while True:
        start = loop(table.slots, table.entries, table.control, table.arena, table.pool, start, stop, *arguments)
        if start == stop:
            return grown
        before = table.bytes
        table.grow()
        grown += table.bytes - before


def merge_in_pieces(loops: Loops, table: Table, other: Table) -> Iterator[None]:
    """Adds the groups of `other` to those of `table`; between two pieces others may work."""
    table.created = oldest(table.created, other.created)
    for start in range(0, other.rows, MERGED_ROWS):
        if start:
            yield
        run_loop(loops.merge, table, start, min(start + MERGED_ROWS, other.rows), other.entries, other.arena, other.pool)


def oldest(a: int, b: int) -> int:
    """The earlier of two creation times, of which 0 is unknown."""
    return min(a, b) if a and b else a or b


@value
class TupleRows:
    """`arrays` are the arguments of `update`."""

    loops: Loops
    time: np.ndarray
    created: int
    arrays: tuple[np.ndarray, ...]

    def into(self, table: Table, start: int, stop: int) -> int:
        return run_loop(self.loops.update, table, start, stop, *self.arrays)

    def take(self, order: np.ndarray) -> TupleRows:
        return self._at(order)

    def cut(self, start: int, stop: int) -> TupleRows:
        return self._at(slice(start, stop))

    def _at(self, rows: np.ndarray | slice) -> TupleRows:
        by_row = (True, True, False, *(what != "data" for _, what in self.loops.arguments))
        taken = tuple(array[rows] if each else array for array, each in zip(self.arrays, by_row, strict=True))
        return replace(self, time=self.time[rows], arrays=taken)

    @property
    def keys(self) -> Keys:
        w0, w1, data = self.arrays[:3]
        return Keys(w0, w1, data)

    def numbered(self, numbers: np.ndarray) -> TupleRows:
        return replace(self, arrays=(numbers, np.zeros(len(numbers), np.uint64), NO_BYTES, *self.arrays[3:]))

    @property
    def nbytes(self) -> int:
        return self.time.nbytes + sum(array.nbytes for array in self.arrays)


@dataclass(frozen=True)
class PartialRows:
    """`matrix` is int64[n, width]: the rows as entries, whose long texts and spilled sums are in `arena` and `pool`."""

    loops: Loops
    time: np.ndarray
    created: int
    matrix: np.ndarray
    arena: np.ndarray
    pool: np.ndarray

    @staticmethod
    def of(spec: AggregateSpec, table: Table) -> PartialRows:
        """The entries of a table, which stays as it is; their panes are another matter."""
        return PartialRows(spec.loops, np.zeros(table.rows, np.int64), table.created, table.matrix, table.arena, table.pool)

    @property
    def refers(self) -> bool:
        """To bytes, or sums."""
        return self.arena is not NO_BYTES or len(self.pool) > 0

    def into(self, table: Table, start: int, stop: int) -> int:
        return run_loop(self.loops.merge, table, start, stop, self.matrix.reshape(-1), self.arena, self.pool)

    def take(self, order: np.ndarray) -> PartialRows:
        return replace(self, time=self.time[order], matrix=self.matrix.take(order, axis=0))

    def cut(self, start: int, stop: int) -> PartialRows:
        return replace(self, time=self.time[start:stop], matrix=self.matrix[start:stop])

    @property
    def keys(self) -> Keys:
        w0, w1 = (np.ascontiguousarray(self.matrix[:, word]).view(np.uint64) for word in (0, 1))
        return Keys(w0, w1, self.arena)

    def numbered(self, numbers: np.ndarray) -> PartialRows:
        matrix = self.matrix.copy()
        matrix[:, 0], matrix[:, 1] = numbers.view(np.int64), 0
        return replace(self, matrix=matrix)

    @property
    def nbytes(self) -> int:
        return self.time.nbytes + self.matrix.nbytes + self.arena.nbytes + self.pool.nbytes


def keys_of(columns: Columns, by: tuple[Field, ...], n: int) -> Keys:
    return encode_keys(columns, by) if by else empty_keys(n)


def tuple_rows(spec: AggregateSpec, batch: Batch) -> TupleRows:
    """Tuples of `spec.schema`."""
    keys = spec.encode(batch.columns) if spec.by else empty_keys(len(batch.time))
    time = np.ascontiguousarray(batch.time)
    named: dict[tuple[str, str], np.ndarray] = {("", "time"): time}
    if spec.needs_origin:
        assert batch.origin is not None, f"operator {spec.operator.name!r}: its rows must carry their origin"
        named["", "origin"] = np.ascontiguousarray(batch.origin)
    for each in spec.loops.arguments:
        if each not in named:
            column, what = each
            if column == ROW.name:
                named |= _texts(ROW, rows_of(batch.columns, spec.schema.fields, len(batch)))
            elif what in _ONE_ARRAY:
                named[each] = _array(batch.columns[column], what)
            else:
                named |= _texts(spec.schema[column], batch.columns[column])
    arrays = (keys.w0, keys.w1, keys.data, *[named[each] for each in spec.loops.arguments])
    return TupleRows(spec.loops, time, batch.created, arrays)


_ONE_ARRAY = frozenset(("values", "reals", "valid"))


def _array(column: Column, what: str) -> np.ndarray:
    if what == "values":
        values = np.ascontiguousarray(column.values)
        return values.view(np.int64) if column.type.name == "float64" else values
    if what == "reals":
        return np.ascontiguousarray(column.values, np.float64).view(np.int64)
    return np.ones(len(column), np.uint8) if column.valid is None else np.ascontiguousarray(column.valid)


def _texts(field: Field, column: Column) -> dict[tuple[str, str], np.ndarray]:
    name = field.name
    keys = encode_keys({name: column}, (field,))
    return {(name, "low"): keys.w0, (name, "high"): keys.w1, (name, "data"): keys.data}


def partial_rows(spec: AggregateSpec, columns: Columns, time: np.ndarray, created: int, into: np.ndarray | None = None) -> PartialRows:
    """Partial rows of `spec.partial_schema`; `time` is any instant of their panes. `into`: their matrix lies in here, int64[n, width]."""
    made = Matrix(np.empty((len(time), spec.width), np.int64) if into is None else into)
    made.texts(0, keys_of(columns, spec.by, len(time)))
    fields = iter(spec.partial_schema.fields[len(spec.by) :])
    for place, part in spec.parts:
        match part.kind:
            case "text":
                field = next(fields)
                made.texts(place, encode_keys({field.name: columns[field.name]}, (field,)))
            case "block":
                made.blocks(place, part, columns[next(fields).name].values, columns[next(fields).name])
            case _:
                for k in range(part.words):
                    made.matrix[:, place + k] = columns[next(fields).name].values
        if part.kind == "sum":
            made.spilled(place, columns[next(fields).name])
    return PartialRows(spec.loops, time, created, made.matrix, made.arena(), made.pool())


class Matrix:
    """Entries in the making: `matrix` is int64[n, width]."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self._bodies: list[np.ndarray] = []
        self._size = 0
        self._pools: list[np.ndarray] = []
        self._pooled = 0

    def texts(self, place: int, keys: Keys) -> None:
        """Two words, of which the offsets of long ones move behind the bytes that are there already."""
        high = keys.w1
        if keys.data is not NO_BYTES and len(long := np.flatnonzero((high >> _TOP) == LONG)):
            if self._size:
                high = high.copy()
                high[long] += np.uint64(self._size)
            self.bytes(keys.data)
        self.matrix[:, place] = keys.w0.view(np.int64)
        self.matrix[:, place + 1] = high.view(np.int64)

    def bytes(self, body: np.ndarray) -> None:
        """These lie behind those that are there already."""
        self._bodies.append(body)
        self._size += len(body)

    def blocks(self, place: int, part: StatePart, counts: np.ndarray, blocks: Column) -> None:
        """Three words, of which the first and the offsets of long texts count from the beginning of the arena."""
        offsets, body = gathered(blocks)
        words = np.empty((len(counts), BLOCK_WORDS), np.int64)
        words[:, 2] = counts
        place_blocks(body, offsets, self._size, part.slot, part.text, words)
        self.matrix[:, place : place + BLOCK_WORDS] = words
        self.bytes(body)

    def spilled(self, place: int, column: Column) -> None:
        rows = np.flatnonzero(self.matrix[:, place] & SPILLED)
        if len(rows):
            assert column.starts is not None and column.data is not None
            at = column.starts[rows, None] + np.arange(8 * POOL_WORDS)
            self._pools.append(column.data[at].view(np.int64))
            self.matrix[rows, place + 1] = self._pooled + np.arange(len(rows))
            self._pooled += len(rows)

    def arena(self) -> np.ndarray:
        return _joined(self._bodies, NO_BYTES)

    def pool(self) -> np.ndarray:
        return _joined(self._pools, np.zeros((0, POOL_WORDS), np.int64))


def _joined(parts: Sequence[np.ndarray], none: np.ndarray) -> np.ndarray:
    return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else none
