"""Functions of aggregates over the rows of one window and group (rule 5.7), and stream order (rule 4.5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cep.model.functions import Function, UserFunction
from cep.model.schema import Schema
from tests.reference.hashing import hash_of_value
from tests.reference.rows import Row, Values
from tests.reference.users import folded
from tests.reference.values import NAN, normal, rank


@dataclass(frozen=True)
class Group:
    """The rows of one window and key, in stream order."""

    start: int
    end: int
    key: Values
    rows: tuple[Row, ...]


def stream_order(row: Row) -> tuple[Any, ...]:
    """(event time, origin), and what is still equal by the row's columns (rule 4.5)."""
    return (row.time, row.origin, [rank(value) for value in row.values])


def apply(function: Function, group: Group, schema: Schema) -> Any:
    """The value of `function` over `group`; an integer SUM may be one that fits no int64. Raises Failed: a user's function does."""
    if isinstance(function, UserFunction):
        return folded(function, list(zip(*(_column(group, schema, name) for name in function.arguments), strict=True)))
    if function.column is None:
        return {"count": len(group.rows), "window_start": group.start, "window_end": group.end}[function.name]
    values = _column(group, schema, function.column)
    parameters = dict(function.parameters)
    match function.name:
        case "arg_min" | "arg_max":
            assert function.by is not None
            return arg_extreme(values, _column(group, schema, function.by), greatest=function.name == "arg_max")
        case "approx_count_distinct":
            hashes = {hash_of_value(value, schema[function.column].type) for value in _present(values)}
            return hyperloglog(hashes, int(parameters["precision"]))
        case "quantile":
            return quantile(values, Fraction(str(parameters["q"])))
        case "collect":
            return values[: int(parameters["at_most"])]
    return _OF_COLUMN[function.name](values)


def _column(group: Group, schema: Schema, name: str) -> list[Any]:
    position = schema.names.index(name)
    return [row.values[position] for row in group.rows]


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


def _variance(values: list[Any], less: int) -> float | None:
    """The exact variance, rounded once; `less` is what is taken off the number of values below."""
    present = _present(values)
    if len(present) <= less:
        return None
    if not all(map(math.isfinite, present)):
        return NAN
    numbers = list(map(Fraction, present))
    mean = sum(numbers, Fraction(0)) / len(numbers)
    return rounded(sum(((number - mean) ** 2 for number in numbers), Fraction(0)) / (len(numbers) - less))


def _stddev(values: list[Any], less: int) -> float | None:
    variance = _variance(values, less)
    return None if variance is None else math.sqrt(variance)


def rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def arg_extreme(values: list[Any], by: list[Any], *, greatest: bool) -> Any:
    """The value where `by` is least or greatest; of several the first."""
    ranks = [rank(normal(each)) for each in by if each is not None]
    if not ranks:
        return None
    best = max(ranks) if greatest else min(ranks)
    return next(value for value, each in zip(values, by, strict=True) if each is not None and rank(normal(each)) == best)


# --- sketches --------------------------------------------------------------------------------------------------------


def quantile(values: list[Any], q: Fraction) -> float | None:
    """The value of rank max(1, ceil(q * n)): exact if it is the first or the last, else the middle of its bucket, not beyond these."""
    ordered = sorted((normal(float(value)) for value in _present(values)), key=rank)
    if not ordered:
        return None
    place = max(1, math.ceil(q * len(ordered)))
    if place in (1, len(ordered)):
        return ordered[place - 1]
    return sorted([ordered[0], middle(ordered[place - 1]), ordered[-1]], key=rank)[1]


def middle(value: float) -> float:
    """Of the numbers from 2**e to 2**(e + 1), cut into 128 of the same width: the middle of the one in which `value` is."""
    if not math.isfinite(value):
        return value
    if abs(value) < 2.0**-1022:
        return 0.0
    e = math.frexp(value)[1] - 1
    part = math.floor((math.ldexp(abs(value), -e) - 1) * 128)
    return math.copysign(math.ldexp(1 + (part + 0.5) / 128, e), value)


def hyperloglog(hashes: set[int], precision: int) -> int:
    """How many values there are about, from the hashes of those that are there: `cep.kernels.states.registers`."""
    registers = [0] * 2**precision
    for hashed in hashes:
        index, rest = hashed >> 64 - precision, hashed % 2 ** (64 - precision)
        registers[index] = max(registers[index], 65 - precision - rest.bit_length())
    m, q, having = len(registers), 64 - precision, Counter(registers)
    z = m * _tau(1 - having[q + 1] / m)
    for each in range(q, 0, -1):
        z = (z + having[each]) * 0.5
    z += m * _sigma(having[0] / m)
    return round(0.5 / math.log(2) * m * m / z)


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    total, before, power = x, -1.0, 1.0
    while total != before:
        x *= x
        before, total, power = total, total + x * power, power * 2
    return total


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    total, before, power = 1 - x, -1.0, 1.0
    while total != before:
        x, power = math.sqrt(x), power * 0.5
        before, total = total, total - (1 - x) * (1 - x) * power
    return total / 3


_OF_COLUMN: dict[str, Callable[[list[Any]], Any]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "var": lambda values: _variance(values, 1),
    "stddev": lambda values: _stddev(values, 1),
    "var_pop": lambda values: _variance(values, 0),
    "stddev_pop": lambda values: _stddev(values, 0),
    "count_distinct": lambda values: len(set(map(normal, _present(values)))),
    "median": lambda values: quantile(values, Fraction(1, 2)),
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
    return rounded(sum(map(Fraction, values), Fraction(0)))
