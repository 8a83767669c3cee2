"""Windows, as descriptions (rule 5.4; docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import gcd
from typing import Any, overload

import numpy as np

from cep.errors import QueryError, escaped, meant
from cep.model import expr as expressions
from cep.model.checked import kind_in, kind_meant
from cep.model.duration import format_duration, signed_duration
from cep.model.expr import Expr, as_expr
from cep.model.limits import SPAN_US_MAX, WINDOW_ROWS_MAX, shown


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """`[offset + k·advance, offset + k·advance + size)` for every whole k, in event time, µs since the epoch."""

    size: int
    advance: int
    offset: int = 0

    def __post_init__(self) -> None:
        check_span(self.size, "window size", "/size")
        if not 0 < self.advance <= self.size:
            raise QueryError(
                f"window advance must be greater than zero and at most the size ({format_duration(self.size)}), "
                f"got {format_duration(self.advance)}",
                "/advance",
            )
        if not 0 <= self.offset < self.advance:
            raise QueryError(f"window offset must be from 0 to before the advance, got {self!r}", "/offset")

    @property
    def pane(self) -> int:
        """µs; every window is a whole number of panes, the first of which begins at `offset`, and a row is in exactly one pane."""
        return gcd(self.size, self.advance)

    @property
    def grain(self) -> int:
        """µs; panes begin at multiples of it."""
        return gcd(self.pane, self.offset)

    @property
    def overlaps(self) -> bool:
        return self.advance < self.size

    def begin(self, last: np.ndarray) -> np.ndarray:
        """int64[n]: the starts of the windows whose last instants are `last`."""
        return last + (1 - self.size)

    def __repr__(self) -> str:
        spans = [self.size] if self.advance == self.size else [self.size, self.advance]
        return _call("TIME", *map(format_duration, spans), offset=format_duration(self.offset) if self.offset else None)


@dataclass(frozen=True, slots=True)
class CumulateWindow:
    """`[start, start + k·step)` for every start = offset + i·size and k = 1 to size / step, in event time, µs since the epoch."""

    step: int
    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        check_span(self.size, "window size", "/size")
        check_span(self.step, "window step", "/step")
        if self.size % self.step:
            raise QueryError(
                f"window size must be a multiple of the step ({format_duration(self.step)}), got {format_duration(self.size)}", "/size"
            )
        if not 0 <= self.offset < self.size:
            raise QueryError(f"window offset must be from 0 to before the size, got {self!r}", "/offset")

    @property
    def pane(self) -> int:
        """µs; as of a TimeWindow."""
        return self.step

    @property
    def grain(self) -> int:
        """µs; panes begin at multiples of it."""
        return gcd(self.step, self.offset)

    @property
    def overlaps(self) -> bool:
        return self.step < self.size

    def begin(self, last: np.ndarray) -> np.ndarray:
        """int64[n]: the starts of the windows whose last instants are `last`."""
        return (last - self.offset) // self.size * self.size + self.offset

    def __repr__(self) -> str:
        spans = format_duration(self.step), format_duration(self.size)
        return _call("CUMULATE", *spans, offset=format_duration(self.offset) if self.offset else None)


@dataclass(frozen=True, slots=True)
class SizeWindow:
    """In each group, rows k·advance to before k·advance + size for every k ≥ 0, counted from 0 in stream order."""

    size: int
    advance: int

    def __post_init__(self) -> None:
        if not _is_whole(self.size) or not 0 < self.size <= WINDOW_ROWS_MAX:
            raise QueryError(f"window size: expected 1 to {WINDOW_ROWS_MAX} rows, got {self.size!r}", "/size")
        if not _is_whole(self.advance) or not 0 < self.advance <= self.size:
            raise QueryError(f"window advance: expected 1 to {self.size} rows, the size, got {self.advance!r}", "/advance")

    def __repr__(self) -> str:
        return _call("SIZE", self.size, *([] if self.advance == self.size else [self.advance]))


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Rows of a group at most `gap` µs apart are one session."""

    gap: int

    def __post_init__(self) -> None:
        check_span(self.gap, "session gap", "/gap")

    def __repr__(self) -> str:
        return _call("SESSION", format_duration(self.gap))


@dataclass(frozen=True, slots=True, eq=False)
class TransactionWindow:
    """Rows of a group from one for which `open` is true to the first from there on for which `close` is, both included."""

    open: Expr
    close: Expr

    def __repr__(self) -> str:
        return _call("TRANSACTION", self.open, self.close)


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

    def __repr__(self) -> str:
        every = [] if self.advance is None else [format_duration(self.advance)]
        return f"UNBOUNDED({''.join(f'{each!r}, ' for each in every)}ttl={None if self.ttl is None else format_duration(self.ttl)!r})"


@dataclass(frozen=True, slots=True)
class TrailingWindow:
    """For each row of a group, those with event times from `size` µs before its own up to its own; or the last `rows` rows in stream
    order, itself among them. One of the two is None."""

    size: int | None
    rows: int | None

    def __post_init__(self) -> None:
        if (self.size is None) == (self.rows is None):
            key, got = ("size", "neither") if self.size is None else ("rows", "both")
            raise QueryError(
                f'a trailing window: expected either a size or a number of rows, TRAILING("10m") or TRAILING(rows=100); got {got}',
                f"/{key}",
            )
        if self.size is not None:
            check_span(self.size, "window size", "/size")
        if self.rows is not None and (not _is_whole(self.rows) or not 0 < self.rows <= WINDOW_ROWS_MAX):
            raise QueryError(f"window rows: expected 1 to {WINDOW_ROWS_MAX}, got {self.rows!r}", "/rows")

    def __repr__(self) -> str:
        return _call("TRAILING", *([] if self.size is None else [format_duration(self.size)]), rows=self.rows)


def _call(name: str, *given: object, **named: object) -> str:
    """A window as users write it, which is what messages show of one. What is None is left out."""
    return f"{name}({', '.join([*map(repr, given), *(f'{key}={value!r}' for key, value in named.items() if value is not None)])})"


def _is_whole(rows: object) -> bool:
    return isinstance(rows, int) and not isinstance(rows, bool)


@dataclass(frozen=True, slots=True)
class PartialWindow:
    """A window as the builder is given it that has `emit_partial` said of it, which is the aggregate's (`Aggregate.emit_partial`)."""

    window: SizeWindow

    def __repr__(self) -> str:
        return f"{self.window!r} with emit_partial"


#: Windows of event time alone, made of whole panes.
PanedWindow = TimeWindow | CumulateWindow
#: Of an Aggregate.
Window = PanedWindow | SizeWindow | SessionWindow | TransactionWindow | UnboundedWindow
AnyWindow = Window | TrailingWindow


def check_span(us: int, what: str, pointer: str) -> None:
    """Raises QueryError for a span of event time that no window may have."""
    if not 0 < us <= SPAN_US_MAX:
        raise QueryError(f"{what} must be greater than zero and at most {SPAN_US_MAX} µs, got {format_duration(us)}", pointer)


def TIME(size: str | timedelta, advance: str | timedelta | None = None, *, offset: str | timedelta = "0s") -> TimeWindow:
    """Tumbling `TIME("30s")` or sliding `TIME("30s", "10s")`; windows begin at `offset`, which may be negative, and whole advances from it:
    `TIME("1d", offset="-2h")` begins at 22:00 UTC, which is midnight two hours east."""
    size_us = signed_duration(size, "window size")
    return _aligned(
        size_us, size_us if advance is None else signed_duration(advance, "window advance"), signed_duration(offset, "window offset")
    )


def _aligned(size: int, advance: int, offset: int) -> TimeWindow:
    """The offset that is in the first advance begins the same windows."""
    return TimeWindow(size, advance, offset % advance if advance > 0 else 0)


def CUMULATE(step: str | timedelta, size: str | timedelta, *, offset: str | timedelta = "0s") -> CumulateWindow:
    """`CUMULATE("10m", "1h")`: every ten minutes what there is since the hour began. Hours begin at `offset`, as those of `TIME`."""
    size_us = signed_duration(size, "window size")
    shift = signed_duration(offset, "window offset")
    return CumulateWindow(signed_duration(step, "window step"), size_us, shift % size_us if size_us > 0 else 0)


@overload
def SIZE(size: int, advance: int | None = None) -> SizeWindow: ...
@overload
def SIZE(size: int, advance: int | None = None, *, emit_partial: bool) -> SizeWindow | PartialWindow: ...
def SIZE(size: int, advance: int | None = None, *, emit_partial: bool = False) -> SizeWindow | PartialWindow:
    """Tumbling `SIZE(100)` or sliding `SIZE(100, 10)`, in rows of each group. `emit_partial`: as that of `aggregate`."""
    made = SizeWindow(size, size if advance is None else advance)
    return PartialWindow(made) if emit_partial else made


def SESSION(gap: str | timedelta) -> SessionWindow:
    """`SESSION("5m")`."""
    return SessionWindow(signed_duration(gap, "session gap"))


def TRANSACTION(open: Expr, close: Expr) -> TransactionWindow:
    """`TRANSACTION(col("kind") == "begin", col("kind") == "commit")`."""
    return TransactionWindow(as_expr(open), as_expr(close))


def UNBOUNDED(every: str | timedelta | None = None, *, ttl: str | timedelta | None) -> UnboundedWindow:
    """An answer for each tuple, or `every` so often. `ttl` has to be said: `ttl=None` keeps every group for ever."""
    return UnboundedWindow(*(None if span is None else signed_duration(span, name) for span, name in ((every, "every"), (ttl, "ttl"))))


def TRAILING(size: str | timedelta | None = None, *, rows: int | None = None) -> TrailingWindow:
    """For `over`: `TRAILING("10m")`, what was up to ten minutes before each tuple; `TRAILING(rows=100)`, the last hundred tuples."""
    return TrailingWindow(None if size is None else signed_duration(size, "window size"), rows)


# --- JSON ------------------------------------------------------------------------------------------------------------


def to_json(window: AnyWindow) -> dict[str, Any]:
    match window:
        case TimeWindow(size, advance, offset):
            shifted = {"offset": format_duration(offset)} if offset else {}
            return {"type": "time", "size": format_duration(size), "advance": format_duration(advance), **shifted}
        case CumulateWindow(step, size, offset):
            shifted = {"offset": format_duration(offset)} if offset else {}
            return {"type": "cumulate", "step": format_duration(step), "size": format_duration(size), **shifted}
        case SizeWindow(size, advance):
            return {"type": "size", "size": size, "advance": advance}
        case SessionWindow(gap):
            return {"type": "session", "gap": format_duration(gap)}
        case TransactionWindow(open_, close):
            return {"type": "transaction", "open": expressions.to_json(open_), "close": expressions.to_json(close)}
        case UnboundedWindow(advance_, ttl):
            spans = {"every": advance_, "ttl": ttl}
            return {"type": "unbounded", **{key: None if us is None else format_duration(us) for key, us in spans.items()}}
        case TrailingWindow(size_, rows):
            return {"type": "trailing", **({"rows": rows} if size_ is None else {"size": format_duration(size_)})}


def from_json(document: object, pointer: str = "") -> AnyWindow:
    found = kind_in(document, "type", _READERS)
    if not isinstance(document, dict) or found is None:
        said = kind_meant(document, "type", _READERS)
        raise QueryError(f'{said}expected {{"type": one of {", ".join(_READERS)}, ...}}, got {shown(document)}', pointer)
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
    """A duration; whether it may be negative, the window says."""
    try:
        return signed_duration(str(document[key]), what)
    except QueryError as error:
        raise error.under(f"/{key}") from None


def _rows(document: Mapping[str, Any], key: str) -> int:
    value = document[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise QueryError(f"window {key}: expected a number of rows, got {value!r}", f"/{key}")
    return value


def _time(d: Mapping[str, Any]) -> TimeWindow:
    offset = _span(d, "offset", "window offset") if "offset" in d else 0
    return _aligned(_span(d, "size", "window size"), _span(d, "advance" if "advance" in d else "size", "window advance"), offset)


def _cumulate(d: Mapping[str, Any]) -> CumulateWindow:
    size, offset = _span(d, "size", "window size"), _span(d, "offset", "window offset") if "offset" in d else 0
    return CumulateWindow(_span(d, "step", "window step"), size, offset % size if size > 0 else 0)


def _size(d: Mapping[str, Any]) -> SizeWindow:
    return SizeWindow(_rows(d, "size"), _rows(d, "advance" if "advance" in d else "size"))


def _transaction(d: Mapping[str, Any]) -> TransactionWindow:
    return TransactionWindow(*(expressions.from_json(d[key], f"/{key}") for key in ("open", "close")))


def _unbounded(d: Mapping[str, Any]) -> UnboundedWindow:
    return UnboundedWindow(*(None if d.get(key) is None else _span(d, key, key) for key in ("every", "ttl")))


def _trailing(d: Mapping[str, Any]) -> TrailingWindow:
    return TrailingWindow(_span(d, "size", "window size") if "size" in d else None, _rows(d, "rows") if "rows" in d else None)


#: type -> (reader, keys it needs, keys it may have)
_READERS: dict[str, tuple[Callable[[Mapping[str, Any]], AnyWindow], frozenset[str], frozenset[str]]] = {
    "time": (_time, frozenset(("size",)), frozenset(("advance", "offset"))),
    "cumulate": (_cumulate, frozenset(("step", "size")), frozenset(("offset",))),
    "size": (_size, frozenset(("size",)), frozenset(("advance",))),
    "session": (lambda d: SessionWindow(_span(d, "gap", "session gap")), frozenset(("gap",)), frozenset()),
    "transaction": (_transaction, frozenset(("open", "close")), frozenset()),
    "unbounded": (_unbounded, frozenset(("ttl",)), frozenset(("every",))),
    "trailing": (_trailing, frozenset(), frozenset(("size", "rows"))),
}
