"""The project's hash of one value, as `cep.kernels.tables.hashing` and `cep.kernels.tables.keys` specify it, in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from cep.model.schema import DataType
from tests.reference.values import normal

MASK = 2**64 - 1
LONG = 254 << 56


def hash_of_value(value: Any, type_: DataType) -> int:
    """The 64-bit hash of the key that `value` alone is, never NULL."""
    if type_.name in ("string", "binary"):
        return _hash_of_bytes(value if isinstance(value, bytes) else value.encode())
    forms = {"bool": "<B", "int32": "<i", "int64": "<q", "timestamp": "<q", "float64": "<d"}
    body = b"\0\0\0\0\0\0\xf8\x7f" if value != value else struct.pack(forms[type_.name], normal(value))
    return mix(_word(body), 0)


def hash_of_origin(origin: Sequence[int], seed: int) -> int:
    """By which samples choose."""
    hashed = seed
    for word in origin:
        hashed = hashed if word == -1 else mix(hashed, word & MASK)
    return hashed >> 1


def _hash_of_bytes(body: bytes) -> int:
    if len(body) > 15:
        hashed = len(body)
        for start in range(0, len(body), 8):
            hashed = mix(hashed, _word(body[start : start + 8]))
        return mix(hashed, LONG)
    return mix(_word(body[:8]), _word(body[8:]) | len(body) << 56)


def _word(body: bytes) -> int:
    return int.from_bytes(body, "little")


def mix(a: int, b: int) -> int:
    x = (a ^ a >> 32) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 29) + (b ^ b >> 32) & MASK
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 31) * 0x94D049BB133111EB & MASK
    return x ^ x >> 32
