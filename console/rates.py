"""What a cluster does a second: two answers of `GET /figures`, by query, edge and instance manager. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from driver.top import InstanceManagerRow, InstanceRow, ReportedFigures, view_between

BOUNDS_US: tuple[int, ...] = tuple(step * 10**power for power in range(2, 8) for step in (1, 2, 5))
"""Upper bounds of the classes in which latencies are counted; one class more is above them all."""
CLASSES = len(BOUNDS_US) + 1

STALE_S = 30.0
"""An instance that was not heard of for so long is over, or its instance manager is: a machine with too much to do is late."""


@dataclass(frozen=True, slots=True)
class FlowRates:
    """An edge, or an output stream of a query: all instances that put it out together.

    Args:
        blocked: for how much of the time the one that waited longest did, 0 to 1.
        bytes_s: bytes that its instances put out, by its share of their rows.
    """

    query: str
    name: str
    subquery: str
    rows_s: float
    bytes_s: float
    blocked: float


@dataclass(frozen=True, slots=True)
class QueryRates:
    """A query, all its instances together.

    Args:
        rows_in_s: rows that it reads; rows_out_s: rows that come out of it.
        cpu: cores that it uses.
        arrivals: streams as they come in, each subquery that reads one.
        latencies: rows that came out between its last two reports, by class of latency.
        late, dead: in all.
    """

    name: str
    instances: tuple[InstanceRow, ...] = ()
    flows: tuple[FlowRates, ...] = ()
    arrivals: tuple[FlowRates, ...] = ()
    rows_in_s: float = 0.0
    rows_out_s: float = 0.0
    cpu: float = 0.0
    lag_s: float | None = None
    queue_bytes: int = 0
    blocked: float = 0.0
    late: int = 0
    dead: int = 0
    state_bytes: int = 0
    latencies: tuple[int, ...] = (0,) * CLASSES


@dataclass(frozen=True, slots=True)
class ClusterRates:
    """All of it. `time`: of the later answer, seconds since 1970."""

    time: float = 0.0
    queries: Mapping[str, QueryRates] = field(default_factory=dict)
    managers: tuple[InstanceManagerRow, ...] = ()

    @property
    def rows_in_s(self) -> float:
        return sum(each.rows_in_s for each in self.queries.values())

    @property
    def rows_out_s(self) -> float:
        return sum(each.rows_out_s for each in self.queries.values())

    @property
    def lag_s(self) -> float | None:
        return max((each.lag_s for each in self.queries.values() if each.lag_s is not None), default=None)

    @property
    def cpu(self) -> float:
        """Cores that the instance managers use."""
        return sum(each.cpu for each in self.managers)

    @property
    def memory_bytes(self) -> int:
        return sum(each.memory_bytes for each in self.managers)

    @property
    def latencies(self) -> tuple[int, ...]:
        return summed(each.latencies for each in self.queries.values())

    @property
    def flows(self) -> list[FlowRates]:
        return [flow for query in self.queries.values() for flow in query.flows]


class LastReports:
    """The last two reports of each instance and instance manager that differ: on a busy machine they come less often than one looks."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}

    def take(self, figures: ReportedFigures) -> tuple[ReportedFigures, ReportedFigures]:
        """An answer of `GET /figures`; what was reported before, and what was reported last."""
        known = {**self._pairs(figures["instances"], _KEY), **self._pairs(figures["managers"], ("im",))}
        self._known = known
        before = {
            "time": figures["time"],
            "instances": [known[_key(each, _KEY)][0] for each in figures["instances"]],
            "managers": [known[_key(each, ("im",))][0] for each in figures["managers"]],
        }
        return before, figures

    def _pairs(
        self, reports: Iterable[Mapping[str, Any]], names: Sequence[str]
    ) -> dict[Hashable, tuple[Mapping[str, Any], Mapping[str, Any]]]:
        found = {}
        for each in reports:
            key = _key(each, names)
            earlier, latest = self._known.get(key, (each, each))
            found[key] = (latest, each) if each["reported"] > latest["reported"] else (earlier, each)
        return found


_KEY = ("query", "subquery", "instance", "epoch")


def _key(report: Mapping[str, Any], names: Sequence[str]) -> Hashable:
    return tuple(report[name] for name in names)


def latencies_between(before: ReportedFigures, after: ReportedFigures) -> dict[str, tuple[int, ...]]:
    """Query -> rows that came out between two answers, by class of latency."""
    earlier = _by_place(before)
    found: dict[str, list[tuple[int, ...]]] = {}
    for place, each in _by_place(after).items():
        found.setdefault(place[0], []).append(_latencies(_known(earlier.get(place), each), each))
    return {query: summed(counts) for query, counts in found.items()}


def rates_between(before: ReportedFigures, after: ReportedFigures, managers: Sequence[Mapping[str, Any]]) -> ClusterRates:
    """`before`, `after`: as `LastReports` has them; `managers`: as `GET /instance-managers` has them."""
    shown = view_between(before, after, managers, stale_s=STALE_S)
    earlier, later = _by_place(before), _by_place(after)
    rows: dict[str, list[InstanceRow]] = {}
    for row in shown.instances:
        rows.setdefault(row.query, []).append(row)
    queries = {name: _query(name, found, earlier, later) for name, found in sorted(rows.items())}
    return ClusterRates(after["time"], queries, shown.managers)


TextPlace = tuple[str, str, int]


def _by_place(figures: ReportedFigures) -> dict[TextPlace, Mapping[str, Any]]:
    return {(each["query"], each["subquery"], each["instance"]): each for each in figures["instances"]}


def _query(
    name: str, rows: list[InstanceRow], earlier: Mapping[TextPlace, Mapping[str, Any]], later: Mapping[TextPlace, Mapping[str, Any]]
) -> QueryRates:
    ordered = tuple(sorted(rows, key=lambda row: (row.subquery, row.instance)))
    now = [later[row.query, row.subquery, row.instance] for row in ordered]
    then = [_known(earlier.get((row.query, row.subquery, row.instance)), each) for row, each in zip(ordered, now, strict=True)]
    flows, arrivals = _flows(ordered, then, now), _arrivals(ordered, then, now)
    outputs = {output["name"] for each in now for output in each["outputs"] if "latency_us" in output}
    return QueryRates(
        name,
        ordered,
        flows,
        arrivals,
        sum(flow.rows_s for flow in arrivals),
        sum(flow.rows_s for flow in flows if flow.name in outputs),
        sum(row.cpu for row in ordered),
        max((row.lag_s for row in ordered if row.lag_s is not None), default=None),
        sum(row.queue_bytes for row in ordered),
        max((row.blocked for row in ordered), default=0.0),
        sum(each.get("late", 0) for each in now),
        sum(each.get("dead", 0) for each in now),
        sum(each.get("state_bytes", 0) for each in now),
        summed(_latencies(a, b) for a, b in zip(then, now, strict=True)),
    )


def _known(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was there before, of the same deployment; else as it is now: then nothing has happened."""
    return before if before is not None and before["epoch"] == after["epoch"] else after


def _flows(rows: Sequence[InstanceRow], then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> tuple[FlowRates, ...]:
    found: dict[tuple[str, str], list[float]] = {}
    for row, before, after in zip(rows, then, now, strict=True):
        seconds = after["reported"] - before["reported"]
        steps = {step.name: step.rows_s for step in row.steps if step.step == "output"}
        whole = sum(steps.values())
        bytes_s = (after.get("bytes_out", 0) - before.get("bytes_out", 0)) / seconds if seconds > 0 else 0.0
        waited = {output["name"]: output["blocked_ns"] for output in before["outputs"]}
        for output in after["outputs"]:
            rows_s = steps.get(output["name"], 0.0)
            blocked = (output["blocked_ns"] - waited.get(output["name"], 0)) / 1e9 / seconds if seconds > 0 else 0.0
            sums = found.setdefault((row.subquery, output["name"]), [0.0, 0.0, 0.0])
            sums[0] += rows_s
            sums[1] += bytes_s * rows_s / whole if whole else 0.0
            sums[2] = max(sums[2], min(1.0, blocked))
    query = rows[0].query if rows else ""
    return tuple(FlowRates(query, name, subquery, *sums) for (subquery, name), sums in found.items())


def _arrivals(rows: Sequence[InstanceRow], then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> tuple[FlowRates, ...]:
    found: dict[tuple[str, str], list[float]] = {}
    for row, before, after in zip(rows, then, now, strict=True):
        seconds = after["reported"] - before["reported"]
        received = {step.name: step.rows_s for step in row.steps if step.step == "receive"}
        bytes_s = (after.get("bytes_in", 0) - before.get("bytes_in", 0)) / seconds if seconds > 0 else 0.0
        for step in (step for step in row.steps if step.step == "read"):
            sums = found.setdefault((row.subquery, step.name), [0.0, 0.0])
            sums[0] += step.rows_s
            sums[1] += bytes_s * received.get(step.name, 0.0) / (sum(received.values()) or 1.0)
    return tuple(FlowRates(rows[0].query, name, subquery, sums[0], sums[1], 0.0) for (subquery, name), sums in found.items())


def _latencies(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[int, ...]:
    known = {output["name"]: output["latency_us"]["counts"] for output in before["outputs"] if "latency_us" in output}
    found = [(known.get(output["name"]), output["latency_us"]["counts"]) for output in after["outputs"] if "latency_us" in output]
    return summed(tuple(b - a for a, b in zip(was or [0] * CLASSES, counts, strict=True)) for was, counts in found)


def summed(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Class by class."""
    return tuple(map(sum, zip((0,) * CLASSES, *counts, strict=True)))


def quantile_s(counts: Sequence[int], share: float) -> float | None:
    """Below which latency `share` of the rows are: the upper bound of its class, in s; None: no rows."""
    total = sum(counts)
    if not total:
        return None
    reached = next(i for i, so_far in enumerate(accumulate(counts)) if so_far >= share * total)
    return BOUNDS_US[min(reached, len(BOUNDS_US) - 1)] / 1e6


def placed_figures(figures: Mapping[str, Any], plans: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Without instances that their query's plan has no more, since it was scaled: what they have done is told for ten minutes yet."""
    placed = {(name, each["subquery"], each["index"]) for name, plan in plans.items() for each in plan["instances"]}

    def is_there(each: Mapping[str, Any]) -> bool:
        return each["query"] not in plans or (each["query"], each["subquery"], each["instance"]) in placed

    return {**figures, "instances": list(filter(is_there, figures["instances"]))}
