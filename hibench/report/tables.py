"""The tables of many run records as one DataFrame: a column `run` says whose each row is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import from_arrow_schema

from hibench.run_record import TABLES, RunRecord

SESSION = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",  # half the CPU time of a report, most of which is starting
    "spark.sql.adaptive.enabled": "false",
}
"""Settings of the Spark that reads records."""


def joined(spark: SparkSession, records: Sequence[RunRecord], name: str) -> DataFrame | None:
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
    found: dict[int, list[Row]] = {}
    for row in rows.collect():
        found.setdefault(row["run"], []).append(row)
    return found
