"""Hypothesis strategies: schemas, rows, queries, files, and ways to run them. Everything shrinks towards the plain:
one source, one partition, int64, no NULL, ties at time 0, one operator, one batch, one instance.

A case is a query with its input. Its times are small multiples of a tick from a drawn epoch, so that windows meet, ties
are common, and disorder stays near what was promised, a little beyond it included.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from cep.model import functions
from cep.model.expr import Call, Column, Expr, Literal, coalesce, lit
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import BALANCERS, PRE_AGGREGATION, SPLITS, Options, Output, Query
from cep.model.schema import BINARY, BOOL, FLOAT64, INT32, INT64, STRING, UNIT_US, DataType, Field, Schema
from cep.model.streams import Stream, TextFiles
from cep.model.windows import TimeWindow
from tests.reference.rows import Partition
from tests.reference.source import EVENT_TIME_MAX
from tests.reference.types import operator_schema

TIMESTAMP_US, TIMESTAMP_MS = DataType("timestamp", "us"), DataType("timestamp", "ms")
TYPES = (INT64, STRING, FLOAT64, BOOL, INT32, TIMESTAMP_MS, BINARY)
EVENT_TIME = "t"
#: Ticks: the epoch, so that windows before it are met too, and a time of today.
EPOCHS = (0, -7, 1_700_000_000_000)

# --- values ----------------------------------------------------------------------------------------------------------

INT64_EXTREMES = (2**63 - 1, -(2**63), 2**62, -(2**62), 2**53 + 1, 2**31)
INT32_EXTREMES = (2**31 - 1, -(2**31), 2**16)
FLOATS = (0.5, -0.0, 0.1, 2.5, 1e16, -1e16, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
#: Around the border of an inline key (15 bytes), with one beginning, with zeros, and of more than one byte a character.
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "x" * 14,
    "x" * 15,
    "x" * 16,
    "x" * 15 + "y",
    "x" * 40,
    "x" * 39 + "y",
    "a\0",
    "\0",
    "é",
    "日本語日本",
    "🜁",
)
TEXT_ALPHABET = st.characters(codec="utf-8", exclude_categories=["Cs"])


@cache
def values_of(type_: DataType) -> SearchStrategy[Any]:
    """Values of `type_`, never NULL; a timestamp is µs, a whole number of its units."""
    match type_.name:
        case "bool":
            return st.booleans()
        case "int32":
            return st.one_of(st.integers(-3, 3), st.sampled_from(INT32_EXTREMES))
        case "int64":
            return st.one_of(st.integers(-3, 3), st.sampled_from(INT64_EXTREMES), st.integers(-(2**63), 2**63 - 1))
        case "float64":
            return st.one_of(st.integers(-3, 3).map(float), st.sampled_from(FLOATS), st.floats())
        case "timestamp":
            return st.one_of(st.integers(-3, 30), st.integers(-(2**52), 2**52)).map(lambda n: n * UNIT_US[type_.unit])
        case "string":
            return st.one_of(st.sampled_from(TEXTS), st.text(TEXT_ALPHABET, max_size=20))
        case "binary":
            return st.one_of(st.sampled_from([text.encode() for text in TEXTS]), st.binary(max_size=20))
    raise AssertionError(type_)


def cells(field: Field, values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """`values`, and NULL where `field` may be it."""
    return st.one_of(values, st.none()) if field.nullable else values


@st.composite
def columns(draw: DrawFn, field: Field) -> SearchStrategy[Any]:
    """Cells of one column: mostly from a pool of a few values, so that groups meet and aggregates tie."""
    pool = draw(st.lists(values_of(field.type), min_size=1, max_size=4))
    return cells(field, st.one_of(st.sampled_from(pool), st.sampled_from(pool), values_of(field.type)))


# --- streams ---------------------------------------------------------------------------------------------------------


@st.composite
def schemas(draw: DrawFn, event_time: DataType = TIMESTAMP_US) -> Schema:
    """1 to 5 fields, one of them the event time, at any place."""
    types = draw(st.lists(st.sampled_from(TYPES), max_size=4))
    fields = [Field(name, type_, draw(st.booleans())) for name, type_ in zip("abcd", types, strict=False)]
    place = draw(st.integers(0, len(fields)))
    fields.insert(place, Field(EVENT_TIME, event_time, draw(st.booleans())))
    return Schema(tuple(fields))


@st.composite
def streams(draw: DrawFn, name: str = "s") -> Stream:
    type_ = draw(st.sampled_from((TIMESTAMP_US, TIMESTAMP_MS)))
    ticks = draw(st.sampled_from((0, 1, 3, 10, 1000)))
    schema = draw(schemas(type_))
    return Stream(name, schema, draw(event_times(schema)), ticks * UNIT_US[type_.unit])


@st.composite
def event_times(draw: DrawFn, schema: Schema) -> Expr:
    """Mostly the column; else computed from it, and from an integer that may be NULL, too large for a time, or overflow."""
    time = Column(EVENT_TIME)
    computed = [time, time, time, time + 5, coalesce(time, Literal(0, TIMESTAMP_US))]
    integers = [field.name for field in schema.fields if field.type.is_integer]
    computed += [made for name in integers for made in (time + Column(name) % 3, time + Column(name))]
    return draw(st.sampled_from(computed))


def tick_us(stream: Stream) -> int:
    return UNIT_US[stream.schema[EVENT_TIME].type.unit]


@st.composite
def times(draw: DrawFn, stream: Stream, epoch: int, size: int) -> list[int | None]:
    """`size` event times, µs: behind the greatest so far by at most the disorder and a little more, which is late; or,
    rarely, about as far off as a time may be."""
    tick = tick_us(stream)
    behind = min((stream.disorder or 0) // tick, 20) + 2
    step = st.one_of(st.just(0), st.integers(-1, 1), st.integers(-behind, 4))
    steps = draw(st.lists(step, min_size=size, max_size=size))
    nullable = stream.schema[EVENT_TIME].nullable
    found: list[int | None] = []
    greatest = epoch
    for step in steps:
        odd = draw(st.integers(0, 39))
        null = nullable and odd in (1, 2, 3, 4)
        far = EVENT_TIME_MAX // tick + 1
        found.append(None if null else tick * {5: far, 6: far - 1, 7: -far}.get(odd, greatest + step))
        greatest = greatest if null else max(greatest, greatest + step)
    return found


@st.composite
def rows(draw: DrawFn, stream: Stream, epoch: int, rows_max: int) -> list[tuple[Any, ...]]:
    """Rows of one partition."""
    size = draw(st.one_of(st.integers(0, 3), st.integers(rows_max // 2, rows_max)))
    cell = {f.name: draw(columns(f)) for f in stream.schema.fields if f.name != EVENT_TIME}
    stamps = draw(times(stream, epoch, size))
    return [tuple(stamp if n == EVENT_TIME else draw(cell[n]) for n in stream.schema.names) for stamp in stamps]


@st.composite
def partitions(draw: DrawFn, stream: Stream, partitions_max: int = 4, rows_max: int = 12) -> list[Partition]:
    """Publishers of `stream`. They share an epoch, or else the windows of one would all be late to another's."""
    epoch = draw(st.sampled_from(EPOCHS))
    count = draw(st.integers(1, partitions_max))
    return [Partition(index, draw(rows(stream, epoch, rows_max))) for index in range(count)]


# --- expressions -----------------------------------------------------------------------------------------------------


def _kind(type_: DataType) -> str:
    """Of an expression: integer (int32 or int64), float64, bool, timestamp, string, binary."""
    return "integer" if type_.is_integer else type_.name


_ARITHMETIC: dict[str, Callable[[Any, Any], Expr]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARISON: tuple[Callable[[Any, Any], Expr], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)

#: kind -> (what makes an expression of it, kinds of its arguments; "number" is either kind of number).
GRAMMAR: dict[str, tuple[tuple[Callable[..., Expr], tuple[str, ...]], ...]] = {
    "integer": (
        *((make, ("integer", "integer")) for make in _ARITHMETIC.values()),
        (operator.neg, ("integer",)),
        (lambda e: Call("abs", (e,)), ("integer",)),
        (coalesce, ("integer", "integer")),
        (lambda e: e.cast(INT64), ("float64",)),
        (lambda e: e.try_cast(INT64), ("float64",)),
        (lambda e: e.cast(INT32), ("number",)),
        (lambda e: e.try_cast(INT32), ("number",)),
        (operator.sub, ("timestamp", "timestamp")),
        (lambda e: e.cast(INT64), ("bool",)),
        (lambda e: e.cast(INT64), ("timestamp",)),
        (lambda e: e.try_cast(INT64), ("string",)),
    ),
    "float64": (
        *((make, ("float64", "number")) for make in _ARITHMETIC.values()),
        (operator.truediv, ("number", "number")),
        (operator.neg, ("float64",)),
        (lambda e: Call("abs", (e,)), ("float64",)),
        (coalesce, ("float64", "number")),
        (lambda e: e.cast(FLOAT64), ("integer",)),
    ),
    "bool": (
        *((make, ("number", "number")) for make in _COMPARISON),
        *((make, ("string", "string")) for make in _COMPARISON),
        *((make, ("timestamp", "timestamp")) for make in _COMPARISON),
        *((make, (kind, kind)) for make in _COMPARISON[:2] for kind in ("bool", "binary")),
        (operator.and_, ("bool", "bool")),
        (operator.or_, ("bool", "bool")),
        (operator.invert, ("bool",)),
        (lambda e: e.cast(BOOL), ("number",)),
        *((Expr.is_null, (kind,)) for kind in ("number", "string", "bool")),
    ),
    "timestamp": (
        (operator.add, ("timestamp", "integer")),
        (operator.sub, ("timestamp", "integer")),
        (operator.add, ("integer", "timestamp")),
        (coalesce, ("timestamp", "timestamp")),
        (lambda e: e.try_cast(TIMESTAMP_MS), ("integer",)),
    ),
    "string": ((coalesce, ("string", "string")), (lambda e: e.try_cast(STRING), ("binary",))),
    "binary": ((coalesce, ("binary", "binary")), (lambda e: e.cast(BINARY), ("string",))),
}


@st.composite
def expressions(draw: DrawFn, schema: Schema, kind: str, depth: int = 2) -> Expr:
    """An expression of `kind` over the columns of `schema`, at most `depth` operators deep."""
    kind = draw(st.sampled_from(("integer", "float64"))) if kind == "number" else kind
    # A production is drawn first and its parts then: strategies of whole expressions would be trees of thousands.
    make, kinds = draw(st.sampled_from((LEAF, *GRAMMAR[kind]) if depth else (LEAF,)))
    if not kinds:
        return draw(_leaves(schema, kind))
    made: Expr = make(*(draw(expressions(schema, part, depth - 1)) for part in kinds))
    return made


LEAF: tuple[Callable[..., Expr], tuple[str, ...]] = (Column, ())


@st.composite
def _leaves(draw: DrawFn, schema: Schema, kind: str) -> Expr:
    """Mostly a column if there is one of the kind, else a literal, which may be NULL."""
    named = [field.name for field in schema.fields if _kind(field.type) == kind]
    if named and draw(st.integers(0, 3)) < 3:
        return Column(draw(st.sampled_from(named)))
    type_ = {"integer": INT64, "timestamp": TIMESTAMP_US}.get(kind) or DataType(kind)
    return Literal(None if draw(st.integers(0, 9)) == 9 else draw(values_of(type_)), type_)


def conditions(schema: Schema) -> SearchStrategy[Expr]:
    """For filters: now and then one that keeps everything, for what is dropped tests nothing below it."""
    return st.one_of(st.just(lit(True)), expressions(schema, "bool", 1), expressions(schema, "bool", 2))


# --- operators and queries -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A stream or operator as an input of others.

    `aggregates` counts those on the way to it. `unique` are columns of which no two rows of one event time agree, or
    None where that is not known: FIRST and LAST of a group in which no rows tie need no origin (DESIGN 4.5).
    """

    name: str
    schema: Schema
    aggregates: int = 0
    unique: frozenset[str] | None = None


@st.composite
def windows(draw: DrawFn, tick: int) -> TimeWindow:
    """Tumbling or sliding, with an advance that need not divide the size, and now and then not of whole ticks."""
    size = draw(st.integers(1, 20)) * tick + draw(st.sampled_from((0, 0, 0, 1)))
    if draw(st.booleans()):
        return TimeWindow(size, size)
    return TimeWindow(size, draw(st.integers(max(1, size // 7), size)))


@st.composite
def queries(draw: DrawFn, streams_: Sequence[Stream], operators_max: int = 6, hash_ties: bool = False) -> Query:
    """A DAG over `streams_`, all of it reaching an output.

    `hash_ties`: also FIRST and LAST over rows that only the hash of an aggregate's row can put in order; then the
    reference has to be given that hash.
    """
    nodes = [Node(stream.name, stream.schema) for stream in streams_]
    tick = tick_us(streams_[0])
    made: list[Operator] = []
    for _ in range(draw(st.integers(1, operators_max))):
        if len(made) < operators_max:
            for new in draw(_operators(nodes, f"o{len(made)}", tick, hash_ties)):
                made.append(new)
                nodes.append(_node(new, nodes))
    late = draw(st.sampled_from((None, "late"))) if len(streams_) == 1 else None
    options = draw(st.sampled_from(SPLITS).map(lambda split: Options(split=split)))
    return Query("q", tuple(streams_), tuple(made), draw(_outputs(nodes, made)), late, options)


@st.composite
def _operators(draw: DrawFn, nodes: list[Node], name: str, tick: int, hash_ties: bool) -> list[Operator]:
    """One operator over `nodes`; two where a union needs a second input made first."""
    node = draw(st.sampled_from(nodes[::-1]))
    kinds = ["aggregate", "filter", "map", "union"] if node.aggregates < 2 else ["filter", "map", "union"]
    match draw(st.sampled_from(kinds)):
        case "filter":
            return [Filter(name, node.name, draw(conditions(node.schema)))]
        case "map":
            return [draw(maps(node, name))]
        case "aggregate":
            return [draw(aggregates(node, name, tick, hash_ties))]
    others = [other for other in nodes if other is not node and other.schema == node.schema]
    if not others:
        branch = Filter(f"{name}f", node.name, draw(conditions(node.schema)))
        return [branch, Union(name, (node.name, branch.name))]
    chosen = draw(st.lists(st.sampled_from(others), min_size=1, max_size=2, unique_by=lambda other: other.name))
    return [Union(name, (node.name, *(other.name for other in chosen)))]


def _node(made: Operator, nodes: list[Node]) -> Node:
    inputs = [next(node for node in nodes if node.name == name) for name in made.inputs]
    schema = operator_schema(made, [node.schema for node in inputs])
    depth = max(node.aggregates for node in inputs)
    match made:
        case Aggregate(by=by):
            return Node(made.name, schema, depth + 1, frozenset(by))
        case Map(fields=fields):
            return Node(made.name, schema, depth, _renamed(inputs[0].unique, fields))
        case Filter():
            return replace(inputs[0], name=made.name)
    return Node(made.name, schema, depth)


def _renamed(unique: frozenset[str] | None, fields: Sequence[tuple[str, Expr]]) -> frozenset[str] | None:
    kept = {expression.name: name for name, expression in fields if isinstance(expression, Column)}
    return None if unique is None or not unique <= kept.keys() else frozenset(kept[name] for name in unique)


@st.composite
def maps(draw: DrawFn, node: Node, name: str) -> Map:
    """Either the same columns with one of them computed anew, which a union can take, or other columns altogether."""
    if draw(st.booleans()):
        return draw(changes(node, name))
    kinds = draw(st.lists(st.sampled_from([_kind(type_) for type_ in TYPES]), min_size=1, max_size=3))
    computed = [(f"f{i}", draw(expressions(node.schema, kind))) for i, kind in enumerate(kinds)]
    kept = draw(st.lists(st.sampled_from(node.schema.names), max_size=3, unique=True))
    names = {column: column for column in kept}
    return Map(name, node.name, (*((n, Column(c)) for n, c in names.items() if n not in dict(computed)), *computed))


@st.composite
def aggregates(draw: DrawFn, node: Node, name: str, tick: int, hash_ties: bool) -> Aggregate:
    by = tuple(draw(st.lists(st.sampled_from(node.schema.names), max_size=draw(st.sampled_from((1, 0, 1, 3))), unique=True)))
    ordered = hash_ties or node.aggregates == 0 or (node.unique is not None and node.unique <= set(by))
    made = draw(st.lists(aggregate_functions(node.schema, ordered), min_size=1, max_size=4))
    window = draw(windows(tick))
    return Aggregate(name, node.name, window, by, tuple((f"{name}_{i}", function) for i, function in enumerate(made)))


def aggregate_functions(schema: Schema, ordered: bool) -> SearchStrategy[functions.Function]:
    """`ordered`: also those that depend on the order of rows."""
    numbers = [field.name for field in schema.fields if field.type.is_number]
    comparable = [field.name for field in schema.fields if not field.type.is_list]
    any_column, column = st.sampled_from(schema.names), st.sampled_from(comparable)
    choices: list[SearchStrategy[functions.Function]] = [
        st.just(functions.count()),
        st.builds(functions.count, any_column),
        _one_of(column, functions.min_, functions.max_, functions.count_distinct),
        st.builds(functions.approx_count_distinct, column, st.sampled_from((4, 5, 12))),
        st.sampled_from((functions.window_start(), functions.window_end())),
    ]
    if ordered:  # they depend on more than the others do: on event time, origin and, beyond these, on whole rows
        choices += 2 * [_one_of(any_column, functions.first, functions.last)]
        choices += [
            st.builds(lambda make, value, by: make(value, by), st.sampled_from((functions.arg_min, functions.arg_max)), any_column, column),
            st.builds(functions.collect, column, st.sampled_from((1, 2, 3, 100))),
        ]
    if numbers:
        number = st.sampled_from(numbers)
        choices.insert(1, _one_of(number, functions.sum_, functions.avg))
        choices.append(_one_of(number, functions.var, functions.stddev, functions.var_pop, functions.stddev_pop, functions.median))
        choices.append(st.builds(functions.quantile, number, st.sampled_from((0, 0.1, 0.25, 0.9, 1))))
    return st.one_of(choices)


def _one_of(column: SearchStrategy[str], *makers: Callable[[str], functions.Function]) -> SearchStrategy[functions.Function]:
    return st.builds(lambda make, name: make(name), st.sampled_from(makers), column)


@st.composite
def _outputs(draw: DrawFn, nodes: list[Node], made: list[Operator]) -> tuple[Output, ...]:
    """Everything that nobody reads, and now and then something that is read."""
    consumed = {name for one in made for name in one.inputs}
    leaves = [node.name for node in nodes if node.name not in consumed]
    inner = draw(st.lists(st.sampled_from(sorted(consumed)), max_size=1))
    return tuple(Output(f"out_{name}", name) for name in (*leaves, *inner))


# --- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A query and what its sources bring."""

    query: Query
    inputs: Mapping[str, Sequence[Partition]]


@st.composite
def cases(draw: DrawFn, operators_max: int = 6, hash_ties: bool = False) -> Case:
    """A query over one or two published streams."""
    names = ("s",) if draw(st.booleans()) else ("s", "r")
    declared = [draw(streams(name)) for name in names]
    query = draw(queries(declared, operators_max, hash_ties))
    return Case(query, {stream.name: draw(partitions(stream)) for stream in declared})


@st.composite
def tied_cases(draw: DrawFn) -> Case:
    """Rows that agree in event time and origin: a stream on two ways to one FIRST or LAST, changed on one of them."""
    stream = draw(streams())
    node = Node("s", stream.schema)
    ways = [
        draw(st.one_of(changes(node, f"w{i}"), st.builds(Filter, st.just(f"w{i}"), st.just("s"), conditions(node.schema))))
        for i in range(2)
    ]
    schemas_ = [operator_schema(way, [stream.schema]) for way in ways]
    inputs = tuple(way.name for way, schema in zip(ways, schemas_, strict=True) if schema == schemas_[0])
    joined = Union("u", inputs if len(inputs) > 1 else ("w0", "w0x"))
    extra = () if len(inputs) > 1 else (Filter("w0x", "w0", lit(True)),)
    names = schemas_[0].names
    edges = [make(column) for make in (functions.first, functions.last) for column in names]
    edges += [functions.collect(column, 3) for column in names] + [functions.arg_max(column, names[0]) for column in names]
    asked = [*edges, draw(aggregate_functions(schemas_[0], True))]
    by = tuple(draw(st.lists(st.sampled_from(schemas_[0].names), max_size=draw(st.sampled_from((0, 1))))))
    window = draw(windows(tick_us(stream)))
    last = Aggregate("a", "u", window, by, tuple((f"r{i}", function) for i, function in enumerate(asked)))
    used = [way for way in ways if way.name in inputs]
    outputs = (Output("out", "a"),)
    query = Query("q", (stream,), (*used, *extra, joined, last), outputs, options=Options(split=draw(st.sampled_from(SPLITS))))
    return Case(query, {"s": draw(partitions(stream))})


@st.composite
def changes(draw: DrawFn, node: Node, name: str) -> Map:
    """The same columns, one of them computed anew."""
    changed = draw(st.sampled_from(node.schema.names))
    expression = draw(expressions(node.schema, _kind(node.schema[changed].type)))
    return Map(name, node.name, tuple((n, expression if n == changed else Column(n)) for n in node.schema.names))


@dataclass(frozen=True)
class FileCase:
    """A query over one stream of text files, and their contents by path."""

    query: Query
    files: Mapping[str, bytes]

    @property
    def stream(self) -> Stream:
        return self.query.streams[0]


@st.composite
def file_cases(draw: DrawFn, operators_max: int = 3) -> FileCase:
    stream = draw(streams())
    files = {path: b"" for path in draw(st.sampled_from((("a.txt",), ("a.txt", "b.txt"))))}
    text = TextFiles(tuple(files), draw(st.sampled_from(",;\t")), draw(st.booleans()), draw(st.sampled_from((1 << 20, 1024, 1024))))
    stream = replace(stream, files=text)
    query = draw(queries([stream], operators_max))
    epoch = draw(st.sampled_from(EPOCHS))
    return FileCase(query, {path: draw(contents(stream, epoch)) for path in files})


@st.composite
def contents(draw: DrawFn, stream: Stream, epoch: int) -> bytes:
    """A file: lines with either line end, some broken, maybe padded so that few make a block, maybe no last newline."""
    assert stream.files is not None
    padding = draw(st.sampled_from((0, 150, 400))) if stream.files.block_bytes == 1024 else 0
    lines = [draw(lines_of(row, stream, padding)) for row in draw(rows(stream, epoch, 20))]
    head = [",".join(stream.schema.names).encode() + b"\n"] if stream.files.header else []
    data = b"".join(head + lines)
    return data.removesuffix(b"\n") if draw(st.booleans()) and not data.endswith(b"\r\n") else data


@st.composite
def lines_of(draw: DrawFn, row: tuple[Any, ...], stream: Stream, padding: int) -> bytes:
    assert stream.files is not None
    separator = stream.files.separator.encode()
    texts = [text_of(value, f, separator) for value, f in zip(row, stream.schema.fields, strict=True)]
    if draw(st.integers(0, 11)) == 11:
        texts = draw(_broken(texts))
    if padding:
        texts.append(b" " * padding)  # one field more than the schema has, which nobody looks at
    if padding and draw(st.integers(0, 30)) == 30:
        texts.append(b"-" * stream.files.block_bytes)
    return separator.join(texts) + draw(st.sampled_from((b"\n", b"\r\n")))


@st.composite
def _broken(draw: DrawFn, texts: list[bytes]) -> list[bytes]:
    """A record with too few fields, or with one field that is empty, no number, out of range, or not UTF-8."""
    place = draw(st.integers(0, len(texts) - 1))
    if draw(st.booleans()):
        return texts[:place] or [b""]
    wrong = draw(st.sampled_from((b"", b"nonsense", b"9" * 30, b"1.2.3", b"--1", b" 1", b"\xff\xfe", b"12x")))
    return [*texts[:place], wrong, *texts[place + 1 :]]


def text_of(value: Any, field: Field, separator: bytes) -> bytes:
    """A cell as a file holds it: a timestamp in its declared unit; NULL is empty, which a text column reads as that."""
    match field.type.name:
        case _ if value is None:
            return b""
        case "bool":
            return b"true" if value else b"false"
        case "timestamp":
            return str(value // UNIT_US[field.type.unit]).encode()
        case "string" | "binary":
            raw = value if isinstance(value, bytes) else value.encode()
            return raw.replace(separator, b"_").replace(b"\n", b"_").replace(b"\r", b"_")
    return repr(value).encode()


# --- ways to run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Execution:
    """One way of running a query; none of it may change an answer (DESIGN 5.8).

    `batch_rows` are the sizes into which input is cut, in turn. `table` sends bucket i to instance `table[i]`.
    `balancers` are tried before every operator, in turn, and taken where they are sound.
    `credit_bytes` is what a channel may have outstanding. `seed` orders the turns of sources and instances.
    """

    options: Options
    batch_rows: tuple[int, ...]
    balancers: tuple[str, ...]
    table: tuple[int, ...]
    credit_bytes: int
    seed: int


@st.composite
def executions(draw: DrawFn) -> Execution:
    parallelism = draw(st.integers(1, 4))
    buckets = draw(st.sampled_from((1, 4, 16, 4096)))
    options = Options(
        split=draw(st.sampled_from(SPLITS)),
        parallelism=parallelism,
        pre_aggregation=draw(st.sampled_from(PRE_AGGREGATION[::-1])),
        buckets=buckets,
    )
    return Execution(
        options,
        tuple(draw(st.lists(st.sampled_from((1000, 1, 2, 3, 7)), min_size=1, max_size=3))),
        tuple(draw(st.lists(st.sampled_from(BALANCERS), max_size=2))),
        draw(_tables(buckets, parallelism)),
        draw(st.sampled_from((1 << 20, 4096, 1))),
        draw(st.integers(0, 2**16)),
    )


@st.composite
def _tables(draw: DrawFn, buckets: int, instances: int) -> tuple[int, ...]:
    """Any table; of many buckets one that repeats, which is drawn and shrinks faster."""
    period = draw(st.lists(st.integers(0, instances - 1), min_size=1, max_size=min(buckets, 16)))
    return tuple(period[bucket % len(period)] for bucket in range(buckets))
