"""The records of a dataset, whatever its format: as Arrow batches, to publish them, and as a Spark DataFrame.

Our engine reads text itself; Parquet and Arrow are published to it: `for batch in batches(prepared): publisher.send(batch)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession

from hibench.records.dataset import FIELDS, Prepared
from hibench.records.records import CHUNK_EVENTS, RECORD


def batches(prepared: Prepared) -> Iterator[pa.RecordBatch]:
    """All records in order, as batches like RECORD; one file is open and one batch is in memory at a time."""
    for path in prepared.paths:
        yield from file_batches(path, prepared.dataset.format, prepared.dataset.record_bytes > 0)


def file_batches(path: Path, format: str, padded: bool) -> Iterator[pa.RecordBatch]:
    """The records of one file, in order, as batches like RECORD."""
    match format:
        case "parquet":
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(CHUNK_EVENTS)
        case "arrow":
            with pa.memory_map(str(path)) as data, pa.ipc.open_file(data) as file:
                for number in range(file.num_record_batches):
                    yield file.get_batch(number)
        case _:
            yield from _text_batches(path, padded)


def frame(session: SparkSession, prepared: Prepared) -> DataFrame:
    """The records as Spark sees them, with the columns of RECORD, read file by file by its executors."""
    paths = [str(path) for path in prepared.paths]
    schema = ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in RECORD)
    match prepared.dataset.format:
        case "parquet":
            return session.read.schema(schema).parquet(*paths)
        case "arrow":  # which Spark has no reader for; its own way to Arrow (mapInArrow) wants pandas
            return session.createDataFrame(session.sparkContext.parallelize(paths, len(paths)).flatMap(_arrow_rows), schema)
    padding = ", padding string" if prepared.dataset.record_bytes else ""
    return session.read.schema(schema + padding).option("quote", "").csv(paths).select(*FIELDS)


_SPARK_TYPES = {pa.int64(): "long", pa.int32(): "int", pa.float64(): "double", pa.string(): "string"}


def _arrow_rows(path: str) -> Iterator[tuple[Any, ...]]:
    for batch in file_batches(Path(path), "arrow", padded=False):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _text_batches(path: Path, padded: bool) -> Iterator[pa.RecordBatch]:
    reader = csv.open_csv(
        path,
        read_options=csv.ReadOptions(column_names=[*FIELDS, *(["padding"] if padded else [])]),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(include_columns=list(FIELDS), column_types=dict(zip(RECORD.names, RECORD.types, strict=True))),
    )
    with reader:
        yield from reader
