"""Columns of rows that are put together of few tuples, as a join's are: the tuples once, and which of them each row has.

    bids   a  b            bid   a  a  b  b  b       columns of bids at the rows 0 0 1 1 1,
    sales  x  y  z         sale  x  y  x  y  z       those of sales at 0 1 0 1 2

Who asks for a column gets it as if it had been copied out row by row: it is made when it is first asked for. What moves whole rows
(outputs, the wire, a join that keeps them) moves the tuples and the numbers instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np

from cep.kernels.column import NO_BYTES, Column
from cep.kernels.columns import Columns, concatenated_columns, offsets_of
from cep.kernels.jit import Kernel, kernel
from cep.kernels.tables.hashing import hash64
from cep.kernels.text import gather
from cep.model.schema import DataType
from cep.values import value

#: Where more than so many parts of the rows have a tuple of their own, nothing is saved.
FEW = 0.75


@value
class Component:
    """Tuples, and which of them rows have. `columns`: of any number of tuples, of which `chosen`, int64[m], are meant; None: all, in order.
    `index`, int64[n]: the one of these m that each row has; None: each its own, in order. `is_dense`: it is known that no
    tuple is meant that no row has."""

    columns: Columns
    chosen: np.ndarray | None = None
    index: np.ndarray | None = None
    is_dense: bool = False

    @staticmethod
    def of(columns: Columns, rows: np.ndarray) -> Component:
        """Rows that have the tuples `rows`, int64[n], each of these once if they are few."""
        chosen, index = distinct(rows)
        return Component(columns, rows) if len(chosen) > FEW * len(rows) else Component(columns, chosen, index, True)

    @property
    def tuples(self) -> int:
        return len(next(iter(self.columns.values()))) if self.chosen is None else len(self.chosen)

    def rows(self) -> np.ndarray | None:
        """int64[n]: which of all tuples each row has; None: each its own."""
        if self.index is None or self.chosen is None:
            return self.chosen if self.index is None else self.index
        rows: np.ndarray = self.chosen[self.index]
        return rows

    def take(self, rows: np.ndarray | slice) -> Component:
        if self.index is not None:
            return Component(self.columns, self.chosen, self.index[rows])
        if self.chosen is not None:
            return Component(self.columns, self.chosen[rows])
        return Component({name: column.take(rows) for name, column in self.columns.items()})

    def of_rows(self, rows: np.ndarray) -> Component:
        """Rows that have the tuples of its rows `rows`, int64[n]."""
        there = self.rows()
        return Component.of(self.columns, rows if there is None else there[rows])

    def used(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(`chosen`, `index`) without the tuples that no row has."""
        if self.index is None or self.is_dense:
            return self.chosen, self.index
        seen, index = distinct(self.index)
        if len(seen) == self.tuples:
            return self.chosen, self.index
        return seen if self.chosen is None else self.chosen[seen], index

    def compacted(self) -> Component:
        """The same with no tuple but those that rows have, and no bytes but theirs."""
        chosen, index = self.used()
        if chosen is None:
            return self
        return Component({name: picked(column, chosen) for name, column in self.columns.items()}, None, index, True)

    def sizes(self) -> np.ndarray:
        """int64[n]: bytes of each row's tuple."""
        sizes = np.zeros(self.tuples, np.int64)
        for column in self.columns.values():
            sizes += column.values.itemsize
            if column.type.is_bytes:
                sizes += column.values if self.chosen is None else column.values[self.chosen]
        return sizes if self.index is None else sizes[self.index]


class Composed(Mapping[str, Column]):
    """The columns of `rows` rows. `places`: of each the number of its component, and its name there."""

    __slots__ = ("_chosen", "_made", "_sizes", "components", "places", "rows")

    def __init__(self, components: Sequence[Component], places: Mapping[str, tuple[int, str]], rows: int) -> None:
        self.components, self.places, self.rows = tuple(components), places, rows
        self._made: dict[str, Column] = {}
        self._chosen: dict[int, np.ndarray | None] = {}  # the rows of a component
        self._sizes: np.ndarray | None = None  # once they have been asked for

    def __getitem__(self, name: str) -> Column:
        if (made := self._made.get(name)) is None:
            column, rows = self.source(name)
            made = self._made[name] = column if rows is None else column.take(rows)
        return made

    def source(self, name: str) -> tuple[Column, np.ndarray | None]:
        """What the column would be made of: one, and its rows, int64[n]; None: all."""
        if (made := self._made.get(name)) is not None:
            return made, None
        number, there = self.places[name]
        if number not in self._chosen:
            self._chosen[number] = self.components[number].rows()
        return self.components[number].columns[there], self._chosen[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def type_of(self, name: str) -> DataType:
        number, there = self.places[name]
        return self.components[number].columns[there].type

    def take(self, rows: np.ndarray | slice) -> Composed:
        components = [component.take(rows) for component in self.components]
        return Composed(components, self.places, len(range(*rows.indices(self.rows))) if isinstance(rows, slice) else len(rows))

    def renamed(self, names: Mapping[str, str]) -> Composed:
        """The columns `names`, new: old, alone."""
        used = sorted({self.places[old][0] for old in names.values()})
        numbers = {number: i for i, number in enumerate(used)}
        places = {new: (numbers[self.places[old][0]], self.places[old][1]) for new, old in names.items()}
        read = set(places.values())
        components = [self.components[number] for number in used]
        for i, each in enumerate(components):
            if any((i, name) not in read for name in each.columns):
                fewer = {name: column for name, column in each.columns.items() if (i, name) in read}
                components[i] = Component(fewer, each.chosen, each.index, each.is_dense)
        return Composed(components, places, self.rows)

    def compacted(self) -> Composed:
        """The same rows without the rest of what they were taken from."""
        found = Composed([component.compacted() for component in self.components], self.places, self.rows)
        found._sizes = self._sizes
        return found

    def sizes(self) -> np.ndarray:
        """int64[n]: bytes of the values of each row; not to be written to."""
        if self._sizes is None:
            self._sizes = sum([component.sizes() for component in self.components], start=np.zeros(self.rows, np.int64))
        return self._sizes


def taken(columns: Columns, rows: np.ndarray | slice) -> Columns:
    """`rows` (int64[m] or a slice) of columns."""
    if isinstance(columns, Composed):
        return columns.take(rows)
    return {name: column.take(rows) for name, column in columns.items()}


def selected(columns: Columns, names: Sequence[str]) -> Columns:
    """Those columns alone."""
    if isinstance(columns, Composed):
        return columns.renamed({name: name for name in names})
    return {name: columns[name] for name in names}


def type_of(columns: Columns, name: str) -> DataType:
    """Of a column, which need not be made for that."""
    return columns.type_of(name) if isinstance(columns, Composed) else columns[name].type


def as_composed(columns: Columns, rows: int) -> Composed:
    """The same: where they are not composed, with one component, each row's own."""
    if isinstance(columns, Composed):
        return columns
    return Composed([Component(columns)] if columns else [], {name: (0, name) for name in columns}, rows)


def arranged(columns: Columns, places: Mapping[str, tuple[int, str]], rows: int) -> Composed:
    """The same at `places`: as they are composed, if that is how; else every row has tuples of its own."""
    if isinstance(columns, Composed) and columns.places == places:
        return columns
    components: list[dict[str, Column]] = [{} for _ in range(1 + max([number for number, _ in places.values()], default=-1))]
    for name, (number, there) in places.items():
        components[number][there] = columns[name]
    return Composed([Component(each) for each in components], places, rows)


def source_of(columns: Columns, name: str) -> tuple[Column, np.ndarray | None]:
    """What a column is, or would be made of: one, and its rows, int64[n]; None: all."""
    return columns.source(name) if isinstance(columns, Composed) else (columns[name], None)


def put_together(sides: Sequence[tuple[Columns, Mapping[str, str], np.ndarray]], rows: int) -> Composed:
    """`rows` rows out of several sides. A side: the columns of its tuples, those that are there, new name: old, and which tuple each
    row has, int64[rows]."""
    components: list[Component] = []
    places: dict[str, tuple[int, str]] = {}
    for columns, names, tuples in sides:
        if isinstance(columns, Composed):
            there = columns.renamed({old: old for old in names.values()})
            found, at = [each.of_rows(tuples) for each in there.components], there.places
        else:
            found, at = [Component.of(selected(columns, list(names.values())), tuples)], {old: (0, old) for old in names.values()}
        places |= {new: (at[old][0] + len(components), at[old][1]) for new, old in names.items()}
        components += found
    return Composed(components, places, rows)


def with_columns(columns: Columns, more: Columns) -> Columns:
    """Those columns, and `more` of the same rows; of those of one name the latter."""
    if not isinstance(columns, Composed):
        return {**columns, **more}
    there = columns.renamed({name: name for name in columns if name not in more})
    places = {**there.places, **{name: (len(there.components), name) for name in more}}
    return Composed([*there.components, Component(more)], places, columns.rows) if more else columns


def concatenated_composed(parts: Sequence[Columns]) -> Composed | None:
    """Rows of several, one behind the other. None: they are not all composed, or not alike."""
    found = [each for each in parts if isinstance(each, Composed)]
    if len(found) < len(parts) or any(each.places != found[0].places for each in found):
        return None
    compact = [each.compacted() for each in found]
    components = [_joined([each.components[i] for each in compact]) for i in range(len(found[0].components))]
    whole = Composed(components, found[0].places, sum(each.rows for each in found))
    sizes = [each._sizes for each in found if each._sizes is not None]
    whole._sizes = np.concatenate(sizes) if len(sizes) == len(found) else None
    return whole


def _joined(parts: Sequence[Component]) -> Component:
    """Of compact ones."""
    columns = {name: concatenated_columns([part.columns[name] for part in parts]) for name in parts[0].columns}
    if all(part.index is None for part in parts):
        return Component(columns)
    heights = [part.tuples for part in parts]
    numbers = [np.arange(part.tuples) if part.index is None else part.index for part in parts]
    index = np.concatenate([each + at for each, at in zip(numbers, accumulate(heights, initial=0), strict=False)])
    return Component(columns, None, index, all(part.index is None or part.is_dense for part in parts))


def picked(column: Column, rows: np.ndarray) -> Column:
    """Rows `rows`, int64[m], of a column, the bytes of texts one behind the other."""
    values, valid = column.values[rows], None if column.valid is None else column.valid[rows]
    if column.data is None or column.starts is None:
        return Column(column.type, values, valid)
    offsets = offsets_of(Column(column.type, values, valid))
    body = np.empty(int(offsets[-1]), np.uint8)
    gather(column.data, column.starts[rows], offsets, body)
    return Column(column.type, values, valid, body if len(body) else NO_BYTES, offsets[:-1].astype(np.int64))


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the different ones among `rows`, int64[n] that are not negative, as they first come, the number of its one for each), int64[m] and
    int64[n]."""
    seen, index = np.empty((2, len(rows)), np.int64)
    slots = np.zeros(2 << len(rows).bit_length(), np.int32)
    return seen[: _number(rows, slots, seen, index)], index


@kernel("int64(const int64[:], int32[:], int64[:], int64[:])", on_demand=True)
def _number(rows: np.ndarray, slots: np.ndarray, seen: np.ndarray, index: np.ndarray) -> int:
    """`slots`: zeros, a power of two, twice as many as rows."""
    mask, count, before, number = len(slots) - 1, 0, np.int64(-1), np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        if row != before:
            place = np.int64(hash64(np.uint64(row), np.uint64(0))) & mask
            number = np.int64(slots[place]) - 1
            while number >= 0 and seen[number] != row:
                place = (place + 1) & mask
                number = np.int64(slots[place]) - 1
            if number < 0:
                number = np.int64(count)
                slots[place], seen[number] = number + 1, row
                count += 1
            before = row
        index[i] = number
    return count


#: What has to be compiled where rows are composed.
KERNELS: tuple[Kernel, ...] = (_number, gather)
