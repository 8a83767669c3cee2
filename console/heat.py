"""Latency over time as a picture: a column for some seconds, a line for each class of latency, the darker the more rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from console.drawing import SvgShape, box, text
from console.rates import BOUNDS_US, CLASSES, quantile_s, summed
from console.words import clock, rate, span

COLUMNS = 60
LEFT, CELL, LINE = 62.0, 10.0, 13.0
TONES = 6

Counted = tuple[float, Sequence[int]]


def heat_map(seconds: Sequence[Counted]) -> tuple[list[SvgShape], float, float]:
    """`seconds`: (time, rows by class of latency). Shapes, width, height."""
    columns = _columns(seconds)
    width = LEFT + COLUMNS * CELL + 2
    if not any(any(counts) for _, counts in columns):
        return [text(4, 20, "no answers in this time say when their rows were created", "small dim")], width, 32.0
    filled = [i for i in range(CLASSES) if any(counts[i] for _, counts in columns)]
    first, last = max(0, filled[0] - 1), min(CLASSES - 1, filled[-1] + 1)
    height = (last - first + 1) * LINE
    most = max(max(counts) for _, counts in columns)
    shapes = [text(LEFT - 6, (last - i) * LINE + 10, _bound(i), "small dim", "end") for i in range(first, last + 1)]
    for x, (time, counts) in enumerate(columns):
        for i in range(first, last + 1):
            if counts[i]:
                shapes.append(
                    _cell(LEFT + x * CELL, (last - i) * LINE, counts[i], most, f"{clock(time)}: {counts[i]:,} rows in {_bound(i)} or less")
                )
        p99 = quantile_s(counts, 0.99)
        if p99 is not None:
            shapes.append(box(LEFT + x * CELL, (last - BOUNDS_US.index(round(p99 * 1e6))) * LINE - 1, CELL - 1, 2, "p99", round_=0))
    shapes.append(text(LEFT, height + 13, clock(columns[0][0]), "small dim"))
    shapes.append(text(width - 2, height + 13, f"{clock(columns[-1][0])} · line: p99 · darkest: {rate(most)} rows", "small dim", "end"))
    return shapes, width, height + 20


def _columns(seconds: Sequence[Counted]) -> list[Counted]:
    """At most COLUMNS, the last at the end; of several seconds each where there are more."""
    together = max(1, -(-len(seconds) // COLUMNS))
    first = len(seconds) % together
    groups = [seconds[i : i + together] for i in range(first, len(seconds), together)]
    return [(group[0][0], summed(counts for _, counts in group)) for group in groups]


def _cell(x: float, y: float, count: int, most: int, title: str) -> SvgShape:
    tone = 1 + min(TONES - 1, int(TONES * (count / most) ** 0.5))
    return box(x, y, CELL - 1, LINE - 1, f"heat{tone}", title, round_=1)


def _bound(number: int) -> str:
    return span(BOUNDS_US[number] / 1e6) if number < len(BOUNDS_US) else f"> {span(BOUNDS_US[-1] / 1e6)}"
