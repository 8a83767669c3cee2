"""Keys of rows: the same for equal rows, whatever stands around them, and others for others.

Tests `row_keys.py`, `cep/kernels/row_keys.py`.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from cep.kernels.jit import interpreted
from driver.streams.resuming.row_keys import KEY_BYTES, keys_of, salt_of

SALT = salt_of("s-1")
NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]

#: Values of each type that differ from each other.
VALUES = {
    pa.bool_(): [True, False, None],
    pa.int32(): [0, 1, -1, 2**31 - 1, None],
    pa.int64(): [0, 1, -1, 2**63 - 1, None],
    pa.float64(): [0.0, -0.0, 1.0, float("inf"), float("nan"), None],
    pa.timestamp("us", tz="UTC"): [0, 1, -(2**63), 2**63 - 1, None],
    pa.string(): ["", "a", "ab", "b", "\0", "NULL", None],
    pa.binary(): [b"", b"a", b"ab", b"\0", None],
    pa.list_(pa.int64()): [[], [0], [0, 0], [None], [1, 2], [2, 1], None],
    pa.list_(pa.string()): [[], [""], ["", ""], ["a", "b"], ["ab"], [None], None],
}


def keys(batch: pa.RecordBatch) -> list[bytes]:
    found = keys_of(batch, SALT)
    return [found[at : at + KEY_BYTES] for at in range(0, len(found), KEY_BYTES)]


def batch_of(type_: pa.DataType, values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({"v": pa.array(values, type_)})


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_different_values_have_different_keys(type_: pa.DataType) -> None:
    values = VALUES[type_]
    assert len(set(keys(batch_of(type_, values)))) == len(values)


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_a_row_has_its_key_wherever_it_stands(type_: pa.DataType) -> None:
    values = VALUES[type_]
    together = keys(batch_of(type_, values))
    assert [keys(batch_of(type_, [value]))[0] for value in values] == together
    doubled = batch_of(type_, [*values, *reversed(values)])
    assert keys(doubled) == [*together, *reversed(together)]
    assert keys(doubled.slice(1, len(values))) == [*together, *reversed(together)][1 : 1 + len(values)]


def test_all_nans_are_one_value() -> None:
    assert len(set(keys(batch_of(pa.float64(), [float("nan"), NAN, -NAN])))) == 1


def test_bytes_under_a_null_do_not_count() -> None:
    valid = pa.py_buffer(b"\x01")  # the second is NULL
    first, second = (pa.Array.from_buffers(pa.int64(), 2, [valid, pa.py_buffer(struct.pack("<qq", 5, junk))]) for junk in (7, 8))
    assert keys(pa.record_batch({"v": first})) == keys(pa.record_batch({"v": second}))


def test_columns_do_not_run_into_each_other() -> None:
    rows = [{"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}, {"a": "yz", "b": "x"}, {"a": None, "b": "x"}, {"a": "x", "b": None}]
    assert len(set(keys(pa.RecordBatch.from_pylist(rows)))) == len(rows)


def test_another_salt_makes_other_keys() -> None:
    batch = batch_of(pa.int64(), [1, 2])
    assert keys_of(batch, salt_of("s-2")) != keys_of(batch, SALT)


def test_no_rows() -> None:
    assert keys(batch_of(pa.string(), [])) == keys(batch_of(pa.list_(pa.string()), [])) == []


def test_texts_of_any_length_that_differ_in_a_byte_have_different_keys() -> None:
    texts = [bytes(length) for length in range(40)]
    texts += [text[:at] + b"\1" + text[at + 1 :] for text in texts[:26] for at in range(len(text))]
    found = keys(batch_of(pa.binary(), texts))
    assert len(set(found)) == len(set(texts)) == len(texts)
    assert keys(batch_of(pa.binary(), [b"padding" * 9, *texts]).slice(1)) == found, "whatever lies before them"


def test_machine_code_and_its_source_make_the_same() -> None:
    batch = pa.record_batch({"i": [1, None, 3], "t": ["a", "a text of more than eight bytes", None], "l": [[1.5], [], None]})
    compiled = keys(batch)
    with interpreted():
        assert keys(batch) == compiled


def test_each_half_of_a_key_tells_rows_apart() -> None:
    found = keys(batch_of(pa.int64(), list(range(20_000))))
    assert len({key[:8] for key in found}) == len({key[8:] for key in found}) == 20_000


def test_top_bits_of_words_do_not_cancel_each_other() -> None:
    first, second = bytearray(16), bytearray(16)
    for at in (7, 11, 15):
        second[at] = 128
    one, other = keys(batch_of(pa.binary(), [bytes(first), bytes(second)]))
    assert one[:8] != other[:8] and one[8:] != other[8:]
