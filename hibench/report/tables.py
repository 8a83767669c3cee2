"""The tables of many run records as one DataFrame: a column `run` says whose each row is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import from_arrow_schema

from hibench.engines.spark import local_spark
from hibench.numa.machine import cores_usable
from hibench.runs.record import TABLES, RunRecord

_SETTINGS = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",  # half the CPU time of a report, most of which is starting
    "spark.sql.adaptive.enabled": "false",
}


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """A Spark of our own that reads records. Raises EngineError: it cannot start."""
    with local_spark(cores_usable(), _SETTINGS) as running:
        yield running.session


def all_records(spark: SparkSession, records: Sequence[RunRecord], name: str) -> DataFrame | None:
    """Table `name` of all records that have it, `run` being the record's place in `records`; None if none has it."""
    reader = spark.read.schema(from_arrow_schema(TABLES[name]))
    parts = [
        reader.parquet(str(record.folder / f"{name}.parquet")).withColumn("run", lit(place))
        for place, record in enumerate(records)
        if record.folder is not None and name in record.tables
    ]
    return reduce(DataFrame.unionAll, parts) if parts else None


def by_run(rows: DataFrame) -> dict[int, list[Row]]:
    """The rows, collected, under their `run`."""
    return collected(rows, "run")


def collected(rows: DataFrame, column: str) -> dict[Any, list[Row]]:
    """The rows, under their value in `column`."""
    found: dict[Any, list[Row]] = {}
    for row in rows.collect():
        found.setdefault(row[column], []).append(row)
    return found
