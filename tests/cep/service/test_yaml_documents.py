"""YAML documents of queries."""

from __future__ import annotations

import pytest

from cep.service.yaml_documents import load_yaml


def test_only_true_and_false_are_bools() -> None:
    assert load_yaml("{on: [k], y: no, off: Off, a: true, b: False}") == {"on": ["k"], "y": "no", "off": "Off", "a": True, "b": False}


def test_what_is_no_yaml_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="expected"):
        load_yaml("{a: [1}")


def test_aliases_are_refused() -> None:
    """A document could hold itself, or grow beyond all memory."""
    for text in ("a: &it [*it]", "a: &one [1]\nb: &two [*one, *one]\nc: [*two, *two]"):
        with pytest.raises(ValueError, match=r"write out what \*(it|one) stands for: aliases are not read"):
            load_yaml(text)
