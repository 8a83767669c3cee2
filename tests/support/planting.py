"""Bugs planted in a copy of the sources, and the tests that find them."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.planted_bugs import Bug

#: What tests are given, s of CPU, so that a busy machine changes nothing; and when one counts as hanging, s.
GIVEN_S, HANG_S = 900, 3600.0


@dataclass(frozen=True)
class Found:
    """What a planted bug came to; `by` is the test that failed, None if none did; `seconds` of CPU."""

    bug: Bug
    by: str | None
    seconds: float


def misplaced(bugs: Sequence[Bug]) -> list[str]:
    """Those that have no place of their own in the sources."""
    return [bug.name for bug in bugs if (ROOT / bug.file).read_text().count(bug.right) != 1 or bug.right == bug.wrong]


def tried(bug: Bug, tests: Sequence[str], folder: Path) -> Found:
    """What `tests` say with the bug planted in a copy at `folder`."""
    for name in (
        "benchmarks",
        "cep",
        "connectors",
        "console",
        "docker",
        "docs",
        "driver",
        "examples",
        "hibench",
        "instance_manager",
        "numa_cep",
        "orchestrator",
        "simulation",
        "tests",
    ):
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", ".dockerignore"):
        shutil.copy(ROOT / name, folder)
    path = folder / bug.file
    path.write_text(path.read_text().replace(bug.right, bug.wrong))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    by = _failing(folder, tests)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Found(bug, by, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _failing(folder: Path, tests: Sequence[str]) -> str | None:
    """The first test that fails; None if all pass, or have not failed in the time they are given."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "planted"}
    present = [name for name in tests if (folder / name).exists()]
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


def line(found: Found) -> str:
    by = "NOT FOUND" if found.by is None else f"found by {found.by.rpartition('::')[2]} after {found.seconds:.0f} s of CPU"
    return f"| {found.bug.name} | {by} |"
