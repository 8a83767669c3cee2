"""`cep trace`: what has held instance managers up. An answer of `GET /trace` is totals; two of them make what happened in between."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.table import Column, Table

from cep.world.stalls import CAUSES

ReportedTrace = Mapping[str, Any]

SLOWEST_SHOWN = 10
_PLACE = ("query", "subquery", "instance", "step", "name")


@dataclass(frozen=True, slots=True)
class CauseRow:
    """What has held up one instance manager at one place for one reason; times in ns. `worst_ns`: None where none of the slowest that were
    reported in the time asked for was there."""

    im: str
    where: str
    cause: str
    count: int
    total_ns: int
    worst_ns: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """`causes`: those that took most first. `slowest`: the slowest that were reported, each as `GET /trace` has it, and its `im`."""

    causes: tuple[CauseRow, ...]
    slowest: tuple[Mapping[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def trace_between(before: ReportedTrace | None, after: ReportedTrace, ims: Collection[str] | None = None) -> Trace:
    """What has happened between two answers, or until `after`; at the instance managers `ims`, or at all."""
    known = {each["im"]: each for each in before["managers"]} if before else {}
    managers = [each for each in after["managers"] if ims is None or each["im"] in ims]
    old = {(im, stall["at"]) for im, each in known.items() for stall in each["slowest"]}
    slowest = [{"im": each["im"], **stall} for each in managers for stall in each["slowest"] if (each["im"], stall["at"]) not in old]
    causes = [row for each in managers for row in _causes(each, known.get(each["im"]), slowest)]
    return Trace(
        tuple(sorted(causes, key=lambda row: (-row.total_ns, row.im, row.where, row.cause))),
        tuple(sorted(slowest, key=lambda stall: -int(stall["took_ns"]))),
    )


def _causes(manager: Mapping[str, Any], before: Mapping[str, Any] | None, slowest: Sequence[Mapping[str, Any]]) -> Iterator[CauseRow]:
    earlier = {}
    if before is not None and before["began"] == manager["began"]:
        earlier = {(where(total), total["cause"]): total for total in before["totals"]}
    for total in manager["totals"]:
        key = where(total), total["cause"]
        then = earlier.get(key)
        count = total["count"] - (then["count"] if then else 0)
        if not count:
            continue
        lately = [each["took_ns"] for each in slowest if each["im"] == manager["im"] and (where(each), each["cause"]) == key]
        worst = total["worst_ns"] if then is None else max(lately, default=None)
        yield CauseRow(manager["im"], *key, count, total["total_ns"] - (then["total_ns"] if then else 0), worst)


def where(place: Mapping[str, Any]) -> str:
    """`per-ip SQ1/0 pick (operator)`, `report`."""
    query, subquery, instance, step, name = (place[key] for key in _PLACE)
    own = f"{name} ({step})" if name else str(step)
    return f"{query} {subquery}/{instance} {own}" if query else own


def meanings(causes: Sequence[CauseRow]) -> list[str]:
    """What those causes are that are among them."""
    there = {row.cause for row in causes}
    return [f"{cause}: {means}" for cause, means in CAUSES.items() if cause in there]


# --- as text ---------------------------------------------------------------------------------------------------------


def trace_table(found: Trace) -> Group | str:
    """For the terminal: the causes, what they mean, and the slowest."""
    if not found.causes:
        return "nothing took more than a millisecond"
    return Group(_causes_table(found.causes), "", *meanings(found.causes), "", *([_slowest_table(found.slowest)] if found.slowest else []))


def _causes_table(causes: Sequence[CauseRow]) -> Table:
    table = _table("instance manager", "where", "cause", *map(_right, ("count", "worst ms", "total ms")))
    for row in causes:
        worst = "-" if row.worst_ns is None else _ms(row.worst_ns)
        table.add_row(row.im, row.where, row.cause, f"{row.count:,}", worst, _ms(row.total_ns))
    return table


def _slowest_table(slowest: Sequence[Mapping[str, Any]]) -> Table:
    """`rest`: what is neither CPU time nor waiting for a core."""
    figures = ("took ms", "CPU", "waiting", "rest", "garbage", "slept", "preempted", "faults")
    table = _table("the slowest", "where", "cause", *map(_right, figures))
    for each in slowest[:SLOWEST_SHOWN]:
        cause = f"{each['cause']} ({each['by']})" if each["by"] else each["cause"]
        rest = max(0, each["took_ns"] - each["cpu_ns"] - each["delay_ns"])
        times = (each["took_ns"], each["cpu_ns"], each["delay_ns"], rest, each["garbage_ns"])
        counts = (each["asleep"], each["preempted"], each["faults"])
        table.add_row(each["im"], where(each), cause, *map(_ms, times), *(f"{count:,}" for count in counts))
    return table


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.2f}"


def _table(*columns: str | Column) -> Table:
    return Table(*columns, box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))


def _right(header: str) -> Column:
    return Column(header, justify="right", no_wrap=True)
