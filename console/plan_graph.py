"""The plan of a query as a picture: streams, subqueries with their operators, output streams, from left to right. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.errors import counted
from console.alarms import BLOCKED
from console.drawing import SvgShape, box, curve, path, text
from console.machine_map import edge_width
from console.rates import FlowRates, QueryRates
from console.words import bytes_of, nanoseconds, rate, share, span
from driver.top import StepRow

STREAM, SUBQUERY, BETWEEN, LINE, HEAD = 150.0, 330.0, 110.0, 17.0, 40.0


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or another step of a subquery, all instances together."""

    step: str
    name: str
    rows_s: float
    cpu: float

    @property
    def ns_per_row(self) -> float | None:
        return self.cpu * 1e9 / self.rows_s if self.rows_s else None


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A stream or a subquery, and where it is drawn."""

    name: str
    kind: str
    column: int
    lines: tuple[Operation, ...]
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return SUBQUERY if self.kind == "subquery" else STREAM

    @property
    def height(self) -> float:
        return HEAD + len(self.lines) * LINE + 6 if self.kind == "subquery" else 34.0


def operations(rates: QueryRates, subquery: str) -> list[Operation]:
    """What the instances of a subquery do, those that cost most first."""
    found: dict[tuple[str, str], list[StepRow]] = {}
    for row in rates.instances:
        if row.subquery == subquery:
            for step in row.steps:
                found.setdefault((step.step, step.name), []).append(step)
    summed = [Operation(*key, sum(s.rows_s for s in steps), sum(s.cpu for s in steps)) for key, steps in found.items()]
    return sorted(summed, key=lambda each: (-round(each.cpu, 3), each.step, each.name))


def plan_graph(plan: Mapping[str, Any], rates: QueryRates) -> tuple[list[SvgShape], float, float]:
    """Shapes, width, height."""
    nodes = _placed(list(_nodes(plan, rates)))
    by_key = {(each.kind, each.name): each for each in nodes}
    flows = {(flow.subquery, flow.name): flow for flow in rates.flows} | {(flow.name, flow.subquery): flow for flow in rates.arrivals}
    shapes: list[SvgShape] = []
    for edge in plan["edges"]:
        start = by_key["subquery", edge["source"]] if _is_subquery(plan, edge["source"]) else by_key["input", edge["source"]]
        end = by_key["subquery", edge["target"]] if edge["target"] else by_key["output", edge["consumer"]]
        shapes += _edge(edge, start, end, flows)
    for each in nodes:
        shapes += _drawn(plan, each, rates)
    return shapes, max((n.x + n.width for n in nodes), default=0.0) + 2, max((n.y + n.height for n in nodes), default=0.0) + 4


def _is_subquery(plan: Mapping[str, Any], name: str) -> bool:
    return any(each["name"] == name for each in plan["subqueries"])


def _nodes(plan: Mapping[str, Any], rates: QueryRates) -> Iterator[PlanNode]:
    columns = _columns(plan)
    inputs = dict.fromkeys(edge["source"] for edge in plan["edges"] if not _is_subquery(plan, edge["source"]))
    for name in inputs:
        yield PlanNode(name, "input", 0, ())
    for each in plan["subqueries"]:
        yield PlanNode(each["name"], "subquery", columns[each["name"]], tuple(operations(rates, each["name"])))
    last = 1 + max(columns.values(), default=0)
    for name in dict.fromkeys(edge["consumer"] for edge in plan["edges"] if not edge["target"]):
        yield PlanNode(name, "output", last, ())


def _columns(plan: Mapping[str, Any]) -> dict[str, int]:
    """Subquery -> its column: behind all that it reads. A subquery that is listed stands behind those that feed it."""
    found = {each["name"]: 1 for each in plan["subqueries"]}
    for _ in found:
        for edge in plan["edges"]:
            if edge["target"] and edge["source"] in found:
                found[edge["target"]] = max(found[edge["target"]], found[edge["source"]] + 1)
    return found


def _placed(nodes: Sequence[PlanNode]) -> list[PlanNode]:
    """Columns from left to right, each centred."""
    columns: dict[int, list[PlanNode]] = {}
    for each in nodes:
        columns.setdefault(each.column, []).append(each)
    heights = {column: sum(n.height for n in there) + 18 * (len(there) - 1) for column, there in columns.items()}
    tallest = max(heights.values(), default=0.0)
    placed, x = [], 1.0
    for column in sorted(columns):
        y = 1 + (tallest - heights[column]) / 2
        for each in columns[column]:
            placed.append(PlanNode(each.name, each.kind, column, each.lines, x, y))
            y += each.height + 18
        x += max(n.width for n in columns[column]) + BETWEEN
    return placed


def _drawn(plan: Mapping[str, Any], node: PlanNode, rates: QueryRates) -> Iterator[SvgShape]:
    if node.kind != "subquery":
        yield box(node.x, node.y, node.width, node.height, "stream", node.name, round_=16)
        yield text(node.x + node.width / 2, node.y + 21, _fitting(node.name, 21), "name", "middle")
        return
    rows = [row for row in rates.instances if row.subquery == node.name]
    known = next(each for each in plan["subqueries"] if each["name"] == node.name)
    yield box(node.x, node.y, node.width, node.height, "manager")
    yield text(node.x + 10, node.y + 17, f"{node.name}   {counted(known['parallelism'], 'instance')}", "name")
    yield text(node.x + node.width - 10, node.y + 17, f"{share(sum(row.cpu for row in rows))} of a core", "figure", "end")
    lag_s = max((row.lag_s for row in rows if row.lag_s is not None), default=None)
    waiting = f"queue {bytes_of(sum(row.queue_bytes for row in rows))} · lag {span(lag_s)}"
    yield text(node.x + 10, node.y + 33, waiting, "small dim")
    yield text(node.x + 208, node.y + 33, "rows/s", "small dim", "end")
    yield text(node.x + 262, node.y + 33, "CPU", "small dim", "end")
    yield text(node.x + 320, node.y + 33, "a row", "small dim", "end")
    for i, each in enumerate(node.lines):
        yield from _operation(each, node, node.y + HEAD + i * LINE)


def _operation(each: Operation, node: PlanNode, y: float) -> Iterator[SvgShape]:
    named = each.name if each.step == "operator" else f"{each.step} {each.name}" if each.step != "instance" else "finding what is next"
    css = "small" if each.step == "operator" else "small dim"
    yield box(node.x + 6, y, (node.width - 12) * min(1.0, each.cpu), LINE - 3, "use", f"{each.step}: {each.name}")
    yield text(node.x + 10, y + 10.5, _fitting(named, 24), css, title=f"{each.step}: {each.name}")
    yield text(node.x + 208, y + 10.5, rate(each.rows_s), "small figure", "end")
    yield text(node.x + 262, y + 10.5, f"{100 * each.cpu:.1f} %", "small figure", "end")
    yield text(node.x + 320, y + 10.5, nanoseconds(each.ns_per_row), "small figure", "end")


def _edge(edge: Mapping[str, Any], start: PlanNode, end: PlanNode, flows: Mapping[tuple[str, str], FlowRates]) -> Iterator[SvgShape]:
    ways = (edge["name"], edge["consumer"], edge["target"])  # an edge, an output stream, a stream that comes in
    flow = next((flows[start.name, way] for way in ways if (start.name, way) in flows), None)
    rows_s, bytes_s, blocked = (0.0, 0.0, 0.0) if flow is None else (flow.rows_s, flow.bytes_s, flow.blocked)
    x, y, to_x, to_y = start.x + start.width, start.y + start.height / 2, end.x, end.y + end.height / 2
    css = "edge blocked" if blocked > BLOCKED else "edge" if rows_s else "edge idle"
    fields = f" ({', '.join(edge['fields'])})" if edge["fields"] else ""
    yield path(curve(x, y, to_x, to_y), css, edge_width(bytes_s), f"{edge['name']}: {edge['balancer']}{fields}")
    middle, height = (x + to_x) / 2, (y + to_y) / 2
    yield text(
        middle, height - 7, f"{rate(rows_s)}/s" + (f" · blocked {share(blocked)}" if blocked > BLOCKED else ""), "small figure", "middle"
    )
    yield text(middle, height + 14, edge["balancer"], "small dim", "middle")


def _fitting(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
