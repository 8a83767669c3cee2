"""A plan as a drawing: streams on the left, subqueries with what runs in them and where, balancers on the arrows, outputs on the right.

Boxes stand in columns by the longest way from a stream; the size of a box follows from its text, which is monospaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.model.topology import core_list

LINE, CHARACTER, MARGIN = 18.0, 7.3, 12.0
GAP, BETWEEN, EDGE = 46.0, 26.0, 10.0
_PLACES_SHOWN = 8


@dataclass(frozen=True)
class Box:
    """A stream, a subquery or an output: its text, first the title, and where it stands. `copies`: how many instances."""

    name: str
    kind: str
    lines: tuple[str, ...]
    copies: int = 1
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * CHARACTER + 2 * MARGIN

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * MARGIN - 6


@dataclass(frozen=True)
class Arrow:
    """From the right side of a box to the left side of another, with a label in between."""

    path: str
    label: tuple[str, ...]
    x: float
    y: float


@dataclass(frozen=True)
class Drawing:
    """Boxes and arrows, and the size of the whole; `words` says the same in a sentence."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float
    words: str


def plan_drawing(plan: Mapping[str, Any]) -> Drawing:
    """Draws what a record keeps of a plan (`hibench.runs.record.PLAN_KEYS`)."""
    columns = _columns(plan)
    labels = [_label(edge) for edge in plan["edges"]]
    boxes = {box.name: box for box in _standing(columns, _gaps(plan, columns, labels))}
    arrows = tuple(_arrows(plan, boxes, labels))
    width = max(box.x + box.width for box in boxes.values()) + EDGE
    return Drawing(tuple(boxes.values()), arrows, width, max(box.y + box.height for box in boxes.values()) + EDGE, _words(plan))


# --- what is drawn ---------------------------------------------------------------------------------------------------


def _ends(edge: Mapping[str, Any]) -> tuple[str, str]:
    """The names of the boxes that an edge joins."""
    streamed = edge["producer"] == edge["consumer"]
    return f"stream {edge['source']}" if streamed else edge["source"], edge["target"] or f"output {edge['consumer']}"


def _columns(plan: Mapping[str, Any]) -> list[list[Box]]:
    """The boxes, column by column."""
    depth = {subquery["name"]: 1 for subquery in plan["subqueries"]}
    for subquery in plan["subqueries"]:  # in topological order, so that what comes before is known
        ends = [_ends(edge) for edge in plan["edges"]]
        depth[subquery["name"]] = 1 + max((depth.get(source, 0) for source, target in ends if target == subquery["name"]), default=0)
    last = max(depth.values(), default=0) + 1
    columns: list[list[Box]] = [[] for _ in range(last + 1)]
    for subquery in plan["subqueries"]:
        columns[depth[subquery["name"]]].append(_subquery(plan, subquery))
    for name in dict.fromkeys(end for edge in plan["edges"] for end in _ends(edge)):
        kind, _, stream = name.partition(" ")
        if stream:
            columns[0 if kind == "stream" else last].append(Box(name, kind, (stream, kind)))
    return columns


def _subquery(plan: Mapping[str, Any], subquery: Mapping[str, Any]) -> Box:
    reads = [f"read {stream}" for stream in subquery["streams"]]
    does = [*reads, *subquery["operators"], *(f"partials of {name}" for name in subquery["pre_aggregates"])]
    instances = [instance for instance in plan["instances"] if instance["subquery"] == subquery["name"]]
    state = "with state" if subquery["stateful"] else "without state"
    title = f"{subquery['name']}: {len(instances)} instance{'s' * (len(instances) != 1)}, {state}"
    return Box(subquery["name"], "subquery", (title, *(f"· {each}" for each in does), *_places(plan, instances)), len(instances))


def _places(plan: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which instances are where: a line for each node, or for each instance manager where there are few."""
    workers = {worker["im"]: worker for worker in plan["workers"]}
    found: dict[str, list[int]] = {}
    few = len({instance["im"] for instance in instances}) <= _PLACES_SHOWN
    for instance in instances:
        worker = workers[instance["im"]]
        node = "unbound" if worker["node"] is None else f"node {worker['node']}"
        core = "" if worker["core"] is None else f", core {worker['core']}"
        found.setdefault(f"{instance['im']}, {node}{core}" if few else node, []).append(instance["index"])
    lines = [f"[{core_list(sorted(indices))}] {place}" for place, indices in found.items()]
    return lines if len(lines) <= _PLACES_SHOWN else [*lines[:_PLACES_SHOWN], f"… {len(lines) - _PLACES_SHOWN} more"]


def _label(edge: Mapping[str, Any]) -> tuple[str, ...]:
    key = [f"by {', '.join(edge['fields'])}"] if edge["fields"] else []
    late = ["late rows"] if edge["late"] else []
    return (edge["balancer"], *key, *(["partials"] if edge["partial"] else []), *late)


def _words(plan: Mapping[str, Any]) -> str:
    ways = [f"{' '.join(_ends(edge)[:1])} to {_ends(edge)[1]} {' '.join(_label(edge))}" for edge in plan["edges"]]
    return "; ".join(ways)


# --- where it stands -------------------------------------------------------------------------------------------------


def _gaps(plan: Mapping[str, Any], columns: Sequence[Sequence[Box]], labels: Sequence[tuple[str, ...]]) -> list[float]:
    """The room behind each column: for the widest label of an arrow that begins there."""
    column = {box.name: place for place, boxes in enumerate(columns) for box in boxes}
    widths = [0.0] * len(columns)
    for edge, label in zip(plan["edges"], labels, strict=True):
        place = column[_ends(edge)[0]]
        widths[place] = max(widths[place], max(map(len, label)) * CHARACTER)
    return [GAP + width for width in widths]


def _standing(columns: Sequence[Sequence[Box]], gaps: Sequence[float]) -> Iterator[Box]:
    """Every box in its place; columns are centred on one line."""
    heights = [sum(box.height for box in boxes) + BETWEEN * (len(boxes) - 1) for boxes in columns]
    middle, x = max(heights) / 2 + EDGE, EDGE
    for boxes, height, gap in zip(columns, heights, gaps, strict=True):
        y = middle - height / 2
        for box in boxes:
            yield Box(box.name, box.kind, box.lines, box.copies, x, y)
            y += box.height + BETWEEN
        x += max((box.width for box in boxes), default=0.0) + gap


def _arrows(plan: Mapping[str, Any], boxes: Mapping[str, Box], labels: Sequence[tuple[str, ...]]) -> Iterator[Arrow]:
    ends = [_ends(edge) for edge in plan["edges"]]
    for place, ((source, target), label) in enumerate(zip(ends, labels, strict=True)):
        leaving, coming = [s for s, _ in ends].count(source), [t for _, t in ends].count(target)
        x0, y0 = boxes[source].x + boxes[source].width, _spread(boxes[source], [s for s, _ in ends[:place]].count(source), leaving)
        x1, y1 = boxes[target].x, _spread(boxes[target], [t for _, t in ends[:place]].count(target), coming)
        bend = (x1 - x0) / 2
        path = f"M{x0:.1f},{y0:.1f} C{x0 + bend:.1f},{y0:.1f} {x1 - bend:.1f},{y1:.1f} {x1 - 2:.1f},{y1:.1f}"
        yield Arrow(path, label, (x0 + x1) / 2, (y0 + y1) / 2)


def _spread(box: Box, place: int, of: int) -> float:
    """Where the arrow at `place` of `of` meets the side of a box."""
    return box.y + box.height * (place + 1) / (of + 1)
