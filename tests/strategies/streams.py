"""Streams and what is published on them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.model.expr import ColumnRef, Expr, Literal, coalesce
from cep.model.schema import UNIT_US, DataType, Field, Schema
from cep.model.streams import Stream
from tests.reference.rows import Partition
from tests.strategies.values import TIMESTAMP_MS, TIMESTAMP_US, TYPES, columns

EVENT_TIME = "t"
#: Ticks: the epoch, so that windows before it are met too, and a time of today.
EPOCHS = (0, -7, 1_700_000_000_000)
#: Of one stream.
PARTITIONS_MAX, ROWS_MAX = 4, 12


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
    allowed = draw(st.sampled_from(("any", "any", "1900-2200")))
    return Stream(name, schema, draw(event_times(schema)), ticks * UNIT_US[type_.unit], event_times=allowed)


@st.composite
def event_times(draw: DrawFn, schema: Schema) -> Expr:
    """Mostly the column; else computed from it, and from an integer that may be NULL, too large for a time, or overflow."""
    time = ColumnRef(EVENT_TIME)
    computed = [time, time, time, time + 5, coalesce(time, Literal(0, TIMESTAMP_US))]
    integers = [field.name for field in schema.fields if field.type.is_integer]
    computed += [made for name in integers for made in (time + ColumnRef(name) % 3, time + ColumnRef(name))]
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
        first, last = stream.times[0] // tick, stream.times[1] // tick + 1
        found.append(None if null else tick * {5: last, 6: last - 1, 7: first - 1, 8: first}.get(odd, greatest + step))
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
def partitions(draw: DrawFn, stream: Stream, partitions_max: int = PARTITIONS_MAX, rows_max: int = ROWS_MAX) -> list[Partition]:
    """Publishers of `stream`. They share an epoch, or else the windows of one would all be late to another's."""
    epoch = draw(st.sampled_from(EPOCHS))
    count = draw(st.integers(1, partitions_max))
    return [Partition(index, draw(rows(stream, epoch, rows_max))) for index in range(count)]
