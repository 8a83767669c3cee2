"""What an instance manager has touched once it does not ask the kernel for again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

FAULTS = """
import resource, sys
import numpy as np
from instance_manager.own_memory import TOUCHED_BYTES, take
if sys.argv[1] == "taken":
    take()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    arrays = [np.ones(TOUCHED_BYTES // 8, np.uint8) for _ in range(4)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    command = [sys.executable, "-c", FAULTS, how]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_memory_that_was_taken_is_not_asked_for_again() -> None:
    assert faults("taken") < 200 < 4000 < faults("as it comes")
