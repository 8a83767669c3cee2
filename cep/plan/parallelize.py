"""How many instances every subquery has in each replica (paper 4, Figure 5), and whether replicas are sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cep.errors import QueryError, escaped, meant
from cep.model.contract.operator import NO_KEY
from cep.model.operators import Operator
from cep.plan.expand import written_name
from cep.plan.lineage import CommonKey, common_key, entries_of, group_by
from cep.plan.physical import PhysicalPlan, Subquery
from cep.plan.place import lots
from cep.plan.sources import source_of
from cep.plan.split import topological

REPLICAS_POINTER = "/options/replicas"


def parallelize(plan: PhysicalPlan) -> PhysicalPlan:
    """As many instances as asked for, or one per instance manager, of every subquery where that changes no answer; where a subquery is
    asked for by name, exactly so many.

    Raises:
        PlacementError: no instance manager, or more replicas than there are.
        QueryError: replicas of a query whose groups they would tear apart; several instances, by name, of a subquery that has to be one, or
            of one that is not there.
    """
    if plan.query.options.replicas > 1:
        _check_replicas(plan)
    wanted = plan.query.options.parallelism or min(len(lot) for lot in lots(plan))
    why = {s.name: _why_one_reader(plan, s) or _why_one(plan, s) for s in plan.subqueries}
    asked = _asked(plan, why)
    subqueries = tuple(replace(s, parallelism=asked.get(s.name, 1 if why[s.name] else wanted)) for s in plan.subqueries)
    notes = tuple(f"{name} runs on one instance: {reason}" for name, reason in why.items() if reason and wanted > 1)
    return replace(plan, subqueries=subqueries, notes=plan.notes + notes)


def _asked(plan: PhysicalPlan, why_one: Mapping[str, str]) -> dict[str, int]:
    """Subquery -> how many instances of it are asked for by name."""
    asked = dict(plan.query.options.parallelism_of)
    for name, instances in asked.items():
        pointer = f"/options/parallelism/{escaped(name)}"
        if name not in why_one:
            there = ", ".join(f"{s.name} ({', '.join((*s.streams, *s.operators))})" for s in plan.subqueries)
            raise QueryError(f"parallelism: there is no subquery {name!r}{meant(name, why_one)}; the query has {there}", pointer)
        if instances > 1 and why_one[name]:
            raise QueryError(f"parallelism: {name} cannot have {instances} instances: {why_one[name]}", pointer)
    return asked


def operators_of(plan: PhysicalPlan, subquery: Subquery) -> tuple[Operator, ...]:
    """Its operators, in topological order."""
    given = {operator.name: operator for operator in plan.query.operators}
    return tuple(given[name] for name in subquery.operators)


def _why_one_reader(plan: PhysicalPlan, subquery: Subquery) -> str:
    return next((why for stream in subquery.streams if (why := source_of(plan, stream).readers())), "")


def replica_key(plan: PhysicalPlan) -> CommonKey:
    """Per stream, the columns by which publishers choose the replica."""
    return common_key(tuple(topological(plan.query).values()))


def _why_one(plan: PhysicalPlan, subquery: Subquery) -> str:
    """Why more instances would change answers; empty if they would not."""
    if not subquery.stateful:
        return ""
    if subquery.streams:
        return "it reads its stream and keeps state, and rows cannot be routed before they are read"
    operators = operators_of(plan, subquery)
    if is_spread_theta(operators):
        return ""
    obstacle = common_key(operators).obstacle
    if obstacle is None:
        return ""
    if obstacle.why_together:
        return f"operator {_name(plan, obstacle)} {obstacle.why_together}"
    return f"no field that enters unchanged is in the group-by of {_name(plan, obstacle)} and all stateful operators before"


def _name(plan: PhysicalPlan, operator: Operator) -> str:
    """As its user wrote it, in quotes."""
    return repr(written_name(plan.written, operator.name))


def is_spread_theta(operators: tuple[Operator, ...]) -> bool:
    """One operator, a window join without equalities, whose one side is shared out while the other goes everywhere (rule 5.5). It
    gets its inputs from elsewhere, and nothing else has state."""
    stateful = [operator for operator in operators if operator.stateful]
    first, inside = operators[0] if operators else None, {operator.name for operator in operators}
    return (
        first is not None
        and stateful == [first]
        and first.everywhere is not None
        and not any(set(operator.inputs) - inside for operator in operators[1:])
    )


def _check_replicas(plan: PhysicalPlan) -> None:
    key, asked = replica_key(plan), f"replicas={plan.query.options.replicas}"
    if key.obstacle is not None:
        name, by = _name(plan, key.obstacle), group_by(key.obstacle)
        if key.obstacle.why_together not in ("", NO_KEY):
            raise QueryError(f"{asked}: operator {name} {key.obstacle.why_together}; replicas have nothing in common", REPLICAS_POINTER)
        why = f"is grouped by {', '.join(by)}, of which no" if by else "has no group-by, so no"
        raise QueryError(
            f"{asked}: operator {name} {why} field comes unchanged from the streams and is in the group-by of the "
            f"stateful operators before it too; its groups would be torn between replicas",
            REPLICAS_POINTER,
        )
    for name in plan.streams:
        if why := source_of(plan, name).replicas(tuple(key.fields.get(name, ()))) or _why_apart(plan, name):
            raise QueryError(f"{asked}: {why}", REPLICAS_POINTER)


def _why_apart(plan: PhysicalPlan, stream: str) -> str:
    """Why rows of `stream` and of another one that belong together may be in different replicas; empty: they are not."""
    if not source_of(plan, stream).is_dealt:
        return ""
    operators = topological(plan.query)
    for operator in (each for each in operators.values() if each.stateful):
        met = entries_of(operator, operators)
        if stream in met and len(met) > 1:
            others = ", ".join(repr(each) for each in sorted(met - {stream}))
            return (
                f"operator {_name(plan, operator)} brings rows of stream {stream!r} together with those of {others}, and each replica "
                f"reads files of {stream!r} of its own, whatever is in the others; publish the streams"
            )
    return ""
