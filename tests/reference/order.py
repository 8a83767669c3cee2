"""Sort, TopN and Deduplicate: what depends on the order of tuples and makes none new."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any

from cep.model.operators import Deduplicate, KeepLast, SampleN, Sort, TopN
from cep.model.schema import Schema
from cep.model.windows import SizeWindow, TimeWindow
from tests.reference.expressions import equal, less
from tests.reference.hashing import hash_of_origin
from tests.reference.rows import Row
from tests.reference.windows import by_key, window_starts


def ordered(operator: Sort | TopN, schema: Schema, rows: Iterable[Row]) -> list[Row]:
    """Of each window and group the rows by `order`, ties in stream order, with their rank from 1; of TopN the first n."""
    if operator.window is None:
        return list(rows)
    if isinstance(operator.window, SizeWindow):
        assert isinstance(operator, Sort)
        return _in_chunks(operator, operator.window.size, schema, rows)
    return [
        Row(time, row.origin, (*row.values, rank))
        for time, members in _windows(operator.by, operator.window, schema, rows)
        for rank, row in enumerate(ranked(operator, schema, members), 1)
    ]


def _in_chunks(operator: Sort, size: int, schema: Schema, rows: Iterable[Row]) -> list[Row]:
    """Each `size` rows of a group, at the time of the last; what is left at the end, if it comes out at all, then."""
    found: list[Row] = []
    for members in by_key(schema, operator.by, rows).values():
        for begin in range(0, len(members), size):
            chunk = members[begin : begin + size]
            if len(chunk) == size or operator.emit_partial:
                time = chunk[-1].time if len(chunk) == size else 2**61
                found += (Row(time, row.origin, (*row.values, i)) for i, row in enumerate(ranked(operator, schema, chunk), 1))
    return found


def sampled(operator: SampleN, schema: Schema, rows: Iterable[Row]) -> list[Row]:
    """Of each window and group those with the least hashes, ties in stream order."""
    return [
        Row(time, row.origin, row.values)
        for time, members in _windows(operator.by, operator.window, schema, rows)
        for row in sorted(members, key=lambda row: hash_of_origin(row.origin, operator.seed))[: operator.n]
    ]


def last_of_each(operator: KeepLast, schema: Schema, rows: Iterable[Row]) -> list[Row]:
    """Of each window and group the last in stream order."""
    windows = _windows(operator.by, operator.window, schema, rows)
    return [Row(time, members[-1].origin, members[-1].values) for time, members in windows]


def _windows(by: tuple[str, ...], window: TimeWindow, schema: Schema, rows: Iterable[Row]) -> Iterable[tuple[int, list[Row]]]:
    """(event time of its answers, its rows in stream order), of each window and group."""
    found: dict[Any, list[Row]] = {}
    for key, members in by_key(schema, by, rows).items():
        for row in members:
            for start in window_starts(row.time, window):
                found.setdefault((start, key), []).append(row)
    return [(start + window.size - 1, members) for (start, _), members in found.items()]


def ranked(operator: Sort | TopN, schema: Schema, members: list[Row]) -> list[Row]:
    """`members`, which stand in stream order, by `order`: Python's sort keeps ties as they stand."""

    def compare(a: Row, b: Row) -> int:
        for name, descending in operator.order:
            place = schema.names.index(name)
            found = comparison(a.values[place], b.values[place])
            if found:
                return -found if descending else found
        return 0

    best = sorted(members, key=cmp_to_key(compare))
    return best[: operator.n] if isinstance(operator, TopN) else best


def comparison(a: Any, b: Any) -> int:
    """-1, 0 or 1: NULL first, NaN greatest, -0.0 equal to 0.0."""
    if a is None or b is None:
        return (b is None) - (a is None)
    return 0 if equal(a, b) else -1 if less(a, b) else 1


def deduplicated(operator: Deduplicate, schema: Schema, rows: Iterable[Row]) -> list[Row]:
    """Of rows with one key the first, and then each that is more than ttl after the one let out last."""
    out: list[Row] = []
    for members in by_key(schema, operator.by, rows).values():
        last: Row | None = None
        for row in members:
            if last is None or (operator.ttl is not None and row.time - last.time > operator.ttl):
                last = row
                out.append(row)
    return out
