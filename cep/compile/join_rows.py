"""How the two sides of a join become joined tuples: keys in common types, columns of pairs, the condition over them.

Only columns that are read below or by the condition are made; the condition's come first, the others of true pairs alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cep.compile.aggregate.results import describe_group
from cep.compile.chain.chain import Chain, Failure, compile_chain
from cep.elements import Batch
from cep.kernels.columns import Column, Columns, nulls, with_wider_numbers
from cep.kernels.composed import KERNELS as COMPOSING
from cep.kernels.composed import put_together, type_of
from cep.kernels.jit import warm
from cep.kernels.join import KERNELS, NO_NULLS, KeyIndex
from cep.kernels.tables.hashing import fold_origins, fold_origins_into
from cep.kernels.tables.keys import Encoder, Keys, decode_keys, empty_keys, encoder
from cep.model.contract.matching import Conditional, Matching
from cep.model.expr import Expr, columns_of
from cep.model.operators import Filter
from cep.model.schema import Field, Schema

LEFT, RIGHT = 0, 1
#: Fewer joined rows are made one by one: that costs less than to find which tuples are the same.
COMPOSED_MIN = 8
#: A side: its tuples and the rows of them that are meant, int64[m]; None: it is not there.
SideRows = tuple[Batch, np.ndarray] | None


@dataclass(frozen=True, slots=True)
class JoinedColumn:
    """A column of the joined tuple, and what it is on each side; None: nothing there."""

    field: Field
    names: tuple[str | None, str | None]


@dataclass(frozen=True)
class JoinSpec:
    """What one join makes of its sides. `keys`: of each side, the columns of `on`, in the types in which they are compared."""

    name: str
    how: str
    keys: tuple[tuple[Field, ...], tuple[Field, ...]]
    columns: tuple[JoinedColumn, ...]
    tested: tuple[JoinedColumn, ...]
    condition: Chain | None
    origin: bool

    @staticmethod
    def of(join: Matching, left: Schema, right: Schema, wanted: Collection[str], origin: bool) -> JoinSpec:
        """For sides of these schemas. `wanted`: names of the joined columns that are read; `origin`: are origins read?
        What it needs of machine code is ready when this returns."""
        columns = _columns(join, left, right)
        condition: Expr | None = join.condition if isinstance(join, Conditional) else None
        tested = tuple(c for c in columns if condition is not None and c.field.name in columns_of(condition))
        chain = None
        if condition is not None:
            chain = compile_chain((Filter(join.name, join.name, condition),), Schema(tuple(c.field for c in tested)))
        warm(*KERNELS, *COMPOSING, fold_origins_into)
        made = tuple(c for c in columns if c.field.name in wanted)
        return JoinSpec(join.name, join.how, _keys(join, left, right), made, tested, chain, origin)

    def keeps(self, side: int) -> bool:
        """Do its tuples without a match come out?"""
        return self.how in (("left", "full"), ("right", "full"))[side]

    # Keys

    @cached_property
    def _encoders(self) -> tuple[Encoder, ...]:
        return tuple(map(encoder, self.keys))

    def encode(self, side: int, batch: Batch) -> tuple[Keys, np.ndarray]:
        """The keys of a side's tuples; and uint8[n], or empty if there is none, those that have none since a field is NULL."""
        by = self.keys[side]
        if not by or not len(batch):
            return empty_keys(len(batch)), NO_NULLS
        valid = [batch.columns[field.name].valid for field in by]
        null = [1 - each for each in valid if each is not None]
        return self._encoders[side](with_wider_numbers(batch.columns, by)), np.bitwise_or.reduce(null) if null else NO_NULLS

    def index(self, side: int, batch: Batch) -> KeyIndex:
        return KeyIndex.of(*self.encode(side, batch))

    def largest_keys(self, side: int, batch: Batch, most: int = 3) -> str:
        """The keys with most of these tuples, for a person to read."""
        index, by = self.index(side, batch), self.keys[side]
        counts = np.diff(index.starts)
        largest = np.argsort(-counts, kind="stable")[:most]
        groups = Keys(index.groups.w0[largest], index.groups.w1[largest], index.groups.data)
        columns = decode_keys(groups, by)
        return ", ".join(f"{describe_group(columns, by, i)} ({counts[g]} rows)" for i, g in enumerate(largest.tolist()))

    # Tuples

    def test(self, left: SideRows, right: SideRows, now_us: int) -> tuple[np.ndarray | None, tuple[Failure, ...]]:
        """The pairs for which the condition is true, as row numbers; None: all. And those on which it failed."""
        assert left is not None and self.condition is not None
        n = len(left[1])
        result = self.condition.process(_gathered(self.tested, left, right, n), n, now_us)
        return result.kept, result.failures

    def joined(self, left: SideRows, right: SideRows, time: np.ndarray) -> Batch:
        """The joined tuples at these event times. Rows of -1 on the right are not there (of an outer join whose left side is)."""
        columns = self._composed(left, right, len(time)) or _gathered(self.columns, left, right, len(time))
        origin = _folded(left, right) if self.origin else None
        created = [side[0].created for side in (left, right) if side is not None and side[0].created]
        return Batch(columns, time, origin, min(created, default=0))

    def _composed(self, left: SideRows, right: SideRows, n: int) -> Columns | None:
        """The columns as they are put together of both sides' tuples. None: for so few rows, or where one side may not be there, they are
        made row by row."""
        if n < COMPOSED_MIN or left is None or right is None or right[1].min() < 0:
            return None
        names: tuple[dict[str, str], dict[str, str]] = {}, {}
        for column in self.columns:
            name, side = (column.names[LEFT], LEFT) if column.names[LEFT] is not None else (column.names[RIGHT], RIGHT)
            assert name is not None
            if type_of((left, right)[side][0].columns, name) != column.field.type:
                return None
            names[side][column.field.name] = name
        return put_together([(side[0].columns, each, side[1]) for each, side in zip(names, (left, right), strict=True) if each], n)


def _columns(join: Matching, left: Schema, right: Schema) -> tuple[JoinedColumn, ...]:
    shared = {a for a, b in join.on if a == b}
    names: list[tuple[str | None, str | None]] = [(name, name if name in shared else None) for name in left.names]
    names += [(None, name) for name in right.names if name not in shared]
    return tuple(map(JoinedColumn, join.joined_schema(left, right).fields, names))


def _keys(join: Matching, left: Schema, right: Schema) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Nullable on both sides or on none: so that the words of equal keys are equal."""
    types = join.key_types(left, right)
    nullable = [left[a].nullable or right[b].nullable for a, b in join.on]

    def fields(side: int) -> tuple[Field, ...]:
        return tuple(Field(pair[side], *each) for pair, each in zip(join.on, zip(types, nullable, strict=True), strict=True))

    return fields(LEFT), fields(RIGHT)


def _gathered(columns: Iterable[JoinedColumn], left: SideRows, right: SideRows, n: int) -> dict[str, Column]:
    there = None if right is None or not len(right[1]) or right[1].min() >= 0 else right[1] >= 0
    return {column.field.name: _column(column, left, right, there, n) for column in columns}


def _column(column: JoinedColumn, left: SideRows, right: SideRows, there: np.ndarray | None, n: int) -> Column:
    """The value of the left side where that has one."""
    left_name, right_name = column.names
    if left is not None and left_name is not None:
        found = left[0].columns[left_name].take(left[1])
    elif right is not None and right_name is not None and len(right[0]):
        found = _masked(right[0].columns[right_name].take(right[1]), there)
    else:
        found = nulls(column.field.type, n)
    return _typed(found, column.field)


def _masked(column: Column, there: np.ndarray | None) -> Column:
    """NULL where the side is not there; row -1, which was taken there, is the last one."""
    if there is None:
        return column
    return replace(column, valid=there.astype(np.uint8) if column.valid is None else column.valid & there)


def _typed(column: Column, field: Field) -> Column:
    if column.type is field.type or column.type == field.type:
        return column
    wide = with_wider_numbers({field.name: column}, (field,))[field.name]
    return wide if wide.type == field.type else replace(wide, type=field.type)


def _folded(left: SideRows, right: SideRows) -> np.ndarray:
    of_left, of_right = (None if side is None else _origin_of(side) for side in (left, right))
    folded = fold_origins(of_left, of_right)
    if of_left is not None and right is not None:
        alone = np.flatnonzero(right[1] < 0)
        folded[alone] = fold_origins(of_left[alone], None)
    return folded


def _origin_of(side: tuple[Batch, np.ndarray]) -> np.ndarray:
    batch, rows = side
    assert batch.origin is not None, "a reader of joined tuples' origins gets those of both sides"
    return batch.origin.take(rows, axis=0) if len(batch) else np.zeros((len(rows), batch.origin.shape[1]), np.int64)
