"""What the instances of a query say together: signals that lead it through its life, why it failed, and its figures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cep.plan.physical import Instance
from orchestrator.records import FailureCause, Now, QueryRecord, added_up
from orchestrator.state import evacuations, moves
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.life_cycle import is_over, signals


def signals_of(model: ClusterModel, record: QueryRecord, now: Now) -> frozenset[str]:
    """Those of `LIFE_CYCLE` that hold now."""
    seen = signals(_statuses(model, record))
    return seen | {"failure"} if failure_of(model, record, now) else seen


def _statuses(model: ClusterModel, record: QueryRecord) -> Iterator[str | None]:
    lost = missing(model, record)
    for instance in model.plans[record.name].instances:
        status = model.status(record, instance)
        yield "gone" if moves.home(model, record, instance) in lost else None if status is None else status.state


def failure_of(model: ClusterModel, record: QueryRecord, now: Now) -> FailureCause | None:
    """The first failed instance in topological order, or the first whose instance manager is lost, or that cannot leave a host."""
    lost = missing(model, record)
    if now.steady < model.judge_from:  # one that is not there may come yet; one that is there anew is another process
        lost = {im: what for im, what in lost.items() if im in model.managers}
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


def missing(model: ClusterModel, record: QueryRecord) -> dict[str, str]:
    """Instance managers of the deployment that are not there, or are there anew: id -> what happened."""
    lost = {}
    for im, process in record.hosts.items() if model.has_looked else ():
        manager = model.managers.get(im)
        if manager is None or manager.process != process:
            what = f"instance manager {im!r} (process {process.pid})"
            anew = "its ZooKeeper session ended" if manager is None else f"it was started anew, as process {manager.process.pid}"
            death = model.deaths.get((im, process))
            lost[im] = f"{what} is gone: {anew}" if death is None else f"{what} {death.how}"
    return lost


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


def operators(model: ClusterModel, record: QueryRecord) -> dict[str, list[dict[str, Any]]]:
    """Subquery -> what its operators and other steps have taken in, given out and cost, as far as instances that are over said."""
    if is_over(record.state):
        return {subquery: [dict(each) for each in figures] for subquery, figures in record.operators.items()}
    said = [(i.subquery, model.status(record, i)) for i in model.plans[record.name].instances]
    by_subquery: dict[str, list[Mapping[str, Any]]] = {}
    for subquery, status in said:
        by_subquery.setdefault(subquery, []).extend(() if status is None else status.operators)
    return {subquery: added_up(figures) for subquery, figures in by_subquery.items() if figures}
