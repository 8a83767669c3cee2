"""Parts of descriptions in a few words, as `explained` puts them together."""

from __future__ import annotations

from cep.model.duration import format_duration
from cep.model.expr import ColumnRef, Expr
from cep.model.functions import Function
from cep.model.types import text_of
from cep.model.windows import (
    AnyWindow,
    CumulateWindow,
    SessionWindow,
    SizeWindow,
    TimeWindow,
    TrailingWindow,
    TransactionWindow,
    UnboundedWindow,
)


def fields(pairs: tuple[tuple[str, Expr], ...]) -> str:
    return ", ".join(name if _is(expr, name) else f"{name} = {text_of(expr)}" for name, expr in pairs)


def _is(expression: Expr, name: str) -> bool:
    return isinstance(expression, ColumnRef) and expression.name == name


def signed(us: int) -> str:
    return "-" * (us < 0) + format_duration(abs(us))


def equal(on: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(left if left == right else f"{left} = {right}" for left, right in on)


def on_pairs(on: tuple[tuple[str, str], ...]) -> str:
    return f" on {equal(on)}" if on else ""


def order(columns: tuple[tuple[str, bool], ...]) -> str:
    return ", ".join(f"{name} descending" if descending else name for name, descending in columns)


def by(columns: tuple[str, ...]) -> str:
    return f" by {', '.join(columns)}" if columns else ""


def window(described: AnyWindow) -> str:
    match described:
        case TimeWindow(size, advance, offset):
            every = "" if advance == size else f" every {format_duration(advance)}"
            return f"{format_duration(size)}{every}" + (f" from {format_duration(offset)} on" if offset else "")
        case CumulateWindow(step, size, offset):
            since = f" from {format_duration(offset)} on" if offset else ""
            return f"so far of each {format_duration(size)}{since}, every {format_duration(step)}"
        case SizeWindow(rows, every):
            return f"{rows} rows" + ("" if every == rows else f" every {every}")
        case SessionWindow(gap):
            return f"sessions with gap {format_duration(gap)}"
        case TransactionWindow(open_, close):
            return f"transactions from {text_of(open_)} to {text_of(close)}"
        case UnboundedWindow(period, ttl):
            how = "for every tuple" if period is None else f"every {format_duration(period)}"
            return f"all so far, an answer {how}" + ("" if ttl is None else f", ttl {format_duration(ttl)}")
        case TrailingWindow(size_, rows_):
            return f"the last {f'{rows_} rows' if size_ is None else format_duration(size_)}"


def function(called: Function) -> str:
    return f"{called.name}({', '.join([*called.columns, *(f'{value:g}' for _, value in called.parameters)])})"


def where(condition: Expr | None) -> str:
    return "" if condition is None else f" where {text_of(condition)}"
