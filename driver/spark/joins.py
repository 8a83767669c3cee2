"""Window joins and lookups.

A window join is Spark's join of two streams: equal ends of windows are its first equality, which the watermark follows, so that state
is dropped and unmatched rows come out when a window ends. Without pairs (theta) it is the only equality, and the condition the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import Column, DataFrame, SparkSession, functions

from cep.dataflow.operators.static_table import read_table
from cep.kernels.columns import columns_to_arrow
from cep.model.function_types import Types
from cep.model.operators import Join, Lookup
from cep.model.schema import Schema
from cep.world.store import DiskStore
from driver.spark.expressions.expression import column, failing
from driver.spark.frames import ORIGIN, TIME, Frame, at, column_named, columns, no_origin
from driver.spark.types import spark_type
from driver.spark.windows import window_ends

_ENDS = ("__left", "__right")
_KEY = "__key"
_MATCH = "__match"


def join_frames(operator: Join, left: Frame, right: Frame, origins: bool) -> Frame:
    """Raises Refused for a condition that Spark has no equal of."""
    schema, types = operator.joined_schema(left.schema, right.schema), operator.key_types(left.schema, right.schema)
    sides = (_side(operator, left, 0, schema, types), _side(operator, right, 1, schema, types))
    conditions = [functions.col(_ENDS[0]) == functions.col(_ENDS[1]), *_equalities(len(types)), *_condition(operator, schema)]
    data = sides[0].join(sides[1], reduce(and_, conditions), {"full": "full_outer"}.get(operator.how, operator.how))
    end = functions.coalesce(*map(functions.col, _ENDS))
    hidden = [at(functions.unix_micros(end) - 1), *([no_origin()] if origins else [])]
    return Frame(data.select(*_fields(operator, schema), *hidden), schema, frozenset(), origins, True)


def _side(operator: Join, frame: Frame, number: int, schema: Schema, types: Types) -> DataFrame:
    """Its columns as the joined row names them, its keys, and a row for each end of a window."""
    shared = {a for a, b in operator.on if a == b}
    prefix = operator.prefix if number else ""
    kept = [column_named(name).alias(prefix + name) for name in frame.schema.names if name not in shared]
    if not number:  # the condition is over pairs, in which a shared column is the left one's
        kept += [column_named(name).cast(spark_type(schema[name].type)).alias(name) for name in shared]
    window = (operator.window, operator.right_window)[number]
    return frame.data.select(*kept, *_keys(operator, number, types), window_ends(window, _ENDS[number]))


def _keys(operator: Join | Lookup, side: int, types: Types) -> list[Column]:
    """In the types in which they are compared."""
    pairs = zip(operator.on, types, strict=True)
    return [column_named(pair[side]).cast(spark_type(type_)).alias(f"{_KEY}{side}{i}") for i, (pair, type_) in enumerate(pairs)]


def _equalities(pairs: int) -> list[Column]:
    return [functions.col(f"{_KEY}0{i}") == functions.col(f"{_KEY}1{i}") for i in range(pairs)]


def _condition(operator: Join, schema: Schema) -> list[Column]:
    """A pair on which it fails is no match. Ends of windows, which are positive, are asked for too, or else Spark's optimizer would make of
    a condition that is never true one without an equality, which it then refuses."""
    if operator.condition is None:
        return []
    failed, holds = failing(operator.condition, schema), column(operator.condition, schema)
    matches = functions.coalesce(holds if failed is None else holds & ~failed, functions.lit(False))
    return [functions.when(functions.unix_micros(_ENDS[0]) > 0, matches).otherwise(functions.lit(True))]


def _fields(operator: Join, schema: Schema) -> list[Column]:
    """A shared column is that of the side that is there."""
    shared = {a: i for i, (a, b) in enumerate(operator.on) if a == b}
    return [
        column_named(name)
        if name not in shared
        else functions.coalesce(column_named(name), functions.col(f"{_KEY}1{shared[name]}")).alias(name)
        for name in schema.names
    ]


# --- lookups ---------------------------------------------------------------------------------------------------------


def looked_up(operator: Lookup, frame: Frame, session: SparkSession, folder: Path) -> Frame:
    """Every tuple with the rows of the table, which every task gets whole; it is read now. Raises DataError: it cannot be."""
    schema = operator.joined_schema(frame.schema, operator.table.schema)
    types = operator.key_types(frame.schema, operator.table.schema)
    shared = {a: type_ for (a, b), type_ in zip(operator.on, types, strict=True) if a == b}
    own = [column_named(n).cast(spark_type(shared[n])).alias(n) if n in shared else column_named(n) for n in frame.schema.names]
    data = frame.data.select(*own, *frame.hidden, *_keys(operator, 0, types))
    condition = reduce(and_, _equalities(len(types)), functions.lit(True))
    found = data.join(functions.broadcast(_table(operator, session, folder, types, shared)), condition, operator.how)
    match = functions.coalesce(functions.col(_MATCH), functions.lit(0))
    origin = [functions.array_append(ORIGIN, match).alias(ORIGIN)] if frame.origins else []
    return replace(frame, data=found.select(*columns(schema), TIME, *origin), schema=schema)


def _table(operator: Lookup, session: SparkSession, folder: Path, types: Types, shared: Collection[str]) -> DataFrame:
    """Its columns as the joined row names them, its keys, and the number of each row."""
    schema, path = operator.table.schema, folder / f"table-{len(list(folder.iterdir()))}.parquet"
    rows = pa.Table.from_batches([columns_to_arrow(read_table(operator.table, DiskStore()), schema)])
    parquet.write_table(rows.append_column(_MATCH, pa.array(range(rows.num_rows), pa.int64())), path)
    kept = [column_named(name).alias(operator.prefix + name) for name in schema.names if name not in shared]
    return session.read.parquet(str(path)).select(*kept, *_keys(operator, 1, types), _MATCH)
