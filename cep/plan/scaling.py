"""A plan with another parallelism of one subquery, for the next attempt of a query that recovers; or why there is none. Pure.

Everything else in the plan stays as it is, so all other instances go on from their own pieces. A subquery that reads a stream, or whose
output leaves the query, stays: readers of a publisher and producers of a subscription keep their number.
"""

from __future__ import annotations

from dataclasses import replace

from cep.errors import QueryError
from cep.model.limits import INSTANCES_MAX
from cep.plan.checkpoints import recovers
from cep.plan.parallelize import is_spread_theta, operators_of
from cep.plan.physical import Edge, Instance, PhysicalPlan
from cep.plan.planner import replanned

NOWHERE = ""  # the instance manager of an instance that is not placed yet


def scaled(plan: PhysicalPlan, subquery: str, instances: int) -> PhysicalPlan:
    """The plan with so many instances of it; new ones are NOWHERE. Raises QueryError: it cannot be, which is said with the reason."""
    names = [each.name for each in plan.subqueries]
    if subquery not in names:
        raise QueryError(f"there is no subquery {subquery!r}; there is {', '.join(names)}", "/subquery")
    if not 1 <= instances <= INSTANCES_MAX:
        raise QueryError(f"{subquery}: expected 1 to {INSTANCES_MAX:,} instances, got {instances:,}", "/instances")
    if why := why_fixed(plan, subquery):
        raise _refusal(plan, subquery, instances, why)
    changed = replanned(plan, {subquery: instances})
    if why := _why_not(plan, changed, subquery):
        raise _refusal(plan, subquery, instances, why)
    order = {name: i for i, name in enumerate(names)}
    staying = [each for each in plan.instances if each.subquery != subquery or each.index < instances]
    coming = [Instance(subquery, i, NOWHERE) for i in range(plan.subquery(subquery).parallelism, instances)]
    there = sorted([*staying, *coming], key=lambda each: (order[each.subquery], each.index))
    return replace(plan, subqueries=changed.subqueries, edges=changed.edges, instances=tuple(there))


def _refusal(plan: PhysicalPlan, subquery: str, instances: int, why: str) -> QueryError:
    there = plan.subquery(subquery).parallelism
    text = f"{subquery} of query {plan.query.name!r} cannot be scaled from {there} to {instances} instances: {why}"
    return QueryError(text, "/subquery")


def why_fixed(plan: PhysicalPlan, name: str) -> str:
    """Why its number of instances is what it is, whatever is asked for; empty: it is not."""
    subquery = plan.subquery(name)
    if not recovers(plan):
        return 'its query does not recover, and scaling is a recovery; deploy it with options(recover="on-commit")'
    if plan.query.options.replicas > 1:
        return "its query has replicas, each with groups of its own; their number and that of their instances stay"
    if subquery.streams:
        return f"it reads stream {subquery.streams[0]!r}, whose parts are dealt to its instances; scale one behind it"
    output = next((edge.consumer for edge in plan.edges_out_of(name) if edge.is_output), None)
    if output is not None:
        return f"it puts out {output!r}, and its readers take it from these instances; scale one before it"
    if is_spread_theta(operators_of(plan, subquery)):
        return "each of its instances has one side of its theta join in full"
    return ""


def _why_not(plan: PhysicalPlan, changed: PhysicalPlan, name: str) -> str:
    """What else would be another one in the plan; empty: nothing."""
    for before, after in zip(plan.subqueries, changed.subqueries, strict=True):
        if before.pre_aggregates != after.pre_aggregates:
            return f"{before.name} would begin or cease to make partial results"
    for edge, other in zip(plan.edges, changed.edges, strict=True):
        if edge.target != name and edge != other:
            return f"{edge.target} has its state where {name} sends its rows, so its groups would be elsewhere too"
        if edge.target == name and _begins_to_keep(edge, other) and changed.subquery(name).parallelism > 1:
            return f"its rows would come from one instance of {edge.source} each, as many as it would have; take another number"
    return ""


def _begins_to_keep(before: Edge, after: Edge) -> bool:
    return before.balancer != "point-to-point" and after.balancer == "point-to-point"
