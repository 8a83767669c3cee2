"""DuckDB's answers to the queries' SQL, and how ours differ from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.nexmark.asked import SIDE_ROWS

_SHOWN = 3


class Witness:
    """A database with the tables of one set of events."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.connection = duckdb.connect()
        for name, table in tables.items():
            self.add(name, table)
        self.connection.execute(f"CREATE TABLE side_input AS SELECT range AS key, range::VARCHAR AS value FROM range({SIDE_ROWS})")

    def add(self, name: str, table: pa.Table) -> None:
        """Puts a table in; it replaces one of that name."""
        given: Any = _normal(table)
        self.connection.register("given", given)
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self.connection.unregister("given")

    def count(self, sql: str) -> int:
        """How many rows the SQL has."""
        return int(self.connection.sql(sql).to_arrow_table().num_rows)

    def difference(self, sql: str, answers: pa.Table) -> str:
        """How the rows differ from those of the SQL, as multisets and by position of the columns; empty: not at all."""
        expected = _normal(self.connection.sql(sql).to_arrow_table())
        got = _normal(answers)
        if expected.schema.types != got.schema.types:
            return f"columns: expected {_types(expected)}, got {_types(got)}"
        self.connection.register("expected", expected.rename_columns(got.schema.names))
        self.connection.register("got", got)
        missing, beyond = self._except("expected", "got"), self._except("got", "expected")
        if not missing and not beyond:
            return ""
        return f"rows: expected {expected.num_rows}, got {got.num_rows}; not there {missing}, not expected {beyond}"

    def _except(self, ones: str, others: str) -> list[tuple[Any, ...]]:
        """Some of the rows of `ones` beyond those of `others`."""
        return self.connection.execute(f"FROM {ones} EXCEPT ALL FROM {others} LIMIT {_SHOWN}").fetchall()


def _normal(table: pa.Table) -> pa.Table:
    """Instants as µs without a zone, integers as int64."""
    fields = [(field.name, _normal_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields), safe=True)


def _normal_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    return pa.int64() if pa.types.is_integer(type_) else type_


def _types(table: pa.Table) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in table.schema)
