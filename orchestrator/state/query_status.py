"""What the instances of a query say together: signals that lead it through its life, why it failed, and its figures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cep.model.limits import STRIKES_MAX
from cep.plan.checkpoints import recovers
from cep.plan.physical import Instance
from orchestrator.records import FailureCause, Now, QueryRecord, Unused, added_up
from orchestrator.state import evacuations, moves, recovery
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.life_cycle import LIFE_CYCLE, is_over, signals
from orchestrator.state.losses import certainly_lost, missing


def signals_of(model: ClusterModel, record: QueryRecord, now: Now) -> frozenset[str]:
    """Those of `LIFE_CYCLE` that hold now."""
    seen = signals(_statuses(model, record))
    if record.state == "recovering" and "all ready" in seen:
        seen |= {f"{record.wish} again"}
    if recovers(model.plans[record.name]) and record.state in _RECOVERING:
        return seen | recovery.loss(model, record, now)
    return seen | {"failure"} if failure_of(model, record, now) else seen


def _statuses(model: ClusterModel, record: QueryRecord) -> Iterator[str | None]:
    lost = missing(model, record)
    for instance in model.plans[record.name].instances:
        status = model.status(record, instance)
        yield "gone" if moves.home(model, record, instance) in lost else None if status is None else status.state


#: In these states a query that recovers goes on from a loss.
_RECOVERING = frozenset(state for state, row in LIFE_CYCLE.items() if "loss" in row)


def failure_of(model: ClusterModel, record: QueryRecord, now: Now) -> FailureCause | None:
    """The first failed instance in topological order, or the first whose instance manager is lost, or that cannot leave a host."""
    if record.strikes >= STRIKES_MAX:
        return FailureCause("", None, f"it has recovered {record.strikes} times without a checkpoint in between; at last {record.reason}")
    if recovery.has_killed(model, record) and recovers(model.plans[record.name]):
        return FailureCause("", None, f"it has ended instance managers: {'; '.join(model.blames[record.name].deaths.values())}")
    lost = certainly_lost(model, record, now)
    coming = moves.newcomers(record) if record.move is not None and record.move.redirecting else ()
    for instance in (*model.plans[record.name].instances, *coming):
        status = model.status(record, instance)
        if status is not None and status.state == "failed":
            # An instance that heard of a failure may tell it before the one that failed.
            subquery, index = status.failed_at or (instance.subquery, instance.index)
            return FailureCause(subquery, index, status.cause or "no cause was given")
        if instance.im in lost:
            return FailureCause(*_place(model, record, instance), lost[instance.im])
    return evacuations.failure(model, record, now)


def _place(model: ClusterModel, record: QueryRecord, instance: Instance) -> tuple[str, int | None]:
    """Where in the query the death of an instance manager is to be looked for."""
    death = model.deaths.get((instance.im, record.hosts[instance.im]))
    work = None if death is None else death.blamed
    return (instance.subquery, instance.index) if work is None or work.query != record.name else (work.subquery, work.instance)


def rows_out(model: ClusterModel, record: QueryRecord) -> dict[str, int]:
    """Output stream -> rows that came out, as far as the instances have said."""
    if is_over(record.state):
        return dict(record.rows)
    statuses = [model.status(record, instance) for instance in model.plans[record.name].instances]
    counts: Counter[str] = Counter()
    for status in statuses:
        counts.update(status.rows if status is not None else {})
    return {stream: counts[stream] for stream in sorted(model.outputs_of(record.name))}


def unused(model: ClusterModel, record: QueryRecord) -> Unused | None:
    """What it has not used of its input; None: not all of its instances are over and have said so."""
    statuses = [model.status(record, instance) for instance in model.plans[record.name].instances]
    said = [status.unused for status in statuses if status is not None and status.unused is not None]
    return Unused.together(said) if len(said) == len(statuses) else None


def operators(model: ClusterModel, record: QueryRecord) -> dict[str, list[dict[str, Any]]]:
    """Subquery -> what its operators and other steps have taken in, given out and cost, as far as instances that are over said."""
    if is_over(record.state):
        return {subquery: [dict(each) for each in figures] for subquery, figures in record.operators.items()}
    said = [(i.subquery, model.status(record, i)) for i in model.plans[record.name].instances]
    by_subquery: dict[str, list[Mapping[str, Any]]] = {}
    for subquery, status in said:
        by_subquery.setdefault(subquery, []).extend(() if status is None else status.operators)
    return {subquery: added_up(figures) for subquery, figures in by_subquery.items() if figures}
