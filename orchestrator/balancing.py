"""Live load balancing: what the metric server measured goes into `load.rebalanced`, and what that says is asked of the service.

An interval counts only if the buckets stayed where they are from its beginning to its end, and every instance has reported at both. It
goes on until enough rows have come to judge by.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep.errors import CepError
from cep.plan.moving import heads
from orchestrator.events import Reroute
from orchestrator.load import ROWS_MIN, Load, rebalanced
from orchestrator.metric_client import MetricClient
from orchestrator.service import Service
from orchestrator.state import ClusterState

INTERVAL_S = 2.0
_PATIENCE_S = 10.0
#: (query, its epoch, subquery whose buckets they are)
Place = tuple[str, int, str]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Table:
    """Where buckets lie still."""

    place: Place
    version: int
    table: tuple[int, ...]
    instances: int  # in each replica


@dataclass(frozen=True)
class Totals:
    """What was measured since the query began, while the table had that version: of each instance of all replicas CPU in ns, rows taken
    and when it said so, and rows sent by bucket."""

    version: int
    cpu_ns: np.ndarray
    taken: np.ndarray
    reported: np.ndarray
    sent: np.ndarray

    def since(self, before: Totals, instances: int) -> Load | None:
        """What came between; None if that says nothing. Instances of one number in different replicas count as one."""
        if before.version != self.version or len(before.cpu_ns) != len(self.cpu_ns) or (self.reported <= before.reported).any():
            return None
        cpu = (self.cpu_ns - before.cpu_ns) / 1e9 / (self.reported - before.reported)
        taken = (self.taken - before.taken).reshape(-1, instances).sum(axis=0)
        return Load(cpu.reshape(-1, instances).mean(axis=0).tolist(), taken.tolist(), (self.sent - before.sent).tolist())


class Balancing(threading.Thread):
    """Looks every INTERVAL_S seconds, while this orchestrator leads."""

    def __init__(self, service: Service, metrics: MetricClient) -> None:
        super().__init__(name="balancing", daemon=True)
        self.service, self.metrics = service, metrics
        self._over = threading.Event()
        self._before: dict[Place, Totals] = {}

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
            self._before.clear()
            return
        tables: list[Table] = self.service.ask(still).result(_PATIENCE_S)
        before, self._before = self._before, {}
        for table in tables:
            self._balance(table, before.get(table.place))

    def _balance(self, table: Table, before: Totals | None) -> None:
        query, _, head = table.place
        totals = totals_of(table, self.metrics.ask(get="load", query=query).get("instances", ()))
        if totals is None:
            return
        load = None if before is None else totals.since(before, table.instances)
        self._before[table.place] = before if before is not None and load is not None and sum(load.sent) < ROWS_MIN else totals
        wanted = None if load is None else rebalanced(load, table.table)
        if wanted is not None:
            self.service.do(Reroute(query, head, wanted)).result(_PATIENCE_S)
            moved = sum(a != b for a, b in zip(wanted, table.table, strict=True))
            _LOG.warning("query %r: %d buckets of %s move, table version %d", query, moved, head, table.version + 1)


def still(state: ClusterState) -> list[Table]:
    """The tables of running queries whose buckets may move of themselves, and do not move now."""
    found = []
    for name, record in state.queries.items():
        plan = state.plans[name]
        if record.state != "running" or plan.query.options.rebalance == "off":
            continue
        for head in heads(plan):
            if not state.is_moving(record, head):
                present = state.table(name, head)
                found.append(Table((name, record.epoch, head), present.version, present.table, plan.subquery(head).parallelism))
    return found


def totals_of(table: Table, reports: Iterable[Mapping[str, Any]]) -> Totals | None:
    """None: some instance has not reported."""
    _, epoch, head = table.place
    now = [report for report in reports if report["epoch"] == epoch]
    own = sorted((report for report in now if report["subquery"] == head), key=lambda report: report["instance"])
    counts = [report["buckets"][head] for report in now if head in (report["buckets"] or {})]
    if not own or len(own) % table.instances or not counts:
        return None
    cpu, taken, reported = (np.array([report[key] for report in own], float) for key in ("cpu_ns", "rows_in", "reported"))
    return Totals(table.version, cpu, taken, reported, np.sum(counts, axis=0))
