"""Durations: integers of microseconds inside, `"30s"` outside."""

from __future__ import annotations

import re
from datetime import timedelta

from cep.errors import QueryError
from cep.model.limits import DIGITS_MAX, SPAN_US_MAX, shown

UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_PATTERN = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})\s*(us|ms|s|m|h|d)")


def parse_duration(text: str | timedelta, what: str = "duration") -> int:
    """`"30s"`, `"500ms"`, `"1h"` or a timedelta, as µs. Raises QueryError naming `what`."""
    if isinstance(text, timedelta):
        return _within(text // timedelta(microseconds=1), what)
    match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None and isinstance(text, str) and _PATTERN.fullmatch(text.strip().removeprefix("-")):
        raise QueryError(f"{what}: expected zero or more, got {shown(text)}")
    if match is None:
        raise QueryError(f"{what}: expected a whole number and a unit of {', '.join(UNITS_US)} such as '30s', got {shown(text)}")
    return _within(int(match[1]) * UNITS_US[match[2]], what)


def signed_duration(text: str | timedelta, what: str = "duration") -> int:
    """The same, which may be negative: `"-30s"`."""
    if isinstance(text, str) and text.strip().startswith("-"):
        return -parse_duration(text.strip()[1:], what)
    return parse_duration(text, what)


def _within(us: int, what: str) -> int:
    if abs(us) > SPAN_US_MAX:
        raise QueryError(f"{what}: expected at most {format_duration(SPAN_US_MAX)} ({SPAN_US_MAX // UNITS_US['d'] // 365} years)")
    return us


def format_duration(us: int) -> str:
    """The shortest text that `parse_duration` reads back as `us`."""
    unit = next(unit for unit in ("d", "h", "m", "s", "ms", "us") if us % UNITS_US[unit] == 0 and (us or unit == "s"))
    return f"{us // UNITS_US[unit]}{unit}"
