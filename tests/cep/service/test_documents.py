"""Documents and rows that come from outside: read, or refused with a reason, whatever they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.service.documents import DEPTH_MAX, read_json, read_yaml
from tests.strategies.documents import VALUES


@given(VALUES, st.sampled_from([None, 1]))
def test_what_json_writes_is_read(value: Any, indent: int | None) -> None:
    assert read_json(json.dumps(value, indent=indent).encode()) == value


PIECES = st.text(alphabet='[]{}",:0123456789-+.eENaInfty\\u trufalsn&*!?|>#\n\ud800', max_size=40)


@given(st.binary(max_size=60) | PIECES.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_nothing_else_than_a_value_or_a_reason(body: bytes) -> None:
    for read in (read_json, read_yaml):
        try:
            read(body)
        except ValueError as refused:
            assert str(refused)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "Expecting value"),
        (b"[1,]", "Expecting value"),
        (b"[1 2]", "Expecting ','"),
        (b"[1] 2", "nothing more"),
        (b'{"a": 1} 2', "nothing more"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b'{"a": NaN}', "NaN is no number"),
        (b"[1e999]", "infinite"),
        (b'["\\ud800"]', "half a character"),
        (b'{"\\udfff": 1}', "half a character"),
        (b"1" * 5000, "digits"),
        (b"1" * 30, "97 bits"),
        (b'{"a": 1, "b": 2, "\\u0061": 1}', "The key 'a' stands twice in an object of what begins here: line 1 column 1 "),
        (b'[{"a": 1},\n {"b": {"a": 1, "c": 1, "a": 2}}]', "The key 'a' stands twice in an object of what begins here: line 2 column 2 "),
        (b"[" * 100_000, "are in each other"),
        (b"[" * (DEPTH_MAX + 2) + b"]" * (DEPTH_MAX + 2), "are in each other"),
    ],
)
def test_what_is_refused_of_json(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_json(body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"a: " + b"1" * 5000, "a number of 5,000 characters"),
        (b"a: 0x" + b"f" * 5000, "a number of 5,002 characters"),
        (b"a: 1e" + b"1" * 200_000, "a number of 200,002 characters"),
        (b"a: [{b: 1,\n b: 1}]", "the key 'b' stands in line 1 already"),
        (b"0x" + b"f" * 80, "320 bits"),
        (b".inf", "infinite"),
        (b"1: 2", "the key '1' is no text"),
        (b"a: !!timestamp x", "tags"),
        (b"a: !!bool x", "tags"),
        (b"a: !!python/name:os.system", "tags"),
        (b"[" * 250_000, "are in each other"),
        (b"- " * 100_000, "are in each other"),
        (b"? " * 100_000, "are in each other"),
        (b"a: \xff", "UTF-8"),
        (b"\0", "control characters"),
    ],
)
def test_what_is_refused_of_yaml(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_yaml(body)


def test_a_mark_of_byte_order_is_skipped_and_a_date_is_a_text() -> None:
    assert read_json(b'\xef\xbb\xbf {"a": [ ]} ') == {"a": []}
    assert read_yaml(b"\xef\xbb\xbfa: 2026-01-31\n") == {"a": "2026-01-31"}
