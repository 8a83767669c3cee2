"""Windows, as descriptions (DESIGN 5.4; docs/SEMANTICS.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import gcd
from typing import Any

from cep.errors import QueryError, escaped, meant
from cep.model import expr as expressions
from cep.model.checked import kind_in
from cep.model.duration import format_duration, parse_duration
from cep.model.expr import Expr, as_expr
from cep.model.limits import SPAN_US_MAX, WINDOW_ROWS_MAX, shown


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """`[k·advance, k·advance + size)` for every whole k, in event time, µs, aligned to the epoch."""

    size: int
    advance: int

    def __post_init__(self) -> None:
        check_span(self.size, "window size", "/size")
        if not 0 < self.advance <= self.size:
            raise QueryError(
                f"window advance must be greater than zero and at most the size ({format_duration(self.size)}), got {self.advance} µs",
                "/advance",
            )

    @property
    def pane(self) -> int:
        """µs; every window is a whole number of panes, and a row is in exactly one pane."""
        return gcd(self.size, self.advance)


@dataclass(frozen=True, slots=True)
class SizeWindow:
    """Of each group, rows k·advance to before k·advance + size for every k ≥ 0, counted from 0 in stream order."""

    size: int
    advance: int

    def __post_init__(self) -> None:
        if not _is_whole(self.size) or not 0 < self.size <= WINDOW_ROWS_MAX:
            raise QueryError(f"window size: expected 1 to {WINDOW_ROWS_MAX} rows, got {self.size!r}", "/size")
        if not _is_whole(self.advance) or not 0 < self.advance <= self.size:
            raise QueryError(f"window advance: expected 1 to {self.size} rows, the size, got {self.advance!r}", "/advance")


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Rows of a group at most `gap` µs apart are one session."""

    gap: int

    def __post_init__(self) -> None:
        check_span(self.gap, "session gap", "/gap")


@dataclass(frozen=True, slots=True, eq=False)
class TransactionWindow:
    """Rows of a group from one for which `open` is true to the first from there on for which `close` is, both included."""

    open: Expr
    close: Expr


@dataclass(frozen=True, slots=True)
class UnboundedWindow:
    """All rows so far: an answer for every tuple, or every `advance` µs (None: for every tuple) for the groups that changed.

    A group that no row touched for more than `ttl` µs begins anew (None: never).
    """

    advance: int | None
    ttl: int | None

    def __post_init__(self) -> None:
        if self.advance is not None:
            check_span(self.advance, "window advance", "/advance")
        if self.ttl is not None:
            check_span(self.ttl, "ttl", "/ttl")
        if self.advance is not None and self.ttl is not None and self.ttl < self.advance:
            raise QueryError(
                f"ttl: expected at least the advance ({format_duration(self.advance)}), since a group is looked at once in it; "
                f"got {format_duration(self.ttl)}",
                "/ttl",
            )


def _is_whole(rows: object) -> bool:
    return isinstance(rows, int) and not isinstance(rows, bool)


Window = TimeWindow | SizeWindow | SessionWindow | TransactionWindow | UnboundedWindow


def check_span(us: int, what: str, pointer: str) -> None:
    """Raises QueryError for a span of event time that no window may have."""
    if not 0 < us <= SPAN_US_MAX:
        raise QueryError(f"{what} must be greater than zero and at most {SPAN_US_MAX} µs, got {us} µs", pointer)


def TIME(size: str | timedelta, advance: str | timedelta | None = None) -> TimeWindow:
    """Tumbling `TIME("30s")` or sliding `TIME("30s", "10s")`."""
    size_us = parse_duration(size, "window size")
    return TimeWindow(size_us, size_us if advance is None else parse_duration(advance, "window advance"))


def SIZE(size: int, advance: int | None = None) -> SizeWindow:
    """Tumbling `SIZE(100)` or sliding `SIZE(100, 10)`, in rows of each group."""
    return SizeWindow(size, size if advance is None else advance)


def SESSION(gap: str | timedelta) -> SessionWindow:
    """`SESSION("5m")`."""
    return SessionWindow(parse_duration(gap, "session gap"))


def TRANSACTION(open: Expr, close: Expr) -> TransactionWindow:
    """`TRANSACTION(col("kind") == "begin", col("kind") == "commit")`."""
    return TransactionWindow(as_expr(open), as_expr(close))


def UNBOUNDED(every: str | timedelta | None = None, *, ttl: str | timedelta | None) -> UnboundedWindow:
    """An answer for each tuple, or `every` so often. `ttl` has to be said: `ttl=None` keeps every group for ever."""
    return UnboundedWindow(*(None if span is None else parse_duration(span, name) for span, name in ((every, "every"), (ttl, "ttl"))))


# --- JSON ------------------------------------------------------------------------------------------------------------


def to_json(window: Window) -> dict[str, Any]:
    match window:
        case TimeWindow(size, advance):
            return {"type": "time", "size": format_duration(size), "advance": format_duration(advance)}
        case SizeWindow(size, advance):
            return {"type": "size", "size": size, "advance": advance}
        case SessionWindow(gap):
            return {"type": "session", "gap": format_duration(gap)}
        case TransactionWindow(open_, close):
            return {"type": "transaction", "open": expressions.to_json(open_), "close": expressions.to_json(close)}
        case UnboundedWindow(advance_, ttl):
            spans = {"every": advance_, "ttl": ttl}
            return {"type": "unbounded", **{key: None if us is None else format_duration(us) for key, us in spans.items()}}


def from_json(document: object, pointer: str = "") -> Window:
    found = kind_in(document, "type", _READERS)
    if not isinstance(document, dict) or found is None:
        raise QueryError(f'expected {{"type": one of {", ".join(_READERS)}, ...}}, got {shown(document)}', pointer)
    type_, (reader, needed, optional) = document["type"], found
    for key in document.keys() - needed - optional - {"type"}:
        keys = ", ".join(sorted(needed | optional))
        raise QueryError(
            f"unknown key {key!r}{meant(key, needed | optional)}; a window of type {type_!r} has {keys}", f"{pointer}/{escaped(key)}"
        )
    for key in sorted(needed - document.keys()):
        raise QueryError(f"a window of type {type_!r} lacks {key!r}", pointer)
    try:
        return reader(document)
    except QueryError as error:
        raise error.under(pointer) from None


def _span(document: Mapping[str, Any], key: str, what: str) -> int:
    try:
        return parse_duration(str(document[key]), what)
    except QueryError as error:
        raise error.under(f"/{key}") from None


def _rows(document: Mapping[str, Any], key: str) -> int:
    value = document[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise QueryError(f"window {key}: expected a number of rows, got {value!r}", f"/{key}")
    return value


def _time(d: Mapping[str, Any]) -> TimeWindow:
    return TimeWindow(_span(d, "size", "window size"), _span(d, "advance" if "advance" in d else "size", "window advance"))


def _size(d: Mapping[str, Any]) -> SizeWindow:
    return SizeWindow(_rows(d, "size"), _rows(d, "advance" if "advance" in d else "size"))


def _transaction(d: Mapping[str, Any]) -> TransactionWindow:
    return TransactionWindow(*(expressions.from_json(d[key], f"/{key}") for key in ("open", "close")))


def _unbounded(d: Mapping[str, Any]) -> UnboundedWindow:
    return UnboundedWindow(*(None if d.get(key) is None else _span(d, key, key) for key in ("every", "ttl")))


#: type -> (reader, keys it needs, keys it may have)
_READERS: dict[str, tuple[Callable[[Mapping[str, Any]], Window], frozenset[str], frozenset[str]]] = {
    "time": (_time, frozenset(("size",)), frozenset(("advance",))),
    "size": (_size, frozenset(("size",)), frozenset(("advance",))),
    "session": (lambda d: SessionWindow(_span(d, "gap", "session gap")), frozenset(("gap",)), frozenset()),
    "transaction": (_transaction, frozenset(("open", "close")), frozenset()),
    "unbounded": (_unbounded, frozenset(("ttl",)), frozenset(("every",))),
}
