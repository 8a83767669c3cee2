"""Equal answers (rule 5.8): the multisets of rows with their event times are equal, to the bit.

To the bit means of floats: -0.0 and 0.0 differ, and every NaN is the same, for no operator tells NaNs apart.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

TimedRow = tuple[int, tuple[Any, ...]]


def difference(expected: Iterable[TimedRow], actual: Iterable[TimedRow], rows_max: int = 10) -> str:
    """Empty where both are the same; else the rows that only one has, by event time, at most `rows_max` of each."""
    shown: dict[object, TimedRow] = {}
    counts = [_count(rows, shown) for rows in (expected, actual)]
    missing, unexpected = counts[0] - counts[1], counts[1] - counts[0]
    if not missing and not unexpected:
        return ""
    totals = f"expected {counts[0].total()} rows, got {counts[1].total()}"
    parts = (("missing", missing), ("unexpected", unexpected))
    return "\n".join([totals, *(line for name, part in parts for line in _listed(name, part, shown, rows_max))])


def assert_same_answer(expected: Mapping[str, Iterable[TimedRow]], actual: Mapping[str, Iterable[TimedRow]]) -> None:
    """Both are rows by stream; a stream that one of them lacks has no rows."""
    found = []
    for stream in sorted({*expected, *actual}):
        text = difference(expected.get(stream, ()), actual.get(stream, ()))
        if text:
            found.append(f"stream {stream!r}: {text}")
    assert not found, "\n".join(found)


def _count(rows: Iterable[TimedRow], shown: dict[object, TimedRow]) -> Counter[object]:
    counts: Counter[object] = Counter()
    for time, values in rows:
        identity = (time, *map(_identity, values))
        shown[identity] = (time, tuple(values))
        counts[identity] += 1
    return counts


def _identity(value: Any) -> object:
    """Equal exactly where the values are the same, type and all: True is not 1, nor is 1.0."""
    if isinstance(value, float):
        return "float", "nan" if value != value else struct.pack("<d", value)
    if isinstance(value, list):
        return "list", tuple(map(_identity, value))
    return type(value).__name__, value


def _listed(name: str, part: Counter[object], shown: Mapping[object, TimedRow], rows_max: int) -> list[str]:
    if not part:
        return []
    ordered = sorted(part, key=lambda i: (shown[i][0], repr(shown[i][1])))
    lines = [f"  {name} {part[i]} x at {shown[i][0]}: {shown[i][1]!r}" for i in ordered[:rows_max]]
    rest = sum(part[i] for i in ordered[rows_max:])
    return lines + ([f"  {name} {rest} more"] if rest else [])
