"""Whole instances that move to another instance manager: which may, and how far one has come. Pure.

A move is *listening* until all receivers have opened the channels from the new place, and the instance is built there; then *redirecting*
until it runs there (`cep.dataflow.movement.instance_move`). Until it is redirecting it can be given up, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from cep.config import instance_node
from cep.errors import Conflict, QueryError
from cep.plan.checkpoints import recovers
from cep.plan.moving import heads, why_it_stays
from cep.plan.physical import Instance, PhysicalPlan, Worker
from orchestrator.records import Evacuation, InstanceManager, QueryRecord, Relocation, Status
from orchestrator.state.exclusive import closed_to
from orchestrator.state.life_cycle import is_over

_AT_WORK = frozenset(("running", "draining", "stopping"))
_WAITING = frozenset(("deploying", "ready", "arriving"))  # an instance at its new place, for what it had at its old one


class ClusterView(Protocol):
    """The part of `ClusterModel` that a move depends on."""

    plans: dict[str, PhysicalPlan]
    queries: dict[str, QueryRecord]
    managers: Mapping[str, InstanceManager]
    leaving: dict[str, Evacuation]

    def status_at(self, record: QueryRecord, im: str, instance: Instance | Relocation) -> Status | None: ...

    def is_moving(self, record: QueryRecord, head: str) -> bool: ...

    def reading(self, stream: str) -> list[QueryRecord]: ...


def begun(state: ClusterView, record: QueryRecord, subquery: str, index: int, im: str) -> QueryRecord:
    """The query with a move of instance `index` of `subquery` to `im` under way.

    Raises:
        QueryError: there is no such instance or instance manager, or it is one that cannot move.
        Conflict: not now.
    """
    instance = checked(state, record, subquery, index, im)
    number, there = record.moves + 1, state.managers[im]
    move = Relocation(number, subquery, index, instance.im, im, there.endpoint, there.process)
    return replace(record, moves=number, refused="", move=move)


def checked(state: ClusterView, record: QueryRecord, subquery: str, index: int, im: str) -> Instance:
    """The instance that is to move. Raises as `begun` does."""
    instance = _named(state, state.plans[record.name], subquery, index, im)
    _check_now(state, record, instance, im)
    return instance


def _named(state: ClusterView, plan: PhysicalPlan, subquery: str, index: int, im: str) -> Instance:
    names = [each.name for each in plan.subqueries]
    if subquery not in names:
        raise QueryError(f"there is no subquery {subquery!r}; there is {', '.join(names)}", "/subquery")
    there = plan.instances_of(subquery)
    if not 0 <= index < len(there):
        raise QueryError(f"{subquery} has instances 0 to {len(there) - 1}, got {index}", "/instance")
    if im not in state.managers:
        raise QueryError(f"there is no instance manager {im!r}; there is {', '.join(sorted(state.managers))}", "/im")
    why = None if recovers(plan) else why_it_stays(plan, subquery)  # that goes on elsewhere as after a loss
    if why is not None:
        raise QueryError(f"{subquery}/{index} of query {plan.query.name!r} cannot move: {why}", "/subquery")
    return there[index]


def _check_now(state: ClusterView, record: QueryRecord, instance: Instance, im: str) -> None:
    name = f"{instance.subquery}/{instance.index} of query {record.name!r}"
    if record.state != "running":
        raise Conflict(f"query {record.name!r} is {record.state}: instances move only while it is running")
    if record.move is not None:
        raise Conflict(f"{name} cannot move now: {record.move.described}; wait until it is there")
    if instance.im == im:
        raise Conflict(f"{name} is on {im!r} already")
    if (host := state.managers[im].host) in state.leaving:
        raise Conflict(f"{name} cannot move to {im!r}: host {host!r} is leaving")
    if im in closed_to(state, record.name, state.plans[record.name].query.options.exclusive):
        raise Conflict(f"{name} cannot move to {im!r}: one of two queries there would have its core or node alone (option exclusive)")
    head = next((head for head in heads(state.plans[record.name]) if state.is_moving(record, head)), None)
    if head is not None:
        raise Conflict(f"{name} cannot move now: buckets of {head} are moving; wait until they have")
    reader = reader_of(state, record, instance.subquery)
    if reader is not None and not recovers(state.plans[record.name]):  # otherwise it goes on with the next attempt
        raise Conflict(f"{name} cannot move: query {reader!r} reads what it puts out")


def reader_of(state: ClusterView, record: QueryRecord, subquery: str) -> str | None:
    """A query that reads an output of `subquery`."""
    streams = {edge.consumer for edge in state.plans[record.name].edges_out_of(subquery) if edge.is_output}
    for stream in sorted(streams):
        for other in state.reading(stream):
            feed = state.plans[other.name].feeds.get(stream)
            if feed is not None and (feed.query, feed.epoch) == (record.name, record.epoch) and not is_over(other.state):
                return other.name
    return None


def given_up(record: QueryRecord, why: str) -> QueryRecord:
    return replace(record, move=None, refused=why)


def advanced(state: ClusterView, record: QueryRecord) -> QueryRecord:
    """As far as the move has come; one that has arrived is over (`has_arrived`)."""
    move = record.move
    if move is None or is_over(record.state):
        return record if move is None or move.redirecting else given_up(record, f"query {record.name!r} is over")
    if move.redirecting:
        ended = state.status_at(record, move.source, move)
        return given_up(record, f"{move.name} has ended") if ended is not None and ended.state == "ended" else record
    why = _why_not(state, record, move)
    if why:
        return given_up(record, f"{move.name} of query {record.name!r} stays on {move.source!r}: {why}")
    ready = state.status_at(record, move.target, move)
    if ready is None or ready.step < move.step or not _have_done(state, record, move):
        return record
    return replace(record, move=replace(move, redirecting=True), hosts={**record.hosts, move.target: move.process})


def _why_not(state: ClusterView, record: QueryRecord, move: Relocation) -> str:
    """Why it is to be given up."""
    if record.state != "running":
        return f"the query is {record.state}"
    if move.target not in state.managers:
        return f"instance manager {move.target!r} is gone"
    if state.managers[move.target].process != move.process:
        return f"instance manager {move.target!r} was started anew"
    if (host := state.managers[move.target].host) in state.leaving:
        return f"host {host!r} is leaving"
    there = state.status_at(record, move.target, move)
    if there is not None and there.step >= move.step and there.state not in _WAITING:
        return f"on {move.target!r} it has {there.state}: {there.cause or 'no cause was given'}"
    here = state.status_at(record, move.source, move)
    return "it has ended" if here is not None and here.state == "ended" else ""


def _have_done(state: ClusterView, record: QueryRecord, move: Relocation) -> bool:
    """Has every instance done what the move asks of it now?"""
    statuses = [state.status_at(record, instance.im, instance) for instance in state.plans[record.name].instances]
    return all(status is not None and (status.step >= move.step or status.state == "ended") for status in statuses)


def has_arrived(state: ClusterView, record: QueryRecord) -> bool:
    """Does the instance run at its new place, and have all been told?"""
    move = record.move
    if move is None or not move.redirecting or record.state not in _AT_WORK or move.target not in state.managers:
        return False
    there = settled(state, record, move)
    return there is not None and there.state != "failed" and _have_done(state, record, move)


def home(state: ClusterView, record: QueryRecord, instance: Instance) -> str:
    """The instance manager that speaks for it: of one that moves the new one, once it has left the old one or settled there."""
    move = record.move
    if move is None or not move.redirecting or (move.subquery, move.index) != (instance.subquery, instance.index):
        return instance.im
    left = state.status_at(record, move.source, move)
    return move.target if (left is not None and left.state == "moved") or settled(state, record, move) is not None else move.source


def settled(state: ClusterView, record: QueryRecord, move: Relocation) -> Status | None:
    """What its new place says of the instance that is redirected there; None before it is more than ready."""
    there = state.status_at(record, move.target, move)
    return there if there is not None and there.step >= 2 * move.number and there.state not in _WAITING else None


def moved_plan(state: ClusterView, record: QueryRecord) -> PhysicalPlan:
    """The plan once the move is over."""
    move = record.move
    assert move is not None
    manager = state.managers[move.target]
    worker = Worker(manager.im, manager.node, manager.core, manager.endpoint, host=manager.host)
    return state.plans[record.name].with_instance_at(move.subquery, move.index, worker)


def newcomers(record: QueryRecord) -> Iterator[Instance]:
    """The instance at its new place, while it is also at its old one."""
    if record.move is not None:
        yield Instance(record.move.subquery, record.move.index, record.move.target)


def asked(state: ClusterView, record: QueryRecord, move: Relocation) -> dict[str, Any]:
    """What the assignments say of it."""
    plan = state.plans[record.name]
    source = plan.worker_of(next(i for i in plan.instances_of(move.subquery) if i.index == move.index)).endpoint
    own = {"number": move.number, "step": move.step, "subquery": move.subquery, "instance": move.index}
    return own | {"im": move.target, "source": source, "target": move.endpoint}


def node_name(query: str, place: Instance | Relocation) -> str:
    """Under which its assignments and statuses are."""
    return instance_node(query, place.subquery, place.index)
