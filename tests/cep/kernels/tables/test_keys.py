"""Keys: equal exactly when the values are, and the values come back."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cep.kernels.columns import Column, columns_from_arrow, columns_to_arrow
from cep.kernels.jit import interpreted, kernel
from cep.kernels.tables.hashing import LONG, hash_words
from cep.kernels.tables.keys import KeyLayout, Keys, decode_keys, empty_keys, encode_keys, layout, same_bytes
from cep.model.schema import STRING, Field, Schema, parse_type

Row = tuple[object, ...]

VALUES = {
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.one_of(st.integers(-(2**63), 2**63 - 1), st.just(-(2**57)), st.just(-(2**57) - 1)),
    "timestamp": st.integers(-(2**62), 2**62),
    "float64": st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan, -math.nan])),
    "string": st.one_of(st.text(max_size=20), st.text("ab", max_size=3), st.text("x", min_size=100, max_size=300)),
    "binary": st.one_of(st.binary(max_size=20), st.sampled_from([b"\0", b"\0\0", b"a\0"])),
}


@pytest.mark.parametrize(
    ("types", "wanted"),
    [
        ("", KeyLayout.EMPTY),
        ("string", KeyLayout.TEXT),
        ("binary?", KeyLayout.TEXT),
        ("int64", KeyLayout.FIXED),
        ("int64 int64", KeyLayout.FIXED),
        ("int64 int64?", KeyLayout.BYTES),
        ("int64 int32 bool bool bool?", KeyLayout.FIXED),
        ("int64 float64 bool", KeyLayout.BYTES),
        ("string int32", KeyLayout.BYTES),
    ],
)
def test_layout(types: str, wanted: KeyLayout) -> None:
    assert layout(fields(types.split())) is wanted


def fields(types: list[str]) -> tuple[Field, ...]:
    return tuple(Field(f"f{i}", *parse_type(text)) for i, text in enumerate(types))


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[Field, ...], list[Row]]:
    types = draw(st.lists(st.tuples(st.sampled_from(list(VALUES)), st.booleans()), min_size=1, max_size=4))
    by = fields([f"{name}{'?' * nullable}" for name, nullable in types])
    values = [st.one_of(st.none(), VALUES[f.type.name]) if f.nullable else VALUES[f.type.name] for f in by]
    some = draw(st.lists(st.tuples(*values), min_size=1, max_size=10))
    # Rows that differ in one field only, and rows that come twice.
    mixed = draw(st.lists(st.tuples(*(st.sampled_from([row[i] for row in some]) for i in range(len(by)))), max_size=10))
    return by, some + mixed


def columns_of(by: tuple[Field, ...], rows: list[Row]) -> dict[str, Column]:
    schema = Schema(by)
    arrays = [pa.array([row[i] for row in rows], field.type.arrow) for i, field in enumerate(by)]
    return columns_from_arrow(pa.RecordBatch.from_arrays(arrays, schema=schema.arrow), schema)


def encoded(by: tuple[Field, ...], rows: list[Row]) -> Keys:
    return encode_keys(columns_of(by, rows), by)


def identities(keys: Keys) -> list[object]:
    """The key of each row as the rules have it: its words, or the hash and the bytes."""
    return [_identity(int(w0), int(w1), keys.data) for w0, w1 in zip(keys.w0, keys.w1, strict=True)]


def _identity(w0: int, w1: int, data: np.ndarray) -> object:
    if w1 >> 56 != LONG:
        return w0, w1
    at = w1 & (2**56 - 1)
    length = int(data[at : at + 4].view("<u4")[0])
    return w0, data[at + 4 : at + 4 + length].tobytes()


def canonical(row: Row) -> Row:
    return tuple(_canonical(value) for value in row)


def _canonical(value: object) -> object:
    """Values that are one group have one of these."""
    if isinstance(value, float):
        return ("float", b"nan" if math.isnan(value) else struct.pack("<d", value + 0.0))
    return type(value).__name__, value


@given(tables())
@example((fields(["int64", "int64"]), [(5, -(2**57)), (5, -(2**57) - 1), (6, -(2**57) - 1), (5, -(2**57) - 1)]))
def test_equal_keys_are_equal_values(table: tuple[tuple[Field, ...], list[Row]]) -> None:
    by, rows = table
    keys = identities(encoded(by, rows))
    values = [canonical(row) for row in rows]
    assert [[a == b for b in keys] for a in keys] == [[a == b for b in values] for a in values]


@given(tables())
@example((fields(["int64", "int64"]), [(5, -(2**57)), (5, -(2**57) - 1), (6, 0)]))
def test_values_come_back(table: tuple[tuple[Field, ...], list[Row]]) -> None:
    by, rows = table
    batch = columns_to_arrow(decode_keys(encoded(by, rows), by), Schema(by))
    raw = [c.cast("int64") if pa.types.is_timestamp(c.type) else c for c in batch.columns]
    assert [canonical(row) for row in zip(*(c.to_pylist() for c in raw), strict=True)] == [canonical(row) for row in rows]


@given(tables())
def test_interpreted_source_agrees(table: tuple[tuple[Field, ...], list[Row]]) -> None:
    by, rows = table
    compiled = identities(encoded(by, rows))
    with interpreted():
        assert identities(encoded(by, rows)) == compiled


@given(tables())
def test_keys_do_not_depend_on_the_batch(table: tuple[tuple[Field, ...], list[Row]]) -> None:
    """Nor does their hash, wherever the bytes of a long key lie."""
    by, rows = table
    whole = encoded(by, rows)
    alone = [encoded(by, [row]) for row in rows]
    assert identities(whole) == [identities(keys)[0] for keys in alone]
    assert hashes(whole) == [hashes(keys)[0] for keys in alone]


def hashes(keys: Keys) -> list[int]:
    out = np.empty(len(keys), np.uint64)
    hash_words(keys.w0, keys.w1, out)
    return out.tolist()


@pytest.mark.parametrize("types", [["string"], ["int64"], ["string", "int32"], ["bool", "float64"]])
def test_nullable_fields_have_the_keys_of_others(types: list[str]) -> None:
    by = fields(types)
    rows: list[Row] = [tuple({"string": "ab", "int64": 7, "int32": 8, "bool": True, "float64": 1.5}[name] for name in types)]
    assert identities(encoded(tuple(replace(f, nullable=True) for f in by), rows)) == identities(encoded(by, rows))


def test_short_text_lies_in_the_words() -> None:
    keys = encoded(fields(["string?"]), [("10.0.0.1",), ("",), (None,), ("123456789012345",), ("1234567890123456",)])
    assert keys.w0[0] == int.from_bytes(b"10.0.0.1", "little")
    assert (keys.w1 >> np.uint64(56)).tolist() == [8, 0, 255, 15, LONG]


def test_text_at_the_very_end_of_its_data() -> None:
    data = np.frombuffer(b"abcdefghijklmnop", np.uint8)
    column = Column(STRING, np.array([3, 2, 15, 0], np.int32), None, data, np.array([13, 0, 1, 16], np.int64))
    by = fields(["string"])
    decoded = columns_to_arrow(decode_keys(encode_keys({"f0": column}, by), by), Schema(by))
    assert decoded.column(0).to_pylist() == ["nop", "ab", "bcdefghijklmnop", ""]


def test_no_fields_are_one_group() -> None:
    keys = encode_keys(columns_of(fields(["int64"]), [(1,), (2,)]), ())
    assert identities(keys) == identities(empty_keys(2)) == [(0, 0)] * 2
    assert decode_keys(keys, ()) == {}


def test_no_rows() -> None:
    for types in (["string"], ["int64"], ["string", "int64?"]):
        by = fields(types)
        assert [len(column) for column in decode_keys(encoded(by, []), by).values()] == [0] * len(by)


@kernel("boolean(const uint8[:], uint64, const uint8[:], uint64)")
def compare(data: np.ndarray, w1: int, other: np.ndarray, other_w1: int) -> bool:
    return same_bytes(data, w1, other, other_w1)


def test_same_bytes_compares_long_keys_of_two_batches() -> None:
    by = fields(["string"])
    one = encoded(by, [("x" * 20,), ("y" * 20,)])
    two = encoded(by, [("z" * 30,), ("y" * 20,), ("y" * 19,), ("y" * 19 + "z",)])
    found = [[compare(one.data, a, two.data, b) for b in two.w1] for a in one.w1]
    assert found == [[False] * 4, [False, True, False, False]]
