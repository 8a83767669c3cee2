"""Figures as the pages show them: short, of one width, the unit always there."""

from __future__ import annotations

from datetime import UTC, datetime

from driver.top import duration, size

NONE = "-"


def rate(per_s: float) -> str:
    """ "0", "12.3", "845", "12.4 k", "3.1 M"."""
    if per_s < 0.05:
        return "0"
    for unit, length in (("", 1.0), (" k", 1e3), (" M", 1e6)):
        if per_s < 999.5 * length:
            value = per_s / length
            return (f"{value:.1f}" if value < 99.95 else f"{value:.0f}") + unit
    return f"{per_s / 1e9:.1f} G"


def span(seconds: float | None) -> str:
    """A short time: "320 µs", "1.5 ms", "2.0 s", "4.0 min"; of more, as `cep top` has it."""
    if seconds is None:
        return NONE
    if abs(seconds) < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if abs(seconds) < 1:
        return f"{seconds * 1e3:.0f} ms" if abs(seconds) >= 0.0095 else f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s" if abs(seconds) < 120 else duration(seconds)


def share(of_one: float) -> str:
    """ "12 %"."""
    return f"{100 * of_one:.0f} %"


def bytes_of(count: float) -> str:
    return size(count)


def nanoseconds(value: float | None) -> str:
    """A row's: "14 ns", "3.2 µs"."""
    if value is None:
        return NONE
    return f"{value:.0f} ns" if value < 999.5 else f"{value / 1e3:.1f} µs" if value < 99_950 else span(value / 1e9)


def clock(seconds: float) -> str:
    """The time of day, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def moment(seconds: float) -> str:
    """Day and time, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(seconds: float) -> str:
    """ "3 s ago", "12 min ago"."""
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{max(0.0, seconds) / length:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} d ago"
