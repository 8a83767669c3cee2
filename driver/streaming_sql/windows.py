"""Windows: table functions over a stream, and how long a step of one is for what reads its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from cep.errors import QueryError, counted, meant
from cep.model.duration import format_duration
from cep.model.expr import Binary, Call, Cast, Expr, lit
from cep.model.schema import TIMESTAMP_US
from cep.model.windows import (
    CumulateWindow,
    SessionWindow,
    SizeWindow,
    TimeWindow,
    TransactionWindow,
    Window,
)
from driver.streaming_sql.dialect import WindowTable
from driver.streaming_sql.expressions import condition
from driver.streaming_sql.relation import END, ROWTIME, START, TIME, Relation, SqlColumn, before, same
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.spans import interval_us

_TAKES = {
    "TUMBLE": "the size, and perhaps OFFSET => INTERVAL",
    "HOP": "the slide and the size, and perhaps OFFSET => INTERVAL",
    "CUMULATE": "the step and the size, and perhaps OFFSET => INTERVAL",
    "SESSION": "the gap",
    "SIZE": "the number of rows, and perhaps how many to go on by",
    "TRANSACTION": "OPEN => and CLOSE =>, two conditions",
}
_BY_ROWS = ("SIZE", "TRANSACTION")
_EXAMPLES = {
    "TUMBLE": "TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '10' SECOND))",
    "HOP": "TABLE(HOP(TABLE s, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '10' SECOND))",
    "CUMULATE": "TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), INTERVAL '10' MINUTE, INTERVAL '1' HOUR))",
    "SESSION": "TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(t), INTERVAL '5' MINUTE))",
    "SIZE": "TABLE(SIZE(TABLE s PARTITION BY k, 100))",
    "TRANSACTION": "TABLE(TRANSACTION(TABLE s PARTITION BY k, OPEN => kind = 'begin', CLOSE => kind = 'end'))",
}


def windowed(node: WindowTable, relation: Relation, scope: Scope) -> Relation:
    """The rows of a relation, in windows. Raises SqlError."""
    name = node.args["name"]
    if relation.running:
        raise scope.error("SQL-CHANGELOG-INPUT", f"{name} reads running answers", node)
    if relation.rank is not None:
        raise scope.error("SQL-ROW-NUMBER", "a ROW_NUMBER has no bound", node)
    given = [each for each in node.expressions if not isinstance(each, exp.Kwarg)]
    _check_time(node, given, scope)
    named = {each.this.name: each.expression for each in node.expressions if isinstance(each, exp.Kwarg)}
    try:
        window = _WINDOWS[name](node, given, named, scope)
    except QueryError as error:
        if hasattr(error, "code"):
            raise
        raise scope.error("SQL-WINDOW", f"{name}: {error.message}", node, _EXAMPLES[name]) from None
    partition = _partition(node, scope)
    if partition is None and name in ("SESSION", "SIZE", "TRANSACTION"):
        partition = ()
    bounds = _bounds(window, relation.time)
    hidden = tuple(SqlColumn(kind, expr, "", kind) for kind, expr in zip((START, END, TIME), bounds, strict=True))
    names = {each.name for each in hidden}
    kept = tuple(each for each in relation.columns if each.name not in names)
    made = Relation(relation.at, relation.schema, kept + hidden, relation.time, window, False, partition)
    return replace(made, late=relation.late)


def _check_time(node: WindowTable, given: list[exp.Expr], scope: Scope) -> None:
    """DESCRIPTOR names the event time; without it the first argument may."""
    name, asked = node.args["name"], node.args.get("time")
    if asked is None and given and isinstance(given[0], exp.Column) and name not in _BY_ROWS:
        asked = given.pop(0)
    if asked is None:
        if name in _BY_ROWS:
            return
        raise scope.error("SQL-WINDOW", f"{name} has no DESCRIPTOR of the event time", node, _EXAMPLES[name])
    check_event_time(asked, scope, f"DESCRIPTOR({asked.sql()})")


def check_event_time(asked: exp.Expr, scope: Scope, what: str) -> None:
    """Raises SqlError: it is not the event time of the scope's rows."""
    if is_event_time(asked, scope):
        return
    raise scope.error("SQL-TIME", f"{what} is not the event time", asked, f"{time_named(scope)}")


def is_event_time(asked: exp.Expr, scope: Scope) -> bool:
    if not isinstance(asked, exp.Column):
        return False
    if asked.name.casefold() == ROWTIME and not scope.find(asked.name, asked.table):
        return True
    return same(scope.column(asked).expr, scope.relation.time)


def time_named(scope: Scope) -> str:
    """The column that is the event time, or the name that always is."""
    found = [each.name for each in scope.relation.columns if same(each.expr, scope.relation.time)]
    return found[0] if found else ROWTIME


def _partition(node: WindowTable, scope: Scope) -> tuple[str, ...] | None:
    asked = node.args.get("partition_by")
    if asked is None:
        return None
    found = []
    for each in asked:
        expr = scope.value(each)
        if not hasattr(expr, "name"):
            raise scope.error("SQL-WINDOW", f"PARTITION BY {each.sql()}: expected a column", each, "a subquery that computes it")
        found.append(str(expr.name))
    return tuple(found)


def _count(node: WindowTable, given: list[exp.Expr], fewest: int, most: int, scope: Scope) -> None:
    name = node.args["name"]
    if not fewest <= len(given) <= most:
        raise scope.error("SQL-WINDOW", f"{name} takes {_TAKES[name]}; got {counted(len(given), 'argument')}", node, _EXAMPLES[name])


def _span(node: exp.Expr, scope: Scope) -> int:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Interval):
        return -interval_us(node.this, scope.text)
    if not isinstance(node, exp.Interval):
        raise scope.error("SQL-WINDOW", f"expected an INTERVAL, got {node.sql()}", node, "INTERVAL '10' SECOND")
    return interval_us(node, scope.text)


def _offset(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], spans: int, scope: Scope) -> int:
    for key in named.keys() - {"offset"}:
        raise scope.error(
            "SQL-WINDOW", f"{node.args['name']} has no argument {key!r}{meant(key, ['offset'])}", node, _EXAMPLES[node.args["name"]]
        )
    if "offset" in named:
        given = [*given[:spans], named["offset"]]
    return _span(given[spans], scope) if len(given) > spans else 0


def _tumble(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], scope: Scope) -> Window:
    _count(node, given, 1, 2, scope)
    size, offset = _span(given[0], scope), _offset(node, given, named, 1, scope)
    return TimeWindow(size, size, offset % size if size > 0 else 0)


def _hop(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], scope: Scope) -> Window:
    _count(node, given, 2, 3, scope)
    slide, size, offset = _span(given[0], scope), _span(given[1], scope), _offset(node, given, named, 2, scope)
    return TimeWindow(size, slide, offset % slide if slide > 0 else 0)


def _cumulate(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], scope: Scope) -> Window:
    _count(node, given, 2, 3, scope)
    step, size, offset = _span(given[0], scope), _span(given[1], scope), _offset(node, given, named, 2, scope)
    return CumulateWindow(step, size, offset % size if size > 0 else 0)


def _session(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], scope: Scope) -> Window:
    _count(node, given, 1, 1, scope)
    return SessionWindow(_span(given[0], scope))


def _size(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], scope: Scope) -> Window:
    _count(node, given, 1, 2, scope)
    for each in given:
        if not isinstance(each, exp.Literal) or not each.name.isdecimal():
            raise scope.error("SQL-WINDOW", f"SIZE takes numbers of rows, got {each.sql()}", each, _EXAMPLES["SIZE"])
    rows = [int(each.name) for each in given]
    return SizeWindow(rows[0], rows[-1])


def _transaction(node: WindowTable, given: list[exp.Expr], named: dict[str, Any], scope: Scope) -> Window:
    if named.keys() != {"open", "close"} or given:
        raise scope.error("SQL-WINDOW", f"TRANSACTION takes {_TAKES['TRANSACTION']}", node, _EXAMPLES["TRANSACTION"])
    return TransactionWindow(condition(named["open"], scope, "OPEN"), condition(named["close"], scope, "CLOSE"))


_WINDOWS: dict[str, Callable[[WindowTable, list[exp.Expr], dict[str, Any], Scope], Window]] = {
    "TUMBLE": _tumble,
    "HOP": _hop,
    "CUMULATE": _cumulate,
    "SESSION": _session,
    "SIZE": _size,
    "TRANSACTION": _transaction,
}


def _bounds(window: Window, time: Expr | None) -> tuple[Expr | None, Expr | None, Expr | None]:
    """The start, the end and the last instant of the one window in which a row lies, from its event time; None: it lies in several."""
    if not isinstance(window, TimeWindow) or window.overlaps or time is None:
        return None, None, None
    shifted = time if not window.offset else Binary("-", time, lit(window.offset))
    start: Expr = Call("truncate", (shifted, lit(format_duration(window.size))))
    if window.offset:
        start = Binary("+", start, lit(window.offset))
    start = Cast(start, TIMESTAMP_US, False)
    end = Binary("+", start, lit(window.size))
    return start, end, before(end)


def step_of(window: Window | None) -> TimeWindow | None:
    """The tumbling window in which the answers of exactly one end of a window lie. None: its ends are not at fixed times."""
    match window:
        case TimeWindow(size, advance, offset):
            return TimeWindow(advance, advance, (offset + size) % advance)
        case CumulateWindow(step, _, offset):
            return TimeWindow(step, step, offset % step)
    return None


def window_of_rows(relation: Relation) -> TimeWindow | None:
    """The window for operators that take whole windows of a relation's rows."""
    if relation.grouped:
        return step_of(relation.window)
    return relation.window if isinstance(relation.window, TimeWindow) else None
