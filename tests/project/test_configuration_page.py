"""The page of options says what the code does."""

from __future__ import annotations

from driver.configuration.page import table
from tests.support.paths import ROOT


def test_the_table_is_made_of_the_code() -> None:
    """`cep config table` prints it."""
    assert table() in (ROOT / "docs/configuration.md").read_text()
