"""The automaton of a pattern as a picture: an SVG that stands by itself, and has its text for readers of screens.

Places are in a row, in order; one at which a match may end has two rings. Arrows to the next place are straight, those that skip places go
above, those that lead back go below. Where a way may go on as several, numbers say which is preferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import chain

from cep.model.operators import PatternWays
from cep.model.patterns.automaton import COMPLETE, Automaton
from cep.plan.physical import PhysicalPlan

PLACES_MAX = 64
"""Places of an automaton that is drawn; of more there is the text."""

_RADIUS, _RING, _LETTER, _LINE, _MARGIN = 22, 18, 6.5, 15, 24  # px: of a place, of its inner ring, a letter's width, a line of text
_STYLE = (
    "text{font:11px sans-serif;fill:#333;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}.name{font-weight:bold}"
    "circle{fill:#fff;stroke:#333}path{fill:none;stroke:#777}marker path{fill:#777}"
)
_ARROW = '<marker id="to" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker>'


def pictures(plan: PhysicalPlan) -> dict[str, str]:
    """The SVG of each pattern of the query, by the pattern's name."""
    ways = [operator for operator in plan.query.operators if isinstance(operator, PatternWays)]
    return {each.pattern_name: drawn(each.automaton, each.pattern_name) for each in ways if len(each.automaton.variables) <= PLACES_MAX}


@dataclass(frozen=True)
class DrawnArrow:
    """From one place (-1: the start) to another; `label` says how near, and which is preferred."""

    source: int
    target: int
    label: str


def drawn(automaton: Automaton, name: str) -> str:
    """An SVG document."""
    arrows = list(_arrows(automaton))
    ends = {place: list(_ends(automaton, place)) for place in range(len(automaton.variables))}
    step = max([2 * _RADIUS + 40, *(2 * _RADIUS + 30 + _LETTER * len(each.label) for each in arrows)])
    step = max([step, *(_LETTER * len(text) + 20 for text in [*automaton.variables, *chain(*ends.values())])])
    high = max([_height(each) for each in arrows if each.target > each.source + 1], default=0)
    low = max([_height(each) for each in arrows if each.target <= each.source], default=0)
    row = _MARGIN + high + _RADIUS + _LINE
    first_end = row + max(low, _RADIUS + _LINE) + 2 * _LINE
    width, height = step * (len(automaton.variables) + 0.5), first_end + _LINE * max(map(len, ends.values())) + _MARGIN
    parts = [_arrow(each, step, row) for each in arrows]
    for place, variable in enumerate(automaton.variables):
        parts.append(_place(_x(place, step), row, str(place), variable, bool(ends[place])))
        parts += [_text(_x(place, step), first_end + k * _LINE, text) for k, text in enumerate(ends[place])]
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    said = f"<title>{escape(name)}</title><desc>{escape(automaton.text)}</desc><style>{_STYLE}</style><defs>{_ARROW}</defs>"
    return "\n".join([head, said, *parts, "</svg>"]) + "\n"


def _arrows(automaton: Automaton) -> Iterator[DrawnArrow]:
    many = len(automaton.initial) > 1
    for rank, target in enumerate(automaton.initial, 1):
        yield DrawnArrow(-1, target, f"{rank}" if many else "")
    for place in range(len(automaton.variables)):
        ranks = _ranks(automaton, place)
        for rank, (state, edge) in enumerate(ranks, 1):
            if state != COMPLETE and edge is not None:
                transition = automaton.states[state].edges[edge]
                label = f"{transition.by}{automaton.bounds_text(transition)}"
                yield DrawnArrow(place, transition.target, f"{rank} {label}" if len(ranks) > 1 else label)


def _ends(automaton: Automaton, place: int) -> Iterator[str]:
    """What a way that has come to a place may end with, a line each."""
    ranks = _ranks(automaton, place)
    for rank, (state, edge) in enumerate(ranks, 1):
        if edge is None:
            texts = ["■"] if state == COMPLETE else list(automaton.wait_texts(automaton.states[state]))
            yield from (f"{rank} {text}" if len(ranks) > 1 else text for text in texts)


def _ranks(automaton: Automaton, place: int) -> list[tuple[int, int | None]]:
    """What a way may go on as, in order: (state, number of its edge; None: it ends)."""
    found: list[tuple[int, int | None]] = []
    for state in automaton.arrive[place]:
        edges = range(len(automaton.states[state].edges)) if state != COMPLETE else range(0)
        found += [(state, edge) for edge in edges] or [(state, None)]
    return found


def _x(place: int, step: float) -> float:
    return step * (place + 0.75)


def _height(arrow: DrawnArrow) -> float:
    """How far above or below the row an arrow goes that is not straight."""
    return 70 + 2 * _LINE * min(abs(arrow.target - arrow.source), 8)


def _arrow(arrow: DrawnArrow, step: float, row: float) -> str:
    source, target = _x(arrow.source, step), _x(arrow.target, step)
    label = (source + target) / 2
    if arrow.target == arrow.source + 1:
        begin = max(target - step + _RADIUS, 4) if arrow.source < 0 else source + _RADIUS
        return _path(f"M{begin:.1f},{row:.1f} L{target - _RADIUS:.1f},{row:.1f}") + _text(
            (begin + target - _RADIUS) / 2, row - 5, arrow.label
        )
    up = arrow.target > arrow.source
    away, edge = (-_height(arrow), row - _RADIUS) if up else (_height(arrow), row + _RADIUS)
    begin, end = (max(source, 4), target - 6) if up else (source - 6, target + 6)
    aside = 45 if arrow.target == arrow.source else 0  # a loop is drawn round
    bent = f"M{begin:.1f},{edge:.1f} C{begin - aside:.1f},{row + away:.1f} {end + aside:.1f},{row + away:.1f} {end:.1f},{edge:.1f}"
    return _path(bent) + _text(max(label, _MARGIN), row + 0.8 * away + (-4 if up else 14), arrow.label)


def _place(x: float, y: float, number: str, name: str, ends: bool) -> str:
    rings = [_RADIUS, _RING] if ends else [_RADIUS]
    circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>' for r in rings)
    return circles + _text(x, y + 4, number) + f'<text class="name" x="{x:.1f}" y="{y + _RADIUS + 12:.1f}">{escape(name)}</text>'


def _path(d: str) -> str:
    return f'<path d="{d}" marker-end="url(#to)"/>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>' if text else ""
