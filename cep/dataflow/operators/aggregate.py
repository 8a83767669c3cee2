"""Which operator an Aggregate is at work: by its window, its functions and its stage."""

from __future__ import annotations

from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import AggregateOperator, StatefulOperator
from cep.dataflow.operators.pre_aggregation import Reduction
from cep.dataflow.operators.sequential_aggregate import SequentialAggregate
from cep.dataflow.operators.user_aggregate import UserAggregateOperator, UserSequentialAggregate
from cep.kernels.jit import warm
from cep.model.functions import Order, UserFunction
from cep.model.operators import Aggregate


def build(aggregate: Aggregate, context: BuildContext) -> StatefulOperator:
    """The one that answers."""
    spec = context.layout.spec(aggregate, context.layout.stage(aggregate.name))
    users = any(isinstance(function, UserFunction) for _, function in aggregate.functions)
    limit, dead_letters = context.state_limit, context.dead_letters
    if aggregate.row_order is Order.SEQUENTIAL:
        warm()
        words = context.layout.words(aggregate.input)
        if users:
            return UserSequentialAggregate(aggregate, spec, words, limit, context.clock, dead_letters)
        return SequentialAggregate(aggregate.name, spec, words, limit, context.clock, dead_letters)
    if users:
        warm()
        return UserAggregateOperator(aggregate, spec, limit, dead_letters)
    return AggregateOperator(aggregate.name, spec, limit, dead_letters, Reduction(False, context.probe_rows))


def partial_name(aggregate: str) -> str:
    """Of the operator that makes partial results for the Aggregate of that name."""
    return f"{aggregate} (partial)"


def build_partial(aggregate: Aggregate, context: BuildContext) -> AggregateOperator:
    """Tuples to partial results, before the balancer."""
    adaptive = context.layout.query.options.pre_aggregation == "auto"
    reduction = Reduction(adaptive, context.probe_rows)
    spec = context.layout.spec(aggregate, "partial")
    return AggregateOperator(partial_name(aggregate.name), spec, context.state_limit, context.dead_letters, reduction)
