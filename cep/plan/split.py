"""Cuts a query into subqueries (paper 4, Figures 3 and 4; rule 6.1).

The paper's default: a new subquery begins at a stateful operator and at an operator with more than one input. So all
stateless operators before the first stateful one form one subquery, and a stateful operator's stateless successors
belong to its own.

Where a stream is read: in the subquery of its readers, if those that are stateless with one input are all in one
subquery, and nothing else comes into that; otherwise in a subquery of its own without operators, which parses the
stream and routes it. So every stream is read once, however many operators read it, and a stateful operator straight behind a stream
still has a balancer before it. Under `single` everything, reading too, is in one subquery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import TypeVar

from cep.errors import QueryError
from cep.model.operators import Operator
from cep.model.query import Query
from cep.plan.physical import Subquery

POINTER = "/options/subqueries"

Vertex = TypeVar("Vertex", int, str)


def split(query: Query) -> tuple[Subquery, ...]:
    """The subqueries, in topological order, by `query.options`; parallelism and pre-aggregation are not yet chosen.

    Raises:
        QueryError: the operators form a cycle, or the user's own split is incomplete, overlapping, unconnected or
        cyclic.
    """
    operators = topological(query)
    cut = _parts(query, operators)
    parts = [replace(part, streams=part.streams or _own_streams(part, cut, operators)) for part in cut]
    read = {stream for part in parts for stream in part.streams}
    sources = [_Part((), (stream,)) for stream in streams_read(query) if stream not in read]
    return tuple(
        Subquery(f"SQ{i}", part.operators, any(operators[name].stateful for name in part.operators), part.streams)
        for i, part in enumerate(_in_order(sources + parts, operators), 1)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A subquery in the making: its operators in topological order, and the streams that it reads itself."""

    operators: tuple[str, ...]
    streams: tuple[str, ...] = ()


def topological(query: Query) -> Mapping[str, Operator]:
    """The operators by name, inputs before readers, otherwise as listed. Raises QueryError: they form a cycle."""
    given = {operator.name: operator for operator in query.operators}
    after = {name: {i for i in operator.inputs if i in given} for name, operator in given.items()}
    order = _sorted_dag(after, {name: i for i, name in enumerate(given)})
    if len(order) < len(given):
        cycle = ", ".join(repr(name) for name in given if name not in order)
        raise QueryError(f"operators {cycle} wait for each other's output; a query has no cycles", "/operators")
    return {name: given[name] for name in order}


def streams_read(query: Query) -> tuple[str, ...]:
    """The streams that operators and outputs read, in the order in which they are first named."""
    names = {operator.name for operator in query.operators}
    inputs = [name for operator in query.operators for name in operator.inputs] + [output.input for output in query.outputs]
    return tuple(dict.fromkeys(name for name in inputs if name not in names))


# --- policies --------------------------------------------------------------------------------------------------------


def _parts(query: Query, operators: Mapping[str, Operator]) -> list[_Part]:
    options = query.options
    if options.subqueries:
        return [_Part(names) for names in _by_user(options.subqueries, operators)]
    match options.split:
        case "single":
            return [_Part(tuple(operators), streams_read(query))]
        case "per-operator":
            return [_Part((name,)) for name in operators]
    return [_Part(tuple(names)) for names in _at_stateful(operators)]


def _at_stateful(operators: Mapping[str, Operator]) -> Iterable[list[str]]:
    """The paper's default. A group is known by its head: a stream, or the operator that it begins with."""
    head: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    for name, operator in operators.items():
        begins = operator.stateful or len(operator.inputs) > 1
        head[name] = name if begins else head.get(operator.inputs[0], operator.inputs[0])
        groups.setdefault(head[name], []).append(name)
    return groups.values()


def _by_user(subqueries: tuple[tuple[str, ...], ...], operators: Mapping[str, Operator]) -> Iterable[tuple[str, ...]]:
    """The user's own, checked, each in topological order."""
    owner: dict[str, int] = {}
    for i, names in enumerate(subqueries):
        if not names:
            raise QueryError(f"subquery {i + 1} lists no operator", f"{POINTER}/{i}")
        for j, name in enumerate(names):
            if name not in operators:
                raise QueryError(f"no operator {name!r}; there are {', '.join(operators)}", f"{POINTER}/{i}/{j}")
            if owner.setdefault(name, i) != i or names.index(name) != j:
                raise QueryError(f"operator {name!r} is listed twice; it runs in one subquery", f"{POINTER}/{i}/{j}")
        _check_connected(names, i, operators)
    missing = [name for name in operators if name not in owner]
    if missing:
        raise QueryError(f"operators {', '.join(map(repr, missing))} are in no subquery; list every operator once", POINTER)
    _check_acyclic(owner, operators)
    return [tuple(name for name in operators if owner[name] == i) for i in range(len(subqueries))]


def _check_connected(names: Collection[str], index: int, operators: Mapping[str, Operator]) -> None:
    """Connected: one reads the other, or both read the same."""
    reached, rest = {next(iter(names))}, set(names)
    while reached:
        touching = reached | {input_ for name in reached for input_ in operators[name].inputs}
        rest -= reached
        reached = {name for name in rest if name in touching or touching.intersection(operators[name].inputs)}
    if rest:
        apart = ", ".join(repr(name) for name in operators if name in rest)
        raise QueryError(
            f"subquery {index + 1} is in pieces: nothing joins {apart} to the others; split it",
            f"{POINTER}/{index}",
        )


def _check_acyclic(owner: Mapping[str, int], operators: Mapping[str, Operator]) -> None:
    parts = sorted(set(owner.values()))
    after = {i: {owner[x] for name in owner if owner[name] == i for x in operators[name].inputs if x in owner} - {i} for i in parts}
    ordered = _sorted_dag(after, {i: i for i in parts})
    if len(ordered) < len(parts):
        cycle = " and ".join(str(i + 1) for i in parts if i not in ordered)
        raise QueryError(f"subqueries {cycle} wait for each other's output; tuples flow one way between subqueries", POINTER)


# --- reading and order -----------------------------------------------------------------------------------------------


def _own_streams(part: _Part, parts: list[_Part], operators: Mapping[str, Operator]) -> tuple[str, ...]:
    """The stream that `part` reads itself, if there is one."""
    outside = {name for operator in part.operators for name in operators[operator].inputs if name not in part.operators}
    streams = tuple(outside - operators.keys())
    alone = len(outside) == len(streams) == 1 and _plain_parts(streams[0], parts, operators) == [part]
    return streams if alone else ()


def _plain_parts(stream: str, parts: list[_Part], operators: Mapping[str, Operator]) -> list[_Part]:
    """The parts that have a stateless reader of `stream` with no other input."""
    plain = {name for name, operator in operators.items() if operator.inputs == (stream,) and not operator.stateful}
    return [part for part in parts if plain.intersection(part.operators)]


def _in_order(parts: list[_Part], operators: Mapping[str, Operator]) -> list[_Part]:
    """Topological; of those that could be next, the one with the earliest operator, or reader of its stream."""
    home = {name: i for i, part in enumerate(parts) for name in part.operators + part.streams}
    after = {i: {home[x] for name in part.operators for x in operators[name].inputs} - {i} for i, part in enumerate(parts)}
    rank = {i: _first_use(part, operators) for i, part in enumerate(parts)}
    return [parts[i] for i in _sorted_dag(after, rank)]


def _first_use(part: _Part, operators: Mapping[str, Operator]) -> int:
    """Position of its first operator or, if it has none, of the first that reads its stream."""
    uses = (i for i, (name, o) in enumerate(operators.items()) if name in part.operators or set(part.streams) & set(o.inputs))
    return next(uses, len(operators))


def _sorted_dag(after: Mapping[Vertex, Collection[Vertex]], rank: Mapping[Vertex, int]) -> list[Vertex]:
    """Kahn's algorithm, by rank among those that are ready; what lies on a cycle, or behind one, is left out."""
    waiting = {node: set(before) for node, before in after.items()}
    ready = [(rank[node], node) for node, before in waiting.items() if not before]
    heapify(ready)
    order: list[Vertex] = []
    while ready:
        _, node = heappop(ready)
        order.append(node)
        for reader, before in waiting.items():
            if node in before:
                before.remove(node)
                if not before:
                    heappush(ready, (rank[reader], reader))
    return order
