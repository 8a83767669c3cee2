"""What is to run where: a query cut into subqueries, joined by edges, spread as instances over instance managers.

The orchestrator writes it to ZooKeeper; instance managers build from it what they run; `explain` prints it. It is a
value: the same query, workers and topology give the same plan, and `from_json(to_json(plan))` is the same plan.

How to read it:

1. A stream is read in exactly one subquery, whose `streams` name it. That reading is a step like an operator: its
   rows flow to every operator of the subquery that has the stream among its inputs.
2. An operator's input is inside its subquery if it is among that subquery's operators or streams; otherwise exactly
   one edge brings it, the one with this consumer and port.
3. Three kinds of edges. *Input*: from outside (publishers, file blocks, another query) into the reading; producer and
   consumer both are the stream. *Inner*: from one subquery to another. *Output*: to its subscribers; it has no
   target.
4. Indices of instances run through all replicas: replica r of a subquery has the indices r·parallelism up to
   (r + 1)·parallelism - 1. A bucket table counts from the first instance of the sender's own replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any

from cep.errors import ProtocolError, QueryError, escaped
from cep.model import query as queries
from cep.model import streams as stream_documents
from cep.model.limits import BUCKETS_MAX, INSTANCES_MAX, checked_endpoint, shown
from cep.model.query import Query
from cep.model.shapes import read_shape
from cep.model.streams import Stream

OUTSIDE = ""
"""The target of an edge to an output stream."""

FilesByStream = Mapping[str, tuple[tuple[str, int], ...]]
"""Stream -> its files as (path, size in bytes), resolved once by the orchestrator so that all readers agree."""


@dataclass(frozen=True, slots=True)
class Subquery:
    """Operators that run together in one instance.

    Args:
        name: SQ1, SQ2, … in topological order.
        operators: their names, in topological order; none where a stream is only read, parsed and passed on.
        stateful: one of them is.
        streams: the streams it reads itself; more than one only under the policy `single`.
        pre_aggregates: the Aggregates of later subqueries whose partial stage runs at the end of this one; each has an
            edge that is `partial`.
        parallelism: instances in each replica.
    """

    name: str
    operators: tuple[str, ...]
    stateful: bool
    streams: tuple[str, ...] = ()
    pre_aggregates: tuple[str, ...] = ()
    parallelism: int = 1


@dataclass(frozen=True, slots=True)
class Edge:
    """Tuples on their way from one subquery to the next, into the first, or out of the last.

    Args:
        name: unique in the query, the same whenever the same query is split the same way.
        source: the subquery they come from; the stream's name on an input edge.
        producer: the operator, or the stream read there, whose output flows.
        target: the subquery they go to; OUTSIDE on an output edge.
        consumer: the operator that reads them; the stream on an input edge; the output stream on an output edge.
        port: which of the consumer's inputs.
        balancer: one of `cep.model.query.BALANCERS`.
        fields: columns of the rows by which they are partitioned among the target's instances, bucket = hash(fields)
            mod buckets. On an input edge those by which a publisher chooses the replica, bucket mod replicas: not
            a range of buckets, for that would leave each replica's instances with a part of the table only.
        table: bucket -> instance; None is uniform, `bucket * parallelism // buckets`.
        partial: the rows are partials of the consumer, an Aggregate.
        late: the rows are those of the producer, a stream, that came too late; on output edges only.
    """

    name: str
    source: str
    producer: str
    target: str
    consumer: str
    port: int = 0
    balancer: str = "point-to-point"
    fields: tuple[str, ...] = ()
    table: tuple[int, ...] | None = None
    partial: bool = False
    late: bool = False

    @property
    def is_output(self) -> bool:
        return self.target == OUTSIDE

    @property
    def is_input(self) -> bool:
        return not self.is_output and self.producer == self.consumer

    @property
    def is_inner(self) -> bool:
        return not self.is_output and not self.is_input


@dataclass(frozen=True, slots=True)
class Instance:
    """Instance `index` of a subquery, on instance manager `im`, as part of copy `replica` of the query."""

    subquery: str
    index: int
    im: str
    replica: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """An instance manager as the planner sees it.

    Args:
        im: its id.
        node, core: where it is bound; None where it is not.
        endpoint: where others send to.
        capacity: what its core has left for one more query: 1 is an idle core, 0 takes nothing new.
        host: the name of its host; empty in a cluster of one machine.
    """

    im: str
    node: int | None
    core: int | None
    endpoint: str
    capacity: float = 1.0
    host: str = ""

    @property
    def place(self) -> tuple[str, int | None]:
        """(host, node)."""
        return self.host, self.node


@dataclass(frozen=True, slots=True)
class Feed:
    """The output stream of another query as this one reads it: from every instance that produces it.

    Args:
        query, epoch: that query, and which deployment of it.
        producers: (index, endpoint) of its instances that produce the stream.
        streams: the published streams and files that it goes back to, through however many queries, sorted: the sources
            of its rows' origins are counted among them (rule 4.5).
        beginnings: what gave its rows their origin, a stream or an operator, each with the number of ways from there.
        origin_words: int64 words of their origin.
    """

    query: str
    epoch: int
    producers: tuple[tuple[int, str], ...]
    streams: tuple[str, ...]
    beginnings: tuple[tuple[str, int], ...]
    origin_words: int = 2


@dataclass(frozen=True, eq=False)
class PhysicalPlan:
    """The whole plan. Two plans are the same when `to_json` is: a query's expressions have no equality.

    Args:
        query: as asked for, in full (`cep.plan.expand`).
        short: as it was written, where that is shorter, or says less; see `written`.
        streams: every stream it reads, by name: its own, those declared before, and outputs of other queries.
        subqueries: in topological order.
        edges: into each subquery in turn, then the outputs.
        instances: of each subquery in turn, by index.
        workers: while a plan is being made, all there are; in the end, those that host an instance.
        buckets: how many buckets keys hash into, a power of two.
        numa: placed by distance; otherwise in turn (the paper's baseline).
        files: the files of each stream that is read from files.
        feeds: of each stream that another query puts out, where it comes from.
        cost: estimated traffic · NUMA distance, summed over all channels; see `cep.plan.place`.
        notes: what a user should know of how the plan came about.
    """

    query: Query
    streams: Mapping[str, Stream]
    subqueries: tuple[Subquery, ...] = ()
    edges: tuple[Edge, ...] = ()
    instances: tuple[Instance, ...] = ()
    workers: tuple[Worker, ...] = ()
    buckets: int = 4096
    numa: bool = True
    files: FilesByStream = field(default_factory=dict)
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    cost: float = 0.0
    notes: tuple[str, ...] = ()
    short: Query | None = None

    @property
    def written(self) -> Query:
        """The query as its user wrote it, which is what users are shown."""
        return self.short or self.query

    def subquery(self, name: str) -> Subquery:
        return self._subqueries[name]

    def subquery_of(self, operator: str) -> Subquery:
        """Where an operator runs, or where a stream is read."""
        return self._home[operator]

    def instances_of(self, subquery: str) -> tuple[Instance, ...]:
        """By index."""
        return self._instances[subquery]

    def worker_of(self, instance: Instance) -> Worker:
        return self._workers[instance.im]

    def edges_into(self, subquery: str) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.target == subquery)

    def edges_out_of(self, subquery: str) -> tuple[Edge, ...]:
        """Those that what its operators and streams yield flows along; late rows have their own, `late_edges`."""
        return tuple(edge for edge in self.edges if edge.source == subquery and not edge.is_input and not edge.late)

    def late_edges(self, subquery: str) -> tuple[Edge, ...]:
        """Those that take the late rows of its streams to the query's late stream."""
        return tuple(edge for edge in self.edges if edge.source == subquery and edge.late)

    def with_instance_at(self, subquery: str, index: int, worker: Worker) -> PhysicalPlan:
        """The same with that instance on `worker`."""
        moved = [replace(i, im=worker.im) if (i.subquery, i.index) == (subquery, index) else i for i in self.instances]
        hosting = {i.im for i in moved}
        workers = {each.im: each for each in (*self.workers, worker) if each.im in hosting}
        return replace(self, instances=tuple(moved), workers=tuple(workers[im] for im in sorted(workers)))

    def channels(self, edge: Edge) -> tuple[tuple[int, int], ...]:
        """(from, to): indices of instances, in order; what is outside counts as one instance 0."""
        if edge.is_input:
            return tuple((0, j) for j in range(self.query.options.replicas * self.subquery(edge.target).parallelism))
        sources = self.subquery(edge.source).parallelism
        if edge.is_output:
            return tuple((i, 0) for i in range(self.query.options.replicas * sources))
        targets = self.subquery(edge.target).parallelism
        pairs = channel_pairs(edge.balancer, sources, targets)
        return tuple((r * sources + i, r * targets + j) for r in range(self.query.options.replicas) for i, j in pairs)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The published streams and files that its rows go back to, sorted: a row's origin counts its source among them."""
        fed = {stream for feed in self.feeds.values() for stream in feed.streams}
        return tuple(sorted(fed | (self.streams.keys() - self.feeds.keys())))

    @cached_property
    def _subqueries(self) -> Mapping[str, Subquery]:
        return {subquery.name: subquery for subquery in self.subqueries}

    @cached_property
    def _home(self) -> Mapping[str, Subquery]:
        return {name: subquery for subquery in self.subqueries for name in subquery.operators + subquery.streams}

    @cached_property
    def _instances(self) -> Mapping[str, tuple[Instance, ...]]:
        return {s.name: tuple(i for i in self.instances if i.subquery == s.name) for s in self.subqueries}

    @cached_property
    def _workers(self) -> Mapping[str, Worker]:
        return {worker.im: worker for worker in self.workers}


@lru_cache(maxsize=32)
def channel_pairs(balancer: str, sources: int, targets: int) -> tuple[tuple[int, int], ...]:
    """Which of `sources` instances send to which of `targets` instances."""
    if balancer == "point-to-point":
        return tuple((i, i if targets == sources else 0) for i in range(sources))
    return tuple((i, j) for i in range(sources) for j in range(targets))


def edge_name(producer: str, consumer: str) -> str:
    """Two edges have one name only if they have the same ends, whatever these are called."""
    return f"{unmarked(producer)}>{unmarked(consumer)}"


def unmarked(name: str) -> str:
    """`name` without the signs that stand between names."""
    return escaped(name).replace(">", "~2")


# --- JSON ------------------------------------------------------------------------------------------------------------


def to_json(plan: PhysicalPlan) -> dict[str, Any]:
    """`from_json(to_json(plan))` is the same plan."""
    return {
        "query": queries.to_json(plan.query),
        "short": None if plan.short is None else queries.to_json(plan.short),
        "streams": [stream_documents.to_json(stream) for _, stream in sorted(plan.streams.items())],
        "subqueries": [_document(subquery) for subquery in plan.subqueries],
        "edges": [_document(edge) for edge in plan.edges],
        "instances": [_document(instance) for instance in plan.instances],
        "workers": [_document(worker) for worker in plan.workers],
        "buckets": plan.buckets,
        "numa": plan.numa,
        "files": {stream: [list(file) for file in files] for stream, files in plan.files.items()},
        "feeds": {stream: _document(feed) for stream, feed in plan.feeds.items()},
        "cost": plan.cost,
        "notes": list(plan.notes),
    }


def from_json(document: Any) -> PhysicalPlan:
    """Raises ProtocolError: this is no plan, or one of another version."""
    try:
        return _checked(_from_json(document))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, QueryError, ProtocolError) as error:
        raise ProtocolError(f"not a plan of this version: {type(error).__name__}: {error}") from error


def _from_json(document: Any) -> PhysicalPlan:
    streams = map(stream_documents.from_json, document["streams"])
    rest = read_shape(_Rest, document)
    return PhysicalPlan(
        query=queries.from_json(document["query"], planned=True),
        short=None if document.get("short") is None else queries.from_json(document["short"]),
        streams={stream.name: stream for stream in streams},
        **{each.name: getattr(rest, each.name) for each in fields(_Rest)},
    )


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a plan's document has beside documents of users."""

    subqueries: tuple[Subquery, ...]
    edges: tuple[Edge, ...]
    instances: tuple[Instance, ...]
    workers: tuple[Worker, ...]
    buckets: int
    numa: bool
    files: Mapping[str, tuple[tuple[str, int], ...]]
    cost: float
    notes: tuple[str, ...]
    feeds: Mapping[str, Feed] = field(default_factory=dict)


def _checked(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan, if all that its parts name is there. Raises ProtocolError."""
    workers, names = {worker.im for worker in plan.workers}, {subquery.name for subquery in plan.subqueries}
    copies = plan.query.options.replicas
    for subquery in plan.subqueries:
        _demand(1 <= subquery.parallelism <= INSTANCES_MAX, f"{subquery.name} has {subquery.parallelism} instances")
        there = [instance.index for instance in plan.instances_of(subquery.name)]
        _demand(there == list(range(copies * subquery.parallelism)), f"{subquery.name} has instances {shown(there)}")
    for instance in plan.instances:
        _demand(instance.subquery in names and instance.im in workers, f"{instance} is of no subquery, or on no worker")
    for edge in plan.edges:
        ends = (edge.source in names or edge.is_input) and (edge.target in names or edge.is_output)
        _demand(ends and edge.balancer in queries.BALANCERS, f"edge {edge.name} leads from or to nowhere")
        if edge.table is not None:
            size = plan.subquery(edge.target).parallelism
            leads = len(edge.table) == plan.buckets and all(0 <= i < size for i in edge.table)
            _demand(leads, f"edge {edge.name} has a table that leads nowhere")
    for worker in plan.workers:
        checked_endpoint(worker.endpoint)
    _demand(1 <= plan.buckets <= BUCKETS_MAX, f"{plan.buckets} buckets")
    _demand(plan.feeds.keys() | plan.files.keys() <= plan.streams.keys(), "files or feeds of streams that it does not read")
    return plan


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ProtocolError(otherwise)


def _document(value: Subquery | Edge | Instance | Worker | Feed) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(value).items()}
