"""Aggregate over TIME windows (DESIGN 5.4, 5.7, 4.5): collect the rows of every window and group, then compute.

size 10, advance 5; a row at 7 is in windows 0 and 1:

time       -5    0    5    10   15
window -1   [----.----)                  [-5, 5)
window  0        [----x----)             [0, 10)
window  1             [x---.----)        [5, 15)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cep.model.functions import Function
from cep.model.operators import Aggregate
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from tests.reference.rows import SUM_OVERFLOW, DeadLetter, Origin, Row, Values
from tests.reference.values import NAN, fits_int64, normal, rank

#: (operator name, key, window start) -> the origin of an aggregate's row.
AggregateOrigin = Callable[[str, Values, int], Origin]


@dataclass(frozen=True)
class Group:
    """The rows of one window and key, in stream order."""

    start: int
    end: int
    key: Values
    rows: tuple[Row, ...]


def aggregate(operator: Aggregate, schema: Schema, rows: Iterable[Row], origin_of: AggregateOrigin) -> tuple[list[Row], list[DeadLetter]]:
    """One row per window and group, at event time window end - 1; and a dead letter per SUM that does not fit."""
    out, dead = [], []
    for group in groups(operator, schema, rows):
        origin = origin_of(operator.name, group.key, group.start)
        results = []
        for _, function in operator.functions:
            result = apply(function, group, schema)
            if function.name == "sum" and isinstance(result, int) and not fits_int64(result):
                result = None
                dead.append(DeadLetter(operator.name, SUM_OVERFLOW, origin))
            results.append(result)
        out.append(Row(group.end - 1, origin, (*group.key, *results)))
    return out, dead


def groups(operator: Aggregate, schema: Schema, rows: Iterable[Row]) -> list[Group]:
    positions = [schema.names.index(name) for name in operator.by]
    found: dict[tuple[int, Values], list[Row]] = {}
    for row in sorted(rows, key=stream_order):
        key = tuple(normal(row.values[position]) for position in positions)
        for start in window_starts(row.time, operator.window):
            found.setdefault((start, key), []).append(row)
    return [Group(start, start + operator.window.size, key, tuple(members)) for (start, key), members in found.items()]


def window_starts(time: int, window: TimeWindow) -> list[int]:
    """Starts of the windows `[k·advance, k·advance + size)` that hold `time`, ascending."""
    starts = []
    start = time // window.advance * window.advance  # floors, also before the epoch
    while time < start + window.size:
        starts.append(start)
        start -= window.advance
    return starts[::-1]


def stream_order(row: Row) -> tuple[Any, ...]:
    """(event time, origin), and what is still equal by the row's columns (DESIGN 4.5)."""
    return (row.time, row.origin, [rank(value) for value in row.values])


def apply(function: Function, group: Group, schema: Schema) -> Any:
    """The value of `function` over `group`; an integer SUM may be one that fits no int64."""
    if function.column is None:
        return {"count": len(group.rows), "window_start": group.start, "window_end": group.end}[function.name]
    position = schema.names.index(function.column)
    values = [row.values[position] for row in group.rows]
    return _OF_COLUMN[function.name](values)


def _present(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _count(values: list[Any]) -> int:
    return len(_present(values))


def _sum(values: list[Any]) -> Any:
    present = _present(values)
    if not present:
        return None
    return exact_sum(present) if isinstance(present[0], float) else sum(present)


def _avg(values: list[Any]) -> float | None:
    total = _sum(values)
    return None if total is None else float(total) / float(_count(values))


def _min(values: list[Any]) -> Any:
    return min(map(normal, _present(values)), key=rank, default=None)


def _max(values: list[Any]) -> Any:
    return max(map(normal, _present(values)), key=rank, default=None)


_OF_COLUMN: dict[str, Callable[[list[Any]], Any]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


def exact_sum(values: list[float]) -> float:
    """The exact sum, rounded once. IEEE's rules for NaN and infinities; a sum of nothing but zeros is 0.0.

    `math.fsum` with the one difference that no intermediate sum overflows: 1e308 + 1e308 - 1e308 is 1e308.
    """
    infinities = {value for value in values if math.isinf(value)}
    if any(map(math.isnan, values)) or len(infinities) == 2:
        return NAN
    if infinities:
        return infinities.pop()
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
