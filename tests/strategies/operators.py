"""One operator of a kind over given inputs. `name` is its own, and begins the names of the columns that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.model import functions
from cep.model.expr import ColumnRef, Expr, Literal, coalesce
from cep.model.expr_functions import when
from cep.model.operators import (
    JOINS,
    Aggregate,
    Apply,
    AsOfJoin,
    Deduplicate,
    Delay,
    Demux,
    Filter,
    FlatMap,
    IntervalJoin,
    Join,
    KeepLast,
    Lookup,
    Map,
    Over,
    Pairs,
    Pattern,
    Sample,
    SampleN,
    Sort,
    StatefulMap,
    TopN,
    Zip,
)
from cep.model.schema import BOOL, FLOAT64, INT64, STRING, Field, Schema
from cep.model.tables import StaticTable
from cep.model.windows import SizeWindow, TrailingWindow, TransactionWindow, UnboundedWindow
from tests.reference.schemas import joined_schema
from tests.strategies.expressions import conditions, expressions, kind_of_type
from tests.strategies.patterns import patterns
from tests.strategies.values import TYPES, cells, values_of
from tests.strategies.windows import spans, time_windows, windows_of


@dataclass(frozen=True)
class Node:
    """A stream, operator or branch as an input of others.

    `rows` bounds how many tuples it may have, roughly; `tick` is µs.
    """

    name: str
    schema: Schema
    rows: int
    tick: int


# --- stateless -------------------------------------------------------------------------------------------------------


def filters(node: Node, name: str) -> SearchStrategy[Filter]:
    return st.builds(Filter, st.just(name), st.just(node.name), conditions(node.schema))


@st.composite
def maps(draw: DrawFn, node: Node, name: str) -> Map:
    """Either the same columns with one of them computed anew, which a union can take, or others, alone or beside them."""
    if draw(st.booleans()):
        return draw(changes(node, name))
    return Map(name, node.name, draw(fields_over(node.schema, node.schema, f"{name}_f")), draw(st.booleans()))


@st.composite
def changes(draw: DrawFn, node: Node, name: str) -> Map:
    """The same columns, one of them computed anew, by a list of all or by what changes alone; no expression makes lists of anything but
    strings."""
    able = [field for field in node.schema.fields if kind_of_type(field.type) != "other"]
    if not able:
        return Map(name, node.name, tuple((n, ColumnRef(n)) for n in node.schema.names))
    changed = draw(st.sampled_from(able)).name
    expression = draw(expressions(node.schema, kind_of_type(node.schema[changed].type), users=True))
    if draw(st.booleans()):
        return Map(name, node.name, ((changed, expression),), keep_others=True)
    return Map(name, node.name, tuple((n, expression if n == changed else ColumnRef(n)) for n in node.schema.names))


@st.composite
def fields_over(draw: DrawFn, schema: Schema, kept: Schema, prefix: str) -> tuple[tuple[str, Expr], ...]:
    """Some of the columns of `kept`, and some computed over `schema`."""
    kinds = draw(st.lists(st.sampled_from([kind_of_type(type_) for type_ in TYPES]), min_size=1, max_size=3))
    computed = [(f"{prefix}{i}", draw(expressions(schema, kind, users=True))) for i, kind in enumerate(kinds)]
    names = draw(st.lists(st.sampled_from(kept.names), max_size=3, unique=True))
    return (*((name, ColumnRef(name)) for name in names if name not in dict(computed)), *computed)


@st.composite
def flat_maps(draw: DrawFn, node: Node, name: str) -> FlatMap:
    kept = draw(fields_over(node.schema, node.schema, f"{name}_f"))
    return FlatMap(name, node.name, (*kept, (f"{name}_e", draw(expressions(node.schema, "list")))), f"{name}_e")


@st.composite
def demuxes(draw: DrawFn, node: Node, name: str) -> Demux:
    cases = draw(st.lists(conditions(node.schema), min_size=1, max_size=2))
    otherwise = draw(st.sampled_from((None, "rest")))
    return Demux(name, node.name, tuple((f"b{i}", condition) for i, condition in enumerate(cases)), otherwise)


def delays(node: Node, name: str) -> SearchStrategy[Delay]:
    return st.builds(Delay, st.just(name), st.just(node.name), spans(node.tick))


def samples(node: Node, name: str) -> SearchStrategy[Sample]:
    return st.builds(Sample, st.just(name), st.just(node.name), st.sampled_from((0.3, 0.7, 1.0)), st.integers(0, 3))


@st.composite
def applies(draw: DrawFn, node: Node, name: str) -> Apply:
    """What they return is called n, and here by the operator's name: a schema may not have it twice further down."""
    function = draw(st.sampled_from(("nulls", "copies")))
    columns = tuple(draw(st.lists(st.sampled_from(node.schema.names), min_size=1, max_size=3, unique=True)))
    return Apply(name, node.name, f"tests.support.user_functions:{function}", columns, Schema((Field("n", INT64),)))


@st.composite
def lookups(draw: DrawFn, node: Node, name: str) -> Lookup:
    """A table of a few rows, with a column like one of the tuple's and another; where that is an instant, rows hold from it on."""
    like = draw(st.sampled_from([field for field in node.schema.fields if not field.type.is_list]))
    nullable, type_ = draw(st.booleans()), draw(st.sampled_from(TYPES))
    fields = (Field("k", like.type, nullable), Field("v", type_, type_.name != "timestamp"))
    rows = draw(st.lists(st.tuples(*(cells(field, values_of(field.type)) for field in fields)), max_size=4))
    schema = Schema(fields)
    table = StaticTable(schema, data=_ipc(schema, rows))
    how = draw(st.sampled_from(("inner", "left")))
    versions = "v" if type_.name == "timestamp" else None
    return Lookup(name, node.name, table, draw(pairs(node.schema, schema, ((like.name, "k"),))), how, f"{name}_", versions)


def _ipc(schema: Schema, rows: Sequence[tuple[object, ...]]) -> bytes:
    columns = [pa.array([row[i] for row in rows], field.type.arrow) for i, field in enumerate(schema.fields)]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


# --- aggregates ------------------------------------------------------------------------------------------------------


@st.composite
def aggregates(draw: DrawFn, node: Node, name: str, window: str) -> Aggregate:
    made = draw(windows_of(window, node.schema, node.tick))
    bounds = not isinstance(made, UnboundedWindow) or made.advance is not None
    functions_ = draw(several(node.schema, aggregate_functions(node.schema, bounds), 4))
    partial = draw(st.booleans()) and isinstance(made, SizeWindow | TransactionWindow)
    return Aggregate(name, node.name, made, draw(groups(node.schema)), tuple((f"{name}_{i}", f) for i, f in enumerate(functions_)), partial)


@st.composite
def groups(draw: DrawFn, schema: Schema) -> tuple[str, ...]:
    """Columns to group by: mostly one, or none."""
    return tuple(draw(st.lists(st.sampled_from(comparable(schema)), max_size=draw(st.sampled_from((1, 0, 1, 3))), unique=True)))


def comparable(schema: Schema) -> list[str]:
    """Columns with equality and order."""
    return [field.name for field in schema.fields if not field.type.is_list]


def aggregate_functions(schema: Schema, bounds: bool = True) -> SearchStrategy[functions.Function]:
    """`bounds`: those of the window too."""
    numbers = [field.name for field in schema.fields if field.type.is_number]
    any_column, column = st.sampled_from(schema.names), st.sampled_from(comparable(schema))
    arg = st.sampled_from((functions.arg_min, functions.arg_max))
    choices: list[SearchStrategy[functions.Function]] = [
        st.just(functions.count()),
        st.builds(functions.count, any_column),
        _one_of(column, functions.min_, functions.max_, functions.count_distinct),
        st.builds(functions.approx_count_distinct, column, st.sampled_from((4, 5, 12))),
        # they depend on more than the others do: on event time, origin and, beyond these, on whole rows
        *(2 * [_one_of(any_column, functions.first, functions.last)]),
        st.builds(lambda make, value, by: make(value, by), arg, any_column, column),
        st.builds(functions.collect, column, st.sampled_from((1, 2, 3, 100))),
    ]
    if numbers:
        number = st.sampled_from(numbers)
        choices.insert(1, _one_of(number, functions.sum_, functions.avg))
        choices.append(_one_of(number, functions.var, functions.stddev, functions.var_pop, functions.stddev_pop, functions.median))
        choices.append(st.builds(_longest_run, number) | st.builds(_weighted_mean, number, number))
        choices.append(st.builds(functions.quantile, number, st.sampled_from((0, 0.1, 0.25, 0.9, 1))))
    if bounds:
        choices.append(st.sampled_from((functions.window_start(), functions.window_end())))
    return st.one_of(choices)


@st.composite
def several(draw: DrawFn, schema: Schema, one: SearchStrategy[functions.Function], most: int) -> list[functions.Function]:
    """At most so many; now and then some more that are all of one row."""
    drawn = draw(st.lists(one, min_size=1, max_size=most))
    if draw(st.integers(0, 3)):
        return drawn
    columns = draw(st.lists(st.sampled_from(schema.names), min_size=2, max_size=4))
    made = functions.Function(draw(st.sampled_from(functions.OF_A_ROW)))
    by = draw(st.sampled_from(comparable(schema))) if made.name in functions.WITH_BY else None
    return [*drawn, *(replace(made, column=column, by=by) for column in columns)]


def _longest_run(column: str) -> functions.Function:
    """A user's, which knows an order and fails now and then."""
    return functions.UserFunction("tests.support.functions_of_users:Longest", arguments=(column,), type=INT64)


def _weighted_mean(column: str, weight: str) -> functions.Function:
    """A user's, of two columns."""
    return functions.UserFunction("tests.support.functions_of_users:WeightedMean", arguments=(column, weight), type=FLOAT64, nullable=True)


def _one_of(column: SearchStrategy[str], *makers: Callable[[str], functions.Function]) -> SearchStrategy[functions.Function]:
    return st.builds(lambda make, name: make(name), st.sampled_from(makers), column)


# --- joins -----------------------------------------------------------------------------------------------------------


@st.composite
def pairs(draw: DrawFn, left: Schema, right: Schema, sure: Pairs = ()) -> Pairs:
    """Up to two pairs of columns that can be equal, mostly those of one name."""
    able = [(a.name, b.name) for a in left.fields for b in right.fields if _comparable(a, b)]
    same = [pair for pair in able if pair[0] == pair[1]]
    drawn = draw(st.lists(st.sampled_from(same * 3 + able), max_size=draw(st.sampled_from((1, 1, 0, 2))))) if able else []
    return tuple(dict.fromkeys((*sure, *drawn)))


def _comparable(a: Field, b: Field) -> bool:
    kinds = kind_of_type(a.type), kind_of_type(b.type)
    return not a.type.is_list and (kinds[0] == kinds[1] or (a.type.is_number and b.type.is_number))


@st.composite
def joins(draw: DrawFn, left: Node, right: Node, name: str, theta: bool | None = None) -> Join:
    """`theta`: without equalities, or with; None: either."""
    on = () if theta else draw(pairs(left.schema, right.schema))
    how = draw(st.sampled_from(JOINS))
    window = draw(time_windows(left.tick, 3))
    other = draw(st.one_of(st.just(window), st.integers(0, 10).map(lambda more: replace(window, size=window.advance + more * left.tick))))
    broadcast = {"left": "right", "right": "left"}.get(how) or draw(st.sampled_from(("right", "left")))
    made = Join(name, left.name, right.name, window, other, on, how, None, _prefix(left, right, on, name), broadcast)
    return replace(made, condition=draw(join_conditions(made, left, right)))


def _prefix(left: Node, right: Node, on: Pairs, name: str) -> str:
    shared = {a for a, b in on if a == b}
    return f"{name}_" if set(right.schema.names) - shared & set(left.schema.names) else ""


def join_conditions(join: Join | IntervalJoin, left: Node, right: Node) -> SearchStrategy[Expr | None]:
    schema = joined_schema(join, left.schema, right.schema)
    return st.one_of(st.none(), st.none(), expressions(schema, "bool", 1))


@st.composite
def interval_joins(draw: DrawFn, left: Node, right: Node, name: str) -> IntervalJoin:
    on = draw(pairs(left.schema, right.schema))
    lower, upper = sorted(draw(st.tuples(st.integers(-4, 4), st.integers(-4, 4))))
    how = draw(st.sampled_from(JOINS))
    prefix = _prefix(left, right, on, name)
    bounds = [draw(st.sampled_from((bound * left.tick, bound * left.tick, bound * left.tick, None))) for bound in (lower, upper)]
    made = IntervalJoin(name, left.name, right.name, *bounds, on, how, None, prefix)
    return replace(made, condition=draw(join_conditions(made, left, right)))


@st.composite
def as_of_joins(draw: DrawFn, left: Node, right: Node, name: str) -> AsOfJoin:
    on = draw(pairs(left.schema, right.schema))
    how, tolerance = draw(st.sampled_from(("inner", "left"))), draw(st.none() | spans(left.tick))
    return AsOfJoin(name, left.name, right.name, on, how, tolerance, _prefix(left, right, on, name))


def zips(left: Node, right: Node, name: str) -> SearchStrategy[Zip]:
    return st.just(Zip(name, left.name, right.name, f"{name}_"))


# --- order and state -------------------------------------------------------------------------------------------------


@st.composite
def sorts(draw: DrawFn, node: Node, name: str) -> Sort:
    return Sort(name, node.name, draw(time_windows(node.tick, 3)), draw(groups(node.schema)), draw(orders(node.schema)), f"{name}_rank")


@st.composite
def chunk_sorts(draw: DrawFn, node: Node, name: str) -> Sort:
    size, partial = draw(st.integers(1, 4)), draw(st.booleans())
    return Sort(name, node.name, SizeWindow(size, size), draw(groups(node.schema)), draw(orders(node.schema)), f"{name}_rank", partial)


@st.composite
def orders(draw: DrawFn, schema: Schema) -> tuple[tuple[str, bool], ...]:
    names = draw(st.lists(st.sampled_from(comparable(schema)), min_size=1, max_size=2, unique=True))
    return tuple((name, draw(st.booleans())) for name in names)


@st.composite
def top_ns(draw: DrawFn, node: Node, name: str) -> TopN:
    window, by, order = draw(time_windows(node.tick, 3)), draw(groups(node.schema)), draw(orders(node.schema))
    return TopN(name, node.name, window, by, order, draw(st.integers(1, 3)), f"{name}_rank")


@st.composite
def keep_lasts(draw: DrawFn, node: Node, name: str) -> KeepLast:
    by = draw(st.lists(st.sampled_from(comparable(node.schema)), min_size=1, max_size=2, unique=True))
    return KeepLast(name, node.name, draw(time_windows(node.tick, 3)), tuple(by))


@st.composite
def sample_ns(draw: DrawFn, node: Node, name: str) -> SampleN:
    window, by = draw(time_windows(node.tick, 3)), draw(groups(node.schema))
    return SampleN(name, node.name, window, by, draw(st.integers(1, 3)), draw(st.integers(0, 3)))


@st.composite
def deduplicates(draw: DrawFn, node: Node, name: str) -> Deduplicate:
    by = draw(st.lists(st.sampled_from(comparable(node.schema)), min_size=1, max_size=2, unique=True))
    return Deduplicate(name, node.name, tuple(by), draw(st.none() | spans(node.tick)))


@st.composite
def overs(draw: DrawFn, node: Node, name: str) -> Over:
    """Users' functions are refused, and a trailing window has no bounds to ask for."""
    window = draw(st.builds(TrailingWindow, spans(node.tick), st.none()) | st.builds(TrailingWindow, st.none(), st.integers(1, 5)))
    any_function = aggregate_functions(node.schema, False).filter(lambda function: not isinstance(function, functions.UserFunction))
    lags = st.builds(functions.lag, st.sampled_from(node.schema.names), st.integers(1, 3))
    places = lags | st.just(functions.row_number())
    asked = draw(several(node.schema, any_function | any_function | places, 3))
    ttl = draw(st.none() | st.none() | spans(node.tick))
    return Over(name, node.name, window, draw(groups(node.schema)), tuple((f"{name}_{i}", f) for i, f in enumerate(asked)), ttl)


@st.composite
def short_patterns(draw: DrawFn, node: Node, name: str) -> Pattern:
    """Of some rows and few words; `rows: all` only where no column has the name of another."""
    by = draw(groups(node.schema))
    made = draw(patterns((node.name,), node.schema, name, by, short=True))
    measures = tuple((f"{name}_m{i}", expr) for i, (_, expr) in enumerate(made.measures))
    clash = {"variable", "match_number", *dict(measures)} & set(node.schema.names)
    return replace(made, measures=measures, rows="one" if clash else made.rows)


#: Kinds of expressions of which a state may be, with its type: an expression of them has no other.
_STATES = {"integer": INT64, "float64": FLOAT64, "bool": BOOL, "string": STRING}


@st.composite
def stateful_maps(draw: DrawFn, node: Node, name: str) -> StatefulMap:
    by, ttl = draw(groups(node.schema)), draw(st.none() | spans(node.tick))
    kinds = draw(st.lists(st.sampled_from(sorted(_STATES)), min_size=1, max_size=2))
    state = tuple((f"{name}_s{i}", Literal(draw(st.none() | values_of(_STATES[kind])), _STATES[kind])) for i, kind in enumerate(kinds))
    of = [[other for (other, _), its in zip(state, kinds, strict=True) if its == kind] for kind in kinds]
    update = tuple((n, draw(beside_state(node.schema, names, kind))) for (n, _), kind, names in zip(state, kinds, of, strict=True))
    seen = tuple(
        (f"{name}_n{i}", draw(beside_state(node.schema, names, kind))) for i, (kind, names) in enumerate(zip(kinds, of, strict=True))
    )
    fields = draw(fields_over(node.schema, node.schema, f"{name}_f"))
    return StatefulMap(name, node.name, by, ttl, state, update, (*fields, *seen, *((n, ColumnRef(n)) for n, _ in state)))


@st.composite
def beside_state(draw: DrawFn, schema: Schema, names: Sequence[str], kind: str) -> Expr:
    """Of the type of the states `names`. Texts are chosen; none is made of a state, for which there is a map behind."""
    made, state = draw(expressions(schema, kind)), ColumnRef(draw(st.sampled_from(names)))
    if kind not in ("bool", "string"):
        made = made + Literal(0, INT64)  # also where all columns in it are int32
        if draw(st.booleans()):
            return made + coalesce(state, Literal(0, INT64))
    condition = state == made if kind == "string" and draw(st.booleans()) else draw(conditions(schema))
    chosen = when(condition, state).otherwise(made)
    return draw(st.sampled_from((made, coalesce(state, made), coalesce(made, state), chosen)))


@st.composite
def stateful_functions(draw: DrawFn, node: Node, name: str) -> StatefulMap:
    by, ttl = draw(groups(node.schema)), draw(st.none() | spans(node.tick))
    columns = tuple(draw(st.lists(st.sampled_from(node.schema.names), min_size=1, max_size=2, unique=True)))
    schema = Schema((Field("n", INT64),))
    return StatefulMap(name, node.name, by, ttl, function="tests.support.user_functions:changes", columns=columns, schema=schema)
