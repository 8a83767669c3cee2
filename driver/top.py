"""`cep top`: what does how much now. Two answers of `GET /figures` make a frame: rates are their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from rich.console import Group
from rich.table import Column, Table

from cep.errors import counted

ReportedFigures = Mapping[str, Any]

STALE_S = 3.0
"""An instance whose last report is older is not shown: it is over, or its instance manager is."""


class SortBy(StrEnum):
    """What instances are sorted by; the greatest comes first."""

    CPU = "cpu"
    ROWS = "rows"
    QUEUE = "queue"
    LAG = "lag"
    BLOCKED = "blocked"


_FIELDS = {SortBy.CPU: "cpu", SortBy.ROWS: "rows_s", SortBy.QUEUE: "queue_bytes", SortBy.LAG: "lag_s", SortBy.BLOCKED: "blocked"}


@dataclass(frozen=True, slots=True)
class StepRow:
    """An operator, or another step, in the time between two reports.

    Args:
        rows_s: tuples taken in per second.
        cpu: of one core, 0 to 1.
        ns_per_row: CPU time per tuple; None where none came.
    """

    step: str
    name: str
    rows_s: float = 0.0
    cpu: float = 0.0
    ns_per_row: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A subquery instance.

    Args:
        queue_bytes: that wait to be processed.
        lag_s: how far its watermark is behind the clock; None: it has none yet, or is at its end.
        blocked: for how much of the time an output waited for credit, 0 to 1: the one that waited longest.
    """

    query: str
    subquery: str
    instance: int
    im: str
    rows_s: float
    cpu: float
    ns_per_row: float | None
    queue_bytes: int
    lag_s: float | None
    blocked: float
    waits_for: str
    steps: tuple[StepRow, ...]


@dataclass(frozen=True, slots=True)
class InstanceManagerRow:
    """An instance manager: its core and node, None where it is not bound; CPU of the whole process."""

    im: str
    core: int | None
    node: int | None
    cpu: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class TopView:
    """What `cep top` shows at one moment."""

    managers: tuple[InstanceManagerRow, ...]
    instances: tuple[InstanceRow, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def view_between(
    before: ReportedFigures,
    after: ReportedFigures,
    managers: Sequence[Mapping[str, Any]],
    query: str | None = None,
    sort: SortBy = SortBy.CPU,
    stale_s: float = STALE_S,
) -> TopView:
    """What has happened between two answers; `managers` as they registered. What has not reported twice has no rates yet, and what has not
    for `stale_s` is left out."""
    known = {_where(each): each for each in before["instances"]}
    shown = [each for each in after["instances"] if after["time"] - each["reported"] < stale_s and query in (None, each["query"])]
    instances = [_instance(known.get(_where(each), each), each, after["time"]) for each in shown]
    earlier = {each["im"]: each for each in before["managers"]}
    reported = {each["im"]: (earlier.get(each["im"], each), each) for each in after["managers"]}
    field = _FIELDS[sort]
    in_order = sorted(instances, key=lambda each: (-(getattr(each, field) or 0), each.query, each.subquery, each.instance))
    return TopView(tuple(_managers(managers, reported)), tuple(in_order))


def _where(figures: ReportedFigures) -> tuple[Any, ...]:
    return tuple(figures[key] for key in ("query", "subquery", "instance", "epoch"))


def _rate(before: ReportedFigures, after: ReportedFigures, field: str, seconds: float) -> float:
    return (after.get(field, 0) - before.get(field, 0)) / seconds if seconds > 0 else 0.0


def _line(before: ReportedFigures, after: ReportedFigures, seconds: float) -> StepRow:
    rows_s, cpu = (_rate(before, after, field, seconds) for field in ("rows_in", "cpu_ns"))
    return StepRow(after.get("step", ""), after.get("name", ""), rows_s, cpu / 1e9, cpu / rows_s if rows_s else None)


def _instance(before: ReportedFigures, after: ReportedFigures, now: float) -> InstanceRow:
    seconds = after["reported"] - before["reported"]
    known = {(each["step"], each["name"]): each for each in before["operators"]}
    steps = [_line(known.get((each["step"], each["name"]), {}), each, seconds) for each in after["operators"]]
    whole, watermark = _line(before, after, seconds), after["watermark"]
    return InstanceRow(
        after["query"],
        after["subquery"],
        after["instance"],
        after["im"],
        whole.rows_s,
        whole.cpu,
        whole.ns_per_row,
        after["queue_bytes"],
        None if watermark is None else now - watermark / 1e6,
        _blocked(before, after, seconds),
        after["waits_for"],
        tuple(sorted(steps, key=lambda line: -line.cpu)),
    )


def _blocked(before: ReportedFigures, after: ReportedFigures, seconds: float) -> float:
    known = {output["name"]: output for output in before["outputs"]}
    shares = (_rate(known.get(output["name"], {}), output, "blocked_ns", seconds) / 1e9 for output in after["outputs"])
    return min(1.0, max(shares, default=0.0))


def _managers(
    registered: Sequence[Mapping[str, Any]], reported: Mapping[str, tuple[ReportedFigures, ReportedFigures]]
) -> Iterator[InstanceManagerRow]:
    for each in registered:
        before, after = reported.get(each["id"], ({}, {}))
        cpu = _rate(before, after, "cpu_ns", after.get("reported", 0) - before.get("reported", 0)) / 1e9
        yield InstanceManagerRow(each["id"], each["core"], each["node"], cpu, after.get("rss_bytes", 0))


# --- as text ---------------------------------------------------------------------------------------------------------


def view_table(shown: TopView, instances_max: int | None = None) -> Group:
    """For the terminal: the instance managers, and under each instance its operators, those that cost most first."""
    left = len(shown.instances) - (instances_max or len(shown.instances))
    shown = replace(shown, instances=shown.instances[:instances_max])
    more = [f"and {counted(left, 'instance')} more"] if left > 0 else []
    return Group(_managers_table(shown), _instances_table(shown), *more)


def _managers_table(shown: TopView) -> Table:
    table = _table("instance manager", _right("core"), _right("node"), _right("CPU %"), _right("memory"))
    for each in shown.managers:
        table.add_row(each.im, _or_dash(each.core), _or_dash(each.node), f"{each.cpu:.1%}"[:-1], size(each.memory_bytes))
    return table


def _instances_table(shown: TopView) -> Table:
    figures = ("rows/s", "CPU %", "ns/row", "queue", "lag", "blocked %")
    table = _table("query · instance · operator", "on", *map(_right, figures))
    for each in shown.instances:
        name = f"{each.query} {each.subquery}/{each.instance}"
        state = (size(each.queue_bytes), _or_dash(each.lag_s, duration), f"{100 * each.blocked:.0f}")
        table.add_row(name, each.im, *_rates(each), *state, style="bold")
        for line in each.steps:
            table.add_row(f"  {line.name} ({line.step})" if line.step != "operator" else f"  {line.name}", "", *_rates(line))
    return table


def _rates(of: StepRow | InstanceRow) -> tuple[str, str, str]:
    return f"{of.rows_s:,.0f}", f"{100 * of.cpu:.1f}", _or_dash(of.ns_per_row, lambda ns: f"{ns:,.1f}")


def _table(*columns: str | Column) -> Table:
    return Table(*columns, box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))


def _right(header: str) -> Column:
    return Column(header, justify="right", no_wrap=True)


def _or_dash(value: Any, shown: Any = str) -> str:
    return "-" if value is None else str(shown(value))


def size(count: float) -> str:
    """Bytes: "17 B", "1.2 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def duration(seconds: float) -> str:
    """ "0.35 s", "4.0 min", "2.1 h", "820 d"."""
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if abs(seconds) < most:
            return f"{seconds / length:.2f} {unit}" if unit == "s" else f"{seconds / length:.1f} {unit}"
    return f"{seconds / 86_400:,.0f} d"
