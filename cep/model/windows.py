"""Windows, as descriptions (DESIGN 5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import gcd

from cep.errors import QueryError
from cep.model.duration import format_duration, parse_duration

#: µs, 2,283 years: so that no bound of a window of aggregates of aggregates overflows (see `cep.elements.EVENT_TIME_MAX`).
SIZE_MAX = 2**56


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """`[k·advance, k·advance + size)` for every whole k, in event time, µs, aligned to the epoch."""

    size: int
    advance: int

    def __post_init__(self) -> None:
        if not 0 < self.size <= SIZE_MAX:
            raise QueryError(f"window size must be greater than zero and at most {SIZE_MAX} µs, got {self.size} µs", "/size")
        if not 0 < self.advance <= self.size:
            raise QueryError(
                f"window advance must be greater than zero and at most the size ({format_duration(self.size)}), got {self.advance} µs",
                "/advance",
            )

    @property
    def pane(self) -> int:
        """µs; every window is a whole number of panes, and a row is in exactly one pane."""
        return gcd(self.size, self.advance)


def TIME(size: str | timedelta, advance: str | timedelta | None = None) -> TimeWindow:
    """Tumbling `TIME("30s")` or sliding `TIME("30s", "10s")`."""
    size_us = parse_duration(size, "window size")
    return TimeWindow(size_us, size_us if advance is None else parse_duration(advance, "window advance"))


def to_json(window: TimeWindow) -> dict[str, str]:
    return {"type": "time", "size": format_duration(window.size), "advance": format_duration(window.advance)}


def from_json(document: object, pointer: str = "") -> TimeWindow:
    if not isinstance(document, dict) or document.get("type") != "time" or "size" not in document:
        raise QueryError(f'expected {{"type": "time", "size": ..., "advance": ...}}, got {document!r}', pointer)
    for key in document.keys() - {"type", "size", "advance"}:
        raise QueryError(f"unknown key {key!r}; a time window has size and advance", f"{pointer}/{key}")
    try:
        size = parse_duration(str(document["size"]), "window size")
    except QueryError as error:
        raise error.under(f"{pointer}/size") from None
    try:
        advance = parse_duration(str(document.get("advance", document["size"])), "window advance")
    except QueryError as error:
        raise error.under(f"{pointer}/advance") from None
    try:
        return TimeWindow(size, advance)
    except QueryError as error:
        raise error.under(pointer) from None
