"""Which Aggregates are computed in two stages: partials before the balancer, answers behind it (rule 5.6).

Sound for functions whose partial results merge exactly, and worth it where their state is small and rows would travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cep.errors import QueryError
from cep.model.functions import Function, Order
from cep.model.operators import Aggregate
from cep.model.schema import DataType, Schema
from cep.model.windows import CumulateWindow, TimeWindow, UnboundedWindow
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.validate import validate

POINTER = "/options/pre_aggregation"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether `aggregate` is pre-aggregated on `edge` (None: it reads inside its subquery), and why."""

    aggregate: str
    edge: Edge | None
    on: bool
    why: str


def pre_aggregate(plan: PhysicalPlan) -> PhysicalPlan:
    """Marks the edges that carry partials, and the subqueries that make them.

    Raises:
        QueryError: pre-aggregation is asked for (`on`) where it cannot be.
    """
    chosen = decisions(plan)
    partial = {decision.edge.name for decision in chosen if decision.edge is not None and decision.on}
    edges = tuple(replace(edge, partial=edge.name in partial) for edge in plan.edges)
    subqueries = tuple(
        replace(s, pre_aggregates=tuple(e.consumer for e in edges if e.source == s.name and e.partial)) for s in plan.subqueries
    )
    notes = tuple(f"{d.aggregate!r} is not pre-aggregated: {d.why}" for d in chosen if not d.on and d.edge is not None)
    return replace(plan, edges=edges, subqueries=subqueries, notes=plan.notes + notes)


def decisions(plan: PhysicalPlan) -> tuple[Decision, ...]:
    """One for each Aggregate, in the order of the subqueries. Raises QueryError as `pre_aggregate` does."""
    return tuple(_decisions(plan, validate(plan.query, plan.streams).schemas))


def _decisions(plan: PhysicalPlan, schemas: Mapping[str, Schema]) -> Iterator[Decision]:
    operators = {operator.name: operator for operator in plan.query.operators}
    into = {edge.consumer: edge for edge in plan.edges if edge.is_inner}
    for subquery in plan.subqueries:
        for name in subquery.operators:
            operator = operators[name]
            if isinstance(operator, Aggregate):
                yield _decision(plan, operator, into.get(name), schemas[operator.input])


def _decision(plan: PhysicalPlan, aggregate: Aggregate, edge: Edge | None, schema: Schema) -> Decision:
    option = plan.query.options.pre_aggregation
    if edge is None:
        return Decision(aggregate.name, None, False, "it runs in the same subquery as what it reads")
    impossible = _no_panes(aggregate) or next((why for _, f in aggregate.functions if (why := _no_partial(f))), "")
    large = next((why for _, f in aggregate.functions if (why := f.why_large(_type_of(f, schema)))), "")
    if impossible and option == "on":
        raise QueryError(f"pre_aggregation 'on': operator {aggregate.name!r} cannot be pre-aggregated: {impossible}", POINTER)
    if impossible or (large and option == "auto"):
        return Decision(aggregate.name, edge, False, impossible or large)
    if option != "auto":
        return Decision(aggregate.name, edge, option == "on", f"pre_aggregation is {option!r}")
    if _stays(plan, edge):
        return Decision(aggregate.name, edge, False, "rows go straight to one instance each, where they are aggregated once")
    return Decision(aggregate.name, edge, True, "its functions merge, so groups travel instead of tuples")


def _no_panes(aggregate: Aggregate) -> str:
    """Why its window has no panes to make partial results of; empty if it has."""
    match aggregate.window:
        case TimeWindow() | CumulateWindow() | UnboundedWindow(advance=int()):
            return ""
    return "its window takes the tuples of a group one by one, in order"


def _stays(plan: PhysicalPlan, edge: Edge) -> bool:
    """Nothing is gathered on the way: instance i sends to instance i."""
    return edge.balancer == "point-to-point" and plan.subquery(edge.source).parallelism == plan.subquery(edge.target).parallelism


def _no_partial(function: Function) -> str:
    """Why its partial results do not merge; empty if they do."""
    return f"{function.name} needs all its rows in order" if function.order is Order.SEQUENTIAL else ""


def _type_of(function: Function, schema: Schema) -> DataType | None:
    return None if function.column is None else schema[function.column].type
