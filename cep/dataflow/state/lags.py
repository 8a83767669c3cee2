"""Values of the rows before, in stream order, of each group, and the number of each row in it.

Each group has a ring of the numbers of its last rows, and the rows lie in pieces, as they came: so a lag is a number looked up and a value
taken, whatever its type. What no ring names any more is left behind once that is most of what there is.

Whatever grows with the number of groups or of rows that are kept is done in pieces, between which others have their turn: what pauses is a
generator, to be pulled to its end before anything else is called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from cep.compile.aggregate.spec import free_prefix
from cep.dataflow.channel import batch_bytes
from cep.dataflow.outputs.output import compacted, concatenated
from cep.elements import MIN_TIME, PAUSE, Batch
from cep.kernels.arrays import empty_batch
from cep.kernels.columns import Column
from cep.kernels.jit import kernel
from cep.kernels.tables.group_numbers import GroupNumbers
from cep.model.schema import INT64, Field, Schema
from cep.transport.wire import Format

T = TypeVar("T")

FOR_EVER = -1
NONE = -1
#: Rows are looked through when there are twice as many as were left the last time, and this many more; groups likewise.
ROWS_MORE, GROUPS_MORE = 65_536, 4_096
#: Pieces of fewer rows are put together, each at most half as long as the one before.
FEW_ROWS = 8_192
#: Words of rings and rows that are looked through or copied between two pauses, and pieces from which values are taken.
PIECE_WORDS, PIECE_ROWS, PIECES = 1 << 20, 1 << 16, 64


@dataclass(frozen=True)
class Lag:
    """Field `name` is `column` of the `k`-th row before."""

    name: str
    column: str
    k: int


@kernel(
    "void(const int64[:], const int64[:], int64, int64, const int64[:], int64[:, :], int64[:], int64[:], int64[:, :], int64[:])",
    on_demand=True,
)
def look_back(
    groups: np.ndarray,
    time: np.ndarray,
    first: int,
    ttl: int,
    back: np.ndarray,
    rings: np.ndarray,
    counts: np.ndarray,
    last: np.ndarray,
    out: np.ndarray,
    places: np.ndarray,
) -> None:
    """Numbers of the rows `back` before each, -1 for none, and its place in its group from 1 on; puts each into the ring of its group.
    Row i has number `first` + i."""
    size = rings.shape[1]
    for i in range(len(groups)):
        group = groups[i]
        if ttl >= 0 and counts[group] > 0 and time[i] - last[group] > ttl:
            counts[group] = 0
        count = counts[group]
        for j in range(len(back)):
            out[j, i] = rings[group, (count - back[j]) % size] if count >= back[j] else -1
        rings[group, count % size] = first + i
        counts[group] = places[i] = count + 1
        last[group] = time[i]


@kernel("void(int64, int64, const int64[:, :], const int64[:], uint8[:])", on_demand=True)
def mark_named(first: int, stop: int, rings: np.ndarray, counts: np.ndarray, out: np.ndarray) -> None:
    """Sets 1 for each row that the ring of a group from `first` to before `stop` names."""
    size = rings.shape[1]
    for group in range(first, stop):
        for place in range(max(counts[group] - size, 0), counts[group]):
            out[rings[group, place % size]] = 1


@kernel("void(int64, int64, int64[:, :], const int64[:], const int64[:])", on_demand=True)
def renumber(first: int, stop: int, rings: np.ndarray, counts: np.ndarray, numbers: np.ndarray) -> None:
    """Names rows by `numbers`, in the rings of the same groups."""
    size = rings.shape[1]
    for group in range(first, stop):
        for place in range(max(counts[group] - size, 0), counts[group]):
            rings[group, place % size] = numbers[rings[group, place % size]]


KERNELS = look_back, mark_named, renumber
#: What pauses.
Work = Generator[Batch, None, None]


class Lags:
    """`asked` of rows of `schema`; `ttl` µs after the last row of a group there is none before. Fields `numbered` are a row's place."""

    def __init__(self, by: tuple[Field, ...], asked: Sequence[Lag], schema: Schema, ttl: int | None, numbered: Sequence[str] = ()) -> None:
        self.by, self.asked, self.numbered, self.ttl = by, asked, numbered, FOR_EVER if ttl is None else ttl
        names = {*(field.name for field in by), *(lag.column for lag in asked)}
        self.schema = Schema(tuple(field for field in schema.fields if field.name in names))
        self.back = np.array(sorted({lag.k for lag in asked}), np.int64)
        prefix = free_prefix("_l", self.schema.names)
        #: The number of a row in its group, from 0.
        self.place = Field(f"{prefix}0", INT64)
        self.format = Format(Schema((self.place, *self.schema.fields)), 0)
        self.clear()

    def clear(self) -> None:
        self.numbers = GroupNumbers(self.by)
        self._rings = np.empty((0, int(self.back.max(initial=1))), np.int64)
        self._counts, self._last = np.empty((2, 0), np.int64)
        self._pieces: list[Batch] = []
        self._rows = self._left = self._groups_left = 0

    @property
    def bytes(self) -> int:
        """Of rings and rows."""
        arrays = self._rings.nbytes + self._counts.nbytes + self._last.nbytes
        return self.numbers.bytes + arrays + sum(map(batch_bytes, self._pieces))

    def take(self, batch: Batch) -> Generator[Batch, None, dict[str, Column]]:
        """Returns the lags and places of rows in stream order, which come behind those taken before."""
        groups, n = (yield from self._groups_of(batch)), len(batch)
        before, places = np.empty((len(self.back), n), np.int64), np.empty(n, np.int64)
        times = np.ascontiguousarray(batch.time)
        look_back(groups, times, self._rows, self.ttl, self.back, self._rings, self._counts, self._last, before, places)
        self._add(batch)
        found = {}
        for j, k in enumerate(self.back.tolist()):
            found[k] = yield from self._taken(before[j], {lag.column for lag in self.asked if lag.k == k})
        if self._rows > 2 * self._left + ROWS_MORE:
            yield from self._sweep()
        numbered = {name: Column(INT64, places) for name in self.numbered}
        return {lag.name: found[lag.k][lag.column] for lag in self.asked} | numbered

    def _groups_of(self, batch: Batch) -> Generator[Batch, None, np.ndarray]:
        groups = self.numbers.of(batch.columns, len(batch))
        if len(self.numbers) > len(self._counts):
            yield from self._resize(max(64, 2 * len(self.numbers)))
        return groups

    def _resize(self, size: int) -> Work:
        """Room for `size` groups."""
        rings, before = np.empty((size, self._rings.shape[1]), np.int64), len(self._rings)
        for first, stop in self._ranges(before):
            rings[first:stop] = self._rings[first:stop]
            yield PAUSE
        counts, last = np.zeros(size, np.int64), np.full(size, MIN_TIME)
        counts[:before], last[:before] = self._counts, self._last
        self._rings, self._counts, self._last = rings, counts, last

    def _ranges(self, groups: int) -> Iterator[tuple[int, int]]:
        """So many groups, in pieces."""
        step = max(PIECE_WORDS // self._rings.shape[1], 1)
        return ((first, min(first + step, groups)) for first in range(0, groups, step))

    def _add(self, batch: Batch) -> None:
        self._put(Batch({name: batch.columns[name] for name in self.schema.names}, batch.time))

    def _put(self, rows: Batch) -> None:
        pieces = self._pieces
        pieces.append(compacted(rows))
        while len(pieces) > 1 and len(pieces[-2]) <= min(2 * len(pieces[-1]), FEW_ROWS):
            pieces[-2:] = [concatenated(pieces[-2:])]
        self._rows += len(rows)

    def _taken(self, rows: np.ndarray, names: set[str]) -> Generator[Batch, None, dict[str, Column]]:
        """`names` of the rows of these numbers, NULL where they are NONE."""
        ends = np.cumsum([len(piece) for piece in self._pieces])
        where = np.searchsorted(ends, rows, side="right")  # NONE: in the first one
        there = (rows != NONE).astype(np.uint8)
        order, found = np.argsort(where, kind="stable"), []
        numbers, firsts = np.unique(where[order], return_index=True)
        for number, mine in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True):
            piece = self._pieces[number]
            chosen = Batch({name: piece.columns[name] for name in names}, piece.time)
            found.append(chosen.take(np.maximum(rows[mine] - (int(ends[number]) - len(piece)), 0)))
            if len(found) % PIECES == 0:
                yield PAUSE
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows))
        columns = concatenated(found).take(place).columns
        return {name: _where(there, column) for name, column in columns.items()}

    # Rows and groups that nothing looks at any more

    def _alive(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each row that a ring names its group, its place in the group, and its number."""
        groups, size = len(self.numbers), self._rings.shape[1]
        counts = self._counts[:groups]
        place = counts[:, None] - 1 - np.arange(size)[None, :]
        group, which = np.nonzero(place >= np.maximum(counts - size, 0)[:, None])
        places = place[group, which]
        return group, places, self._rings[group, places % size]

    def _sweep(self) -> Work:
        named, groups = np.zeros(self._rows, np.uint8), len(self.numbers)
        for first, stop in self._ranges(groups):
            mark_named(first, stop, self._rings, self._counts, named)
            yield PAUSE
        numbers = yield from self._leave_behind(named)
        for first, stop in self._ranges(groups):
            renumber(first, stop, self._rings, self._counts, numbers)
            yield PAUSE

    def _leave_behind(self, named: np.ndarray) -> Generator[Batch, None, np.ndarray]:
        """Keeps the rows that are `named`, uint8[rows]; returns their new numbers, int64[rows], of others nonsense."""
        numbers, pieces = np.empty(len(named), np.int64), deque(self._pieces)
        self._pieces, self._rows, begin = [], 0, 0
        while pieces:
            piece = pieces.popleft()
            own = slice(begin, begin + len(piece))
            numbers[own] = self._rows + np.cumsum(named[own]) - 1
            kept, begin = np.flatnonzero(named[own]), own.stop
            if len(kept):
                self._put(piece.take(kept))
            yield PAUSE
        self._left = self._rows
        return numbers

    def forget(self, watermark: int) -> Work:
        """Frees groups that any row from `watermark` on would begin anew, now and then."""
        if self.ttl == FOR_EVER or len(self.numbers) < 2 * self._groups_left + GROUPS_MORE:
            return
        kept = np.flatnonzero(self._last[: len(self.numbers)] >= max(watermark, -(2**62)) - self.ttl)
        for _ in self.numbers.keeping(kept):
            yield PAUSE
        rings = np.empty((len(kept), self._rings.shape[1]), np.int64)
        for first, stop in self._ranges(len(kept)):
            rings[first:stop] = self._rings[kept[first:stop]]
            yield PAUSE
        self._rings, self._counts, self._last = rings, self._counts[kept], self._last[kept]
        self._groups_left = len(kept)
        yield from self._sweep()

    # Snapshots

    def snapshot(self) -> pa.RecordBatch:
        """The rows that rings name, each with its place in its group and its event time."""
        _, place, number = self._alive()
        if not len(number):
            return empty_batch(self.format.arrow)
        rows = concatenated(self._pieces).take(number)
        return self.format.to_arrow(replace(rows, columns={self.place.name: Column(INT64, place), **rows.columns}))

    def columns(self, batch: pa.RecordBatch) -> dict[str, Column]:
        """Those of a snapshot."""
        return dict(self.format.from_arrow(batch).columns)

    def restore(self, batch: pa.RecordBatch, kept: np.ndarray) -> None:
        """Adds the rows of a snapshot that `kept`, bool[n], names: all of a group, or none."""
        rows = self.format.from_arrow(batch).take(np.flatnonzero(kept))
        if not len(rows):
            return
        groups, place = exhausted(self._groups_of(rows)), rows.columns[self.place.name].values
        self._rings[groups, place % self._rings.shape[1]] = self._rows + np.arange(len(rows))
        np.maximum.at(self._counts, groups, place + 1)
        np.maximum.at(self._last, groups, rows.time)
        for start in range(0, len(rows), PIECE_ROWS):
            self._add(rows.take(slice(start, start + PIECE_ROWS)))


def exhausted(work: Generator[Batch, None, T]) -> T:
    """Does it in one go."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def _where(there: np.ndarray, column: Column) -> Column:
    """NULL where it is not there."""
    valid = there if column.valid is None else column.valid & there
    return replace(column, valid=None if valid.all() else valid, lines=None, words=None)
