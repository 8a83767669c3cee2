"""What should be true in the cluster: the pure core of the orchestrator. No clock, no socket, no thread.

Rules:
1. `handle(event, now) -> commands`. A command is absolute (put this value, delete that node), so doing it twice is harmless.
2. Level-triggered: what is written for a query follows from its record and plan alone, and only differences are commands.
   Restored from what is in ZooKeeper, the state goes on where a killed orchestrator stopped.
3. A request that cannot be met raises before anything has changed.
4. Queries move by `LIFE_CYCLE` and in no other way.
5. A missing instance manager is no death until `judge_from`: one session timeout after ZooKeeper answers again.
6. Whatever stands in ZooKeeper, `restore` and what is seen raise nothing: what makes no sense is set aside (`quarantine.py`).

What is known, and questions about it: `cluster_model.py`. Streams, their publishers and readers: `catalog.py`. Queries: `deployments.py`,
by what their instances say (`query_status.py`). What is written for one: `assignments.py`; what differs: `desired_nodes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cep.config import ROOT, node, query_of_node
from cep.errors import CepError, Conflict, NotFound, ProtocolError
from cep.model import streams as stream_documents
from cep.model.hosts import Host
from cep.model.limits import EPOCH_MAX, checked
from cep.model.shapes import read_shape
from cep.plan import physical
from cep.plan.checkpoints import recovers
from cep.plan.validate import validate
from orchestrator.records import (
    BucketTable,
    Evacuation,
    InstanceManager,
    Now,
    PublisherRecord,
    QueryCheckpoints,
    QueryRecord,
    Status,
    SubscriptionRecord,
)
from orchestrator.state import evacuations, moves
from orchestrator.state.applications import Applications
from orchestrator.state.blame import Blame, Deaths
from orchestrator.state.catalog import Catalog
from orchestrator.state.checkpoint_budget import LED_S
from orchestrator.state.checkpoints import Checkpoints
from orchestrator.state.cluster_model import ClusterModel
from orchestrator.state.connectors import DeclaredConnectors
from orchestrator.state.deployments import Deployments
from orchestrator.state.desired_nodes import DEPTHS, DesiredNodes, below, empty_folders, names_of, strays
from orchestrator.state.events import (
    ClosePublisher,
    ClusterCommand,
    Connected,
    DeclareConnector,
    DeclareStream,
    DiscardNode,
    EvacuateHost,
    Event,
    ForgetApplication,
    ForgetConnector,
    ForgetQuery,
    HoldConnectors,
    HostsSeen,
    KeepApplication,
    ManagerDied,
    ManagersLive,
    ManagersSeen,
    ManifestFailed,
    MoveBuckets,
    MoveInstance,
    OfferMembersKey,
    OpenPublisher,
    RegisterKey,
    RenewLease,
    RevokeKey,
    RotateMembersKey,
    ScaleSubquery,
    StartQuery,
    StatusesSeen,
    StopQuery,
    SubmitQuery,
    Subscribe,
    Tick,
    UndeclareStream,
    Unsubscribe,
    UpgradeQuery,
)
from orchestrator.state.keys import ClusterKeys
from orchestrator.state.losses import see_dead, see_living
from orchestrator.state.quarantine import Quarantine, readable
from orchestrator.state.quotas import Quotas
from orchestrator.state.tables import check_table


class ClusterState(ClusterModel):
    """Everything that is known, and what follows from events for it. `term`: of this leader; `led_s`: see `CheckpointBudget`."""

    def __init__(
        self,
        session_timeout_s: float,
        quarantine: Quarantine | None = None,
        quotas: Quotas | None = None,
        term: int = 0,
        led_s: float = LED_S,
    ) -> None:
        super().__init__(quarantine or Quarantine(), quotas or Quotas())
        self.session_timeout_s = session_timeout_s
        self._steady = 0.0  # the time of the last event
        self._has_seen_hosts = False
        self._desired = DesiredNodes()
        self._refused: frozenset[tuple[str, str]] = frozenset()  # (instance manager, assignment that it cannot read)
        self._catalog = Catalog(self, self._desired)
        self.taking = Checkpoints(self, self._desired, term, led_s)
        self._deployments = Deployments(self, self._catalog, self._desired, self.taking)
        self.keys = ClusterKeys(self._desired)
        self.applications = Applications(self._desired, self._is_there)
        self.connectors = DeclaredConnectors(self._desired)

    def handle(self, event: Event, now: Now) -> list[ClusterCommand]:
        """What is to be written because of `event`, in order.

        Raises:
            Conflict: what is asked for contradicts what there is.
            NotFound: there is nothing of that name.
        """
        self._steady = now.steady
        for name in self._taken(event, now):
            self._deployments.advance(name, now)
        return self._desired.commands()

    def _taken(self, event: Event, now: Now) -> Iterable[str]:
        """What `_take` says. After a bug the query that met it is as if it had not been asked for, or set aside."""
        try:
            return self._take(event, now)
        except CepError:
            raise
        except Exception as error:
            if isinstance(event, SubmitQuery):
                self.drop_query(event.plan.query.name)
            elif (name := getattr(event, "query", None)) in self.queries:
                self._deployments.set_aside(name, error)
            raise

    @property
    def deadline(self) -> float | None:
        """The steady time at which a Tick is due; None: never."""
        deployments = self._deployments
        firsts = (each.first for each in (deployments.release_at, deployments.lease_until, self.taking.deadlines))
        times = [first for first in firsts if first is not None]
        if deployments.judged < self.judge_from and any(deployments.bereft()):
            times.append(self.judge_from)
        if evacuations.concerned(self):
            times.append(self._steady + evacuations.LOOK_S)
            times += [due for due in self.leave_by.values() if due > self._steady]
        if self.keys.sweep_at is not None:
            times.append(self.keys.sweep_at)
        return min(times, default=None)

    def check_publishers(self, publishers: Sequence[PublisherRecord]) -> None:
        """They are to be opened together. Raises Conflict: a stream would have too many."""
        self._catalog.check_publishers(publishers)

    # --- events

    def _take(self, event: Event, now: Now) -> Iterable[str]:
        """Notes the event; the queries it concerns."""
        match event:
            case SubmitQuery(plan, start, owner, lease_s):
                return self._deployments.submit(plan, start, now, owner, lease_s)
            case RenewLease(name):
                self._deployments.renew(name, now)
            case StartQuery(name):
                return self._deployments.start(name)
            case StopQuery(name, drain):
                return self._deployments.stop(name, "drain" if drain else "stop", now)
            case ForgetQuery(name):
                return self._deployments.forget(name, now)
            case MoveBuckets(name, head, table, unasked):
                return self._deployments.reroute(name, head, table, unasked)
            case MoveInstance(name, subquery, index, im, unasked):
                return self._deployments.relocate(name, subquery, index, im, unasked, now)
            case ScaleSubquery(name, subquery, instances):
                return self._deployments.scale(name, subquery, instances)
            case UpgradeQuery(plan, fresh):
                return self._deployments.upgrade(plan, fresh)
            case DeclareStream(stream):
                self._catalog.declare(stream)
            case DeclareConnector() | ForgetConnector() | HoldConnectors():
                self.connectors.handle(event, now.wall)
            case DiscardNode(path):
                self._discard(path)
            case UndeclareStream(stream_name):
                self._catalog.undeclare(stream_name)
            case OpenPublisher(publisher):
                self._catalog.open_publisher(publisher)
            case ClosePublisher(stream_name, name, endpoint):
                self._catalog.close_publisher(stream_name, name, endpoint)
            case Subscribe(subscription, resumes):
                return self._catalog.subscribe(subscription, resumes)
            case Unsubscribe(stream_name, id_, claim):
                return self._catalog.unsubscribe(stream_name, id_, claim)
            case ManagersSeen(managers, deaths):
                return self._see_managers(managers, deaths)
            case HostsSeen(hosts):
                return self._see_hosts(hosts)
            case EvacuateHost(host):
                return self._evacuate(host, now)
            case StatusesSeen(im, statuses):
                return self._see(im, statuses)
            case ManagerDied(im, process):
                return see_dead(self, im, process)
            case ManagersLive(processes):
                return see_living(self, processes)
            case ManifestFailed(name, why):
                return self.taking.manifest_failed(name, why, now)
            case Connected():
                self.judge_from = now.steady + self.session_timeout_s
            case OfferMembersKey() | RotateMembersKey() | RegisterKey() | RevokeKey():
                self.keys.take(event, now)
            case KeepApplication() | ForgetApplication():
                self.applications.take(event)
            case Tick():
                return self._tick(now)
        return ()

    def _is_there(self, kind: str, name: str) -> bool:
        """Of what an application may have."""
        there: dict[str, Container[str]] = {"queries": self.queries, "streams": self.streams, "connectors": self.connectors.records}
        return name in there[kind]

    def _tick(self, now: Now) -> list[str]:
        if self.keys.sweep_at is not None and self.keys.sweep_at <= now.steady:
            self.keys.sweep(now)
        due = {*evacuations.concerned(self), *self._deployments.release_due(now), *self._deployments.lease_due(now)}
        return sorted(due.union(self.taking.deadlines.take(now.steady)))

    def _discard(self, path: str) -> None:
        """Raises NotFound, or Conflict: it is not ours to remove."""
        if path not in self.quarantine.nodes:
            raise NotFound(f"{path!r} is not set aside; `cep status` shows what is")
        kind = path.removeprefix(f"{ROOT}/").partition("/")[0]
        if kind not in DEPTHS:
            raise Conflict(f"{path!r} is an instance manager's, and goes with it")
        query = names_of(path)[0] if kind == "queries" and names_of(path) else None
        if query in self.quarantine.queries:
            self._deployments.discard(query)
        else:
            self.quarantine.release(path)
            self._desired.delete(path)

    def _see_managers(self, managers: Mapping[str, InstanceManager], deaths: Deaths) -> list[str]:
        """The queries that are on one that has come, gone or been started anew, and those that miss one; all of them at the first look."""
        self.deaths = deaths
        there = {im: manager.process for im, manager in managers.items()}
        known = {im: manager.process for im, manager in self.managers.items()}
        moved = {im for im in there.keys() | known.keys() if there.get(im) != known.get(im)}
        self._note_refused(managers)
        first, self.managers, self.has_looked = not self.has_looked, managers, True
        concerned = [name for name, record in self.queries.items() if first or not moved.isdisjoint(_concerned(record))]
        for name in dict.fromkeys([*concerned, *(self.checkpoints if moved else ())]):
            self._deployments.blame(name)
        self._end_evacuations()
        return list(dict.fromkeys([*concerned, *(record.name for record in self._deployments.bereft())]))  # any may be their refuge

    def _see_hosts(self, hosts: Mapping[str, Host]) -> list[str]:
        self.hosts, self._has_seen_hosts = hosts, True
        self._end_evacuations()
        return evacuations.concerned(self)

    def _evacuate(self, host: str, now: Now) -> Iterable[str]:
        evacuation = evacuations.begun(self, host, now)
        self._leave(evacuation, now)
        self._desired.put(node("evacuations", host), evacuation.to_json())
        return evacuations.concerned(self)

    def _leave(self, evacuation: Evacuation, now: Now) -> None:
        left_s = min(evacuations.PATIENCE_S, max(0.0, evacuation.until - now.wall))
        self.leaving[evacuation.host] = evacuation
        self.leave_by.setdefault(evacuation.host, now.steady + left_s)

    def _end_evacuations(self) -> None:
        """Of hosts that are gone by now. Before both have been looked at, none is."""
        if self.has_looked and self._has_seen_hosts:
            for host in [host for host, evacuation in self.leaving.items() if evacuations.is_done(self, evacuation)]:
                del self.leaving[host], self.leave_by[host]
                self._desired.delete(node("evacuations", host))

    def _note_refused(self, managers: Mapping[str, InstanceManager]) -> None:
        """Assignments that instance managers cannot read are set aside, too."""
        said = {(im, key): why for im, manager in managers.items() for key, why in manager.refused.items()}
        for im, key in self._refused - said.keys():
            self.quarantine.release(node("assignments", im, key))
        for (im, key), why in said.items():
            self.quarantine.set_aside(node("assignments", im, key), f"{im} says: {why}")
        self._refused = frozenset(said)

    def _see(self, im: str, statuses: Mapping[str, Status | None]) -> list[str]:
        for name, status in statuses.items():
            if status is None:
                self.statuses.pop((im, name), None)
            else:
                self.statuses[im, name] = status
                self._catalog.forget_lost(query_of_node(name), status)
        return sorted({query_of_node(name) for name in statuses} & self.queries.keys())

    # --- taking over

    def restore(self, nodes: Mapping[str, Any], now: Now, epoch: int = 0) -> list[ClusterCommand]:
        """Takes over what is written: path -> value, of all nodes the orchestrator writes. What is to be mended then. `epoch`: of a
        deployment of which there is something elsewhere; the next one is later."""
        self.judge_from = now.steady + self.session_timeout_s
        kinds = {"streams": self._restore_stream, "publishers": self._restore_publisher, "subscriptions": self._restore_subscription}
        kinds |= {"blames": self._restore_blame, "evacuations": partial(self._restore_evacuation, now)}
        kinds["applications"] = lambda path, value: self.applications.restore(path, readable(value))
        kinds["keys"] = lambda path, value: self.keys.restore(path, readable(value), now)
        kinds["connectors"] = lambda path, value: self.connectors.restore(path, readable(value))
        for kind, take in kinds.items():
            for path, value in below(nodes, kind):
                self._take_over(path, partial(take, path, value))
        for path, value in below(nodes, "queries"):
            name = names_of(path)[0]
            if not self._take_over(path, partial(self._restore_query, name, value, nodes, now)):
                self._deployments.set_aside(name, self.quarantine.nodes[path])
        if (last := nodes.get(node("connectors"))) is not None:
            self._take_over(node("connectors"), lambda: self.connectors.restore_epoch(readable(last)))
        for path in strays(nodes):
            self.quarantine.set_aside(path, "nothing of this cluster stands here")
        for path in empty_folders(nodes):
            self._desired.delete(path)
        self.epoch = max(epoch, self._last_epoch(nodes))
        self._desired.restore(nodes, self.queries.keys() | self.quarantine.queries.keys())
        self.inherited = {place for record in self.queries.values() for place in record.hosts.items()}
        for name in list(self.queries):
            self._deployments.advance(name, now)
        return self._desired.commands()

    def _take_over(self, path: str, take: Callable[[], None]) -> bool:
        """Could it be done?"""
        try:
            take()
        except Exception as error:  # any process may have written it
            self.quarantine.set_aside(path, error)
            return False
        return True

    def _restore_stream(self, path: str, value: Any) -> None:
        stream = stream_documents.from_json(readable(value))
        _check_place(path, "streams", stream.name)
        self.streams[stream.name] = stream

    def _restore_publisher(self, path: str, value: Any) -> None:
        publisher = PublisherRecord.from_json(readable(value))
        _check_place(path, "publishers", publisher.stream, publisher.name)
        self.remember_publisher(publisher)

    def _restore_subscription(self, path: str, value: Any) -> None:
        subscription = SubscriptionRecord.from_json(readable(value))
        _check_place(path, "subscriptions", subscription.stream, subscription.id)
        self.subscriptions.put(subscription.stream, subscription.id, subscription)

    def _restore_blame(self, path: str, value: Any) -> None:
        blame = Blame.from_json(readable(value))
        _check_place(path, "blames", blame.query)
        self.blames[blame.query] = blame

    def _restore_evacuation(self, now: Now, path: str, value: Any) -> None:
        evacuation = Evacuation.from_json(readable(value))
        _check_place(path, "evacuations", evacuation.host)
        self._leave(evacuation, now)

    def _restore_query(self, name: str, value: Any, nodes: Mapping[str, Any], now: Now) -> None:
        record = QueryRecord.from_json(readable(value))
        _check_place(node("queries", name), "queries", record.name)
        document = nodes.get(node("plans", name))
        if document is None:
            return  # the orchestrator was killed before it wrote the plan, so no client was told that it is deployed
        plan = physical.from_json(readable(document))
        if plan.query.name != name:
            raise ProtocolError(f"the plan of query {name!r} is that of {plan.query.name!r}")
        validate(plan.query, plan.streams)  # code that asks for its schemas takes this for granted
        tables = read_shape(_Tables, readable(nodes.get(node("tables", name)) or {"tables": {}})).tables
        for head, table in tables.items():
            check_table(plan, head, table.table)
            self.tables[name][head] = table
        if recovers(plan):
            self.checkpoints[name] = QueryCheckpoints.from_json(readable(nodes.get(node("checkpoints", name)) or {}))
        self._deployments.restore(record, plan, document, now)

    def _last_epoch(self, nodes: Mapping[str, Any]) -> int:
        """The last epoch of all deployments so far, also where the node that counts them says nothing."""
        path, epochs = node("queries"), [record.epoch for record in self.queries.values()]
        value = nodes.get(path)
        self._take_over(path, lambda: epochs.append(0 if value is None else read_shape(_Epoch, readable(value)).checked))
        assigned = [value.get("epoch") for _, value in below(nodes, "assignments") if isinstance(value, dict)]
        return max([0, *epochs, *(epoch for epoch in assigned if type(epoch) is int and 0 <= epoch <= EPOCH_MAX)])


@dataclass(frozen=True, slots=True)
class _Epoch:
    epoch: int

    @property
    def checked(self) -> int:
        return int(checked(self.epoch, "epoch", 0, EPOCH_MAX))


@dataclass(frozen=True, slots=True)
class _Tables:
    tables: Mapping[str, BucketTable]


def _check_place(path: str, *names: str) -> None:
    """Raises ProtocolError: what is written there belongs elsewhere."""
    if path != node(*names):
        raise ProtocolError(f"this belongs to {node(*names)}, not to {path}")


def _concerned(record: QueryRecord) -> set[str]:
    """The instance managers that it is on, or is about to be."""
    return {*record.hosts, *(instance.im for instance in moves.newcomers(record))}
