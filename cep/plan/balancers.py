"""Joins subqueries by edges and gives every edge its balancer (paper 4.1.2, Figures 8 to 11; rule 6.2).

The rule, for an edge into a subquery:

1. one instance there: point-to-point;
2. a stateful operator there, and the rows are partitioned already by columns that are in its key, into as many
   instances: point-to-point, instance i to instance i, and the partitioning goes on;
3. a theta join there: broadcast on the one side, round-robin on the other;
4. another stateful operator there: route-key by the group fields, under the names that they have where they enter;
5. otherwise: round-robin.

What a stream brings is shared out where it enters: blocks of files by number, published batches in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cep.errors import QueryError, escaped
from cep.model.operators import Operator
from cep.model.schema import Field, Schema
from cep.model.types import promoted
from cep.plan.lineage import CommonKey, common_key, entries_of, trace
from cep.plan.parallelize import is_spread_theta, operators_of, replica_key
from cep.plan.physical import OUTSIDE, Edge, PhysicalPlan, Subquery, edge_name

POINTER = "/options/balancers"


def connect_subqueries(plan: PhysicalPlan) -> PhysicalPlan:
    """Adds the edges, of which those into stateful operators need the choices made for the edges before them.

    Raises:
        QueryError: an overriding balancer would change answers, or there is nothing for it to balance.
    """
    _check_overridden(plan)
    keys = replica_key(plan) if plan.query.options.replicas > 1 else CommonKey({})
    for subquery in plan.subqueries:
        edges = *_input_edges(plan, subquery, keys), *_inner_edges(plan, subquery)
        plan = replace(plan, edges=plan.edges + edges)
    return replace(plan, edges=plan.edges + tuple(_output_edges(plan)) + tuple(_late_edges(plan)))


def route_fields(plan: PhysicalPlan, edge: Edge, schemas: Mapping[str, Schema]) -> tuple[Field, ...]:
    """The columns by which rows of `edge` are routed, in the types in which they meet those of the other edges like it: equal numbers
    have to have equal hashes. `schemas` are those of the validated query."""
    alike = [e for e in plan.edges if e.is_input == edge.is_input and not e.is_output and len(e.fields) == len(edge.fields)]
    meeting = alike if edge.is_input else [e for e in alike if e.target == edge.target]
    return tuple(_meeting_field(schemas, edge, meeting, i) for i in range(len(edge.fields)))


def _meeting_field(schemas: Mapping[str, Schema], edge: Edge, others: Sequence[Edge], i: int) -> Field:
    """Field i of `edge` in the type that holds it and all that it can be equal to. Edges that it cannot never meet it."""
    own = schemas[edge.producer][edge.fields[i]]
    fields = [schemas[other.producer][other.fields[i]] for other in others]
    comparable = [field for field in fields if promoted((own.type, field.type)) is not None]
    type_ = promoted(tuple(field.type for field in comparable))
    return Field(own.name, own.type if type_ is None else type_, any(field.nullable for field in comparable))


# --- edges -----------------------------------------------------------------------------------------------------------


def _input_edges(plan: PhysicalPlan, subquery: Subquery, keys: CommonKey) -> Iterator[Edge]:
    balancer = "round-robin" if subquery.parallelism > 1 else "point-to-point"
    for name in subquery.streams:
        yield Edge(edge_name("", name), name, name, subquery.name, name, 0, balancer, keys.fields.get(name, ()))


def _inner_edges(plan: PhysicalPlan, subquery: Subquery) -> Iterator[Edge]:
    operators = operators_of(plan, subquery)
    key = common_key(operators) if subquery.stateful and subquery.parallelism > 1 else CommonKey({})
    inside = {*subquery.operators, *subquery.streams}
    bare = [
        Edge(edge_name(producer, operator.name), plan.subquery_of(producer).name, producer, subquery.name, operator.name, port)
        for operator in operators
        for port, producer in enumerate(operator.inputs)
        if producer not in inside
    ]
    overrides = dict(plan.query.options.balancers)
    # Rerouted, all of them or none: a group has to come together whichever way its rows go.
    rerouted = any(overrides.get(edge.consumer) == "route-key" for edge in bare)
    kept = () if rerouted else _kept(plan, subquery, {edge.producer for edge in bare}, key)
    for edge in bare:
        natural = _natural(subquery, edge, key.fields.get(edge.producer, ()), kept)
        natural = _spread(operators, natural) if subquery.parallelism > 1 and is_spread_theta(operators) else natural
        yield _overridden(plan, natural, overrides.get(edge.consumer, natural.balancer))


def _output_edges(plan: PhysicalPlan) -> Iterator[Edge]:
    for output in plan.query.outputs:
        source = plan.subquery_of(output.input).name
        yield Edge(edge_name(output.input, output.stream), source, output.input, OUTSIDE, output.stream)


def _late_edges(plan: PhysicalPlan) -> Iterator[Edge]:
    """Rows are late where a source is read; a stream stamped at ingestion has none."""
    late = plan.query.late
    for subquery in plan.subqueries if late is not None else ():
        for name in subquery.streams:
            if late is not None and plan.streams[name].event_time is not None:
                yield Edge(edge_name(name, late), subquery.name, name, OUTSIDE, late, late=True)


# --- balancers -------------------------------------------------------------------------------------------------------


def _natural(subquery: Subquery, edge: Edge, fields: tuple[str, ...], kept: tuple[str, ...]) -> Edge:
    if subquery.parallelism == 1:
        return edge
    if kept:
        return replace(edge, fields=kept)
    return replace(edge, balancer="route-key", fields=fields) if fields else replace(edge, balancer="round-robin")


def _spread(operators: tuple[Operator, ...], edge: Edge) -> Edge:
    """Into a theta join: one side everywhere, the other shared out."""
    everywhere = edge.port == operators[0].everywhere
    return replace(edge, balancer="broadcast" if everywhere else "round-robin", fields=())


def _kept(plan: PhysicalPlan, subquery: Subquery, producers: set[str], key: CommonKey) -> tuple[str, ...]:
    """The columns by which the rows are partitioned already, if that satisfies `key`; none if it does not.

    Only for subqueries with one producer: several would have to be partitioned alike.
    """
    if not key.fields or len(producers) != 1:
        return ()
    producer = next(iter(producers))
    upstream = plan.subquery_of(producer)
    labels = _partitioning(plan, upstream, producer) if upstream.parallelism == subquery.parallelism else []
    inside = {operator.name: operator for operator in operators_of(plan, upstream)}
    traced = {column: trace(producer, column, inside) for column in key.fields[producer]}
    carriers = [next((column for column, label in traced.items() if label == wanted), None) for wanted in labels]
    return tuple(column for column in carriers if column is not None) if None not in carriers else ()


def _partitioning(plan: PhysicalPlan, subquery: Subquery, producer: str) -> Sequence[Mapping[str, str]]:
    """The labels (`cep.plan.lineage`) by which instances divide the rows of `producer`; none if they do by chance."""
    inside = {operator.name: operator for operator in operators_of(plan, subquery)}
    entries = entries_of(inside[producer], inside) if producer in inside else frozenset()
    into = [edge for edge in plan.edges_into(subquery.name) if edge.is_inner and edge.producer in entries]
    fields = {edge.producer: edge.fields for edge in into}
    if fields.keys() != entries:
        return []
    width = min(map(len, fields.values()), default=0)
    return [{entry: columns[i] for entry, columns in fields.items()} for i in range(width)]


# --- overrides -------------------------------------------------------------------------------------------------------


def _overridden(plan: PhysicalPlan, natural: Edge, balancer: str) -> Edge:
    """The edge with the balancer asked for. Raises QueryError where that would change answers, saying why."""
    target, source = plan.subquery(natural.target), plan.subquery(natural.source)
    if target.parallelism == 1 or balancer == natural.balancer:
        return natural  # to one instance, all four are the same
    theta = is_spread_theta(operators_of(plan, target))
    why = _unsound_theta(target, natural, balancer) if theta else _unsound(source, target, natural, balancer)
    if why:
        raise _refusal(natural.consumer, balancer, natural.balancer, why)
    return replace(natural, balancer=balancer)


def _unsound(source: Subquery, target: Subquery, edge: Edge, balancer: str) -> str:
    n = target.parallelism
    match balancer:
        case "broadcast":
            return f"each of the {n} instances of {target.name} would process every tuple, and every answer come {n} times"
        case "route-key" if not edge.fields:
            return f"no stateful operator of {target.name} gets its tuples, so there is no key to route by"
        case "round-robin" if target.stateful:
            return f"tuples of one group would go to different instances of {target.name}, which has state"
        case "point-to-point" if target.stateful:
            return f"tuples of one group are at different instances of {source.name} and would stay apart"
        case "point-to-point" if source.parallelism != n:
            sizes = f"{source.name} has parallelism {source.parallelism} and {target.name} {n}"
            return f"{sizes}, so {n - 1} of these would get nothing"
    return ""


def _unsound_theta(target: Subquery, edge: Edge, balancer: str) -> str:
    if edge.balancer == "broadcast":
        return f"every instance of {target.name} has to meet every tuple of this side of its theta join"
    if balancer == "broadcast":
        return f"each of the {target.parallelism} instances of {target.name} would join every tuple of both sides"
    return "a theta join has no key to route by, and its side that is not broadcast is shared out in turn"


def _refusal(operator: str, balancer: str, natural: str, why: str) -> QueryError:
    return QueryError(f"balancer {balancer!r} before operator {operator!r}: {why}; use {natural!r}", f"{POINTER}/{escaped(operator)}")


def _check_overridden(plan: PhysicalPlan) -> None:
    """Every override names an operator with a balancer before it."""
    operators = {operator.name: operator for operator in plan.query.operators}
    for name, balancer in plan.query.options.balancers:
        if name not in operators:
            raise QueryError(f"balancers: no operator {name!r}; there are {', '.join(operators)}", f"{POINTER}/{escaped(name)}")
        home = plan.subquery_of(name)
        if any(input_ not in home.operators + home.streams for input_ in operators[name].inputs):
            continue
        shared_out = "round-robin" if home.parallelism > 1 else balancer
        if set(operators[name].inputs) <= set(home.operators):
            raise QueryError(
                f"balancers: operator {name!r} reads inside {home.name}, where there is no balancer",
                f"{POINTER}/{escaped(name)}",
            )
        if balancer != shared_out:
            raise _refusal(name, balancer, shared_out, "a stream is shared out before it is read, by blocks or batches")
