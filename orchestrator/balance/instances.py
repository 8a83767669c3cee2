"""Live load balancing between instance managers: what the metric server measured goes into `instance_load`, and the move that it says is
asked of the service (paper 4.1.1). Buckets come first: an instance whose buckets may yet move stays. One of a query that recovers goes on
elsewhere from a checkpoint that is taken for it.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from cep.errors import CepError
from cep.plan.checkpoints import recovers
from cep.plan.moving import head_of, why_it_stays
from cep.service.logs import about
from orchestrator.balance.instance_load import ManagerLoad, MovableInstance, busiest, chosen_move
from orchestrator.metrics.client import MetricClient
from orchestrator.service import Service
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import MoveInstance
from orchestrator.state.exclusive import held_alone
from orchestrator.state.moves import reader_of

LOOKS = 5  # over which load is measured; all of them after the last move of any instance
RESTS = 30  # looks for which an instance that was to move is left alone
HEAVIEST = 20  # instances of one instance manager that are thought of
_PATIENCE_S = 10.0

_LOG = logging.getLogger(__name__)

#: (query, its epoch, subquery whose buckets they are)
DeployedSubquery = tuple[str, int, str]


class DeployedInstance(NamedTuple):
    """An instance of a deployment."""

    query: str
    epoch: int
    subquery: str
    instance: int


@dataclass(frozen=True)
class Look:
    """What is seen of each instance that reports: which instance manager has it, its CPU time in ns, and when that was so."""

    found: Mapping[DeployedInstance, tuple[str, float, float]]

    @staticmethod
    def of(rows: Iterable[tuple[str, int, str, int, str, float, float]]) -> Look:
        return Look({DeployedInstance(*row[:4]): row[4:] for row in rows})

    def shares(self, before: Look) -> dict[DeployedInstance, tuple[str, float]]:
        """Where those were that stayed at one place all the time since `before`, and the share of a core that they used."""
        shares = {}
        for where, (im, cpu_ns, reported) in self.found.items():
            was_at, cpu_before, reported_before = before.found.get(where, ("", 0.0, 0.0))
            if was_at == im and reported > reported_before:
                shares[where] = im, (cpu_ns - cpu_before) / 1e9 / (reported - reported_before)
        return shares


class InstanceBalancing:
    """`look` is asked at regular intervals."""

    def __init__(self, service: Service, metrics: MetricClient) -> None:
        self.service, self.metrics = service, metrics
        self._looks: deque[Look] = deque(maxlen=LOOKS)
        self._resting: Counter[DeployedInstance] = Counter()

    def forget(self) -> None:
        """Another orchestrator leads."""
        self._looks.clear()

    def look(self, untried: Set[DeployedSubquery]) -> None:
        """Moves one instance, if that helps. `untried`: where buckets may yet."""
        self._resting = Counter({where: looks - 1 for where, looks in self._resting.items() if looks > 1})
        self._looks.append(Look.of(self.metrics.ask(get="cpu")["instances"]))
        if len(self._looks) < LOOKS:
            return
        shares = self._looks[-1].shares(self._looks[0])
        hosts = self.service.ask(partial(_hosts, shares)).result(_PATIENCE_S)
        source = None if hosts is None else busiest(hosts)
        if hosts is None or source is None:
            return
        heaviest = sorted((where for where, (im, _) in shares.items() if im == source.im), key=lambda where: -shares[where][1])
        movable = self.service.ask(partial(_movable, heaviest[:HEAVIEST], untried)).result(_PATIENCE_S)
        rested = [MovableInstance(where, shares[where][1], stays) for where, stays in movable.items() if where not in self._resting]
        wanted = chosen_move(hosts, source, rested)
        if wanted is not None:
            self._move(wanted[0], source, wanted[1])

    def _move(self, where: Any, source: ManagerLoad, target: str) -> None:
        self._resting[where] = RESTS
        self._looks.clear()
        try:
            self.service.do(MoveInstance(where.query, where.subquery, where.instance, target, unasked=True)).result(_PATIENCE_S)
        except CepError as error:  # something else has begun meanwhile
            _LOG.info("no instance moves this time: %s", error)
            return
        told = about(where.query, f"{where.subquery}/{where.instance}")
        _LOG.warning("query %r: %s/%d moves from %s to %s", where.query, where.subquery, where.instance, source.im, target, extra=told)


def _hosts(shares: Mapping[DeployedInstance, tuple[str, float]], state: ClusterState) -> list[ManagerLoad] | None:
    """What all have to do; None while an instance moves, or a query is changed or recovers: what it needs is not known."""
    if any(record.move or record.change or record.state == "recovering" for record in state.queries.values()):
        return None
    busy = dict.fromkeys(state.managers, 0.0)
    for im, share in shares.values():
        busy[im] = busy.get(im, 0.0) + share
    alone = held_alone(state)  # where nothing comes or goes unasked
    return [ManagerLoad(m.im, m.node, busy[m.im], m.host) for m in state.staying() if m.im not in alone]


def _movable(wheres: Iterable[DeployedInstance], untried: Set[DeployedSubquery], state: ClusterState) -> dict[DeployedInstance, bool]:
    """Those that may move unasked; of each, has it to stay on its host, for its query is to be on so many of them?"""
    may = (where for where in wheres if _may_move(where, untried, state))
    return {where: state.plans[where.query].query.options.hosts_max is not None for where in may}


def _may_move(where: DeployedInstance, untried: Set[DeployedSubquery], state: ClusterState) -> bool:
    """May it be moved unasked? What buckets may yet do is left to them."""
    record = state.queries.get(where.query)
    if record is None or record.epoch != where.epoch or record.state != "running":
        return False
    plan = state.plans[record.name]
    head = head_of(plan, where.subquery)
    by_buckets = head is not None and (record.name, record.epoch, head) in untried
    options = plan.query.options
    asked_only = options.rebalance == "off" or options.replicas > 1  # replicas are where their streams are
    if by_buckets or asked_only:
        return False
    return recovers(plan) or not (why_it_stays(plan, where.subquery) or reader_of(state, record, where.subquery))
