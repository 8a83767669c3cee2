"""FIRST and LAST where rows may tie on event time and origin: "what is still equal is ordered by the row's columns" (DESIGN 4.5).

That happens only where a Union brings together two ways that begin at one stream or aggregate. There the rows carry all
their columns, and FIRST and LAST remember one hidden column ROW, the whole row as bytes that sort as rows do
(`cep.kernels.row_order`), out of which the answers are read. Everywhere else they remember just the columns asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.compile.aggregate_words import from_ordered, ordered_values
from cep.kernels.columns import Column, Columns
from cep.kernels.row_order import FIXED_BYTES, add_text_sizes, get_fixed, get_text, put_fixed, put_text
from cep.model.schema import BINARY, DataType, Field

ROW = Field("__row", BINARY)


def rows_of(columns: Columns, fields: Sequence[Field], n: int) -> Column:
    """The column ROW of `n` rows."""
    sizes = np.zeros(n, np.int64)
    for field in fields:
        if field.type.is_text:
            add_text_sizes(*_text(columns[field.name]), sizes)
        else:
            sizes += FIXED_BYTES
    starts = np.cumsum(sizes) - sizes
    at, body = starts.copy(), np.empty(int(sizes.sum()), np.uint8)
    for field in fields:
        column = columns[field.name]
        if field.type.is_text:
            put_text(*_text(column), at, body)
        else:
            put_fixed(_words(column), _valid(column), at, body)
    return Column(BINARY, sizes.astype(np.int32), None, body, starts)


def column_of(rows: Column, fields: Sequence[Field], wanted: str) -> Column:
    """Column `wanted` out of ROW."""
    assert rows.starts is not None and rows.data is not None
    at = rows.starts.astype(np.int64)
    found: Column | None = None
    for field in fields:
        found = _text_at(rows.data, at, field.type) if field.type.is_text else _fixed_at(rows.data, at, field.type)
        if field.name == wanted:
            break
    assert found is not None
    return found


def _fixed_at(body: np.ndarray, at: np.ndarray, type_: DataType) -> Column:
    words, valid = np.empty(len(at), np.int64), np.empty(len(at), np.uint8)
    get_fixed(body, at, words, valid)
    match type_.name:
        case "float64":
            words = from_ordered(words)
        case "int32":
            words = words.astype(np.int32)
        case "bool":
            words = words.astype(np.uint8)
    return Column(type_, words, None if valid.all() else valid)


def _text_at(body: np.ndarray, at: np.ndarray, type_: DataType) -> Column:
    n = len(at)
    lengths, starts, valid = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.uint8)
    data = np.empty(len(body), np.uint8)
    used = int(get_text(body, at, lengths, starts, valid, data))
    return Column(type_, lengths, None if valid.all() else valid, data[: used + 16], starts)


def _text(column: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    assert column.data is not None and column.starts is not None
    return column.data, np.ascontiguousarray(column.starts), np.ascontiguousarray(column.values), _valid(column)


def _valid(column: Column) -> np.ndarray:
    return np.ones(len(column), np.uint8) if column.valid is None else np.ascontiguousarray(column.valid)


def _words(column: Column) -> np.ndarray:
    """int64[n] that sorts as the values do."""
    if column.type.name == "float64":
        return ordered_values(np.ascontiguousarray(column.values))
    return column.values.astype(np.int64)
