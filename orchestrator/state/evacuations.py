"""Hosts that are to be left: what is on them goes on elsewhere, and what has not gone in time fails by name. Pure.

1. A host that is leaving gets nothing new: no plan, no move and no balancing places anything there.
2. What it has moves away, of each query one instance at a time, to where there is least.
3. A query with an instance that cannot move at all fails at once, for waiting would not help. One with an instance that could move
   and is still there at the end of `PATIENCE_S` fails then. Both say so, and why. One that has ended does not move, and nothing waits
   for it but the end of its query. A query that recovers goes as a whole, from its last checkpoint (`recovery`), and stays while there
   is no other host; after a loss it may be there again for as long.
4. It is over when the host is gone, with its instance managers, or has joined anew, as another agent.
"""

from __future__ import annotations

from collections.abc import Iterator

from cep.errors import Conflict, NotFound, QueryError
from cep.plan.checkpoints import recovers
from cep.plan.moving import why_it_stays
from cep.plan.physical import Instance
from orchestrator.records import Evacuation, FailureCause, InstanceManager, Now, QueryRecord
from orchestrator.state import moves
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.exclusive import closed_to
from orchestrator.state.life_cycle import is_over

PATIENCE_S = 20.0
LOOK_S = 1.0
"""So often it is tried again to move what could not be moved for something else that was under way."""
NOWHERE = "there is no instance manager on another host"
ENDED = "it has ended, and what has ended stays where it is until its query is over"
_BEFORE_ITS_END = frozenset(("deploying", "ready", "running"))


def begun(model: ClusterModel, name: str, now: Now) -> Evacuation:
    """Of the host of that name; one that is leaving already goes on as it began. Raises NotFound: there is no such host."""
    if name in model.leaving:
        return model.leaving[name]
    if name not in model.hosts:
        there = ", ".join(map(repr, sorted(model.hosts))) or "none that has joined"
        raise NotFound(f"there is no host {name!r}; there is {there}")
    return Evacuation(name, model.hosts[name].agent, now.wall + PATIENCE_S)


def is_done(model: ClusterModel, evacuation: Evacuation) -> bool:
    """Is there nothing any more that was to be left?"""
    host = model.hosts.get(evacuation.host)
    if host is not None:
        return host.agent != evacuation.agent
    return not any(manager.host == evacuation.host for manager in model.managers.values())


def left_on(model: ClusterModel, host: str) -> Iterator[tuple[QueryRecord, Instance]]:
    """The instances that are there, or on their way there, of queries that are not over."""
    for name in sorted(model.queries):
        record = model.queries[name]
        if not is_over(record.state):
            yield from ((record, instance) for instance in _there(model, record) if _host(model, record, instance) == host)


def concerned(model: ClusterModel) -> list[str]:
    """The queries that have something on a host that is leaving."""
    return sorted({record.name for host in model.leaving for record, _ in left_on(model, host)})


def failure(model: ClusterModel, record: QueryRecord, now: Now) -> FailureCause | None:
    """Why the query fails, of those that have something on a host that is leaving."""
    for instance in _leaving(model, record):
        host = _host(model, record, instance)
        name, over = f"{instance.subquery}/{instance.index}", now.steady >= model.leave_by[host]
        if record.state in _BEFORE_ITS_END and (why := _never(model, record, instance, now)) is not None:
            return FailureCause(instance.subquery, instance.index, f"host {host!r} is leaving, and {name} cannot go on elsewhere: {why}")
        if over:
            why = _not_yet(model, record, instance)
            text = f"host {host!r} is leaving, and {name} has not gone elsewhere within {PATIENCE_S:g} s: {why}"
            return FailureCause(instance.subquery, instance.index, text)
    return None


def onward(model: ClusterModel, record: QueryRecord) -> QueryRecord:
    """The query with the next of its instances that has to leave on its way, if one can be now."""
    if record.state != "running" or record.move is not None or recovers(model.plans[record.name]):
        return record  # what recovers goes as after a loss (`recovery`)
    for instance in _leaving(model, record):
        if _has_ended(model, record, instance):
            continue  # a move would be given up, again and again, and keep the others here
        if (refuge := _refuge(model, record, instance)) is not None:
            try:
                return moves.begun(model, record, instance.subquery, instance.index, refuge)
            except (Conflict, QueryError):
                continue  # not now, or never, which `failure` says
    return record


def _there(model: ClusterModel, record: QueryRecord) -> Iterator[Instance]:
    """Its instances, of one that moves both places until it has gone."""
    yield from model.plans[record.name].instances
    yield from moves.newcomers(record)


def _leaving(model: ClusterModel, record: QueryRecord) -> Iterator[Instance]:
    """Its instances that have to go."""
    if model.leaving:
        yield from (each for each in model.plans[record.name].instances if _host(model, record, each) in model.leaving)


def _host(model: ClusterModel, record: QueryRecord, instance: Instance) -> str:
    """Where it is, by its plan if its instance manager is gone."""
    manager = model.managers.get(instance.im)
    if manager is not None:
        return manager.host
    return next((worker.host for worker in model.plans[record.name].workers if worker.im == instance.im), "")


def _refuge(model: ClusterModel, record: QueryRecord, instance: Instance) -> str | None:
    """The instance manager where it is to go: not beside another instance of its subquery, if that can be; where least is."""
    beside = [each.im for each in model.plans[record.name].instances_of(instance.subquery)]
    own = {_host(model, record, each) for each in model.plans[record.name].instances} - model.leaving.keys()
    most = model.plans[record.name].query.options.hosts_max
    is_full = most is not None and len(own) >= most

    closed = closed_to(model, record.name, model.plans[record.name].query.options.exclusive)

    def preference(manager: InstanceManager) -> tuple[bool, bool, int, int, str]:
        return manager.im in closed, is_full and manager.host not in own, beside.count(manager.im), model.hosted_by(manager.im), manager.im

    best = min(model.staying(), key=preference, default=None)
    return None if best is None else best.im


def _never(model: ClusterModel, record: QueryRecord, instance: Instance, now: Now) -> str | None:
    if (why := why_it_stays(model.plans[record.name], instance.subquery)) is not None:
        return why
    may_come = not model.has_looked or now.steady < model.judge_from
    return None if may_come or any(model.staying()) else NOWHERE


def _has_ended(model: ClusterModel, record: QueryRecord, instance: Instance) -> bool:
    status = model.status(record, instance)
    return status is not None and status.state == "ended"


def _not_yet(model: ClusterModel, record: QueryRecord, instance: Instance) -> str:
    if _has_ended(model, record, instance):
        return ENDED
    if record.move is not None:
        return record.move.described
    if record.state != "running":
        return f"the query is {record.state}, and instances move only while it is running"
    reader = moves.reader_of(model, record, instance.subquery)
    return record.refused or ("others went before" if reader is None else f"query {reader!r} reads what it puts out")
