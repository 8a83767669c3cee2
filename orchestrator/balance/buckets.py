"""Live load balancing: what the metric server measured goes into `load.rebalanced`, and what that says is asked of the service.

Buckets of a query that recovers are elsewhere from its next attempt on, which is a pause of some tenths of a second, and something is
made again: so they move for more, and seldom.

A load is about a time in which the buckets stayed where they are. What rows cost is learnt from all of it, up to the last `LOOKS_KEPT`
looks, for CPU is measured with much noise, and nothing is decided before `LOOKS` intervals; which buckets they are in from its end
alone, so that a load that shifts is seen soon.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep.errors import CepError
from cep.plan.checkpoints import recovers
from cep.plan.moving import heads
from cep.service.logs import about
from orchestrator.balance.instances import DeployedSubquery, InstanceBalancing
from orchestrator.balance.load import ROWS_MIN, START, Load, rebalanced
from orchestrator.metrics.client import MetricClient
from orchestrator.service import Service
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import MoveBuckets

INTERVAL_S, LOOKS, LOOKS_KEPT = 2.0, 2, 15
START_RECOVERING = 1.25  # of the mean, that the busiest instance of a query that recovers has to have
RESTS = 30  # looks for which the buckets of such a query stay where they have come
_PATIENCE_S = 10.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlacedBuckets:
    """Where buckets lie still, in that attempt of their query."""

    place: DeployedSubquery
    version: int
    table: tuple[int, ...]
    instances: int  # in each replica
    attempt: int = 0
    recovers: bool = False


@dataclass(frozen=True)
class Totals:
    """What was measured since the query's attempt began, while the table had that version: of each instance of all replicas CPU in ns,
    rows taken and when it said so, and rows sent by bucket."""

    version: tuple[int, int]  # the attempt's, and the table's in it
    cpu_ns: np.ndarray
    taken: np.ndarray
    reported: np.ndarray
    sent: np.ndarray

    def follows(self, before: Totals) -> bool:
        """Were the buckets where they are from `before` on?"""
        return before.version == self.version and len(before.reported) == len(self.reported)

    def since(self, first: Totals, last: Totals, instances: int) -> Load:
        """What rows have cost since `first`, and which were sent since `last`. Instances of one number in different replicas count
        as one."""
        cpu = (self.cpu_ns - first.cpu_ns) / 1e9 / (self.reported - first.reported)
        taken = (self.taken - first.taken).reshape(-1, instances).sum(axis=0)
        return Load(cpu.reshape(-1, instances).mean(axis=0).tolist(), taken.tolist(), (self.sent - last.sent).tolist())


class Balancing(threading.Thread):
    """Looks every INTERVAL_S seconds, while this orchestrator leads."""

    def __init__(self, service: Service, metrics: MetricClient) -> None:
        super().__init__(name="balancing", daemon=True)
        self.service, self.metrics = service, metrics
        self._over = threading.Event()
        self.instances = InstanceBalancing(service, metrics)
        self._untried: set[DeployedSubquery] = set()  # whose buckets may yet move
        self._seen: dict[DeployedSubquery, list[Totals]] = {}  # with this version of the table, each with enough rows since the one before
        self._resting = Counter[tuple[str, int]]()  # query and epoch -> for how many looks yet

    def run(self) -> None:
        while not self._over.wait(INTERVAL_S):
            try:
                self._look()
            except CepError as error:  # the metric server is away, or another orchestrator leads now
                _LOG.info("load is not looked at this time: %s", error)
            except Exception:
                _LOG.exception("load is not looked at this time")

    def close(self) -> None:
        self._over.set()
        self.join(timeout=5)

    def _look(self) -> None:
        if not self.service.leads:
            self._seen.clear()
            self.instances.forget()
            return
        tables: list[PlacedBuckets] = self.service.ask(still).result(_PATIENCE_S)
        seen, self._seen = self._seen, {}
        self._resting = Counter({each: looks - 1 for each, looks in self._resting.items() if looks > 1})
        self._untried = {table.place for table in tables if table.instances > 1}
        for table in tables:
            self._balance(table, seen.get(table.place, []))
        self.instances.look(self._untried)

    def _balance(self, table: PlacedBuckets, seen: list[Totals]) -> None:
        now = totals_of(table, self.metrics.ask(get="load", query=table.place[0]).get("instances", ()))
        if now is None:
            return
        if not seen or not now.follows(seen[-1]):
            self._seen[table.place] = [now]
            return
        self._seen[table.place] = seen
        if (now.reported <= seen[-1].reported).any():
            return
        load = now.since(seen[0], seen[-1], table.instances)
        if sum(load.sent) >= ROWS_MIN:
            self._seen[table.place] = [*seen, now][-LOOKS_KEPT:]
        start = START_RECOVERING if table.recovers else START
        may = len(seen) >= LOOKS and table.place[:2] not in self._resting
        wanted = rebalanced(load, table.table, start) if may else None
        if wanted is None and (len(seen) >= LOOKS or sum(load.sent) < ROWS_MIN):
            self._untried.discard(table.place)
        if wanted is not None:
            self._move(table, wanted)

    def _move(self, table: PlacedBuckets, wanted: tuple[int, ...]) -> None:
        query, epoch, head = table.place
        try:
            self.service.do(MoveBuckets(query, head, wanted, unasked=True)).result(_PATIENCE_S)
        except CepError as error:  # something else has begun meanwhile, or there are too many of them
            _LOG.info("no buckets move this time: %s", error)
            return
        if table.recovers:
            self._resting[query, epoch] = RESTS
        moved = sum(a != b for a, b in zip(wanted, table.table, strict=True))
        _LOG.warning("query %r: %d buckets of %s move", query, moved, head, extra=about(query))


def still(state: ClusterState) -> list[PlacedBuckets]:
    """The tables of running queries whose buckets may move of themselves, and do not move now."""
    found = []
    for name, record in state.queries.items():
        plan = state.plans[name]
        if record.state != "running" or record.move or record.change or plan.query.options.rebalance == "off":
            continue
        for head in heads(plan):
            if not state.is_moving(record, head):
                place, present, instances = (name, record.epoch, head), state.table(name, head), plan.subquery(head).parallelism
                found.append(PlacedBuckets(place, present.version, present.table, instances, record.attempt, recovers(plan)))
    return found


def totals_of(table: PlacedBuckets, reports: Iterable[Mapping[str, Any]]) -> Totals | None:
    """None: some instance has not reported."""
    _, epoch, head = table.place
    now = [report for report in reports if (report["epoch"], report.get("attempt") or 0) == (epoch, table.attempt)]
    own = sorted((report for report in now if report["subquery"] == head), key=lambda report: report["instance"])
    counts = [report["buckets"][head] for report in now if head in (report["buckets"] or {})]
    if not own or len(own) % table.instances or not counts:
        return None
    cpu, taken, reported = (np.array([report[key] for report in own], float) for key in ("cpu_ns", "rows_in", "reported"))
    return Totals((table.attempt, table.version), cpu, taken, reported, np.sum(counts, axis=0))
