"""Cores and NUMA nodes that a query has to itself, by its option `exclusive`. Pure.

A query shares none of what it has alone, whichever of two came first: what others have is closed to it, and what it has is closed to all
others. An instance manager is a core; a node is all those of one NUMA node of a host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from cep.model.query import EXCLUSIVE
from cep.plan.physical import PhysicalPlan
from orchestrator.records import InstanceManager, QueryRecord
from orchestrator.state.life_cycle import is_over

_OFF, _, _NODE = EXCLUSIVE


class Occupied(Protocol):
    """The part of `ClusterModel` that says which query is where."""

    plans: dict[str, PhysicalPlan]
    managers: Mapping[str, InstanceManager]
    queries: dict[str, QueryRecord]


def closed_to(state: Occupied, query: str, wanted: str) -> set[str]:
    """The instance managers that may have nothing of `query`, which has its cores or nodes alone as `wanted` says."""
    closed: set[str] = set()
    for name, plan in _living(state):
        if name != query:
            closed |= _reach(state, name, max(wanted, plan.query.options.exclusive, key=EXCLUSIVE.index))
    return closed


def held_alone(state: Occupied) -> set[str]:
    """Those that some query has alone."""
    return set().union(*(_reach(state, name, plan.query.options.exclusive) for name, plan in _living(state)))


def _living(state: Occupied) -> Iterator[tuple[str, PhysicalPlan]]:
    return ((name, state.plans[name]) for name, record in state.queries.items() if name in state.plans and not is_over(record.state))


def _reach(state: Occupied, query: str, alone: str) -> set[str]:
    """What others may not have where a query is."""
    if alone == _OFF:
        return set()
    move = state.queries[query].move
    its = {instance.im for instance in state.plans[query].instances} | ({move.target} if move is not None else set())
    if alone != _NODE:
        return its
    nodes = {(state.managers[im].host, state.managers[im].node) for im in its if im in state.managers}
    return {im for im, manager in state.managers.items() if (manager.host, manager.node) in nodes}
