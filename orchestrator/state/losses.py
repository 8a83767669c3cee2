"""The instance managers that a query has lost. Pure.

Evidence of a death counts at once: another process of the id, or one that was seen to end, unless it may be a cold start: a new leader
knows it from the one before, and none that it knows so was seen to live. Absence alone waits (`ClusterState`, rule 5).
"""

from __future__ import annotations

from cep.plan.checkpoints import recovers
from orchestrator.records import Now, Process, QueryRecord
from orchestrator.state.cluster_model import ClusterModel


def see_dead(model: ClusterModel, im: str, process: Process) -> list[str]:
    """That process has ended. The queries that have instances there."""
    model.dead.add((im, process))
    return [name for name, record in model.queries.items() if record.hosts.get(im) == process]


def see_living(model: ClusterModel, processes: frozenset[tuple[str, Process]]) -> list[str]:
    """Those processes live. The queries for which it counts at once now that others have ended."""
    model.outlived = model.outlived or not model.inherited.isdisjoint(processes)
    return [name for name, record in model.queries.items() if not model.dead.isdisjoint(record.hosts.items())]


def certainly_lost(model: ClusterModel, record: QueryRecord, now: Now) -> dict[str, str]:
    """Those that are missing, but for one that is not there and may come yet; one that is there anew is another process.

    Of those that an orchestrator before has given instances one that is seen to be dead may come yet, too: after a cold start their deaths
    are seen one after the other, while the nodes of all are there, and a query would go on at those that were not looked at yet.
    """
    lost = missing(model, record)
    if now.steady >= model.judge_from:
        return lost
    return {im: what for im, what in lost.items() if _counts_at_once(model, im, record.hosts[im])}


def _counts_at_once(model: ClusterModel, im: str, process: Process) -> bool:
    there = model.managers.get(im)
    is_anew = there is not None and there.process != process
    return is_anew or ((im, process) in model.dead and (model.outlived or (im, process) not in model.inherited))


def missing(model: ClusterModel, record: QueryRecord) -> dict[str, str]:
    """Instance managers of the deployment that are not there, or are there anew: id -> what happened."""
    lost, seen = {}, recovers(model.plans[record.name])
    for im, process in record.hosts.items() if model.has_looked else ():
        manager = model.managers.get(im)
        if manager is None or manager.process != process or (seen and (im, process) in model.dead):
            what = f"instance manager {im!r} (process {process.pid})"
            anew = "its ZooKeeper session ended" if manager is None else f"it was started anew, as process {manager.process.pid}"
            anew = "its process has ended" if manager is not None and manager.process == process else anew
            death = model.deaths.get((im, process))
            lost[im] = f"{what} is gone: {anew}" if death is None else f"{what} {death.how}"
    return lost
