"""The query builder: `Query("name").source(...).map(...)....output("stream")`.

Every call returns a new builder, so a half-built query can be branched. `build()` gives the frozen `cep.model.query.Query`, checked:
an error names operator and field, and points into the query's JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from types import EllipsisType
from typing import Any, Concatenate, ParamSpec

from cep.dataflow.operators.static_table import check_inline
from cep.errors import CepError, QueryError, escaped
from cep.model import query as model
from cep.model import sinks
from cep.model.duration import parse_duration, signed_duration
from cep.model.expr import ColumnRef, Expr
from cep.model.functions import Computed, Function
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
    KeepLast,
    Lookup,
    Map,
    Operator,
    Over,
    Pattern,
    Sample,
    SampleN,
    Sort,
    StatefulMap,
    TopN,
    Union,
    Zip,
)
from cep.model.operators.pattern_ways import FAIL, LIMIT, NOT_SAID, ONE
from cep.model.patterns.checks import FIRST, PAST_LAST
from cep.model.patterns.parts import PatternPart, bare, definitions
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.topology import Topology
from cep.model.types import text_of
from cep.model.windows import PartialWindow, SizeWindow, TimeWindow, TrailingWindow, Window
from cep.plan.explain import explain
from cep.plan.physical import Worker
from cep.plan.planner import check_plannable, plan
from driver.builder.computed import computed_first, named_functions
from driver.builder.functions import reference_of
from driver.builder.given import (
    Names,
    On,
    by_name,
    column_names,
    computed_fields,
    constant,
    declared,
    directions,
    equal_columns,
    expression,
    naming,
    stream_name,
    time_to_live,
)
from driver.builder.html import html_table, paragraph, preformatted
from driver.builder.tables import TableLike, static_table

P = ParamSpec("P")


Added = Callable[Concatenate["Query", str, P], "Query"]


def _operator(method: Added[P]) -> Added[P]:
    """A call of the builder that adds the operator `name`: whatever is wrong with what it is given, the error names it."""

    @wraps(method)
    def adding(query: Query, name: str, /, *args: P.args, **kwargs: P.kwargs) -> Query:
        with naming(f"operator {name!r}"):
            return method(query, name, *args, **kwargs)

    return adding


def _bound(span: str | timedelta | None, what: str) -> int | None:
    return None if span is None else signed_duration(span, what)


def _expression_over(field_: str, function: Computed) -> QueryError:
    of = "..., " * (len(function.expressions) > 1)
    example = (
        f'.with_columns("values", {field_}_of={text_of(next(each for each in function.expressions if not isinstance(each, ColumnRef)))})'
    )
    return QueryError(
        f"field {field_!r}: {function.name} takes columns here, for an over's tuples go on with all of theirs; compute the expression "
        f'before, such as {example}, and write {function.name}({of}"{field_}_of")',
        f"/functions/{escaped(field_)}",
    )


@dataclass(frozen=True)
class Query:
    """A query under construction. Operators read what stands before them; `at` goes back to something named.

    It has a method for each operator of the language, and the options of an operator are keywords of its call.
    """

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
        read = declared(source, "source")
        known = read.name in {s.name for s in self.streams}
        return replace(self, streams=self.streams if known else (*self.streams, read), current=read.name)

    def at(self, name: str) -> Query:
        """What follows reads operator or stream `name`."""
        return replace(self, current=name)

    @_operator
    def map(self, name: str, fields: Mapping[str, object] | None = None, /, **named: object) -> Query:
        """One tuple for each tuple, with exactly these fields: expressions or constants."""
        return self._then(Map(name, self._input(), computed_fields(fields, named)))

    @_operator
    def with_columns(self, name: str, fields: Mapping[str, object] | None = None, /, **named: object) -> Query:
        """One tuple for each tuple, with all its columns, and these fields: in place of the column of that name, or behind all. They are
        computed of the tuple as it came."""
        return self._then(Map(name, self._input(), computed_fields(fields, named), keep_others=True))

    @_operator
    def filter(self, name: str, condition: Expr, /) -> Query:
        """Keeps the tuples for which `condition` is true."""
        return self._then(Filter(name, self._input(), expression("condition", condition)))

    @_operator
    def union(self, name: str, *inputs: str) -> Query:
        """The tuples of the operators or streams `inputs`, whose schemas are the same."""
        return self._then(Union(name, inputs))

    @_operator
    def demux(self, name: str, cases: Mapping[str, Expr], /, otherwise: str | None = None) -> Query:
        """Every tuple into each branch whose condition is true, or into `otherwise`; go on with `at("name.branch")`."""
        conditions = computed_fields(cases)
        return self._then(Demux(name, self._input(), conditions, otherwise))

    @_operator
    def flat_map(self, name: str, fields: Mapping[str, object] | None = None, /, *, explode: str, **named: object) -> Query:
        """As `map`, and then one tuple for each element of the list in field `explode`, which becomes the element."""
        return self._then(FlatMap(name, self._input(), computed_fields(fields, named), explode))

    @_operator
    def delay(self, name: str, by: str | timedelta, /) -> Query:
        """The same tuples, `by` later in event time."""
        return self._then(Delay(name, self._input(), parse_duration(by, "delay")))

    @_operator
    def deduplicate(
        self,
        name: str,
        /,
        *,
        by: Names,
        ttl: str | timedelta | EllipsisType | None = ...,
        keep: str = "first",
        window: TimeWindow | None = None,
    ) -> Query:
        """The first of the tuples with equal `by`, and the next that is more than `ttl` after it, and so on. `ttl=None`: the first ever.
        `keep="last"`: of each `window` the last, once the window is over."""
        if keep == "first" and ttl is not ... and window is None:
            return self._then(Deduplicate(name, self._input(), column_names(by), time_to_live(ttl)))
        if keep == "last" and ttl is ... and window is not None:
            return self._then(KeepLast(name, self._input(), window, column_names(by)))
        raise QueryError(f"operator {name!r}: deduplicate has a ttl, or None for ever; or keep='last' and a window=TIME(\"1m\")", "/keep")

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
        begins = tuple((key, constant(key, value)) for key, value in by_name("state", state).items())
        changes = {key: update[key] for key in state if key in by_name("update", update)} | dict(update)
        found = StatefulMap(
            name, self._input(), column_names(by), time_to_live(ttl), begins, computed_fields(changes), computed_fields(fields)
        )
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
                the state is None at first. See `driver.builder.functions.udf` for where functions may be.
            ttl: a group that no tuple touched for longer begins anew; None: never.
        """
        kept, given = (column_names(by), time_to_live(ttl)), column_names(columns, "columns")
        return self._then(StatefulMap(name, self._input(), *kept, (), (), (), reference_of(function), given, Schema.of(schema)))

    @_operator
    def apply(self, name: str, function: str | Callable[[Any], Any], columns: Names, schema: Mapping[str, object], /) -> Query:
        """What a function makes of batches: it gets a `pyarrow.RecordBatch` of `columns` and returns one of `schema`, with as many rows,
        or with a column `__row` (int64) that says of which row each is made. It must treat every row by itself."""
        return self._then(Apply(name, self._input(), reference_of(function), column_names(columns, "columns"), Schema.of(schema)))

    @_operator
    def sort(
        self,
        name: str,
        window: TimeWindow | SizeWindow | PartialWindow | None = None,
        /,
        *,
        by: Names = (),
        order: Names = (),
    ) -> Query:
        """The tuples of each window and group with their `rank` in the order of columns, "-column" for descending; without a
        window the tuples in stream order. `SIZE(100)`: each hundred tuples of a group; `SIZE(100, emit_partial=True)`: and, when the
        stream ends, those that are fewer."""
        partial = isinstance(window, PartialWindow)
        found = window.window if isinstance(window, PartialWindow) else window
        return self._then(Sort(name, self._input(), found, column_names(by), directions(order), emit_partial=partial))

    @_operator
    def top(self, name: str, n: int, window: TimeWindow, /, *, by: Names = (), order: Names) -> Query:
        """The first `n` of what `sort` yields."""
        return self._then(TopN(name, self._input(), window, column_names(by), directions(order), n))

    @_operator
    def sample(
        self,
        name: str,
        /,
        fraction: float | None = None,
        *,
        n: int | None = None,
        window: TimeWindow | None = None,
        by: Names = (),
        seed: int = 0,
    ) -> Query:
        """About `fraction` of the tuples; or `n` of each `window`, of each group of `by` if given. Which ones depends on where they stand
        in their stream and on `seed` alone: they are the same in every run over the same stream."""
        if fraction is not None and n is None and window is None and not by:
            return self._then(Sample(name, self._input(), float(fraction), seed))
        if fraction is None and n is not None and window is not None:
            return self._then(SampleN(name, self._input(), window, column_names(by), n, seed))
        raise QueryError(f'operator {name!r}: a sample is a fraction, such as 0.01, or n=100 of a window=TIME("1m"), maybe by columns')

    @_operator
    def aggregate(
        self,
        name: str,
        window: Window | PartialWindow,
        functions: Mapping[str, Function] | None = None,
        /,
        *,
        by: Names = (),
        emit_partial: bool = False,
        **named: Function,
    ) -> Query:
        """Per window and group: the fields of `by`, then one field per function.

        `emit_partial`: SIZE and TRANSACTION windows that are incomplete when the stream ends come out too, and are not only counted. It may
        stand in the window, `SIZE(100, emit_partial=True)`.

        A function may take an expression where it names a column: `total=sum_(col("price") * col("n"))`. A map before it, `NAME_values`,
        computes it; a tuple on which that fails is a dead letter of the map.

        Several columns of one row: `**arg_max(["price", "bidder"], by="price")`, or, with names of their own,
        `**last({"closing": "price", "seller": "id"})`.
        """
        if isinstance(window, PartialWindow):
            window, emit_partial = window.window, True
        found, keys = named_functions(functions, named), column_names(by)
        fields, found = computed_first(window, keys, found)
        before = self._then(Map(f"{name}_values", self._input(), fields)) if fields else self
        return before._then(Aggregate(name, before._input(), window, keys, found, emit_partial))

    @_operator
    def over(
        self,
        name: str,
        window: TrailingWindow,
        functions: Mapping[str, Function] | None = None,
        /,
        *,
        by: Names = (),
        ttl: str | timedelta | None = None,
        **named: Function,
    ) -> Query:
        """Every tuple with one field more per function: of the tuples of its group in the window that ends with it, `TRAILING("10m")` or
        `TRAILING(rows=100)`; or, `before=lag("price", 1)`, of the k-th tuple before it, NULL where there is none.

        Functions take columns here; `with_columns` before it computes what is none.
        `ttl`: a group that no tuple touched for longer begins anew; None: never.
        """
        found = named_functions(functions, named)
        for field_, function in found:
            if isinstance(function, Computed):
                raise _expression_over(field_, function)
        return self._then(Over(name, self._input(), window, column_names(by), found, time_to_live(ttl)))

    @_operator
    def pattern(
        self,
        name: str,
        pattern: PatternPart,
        /,
        *,
        by: Names = (),
        within: str | timedelta | None = None,
        ttl: str | timedelta | EllipsisType | None = ...,
        matches: str = FIRST,
        after: str = PAST_LAST,
        measures: Mapping[str, object] | None = None,
        rows: str = ONE,
        timed_out: bool = False,
        unmatched: bool = False,
        limit: int = LIMIT,
        on_limit: str = FAIL,
        others: Names = (),
    ) -> Query:
        """Matches of `pattern`, made of `event(...)`, in the tuples of each group, in stream order; one of `within` and `ttl` is said.

        Args:
            within: from the first tuple of a match to the last. ttl: a group that no tuple touched for longer begins anew; None: never.
            matches: "first", of each start the preferred one, and then on `after` it: "past_last", "to_next", "to_first V", "to_last
            V"; or "all". measures: name -> what comes out of a match behind the key, over `row(variable)`.
            rows: "one" tuple for a match, or "all" its tuples, with the measures, `variable` and `match_number`.
            timed_out, unmatched: there are branches `at("name.timed_out")` and `at("name.unmatched")`, which are to be read.
            limit: open starts of a group, beyond which the query fails; or, `on_limit="drop_oldest"`, the oldest is dropped, and counted.
            others: operators or streams that it reads besides what stands before it; events say `of=` which they are of.
        """
        inputs = self._input(), *column_names(others, "others")
        told = tuple(definitions(pattern).items()) if isinstance(pattern, PatternPart) else ()
        part = bare(pattern) if isinstance(pattern, PatternPart) else pattern
        span = None if within is None else parse_duration(within, "within")
        kept = NOT_SAID if isinstance(ttl, EllipsisType) else time_to_live(ttl)
        made = computed_fields(measures or {})
        how = (span, kept, matches, after, made, rows, timed_out, unmatched, limit, on_limit)
        return self._then(Pattern(name, inputs, told, part, column_names(by), *how))

    def output(self, stream: str, folder: str | Path | None = None, **files: Any) -> Query:
        """What stands before it leaves the query as the stream `stream`; and goes to files in `folder`, where one is named:
        `files` are `format`, `separator`, `header` and `overwrite` of `cep.model.sinks.SINK_FORMATS`."""
        if folder is None and files:
            raise QueryError(f"output {stream!r}: {', '.join(files)} are of files, and there is no folder: output({stream!r}, folder=...)")
        sink = None if folder is None else sinks.from_json({"folder": str(Path(folder).absolute()), **files})
        return replace(self, outputs=(*self.outputs, model.Output(stream, self._input(), sink)))

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
        check_plannable(query, known or {})
        check_inline(query)
        return query

    def _repr_html_(self) -> str:
        """The plan that it would get on two instance managers; what there is so far of one that cannot be planned, and why."""
        try:
            workers = [Worker(f"im-{core}", 0, core, "") for core in range(2)]
            made = plan(model.from_json(self.to_json()), {}, workers, Topology.one_node(range(2)))
        except CepError as error:
            so_far = ((each.name, type(each).__name__, ", ".join(each.inputs)) for each in self.operators)
            return paragraph(f"query {self.name}: {error}") + html_table(("operator", "what", "reads"), so_far)
        return preformatted(explain(made))

    def value(self) -> model.Query:
        """The query as a value, not checked: streams it reads by name may be known to the cluster alone."""
        return model.Query(self.name, self.streams, self.operators, self.outputs, self.late_stream, self.plan_options)

    def to_json(self) -> dict[str, Any]:
        """The document that REST and files take."""
        return model.to_json(self.value())

    def _input(self) -> str:
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
        window: TimeWindow | None = None,
        *,
        ttl: str | timedelta | EllipsisType | None = ...,
        on: On = (),
        how: str = "inner",
        right_window: TimeWindow | None = None,
        condition: Expr | None = None,
        prefix: str = "",
        by: Names = (),
        broadcast: str = "right",
    ) -> Query:
        """Pairs of tuples that lie in the windows of both inputs that end at the same time; or, with a `ttl` in place of a window, that are
        at most so far apart, as they meet.

        Args:
            ttl: each tuple is kept for so long, in event time, after its own event time; None: for ever, and without a bound on memory
                but the limit of the state.
            on: columns that are equal: "k", ["k", ("a", "b")] or {"a": "b"}, the left one first; none: a theta join.
            how: whose tuples come out without a match: inner, left, right or full.
            right_window: of the right input, with the same advance; `window` unless given.
            condition: over the joined tuple.
            prefix: before the names of the right one's columns.
            by: columns of both inputs, equal too.
            broadcast: the side of a theta join that every instance gets.
        """
        pairs = tuple(dict.fromkeys((*equal_columns(on), *((key, key) for key in column_names(by)))))
        inputs = self._input(), stream_name(right)
        if window is not None and ttl is ...:
            return self._declaring(right)._then(
                Join(name, *inputs, window, right_window or window, pairs, how, condition, prefix, broadcast)
            )
        if window is not None or ttl is ... or right_window is not None or broadcast != "right":
            message = f'operator {name!r}: a join has a window, such as TIME("1m"), or a ttl, such as "1d" (None: for ever)'
            raise QueryError(f"{message}, and then neither right_window nor broadcast", "/window")
        kept = time_to_live(ttl)
        bounds = None if kept is None else -kept, kept
        return self._declaring(right)._then(IntervalJoin(name, *inputs, *bounds, pairs, how, condition, prefix))

    @_operator
    def interval_join(
        self,
        name: str,
        right: Stream | str,
        lower: str | timedelta | None,
        upper: str | timedelta | None,
        *,
        on: On,
        how: str = "inner",
        condition: Expr | None = None,
        prefix: str = "",
    ) -> Query:
        """Pairs in which the right tuple's event time is from `lower` to `upper`, both included, after the left one's: "-5s" is before
        it. None: no bound, and the tuples of the other side (without `lower` the right one's) are kept for ever. The rest as in `join`."""
        bounds = _bound(lower, "lower"), _bound(upper, "upper")
        inputs = self._input(), stream_name(right)
        return self._declaring(right)._then(IntervalJoin(name, *inputs, *bounds, equal_columns(on), how, condition, prefix))

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
        return self._declaring(right)._then(AsOfJoin(name, self._input(), stream_name(right), equal_columns(on), how, within, prefix))

    @_operator
    def zip(self, name: str, right: Stream | str, *, prefix: str = "") -> Query:
        """The n-th tuple with the n-th of `right`, both in stream order, at the later of their times; those that have no partner when
        the streams end are counted. `prefix`: before the names of the right one's columns."""
        return self._declaring(right)._then(Zip(name, self._input(), stream_name(right), prefix))

    @_operator
    def lookup(
        self,
        name: str,
        table: TableLike,
        *,
        on: On,
        how: str = "inner",
        prefix: str = "",
        versions: str | None = None,
        refresh: str | timedelta | None = None,
        by: str = "event_time",
    ) -> Query:
        """Each tuple with every row of a table in which the columns `on` are equal; `how` inner or left.

        `table`: (path, {column: type}) of a .parquet, .arrow, .feather or .csv file under a folder of the cluster, or a small Arrow table.
        `versions`: its column with the event time from which a row holds. `refresh`: the file is read again that often, by event time or
        `by="clock"`. A table that a stream feeds is the right side of `as_of_join`.
        """
        every = None if refresh is None else parse_duration(refresh, "refresh")
        changing = versions, every, by
        return self._then(Lookup(name, self._input(), static_table(table), equal_columns(on), how, prefix, *changing))

    def _declaring(self, read: Stream | str) -> Query:
        return self if isinstance(read, str) else replace(self.source(read), current=self.current)
