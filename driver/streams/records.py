"""Records of Python values as Arrow arrays. No value is changed: what a field has no place for is refused with its row
(`docs/values.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.dataflow.sources.arrow_values import instants_of
from cep.errors import DataError
from cep.model.limits import shown
from cep.model.schema import Field
from cep.model.streams import Stream
from cep.model.times.iso_instants import Instant

_BOOLS = (bool, np.bool_)
#: By the name of a type: the types of Python whose values it takes, and how they are called. A bool is an int to Python, and not to us.
_TAKES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": (_BOOLS, "true or false"),
    "int32": ((int, np.integer), "an integer"),
    "int64": ((int, np.integer), "an integer"),
    "float64": ((float, int, np.float64, np.float32, np.float16, np.integer), "a number"),
    "timestamp": ((datetime, int, np.integer), "a datetime or an integer"),
    "string": ((str,), "a text"),
    "binary": ((bytes, bytearray, memoryview, str), "bytes or a text"),
    "list": ((list, tuple, np.ndarray), "a list"),
}


class _Unfit(Exception):
    """Value `index` has no place in the field."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index, self.reason = index, reason


def from_records(records: Iterable[Any], stream: Stream) -> pa.Table:
    """A table of dicts. Raises DataError, which names the row and the field."""
    rows = list(records)
    names = stream.schema.names
    for number, record in enumerate(rows):
        if not isinstance(record, Mapping):
            raise DataError(f"stream {stream.name!r}, row {number}: expected a dict, got {shown(record)}", number)
        if unknown := record.keys() - set(names):
            said = f"unknown fields {sorted(map(str, unknown))}; it has {stream.schema}"
            raise DataError(f"stream {stream.name!r}, row {number}: {said}", number)
    arrays = [_column([record.get(f.name) for record in rows], f, stream.name) for f in stream.schema.fields]
    return pa.table(arrays, names=list(names))


def _column(values: Sequence[Any], field: Field, stream: str) -> pa.Array:
    try:
        return _array(values, field)
    except _Unfit as unfit:
        where = f"stream {stream!r}, field {field}, row {unfit.index}"
        raise DataError(f"{where}: {unfit.reason}", unfit.index, field.name) from None


def _array(values: Sequence[Any], field: Field) -> pa.Array:
    """Raises _Unfit."""
    _check_kinds(values, field)
    if field.type.is_list:
        return _lists(values, field)
    return _instants(values, field) if field.type.name == "timestamp" else _plain(values, field.type.arrow)


def _check_kinds(values: Sequence[Any], field: Field) -> None:
    taken, called = _TAKES[field.type.name]
    refused = () if field.type.name == "bool" else _BOOLS
    wrong = {kind for kind in set(map(type, values)) - {NoneType} if not issubclass(kind, taken) or issubclass(kind, refused)}
    if wrong:
        index = next(i for i, value in enumerate(values) if type(value) in wrong)
        raise _Unfit(index, f"expected {called}, got {_shown(values[index])}")


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {shown(value)}"


def _plain(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError, ValueError):
        raise _first_refused(values, type_) from None


def _first_refused(values: Sequence[Any], type_: pa.DataType) -> Exception:
    for index, value in enumerate(values):
        try:
            pa.array([value], type_)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            return _Unfit(index, f"{_shown(value)} has no place in {type_}: {error}")
    raise AssertionError("each value has its place, and all together have none")


def _lists(values: Sequence[Any], field: Field) -> pa.Array:
    """Their elements are taken by the rules of a nullable field of their type."""
    assert field.type.element is not None
    rows = [row for row, each in enumerate(values) for _ in (() if each is None else each)]
    elements = [element for each in values if each is not None for element in each]
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if each is None else len(each) for each in values], out=offsets[1:])
    try:
        array = _array(elements, Field(f"{field.name}[]", field.type.element, True))
    except _Unfit as unfit:
        raise _Unfit(rows[unfit.index], f"an element of the list: {unfit.reason}") from None
    mask = pa.array([each is None for each in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), array, field.type.arrow, mask=mask)


def _instants(values: Sequence[Any], field: Field) -> pa.Array:
    """Datetimes, without a zone in UTC; instants, in µs; and integers of the field's unit."""
    datetimes = [_whole(index, value) if isinstance(value, datetime | Instant) else None for index, value in enumerate(values)]
    integers = _plain([None if isinstance(value, datetime | Instant) else value for value in values], pa.int64())
    if integers.null_count == len(values):
        return _plain(datetimes, field.type.arrow)
    if not field.type.unit:
        index = next(i for i, value in enumerate(integers.is_valid().to_pylist()) if value)
        raise _Unfit(index, "a timestamp without a unit takes no integers; declare timestamp[ms] or the like")
    try:
        found = instants_of(integers, field.type.unit)
    except pa.ArrowException:
        raise _first_far(integers, field.type.unit) from None
    return found if all(each is None for each in datetimes) else pc.coalesce(found, _plain(datetimes, field.type.arrow))


def _whole(index: int, value: datetime | Instant) -> datetime | int | None:
    if value != value:  # pandas.NaT
        return None
    if getattr(value, "nanosecond", 0):
        raise _Unfit(index, f"timestamps are stored in whole µs, got {value!r}")
    return value


def _first_far(integers: pa.Array, unit: str) -> Exception:
    for index in range(len(integers)):
        try:
            instants_of(integers.slice(index, 1), unit)
        except pa.ArrowException as error:
            reason = "timestamps are stored in whole µs" if unit == "ns" else "it is too far from 1970"
            return _Unfit(index, f"{integers[index].as_py()} {unit}: {reason}: {error}")
    raise AssertionError("each is an instant, and all together are none")
