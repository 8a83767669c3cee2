"""What should be true in the cluster: the pure core of the orchestrator. No clock, no socket, no thread.

Rules:
1. `handle(event, now) -> commands`. A command is absolute (put this value, delete that node), so doing it twice is harmless.
2. Level-triggered: what is written for a query follows from its record and plan alone, and only differences are commands.
   Restored from what is in ZooKeeper, the state goes on where a killed orchestrator stopped.
3. A request that cannot be met raises before anything has changed.
4. Queries move by `LIFE_CYCLE` and in no other way.
5. A missing instance manager is no death until `judge_from`: one session timeout after ZooKeeper answers again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from cep.config import node
from cep.errors import Conflict, NotFound
from cep.model import query as queries
from cep.model import streams as stream_documents
from cep.model.query import Query
from cep.model.streams import Stream
from cep.plan import physical
from cep.plan.moving import moving_together
from cep.plan.physical import Instance, PhysicalPlan, Worker
from orchestrator import moves
from orchestrator.events import (
    ClosePublisher,
    Command,
    Connected,
    Declare,
    Delete,
    Event,
    Forget,
    ManagersSeen,
    OpenPublisher,
    Put,
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
from orchestrator.life_cycle import DESIRED, LIFE_CYCLE, STARTABLE, STOPPING, is_over, signals, step
from orchestrator.records import (
    KEEP_S,
    BucketTable,
    Cause,
    Manager,
    Now,
    Publisher,
    QueryRecord,
    Relocation,
    Status,
    Subscription,
    added_up,
)
from orchestrator.tables import check_table, planned_table


class ClusterState:
    """Queries, plans, streams, publishers and subscriptions as they should be; instance managers and statuses as seen."""

    def __init__(self, session_timeout_s: float) -> None:
        self.session_timeout_s = session_timeout_s
        self.epoch = 0
        self.judge_from = 0.0
        self._steady = 0.0  # the time of the last event
        self.queries: dict[str, QueryRecord] = {}
        self.plans: dict[str, PhysicalPlan] = {}
        self.tables: dict[str, dict[str, BucketTable]] = defaultdict(dict)  # query -> subquery -> its buckets, where they have moved
        self.streams: dict[str, Stream] = {}
        self.publishers: dict[str, dict[str, Publisher]] = defaultdict(dict)
        self.subscriptions: dict[str, dict[str, Subscription]] = defaultdict(dict)
        self.managers: Mapping[str, Manager] = {}
        self._has_looked = False  # before it has, nobody is missing
        self.statuses: dict[tuple[str, str], Status] = {}
        self._plan_documents: dict[str, Any] = {}
        self._read_by: dict[str, set[str]] = defaultdict(set)  # query -> those that read its outputs
        self._putting_out: dict[str, dict[str, None]] = defaultdict(dict)  # stream -> the queries that put it out, oldest first
        self._reading: dict[str, dict[str, None]] = defaultdict(dict)  # stream -> the queries that read it, oldest first
        self._hosting: Counter[str] = Counter()  # instance manager -> instances of queries that are not over
        self._at: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)  # endpoint -> (stream, publisher) open there
        self._changed: dict[str, int] = {}  # stream -> number of the last change of a query that reads it; the latest last
        self.changes = 0  # so far
        self._written: dict[str, dict[str, Any]] = defaultdict(dict)
        self._release_at: dict[str, float] = {}
        self._outbox: list[Command] = []

    def handle(self, event: Event, now: Now) -> list[Command]:
        """What is to be written because of `event`, in order.

        Raises:
            Conflict: what is asked for contradicts what there is.
            NotFound: there is nothing of that name.
        """
        self._steady = now.steady
        for name in self._take(event, now):
            self._advance(name, now)
        commands, self._outbox = self._outbox, []
        return commands

    def restore(self, nodes: Mapping[str, Any], now: Now) -> list[Command]:
        """Takes over what is written: path -> value, of all nodes the orchestrator writes. What is to be mended then."""
        self.judge_from = now.steady + self.session_timeout_s
        self.epoch = (nodes.get(node("queries")) or {}).get("epoch", 0)
        for value in _under(nodes, "streams"):
            self._remember_stream(stream_documents.from_json(value))
        for value in _under(nodes, "publishers"):
            self._remember_publisher(Publisher(**value))
        for value in _under(nodes, "subscriptions"):
            self.subscriptions[value["stream"]][value["id"]] = Subscription(**value)
        for value in _under(nodes, "queries"):
            self._restore_query(QueryRecord.from_json(value), nodes, now)
        self._restore_written(nodes)
        for name in list(self.queries):
            self._advance(name, now)
        commands, self._outbox = self._outbox, []
        return commands

    @property
    def deadline(self) -> float | None:
        """The steady time at which a Tick is due; None: never."""
        times = list(self._release_at.values())
        if self._steady < self.judge_from and any(self._missing(record) for record in self._can_fail()):
            times.append(self.judge_from)
        return min(times, default=None)

    def _can_fail(self) -> Iterator[QueryRecord]:
        return (record for record in self.queries.values() if "failure" in LIFE_CYCLE[record.state])

    # --- questions

    def query(self, name: str) -> QueryRecord:
        """Raises NotFound."""
        if name not in self.queries:
            there = ", ".join(map(repr, sorted(self.queries)[:10])) or "none"
            raise NotFound(f"there is no query {name!r}; there is {there}")
        return self.queries[name]

    def check_new(self, query: Query) -> None:
        """Raises Conflict: the name is taken, a stream is declared differently, or another query feeds an output stream."""
        if query.name in self.queries:
            raise Conflict(f"there is a query {query.name!r} already ({self.queries[query.name].state}); delete it first")
        for stream in query.streams:
            self._check_stream(stream)
        for name in sorted({output.stream for output in query.outputs}):
            for other in self.putting_out(name):
                if not is_over(other.state):
                    raise Conflict(f"stream {name!r} is the output of query {other.name!r}, which is {other.state}")

    def workers(self) -> tuple[Worker, ...]:
        """The instance managers for the planner; a core that hosts n instances has 1 / (n + 1) left."""
        managers = (self.managers[im] for im in sorted(self.managers))
        return tuple(Worker(m.im, m.node, m.core, m.endpoint, 1 / (1 + self._hosting[m.im])) for m in managers)

    def putting_out(self, stream: str) -> list[QueryRecord]:
        """The queries of which `stream` is an output, the oldest first."""
        return [self.queries[name] for name in self._putting_out.get(stream, ())]

    def reading(self, stream: str) -> list[QueryRecord]:
        """The queries that read `stream`, the oldest first."""
        return [self.queries[name] for name in self._reading.get(stream, ())]

    def opened_at(self, endpoint: str) -> list[tuple[str, str]]:
        """(stream, publisher) of those that are open at an endpoint."""
        return list(self._at.get(endpoint, ()))

    def read_anew(self, endpoint: str, since: int) -> list[str]:
        """The streams published at `endpoint` of whose readers there may be news since change number `since`."""
        published = {stream for stream, _ in self._at.get(endpoint, ())}
        return sorted(published.intersection(takewhile(lambda stream: self._changed[stream] > since, reversed(self._changed))))

    def status(self, record: QueryRecord, instance: Instance) -> Status | None:
        """What is known of an instance of this deployment; of one that moves, by its new place as soon as it has left the old one."""
        return self.status_at(record, moves.home(self, record, instance), instance)

    def status_at(self, record: QueryRecord, im: str, instance: Instance | Relocation) -> Status | None:
        """What instance manager `im` says of it."""
        seen = self.statuses.get((im, moves.node_name(record.name, instance)))
        return seen if seen is not None and seen.epoch == record.epoch else None

    def rows(self, record: QueryRecord) -> dict[str, int]:
        """Output stream -> rows that came out, as far as the instances have said."""
        if is_over(record.state):
            return dict(record.rows)
        statuses = [self.status(record, instance) for instance in self.plans[record.name].instances]
        counts: Counter[str] = Counter()
        for status in statuses:
            counts.update(status.rows if status is not None else {})
        return {stream: counts[stream] for stream in sorted(self.outputs_of(record.name))}

    def operators(self, record: QueryRecord) -> dict[str, list[dict[str, Any]]]:
        """Subquery -> what its operators and other steps have taken in, given out and cost, as far as instances that are over said."""
        if is_over(record.state):
            return {subquery: [dict(each) for each in figures] for subquery, figures in record.operators.items()}
        said = [(i.subquery, self.status(record, i)) for i in self.plans[record.name].instances]
        by_subquery: dict[str, list[Mapping[str, Any]]] = {}
        for subquery, status in said:
            by_subquery.setdefault(subquery, []).extend(() if status is None else status.operators)
        return {subquery: added_up(figures) for subquery, figures in by_subquery.items() if figures}

    def table(self, query: str, head: str) -> BucketTable:
        """Where the buckets of `head` are, or are on their way to."""
        return self.tables.get(query, {}).get(head) or BucketTable(0, planned_table(self.plans[query], head))

    def is_moving(self, record: QueryRecord, head: str) -> bool:
        """Are some of its instances not yet where its table says?"""
        version, together = self.table(record.name, head).version, moving_together(self.plans[record.name], head)
        statuses = [self.status(record, i) for i in self.plans[record.name].instances if i.subquery in together]
        return any(status is None or (status.table < version and status.state != "ended") for status in statuses)

    # --- events

    def _take(self, event: Event, now: Now) -> Iterable[str]:
        """Notes the event; the queries it concerns."""
        match event:
            case Submit(plan, start):
                return self._submit(plan, start, now)
            case Start(name):
                return self._start(name)
            case Stop(name, drain):
                return self._stop(name, "drain" if drain else "stop", now)
            case Forget(name):
                return self._forget(name, now)
            case Reroute(name, head, table):
                return self._reroute(name, head, table)
            case Relocate(name, subquery, index, im):
                self.queries[name] = moves.begun(self, self.query(name), subquery, index, im)
                return [name]
            case Declare(stream):
                self._check_fed(stream)
                self._declare(stream)
            case Undeclare(stream_name):
                self._undeclare(stream_name)
            case OpenPublisher(publisher):
                self._close_publisher(publisher.stream, publisher.name)
                self._remember_publisher(publisher)
                self._put(node("publishers", publisher.stream, publisher.name), publisher.to_json())
            case ClosePublisher(stream_name, name):
                if self._close_publisher(stream_name, name):
                    self._delete(node("publishers", stream_name, name))
            case Subscribe(subscription):
                return self._subscribe(subscription)
            case Unsubscribe(stream_name, id_):
                return self._unsubscribe(stream_name, id_)
            case ManagersSeen(managers):
                return self._see_managers(managers)
            case StatusesSeen(im, statuses):
                return self._see(im, statuses)
            case Connected():
                self.judge_from = now.steady + self.session_timeout_s
            case Tick():
                return self._release_due(now)
        return ()

    def _submit(self, plan: PhysicalPlan, start: bool, now: Now) -> list[str]:
        query = plan.query
        self.check_new(query)
        stayed = self._keep_in_place(plan)
        hosts = {worker.im: self.managers[worker.im].pid for worker in plan.workers}
        self.epoch += 1
        self._put(node("queries"), {"epoch": self.epoch})
        for stream in query.streams:
            if stream.name not in plan.feeds:
                self._declare(stream)
        self.queries[query.name] = QueryRecord(query.name, queries.to_json(query), self.epoch, hosts, start)
        self._remember_plan(query.name, plan, physical.to_json(plan))
        self._request(query.name, "assign", now)
        return [query.name, *stayed]

    def _keep_in_place(self, plan: PhysicalPlan) -> list[str]:
        """The queries that `plan` reads: a move of one of their instances is given up, or raises Conflict if it is too late for that."""
        moving = [record for feed in plan.feeds.values() if (record := self.queries[feed.query]).move is not None]
        late = next((record.move for record in moving if record.move is not None and record.move.redirecting), None)
        if late is not None:
            raise Conflict(f"query {plan.query.name!r} cannot read another just now: {late.described}; deploy it again in a moment")
        self.queries |= {r.name: moves.given_up(r, f"query {plan.query.name!r} begins to read what it puts out") for r in moving}
        return [record.name for record in moving]

    def _start(self, name: str) -> list[str]:
        record = self.query(name)
        if record.state not in STARTABLE:
            raise Conflict(f"query {name!r} is {record.state} and cannot start")
        desired = "run" if record.state == "ready" else record.desired
        self.queries[name] = replace(record, start=True, desired=desired)
        return [name]

    def _stop(self, name: str, signal: str, now: Now) -> list[str]:
        record = self.query(name)
        if is_over(record.state):
            self._release(name)
        elif signal in LIFE_CYCLE[record.state] or record.state not in STOPPING:
            self._request(name, signal, now)
        return [name]

    def _forget(self, name: str, now: Now) -> list[str]:
        self.query(name)
        self._stop(name, "stop", now)
        self.queries[name] = replace(self.queries[name], forget=True)
        return [name]

    def _reroute(self, name: str, head: str, table: tuple[int, ...]) -> list[str]:
        record = self.query(name)
        if record.state != "running":
            raise Conflict(f"query {name!r} is {record.state}: buckets move only while it is running")
        if record.move is not None:
            raise Conflict(f"buckets of {head} of query {name!r} cannot move now: {record.move.described}; wait until it is there")
        check_table(self.plans[name], head, table)
        present = self.table(name, head)
        if self.is_moving(record, head):
            raise Conflict(f"buckets of {head} of query {name!r} are moving, to table version {present.version}; wait until they have")
        if table != present.table:
            self.tables[name][head] = BucketTable(present.version + 1, table)
        return [name]

    def _subscribe(self, subscription: Subscription) -> list[str]:
        self.subscriptions[subscription.stream][subscription.id] = subscription
        self._put(node("subscriptions", subscription.stream, subscription.id), subscription.to_json())
        return self._feeding(subscription.stream)

    def _unsubscribe(self, stream: str, id_: str) -> list[str]:
        if self.subscriptions[stream].pop(id_, None) is None:
            return []
        self._delete(node("subscriptions", stream, id_))
        return self._feeding(stream)

    def _see_managers(self, managers: Mapping[str, Manager]) -> list[str]:
        """The queries that are on one that has come, gone or been started anew; all of them at the first look."""
        pids = {im: manager.pid for im, manager in managers.items()}
        known = {im: manager.pid for im, manager in self.managers.items()}
        moved = {im for im in pids.keys() | known.keys() if pids.get(im) != known.get(im)}
        first, self.managers, self._has_looked = not self._has_looked, managers, True
        return [name for name, record in self.queries.items() if first or not moved.isdisjoint(_concerned(record))]

    def _close_publisher(self, stream: str, name: str) -> bool:
        """Was it open?"""
        known = self.publishers[stream].pop(name, None)
        if known is not None:
            self._at[known.endpoint].pop((stream, name), None)
        return known is not None

    def _remember_publisher(self, publisher: Publisher) -> None:
        self.publishers[publisher.stream][publisher.name] = publisher
        self._at[publisher.endpoint][publisher.stream, publisher.name] = None

    def _see(self, im: str, statuses: Mapping[str, Status | None]) -> list[str]:
        for name, status in statuses.items():
            if status is None:
                self.statuses.pop((im, name), None)
            else:
                self.statuses[im, name] = status
        return sorted({name.rsplit("~", 2)[0] for name in statuses} & self.queries.keys())

    def _release_due(self, now: Now) -> list[str]:
        due = [name for name, time in self._release_at.items() if time <= now.steady]
        for name in due:
            self._release(name)
        return sorted({*due, *(record.name for record in self._can_fail() if self._missing(record))})

    # --- the life of a query

    def _advance(self, name: str, now: Now) -> None:
        """As far as the life cycle leads with what is seen; then writes what differs."""
        self.changes += 1
        for stream in self.plans[name].streams:
            self._changed.pop(stream, None)
            self._changed[stream] = self.changes
        while (record := self.queries[name]) and (target := step(record.state, self._signals(record, now))):
            self._enter(record, target, now)
        record = self._move_on(record)
        if record.forget and is_over(record.state):
            self._vanish(record)
        else:
            self._write(name, dict(self._nodes(record)))
        if record.broken:
            self._tell_readers(record, now)

    def _move_on(self, record: QueryRecord) -> QueryRecord:
        """As far as the move of one of its instances has come; when it is there, the plan says so."""
        record = moves.advanced(self, record) if self._has_looked else record
        move = record.move
        if move is not None and moves.has_arrived(self, record):
            plan = self.plans[record.name] = moves.moved_plan(self, record)
            self._plan_documents[record.name] = physical.to_json(plan)
            self._hosting.update({move.target: 1})
            self._hosting.subtract({move.source: 1})
            record = replace(record, move=None, hosts={i.im: record.hosts[i.im] for i in plan.instances})
        self.queries[record.name] = record
        return record

    def _tell_readers(self, record: QueryRecord, now: Now) -> None:
        """Queries that read its outputs stay as they are, and know why nothing comes (DESIGN 4.13)."""
        for name in sorted(self._read_by[record.name]):
            reader = self.queries[name]
            fed = [s for s, feed in self.plans[name].feeds.items() if (feed.query, feed.epoch) == (record.name, record.epoch)]
            lost = dict.fromkeys(fed, record.broken) | dict(reader.lost)
            if lost != reader.lost and not is_over(reader.state):
                self.queries[name] = replace(reader, lost=lost)
                self._advance(name, now)

    def _signals(self, record: QueryRecord, now: Now) -> frozenset[str]:
        seen = signals(self._statuses(record))
        return seen | {"failure"} if self._failure(record, now) else seen

    def _statuses(self, record: QueryRecord) -> Iterator[str | None]:
        missing = self._missing(record)
        for instance in self.plans[record.name].instances:
            status = self.status(record, instance)
            yield "gone" if moves.home(self, record, instance) in missing else None if status is None else status.state

    def _failure(self, record: QueryRecord, now: Now) -> Cause | None:
        """The first failed instance in topological order, or the first whose instance manager is lost."""
        missing = self._missing(record) if now.steady >= self.judge_from else {}
        coming = moves.newcomers(record) if record.move is not None and record.move.redirecting else ()
        for instance in (*self.plans[record.name].instances, *coming):
            status = self.status(record, instance)
            if status is not None and status.state == "failed":
                return Cause(instance.subquery, instance.index, status.cause or "no cause was given")
            if instance.im in missing:
                return Cause(instance.subquery, instance.index, missing[instance.im])
        return None

    def _missing(self, record: QueryRecord) -> dict[str, str]:
        """Instance managers of the deployment that are not there, or are there anew: id -> what happened."""
        missing = {}
        for im, pid in record.hosts.items() if self._has_looked else ():
            manager = self.managers.get(im)
            if manager is None:
                missing[im] = f"instance manager {im!r} (process {pid}) is gone: its ZooKeeper session ended"
            elif manager.pid != pid:
                missing[im] = f"instance manager {im!r} was started anew (process {pid}, now {manager.pid}): its state is lost"
        return missing

    def _request(self, name: str, signal: str, now: Now) -> None:
        record = self.queries[name]
        target = LIFE_CYCLE[record.state].get(signal)
        if target is None:
            raise Conflict(f"query {name!r} is {record.state}: it cannot {signal} now")
        self._enter(record, target, now)

    def _enter(self, record: QueryRecord, state: str, now: Now) -> None:
        desired = "run" if state == "ready" and record.start else DESIRED.get(state)
        entered = record.entered(state, now, desired)
        if state == "failed":
            entered = replace(entered, cause=self._failure(record, now))
        if is_over(state):
            self._hosting.subtract(i.im for i in self.plans[record.name].instances if not is_over(record.state))
            readers = tuple((s.stream, s.id) for s in self._subscriptions(record))
            entered = replace(entered, readers=readers, rows=self.rows(record), operators=self.operators(record))
            self._release_at[record.name] = now.steady + self._keep(entered)
        self.queries[record.name] = entered

    def _subscriptions(self, record: QueryRecord) -> list[Subscription]:
        """Who reads its outputs. Of a query that is over: who did then; who came later waits for the next."""
        all_ = [s for stream in sorted(self.outputs_of(record.name)) for s in self.subscriptions[stream].values()]
        return [s for s in all_ if (s.stream, s.id) in record.readers] if is_over(record.state) else all_

    def _keep(self, record: QueryRecord) -> float:
        """For how long somebody may still read what the query left."""
        return max((s.keep_s for s in self._subscriptions(record)), default=KEEP_S)

    def _release(self, name: str) -> None:
        """Withdraws the assignments of a query that is over, and its subscriptions."""
        self._release_at.pop(name, None)
        for subscription in self._subscriptions(self.queries[name]):
            self._unsubscribe(subscription.stream, subscription.id)
        self.queries[name] = replace(self.queries[name], released=True)

    def _vanish(self, record: QueryRecord) -> None:
        self._release(record.name)
        self._write(record.name, {})
        for feed in self.plans[record.name].feeds.values():
            self._read_by[feed.query].discard(record.name)
        for stream in self.outputs_of(record.name):
            self._putting_out[stream].pop(record.name, None)
        for stream in self.plans[record.name].streams:
            self._reading[stream].pop(record.name, None)
        for kept in (self.queries, self.plans, self.tables, self._plan_documents, self._written):
            kept.pop(record.name, None)

    # --- what is written

    def _nodes(self, record: QueryRecord) -> Iterator[tuple[str, Any]]:
        """Everything that should be in ZooKeeper for a query: the plan before what refers to it."""
        yield node("queries", record.name), record.to_json()
        yield node("plans", record.name), self._plan_documents[record.name]
        tables = self.tables.get(record.name)
        if tables:
            yield node("tables", record.name), {"name": record.name, "tables": {head: each.to_json() for head, each in tables.items()}}
        if not record.released:
            for instance in (*self.plans[record.name].instances, *moves.newcomers(record)):
                yield node("assignments", instance.im, moves.node_name(record.name, instance)), self._assignment(record, instance)

    def _assignment(self, record: QueryRecord, instance: Instance) -> dict[str, Any]:
        plan = self.plans[record.name]
        edges = (*plan.edges_out_of(instance.subquery), *plan.late_edges(instance.subquery))
        outputs = {edge.consumer for edge in edges if edge.is_output}
        own = {"query": record.name, "subquery": instance.subquery, "instance": instance.index, "epoch": record.epoch}
        leads_to = {edge.target for edge in edges}
        if tables := {head: each.version for head, each in self.tables.get(record.name, {}).items() if head in leads_to}:
            own["tables"] = tables
        if record.move is not None:
            own["move"] = moves.asked(self, record, record.move)
        return own | {
            "desired": record.desired,
            "cause": record.cause and record.cause.text,
            "failed_subquery": record.cause and record.cause.subquery,
            "failed_instance": record.cause and record.cause.instance,
            "lost": {stream: why for stream, why in record.lost.items() if stream in plan.subquery(instance.subquery).streams},
            "subscriptions": [s.to_json() for s in self._subscriptions(record) if s.stream in outputs],
        }

    def _write(self, query: str, wanted: dict[str, Any]) -> None:
        written = self._written[query]
        for path in [path for path in reversed(written) if path not in wanted]:
            self._delete(path)
        for path, value in wanted.items():
            if path not in written or written[path] != value:
                self._put(path, value)
        self._written[query] = wanted

    def _put(self, path: str, value: Any) -> None:
        self._outbox.append(Put(path, value))

    def _delete(self, path: str) -> None:
        self._outbox.append(Delete(path))

    # --- streams

    def _check_stream(self, stream: Stream) -> None:
        known = self.streams.get(stream.name)
        if known is not None and stream_documents.to_json(known) != stream_documents.to_json(stream):
            raise Conflict(
                f"stream {stream.name!r} is declared already, and differently: as {stream_documents.to_json(known)}, "
                f"not as {stream_documents.to_json(stream)}; a changed stream needs a new name, such as {stream.name}@2"
            )

    def _check_fed(self, stream: Stream) -> None:
        """Raises Conflict: it is an output of a query, whose event time it carries (DESIGN 4.4)."""
        live = [name for name in self._feeding(stream.name) if not is_over(self.queries[name].state)]
        if live and (stream.event_time is not None or stream.files is not None):
            raise Conflict(f"stream {stream.name!r} is an output of query {live[0]!r} and has its event time; take another name")

    def _declare(self, stream: Stream) -> None:
        self._check_stream(stream)
        if stream.name not in self.streams:
            self._remember_stream(stream)
            self._put(node("streams", stream.name), stream_documents.to_json(stream))

    def _undeclare(self, name: str) -> None:
        if name not in self.streams:
            raise NotFound(f"there is no declared stream {name!r}; the output of a query goes with its query")
        for record in self.reading(name):
            if not is_over(record.state):
                raise Conflict(f"stream {name!r} is read by query {record.name!r}, which is {record.state}; stop it first")
        if self.publishers[name]:
            raise Conflict(f"stream {name!r} has an open publisher, {min(self.publishers[name])!r}; close it first")
        del self.streams[name]
        self._delete(node("streams", name))

    def _remember_stream(self, stream: Stream) -> None:
        self.streams[stream.name] = stream

    def outputs_of(self, query: str) -> frozenset[str]:
        """The names of its output streams."""
        return frozenset(edge.consumer for edge in self.plans[query].edges if edge.is_output)

    def _feeding(self, stream: str) -> list[str]:
        """The queries whose output is `stream` and from which something may still be read."""
        return [record.name for record in self.putting_out(stream) if not record.released]

    # --- taking over

    def _remember_plan(self, name: str, plan: PhysicalPlan, document: Any) -> None:
        self.plans[name], self._plan_documents[name] = plan, document
        for feed in plan.feeds.values():
            self._read_by[feed.query].add(name)
        for stream in sorted(self.outputs_of(name)):
            self._putting_out[stream][name] = None
        for stream in plan.streams:
            self._reading[stream][name] = None
        if not is_over(self.queries[name].state):
            self._hosting.update(instance.im for instance in plan.instances)

    def _restore_query(self, record: QueryRecord, nodes: Mapping[str, Any], now: Now) -> None:
        document = nodes.get(node("plans", record.name))
        if document is None:
            return  # whoever was writing it was killed before the plan, so nobody was told that it is deployed
        self.queries[record.name] = record
        self._remember_plan(record.name, physical.from_json(document), document)
        for head, table in (nodes.get(node("tables", record.name)) or {"tables": {}})["tables"].items():
            self.tables[record.name][head] = BucketTable.from_json(table)
        if is_over(record.state) and not record.released:
            self._release_at[record.name] = now.steady + self._keep(record)

    def _restore_written(self, nodes: Mapping[str, Any]) -> None:
        """Files what is written under the query it belongs to; what belongs to none is to go."""
        for kind in ("queries", "plans", "tables", "assignments"):
            for path, value in _below(nodes, kind):
                name = value["query"] if kind == "assignments" else _query_of(value)
                if name in self.queries:
                    self._written[name][path] = value
                else:
                    self._delete(path)


def _query_of(value: Mapping[str, Any]) -> str:
    """The name in a query's record or in its plan."""
    return str(value["name"] if "name" in value else value["query"]["name"])


def _below(nodes: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Any]]:
    prefix = node(kind) + "/"
    return ((path, value) for path, value in nodes.items() if path.startswith(prefix) and value is not None)


def _under(nodes: Mapping[str, Any], kind: str) -> Iterator[Any]:
    return (value for _, value in _below(nodes, kind))


def _concerned(record: QueryRecord) -> set[str]:
    """The instance managers that it is on, or is about to be."""
    return {*record.hosts, *(instance.im for instance in moves.newcomers(record))}
