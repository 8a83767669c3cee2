"""Queries: a DAG of operators over one or two streams, all of it reaching an output."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.errors import QueryError
from cep.model import functions
from cep.model.expr import lit
from cep.model.operators import Aggregate, Filter, Operator, Sort, Union
from cep.model.query import SPLITS, Options, Output, Query
from cep.model.schema import UNIT_US
from cep.model.streams import Stream
from cep.plan.validate import validate
from tests.reference.rows import Partition
from tests.reference.schemas import branch_schemas, operator_schema
from tests.strategies import operators
from tests.strategies.expressions import conditions
from tests.strategies.operators import Node, aggregate_functions, changes
from tests.strategies.streams import EVENT_TIME, PARTITIONS_MAX, ROWS_MAX, partitions, streams
from tests.strategies.windows import time_windows
from tests.support.kinds import JOINS, KINDS, kind_of

#: Tuples that an operator with state may have to take, roughly.
STATEFUL_ROWS_MAX = 3_000
#: Those over any number of tuples, and of any columns.
PLAIN = ("map", "filter", "union")


@dataclass(frozen=True)
class Case:
    """A query and what its sources bring."""

    query: Query
    inputs: Mapping[str, Sequence[Partition]]


@st.composite
def cases(draw: DrawFn, operators_max: int = 6, kinds: Collection[str] = KINDS) -> Case:
    """A query over one or two published streams."""
    query = draw(published_queries(operators_max, kinds))
    return Case(query, draw(inputs_of(query)))


@st.composite
def published_queries(draw: DrawFn, operators_max: int = 6, kinds: Collection[str] = KINDS, names: tuple[str, str] = ("s", "r")) -> Query:
    """Over the first or both of two streams of these names."""
    declared = [draw(streams(name)) for name in names[: 1 if draw(st.booleans()) else 2]]
    query = draw(queries(declared, operators_max, kinds))
    assume(not makes_text_of_state(query))
    return query


def inputs_of(query: Query) -> SearchStrategy[dict[str, list[Partition]]]:
    """What is published on its streams."""
    return st.fixed_dictionaries({stream.name: partitions(stream) for stream in query.streams})


def makes_text_of_state(query: Query) -> bool:
    """That is refused, and an expression drawn over columns and state does not know it."""
    try:
        validate(query, {})
    except QueryError as error:
        return "over the state" in error.message
    return False


def node_of(stream: Stream) -> Node:
    return Node(stream.name, stream.schema, PARTITIONS_MAX * ROWS_MAX, UNIT_US[stream.schema[EVENT_TIME].type.unit])


@st.composite
def queries(draw: DrawFn, streams_: Sequence[Stream], operators_max: int = 6, kinds: Collection[str] = KINDS) -> Query:
    """A DAG over `streams_` of operators of `kinds`."""
    nodes = [node_of(stream) for stream in streams_]
    made: list[Operator] = []
    for _ in range(draw(st.integers(1, operators_max))):
        if len(made) < operators_max:
            for new in draw(_operators(nodes, f"o{len(made)}", kinds)):
                made.append(new)
                nodes += nodes_of(new, nodes)
    late = draw(st.sampled_from((None, "late"))) if len(streams_) == 1 else None
    options = draw(st.sampled_from(SPLITS).map(lambda split: Options(split=split)))
    return Query("q", tuple(streams_), tuple(made), draw(_outputs(nodes, made)), late, options)


@st.composite
def _operators(draw: DrawFn, nodes: list[Node], name: str, kinds: Collection[str]) -> list[Operator]:
    """One operator over `nodes`; two where a union needs a second input made first."""
    node = draw(st.sampled_from(nodes[::-1]))
    any_ = node.rows <= STATEFUL_ROWS_MAX and operators.comparable(node.schema)
    kind = draw(st.sampled_from([kind for kind in KINDS if kind in kinds and (any_ or kind in PLAIN)]))
    if kind == "union":
        return draw(unions(nodes, node, name))
    if kind in JOINS:
        others = [other for other in nodes if node.rows * other.rows <= STATEFUL_ROWS_MAX]
        return [draw(joined(kind, node, draw(st.sampled_from(others[::-1])), name))] if others else [draw(operators.filters(node, name))]
    return [draw(one_input(kind, node, name))]


def one_input(kind: str, node: Node, name: str) -> SearchStrategy[Operator]:
    """An operator of `kind` over `node`."""
    type_, _, window = kind.partition(" ")
    match type_:
        case "aggregate":
            return operators.aggregates(node, name, window)
        case "sort" if window == "size":
            return operators.chunk_sorts(node, name)
        case "sort" if not window:
            return st.just(Sort(name, node.name))
        case "stateful_map" if window:
            return operators.stateful_functions(node, name)
    return _ONE_INPUT[type_](node, name)


_ONE_INPUT = {
    "map": operators.maps,
    "filter": operators.filters,
    "flat_map": operators.flat_maps,
    "demux": operators.demuxes,
    "apply": operators.applies,
    "delay": operators.delays,
    "lookup": operators.lookups,
    "sort": operators.sorts,
    "top_n": operators.top_ns,
    "sample": operators.samples,
    "sample_n": operators.sample_ns,
    "keep_last": operators.keep_lasts,
    "deduplicate": operators.deduplicates,
    "over": operators.overs,
    "stateful_map": operators.stateful_maps,
    "pattern": operators.short_patterns,
}


def joined(kind: str, left: Node, right: Node, name: str) -> SearchStrategy[Operator]:
    """A join of `kind`; both sides may be one."""
    return _TWO_INPUTS[kind](left, right, name)


_TWO_INPUTS = {
    "join": operators.joins,
    "interval_join": operators.interval_joins,
    "as_of_join": operators.as_of_joins,
    "zip": operators.zips,
}


@st.composite
def unions(draw: DrawFn, nodes: list[Node], node: Node, name: str) -> list[Operator]:
    """A Union, and a second input for it if there is none."""
    others = [other for other in nodes if other is not node and other.schema == node.schema]
    if not others:
        branch = Filter(f"{name}f", node.name, draw(conditions(node.schema)))
        return [branch, Union(name, (node.name, branch.name))]
    chosen = draw(st.lists(st.sampled_from(others), min_size=1, max_size=2, unique_by=lambda other: other.name))
    return [Union(name, (node.name, *(other.name for other in chosen)))]


def nodes_of(made: Operator, nodes: Sequence[Node]) -> list[Node]:
    """What `made` yields, as inputs of others."""
    inputs = [next(node for node in nodes if node.name == name) for name in made.inputs]
    schemas = branch_schemas(made, [node.schema for node in inputs])
    return [Node(name, schema, _rows(made, inputs), max(node.tick for node in inputs)) for name, schema in schemas.items()]


def _rows(made: Operator, inputs: Sequence[Node]) -> int:
    """At most, or what is likely: windows meet in few pairs, an aggregate has fewer groups than tuples."""
    rows = [node.rows for node in inputs]
    match kind_of(made):
        case "union":
            return sum(rows)
        case "join" | "interval_join":
            return rows[0] * rows[1] // 2 + sum(rows)
        case "lookup" | "apply" | "flat_map" | "sort time" | "aggregate time":
            return 3 * rows[0]
    return rows[0]


@st.composite
def _outputs(draw: DrawFn, nodes: list[Node], made: list[Operator]) -> tuple[Output, ...]:
    """Everything that is not read, and now and then something that is read."""
    consumed = {name for one in made for name in one.inputs}
    leaves = [node.name for node in nodes if node.name not in consumed]
    inner = draw(st.lists(st.sampled_from(sorted(consumed)), max_size=1))
    return tuple(Output(f"out_{name}", name) for name in (*leaves, *inner))


@st.composite
def tied_cases(draw: DrawFn) -> Case:
    """Rows that agree in event time and origin: a stream on two ways to one FIRST or LAST, changed on one of them."""
    stream = draw(streams())
    node = node_of(stream)
    ways = [draw(st.one_of(changes(node, f"w{i}"), operators.filters(node, f"w{i}"))) for i in range(2)]
    schemas_ = [operator_schema(way, [stream.schema]) for way in ways]
    inputs = tuple(way.name for way, schema in zip(ways, schemas_, strict=True) if schema == schemas_[0])
    joined_ = Union("u", inputs if len(inputs) > 1 else ("w0", "w0x"))
    extra = () if len(inputs) > 1 else (Filter("w0x", "w0", lit(True)),)
    names = schemas_[0].names
    edges = [make(column) for make in (functions.first, functions.last) for column in names]
    edges += [functions.collect(column, 3) for column in names] + [functions.arg_max(column, names[0]) for column in names]
    asked = [*edges, draw(aggregate_functions(schemas_[0]))]
    by = tuple(draw(st.lists(st.sampled_from(schemas_[0].names), max_size=draw(st.sampled_from((0, 1))))))
    last = Aggregate("a", "u", draw(time_windows(node.tick)), by, tuple((f"r{i}", function) for i, function in enumerate(asked)))
    used = [way for way in ways if way.name in inputs]
    options = Options(split=draw(st.sampled_from(SPLITS)))
    query = Query("q", (stream,), (*used, *extra, joined_, last), (Output("out", "a"),), options=options)
    return Case(query, {"s": draw(partitions(stream))})
