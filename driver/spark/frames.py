"""What travels between operators on Spark: a DataFrame with the stream's columns and two hidden ones.

`__time` is the event time as a timestamp that Spark's watermark follows. It is SHIFT later than ours, since Spark's first watermark
is 1970 and drops what is before it. `__origin` is an array of int64, where an operator below orders by it (rule 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, functions

from cep.model.schema import Schema

TIME, ORIGIN = "__time", "__origin"
#: µs; whole milliseconds, for Spark's watermark has no finer ones. Event times lie within ±2^61 µs.
SHIFT = 2**61 // 1000 * 1000 + 1000
#: The event time, shifted, of the row that ends a source: later than what any chain of windows and delays makes of another.
END = 2**62 + 2**61
#: By this key of a column's metadata Spark knows what its watermark follows. A time computed from such a column, and no earlier, may
#: carry it too: then no row is older than the watermark says.
_WATERMARKED = {"spark.watermarkDelayMs": 0}


@dataclass(frozen=True)
class Frame:
    """Tuples of `schema`, and the hidden columns.

    Args:
        times: columns that are the event time.
        origins: is there `__origin`?
        ties: may tuples agree in event time and origin here? Then their columns decide.
    """

    data: DataFrame
    schema: Schema
    times: frozenset[str]
    origins: bool
    ties: bool

    @property
    def hidden(self) -> list[Column]:
        return [functions.col(TIME), *([functions.col(ORIGIN)] if self.origins else [])]

    def of(self, data: DataFrame) -> Frame:
        """The same with other tuples."""
        return replace(self, data=data)


def column_named(name: str) -> Column:
    """The column of that name, whatever characters it has."""
    return functions.col("`" + name.replace("`", "``") + "`")


def columns(schema: Schema) -> list[Column]:
    return [column_named(name) for name in schema.names]


def at(micros: Column) -> Column:
    """`__time` of a shifted time in µs that is computed from such ones and no earlier than each of them."""
    return functions.timestamp_micros(micros).alias(TIME, metadata=_WATERMARKED)


def watermarked(time: Column, name: str) -> Column:
    """A time under another name, still followed by the watermark."""
    return time.alias(name, metadata=_WATERMARKED)


def micros(name: str = TIME) -> Column:
    """A hidden time as a number, shifted."""
    return functions.unix_micros(functions.col(name))


def as_timestamp(time: Column) -> Column:
    """A hidden time as users see it."""
    return functions.timestamp_micros(functions.unix_micros(time) - SHIFT)


def no_origin() -> Column:
    """Behind an aggregate or a join: ties there are broken by the columns."""
    return functions.array().cast("array<bigint>").alias(ORIGIN)
