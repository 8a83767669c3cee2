"""Operators as DataFrames: `frames` walks a query from its sources to its outputs.

What each yields, at which event time, is docs/semantics.md. Tuples on which an expression fails are left out, as the engine does, which
keeps them as dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as spark

from cep.model.expr import Expr
from cep.model.operators import (
    Aggregate,
    Deduplicate,
    Delay,
    Fields,
    Filter,
    FlatMap,
    Join,
    KeepLast,
    Lookup,
    Map,
    Operator,
    Sort,
    TopN,
    Union,
)
from cep.model.windows import SessionWindow, TimeWindow, UnboundedWindow
from cep.plan.needed import beginnings, may_tie, wants_origin
from cep.plan.validate import Validated
from driver.spark.expressions.expression import column, failing
from driver.spark.frames import ORIGIN, TIME, Frame, at, column_named, columns, micros, no_origin
from driver.spark.functions import order_columns, result
from driver.spark.joins import join_frames, looked_up
from driver.spark.refusals import Refused
from driver.spark.windows import SESSION_SHIFT, WINDOW, bounds, session_window, time_window

_ALL, _ROW, _AT = "__all", "__row", "__at"


@dataclass(frozen=True)
class Compiler:
    """A validated query under way to DataFrames; `folder` takes the tables of its lookups.

    `places` are those of the operators in the query as written.
    """

    validated: Validated
    places: Mapping[str, int]
    session: SparkSession
    folder: Path

    def origins(self, name: str) -> bool:
        """Does an operator below order the tuples of `name` by their origins?"""
        return wants_origin(self.validated.query, name, self.validated.event_time_columns)

    def frames(self, sources: Mapping[str, Frame]) -> dict[str, Frame]:
        """What every operator yields, by name. Raises Refused for an expression that Spark has no equal of."""
        made = dict(sources)
        operators = {operator.name: operator for operator in self.validated.query.operators}
        for operator in (operators[name] for name in self.validated.order):
            with self._at(operator):
                frame = self.frame(operator, [self._dealt_out(operator, made[name]) for name in operator.inputs])
            made[operator.name] = self._known(operator.name, frame)
        return made

    def _dealt_out(self, operator: Operator, frame: Frame) -> Frame:
        """Its tuples, in turn to as many tasks as there are cores, where a round-robin before `operator` is asked for."""
        asked = dict(self.validated.query.options.balancers).get(operator.name)
        return frame.of(frame.data.repartition(self.session.sparkContext.defaultParallelism)) if asked == "round-robin" else frame

    def _known(self, name: str, frame: Frame) -> Frame:
        """With what was found out about `name` when the query was checked: only rows that were published keep their exact place."""
        query, sources = self.validated.query, self.validated.sources
        published = {stream for stream, declared in sources.items() if declared.files is None}
        ties = may_tie(query, name) or not beginnings(query, name).keys() <= published
        return replace(frame, schema=self.validated.schemas[name], times=self.validated.event_time_columns[name], ties=ties)

    def frame(self, operator: Operator, inputs: list[Frame]) -> Frame:
        origins = self.origins(operator.name)
        match operator:
            case Join():
                left, right = inputs
                return join_frames(operator, left, right, origins)
            case Lookup():
                return looked_up(operator, inputs[0], self.session, self.folder)
            case Union():
                return _union(inputs, origins)
            case Aggregate(window=UnboundedWindow()):
                return _running(operator, inputs[0], origins)
            case Aggregate():
                return _aggregate(operator, inputs[0], origins)
        return _ONE_INPUT[type(operator)](operator, inputs[0])

    @contextmanager
    def _at(self, operator: Operator) -> Iterator[None]:
        """Whatever is refused inside is refused of `operator`."""
        try:
            yield
        except Refused as refused:
            raise refused.at(operator.name, f"/operators/{self.places[operator.name]}") from None


# --- stateless -------------------------------------------------------------------------------------------------------


def _map(operator: Map, frame: Frame) -> Frame:
    made = _computed(operator.over(frame.schema.names), frame)
    return frame.of(_sound(frame, (expr for _, expr in operator.fields)).select(*made, *frame.hidden))


def _computed(fields: Fields, frame: Frame) -> list[Column]:
    return [column(expr, frame.schema).alias(name) for name, expr in fields]


def _sound(frame: Frame, exprs: Iterable[Expr]) -> DataFrame:
    """The tuples on which none of `exprs` fails."""
    failures = [found for expr in exprs if (found := failing(expr, frame.schema)) is not None]
    return frame.data.where(~reduce(or_, failures)) if failures else frame.data


def _filter(operator: Filter, frame: Frame) -> Frame:
    return frame.of(_sound(frame, [operator.condition]).where(column(operator.condition, frame.schema)))


def _flat_map(operator: FlatMap, frame: Frame) -> Frame:
    data = _sound(frame, (expr for _, expr in operator.fields)).select(*_computed(operator.fields, frame), *frame.hidden)
    others = [column_named(name) for name, _ in operator.fields if name != operator.explode]
    exploded = data.select(*others, *frame.hidden, spark.posexplode(column_named(operator.explode)).alias(_ROW, _ALL))
    fields = [(spark.col(_ALL) if name == operator.explode else column_named(name)).alias(name) for name, _ in operator.fields]
    origin = [spark.array_append(ORIGIN, spark.col(_ROW).cast("bigint")).alias(ORIGIN)] if frame.origins else []
    return frame.of(exploded.select(*fields, TIME, *origin))


def _delay(operator: Delay, frame: Frame) -> Frame:
    return _later(frame, operator.by)


def _later(frame: Frame, by: int) -> Frame:
    """The same tuples, `by` µs later."""
    return frame.of(frame.data.select(*columns(frame.schema), at(micros() + by), *frame.hidden[1:]))


def _union(inputs: list[Frame], origins: bool) -> Frame:
    frames = [frame.data.select(*columns(frame.schema), TIME, *([ORIGIN] if origins else [])) for frame in inputs]
    return replace(inputs[0], data=reduce(lambda a, b: a.unionByName(b), frames), origins=origins)


# --- stateful --------------------------------------------------------------------------------------------------------


def _aggregate(operator: Aggregate, frame: Frame, origins: bool) -> Frame:
    """Spark has no session without a key: then all are of one, which it must not know."""
    assert isinstance(operator.window, TimeWindow | SessionWindow)
    if isinstance(operator.window, SessionWindow):
        frame, window = _later(frame, SESSION_SHIFT), session_window(operator.window)
    else:
        window = time_window(operator.window)
    data = frame.data.withColumn(_ALL, spark.isnull(TIME))
    answers = data.groupBy(window, *map(column_named, operator.by), *([] if operator.by else [_ALL])).agg(*_results(operator, frame))
    fields = [column_named(name) for name in (*operator.by, *(name for name, _ in operator.functions))]
    time = spark.window_time(WINDOW).alias(TIME)
    return replace(frame, data=answers.select(*fields, time, *([no_origin()] if origins else [])), origins=origins)


def _results(operator: Aggregate, frame: Frame) -> list[Column]:
    of_window = bounds(operator.window)
    return [
        (of_window[function.name] if function.name in of_window else result(function, frame)).alias(name)
        for name, function in operator.functions
    ]


def _running(operator: Aggregate, frame: Frame, origins: bool) -> Frame:
    """The answers of the groups that changed, as they are at the end of a micro-batch: the last of those per tuple.

    Spark gives out the answer of all tuples, if these are one group, also where there was none: it is let out where one came now.
    """
    known = [spark.max(TIME).alias(TIME), spark.max(_AT).alias(_AT)]
    data = frame.data.withColumn(_AT, spark.current_timestamp())
    answers = data.groupBy(*map(column_named, operator.by)).agg(*_results(operator, frame), *known)
    rows = answers if operator.by else answers.where(spark.col(_AT) == spark.current_timestamp())
    fields = [column_named(name) for name in (*operator.by, *(name for name, _ in operator.functions))]
    return replace(frame, data=rows.select(*fields, TIME, *([no_origin()] if origins else [])), origins=origins)


def _deduplicate(operator: Deduplicate, frame: Frame) -> Frame:
    """The first tuple in stream order, given out in the micro-batch in which it came."""
    row = spark.struct(*order_columns(frame), spark.col(_AT), spark.struct(*columns(frame.schema)).alias(_ROW))
    data = frame.data.withColumn(_AT, spark.current_timestamp())
    first = data.groupBy(*(column_named(name).alias(f"{_ALL}{i}") for i, name in enumerate(operator.by))).agg(spark.min(row).alias(_ALL))
    new = first.where(spark.col(_ALL)[_AT] == spark.current_timestamp()).select(f"{_ALL}.*")
    fields = [spark.col(_ROW)[name].alias(name) for name in frame.schema.names]
    return frame.of(new.select(*fields, *frame.hidden))


def _ranked(operator: Sort | TopN, frame: Frame) -> Frame:
    """The rows of a window and group are collected, put into order, and numbered."""
    assert isinstance(operator.window, TimeWindow)
    row = spark.struct(*order_columns(replace(frame, ties=False)), spark.struct(*columns(frame.schema)).alias(_ROW))
    grouped = frame.data.groupBy(
        time_window(operator.window), *(column_named(name).alias(f"{_ALL}{i}") for i, name in enumerate(operator.by))
    )
    rows = spark.array_sort(spark.sort_array(spark.collect_list(row)), _comparison(operator.order))
    kept = spark.slice(rows, 1, operator.n) if isinstance(operator, TopN) else rows
    answers = grouped.agg(kept.alias(_ROW)).select(spark.window_time(WINDOW).alias(TIME), spark.posexplode(_ROW).alias(_AT, _ROW))
    fields = [spark.col(_ROW)[_ROW][name].alias(name) for name in frame.schema.names]
    rank = (spark.col(_AT) + 1).cast("bigint").alias(operator.rank)
    origin = [spark.col(_ROW)[ORIGIN].alias(ORIGIN)] if frame.origins else []
    return frame.of(answers.select(*fields, rank, TIME, *origin))


def _last(operator: KeepLast, frame: Frame) -> Frame:
    """The greatest row in stream order of a window and group."""
    row = spark.struct(*order_columns(replace(frame, ties=False)), spark.struct(*columns(frame.schema)).alias(_ROW))
    keys = [column_named(name).alias(f"{_ALL}{i}") for i, name in enumerate(operator.by)]
    grouped = frame.data.groupBy(time_window(operator.window), *keys)
    answers = grouped.agg(spark.max(row).alias(_ROW)).select(spark.window_time(WINDOW).alias(TIME), _ROW)
    fields = [spark.col(_ROW)[_ROW][name].alias(name) for name in frame.schema.names]
    origin = [spark.col(_ROW)[ORIGIN].alias(ORIGIN)] if frame.origins else []
    return frame.of(answers.select(*fields, TIME, *origin))


def _comparison(order: tuple[tuple[str, bool], ...]) -> Callable[[Column, Column], Column]:
    """-1, 0 or 1; NULL first, NaN greatest, descending the other way round. Rows that tie stay as they stand: Spark's sort is stable."""

    def compare(a: Column, b: Column) -> Column:
        found = spark.lit(0)
        for name, descending in reversed(order):
            x, y = a[_ROW][name], b[_ROW][name]
            less = (x.isNull() & y.isNotNull()) | spark.coalesce(x < y, spark.lit(False))
            found = spark.when(x.eqNullSafe(y), found).when(less, spark.lit(1 if descending else -1)).otherwise(-1 if descending else 1)
        return found

    return compare


_ONE_INPUT: dict[type, Callable[..., Frame]] = {
    Map: _map,
    Filter: _filter,
    FlatMap: _flat_map,
    Delay: _delay,
    Deduplicate: _deduplicate,
    Sort: _ranked,
    TopN: _ranked,
    KeepLast: _last,
}
