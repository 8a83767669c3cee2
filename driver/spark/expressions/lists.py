"""Functions of lists, ArrayType in Spark."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, functions
from pyspark.sql.functions import when

LISTS: dict[str, Callable[..., Column]] = {
    "list_length": lambda values: functions.array_size(values).cast("long"),
    "element": lambda values, index: functions.get(values, index.try_cast("int")),
    # Spark's passes over NULL
    "join": lambda values, by: when(~functions.exists(values, Column.isNull), functions.array_join(values, by)),
}
