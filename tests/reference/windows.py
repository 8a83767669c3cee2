"""Windows of an Aggregate: which rows of a group are one window, when it answers, with which origin.

A group's rows are looked at all at once and in stream order, for nothing is late and at the end everything fires.

TIME(10, 5), a row at 7          SIZE(3, 2)     a  b  c  d  e        SESSION(10)    0   4        14      26
-5    0    5    10   15          window 0      [a  b  c]             one session    [x───x────────x)      |
       [----x----)               window 1            [c  d  e]       the next       26 - 14 > 10         [x)
            [x---.----)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cep.model.functions import Function
from cep.model.operators import Aggregate
from cep.model.schema import Schema
from cep.model.windows import CumulateWindow, SessionWindow, SizeWindow, TimeWindow, TransactionWindow, UnboundedWindow
from tests.reference.aggregates import Group, apply, stream_order
from tests.reference.expressions import Failed
from tests.reference.rows import SUM_OVERFLOW, AggregateOrigin, DeadLetter, Evaluate, Row, Values
from tests.reference.values import fits_int64, normal

#: µs: where what is incomplete at the end comes out.
END_OF_TIME = 2**61


@dataclass(frozen=True)
class Window:
    """Rows of a group that are answered together, at event time `time`. `hashed`: the time that the answer's origin is the hash
    of, with operator and key; else it has the origin of the last row."""

    start: int
    end: int
    rows: Sequence[Row]
    time: int
    hashed: int | None = None


def aggregate(
    operator: Aggregate, schema: Schema, rows: Iterable[Row], origin_of: AggregateOrigin, value: Evaluate
) -> tuple[list[Row], list[DeadLetter]]:
    """One row per window and group; and a dead letter per row that `open` or `close` fails on, per SUM that does not fit, and per
    user's function that fails."""
    out: list[Row] = []
    taken, dead = _taken(operator, schema, rows, value)
    for key, members in by_key(schema, operator.by, taken).items():
        for window in windows(operator, members, lambda expression, row: value(expression, schema, named(schema, row))):
            origin = window.rows[-1].origin if window.hashed is None else origin_of(operator.name, key, window.hashed)
            results, failures = _results(operator, Group(window.start, window.end, key, tuple(window.rows)), schema)
            dead += [DeadLetter(operator.name, reason, origin) for reason in failures]
            out.append(Row(window.time, origin, (*key, *results)))
    return out, dead


def _results(operator: Aggregate, group: Group, schema: Schema) -> tuple[list[Any], list[str]]:
    """The functions' values, NULL where they fail, and why these do."""
    results, failures = [], []
    for _, function in operator.functions:
        try:
            results.append(result(function, group, schema))
        except Failed as failed:
            results.append(None)
            failures.append(failed.reason)
    return results, failures


def result(function: Function, group: Group, schema: Schema) -> Any:
    """The value of `function`. Raises Failed: a SUM does not fit, or a user's function fails."""
    found = apply(function, group, schema)
    if function.name == "sum" and isinstance(found, int) and not fits_int64(found):
        raise Failed(SUM_OVERFLOW)
    return found


def named(schema: Schema, row: Row) -> dict[str, Any]:
    return dict(zip(schema.names, row.values, strict=True))


def by_key(schema: Schema, by: Sequence[str], rows: Iterable[Row]) -> dict[Values, list[Row]]:
    """Each group's rows in stream order, by the key that stands for all equal ones."""
    positions = [schema.names.index(name) for name in by]
    found: dict[Values, list[Row]] = {}
    for row in sorted(rows, key=stream_order):
        found.setdefault(tuple(normal(row.values[position]) for position in positions), []).append(row)
    return found


def _taken(operator: Aggregate, schema: Schema, rows: Iterable[Row], value: Evaluate) -> tuple[list[Row], list[DeadLetter]]:
    """All rows but those on which a condition of a transaction fails."""
    if not isinstance(operator.window, TransactionWindow):
        return list(rows), []
    taken, dead = [], []
    for row in rows:
        try:
            for condition in (operator.window.open, operator.window.close):
                value(condition, schema, named(schema, row))
            taken.append(row)
        except Failed as failed:
            dead.append(DeadLetter(operator.name, failed.reason, row.origin))
    return taken, dead


def windows(operator: Aggregate, rows: Sequence[Row], value: Callable[[Any, Row], Any]) -> Iterator[Window]:
    """The windows of one group, whose rows stand in stream order."""
    match operator.window:
        case TimeWindow() as window:
            return _time(window, rows)
        case CumulateWindow() as window:
            return _cumulate(window, rows)
        case SizeWindow() as window:
            return _size(window, rows, operator.emit_partial)
        case SessionWindow(gap):
            return _session(gap, rows)
        case TransactionWindow() as window:
            return _transaction(window, rows, value, operator.emit_partial)
        case UnboundedWindow(None, ttl):
            return _running(ttl, rows)
        case UnboundedWindow(every, ttl):
            return _periodic(every or 0, ttl, rows)


def window_starts(time: int, window: TimeWindow) -> list[int]:
    """Starts of the windows `[offset + k·advance, offset + k·advance + size)` that hold `time`, ascending."""
    starts = []
    start = (time - window.offset) // window.advance * window.advance + window.offset  # floors, also before the epoch
    while time < start + window.size:
        starts.append(start)
        start -= window.advance
    return starts[::-1]


def _time(window: TimeWindow, rows: Sequence[Row]) -> Iterator[Window]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        for start in window_starts(row.time, window):
            found.setdefault(start, []).append(row)
    for start, inside in found.items():
        yield Window(start, start + window.size, inside, start + window.size - 1, start)


def _cumulate(window: CumulateWindow, rows: Sequence[Row]) -> Iterator[Window]:
    """Hashed by their ends, for several begin together."""
    for start in sorted({(row.time - window.offset) // window.size * window.size + window.offset for row in rows}):
        for end in range(start + window.step, start + window.size + 1, window.step):
            inside = [row for row in rows if start <= row.time < end]
            if inside:
                yield Window(start, end, inside, end - 1, end)


def _size(window: SizeWindow, rows: Sequence[Row], partial: bool) -> Iterator[Window]:
    for start in range(0, len(rows), window.advance):
        inside = rows[start : start + window.size]
        if len(inside) == window.size:
            yield _of_rows(inside, inside[-1].time)
        elif partial:
            yield _of_rows(inside, END_OF_TIME)


def _of_rows(inside: Sequence[Row], time: int) -> Window:
    return Window(inside[0].time, inside[-1].time + 1, inside, time)


def _session(gap: int, rows: Sequence[Row]) -> Iterator[Window]:
    for run in runs(gap, rows):
        end = run[-1].time + gap
        yield Window(run[0].time, end, run, end, run[0].time)


def runs(gap: int | None, rows: Sequence[Row]) -> list[list[Row]]:
    """Cut before each row that is more than `gap` after the one before it."""
    found: list[list[Row]] = []
    for row in rows:
        if found and (gap is None or row.time - found[-1][-1].time <= gap):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _transaction(window: TransactionWindow, rows: Sequence[Row], value: Callable[[Any, Row], Any], partial: bool) -> Iterator[Window]:
    open_: list[Row] = []
    for row in rows:
        if open_ or value(window.open, row) is True:
            open_.append(row)
            if value(window.close, row) is True:
                yield _of_rows(open_, row.time)
                open_ = []
    if open_ and partial:
        yield _of_rows(open_, END_OF_TIME)


def _running(ttl: int | None, rows: Sequence[Row]) -> Iterator[Window]:
    for run in runs(ttl, rows):
        for i, row in enumerate(run):
            yield Window(run[0].time, row.time + 1, run[: i + 1], row.time)


def _periodic(every: int, ttl: int | None, rows: Sequence[Row]) -> Iterator[Window]:
    for run in runs(ttl, rows):
        for start in sorted({row.time // every * every for row in run}):
            end = start + every
            yield Window(start, end, [row for row in run if row.time < end], end - 1, start)
