"""JSON Lines of an output: an object a line, as sources of JSON Lines read it (`cep.dataflow.sources.json_lines`).

An instant is an integer of its unit, without a unit text in ISO 8601; bytes are the text that they are in UTF-8. Rows that cannot be
written so that they are read again as they were are left out and described.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.compile.text_rows import lost_instants, lost_instants_reason
from cep.dataflow.outputs.staged import Appending
from cep.elements import Batch
from cep.kernels.arrays import flags_in, int64_array, mask_array, numbers_in
from cep.kernels.columns import columns_to_arrow
from cep.model.schema import UNIT_US, DataType, Schema
from cep.model.sinks import JsonLinesSink

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class _Unfit:
    """Those of the values, bool[n], cannot be written."""

    values: np.ndarray
    reason: str


class JsonLinesWriter:
    def __init__(self, files: JsonLinesSink, schema: Schema, file: Appending, refuse: Callable[[int, str], None]) -> None:
        self.schema, self.file, self.refuse = schema, file, refuse

    def write(self, batch: Batch) -> None:
        rows, time = columns_to_arrow(batch.columns, self.schema), batch.time
        for field in self.schema.fields:
            if not rows.num_rows:
                return
            unfit = _unfit(rows.column(field.name), field.type)
            if unfit is not None:
                for row in np.flatnonzero(unfit.values).tolist():
                    self.refuse(int(time[row]), f"field {field.name!r}: {unfit.reason}")
                kept = np.flatnonzero(~unfit.values)
                rows, time = rows.take(int64_array(kept)), time[kept]
        names = self.schema.names
        columns = [_written(rows.column(field.name), field.type) for field in self.schema.fields]
        lines = [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        self.file.write("".join(f"{line}\n" for line in lines).encode())

    def end(self) -> None:
        """Nothing stands behind the last line."""


def _unfit(column: pa.Array, type_: DataType) -> _Unfit | None:
    if type_.element is not None:
        found = _unfit(column.flatten(), type_.element)
        if found is None:
            return None
        rows = np.zeros(len(column), bool)
        rows[numbers_in(pc.list_parent_indices(column))[found.values]] = True
        return _Unfit(rows, f"an element of the list: {found.reason}")
    if type_.name == "timestamp":
        lost = mask_array(lost_instants(numbers_in(column.cast(pa.int64())), type_))
        return _some(pc.and_(lost, column.is_valid()), lost_instants_reason(type_))
    if type_.name == "binary" and not _is_utf8(column):
        return _some(
            mask_array(np.array([not _is_utf8(column.slice(row, 1)) for row in range(len(column))], bool)), "the bytes are no text in UTF-8"
        )
    return None


def _some(found: pa.Array, reason: str) -> _Unfit | None:
    values = flags_in(pc.fill_null(found, False))
    return _Unfit(values, reason) if values.any() else None


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _written(column: pa.Array, type_: DataType) -> list[Any]:
    """As JSON has them."""
    if type_.element is not None:
        elements = iter(_written(column.flatten(), type_.element))
        lengths = pc.list_value_length(column).to_pylist()
        return [None if length is None else [next(elements) for _ in range(length)] for length in lengths]
    if type_.name == "binary":
        column = column.cast(pa.string())
    elif type_.name == "timestamp" and type_.unit == "ns":
        column = pc.multiply(column.cast(pa.int64()), 1000)
    elif type_.name == "timestamp" and type_.unit:
        column = pc.divide(column.cast(pa.int64()), UNIT_US[type_.unit])
    elif type_.name == "timestamp":
        column = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    values: list[Any] = column.to_pylist()
    return values
