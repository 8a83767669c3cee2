"""The value of a seed is the same whatever modules are loaded."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.strategies.constants import AS_SHIPPED
from tests.strategies.seeded import drawn

NUMBERS = st.lists(st.integers(0, 10**12), min_size=20, max_size=20)


@pytest.fixture
def as_it_is_shipped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`tests/conftest.py` has turned off for all what is shown here."""
    monkeypatch.setattr(providers, "_get_local_constants", AS_SHIPPED)
    providers.CONSTANTS_CACHE.cache.clear()
    yield
    providers.CONSTANTS_CACHE.cache.clear()


def plainly(text: str) -> list[int]:
    values: list[list[int]] = []

    @seed(text)
    @settings(max_examples=2, phases=[Phase.generate], database=None)
    @given(NUMBERS)
    def keep(value: list[int]) -> None:
        values.append(value)

    keep()
    return values[-1]


@contextmanager
def loaded(folder: Path) -> Iterator[None]:
    """A module with many constants."""
    choose = random.Random(folder.name)
    path = folder / "of_the_project.py"
    path.write_text(f"MANY = {[choose.randrange(10**12) for _ in range(200)]}\n")
    spec = importlib.util.spec_from_file_location("of_the_project", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["of_the_project"] = module
    yield
    del sys.modules["of_the_project"]


@pytest.fixture
def texts() -> list[str]:
    return [str(number) for number in range(30)]


def test_a_seed_does_not_depend_on_what_is_loaded(tmp_path: Path, as_it_is_shipped: None, texts: list[str]) -> None:
    before = [drawn(NUMBERS, text) for text in texts]
    with loaded(tmp_path):
        assert [drawn(NUMBERS, text) for text in texts] == before


@pytest.mark.long  # Hypothesis reads all modules that are loaded
def test_without_more_it_does(tmp_path: Path, as_it_is_shipped: None, texts: list[str]) -> None:
    before = [plainly(text) for text in texts]
    with loaded(tmp_path):
        assert [plainly(text) for text in texts] != before
