"""What the instances of a query say together: signals that lead it through its life, why it failed, and its figures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cep.plan.physical import Instance
from orchestrator import moves
from orchestrator.known import Known
from orchestrator.life_cycle import is_over, signals
from orchestrator.records import Cause, Now, QueryRecord, added_up


def signals_of(known: Known, record: QueryRecord, now: Now) -> frozenset[str]:
    """Those of `LIFE_CYCLE` that hold now."""
    seen = signals(_statuses(known, record))
    return seen | {"failure"} if failure(known, record, now) else seen


def _statuses(known: Known, record: QueryRecord) -> Iterator[str | None]:
    lost = missing(known, record)
    for instance in known.plans[record.name].instances:
        status = known.status(record, instance)
        yield "gone" if moves.home(known, record, instance) in lost else None if status is None else status.state


def failure(known: Known, record: QueryRecord, now: Now) -> Cause | None:
    """The first failed instance in topological order, or the first whose instance manager is lost."""
    lost = missing(known, record)
    if now.steady < known.judge_from:  # who is not there may come yet; who is there anew will not be again who it was
        lost = {im: what for im, what in lost.items() if im in known.managers}
    coming = moves.newcomers(record) if record.move is not None and record.move.redirecting else ()
    for instance in (*known.plans[record.name].instances, *coming):
        status = known.status(record, instance)
        if status is not None and status.state == "failed":
            # Whoever heard of a failure may tell it before whose it is.
            subquery, index = status.failed_at or (instance.subquery, instance.index)
            return Cause(subquery, index, status.cause or "no cause was given")
        if instance.im in lost:
            return Cause(*_place(known, record, instance), lost[instance.im])
    return None


def missing(known: Known, record: QueryRecord) -> dict[str, str]:
    """Instance managers of the deployment that are not there, or are there anew: id -> what happened."""
    lost = {}
    for im, process in record.hosts.items() if known.has_looked else ():
        manager = known.managers.get(im)
        if manager is None or manager.process != process:
            what = f"instance manager {im!r} (process {process.pid})"
            anew = "its ZooKeeper session ended" if manager is None else f"it was started anew, as process {manager.process.pid}"
            death = known.deaths.get((im, process))
            lost[im] = f"{what} is gone: {anew}" if death is None else f"{what} {death.how}"
    return lost


def _place(known: Known, record: QueryRecord, instance: Instance) -> tuple[str, int | None]:
    """Where in the query the death of an instance manager is to be looked for."""
    death = known.deaths.get((instance.im, record.hosts[instance.im]))
    work = None if death is None else death.blamed
    return (instance.subquery, instance.index) if work is None or work.query != record.name else (work.subquery, work.instance)


def rows(known: Known, record: QueryRecord) -> dict[str, int]:
    """Output stream -> rows that came out, as far as the instances have said."""
    if is_over(record.state):
        return dict(record.rows)
    statuses = [known.status(record, instance) for instance in known.plans[record.name].instances]
    counts: Counter[str] = Counter()
    for status in statuses:
        counts.update(status.rows if status is not None else {})
    return {stream: counts[stream] for stream in sorted(known.outputs_of(record.name))}


def operators(known: Known, record: QueryRecord) -> dict[str, list[dict[str, Any]]]:
    """Subquery -> what its operators and other steps have taken in, given out and cost, as far as instances that are over said."""
    if is_over(record.state):
        return {subquery: [dict(each) for each in figures] for subquery, figures in record.operators.items()}
    said = [(i.subquery, known.status(record, i)) for i in known.plans[record.name].instances]
    by_subquery: dict[str, list[Mapping[str, Any]]] = {}
    for subquery, status in said:
        by_subquery.setdefault(subquery, []).extend(() if status is None else status.operators)
    return {subquery: added_up(figures) for subquery, figures in by_subquery.items() if figures}
