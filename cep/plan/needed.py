"""What of a stream is needed below it: columns, origins, and the grain of the watermarks that are waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial, reduce
from math import gcd
from types import MappingProxyType

from cep.model.functions import Order
from cep.model.operators import Operator, Origins
from cep.model.query import Query
from cep.model.schema import Schema

NO_WORDS: Mapping[str, int] = MappingProxyType({})


def consumers(query: Query, producer: str) -> list[Operator]:
    """The operators that read `producer` (a stream or an operator)."""
    return [operator for operator in query.operators if producer in operator.inputs]


def is_output(query: Query, producer: str) -> bool:
    return any(output.input == producer for output in query.outputs)


def needed_columns(query: Query, producer: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the columns `names` of `producer` that are read, in their order."""
    names = tuple(names)
    if is_output(query, producer):
        return names
    read = set().union(*(_read_by(query, operator, producer, names) for operator in consumers(query, producer)))
    return tuple(name for name in names if name in read)


def _read_by(query: Query, operator: Operator, producer: str, names: tuple[str, ...]) -> Collection[str]:
    """The columns that `operator` reads or passes on to an operator that does."""
    if operator.row_order is not Order.COMMUTATIVE and may_tie(query, producer):
        return names  # what ties is ordered by all its columns
    return operator.reads(operator.inputs.index(producer), names, partial(needed_columns, query, operator.name))


def may_tie(query: Query, producer: str) -> bool:
    """May two tuples of `producer` have the same event time and origin? Where one may come on several ways, or several times."""
    return any(ways > 1 for ways in beginnings(query, producer).values())


def beginnings(query: Query, producer: str) -> Counter[str]:
    """What gave the tuples of `producer` their origin, each with the number of ways from there."""
    operator = _producing(query, producer)
    if operator is None or operator.origins is Origins.HASHED:
        return Counter([producer])
    inputs = [beginnings(query, input_) for input_ in operator.inputs]
    if operator.origins is Origins.FOLDED:
        return _of_pairs(operator, inputs)
    ways = sum(inputs, Counter[str]())
    return ways + ways if operator.repeats else ways


def _producing(query: Query, producer: str) -> Operator | None:
    """None: `producer` is a stream."""
    return next((operator for operator in query.operators if operator.name == producer), None)


def _of_pairs(operator: Operator, inputs: list[Counter[str]]) -> Counter[str]:
    """A joined tuple's origin is that of both sides or, unmatched, of one, whichever join made it; it is one's alone if theirs are."""
    alone = all(ways == 1 for side in inputs for ways in side.values()) and not operator.repeats
    sides = [f"{beginning} on the {side}" for side, ways in zip(operator.input_keys, inputs, strict=True) for beginning in ways]
    return Counter(dict.fromkeys(sides, 1 if alone else 2))


def origin_words(query: Query, producer: str, of_streams: Mapping[str, int] = NO_WORDS) -> int:
    """int64 words of an origin, with the ordinals behind it. `of_streams`: where it begins with more than two."""
    operator = _producing(query, producer)
    if operator is None or operator.origins in (Origins.HASHED, Origins.FOLDED):
        return of_streams.get(producer, 2)
    words = max(origin_words(query, input_, of_streams) for input_ in operator.inputs)
    return words + 1 if operator.origins is Origins.NUMBERED else words


def restrict(schema: Schema, names: tuple[str, ...]) -> Schema:
    """The part of `schema` that has `names`."""
    return Schema(tuple(field for field in schema.fields if field.name in names))


def grain(query: Query, producer: str) -> int:
    """µs; every watermark that an operator below `producer` waits for is a multiple of it. 0: none waits."""
    return reduce(gcd, (operator.grain(grain(query, operator.name)) for operator in consumers(query, producer)), 0)


def wants_origin(query: Query, producer: str, times: Mapping[str, frozenset[str]]) -> bool:
    """Does an operator below order tuples by the origins that those of `producer` have or give? `times`: by producer, the columns that
    are the event time."""
    return any(
        operator.reads_origins(times[producer]) or (operator.origins is not Origins.HASHED and wants_origin(query, operator.name, times))
        for operator in consumers(query, producer)
    )


def leaves_with_origin(query: Query, producer: str) -> bool:
    """Do the origins of the tuples of `producer` leave the query with an output, for a query that reads it may order by them?"""
    below = (operator.name for operator in consumers(query, producer) if operator.origins is not Origins.HASHED)
    return is_output(query, producer) or any(leaves_with_origin(query, name) for name in below)
