"""Instants as text in ISO 8601, one at a time. Whole columns are read by `cep.kernels.literals.calendar`, by the same rules.

Years without four digits are written with a sign and six, as in `+012345-01-31T00:00:00+00:00`; so there is a text for all instants that
int64 µs have. What is written is read as the same instant.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_FORM = re.compile(
    r"(?P<year>(?!0000)\d{4}|[+-]\d{6})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>[Zz]|[+-]\d\d:?\d\d)?)?"
)
_EXPECTED = "expected an instant in ISO 8601 such as '2024-05-01T12:00:00Z'"
_US = timedelta(microseconds=1)
_CYCLE_YEARS = 400  # after which the calendar is the same again; Python's own has the years 1 to 9999
_CYCLE_US = timedelta(days=146_097) // _US
_BASE = datetime(2000, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BASE_US = (_BASE - _EPOCH) // _US
#: first and last instant (µs) of the years 1 to 9999, which ISO 8601 writes with four digits
FOUR_DIGIT_YEARS_US = tuple((each.replace(tzinfo=UTC) - _EPOCH) // _US for each in (datetime.min, datetime.max))


class Instant(int):
    """µs since 1970, whatever the unit of the field that it is for."""


def instant_text(microseconds: int) -> str:
    """An instant, µs since 1970, in UTC."""
    cycles, within = divmod(microseconds - _BASE_US, _CYCLE_US)
    shown = _BASE + timedelta(microseconds=within)
    year = shown.year + _CYCLE_YEARS * cycles
    return (f"{year:04d}" if 1 <= year <= 9999 else f"{year:+07d}") + shown.isoformat()[4:]


def read_instant(text: str, signed_years: bool = False) -> Instant:
    """By the rules of `docs/values.md`; without a zone it is UTC. `signed_years`: those with a sign and six digits are read, too. Raises
    ValueError: it is none, or not a whole number of µs."""
    found = _FORM.fullmatch(text) if text.isascii() else None
    if found is None or (text[0] in "+-" and not signed_years):
        raise ValueError(_EXPECTED)
    fraction = (found["fraction"] or "").ljust(9, "0")
    if fraction[6:].strip("0"):
        raise ValueError("timestamps are stored in whole µs")
    cycles, year = divmod(int(found["year"]) - _BASE.year, _CYCLE_YEARS)
    month, day, hour, minute, second = (int(found[part] or 0) for part in ("month", "day", "hour", "minute", "second"))
    try:
        local = datetime(_BASE.year + year, month, day, hour, minute, second, int(fraction[:6]), UTC)
    except ValueError:
        raise ValueError(_EXPECTED) from None
    microseconds = (local - _BASE) // _US + _BASE_US + cycles * _CYCLE_US - _offset_us(found["zone"])
    if not -(2**63) <= microseconds < 2**63:
        raise ValueError("it is too far from 1970")
    return Instant(microseconds)


def _offset_us(zone: str | None) -> int:
    """How much a zone is before UTC. Raises ValueError: there is none so far."""
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"there is no zone {zone}")
    return (hours * 60 + minutes) * 60_000_000 * (-1 if zone[0] == "-" else 1)
