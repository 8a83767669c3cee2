"""Casts: NULL where the value does not fit, as of NULL."""

from __future__ import annotations

import math

from pyspark.sql import Column, functions
from pyspark.sql.functions import lit, rlike, when

from cep.model.schema import DataType
from driver.spark.expressions import times
from driver.spark.refusals import Refused
from driver.spark.types import spark_type

_FLOAT_TO_TEXT = "a cast of float64 to string"
REFUSED_CASTS: dict[str, str] = {_FLOAT_TO_TEXT: "Java writes floats otherwise, and before Java 19 not as the shortest decimal"}

#: What a text may be, whole: Spark itself takes blanks around it and more ways to say it.
_TRUE, _FALSE, _INTEGER = r"\A(?i:true|1)\z", r"\A(?i:false|0)\z", r"\A[+-]?[0-9]+\z"
_REAL = r"\A(?i:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)\z"
_NAN, _INFINITE, _NEGATIVE = r"\A[+-]?(?i:nan)\z", r"\A\+?(?i:inf|infinity)\z", r"\A-(?i:inf|infinity)\z"


def cast(value: Column, source: DataType, target: DataType) -> Column:
    """`value` of type `source` as one of `target`; timestamps are int64 µs on both sides. Raises Refused."""
    match source.name, target.name:
        case one, other if one == other:
            return value
        case "float64", "string":
            raise Refused(_FLOAT_TO_TEXT, REFUSED_CASTS[_FLOAT_TO_TEXT])
        case "string", _:
            return _read(value, target)
        case "binary", _:
            return functions.try_validate_utf8(value.cast("string"))
        case "timestamp", "string":
            return times.instant_text(value)
        case "timestamp", _:
            return times.units_of(value, source).try_cast(spark_type(target))
        case _, "timestamp":
            return times.of_units(value.cast("long"), target)
        case _, "bool":
            return value != lit(0)
        case "float64", _:
            nearest = functions.rint(value)
            return when(nearest < 2.0**63, nearest.try_cast(spark_type(target)))  # which Spark takes for the one before it
    return value.try_cast(spark_type(target))


def _read(text: Column, target: DataType) -> Column:
    """What a text file may have in a field of that type."""
    match target.name:
        case "timestamp":
            return times.of_text(text, target)
        case "bool":
            return when(rlike(text, lit(_TRUE)), True).when(rlike(text, lit(_FALSE)), False)
        case "float64":
            real = when(rlike(text, lit(_REAL)), text.try_cast("double"))
            for word, value in ((_NAN, math.nan), (_INFINITE, math.inf), (_NEGATIVE, -math.inf)):
                real = when(rlike(text, lit(word)), value).otherwise(real)
            return real
        case "int32" | "int64":
            return when(rlike(text, lit(_INTEGER)), text.try_cast(spark_type(target)))
    return text.cast(spark_type(target))
