"""Joins: every left row is held against every right one.

size 10 on the left, 5 on the right, advance 5; both windows end at e:

time    0    5    10   15
left    [----.----)             e = 10
right        [----)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cep.model.contract import matching
from cep.model.contract.matching import Conditional, Matching
from cep.model.operators import AsOfJoin, IntervalJoin, Join, Zip
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from tests.reference.aggregates import stream_order
from tests.reference.expressions import Failed, convert, equal
from tests.reference.rows import DeadLetter, Evaluate, JoinedOrigin, Row, Values
from tests.reference.schemas import joined_schema
from tests.reference.types import common_type
from tests.reference.windows import END_OF_TIME


def match(operator: Matching, left: Schema, right: Schema, a: Values, b: Values) -> bool:
    """Are the pairs `on` equal? NULL equals nothing; others are compared in their common type."""
    for one, other in operator.on:
        x, y = a[left.names.index(one)], b[right.names.index(other)]
        common = common_type((left[one].type, right[other].type))
        if x is None or y is None or not equal(convert(x, common), convert(y, common)):
            return False
    return True


def joined_values(operator: Matching, left: Schema, right: Schema, a: Values | None, b: Values | None) -> Values:
    """The columns of the joined tuple, a side that is not there None."""
    made = joined_schema(operator, left, right)
    one = dict(zip(left.names, a or (None,) * len(left.names), strict=True))
    other = dict(zip(right.names, b or (None,) * len(right.names), strict=True))
    shared = {name for name, same in operator.on if name == same}
    values = [convert(other[n] if a is None else v, made[n].type) if n in shared else v for n, v in one.items()]
    return (*values, *(value for name, value in other.items() if name not in shared))


@dataclass
class Joining:
    """One join under way: what comes out, and what it failed on."""

    operator: matching.Joining
    left: Schema
    right: Schema
    fold: JoinedOrigin
    value: Evaluate

    def __post_init__(self) -> None:
        self.out: list[Row] = []
        self.dead: list[DeadLetter] = []
        self.schema = joined_schema(self.operator, self.left, self.right)

    def joins(self, a: Row, b: Row) -> bool:
        """Do the two match? A condition that fails is a dead letter, and no match."""
        if not match(self.operator, self.left, self.right, a.values, b.values):
            return False
        condition = self.operator.condition if isinstance(self.operator, Conditional) else None
        if condition is None:
            return True
        values = joined_values(self.operator, self.left, self.right, a.values, b.values)
        try:
            return self.value(condition, self.schema, dict(zip(self.schema.names, values, strict=True))) is True
        except Failed as failed:
            self.dead.append(DeadLetter(self.operator.name, failed.reason, self.fold(self.operator.name, a.origin, b.origin)))
            return False

    def emit(self, time: int, a: Row | None, b: Row | None) -> None:
        origin = self.fold(self.operator.name, a and a.origin, b and b.origin)
        values = joined_values(self.operator, self.left, self.right, a and a.values, b and b.values)
        self.out.append(Row(time, origin, values))

    def run(self, lefts: Sequence[Row], rights: Sequence[Row]) -> None:
        _RUN[type(self.operator)](self, lefts, rights)

    def meet(self, lefts: Sequence[Row], rights: Sequence[Row], time: int) -> None:
        """All pairs of one window, and what has no match in it, at event time `time`."""
        pairs = [(i, j) for i, a in enumerate(lefts) for j, b in enumerate(rights) if self.joins(a, b)]
        for i, j in pairs:
            self.emit(time, lefts[i], rights[j])
        if self.operator.how in ("left", "full"):
            for i in set(range(len(lefts))) - {i for i, _ in pairs}:
                self.emit(time, lefts[i], None)
        if self.operator.how in ("right", "full"):
            for j in set(range(len(rights))) - {j for _, j in pairs}:
                self.emit(time, None, rights[j])


def join(joining: Joining, lefts: Sequence[Row], rights: Sequence[Row]) -> None:
    operator = joining.operator
    assert isinstance(operator, Join)
    sizes = (operator.window.size, operator.right_window.size)
    ends = {
        end for rows, size in zip((lefts, rights), sizes, strict=True) for row in rows for end in ends_of(row.time, size, operator.window)
    }
    for end in sorted(ends):
        inside = [[row for row in rows if end - size <= row.time < end] for rows, size in zip((lefts, rights), sizes, strict=True)]
        joining.meet(inside[0], inside[1], end - 1)


def ends_of(time: int, size: int, window: TimeWindow) -> Iterator[int]:
    """Every e = offset + k·advance with e - size <= time < e."""
    end = ((time - window.offset) // window.advance + 1) * window.advance + window.offset
    while end - size <= time:
        yield end
        end += window.advance


def interval_join(joining: Joining, lefts: Sequence[Row], rights: Sequence[Row]) -> None:
    operator = joining.operator
    assert isinstance(operator, IntervalJoin)
    lower, upper = -math.inf if operator.lower is None else operator.lower, math.inf if operator.upper is None else operator.upper
    pairs = []
    for i, a in enumerate(lefts):
        for j, b in enumerate(rights):
            if lower <= b.time - a.time <= upper and joining.joins(a, b):
                pairs.append((i, j))
                joining.emit(max(a.time, b.time), a, b)
    matched = [{pair[side] for pair in pairs} for side in (0, 1)]
    if operator.how in ("left", "full"):
        for a in _others(lefts, matched[0]):
            joining.emit(END_OF_TIME if operator.upper is None else max(a.time, a.time + operator.upper), a, None)
    if operator.how in ("right", "full"):
        for b in _others(rights, matched[1]):
            joining.emit(END_OF_TIME if operator.lower is None else max(b.time, b.time - operator.lower), None, b)


def _others(rows: Sequence[Row], matched: set[int]) -> Iterable[Row]:
    return (row for i, row in enumerate(rows) if i not in matched)


def as_of_join(joining: Joining, lefts: Sequence[Row], rights: Sequence[Row]) -> None:
    operator = joining.operator
    assert isinstance(operator, AsOfJoin)
    ordered = sorted(rights, key=stream_order)
    for a in lefts:
        near = [b for b in ordered if b.time <= a.time and (operator.tolerance is None or a.time - b.time <= operator.tolerance)]
        matches = [b for b in near if joining.joins(a, b)]
        if matches or operator.how == "left":
            joining.emit(a.time, a, matches[-1] if matches else None)


def zipped(joining: Joining, lefts: Sequence[Row], rights: Sequence[Row]) -> None:
    for a, b in zip(sorted(lefts, key=stream_order), sorted(rights, key=stream_order), strict=False):
        joining.emit(max(a.time, b.time), a, b)


_RUN = {Join: join, IntervalJoin: interval_join, AsOfJoin: as_of_join, Zip: zipped}
