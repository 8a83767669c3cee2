"""Values as users' functions get and give them: Python's, a timestamp as int µs since 1970 UTC, NULL as None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cep.kernels.columns import Column, from_arrow, to_arrow
from cep.model.schema import DataType, Field

ValueCheck = Callable[[Any], Any]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "timestamp": (-(2**63), 2**63 - 1)}


class WrongResult(Exception):
    """A user's function returned something else than it was declared to."""


def python_values(column: Column) -> list[Any]:
    """The values of a column."""
    if column.type.is_bytes:
        array, element = to_arrow(column), column.type.element
        if element is not None and element.name == "timestamp":
            array = array.cast(pa.list_(pa.int64()))
        values: list[Any] = array.to_pylist()
        return values
    values = (column.values.astype(bool) if column.type.name == "bool" else column.values).tolist()
    for row in () if column.valid is None else np.flatnonzero(column.valid == 0).tolist():
        values[row] = None
    return values


def column_of_values(values: Sequence[Any], type_: DataType) -> Column:
    """A column of values that are of its type."""
    return from_arrow(pa.array(values, type_.arrow), type_)


def check_of(field: Field) -> ValueCheck:
    """What takes one result and gives it as a value of `field`'s type. It raises WrongResult, naming expected and got."""
    plain = _plain_check(field.type)

    def check(value: Any) -> Any:
        if value is None and field.nullable:
            return None
        return plain(value)

    return check


def _plain_check(type_: DataType) -> ValueCheck:
    if type_.element is not None:
        return _list_check(type_, check_of(Field("element", type_.element, True)))
    match type_.name:
        case "float64":
            return _float
        case "int32" | "int64" | "timestamp":
            return _whole_check(type_)
        case "string":
            return _text
    kinds = {"bool": (bool, np.bool_), "binary": (bytes,)}[type_.name]

    def check(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise wrong(type_, value)
        return value

    return check


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(DataType("string"), value)
    try:
        str.encode(value)
    except UnicodeEncodeError as error:
        raise WrongResult(f"expected a text that UTF-8 can say, got one with the lone surrogate {value[error.start]!r}") from None
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer):
        raise wrong(DataType("float64"), value)
    return float(value)


def _whole_check(type_: DataType) -> ValueCheck:
    least, most = _RANGES[type_.name]

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise wrong(type_, value)
        if not least <= value <= most:
            raise WrongResult(f"expected {type_}, from {least} to {most}, got {value}")
        return int(value)

    return check


def _list_check(type_: DataType, element: ValueCheck) -> ValueCheck:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise wrong(type_, value)
        return [element(each) for each in value]

    return check


def wrong(type_: DataType, value: object) -> WrongResult:
    text = repr(value)
    return WrongResult(f"expected {type_}, got {type(value).__name__} {text if len(text) <= 60 else text[:59] + '…'}")
