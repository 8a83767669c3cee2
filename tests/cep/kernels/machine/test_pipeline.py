"""Kernels as Numba compiles them by itself: the same answers as with our own pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cep.kernels.machine.pipeline import STOCK

ROOT = Path(__file__).parents[4]
PROPERTY = "tests/properties/test_properties.py::test_machine_code_answers_as_the_reference_does"
RUN = "import sys, pytest; from cep.kernels.machine.pipeline import STOCK; sys.exit(pytest.main(sys.argv[1:]) if STOCK else 'not stock')"


@pytest.mark.timeout(400)
@pytest.mark.long  # half a minute each
@pytest.mark.parametrize("number", range(6))
def test_machine_code_by_stock_numba_answers_as_the_reference_does(number: int) -> None:
    assert not STOCK
    environment = os.environ | {"CEP_STOCK_NUMBA": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN, "-q", "-n0", "-p", "no:cacheprovider", f"{PROPERTY}[published-{number}-0]"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
