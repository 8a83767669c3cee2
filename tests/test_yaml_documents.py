"""YAML documents of queries."""

from __future__ import annotations

import pytest

from cep.yaml_documents import load_yaml


def test_only_true_and_false_are_bools() -> None:
    assert load_yaml("{on: [k], y: no, off: Off, a: true, b: False}") == {"on": ["k"], "y": "no", "off": "Off", "a": True, "b": False}


def test_what_is_no_yaml_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="expected"):
        load_yaml("{a: [1}")
