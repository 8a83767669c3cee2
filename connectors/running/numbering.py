"""Which number each row has of what was polled, and what it is called if it is none of the stream's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import cast

import numpy as np
import pyarrow as pa

from connectors.contract import Decoded, Polled, ValueFormat


@dataclass(frozen=True, slots=True)
class Numbered:
    """Records by index: `runs`, each the index of its first row; `bad`, with reason and value; the number of each, and its name, if that is
    not made of the number. `alike`: so many records, from its own on, each of `bad` stands for."""

    runs: Sequence[tuple[int, pa.RecordBatch]]
    bad: Sequence[tuple[int, str, bytes]]
    numbers: np.ndarray
    called: Callable[[int], str] | None
    alike: int = 1


def numbered(polled: Polled, format: ValueFormat | None, schema: pa.Schema, counted: int) -> Numbered:
    """`counted`: the number of the first of them, where the source has none of its own."""
    format = polled.format or format
    if polled.rows is not None:
        try:
            rows = polled.rows if format is None else _of_stream(polled.rows, schema)
        except ValueError as error:
            return Numbered([], [(0, str(error), b"")], _numbers(polled, counted), polled.called, len(polled))
        return Numbered([(0, rows)], [], _numbers(polled, counted), polled.called)
    if polled.wrong is not None:
        return Numbered([], [(0, polled.wrong, polled.values[0] or b"")], _numbers(polled, counted), polled.called)
    assert format is not None, "a connector without a format gives rows"
    found = _decoded(polled.values, format, schema)
    if format.many:
        return _spread(polled, found, schema, counted)
    bad = [(at, reason, polled.values[at] or b"") for at, reason in found.bad]
    return Numbered(found.runs, bad, _numbers(polled, counted), polled.called)


def _decoded(values: Sequence[bytes | None], format: ValueFormat, schema: pa.Schema) -> Decoded:
    """A record without a value is no row, whatever the format makes of an empty one."""
    if all(values):  # nearly always
        return format.decode(cast(Sequence[bytes], values), schema)
    found = Decoded()
    for missing, stretch in groupby(enumerate(values), lambda each: each[1] is None):
        at, there = zip(*stretch, strict=True)
        if missing:
            found.bad += [(each, "it has no value") for each in at]
        else:
            part = format.decode(there, schema)
            found.runs += [(at[0] + first, rows) for first, rows in part.runs]
            found.bad += [(at[0] + first, reason) for first, reason in part.bad]
    return found


def _spread(polled: Polled, found: Decoded, schema: pa.Schema, counted: int) -> Numbered:
    """A value has many rows: each has a number, and so has a value that cannot be read."""
    rows_of, reasons = dict[int, pa.RecordBatch](), dict(found.bad)
    for at, rows in found.runs:
        try:
            rows_of[at] = _of_stream(rows, schema)
        except ValueError as error:
            reasons[at] = str(error)
    runs, bad, of = [], [], list[tuple[int, int]]()  # the value of each, and which row of it
    for at, value in enumerate(polled.values):
        if at in reasons:
            bad.append((len(of), reasons[at], value or b""))
            of.append((at, 0))
        else:
            runs.append((len(of), rows_of[at]))
            of += [(at, row) for row in range(rows_of[at].num_rows)]
    name = polled.called
    called = None if name is None else lambda index: f"{name(of[index][0])}, row {of[index][1]}"
    return Numbered(runs, bad, np.arange(counted, counted + len(of)), called)


def _of_stream(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Other columns are not looked at. Raises ValueError: one that is stands there twice, or a name is not UTF-8."""
    try:
        names = [name for name in rows.schema.names if name in schema.names]
    except UnicodeDecodeError as error:
        raise ValueError(f"the name of a column is not UTF-8: {error}") from None
    if twice := [name for name in set(names) if names.count(name) > 1]:
        raise ValueError(f"column {min(twice)!r} stands there twice")
    return rows.select(names)


def _numbers(polled: Polled, counted: int) -> np.ndarray:
    given = polled.numbers
    if given is None:
        return np.arange(counted, counted + len(polled))
    return np.arange(given.start, given.stop) if isinstance(given, range) else np.asarray(given)


def runs_of(numbers: Sequence[int] | np.ndarray, least: int) -> Iterator[tuple[int, int]]:
    """The pieces, begin and end, of rising numbers from `least` on in which none is missing."""
    found = np.asarray(numbers)
    begin = int(np.searchsorted(found, least))
    cuts = [begin, *(np.flatnonzero(np.diff(found[begin:]) != 1) + begin + 1).tolist(), len(found)]
    return ((first, behind) for first, behind in pairwise(cuts) if first < behind)
