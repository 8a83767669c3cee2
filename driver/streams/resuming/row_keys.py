"""Rows as 128 bits each: equal rows have the same, whatever batch they are in, others do not (but by an accident of 2⁻¹²⁸).

A float is its bits, and all NaNs are one value. Bytes under a NULL are none of its value.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEY_BYTES = 16
_NULL = np.uint64(1)
_ODD = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def salt_of(text: str) -> np.ndarray:
    """uint64[2]: with what keys begin, so that whoever makes rows cannot know which have the same."""
    return np.frombuffer(blake2b(text.encode(), digest_size=KEY_BYTES).digest(), np.uint64)


def keys_of(batch: pa.RecordBatch, salt: np.ndarray) -> bytes:
    """The keys of its rows, one behind the other."""
    lanes = np.tile(salt, (batch.num_rows, 1))
    for column in batch.columns:
        first, second = _words(column)
        lanes[:, 0] = _mixed(_mixed(lanes[:, 0] ^ first) + second * _ODD[0])
        lanes[:, 1] = _mixed(_mixed(lanes[:, 1] + first * _ODD[1]) ^ second)
    return lanes.tobytes()


def _mixed(words: np.ndarray) -> np.ndarray:
    """Every bit of a word changes half of those that come of it (the finalizer of SplitMix64)."""
    words = (words ^ words >> np.uint64(30)) * _ODD[2]
    words = (words ^ words >> np.uint64(27)) * _ODD[3]
    found: np.ndarray = words ^ words >> np.uint64(31)
    return found


def _words(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Two of each value."""
    if pa.types.is_list(column.type):
        return _words_of_lists(column)
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        first, second = _words_of_texts(column)
        return np.where(nulls, np.uint64(0), first), np.where(nulls, _NULL, second)
    if pa.types.is_floating(column.type):
        floats = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        floats[np.isnan(floats)] = np.nan
        return floats.view(np.uint64), nulls.astype(np.uint64)
    whole = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return whole.view(np.uint64), nulls.astype(np.uint64)


def _words_of_texts(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Texts that are there often are looked at once."""
    encoded = pc.fill_null(column.cast(pa.binary()), b"").dictionary_encode()
    digests = b"".join(blake2b(each, digest_size=KEY_BYTES).digest() for each in encoded.dictionary.to_pylist())
    words = np.frombuffer(digests, np.uint64).reshape(-1, 2)[encoded.indices.to_numpy(zero_copy_only=False)]
    return words[:, 0], words[:, 1]


def _words_of_lists(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    elements = np.stack(_words(column.flatten()), axis=1)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    spans = zip((ends - lengths).tolist(), ends.tolist(), column.is_valid().to_pylist(), strict=True)
    digests = (blake2b(elements[begin:end].tobytes() if there else b"NULL", digest_size=KEY_BYTES).digest() for begin, end, there in spans)
    words = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    return words[:, 0], words[:, 1]
