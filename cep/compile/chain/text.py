"""What a chain does between its loops: making text, with Arrow, and casts out of text (rule 5.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.compile.chain.calls import CALLS, KERNELS, OWN_KERNELS, as_bytes, of_bytes
from cep.compile.chain.casts import READERS, read_texts
from cep.compile.chain.steps import Convert, is_parse
from cep.compile.chain.time_text import parsed, read_times
from cep.kernels.columns import Column, Columns, from_arrow, to_arrow
from cep.kernels.jit import Kernel
from cep.kernels.text import gather
from cep.model import expr as expressions
from cep.model.expr import Call, Cast, Literal
from cep.model.schema import BOOL, STRING, DataType
from cep.model.times.iso_instants import FOUR_DIGIT_YEARS_US
from cep.model.types import Typed, literal_value


def convert(step: Convert, columns: Columns, n: int) -> dict[str, Column]:
    """The columns that `step` adds to `columns` of `n` rows."""
    tree = step.tree
    if is_parse(tree) and step.ok is not None:
        value, fits = _parsed(tree, columns, n)
        return {step.target.name: value, step.ok: Column(BOOL, fits)}
    if not isinstance(tree.expr, Cast):
        return {step.target.name: _called(tree, columns, n) if isinstance(tree.expr, Call) else literal_column(tree, n)}
    value, fits = _cast(tree, columns, n)
    if step.ok is None:
        return {step.target.name: value}
    if tree.type.is_text and tree.expr.try_:
        value = replace(value, valid=fits if value.valid is None else value.valid & fits)
    return {step.target.name: value, step.ok: Column(BOOL, fits)}


def conversion_kernels(step: Convert) -> tuple[Kernel, ...]:
    """What has to be compiled before `convert` runs."""
    if is_parse(step.tree):
        return (read_times,)
    if isinstance(step.tree.expr, Call):
        return (*KERNELS, *OWN_KERNELS.get(step.tree.expr.function, ()))
    reads = isinstance(step.tree.expr, Cast) and not step.tree.type.is_text
    return (READERS[step.tree.type.name],) if reads else (gather,)


def literal_column(leaf: Typed, n: int) -> Column:
    """A literal as a column of `n` rows."""
    assert isinstance(leaf.expr, Literal)
    value = literal_value(leaf.expr)
    valid = None if value is not None else np.zeros(n, np.uint8)
    if not leaf.type.is_bytes:
        dtype = {"bool": "uint8", "timestamp": "int64"}.get(leaf.type.name, leaf.type.name)
        return Column(leaf.type, np.full(n, value or 0, dtype), valid)
    body = value if isinstance(value, bytes) else b""
    data = np.frombuffer(body.ljust(16, b"\0"), np.uint8)
    return Column(leaf.type, np.full(n, len(body), np.int32), valid, data, np.zeros(n, np.int64))


def column_or_literal(leaf: Typed, columns: Columns, n: int) -> Column:
    """A column, or a literal as one of `n` rows."""
    if isinstance(leaf.expr, expressions.ColumnRef):
        return replace(columns[leaf.expr.name], type=leaf.type)
    return literal_column(leaf, n)


def _called(tree: Typed, columns: Columns, n: int) -> Column:
    """A function of columns; literals that are no values but parts of the function are left to it."""
    assert isinstance(tree.expr, Call)
    if tree.expr.function in CALLS:
        return CALLS[tree.expr.function](tree, [column_or_literal(arg, columns, n) for arg in tree.args])
    first, *others = (column_or_literal(arg, columns, n) for arg in tree.args)
    match tree.expr.function:
        case "if_needed":
            only = first.values if others[0].valid is None else first.values & others[0].valid
            return replace(others[0], valid=only)
        case "chosen":
            return of_bytes(pc.choose(to_arrow(first), *map(as_bytes, others)), tree.type)
    return of_bytes(pc.coalesce(*map(as_bytes, (first, *others))), tree.type)


def _parsed(tree: Typed, columns: Columns, n: int) -> tuple[Column, np.ndarray]:
    text = tree.args[1].expr
    assert isinstance(text, Literal)
    return parsed(column_or_literal(tree.args[0], columns, n), text.value, tree.type)


def _cast(tree: Typed, columns: Columns, n: int) -> tuple[Column, np.ndarray]:
    """The column, and for each row whether it fits (uint8[n]); a NULL fits."""
    arg = tree.args[0]
    if isinstance(arg.expr, Literal):  # once is enough
        value, fits = _cast_column(literal_column(arg, 1), tree.type)
        return value.take(np.zeros(n, np.int64)), np.repeat(fits, n)
    return _cast_column(column_or_literal(arg, columns, n), tree.type)


def _cast_column(column: Column, target: DataType) -> tuple[Column, np.ndarray]:
    if not target.is_text:
        return read_texts(column, target)
    if column.type.is_text:
        fits, text = _is_utf8(column), replace(column, type=STRING)
        # Bytes that are no text would fail Arrow's functions, also in rows that another branch of a `when` answers.
        return text if fits.all() else replace(text, values=np.where(fits, text.values, np.int32(0)), lines=None, words=None), fits
    return from_arrow(_text_of(to_arrow(column)), STRING), _has_text(column)


def _text_of(array: pa.Array) -> pa.Array:
    """The text of each value. Instants are cast without their zone, which is UTC: Arrow takes twenty times as long with it."""
    if not pa.types.is_timestamp(array.type):
        return array.cast(pa.string())
    return pc.binary_join_element_wise(array.cast(pa.timestamp("us")).cast(pa.string()), "Z", "")


def _has_text(column: Column) -> np.ndarray:
    if column.type.name != "timestamp":
        return np.ones(len(column), np.uint8)
    first, last = FOUR_DIGIT_YEARS_US
    fits = (column.values >= first) & (column.values <= last)
    return _or_null(column, fits.view(np.uint8))


def _or_null(column: Column, fits: np.ndarray) -> np.ndarray:
    return fits if column.valid is None else fits | (column.valid ^ 1)


def _is_utf8(column: Column) -> np.ndarray:
    array = to_arrow(column)
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([value is None or _decodes(value) for value in array.to_pylist()], np.uint8)
    return np.ones(len(column), np.uint8)


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
