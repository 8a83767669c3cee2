"""Planted bugs: a known seed finds one at once, and a search passes it over; the table has a row for each.

Tests `simulation/planted.py`, `tests/support/recovering.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from simulation.cluster import MovesMade
from simulation.planted import PlantedTable, one_line
from simulation.seeds import SeedRun
from tests.support.recovering import SEARCH, Search


def run(seed: int) -> SeedRun:
    """Something is wrong with every tenth."""
    return SeedRun(seed, "", 0, MovesMade(0, 0), Counter(), 0, [f"row {seed} is missing"] if seed % 10 == 0 else [])


def test_a_known_seed_finds_it_and_a_search_passes_it_over() -> None:
    known = Search()
    assert known.first_wrong(20, range(100), run) == "row 20 is missing"
    assert (known.runs, known.found) == (1, "seed 20: row 20 is missing")
    searched = Search()
    searched.seconds = 60.0
    assert searched.first_wrong(20, range(15, 100), run) == "row 30 is missing"
    assert searched.runs == 15


@pytest.mark.parametrize(("seconds", "seeds"), [(None, range(1, 10)), (60.0, range(1, 10)), (-1.0, range(100))])
def test_what_is_not_found(seconds: float | None, seeds: range) -> None:
    search = Search()
    search.seconds = seconds
    assert search.first_wrong(1, seeds, run) == "" and search.found == ""


def test_a_row_for_each_bug(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SEARCH, "runs", 2)
    monkeypatch.setattr(SEARCH, "found", "seed 8: Agree: 'a' | b\n  missing 1")
    table = PlantedTable()
    ends: tuple[tuple[str, Literal["passed", "failed"]], ...] = (("test_a_row_that_is_lost", "passed"), ("test_an_end", "failed"))
    for name, outcome in ends:
        table.pytest_runtest_logreport(pytest.TestReport(f"x.py::{name}", ("x.py", 0, name), {}, outcome, None, "call", duration=1.5))
    assert capfd.readouterr().out.splitlines() == [
        "| a row that is lost | seed 8: Agree: 'a' ¦ b missing 1 | 2 runs, 1.5 s |",
        "| an end | **not found** | 2 runs, 1.5 s |",
    ]
    assert (table.bugs, table.unfound) == (2, ["an end"])
    assert one_line("a\n  b|c") == "a b¦c"
