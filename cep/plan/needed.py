"""What of a stream is needed below it: columns, origins, and the grain of the watermarks that somebody waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from math import gcd
from types import MappingProxyType

from cep.model.expr import Expr, columns_of
from cep.model.functions import Order
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
    Operator,
    Sort,
    StatefulMap,
    TopN,
    Union,
    is_sequential,
    is_stateful,
)
from cep.model.query import Query
from cep.model.schema import Schema
from cep.model.windows import SizeWindow, TimeWindow, TransactionWindow, UnboundedWindow

NO_WORDS: Mapping[str, int] = MappingProxyType({})


def readers(query: Query, producer: str) -> list[Operator]:
    """The operators that read `producer` (a stream or an operator)."""
    return [operator for operator in query.operators if producer in operator.inputs]


def is_output(query: Query, producer: str) -> bool:
    return any(output.input == producer for output in query.outputs)


def needed_columns(query: Query, producer: str, schema: Schema) -> tuple[str, ...]:
    """Names of the columns of `producer` that somebody reads, in the order of its schema."""
    if is_output(query, producer):
        return schema.names
    names = set().union(*(_read_by(query, operator, producer, schema) for operator in readers(query, producer)))
    return tuple(name for name in schema.names if name in names)


def _read_by(query: Query, operator: Operator, producer: str, schema: Schema) -> set[str]:
    """The columns of `producer`, of this schema, that `operator` reads or passes on to somebody who does."""
    if is_ordered(operator) and may_tie(query, producer):
        return set(schema.names)
    match operator:
        case Map(fields=fields) | FlatMap(fields=fields):
            return _of_all(expr for _, expr in fields)
        case Filter(name=name, condition=condition):
            return set(columns_of(condition)) | set(needed_columns(query, name, schema))
        case Union(name=name) | Delay(name=name) | Sort(name=name, window=None):
            return set(needed_columns(query, name, schema))
        case Apply(columns=columns):
            return set(columns)
        case Aggregate(window=window, by=by, functions=functions):
            conditions = [window.open, window.close] if isinstance(window, TransactionWindow) else []
            return {*by, *(column for _, f in functions for column in f.columns), *_of_all(conditions)}
        case Sort(name=name, by=by, order=order) | TopN(name=name, by=by, order=order):
            return {*by, *(column for column, _ in order), *needed_columns(query, name, schema)}
        case Deduplicate(name=name, by=by):
            return {*by, *needed_columns(query, name, schema)}
        case StatefulMap(by=by, columns=columns, update=update, fields=fields):
            return {*by, *columns, *_of_all(expr for _, expr in (*update, *fields))} & set(schema.names)
        case Lookup(on=on):
            return {left for left, _ in on} | _passed_on(query, operator, schema, "")
        case Join() | IntervalJoin() | AsOfJoin():
            return _read_by_join(query, operator, producer, schema)
    raise AssertionError(operator)


def _of_all(expressions: Iterable[Expr]) -> set[str]:
    return set().union(*map(columns_of, expressions))


def _read_by_join(query: Query, join: Join | IntervalJoin | AsOfJoin, producer: str, schema: Schema) -> set[str]:
    side = join.inputs.index(producer)
    keys = {pair[side] for pair in join.on}
    return keys | _passed_on(query, join, schema, join.prefix if side else "")


def _passed_on(query: Query, operator: Join | IntervalJoin | AsOfJoin | Lookup, schema: Schema, prefix: str) -> set[str]:
    """Columns of a side, of this schema, that somebody reads from the joined rows, there under `prefix`; or the condition does."""
    if is_output(query, operator.name):
        return set(schema.names)
    joined = Schema(tuple(replace(field, name=prefix + field.name) for field in schema.fields))
    wanted = set(needed_columns(query, operator.name, joined))
    if isinstance(operator, Join | IntervalJoin) and operator.condition is not None:
        wanted |= columns_of(operator.condition)
    return {name for name in schema.names if prefix + name in wanted}


def is_ordered(operator: Operator) -> bool:
    """Does an answer of it depend on the stream order of its tuples (DESIGN 4.5)?"""
    match operator:
        case Aggregate(functions=functions):
            return is_sequential(operator) or any(function.order is not Order.COMMUTATIVE for _, function in functions)
        case Sort() | TopN():
            return True
    return is_sequential(operator)


def may_tie(query: Query, producer: str) -> bool:
    """May two tuples of `producer` have the same event time and origin? Where one may come on several ways, or several times."""
    return any(ways > 1 for ways in beginnings(query, producer).values())


def beginnings(query: Query, producer: str) -> Counter[str]:
    """What gave the tuples of `producer` their origin, each with the number of ways from there."""
    operator = next((operator for operator in query.operators if operator.name == producer), None)
    if operator is None or (isinstance(operator, Aggregate) and makes_origins(operator)):
        return Counter([producer])
    inputs = [beginnings(query, input_) for input_ in operator.inputs]
    if makes_origins(operator):
        return _of_pairs(operator, inputs)
    ways = sum(inputs, Counter[str]())
    return ways + ways if _repeats(operator) else ways


def _of_pairs(join: Operator, inputs: list[Counter[str]]) -> Counter[str]:
    """A joined tuple's origin is that of both sides or, unmatched, of one, whichever join made it; it is one's alone if theirs are."""
    alone = all(ways == 1 for side in inputs for ways in side.values()) and not _repeats(join)
    sides = [f"{beginning} on the {side}" for side, ways in zip(("left", "right"), inputs, strict=True) for beginning in ways]
    return Counter(dict.fromkeys(sides, 1 if alone else 2))


def _repeats(operator: Operator) -> bool:
    """May several tuples come out with the origin of one? At the ends of several windows, or of several windows with one last tuple."""
    match operator:
        case Sort(window=TimeWindow() as window) | TopN(window=window):
            return window.advance < window.size
        case Join(window=window, right_window=other):
            return window.advance < max(window.size, other.size)
        case Aggregate(emit_partial=emit_partial):
            return emit_partial
    return False


def makes_origins(operator: Operator) -> bool:
    """Aggregates over spans of time hash their key and window; joined rows fold both sides'. Others keep the origin of the tuple."""
    if isinstance(operator, Aggregate):
        return not keeps_origins(operator)
    return isinstance(operator, Join | IntervalJoin | AsOfJoin)


def keeps_origins(aggregate: Aggregate) -> bool:
    """An answer at the time of the last tuple that contributed has its origin too, so that a group's answers keep their order."""
    window = aggregate.window
    return isinstance(window, SizeWindow | TransactionWindow) or (isinstance(window, UnboundedWindow) and window.advance is None)


def origin_words(query: Query, producer: str, of_streams: Mapping[str, int] = NO_WORDS) -> int:
    """int64 words of an origin: a FlatMap, an Apply and a Lookup append an ordinal. `of_streams`: where it begins with more than
    two."""
    operator = next((operator for operator in query.operators if operator.name == producer), None)
    if operator is None or makes_origins(operator):
        return of_streams.get(producer, 2)
    words = max(origin_words(query, input_, of_streams) for input_ in operator.inputs)
    return words + 1 if isinstance(operator, FlatMap | Apply | Lookup) else words


def restrict(schema: Schema, names: tuple[str, ...]) -> Schema:
    """The part of `schema` that has `names`."""
    return Schema(tuple(field for field in schema.fields if field.name in names))


def grain(query: Query, producer: str) -> int:
    """µs; every window boundary that an aggregate below `producer` waits for is a multiple of it. 0: nobody waits."""
    return reduce(gcd, (_grain_of(query, operator) for operator in readers(query, producer)), 0)


def _grain_of(query: Query, operator: Operator) -> int:
    match operator:
        case Aggregate(window=TimeWindow() as window) if not is_sequential(operator):
            own = window.pane
        case Aggregate(window=UnboundedWindow(advance=int(advance))) if not is_sequential(operator):
            own = advance
        case Sort(window=TimeWindow() as window) | TopN(window=window):
            own = window.pane
        case Join(window=window):
            own = window.advance
        case Delay(by=by):
            below = grain(query, operator.name)
            return gcd(below, by) if below else 0
        case _:
            own = 1 if is_stateful(operator) else 0
    return gcd(grain(query, operator.name), own)


def wants_origin(query: Query, producer: str, of_states: Callable[[Aggregate], bool]) -> bool:
    """Does somebody below order tuples by the origins that those of `producer` have or give?

    `of_states`: does this aggregate, whose functions know an order, ask for it? FIRST of the event time does not.
    """
    return any(_wants(query, operator, of_states) for operator in readers(query, producer))


def _wants(query: Query, operator: Operator, of_states: Callable[[Aggregate], bool]) -> bool:
    if isinstance(operator, Aggregate) and not is_sequential(operator):
        return of_states(operator)
    return is_ordered(operator) or wants_origin(query, operator.name, of_states)


def leaves_with_origin(query: Query, producer: str) -> bool:
    """Do the origins of the tuples of `producer` leave the query with an output, for a query that reads it may order by them?"""
    below = (o.name for o in readers(query, producer) if not (isinstance(o, Aggregate) and makes_origins(o)))
    return is_output(query, producer) or any(leaves_with_origin(query, name) for name in below)
