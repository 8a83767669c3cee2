"""Output streams on Spark: a micro-batch goes to subscribers as Arrow, and to the files that the query asks for, by Spark itself."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as spark
from pyspark.sql.streaming.query import StreamingQuery

from cep.errors import QueryError
from cep.model.query import Output
from cep.model.schema import UNIT_US, Field
from cep.model.sinks import SinkFiles, TextSink, name_of
from driver.spark.expressions.times import instant_text, units_of
from driver.spark.frames import TIME, Frame, as_timestamp, column_named, columns
from driver.streams.arrow import time_column
from driver.streams.frames import ReadableBatches


class SparkSubscription(ReadableBatches):
    """Answers of one output stream from when it was made, as Arrow record batches."""

    def __init__(self, stream: str, schema: pa.Schema, event_time: bool | str) -> None:
        time = time_column(event_time, stream, schema.names)
        added = [pa.field(time, pa.timestamp("us", tz="UTC"), nullable=False)] if event_time else []
        self.stream, self.schema = stream, pa.schema([*schema, *added])
        self._rows = 0
        self._batches: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue()

    @property
    def rows(self) -> int:
        """So many have come."""
        return self._rows

    def __enter__(self) -> SparkSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end of the stream. Raises TimeoutError after `timeout` seconds without one, and what the query
        ended with: QueryFailed, QueryStopped."""
        try:
            found = self._batches.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"stream {self.stream!r}: no batch within {timeout:g} s") from None
        if isinstance(found, pa.RecordBatch):
            self._shown = found
            return found
        self._batches.put(found)  # for the next question
        if found is not None:
            raise found
        return None

    def take(self, table: pa.Table) -> None:
        """Rows with the columns of the stream, and the event time last."""
        wanted = pa.Table.from_arrays([*table.columns[: len(self.schema)]], names=self.schema.names).cast(self.schema)
        self._rows += wanted.num_rows
        for batch in wanted.to_batches():
            self._batches.put(batch)

    def end(self, error: BaseException | None) -> None:
        self._batches.put(error)

    def close(self) -> None:
        """Gives it up; what was not read is dropped."""
        self._batches = queue.Queue()
        self.end(None)


class OutputStream:
    """An output of a query: its DataFrame, its readers, and how many rows have come out.

    `updating`: answers come out anew when they change.
    """

    def __init__(self, output: Output, frame: Frame, updating: bool, pointer: str) -> None:
        self.output, self.fields, self.updating = output, frame.schema.fields, updating
        self.schema = frame.schema.arrow
        self.data = frame.data.select(*columns(frame.schema), as_timestamp(spark.col(TIME)).alias(TIME))
        self.subscriptions: list[SparkSubscription] = []
        self.rows = 0
        self.query: StreamingQuery | None = None
        self.over = False
        if output.files is not None:
            _check_free(output.files, pointer)

    def subscribe(self, event_time: bool | str) -> SparkSubscription:
        made = SparkSubscription(self.output.stream, self.schema, event_time)
        self.subscriptions.append(made)
        return made

    def take(self, batch: DataFrame, number: int) -> None:
        """Micro-batch `number`, in a thread of Spark's."""
        readers, files = list(self.subscriptions), self.output.files
        if readers and files is not None:
            batch = batch.persist()
        if files is not None:
            self.rows += self._write(batch, files, number)
        if readers:
            table = batch.toArrow()
            self.rows += 0 if files is not None else table.num_rows
            for subscription in readers:
                subscription.take(table)
        if not readers and files is None:
            self.rows += batch.count()
        if readers and files is not None:
            batch.unpersist()

    def _write(self, batch: DataFrame, files: SinkFiles, number: int) -> int:
        """Into new files; returns how many rows."""
        if not isinstance(files, TextSink):
            return self._write_arrow(batch, files, number)
        seen = Observation()
        for field in self.fields:  # as where a row is a dead letter, which is kept and counted by nothing here
            batch = batch.filter(column_named(field.name).isNull() | _as_text(field).isNotNull())
        rows = batch.observe(seen, spark.count(spark.lit(1)).alias("rows")).select(*map(_as_text, self.fields))
        options: dict[str, Any] = {"sep": files.separator, "header": files.header, "quote": "", "nullValue": "", "emptyValue": ""}
        rows.write.mode("append").options(**options).csv(files.folder)
        return int(seen.get["rows"])

    def _write_arrow(self, batch: DataFrame, files: SinkFiles, number: int) -> int:
        table = batch.toArrow()
        wanted = pa.Table.from_arrays([*table.columns[:-1]], names=self.schema.names).cast(self.schema)
        with pa.ipc.new_stream(str(Path(files.folder, name_of(files, self.output.stream, number))), self.schema) as writer:
            writer.write_table(wanted)
        return int(wanted.num_rows)

    def end(self, error: BaseException | None) -> None:
        self.over = True
        for subscription in self.subscriptions:
            subscription.end(error)


def _as_text(field: Field) -> Column:
    """As text sources read it: an instant is an integer of its unit, without a unit ISO 8601; NULL where that is none."""
    value = column_named(field.name)
    if field.type.name == "binary":
        return value.cast("string").alias(field.name)
    if field.type.name != "timestamp":
        return value
    us = spark.unix_micros(value)
    if not field.type.unit:
        return instant_text(us, "T").alias(field.name)
    whole = us % UNIT_US.get(field.type.unit, 1) == 0
    return spark.when(whole, units_of(us, field.type)).alias(field.name)


def _check_free(files: SinkFiles, pointer: str) -> None:
    """Raises QueryError: something is in the folder that must not be overwritten. Otherwise it is there, and empty of rows."""
    folder = Path(files.folder)
    folder.mkdir(parents=True, exist_ok=True)
    there = sorted(path for path in folder.iterdir() if path.suffix in (".csv", ".arrows"))
    if there and not files.overwrite:
        raise QueryError(f"folder {files.folder!r}: {there[0].name!r} is there already; say overwrite, or name another folder", pointer)
    for path in there:
        path.unlink()
