"""The page of limits says what the code does."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs/limits.md"
ROWS = re.findall(r"^\| (.+?) \| ([\d,]+).*? \|.*\| `([\w.]+)\.(\w+)` \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("what", "number", "module", "name"), ROWS, ids=[name for *_, name in ROWS])
def test_a_limit_is_what_the_page_says(what: str, number: str, module: str, name: str) -> None:
    assert int(number.replace(",", "")) == getattr(import_module(module), name), what


def test_every_row_is_looked_at() -> None:
    assert len(ROWS) == sum(line.startswith("| ") for line in PAGE.read_text().splitlines()) - 1  # but for the heads
