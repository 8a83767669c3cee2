"""From the frozen plan to a running subquery instance: `build(plan, subquery, index, wiring) -> SubqueryInstance`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cep.compile.aggregate import AggregateSpec
from cep.compile.chain import compile_chain
from cep.compile.joined import JoinSpec
from cep.compile.stateful import compile_stateful
from cep.compile.user_aggregates import collecting
from cep.dataflow.apply import ApplyOperator
from cep.dataflow.as_of_join import AsOfJoinOperator
from cep.dataflow.balancer import Balancer, Broadcast, PointToPoint, RoundRobin, RouteKey, bucket_table
from cep.dataflow.channel import Channel, Inbox
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.deduplicate import DeduplicateOperator
from cep.dataflow.delay import DelayOperator
from cep.dataflow.files import TextSource
from cep.dataflow.flat_map import FlatMapOperator, as_map
from cep.dataflow.hold import Hold
from cep.dataflow.instance import Input, Node, SubqueryInstance
from cep.dataflow.interval_join import IntervalJoinOperator
from cep.dataflow.lookup import LookupOperator
from cep.dataflow.matching import Matcher, SideFormat
from cep.dataflow.operators import AggregateOperator, ChainOperator, Operator, PassOperator
from cep.dataflow.output import Output
from cep.dataflow.pre_aggregation import PROBE_ROWS, Reduction
from cep.dataflow.sequential import SequentialOperator
from cep.dataflow.sequential_aggregate import SequentialAggregate
from cep.dataflow.sort import SortOperator
from cep.dataflow.source import Source
from cep.dataflow.stateful_function import StatefulFunctionOperator
from cep.dataflow.stateful_map import StatefulMapOperator
from cep.dataflow.static_table import read_table
from cep.dataflow.user_aggregate import UserAggregateOperator, UserSequentialAggregate
from cep.dataflow.window_join import WindowJoinOperator
from cep.elements import MAX_TIME
from cep.model.functions import UserFunction
from cep.model.operators import (
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    Delay,
    Filter,
    FlatMap,
    IntervalJoin,
    Join,
    Lookup,
    Map,
    Sort,
    StatefulMap,
    TopN,
    is_sequential,
)
from cep.model.schema import Field, Schema
from cep.model.streams import Stream
from cep.model.windows import TimeWindow
from cep.plan.balance import route_fields
from cep.plan.feeds import feeds_tie, ties, words
from cep.plan.needed import grain, leaves_with_origin, needed_columns, restrict, wants_origin
from cep.plan.physical import Edge, PhysicalPlan, Subquery
from cep.plan.validate import Validated, validate
from cep.wire import Format

STATE_BYTES_MAX = 4 << 30


@dataclass(frozen=True)
class Wiring:
    """What the surroundings lend: channels, sources, a clock. In a process of its own or all in one (`cep.dataflow.local`)."""

    connect: Callable[[Edge, int, int, Format], Channel]  # to instance j of the edge's target, from instance i
    listen: Callable[[Edge, int, int, Format], Inbox]  # at instance j, from instance i
    subscribe: Callable[[Edge, int, Format], list[Channel]]  # subscriptions to an output stream that exist already
    source: Callable[[Stream, int, int, int, bool, Schema, DeadLetters], Source]  # stream, reader, readers, source index, origin, columns
    clock: Callable[[], int]
    state_limit: int = STATE_BYTES_MAX
    probe_rows: int = PROBE_ROWS  # tuples after which pre-aggregation is judged


class Layout:
    """What the plan means for the data: the schema and format of everything that flows."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.plan, self.query = plan, plan.query
        self.validated: Validated = validate(plan.query, plan.streams)
        self.operators = {operator.name: operator for operator in plan.query.operators}
        self.feeds_tie = feeds_tie(plan)  # rare, so then all columns travel everywhere

    def columns(self, producer: str) -> Schema:
        """The columns of `producer` that travel."""
        schema = self.validated.schemas[producer]
        if self.feeds_tie:
            return schema
        return restrict(schema, needed_columns(self.query, producer, schema))

    def spec(self, aggregate: Aggregate, stage: str) -> AggregateSpec:
        aggregate, times = collecting(aggregate), self.validated.event_time_columns[aggregate.input]
        origin = stage != "partial" and self.origin(aggregate.name)
        tied = ties(self.plan, aggregate.input)
        words = self.words(aggregate.input)
        return AggregateSpec.of(aggregate, self.columns(aggregate.input), times, stage, origin=origin, ties=tied, origin_words=words)

    def origin(self, producer: str) -> bool:
        """Does somebody below order the tuples of `producer` by origin, or may a query that reads an output?"""
        return leaves_with_origin(self.query, producer) or self.ordered(producer)

    def ordered(self, producer: str) -> bool:
        """Does somebody below order the tuples of `producer` by origin?"""
        return wants_origin(self.query, producer, lambda aggregate: self.spec(aggregate, "whole").needs_origin)

    def words(self, producer: str) -> int:
        """Of the origins of its tuples."""
        return words(self.plan, producer)

    def ties(self, producer: str) -> bool:
        """May two of its tuples have one event time and origin?"""
        return ties(self.plan, producer)

    def format(self, edge: Edge) -> Format:
        """How the batches of an edge look on the wire."""
        if edge.partial:
            aggregate = self.operators[edge.consumer]
            assert isinstance(aggregate, Aggregate)
            return Format(self.spec(aggregate, "partial").partial_schema)
        return Format(self.columns(edge.producer), words(self.plan, edge.producer) if self.origin(edge.producer) else 0)

    def route_fields(self, edge: Edge) -> tuple[Field, ...]:
        return route_fields(self.plan, edge)

    def late_format(self, edge: Edge) -> Format:
        """How rows look that came too late: all columns of their stream."""
        return Format(self.plan.streams[edge.producer].schema)

    def source_index(self, stream: str) -> int:
        """Its place among the sources that origins count; of what another query puts out, whose rows have theirs, 0."""
        return 0 if stream in self.plan.feeds else self.plan.roots.index(stream)


def build(plan: PhysicalPlan, subquery: Subquery, index: int, wiring: Wiring) -> SubqueryInstance:
    """Compiles what the subquery needs and wires it up. Nothing runs yet."""
    return _Builder(plan, subquery, index, wiring).build()


class _Builder:
    def __init__(self, plan: PhysicalPlan, subquery: Subquery, index: int, wiring: Wiring) -> None:
        self.plan, self.subquery, self.index, self.wiring = plan, subquery, index, wiring
        self.layout = Layout(plan)
        self.dead_letters = DeadLetters()
        self.nodes: dict[str, Node] = {}  # by the name of the last operator they hold
        self.outputs: list[Output] = []

    def build(self) -> SubqueryInstance:
        self._make_nodes()
        sources = [self._make_source(stream) for stream in self.subquery.streams]
        inputs = [self._make_input(edge) for edge in self.plan.edges_into(self.subquery.name) if edge.is_inner]
        for aggregate in self.subquery.pre_aggregates:
            self._make_partial(aggregate)
        for edge in self.plan.edges_out_of(self.subquery.name):
            self._make_output(edge)
        for edge in self.plan.late_edges(self.subquery.name):
            self._make_late(edge)
        name = f"{self.plan.query.name}/{self.subquery.name}/{self.index}"
        nodes = list(self.nodes.values())
        for source, _ in sources:
            if isinstance(source, TextSource):
                source.returned = self._returned
        return SubqueryInstance(name, self.subquery.name, self.index, nodes, inputs, sources, self.outputs, self.dead_letters)

    def _returned(self) -> int:
        """The least watermark that the receivers have told us of: readers of files begin no block before it (DESIGN 4.10)."""
        return min((output.returned() for output in self.outputs), default=MAX_TIME)

    # Operators

    def _make_nodes(self) -> None:
        for group in self._groups():
            last = group[-1]
            self.nodes[last] = Node(self._operator(group))
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
            if tail is not None and isinstance(operator, Map | Filter):
                tail.append(name)
            else:
                groups.append([name])
        return groups

    def _fuses(self, name: str) -> bool:
        """May what reads `name` run in one loop with it? Only if nobody else reads it."""
        inside = [o for o in self.subquery.operators if name in self.layout.operators[o].inputs]
        leaves = any(edge.producer == name for edge in self.plan.edges_out_of(self.subquery.name))
        return isinstance(self.layout.operators[name], Map | Filter) and len(inside) == 1 and not leaves

    def _operator(self, group: list[str]) -> Operator:
        first = self.layout.operators[group[0]]
        match first:
            case Aggregate():
                return self._aggregate(first, "final" if self._reads_partials(first) else "whole")
            case Join() | IntervalJoin() | AsOfJoin():
                return self._join(first)
            case Lookup(table=table):
                return LookupOperator(self._join_spec(first, table.schema), read_table(table))
            case FlatMap() | Delay() | Sort() | TopN() | Deduplicate() | StatefulMap() | Apply():
                return self._by_row(first)
        stateless = tuple(o for name in group if isinstance(o := self.layout.operators[name], Map | Filter))
        if not stateless:
            return PassOperator(first.name, self.layout.words(first.name))
        chain = compile_chain(stateless, self.layout.columns(stateless[0].input))
        return ChainOperator("+".join(group), chain, self.wiring.clock, self.dead_letters)

    def _by_row(self, operator: FlatMap | Delay | Sort | TopN | Deduplicate | StatefulMap | Apply) -> Operator:
        """What makes of a row rows, or takes rows in order; nothing is merged."""
        schema, words = self.layout.columns(operator.input), self.layout.words(operator.input)
        ties, limit, clock = self.layout.ties(operator.input), self.wiring.state_limit, self.wiring.clock
        match operator:
            case FlatMap():
                return FlatMapOperator(operator, compile_chain((as_map(operator),), schema), clock, self.dead_letters)
            case Delay():
                return DelayOperator(operator)
            case TopN() | Sort(window=TimeWindow()):
                return SortOperator(operator, schema, words, ties, limit)
            case Sort():
                return SequentialOperator(operator.name, Hold(schema, words, ties), limit)
            case Deduplicate():
                return DeduplicateOperator(operator, Hold(schema, words, ties), limit)
            case StatefulMap(function=None):
                compiled = compile_stateful(operator, schema)
                return StatefulMapOperator(operator, compiled, Hold(schema, words, ties), limit, clock, self.dead_letters)
            case StatefulMap():
                return StatefulFunctionOperator(operator, Hold(schema, words, ties), limit, self.dead_letters)
            case Apply():
                return ApplyOperator(operator, schema, self.dead_letters)

    def _aggregate(self, aggregate: Aggregate, stage: str) -> Operator:
        spec, limit = self.layout.spec(aggregate, stage), self.wiring.state_limit
        users = stage != "partial" and any(isinstance(function, UserFunction) for _, function in aggregate.functions)
        if is_sequential(aggregate):
            words, clock = self.layout.words(aggregate.input), self.wiring.clock
            if users:
                return UserSequentialAggregate(aggregate, spec, words, limit, clock, self.dead_letters)
            return SequentialAggregate(aggregate.name, spec, words, limit, clock, self.dead_letters)
        if users:
            return UserAggregateOperator(aggregate, spec, limit, self.dead_letters)
        name = aggregate.name if stage != "partial" else f"{aggregate.name} (partial)"
        adaptive = stage == "partial" and self.layout.query.options.pre_aggregation == "auto"
        reduction = Reduction(adaptive, self.wiring.probe_rows)
        return AggregateOperator(name, spec, limit, self.dead_letters, reduction)

    def _join(self, join: Join | IntervalJoin | AsOfJoin) -> WindowJoinOperator | IntervalJoinOperator | AsOfJoinOperator:
        spec, limit = self._join_spec(join, self.layout.validated.schemas[join.right]), self.wiring.state_limit
        schemas = [self.layout.columns(name) for name in join.inputs]
        if isinstance(join, AsOfJoin):
            words = [self.layout.words(name) for name in join.inputs]
            ties = [self.layout.ties(name) for name in join.inputs]
            left, right = (Hold(*each) for each in zip(schemas, words, ties, strict=True))
            return AsOfJoinOperator(join, spec, (left, right), limit)
        words = [self.layout.words(name) if spec.origin else 0 for name in join.inputs]
        formats = SideFormat("left", 0, schemas[0], words[0]), SideFormat("right", 1, schemas[1], words[1])
        matcher = Matcher(spec, self.wiring.clock, self.dead_letters)
        if isinstance(join, IntervalJoin):
            return IntervalJoinOperator(join, matcher, formats, limit)
        return WindowJoinOperator(join, matcher, formats, limit)

    def _join_spec(self, join: Join | IntervalJoin | AsOfJoin | Lookup, right: Schema) -> JoinSpec:
        left = self.layout.validated.schemas[join.inputs[0]]
        origin = self.layout.origin(join.name) and not isinstance(join, Lookup)  # that keeps the tuple's
        return JoinSpec.of(join, left, right, self.layout.columns(join.name).names, origin)

    def _reads_partials(self, aggregate: Aggregate) -> bool:
        return any(edge.partial for edge in self.plan.edges_into(self.subquery.name) if edge.consumer == aggregate.name)

    def _make_partial(self, name: str) -> None:
        aggregate = self.layout.operators[name]
        assert isinstance(aggregate, Aggregate)
        node = Node(self._aggregate(aggregate, "partial"))
        self._feed(self._producer(aggregate.input), node, aggregate.input, name)
        self.nodes[f"{name} (partial)"] = node

    def _producer(self, name: str) -> Node:
        """The node whose output is `name`: an operator, or the stream that this subquery reads."""
        return self.nodes[name]

    # Inputs

    def _make_source(self, name: str) -> tuple[Source, Node]:
        stream = self.plan.streams[name]
        late = any(edge.producer == name for edge in self.plan.late_edges(self.subquery.name))
        readers = sum(1 for _ in self.plan.instances_of(self.subquery.name))
        source = self.wiring.source(
            stream,
            self.index,
            readers,
            self.layout.source_index(name),
            self._numbered(name),
            stream.schema if late else self.layout.columns(name),
            self.dead_letters,
        )
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
        name = f"{self.plan.query.name}/{edge.name}" if edge.is_inner else edge.consumer
        if edge.is_inner:
            pairs = [(i, j) for i, j in self.plan.channels(edge) if i == self.index]
            channels = [self.wiring.connect(edge, i, j, wire_format) for i, j in pairs]
        else:
            channels = self.wiring.subscribe(edge, self.index, wire_format)
        carried = edge.is_inner and wire_format.origin > 0
        output = Output(name, PointToPoint(), channels, wire_format.schema.names, self._grain(edge), carried)
        output.balancer = self._balancer(edge, len(channels), output)
        producer = f"{edge.consumer} (partial)" if edge.partial else edge.producer
        self._producer(producer).outputs.append(output)
        self.outputs.append(output)

    def _make_late(self, edge: Edge) -> None:
        """Rows older than the watermark have no place among those on time: an output of their own, without watermarks."""
        wire_format = self.layout.late_format(edge)
        channels = self.wiring.subscribe(edge, self.index, wire_format)
        output = Output(edge.consumer, Broadcast(len(channels)), channels, wire_format.schema.names, origin=False)
        self.nodes[edge.producer].late.append(output)
        self.outputs.append(output)

    def _grain(self, edge: Edge) -> int:
        return grain(self.layout.query, edge.producer) if edge.is_inner else 0

    def _balancer(self, edge: Edge, targets: int, output: Output) -> Balancer:
        if edge.is_output:
            return Broadcast(targets)
        match edge.balancer:
            case "round-robin":
                return RoundRobin(targets, output.has_room)
            case "broadcast":
                return Broadcast(targets)
            case "route-key":
                return RouteKey(self.layout.route_fields(edge), bucket_table(edge, self.plan.buckets, targets), targets)
        return PointToPoint()
