"""Matplotlib's figures as SVG that sits inside a page: text stays text, colours are the page's own and follow its dark and print styles.

Why Matplotlib: an interactive library (Plotly) would put 5 MB of scripts into every page; a figure is 10 to 60 kB so, prints, and needs no
script. Figures are drawn in stand-in colours, one for each of the page's variables; what comes out has the variables in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import Any

from markupsafe import Markup, escape

INK, MUTED, GRID = "#010101", "#020202", "#030303"
SERIES = tuple(f"#0400{number:02x}" for number in range(8))
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid"} | {colour: f"--series-{i}" for i, colour in enumerate(SERIES)}
_STYLE: Any = {  # for matplotlib a dict by the names of all its parameters, no more and no less
    "svg.fonttype": "none",  # text, not outlines: it can be searched, copied, read aloud
    "svg.hashsalt": "hibench",  # the same figure, the same file
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}
WIDTH_INCHES = 9.6


def colour(place: int) -> str:
    """The colour of the series at that place; there are eight, then they come again."""
    return SERIES[place % len(SERIES)]


def drawn(draw: Any, height: float, panels: tuple[int, int] = (1, 1), **options: Any) -> str:
    """SVG of what `draw(axes)` draws on a figure of `height` inches; `axes` is one, or an array where there are several panels."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        draw(figure.subplots(*panels, **options))
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return file.getvalue()


def inline(svg: str, name: str, title: str, description: str) -> Markup:
    """An SVG file as an element of a page: `name` makes its ids unlike those of others, `title` and `description` are read aloud."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\b(id="|url\(#|href="#)', rf"\1{name}-", body)
    for stand_in, variable in _VARIABLES.items():
        body = body.replace(stand_in, f"var({variable})")
    head, _, rest = body.partition(">")
    view = re.search(r'viewBox="[^"]*"', head)
    opening = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {view[0] if view else ""} role="img" aria-labelledby="{name}-t {name}-d">'
    texts = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
    return Markup(f'<div class="plot" tabindex="0">{opening}{texts}{rest}</div>')


def legend(axes: Any, columns: int = 3) -> None:
    """Above everything that is drawn."""
    handles, names = axes.get_legend_handles_labels()
    axes.figure.legend(handles, names, loc="outside upper left", ncols=min(columns, len(names)), borderaxespad=0)


def plain(axes: Any, which: Sequence[str] = ("x", "y")) -> None:
    """Numbers on the axes with thousands separated, not as powers."""
    from matplotlib.ticker import FuncFormatter

    for name in which:
        getattr(axes, f"{name}axis").set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
