"""Operators that look at one tuple at a time: Map, Filter, Demux, FlatMap, Delay, Lookup, Apply.

Each function gives the rows that come of one row, and raises Failed where the row is a dead letter instead.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from cep.model.expr import Expr
from cep.model.operators import Apply, Delay, Filter, FlatMap, Lookup, Map, Sample
from cep.model.schema import Field, Schema
from cep.model.tables import StaticTable
from tests.reference.expressions import Failed
from tests.reference.hashing import hash_of_origin
from tests.reference.joins import joined_values, match
from tests.reference.rows import USER_FUNCTION, Row, Values
from tests.reference.tables import Versions
from tests.reference.users import function_named

Stateless = Map | Filter | FlatMap | Delay | Lookup | Apply | Sample
#: (expression) -> its value for the row at hand.
Value = Callable[[Expr], Any]


def made_of(operator: Stateless, schema: Schema, row: Row, value: Value, versions: Versions | None = None) -> list[Row]:
    """What `operator` makes of `row`, whose columns have `schema`. `versions`: of its table, if that is read again; without them the table
    stays as it is. Raises Failed."""
    match operator:
        case Map(fields=fields, keep_others=True):
            made = {name: value(expression) for name, expression in fields}
            passed = [made.pop(name, before) for name, before in zip(schema.names, row.values, strict=True)]
            return [Row(row.time, row.origin, (*passed, *made.values()))]
        case Map(fields=fields):
            return [Row(row.time, row.origin, tuple(value(expression) for _, expression in fields))]
        case Filter(condition=condition):
            return [row] if value(condition) is True else []
        case Sample(fraction=fraction, seed=seed):
            return [row] if hash_of_origin(row.origin, seed) >> 10 < fraction * 2**53 else []
        case Delay(by=by):
            return [Row(row.time + by, row.origin, row.values)]
        case FlatMap():
            return _flat_map(operator, row, value)
        case Lookup():
            return _numbered(row, _looked_up(operator, schema, row, versions))
        case Apply():
            return _numbered(row, _applied(operator, schema, row))


def _numbered(row: Row, made: list[Values]) -> list[Row]:
    return [Row(row.time, (*row.origin, i), values) for i, values in enumerate(made)]


def _flat_map(operator: FlatMap, row: Row, value: Value) -> list[Row]:
    values = [value(expression) for _, expression in operator.fields]
    place = [name for name, _ in operator.fields].index(operator.explode)
    elements = values[place] or []
    return _numbered(row, [(*values[:place], element, *values[place + 1 :]) for element in elements])


def branches(cases: tuple[tuple[str, Expr], ...], otherwise: str | None, value: Value) -> dict[str, bool | Failed]:
    """For each branch of a Demux: is the row in it, or what failed. `otherwise` asks the conditions in turn until one is true."""
    found: dict[str, bool | Failed] = {}
    for branch, condition in cases:
        try:
            found[branch] = value(condition) is True
        except Failed as failed:
            found[branch] = failed
    if otherwise is not None:
        decisive = next((outcome for outcome in found.values() if outcome is not False), False)
        found[otherwise] = decisive if isinstance(decisive, Failed) else not decisive
    return found


# --- lookup ----------------------------------------------------------------------------------------------------------


def _looked_up(operator: Lookup, schema: Schema, row: Row, versions: Versions | None) -> list[Values]:
    right = operator.table.schema
    table = rows_of(operator.table) if versions is None else versions.rows_at(row.time)
    matches = [other for other in table if match(operator, schema, right, row.values, other)]
    if operator.versions is not None:
        since = right.names.index(operator.versions)
        before = [other for other in matches if other[since] <= row.time]
        matches = [other for other in before if other[since] == max(other[since] for other in before)]
    unmatched: list[Values | None] = [None] if operator.how == "left" else []
    return [joined_values(operator, schema, right, row.values, other) for other in matches or unmatched]


def rows_of(table: StaticTable) -> list[Values]:
    """The rows of a static table, columns as its schema has them."""
    read = _read(table)
    columns = [python_values(read[field.name].combine_chunks(), field) for field in table.schema.fields]
    return list(zip(*columns, strict=True))


def _read(table: StaticTable) -> pa.Table:
    if table.data is not None:
        return pa.ipc.open_stream(io.BytesIO(table.data)).read_all()
    assert table.path is not None
    readers = {"parquet": pa.parquet.read_table, "arrow": pa.feather.read_table, "csv": pa.csv.read_csv}
    return readers[table.format](table.path)


def python_values(array: pa.Array, field: Field) -> list[Any]:
    """A timestamp is int µs."""
    array = array.cast(field.type.arrow)
    values: list[Any] = (array.cast(pa.int64()) if field.type.name == "timestamp" else array).to_pylist()
    return values


# --- users' functions ------------------------------------------------------------------------------------------------


def _applied(operator: Apply, schema: Schema, row: Row) -> list[Values]:
    fields = [schema[name] for name in operator.columns]
    arrays = [pa.array([row.values[schema.names.index(field.name)]], field.type.arrow) for field in fields]
    batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
    try:
        made = function_named(operator.function)(batch)
    except Exception:
        raise Failed(USER_FUNCTION) from None
    columns = [python_values(made.column(field.name), field) for field in operator.schema.fields]
    return list(zip(*columns, strict=True))
