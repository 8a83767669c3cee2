"""Numbers as reports show them."""

from __future__ import annotations

NONE = "—"


def thousands(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def brief(value: float) -> str:
    """Three digits and a letter: 3.84 M."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {letter}"
    return f"{value:.3g}"


def seconds(value: float) -> str:
    return f"{value:,.1f} s" if value >= 100 else f"{value:.3g} s"


def milliseconds(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f} ms" if value >= 1000 else f"{value:.3g} ms"


def mebibytes(value: float | None) -> str:
    return NONE if value is None else f"{value / 2**20:,.0f} MiB"


def percent(value: float | None) -> str:
    """100 % is said of the whole only."""
    if value is None:
        return NONE
    shown = f"{100 * value:.1f}"
    return f"{100 * value:.6g} %" if shown == "100.0" and value < 1 else f"{100 * value:.3g} %"
