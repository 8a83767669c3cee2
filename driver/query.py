"""The query builder: `Query("name").source(...).map(...)....output("stream")`.

Every call returns a new builder, so a half-built query can be branched. `build()` gives the frozen `cep.model.query.Query`, checked:
an error names operator and field, and points into the query's JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from cep.dataflow.static_table import check_inline
from cep.errors import QueryError
from cep.model import query as model
from cep.model import sinks
from cep.model.duration import parse_duration
from cep.model.expr import Column, Expr, Literal, as_expr
from cep.model.functions import Function
from cep.model.limits import shown
from cep.model.operators import (
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
    Lookup,
    Map,
    Operator,
    Pairs,
    Sort,
    StatefulMap,
    TopN,
    Union,
)
from cep.model.schema import Schema
from cep.model.streams import BLOCK_BYTES, USUAL_TIMES, Stream, TextFiles
from cep.model.windows import TimeWindow, Window
from cep.plan.planner import check
from driver.computed import computed_first
from driver.functions import reference_of
from driver.tables import Table, static_table

P = ParamSpec("P")

#: Columns by name, or as `col` gives them.
Names = str | Column | Iterable[str | Column]

#: Columns that are equal: "k", ["k", ("a", "b")] or {"a": "b"}, the left one first.
On = str | Iterable[str | tuple[str, str]] | Mapping[str, str]


def stream(
    name: str,
    fields: Mapping[str, object] | None = None,
    /,
    *,
    event_time: str | Expr | None = None,
    disorder: str | timedelta | None = None,
    event_times: str = USUAL_TIMES,
    idle_after: str | timedelta | None = None,
    watermark: str | None = None,
    **named: object,
) -> Stream:
    """Declares a stream that clients publish to.

    Args:
        name: unique in the cluster.
        fields, named: field name -> type: `str`, `int | None`, `"timestamp[ms]"`, `"float64?"` ('?': NULL is allowed).
        event_time: the column (or an expression) that says when a row happened; none: the time of ingestion.
        disorder: how far a row may be behind the greatest event time before it; what is further behind is late.
        event_times: "any" if rows may be of other years than 1900 to 2199; else those are dead letters, for milliseconds that are taken
            for seconds are.
        idle_after: nobody waits for a publisher that has sent nothing for so long; none: whoever reads the stream waits for it. Answers
            then depend on when it was silent; what it sends later, and is older than others' answers by then, is late.
        watermark: "clock" where rows are stamped as they are sent: time goes on by the publisher's clock while it sends nothing.
    """
    quiet = None if idle_after is None else parse_duration(idle_after, "idle_after")
    schema = Schema.of({**(fields or {}), **named})
    return Stream(name, schema, _event_time(event_time), _disorder(disorder), None, event_times, quiet, watermark)


def files(
    name: str,
    fields: Mapping[str, object] | None = None,
    /,
    *,
    paths: str | Iterable[str],
    event_time: str | Expr | None = None,
    disorder: str | timedelta | None = None,
    separator: str = ",",
    header: bool = False,
    block_bytes: int = BLOCK_BYTES,
    event_times: str = USUAL_TIMES,
    **named: object,
) -> Stream:
    """Declares a stream that is read from delimited text files, one record a line; see `stream` for the rest.

    Args:
        paths: one or more paths or globs, under a folder that the cluster was started with.
        separator: one ASCII character; fields are not quoted. Fields beyond the declared ones are not looked at.
        header: the first line of every file is no record.
        block_bytes: files are cut into blocks of this size; a block is a partition.
    """
    found = (paths,) if isinstance(paths, str) else tuple(str(path) for path in paths)
    schema = Schema.of({**(fields or {}), **named})
    text = TextFiles(found, separator, header, block_bytes)
    return Stream(name, schema, _event_time(event_time), _disorder(disorder), text, event_times)


def _event_time(event_time: str | Expr | None) -> Expr | None:
    return Column(event_time) if isinstance(event_time, str) else event_time


def _disorder(disorder: str | timedelta | None) -> int | None:
    return None if disorder is None else parse_duration(disorder, "disorder")


def _computed(*fields: Mapping[str, object] | None) -> tuple[tuple[str, Expr], ...]:
    """Expressions or constants by name; what comes later replaces what has its name."""
    given = {key: value for each in fields for key, value in (each or {}).items()}
    return tuple((key, _expression(f"field {key!r}", value)) for key, value in given.items())


def _by_name(what: str, given: Mapping[str, object]) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise QueryError(f'{what}: expected values by name, such as {{"a": 0}}, got {shown(given)}', f"/{what}")
    return given


def _expression(what: str, value: object) -> Expr:
    with _naming(what):
        return as_expr(value)


def _names(names: Names, what: str = "by") -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str | Column) else tuple(names) if isinstance(names, Iterable) else (names,)
    found = tuple(each.name if isinstance(each, Column) else each for each in listed)
    for each in found:
        if not isinstance(each, str):
            raise QueryError(f"{what}: expected names of columns such as 'a' or ['a', 'b'], got {shown(each)}", f"/{what}")
    return found


def _order(columns: Names) -> tuple[tuple[str, bool], ...]:
    """(column, descending)."""
    return tuple((column.removeprefix("-"), column.startswith("-")) for column in _names(columns, "order"))


def _ttl(ttl: str | timedelta | None) -> int | None:
    return None if ttl is None else parse_duration(ttl, "ttl")


def _constant(name: str, value: object) -> Literal:
    found = _expression(f"state {name!r}", value)
    if not isinstance(found, Literal):
        raise QueryError(f"state {name!r}: expected a constant, got {shown(value)}", f"/state/{name}")
    return found


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """An error raised inside says of what it is."""
    try:
        yield
    except QueryError as error:
        if error.message.startswith(what):
            raise
        raise QueryError(f"{what}{', ' if error.message.startswith('field ') else ': '}{error.message}", error.pointer) from None


Added = Callable[Concatenate["Query", str, P], "Query"]


def _operator(method: Added[P]) -> Added[P]:
    """A call of the builder that adds the operator `name`: whatever is wrong with what it is given, the error names it."""

    @wraps(method)
    def adding(query: Query, name: str, /, *args: P.args, **kwargs: P.kwargs) -> Query:
        with _naming(f"operator {name!r}"):
            return method(query, name, *args, **kwargs)

    return adding


@dataclass(frozen=True)
class Query:
    """A query under construction. Operators read what stands before them; `at` goes back to something named."""

    name: str
    streams: tuple[Stream, ...] = ()
    operators: tuple[Operator, ...] = ()
    outputs: tuple[model.Output, ...] = ()
    late_stream: str | None = None
    plan_options: model.Options = field(default_factory=model.Options)
    current: str | None = None

    def source(self, source: Stream | str) -> Query:
        """Reads a declared stream, or by name one that the cluster knows."""
        if isinstance(source, str):
            return replace(self, current=source)
        read = _stream(source, "source")
        known = read.name in {s.name for s in self.streams}
        return replace(self, streams=self.streams if known else (*self.streams, read), current=read.name)

    def at(self, name: str) -> Query:
        """What follows reads operator or stream `name`."""
        return replace(self, current=name)

    @_operator
    def map(self, name: str, fields: Mapping[str, object] | None = None, /, **named: object) -> Query:
        """One tuple for each tuple, with exactly these fields: expressions or constants."""
        return self._then(Map(name, self._input(name), _computed(fields, named)))

    @_operator
    def filter(self, name: str, condition: Expr, /) -> Query:
        """Keeps the tuples for which `condition` is true."""
        return self._then(Filter(name, self._input(name), _expression("condition", condition)))

    @_operator
    def union(self, name: str, *inputs: str) -> Query:
        """The tuples of the operators or streams `inputs`, whose schemas are the same."""
        return self._then(Union(name, inputs))

    @_operator
    def demux(self, name: str, cases: Mapping[str, Expr], /, otherwise: str | None = None) -> Query:
        """Every tuple into each branch whose condition is true, or into `otherwise`; go on with `at("name.branch")`."""
        conditions = _computed(cases)
        return self._then(Demux(name, self._input(name), conditions, otherwise))

    @_operator
    def flat_map(self, name: str, fields: Mapping[str, object] | None = None, /, *, explode: str, **named: object) -> Query:
        """As `map`, and then one tuple for each element of the list in field `explode`, which becomes the element."""
        return self._then(FlatMap(name, self._input(name), _computed(fields, named), explode))

    @_operator
    def delay(self, name: str, by: str | timedelta, /) -> Query:
        """The same tuples, `by` later in event time."""
        return self._then(Delay(name, self._input(name), parse_duration(by, "delay")))

    @_operator
    def deduplicate(self, name: str, /, *, by: Names, ttl: str | timedelta | None) -> Query:
        """Of tuples with equal `by` the first, and the next that is more than `ttl` after it, and so on. `ttl=None`: the first ever."""
        return self._then(Deduplicate(name, self._input(name), _names(by), _ttl(ttl)))

    @_operator
    def stateful_map(
        self,
        name: str,
        /,
        *,
        by: Names = (),
        ttl: str | timedelta | None,
        state: Mapping[str, object],
        update: Mapping[str, object],
        fields: Mapping[str, object],
    ) -> Query:
        """One tuple of `fields` for each tuple, computed from it and from the state of its group, in stream order.

        Args:
            ttl: a group that no tuple touched for longer begins anew; None: never.
            state: name -> what it begins with, a constant; `lit(None, type)` is NULL.
            update: name -> what the state becomes, over the tuple and the state as it was.
            fields: name -> what comes out, over the tuple and the new state.
        """
        begins = tuple((key, _constant(key, value)) for key, value in _by_name("state", state).items())
        changes = {key: update[key] for key in state if key in _by_name("update", update)} | dict(update)
        found = StatefulMap(name, self._input(name), _names(by), _ttl(ttl), begins, _computed(changes), _computed(fields))
        return self._then(found)

    @_operator
    def stateful_function(
        self,
        name: str,
        function: str | Callable[..., Any],
        columns: Names,
        schema: Mapping[str, object],
        /,
        *,
        by: Names = (),
        ttl: str | timedelta | None,
    ) -> Query:
        """What a function makes of each tuple and of the state of its group, in stream order.

        Args:
            function: `function(state, *values of columns)` returns (state, a tuple of values of `schema`, or None for no tuple);
                the state is None at first. See `driver.functions.udf` for where functions may be.
            ttl: a group that no tuple touched for longer begins anew; None: never.
        """
        found = (_names(by), _ttl(ttl), (), (), (), reference_of(function), _names(columns, "columns"), Schema.of(schema))
        return self._then(StatefulMap(name, self._input(name), *found))

    @_operator
    def apply(self, name: str, function: str | Callable[[Any], Any], columns: Names, schema: Mapping[str, object], /) -> Query:
        """What a function makes of batches: it gets a `pyarrow.RecordBatch` of `columns` and returns one of `schema`, with as many rows,
        or with a column `__row` (int64) that says of which row each is made. It must treat every row by itself."""
        return self._then(Apply(name, self._input(name), reference_of(function), _names(columns, "columns"), Schema.of(schema)))

    @_operator
    def sort(self, name: str, window: TimeWindow | None = None, /, *, by: Names = (), order: Names = ()) -> Query:
        """The tuples of each window and group with their `rank` in the order of columns, "-column" for descending; without a
        window the tuples in stream order."""
        return self._then(Sort(name, self._input(name), window, _names(by), _order(order)))

    @_operator
    def top(self, name: str, n: int, window: TimeWindow, /, *, by: Names = (), order: Names) -> Query:
        """The first `n` of what `sort` yields."""
        return self._then(TopN(name, self._input(name), window, _names(by), _order(order), n))

    @_operator
    def aggregate(
        self,
        name: str,
        window: Window,
        functions: Mapping[str, Function] | None = None,
        /,
        *,
        by: Names = (),
        emit_partial: bool = False,
        **named: Function,
    ) -> Query:
        """Per window and group: the fields of `by`, then one field per function.

        `emit_partial`: SIZE and TRANSACTION windows that are incomplete when the stream ends come out too, and are not only counted.

        A function may take an expression where it names a column: `total=sum_(col("price") * col("n"))`. A map before it, `NAME_values`,
        computes it; a tuple on which that fails is a dead letter of the map.
        """
        found, keys = tuple({**(functions or {}), **named}.items()), _names(by)
        fields, found = computed_first(window, keys, found)
        before = self._then(Map(f"{name}_values", self._input(name), fields)) if fields else self
        return before._then(Aggregate(name, before._input(name), window, keys, found, emit_partial))

    def output(self, stream: str, folder: str | Path | None = None, **files: Any) -> Query:
        """What stands before it leaves the query as the stream `stream`; and goes to files in `folder`, where one is named:
        `files` are `format`, `separator`, `header` and `overwrite` of `cep.model.sinks.Files`."""
        if folder is None and files:
            raise QueryError(f"output {stream!r}: {', '.join(files)} are of files, and there is no folder: output({stream!r}, folder=...)")
        sink = None if folder is None else sinks.from_json({"folder": str(Path(folder).absolute()), **files})
        return replace(self, outputs=(*self.outputs, model.Output(stream, self._input(stream), sink)))

    def late(self, stream: str) -> Query:
        """Late rows leave the query as the stream `stream` instead of only being counted."""
        return replace(self, late_stream=stream)

    def options(self, **options: Any) -> Query:
        """How it is planned, none of which changes an answer: see `cep.model.query.Options`."""
        return replace(self, plan_options=model.options_from_json(model.options_to_json(self.plan_options) | options))

    def build(self, known: Mapping[str, Stream] | None = None) -> model.Query:
        """The query as a value, which every cluster takes as far as the query alone decides: it has been written, read and planned once.

        Streams read by name are looked up in `known`. Raises QueryError: what is wrong, where, and what to do.
        """
        query = model.from_json(model.to_json(self.value()))
        check(query, known or {})
        check_inline(query)
        return query

    def value(self) -> model.Query:
        """The query as a value, not checked: streams it reads by name may be known to the cluster alone."""
        return model.Query(self.name, self.streams, self.operators, self.outputs, self.late_stream, self.plan_options)

    def to_json(self) -> dict[str, Any]:
        """The document that REST and files take."""
        return model.to_json(self.value())

    def _input(self, reader: str) -> str:
        if self.current is None:
            raise QueryError(f"query {self.name!r} reads nothing: call source(...) first")
        return self.current

    def _then(self, operator: Operator) -> Query:
        return replace(self, operators=(*self.operators, operator), current=operator.name)

    # Joins: what stands before them is the left input, `right` a name, or a stream that is declared here if it is new.

    @_operator
    def join(
        self,
        name: str,
        right: Stream | str,
        window: TimeWindow,
        *,
        on: On = (),
        how: str = "inner",
        right_window: TimeWindow | None = None,
        condition: Expr | None = None,
        prefix: str = "",
        by: Names = (),
        broadcast: str = "right",
    ) -> Query:
        """Pairs of tuples that lie in the windows of both inputs that end at the same time.

        Args:
            on: columns that are equal: "k", ["k", ("a", "b")] or {"a": "b"}, the left one first; none: a theta join.
            how: whose tuples come out without a match: inner, left, right or full.
            right_window: of the right input, with the same advance; `window` unless given.
            condition: over the joined tuple.
            prefix: before the names of the right one's columns.
            by: columns of both inputs, equal too.
            broadcast: the side of a theta join that every instance gets.
        """
        pairs = tuple(dict.fromkeys((*_pairs(on), *((key, key) for key in _names(by)))))
        joined = Join(name, self._input(name), _name(right), window, right_window or window, pairs, how, condition, prefix, broadcast)
        return self._declaring(right)._then(joined)

    @_operator
    def interval_join(
        self,
        name: str,
        right: Stream | str,
        lower: str | timedelta,
        upper: str | timedelta,
        *,
        on: On,
        how: str = "inner",
        condition: Expr | None = None,
        prefix: str = "",
    ) -> Query:
        """Pairs in which the right tuple's event time is from `lower` to `upper`, both included, after the left one's: "-5s" is before
        it. The rest as in `join`."""
        bounds = _signed(lower, "lower"), _signed(upper, "upper")
        pairs = _pairs(on)
        return self._declaring(right)._then(IntervalJoin(name, self._input(name), _name(right), *bounds, pairs, how, condition, prefix))

    @_operator
    def as_of_join(
        self,
        name: str,
        right: Stream | str,
        *,
        on: On,
        how: str = "inner",
        tolerance: str | timedelta | None = None,
        prefix: str = "",
    ) -> Query:
        """Each tuple with the last right one that is not later, and not more than `tolerance` earlier; `how` inner or left."""
        within = None if tolerance is None else parse_duration(tolerance, "tolerance")
        return self._declaring(right)._then(AsOfJoin(name, self._input(name), _name(right), _pairs(on), how, within, prefix))

    @_operator
    def lookup(self, name: str, table: Table, *, on: On, how: str = "inner", prefix: str = "") -> Query:
        """Each tuple with every row of a static table in which the columns `on` are equal; `how` inner or left.

        `table`: (path, {column: type}) of a .parquet, .arrow, .feather or .csv file under a folder of the cluster, or a small Arrow table.
        """
        return self._then(Lookup(name, self._input(name), static_table(table), _pairs(on), how, prefix))

    def _declaring(self, read: Stream | str) -> Query:
        return self if isinstance(read, str) else replace(self.source(read), current=self.current)


def _name(read: Stream | str) -> str:
    return read if isinstance(read, str) else _stream(read, "right").name


def _stream(given: object, what: str) -> Stream:
    if not isinstance(given, Stream):
        expected = "a stream, declared by stream(...) or files(...), or the name of one"
        raise QueryError(f"{what}: expected {expected}; got {shown(given)}", f"/{what}")
    return given


def _pairs(on: On) -> Pairs:
    listed: Iterable[Any] = [on] if isinstance(on, str) else on.items() if isinstance(on, Mapping) else on
    try:
        return tuple(_pair(each) for each in listed)
    except (TypeError, ValueError):
        raise QueryError(f'on: expected "k", ["k", ("a", "b")] or {{"a": "b"}}, got {shown(on)}', "/on") from None


def _pair(given: Any) -> tuple[str, str]:
    """Raises TypeError or ValueError where it is none."""
    left, right = (given, given) if isinstance(given, str) else given
    if not isinstance(left, str) or not isinstance(right, str):
        raise TypeError(given)
    return left, right


def _signed(text: str | timedelta, what: str) -> int:
    """µs of a duration that may be negative."""
    if isinstance(text, str) and text.strip().startswith("-"):
        return -parse_duration(text.strip()[1:], what)
    return parse_duration(text, what)
