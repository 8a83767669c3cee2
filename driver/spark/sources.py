"""Sources: a folder of files per stream, which Spark reads in the order of their times, the last one the end.

Of a stream of text the folder has links to its files, of a published one the Parquet files that its publishers write. The end is a
row with the event time END in a file of its own: it moves the watermark beyond everything, so that open windows fire, and is dropped
behind it. The filter that drops it asks for the event time and for something that Spark takes for chance: so the optimizer neither
moves it before the watermark nor moves a condition of the query past it, on which the end would be lost.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession, functions, types
from pyspark.sql.streaming.readwriter import DataStreamReader

from cep.errors import QueryError
from cep.model.expr import Cast, ColumnRef, columns_of
from cep.model.schema import INT64, STRING, UNIT_US, Field, Schema
from cep.model.streams import Stream, TextFiles
from driver.spark.expressions.expression import column, failing
from driver.spark.frames import END, ORIGIN, SHIFT, TIME, Frame, column_named, columns, micros
from driver.spark.types import spark_schema

#: Of text in one micro-batch, about. Fixed window of 10 M records of 200 bytes, written by hand, two cores, CPU s (wall s): a fifth of
#: it 34 (42), this 24 (14), twice 27 (17).
MICRO_BATCH_BYTES = 1 << 30
#: A live stream has many small ones.
FEED_FILES_PER_BATCH = 10_000
PARTITION, RECORD, STAMP = "__partition", "__record", "__stamp"
_MARK = "\x01end"
_EDGE_LINES = 16
_NO_QUOTE = "\uffff"
_ENDED, _BAD, _EVENT = "__ended", "__bad", "__event"


@dataclass(frozen=True)
class SparkSource:
    """A stream as it is read.

    Args:
        number: its place among the query's sources.
        files_per_batch: at most, of a micro-batch.
        needed: the columns by which a record may be bad input.
        delay_ms: how far the watermark is behind.
    """

    stream: Stream
    number: int
    folder: Path
    files_per_batch: int
    needed: tuple[str, ...]
    delay_ms: int

    def frame(self, session: SparkSession, origins: bool) -> Frame:
        """Its rows as they come, late ones too; bad ones are not among them."""
        read = session.readStream.option("maxFilesPerTrigger", self.files_per_batch)
        raw = _read(read, self.stream, self.folder)
        found = _rows(raw, self, origins).withWatermark(TIME, f"{self.delay_ms} milliseconds")
        declared = self.stream.event_time
        times = frozenset([declared.name] if isinstance(declared, ColumnRef) else [])
        return Frame(
            found.where((functions.spark_partition_id() >= 0) & (micros() < END)),
            self.stream.schema,
            times,
            origins,
            self.stream.files is not None,
        )


# --- folders ---------------------------------------------------------------------------------------------------------


def published_source(stream: Stream, number: int, folder: Path, needed: tuple[str, ...]) -> SparkSource:
    """A stream whose publishers write into `folder`."""
    folder.mkdir(parents=True)
    return SparkSource(stream, number, folder, FEED_FILES_PER_BATCH, needed, delay_ms(stream.disorder or 0, [[0]], [None]))


def text_source(session: SparkSession, stream: Stream, number: int, folder: Path, needed: tuple[str, ...]) -> SparkSource:
    """A stream of text files, linked into `folder`. Raises QueryError: there are no files."""
    assert isinstance(stream.files, TextFiles)
    paths = sorted({path for pattern in stream.files.paths for path in glob.glob(pattern)})
    if not paths:
        raise QueryError(f"stream {stream.name!r}: no file matches {', '.join(map(repr, stream.files.paths))}")
    folder.mkdir(parents=True)
    for index, path in enumerate(paths):
        (folder / f"{index:08}").symlink_to(Path(path).absolute())
    sizes, changed = [os.path.getsize(path) for path in paths], [os.stat(path).st_mtime_ns // 10**6 for path in paths]
    _end_text(stream, folder / f"{len(paths):08}", max(changed))
    per_batch = max(1, min(len(paths) + 1, MICRO_BATCH_BYTES * len(paths) // max(1, sum(sizes))))
    source = SparkSource(stream, number, folder, per_batch, needed, 0)
    bounds = _bounds(session, source, paths) if len(paths) > per_batch else [None] * len(paths)
    return replace(source, delay_ms=delay_ms(stream.disorder or 0, _batches(changed, per_batch), bounds))


def _end_text(stream: Stream, path: Path, newest_ms: int) -> None:
    """A file whose only record has the mark where the event time is read from; later than the others."""
    assert isinstance(stream.files, TextFiles)
    marked = _marked(stream)
    fields = [_MARK if name == marked else "" for name in stream.schema.names]
    header = [stream.files.separator.join(stream.schema.names)] if stream.files.header else []
    path.write_text("\n".join([*header, stream.files.separator.join(fields), ""]))
    os.utime(path, ns=((newest_ms + 1000) * 10**6,) * 2)


def _marked(stream: Stream) -> str:
    """The column that the end is told by."""
    assert stream.event_time is not None
    read = columns_of(stream.event_time)
    return next(name for name in stream.schema.names if name in read or not read)


def _batches(changed_ms: Sequence[int], per_batch: int) -> list[list[int]]:
    """Files as Spark takes them: in the order of their times; those with one time have no known order."""
    order = sorted(range(len(changed_ms)), key=lambda i: changed_ms[i])
    batches: list[list[int]] = []
    for place, file in enumerate(order):
        tied = batches and changed_ms[file] == changed_ms[order[place - 1]]
        if place % per_batch == 0 and not tied:
            batches.append([])
        batches[-1].append(file)
    return batches


def delay_ms(disorder_us: int, batches: Sequence[Sequence[int]], bounds: Sequence[tuple[int, int] | None]) -> int:
    """How far the watermark has to be behind, so that no row of a later micro-batch is behind it.

    A file's rows lie from its first - disorder to its last + disorder, as the declaration promises; `bounds` are first and last.
    One more, since Spark counts a row at the watermark as late; whole ones, since its watermark is in ms.
    """
    latest, needed = -(2**62), 0
    for batch in batches:
        known = [found for file in batch if (found := bounds[file]) is not None]
        if known:
            needed = max(needed, latest - min(first for first, _ in known) + 2 * disorder_us)
            latest = max([latest, *(last for _, last in known)])
    return -(-max(needed, 0 if len(batches) > 1 else disorder_us) // 1000) + 1


def _bounds(session: SparkSession, source: SparkSource, paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """Event times at the beginning and at the end of each file, read by Spark as it reads the files; None where none parses."""
    edges = source.folder.with_name(f"{source.folder.name}-edges")
    edges.mkdir()
    for index, path in enumerate(paths):
        (edges / f"{index:08}").write_bytes(_edges(path))
    raw = _read(session.read, source.stream, edges)
    file = functions.col("_metadata.file_name").cast("int").alias("file")
    times = (
        _rows(raw.select("*", file), source, False, "file")
        .groupBy("file")
        .agg(functions.min(micros()).alias("first"), functions.max(micros()).alias("last"))
    )
    found = {row["file"]: (row["first"] - SHIFT, row["last"] - SHIFT) for row in times.collect()}
    return [found.get(index) for index in range(len(paths))]


def _edges(path: str) -> bytes:
    """Its first lines, and its last."""
    with open(path, "rb") as file:
        head = b"".join(line for line, _ in zip(file, range(_EDGE_LINES + 1), strict=False))
        size = file.seek(0, 2)
        file.seek(max(0, size - 65_536))
        tail = file.read().splitlines(keepends=True)[-_EDGE_LINES:]
    return head + (b"" if head.endswith(b"\n") else b"\n") + b"".join(tail)


# --- rows ------------------------------------------------------------------------------------------------------------


def feed_schema(schema: Schema) -> pa.Schema:
    """The schema of the files of a published stream: its columns, and where a row is from. The end has PARTITION -1 and nothing else."""
    hidden = [pa.field(PARTITION, pa.int64()), pa.field(RECORD, pa.int64()), pa.field(STAMP, pa.int64())]
    return pa.schema([*(field.with_nullable(True) for field in schema.arrow), *hidden])


def end_feed(schema: Schema, path: Path) -> None:
    """The file that ends a published stream."""
    row = {PARTITION: [-1]}
    write_feed(pa.table([pa.array(row.get(f.name, [None]), f.type) for f in feed_schema(schema)], schema=feed_schema(schema)), path)


def write_feed(table: pa.Table, path: Path) -> None:
    """Spark sees it when it is whole."""
    hidden = path.with_name(f".{path.name}")
    parquet.write_table(table, hidden)
    hidden.rename(path)


def _read(reader: DataFrameReader | DataStreamReader, stream: Stream, folder: Path) -> DataFrame:
    """Records as they stand: of text all fields as text."""
    if stream.files is None:
        hidden = [types.StructField(name, types.LongType()) for name in (PARTITION, RECORD, STAMP)]
        return reader.schema(types.StructType([*spark_schema(stream.schema).fields, *hidden])).parquet(str(folder))
    assert isinstance(stream.files, TextFiles)
    texts = types.StructType([types.StructField(name, types.StringType()) for name in stream.schema.names])
    options: dict[str, Any] = {"sep": stream.files.separator, "header": stream.files.header, "quote": _NO_QUOTE, "escape": _NO_QUOTE}
    return reader.schema(texts).options(**options).csv(str(folder))


def _rows(raw: DataFrame, source: SparkSource, origins: bool, *kept: str) -> DataFrame:
    """The records that are rows, parsed, and the end; with event time, and `kept` of what is there besides."""
    stream, number = source.stream, source.number
    text = stream.files is not None
    ended = (
        functions.coalesce(column_named(_marked(stream)) == functions.lit(_MARK), functions.lit(False))
        if text
        else column_named(PARTITION) < 0
    )
    origin = [(_place_in_text(number) if text else _place_in_feed(number)).alias(ORIGIN)] if origins else []
    values = [(_parsed(field) if text else column_named(field.name)).alias(field.name) for field in stream.schema.fields]
    stamp = [] if text or stream.event_time is not None else [column_named(STAMP)]
    bad = reduce(or_, [_is_bad(stream.schema[name]) for name in source.needed] if text else [], functions.lit(False))
    whole = [ended.alias(_ENDED), bad.alias(_BAD), *origin, *stamp, *map(functions.col, kept)]
    timed = raw.select(*values, *whole).withColumn(_EVENT, _event_time(stream))
    rows = timed.where(functions.col(_ENDED) | _is_row(stream))
    time = functions.when(functions.col(_ENDED), functions.lit(END)).otherwise(functions.col(_EVENT) + SHIFT)
    return rows.select(*columns(stream.schema), functions.timestamp_micros(time).alias(TIME), *([ORIGIN] if origins else []), *kept)


def _event_time(stream: Stream) -> Column:
    """µs; NULL where there is none."""
    if stream.event_time is None:
        return column_named(STAMP)
    time = functions.unix_micros(column(stream.event_time, stream.schema))
    failed = failing(stream.event_time, stream.schema)
    return time if failed is None else functions.when(~failed, time)


def _is_row(stream: Stream) -> Column:
    """Is it a row, with an event time that its stream allows, and not bad input?"""
    time, (least, most) = functions.col(_EVENT), stream.times
    return time.isNotNull() & (time >= least) & (time <= most) & ~functions.col(_BAD)


def _is_bad(field: Field) -> Column:
    """Is a text's field no value of its type, or empty where NULL may not be? Spark reads what is empty as NULL."""
    value = _parsed(field)
    return value.isNull() & column_named(field.name).isNotNull() if field.nullable else value.isNull()


def _parsed(field: Field) -> Column:
    """A field of text as a value; NULL where it is empty or does not parse."""
    text = column_named(field.name)
    match field.type.name:
        case "string":
            return functions.coalesce(text, functions.lit(""))
        case "binary":
            return functions.coalesce(text, functions.lit("")).cast("binary")
        case "int32" | "int64":
            return _integer(text, field.type.name)
    raw = Schema((Field(field.name, STRING, True),))
    if field.type.unit in UNIT_US:
        return functions.timestamp_micros(functions.try_multiply(_integer(text, "int64"), functions.lit(UNIT_US[field.type.unit])))
    inner = Cast(ColumnRef(field.name), INT64, True) if field.type.unit else ColumnRef(field.name)
    return column(Cast(inner, field.type, True), raw)


def _integer(text: Column, type_: str) -> Column:
    """Spark itself would take blanks before it."""
    return functions.when(functions.ascii(text) > 32, text.try_cast({"int32": "int", "int64": "bigint"}[type_]))


# --- origins ---------------------------------------------------------------------------------------------------------


def _place_in_feed(number: int) -> Column:
    """As the engine numbers it: (source and partition, record)."""
    return functions.array(column_named(PARTITION) + (number << 48), column_named(RECORD))


def _place_in_text(number: int) -> Column:
    """(source and file): the number of a record is not to be had, so its columns decide."""
    return functions.array(functions.col("_metadata.file_name").cast("bigint") + (number << 48))
