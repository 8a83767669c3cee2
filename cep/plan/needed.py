"""What of a stream is needed below it: columns, origins, and the grain of the watermarks that somebody waits for."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from math import gcd

from cep.model.expr import columns_of
from cep.model.functions import Function, Order
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import Query
from cep.model.schema import Schema


def readers(query: Query, producer: str) -> list[Operator]:
    """The operators that read `producer` (a stream or an operator)."""
    return [operator for operator in query.operators if producer in operator.inputs]


def is_output(query: Query, producer: str) -> bool:
    return any(output.input == producer for output in query.outputs)


def needed_columns(query: Query, producer: str, schema: Schema) -> tuple[str, ...]:
    """Names of the columns of `producer` that somebody reads, in the order of its schema."""
    if is_output(query, producer):
        return schema.names
    names = set().union(*(_read_by(query, operator, schema) for operator in readers(query, producer)))
    return tuple(name for name in schema.names if name in names)


def _read_by(query: Query, operator: Operator, schema: Schema) -> set[str]:
    match operator:
        case Map(_, _, fields):
            return set().union(*(columns_of(expr) for _, expr in fields))
        case Filter(name, _, condition):
            return set(columns_of(condition)) | set(needed_columns(query, name, schema))
        case Union(name, _):
            return set(needed_columns(query, name, schema))
        case Aggregate(_, input_, _, _, functions) if _ordered(functions) and may_tie(query, input_):
            return set(schema.names)
        case Aggregate(_, _, _, by, functions):
            return {*by, *(f.column for _, f in functions if f.column is not None)}


def _ordered(functions: tuple[tuple[str, Function], ...]) -> bool:
    return any(function.order is Order.MERGEABLE for _, function in functions)


def may_tie(query: Query, producer: str) -> bool:
    """May two tuples of `producer` have the same event time and origin? Where a Union joins two ways from one beginning."""
    return any(ways > 1 for ways in _beginnings(query, producer).values())


def _beginnings(query: Query, producer: str) -> Counter[str]:
    """The streams and aggregates that gave the tuples of `producer` their origin, each with the number of ways from there."""
    operator = next((operator for operator in query.operators if operator.name == producer), None)
    if operator is None or isinstance(operator, Aggregate):
        return Counter([producer])
    return sum((_beginnings(query, input_) for input_ in operator.inputs), Counter[str]())


def restrict(schema: Schema, names: tuple[str, ...]) -> Schema:
    """The part of `schema` that has `names`."""
    return Schema(tuple(field for field in schema.fields if field.name in names))


def grain(query: Query, producer: str) -> int:
    """µs; every window boundary that an aggregate below `producer` waits for is a multiple of it. 0: nobody waits."""
    return reduce(gcd, (_grain_of(query, operator) for operator in readers(query, producer)), 0)


def _grain_of(query: Query, operator: Operator) -> int:
    below = grain(query, operator.name)
    return gcd(below, operator.window.pane) if isinstance(operator, Aggregate) else below


def aggregates_fed(query: Query, producer: str) -> list[Aggregate]:
    """The aggregates that get the tuples of `producer`, through stateless operators only: those that may ask for its origin."""
    found: list[Aggregate] = []
    for operator in readers(query, producer):
        found += [operator] if isinstance(operator, Aggregate) else aggregates_fed(query, operator.name)
    return found
