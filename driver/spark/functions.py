"""Aggregate functions as columns over a group (docs/functions.md), by their class (rule 4.6).

A commutative one is Spark's. One that is ordered but mergeable is a minimum over (event time, origin) and, where these can tie, the
columns, which is our order. Quantiles are exact here, where the engine's are within 1/256; distinct values are counted as the size of
a set, since Spark has no DISTINCT over streams.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from pyspark.sql import Column
from pyspark.sql import functions as spark

from cep.model.functions import Function, UserFunction
from cep.model.schema import FLOAT64, INT32
from driver.spark.frames import ORIGIN, TIME, Frame, column_named, columns
from driver.spark.refusals import NO_EQUAL, REFUSED, Refused

_USERS = "a user's aggregate function"
_VALUE = "__value"


def result(function: Function, frame: Frame) -> Column:
    """What `function`, no bound of a window, yields over a group of rows of `frame`. Raises Refused."""
    if isinstance(function, UserFunction):
        raise Refused(_USERS, REFUSED[_USERS])
    if function.name not in _FUNCTIONS:
        raise Refused(function.name, NO_EQUAL)
    return _FUNCTIONS[function.name](function, frame)


def order_columns(frame: Frame) -> list[Column]:
    """What stands in stream order if it is compared."""
    tied = columns(frame.schema) if frame.ties else []
    return [spark.col(TIME), *([spark.col(ORIGIN)] if frame.origins else []), *tied]


def _value(function: Function) -> Column:
    assert function.column is not None
    return column_named(function.column)


def _number(function: Function) -> Column:
    return _value(function).cast("double")


# --- commutative -----------------------------------------------------------------------------------------------------


def _count(function: Function, frame: Frame) -> Column:
    return spark.count(spark.lit(1) if function.column is None else _value(function))


def _sum(function: Function, frame: Frame) -> Column:
    """Sums int64 in two halves, which cannot overflow: NULL only if the sum itself does not fit."""
    type_ = frame.schema[function.column or ""].type
    if type_ in (FLOAT64, INT32):
        return spark.sum(_value(function))
    high = spark.sum(spark.shiftright(_value(function), 32)).cast("decimal(20,0)")
    low = spark.sum(_value(function).bitwiseAND(2**32 - 1)).cast("decimal(20,0)")
    return (high * spark.lit(2**32).cast("decimal(10,0)") + low).try_cast("bigint")


def _avg(function: Function, frame: Frame) -> Column:
    return spark.avg(_number(function))


def _extreme(of: Callable[[Column], Column]) -> Callable[[Function, Frame], Column]:
    return lambda function, frame: of(_value(function))


def _moment(of: Callable[[Column], Column]) -> Callable[[Function, Frame], Column]:
    return lambda function, frame: of(_number(function))


def _count_distinct(function: Function, frame: Frame) -> Column:
    """A set tells zeros of two signs apart, and NaNs of different bits."""
    value = _value(function)
    if frame.schema[function.column or ""].type == FLOAT64:
        value = spark.when(spark.isnan(value), spark.lit(float("nan"))).otherwise(value + spark.lit(0.0))
    return spark.size(spark.collect_set(value)).cast("bigint")


def _approx_count_distinct(function: Function, frame: Frame) -> Column:
    """Spark's HyperLogLog has 2**ceil(2 * log2(1.106 / rsd)) registers: as many as asked for."""
    registers_log2 = function.parameter("precision")
    return spark.approx_count_distinct(_value(function), 1.107 / 2 ** (registers_log2 / 2))


def _quantile(function: Function, frame: Frame) -> Column:
    """The value of rank max(1, ceil(q * n)); q means the decimal that it is written as."""
    q = Fraction(str(function.parameter("q"))) if function.parameters else Fraction(1, 2)
    values = spark.sort_array(spark.collect_list(_number(function)))
    n = spark.size(values).cast("decimal(10,0)")
    rank = spark.ceil(n * spark.lit(q.numerator).cast("decimal(18,0)") / spark.lit(q.denominator).cast("decimal(18,0)"))
    return spark.get(values, spark.greatest(rank.cast("int"), spark.lit(1)) - 1)


# --- ordered but mergeable -------------------------------------------------------------------------------------------


def _first(function: Function, frame: Frame) -> Column:
    return (
        spark.min(_value(function))
        if function.column in frame.times
        else spark.min_by(_value(function), spark.struct(*order_columns(frame)))
    )


def _last(function: Function, frame: Frame) -> Column:
    return (
        spark.max(_value(function))
        if function.column in frame.times
        else spark.max_by(_value(function), spark.struct(*order_columns(frame)))
    )


def _by(function: Function) -> Column:
    assert function.by is not None
    return column_named(function.by)


def _arg_min(function: Function, frame: Frame) -> Column:
    place = spark.struct(_by(function).alias("by"), *order_columns(frame))
    return spark.min_by(_value(function), spark.when(_by(function).isNotNull(), place))


def _arg_max(function: Function, frame: Frame) -> Column:
    """The first of several, for which they are collected: no order of Spark's goes up in one and down in another column."""
    row = spark.struct(_by(function).alias("by"), spark.struct(*order_columns(frame)).alias("order"), _value(function).alias(_VALUE))
    rows = spark.collect_list(spark.when(_by(function).isNotNull(), row))
    greatest = spark.array_max(spark.transform(rows, lambda each: each["by"]))
    candidates = spark.filter(rows, lambda each: each["by"].eqNullSafe(greatest))
    first = spark.array_min(spark.transform(candidates, lambda each: spark.struct(each["order"], each[_VALUE])))
    return first[_VALUE]


def _collect(function: Function, frame: Frame) -> Column:
    rows = spark.sort_array(spark.collect_list(spark.struct(*order_columns(frame), _value(function).alias(_VALUE))))
    return spark.transform(spark.slice(rows, 1, int(function.parameter("at_most"))), lambda row: row[_VALUE])


_FUNCTIONS: dict[str, Callable[[Function, Frame], Column]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(spark.min),
    "max": _extreme(spark.max),
    "first": _first,
    "last": _last,
    "arg_min": _arg_min,
    "arg_max": _arg_max,
    "var": _moment(spark.var_samp),
    "stddev": _moment(spark.stddev_samp),
    "var_pop": _moment(spark.var_pop),
    "stddev_pop": _moment(spark.stddev_pop),
    "count_distinct": _count_distinct,
    "approx_count_distinct": _approx_count_distinct,
    "quantile": _quantile,
    "median": _quantile,
    "collect": _collect,
}
