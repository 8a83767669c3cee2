"""How many bytes of texts a part of a chain may make: of a batch, so that it is cut first; of a row, which fails if it is too long.

Arrow's texts end at 2 GiB an array. Whether a query comes there must not depend on how its rows are cut into batches, so a chain gets as
few rows at a time as make at most `PIECE_BYTES`.
"""

from __future__ import annotations

import numpy as np

from cep.compile.chain.steps import Convert
from cep.compile.chain.time_text import WIDTH_MAX
from cep.kernels.columns import Column, Columns
from cep.model.expr import Call, ColumnRef, Literal
from cep.model.limits import VALUE_BYTES_MAX
from cep.model.types import Typed

PIECE_BYTES = 64 << 20
_NUMBER_CHARS = 40  # of a number or an instant as text


class TooMuch(Exception):
    """Fewer rows at a time, please."""


def room_of(step: Convert, columns: Columns, n: int) -> int:
    """Bytes that its column may have, at most."""
    tree = step.tree
    sizes = [_bytes_of(arg, columns, n) for arg in tree.args]
    if not isinstance(tree.expr, Call):
        return sum(sizes) + _NUMBER_CHARS * n
    first = sizes[0] if sizes else 0
    match tree.expr.function:
        case "pad_left" | "pad_right":
            return first + n * _width(tree) * max(_literal_bytes(tree, 2), 1)
        case "replace":
            return first + (first // max(_literal_bytes(tree, 1), 1) + n) * _literal_bytes(tree, 2)
        case "join":
            return first * (1 + _literal_bytes(tree, 1))
        case "json_get":
            return first
        case "part":
            return 0
        case "split" | "split_regex":
            return 16 * (first + n)
        case "format_time":
            return n * WIDTH_MAX * _literal_bytes(tree, 1)
        case "lower" | "upper":
            return 3 * first
    return sum(sizes)


def too_long(column: Column) -> bool:
    """Is a value longer than any may be? Mostly its buffer says at once that none is."""
    return column.data is not None and len(column.data) > VALUE_BYTES_MAX and bool((_lengths(column) > VALUE_BYTES_MAX).any())


def long_rows(column: Column) -> list[tuple[int, str]]:
    """(row, what is wrong) of each value that is too long."""
    lengths = _lengths(column)
    rows = np.flatnonzero(lengths > VALUE_BYTES_MAX)
    return [(row, long_value(length)) for row, length in zip(rows.tolist(), lengths[rows].tolist(), strict=True)]


def long_value(length: int) -> str:
    return f"a value of {length} bytes; expected at most {VALUE_BYTES_MAX}"


def _lengths(column: Column) -> np.ndarray:
    return column.values if column.valid is None else np.where(column.valid, column.values, 0)


def _bytes_of(arg: Typed, columns: Columns, n: int) -> int:
    if isinstance(arg.expr, ColumnRef):
        return columns[arg.expr.name].body_bytes if arg.expr.name in columns else 0
    return n * len(arg.expr.value) if isinstance(arg.expr, Literal) and isinstance(arg.expr.value, str | bytes) else 0


def _literal_bytes(tree: Typed, place: int) -> int:
    value = _value(tree, place)
    return len(value.encode()) if isinstance(value, str) else len(value) if isinstance(value, bytes) else 0


def _width(tree: Typed) -> int:
    value = _value(tree, 1)
    return value if isinstance(value, int) else 0


def _value(tree: Typed, place: int) -> object:
    expr = tree.args[place].expr if place < len(tree.args) else None
    return expr.value if isinstance(expr, Literal) else None
