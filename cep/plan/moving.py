"""Which subqueries' buckets can move, and which move together (rule 6.3).

A table of buckets belongs to the subquery that rows are routed to by it, all of its edges alike. Where others behind it keep its
partitioning (point-to-point, by the same columns) they have the same table, and their buckets move with its own.
And which instances can move as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from cep.errors import QueryError, counted
from cep.plan.checkpoints import recovers
from cep.plan.physical import Edge, PhysicalPlan
from cep.plan.sources import source_of

TABLE_ENTRIES_MAX = 100_000
"""In the tables of a plan: it has to fit into a node of ZooKeeper."""


def heads(plan: PhysicalPlan) -> tuple[str, ...]:
    """The subqueries that have a table of buckets."""
    return tuple(s.name for s in plan.subqueries if any(edge.balancer == "route-key" for edge in _inner(plan, s.name)))


def planned_table(plan: PhysicalPlan, head: str) -> tuple[int, ...]:
    """Bucket -> instance of `head`, as the plan has it."""
    edge = next(edge for edge in plan.edges_into(head) if edge.balancer == "route-key")
    return edge.table or first_table(plan, head)


def first_table(plan: PhysicalPlan, head: str) -> tuple[int, ...]:
    """The same, before any bucket has moved: neighbouring ones to one instance."""
    return _uniform(plan.buckets, plan.subquery(head).parallelism)


@lru_cache(maxsize=64)
def _uniform(buckets: int, instances: int) -> tuple[int, ...]:
    return tuple(bucket * instances // buckets for bucket in range(buckets))


def is_dealt_anew(before: PhysicalPlan, after: PhysicalPlan, subquery: str | None = None) -> bool:
    """Is what the instances of that subquery had, or of any, to be divided among them otherwise?"""
    names = [each.name for each in before.subqueries] if subquery is None else [subquery]
    return any(_dealt(before, name) != _dealt(after, name) for name in names)


def _dealt(plan: PhysicalPlan, subquery: str) -> tuple[int, Sequence[int]]:
    head = head_of(plan, subquery)
    return plan.subquery(subquery).parallelism, () if head is None else planned_table(plan, head)


def with_table(plan: PhysicalPlan, head: str, table: Sequence[int]) -> PhysicalPlan:
    """The plan with the buckets of `head` where `table` says: for the next attempt of a query that recovers. Raises QueryError: there would
    be more in tables than a plan can hold."""
    routed = {edge.name for edge in plan.edges_into(head) if edge.balancer == "route-key"}
    tables = len(routed | {edge.name for edge in plan.edges if edge.table is not None})
    if tables * plan.buckets > TABLE_ENTRIES_MAX:
        much = f"{counted(tables, 'table')} of {plan.buckets:,} buckets"
        raise QueryError(f"{much}, expected at most {TABLE_ENTRIES_MAX:,} in all where a query recovers; give it fewer buckets", "/table")
    return replace(plan, edges=tuple(replace(each, table=tuple(table)) if each.name in routed else each for each in plan.edges))


def with_tables_of(plan: PhysicalPlan, other: PhysicalPlan) -> PhysicalPlan:
    """The plan with the tables of `other` where the same subquery has as many instances."""
    for head in {edge.target for edge in other.edges if edge.table is not None}:
        if head in heads(plan) and plan.subquery(head).parallelism == other.subquery(head).parallelism:
            plan = with_table(plan, head, planned_table(other, head))
    return plan


def moving_together(plan: PhysicalPlan, head: str) -> tuple[str, ...]:
    """`head` and the subqueries that keep its partitioning, in topological order."""
    found = [head]
    for subquery in plan.subqueries:
        if any(edge.source in found and keeps_partitioning(plan, edge) for edge in _inner(plan, subquery.name)):
            found.append(subquery.name)
    return tuple(found)


def keeps_partitioning(plan: PhysicalPlan, edge: Edge) -> bool:
    """Is the bucket of a row at the instance of the same number on both sides of the edge?"""
    inner = edge.is_inner and edge.balancer == "point-to-point" and bool(edge.fields)
    return inner and plan.subquery(edge.target).parallelism > 1


def head_of(plan: PhysicalPlan, subquery: str) -> str | None:
    """Whose table says which instance of `subquery` has a bucket; None: its rows are not divided by buckets."""
    return next((head for head in heads(plan) if subquery in moving_together(plan, head)), None)


def why_it_stays(plan: PhysicalPlan, subquery: str) -> str | None:
    """Why no instance of `subquery` can go on at another instance manager while tuples flow; None: they can."""
    if recovers(plan):
        return "its query recovers, and moves by going on from its last checkpoint, which it does when it is told to"
    for stream in plan.subquery(subquery).streams:
        if why := source_of(plan, stream).can_move():
            return why
    here = plan.subquery(subquery).operators
    reading = next((o for o in plan.query.operators if o.name in here and o.files and not o.stateful), None)  # state says what was read
    if reading is not None:
        return f"operator {reading.name!r} has read {reading.files[0]!r} when the query began, which may be another table now"
    read = {edge.consumer for edge in plan.edges_out_of(subquery) if edge.is_output}
    written = next((output.stream for output in plan.query.outputs if output.stream in read and output.files is not None), None)
    return None if written is None else f"it writes stream {written!r} to a file of its own"


def state_edge(subquery: str) -> Edge:
    """On which state goes from one instance of `subquery` to another; it is in no plan, since no tuples flow on it."""
    return Edge(subquery, subquery, subquery, subquery, subquery, balancer="broadcast")


def _inner(plan: PhysicalPlan, subquery: str) -> list[Edge]:
    return [edge for edge in plan.edges_into(subquery) if edge.is_inner]
