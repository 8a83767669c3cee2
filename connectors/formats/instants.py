"""Instants: as text in ISO 8601, by the rules of `docs/values.md`, or as integers of the unit that the stream declares, which its publisher
knows. Arrow and Python each read forms of text that are none there, and Python a date with a zone as if there were none."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.contract.errors import ConnectorError

TEXT, NUMBER = pa.string(), pa.int64()
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_ZONE = "([Zz]|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])"
_FORM = f"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}([Tt ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,9}})?)?{_ZONE}?)?$"
_ZONED = f":.*{_ZONE}$"
_NANOSECONDS = re.compile(r"([.]\d{6})(\d+)")
_EXPECTED = "expected an instant in ISO 8601 such as '2024-05-01T12:00:00Z'"


def shape_of(type_: pa.DataType, numbers: bool) -> pa.DataType:
    """As what a column is read: what Arrow's readers make no instants of is text first."""
    if pa.types.is_timestamp(type_):
        return NUMBER if numbers else TEXT
    return TEXT if pa.types.is_binary(type_) else type_


def with_instants(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Texts become what their columns are. Raises pa.ArrowInvalid or ValueError: one is none."""
    columns = []
    for column, wanted in zip(batch.columns, schema, strict=True):
        if pa.types.is_timestamp(wanted.type) and pa.types.is_string(column.type):
            column = instants(column)
        elif pa.types.is_binary(wanted.type) and pa.types.is_string(column.type):
            column = pa.array([None if text is None else bytes.fromhex(text) for text in column.to_pylist()], pa.binary())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def instants(texts: pa.Array) -> pa.Array:
    """Without a zone they are UTC. Raises pa.ArrowInvalid or ValueError."""
    if pc.all(pc.match_substring_regex(texts, _FORM)).as_py() is False:
        raise ValueError(_EXPECTED)
    zoned = pc.all(pc.match_substring_regex(texts, _ZONED)).as_py()
    try:
        read = texts.cast(pa.timestamp("us", "UTC") if zoned else pa.timestamp("us"))
    except pa.ArrowInvalid:  # both kinds, or a form that only Python reads
        return pa.array([None if text is None else instant(text) for text in texts.to_pylist()], pa.timestamp("us", "UTC"))
    return read if zoned else read.cast(pa.timestamp("us", "UTC"))


def instant(text: str) -> datetime:
    """Raises ValueError."""
    if re.search(_FORM, text) is None or text.endswith("\n"):
        raise ValueError(f"{_EXPECTED}, got {text!r}")
    if (finer := _NANOSECONDS.search(text)) is not None:
        if finer[2].strip("0"):
            raise ValueError(f"timestamps are stored in whole µs, got {text!r}")
        text = text.replace(finer[0], finer[1])
    found = datetime.fromisoformat(text.upper())
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def names_of(column: pa.Array) -> list[str | None]:
    """Of each value the text that stands for it in a key or in a folder's name, the same whatever is beside it; NULL as None. Raises
    ConnectorError: they are lists."""
    if pa.types.is_list(column.type):
        raise ConnectorError(f"a value of type {column.type} is no key and names no folder: choose a column whose values are no lists")
    if pa.types.is_timestamp(column.type):
        texts = texts_of(column, "us")
        return [None if text is None else text.replace(".000000", "") for text in texts]
    values = column.to_pylist()
    if pa.types.is_binary(column.type):
        return [None if value is None else value.hex() for value in values]
    return [None if value is None else str(value) for value in values]


def texts_of(column: pa.Array, unit: Literal["us"] | None = None) -> list[Any]:
    """Instants as text, NULL as None. `unit`: with so many digits; None: with those that one of them needs."""
    numbers = column.cast(pa.int64())
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    moments: np.ndarray = values.astype("M8[us]")
    written = np.datetime_as_string(moments, unit or ("us" if (values % 1_000_000).any() else "s"))
    texts = [f"{text}+00:00" for text in written.tolist()]
    if column.null_count:
        return [text if there else None for text, there in zip(texts, column.is_valid().to_pylist(), strict=True)]
    return texts
