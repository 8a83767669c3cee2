"""Recovery of a query: what it has lost, and where its next attempt runs. Pure.

Parallelism stays, unless another one is asked for: the place of an instance whose process is gone goes to a living instance manager,
that with the fewest instances of the query, then of all. All instances begin the attempt, from the last checkpoint.

So go moves of its instances, too: one that was asked for, and all from a host that is being left. Nothing has died then, and the next
attempt has other places. And so a subquery is scaled, buckets move, and a query is upgraded: the next attempt has another plan
(`cep.plan.scaling`, `cep.plan.moving`, `cep.plan.upgrading`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cep.model import query as queries
from cep.model.limits import STRIKES_MAX
from cep.plan.moving import heads, is_dealt_anew
from cep.plan.physical import PhysicalPlan, Worker
from orchestrator.records import InstanceManager, Now, QueryRecord, death_key
from orchestrator.state.blame import DEATHS_MAX
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.exclusive import closed_to
from orchestrator.state.losses import certainly_lost, missing

SUSPECT_MAX = 100  # of the processes that a query has lost since its last checkpoint


def loss(model: ClusterModel, record: QueryRecord, now: Now) -> frozenset[str]:
    """The signal of what has happened to it: none, a loss from which it can go on, or a failure."""
    if missing(model, record).keys() != certainly_lost(model, record, now).keys():
        return frozenset()  # those that may come yet have places there
    if not _what_broke(model, record, now):
        return frozenset(("loss",)) if _hosts_left(model, record) else frozenset()
    if strikes(model, record) > STRIKES_MAX or has_killed(model, record):
        return frozenset(("failure",))
    return frozenset(("loss",)) if refuges(model) else frozenset()


def why(model: ClusterModel, record: QueryRecord, now: Now) -> str:
    """What it has to recover from; empty: nothing."""
    leaving = ", ".join(f"host {host!r} is leaving" for host in _hosts_left(model, record))
    return _what_broke(model, record, now) or leaving


def refuges(model: ClusterModel) -> dict[str, InstanceManager]:
    """The instance managers where a next attempt may be: those of hosts that are not being left; where there are none now, of any."""
    living = model.living()
    return {im: manager for im, manager in living.items() if manager.host not in model.leaving} or living


def _hosts_left(model: ClusterModel, record: QueryRecord) -> list[str]:
    """Hosts that are leaving, and on which it has instances that could be elsewhere."""
    if not model.leaving or all(manager.host in model.leaving for manager in refuges(model).values()):
        return []
    there = (model.managers.get(instance.im) for instance in model.plans[record.name].instances)
    return sorted({manager.host for manager in there if manager is not None and manager.host in model.leaving})


def _what_broke(model: ClusterModel, record: QueryRecord, now: Now) -> str:
    lost = certainly_lost(model, record, now)
    if lost:
        return "; ".join(lost[im] for im in sorted(lost))
    return next((f"{subquery}/{index} failed: {text}" for subquery, index, text in _failures(model, record)), "")


def _failures(model: ClusterModel, record: QueryRecord) -> list[tuple[Any, ...]]:
    """Of its own instances: where, and why."""
    statuses = [(instance, model.status(record, instance)) for instance in model.plans[record.name].instances]
    failed = [(instance, status) for instance, status in statuses if status is not None and status.state == "failed"]
    places = [status.failed_at or (instance.subquery, instance.index) for instance, status in failed]
    return [(*place, status.cause or "no cause was given") for place, (_, status) in zip(places, failed, strict=True)]


def strikes(model: ClusterModel, record: QueryRecord) -> int:
    """Recoveries from failures of its own without a checkpoint in between, with this one."""
    return record.strikes + bool(_failures(model, record))


def has_killed(model: ClusterModel, record: QueryRecord) -> bool:
    """Is it blamed for so many deaths of instance managers, without a checkpoint in between, that it has failed for good?"""
    blame = model.blames.get(record.name)
    if blame is None:
        return False
    suspect = {*record.suspect, *(death_key(im, record.hosts[im]) for im in missing(model, record))}
    return len(blame.deaths.keys() & suspect) >= DEATHS_MAX


def next_attempt(
    model: ClusterModel,
    record: QueryRecord,
    now: Now,
    asked: Mapping[tuple[str, int], str] | None = None,
    changed: PhysicalPlan | None = None,
) -> tuple[QueryRecord, PhysicalPlan]:
    """The query as it goes on, and its plan. `asked`: where instances are to be, (subquery, index) -> instance manager. `changed`: the plan
    in place of the one that it has; instances that are nowhere yet get places as those of dead processes do."""
    living, places, before = refuges(model), dict(asked or {}), model.plans[record.name]
    plan = _placed(model, changed or before, living, places)
    moving = ", ".join(f"{subquery}/{index} moves to {im!r}" for (subquery, index), im in places.items())
    checkpoints = model.checkpoints.get(record.name)
    going_on = replace(
        record,
        attempt=record.attempt + 1,
        wish=_wish(record),
        restore=None if checkpoints is None else checkpoints.committed,
        strikes=strikes(model, record),
        suspect=(*record.suspect, *(death_key(im, record.hosts[im]) for im in certainly_lost(model, record, now)))[-SUSPECT_MAX:],
        reason=why(model, record, now) or moving or _how_changed(before, plan),
        relieves=not _what_broke(model, record, now) and all(each.files is None for each in plan.query.outputs),
        hosts={instance.im: living[instance.im].process for instance in plan.instances},
    )
    return going_on, plan


def _how_changed(before: PhysicalPlan, after: PhysicalPlan) -> str:
    if queries.to_json(before.query) != queries.to_json(after.query):
        return "it is upgraded"
    both = list(zip(before.subqueries, after.subqueries, strict=True))
    sizes = [f"{a.name} goes from {a.parallelism} to {b.parallelism} instances" for a, b in both if a.parallelism != b.parallelism]
    return ", ".join(sizes) or ", ".join(f"buckets of {head} move" for head in heads(after) if is_dealt_anew(before, after, head))


def _wish(record: QueryRecord) -> str:
    return record.wish if record.state == "recovering" else "ready" if record.state == "deploying" else record.state


def _placed(
    model: ClusterModel, plan: PhysicalPlan, living: dict[str, InstanceManager], asked: Mapping[tuple[str, int], str]
) -> PhysicalPlan:
    here = Counter(instance.im for instance in plan.instances)
    room = {worker.im: worker.capacity for worker in model.workers()}
    closed = closed_to(model, plan.query.name, plan.query.options.exclusive)  # better beside others than nowhere
    for instance in plan.instances:
        im = asked.get((instance.subquery, instance.index), instance.im)
        if im not in living:
            im = min(living, key=lambda each: (each in closed, here[each], -room.get(each, 0.0), each))
            here[im] += 1
        manager = living[im]  # perhaps another process of that id
        worker = Worker(im, manager.node, manager.core, manager.endpoint, host=manager.host)
        plan = plan.with_instance_at(instance.subquery, instance.index, worker)
    return plan
