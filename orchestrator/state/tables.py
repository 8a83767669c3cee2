"""Tables of buckets as the orchestrator is asked for them: does one make sense?"""

from __future__ import annotations

from collections.abc import Sequence

from cep.errors import QueryError
from cep.plan.moving import heads
from cep.plan.physical import PhysicalPlan


def check_table(plan: PhysicalPlan, head: str, table: Sequence[int]) -> None:
    """Raises QueryError: the subquery has no table, or this is none for it."""
    there = heads(plan)
    if head not in there:
        raise QueryError(f"no buckets are routed to {head!r}; they are to {', '.join(there) or 'no subquery of this query'}", "/subquery")
    if len(table) != plan.buckets:
        raise QueryError(f"table: expected an instance for each of {plan.buckets} buckets, got {len(table)}", "/table")
    n = plan.subquery(head).parallelism
    wrong = next(((bucket, at) for bucket, at in enumerate(table) if not 0 <= at < n), None)
    if wrong is not None:
        raise QueryError(f"table: expected instances 0 to {n - 1}, got {wrong[1]} for bucket {wrong[0]}", f"/table/{wrong[0]}")


def sole_head(plan: PhysicalPlan, named: str | None) -> str:
    """The subquery meant: the one that is named, or the only one. Raises QueryError where there are several or none."""
    there = heads(plan)
    if named is None and len(there) != 1:
        raise QueryError(f"subquery: name one, for buckets are routed to {', '.join(there) or 'none of this query'}", "/subquery")
    return there[0] if named is None else named
