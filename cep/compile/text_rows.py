"""Columns to text records: the way back of `cep.compile.text`, which reads what this writes as the same values.

Fields stand between separators, without quoting; a record ends with '\\n'. NULL is an empty field. A timestamp is an integer of its
unit, without a unit ISO 8601. Rows that cannot be written so that they are read again as they were (a text with the separator or
a line end, an instant that is no whole number of the unit, or that has no integer or text) are left out and described.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.kernels.columns import Column, Columns, from_arrow, lengths_of, to_arrow
from cep.kernels.jit import warm
from cep.kernels.writing import adjoin, marks_between, number_lengths, unwritable, write_numbers, write_texts
from cep.model.schema import STRING, UNIT_US, DataType, Field, Schema
from cep.model.times.iso_instants import FOUR_DIGIT_YEARS_US

NEWLINE = 10
_NS_MAX_US = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A row that was left out, and why."""

    row: int
    reason: str


class TextRows:
    """Writes rows of `schema`, which has no lists, as text."""

    def __init__(self, schema: Schema, separator: str) -> None:
        self.schema, self.separator = schema, ord(separator)

    def warm(self) -> None:
        warm(adjoin, marks_between, number_lengths, write_numbers, write_texts, unwritable)

    @property
    def header(self) -> bytes:
        return chr(self.separator).join(self.schema.names).encode() + b"\n"

    def write(self, columns: Columns) -> tuple[np.ndarray, list[Unwritten]]:
        """The records, uint8[any], and the rows that were left out."""
        fields = [columns[name] for name in self.schema.names]
        if (lines := self._as_they_stand(fields)) is not None:
            return lines, []
        unwritten = self._unwritten(fields)
        if unwritten:
            rows = len(fields[0])
            kept = np.delete(np.arange(rows), [each.row for each in unwritten])
            fields = [column.take(kept) for column in fields]
        return self._records([self._writable(field, column) for field, column in zip(self.schema.fields, fields, strict=True)]), unwritten

    def _as_they_stand(self, fields: list[Column]) -> np.ndarray | None:
        """The part of a text file that these rows are, field by field and nothing between them; None if they are not."""
        data, rows = fields[0].data, len(fields[0])
        if data is None or not rows or any(column.data is not data or column.valid is not None for column in fields):
            return None
        if len(fields) == 1 and fields[0].lines == self.separator:
            return fields[0].whole_lines()
        starts = [np.ascontiguousarray(column.starts) for column in fields]
        lengths = [np.ascontiguousarray(lengths_of(column)) for column in fields]
        start, stop = int(starts[0][0]), int(starts[-1][-1] + lengths[-1][-1]) + 1
        following = [*starts[1:], starts[0][1:]]
        ends = [self.separator] * (len(fields) - 1) + [NEWLINE]
        if stop > len(data) or data[stop - 1] != NEWLINE:
            return None
        if not all(adjoin(data, *each) for each in zip(starts, lengths, following, ends, strict=True)):
            return None
        return data[start:stop] if marks_between(data, start, stop, self.separator) == rows * len(fields) else None

    def _records(self, fields: list[Column]) -> np.ndarray:
        lengths = [_lengths(column) for column in fields]
        ends = np.cumsum(sum(lengths[1:], lengths[0] + len(fields)))  # with the separators and the line end
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        places = np.concatenate(([0], ends[:-1]))
        for i, column in enumerate(fields):
            behind = NEWLINE if i == len(fields) - 1 else self.separator
            if column.type == STRING:
                write_texts(column.data, column.starts, column.values, out, places, behind)
            else:
                write_numbers(column.values, lengths[i], out, places, behind)
        return out

    def _unwritten(self, fields: list[Column]) -> list[Unwritten]:
        found: dict[int, str] = {}
        for field, column in zip(self.schema.fields, fields, strict=True):
            for row in _unreadable(field, column, self.separator).tolist():
                found.setdefault(row, f"field {field.name!r}: {_reason(field.type)}")
        return [Unwritten(row, found[row]) for row in sorted(found)]

    def _writable(self, field: Field, column: Column) -> Column:
        """Integers, or text in which NULL is empty."""
        unit = UNIT_US.get(field.type.unit, 1)
        if column.valid is None and (field.type.is_integer or (field.type.name == "timestamp" and field.type.unit)):
            values = column.values.astype(np.int64, copy=False)
            if field.type.unit == "ns":
                values = values * 1000
            return Column(field.type, np.ascontiguousarray(values // unit if unit > 1 else values))
        if not field.type.is_text:
            return from_arrow(_as_text(field, column, unit), STRING)
        return Column(STRING, np.ascontiguousarray(lengths_of(column)), None, column.data, np.ascontiguousarray(column.starts))


def _lengths(column: Column) -> np.ndarray:
    """int64[n]: of what `_writable` makes."""
    if column.type == STRING:
        return column.values.astype(np.int64)
    lengths = np.empty(len(column), np.int64)
    number_lengths(column.values, lengths)
    return lengths


def _reason(type_: DataType) -> str:
    if type_.name == "timestamp":
        return lost_instants_reason(type_)
    return f"the {'text holds' if type_ == STRING else 'bytes hold'} the separator or a line end, and text files have no quoting"


def lost_instants(values: np.ndarray, type_: DataType) -> np.ndarray:
    """bool[n]: those of the instants, int64[n] of µs, that files of lines cannot hold in a field of that type of timestamp."""
    if not type_.unit:
        return _outside(values, *FOUR_DIGIT_YEARS_US)
    if type_.unit == "ns":
        return _outside(values, -_NS_MAX_US, _NS_MAX_US)
    unit = UNIT_US[type_.unit]
    if unit == 1:
        return np.zeros(len(values), bool)
    lost: np.ndarray = values // unit * unit != values  # in vectors, unlike a remainder
    return lost


def _outside(values: np.ndarray, first: int, last: int) -> np.ndarray:
    return (values < first) | (values > last)


def lost_instants_reason(type_: DataType) -> str:
    """Why `lost_instants` are lost."""
    if not type_.unit:
        return "the instant is outside of the years 1 to 9999, which ISO 8601 writes with four digits"
    if type_.unit == "ns":
        return "the instant is outside of the years 1677 to 2262, of which int64 has the ns"
    return f"the instant is no whole number of {type_.unit}"


def _unreadable(field: Field, column: Column, separator: int) -> np.ndarray:
    """int64[m]: the rows whose field would be read as something else."""
    if field.type.is_text:
        found = np.zeros(len(column), np.uint8)
        unwritable(column.data, np.ascontiguousarray(column.starts), np.ascontiguousarray(lengths_of(column)), separator, found)
        return np.flatnonzero(found)
    if field.type.name == "timestamp":
        return np.flatnonzero(lost_instants(column.values, field.type) & (True if column.valid is None else column.valid.astype(bool)))
    return np.zeros(0, np.int64)


def _as_text(field: Field, column: Column, unit: int) -> pa.Array:
    """Text of what is not written by a kernel; NULL is empty."""
    array = to_arrow(column)
    if field.type.name == "timestamp" and field.type.unit:
        array = pc.divide(array.cast(pa.int64()), unit) if field.type.unit != "ns" else pc.multiply(array.cast(pa.int64()), 1000)
    elif field.type.name == "timestamp":
        array = pc.strftime(array, format="%Y-%m-%dT%H:%M:%SZ")
    return pc.fill_null(array.cast(pa.string()), "")
