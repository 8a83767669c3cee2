"""Spans of time: INTERVAL '10' SECOND, and texts such as '1 d' of options."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from cep.model.limits import SPAN_US_MAX
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of

_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_SHORT = {"US": "MICROSECOND", "MS": "MILLISECOND", "S": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "D": "DAY", "W": "WEEK"}
_SPAN = re.compile(r"\s*(-?[0-9.]+)\s*([A-Za-z]+)\s*")


def interval_us(given: exp.Interval, text: str) -> int:
    """Raises SqlError: it is no fixed span of time."""
    place = start_of(given) or 0
    amount, unit = given.this, given.args.get("unit")
    negative = isinstance(amount, exp.Neg)
    amount = amount.this if isinstance(amount, exp.Neg | exp.Paren) else amount
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        raise SqlError("SQL-INTERVAL", f"{given.sql()} is no fixed span of time", text, place)
    us = span_us(f"{amount.name} {unit.name}", text, place)
    return -us if negative else us


def span_us(written: str, text: str, place: int) -> int:
    """`'10 SECOND'`, `'1 d'`, `'500ms'`. Raises SqlError."""
    found = _SPAN.fullmatch(written)
    unit = found[2].upper() if found else ""
    unit = _SHORT.get(unit, unit.removesuffix("S"))
    if found is None or unit not in _UNITS:
        what = (
            f"{unit.lower()}s have no fixed length" if unit in ("MONTH", "YEAR", "QUARTER") else f"{written.strip()!r} is no span of time"
        )
        raise SqlError("SQL-INTERVAL", what, text, place)
    try:
        us = Decimal(found[1]) * _UNITS[unit]
    except InvalidOperation:
        raise SqlError("SQL-INTERVAL", f"{written.strip()!r} is no span of time", text, place) from None
    if us != int(us) or abs(us) > SPAN_US_MAX:
        raise SqlError("SQL-INTERVAL", f"{written.strip()!r} is no whole number of microseconds, or too long", text, place)
    return int(us)
