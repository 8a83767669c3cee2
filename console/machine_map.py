"""The machines as a picture: hosts, NUMA nodes and cores, instance managers there, instances in them, and edges between those. Pure.

A line or square stands for an instance, the fuller or darker the more of its core it uses. Where there are few, each has a line with its
name. Beneath them is what goes from one instance manager to another, all edges together, as wide as the logarithm of its bytes; red where
one is blocked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10
from typing import Any

from cep.errors import counted
from console.alarms import BLOCKED, query_page
from console.drawing import SvgShape, box, link, path, text
from console.watch import Sight
from console.words import bytes_of, rate, share, span
from driver.top import InstanceManagerRow, InstanceRow

WIDTH = 1000.0
GAP, HEAD, LINE, SQUARE = 14.0, 40.0, 17.0, 11.0
LINES_MAX, LINES_OF_MANY, SQUARES_MAX, LINES_TOLD = 12, 6, 120, 12
BAND = 42.0
"""Room beneath a row of boxes."""
BESIDE_MAX = 4

Spot = tuple[float, float, float, float]
"""Where an instance manager is drawn: left, bottom, width, top."""


@dataclass(frozen=True, slots=True)
class PlacedManager:
    """An instance manager, where it is, and what is in it."""

    manager: InstanceManagerRow
    host: str
    instances: tuple[InstanceRow, ...]


def machine_map(sight: Sight) -> tuple[list[SvgShape], float]:
    """The shapes and their height; `WIDTH` wide."""
    shapes: list[SvgShape] = []
    places: dict[str, Spot] = {}
    y = 4.0
    for title, placed in _groups(sight):
        shapes.append(text(2, y + 11, title, "group"))
        drawn, bottom = _boxes(placed, y + 20, places)
        shapes += drawn
        y = bottom + 6
    return [*_arcs(sight, places), *shapes], max(60.0, y)


def _groups(sight: Sight) -> Iterator[tuple[str, list[PlacedManager]]]:
    """By host and node: a title, and the instance managers there."""
    hosts = {im: str(host["name"]) for host in sight.hosts for im in host["instance_managers"]}
    inside: dict[str, list[InstanceRow]] = {}
    for query in sight.rates.queries.values():
        for row in query.instances:
            inside.setdefault(row.im, []).append(row)
    groups: dict[tuple[str, int], list[PlacedManager]] = {}
    for manager in sorted(sight.rates.managers, key=lambda each: (each.core is None, each.core, each.im)):
        host = hosts.get(manager.im, "")
        rows = tuple(sorted(inside.get(manager.im, ()), key=lambda row: (row.query, row.subquery, row.instance)))
        groups.setdefault((host, -1 if manager.node is None else manager.node), []).append(PlacedManager(manager, host, rows))
    for (host, node), placed in sorted(groups.items()):
        yield _title(sight, host, node), placed


def _title(sight: Sight, host: str, node: int) -> str:
    where = f"host {host}" if host else "this machine"
    if node < 0:
        return f"{where} · instance managers that are bound to no core"
    known: Mapping[str, Any] = sight.topology.get("hosts", {}).get(host) or sight.topology
    found = next((each for each in known.get("nodes", ()) if each["id"] == node), None)
    size = "" if found is None else f" · {counted(len(found['cores']), 'core')}, {bytes_of(found['memory_bytes'])}"
    return f"{where} · NUMA node {node}{size}"


def _boxes(placed: Sequence[PlacedManager], top: float, places: dict[str, Spot]) -> tuple[list[SvgShape], float]:
    beside = min(len(placed), BESIDE_MAX if len(placed) <= 8 else 8)
    width = (WIDTH - GAP * (beside - 1)) / beside
    shapes: list[SvgShape] = []
    bottom = top
    for first in range(0, len(placed), beside):
        row = placed[first : first + beside]
        height = max(_height(each, width) for each in row)
        for i, each in enumerate(row):
            shapes += _manager(each, i * (width + GAP), bottom, width, height)
            places[each.manager.im] = i * (width + GAP), bottom + height, width, bottom
        bottom += height + BAND
    return shapes, bottom


def _lines(placed: PlacedManager) -> int:
    """How many instances have a line of their own."""
    count = len(placed.instances)
    return count if count <= LINES_MAX else LINES_OF_MANY


def _per_row(width: float) -> int:
    return max(1, int((width - 16) / (SQUARE + 2)))


def _height(placed: PlacedManager, width: float) -> float:
    lines = _lines(placed)
    rest = min(len(placed.instances) - lines, SQUARES_MAX)
    return HEAD + lines * LINE + (8 + ceil(rest / _per_row(width)) * (SQUARE + 2) if rest else 0) + 8


def _manager(placed: PlacedManager, x: float, y: float, width: float, height: float) -> Iterator[SvgShape]:
    manager = placed.manager
    core = "" if manager.core is None else f" · core {manager.core}"
    yield box(x, y, width, height, "manager")
    yield text(x + 8, y + 16, f"{manager.im}{core}", "name")
    yield text(x + width - 8, y + 16, f"{share(manager.cpu)} · {bytes_of(manager.memory_bytes)}", "figure", "end")
    yield box(x + 8, y + 23, width - 16, 4, "track", round_=2)
    yield box(x + 8, y + 23, (width - 16) * min(1.0, manager.cpu), 4, f"load {_grade(manager.cpu)}", round_=2)
    lines = _lines(placed)
    named = set(placed.instances if lines == len(placed.instances) else sorted(placed.instances, key=lambda row: -row.cpu)[:lines])
    for i, row in enumerate(row for row in placed.instances if row in named):
        yield _line(row, x + 8, y + HEAD + i * LINE, width - 16)
    yield from _squares([row for row in placed.instances if row not in named], x + 8, y + HEAD + lines * LINE + 8, width)


def _line(row: InstanceRow, x: float, y: float, width: float) -> SvgShape:
    room = max(4, int((width - 70) / 6.3))
    name = f"{row.query} {row.subquery}/{row.instance}"
    shown = name if len(name) <= room else f"{row.query[: max(1, room - len(name) + len(row.query) - 1)]}… {row.subquery}/{row.instance}"
    return link(
        query_page(row.query),
        box(x, y, width, LINE - 3, _css(row), _told(row)),
        box(x, y, width * min(1.0, row.cpu), LINE - 3, "use"),
        text(x + 5, y + 10.5, shown, "small"),
        text(x + width - 5, y + 10.5, f"{rate(row.rows_s)}/s", "small figure", "end"),
    )


def _squares(rows: Sequence[InstanceRow], x: float, y: float, width: float) -> Iterator[SvgShape]:
    beside = _per_row(width)
    for i, row in enumerate(rows[:SQUARES_MAX]):
        left, top = x + i % beside * (SQUARE + 2), y + i // beside * (SQUARE + 2)
        yield link(query_page(row.query), box(left, top, SQUARE, SQUARE, f"{_css(row)} {_tone(row.cpu)}", _told(row), round_=2))
    if len(rows) > SQUARES_MAX:
        yield text(x + width - 20, y - 2, f"and {len(rows) - SQUARES_MAX:,} more", "small", "end")


def _tone(cpu: float) -> str:
    """Of a square, which is too small to be filled: the darker the more of its core it uses."""
    return f"heat{1 + min(5, int(6 * cpu**0.5))}" if cpu >= 0.001 else ""


def _css(row: InstanceRow) -> str:
    return "instance blocked" if row.blocked > BLOCKED else "instance"


def _told(row: InstanceRow) -> str:
    waits = f"\n{row.waits_for}" if row.waits_for else ""
    return (
        f"{row.query} {row.subquery}/{row.instance} on {row.im}\n{rate(row.rows_s)} rows/s, {share(row.cpu)} of a core, "
        f"queue {bytes_of(row.queue_bytes)}, lag {span(row.lag_s)}, blocked {share(row.blocked)}{waits}"
    )


def _grade(cpu: float) -> str:
    return "full" if cpu > 0.9 else "busy" if cpu > 0.6 else "calm"


@dataclass
class _Traffic:
    """From one instance manager to another, all edges together."""

    rows_s: float = 0.0
    bytes_s: float = 0.0
    blocked: bool = False
    lines: tuple[str, ...] = ()


def _traffic(sight: Sight) -> dict[tuple[str, str], _Traffic]:
    """What goes between instance managers: an edge's rows, shared equally by the pairs of its instances."""
    found: dict[tuple[str, str], _Traffic] = {}
    for flow in sorted(sight.rates.flows, key=lambda flow: -flow.bytes_s):
        edge = edge_of(sight.plans.get(flow.query), flow.name)
        if edge is None or not edge["target"]:
            continue
        rows = sight.rates.queries[flow.query].instances
        sending, taking = ([row.im for row in rows if row.subquery == edge[end]] for end in ("source", "target"))
        pairs = len(sending) * len(taking) or 1
        for pair in ((a, b) for a in sending for b in taking if a != b):
            one = found.setdefault(pair, _Traffic())
            one.rows_s += flow.rows_s / pairs
            one.bytes_s += flow.bytes_s / pairs
            one.blocked |= flow.blocked > BLOCKED
            if len(one.lines) < LINES_TOLD and flow.rows_s:
                one.lines += (f"{flow.query} {flow.name}: {edge['balancer']}, {rate(flow.rows_s / pairs)} rows/s",)
    return found


def _arcs(sight: Sight, places: Mapping[str, Spot]) -> Iterator[SvgShape]:
    """Beneath the boxes, each from the right half of one that sends to the left half of one that takes."""
    for (source, target), each in sorted(_traffic(sight).items()):
        if source not in places or target not in places:
            continue
        x, y, width, _ = places[source]
        to_x, to_y, to_width, top = places[target]
        css = "edge blocked" if each.blocked else "edge" if each.rows_s >= 0.05 else "edge idle"
        told = "\n".join((f"{source} → {target}: {rate(each.rows_s)} rows/s, {bytes_of(each.bytes_s)}/s", *each.lines))
        x, to_x = x + width * 0.62, to_x + to_width * 0.38
        if y == to_y:
            deep = min(BAND - 4, 12 + abs(to_x - x) / 22) * 4 / 3
            points = f"M{x:.1f} {y:.1f}C{x:.1f} {y + deep:.1f} {to_x:.1f} {y + deep:.1f} {to_x:.1f} {y:.1f}"
        else:
            end = top if to_y > y else to_y
            points = f"M{x:.1f} {y:.1f}C{x:.1f} {y + 30:.1f} {to_x:.1f} {end + (-30 if to_y > y else 30):.1f} {to_x:.1f} {end:.1f}"
        yield path(points, css, edge_width(each.bytes_s), told)
        tip, up = (to_y, 1) if y == to_y or to_y < y else (top, -1)
        yield path(f"M{to_x - 4:.1f} {tip + 6 * up:.1f}H{to_x + 4:.1f}L{to_x:.1f} {tip:.1f}Z", f"{css.replace('edge', 'tip')}")


def edge_of(plan: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    """The edge of the plan that an output of an instance is: an output stream goes by its own name."""
    if plan is None:
        return None
    return next((edge for edge in plan["edges"] if name in (edge["name"], None if edge["target"] else edge["consumer"])), None)


def edge_width(bytes_s: float) -> float:
    """Of a line: 1, and 0.9 more for each power of ten above 100 bytes a second."""
    return 1 + max(0.0, log10(max(1.0, bytes_s)) - 2) * 0.9
