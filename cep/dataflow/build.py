"""From the frozen plan to a running subquery instance: `build(plan, subquery, index, wiring) -> (SubqueryInstance, Movement)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cep.dataflow.channel import Channel, Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.layout import layout_of
from cep.dataflow.meter import Account, Latency, Meter
from cep.dataflow.movement.bucket_move import InstanceBuckets
from cep.dataflow.movement.movement import Movement
from cep.dataflow.movement.owners import Owners, table_of
from cep.dataflow.nodes import Input, Node
from cep.dataflow.operators.aggregate import build_partial, partial_name
from cep.dataflow.operators.context import BuildContext, any_file
from cep.dataflow.operators.factory import FUSED, build_operator
from cep.dataflow.operators.operator import AggregateOperator, PassOperator
from cep.dataflow.operators.pre_aggregation import PROBE_ROWS
from cep.dataflow.outputs.balancer import Balancer, Broadcast, PointToPoint, RoundRobin, RouteEntries, RouteKey, bucket_table
from cep.dataflow.outputs.output import EdgeOutput, has_room
from cep.dataflow.outputs.sink import CommittedSink, FileSink, SinkChannel
from cep.dataflow.sources.opening import Surroundings, open_source
from cep.dataflow.sources.source import READ_BYTES, Reading, Source
from cep.elements import MAX_TIME
from cep.kernels.columns import arrow_kernels
from cep.kernels.jit import no_garbage, warm
from cep.kernels.lateness import LATENESS
from cep.model.schema import Schema
from cep.plan.checkpoints import recovers
from cep.plan.moving import head_of, heads, keeps_partitioning, state_edge
from cep.plan.needed import grain
from cep.plan.physical import Edge, PhysicalPlan, Subquery
from cep.plan.sources import read_together, source_of
from cep.transport.wire import Format
from cep.world.store import DiskStore, Store

STATE_BYTES_MAX = 4 << 30
STATE_FORMAT = Format(Schema(()))  # of channels that carry state, which says by itself what columns it has


@dataclass(frozen=True)
class Wiring:
    """What the surroundings lend: channels, sources, a clock. In a process of its own or all in one (`cep.dataflow.local`)."""

    connect: Callable[[Edge, int, int, Format], Channel]  # to instance j of the edge's target, from instance i
    listen: Callable[[Edge, int, int, Format], Inbox]  # at instance j, from instance i
    subscribe: Callable[[Edge, int, Format], list[Channel]]  # subscriptions to an output stream that exist already
    surroundings: Surroundings  # of the sources
    clock: Callable[[], int]
    state_limit: int = STATE_BYTES_MAX
    probe_rows: int = PROBE_ROWS  # tuples after which pre-aggregation is judged
    read_bytes: int = READ_BYTES  # from a file at once
    check_file: Callable[[str], object] = any_file  # raises QueryError: no query may read it
    meter: Meter = field(default_factory=Meter)  # of the thread that the instance runs in
    store: Store = field(default_factory=DiskStore)  # of the files that sources and tables read, and outputs write
    attempt: int = 0  # how often the query has recovered


def build(plan: PhysicalPlan, subquery: Subquery, index: int, wiring: Wiring, arriving: bool = False) -> tuple[SubqueryInstance, Movement]:
    """Compiles what the subquery needs and wires it up. Nothing runs yet. `arriving`: it waits for what it had elsewhere."""
    with no_garbage():
        return _Builder(plan, subquery, index, wiring).build(arriving)


class _Builder:
    def __init__(self, plan: PhysicalPlan, subquery: Subquery, index: int, wiring: Wiring) -> None:
        self.plan, self.subquery, self.index, self.wiring = plan, subquery, index, wiring
        self.layout = layout_of(plan)
        self.dead_letters = DeadLetters()
        limit = min(wiring.state_limit, plan.query.options.state_bytes_max or wiring.state_limit)
        self.context = BuildContext(self.layout, self.dead_letters, wiring.clock, limit, wiring.probe_rows, wiring.store, wiring.check_file)
        self.nodes: dict[str, Node] = {}  # by the name of the last operator they hold
        self.outputs: list[EdgeOutput] = []
        self.inner_outputs: list[tuple[Edge, EdgeOutput]] = []

    def build(self, arriving: bool) -> tuple[SubqueryInstance, Movement]:
        self.context = replace(self.context, arriving=arriving)
        self._make_nodes()
        sources = [self._make_source(stream) for stream in self.subquery.streams]
        edges = [edge for edge in self.plan.edges_into(self.subquery.name) if edge.is_inner]
        inputs = [self._make_input(edge) for edge in edges]
        for edge, input_ in zip(edges, inputs, strict=True):
            if read_together(self.plan, edge.source):
                input_.merge.beside = input_.node.merge
        for aggregate in self.subquery.pre_aggregates:
            self._make_partial(aggregate)
        for edge in self.plan.edges_out_of(self.subquery.name):
            self._make_output(edge)
        for edge in self.plan.late_edges(self.subquery.name):
            self._make_late(edge)
        nodes = list(self.nodes.values())
        running = (nodes, inputs, sources, self.outputs, self.dead_letters, self.wiring.meter)
        instance = SubqueryInstance(self.plan.query.name, self.subquery.name, self.index, *running, arriving=arriving)
        return instance, self._make_movable(instance)

    # Operators

    def _make_nodes(self) -> None:
        for group in self._groups():
            last = group[-1]
            self.nodes[last] = Node(build_operator([self.layout.operators[name] for name in group], self.context))
        for group in self._groups():
            node = self.nodes[group[-1]]
            for producer in self.layout.operators[group[0]].inputs:
                if producer in self.nodes:
                    self._feed(self.nodes[producer], node, producer, group[0])

    def _feed(self, producer: Node, consumer: Node, name: str, reader: str) -> None:
        """`reader`, at the head of the consumer, reads `name`, which comes out of the producer."""
        producer.consumers.append((consumer, name))
        consumer.feed(name, self.layout.operators[reader].inputs.index(name))

    def _groups(self) -> list[list[str]]:
        """Operators in order; runs of maps and filters that only each other read are one group."""
        groups: list[list[str]] = []
        for name in self.subquery.operators:
            operator = self.layout.operators[name]
            tail = next((g for g in groups if g[-1] == operator.inputs[0] and self._fuses(g[-1])), None)
            if tail is not None and isinstance(operator, FUSED):
                tail.append(name)
            else:
                groups.append([name])
        return groups

    def _fuses(self, name: str) -> bool:
        """May what reads `name` run in one loop with it? Only if nothing else reads it."""
        inside = [o for o in self.subquery.operators if name in self.layout.operators[o].inputs]
        leaves = any(edge.producer == name for edge in self.plan.edges_out_of(self.subquery.name))
        return isinstance(self.layout.operators[name], FUSED) and len(inside) == 1 and not leaves

    def _make_partial(self, name: str) -> None:
        aggregate = self.layout.aggregate(name)
        node = Node(build_partial(aggregate, self.context))
        self._feed(self._producer(aggregate.input), node, aggregate.input, name)
        self.nodes[partial_name(name)] = node

    def _producer(self, name: str) -> Node:
        """The node whose output is `name`: an operator, or the stream that this subquery reads."""
        return self.nodes[name]

    # Moving buckets

    def _make_movable(self, instance: SubqueryInstance) -> Movement:
        tables = heads(self.plan)
        routes: dict[str, list[EdgeOutput]] = {}
        for edge, output in self.inner_outputs:
            if edge.target in tables:
                routes.setdefault(edge.target, []).append(output)
        kept = [(edge, output) for edge, output in self.inner_outputs if edge.target not in tables]
        keeping = [output for edge, output in kept if keeps_partitioning(self.plan, edge)]
        buckets = None if head_of(self.plan, self.subquery.name) is None else self._make_buckets(instance)
        return Movement(instance, routes, buckets, keeping)

    def _make_buckets(self, instance: SubqueryInstance) -> InstanceBuckets:
        edge, n = state_edge(self.subquery.name), self.subquery.parallelism
        first = self.index // n * n  # of its replica
        others = [other for other in range(first, first + n) if other != self.index]
        channels = {j - first: self.wiring.connect(edge, self.index, j, STATE_FORMAT) for j in others}
        inboxes = {i - first: self.wiring.listen(edge, i, self.index, STATE_FORMAT) for i in others}
        for inbox in inboxes.values():
            inbox.share = 0  # a piece at a time
        operators = [
            (node.stateful, Owners(self.layout, self.subquery, node.operator.name))
            for node in instance.nodes
            if node.stateful is not None and node.operator.name in self.layout.operators  # partial results stay where they are
        ]
        for operator, _ in operators:
            if isinstance(operator, AggregateOperator):
                operator.spec.warm(restored=True)
        return InstanceBuckets(self.index - first, table_of(self.plan, self.subquery), operators, channels, inboxes, self.wiring.clock)

    # Inputs

    def _make_source(self, name: str) -> tuple[Source, Node]:
        stream = self.plan.streams[name]
        late = any(edge.producer == name for edge in self.plan.late_edges(self.subquery.name))
        warm(*LATENESS, *arrow_kernels(stream.schema))
        readers = sum(1 for _ in self.plan.instances_of(self.subquery.name))
        reading = Reading(
            stream,
            self.index,
            readers,
            self.layout.source_index(name),
            self._numbered(name),
            stream.schema if late else self.layout.columns(name),
            self.dead_letters,
            self.wiring.clock,
            self.wiring.store,
            partial(_returned, self.outputs),
            read_together(self.plan, self.subquery.name),
            self.wiring.read_bytes,
        )
        source = open_source(source_of(self.plan, name), reading, self.wiring.surroundings)
        source.late.wanted = late
        root = Node(PassOperator(name))
        root.feed(None)
        self.nodes[name] = root
        for group in self._groups():
            if name in self.layout.operators[group[0]].inputs:
                self._feed(root, self.nodes[group[-1]], name, group[0])
        return source, root

    def _numbered(self, stream: str) -> bool:
        """Must its rows have origins from the beginning? Not where only a query that reads an output of this subquery, and may
        never come, would order by them: numbering costs the copying of published rows 6 %."""
        inner = any(edge.is_inner and self.layout.format(edge).origin for edge in self.plan.edges_out_of(self.subquery.name))
        now = inner or self.subquery.stateful or stream in self.plan.feeds or self.layout.ordered(stream)
        return now and self.layout.origin(stream)

    def _make_input(self, edge: Edge) -> Input:
        wire_format = self.layout.format(edge)
        warm(*arrow_kernels(wire_format.schema))
        pairs = [(i, j) for i, j in self.plan.channels(edge) if j == self.index]
        node = self._node_holding(edge.consumer)
        node.feed(edge.name, edge.port)
        return Input(node, edge.name, [self.wiring.listen(edge, i, j, wire_format) for i, j in pairs])

    def _node_holding(self, operator: str) -> Node:
        """The node whose group begins with `operator`."""
        return next(self.nodes[group[-1]] for group in self._groups() if group[0] == operator)

    # Outputs

    def _make_output(self, edge: Edge) -> None:
        wire_format = self.layout.format(edge)
        warm(*arrow_kernels(wire_format.schema))
        name = f"{self.plan.query.name}/{edge.name}" if edge.is_inner else edge.consumer
        account = Account()
        if edge.is_inner:
            pairs = [(i, j) for i, j in self.plan.channels(edge) if i == self.index]
            channels = [self.wiring.connect(edge, i, j, wire_format) for i, j in pairs]
        else:
            channels = [*self.wiring.subscribe(edge, self.index, wire_format), *self._files(edge, wire_format.schema, account)]
        carried = edge.is_inner and wire_format.origin > 0
        output = EdgeOutput(name, PointToPoint(), channels, wire_format.schema.names, self._grain(edge), carried, edge.is_output)
        output.balancer = self._balancer(edge, len(channels), output)
        output.account, output.latency = account, Latency(self.wiring.clock) if edge.is_output else None
        producer = partial_name(edge.consumer) if edge.partial else edge.producer
        self._producer(producer).outputs.append(output)
        self.outputs.append(output)
        if edge.is_inner:
            self.inner_outputs.append((edge, output))

    def _files(self, edge: Edge, schema: Schema, account: Account) -> Iterator[SinkChannel]:
        """Where the stream is written to, beside its subscribers."""
        files = next(output.files for output in self.plan.query.outputs if output.stream == edge.consumer)
        if files is not None:
            place = self.dead_letters, self.wiring.store, self.wiring.attempt
            sink = FileSink(files, edge.consumer, self.index, schema, *place)
            make = CommittedSink if recovers(self.plan) else SinkChannel
            yield make(sink, self.wiring.meter, account)

    def _make_late(self, edge: Edge) -> None:
        """Rows older than the watermark have no place among those on time: an output of their own, without watermarks."""
        wire_format = self.layout.late_format(edge)
        warm(*arrow_kernels(wire_format.schema))
        channels = self.wiring.subscribe(edge, self.index, wire_format)
        output = EdgeOutput(edge.consumer, Broadcast(len(channels)), channels, wire_format.schema.names, 0, False, True)
        self.nodes[edge.producer].late.append(output)
        self.outputs.append(output)

    def _grain(self, edge: Edge) -> int:
        return grain(self.layout.query, edge.producer) if edge.is_inner else 0

    def _balancer(self, edge: Edge, targets: int, output: EdgeOutput) -> Balancer:
        if edge.is_output:
            return Broadcast(targets)
        match edge.balancer:
            case "round-robin":
                return RoundRobin(targets, partial(has_room, output.targets))
            case "broadcast":
                return Broadcast(targets)
            case "route-key":
                table = bucket_table(edge, self.plan.buckets, targets)
                if edge.partial and self.layout.deals_entries(dealt := self.layout.aggregate(edge.consumer)):
                    return RouteEntries(self.layout.spec(dealt, "partial"), table, targets)
                return RouteKey(self.layout.route_fields(edge), table, targets)
        return PointToPoint()


def _returned(outputs: Sequence[EdgeOutput]) -> int:
    """The least watermark that the receivers have told us of: readers of files begin no block before it (rule 4.10)."""
    return min((output.returned() for output in outputs), default=MAX_TIME)
