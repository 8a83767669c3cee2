"""Arrow's values as those of the fields of a stream, by the rules for tables in `docs/values.md`: no value is changed, and a row with one
that has no place in its field is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.errors import DataError
from cep.kernels.arrays import flags_in, int64_array
from cep.model.schema import UNIT_US, Field


@dataclass(frozen=True)
class ArrowValues:
    """A batch as it was given, and its columns as arrays of their fields' types; NULL where a value has no place there."""

    given: pa.RecordBatch
    arrays: dict[str, pa.Array]

    @property
    def rows(self) -> int:
        return int(self.given.num_rows)

    def wrong(self, field: Field) -> np.ndarray | None:
        """bool[n]: the rows whose value has no place in the field; None: all have one."""
        array = self.arrays[field.name]
        if not array.null_count:
            return None
        nulls = flags_in(array.is_null())
        return nulls & flags_in(self.given.column(field.name).is_valid()) if field.nullable else nulls

    def wrong_at(self, fields: Iterable[Field], row: int) -> Field | None:
        """The first field of which the value in that row has no place in it."""
        return next((field for field in fields if (wrong := self.wrong(field)) is not None and wrong[row]), None)

    def reason(self, field: Field, row: int) -> str:
        return f"field {field.name!r}: expected {field.type}, got {_shown(self.given.column(field.name)[row])}"

    def record(self, row: int) -> str:
        """For a person to read."""
        return ", ".join(f"{name}: {_shown(self.given.column(name)[row])}" for name in self.given.schema.names)


def _shown(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "NULL"
    try:
        return repr(value.as_py())[:100]
    except UnicodeDecodeError:
        return f"bytes that are not UTF-8, of a {value.type}"
    except (ValueError, OverflowError):  # an instant of a year that Python has not
        return f"{value.cast(pa.int64())} of {value.type}"


def taken(batch: pa.RecordBatch, fields: Sequence[Field]) -> ArrowValues:
    """A column that is not there is NULL. Raises pa.ArrowException where one cannot be read at all."""
    there, names = set(batch.schema.names), [field.name for field in fields]
    columns = [_plain(batch.column(name)) if name in there else pa.nulls(batch.num_rows) for name in names]
    given = pa.RecordBatch.from_arrays(columns, names=names)
    return ArrowValues(given, {field.name: fitting(given.column(field.name), field) for field in fields})


def check_type(given: pa.DataType, field: Field, where: str) -> None:
    """Raises DataError: no value of the column has a place in the field."""
    try:
        fitting(pa.nulls(0, given.value_type if pa.types.is_dictionary(given) else given), field)
    except (pa.ArrowException, DataError):
        raise DataError(f"file {where!r}, column {field.name!r}: expected {field.type}, got {given}") from None


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def fitting(column: pa.Array, field: Field) -> pa.Array:
    """A column of the field's Arrow type; NULL where a value has no place."""
    if column.type == field.type.arrow and not field.type.is_text and not field.type.is_list:
        return column
    _check(column.type, field)
    try:
        found = _cast(column, field)
        found.validate(full=True)
        return found
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, field.type.arrow)
        middle = len(column) // 2
        return pa.concat_arrays([fitting(column.slice(0, middle), field), fitting(column.slice(middle), field)])


def _check(given: pa.DataType, field: Field) -> None:
    if not _widens(given, field):
        raise DataError(f"field {field.name!r}: expected {field.type.arrow}, got {given}")


def _widens(given: pa.DataType, field: Field) -> bool:
    """May it stand for the field without changing a value? Safe casts look at the values."""
    wanted, types = field.type, pa.types
    if types.is_null(given) or given == wanted.arrow:
        return True
    match wanted.name:
        case "timestamp":
            return bool(types.is_timestamp(given) or (types.is_integer(given) and wanted.unit))
        case "int32" | "int64":
            return bool(types.is_integer(given))
        case "float64":
            return bool(types.is_floating(given) or types.is_integer(given))
        case "string":
            return bool(types.is_large_string(given) or str(given) == "string_view")
        case "binary":
            return bool(types.is_large_binary(given) or str(given) == "binary_view")
        case "list" if wanted.element is not None and _is_list(given):
            return _widens(given.value_type, Field(field.name, wanted.element, True))
    return False


def _is_list(given: pa.DataType) -> bool:
    return bool(pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given))


def _cast(column: pa.Array, field: Field) -> pa.Array:
    """Raises pa.ArrowInvalid where a value would change."""
    wanted = field.type
    if wanted.element is not None and not pa.types.is_null(column.type):
        whole = column.take(int64_array(np.arange(len(column)))) if column.offset else column  # a slice has no bits of its own for NULLs
        lists = whole.cast(pa.list_(column.type.value_type))
        elements = _cast(lists.values, Field(field.name, wanted.element, True))
        mask = lists.is_null() if lists.null_count else None
        return pa.ListArray.from_arrays(lists.offsets, elements, wanted.arrow, mask=mask)
    if wanted.name == "timestamp" and pa.types.is_integer(column.type):
        return instants_of(column.cast(pa.int64()), wanted.unit)
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    return column.cast(wanted.arrow, safe=True)


def instants_of(integers: Any, unit: str) -> Any:
    """An array, chunked or not, of integers of a unit as timestamps. Raises pa.ArrowInvalid: some are no whole µs, or too far away."""
    wanted = pa.timestamp("us", tz="UTC")
    if unit == "ns":
        return integers.cast(pa.timestamp("ns", tz="UTC")).cast(wanted, safe=True)
    return pc.multiply_checked(integers, UNIT_US[unit]).cast(wanted)
