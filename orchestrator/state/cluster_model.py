"""What the orchestrator knows, and the indices that answer questions about it. Nothing here decides anything.

How things should be (queries, plans, streams, publishers, subscriptions) is kept in ZooKeeper too and comes back from there; how they
are (instance managers, statuses) is as it was last seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from cep.errors import Conflict, NotFound, QueryError, meant
from cep.model import query as queries
from cep.model.growth import wider
from cep.model.hosts import Host, Machines
from cep.model.query import Query
from cep.model.streams import Stream
from cep.model.topology import Topology
from cep.plan.moving import moving_together, planned_table
from cep.plan.physical import Instance, PhysicalPlan, Worker
from orchestrator.records import (
    BucketTable,
    Evacuation,
    InstanceManager,
    Process,
    PublisherRecord,
    QueryCheckpoints,
    QueryRecord,
    Relocation,
    Status,
    SubscriptionRecord,
)
from orchestrator.state import moves
from orchestrator.state.blame import Blame, Deaths, check_blame
from orchestrator.state.desired_nodes import as_json
from orchestrator.state.exclusive import closed_to
from orchestrator.state.grouped import GroupedMap, SizedMap
from orchestrator.state.life_cycle import is_over
from orchestrator.state.quarantine import Quarantine
from orchestrator.state.quotas import Quotas, check_size


class ClusterModel:
    """Queries, plans, streams, publishers and subscriptions as they should be; instance managers and statuses as seen."""

    def __init__(self, quarantine: Quarantine, quotas: Quotas) -> None:
        self.quarantine, self.quotas = quarantine, quotas
        self.epoch = 0  # of the last deployment
        self.queries: dict[str, QueryRecord] = {}
        self.plans: dict[str, PhysicalPlan] = {}
        self.plan_documents: dict[str, Any] = {}
        self.tables: dict[str, dict[str, BucketTable]] = defaultdict(dict)  # query -> subquery -> its buckets, where they have moved
        self.streams: dict[str, Stream] = {}
        self.publishers: GroupedMap[str, PublisherRecord] = GroupedMap()  # stream -> name -> publisher
        self.subscriptions: SizedMap[str, SubscriptionRecord] = SizedMap(lambda each: len(as_json(each.to_json())) + 1)  # stream -> id
        self.managers: Mapping[str, InstanceManager] = {}
        self.hosts: Mapping[str, Host] = {}  # those that have joined, by name
        self.leaving: dict[str, Evacuation] = {}  # host -> how it is to be left
        self.leave_by: dict[str, float] = {}  # likewise, the steady time at which its patience ends
        self.deaths: Deaths = {}  # of instance managers
        self.dead: set[tuple[str, Process]] = set()  # processes of which it was seen that they are over
        self.checkpoints: dict[str, QueryCheckpoints] = {}  # of queries that recover
        self.blames: dict[str, Blame] = {}  # query -> the deaths that it is blamed for
        self.has_looked = False  # before it has, no instance manager is missing
        self.judge_from = 0.0  # before this steady time no missing instance manager is taken for dead
        self.inherited: set[tuple[str, Process]] = set()  # instance managers that an orchestrator before has given instances
        self.outlived = False  # one of those was seen to live since: this is no cold start
        self.statuses: dict[tuple[str, str], Status] = {}  # by instance manager and name of the node
        self.changes = 0  # so far
        self._readers: dict[str, tuple[PhysicalPlan, tuple[object, ...]]] = {}  # query -> what publishers have been told last
        self._changed: dict[str, int] = {}  # open stream -> number of the last change of a query that reads it; the latest last
        self._read_by: GroupedMap[str, bool] = GroupedMap()  # query -> those that read its outputs
        self._putting_out: GroupedMap[str, bool] = GroupedMap()  # stream -> the queries that put it out, oldest first
        self._reading: GroupedMap[str, bool] = GroupedMap()  # stream -> the queries that read it, oldest first
        self._hosting: Counter[str] = Counter()  # instance manager -> instances of queries that are not over
        self._at: GroupedMap[tuple[str, str], bool] = GroupedMap()  # endpoint -> (stream, publisher) open there

    # --- queries

    def query(self, name: str) -> QueryRecord:
        """Raises NotFound, or Conflict: it is set aside."""
        if name in self.quarantine.queries:
            raise Conflict(f"query {name!r} is set aside: {self.quarantine.queries[name]}; delete it, and deploy it again")
        if name not in self.queries:
            there = ", ".join(map(repr, sorted(self.queries)[:10]))
            raise NotFound(
                f"there is no query {name!r}{meant(name, self.queries)}; " + (f"there is {there}" if there else "no query is deployed")
            )
        return self.queries[name]

    def check_new(self, query: Query, owner: str = "", instead: bool = False) -> None:
        """Raises Conflict: the name is set aside, or taken, unless it is meant `instead` of the query that has it; a stream is declared
        differently, another query feeds an output stream, it has ended too many instance managers, or there are as many queries, or as much
        of subscriptions to its outputs, as may be; TooLarge."""
        if query.name in self.quarantine.queries:
            self.query(query.name)
        if query.name in self.queries and not instead:
            raise Conflict(f"there is a query {query.name!r} already ({self.queries[query.name].state}); delete it first")
        document, outputs = queries.to_json(query), {*(output.stream for output in query.outputs), query.late or ""}
        check_blame(self.blames.get(query.name), query.name, document)
        self.check_size(QueryRecord(query.name, document, 0, {}), outputs)
        others = (record for record in self.queries.values() if record.name != query.name and not is_over(record.state))
        self.quotas.check_query(query.name, owner, (record.owner for record in others))
        for stream in query.streams:
            self.check_declared(stream)
        for name in sorted({output.stream for output in query.outputs}):
            for other in self.putting_out(name):
                if not is_over(other.state) and other.name != query.name:
                    raise Conflict(f"stream {name!r} is the output of query {other.name!r}, which is {other.state}")

    def outputs_of(self, query: str) -> frozenset[str]:
        """The names of its output streams."""
        return frozenset(edge.consumer for edge in self.plans[query].edges if edge.is_output)

    def readers_of(self, query: str) -> list[str]:
        """The queries that read its outputs."""
        return sorted(self._read_by[query])

    def subscriptions_of(self, record: QueryRecord) -> list[SubscriptionRecord]:
        """The readers of its outputs. For a query that is over: those of then; later ones wait for the next."""
        all_ = [s for stream in sorted(self.outputs_of(record.name)) for s in self.subscriptions[stream].values()]
        return [s for s in all_ if (s.stream, s.id) in record.readers] if is_over(record.state) else all_

    def check_size(self, record: QueryRecord, outputs: Iterable[str], more: int = 0) -> None:
        """`more`: bytes of a subscription that is to come to one of its `outputs`. Raises TooLarge or Conflict: it could not be written
        until it is over."""
        subscribed = sum(self.subscriptions.total(stream) for stream in outputs)
        check_size(record.name, len(as_json(record.to_json())), subscribed + more)

    def table(self, query: str, head: str) -> BucketTable:
        """Where the buckets of `head` are, or are on their way to."""
        return self.tables.get(query, {}).get(head) or BucketTable(0, planned_table(self.plans[query], head))

    def is_moving(self, record: QueryRecord, head: str) -> bool:
        """Are some of its instances not yet where its table says?"""
        version, together = self.table(record.name, head).version, moving_together(self.plans[record.name], head)
        statuses = [self.status(record, i) for i in self.plans[record.name].instances if i.subquery in together]
        return any(status is None or (status.table < version and status.state != "ended") for status in statuses)

    def remember_plan(self, name: str, plan: PhysicalPlan, document: Any) -> None:
        """Keeps the plan of a query that is known already."""
        self.plans[name], self.plan_documents[name] = plan, document
        for feed in plan.feeds.values():
            self._read_by.put(feed.query, name, True)
        for stream in sorted(self.outputs_of(name)):
            self._putting_out.put(stream, name, True)
        for stream in plan.streams:
            self._reading.put(stream, name, True)
        if not is_over(self.queries[name].state):
            self._hosting.update(instance.im for instance in plan.instances)

    def has_moved(self, plan: PhysicalPlan, document: Any, move: Relocation) -> None:
        """An instance is elsewhere by the plan of its query."""
        self.plans[plan.query.name], self.plan_documents[plan.query.name] = plan, document
        self._hosting.update({move.target: 1})
        self._hosting.subtract({move.source: 1})

    def is_placed_anew(self, plan: PhysicalPlan, document: Any) -> None:
        """Some of its instances are elsewhere."""
        self._hosting.subtract(instance.im for instance in self.plans[plan.query.name].instances)
        self._hosting.update(instance.im for instance in plan.instances)
        self.plans[plan.query.name], self.plan_documents[plan.query.name] = plan, document

    def living(self) -> dict[str, InstanceManager]:
        """The instance managers that are there, and are not known to be dead."""
        return {im: manager for im, manager in self.managers.items() if (im, manager.process) not in self.dead}

    def is_hosted_no_more(self, query: str) -> None:
        """It is over: its instances use no core."""
        self._hosting.subtract(instance.im for instance in self.plans[query].instances)

    def forget_query(self, name: str) -> None:
        for feed in self.plans[name].feeds.values():
            self._read_by.take(feed.query, name)
        for stream in self.outputs_of(name):
            self._putting_out.take(stream, name)
        for stream in self.plans[name].streams:
            self._reading.take(stream, name)
        for kept in (self.queries, self.plans, self.tables, self.plan_documents, self.checkpoints, self._readers):
            kept.pop(name, None)

    def drop_query(self, name: str) -> None:
        """The same, of one with which something is wrong: nothing that it says of itself is believed."""
        if name in self.plans:
            self._note_readers(self.plans[name])
        for index in (self._read_by, self._putting_out, self._reading):
            index.take_everywhere(name)
        for kept in (self.queries, self.plans, self.tables, self.plan_documents, self.checkpoints, self._readers):
            kept.pop(name, None)
        live = (record.name for record in self.queries.values() if not is_over(record.state))
        self._hosting = Counter(instance.im for each in live for instance in self.plans[each].instances)

    # --- streams

    def check_declared(self, stream: Stream) -> Stream:
        """What is declared by its name once this is: the wider of the two. Raises Conflict: they differ in more than columns."""
        try:
            return wider(self.streams.get(stream.name, stream), stream)
        except QueryError as error:
            raise Conflict(error.message) from None

    def putting_out(self, stream: str) -> list[QueryRecord]:
        """The queries of which `stream` is an output, the oldest first."""
        return [self.queries[name] for name in self._putting_out[stream]]

    def feeding(self, stream: str) -> list[str]:
        """The queries whose output is `stream` and from which something may still be read."""
        return [record.name for record in self.putting_out(stream) if not record.released]

    def reading(self, stream: str) -> list[QueryRecord]:
        """The queries that read `stream`, the oldest first."""
        return [self.queries[name] for name in self._reading[stream]]

    def remember_publisher(self, publisher: PublisherRecord) -> None:
        self.publishers.put(publisher.stream, publisher.name, publisher)
        self._at.put(publisher.endpoint, (publisher.stream, publisher.name), True)

    def is_replaced(self, stream: str, name: str, endpoint: str | None) -> bool:
        """Has another process opened the publisher of that name since the one at `endpoint` did? None: whichever has it is meant."""
        known = self.publishers[stream].get(name)
        return known is not None and endpoint not in (None, known.endpoint)

    def forget_publisher(self, stream: str, name: str) -> bool:
        """Was it open?"""
        known = self.publishers.take(stream, name)
        if known is not None:
            self._at.take(known.endpoint, (stream, name))
        if stream not in self.publishers:
            self._changed.pop(stream, None)
        return known is not None

    def opened_at(self, endpoint: str) -> list[tuple[str, str]]:
        """(stream, publisher) of those that are open at an endpoint."""
        return list(self._at[endpoint])

    def note_change(self, query: str) -> None:
        """Where its readers may be others, publishers of the streams that it reads want to know; a checkpoint changes nothing of them."""
        record, plan = self.queries[query], self.plans[query]
        reading = [self.status(record, i) for each in plan.subqueries if each.streams for i in plan.instances_of(each.name)]
        facts = record.state, record.attempt, record.relieves, *(status and status.state for status in reading)
        known = self._readers.get(query)
        if known is not None and known[0] is plan and known[1] == facts:
            return
        self._readers[query] = plan, facts
        self._note_readers(plan)

    def _note_readers(self, plan: PhysicalPlan) -> None:
        """The streams that it reads have other readers."""
        self.changes += 1
        for stream in plan.streams:
            self._changed.pop(stream, None)
            if stream in self.publishers:  # a publisher that opens it later hears of its readers at once
                self._changed[stream] = self.changes

    def read_anew(self, endpoint: str, since: int) -> list[str]:
        """The streams published at `endpoint` of whose readers there may be news since change number `since`."""
        published = {stream for stream, _ in self._at[endpoint]}
        latest_first = takewhile(lambda change: change[1] > since, reversed(self._changed.items()))
        return sorted(published.intersection(stream for stream, _ in latest_first))

    # --- instance managers

    def workers(self, query: str = "", alone: str = "off") -> tuple[Worker, ...]:
        """The instance managers for the planner, but for those that are known to be dead; a core that hosts n instances, of others than
        `query`, has 1 / (n + 1) left, and nothing where it would share what one of them has alone. `alone`: what `query` is to have so."""
        closed = closed_to(self, query, alone)
        is_live = query in self.queries and not is_over(self.queries[query].state)
        its = Counter(instance.im for instance in self.plans[query].instances) if is_live else Counter[str]()
        alive = (manager for manager in self.staying() if (manager.im, manager.process) not in self.dead)
        managers = sorted(alive, key=lambda manager: manager.im)
        left = {m.im: 0.0 if m.im in closed else 1 / (1 + self._hosting[m.im] - its[m.im]) for m in managers}
        return tuple(Worker(m.im, m.node, m.core, m.endpoint, left[m.im], m.host) for m in managers)

    def staying(self) -> Iterator[InstanceManager]:
        """The instance managers of hosts that are not leaving."""
        return (manager for manager in self.managers.values() if manager.host not in self.leaving)

    def hosted_by(self, im: str) -> int:
        """How many instances of queries that are not over it has."""
        return self._hosting[im]

    def machines(self, own: str, topology: Topology) -> Machines:
        """Where the planner finds distances. `own`, `topology`: of the host on which this orchestrator is."""
        return Machines({own: topology} | {name: host.topology for name, host in self.hosts.items()})

    def status(self, record: QueryRecord, instance: Instance) -> Status | None:
        """What is known of an instance of this deployment; of one that moves, by its new place as soon as it has left the old one."""
        return self.status_at(record, moves.home(self, record, instance), instance)

    def status_at(self, record: QueryRecord, im: str, instance: Instance | Relocation) -> Status | None:
        """What instance manager `im` says of it."""
        seen = self.statuses.get((im, moves.node_name(record.name, instance)))
        return seen if seen is not None and (seen.epoch, seen.attempt) == (record.epoch, record.attempt) else None
