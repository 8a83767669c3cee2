"""The engine's types as Spark's.

A timestamp of any unit is TimestampType (µs since 1970 UTC; the session's time zone is UTC), a list is ArrayType.
"""

from __future__ import annotations

from pyspark.sql import types

from cep.model.schema import DataType, Schema

_SPARK = {
    "bool": types.BooleanType(),
    "int32": types.IntegerType(),
    "int64": types.LongType(),
    "float64": types.DoubleType(),
    "timestamp": types.TimestampType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
}


def spark_type(type_: DataType) -> types.DataType:
    """What a column of `type_` is in Spark."""
    return _SPARK[type_.name] if type_.element is None else types.ArrayType(spark_type(type_.element), True)


def spark_schema(schema: Schema) -> types.StructType:
    """Every field may be NULL: what may not is checked where rows are read."""
    return types.StructType([types.StructField(field.name, spark_type(field.type), True) for field in schema.fields])
