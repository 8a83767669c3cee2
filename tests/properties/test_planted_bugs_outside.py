"""Every bug of `tests.support.planted_bugs_outside`, planted alone in a copy of the sources, has to be found by the fast tests it names.

`-m long` plants them (`CEP_PLANT=PATTERN`: some of them); in CI it is checked that every bug still has its place.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.planted_bugs_outside import OUTSIDE_BUGS
from tests.support.planting import line, misplaced, tried


def test_every_bug_has_its_place() -> None:
    assert len({bug.name for bug in OUTSIDE_BUGS}) == len(OUTSIDE_BUGS) >= 57
    assert not misplaced(OUTSIDE_BUGS), f"not exactly once in the source: {misplaced(OUTSIDE_BUGS)}"
    assert all(bug.tests for bug in OUTSIDE_BUGS)
    assert [test for bug in OUTSIDE_BUGS for test in bug.tests if not (ROOT / "tests" / test).is_file()] == []


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_planted_bug_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = re.compile(os.environ.get("CEP_PLANT", ""))
    missed = []
    for bug in OUTSIDE_BUGS:
        if chosen.search(bug.name):
            found = tried(bug, [f"tests/{test}" for test in bug.tests], tmp_path / "planted")
            with capsys.disabled():
                print("\n" + line(found), end="", flush=True)
            missed += [bug.name] if found.by is None else []
    assert not missed, f"found by no test: {missed}"
