"""The proof is tested: every bug of `tests.planted_bugs`, planted alone in a copy of the engine, has to be found by the properties.

They run as in CI (the same number of examples), only without shrinking what they find. `-m long` plants them; in CI it is
checked that every bug still has its place in the source.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.planted_bugs import BUGS, Bug

ROOT = Path(__file__).parent.parent
#: The property tests, in the order in which they are tried.
PROPERTIES = (
    "tests/test_cells.py",
    *(f"tests/test_window_{window}.py" for window in ("session", "periodic", "unbounded", "size", "transaction")),
    "tests/test_properties.py",
    "tests/test_quiet.py",
    "tests/test_restart.py",
    "tests/test_join_restart.py",
    "tests/test_file_properties.py",
    "tests/test_hold.py",
    # what is met rarely by queries at random: the properties of each operator, against an oracle of its own
    *(f"tests/test_{operator}.py" for operator in ("deduplicate", "flat_map", "join_interval", "join_window")),
    "tests/test_short_way.py",
    "tests/test_text.py",
    "tests/test_aggregate.py",
)
#: What CI gives the properties, s of CPU, so that a busy machine changes nothing; and when one counts as hanging, s.
GIVEN_S, HANG_S = 900, 3600.0


@dataclass(frozen=True)
class Found:
    """What a planted bug came to; `by` is the test that failed, None if none did; `seconds` of CPU."""

    bug: Bug
    by: str | None
    seconds: float


def test_every_bug_has_its_place() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25
    misplaced = [bug.name for bug in BUGS if (ROOT / bug.file).read_text().count(bug.right) != 1 or bug.right == bug.wrong]
    assert not misplaced, f"not exactly once in the source: {misplaced}"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_planted_bug_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = re.compile(os.environ.get("CEP_PLANT", ""))
    results = []
    for bug in BUGS:
        if chosen.search(bug.name):
            results.append(_tried(bug, tmp_path / "planted"))
            with capsys.disabled():
                print("\n" + _line(results[-1]), end="", flush=True)
    missed = [result.bug.name for result in results if result.by is None]
    assert not missed, f"found by no property: {missed}"


def _tried(bug: Bug, folder: Path) -> Found:
    for name in ("cep", "driver", "instance_manager", "orchestrator", "tests"):
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    path = folder / bug.file
    path.write_text(path.read_text().replace(bug.right, bug.wrong))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    by = _failing(folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Found(bug, by, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _failing(folder: Path) -> str | None:
    """The first property that fails; None if all pass, or have not failed in the time they are given."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "planted"}
    present = [name for name in PROPERTIES if (folder / name).exists()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--tb=no", "-p", "no:cacheprovider", *present]
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False, preexec_fn=_limit
    )
    if ran.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.M)
    # A test, not a file that cannot even be read.
    assert ran.returncode == 0 or (failed and "::" in failed[1]), ran.stdout + ran.stderr
    return failed[1] if failed else None


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (GIVEN_S, GIVEN_S))


def _line(found: Found) -> str:
    by = "NOT FOUND" if found.by is None else f"found by {found.by.rpartition('::')[2]} after {found.seconds:.0f} s of CPU"
    return f"| {found.bug.name} | {by} |"
