"""`python -m simulation --planted`: bugs of a line each are planted in the protocol, and runs find them; a table says what found each.

They are the tests of `tests/simulation/test_planted_*.py`, each of which knows a seed that finds its bug. With `--minutes` these seeds are
passed over, and each bug is searched for so long among others, as one would be that is not known.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.recovering import SEARCH

SAID = 90  # characters of what is wrong


class PlantedTable:
    """A row of the table for each test, when it has ended."""

    def __init__(self) -> None:
        self.bugs, self.unfound = 0, list[str]()

    def say(self, line: str) -> None:
        print(line, file=sys.__stdout__, flush=True)  # pytest's own is put aside

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        self.bugs += 1
        name = report.nodeid.rpartition("::test_")[2].replace("_", " ")
        if not report.passed:
            self.unfound.append(name)
        found = one_line(SEARCH.found)[:SAID] if report.passed else "**not found**"
        self.say(f"| {name} | {found} | {SEARCH.runs} run{'s' * (SEARCH.runs != 1)}, {report.duration:.1f} s |")


def one_line(text: str) -> str:
    """As it may stand in a table."""
    return re.sub(r"\s+", " ", text).replace("|", "¦")


def plant(minutes: float | None, only: str = "") -> list[str]:
    """Plants one after the other; those that were not found. `minutes`: for how long each is searched for."""
    SEARCH.seconds = None if minutes is None else 60 * minutes
    table = PlantedTable()
    table.say("| bug | found by | after |\n|---|---|---|")
    tests = sorted(map(str, Path(ROOT, "tests/simulation").glob("test_planted_*.py")))
    chosen = ["-k", " and ".join(only.split())] if only else []
    code = pytest.main(["-n0", "-m", "", "-p", "no:terminal", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *chosen, *tests], [table])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        table.unfound.append(f"the tests could not be run: {code!r}")
    table.say(f"{table.bugs} bugs; not found: {', '.join(table.unfound) or 'none'}")
    return table.unfound
