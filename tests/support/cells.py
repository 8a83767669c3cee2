"""Operators by window and by the balancer before them: which cells are sound, and how often each was executed.

Sound is what rule 6.2 says: rows of an operator without state may come in turn or straight on; of one with state by its key, or
straight on where they are partitioned by it already or all go to one instance; of a theta join one side goes everywhere and the
other in turn. A balancer counts where it leads to several instances, but for point-to-point from several to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cep.model.operators import TYPES, Operator
from cep.model.query import Query
from cep.plan.expand import in_full
from cep.plan.physical import PhysicalPlan
from tests.support.kinds import KINDS, STATELESS, kind_of

BALANCERS = ("point-to-point", "round-robin", "route-key", "broadcast")


@dataclass(frozen=True, order=True)
class Cell:
    kind: str
    balancer: str


def sound_cells() -> tuple[Cell, ...]:
    """Of the kinds that the engine runs."""
    return tuple(Cell(kind, balancer) for kind in KINDS for balancer in BALANCERS if _is_sound(kind, balancer))


def _is_sound(kind: str, balancer: str) -> bool:
    if kind in STATELESS:
        return balancer in ("point-to-point", "round-robin")
    if kind == "sort" or not TYPES[kind.partition(" ")[0]].keys().keys() & {"by", "on"}:  # it has no key
        return balancer == "point-to-point"
    return balancer in ("point-to-point", "route-key") or kind == "join"


#: How often each cell was executed since the process began.
executed: Counter[Cell] = Counter()


def record(query: Query, plan: PhysicalPlan) -> None:
    """Counts the cells of a plan that is executed, each once."""
    executed.update(cells_of(query, plan))


def cells_of(query: Query, plan: PhysicalPlan) -> set[Cell]:
    written: dict[str, Operator] = {full.name: operator for operator in query.operators for full in in_full(operator)}
    size = {subquery.name: subquery.parallelism for subquery in plan.subqueries}
    return {
        Cell(kind_of(written[edge.consumer]), edge.balancer)
        for edge in plan.edges
        if edge.is_inner and (size[edge.target] > 1 or (size[edge.source] > 1 and edge.balancer == "point-to-point"))
    }


def to_json() -> list[tuple[str, str, int]]:
    return [(cell.kind, cell.balancer, count) for cell, count in executed.items()]


def add_json(document: Iterable[tuple[str, str, int]]) -> None:
    """What another process has executed."""
    for kind, balancer, count in document:
        executed[Cell(kind, balancer)] += count


def table() -> list[str]:
    """The counts, a kind a line; empty where a cell is not sound."""
    sound = set(sound_cells())
    width = max(map(len, KINDS))
    lines = [" " * width + "".join(f"{balancer:>16}" for balancer in BALANCERS)]
    for kind in sorted({cell.kind for cell in sound} | {cell.kind for cell in executed}, key=KINDS.index):
        counts = [executed[cell] if (cell := Cell(kind, balancer)) in sound or executed[cell] else "" for balancer in BALANCERS]
        lines.append(f"{kind:<{width}}" + "".join(f"{count:>16}" for count in counts))
    return lines
