"""From the description of an operator to the operator at work: compiled, and its machine code warm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cep.compile.chain import compile_chain
from cep.compile.joined import JoinSpec
from cep.compile.stateful import compile_stateful
from cep.dataflow.apply import ApplyOperator
from cep.dataflow.as_of_join import AsOfJoinOperator
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.deduplicate import DeduplicateOperator
from cep.dataflow.delay import DelayOperator
from cep.dataflow.flat_map import FlatMapOperator, as_map
from cep.dataflow.hold import Hold
from cep.dataflow.interval_join import IntervalJoinOperator
from cep.dataflow.layout import Layout
from cep.dataflow.lookup import LookupOperator
from cep.dataflow.matching import Matcher, SideFormat
from cep.dataflow.operators import (
    AggregateOperator,
    ChainOperator,
    Operator,
    PassOperator,
    SlowChainOperator,
    TextChainOperator,
)
from cep.dataflow.pre_aggregation import Reduction
from cep.dataflow.sequential import SequentialOperator
from cep.dataflow.sequential_aggregate import SequentialAggregate
from cep.dataflow.sort import SortOperator
from cep.dataflow.stateful_function import StatefulFunctionOperator
from cep.dataflow.stateful_map import StatefulMapOperator
from cep.dataflow.static_table import read_table
from cep.dataflow.user_aggregate import UserAggregateOperator, UserSequentialAggregate
from cep.dataflow.window_join import WindowJoinOperator
from cep.kernels.jit import warm
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
from cep.model.schema import Schema
from cep.model.windows import TimeWindow


@dataclass(frozen=True)
class Maker:
    """Makes the operators of one instance. `clock`: µs; `state_limit`: bytes of one operator; `probe_rows`: see `Reduction`."""

    layout: Layout
    dead_letters: DeadLetters
    clock: Callable[[], int]
    state_limit: int
    probe_rows: int

    def of(self, group: list[str], stage: str) -> Operator:
        """For a run of Maps and Filters, or any other operator alone; `stage` is that of an Aggregate."""
        first = self.layout.operators[group[0]]
        match first:
            case Map() | Filter():
                return self._chain(group)
            case Aggregate() if not is_sequential(first):
                return self.aggregate(first, stage)
        warm()  # what other operators run of hand-written kernels
        match first:
            case Aggregate():
                return self.aggregate(first, stage)
            case Join() | IntervalJoin() | AsOfJoin():
                return self._join(first)
            case Lookup(table=table):
                return LookupOperator(self._join_spec(first, table.schema), read_table(table))
            case FlatMap() | Delay() | Apply():
                return self._row_by_row(first)
            case Sort() | TopN() | Deduplicate() | StatefulMap():
                return self._in_order(first)
        return PassOperator(first.name, self.layout.words(first.name))

    def _chain(self, group: list[str]) -> Operator:
        stateless = tuple(o for name in group if isinstance(o := self.layout.operators[name], Map | Filter))
        chain = compile_chain(stateless, self.layout.columns(stateless[0].input))
        kind = TextChainOperator if chain.makes_texts else ChainOperator
        whole = kind("+".join(group), chain, self.clock, self.dead_letters)
        return SlowChainOperator(whole) if chain.notes else whole

    def _row_by_row(self, operator: FlatMap | Delay | Apply) -> Operator:
        schema = self.layout.columns(operator.input)
        match operator:
            case FlatMap():
                return FlatMapOperator(operator, compile_chain((as_map(operator),), schema), self.clock, self.dead_letters)
            case Delay():
                return DelayOperator(operator)
            case Apply():
                return ApplyOperator(operator, schema, self.dead_letters)

    def _in_order(self, operator: Sort | TopN | Deduplicate | StatefulMap) -> Operator:
        schema, words, ties = self._held(operator.input)
        hold = Hold(schema, words, ties)
        match operator:
            case TopN() | Sort(window=TimeWindow()):
                return SortOperator(operator, schema, words, ties, self.state_limit)
            case Deduplicate():
                return DeduplicateOperator(operator, hold, self.state_limit)
            case StatefulMap(function=None):
                compiled = compile_stateful(operator, hold.schema)
                return StatefulMapOperator(operator, compiled, hold, self.state_limit, self.clock, self.dead_letters)
            case StatefulMap():
                return StatefulFunctionOperator(operator, hold, self.state_limit, self.dead_letters)
        return SequentialOperator(operator.name, hold, self.state_limit)

    def _held(self, producer: str) -> tuple[Schema, int, bool]:
        """What `Hold` takes, of the tuples of `producer`."""
        return self.layout.columns(producer), self.layout.words(producer), self.layout.ties(producer)

    def aggregate(self, aggregate: Aggregate, stage: str) -> Operator:
        spec = self.layout.spec(aggregate, stage)
        users = stage != "partial" and any(isinstance(function, UserFunction) for _, function in aggregate.functions)
        if is_sequential(aggregate):
            words = self.layout.words(aggregate.input)
            if users:
                return UserSequentialAggregate(aggregate, spec, words, self.state_limit, self.clock, self.dead_letters)
            return SequentialAggregate(aggregate.name, spec, words, self.state_limit, self.clock, self.dead_letters)
        if users:
            warm()
            return UserAggregateOperator(aggregate, spec, self.state_limit, self.dead_letters)
        name = aggregate.name if stage != "partial" else f"{aggregate.name} (partial)"
        adaptive = stage == "partial" and self.layout.query.options.pre_aggregation == "auto"
        return AggregateOperator(name, spec, self.state_limit, self.dead_letters, Reduction(adaptive, self.probe_rows))

    def _join(self, join: Join | IntervalJoin | AsOfJoin) -> Operator:
        spec = self._join_spec(join, self.layout.validated.schemas[join.right])
        if isinstance(join, AsOfJoin):
            left, right = (Hold(*self._held(name)) for name in join.inputs)
            return AsOfJoinOperator(join, spec, (left, right), self.state_limit)
        schemas = [self.layout.columns(name) for name in join.inputs]
        words = [self.layout.words(name) if spec.origin else 0 for name in join.inputs]
        formats = SideFormat("left", 0, schemas[0], words[0]), SideFormat("right", 1, schemas[1], words[1])
        matcher = Matcher(spec, self.clock, self.dead_letters)
        if isinstance(join, IntervalJoin):
            return IntervalJoinOperator(join, matcher, formats, self.state_limit)
        return WindowJoinOperator(join, matcher, formats, self.state_limit)

    def _join_spec(self, join: Join | IntervalJoin | AsOfJoin | Lookup, right: Schema) -> JoinSpec:
        left = self.layout.validated.schemas[join.inputs[0]]
        origin = self.layout.origin(join.name) and not isinstance(join, Lookup)  # that keeps the tuple's
        return JoinSpec.of(join, left, right, self.layout.columns(join.name).names, origin)
