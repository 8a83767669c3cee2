"""How much a column of Arrow becomes, where that is not what it takes as it comes: a NULL of a column of the type null takes no byte, and a
dictionary has a text once that stands in any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VALUE_BYTES = 8
"""What a value becomes at most, besides a text's bytes, and those of a list's values."""

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_TEXTS = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)


def unpacked_bytes(column: pa.Array) -> int:
    """What the values of `column` take once each stands for itself. Of other types than a stream's only the places are counted: no
    publisher takes them (`driver.streams.arrow`)."""
    of, own = column.type, len(column) * (1 if pa.types.is_boolean(column.type) else VALUE_BYTES)
    if pa.types.is_dictionary(of):
        texts = _text_bytes(column.dictionary)
        return own if texts is None else own + _sum(texts.take(column.indices))
    if any(is_one(of) for is_one in _LISTS):
        return own + unpacked_bytes(column.values)
    texts = _text_bytes(column)
    return own if texts is None else own + _sum(texts)


def _text_bytes(column: pa.Array) -> pa.Array | None:
    """Of each; None: they are no texts."""
    if str(column.type) in ("string_view", "binary_view"):
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
        return pa.array(views[column.offset : column.offset + len(column), 0])
    return pc.binary_length(column) if any(is_one(column.type) for is_one in _TEXTS) else None


def _sum(lengths: Any) -> int:
    return int(pc.sum(lengths).as_py() or 0)
