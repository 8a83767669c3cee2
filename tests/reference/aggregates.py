"""Functions of aggregates over the rows of one window and group (DESIGN 5.7), and stream order (DESIGN 4.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cep.model.functions import Function
from cep.model.schema import Schema
from tests.reference.rows import Row, Values
from tests.reference.values import NAN, normal, rank


@dataclass(frozen=True)
class Group:
    """The rows of one window and key, in stream order."""

    start: int
    end: int
    key: Values
    rows: tuple[Row, ...]


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
