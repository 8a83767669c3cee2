"""What should be true in the cluster: the pure core of the orchestrator. No clock, no socket, no thread.

Rules:
1. `handle(event, now) -> commands`. A command is absolute (put this value, delete that node), so doing it twice is harmless.
2. Level-triggered: what is written for a query follows from its record and plan alone, and only differences are commands.
   Restored from what is in ZooKeeper, the state goes on where a killed orchestrator stopped.
3. A request that cannot be met raises before anything has changed.
4. Queries move by `LIFE_CYCLE` and in no other way.
5. A missing instance manager is no death until `judge_from`: one session timeout after ZooKeeper answers again.

What is known, and questions about it: `known.py`. Streams and who is open: `catalog.py`. Queries: `deployments.py`, by what their
instances say (`observed.py`). What is written for one: `assignments.py`; what differs: `written.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cep.config import node
from cep.model import streams as stream_documents
from cep.plan import physical
from orchestrator import moves
from orchestrator.catalog import Catalog
from orchestrator.deployments import Deployments
from orchestrator.events import (
    ClosePublisher,
    Command,
    Connected,
    Declare,
    Event,
    Forget,
    ManagersSeen,
    OpenPublisher,
    Relocate,
    Reroute,
    Start,
    StatusesSeen,
    Stop,
    Submit,
    Subscribe,
    Tick,
    Undeclare,
    Unsubscribe,
)
from orchestrator.known import Known
from orchestrator.records import BucketTable, Manager, Now, Publisher, QueryRecord, Status, Subscription
from orchestrator.written import Written, below


class ClusterState(Known):
    """Everything that is known, and what follows from events for it."""

    def __init__(self, session_timeout_s: float) -> None:
        super().__init__()
        self.session_timeout_s = session_timeout_s
        self._steady = 0.0  # the time of the last event
        self._written = Written()
        self._catalog = Catalog(self, self._written)
        self._deployments = Deployments(self, self._catalog, self._written)

    def handle(self, event: Event, now: Now) -> list[Command]:
        """What is to be written because of `event`, in order.

        Raises:
            Conflict: what is asked for contradicts what there is.
            NotFound: there is nothing of that name.
        """
        self._steady = now.steady
        for name in self._take(event, now):
            self._deployments.advance(name, now)
        return self._written.commands()

    @property
    def deadline(self) -> float | None:
        """The steady time at which a Tick is due; None: never."""
        times = list(self._deployments.release_at.values())
        if self._steady < self.judge_from and any(self._deployments.bereft()):
            times.append(self.judge_from)
        return min(times, default=None)

    # --- events

    def _take(self, event: Event, now: Now) -> Iterable[str]:
        """Notes the event; the queries it concerns."""
        match event:
            case Submit(plan, start):
                return self._deployments.submit(plan, start, now)
            case Start(name):
                return self._deployments.start(name)
            case Stop(name, drain):
                return self._deployments.stop(name, "drain" if drain else "stop", now)
            case Forget(name):
                return self._deployments.forget(name, now)
            case Reroute(name, head, table):
                return self._deployments.reroute(name, head, table)
            case Relocate(name, subquery, index, im):
                return self._deployments.relocate(name, subquery, index, im)
            case Declare(stream):
                self._catalog.declare(stream)
            case Undeclare(stream_name):
                self._catalog.undeclare(stream_name)
            case OpenPublisher(publisher):
                self._catalog.open_publisher(publisher)
            case ClosePublisher(stream_name, name):
                self._catalog.close_publisher(stream_name, name)
            case Subscribe(subscription):
                return self._catalog.subscribe(subscription)
            case Unsubscribe(stream_name, id_):
                return self._catalog.unsubscribe(stream_name, id_)
            case ManagersSeen(managers):
                return self._see_managers(managers)
            case StatusesSeen(im, statuses):
                return self._see(im, statuses)
            case Connected():
                self.judge_from = now.steady + self.session_timeout_s
            case Tick():
                return self._deployments.release_due(now)
        return ()

    def _see_managers(self, managers: Mapping[str, Manager]) -> list[str]:
        """The queries that are on one that has come, gone or been started anew; all of them at the first look."""
        there = {im: manager.process for im, manager in managers.items()}
        known = {im: manager.process for im, manager in self.managers.items()}
        moved = {im for im in there.keys() | known.keys() if there.get(im) != known.get(im)}
        first, self.managers, self.has_looked = not self.has_looked, managers, True
        return [name for name, record in self.queries.items() if first or not moved.isdisjoint(_concerned(record))]

    def _see(self, im: str, statuses: Mapping[str, Status | None]) -> list[str]:
        for name, status in statuses.items():
            if status is None:
                self.statuses.pop((im, name), None)
            else:
                self.statuses[im, name] = status
        return sorted({name.rsplit("~", 2)[0] for name in statuses} & self.queries.keys())

    # --- taking over

    def restore(self, nodes: Mapping[str, Any], now: Now) -> list[Command]:
        """Takes over what is written: path -> value, of all nodes the orchestrator writes. What is to be mended then."""
        self.judge_from = now.steady + self.session_timeout_s
        self._deployments.epoch = (nodes.get(node("queries")) or {}).get("epoch", 0)
        for _, value in below(nodes, "streams"):
            stream = stream_documents.from_json(value)
            self.streams[stream.name] = stream
        for _, value in below(nodes, "publishers"):
            self.remember_publisher(Publisher(**value))
        for _, value in below(nodes, "subscriptions"):
            self.subscriptions[value["stream"]][value["id"]] = Subscription(**value)
        for _, value in below(nodes, "queries"):
            self._restore_query(QueryRecord.from_json(value), nodes, now)
        self._written.restore(nodes, self.queries)
        for name in list(self.queries):
            self._deployments.advance(name, now)
        return self._written.commands()

    def _restore_query(self, record: QueryRecord, nodes: Mapping[str, Any], now: Now) -> None:
        document = nodes.get(node("plans", record.name))
        if document is None:
            return  # whoever was writing it was killed before the plan, so nobody was told that it is deployed
        for head, table in (nodes.get(node("tables", record.name)) or {"tables": {}})["tables"].items():
            self.tables[record.name][head] = BucketTable.from_json(table)
        self._deployments.restore(record, physical.from_json(document), document, now)


def _concerned(record: QueryRecord) -> set[str]:
    """The instance managers that it is on, or is about to be."""
    return {*record.hosts, *(instance.im for instance in moves.newcomers(record))}
