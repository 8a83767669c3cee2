"""Rows as 128 bits each: equal rows have the same, whatever batch they are in, others do not (but by an accident of 2⁻¹²⁸).

A float is its bits, and all NaNs are one value. Bytes under a NULL are none of its value.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa

from cep.kernels.row_keys import mix_texts, mix_words

KEY_BYTES = 16
_NO_NULL = np.zeros(0, np.uint8)


def salt_of(text: str) -> np.ndarray:
    """uint64[2]: with what keys begin, so that whoever makes rows cannot know which have the same."""
    return np.frombuffer(blake2b(text.encode(), digest_size=KEY_BYTES).digest(), np.uint64)


def keys_of(batch: pa.RecordBatch, salt: np.ndarray) -> bytes:
    """The keys of its rows, one behind the other."""
    lanes = np.tile(salt, (batch.num_rows, 1))
    for column in batch.columns:
        _mix(column, lanes)
    return lanes.tobytes()


def _mix(column: pa.Array, lanes: np.ndarray) -> None:
    valid = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8) if column.null_count else _NO_NULL
    if pa.types.is_list(column.type):
        _mix_lists(column, valid, lanes)
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset) if len(column) else np.zeros(1, np.int32)
        body = column.buffers()[2]
        mix_texts(np.frombuffer(b"" if body is None else body, np.uint8), ends.astype(np.int64), valid, lanes)
    else:
        mix_words(_words(column), valid, lanes)


def _words(column: pa.Array) -> np.ndarray:
    """Of values of a fixed width; any where there is none."""
    if not pa.types.is_floating(column.type):
        whole: np.ndarray = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return whole.view(np.uint64)
    floats = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    floats[np.isnan(floats)] = np.nan
    words: np.ndarray = floats.view(np.uint64)
    return words


def _mix_lists(column: pa.Array, valid: np.ndarray, lanes: np.ndarray) -> None:
    """As the bytes of the keys of their elements."""
    flat = column.flatten()
    elements = np.zeros((len(flat), 2), np.uint64)
    _mix(flat, elements)
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(KEY_BYTES * lengths.astype(np.int64))])
    mix_texts(elements.reshape(-1).view(np.uint8), ends, valid, lanes)
