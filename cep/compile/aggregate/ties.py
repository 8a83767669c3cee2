"""FIRST and LAST where rows may tie on event time and origin: "what is still equal is ordered by the row's columns" (rule 4.5).

That happens only where a Union brings together two ways that begin at one stream or aggregate. There the rows carry all
their columns, and FIRST and LAST remember one hidden column ROW, the whole row as bytes that sort as rows do
(`cep.kernels.row_order`), out of which the answers are read. Everywhere else they remember just the columns asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.kernels.columns import Column, Columns
from cep.kernels.row_order import add_sizes, get, put
from cep.model.schema import BINARY, Field

ROW = Field("__row", BINARY)


def rows_of(columns: Columns, fields: Sequence[Field], n: int) -> Column:
    """The column ROW of `n` rows."""
    sizes = np.zeros(n, np.int64)
    for field in fields:
        add_sizes(columns[field.name], sizes)
    starts = np.cumsum(sizes) - sizes
    at, body = starts.copy(), np.empty(int(sizes.sum()), np.uint8)
    for field in fields:
        put(columns[field.name], at, body)
    return Column(BINARY, sizes.astype(np.int32), None, body, starts)


def packed_column(rows: Column, fields: Sequence[Field], wanted: str) -> Column:
    """Column `wanted` out of ROW."""
    assert rows.starts is not None and rows.data is not None
    at = rows.starts.astype(np.int64)
    found: Column | None = None
    for field in fields:
        found = get(field.type, rows.data, at, len(rows.data))
        if field.name == wanted:
            break
    assert found is not None
    return found
