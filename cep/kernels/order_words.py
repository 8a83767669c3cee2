"""Columns as int64 words by which rows are ordered, for `numpy.lexsort`: what ORDER means in docs/semantics.md.

NULL is first, NaN is greatest, -0.0 equals 0.0, text and lists go by their bytes; descending turns all of that round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from cep.kernels.arrays import numbers_in
from cep.kernels.columns import Column, to_arrow
from cep.kernels.row_order import ordered_values
from cep.model.schema import BINARY


def order_words(column: Column, descending: bool = False) -> list[np.ndarray]:
    """One or two int64[n], the one that decides first in front; equal values have equal words."""
    words = [_ranks(column)] if column.type.is_text else _numbers(column)
    return [~word for word in words] if descending else words


def _numbers(column: Column) -> list[np.ndarray]:
    values = np.ascontiguousarray(column.values)
    words = ordered_values(values + 0.0) if column.type.name == "float64" else values.astype(np.int64)
    if column.valid is None:
        return [words]
    known = column.valid != 0
    return [known.astype(np.int64), np.where(known, words, 0)]


def _ranks(column: Column) -> np.ndarray:
    """Each text's place among the different ones, from 1; 0 for NULL. Only the different ones are sorted."""
    encoded = to_arrow(replace(column, type=BINARY)).dictionary_encode()
    order = numbers_in(pc.array_sort_indices(encoded.dictionary), np.dtype(np.uint64))
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order], ranks[-1] = np.arange(1, len(order) + 1), 0
    found: np.ndarray = ranks[numbers_in(encoded.indices.fill_null(-1), np.dtype(np.int32))]
    return found
