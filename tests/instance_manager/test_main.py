"""What an instance manager's process is told before it imports kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from cep.config import ClusterConfig
from instance_manager.__main__ import environment

CLUSTER = ClusterConfig("", "", "", 0, "", "")
ASKED = "from cep.kernels import jit; print(jit.kernel_cache_folder())"


def folder_in(cluster: ClusterConfig) -> str:
    """Where a process with this configuration keeps its compiled kernels."""
    done = subprocess.run([sys.executable, "-c", ASKED], env=os.environ | environment(cluster), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_folder_of_kernels_is_the_one_asked_for(tmp_path: Path) -> None:
    asked = str(tmp_path / "kernels")
    assert folder_in(replace(CLUSTER, kernel_cache=asked)) == asked != folder_in(CLUSTER)


def test_nothing_is_set_that_was_not_asked_for() -> None:
    assert environment(CLUSTER) == {} and environment(replace(CLUSTER, stock_numba=True)) == {"CEP_STOCK_NUMBA": "1"}
