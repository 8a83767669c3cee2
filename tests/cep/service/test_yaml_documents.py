"""YAML documents of queries."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given

from cep.service.yaml_documents import load_yaml, load_yaml_documents, written_yaml
from tests.strategies.documents import VALUES


def test_only_true_and_false_are_bools() -> None:
    assert load_yaml("{on: [k], y: no, off: Off, a: true, b: False}") == {"on": ["k"], "y": "no", "off": "Off", "a": True, "b": False}


def test_numbers_are_those_of_the_core_schema() -> None:
    numbers = {
        "010": 10,
        "-7": -7,
        "+7": 7,
        "0o10": 8,
        "0x1F": 31,
        "1e3": 1000.0,
        "1.5e3": 1500.0,
        "-.5": -0.5,
        "5.": 5.0,
        ".inf": math.inf,
    }
    read = load_yaml("".join(f"- {text}\n" for text in numbers))
    assert read == list(numbers.values())
    assert [type(each) for each in read] == [type(each) for each in numbers.values()]
    texts = ["1:30", "1:30:00.5", "1_000", "0b11", "-0x1F", "0o8", "2026-01-31", "=", "<<", "1e", "."]
    assert load_yaml("".join(f"- {text}\n" for text in texts)) == texts
    assert load_yaml("[~, null, Null, NULL, ]") == [None] * 4


def test_a_key_that_stands_twice_is_refused_with_its_place() -> None:
    """Of two queries of one name the first would be lost, and nobody told."""
    with pytest.raises(ValueError, match=r"the key 'q' stands in line 2 already; a mapping has each key once\n.*line 4, column 3"):
        load_yaml("queries:\n  q: {a: 1}\n  other: {a: 1}\n  'q': {a: 1}\n")
    with pytest.raises(ValueError, match="the key 'a' stands in line 3 already"):
        load_yaml_documents("a: 1\n---\na: {b: 1}\na: 2\n")
    for text in ("? [a]\n: 1", "? {a: 1}\n: 1"):
        with pytest.raises(ValueError, match="a list or a mapping is no key"):
            load_yaml(text)
    assert load_yaml_documents("a: 1\n---\na: {a: [{a: 2}, {a: 3}]}") == [{"a": 1}, {"a": {"a": [{"a": 2}, {"a": 3}]}}]


@given(VALUES)
@example({"on": "1e3", "0o10": ["010", "1:30", "=", "<<", "2026-01-31", "~", "", "0x"]})
def test_what_is_written_is_read(value: Any) -> None:
    assert load_yaml(written_yaml(value)) == value


def test_what_is_no_yaml_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="expected"):
        load_yaml("{a: [1}")


def test_aliases_are_refused() -> None:
    """A document could hold itself, or grow beyond all memory."""
    for text in ("a: &it [*it]", "a: &one [1]\nb: &two [*one, *one]\nc: [*two, *two]"):
        with pytest.raises(ValueError, match=r"write out what \*(it|one) stands for: aliases are not read"):
            load_yaml(text)
